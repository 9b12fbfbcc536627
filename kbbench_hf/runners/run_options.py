"""Options of a run (`RunOptions`), grouped by kind of model, and the model, price and sampling that they name.

The public `run`, `kbbench run` and testbeds use it; the help and the options of the command line are made from
`RunOptions`. So an option is written once, here. Names are public; their order is that of the help.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar, cast

from kbbench_hf.addresses import is_importable, plug_ins, plugged
from kbbench_hf.benchmarks.base import Prompt, PromptOptions
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.shards import COLLECT, Shard
from kbbench_hf.model_specs import Spec, parse
from kbbench_hf.protocols import LanguageModel

if TYPE_CHECKING:
    from kbbench_hf.retrieval.context import Complete
    from kbbench_hf.runners.cost import Price
    from kbbench_hf.runners.jobs import Sampling


T = TypeVar("T")
MODELS = "kbbench.models"
"""The entry points of models in other packages: name = package.module:attribute."""
Group = Literal["run", "retriever", "rerank", "agent", "prompt", "request", "demonstrations", "annotation"]
"""What an option is for; those of `request` are for each language model that answers, re-ranks or searches."""


class Option(NamedTuple):
    """What an option of a run is for, and its help."""

    group: Group
    help: str
    default: Any = None
    """The value if the option is left out, shown in the help; None if the model or the benchmark decides."""
    metavar: str | None = None
    flag: str | None = None
    """The option of `kbbench run` if it is not `--name-with-hyphens`; empty if there is none."""
    least: float | None = None
    most: float | None = None
    by_name: bool = False
    """Whether it is only for models that are given by name, since an object has its own server or weights."""


class RunOptions(TypedDict, total=False):
    """Options of `run`. `kbbench run` has the same, as `--name-with-hyphens`; it prints them by kind of model."""

    split: Annotated[str | None, Option("run", "Split; by default the benchmark's default split.")]
    mode: Annotated[str | None, Option("run", "Scoring mode; by default the first that 'kbbench list NAME' shows.")]
    limit: Annotated[int | None, Option("run", "Run only the first examples.", least=1)]
    out: Annotated[Path | None, Option("run", "The run folder; by default a new one under ./kbbench-runs.")]
    name: Annotated[str | None, Option("run", "Name of a model object; by default its `name` or class.", flag="")]
    processes: Annotated[int | None, Option("run", "Fail unless this many processes run (torchrun).", least=1)]
    shard: Annotated[
        str | None,
        Option("run", "Run only shard K of N, without a result; 'slurm' is K/N of a job array.", metavar="K/N"),
    ]
    collect: Annotated[bool, Option("run", "Send nothing, and score what the shards have journaled.")]
    log_to: Annotated[
        Literal["trackio", "wandb"],
        Option("run", "Log the scores to this experiment tracker when the run is scored."),
    ]
    show: Annotated[bool, Option("run", "Show progress; true by default.", flag="")]

    top_k: Annotated[
        int | None,
        Option(
            "retriever",
            "Length of a ranking.  [default: all candidates; 100 if that is over 3 million in all]",
            least=1,
        ),
    ]
    batch: Annotated[int, Option("retriever", "Number of queries of one search.", flag="")]
    rerank: Annotated[
        str | LanguageModel | None,
        Option(
            "retriever",
            "Re-rank with a language model, llm:MODEL behind --base-url or local llm:hf:MODEL, or a cross-encoder, "
            "cross:MODEL behind --base-url.",
            metavar="llm:MODEL",
        ),
    ]
    retriever_base_url: Annotated[
        str | None,
        Option(
            "retriever",
            "URL of the API of the embedding models of --model, where --base-url is that of --rerank or --agent.",
            by_name=True,
        ),
    ]
    retriever_api_key_env: Annotated[
        str | None,
        Option("retriever", "Environment variable that holds its API key.", metavar="NAME", by_name=True),
    ]
    depth: Annotated[int, Option("rerank", "Number of candidates to re-rank.", 20, least=1)]
    rerank_prompt: Annotated[
        str, Option("rerank", "Prompt for re-ranking: clean, clean-1, or reference (of the paper).", "clean", "NAME")
    ]
    rerank_weight: Annotated[
        float, Option("rerank", "Weight of the base ranking; by default 0 with cross:MODEL.", 0.1, least=0)
    ]

    agent: Annotated[
        str | LanguageModel | None,
        Option(
            "retriever",
            "Let a language model search the knowledge base with tools. --out is the agent's run; the run of --model, "
            "its base retriever, is next to it as OUT-base.",
            metavar="llm:MODEL",
        ),
    ]
    max_steps: Annotated[int, Option("agent", "Maximum agent steps per question.", 12, least=1)]
    question_tokens: Annotated[int, Option("agent", "Maximum tokens per question.", 200_000, least=1)]
    protocol: Annotated[
        Literal["tools", "json"],
        Option("agent", "Tool calls of the API, or JSON in the text.  [default: tools, if the server supports them]"),
    ]
    tool_choice: Annotated[
        str, Option("agent", "The request field tool_choice; 'required' forces a call.", metavar="WORD")
    ]
    compact: Annotated[bool, Option("agent", "Drop the texts of older tool results from requests.")]
    keep_texts: Annotated[bool, Option("agent", "Store all messages in trajectories.jsonl.")]

    prompt: Annotated[str | None, Option("prompt", "Prompt; see 'kbbench list BENCHMARK'.", flag="--prompt/--strategy")]
    parser: Annotated[str | None, Option("prompt", "Parser of the responses; see 'kbbench list BENCHMARK'.")]
    repeats: Annotated[int, Option("prompt", "Number of repeated runs.", 1, flag="--repeat", least=1)]

    base_url: Annotated[
        str | None,
        Option("request", "URL of the API (vLLM, TGI, Ollama, any OpenAI-compatible server).", by_name=True),
    ]
    api_key_env: Annotated[
        str | None,
        Option("request", "Environment variable that holds the API key.", metavar="NAME", by_name=True),
    ]
    temperature: Annotated[float, Option("request", "Sampling temperature.", 0.0, least=0)]
    top_p: Annotated[
        float | None,
        Option("request", "Nucleus sampling: total probability of the tokens to sample from.", least=0, most=1),
    ]
    max_tokens: Annotated[
        int | None, Option("request", "Maximum tokens of a response; the default depends on the prompt.", least=1)
    ]
    seed: Annotated[int | None, Option("request", "Sampling seed, if the server supports one.")]
    extra_body: Annotated[
        Mapping[str, Any],
        Option("request", 'Extra JSON fields for the request: {"reasoning_effort": "low"}.'),
    ]
    structured: Annotated[
        bool,
        Option("request", "Constrain responses to a JSON schema.", flag="--structured/--no-structured"),
    ]
    concurrency: Annotated[int, Option("request", "Maximum concurrent requests.", 32, least=1)]
    timeout: Annotated[float, Option("request", "Timeout of a request in seconds.", 300, least=0.1, by_name=True)]
    attempts: Annotated[int, Option("request", "Maximum tries of a request; 8 by default.", flag="")]
    canary: Annotated[
        bool, Option("request", "Send a prompt of our own first, which shows that the server answers.", flag="")
    ]
    max_requests: Annotated[
        int | None, Option("request", "Stop after this number of requests; shards have equal shares.", least=1)
    ]
    allow_other_server: Annotated[
        bool, Option("request", "Resume with another server or model; the result has a warning.")
    ]
    one_server: Annotated[bool, Option("request", "Stop if the server's fingerprint or provider changes.")]
    bill_to: Annotated[
        str | None,
        Option("request", "Organization to bill (Hugging Face Inference Providers).", metavar="ORG", by_name=True),
    ]
    prices: Annotated[Path | None, Option("request", "Your price file, with a date (YAML or JSON).")]
    max_cost: Annotated[
        float | None,
        Option("request", "Stop when this amount is spent; shards have equal shares. Needs --prices.", least=0),
    ]
    batch_size: Annotated[
        int,
        Option("request", "Batch size of local models; halved when out of memory.", 16, least=1, by_name=True),
    ]
    chat_template: Annotated[
        bool | None,
        Option(
            "request",
            "Apply the chat template of a local model, or not.",
            flag="--chat-template/--no-chat-template",
            by_name=True,
        ),
    ]
    model_kwargs: Annotated[
        Mapping[str, Any],
        Option(
            "request",
            'Arguments of from_pretrained for local models: {"dtype": "bfloat16"}.',
            by_name=True,
        ),
    ]

    shots: Annotated[int, Option("demonstrations", "Number of demonstrations in the prompt.", 1, least=0)]
    demonstrations: Annotated[
        Literal["leak-free", "mentioned", "similar", "random", "none"],
        Option(
            "demonstrations",
            "Selection of demonstrations; 'similar' are those of the paper, some of which contain gold triples of the "
            "test sentence. 'mentioned' are leak-free and mention their triples; a tenth of the prompts have none.",
            "leak-free",
        ),
    ]
    similar_by: Annotated[
        str | None,
        Option(
            "demonstrations",
            "Select similar demonstrations with this sentence-transformers model.",
            metavar="MODEL",
        ),
    ]

    annotate: Annotated[
        str | None,
        Option(
            "annotation",
            "Also annotate the predictions. The judge is 'surface' (offline baseline), nli:MODEL, hf:MODEL or "
            "llm:MODEL, the embedder a sentence-transformers model.",
            metavar="JUDGE,EMBEDDER",
        ),
    ]
    thresholds: Annotated[Path | None, Option("annotation", "The thresholds of the embedder.")]
    judge_base_url: Annotated[str | None, Option("annotation", "URL of the API of an llm:MODEL judge.")]
    judge_api_key_env: Annotated[
        str | None, Option("annotation", "Environment variable that holds its API key.", metavar="NAME")
    ]


OPTIONS: dict[str, Option] = {name: hint.__metadata__[0] for name, hint in RunOptions.__annotations__.items()}
"""Name -> the option, in the order of the help."""


def _options_of(*groups: Group) -> frozenset[str]:
    return frozenset(name for name, option in OPTIONS.items() if option.group in groups)


BY_NAME = frozenset(name for name, option in OPTIONS.items() if option.by_name)
AGENT = _options_of("agent")
RERANK = _options_of("rerank")
RETRIEVER = _options_of("retriever", "rerank", "agent")
REQUEST = _options_of("request")
ANNOTATION = _options_of("annotation")
EMBEDDING = frozenset("base_url api_key_env timeout bill_to extra_body concurrency attempts".split())
"""Options for requests of a served embedding model."""
SCORING = EMBEDDING | {"max_requests", "allow_other_server"}
"""Options for requests of a served cross-encoder."""
PLAN_TEMPERATURE = 0.7
"""The temperature of plans that are sampled several times, unless one is given."""
EMBEDDERS = frozenset({"dense", "multi", "vss", "multi_vss", "knn"})
"""Retrievers whose model may be served."""
LANGUAGE_MODEL = _options_of("prompt", "request", "demonstrations", "annotation")
CROSS_ENCODER = "cross"
"""The kind of a served model that re-ranks without a prompt."""

_HOSTED = re.compile(r"gpt-[345]|claude|gemini|(^|/)o[134]\b|^openai/(?!gpt-oss)")
"""Models that only a provider has."""


def given_options(options: RunOptions, *names: str) -> dict[str, Any]:
    """Return those of these options that are given, as arguments of a function whose defaults hold for the others.

    >>> given_options({"depth": 5, "show": False}, "depth", "batch")
    {'depth': 5}
    """
    return {name: value for name, value in options.items() if name in names}


OWN_KINDS = frozenset(
    "hf llm nli surface cross bm25 dense multi late vss multi_vss rrf weighted fuse graph plan qagnn knn search".split()
)
"""Kinds of our own models, the first word of their names; other packages cannot replace them."""


def plugged_model(name: str, options: RunOptions) -> object | None:
    """Return the model of another package: an entry point of `kbbench.models`, or `package.module:attribute`.

    A class is called without arguments. The result is None for other names, and with a `base_url`.

    Raises:
        UsageError: it cannot be imported or created.
    """
    if options.get("base_url") or re.split(r"[:(@]", name, maxsplit=1)[0] in OWN_KINDS:
        return None
    address = plug_ins(MODELS).get(name) or (name if is_importable(name) else None)
    return None if address is None else plugged("model", name, address)


def language_model(name: str, options: RunOptions) -> LanguageModel:
    """Return the model of a name: that of another package, with a `base_url` a served one, else `hf:MODEL` locally.

    Raises:
        UsageError: it is none of them, or the group has another number of processes than `processes`.
    """
    if (plugged := plugged_model(name, options)) is not None:
        return cast(LanguageModel, plugged)
    if options.get("base_url"):
        from kbbench_hf.llm.endpoint import Endpoint

        return cast(LanguageModel, client_of(Endpoint, name, options))
    if name.startswith("hf:"):
        from kbbench_hf.llm.causal_lm import CausalLM
        from kbbench_hf.model_specs import hub_name
        from kbbench_hf.runners.process_group import group

        group(options.get("processes"))
        model, revision = hub_name(name.removeprefix("hf:"))
        chosen = given_options(options, "batch_size", "chat_template")
        return CausalLM(model, revision, options=options.get("model_kwargs"), **chosen)
    raise UsageError(
        f"{name!r} is not a local model; expected hf:MODEL, or --base-url with the server that has it."
        f"{_suggestion(name)}"
    )


def client_of(kind: Callable[..., T], name: str, options: RunOptions) -> T:
    """Return the client (`kind`, a class of `Endpoint`) of a model on the server at `base_url`.

    Raises:
        UsageError: there are `model_kwargs`, which a server cannot have.
    """
    from kbbench_hf.llm.endpoint import key_from_environment

    base_url, key = options.get("base_url"), key_from_environment(options.get("api_key_env"))
    if options.get("model_kwargs"):
        raise UsageError(f"--model-kwargs is for hf:MODEL; {name} is served at {base_url}. Use --extra-body.")
    timeout_s = options.get("timeout", OPTIONS["timeout"].default)
    return kind(base_url, name, key, timeout_s, bill_to=options.get("bill_to"))


def cross_encoder(spec: Spec, options: RunOptions) -> LanguageModel:
    """Return the served cross-encoder `cross:MODEL`.

    Raises:
        UsageError: it has no name or server.
    """
    if not spec.model or not options.get("base_url"):
        raise UsageError(
            f"{str(spec)!r} names no served cross-encoder; expected cross:MODEL, and --base-url with the server that "
            "has it (TEI, vLLM, Infinity, Jina, Cohere). Add what is missing."
        )
    from kbbench_hf.runners.served_models import CrossEncoderClient

    client = client_of(CrossEncoderClient, spec.model, options)
    client.extra = options.get("extra_body") or {}
    return cast(LanguageModel, client)


def served_embedder(model: str, options: RunOptions, *, second_stage: bool) -> Callable[..., Any] | None:
    """Return the function that creates the embedders of a retriever with served models; None if they are local.

    Raises:
        UsageError: no model of the retriever can be served, or `retriever_base_url` without a second stage.
    """
    own: RunOptions = options
    if second_stage:  # the other request options are those of its language model
        own = {"base_url": options.get("retriever_base_url"), "api_key_env": options.get("retriever_api_key_env")}
    elif options.get("retriever_base_url"):
        raise UsageError("--retriever-base-url is for runs with --rerank or --agent. Write --base-url in its place.")
    if not own.get("base_url"):
        return None
    parts = parse(model).with_parts()
    if not any(spec.model and spec.name in EMBEDDERS for spec in parts):
        if any(spec.name == "plan" and spec.model.startswith("llm:") for spec in parts):
            return None
        raise UsageError(
            f"{model!r} has no embedding model that {own['base_url']} could serve; expected "
            f"{', '.join(sorted(EMBEDDERS))}:MODEL in it. Leave the URL out, write dense:MODEL, or let a language "
            f"model there re-rank: --model {model} --rerank llm:NAME."
        )
    from kbbench_hf.runners.served_models import EmbeddingClient, ServedEmbedder

    create = partial(client_of, EmbeddingClient, options=own)
    limits = given_options(own, "concurrency", "attempts")
    return partial(ServedEmbedder, endpoint=create, extra=own.get("extra_body"), **limits)


def served_completions(options: RunOptions, name: str, cache: Path) -> "Complete":
    """Return the function that samples responses of a served language model, for planners.

    Its result is id -> responses that were not refused or failed. They are journaled in the cache, in a folder whose
    name is a hash of server, model, samples and prompts.
    """
    from kbbench_hf.runners.generate import generate

    model = language_model(name, options)
    limits = given_options(options, "concurrency", "attempts", "show")

    def complete(prompts: Mapping[str, Prompt], samples: int) -> dict[str, list[str]]:
        asked = [options.get("base_url"), name, samples, [each.messages for each in prompts.values()]]
        folder = cache / "plans" / sha256(json.dumps(asked, default=str).encode()).hexdigest()[:32]
        sampling = sampling_of({"temperature": PLAN_TEMPERATURE, "seed": 0, **options} if samples > 1 else options)
        done = generate(prompts, model, folder, sampling=sampling, repeats=samples, structured=True, **limits)
        responses: dict[str, list[str]] = {}
        for record in done.records():
            if record["error"] is None:
                responses.setdefault(record["id"], []).append(record["response"])
        return responses

    return complete


def _suggestion(name: str) -> str:
    """Return the end of an error for a model that is not local: the spelling that may be meant."""
    from kbbench_hf.model_specs import is_retriever

    lower = name.lower()
    if is_retriever(name):
        return f" {name} is a retriever, which ranks nodes and answers no prompt."
    if lower.endswith(".gguf") or Path(name).is_dir() or ("/" in name and not _HOSTED.search(lower)):
        return f" Did you mean hf:{name}?"
    if lower.removeprefix("llm:").removeprefix("openai/").startswith("gpt-"):
        served = name.removeprefix("llm:").removeprefix("openai/")
        return f" Did you mean {served} --base-url https://api.openai.com/v1 --api-key-env OPENAI_API_KEY?"
    return f" Did you mean {name.removeprefix('llm:')} --base-url URL?"


def asking_options(name: str, model: object, options: RunOptions) -> dict[str, Any]:
    """Return the options of `generate` for a model of this name: price, shard, limits and display.

    Raises:
        UsageError: a budget for a local model, or a maximum cost without prices.
    """
    chat = hasattr(model, "complete")
    if not chat and (options.get("max_requests") is not None or options.get("max_cost") is not None):
        from kbbench_hf.runners.jobs import NO_BUDGET

        raise UsageError(NO_BUDGET)
    bounds = ("concurrency", "attempts", "canary", "max_requests", "max_cost", "one_server") if chat else ()
    how = {"price": price_of(name, options), "shard": shard_of(options)}
    return {**how, **given_options(options, *bounds, "allow_other_server", "show")}


def shard_of(options: RunOptions) -> Shard | None:
    """Return the shard that these options name, `COLLECT`, or None for a whole run.

    Raises:
        UsageError: there is no such shard, or options that need the whole run.
    """
    named, collects = options.get("shard"), options.get("collect")
    if not named and not collects:
        return None
    if named and collects:
        raise UsageError(f"--shard {named} runs a part, and --collect scores all parts. Leave one of them out.")
    if options.get("annotate"):
        raise UsageError(
            "--annotate needs a whole run; --shard and --collect send nothing to a judge. Leave it out, and add it to "
            "the same command without --shard or --collect when the run is collected."
        )
    return COLLECT if not named else Shard.parse(named, os.environ)


def price_of(name: str, options: RunOptions) -> "Price | None":
    """Return the price of a model from the user's file; None without one.

    Raises:
        UsageError: `max_cost` without `prices`.
    """
    if options.get("max_cost") is not None and not options.get("prices"):
        raise UsageError("--max-cost needs --prices: prices are read from your own dated file, never guessed.")
    if not (prices := options.get("prices")):
        return None
    from kbbench_hf.runners.cost import read_price

    return read_price(prices, name)


def sampling_of(options: RunOptions) -> "Sampling":
    """Return the sampling parameters; those that are not given have the defaults of `Sampling`."""
    from kbbench_hf.runners.jobs import Sampling

    chosen = given_options(options, "temperature", "top_p", "max_tokens", "seed")
    return Sampling(**chosen, extra=options.get("extra_body", {}))


def prompt_options(options: RunOptions) -> PromptOptions:
    """Return the options of prompts; the seed is also that of random demonstrations."""
    names = ("shots", "demonstrations", *(["seed"] if options.get("seed") is not None else []))
    return PromptOptions(**given_options(options, *names))


def check_names(options: RunOptions) -> None:
    """Check that all options exist.

    Raises:
        UsageError: one does not; the message suggests a name.
    """
    for option in options:
        if option not in OPTIONS:
            raise unknown_name("option", option, OPTIONS)


def refuse_unused(options: RunOptions, dataset: str, *, has_prompts: bool, is_named: bool) -> None:
    """Refuse options that a run on a dataset would ignore.

    `has_prompts` says whether the dataset is for language models, `is_named` whether a model is given by name.

    Raises:
        UsageError: there is one; the message says why.
    """
    agent, reranker = options.get("agent"), options.get("rerank")
    of_requests = REQUEST if agent or reranker else EMBEDDING if options.get("base_url") else frozenset()
    refused = [] if is_named else [(BY_NAME, "is for models that are named")]
    if has_prompts:
        refused.append((RETRIEVER, "is for retrievers"))
    else:
        refused.append((LANGUAGE_MODEL - of_requests, "is for language models"))
        if agent is None:
            refused.append((AGENT, "is for agents (--agent)"))
        if reranker is None:
            refused.append((RERANK, "is for models that re-rank (--rerank)"))
        if isinstance(reranker, str) and reranker.partition(":")[0] == CROSS_ENCODER:
            refused.append(((REQUEST | {"rerank_prompt"}) - SCORING, "is for models that write text"))
    for names, why in refused:
        for option in options:
            if option in names:
                raise UsageError(f"{option} {why}; {dataset} is not run by one here. Leave it out.")
