"""Noise units: which units surround the positives of an instance, in the order in which budgets take them.

Of a graph: a few triples of each topic, of each positive entity and of each decoy, then the rest by hash. Of a table:
near rows and real rows in turn, its own rows before those of tables with the same header, as long as real rows last.
Of passages: those of its own table or subgraph, then the rest by hash. No unit is noise that an answer may follow from.

*Decoys* are entities like those of the evidence. *Near rows* are real rows with one cell replaced by another value of
its column: some meet a part of the question's conditions, some mention a named cell in another column. None meets all
conditions, in a strict or in a generous reading, so no answer follows from them. From revision 2 on none keeps the key
of a needed row with other values, which would contradict it: it has the key cells of another row. Nor does one
contradict itself: where the table's rows have sums ("Total"), so has every made row.

`table` stores the near rows in its pool, `testbeds` draws contexts from `NoiseLibrary`, and `mini-ska`'s script makes
near rows too. Orders come from hashes of ids and lines, so that any change of one, or of a limit, alters the contexts.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, combinations, islice, product, zip_longest

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.token_counts import tokenizer
from kbbench_hf.benchmarks.ska_bench.units import (
    UNREACHED,
    Cells,
    Instance,
    Program,
    TripleGraph,
    UnitPool,
    write_passage,
    write_row,
    write_triple,
)
from kbbench_hf.building.ska_bench import programs
from kbbench_hf.building.ska_bench.evidence import Derivation, Evidence
from kbbench_hf.building.ska_bench.name_matching import mentions, normalize_cell
from kbbench_hf.building.ska_bench.unit_orders import Units, measure, merge, seeded_hash
from kbbench_hf.metrics.answers import wtq_normal

TRIPLES_PER_ENTITY = 6
"""How many triples of one entity precede the rest of a graph: a gold entity is no more frequent than a decoy."""
DECOYS_PER_ENTITY = 3
NEAREST = 32
"""Decoys are drawn from this many entities of the same role with the nearest numbers of triples."""
SWAPS = 8
"""Near rows per positive row that differ from it in one condition cell alone."""
DISTINCT = 0.9
"""The share of a column's cells that differ, and that are names, from which on they identify rows."""
ADD_UP = 0.8
"""The share of a table's rows whose cells add up from which on those of every made row do."""
MOST_OTHERS = 150
"""How many of the other rows are changed into near rows."""
LEADING_ROWS = 24
"""Near rows at the front that mention what the question names, where there are enough."""
_PLAIN = re.compile(r"\d[\d,]*(?:\.\d+)?")


