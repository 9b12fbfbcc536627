"""Agent trajectories in a report: tool calls, a drawing of the visited nodes, totals, and the base retriever."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.files.datasets import Id, read_json
from kbbench_hf.reports.comparison import TEST_HEADS, test_cells, test_legend
from kbbench_hf.reports.page import TEMPLATES, Chart, difference_bars
from kbbench_hf.reports.tables import label, number
from kbbench_hf.reports.walked_graph import BOX, GAP, NodeNames, draw_trajectory
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.eval_task import RUN
from kbbench_hf.scoring.trajectories import Call, Trajectory

if TYPE_CHECKING:
    from kbbench_hf.knowledge_base.store import KnowledgeBase

MOST_NAMED = 6
"""How many nodes of a result the table of calls names."""
ENDS = {
    "finished": "The agent finished.",
    "step_limit": "The agent reached the limit of steps or calls.",
    "no_call": "The agent stopped calling tools without finishing.",
    "stuck": "The agent got only errors.",
    "budget": "The budget was spent.",
    "failed": "The model could not be reached or gave no response.",
}
"""End of a trajectory -> a sentence."""


def trajectory(walk: Trajectory, gold: Sequence[Id], kb: "KnowledgeBase") -> Markup:
    """Return the HTML below an example: the drawing, how the trajectory ended, and every tool call."""
    picture = draw_trajectory(walk, gold, kb)
    names = NodeNames(kb)
    return Markup(  # noqa: S704  made by a template that escapes
        TEMPLATES.get_template("trajectory.html.jinja").render(
            picture=picture,
            box=BOX,
            gap=GAP,
            outcome=_outcome(walk, gold),
            facts=_facts(walk),
            calls=[_call(call, gold, names) for call in walk.calls],
        )
    )


def totals(walks: Sequence[Trajectory]) -> list[tuple[str, str]]:
    """Return what an agent did over all questions, as rows of a table; means are per question."""
    n = len(walks)
    errors = Counter[str]()
    for walk in walks:
        errors.update(walk.tool_errors)
    ends = Counter(walk.end for walk in walks)
    rows = [
        ("questions", f"{n:,}"),
        ("steps", _mean([walk.steps for walk in walks])),
        ("tool calls", _mean([len(walk.calls) for walk in walks])),
        ("tool errors", ", ".join(f"{code} {count:,}" for code, count in errors.most_common()) or "none"),
        ("arguments repaired", f"{sum(call.repaired for walk in walks for call in walk.calls):,}"),
        ("nodes seen", _mean([walk.seen for walk in walks])),
        ("ended", ", ".join(f"{end} {count:,}" for end, count in ends.most_common())),
        ("fell back to the base retriever", _share(sum(walk.backed_off for walk in walks), n)),
    ]
    known = [walk for walk in walks if walk.answer_seen is not None]
    if known:
        seen = [walk for walk in known if walk.answer_seen]
        rows.append(("gold node seen", _share(len(seen), len(known))))
        rows.append(
            ("gold node selected, once seen", _share(sum(bool(walk.answer_selected) for walk in seen), len(seen)))
        )
    for words, values in (
        ("prompt tokens", [walk.prompt_tokens for walk in walks]),
        ("completion tokens", [walk.completion_tokens for walk in walks]),
        ("cost, USD", [walk.cost_usd for walk in walks]),
        ("seconds", [walk.seconds for walk in walks]),
    ):
        if there := [value for value in values if value is not None]:
            rows.append((words, _mean(there)))
    return rows


def compare_with_base(folder: Path, benchmark: Benchmark) -> dict[str, object] | None:
    """Return the chart of an agent's differences to its base retriever and its legend; None without the base.

    Each row has both scores, and the difference, interval and p-value as `Comparison.shown` has them.
    """
    base = read_json(folder / RUN).get("base")
    if not base or not (folder.parent / base / "predictions.jsonl").is_file():
        return None
    found = compare(folder, folder.parent / base)
    tests = found.shown()
    bars, scale = difference_bars([(each.test.difference, *each.test.ci95) for each in tests.values()])
    rows = [
        [label(benchmark, metric), *cells, number(found.a.scores[metric].value), number(found.b.scores[metric].value)]
        for metric, cells in zip(tests, test_cells(tests.values()), strict=True)
    ]
    heads = ["metric", "agent - base", *TEST_HEADS, "agent", "base"]
    return {"chart": Chart(heads, rows, bars, scale), "legend": test_legend(tests, benchmark)}


def _outcome(walk: Trajectory, gold: Sequence[Id]) -> str:
    """Return how a trajectory ended and whether the agent found the gold, in sentences."""
    words = [ENDS.get(walk.end, walk.end)]
    if walk.backed_off:
        words.append("Nothing was selected; the ranking is the base retriever's.")
    if walk.answer_seen and not walk.answer_selected:
        words.append("A gold node was seen but not selected (selection error).")
    elif walk.answer_seen is False:
        words.append("No gold node was seen (search error).")
    elif walk.answer_selected and walk.selected[0] not in gold:
        words.append("A gold node was selected, but not first.")
    return " ".join(words)


def _facts(walk: Trajectory) -> str:
    facts = [
        f"{n:,} {one}{'' if n == 1 else 's'}"
        for n, one in (
            (walk.steps, "step"),
            (len(walk.calls), "call"),
            (sum(walk.tool_errors.values()), "error"),
        )
    ]
    facts.append(f"{walk.seen:,} seen")
    if walk.prompt_tokens is not None:
        facts.append(f"{walk.prompt_tokens:,} tokens in, {walk.completion_tokens or 0:,} out")
    if walk.cost_usd is not None:
        facts.append(f"{walk.cost_usd:.4f} USD")
    if walk.seconds is not None:
        facts.append(f"{walk.seconds:.1f} s")
    return " · ".join(facts)


def _call(call: Call, gold: Sequence[Id], names: NodeNames) -> dict[str, Any]:
    """Return a row of the table of calls: step, tool, arguments and result."""
    given = call.arguments if isinstance(call.arguments, Mapping) else {"": call.arguments}
    words = []
    for name, value in given.items():
        if name == "node_id":
            words.append(names[value])
        elif name == "node_ids" and isinstance(value, list):
            words.append(", ".join(f"{names[each]}{' ✓' if each in gold else ''}" for each in value[:MOST_NAMED]))
            words.extend([f"+ {len(value) - MOST_NAMED:,}"] if len(value) > MOST_NAMED else [])
        elif name == "query":
            words.append(f"“{value}”")
        else:
            words.append(f"{name} {json.dumps(value, ensure_ascii=False)}".strip())
    came = ""
    if call.error:
        came = call.error.replace("_", " ")
    elif call.total is not None:
        listed = [f"{names[node]}{' ✓' if node in gold else ''}" for node in call.shown[:MOST_NAMED]]
        more = [f"+ {len(call.shown) - MOST_NAMED:,}"] if len(call.shown) > MOST_NAMED else []
        came = f"{len(call.shown):,} of {call.total:,}: {', '.join([*listed, *more])}" if listed else "nothing"
    return {"step": call.step, "tool": call.tool, "given": "; ".join(words), "came": came, "wrong": bool(call.error)}


def _mean(values: Sequence[float]) -> str:
    """Return a mean, with the 5th and 95th percentiles where there are at least 20 values."""
    if not values:
        return "-"
    mean = f"{fmean(values):,.4g}"
    if len(values) < 20:
        return mean
    cuts = quantiles(values, n=20)
    return f"{mean} (90 % range {cuts[0]:,.4g} to {cuts[-1]:,.4g})"


def _share(n: int, of: int) -> str:
    return f"{n:,} of {of:,} ({100 * n / of:.1f} %)" if of else "-"
