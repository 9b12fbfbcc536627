"""HybridQA's dev questions with traces of their answers, on OTT-QA's tables and passages, as raw source files.

Questions are kept whose traced answers lie in one row. The release names neither the cells that a question quotes nor a
second passage that it needs; both are derived from its words.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from kbbench_hf.building.ska_bench.hybridqa import QUESTIONS, TABLES
from kbbench_hf.building.ska_bench.source_files import write_json_lines
from kbbench_hf.files.datasets import Row

LEAST_WEIGHT = 6.0
"""The least weight of the words of a second passage, as summed inverse document frequencies, for it to be needed."""
_COMMON = frozenset(
    "a about after also an and are as at be been before between by did do does during first for from had has have "
    "he her his how in into is it its last more most name named not of on or she than that the their these they "
    "this those to was were what when where which who whom whose with".split()
)


def write_hybridqa(questions: Path, tables: Path, folder: Path) -> None:
    """Write the questions, and the tables that they are asked on with the passages of their links."""
    traced = _read_json(questions / "released_data" / "dev.traced.json")
    settled = [question for question in traced if len({node[1][0] for node in question["answer-node"]}) == 1]
    stored = {name: _table(tables / "data", name) for name in sorted({each["table_id"] for each in settled})}
    write_json_lines(folder / TABLES, stored.values())
    words = PassageWords(row["passages"] for row in stored.values())
    rows = (_question(each, stored[each["table_id"]], words) for each in settled)
    write_json_lines(folder / QUESTIONS, sorted(rows, key=lambda row: str(row["id"])))


def _read_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _table(source: Path, name: str) -> Row:
    table, passages = (_read_json(source / f"traindev_{part}_tok" / f"{name}.json") for part in ("tables", "request"))
    return {
        "table": name,
        "title": table["title"],
        "section": table["section_title"],
        "url": table["url"],
        "header": [text for text, _ in table["header"]],
        "rows": table["data"],
        "passages": passages,
    }


def _question(question: Row, table: Row, words: "PassageWords") -> Row:
    nodes, row = question["answer-node"], question["answer-node"][0][1][0]
    passages = list(dict.fromkeys(link for _, _, link, where in nodes if where == "passage"))
    bridges, hits = words.find_bridges(question["question"], table, row, passages)
    return {
        "id": question["question_id"],
        "question": question["question"],
        "answer": question["answer-text"],
        "table": question["table_id"],
        "row": row,
        "row_cells_quoted": quoted_columns(question["question"], [text for text, _ in table["rows"][row]]),
        "answer_in_table": any(where == "table" for *_, where in nodes),
        "answer_passages": passages,
        "bridge_passages": bridges,
        "bridge_hits_in_table": hits if bridges else 0,
    }


def quoted_columns(question: str, cells: Sequence[str]) -> list[int]:
    """Return the columns whose cells a question quotes, as whole words.

    >>> quoted_columns("who rode for Team 3 in 1999 ?", ["1999", "Team 3", "9", ""])
    [0, 1]
    """
    text = f" {' '.join(_words(question))} "
    return [n for n, cell in enumerate(cells) if (words := _words(cell)) and f" {' '.join(words)} " in text]


class PassageWords:
    """Inverse document frequencies of the words of the passages of all tables."""

    def __init__(self, passages: Iterable[Mapping[str, str]]) -> None:
        texts = {link: text for each in passages for link, text in each.items()}
        frequencies = Counter(chain.from_iterable(set(_words(text)) for text in texts.values()))
        self._idf = {word: math.log(len(texts) / (1 + n)) for word, n in frequencies.items() if word not in _COMMON}

    def find_bridges(self, question: str, table: Row, row: int, answering: Sequence[str]) -> tuple[list[str], int]:
        """Return the other passages of a row that a question refers to, and how many of its table's fit as well.

        They hold words of the question that neither the row, title and header nor the passages of the answer have, and
        that weigh `LEAST_WEIGHT` together. None where no passage has the answer.
        """
        if not answering:
            return [], 0
        passages: Mapping[str, str] = table["passages"]
        known = [*(text for text, _ in table["rows"][row]), *table["header"], table["title"]]
        known += [passages[link] for link in answering if link in passages]
        wanted = set(_words(question)) - set(chain.from_iterable(map(_words, known)))
        fitting = {
            link
            for link, text in passages.items()
            if math.fsum(self._idf.get(word, 0.0) for word in wanted & set(_words(text))) >= LEAST_WEIGHT
        }
        linked = {link for _, links in table["rows"][row] for link in links}
        return sorted((linked & fitting) - set(answering)), len(fitting)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
