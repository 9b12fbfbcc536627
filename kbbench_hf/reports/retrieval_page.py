"""Why a retriever ranked as it did: a table of what each signal gave, and the ways through the graph, drawn."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from kbbench_hf.files.datasets import Id
from kbbench_hf.reports.html import templates
from kbbench_hf.scoring.score import EXPLANATIONS

TEMPLATES = templates(Path(__file__).parent / "templates")
BOX, GAP, LINE = 200, 170, 46
"""Width of a node, of an edge, and height of a path, in pixels."""
LONGEST = 26
"""Letters of a name that fit into a node, and of a relation beside its arrow; the whole name is its title."""


class Drawn(NamedTuple):
    """A text at a place, cut to fit; `whole` is shown when pointed at."""

    x: int
    text: str
    whole: str


class DrawnPath(NamedTuple):
    """One path as a row of a picture: its nodes, its relations, and from where to where each arrow leads."""

    y: int
    nodes: list[Drawn]
    relations: list[Drawn]
    arrows: list[tuple[int, int]]


def reasons_of(folder: Path) -> dict[Id, Markup]:
    """Return for each explained question of a run what stands below its example; empty where none was explained."""
    file = folder / EXPLANATIONS
    if not file.is_file():
        return {}
    template = TEMPLATES.get_template("reasons.html.jinja")
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {record["id"]: Markup(template.render(_shown(record))) for record in records}  # noqa: S704


def drawn(paths: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rows of a picture of paths and its size.

    >>> path = {"nodes": ["Galena", "Lead"], "edges": [{"relation": "yields", "forward": True}]}
    >>> picture = drawn([path])
    >>> picture["width"], picture["paths"][0].arrows, picture["paths"][0].relations[0].text
    (570, [(200, 370)], 'yields')
    """
    rows = []
    for number, path in enumerate(paths):
        starts = [place * (BOX + GAP) for place in range(len(path["nodes"]))]
        ways = [(start + BOX, start + BOX + GAP) for start in starts[:-1]]
        rows.append(
            DrawnPath(
                number * LINE,
                [_cut(x, name) for x, name in zip(starts, path["nodes"], strict=True)],
                [_cut(x + GAP // 2, edge["relation"]) for (x, _), edge in zip(ways, path["edges"], strict=True)],
                [way if edge["forward"] else way[::-1] for way, edge in zip(ways, path["edges"], strict=True)],
            )
        )
    longest = max((len(path["nodes"]) for path in paths), default=0)
    return {"paths": rows, "width": longest * BOX + max(longest - 1, 0) * GAP, "height": len(rows) * LINE, "box": BOX}


def _shown(record: Mapping[str, Any]) -> dict[str, Any]:
    winner, gold = record["winner"], record["gold"]
    nodes = [winner, *(each for each in gold if each["id"] != winner["id"])]
    right = {each["id"] for each in gold}
    signals = [name for name in winner["signals"] if any(round(each["signals"][name], 2) for each in nodes)]
    return {
        "asked": record["asked"],
        "types": [(name, f"{100 * probability:.0f} %") for name, probability in record["types"]],
        "named": record["named"],
        "excluded": record["excluded"],
        "signals": signals,
        "nodes": [
            {
                "role": "first" + (", and gold" if each["id"] in right else "") if each is winner else "gold",
                "name": f"{each['name']} ({each['id']})",
                "type": each["type"],
                "gave": [f"{each['signals'][name]:+.2f}" if each["signals"][name] else "" for name in signals],
                "score": f"{sum(each['signals'].values()):.2f}",
                "picture": drawn(each["paths"]),
            }
            for each in nodes
        ],
    }


def _cut(x: int, text: str) -> Drawn:
    return Drawn(x, text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…", text)
