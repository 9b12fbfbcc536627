"""QA-GNN retriever: a graph network re-ranks the nodes of a first stage in the graph of each query.

A query graph is the part of a knowledge base with a query's linked entities, candidates and the nodes between. The
query is a node of its own, adjacent to its entities and to the candidates. The network passes messages over it and
scores each candidate.

Source: Yasunaga et al., NAACL 2021 (QA-GNN), sections 3 and 3.3 and its code's attention, normalized by the sender.
Differs from upstream: nodes between are chosen by their edges, not by a language model; a node has the score of the
first stage in place of that model's. Layers are normalized by node, not over the batch, so that the scores of a query
do not depend on the others; node types of the knowledge base are features; scores are of all candidates of a graph.

`retrieval.retrievers` builds it as `qagnn`; `training.qagnn` trains it on the same graphs. Weights of trained networks
depend on kinds, numbers, relations and layer names: a change here needs new ones.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files import file_sha256
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import Spec, parse
from kbbench_hf.protocols import Ranking, Retriever, matched
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.embedders import SentenceEmbedder, embed_nodes
from kbbench_hf.retrieval.fusion import min_max
from kbbench_hf.retrieval.graph_ranker.entity_linking import EntityLinker
from kbbench_hf.retrieval.graph_ranker.propagation import Propagation
from kbbench_hf.retrieval.top_k import best, pad, row_mask
from kbbench_hf.retrieval.trained_folder import NETWORK, record, trained_folder

Rows = NDArray[np.int64]

QUERY, LINKED, FOUND, BETWEEN = range(4)
"""Kinds of nodes: the query, linked entity, found by the first stage, adjacent to these."""
N_KINDS = 4
N_LINKED = 10
"""Linked entities of a query, the surest first."""
N_NUMBERS = 4
"""Numbers of a node: score of the first stage, confidence of its link, degree, similarity to the query."""
OWN_RELATIONS = 3
"""Relations besides the knowledge base's: self-loops, query to entities, query to nodes found."""


class QueryGraph(NamedTuple):
    """A query and nodes of the knowledge base, the query first; edges are between places in `rows`."""

    rows: Rows
    """-1 for the query, then the nodes, ascending."""
    kinds: Rows
    numbers: NDArray[np.float32]
    """Shape (nodes, N_NUMBERS); `batch_of` fills in the last column."""
    sources: Rows
    targets: Rows
    relations: Rows
    scored: Rows
    """The places of candidates."""


class QueryGraphs:
    """Builds query graphs over one knowledge base.

    Args:
        kb: the knowledge base.
        depth: nodes of the first stage in a graph.
        size: nodes of a graph, the query included.
        candidates: the rows of candidates, ascending; all where None.
    """

    def __init__(self, kb: KnowledgeBase, depth: int, size: int, candidates: Rows | None = None) -> None:
        self.depth, self._size = depth, size
        self._propagation = Propagation(kb.graph)
        self._n_relations = len(kb.graph.relations)
        self.n_relations = OWN_RELATIONS + 2 * self._n_relations
        """Relations of edges: those of the knowledge base in both directions, and own ones."""
        degrees = self._propagation.degrees
        self._degree = (np.log1p(degrees) / max(np.log1p(degrees.max(initial=0)), 1e-12)).astype(np.float32)
        self._linker = EntityLinker(kb.names())
        self._may_answer = row_mask(len(kb), candidates)

    def build(self, queries: Sequence[str], ranking: Ranking) -> list[QueryGraph]:
        """Return the graph of each query; `ranking` is the first stage's ranking, `depth` deep or deeper."""
        return [
            self._build(query, rows[rows >= 0][: self.depth], score[rows >= 0][: self.depth])
            for query, rows, score in zip(queries, ranking.ids, min_max(ranking), strict=True)
        ]

    def _build(self, query: str, found: Rows, scores: NDArray[np.float64]) -> QueryGraph:
        entities = self._linker.link(query)
        surest = np.sort(best(entities.strength, N_LINKED))
        strength = dict(zip(entities.rows[surest].tolist(), entities.strength[surest].tolist(), strict=True))
        score = dict(zip(found.tolist(), scores.tolist(), strict=True))
        core = np.array(sorted({*strength, *score}), np.int64)
        weight = np.array([strength.get(row, 0.0) + score.get(row, 0.0) ** 2 for row in core.tolist()])
        nodes = np.union1d(core, self._between(core, weight, self._size - 1 - len(core)))
        sources, targets, relations = self._edges(nodes)
        kinds = np.full(len(nodes), BETWEEN)
        kinds[np.isin(nodes, found)] = FOUND
        kinds[np.isin(nodes, entities.rows[surest])] = LINKED
        numbers = np.zeros((1 + len(nodes), N_NUMBERS), np.float32)
        numbers[1:, 0] = [score.get(row, 0.0) for row in nodes.tolist()]
        numbers[1:, 1] = [strength.get(row, 0.0) for row in nodes.tolist()]
        numbers[1:, 2] = self._degree[nodes]
        own = np.arange(1 + len(nodes))
        ends = 1 + np.flatnonzero(kinds != BETWEEN)
        kind = kinds[ends - 1]  # relation 1 leads to entities, relation 2 to nodes found
        zero = np.zeros_like(ends)
        return QueryGraph(
            np.concatenate([[-1], nodes]),
            np.concatenate([[QUERY], kinds]),
            numbers,
            np.concatenate([own, zero, ends, sources + 1]),
            np.concatenate([own, ends, zero, targets + 1]),
            np.concatenate([np.zeros_like(own), kind, kind, relations]),
            1 + np.flatnonzero(self._may_answer[nodes]),
        )

    def _between(self, core: Rows, weight: NDArray[np.float64], n: int) -> Rows:
        """Return the `n` nodes with the strongest edges to the core; nodes of high degree pass on less."""
        if n <= 0:
            return np.zeros(0, np.int64)
        passed = weight * self._propagation.passing[core]
        edges = [side.edges(core) for side in self._propagation.sides]
        rows, position = np.unique(np.concatenate([each.rows for each in edges]), return_inverse=True)
        total = np.bincount(position, np.concatenate([passed[each.places] for each in edges]), len(rows)).astype(float)
        total[np.isin(rows, core)] = 0
        chosen = best(total, n)
        return rows[chosen[total[chosen] > 0]].astype(np.int64)

    def _edges(self, nodes: Rows) -> tuple[Rows, Rows, Rows]:
        """Return the edges among nodes as places and relations, each in both directions."""
        places, relations, rows = self._propagation.sides[0].edges(nodes)
        to = np.minimum(np.searchsorted(nodes, rows), len(nodes) - 1)
        keep = nodes[to] == rows
        heads, tails, relation = places[keep], to[keep], relations[keep] + OWN_RELATIONS
        if len(self._propagation.sides) == 1:  # every edge is there in both directions
            return heads, tails, relation
        return (
            np.concatenate([heads, tails]),
            np.concatenate([tails, heads]),
            np.concatenate([relation, relation + self._n_relations]),
        )


