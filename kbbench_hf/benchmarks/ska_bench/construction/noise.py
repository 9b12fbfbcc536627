"""Which units are noise to an instance, in the order in which budgets take them, and which state what positives state.

Every order is an order of hashes: a unit's key is the SHA-256 of its line, mixed with the instance's id and a purpose.
It depends on neither the order of the input nor the Python version nor the platform.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.ska_bench.construction.tokens import Tokenizer
from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, Instance, Pool, write_passage, write_row, write_triple
from kbbench_hf.metrics.answers import wtq_normal

NEAR = 4
"""A graph's noise comes from within this many hops first, as the paper's subgraphs do; farther units follow."""
UNREACHED = 255
"""The hop of a unit that no path joins to the topic."""


@dataclass(frozen=True)
class Units:
    """Units as parallel arrays: number, section, key, tokens of the line with its end, hop."""

    numbers: NDArray[np.int32]
    in_text: NDArray[np.bool_]
    keys: NDArray[np.uint64]
    tokens: NDArray[np.int64]
    hops: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, chosen: NDArray[np.int64] | NDArray[np.bool_] | Sequence[int] | slice) -> "Units":
        return Units(*(column[chosen] for column in vars(self).values()))

    def __add__(self, other: "Units") -> "Units":
        return Units(*map(np.concatenate, zip(vars(self).values(), vars(other).values(), strict=True)))

    def shuffled(self, name: str) -> "Units":
        """Return the units in the order that a name gives them."""
        return self[shuffle(self.keys, name)]

    def fitting(self, budget: int) -> "Units":
        """Return the longest prefix of at most `budget` tokens; a larger budget therefore holds a smaller one's."""
        return self[: int(np.searchsorted(np.cumsum(self.tokens), budget, side="right"))]


def measure(
    lines: Sequence[str], tokenizer: Tokenizer, *, in_text: bool, numbers: Iterable[int] | None = None
) -> Units:
    """Return lines as units, numbered from 0 unless said otherwise, with hop 0."""
    n = len(lines)
    digests = b"".join(hashlib.sha256(line.encode()).digest()[:8] for line in lines)
    return Units(
        np.array(range(n) if numbers is None else list(numbers), dtype=np.int32),
        np.full(n, in_text),
        np.frombuffer(digests, dtype="<u8").astype(np.uint64),
        tokenizer.count_lines(lines),
        np.zeros(n, dtype=np.int64),
    )


def shuffle(keys: NDArray[np.uint64], name: str) -> NDArray[np.int64]:
    """Return the order that a name gives to units with these keys: SplitMix64 of key and name, ascending.

    >>> shuffle(np.arange(5, dtype=np.uint64), "q1|noise").tolist()
    [0, 2, 1, 3, 4]
    """
    salt = np.frombuffer(hashlib.sha256(f"{SEED}|{name}".encode()).digest()[:8], dtype="<u8").astype(np.uint64)
    x = (keys ^ salt) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.argsort(x ^ (x >> np.uint64(31)), kind="stable")


def merge(sk: Units, text: Units, sk_share: float) -> Units:
    """Return both sections as one order in which the structured one has `sk_share` of the tokens all along."""
    shares = (max(sk_share, 1e-9), max(1 - sk_share, 1e-9))
    due = [(np.cumsum(part.tokens) - part.tokens) / share for part, share in zip((sk, text), shares, strict=True)]
    return (sk + text)[np.argsort(np.concatenate(due), kind="stable")]


@dataclass(frozen=True)
class Candidates:
    """What the contexts of one instance are made of."""

    header_tokens: int
    positives: Units
    noise: Units
    """In the order in which budgets take it."""
    equivalent: NDArray[np.bool_]
    """Per noise unit, whether it states what a positive states and goes where the positives go."""


class Graph:
    """One pool of triples as arrays, for hops and for facts about the same two entities."""

    def __init__(self, triples: Sequence[Cells], tokenizer: Tokenizer) -> None:
        self.triples = triples
        self.units = measure([write_triple(triple) for triple in triples], tokenizer, in_text=False)
        self._entities: dict[str, int] = {}
        ends = [[self._entities.setdefault(e, len(self._entities)) for e in (head, tail)] for head, _, tail in triples]
        self._ends = np.array(ends, dtype=np.int64).reshape(-1, 2)

    def hops(self, topics: Sequence[str]) -> NDArray[np.int64]:
        """Return the hop of every triple: 1 + the distance of its nearer end from the nearest topic.

        Edges are walked both ways; `UNREACHED` where there is no path.
        """
        distance = np.full(len(self._entities), UNREACHED - 1)
        distance[[self._entities[topic] for topic in topics if topic in self._entities]] = 0
        head, tail = self._ends.T
        for step in range(UNREACHED - 1):
            frontier = distance == step
            reached = np.concatenate([tail[frontier[head]], head[frontier[tail]]])
            reached = reached[distance[reached] > step]
            if not len(reached):
                break
            distance[reached] = np.minimum(distance[reached], step + 1)
            if not (distance == step + 1).any():
                break
        nearest: NDArray[np.int64] = 1 + np.minimum(distance[head], distance[tail])
        return nearest

    def on_the_same_pairs(self, numbers: Sequence[int]) -> NDArray[np.bool_]:
        """Say of each triple whether it joins the same two entities as one of these, either way round."""
        pairs = self._ends.min(axis=1) * len(self._entities) + self._ends.max(axis=1)
        return np.isin(pairs, pairs[list(numbers)])


