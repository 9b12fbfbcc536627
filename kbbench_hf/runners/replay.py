"""Replay of agent conversations from a run folder, without requests, and their export as training data."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.agents.agent import Agent, AgentLimits
from kbbench_hf.agents.tool_schemas import Tool
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Row, read_json
from kbbench_hf.files.journal import Journal
from kbbench_hf.protocols import Message
from kbbench_hf.runners.agent import with_tools_of
from kbbench_hf.runners.retrieval_run import agent_tools
from kbbench_hf.scoring.eval_task import RUN, EvalTask, resolve_task
from kbbench_hf.scoring.trajectories import Trajectory, read_trajectories

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

    Replies come from the journal, results from the knowledge base: both are what they were. Of an agent that came over
    MCP nobody heard the words; its replies hold calls alone.

    Raises:
        UsageError: no agent ran in this folder, its base has no name, or the knowledge base is another than it was.
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
    """Return the agent that walked, over the knowledge base at hand."""
    tools = agent_tools(task, settings["model"])
    if tools.kb.hash != settings["knowledge_base"]:
        raise UsageError(
            f"{folder} used the knowledge base {settings['knowledge_base'][:12]}, and {tools.kb.hash[:12]} is "
            "installed, so "
            "tool results would differ. Build that version of the dataset, or run again with --keep-texts."
        )
    limits = AgentLimits(**{name: settings[name] for name in vars(AgentLimits()) if name in settings})
    agent = Agent(tools, limits, settings.get("protocol", "tools"))
    return with_tools_of(agent, settings.get("contract_sha256"))


def _messages(agent: Agent, row: Row, walk: Trajectory, journal: Journal | None) -> Sequence[Message]:
    conversation = agent.conversation(row["query"])
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
