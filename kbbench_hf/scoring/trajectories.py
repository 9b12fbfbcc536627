"""Trajectories of agents (`trajectories.jsonl`): calls, selected nodes, slices, counters and warnings.

Agent runs write them; scoring, pages and replays read them. The fields of `Trajectory` and `Call` are those of the
file: later versions read it, and a new field needs a default.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.warnings import ScoreWarning, Severity
from kbbench_hf.files.datasets import Id
from kbbench_hf.scoring.result import stored_rows

TRAJECTORIES = "trajectories.jsonl"
"""One `Trajectory` a line, in the order of the predictions."""
MOST_BACKED_OFF = 0.1
"""If the base retriever alone answered a larger share of the questions, the result has a warning, else a note."""


class Call(NamedTuple):
    """One call of a tool, and its result."""

    step: int
    """The reply that made it, from 1."""
    tool: str
    arguments: Any
    """As they were parsed; usually an object."""
    error: str | None = None
    """The code of the tool's error; None where it had none."""
    total: int | None = None
    """How many nodes there were, of which `shown` were shown; None for tools that show none."""
    shown: Sequence[Id] = ()
    repaired: int = 0
    """Arguments that had to be repaired: clamped, or ids as strings."""


@dataclass(frozen=True)
class Trajectory:
    """The calls and selections of an agent for one question.

    `answer_seen` and `answer_selected` say whether a gold node was ever shown, and selected; None without known gold.
    Tokens and cost are None if unknown; `seconds` is the wall time of the question.
    """

    id: Id
    split: str
    steps: int
    end: str
    """finished, step_limit, no_call, stuck, budget or failed."""
    selected: Sequence[Id]
    backed_off: bool
    """Whether nothing was selected, so that the base's ranking is the answer."""
    calls: Sequence[Call] = ()
    tool_errors: Mapping[str, int] = field(default_factory=dict)
    seen: int = 0
    """Number of different nodes that were shown."""
    answer_seen: bool | None = None
    answer_selected: bool | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    messages: Sequence[Mapping[str, Any]] | None = None
    """The whole conversation, if the run kept it."""

    def line(self) -> str:
        r"""Return it as a line of the file.

        >>> Trajectory(7, "test", 1, "finished", [3], False, [Call(1, "finish", {})]).line()[:58]
        '{"id": 7, "split": "test", "steps": 1, "end": "finished", '
        """
        plain = {**vars(self), "calls": [call._asdict() for call in self.calls]}
        if self.messages is None:
            del plain["messages"]
        return json.dumps(plain) + "\n"

    @property
    def hops(self) -> str:
        """Number of edges from a search hit to the first selected node, as text: "0", "1", ...

        "none" if nothing was selected, "unseen" if no result showed the node.

        >>> found, walked = Call(1, "search_nodes", {}, shown=[1]), Call(2, "neighbors", {"node_id": "1"}, shown=[2])
        >>> Trajectory(7, "test", 3, "finished", [2], False, [found, walked]).hops
        '1'
        """
        if not self.selected:
            return "none"
        depth = depths(self.calls).get(self.selected[0])
        return "unseen" if depth is None else str(depth)


def trajectory_of(row: Mapping[str, Any], calls: Sequence[Call], selected: Sequence[Id], **more: Any) -> Trajectory:
    """Return the trajectory of an example; `more` are the fields that do not follow from the calls."""
    seen = {node for call in calls for node in call.shown}
    gold = row.get("answer_ids")
    return Trajectory(
        id=row["id"],
        split=row.get("split", ""),
        selected=list(selected),
        backed_off=not selected,
        calls=calls,
        tool_errors=dict(sorted(Counter(call.error for call in calls if call.error).items())),
        seen=len(seen),
        answer_seen=None if gold is None else not seen.isdisjoint(gold),
        answer_selected=None if gold is None else not set(selected).isdisjoint(gold),
        **more,
    )


def depths(calls: Sequence[Call]) -> dict[Id, int]:
    """Return shown node -> number of edges from a search hit when it was shown first."""
    result: dict[Id, int] = {}
    for call in calls:
        start = 0
        if call.tool == "neighbors":
            walked = result.get(start_of(call, result), 0)
            start = walked + 1
        for node in call.shown:
            result.setdefault(node, start)
    return result


def start_of(call: Call, known: Collection[Id]) -> Id:
    """Return the node from which a call of `neighbors` walked, as the knowledge base has its id.

    A model may write an integer id as a string: it becomes an integer unless a seen node has the string as its id.
    """
    given: Id = call.arguments.get("node_id", "") if isinstance(call.arguments, Mapping) else ""
    if given not in known and isinstance(given, str) and given.strip().isdecimal():
        return int(given)
    return given


def read_trajectories(folder: Path) -> list[Trajectory]:
    """Return the trajectories of a run's folder, in the order of its file; empty if no agent ran."""
    lines = stored_rows(folder / TRAJECTORIES)
    return [Trajectory(**{**line, "calls": [Call(**call) for call in line["calls"]]}) for line in lines]


def slices_of(trajectories: Sequence[Trajectory], ids: Sequence[Id]) -> dict[str, list[str]]:
    """Return slice -> key of each example, in the order of `ids`; "none" for examples without a trajectory."""
    by_id = {each.id: each for each in trajectories}
    known = [by_id.get(name) for name in ids]
    ends = [each.end if each else "none" for each in known]
    slices = {"hops_walked": [each.hops if each else "none" for each in known], "end": ends}
    if any(each and each.answer_seen is not None for each in known):
        slices["answer_seen"] = [str(bool(each and each.answer_seen)).lower() for each in known]
    return slices


def counters_of(trajectories: Sequence[Trajectory]) -> dict[str, int]:
    """Return counter -> number over all questions; those of gold only if it is known."""
    counts = {
        "n_steps": sum(each.steps for each in trajectories),
        "n_tool_calls": sum(len(each.calls) for each in trajectories),
        "n_tool_errors": sum(sum(each.tool_errors.values()) for each in trajectories),
        "n_repaired": sum(call.repaired for each in trajectories for call in each.calls),
        "n_nodes_seen": sum(each.seen for each in trajectories),
        "n_backed_off": sum(each.backed_off for each in trajectories),
    }
    if any(each.answer_seen is not None for each in trajectories):
        counts["n_answer_seen"] = sum(bool(each.answer_seen) for each in trajectories)
        counts["n_answer_selected"] = sum(bool(each.answer_selected) for each in trajectories)
    return counts


def trajectory_warnings(trajectories: Sequence[Trajectory]) -> list[ScoreWarning]:
    """Return the warnings on an agent's scores: questions whose model failed, and those that its base answered."""
    n, warnings = len(trajectories), []
    if failed := sum(each.end == "failed" for each in trajectories):
        message = f"The model failed on {failed:,} of {n:,} questions; the base's ranking counts for them."
        warnings.append(ScoreWarning("agent_failed", message, "Start the same run again.", failed))
    if backed_off := sum(each.backed_off for each in trajectories):
        message = (
            f"On {backed_off:,} of {n:,} questions the agent selected nothing; their scores are those of the base."
        )
        remedy = "Compare it with the run of its base, question by question."
        severity: Severity = "warning" if backed_off > MOST_BACKED_OFF * n else "note"
        warnings.append(ScoreWarning("backed_off", message, remedy, backed_off, severity=severity))
    return warnings
