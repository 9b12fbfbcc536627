"""Subset `kg_text`, questions by people: HybridQA's questions on the graphs of its tables and the linked pages.

The evidence of a question is the triples of the cells that it quotes or that lead to a page it needs, the triple of the
table's title where it uses words of that alone, and the pages: the one with the answer, and one that holds words of the
question that nothing else in the evidence holds. A question is kept where the evidence accounts for its words, and is
sufficient, necessary and unique over all tables and pages of the subset. Some questions are composed by grammar: from
the number of one page to that of another, through what the table says of the two.

A table with a column that names its rows (no two alike) becomes a graph: (name, header, cell) for each other cell, and
(name, "listed in", title). Where no column does, two name a row together: "Kocaelispor (2001-02)". A cell that links to
one page is called by the page's title, so that triples and texts join.

`sources.make_kg_text` joins these instances with those from templates (`tekgen`). Which questions pass depends on every
weight, limit and list of words here: a change of one alters the built dataset.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, product
from math import fsum, log
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, Program, UnitPool, counts
from kbbench_hf.building.ska_bench import hybridqa, hybridqa_evidence
from kbbench_hf.building.ska_bench.evidence import Derivation, Evidence, UnitId
from kbbench_hf.building.ska_bench.graph_programs import SAYS
from kbbench_hf.building.ska_bench.name_matching import mentions, mentions_name, normal_name
from kbbench_hf.building.ska_bench.noise import DecoyIndex
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash
from kbbench_hf.metrics.answers import answer_type
from kbbench_hf.text.dates import MONTH_NUMBER
from kbbench_hf.text.porter import stem

GROUP = "hybridqa"
LISTED = "listed in"
_EMPTY = frozenset(
    "a an and are as at be been by can did do does for from had has have how in into is many much name named of on"
    " s the that there to was were what when where which who whom whose why will with whats called used located year"
    " also".split()
)
"""Words of questions that no evidence has to hold."""
_DATE = re.compile(rf"(?:{'|'.join(MONTH_NUMBER).title()})[a-z]*\.? \d")


@dataclass(frozen=True)
class TableGraph:
    """A table as triples: the names of its rows and cells."""

    table: hybridqa.LinkedTable
    key: int | None
    """The column that names the rows; None where it takes two."""
    names: Cells
    """The name of each row; no two are equal in normal form."""
    nodes: tuple[Cells, ...]
    """The cells of each row, under the title of their page where they link to one."""

    @classmethod
    def from_table(cls, table: hybridqa.LinkedTable) -> "TableGraph | None":
        """Return a table as a graph, named by its first column of names, or by two; None where two do not name it."""
        nodes = tuple(
            tuple(
                hybridqa.title_of(linked[0]) if len(linked) == 1 else cell
                for cell, linked in zip(cells, links, strict=True)
            )
            for cells, links in zip(table.rows, table.links, strict=True)
        )
        of_column = {n: [cells[n] for cells in nodes] for n, header in enumerate(table.header) if header}
        naming = [column for column, cells in of_column.items() if _are_names(cells)]
        for column in naming:
            if _are_distinct(of_column[column]):
                return cls(table, column, tuple(of_column[column]), nodes)
        for column, other in product(naming, of_column):
            names = [f"{cells[column]} ({cells[other]})" for cells in table.rows]
            if column != other and all(of_column[other]) and _are_distinct(names):
                return cls(table, None, tuple(names), nodes)
        return None

    @property
    def title(self) -> str:
        """The table's title, with that of its section."""
        return f"{self.table.title}: {self.table.section}" if self.table.section else self.table.title

    def triple(self, row: int, column: int) -> Cells | None:
        """Return the triple of a cell; None for an empty one, the name itself, or a header that comes twice."""
        header, cell = self.table.header[column], self.nodes[row][column]
        stated = normal_name(cell) and header and self.table.header.count(header) == 1
        return (self.names[row], header, cell) if stated and column != self.key else None

    def listing(self, row: int) -> Cells:
        """Return the triple that says in which table a row is listed."""
        return (self.names[row], LISTED, self.title)


def _are_names(cells: Sequence[str]) -> bool:
    """Return whether a column names things: all cells begin with a letter, none is a date, and most are short."""
    words = sum(len(cell.split()) for cell in cells)
    return all(cell[:1].isalpha() and not _DATE.match(cell) for cell in cells) and words <= 6 * len(cells)


def _are_distinct(cells: Sequence[str]) -> bool:
    return len({normal_name(cell) for cell in cells}) == len(cells)


