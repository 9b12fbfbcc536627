"""Agent runs: a language model searches with tools; conversations are journaled and scored as rankings."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kbbench_hf.agents.agent import JSON_SCHEMA, Agent, Conversation, Protocol, ranking
from kbbench_hf.agents.tool_schemas import FIRST_TOOLS, Id
from kbbench_hf.agents.tools import AgentTools
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Row
from kbbench_hf.files.journal import Record
from kbbench_hf.files.shards import end_shard
from kbbench_hf.files.writing import write_json_lines, write_text
from kbbench_hf.protocols import LanguageModel, name_of, produced_tokens
from kbbench_hf.runners.cost import Price
from kbbench_hf.runners.generate import Generation, generate, generate_judgements, wait_for_everyone
from kbbench_hf.runners.jobs import Prompts, Sampling, Turn, takes
from kbbench_hf.scoring.trajectories import TRAJECTORIES, Call, Trajectory

ANSWER_TOKENS = 2048
"""How long one reply may be: thought and calls."""


@dataclass(frozen=True)
class AgentRun:
    """A finished run of an agent: the run of its requests, and what it did for each question, in their order."""

    generation: Generation
    trajectories: list[Trajectory] = field(repr=False)
    structured: bool
    rows: list[Row] = field(repr=False)
    """Its predictions."""


@dataclass
class AgentEpisode:
    """One question on its way: the conversation, and what its replies took."""

    row: Mapping[str, Any]
    conversation: Conversation
    more: Mapping[str, Any]
    price: Price | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    ended: "Callable[[AgentEpisode], None]" = lambda episode: None

    def turn(self) -> Turn:
        """Return the next request."""
        conversation = self.conversation
        return Turn(
            conversation.messages(),
            max_tokens=ANSWER_TOKENS,
            json_schema=JSON_SCHEMA if conversation.agent.protocol == "json" else None,
            key=f"{self.row['id']}/{len(conversation.steps) + 1}",
            parameters=self.more,
            then=self.take,
        )

    def take(self, record: Record) -> Turn | None:
        """Take the record of a reply, or of none, and return the next request; None at the end."""
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
        self.ended(self)
        return None

    def trajectory(self, *, keep_texts: bool = False) -> Trajectory:
        """Return what was done; a conversation without an end has failed."""
        conversation, selected = self.conversation, self.conversation.question.selected
        calls = [
            Call(step, call.name, call.arguments, outcome.error, outcome.total, outcome.shown, outcome.repaired)
            for step, each in enumerate(conversation.steps, 1)
            for call, outcome in zip(each.calls, each.outcomes, strict=True)
        ]
        errors = [call.error for call in calls if call.error is not None]
        seen = {node for step in conversation.steps for outcome in step.outcomes for node in outcome.shown}
        gold = self.row.get("answer_ids")
        tokens = None if self.prompt_tokens is None else (self.prompt_tokens, self.completion_tokens or 0)
        in_dollars = self.price is not None and self.price.currency == "USD"
        return Trajectory(
            id=self.row["id"],
            split=self.row.get("split", ""),
            steps=len(conversation.steps),
            end=conversation.end or "failed",
            selected=list(selected),
            backed_off=not selected,
            calls=calls,
            tool_errors={code: errors.count(code) for code in sorted(set(errors))},
            seen=len(seen),
            answer_seen=None if gold is None else not seen.isdisjoint(gold),
            answer_selected=None if gold is None else not set(selected).isdisjoint(gold),
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
    sampling: Sampling | None = None,
    structured: bool | None = None,
    tool_choice: str | None = None,
    keep_texts: bool = False,
    price: Price | None = None,
    **how: Any,
) -> AgentRun:
    """Let a model walk for every question, and write its rankings, on those of the run in `first`, to `folder`.

    Every reply is journalled before its calls are carried out; the same call goes on in the middle of a conversation.
    Beside the rankings stands `trajectories.jsonl`, whose messages are kept with `keep_texts`. A question whose model
    failed has what was selected until then; it goes on when the run is started again.

    Raises:
        UsageError: a kept reply answers other requests than this run's, or the server takes no tools.
    """
    done: dict[Id, Trajectory] = {}
    open_ones: dict[Id, AgentEpisode] = {}

    def end(walk: AgentEpisode) -> None:
        done[walk.row["id"]] = walk.trajectory(keep_texts=keep_texts)
        open_ones.pop(walk.row["id"], None)

    def begin(row: Mapping[str, Any]) -> Turn:
        more = tool_parameters(agent, tool_choice)
        walk = open_ones[row["id"]] = AgentEpisode(row, agent.conversation(row["query"]), more, price, ended=end)
        return walk.turn()

    prompts = Prompts({row["id"]: partial(begin, row) for row in examples.rows})
    options = {"sampling": sampling, "title": "Running agent", "price": price, **how}
    if agent.protocol == "json":
        generation, by_schema = generate_judgements(prompts, model, folder, structured=structured, **options)
    else:
        generation, by_schema = generate(prompts, model, folder, **options), False
    end_shard(how.get("shard"), folder, generation.summary.n_open)
    done |= {name: walk.trajectory(keep_texts=keep_texts) for name, walk in open_ones.items() if name not in done}
    trajectories = [done[row["id"]] for row in examples.rows]
    rows = list(_predictions(trajectories, first, top_k))
    if not getattr(model, "rank", 0):
        write_text(folder / TRAJECTORIES, "".join(each.line() for each in trajectories))
        write_json_lines(folder / "predictions.jsonl", rows)
    wait_for_everyone(model)  # so that every process finds them when this returns
    warnings = [*generation.warnings, *_dropped_tools_warnings(agent, trajectories, generation)]
    return AgentRun(replace(generation, warnings=warnings), trajectories, by_schema, rows)


LEAST_TOKENS_PER_CHARACTER = 1 / 5.5
"""A request with fewer prompt tokens than this share of its characters was not read as a whole."""


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
    """Return what a request says of the tools: nothing where the model is told of them in words.

    `tool_choice` is sent only where it is given: some servers refuse a request that has one.
    """
    if agent.protocol == "json":
        return {}
    more = {"tool_choice": tool_choice} if tool_choice else {}
    return {"tools": [tool.function() for tool in agent.tools.offered], **more}


def contract_sha256(agent: Agent) -> str:
    """Return a hash of what every request of a run says: the instructions and the tools."""
    said = [agent.instructions, [tool.function() for tool in agent.tools.offered]]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def with_tools_of(agent: Agent, recorded: str | None) -> Agent:
    """Return the agent with the tools that a started run recorded by its `contract_sha256`; unchanged for any other."""
    tools = agent.tools
    first = replace(agent, tools=AgentTools(tools.kb, tools.search, tools.candidates, FIRST_TOOLS))
    return first if recorded == contract_sha256(first) else agent


def chosen_protocol(model: LanguageModel, given: Protocol | None = None, *, structured: bool | None = None) -> Protocol:
    """Return how a model is to call: as was asked for, else by tools where it can be sent them.

    Raises:
        UsageError: it cannot be sent tools, or is to be held to a schema beside them.
    """
    takes_them = getattr(model, "takes_tools", hasattr(model, "complete") and takes(model.complete, "tools"))
    if given == "tools" and not takes_them:
        raise UsageError(f"{name_of(model)} does not support tool calls; expected --protocol json. Add it.")
    protocol = given or ("tools" if takes_them else "json")
    if structured is not None and protocol == "tools":
        raise UsageError("--structured needs --protocol json; tool calls are not JSON text. Add --protocol json.")
    return protocol


def _predictions(trajectories: list[Trajectory], first: Path, top_k: int) -> Iterator[Row]:
    lines = map(json.loads, (first / "predictions.jsonl").read_text(encoding="utf-8").splitlines())
    base = {line["id"]: line for line in lines}
    for each in trajectories:
        line = base[each.id]
        if each.backed_off:
            yield line
            continue
        scores = line.get("scores") or range(len(line["ids"]), 0, -1)
        ranked = ranking(each.selected, list(zip(line["ids"], scores, strict=True)), top_k)
        yield {"id": each.id, "ids": [one.id for one in ranked], "scores": [one.score for one in ranked]}
