"""Subset `kg_text`, people's part: HybridQA's questions on the graphs of its tables and the linked pages.

The evidence of a question is the triples of the cells that it quotes or that lead to a page it needs, the triple of the
table's title where it uses words of that alone, and the pages: the one with the answer, and one that holds words of the
question that nothing else in the evidence holds. A question is kept where the evidence accounts for its words, and is
sufficient, necessary and unique over all tables and pages of the subset. Some questions are composed by grammar: from
what one page states to what another one does, through what the table says of the two.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.graph_programs import SAYS, Program
from kbbench_hf.benchmarks.ska_bench.mentions import mentions, normal_name
from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, Instance, Release, counts
from kbbench_hf.building.ska_bench.evidence_words import says
from kbbench_hf.building.ska_bench.hybridqa_evidence import (
    MOST_WORDS,
    asks_for_another_column,
    comparisons,
)
from kbbench_hf.building.ska_bench.hybridqa_graph import (
    GROUP,
    LISTED,
    Graph,
    Graphs,
    by_number,
    by_triples,
    stems,
)
from kbbench_hf.building.ska_bench.hybridqa_tables import (
    SOURCE,
    Question,
    listed,
    read,
    subset_of,
    title_of,
)
from kbbench_hf.building.ska_bench.stated_facts import Fact, Kind, noun, pairs_of
from kbbench_hf.metrics.typed_answers import answer_type

_ALL_ROWS = re.compile(r"\b(both|either|neither|same|different|former|latter|total|average)\b")
"""The evidence of what compares these is more than one row."""
_DANGLES = re.compile(r"\b(this|these|those|his|her|he|she|they|their|its|it|him)\b")
"""What is meant stands outside of the question."""
COVERED = 0.65
"""The share of a question's words, by weight, that its evidence holds."""
LEAST_WEIGHT = 8.0
"""The least weight (summed idf) of the words by which a page is found."""
RIVAL = 0.6
"""No other page of the table's holds so large a share of that weight."""
CHAINED = 0.15
"""The share of questions that are composed."""


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
    pool = Graphs(graphs)
    asked = [instance for question in questions if (instance := asked_by_people(question, pool))]
    most = int(len(asked) * CHAINED / (1 - CHAINED))
    composed = list(islice(chains(graphs.values(), pool), most))
    steps = {
        "asked on its half of the tables": len(questions),
        "triples and pages hold their words, and no other answer": len(asked),
        "composed": len(composed),
    }
    return Release([*asked, *composed], {"kg_text": pool.pool}, counts("kg_text", SOURCE.name, steps))


def asked_by_people(question: Question, graphs: Graphs) -> Instance | None:
    """Return a question as an instance, or None where it or its evidence is not in order."""
    asked, answer = normal_name(question.text), normal_name(question.answer)
    graph = graphs.graphs.get(question.table)
    if (
        graph is None
        or _ALL_ROWS.search(asked)
        or _DANGLES.search(asked)
        or not answer
        or len(answer.split()) > MOST_WORDS
        or mentions(asked, answer)
        or (question.answer_in_table and asks_for_another_column(question, graph.table))
    ):
        return None
    return _Asked(graphs, graph, question).instance()