_stem = lru_cache(maxsize=1 << 16)(stem)


@lru_cache(maxsize=1 << 16)
def stems(text: str) -> frozenset[str]:
    """Return the stems of a text's words without those that no evidence has to hold."""
    return frozenset(_stem(word) for word in normal_name(text).split() if word not in _EMPTY)


class TableGraphs:
    """The graphs of some tables as one pool, with its evidence and word weights."""

    def __init__(self, graphs: Mapping[str, TableGraph]) -> None:
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
        number_of = {triple: number for number, triple in enumerate(ordered)}
        self.pool = UnitPool(
            {GROUP: ordered},
            [(hybridqa.title_of(link), pages[link]) for link in sorted(pages)],
            links={self._page[link]: tuple(sorted(number_of[t] for t in of)) for link, of in linked.items()},
            origins={GROUP: hybridqa.SOURCE.origin},
            text_origins=[hybridqa.SOURCE.origin] * len(pages),
        )
        self.evidence = Evidence(self.pool)
        counts = Counter(word for text in pages.values() for word in stems(text))
        self._idf = defaultdict(lambda: log(len(pages) + 1), {w: log((len(pages) + 1) / n) for w, n in counts.items()})

    def pages_of(self, table: hybridqa.LinkedTable) -> tuple[int, ...]:
        """Return the numbers of the pages that a table links to."""
        return tuple(sorted(self._page[link] for link in table.passages))

    def weight(self, words: Iterable[str]) -> float:
        """Return the summed idf of words, the same in whatever order they come."""
        return fsum(self._idf[word] for word in words)

    def add_units(self, instance: Instance) -> Iterator[Instance]:
        """Yield the instance with the units of its answer's derivation with most triples, and with fewest units.

        Only with both triples and texts; none where no derivation gives the answer, once where the two are one. Of
        several answers it is the first in the order of their normal forms.
        """
        gold = min(normal_name(answer) for answer in instance.answers)
        found = [each for each in self.evidence.derivations(instance) if each.answer == gold]
        for best in dict.fromkeys(max(found, key=order).units for order in (by_triples, by_number) if found):
            sk, text = (tuple(unit.number for unit in sorted(best) if unit.in_text == side) for side in (False, True))
            if sk and text:
                yield replace(instance, positive_sk=sk, positive_text=text)


def by_triples(derivation: Derivation) -> tuple[int, int, list[UnitId]]:
    """Return a key whose largest value is the derivation with most triples, then with fewest units."""
    units = derivation.units
    return sum(not unit.in_text for unit in units), -len(units), sorted(units)


def by_number(derivation: Derivation) -> tuple[int, int, list[UnitId]]:
    """Return a key whose largest value is the derivation with fewest units, then with most triples."""
    units = derivation.units
    return -len(units), sum(not unit.in_text for unit in units), sorted(units)


_ALL_ROWS = re.compile(r"\b(both|either|neither|same|different|former|latter|total|average)\b")
"""The evidence of what compares these is more than one row."""
_DANGLES = re.compile(r"\b(this|these|those|his|her|he|she|they|their|its|it|him)\b")
"""What is meant is outside the question."""
_REFERS = re.compile(r"\b(?:total (?=episodes|points|number)|(?:his|her|he|she|they|their|him)\b)")
"""Words that are taken out of a question before the two are looked for, because they refer to what it names."""
_OF_EVENT = re.compile(r"(?:winner|champion|finalist|opponent|runner-up)s?")
"""What a row says beside these is about the event, not about them."""
COVERED = 0.65
"""The share of a question's words, by weight, that its evidence holds."""
LEAST_WEIGHT = 8.0
"""The least weight (summed idf) of the words by which a page is found."""
RIVAL = 0.6
"""No other page of the table's holds this share of that weight."""
MOST_NAME_WORDS = 12
"""The most words of a row's name: a longer one is a description."""
CHAINED = 0.15
"""The share of questions that are composed."""
MOST_CHAINS = 4
"""The most composed questions on one table."""