def choices(graph: QueryGraph) -> list[QueryGraph]:
    """Return a graph for each candidate, in their order: the query, its entities, the candidate and its neighbors.

    They are parts of the one graph of the query; each scores its one node.
    """
    low, high = np.minimum(graph.sources, graph.targets), np.maximum(graph.sources, graph.targets)
    of_query = (low == 0) & (high > 0)
    graphs = []
    for position in graph.scored.tolist():
        keep = graph.kinds <= LINKED
        keep[position] = True
        keep[graph.targets[(low > 0) & (graph.sources == position)]] = True
        new = np.cumsum(keep) - 1
        own = (graph.kinds[high] == LINKED) | (high == position)  # other nodes found are no candidates here
        edges = keep[low] & keep[high] & (own | ~of_query)
        graphs.append(
            QueryGraph(
                graph.rows[keep],
                graph.kinds[keep],
                graph.numbers[keep],
                new[graph.sources[edges]],
                new[graph.targets[edges]],
                graph.relations[edges],
                new[[position]],
            )
        )
    return graphs


WIDTH, HEADS, DROPOUT = 128, 4, 0.4
"""Numbers of a node's state, attention heads, dropout in training."""


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
        """Return the score of each node of `batch.scored`, in this order, shape (scored,)."""
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


BATCH = 8
"""Queries scored at a time."""
DEPTH = 1000
"""Depth of the first stage, whose other nodes follow those of the graph."""


@dataclass(frozen=True)
class NetworkConfig:
    """The settings of a network, beside its weights."""

    encoder: str
    """The sentence encoder whose vectors are the nodes' features."""
    revision: str
    text: str | None
    """The form of the nodes' texts."""
    length: int
    """Tokens after which texts are cut."""
    first_stage: str
    candidates: int
    """Nodes of the first stage in a graph."""
    graph_size: int
    """Nodes of a graph."""
    mode: str
    """joint: one graph per query; choices: one per candidate."""
    layers: int
    node_types: list[str]
    relations: list[str]

    def save(self, folder: Path) -> None:
        """Write it into the folder of a network."""
        (folder / NETWORK).write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")


def weights_file(layers: int) -> str:
    """Return the name of the file with the weights of the network of so many layers."""
    return f"network-{layers}-layers.safetensors"


