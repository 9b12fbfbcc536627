"""Subset `kg_text`, people's part: HybridQA's questions, its tables written as triples, the linked pages as texts.

A table with a column that names its rows (no two alike) becomes a graph: (name, header, cell) for each other cell, and
(name, "listed in", title). A cell that links to one page is called by the page's title, so that triples and texts join.
The evidence of a question is the triples of the cells that it quotes or that lead to a page it needs, the triple of the
table's title where it uses words of that alone, and the pages: the one with the answer, and one that holds words of the
question that nothing else in the evidence holds. A question is kept where the evidence accounts for its words, and is
sufficient, necessary and unique over all tables and pages of the subset.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import fsum, log
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.construction.decoys import Decoys
from kbbench_hf.benchmarks.ska_bench.construction.evidence import Derivation, Evidence, Unit
from kbbench_hf.benchmarks.ska_bench.construction.hybridqa_tables import (
    ORIGIN,
    SOURCE,
    Question,
    Table,
    read,
    subset_of,
    title_of,
)
from kbbench_hf.benchmarks.ska_bench.graph_programs import SAYS, Program
from kbbench_hf.benchmarks.ska_bench.mentions import mentions, normal_name
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Pool, Release
from kbbench_hf.metrics.porter import stem
from kbbench_hf.metrics.typed_answers import answer_type

GROUP = "hybridqa"
LISTED = "listed in"
_COMPARES = re.compile(
    r"\b(first|second|third|fourth|fifth|last|most|least|more|less|fewer|than|both|between|or|either|neither|before"
    r"|after|same|different|only|next|previous|former|latter|best|worst|total|average|\w{3,}(?<!for)(?<!w)est)\b"
)
"""The evidence of a comparison or an order is more than one row."""
_DANGLES = re.compile(r"\b(this|these|those|his|her|he|she|they|their|its|it|him)\b")
"""What is meant stands outside of the question."""
_EMPTY = frozenset(
    "a an and are as at be been by can did do does for from had has have how in into is many much name named of on"
    " s the that there to was were what when where which who whom whose why will with whats called used located year"
    " also".split()
)
"""Words of questions that no evidence has to hold."""
_DATE = re.compile(r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? \d")
_PERSON = re.compile(r"[A-Z]\S*(?: [A-Z]\S*)+")
LONGEST_ANSWER = 6
COVERED = 0.65
"""The share of a question's words, by weight, that its evidence holds."""
LEAST_WEIGHT = 8.0
"""The least weight (summed idf) of the words by which a page is found."""
RIVAL = 0.6
"""No other page of the table's holds so large a share of that weight."""


def make(folder: Path) -> Release:
    """Return the instances on HybridQA's tables, with the tables' triples and the pages as their pool.

    Raises:
        DataError: a file is absent or malformed.
    """
    questions, tables = read(folder)
    subsets = subset_of(questions)
    questions = [question for question in questions if subsets[question.table] == "kg_text"]
    graphs = {
        name: graph for name in sorted(subsets) if subsets[name] == "kg_text" if (graph := Graph.of(tables[name]))
    }
    maker = _Maker(graphs)
    found: dict[str, list[Instance]] = {}
    for question in questions:
        if instance := maker.instance(question):
            found.setdefault(question.table, []).append(instance)
    return Release([max(of_table, key=_size) for of_table in found.values()], {"kg_text": maker.pool})


def _size(instance: Instance) -> tuple[int, str]:
    return len(instance.positive_sk) + len(instance.positive_text), instance.id


@dataclass(frozen=True)
class Graph:
    """A table as triples: which column names its rows, and what each cell is called."""

    table: Table
    key: int
    nodes: tuple[Cells, ...]

    @classmethod
    def of(cls, table: Table) -> "Graph | None":
        """Return a table as a graph, named by its first column of names; None where it has none."""
        nodes = tuple(
            tuple(_node(cell, links) for cell, links in zip(cells, linked, strict=True))
            for cells, linked in zip(table.rows, table.links, strict=True)
        )
        columns = range(len(table.header))
        key = next((column for column in columns if table.header[column] and _names(nodes, column)), None)
        return None if key is None else cls(table, key, nodes)

    @property
    def listed(self) -> str:
        """What the table is called."""
        return f"{self.table.title}: {self.table.section}" if self.table.section else self.table.title

    def triple(self, row: int, column: int) -> Cells | None:
        """Return the triple of a cell; None for an empty one, the name itself, or a header that comes twice."""
        header, cell = self.table.header[column], self.nodes[row][column]
        said = bool(normal_name(cell)) and header and self.table.header.count(header) == 1
        return (self.nodes[row][self.key], header, cell) if said and column != self.key else None

    def listing(self, row: int) -> Cells:
        """Return the triple that says which table a row stands in."""
        return (self.nodes[row][self.key], LISTED, self.listed)


