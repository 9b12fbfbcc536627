"""Agent runs: a language model searches with tools; conversations are journaled, scored as rankings, and replayed.

`kbbench run --agent` uses it, and `kbbench export` replays the stored conversations. A replay sends no requests, and
searches nothing again: `trajectories.jsonl` has the nodes that each search showed.

A started run must send the same requests when it is resumed: the journal has a digest of each, and `run.json` the
`contract_sha256` of instructions and tools. So a new tool or wording needs a rule like `with_tools_of`.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from kbbench_hf.agents.agent import JSON_SCHEMA, Agent, AgentLimits, Conversation, Protocol, rank_selected
from kbbench_hf.agents.tool_schemas import FIRST_TOOLS, TOOLS, Id, Outcome, Tool
from kbbench_hf.agents.tools import AgentTools, QuestionState, Search
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Row, read_json
from kbbench_hf.files.journal import Journal, Record
from kbbench_hf.files.shards import end_shard
from kbbench_hf.files.writing import write_json_lines, write_text
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.llm.causal_lm import with_parsed_arguments
from kbbench_hf.model_specs import parse
from kbbench_hf.protocols import LanguageModel, Matches, Message, Searcher, name_of, produced_tokens
from kbbench_hf.retrieval.context import candidate_rows
from kbbench_hf.runners.cost import Price
from kbbench_hf.runners.generate import Generation, generate, generate_judgements, wait_for_everyone
from kbbench_hf.runners.jobs import Prompts, Sampling, Turn, takes
from kbbench_hf.runners.progress import say
from kbbench_hf.runners.ranking import RankedRun, add_second_stage
from kbbench_hf.runners.retrieval_run import TRAINING, agent_tools, knowledge_base
from kbbench_hf.runners.run_folder import folder_after, open_run
from kbbench_hf.scoring.eval_task import RUN, EvalTask, resolve_task
from kbbench_hf.scoring.trajectories import TRAJECTORIES, Call, Trajectory, read_trajectories, trajectory_of

ANSWER_TOKENS = 2048
"""How long one reply may be: thought and calls."""


@dataclass
class AgentEpisode:
    """The conversation about one question, and the tokens and seconds of its replies so far."""

    row: Mapping[str, Any]
    conversation: Conversation
    parameters: Mapping[str, Any]
    """More fields of each request: the tools, see `tool_parameters`."""
    price: Price | None = None
    prompt_tokens: int | None = None
    """The sum over replies; None until a reply has a count."""
    completion_tokens: int | None = None
    seconds: float = 0.0
    on_end: "Callable[[AgentEpisode], None]" = lambda episode: None

    def turn(self) -> Turn:
        """Return the next request."""
        conversation = self.conversation
        return Turn(
            conversation.messages(),
            max_tokens=ANSWER_TOKENS,
            json_schema=JSON_SCHEMA if conversation.agent.protocol == "json" else None,
            key=f"{self.row['id']}/{len(conversation.steps) + 1}",
            parameters=self.parameters,
            then=self.take,
        )

    def take(self, record: Record) -> Turn | None:
        """Take the record of a reply, or of a failed request, and return the next request; None at the end."""
        conversation, prompt, produced = self.conversation, record["prompt_tokens"], produced_tokens(record)
        if prompt is not None:
            self.prompt_tokens = (self.prompt_tokens or 0) + prompt
        if produced is not None:
            self.completion_tokens = (self.completion_tokens or 0) + produced
        self.seconds += record["latency_s"] or 0.0
        if record["error"] is not None:
            conversation.fail(record["error"], settled=bool(record.get("settled")))
        else:
            conversation.take(record["response"] or "", record.get("tool_calls"), prompt, produced)
        if conversation.end is None:
            return self.turn()
        self.on_end(self)
        return None

    def trajectory(self, *, keep_texts: bool = False) -> Trajectory:
        """Return the trajectory; a conversation without an end has the end `failed`.

        It has a cost only with a price in USD, and the messages only with `keep_texts`.
        """
        conversation = self.conversation
        calls = [
            Call(step, call.name, call.arguments, outcome.error, outcome.total, outcome.shown, outcome.repaired)
            for step, each in enumerate(conversation.steps, 1)
            for call, outcome in zip(each.calls, each.outcomes, strict=True)
        ]
        tokens = None if self.prompt_tokens is None else (self.prompt_tokens, self.completion_tokens or 0)
        in_dollars = self.price is not None and self.price.currency == "USD"
        return trajectory_of(
            self.row,
            calls,
            conversation.question.selected,
            steps=len(conversation.steps),
            end=conversation.end or "failed",
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cost_usd=self.price.cost(*tokens) if in_dollars and self.price and tokens else None,
            seconds=round(self.seconds, 6),
            messages=conversation.messages() if keep_texts else None,
        )


def run_agent(
    examples: Examples,
    agent: Agent,
    first: Path,
    model: LanguageModel,
    folder: Path,
    *,
    top_k: int = 100,
    structured: bool | None = None,
    tool_choice: str | None = None,
    keep_texts: bool = False,
    **how: Any,
) -> RankedRun:
    """Let a model search for the answers to every query, and write its rankings into `folder`.

    A ranking has the selected nodes first, then those of the run in `first`, at most `top_k` in all. `folder` also gets
    `trajectories.jsonl`, with all messages if `keep_texts`. Each reply is journaled before its calls are executed, so
    that the same call resumes in the middle of a conversation. A query whose model failed keeps what was selected until
    then; it is resumed when the run is started again. `how` goes to `generate`.

    Raises:
        UsageError: a stored reply answers another request than this run's, or the server takes no tools.
        ShardEnd: with a `shard` in `how`, it has ended.
    """
    done: dict[Id, Trajectory] = {}
    open_episodes: dict[Id, AgentEpisode] = {}

    def end(episode: AgentEpisode) -> None:
        done[episode.row["id"]] = episode.trajectory(keep_texts=keep_texts)
        open_episodes.pop(episode.row["id"], None)

    def begin(row: Mapping[str, Any]) -> Turn:
        parameters = tool_parameters(agent, tool_choice)
        conversation, price = agent.conversation(row["query"]), how.get("price")
        episode = open_episodes[row["id"]] = AgentEpisode(row, conversation, parameters, price, on_end=end)
        return episode.turn()

    prompts = Prompts({row["id"]: partial(begin, row) for row in examples.rows})
    options = {"title": "Running agent", **how}
    if agent.protocol == "json":
        generation, by_schema = generate_judgements(prompts, model, folder, structured=structured, **options)
    else:
        generation, by_schema = generate(prompts, model, folder, **options), False
    end_shard(how.get("shard"), folder, generation.summary.n_open)
    # a first prompt that is rendered again after the end of its conversation opens another episode
    failed = {name: episode for name, episode in open_episodes.items() if name not in done}
    done |= {name: episode.trajectory(keep_texts=keep_texts) for name, episode in failed.items()}
    trajectories = [done[row["id"]] for row in examples.rows]
    lines = map(json.loads, (first / "predictions.jsonl").read_text(encoding="utf-8").splitlines())
    base = {line["id"]: line for line in lines}
    rows = [rank_selected(base[each.id], each.selected, top_k) for each in trajectories]
    if not getattr(model, "rank", 0):
        write_text(folder / TRAJECTORIES, "".join(each.line() for each in trajectories))
        write_json_lines(folder / "predictions.jsonl", rows)
    wait_for_everyone(model)  # so that every process finds them when this returns
    warnings = [*generation.warnings, *_dropped_tools_warnings(agent, trajectories, generation)]
    return RankedRun(folder, rows, None, generation.summary, warnings, by_schema, trajectories=trajectories)


def search_with_agent(
    task: EvalTask,
    first: Path,
    base: str | Searcher,
    model: LanguageModel,
    name: str,
    *,
    limits: AgentLimits,
    sampling: Sampling,
    protocol: Protocol,
    folder: Path | None = None,
    compact: bool = False,
    tool_choice: str | None = None,
    embedder: Callable[..., Any] | None = None,
    **how: Any,
) -> RankedRun:
    """Let an agent search the knowledge base of a task, given the finished run of its base retriever in `first`.

    The tools search with `base`, all nodes. `folder` is by default next to `first`, with its name, the model's and a
    hash of the settings. `how` goes to `run_agent`.

    Raises:
        UsageError: another run is in the folder, or the server takes no tools.
    """
    kb = knowledge_base(task)
    agent = Agent(agent_tools(task, base, embedder), limits, protocol, compact)
    own = {**asdict(limits), "protocol": protocol, "compact": compact, "tool_choice": tool_choice}
    own |= {"sampling": asdict(sampling)}
    digest = hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:8]
    folder = folder or folder_after(first, name, digest)
    base_run = read_json(first / RUN)
    before = base_run["settings"]
    if (folder / RUN).is_file():
        agent = with_tools_of(agent, read_json(folder / RUN)["settings"].get("contract_sha256"))
        if agent.tools.offered != TOOLS:
            say([f"{folder} started with an earlier prompt, and tools without text_page. It keeps them."])
    same = {"knowledge_base": kb.hash, "contract_sha256": contract_sha256(agent)}
    writes = not getattr(model, "rank", 0)
    if writes:
        open_run(folder, {**before, "agent": name, **own, **same}, {"base": first.name}, shard=how.get("shard"))
    how |= {"top_k": before["top_k"], "sampling": sampling, "tool_choice": tool_choice}
    done = run_agent(task.examples, agent, first, model, folder, **how)
    if writes:
        add_second_stage(done, base_run)
    return done


LEAST_TOKENS_PER_CHARACTER = 1 / 5.5
"""A request with fewer prompt tokens per character was not read as a whole: English has 4 to 5 characters a token."""


def _dropped_tools_warnings(agent: Agent, trajectories: list[Trajectory], generation: Generation) -> list[ScoreWarning]:
    """Return a warning where no tool was called and the prompt tokens are too few for the tools that were sent."""
    if agent.protocol != "tools" or any(walk.calls for walk in trajectories):
        return []
    counted = [record["prompt_tokens"] for record in generation.records() if record["prompt_tokens"]]
    contract = len(agent.instructions) + len(json.dumps(tool_parameters(agent)["tools"]))
    if not counted or min(counted) >= LEAST_TOKENS_PER_CHARACTER * contract:
        return []
    message = (
        f"The model called no tool, and the server counted {min(counted):,} prompt tokens for instructions and tools "
        f"of {contract:,} characters: it seems to drop the parameter 'tools'."
    )
    remedy = "Use --protocol json, or start the server with its tool parser (vLLM: --enable-auto-tool-choice)."
    return [ScoreWarning("tools_dropped", message, remedy, len(trajectories))]


def tool_parameters(agent: Agent, tool_choice: str | None = None) -> dict[str, Any]:
    """Return the fields of a request with the tools; empty for the protocol `json`, whose instructions describe them.

    `tool_choice` is sent only where it is given: some servers refuse a request that has one.
    """
    if agent.protocol == "json":
        return {}
    more = {"tool_choice": tool_choice} if tool_choice else {}
    return {"tools": [tool.function() for tool in agent.tools.offered], **more}


def contract_sha256(agent: Agent) -> str:
    """Return a hash of what every request of a run has: the instructions and the tools. `run.json` stores it."""
    contract = [agent.instructions, [tool.function() for tool in agent.tools.offered]]
    return hashlib.sha256(json.dumps(contract, sort_keys=True).encode()).hexdigest()


def with_tools_of(agent: Agent, recorded: str | None) -> Agent:
    """Return the agent with the tools that a started run recorded by its `contract_sha256`; unchanged for any other."""
    tools = agent.tools
    first = replace(agent, tools=AgentTools(tools.kb, tools.search, tools.candidates, FIRST_TOOLS))
    return first if recorded == contract_sha256(first) else agent


def chosen_protocol(model: LanguageModel, given: Protocol | None = None, *, structured: bool | None = None) -> Protocol:
    """Return the protocol of a model's calls: the given one, else `tools` where the model takes them, else `json`.

    Raises:
        UsageError: the model takes no tools, or a JSON schema is wanted with tools.
    """
    takes_tools = getattr(model, "takes_tools", hasattr(model, "complete") and takes(model.complete, "tools"))
    if given == "tools" and not takes_tools:
        raise UsageError(f"{name_of(model)} does not support tool calls; expected --protocol json. Add it.")
    protocol = given or ("tools" if takes_tools else "json")
    if structured is not None and protocol == "tools":
        raise UsageError("--structured needs --protocol json; tool calls are not JSON text. Add --protocol json.")
    return protocol


class Replayed(NamedTuple):
    """The replay of one query: its trajectory, and every message from the instructions to the last result."""

    walk: Trajectory
    messages: Sequence[Message]
    right: bool
    """Whether the node that was selected first is an answer."""
    tools: Sequence[Tool]
    """The tools that the agent had."""


def replay(folder: Path) -> Iterator[Replayed]:
    """Yield the conversation of each query of an agent's run, in the order of `trajectories.jsonl`.

    Replies come from the journal, the nodes of results from the trajectories, their texts from the knowledge base: all
    are what they were. The texts of an external agent (MCP) are not stored; its replies have calls only.

    Raises:
        UsageError: no agent ran in this folder, the knowledge base is another than it was, or a result is not known.
    """
    trajectories = read_trajectories(folder)
    if not trajectories:
        raise UsageError(f"{folder} has no trajectories; expected the run of an agent. Make one: kbbench run --agent")
    task, settings = resolve_task([folder]), read_json(folder / RUN)["settings"]
    agent = _agent(folder, task, settings)
    rows = {row["id"]: row for row in task.examples.rows}
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(folder)) if "protocol" in settings else None
        for walk in trajectories:
            row = rows[walk.id]
            messages = walk.messages if walk.messages is not None else _messages(agent, row, walk, journal)
            right = bool(walk.selected) and walk.selected[0] in row["answer_ids"]
            yield Replayed(walk, messages, right, agent.tools.offered)


def training_lines(folder: Path, *, successes: bool = True) -> Iterator[str]:
    """Yield the conversations of a run as lines that TRL trains on: `{"id", "messages", "tools"}`.

    Arguments of calls are objects, as chat templates want them. With `successes`, only the conversations in which the
    node that was selected first is an answer.

    Raises:
        UsageError: the questions are not those of the training split: what learns from them could not be scored any
            more. Or see `replay`.
    """
    for walk, messages, right, tools in replay(folder):
        if walk.split != TRAINING:
            raise UsageError(
                f"{folder} walked questions of split {walk.split!r}; a model that learns from them cannot be scored "
                f"on them. Run the agent with --split {TRAINING}, and export that."
            )
        if right or not successes:
            line = {"id": walk.id, "messages": [*map(with_parsed_arguments, messages)]}
            if any("tool_calls" in message for message in messages):
                line["tools"] = [tool.function() for tool in tools]
            yield json.dumps(line, ensure_ascii=False) + "\n"


def _agent(folder: Path, task: EvalTask, settings: Row) -> Agent:
    """Return the agent of a run over the installed knowledge base; its searches need a `_RecordedQuestion`.

    Raises:
        UsageError: another knowledge base is installed.
    """
    kb = knowledge_base(task)
    if kb.hash != settings["knowledge_base"]:
        raise UsageError(
            f"{folder} used the knowledge base {settings['knowledge_base'][:12]}, and {kb.hash[:12]} is "
            "installed, so "
            "tool results would differ. Build that version of the dataset, or run again with --keep-texts."
        )

    @cache
    def search_again() -> Search:
        if (why := _cannot_search(folder, settings["model"])) is None:
            return agent_tools(task, settings["model"]).search
        raise UsageError(
            f"{folder} has a call with an id of no node, and the nodes that were suggested for it are not stored; "
            f"expected a retriever that searches again, and {why}. Run again with --keep-texts."
        )

    tools = AgentTools(kb, _RecordedSearch(kb, search_again), candidate_rows(task.examples, kb))
    limits = AgentLimits(**{name: settings[name] for name in vars(AgentLimits()) if name in settings})
    agent = Agent(tools, limits, settings.get("protocol", "tools"))
    return with_tools_of(agent, settings.get("contract_sha256"))


def _cannot_search(folder: Path, model: str) -> str | None:
    """Return why the results of the base retriever of a run cannot be made again; None where they can."""
    specs = [each for each in parse(model).with_parts() if each.model]
    base = folder.parent / read_json(folder / RUN).get("base", "") / RUN
    revisions = read_json(base).get("revisions", {}) if specs and base.is_file() else {}
    if any(each.name == "search" or "@{" in str(revisions.get(each.model, "@{")) for each in specs):
        return f"{model} searched with a server" if revisions else f"{base.parent} is gone, which has its revision"
    return None


class _RecordedSearch:
    """The searches of a run; `call` is the one that is replayed. Without it, or its total, a search is made again."""

    def __init__(self, kb: KnowledgeBase, search_again: Callable[[], Search]) -> None:
        self._kb, self._search_again = kb, search_again
        self.call: Call | None = None

    def matches(self, query: str) -> Matches:
        """Return the nodes that the call showed, in their order, and as many others as it counted."""
        if self.call is None or self.call.total is None:
            return self._search_again().matches(query)
        shown, types = self._kb.rows(self.call.shown), self._kb.graph.type_ids
        others = np.setdiff1d(np.arange(len(self._kb)), shown)
        if len(shown):  # a search for nodes of one type counts only these
            others = others[np.argsort(types[others] != types[shown[0]], kind="stable")]
        rows = np.concatenate([shown, others[: self.call.total - len(shown)]])
        order = np.argsort(rows)
        return Matches(rows[order], (len(rows) - order).astype(np.float64))


@dataclass
class _RecordedQuestion(QuestionState):
    """A question whose calls have the results that they had in the run."""

    recorded: Mapping[str, Call] = field(default_factory=dict)
    """`_call_key` -> the call."""

    def call(self, name: str, arguments: object) -> Outcome:
        """Execute one call.

        Raises:
            UsageError: its result is not that of the run.
        """
        call = self.recorded.get(_call_key(name, arguments))
        cast(_RecordedSearch, self.tools.search).call = call
        outcome = super().call(name, arguments)
        if call is None or (outcome.total, list(outcome.shown)) != (call.total, list(call.shown)):
            raise UsageError(
                f"The call {name} {str(arguments)[:200]} has another result than in the run; expected that of "
                "trajectories.jsonl. Is the folder complete and of this version? Else run again with --keep-texts."
            )
        return outcome


def _call_key(tool: str, arguments: object) -> str:
    return json.dumps([tool, arguments], sort_keys=True)


def _messages(agent: Agent, row: Row, walk: Trajectory, journal: Journal | None) -> Sequence[Message]:
    """Return the messages of a conversation, made again from its replies."""
    conversation = agent.conversation(row["query"])
    # calls beyond the limit of a step were not executed, and an executed one may be equal to them
    recorded = {_call_key(*call[1:3]): call for call in walk.calls if call.error != "too_many_calls"}
    conversation.question = _RecordedQuestion(agent.tools, recorded=recorded)
    for text, calls in _journal_replies(walk, journal):
        conversation.take(text, calls)
    return conversation.messages()


def _journal_replies(walk: Trajectory, journal: Journal | None) -> Iterator[tuple[str, object]]:
    """Yield the text of each reply, and its calls in the form of the API; failed requests have none."""
    if journal is None:  # an external agent's, see `agent_sessions`
        for _, calls in groupby(walk.calls, key=lambda call: call.step):
            yield "", [{"function": {"name": call.tool, "arguments": call.arguments}} for call in calls]
        return
    for record in journal.read(f"{walk.id}/{step}" for step in range(1, walk.steps + 1)):
        if record is not None and record["error"] is None:
            yield record["response"] or "", record.get("tool_calls")