class _Asked:
    """One question and what its evidence is made of."""

    def __init__(self, graphs: Graphs, graph: Graph, question: Question) -> None:
        self._graphs, self._graph, self._question = graphs, graph, question
        self._row, self._words = question.row, stems(question.text)
        name = graph.names[question.row]
        self._named = graph.key is not None and (
            graph.key in question.quoted or mentions(normal_name(question.text), normal_name(_plain(name)))
        )
        self._subject = name if self._named else "?row"
        self._quoted = [c for c in question.quoted if c != graph.key and graph.triple(self._row, c)]

    def instance(self) -> Instance | None:
        """Return the instance whose evidence passes every check, or None."""
        for program in self._programs():
            for instance in self._with_evidence(program):
                if self._accounts_for_words(instance) and not self._graphs.evidence.problems(instance):
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
        if graph.key is not None:
            terms.pop(graph.key, None)
        where = [[self._subject, graph.table.header[column], term] for column, term in sorted(terms.items())]

        def about(link: str) -> str:
            column = pages[link]
            return self._subject if column == graph.key else terms[column]

        find = {"find": "?row" if answer_column == graph.key else "?answer"}
        goal = {"read": [about(for_answer), *listed(self._question.answer)]} if for_answer else find
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
        weights = {link: self._graphs.weight(self._words & stems(self._text(link))) for link in pages}
        best = max(weights, key=lambda link: (weights[link], link), default=None)
        return [best] if best else []

    def _said(self, link: str, where: Sequence[Sequence[str]], other: str | None, pages: Mapping[str, int]) -> str:
        """Return the question's words that this page alone holds; none where another page rivals it."""
        if link not in pages:
            return ""
        known = set().union(*(stems(" ".join(pattern)) for pattern in where)) | stems(self._graph.listed)
        known |= stems(self._text(other)) if other else set()
        words = self._words & (stems(self._text(link)) - known)
        weight = self._graphs.weight(words)
        if weight < LEAST_WEIGHT:
            return ""
        for rival in self._graph.table.passages:
            if rival != link and self._graphs.weight(words & stems(self._text(rival))) >= RIVAL * weight:
                return ""
        return " ".join(dict.fromkeys(word for word in self._text(link).split() if stems(word) & words))

    def _uses_title(self, where: Sequence[Sequence[str]], links: Sequence[str | None]) -> bool:
        known = set().union(*(stems(" ".join(pattern)) for pattern in where))
        known |= set().union(
            *(stems(self._text(link)) for link in links if link and link in self._graph.table.passages)
        )
        return bool((self._words & stems(self._graph.listed)) - known)

    def _with_evidence(self, program: Program) -> Iterator[Instance]:
        """Yield the instance with the evidence that triples state as far as they can, then with the fewest units."""
        question = self._question
        column = next((c for c in range(len(self._graph.table.header)) if self._is_answer(c)), None)
        answers, aliases = tuple(listed(question.answer)), tuple[Cells, ...]()
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
            topics=(self._graph.names[self._row],),
            own_text=self._graphs.pages_of(self._graph.table),
            program=program,
            method="trace of the answer, quoted cells and pages",
            source=SOURCE.name,
            source_id=question.id,
            commit=SOURCE.commit,
            licence=SOURCE.licence,
        )
        yield from self._graphs.with_units(instance, [by_triples, by_number])

    def _opens_page(self, question: Question) -> bool:
        """Say whether the page with the answer begins with it, so that its title is another name of the answer."""
        text = self._graph.table.passages[question.answer_passages[0]]
        return normal_name(text).startswith(f"{normal_name(question.answer)} ")

    def _accounts_for_words(self, instance: Instance) -> bool:
        pool = self._graphs.pool
        units = [pool.sk[GROUP][n] for n in instance.positive_sk] + [pool.text[n] for n in instance.positive_text]
        held = set().union(*(stems(" ".join(cells)) for cells in units))
        if self._graph.key is not None:
            held |= stems(self._graph.table.header[self._graph.key])  # what kind of thing the rows are
        if self._named:
            held |= stems(self._subject)
        if not all(any(says(" ".join(cells), words) for cells in units) for words in comparisons(self._question.text)):
            return False
        if any(word[0].isdigit() for word in self._words - held):  # "the 9th" is a condition, whatever it weighs
            return False
        total = self._graphs.weight(self._words)
        return bool(units) and self._graphs.weight(self._words & held) >= COVERED * total


def _plain(title: str) -> str:
    """Return a title without its qualifier: "Star" for "Star (horse)"."""
    return re.sub(r" \([^)]*\)$", "", title) or title


def _aliases(answer: str, asked: str) -> tuple[Cells, ...]:
    others = tuple(name for name in dict.fromkeys((asked, _plain(asked), _plain(answer))) if name != answer)
    return (others,) if others else ()


def chains(tables: Iterable[Graph], graphs: Graphs) -> Iterator[Instance]:
    """Yield at most one question on each table, in the order of the hashes of their names."""
    for graph in sorted(tables, key=lambda each: hashlib.sha256(f"{SEED}|chain|{each.table.name}".encode()).digest()):
        for kind, known, asked_kind, asked in pairs_of(graph.table):
            if graph.key in (known.column, asked.column):
                instance = _chain(graph, graphs, kind, known, asked_kind, asked)
                if instance and not graphs.evidence.problems(instance):
                    yield instance
                    break


def _chain(graph: Graph, graphs: Graphs, kind: Kind, known: Fact, asked_kind: Kind, asked: Fact) -> Instance | None:
    header = graph.table.header
    what = noun(header[asked.column], asked_kind.noun)
    given = noun(header[known.column], kind.noun)
    if asked.column == graph.key:
        wanted = asked_kind.asks.format(f'{what} listed in "{graph.listed}"')
        question = f"{wanted} whose {given} {kind.says.format(known.stated)}?"
        about, where = ("?row", "?known"), ["?row", header[known.column], "?known"]
    else:
        said = kind.says.format(known.stated)
        question = f'{asked_kind.asks.format(f"{what} of the {given}")}, listed in "{graph.listed}", that {said}?'
        about, where = ("?asked", "?row"), ["?row", header[asked.column], "?asked"]
    told = [about[1], SAYS, normal_name(known.stated)]
    program = {
        "type": "match",
        "read": [about[0], asked.stated],
        "where": [where, ["?row", LISTED, graph.listed], told],
    }
    name = f"{graph.table.name}-{asked.row}-{asked.column}-{known.column}"
    instance = Instance(
        id=f"hybridqa-{name}",
        subset="kg_text",
        question=f"{question[0].upper()}{question[1:]}",
        answers=(asked.stated,),
        answer_type=answer_type(asked.stated),
        split_key=graph.table.name,
        group=GROUP,
        topics=(graph.names[asked.row],),
        own_text=graphs.pages_of(graph.table),
        program=program,
        method="composed",
        source=SOURCE.name,
        source_id=name,
        commit=SOURCE.commit,
        licence=SOURCE.licence,
    )
    return next(graphs.with_units(instance, [by_triples]), None)
