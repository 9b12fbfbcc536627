"""What a knowledge unit of SKA-Bench is: a number, its cells, and the one line it is written as.

A testbed stores unit numbers; text is made on demand (`contexts`). In the text section a number is a passage's
place in the subset's pool; in the structured section of a graph instance it is a triple's place in its pool. The rows
of a table instance have their own numbering (`rows`), because most of them are made.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kbbench_hf.benchmarks.ska_bench.programs import Program
from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.answers import wtq_normal

SUBSETS = ("kg", "table", "kg_text", "table_text")
SEED = 42
"""The seed in every recipe; the paper shuffles with 42."""

Cells = tuple[str, ...]
_LINE_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


def clean(text: str) -> str:
    r"""Return a cell, title or passage on one line: line breaks become blanks, outer white space goes.

    Readers of sources apply this once, so that everything below can rely on it.

    >>> clean("Margin\nof victory ")
    'Margin of victory'
    """
    return _LINE_BREAKS.sub(" ", text).strip()


def write_row(cells: Sequence[str]) -> str:
    r"""Return a table row, or header, as the paper writes it; a pipe inside a cell is escaped.

    >>> write_row(["1", "a|b"])
    '|1|a\\|b|'
    """
    line = "|".join(cells)
    if line.count("|") >= len(cells):
        line = "|".join(cell.replace("|", "\\|") for cell in cells)
    return f"|{line}|"


def write_triple(cells: Sequence[str]) -> str:
    """Return a triple as the paper writes it.

    >>> write_triple(["George Weah", "position held", "President of Liberia"])
    '(George Weah, position held, President of Liberia)'
    """
    return f"({', '.join(cells)})"


def write_passage(cells: Sequence[str]) -> str:
    r"""Return a passage, (title, text), as the paper writes it; without a title the text alone.

    A `/` at the start of a line is escaped, because GPT-4o's tokenizer joins it with the line break before it, and the
    counts of lines would no longer add up.

    >>> write_passage(["Navy", "A service."]), write_passage(["", "/ns/ is a path."])
    ('Navy: A service.', '\\/ns/ is a path.')
    """
    title, text = cells
    line = f"{title}: {text}" if title else text
    return f"\\{line}" if line.startswith("/") else line


@dataclass(frozen=True)
class Instance:
    """A question, its answers, and the units that are needed to answer it."""

    id: str
    subset: str
    question: str
    answers: Cells
    group: str
    """The table or the pool of triples that it is asked on."""
    title: str = ""
    positive_sk: tuple[int, ...] = ()
    positive_text: tuple[int, ...] = ()
    withheld_sk: tuple[int, ...] = ()
    """Triples that may never be shown, because the question wants them read from text."""
    own_text: tuple[int, ...] = ()
    """The passages that belong to its table or subgraph; empty where the whole pool does."""
    topics: Cells = ()
    program: Program | None = None
    method: str = ""
    confidence: str = ""
    source: str = ""
    source_id: str = ""
    commit: str = ""
    licence: str = ""

    @property
    def is_table(self) -> bool:
        """Whether its structured units are table rows."""
        return self.subset.startswith("table")

    def to_row(self) -> Row:
        """Return the instance as a row of its dataset config; the program is written as JSON."""
        program = json.dumps(self.program, ensure_ascii=False, sort_keys=True) if self.program else ""
        lists = {name: list(value) for name, value in vars(self).items() if isinstance(value, tuple)}
        return {**vars(self), **lists, "program": program}

    @classmethod
    def from_row(cls, row: Row) -> "Instance":
        """Return the instance that `to_row` wrote."""
        values: Row = {n: tuple(value) if isinstance(value, list) else value for n, value in row.items()}
        return cls(**{**values, "program": json.loads(row["program"]) if row["program"] else None})


@dataclass(frozen=True)
class Pool:
    """All units of a subset: the structured ones by group and number, the passages by number."""

    sk: Mapping[str, Sequence[Cells]] = field(default_factory=dict)
    text: Sequence[Cells] = ()
    headers: Mapping[str, Cells] = field(default_factory=dict)
    links: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Of a passage that states facts of its graph: the numbers of their triples."""

    def to_rows(self) -> list[Row]:
        """Return the pool as rows of its dataset config: sections `header`, `sk`, `text`."""
        rows = [_pool_row(group, "header", 0, self.headers[group]) for group in sorted(self.headers)]
        rows += [
            _pool_row(group, "sk", n, cells) for group in sorted(self.sk) for n, cells in enumerate(self.sk[group])
        ]
        return rows + [_pool_row("", "text", n, cells, self.links.get(n, ())) for n, cells in enumerate(self.text)]

    @classmethod
    def from_rows(cls, rows: Iterable[Row]) -> "Pool":
        """Return the pool that `to_rows` wrote."""
        sk: defaultdict[str, list[Cells]] = defaultdict(list)
        text: list[Cells] = []
        headers: dict[str, Cells] = {}
        links: dict[int, tuple[int, ...]] = {}
        for row in rows:
            cells = tuple(row["cells"])
            if row["links"]:
                links[row["number"]] = tuple(row["links"])
            if row["section"] == "header":
                headers[row["group"]] = cells
            else:
                (sk[row["group"]] if row["section"] == "sk" else text).append(cells)
        return cls(dict(sk), text, headers, links)

    @cached_property
    def _groups_by_header(self) -> dict[tuple[str, ...], list[str]]:
        groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for group in sorted(self.headers):
            groups[tuple(map(wtq_normal, self.headers[group]))].append(group)
        return dict(groups)

    def donors(self, group: str) -> list[Cells]:
        """Return the rows of the other tables whose headers have the same normal form, by group and number."""
        same = self._groups_by_header[tuple(map(wtq_normal, self.headers[group]))]
        return [cells for other in same if other != group for cells in self.sk[other]]


def _pool_row(group: str, section: str, number: int, cells: Cells, links: Sequence[int] = ()) -> Row:
    return {"group": group, "section": section, "number": number, "cells": list(cells), "links": list(links)}
