"""Replay of agent conversations from a run folder, without requests, and their export as training data.

Searches are not repeated: `trajectories.jsonl` has the nodes that each one showed.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from kbbench_hf.agents.agent import Agent, AgentLimits
from kbbench_hf.agents.tool_schemas import Outcome, Tool
from kbbench_hf.agents.tools import AgentTools, QuestionState, Search
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Row, read_json
from kbbench_hf.files.journal import Journal
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import parse
from kbbench_hf.protocols import Matches, Message
from kbbench_hf.retrieval.context import candidate_rows
from kbbench_hf.runners.agent import with_tools_of
from kbbench_hf.runners.retrieval_run import agent_tools, knowledge_base
from kbbench_hf.scoring.eval_task import RUN, EvalTask, resolve_task
from kbbench_hf.scoring.trajectories import Call, Trajectory, read_trajectories

TRAINING = "train"
"""The only split whose conversations may be learnt from."""


class Replayed(NamedTuple):
    """One question: what was done, and every message from the instructions to the last result."""

    walk: Trajectory
    messages: Sequence[Message]
    right: bool
    """Whether the node that was selected first is an answer."""
    tools: Sequence[Tool]
    """The tools that the agent had."""


def replay(folder: Path) -> Iterator[Replayed]:
    """Yield the conversation of each question of an agent's run, in order.

    Replies come from the journal, the nodes of results from the trajectories, their texts from the knowledge base: all
    are what they were. The words of an agent that came over MCP are not known; its replies hold calls alone.

    Raises:
        UsageError: no agent ran in this folder, the knowledge base is another than it was, or a result is not known.
    """
    walks = read_trajectories(folder)
    if not walks:
        raise UsageError(f"{folder} has no trajectories; expected the run of an agent. Make one: kbbench run --agent")
    task, settings = resolve_task([folder]), read_json(folder / RUN)["settings"]
    agent = _agent(folder, task, settings)
    rows = {row["id"]: row for row in task.examples.rows}
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(folder)) if "protocol" in settings else None
        for walk in walks:
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
            line = {"id": walk.id, "messages": [_as_objects(message) for message in messages]}
            if any("tool_calls" in message for message in messages):
                line["tools"] = [tool.function() for tool in tools]
            yield json.dumps(line, ensure_ascii=False) + "\n"


def _agent(folder: Path, task: EvalTask, settings: Row) -> Agent:
    """Return the agent that walked, over the knowledge base at hand; its search needs a `_RecordedQuestion`."""
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
    """The searches of a run: `call` is the one that is replayed."""

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
    conversation = agent.conversation(row["query"])
    recorded = {_call_key(*call[1:3]): call for call in walk.calls if call.error != "too_many_calls"}
    conversation.question = _RecordedQuestion(agent.tools, recorded=recorded)
    for text, calls in _journal_replies(walk, journal):
        conversation.take(text, calls)
    return conversation.messages()


def _journal_replies(walk: Trajectory, journal: Journal | None) -> Iterator[tuple[str, object]]:
    """Yield each reply: its text, and the calls in their own field."""
    if journal is None:
        for _, calls in groupby(walk.calls, key=lambda call: call.step):
            yield "", [{"function": {"name": call.tool, "arguments": call.arguments}} for call in calls]
        return
    for record in journal.read(f"{walk.id}/{step}" for step in range(1, walk.steps + 1)):
        if record is not None and record["error"] is None:
            yield record["response"] or "", record.get("tool_calls")


def _as_objects(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose calls have objects for arguments."""
    if "tool_calls" not in message:
        return dict(message)
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}