def make_instances(folder: Path, revision: int = NEWEST) -> InstanceSet:
    """Return the instances on HybridQA's tables, with the tables' triples and the pages as their pool.

    Raises:
        DataError: a file is absent or malformed.
    """
    questions, tables = hybridqa.read_questions(folder, revision)
    subsets = hybridqa.assign_subsets(questions)
    questions = [question for question in questions if subsets[question.table] == "kg_text"]
    made = {name: TableGraph.from_table(tables[name]) for name in sorted(subsets) if subsets[name] == "kg_text"}
    graphs = TableGraphs({name: graph for name, graph in made.items() if graph})
    people = [instance for question in questions if (instance := make_instance(question, graphs, revision))]
    common = hybridqa.common_words(tables.values()) if revision > 1 else None
    most = int(len(people) * CHAINED / (1 - CHAINED))
    composed = list(islice(compose_chains(graphs, common), most))
    steps = {
        "asked on its half of the tables": len(questions),
        "triples and pages hold their words, and no other answer": len(people),
        "composed": len(composed),
    }
    instances = DecoyIndex(graphs.pool.sk[GROUP]).add_decoys([*people, *composed])
    return InstanceSet(instances, {"kg_text": graphs.pool}, counts("kg_text", hybridqa.SOURCE.name, steps))


def make_instance(question: hybridqa.HybridQuestion, graphs: TableGraphs, revision: int = NEWEST) -> Instance | None:
    """Return a question as the instance with the first evidence that passes every check, or None."""
    text, answer, graph = normal_name(question.text), normal_name(question.answer), graphs.graphs.get(question.table)
    open_text = text if revision < 2 else _REFERS.sub("", text)
    if graph is None or _ALL_ROWS.search(open_text) or _DANGLES.search(open_text) or mentions(text, answer):
        return None
    if not 0 < len(answer.split()) <= hybridqa_evidence.MOST_WORDS:
        return None
    if question.answer_in_table and hybridqa_evidence.asks_for_another_column(question, graph.table):
        return None
    if revision > 1 and (
        len(graph.names[question.row].split()) > MOST_NAME_WORDS
        or hybridqa_evidence.is_of_another_kind(question, graph.table)
        or hybridqa_evidence.states_otherwise(question, graph.table)
    ):
        return None
    search = _EvidenceSearch(graphs, graph, question, revision)
    for program in search.programs():
        for instance in graphs.add_units(search.instance(program)):
            is_told_twice = revision > 1 and search.is_told_twice(instance)
            if search.accounts_for_words(instance) and not is_told_twice and not graphs.evidence.problems(instance):
                return instance
    return None


