"""Explanations of a ranking in a report: the score of each feature, and the paths in the graph to each node."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kbbench_hf.files.datasets import Id
from kbbench_hf.reports.html import templates
from kbbench_hf.scoring.score import EXPLANATIONS

TEMPLATES = templates(Path(__file__).parent / "templates")


def reasons_of(folder: Path) -> dict[Id, Markup]:
    """Return the explanation below the example of each explained query of a run; empty without explanations."""
    file = folder / EXPLANATIONS
    if not file.is_file():
        return {}
    template = TEMPLATES.get_template("reasons.html.jinja")
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {record["id"]: Markup(template.render(_record_context(record))) for record in records}  # noqa: S704


def _record_context(record: Mapping[str, Any]) -> dict[str, Any]:
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
                "paths": [_steps(path) for path in each["paths"]],
            }
            for each in nodes
        ],
    }


def _steps(path: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a path as (relation with its direction, node), from its first node, which has no relation.

    >>> _steps({"nodes": ["Galena", "Lead"], "edges": [{"relation": "yields", "forward": True}]})
    [('', 'Galena'), ('yields →', 'Lead')]
    """
    first, *others = path["nodes"]
    relations = [f"{each['relation']} →" if each["forward"] else f"← {each['relation']}" for each in path["edges"]]
    return [("", first), *zip(relations, others, strict=True)]
