"""How a model is run: the options of every door, whose they are, and the model, price and sampling that they name."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from kbbench_hf.benchmarks.base import PromptOptions
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.protocols import LanguageModel

if TYPE_CHECKING:
    from kbbench_hf.runners.cost import Price
    from kbbench_hf.runners.jobs import Sampling


class How(TypedDict, total=False):
    """How a model is run; what is left out has the command's defaults.

    What is not described here is the option of `kbbench run` that has its name, with hyphens.
    """

    split: str | None
    mode: str | None
    limit: int | None
    """Only the first examples."""
    out: Path | None
    """The run's folder; one under ./kbbench-runs by default."""
    name: str | None
    """What a model that is an object is called; its `name` or its class by default."""
    processes: int | None
    show: bool
    """Whether progress is shown."""
    # retrievers
    top_k: int | None
    batch: int
    """How many queries are searched for at once."""
    rerank: "str | LanguageModel | None"
    depth: int
    rerank_prompt: str
    rerank_weight: float
    agent: "str | LanguageModel | None"
    """The language model that searches the knowledge base with tools, over the ranking of the model: a name, or an
    object. `out` is the agent's run; the base run is next to it, in `OUT-base`."""
    max_steps: int
    """The most replies for one question."""
    question_tokens: int
    """The most tokens for one question, in all its requests and replies."""
    protocol: Literal["tools", "json"]
    """How the agent calls; by default as it can."""
    tool_choice: str
    """Sent with each request: "required" makes servers force a call."""
    compact: bool
    """Whether older results are sent again without their texts."""
    keep_texts: bool
    """Whether `trajectories.jsonl` holds all messages."""
    # language models
    base_url: str | None
    api_key_env: str | None
    timeout: float
    prompt: str | None
    parser: str | None
    shots: int
    demonstrations: Literal["similar", "leak-free", "random", "none"]
    similar_by: str | None
    temperature: float
    top_p: float | None
    max_tokens: int | None
    seed: int | None
    repeats: int
    """How often everything is asked: `--repeat`."""
    structured: bool
    concurrency: int
    attempts: int
    """How often a request is sent at most, where it fails in a way that may pass; 8 by default."""
    canary: bool
    """Whether one prompt of our own is sent first, to see that the server answers and to know it again."""
    max_requests: int | None
    prices: Path | None
    max_cost: float | None
    batch_size: int
    chat_template: bool | None
    extra_body: Mapping[str, Any]
    """Parameters of a chat request beyond those above, as they are; null takes one out."""
    model_kwargs: Mapping[str, Any]
    """Of a local model: transformers' own options, `dtype`, `quantization_config`, `attn_implementation` say."""
    bill_to: str | None
    """The organisation that pays for requests to Hugging Face's router."""
    allow_other_server: bool
    """Whether another server or model may go on with a run; its result then says so."""
    one_server: bool
    """Whether a second fingerprint or provider ends the run."""
    annotate: str | None
    """Of benchmarks whose metrics need other models: `JUDGE,EMBEDDER`, see `runners.annotators.annotators_of`."""
    thresholds: Path | None
    judge_base_url: str | None
    judge_api_key_env: str | None


_HOSTED = re.compile(r"gpt-[345]|claude|gemini|(^|/)o[134]\b|^openai/(?!gpt-oss)")
"""Models that only a provider has."""
NAMED = frozenset("base_url api_key_env timeout batch_size chat_template model_kwargs bill_to".split())
"""Options of language models that are named, not given."""
WALKING = frozenset({"max_steps", "question_tokens", "protocol", "tool_choice", "compact", "keep_texts"})
"""Options of agents."""
ORDERING = frozenset({"depth", "rerank_prompt", "rerank_weight"})
"""Options of re-ranking."""
SEARCHING = frozenset({"top_k", "batch", "rerank", "agent"}) | WALKING | ORDERING
"""Options of retrievers."""
RE_RANKING = frozenset(
    "base_url api_key_env timeout temperature top_p max_tokens seed structured concurrency attempts canary "
    "max_requests prices max_cost batch_size chat_template extra_body model_kwargs bill_to allow_other_server "
    "one_server".split()
)
"""Options of language models that one which re-ranks or walks takes too."""
ANNOTATING = frozenset({"annotate", "thresholds", "judge_base_url", "judge_api_key_env"})
"""Options of benchmarks whose metrics need other models."""
ANSWERING = RE_RANKING | ANNOTATING | {"prompt", "parser", "shots", "demonstrations", "similar_by", "repeats"}
"""Options of language models."""