class _EvidenceSearch:
    """One question on a graph: the programs that may answer it."""

    def __init__(
        self, graphs: TableGraphs, graph: TableGraph, question: hybridqa.HybridQuestion, revision: int
    ) -> None:
        self._revision = revision
        self._graphs, self._graph, self._question = graphs, graph, question
        self._words, self._table = stems(question.text), graph.table
        name, key, row = graph.names[question.row], graph.key, question.row
        text = normal_name(question.text)
        self._named = key is not None and (key in question.quoted or mentions(text, normal_name(_without_kind(name))))
        self._subject = name if self._named else "?row"
        self._quoted = [c for c in question.quoted if c != key and graph.triple(row, c)]
        self._pages: dict[str, int] = {}
        """Links of the row that lead somewhere in the graph -> the column of their cell."""
        for column, links in enumerate(graph.table.links[row]):
            if len(links) == 1 and (column == key or graph.triple(row, column)):
                self._pages.setdefault(links[0], column)
        self._cells = graph.nodes[row]
        answer = normal_name(question.answer)
        self._answer_columns = [
            column
            for column, (cell, node) in enumerate(zip(graph.table.rows[row], self._cells, strict=True))
            if answer in map(normal_name, (cell, node, _without_kind(node)))
        ]

    def programs(self) -> Iterator[Program]:
        """Yield programs of more and more conditions: quoted cells, then what pages say."""
        question, pages = self._question, self._pages
        bridges = [link for link in question.bridges if link in pages][:1]
        if len(bridges) < len(question.bridges[:1]):
            return
        if question.answer_in_table:
            columns = self._answer_columns
            if len(columns) != 1 or columns[0] in question.quoted or (columns[0] == self._graph.key and self._named):
                return
            if found := bridges or self._likeliest_page():
                yield from self._with_conditions(found, None, columns[0])
        else:
            holding = [link for link in pages if mentions(self._text(link), normal_name(question.answer))]
            if len(holding) == 1 and tuple(holding) == question.answer_passages and holding != bridges:
                yield from self._with_conditions(bridges, holding[0], -1)

    def _with_conditions(
        self, bridges: Sequence[str], answer_page: str | None, answer_column: int
    ) -> Iterator[Program]:
        """Yield programs that find a cell of a column, or, where a page has the answer (column -1), read that page."""
        graph, pages, subject = self._graph, self._pages, self._subject
        terms: dict[int, str] = {column: self._cells[column] for column in self._quoted}
        for link in [*bridges, *([answer_page] if answer_page else [])]:
            terms.setdefault(pages[link], f"?{pages[link]}")
        if answer_column >= 0 and answer_column != graph.key:
            terms[answer_column] = "?answer"
        if graph.key is not None:
            terms.pop(graph.key, None)
        where = [[subject, self._table.header[column], term] for column, term in sorted(terms.items())]

        def about(link: str) -> str:
            """Return the term of what a page is about: the row, or its cell's."""
            return subject if pages[link] == graph.key else terms[pages[link]]

        goal: dict[str, object] = {"find": "?row" if answer_column == graph.key else "?answer"}
        if answer_page:
            goal = {"read": [about(answer_page), *hybridqa.split_answers(self._question.answer)]}
        known = frozenset[str]().union(*(stems(" ".join(pattern)) for pattern in where))
        held = known.union(*(stems(self._text(link)) for link in (*bridges, answer_page) if link))
        # needed where the question has words that only the title holds
        listing = [[subject, LISTED, graph.title]] if (self._words & stems(graph.title)) - held else []
        says = [[about(link), SAYS, self._distinct_words(link, known, answer_page)] for link in bridges]
        if not all(words for *_, words in says):
            return
        if self._revision > 1 and self._named and listing and where:  # its name is enough, where no other row has it
            yield {"type": "match", **goal, "where": [*where, *says]}
        yield {"type": "match", **goal, "where": [*where, *listing, *says]}
        if answer_page and (words := self._distinct_words(answer_page, known, None)):
            yield {"type": "match", **goal, "where": [*where, *listing, *says, [about(answer_page), SAYS, words]]}

    def _text(self, link: str) -> str:
        return normal_name(f"{hybridqa.title_of(link)} {self._table.passages[link]}")

    def _likeliest_page(self) -> list[str]:
        """Return the page of the row that holds most of the question's words, in a list; empty without pages."""
        weights = {link: self._graphs.weight(self._words & stems(self._text(link))) for link in self._pages}
        best = max(weights, key=lambda link: (weights[link], link), default=None)
        return [best] if best else []

    def _distinct_words(self, link: str, known: frozenset[str], other: str | None) -> str:
        """Return the question's words that this page alone holds, in its order; "" where another page rivals it."""
        known |= stems(self._graph.title) | (stems(self._text(other)) if other else set())
        words = self._words & (stems(self._text(link)) - known)
        weight = self._graphs.weight(words)
        rivals = (stems(self._text(rival)) for rival in self._table.passages if rival != link)
        if weight < LEAST_WEIGHT or any(self._graphs.weight(words & rival) >= RIVAL * weight for rival in rivals):
            return ""
        return " ".join(dict.fromkeys(word for word in self._text(link).split() if stems(word) & words))

    def instance(self, program: Program) -> Instance:
        """Return the question as an instance without units."""
        question, table = self._question, self._table
        answers, aliases = tuple(hybridqa.split_answers(question.answer)), tuple[Cells, ...]()
        if question.answer_in_table and self._answer_columns:
            answer = self._cells[self._answer_columns[0]]
            answers, aliases = (answer,), _aliases(answer, question.answer)
        elif normal_name(table.passages[question.answer_passages[0]]).startswith(f"{normal_name(question.answer)} "):
            # the page begins with the answer, so that its title is another name of it
            aliases = _aliases(question.answer, hybridqa.title_of(question.answer_passages[0]))
        text = re.sub(r"\b(the|of|in|a) \1\b", r"\1", f"{question.text[:1].upper()}{question.text[1:]}")
        fields = {"question": text, "answers": answers, "answer_aliases": aliases, "program": program}
        method = "trace of the answer, quoted cells and pages"
        return _instance(self._graphs, self._graph, question.row, question.id, method=method, **fields)

    def is_told_twice(self, instance: Instance) -> bool:
        """Return whether the page with the answer says what a triple does, by a shorter name than the triple's."""
        pool, answering = self._graphs.pool, () if self._question.answer_in_table else instance.positive_text
        return any(
            title == head and mentions_name(text, re.sub(r"(?: City)?(?:,| \().*", "", tail))
            for title, text in (pool.text[number] for number in answering)
            for head, _, tail in (pool.sk[GROUP][number] for number in instance.positive_sk)
        )

    def accounts_for_words(self, instance: Instance) -> bool:
        """Return whether the positive units hold the question's comparisons, numbers and most of its words."""
        pool, key = self._graphs.pool, self._graph.key
        units = [pool.sk[GROUP][n] for n in instance.positive_sk] + [pool.text[n] for n in instance.positive_text]
        texts = [" ".join(cells) for cells in units]
        held = set().union(*map(stems, texts))
        held |= stems(self._table.header[key]) if key is not None else set()  # what kind of thing the rows are
        held |= stems(self._subject) if self._named else set()
        if not all(
            any(mentions_name(text, words) for text in texts)
            for words in hybridqa_evidence.comparisons(self._question.text)
        ):
            return False
        if any(word[0].isdigit() for word in self._words - held):  # "the 9th" is a condition, whatever it weighs
            return False
        covered = self._graphs.weight(self._words & held)
        return bool(units) and covered >= COVERED * self._graphs.weight(self._words)


