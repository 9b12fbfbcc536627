"""QA-GNN network: message passing over query graphs, and a score for each candidate.

Source: Yasunaga et al., NAACL 2021 (QA-GNN), section 3.3 and its code's attention, normalized by the sender.
Differs from upstream: layers are normalized by node, not over the batch, so that the scores of a query do not depend on
the others; node types of the knowledge base are features; scores are of all candidates of a graph.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from kbbench_hf.retrieval.query_graphs import N_KINDS, N_NUMBERS, QueryGraph

WIDTH, HEADS, DROPOUT = 128, 4, 0.4


class Batch(NamedTuple):
    """Several graphs as one that is not connected."""

    texts: Tensor
    """The vector of each node's text, and of the query for its node; shape (nodes, d)."""
    numbers: Tensor
    kinds: Tensor
    types: Tensor
    """Node types of the knowledge base, from 1; 0 for a query."""
    graphs: Tensor
    """The graph of each node."""
    contexts: Tensor
    """The query node of each graph."""
    sources: Tensor
    targets: Tensor
    relations: Tensor
    scored: Tensor
    """The nodes to score."""
    questions: Tensor
    """The query of each scored node."""

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device."""
        return Batch(*(each.to(device) for each in self))


def batch_of(
    graphs: Sequence[Sequence[QueryGraph]],
    queries: NDArray[np.float32],
    vectors: NDArray[np.float32],
    type_ids: NDArray[np.integer],
) -> Batch:
    """Return the graphs of several queries as one batch.

    Args:
        graphs: those of each query.
        queries: the vector of each query, shape (queries, d).
        vectors: of each node of the knowledge base, shape (n, d).
        type_ids: the type of each node of the knowledge base.
    """
    flat = [(query, graph) for query, each in enumerate(graphs) for graph in each]
    sizes = np.array([len(graph.rows) for _, graph in flat])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)

    def shifted(name: str) -> NDArray[np.int64]:
        parts = [getattr(graph, name) + start for (_, graph), start in zip(flat, starts, strict=True)]
        return np.concatenate(parts).astype(np.int64)

    rows = np.concatenate([graph.rows for _, graph in flat])
    query = np.array([query for query, _ in flat])
    texts = np.asarray(vectors[np.maximum(rows, 0)], np.float32)
    texts[starts] = queries[query]
    numbers = np.concatenate([graph.numbers for _, graph in flat])
    numbers[:, -1] = (texts * np.repeat(texts[starts], sizes, axis=0)).sum(axis=1)
    types = np.where(rows < 0, 0, 1 + type_ids[np.maximum(rows, 0)]).astype(np.int64)
    integers = (
        np.concatenate([graph.kinds for _, graph in flat]).astype(np.int64),
        types,
        np.repeat(np.arange(len(flat)), sizes),
        starts,
        shifted("sources"),
        shifted("targets"),
        np.concatenate([graph.relations for _, graph in flat]).astype(np.int64),
        shifted("scored"),
        np.repeat(query, [len(graph.scored) for _, graph in flat]),
    )
    return Batch(torch.from_numpy(texts), torch.from_numpy(numbers), *(torch.from_numpy(each) for each in integers))


class GraphNetwork(nn.Module):  # type: ignore[misc]
    """Scores the candidates of graphs.

    Args:
        dimension: numbers of a text's vector.
        n_types: node types of the knowledge base.
        n_relations: `QueryGraphs.n_relations`.
        layers: rounds of message passing; with 0 the network sees no edge.
    """

    def __init__(self, dimension: int, n_types: int, n_relations: int, layers: int) -> None:
        super().__init__()
        self.text = nn.Linear(dimension, WIDTH)
        self.kind, self.node_type = nn.Embedding(N_KINDS, WIDTH), nn.Embedding(1 + n_types, WIDTH)
        self.number = nn.Sequential(nn.Linear(N_NUMBERS, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.question = nn.Linear(dimension, WIDTH) if layers else None
        self.layers = nn.ModuleList(Messages(n_relations) for _ in range(layers))
        self.pool = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.score = nn.Sequential(
            nn.Linear(5 * WIDTH + N_NUMBERS, WIDTH), nn.GELU(), nn.Dropout(DROPOUT), nn.Linear(WIDTH, 1)
        )

    def forward(self, batch: Batch) -> Tensor:
        """Return the score of each node of `batch.scored`."""
        own = self.kind(batch.kinds) + self.node_type(batch.types) + self.number(batch.numbers)
        texts = batch.texts * batch.texts.shape[1] ** 0.5  # numbers of vectors of length 1 would be near 0
        given = self.dropout(nn.functional.gelu(self.text(texts) + own))
        if self.question is not None:  # messages depend on the query
            own = own + self.question(texts[batch.contexts])[batch.graphs]
        states = given
        for layer in self.layers:
            states = layer(states, own, batch)
        query = given[batch.contexts]
        likeness = (states * self.pool(query)[batch.graphs]).sum(1) / WIDTH**0.5
        shares = softmax_by(likeness, batch.graphs, len(query)).unsqueeze(1)
        pooled = summed_by(shares * states, batch.graphs, len(query))
        of, graph = batch.scored, batch.graphs[batch.scored]
        read = [states[of], states[of] * query[graph], query[graph], states[batch.contexts][graph], pooled[graph]]
        scores: Tensor = self.score(torch.cat([*read, batch.numbers[of]], 1)).squeeze(1)
        return scores


class Messages(nn.Module):  # type: ignore[misc]
    """One layer of message passing: every node receives messages of its neighbors, weighted by attention."""

    def __init__(self, n_relations: int) -> None:
        super().__init__()
        self.edge = nn.Sequential(
            nn.Linear(n_relations + 2 * N_KINDS, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
        )
        self.query, self.key, self.message = (nn.Linear(2 * WIDTH, WIDTH) for _ in range(3))
        self.edge_key, self.edge_message = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.update = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.dropout = nn.Dropout(DROPOUT)
        self.n_relations = n_relations

    def forward(self, states: Tensor, own: Tensor, batch: Batch) -> Tensor:
        """Return the next states, shape (nodes, WIDTH)."""
        n, width = len(states), WIDTH // HEADS
        given = torch.cat([states, own], 1)
        edges, which = self._edges(batch)
        sources, targets = batch.sources, batch.targets

        def of_edges(nodes: Tensor, own: Tensor) -> Tensor:
            return (nodes + own[which]).view(-1, HEADS, width)

        queries = (self.query(given) / width**0.5)[sources].view(-1, HEADS, width)
        keys = of_edges(self.key(given)[targets], self.edge_key(edges))
        messages = of_edges(self.message(given)[sources], self.edge_message(edges))
        shares = softmax_by((queries * keys).sum(2), sources, n)  # a node divides what it sends;
        sent = shares * torch.bincount(sources, minlength=n)[sources].unsqueeze(1)  # with more edges it sends more
        received = summed_by((sent.unsqueeze(2) * messages).flatten(1), targets, n)
        after: Tensor = self.dropout(nn.functional.gelu(self.update(received)))
        return states + after

    def _edges(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the vectors of the kinds of edges, and the kind of each edge."""
        kinds = (batch.relations * N_KINDS + batch.kinds[batch.sources]) * N_KINDS + batch.kinds[batch.targets]
        unique, which = torch.unique(kinds, return_inverse=True)
        ends = [nn.functional.one_hot(kind, N_KINDS) for kind in (unique // N_KINDS % N_KINDS, unique % N_KINDS)]
        ones = torch.cat([nn.functional.one_hot(unique // N_KINDS**2, self.n_relations), *ends], 1)
        return self.edge(ones.to(self.query.weight.dtype)), which


def summed_by(values: Tensor, groups: Tensor, n: int) -> Tensor:
    """Return the sum of the values of each group, shape (n, ...); 0 for a group of none.

    >>> summed_by(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1, 0, 1]), 3).tolist()
    [2.0, 5.0, 0.0]
    """
    return values.new_zeros((n, *values.shape[1:])).index_add(0, groups, values)


def softmax_by(values: Tensor, groups: Tensor, n: int) -> Tensor:
    """Return the softmax of the values within each group.

    >>> softmax_by(torch.tensor([0.0, 5.0, 0.0]), torch.tensor([0, 1, 0]), 2).tolist()
    [0.5, 1.0, 0.5]
    """
    index = groups.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    floor = values.new_full((n, *values.shape[1:]), -torch.inf)
    highest = floor.scatter_reduce(0, index, values.detach(), "amax")
    powers = (values - highest[groups]).exp()
    return powers / summed_by(powers, groups, n)[groups]
