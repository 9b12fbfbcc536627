"""Instances from HybridQA's traced questions (MIT) on its tables and linked passages (Wikipedia, CC BY-SA).

A trace names the cell and the passage in which the answer was found. A question is kept if its answer stands in exactly
one passage, linked from one row, and neither in another passage nor in a cell; comparisons are left out, because their
evidence is more than one row. There is no program: the evidence rests on HybridQA's traces.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.ska_bench.construction.instances import instance, table_units, write_lines
from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.units import clean
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.answers import wtq_normal

PROVENANCE = {
    "dataset": "HybridQA (traced)",
    "repo": "wenhuchen/HybridQA",
    "licence": "MIT (repository); table and passage text from Wikipedia, CC BY-SA",
}
FOLDERS = (("tables_tok", "request_tok"), ("traindev_tables_tok", "traindev_request_tok"))
"""Where tables and passages lie in WikiTables-WithLinks and in OTT-QA."""
_COMPARISON = re.compile(
    r"\b(first|last|most|least|more|less|fewer|than|earliest|latest|oldest|youngest|highest|lowest|largest|smallest"
    r"|both|between|or|how many|before|after)\b"
)
Cell = str | tuple[str, Sequence[str]]
"""A cell's text, with the passages that it links to if it is a released one."""


def make(questions: Path, tables: Path, out: Path) -> dict[str, int]:
    """Write the instances of a traced question file; return how many.

    Args:
        questions: `dev.traced.json` or `train.traced.json`.
        tables: a checkout of WikiTables-WithLinks, or OTT-QA's `data` folder.
        out: the folder for `hybridqa.jsonl`.

    Raises:
        DataError: one of the two is not what it should be.
    """
    folders = next((pair for pair in FOLDERS if all((tables / name).is_dir() for name in pair)), None)
    if folders is None:
        wanted = " or ".join("/ and ".join(pair) + "/" for pair in FOLDERS)
        raise DataError(f"{tables} holds no tables with passages; expected {wanted}. Check the folder.")
    records = []
    for asked in _json(questions):
        files = [tables / folder / f"{asked['table_id']}.json" for folder in folders]
        if all(file.is_file() for file in files):
            table, passages = map(_json, files)
            try:
                records += _instances(asked, table, passages)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise DataError(
                    f"{asked.get('question_id')}: question or table is malformed ({error!r}); get the files again."
                ) from error
    return {"hybridqa": write_lines(out / "hybridqa.jsonl", records)}


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read as JSON ({error}); expected HybridQA's file. Get it again.") from error


def _instances(asked: Row, table: Row, passages: Mapping[str, str]) -> list[Row]:
    """Return the instance of a question, or nothing where its evidence is not one row and one passage."""
    header = [_text(cell) for cell in table["header"]]
    rows = [[_text(cell) for cell in row] for row in table["data"]]
    links = [sorted({link for cell in row for link in _links(cell)}) for row in table["data"]]
    positive = _evidence(asked, rows, links, passages)
    if positive is None:
        return []
    place, source = positive
    shown = [link for link in sorted({link for of_row in links for link in of_row}) if clean(passages.get(link, ""))]
    return [
        instance(
            f"hybridqa-{asked['question_id']}",
            "Table+Text",
            asked["question"],
            [asked["answer-text"]],
            {**PROVENANCE, "source_id": asked["question_id"]},
            "hybridqa-trace:answer-in-passage",
            program=None,
            table={"id": asked["table_id"], "header": header, "title": table.get("title", "")},
            sk_units=table_units(rows, {place}),
            text_units=[
                {
                    "uid": f"p{n}",
                    "title": link.removeprefix("/wiki/").replace("_", " "),
                    "text": passages[link],
                    "positive": link == source,
                    "order": n,
                }
                for n, link in enumerate(shown)
            ],
        )
    ]


def _evidence(
    asked: Row, rows: Sequence[Sequence[str]], links: Sequence[Sequence[str]], passages: Mapping[str, str]
) -> tuple[int, str] | None:
    """Return the row and the passage that a question needs, or None where they are not one of each."""
    answer = wtq_normal(asked["answer-text"])
    nodes = {(node[1][0], node[2]) for node in asked["answer-node"] if node[3] == "passage"}
    if _COMPARISON.search(wtq_normal(asked["question"])) or len(nodes) != 1 or len(asked["answer-node"]) != 1:
        return None
    [(place, source)] = nodes
    linked = {link for of_row in links for link in of_row}
    holding = [link for link in linked if mentions(wtq_normal(passages.get(link, "")), answer)]
    in_cells = any(mentions(wtq_normal(cell), answer) for row in rows for cell in row)
    from_rows = [n for n, of_row in enumerate(links) if source in of_row]
    return (place, source) if holding == [source] and not in_cells and from_rows == [place] else None


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else str(cell[0])


def _links(cell: Cell) -> Sequence[str]:
    return () if isinstance(cell, str) else cell[1]