class Library:
    """A subset's pool, measured once, from which the candidates of each instance are drawn."""

    def __init__(self, pool: Pool, tokenizer: Tokenizer) -> None:
        self.pool = pool
        self.tokenizer = tokenizer
        self._text = measure([write_passage(cells) for cells in pool.text], tokenizer, in_text=True)
        self._normal_text = [wtq_normal(" ".join(cells)) for cells in pool.text]
        pairs = [(passage, triple) for passage, triples in pool.links.items() for triple in triples]
        self._linked = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        self._graphs: dict[str, Graph] = {}
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
        graph, facts = self.graph(instance.group), [*instance.positive_sk, *instance.withheld_sk]
        hops, same_pair = graph.hops(instance.topics), graph.on_the_same_pairs(facts)
        text_hops = np.full(len(self._text), UNREACHED)
        stating = np.zeros(len(self._text), dtype=bool)
        np.minimum.at(text_hops, self._linked[:, 0], hops[self._linked[:, 1]])
        np.logical_or.at(stating, self._linked[:, 0], same_pair[self._linked[:, 1]])
        for head, _, tail in (graph.triples[number] for number in facts):
            stating |= self._mentioning(wtq_normal(head)) & self._mentioning(wtq_normal(tail))
        sk = replace(graph.units, hops=hops)
        text = replace(self._text, hops=text_hops)
        sk_noise = _noise(sk, facts, instance.id)
        text_noise = _noise(text[list(instance.own_text) or slice(None)], instance.positive_text, instance.id)
        sk_tokens, text_tokens = int(sk_noise.tokens.sum()), int(text_noise.tokens.sum())
        noise = merge(sk_noise, text_noise, sk_tokens / max(1, sk_tokens + text_tokens))
        positives = sk[list(instance.positive_sk)] + text[list(instance.positive_text)]
        equivalent = np.concatenate([same_pair, stating])[noise.numbers + np.where(noise.in_text, len(sk), 0)]
        return Candidates(0, positives, noise, equivalent)

    def _of_table(self, instance: Instance) -> Candidates:
        header = write_row(self.pool.headers[instance.group])
        rows = measure([write_row(cells) for cells in self.pool.structured(instance)], self.tokenizer, in_text=False)
        first_other = len(self.pool.sk[instance.group])
        own = np.isin(self._text.numbers, instance.own_text)
        share = float(rows.tokens[:first_other].sum())
        share /= max(1.0, share + float(self._text.tokens[own].sum()))
        answered = np.zeros(len(self._text), dtype=bool)
        for answer in instance.answers:
            answered |= self._mentioning(wtq_normal(answer))
        own_noise = _noise(self._text[own], instance.positive_text, instance.id)
        text = own_noise + self._text[~own & ~answered].shuffled(f"{instance.id}|noise")
        noise_rows = self._noise_rows(instance, rows)
        noise = merge(
            noise_rows[noise_rows.numbers < first_other] + noise_rows[noise_rows.numbers >= first_other], text, share
        )
        positives = rows[list(instance.positive_sk)] + self._text[list(instance.positive_text)]
        equivalent = np.zeros(len(noise), dtype=bool)
        equivalent[noise.in_text] = answered[noise.numbers[noise.in_text]]
        return Candidates(self.tokenizer.count(f"{header}\n"), positives, noise, equivalent)

    def _noise_rows(self, instance: Instance, rows: Units) -> Units:
        """Return the rows that are no positives, in an order of hashes: none reads like another one."""
        _, first = np.unique(rows.keys, return_index=True)
        new = np.isin(rows.numbers, first) & ~np.isin(rows.keys, rows.keys[list(instance.positive_sk)])
        return rows[new].shuffled(f"{instance.id}|noise")


def _noise(units: Units, positives: Sequence[int], instance_id: str) -> Units:
    """Return the other units, near ones first, each part in its order of hashes."""
    noise = units[~np.isin(units.numbers, positives)].shuffled(f"{instance_id}|noise")
    return noise[np.argsort(noise.hops > NEAR, kind="stable")]
