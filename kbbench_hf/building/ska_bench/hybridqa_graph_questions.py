"""Subset `kg_text`, questions by people: HybridQA's questions on the graphs of its tables and the linked pages.

The evidence of a question is the triples of the cells that it quotes or that lead to a page it needs, the triple of the
table's title where it uses words of that alone, and the pages: the one with the answer, and one that holds words of the
question that nothing else in the evidence holds. A question is kept where the evidence accounts for its words, and is
sufficient, necessary and unique over all tables and pages of the subset. Some questions are composed by grammar: from
the number of one page to that of another, through what the table says of the two.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, Program, counts
from kbbench_hf.building.ska_bench import hybridqa
from kbbench_hf.building.ska_bench.graph_programs import SAYS
from kbbench_hf.building.ska_bench.hybridqa_evidence import (
    MOST_WORDS,
    asks_for_another_column,
    comparisons,
    is_of_another_kind,
    states_otherwise,
)
from kbbench_hf.building.ska_bench.hybridqa_graph import (
    GROUP,
    LISTED,
    TableGraph,
    TableGraphs,
    by_number,
    by_triples,
    stems,
)
from kbbench_hf.building.ska_bench.name_matching import mentions, mentions_name, normal_name
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash
from kbbench_hf.metrics.answers import answer_type

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
    return InstanceSet([*people, *composed], {"kg_text": graphs.pool}, counts("kg_text", hybridqa.SOURCE.name, steps))


def make_instance(question: hybridqa.HybridQuestion, graphs: TableGraphs, revision: int = NEWEST) -> Instance | None:
    """Return a question as the instance whose evidence passes every check, or None."""
    text, answer = normal_name(question.text), normal_name(question.answer)
    open_text = text if revision < 2 else _REFERS.sub("", text)
    graph = graphs.graphs.get(question.table)
    if (
        graph is None
        or _ALL_ROWS.search(open_text)
        or _DANGLES.search(open_text)
        or not 0 < len(answer.split()) <= MOST_WORDS
        or mentions(text, answer)
        or (revision > 1 and len(graph.names[question.row].split()) > MOST_NAME_WORDS)
        or (revision > 1 and (is_of_another_kind(question, graph.table) or states_otherwise(question, graph.table)))
        or (question.answer_in_table and asks_for_another_column(question, graph.table))
    ):
        return None
    search = _EvidenceSearch(graphs, graph, question, revision)
    for program in search.programs():
        for instance in graphs.add_units(search.instance(program), [by_triples, by_number]):
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
            return subject if pages[link] == graph.key else terms[pages[link]]

        goal: dict[str, object] = {"find": "?row" if answer_column == graph.key else "?answer"}
        if answer_page:
            goal = {"read": [about(answer_page), *hybridqa.split_answers(self._question.answer)]}
        known = _stems_of(where)
        linked = [link for link in (*bridges, answer_page) if link in self._table.passages]
        listing: list[list[str]] = []
        if (self._words & stems(graph.title)) - known.union(*(stems(self._text(link)) for link in linked if link)):
            listing = [[subject, LISTED, graph.title]]
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
        """Return the page of the row that holds most of the question's words, if any does."""
        weights = {link: self._graphs.weight(self._words & stems(self._text(link))) for link in self._pages}
        best = max(weights, key=lambda link: (weights[link], link), default=None)
        return [best] if best else []

    def _distinct_words(self, link: str, known: frozenset[str], other: str | None) -> str:
        """Return the question's words that this page alone holds; none where another page rivals it."""
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
        text = re.sub(r"\b(the|of|in|a) \1\b", r"\1", f"{question.text[0].upper()}{question.text[1:]}")
        method = "trace of the answer, quoted cells and pages"
        return _instance(self._graphs, self._graph, question.row, question.id, text, answers, program, method, aliases)

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
        if not all(any(mentions_name(text, words) for text in texts) for words in comparisons(self._question.text)):
            return False
        if any(word[0].isdigit() for word in self._words - held):  # "the 9th" is a condition, whatever it weighs
            return False
        covered = self._graphs.weight(self._words & held)
        return bool(units) and covered >= COVERED * self._graphs.weight(self._words)


def _stems_of(where: Iterable[Sequence[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(stems(" ".join(pattern)) for pattern in where))


def _without_kind(title: str) -> str:
    """Return a title without its qualifier: "Star" for "Star (horse)"."""
    return re.sub(r" \([^)]*\)$", "", title) or title


def _aliases(answer: str, other: str) -> tuple[Cells, ...]:
    names = dict.fromkeys((other, _without_kind(other), _without_kind(answer)))
    others = tuple(name for name in names if name != answer)
    return (others,) if others else ()


def _instance(
    graphs: TableGraphs,
    graph: TableGraph,
    row: int,
    source_id: str,
    question: str,
    answers: Cells,
    program: Program,
    method: str,
    aliases: tuple[Cells, ...] = (),
) -> Instance:
    return Instance(
        id=f"hybridqa-{source_id}",
        subset="kg_text",
        question=question,
        answers=answers,
        answer_type=answer_type(answers[0]),
        answer_aliases=aliases,
        split_key=graph.table.name,
        group=GROUP,
        topics=(graph.names[row],),
        own_text=graphs.pages_of(graph.table),
        program=program,
        method=method,
        **hybridqa.SOURCE.fields(source_id),
    )


def compose_chains(graphs: TableGraphs, common: Collection[str] | None = None) -> Iterator[Instance]:
    """Yield one composed question on each table, in the order of the hashes of their names, then others on other rows.

    They are worded by `hybridqa.common_words`; where there are none, as in revision 1, with no others.
    """
    others = []
    for graph in sorted(graphs.graphs.values(), key=lambda each: seeded_hash(f"chain|{each.table.name}")):
        rows = set[int]()
        for pair in hybridqa.number_pairs(graph.table):
            if graph.key in (pair[1].column, pair[3].column) and pair[1].row not in rows:
                instance = _chain(graph, graphs, *pair, common)
                if instance and not graphs.evidence.problems(instance):
                    if not rows:
                        yield instance
                    elif len(rows) < MOST_CHAINS:
                        others.append(instance)
                    rows.add(pair[1].row)
                    if common is None:
                        break
    yield from others


def _chain(
    graph: TableGraph,
    graphs: TableGraphs,
    kind: hybridqa.NumberKind,
    known: hybridqa.StatedNumber,
    target_kind: hybridqa.NumberKind,
    target: hybridqa.StatedNumber,
    common: Collection[str] | None,
) -> Instance | None:
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
    question = f"{question[0].upper()}{question[1:]}"
    name = f"{graph.table.name}-{target.row}-{target.column}-{known.column}"
    instance = _instance(graphs, graph, target.row, name, question, (target.stated,), program, "composed")
    return next(graphs.add_units(instance, [by_triples]), None)
