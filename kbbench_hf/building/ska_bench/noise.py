"""Which units are noise to an instance, in the order in which budgets take them.

Of a graph: a few triples of each topic, of each positive entity and of each decoy, then the rest by hash. Of a table:
in turn a near row and a real one, its own rows before those of tables with the same header, as long as the real ones
last. Of passages: those of its own table or subgraph, then the rest by hash. What an answer may follow from is none.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.table_programs import TYPES, reads
from kbbench_hf.benchmarks.ska_bench.token_counts import Tokenizer
from kbbench_hf.benchmarks.ska_bench.triple_graph import UNREACHED, Graph
from kbbench_hf.benchmarks.ska_bench.unit_arrays import Units, measure, merge
from kbbench_hf.benchmarks.ska_bench.units import Instance, Pool, write_passage, write_row
from kbbench_hf.building.ska_bench.emptied_rows import group_of
from kbbench_hf.building.ska_bench.evidence import Derivation, Evidence
from kbbench_hf.metrics.answers import wtq_normal

NEIGHBOURS = 6
"""How many triples of one entity stand before the rest of a graph: a gold one is no more frequent than a decoy."""


@dataclass(frozen=True)
class Candidates:
    """What the contexts of one instance are made of."""

    header_tokens: int
    positives: Units
    noise: Units
    """In the order in which budgets take it."""
    emptied: Units
    """Of a table: its own rows in their order, one cell of each emptied, for the rejection twins alone."""
    derivations: list[Derivation]
    """On a graph: every way in which an answer follows from the pool."""


class Library:
    """A subset's pool, measured once, from which the candidates of each instance are drawn."""

    def __init__(self, pool: Pool, tokenizer: Tokenizer) -> None:
        self.pool = pool
        self._evidence = Evidence(pool)
        self.tokenizer = tokenizer
        self._text = measure([write_passage(cells) for cells in pool.text], tokenizer, in_text=True)
        self._normal_text = [wtq_normal(" ".join(cells)) for cells in pool.text]
        self._graphs: dict[str, Graph] = {}
        self._rows: dict[str, Units] = {}
        self._mentions: dict[str, NDArray[np.bool_]] = {}

    def candidates(self, instance: Instance) -> Candidates:
        """Return an instance's units: its positives, and its noise."""
        return self._of_table(instance) if instance.is_table else self._of_graph(instance)

    def graph(self, group: str) -> Graph:
        """Return the graph of one group."""
        if group not in self._graphs:
            self._graphs[group] = Graph(self.pool.sk[group], self.tokenizer)
        return self._graphs[group]

    def _mentioning(self, literal: str) -> NDArray[np.bool_]:
        """Say of each passage whether it mentions this, in normal form, as whole words."""
        if literal not in self._mentions:
            found = [literal in text and mentions(text, literal) for text in self._normal_text]
            self._mentions[literal] = np.array(found, dtype=bool)
        return self._mentions[literal]

    def _of_graph(self, instance: Instance) -> Candidates:
        graph, derivations = self.graph(instance.group), self._evidence.derivations(instance)
        hops, text_hops = graph.hops(instance.topics), np.full(len(self._text), UNREACHED)
        for passage, links in self.pool.links_of(instance.group).items():
            text_hops[passage] = min(hops[list(links)], default=UNREACHED)
        sk, text = replace(graph.units, hops=hops), replace(self._text, hops=text_hops)
        telling = {unit for derivation in derivations for unit in derivation.units}
        facts = {*instance.positive_sk, *instance.withheld_sk, *(n for in_text, n in telling if not in_text)}
        said = {*instance.positive_text, *(n for in_text, n in telling if in_text)}
        sk_noise = self._nearest_first(instance, graph, sk[~np.isin(sk.numbers, sorted(facts))])
        text_noise = self._own_first(instance, text[~np.isin(text.numbers, sorted(said))])
        sk_tokens, text_tokens = int(sk_noise.tokens.sum()), int(text_noise.tokens.sum())
        noise = merge(sk_noise, text_noise, sk_tokens / max(1, sk_tokens + text_tokens))
        positives = sk[list(instance.positive_sk)] + text[list(instance.positive_text)]
        return Candidates(0, positives, noise, noise[:0], derivations)

    def _nearest_first(self, instance: Instance, graph: Graph, noise: Units) -> Units:
        """Return triples with those of the topics first, then those of positive entities and decoys."""
        positive = {end for number in instance.positive_sk for end in graph.triples[number][::2]}
        name = f"{instance.id}|noise"
        noise = noise.shuffled(name)
        rank = np.full(len(graph.triples), len(noise))
        rank[noise.numbers] = np.arange(len(noise))
        tier = np.full(len(noise) + 1, 2)
        for place, entities in ((1, {*positive, *instance.decoys}), (0, set(instance.topics))):
            for entity in sorted(entities):
                tier[np.sort(rank[graph.touching(entity)])[:NEIGHBOURS]] = place
        return noise[np.argsort(tier[:-1], kind="stable")]

    def _of_table(self, instance: Instance) -> Candidates:
        rows = self._structured(instance)
        own = np.isin(self._text.numbers, instance.own_text)
        own_tokens = float(rows.tokens[: len(self.pool.sk[instance.group])].sum())
        share = own_tokens / max(1.0, own_tokens + float(self._text.tokens[own].sum()))
        said = np.isin(self._text.numbers, instance.positive_text)
        for answer in instance.answers:
            said |= self._mentioning(wtq_normal(answer))
        first_emptied = len(rows) - len(self.pool.sk.get(group_of(instance), ()))
        emptied, rows = rows[first_emptied:], rows[:first_emptied]
        noise = merge(self._in_turn(instance, rows), self._own_first(instance, self._text[~said]), share)
        header = write_row(self.pool.headers[instance.group])
        positives = rows[list(instance.positive_sk)] + self._text[list(instance.positive_text)]
        return Candidates(self.tokenizer.count(f"{header}\n"), positives, noise, emptied, [])

    def _structured(self, instance: Instance) -> Units:
        """Return the rows that an instance can be asked on, by number."""
        parts = []
        for group in (instance.group, *instance.noise_groups):
            if group not in self._rows:
                lines = [write_row(cells) for cells in self.pool.sk[group]]
                self._rows[group] = measure(lines, self.tokenizer, in_text=False)
            parts.append(self._rows[group])
        whole = sum(parts[1:], parts[0])
        return replace(whole, numbers=np.arange(len(whole), dtype=np.int32))

    def _in_turn(self, instance: Instance, rows: Units) -> Units:
        """Return the noise rows, near and real ones in turn.

        No row reads like another one, and none of a program's rows is among those that are no positives.
        """
        cells, program = self.pool.structured(instance)[: len(rows)], instance.program
        _, first = np.unique(rows.keys, return_index=True)
        new = np.isin(rows.numbers, first) & ~np.isin(rows.keys, rows.keys[list(instance.positive_sk)])
        if program and program["type"] in TYPES:
            new &= ~np.array([reads(program, row) for row in cells], dtype=bool)
        made = np.concatenate(
            [
                np.full(len(self.pool.sk[group]), group in self.pool.origins and self.pool.origins[group].made)
                for group in (instance.group, *instance.noise_groups)
                if group != group_of(instance)
            ]
        )
        near = rows[new & made]
        its_own = rows.numbers < len(self.pool.sk[instance.group])
        name = f"{instance.id}|noise"
        real = rows[new & ~made & its_own].shuffled(name) + rows[new & ~made & ~its_own].shuffled(name)
        turn = np.concatenate([np.arange(len(near)) * 2, np.arange(len(real)) * 2 + 1])
        return (near + real)[np.argsort(turn, kind="stable")]

    def _own_first(self, instance: Instance, text: Units) -> Units:
        """Return passages with those of the instance's own table or subgraph first, each part by hash."""
        noise = text.shuffled(f"{instance.id}|noise")
        return noise[np.argsort(~np.isin(noise.numbers, instance.own_text), kind="stable")]