def _node(cell: str, links: Sequence[str]) -> str:
    return title_of(links[0]) if len(links) == 1 else cell


def _names(nodes: Sequence[Cells], column: int) -> bool:
    cells = [cells[column] for cells in nodes]
    words = sum(len(cell.split()) for cell in cells)
    return (
        len({normal_name(cell) for cell in cells}) == len(cells)
        and all(cell[:1].isalpha() and not _DATE.match(cell) for cell in cells)
        and words <= 6 * len(cells)
    )


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    return stem(word)


@lru_cache(maxsize=1 << 16)
def _stems(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in normal_name(text).split() if word not in _EMPTY)


class _Maker:
    def __init__(self, graphs: Mapping[str, Graph]) -> None:
        self.graphs = graphs
        pages = {link: text for graph in graphs.values() for link, text in graph.table.passages.items()}
        self._page = {link: number for number, link in enumerate(sorted(pages))}
        triples, linked = set[Cells](), defaultdict[str, set[Cells]](set)
        for graph in graphs.values():
            for row, links in enumerate(graph.table.links):
                triples.add(graph.listing(row))
                for column, of_cell in enumerate(links):
                    triple = graph.triple(row, column)
                    triples |= {triple} if triple else set()
                    for link in of_cell:
                        linked[link].add(triple or graph.listing(row))
        ordered = sorted(triples)
        self._number = {triple: number for number, triple in enumerate(ordered)}
        self.pool = Pool(
            {GROUP: ordered},
            [(title_of(link), pages[link]) for link in sorted(pages)],
            links={self._page[link]: tuple(sorted(self._number[t] for t in of)) for link, of in linked.items()},
            origins={GROUP: ORIGIN},
            text_origins=[ORIGIN] * len(pages),
        )
        self.evidence = Evidence(self.pool)
        self.decoys = Decoys(ordered)
        counts = Counter(word for text in pages.values() for word in _stems(text))
        self._idf = defaultdict(lambda: log(len(pages) + 1), {w: log((len(pages) + 1) / n) for w, n in counts.items()})

    def weight(self, words: Iterable[str]) -> float:
        """Return the summed idf of words, the same in whatever order they come."""
        return fsum(self._idf[word] for word in words)

    def instance(self, question: Question) -> Instance | None:
        """Return a question as an instance, or None where it or its evidence is not in order."""
        asked, answer = normal_name(question.text), normal_name(question.answer)
        graph = self.graphs.get(question.table)
        if (
            graph is None
            or _COMPARES.search(asked)
            or _DANGLES.search(asked)
            or not answer
            or len(answer.split()) > LONGEST_ANSWER
            or mentions(asked, answer)
        ):
            return None
        return _Asked(self, graph, question).instance()