class DecoyIndex:
    """Entities by role (head or tail of a relation) and number of triples, to find similar ones."""

    def __init__(self, triples: Sequence[Cells]) -> None:
        self._triples = triples
        self._degree = Counter(name for head, _, tail in triples for name in (head, tail))
        players = defaultdict[tuple[str, int], set[str]](set)
        for triple in triples:
            for side in (0, 2):
                players[triple[1], side].add(triple[side])
        self._players = {role: sorted((self._degree[name], name) for name in names) for role, names in players.items()}

    def add_decoys(self, instances: Iterable[Instance]) -> list[Instance]:
        """Return instances with decoys for every entity of their positive triples, none of them in these triples."""
        return [replace(each, decoys=self._find_decoys(each)) for each in instances]

    def _find_decoys(self, instance: Instance) -> Cells:
        roles: dict[str, tuple[str, int]] = {}
        for triple in sorted(self._triples[number] for number in instance.positive_sk):
            for side in (0, 2):
                roles.setdefault(triple[side], (triple[1], side))
        found: dict[str, None] = {}
        for name, role in sorted(roles.items()):
            players = self._players[role]
            place = bisect_left(players, (self._degree[name], name))
            start = max(0, min(place - NEAREST // 2, len(players) - NEAREST))
            near = [other for _, other in players[start : start + NEAREST] if other not in roles and other not in found]
            near.sort(key=lambda other: seeded_hash(f"decoy|{instance.id}|{other}"))
            found |= dict.fromkeys(near[:DECOYS_PER_ENTITY])
        return tuple(found)


def key_columns(rows: Sequence[Cells]) -> tuple[int, ...]:
    """Return the columns whose cells each identify a row of a table: the first one, and the first that has names.

    Both only where nearly all of their cells differ.

    >>> key_columns([("1", "Oslo", "Norway"), ("2", "Lund", "Sweden"), ("3", "Bergen", "Norway")])
    (0, 1)
    """
    distinct = [n for n, cells in enumerate(zip(*rows, strict=True)) if len(set(cells)) >= DISTINCT * len(rows)]
    names = [n for n in distinct if sum(programs.parse_number(row[n]) is None for row in rows) >= DISTINCT * len(rows)]
    return tuple(sorted({*(n for n in distinct if n == 0), *names[:1]}))


def contradicts_needed_row(made: Cells, needed: Cells, keys: Sequence[int]) -> bool:
    """Return whether a row says something else about the thing of a needed row: it has a key of it, or its first cells.

    >>> contradicts_needed_row(("Oslo", "1993", "4"), ("Oslo", "1994", "4"), keys=(0,))
    True
    >>> contradicts_needed_row(("Lund", "1994", "4"), ("Oslo", "1994", "4"), keys=(0,))
    False
    """
    return made != needed and (made[:2] == needed[:2] or any(made[n] == needed[n] != "" for n in keys))


def summed_columns(rows: Sequence[Cells]) -> list[tuple[int, slice]]:
    """Return the columns that hold sums, each with the neighboring columns whose numbers it sums up, by the latter.

    >>> summed_columns([("A", "1", "2", "3"), ("B", "4", "0", "4"), ("C", "2", "2", "4"), ("D", "5", "1", "6")])
    [(3, slice(1, 3, None))]
    """
    numbers = np.array([[programs.parse_number(cell) for cell in row] for row in rows], dtype=float)
    found = []
    for first, last in combinations(range(numbers.shape[1] + 1), 2):
        sums, several = numbers[:, first:last].sum(axis=1), np.count_nonzero(numbers[:, first:last], axis=1) > 1
        for column in {*range(numbers.shape[1])} - {*range(first, last)} if last - first > 1 else ():
            known = ~np.isnan(sums + numbers[:, column])
            stated = several & known  # where one part alone is not 0, that it is the sum says little
            n_right = np.isclose(sums, numbers[:, column])[stated].sum()
            if n_right > 2 and n_right >= ADD_UP * stated.sum() and 4 * known.sum() >= len(rows):
                found.append((column, slice(first, last)))
    return found


def _surplus(cells: Sequence[str], whole: int, parts: slice) -> float:
    """Return how much the number of one cell exceeds the sum of others, to 6 decimals; 0 where one is no number."""
    total, *numbers = (programs.parse_number(cell) for cell in (cells[whole], *cells[parts]))
    known = [number for number in numbers if number is not None]
    return 0.0 if total is None or len(known) < len(numbers) else round(total - sum(known), 6)


def looks_like_evidence(program: Program, row: Cells) -> bool:
    """Return whether a row of noise meets some of a program's conditions, or names the value of a single one elsewhere.

    >>> looks_like_evidence({"type": "count", "where": [[0, "oslo"], [1, ">", "3"]]}, ("Oslo", "2"))
    True
    >>> looks_like_evidence({"type": "count", "where": [[0, "oslo"]]}, ("Lund", "by train from Oslo"))
    True
    """
    for where in programs.alternatives(program):
        if len(where) > 1 and any(programs.meets([condition], row) for condition in where):
            return True
        if len(where) == 1:
            column, test, value = programs.split_condition(where[0])
            others = (normalize_cell(cell) for n, cell in enumerate(row) if n != column)
            if test in ("=", "contains") and any(mentions(cell, value) for cell in others):
                return True
    return False


class NearRowMaker:
    """Makes the near rows of one instance.

    Args:
        name: the instance's id, which determines the order.
        question: its words decide which cells are named.
        program: what a near row must not meet.
        positives: the rows that the program reads.
        others: the other real rows that the question may be asked on.
        keys: the `key_columns` of its table, so that no near row contradicts a positive one; None allows that.
    """

    def __init__(
        self,
        name: str,
        question: str,
        program: Program,
        positives: Sequence[Cells],
        others: Sequence[Cells],
        keys: Sequence[int] | None = None,
    ) -> None:
        self._name, self._program, self._positives, self._keys = name, program, positives, keys
        self._leaves_answer = programs.leaves_answer(program)
        self._real = {*positives, *others}
        self._sums = [] if keys is None else summed_columns(sorted(self._real))
        self._others = self._in_order(row for row in dict.fromkeys(others) if row not in set(positives))
        self._values = [sorted(set(column)) for column in zip(*positives, *others, strict=True)]
        text = normalize_cell(question)
        self._named = [
            [value for value in values if len(cell := normalize_cell(value)) > 1 and mentions(text, cell)]
            for values in self._values
        ]

    def make(self, limit: int) -> list[Cells]:
        """Return up to `limit` different near rows, in the order in which contexts take them.

        First come `LEADING_ROWS` in turn of three kinds: rows that gained a named cell, those that hold most of them
        first; positive rows with one condition cell changed; other rows given one condition's value. Then follow the
        rest of the swaps, `SWAPS` for each positive row, and rows with any cell replaced. There are fewer where all
        values have had their turn.
        """
        front = [row for row in chain(*zip_longest(self.mentioning(), self.swapped(1), self.given())) if row]
        made: dict[Cells, None] = {}
        for row in chain(front[:LEADING_ROWS], self.swapped(SWAPS), front[LEADING_ROWS:], self.resampled()):
            made.setdefault(row)
            if len(made) == limit:
                break
        return list(made)

    def _hash(self, text: str) -> int:
        return int.from_bytes(seeded_hash(f"near|{self._name}|{text}")[:8], "big")

    def _in_order(self, rows: Iterable[Cells]) -> list[Cells]:
        """Return rows in the order of their hashes for this instance."""
        return sorted(rows, key=lambda row: self._hash(write_row(row)))

    def _replaced(self, changes: Iterable[tuple[Cells, int, str]]) -> Iterator[Cells]:
        """Yield each row with the value in the column, where the row changes and becomes a near row."""
        for row, column, value in changes:
            made = self._with_another_key((*row[:column], value, *row[column + 1 :]), column)
            made = self._balanced(made, column)
            is_new = value != row[column] and made not in self._real and self._leaves_answer(made)
            if is_new and not self._is_contradiction(made) and not any(_surplus(made, *each) for each in self._sums):
                yield made

    def _balanced(self, made: Cells, kept: int) -> Cells:
        """Return a row whose sums are right: with another sum, or another number in it where `kept` is the sum."""
        cells = [*made]
        for whole, parts in self._sums:
            if surplus := _surplus(cells, whole, parts):
                for column in [whole] if whole != kept else range(parts.start, parts.stop):
                    number = (programs.parse_number(cells[column]) or 0) + surplus * (1 if whole == kept else -1)
                    if number >= 0 and _PLAIN.fullmatch(cells[column]):
                        written = f"{number:,.{len(cells[column].partition('.')[2])}f}"
                        cells[column] = written if "," in cells[column] else written.replace(",", "")
                        break
        return tuple(cells)

    def _is_contradiction(self, made: Cells) -> bool:
        """Return whether a row contradicts a positive one; never where contradictions are allowed (revision 1)."""
        return self._keys is not None and any(contradicts_needed_row(made, row, self._keys) for row in self._positives)

    def _with_another_key(self, made: Cells, kept: int) -> Cells:
        """Return a row with the key cells of another row, except in column `kept`, if it contradicts a positive one."""
        if not self._others or not self._is_contradiction(made):
            return made
        other = self._others[self._hash(f"key|{write_row(made)}") % len(self._others)]
        given = {0, 1, *(self._keys or ())} - {kept}
        return tuple(other[n] if n in given else cell for n, cell in enumerate(made))

    def mentioning(self) -> list[Cells]:
        """Return rows that gained a named cell in a column; those that hold most named cells first."""
        bases = [*self._positives, *self._others[:MOST_OTHERS]]
        named = [(column, value) for column, values in enumerate(self._named) for value in values]
        changes = ((row, *each) for row, each in product(bases, named))
        rows = self._in_order(dict.fromkeys(self._replaced(changes)))
        return sorted(rows, key=lambda row: -sum(map(list.__contains__, self._named, row)))

    def swapped(self, limit: int) -> list[Cells]:
        """Return up to `limit` rows for each positive row that differ from it in one condition cell alone."""
        found: list[Cells] = []
        for row in self._positives:
            matching = [where for where in programs.alternatives(self._program) if programs.meets(where, row)]
            columns = sorted({condition[0] for where in matching for condition in where})
            start = self._hash(write_row(row))  # where each column's values begin
            changes = (
                (row, column, self._values[column][(start + turn) % len(self._values[column])])
                for turn in range(max(len(self._values[column]) for column in columns))
                for column in columns
                if turn < len(self._values[column])
            )
            found += islice(self._replaced(change for change in changes if change[2]), limit)
        return found

    def given(self) -> list[Cells]:
        """Return other rows that now meet one condition of several."""
        changes = (
            (row, column, cell)
            for column, test, value in dict.fromkeys(chain(*programs.split_conditions(self._program)))
            for cells in [[cell for cell in self._values[column] if programs.TESTS[test](cell, value)][:2]]
            for row, cell in product(self._others[:MOST_OTHERS], cells)
        )
        return self._in_order(dict.fromkeys(self._replaced(changes)))

    def resampled(self) -> Iterator[Cells]:
        """Yield rows with any one cell replaced, row after row in turn, until every value has had its turn."""
        bases, width = self._in_order([*self._positives, *self._others]), len(self._values)
        turns = product(range(width * max(map(len, self._values))), bases)
        picked = ((row, self._hash(f"{turn}|{write_row(row)}")) for turn, row in turns)
        return self._replaced(
            (row, pick % width, values[pick // width % len(values)])
            for row, pick in picked
            for values in [self._values[pick % width]]
        )


@dataclass(frozen=True)
class ContextUnits:
    """The units from which the contexts of one instance are made, numbered as `UnitPool` numbers them."""

    header_tokens: int
    """Of a table's header; 0 for a graph."""
    positives: Units
    noise: Units
    """In the order in which budgets take it."""
    emptied: Units
    """Of a table: its own rows in their order, each with one cell emptied, for the rejection twins alone."""
    derivations: list[Derivation]
    """On a graph: every way in which an answer follows from the pool."""


class NoiseLibrary:
    """A subset's pool, measured once, from which the units of each instance are drawn."""

    def __init__(self, pool: UnitPool, revision: int = NEWEST) -> None:
        self.pool, self.revision, self._evidence = pool, revision, Evidence(pool)
        self._text = measure([write_passage(cells) for cells in pool.text], in_text=True)
        self._normal_text = [wtq_normal(" ".join(cells)) for cells in pool.text]
        self.graph = cache(lambda group: TripleGraph(pool.sk[group]))
        self._triples = cache(lambda group: measure([*map(write_triple, pool.sk[group])], in_text=False))
        self._rows = cache(lambda group: measure([*map(write_row, pool.sk[group])], in_text=False))
        self._mentioning = cache(self._find_mentions)

    def context_units(self, instance: Instance) -> ContextUnits:
        """Return an instance's positives and its noise, in the order in which budgets take it."""
        return self._of_table(instance) if instance.is_table else self._of_graph(instance)

    def _find_mentions(self, literal: str) -> NDArray[np.bool_]:
        """Return for each passage whether it mentions this, in normal form, as whole words."""
        return np.array([literal in text and mentions(text, literal) for text in self._normal_text], dtype=bool)

    def _of_graph(self, instance: Instance) -> ContextUnits:
        derivations = self._evidence.derivations(instance)
        hops, text_hops = self.graph(instance.group).hops(instance.topics), np.full(len(self._text), UNREACHED)
        for passage, links in self.pool.links_of(instance.group).items():
            text_hops[passage] = min(hops[list(links)], default=UNREACHED)
        sk, text = replace(self._triples(instance.group), hops=hops), replace(self._text, hops=text_hops)
        evidence = {unit for derivation in derivations for unit in derivation.units}
        triples = {*instance.positive_sk, *instance.withheld_sk, *(n for in_text, n in evidence if not in_text)}
        passages = {*instance.positive_text, *(n for in_text, n in evidence if in_text)}
        sk_noise = self._nearest_first(instance, sk[~np.isin(sk.numbers, sorted(triples))])
        text_noise = self._own_first(instance, text[~np.isin(text.numbers, sorted(passages))])
        noise = merge(sk_noise, text_noise, sk_noise.n_tokens / max(1, sk_noise.n_tokens + text_noise.n_tokens))
        positives = sk[list(instance.positive_sk)] + text[list(instance.positive_text)]
        return ContextUnits(0, positives, noise, noise[:0], derivations)

    def _nearest_first(self, instance: Instance, noise: Units) -> Units:
        """Return triples with those of the topics first, then those of positive entities and decoys."""
        graph, triples = self.graph(instance.group), self.pool.sk[instance.group]
        positive = {end for number in instance.positive_sk for end in triples[number][::2]}
        noise = noise.shuffled(f"{instance.id}|noise")
        rank = np.full(len(triples), len(noise))
        rank[noise.numbers] = np.arange(len(noise))
        tier = np.full(len(noise) + 1, 2)
        for place, entities in ((1, {*positive, *instance.decoys}), (0, set(instance.topics))):
            for entity in sorted(entities):
                tier[np.sort(rank[graph.touching(entity)])[:TRIPLES_PER_ENTITY]] = place
        return noise[np.argsort(tier[:-1], kind="stable")]

    def _of_table(self, instance: Instance) -> ContextUnits:
        groups = (instance.group, *instance.noise_groups)
        whole = sum(map(self._rows, groups[1:]), self._rows(instance.group))
        whole = replace(whole, numbers=np.arange(len(whole), dtype=np.int32))
        n_rows = len(whole) - len(self.pool.sk.get(instance.emptied_group, ()))
        rows, n_own = whole[:n_rows], len(self.pool.sk[instance.group])
        own_tokens = float(rows[:n_own].n_tokens)
        own_text = self._text[np.isin(self._text.numbers, instance.own_text)]
        stated = np.isin(self._text.numbers, instance.positive_text)
        for answer in instance.answers:
            stated |= self._mentioning(wtq_normal(answer))
        share = own_tokens / max(1.0, own_tokens + float(own_text.n_tokens))
        noise = merge(self._in_turn(instance, rows), self._own_first(instance, self._text[~stated]), share)
        header = write_row(self.pool.headers[instance.group])
        positives = rows[list(instance.positive_sk)] + self._text[list(instance.positive_text)]
        return ContextUnits(tokenizer().count(f"{header}\n"), positives, noise, whole[n_rows:], [])

    def _in_turn(self, instance: Instance, rows: Units) -> Units:
        """Return the noise rows, near and real ones in turn.

        No row reads like another one, and none of a program's rows is among those that are no positives.
        """
        cells, program = self.pool.structured(instance)[: len(rows)], instance.program
        _, first = np.unique(rows.keys, return_index=True)
        new = np.isin(rows.numbers, first) & ~np.isin(rows.keys, rows.keys[list(instance.positive_sk)])
        if program and program["type"] in programs.TABLE_TYPES:
            new &= ~np.array([programs.reads(program, row) for row in cells], dtype=bool)
        groups = [each for each in (instance.group, *instance.noise_groups) if each != instance.emptied_group]
        is_made = [each in self.pool.origins and self.pool.origins[each].made for each in groups]
        made = np.repeat(is_made, [len(self.pool.sk[each]) for each in groups])
        own = rows.numbers < len(self.pool.sk[instance.group])
        name = f"{instance.id}|noise"
        near = rows[new & made]
        real = rows[new & ~made & own].shuffled(name) + rows[new & ~made & ~own].shuffled(name)
        turn = np.concatenate([np.arange(len(near)) * 2, np.arange(len(real)) * 2 + 1])
        return (near + real)[np.argsort(turn, kind="stable")]

    def _own_first(self, instance: Instance, text: Units) -> Units:
        """Return passages with those of the instance's own table or subgraph first, each part by hash."""
        noise = text.shuffled(f"{instance.id}|noise")
        return noise[np.argsort(~np.isin(noise.numbers, instance.own_text), kind="stable")]