def _without_kind(title: str) -> str:
    """Return a title without its qualifier: "Star" for "Star (horse)"."""
    return re.sub(r" \([^)]*\)$", "", title) or title


def _aliases(answer: str, other: str) -> tuple[Cells, ...]:
    """Return the aliases of one answer, as `Instance` has them: its other name, and both without a qualifier."""
    names = dict.fromkeys((other, _without_kind(other), _without_kind(answer)))
    others = tuple(name for name in names if name != answer)
    return (others,) if others else ()


def _instance(graphs: TableGraphs, graph: TableGraph, row: int, source_id: str, **fields: Any) -> Instance:
    """Return a question without units from its other fields."""
    return Instance(
        id=f"hybridqa-{source_id}",
        subset="kg_text",
        answer_type=answer_type(fields["answers"][0]),
        split_key=graph.table.name,
        group=GROUP,
        topics=(graph.names[row],),
        own_text=graphs.pages_of(graph.table),
        **hybridqa.SOURCE.fields(source_id),
        **fields,
    )


def compose_chains(graphs: TableGraphs, common: Collection[str] | None = None) -> Iterator[Instance]:
    """Yield one composed question on each table, by hashes of tables' names, then up to three more on other rows.

    They are worded by `hybridqa.common_words`; where there are none, as in revision 1, with no others.
    """
    others = []
    for graph in sorted(graphs.graphs.values(), key=lambda each: seeded_hash(f"chain|{each.table.name}")):
        made = dict[int, Instance]()
        for pair in hybridqa.number_pairs(graph.table):
            row, is_open = pair[1].row, len(made) < (MOST_CHAINS if common is not None else 1)
            if is_open and row not in made and graph.key in (pair[1].column, pair[3].column):
                instance = _chain(graph, graphs, pair, common)
                if instance and not graphs.evidence.problems(instance):
                    made[row] = instance
        yield from [*made.values()][:1]
        others += [*made.values()][1:]
    yield from others


def _chain(
    graph: TableGraph, graphs: TableGraphs, pair: hybridqa.NumberPair, common: Collection[str] | None
) -> Instance | None:
    """Return a composed question; None where no word calls its entities, or no derivation gives the answer."""
    kind, known, target_kind, target = pair
    header, condition = graph.table.header, kind.says.format(known.stated)
    what = hybridqa.header_noun(header[target.column], target_kind.noun)
    given = hybridqa.header_noun(header[known.column], kind.noun)
    if target.column == graph.key:
        question = target_kind.asks.format(f'{what} listed in "{graph.title}"') + f" whose {given} {condition}?"
        topic, bearer, where = "?row", "?known", ["?row", header[known.column], "?known"]
    else:
        question = target_kind.asks.format(f"{what} of the {given}") + f', listed in "{graph.title}", that {condition}?'
        topic, bearer, where = "?asked", "?row", ["?row", header[target.column], "?asked"]
    if common is not None:
        what = hybridqa.spoken_noun(header[target.column], target_kind, common)
        given = hybridqa.spoken_noun(header[known.column], kind, common)
        bears = f"whose {given} {condition}" if target.column == graph.key else f"of the {given} {kind.bears}"
        if not what or not given or (target.column != graph.key and _OF_EVENT.fullmatch(given)):
            return None
        asked = f"what is the {target_kind.attribute} of the {what} {bears.format(known.stated)}?"
        question = f'In the list "{graph.title}", {asked}'
    program = {
        "type": "match",
        "read": [topic, target.stated],
        "where": [where, ["?row", LISTED, graph.title], [bearer, SAYS, normal_name(known.stated)]],
    }
    name = f"{graph.table.name}-{target.row}-{target.column}-{known.column}"
    fields = {"question": f"{question[0].upper()}{question[1:]}", "answers": (target.stated,), "program": program}
    instance = _instance(graphs, graph, target.row, name, method="composed", **fields)
    return next(graphs.add_units(instance), None)