def build(spec: Spec, context: RetrieverContext) -> "QAGNN":
    """Build `qagnn:<model>(<first stage>)@layers=`, a folder or a name on the Hub.

    Without a first stage it is the one that it was trained over. `layers=0` is its control, trained alike
    without edges.

    Raises:
        UsageError: no such network is there, or it was trained over another first stage or other vectors.
        DataError: it was trained for another knowledge base, with other node types or relations.
    """
    folder = trained_folder(spec.model, NETWORK, "qagnn")
    config = NetworkConfig(**record(folder, NETWORK))
    layers = spec.read(layers=(int, config.layers))["layers"]
    file = folder / weights_file(layers)
    if not file.is_file():
        raise UsageError(f"{spec} has no network of {layers} layers; expected {config.layers}, or 0 for its control.")
    first = spec.parts[0] if spec.parts else parse(config.first_stage)
    if len(spec.parts) > 1 or str(first) != str(parse(config.first_stage)):
        raise UsageError(
            f"{spec} was trained over {config.first_stage}, whose scores it reads; expected that first stage. "
            f"Write {spec.name}:{spec.model}({config.first_stage}), or train one over {first}."
        )
    context.revisions[spec.model] = file_sha256(file)
    features = GraphFeatures(config, context)
    network = features.network(layers)
    network.load_state_dict(load_file(file))
    network.to("cuda" if torch.cuda.is_available() else "cpu")
    return QAGNN(network, features, context.part(first))


class GraphFeatures:
    """The inputs of a network from a knowledge base: vectors of nodes and queries, node types, query graphs.

    Args:
        config: the settings of the network.
        context: the knowledge base and the cache of vectors.
    """

    def __init__(self, config: NetworkConfig, context: RetrieverContext) -> None:
        kb = context.kb
        here = (list(kb.graph.node_types), list(kb.graph.relations))
        if here != (config.node_types, config.relations):
            strange = sorted(set(here[0] + here[1]) ^ set(config.node_types + config.relations))[:3]
            raise DataError(
                f"The network knows other node types or relations than this knowledge base: {', '.join(strange)} ... "
                "are in one of them only; expected the knowledge base that it was trained for. Train it on this one."
            )
        self.config, self._n_types = config, len(kb.graph.node_types)
        self.embedder = SentenceEmbedder(config.encoder, max_length=config.length)
        revision = self.embedder.name.rpartition("@")[2]
        if config.revision != revision:
            raise UsageError(
                f"The network was trained with vectors of {config.encoder} at {config.revision}, which is at "
                f"{revision} now; expected the same. Train it anew, or bring that revision back."
            )
        every = replace(context, candidates=None)  # nodes between candidates need not be one
        text = every.text({} if config.text is None else {"text": config.text}, relations=True)
        self.vectors = embed_nodes(every, self.embedder, text)
        self.type_ids = np.asarray(kb.graph.type_ids, np.int64)
        self.graphs = QueryGraphs(kb, config.candidates, config.graph_size, context.candidates)

    def network(self, layers: int) -> GraphNetwork:
        """Return a network of so many layers with random weights."""
        return GraphNetwork(self.vectors.shape[1], self._n_types, self.graphs.n_relations, layers)

    def batch(self, graphs: Sequence[QueryGraph], queries: NDArray[np.float32]) -> Batch:
        """Return query graphs as a batch; `queries` are the vectors of the queries."""
        split = choices if self.config.mode == "choices" else lambda graph: [graph]
        return batch_of([split(graph) for graph in graphs], queries, self.vectors, self.type_ids)


class QAGNN:
    """Ranks the nodes of a query graph by a network, and behind them the other nodes of the first stage.

    Args:
        network: scores the nodes.
        features: its inputs.
        first: the first stage.
    """

    def __init__(self, network: GraphNetwork, features: GraphFeatures, first: Retriever) -> None:
        self._network, self._features, self._first = network.eval(), features, first

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best nodes of every query, of those in its graph or in the first stage's ranking."""
        ranking = self._first.search(queries, max(top_k, DEPTH))
        vectors = self._features.embedder.encode_queries(queries)
        rows = []
        for start in range(0, len(queries), BATCH):
            of = slice(start, start + BATCH)
            graphs = self._features.graphs.build(
                queries[of], Ranking(ranking.ids[of, :DEPTH], ranking.scores[of, :DEPTH])
            )
            scores = score_graphs(self._network, self._features, graphs, vectors[of])
            for graph, own, behind in zip(graphs, scores, ranking.ids[of], strict=True):
                rows.append(_rank_graph(graph.rows[graph.scored], own, behind[behind >= 0], top_k))
        return pad(rows, top_k)

    def matched(self, queries: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether the first stage matches each query."""
        return matched(self._first, queries)


def score_graphs(
    network: GraphNetwork, features: GraphFeatures, graphs: Sequence[QueryGraph], queries: NDArray[np.float32]
) -> list[NDArray[np.float64]]:
    """Return the scores of each graph's candidates, in the order of `scored`, on the network's device."""
    with torch.no_grad():
        device = next(network.parameters()).device
        scores = network(features.batch(graphs, queries).to(device)).double().cpu().numpy()
    return np.split(scores, np.cumsum([len(graph.scored) for graph in graphs])[:-1])


def _rank_graph(
    rows: NDArray[np.int64], scores: NDArray[np.float64], behind: NDArray[np.int64], top_k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return a graph's nodes by score, and behind them others in their order, each 1 less than the one before."""
    order = best(scores, top_k)
    others = behind[~np.isin(behind, rows)][: top_k - len(order)]
    lowest = scores.min(initial=0.0)
    return np.concatenate([rows[order], others]), np.concatenate([scores[order], lowest - 1 - np.arange(len(others))])