class _Asked:
    """One question and what its evidence is made of."""

    def __init__(self, maker: _Maker, graph: Graph, question: Question) -> None:
        self._maker, self._graph, self._question = maker, graph, question
        self._row, self._words = question.row, _stems(question.text)
        name = self._cell(graph.key)
        self._named = graph.key in question.quoted or mentions(normal_name(question.text), normal_name(_plain(name)))
        self._subject = name if self._named else "?row"
        self._quoted = [c for c in question.quoted if c != graph.key and graph.triple(self._row, c)]

    def instance(self) -> Instance | None:
        """Return the instance whose evidence passes every check, or None."""
        for program in self._programs():
            for instance in self._with_evidence(program):
                if self._accounts_for_words(instance) and not self._maker.evidence.problems(instance):
                    return instance
        return None

    def _cell(self, column: int) -> str:
        return self._graph.nodes[self._row][column]

    def _pages(self) -> dict[str, int]:
        """Return the links of the row, each with the column of its cell, those that lead somewhere in the graph."""
        found: dict[str, int] = {}
        for column, links in enumerate(self._graph.table.links[self._row]):
            if len(links) == 1 and (column == self._graph.key or self._graph.triple(self._row, column)):
                found.setdefault(links[0], column)
        return found

    def _programs(self) -> Iterator[Program]:
        """Yield programs of more and more conditions: quoted cells, then what pages say."""
        question, pages = self._question, self._pages()
        bridges = [link for link in question.bridges if link in pages][:1]
        if len(bridges) < len(question.bridges[:1]):
            return
        if question.answer_in_table:
            columns = [c for c in range(len(self._graph.table.header)) if self._is_answer(c)]
            if len(columns) != 1 or columns[0] in question.quoted or (columns[0] == self._graph.key and self._named):
                return
            found = bridges or self._telling_page(pages)
            if not found:
                return
            for_answer: str | None = None
            answer_column = columns[0]
        else:
            holding = [link for link in pages if mentions(self._text(link), normal_name(question.answer))]
            if len(holding) != 1 or tuple(holding) != question.answer_passages or holding == bridges:
                return
            found, for_answer, answer_column = bridges, holding[0], -1
        yield from self._with_conditions(pages, found, for_answer, answer_column)

    def _with_conditions(
        self, pages: Mapping[str, int], told: Sequence[str], for_answer: str | None, answer_column: int
    ) -> Iterator[Program]:
        graph = self._graph
        terms: dict[int, str] = {column: self._cell(column) for column in self._quoted}
        for link in [*told, *([for_answer] if for_answer else [])]:
            terms.setdefault(pages[link], f"?{pages[link]}")
        if answer_column >= 0 and answer_column != graph.key:
            terms[answer_column] = "?answer"
        terms.pop(graph.key, None)
        where = [[self._subject, graph.table.header[column], term] for column, term in sorted(terms.items())]

        def about(link: str) -> str:
            column = pages[link]
            return self._subject if column == graph.key else terms[column]

        find = {"find": "?row" if answer_column == graph.key else "?answer"}
        goal = {"read": [about(for_answer), *_listed(self._question.answer)]} if for_answer else find
        listing = [[self._subject, LISTED, graph.listed]] if self._uses_title(where, [*told, for_answer]) else []
        says = [[about(link), SAYS, words] for link in told if (words := self._said(link, where, for_answer, pages))]
        if len(says) < len(told):
            return
        yield {"type": "match", **goal, "where": [*where, *listing, *says]}
        if for_answer and (words := self._said(for_answer, where, None, pages)):
            yield {"type": "match", **goal, "where": [*where, *listing, *says, [about(for_answer), SAYS, words]]}

    def _is_answer(self, column: int) -> bool:
        answer, cell = normal_name(self._question.answer), self._graph.table.rows[self._row][column]
        return answer in {normal_name(cell), normal_name(self._cell(column)), normal_name(_plain(self._cell(column)))}

    def _text(self, link: str) -> str:
        return normal_name(f"{title_of(link)} {self._graph.table.passages[link]}")

    def _telling_page(self, pages: Mapping[str, int]) -> list[str]:
        """Return the page of the row that holds most of the question's words, if any does."""
        weights = {link: self._maker.weight(self._words & _stems(self._text(link))) for link in pages}
        best = max(weights, key=lambda link: (weights[link], link), default=None)
        return [best] if best else []

    def _said(self, link: str, where: Sequence[Sequence[str]], other: str | None, pages: Mapping[str, int]) -> str:
        """Return the question's words that this page alone holds; none where another page rivals it."""
        if link not in pages:
            return ""
        known = set().union(*(_stems(" ".join(pattern)) for pattern in where)) | _stems(self._graph.listed)
        known |= _stems(self._text(other)) if other else set()
        words = self._words & (_stems(self._text(link)) - known)
        weight = self._maker.weight(words)
        if weight < LEAST_WEIGHT:
            return ""
        for rival in self._graph.table.passages:
            if rival != link and self._maker.weight(words & _stems(self._text(rival))) >= RIVAL * weight:
                return ""
        return " ".join(dict.fromkeys(word for word in self._text(link).split() if _stem(word) in words))

    def _uses_title(self, where: Sequence[Sequence[str]], links: Sequence[str | None]) -> bool:
        known = set().union(*(_stems(" ".join(pattern)) for pattern in where))
        known |= set().union(
            *(_stems(self._text(link)) for link in links if link and link in self._graph.table.passages)
        )
        return bool((self._words & _stems(self._graph.listed)) - known)

    def _with_evidence(self, program: Program) -> Iterator[Instance]:
        """Yield the instance with the evidence that triples state as far as they can, then with the fewest units."""
        question = self._question
        column = next((c for c in range(len(self._graph.table.header)) if self._is_answer(c)), None)
        answers, aliases = tuple(_listed(question.answer)), tuple[Cells, ...]()
        if question.answer_in_table and column is not None:
            answers, aliases = (self._cell(column),), _aliases(self._cell(column), question.answer)
        elif self._opens_page(question):
            aliases = _aliases(question.answer, title_of(question.answer_passages[0]))
        instance = Instance(
            id=f"hybridqa-{question.id}",
            subset="kg_text",
            question=re.sub(r"\b(the|of|in|a) \1\b", r"\1", f"{question.text[0].upper()}{question.text[1:]}"),
            answers=answers,
            answer_type=answer_type(answers[0]),
            answer_aliases=aliases,
            split_key=question.table,
            group=GROUP,
            topics=(self._cell(self._graph.key),),
            program=program,
            method="trace of the answer, quoted cells and pages",
            source=SOURCE.name,
            source_id=question.id,
            commit=SOURCE.commit,
            licence=SOURCE.licence,
        )
        gold = sorted({normal_name(answer) for answer in answers})
        found = [each for each in self._maker.evidence.derivations(instance) if each.answer == gold[0]]
        for best in dict.fromkeys(max(found, key=order).units for order in (_by_triples, _by_number) if found):
            sk, text = (tuple(unit.number for unit in sorted(best) if unit.in_text == side) for side in (False, True))
            decoys = self._maker.decoys.of(instance.id, [self._maker.pool.sk[GROUP][number] for number in sk])
            if sk and text:
                yield replace(instance, positive_sk=sk, positive_text=text, decoys=decoys)

    def _opens_page(self, question: Question) -> bool:
        """Say whether the page with the answer begins with it, so that its title is another name of the answer."""
        text = self._graph.table.passages[question.answer_passages[0]]
        return normal_name(text).startswith(f"{normal_name(question.answer)} ")

    def _accounts_for_words(self, instance: Instance) -> bool:
        pool = self._maker.pool
        units = [pool.sk[GROUP][n] for n in instance.positive_sk] + [pool.text[n] for n in instance.positive_text]
        held = set().union(*(_stems(" ".join(cells)) for cells in units))
        held |= _stems(self._graph.table.header[self._graph.key])  # what kind of thing the rows are
        if self._named:
            held |= _stems(self._subject)
        total = self._maker.weight(self._words)
        return bool(units) and self._maker.weight(self._words & held) >= COVERED * total


def _by_triples(derivation: Derivation) -> tuple[int, int, list[Unit]]:
    units = derivation.units
    return sum(not unit.in_text for unit in units), -len(units), sorted(units)


def _by_number(derivation: Derivation) -> tuple[int, int, list[Unit]]:
    units = derivation.units
    return -len(units), sum(not unit.in_text for unit in units), sorted(units)


def _plain(title: str) -> str:
    """Return a title without its qualifier: "Star" for "Star (horse)"."""
    return re.sub(r" \([^)]*\)$", "", title) or title


def _listed(answer: str) -> list[str]:
    """Return the people that an answer lists, or the answer.

    >>> _listed("Jennifer Aniston and Paul Rudd"), _listed("paranoia and delirium")
    (['Jennifer Aniston', 'Paul Rudd'], ['paranoia and delirium'])
    """
    names = re.split(r", and | and |, ", answer)
    return names if all(map(_PERSON.fullmatch, names)) else [answer]


def _aliases(answer: str, asked: str) -> tuple[Cells, ...]:
    others = tuple(name for name in dict.fromkeys((asked, _plain(asked), _plain(answer))) if name != answer)
    return (others,) if others else ()