def language_model(name: str, how: How) -> LanguageModel:
    """Return the model of a name: a served one where there is a `base_url`, else `hf:` and a local one.

    Raises:
        UsageError: it is neither.
    """
    if base_url := how.get("base_url"):
        from kbbench_hf.llm.endpoint import Endpoint, key_from_environment

        key = key_from_environment(how.get("api_key_env"))
        if how.get("model_kwargs"):
            raise UsageError(f"--model-kwargs is for hf:MODEL; {name} is served at {base_url}. Use --extra-body.")
        return cast(LanguageModel, Endpoint(base_url, name, key, how.get("timeout", 300.0), bill_to=how.get("bill_to")))
    if name.startswith("hf:"):
        from kbbench_hf.llm.causal_lm import CausalLM
        from kbbench_hf.model_specs import hub_name

        chosen: dict[str, Any] = {k: how[k] for k in ("batch_size", "chat_template", "processes") if k in how}
        model, revision = hub_name(name.removeprefix("hf:"))
        return CausalLM(model, revision, options=how.get("model_kwargs"), **chosen)
    raise UsageError(
        f"{name!r} is not a local model; expected hf:MODEL, or --base-url with the server that has it.{_meant(name)}"
    )


def _meant(name: str) -> str:
    """Return the question whether a model on the Hub, or a served one, is meant; a retriever answers no prompt."""
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


def asking_options(name: str, model: object, how: How) -> dict[str, Any]:
    """Return the options of `generate` for a model of this name.

    Raises:
        UsageError: a budget for a model that no requests are counted of, or one without prices.
    """
    chat = hasattr(model, "complete")
    if not chat and (how.get("max_requests") is not None or how.get("max_cost") is not None):
        from kbbench_hf.runners.jobs import NO_BUDGET

        raise UsageError(NO_BUDGET)
    bounds = ("concurrency", "attempts", "canary", "max_requests", "max_cost", "one_server") if chat else ()
    chosen = [each for each in (*bounds, "allow_other_server", "show") if each in how]
    return {"price": price_of(name, how), **{each: how[each] for each in chosen}}  # type: ignore[literal-required]


def price_of(name: str, how: How) -> "Price | None":
    """Return the price of a model from the user's file; None without one.

    Raises:
        UsageError: `max_cost` without `prices`.
    """
    if how.get("max_cost") is not None and not how.get("prices"):
        raise UsageError("--max-cost needs --prices: prices are read from your own dated file, never guessed.")
    if not (prices := how.get("prices")):
        return None
    from kbbench_hf.runners.cost import read_price

    return read_price(prices, name)


def sampling_of(how: How) -> "Sampling":
    """Return how a model samples."""
    from kbbench_hf.runners.jobs import Sampling

    extra = how.get("extra_body", {})
    return Sampling(how.get("temperature", 0.0), how.get("top_p"), how.get("max_tokens"), how.get("seed"), extra)


def prompt_options(how: How) -> PromptOptions:
    """Return how examples are put to a model."""
    chosen: dict[str, Any] = {k: how[k] for k in ("shots", "demonstrations") if k in how}
    seed = how.get("seed")
    return PromptOptions(**chosen) if seed is None else PromptOptions(**chosen, seed=seed)


def check_names(how: How) -> None:
    """Refuse an option that does not exist.

    Raises:
        UsageError: there is one.
    """
    for option in how:
        if option not in How.__annotations__:
            raise unknown_name("option", option, How.__annotations__)


def refuse_options(how: How, options: frozenset[str], why: str, dataset: str) -> None:
    """Refuse options that would be ignored.

    Raises:
        UsageError: there is one; the message says why.
    """
    for option in how:
        if option in options:
            raise UsageError(f"{option} {why}; {dataset} is not run by one here. Leave it out.")
