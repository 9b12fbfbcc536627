"""QA-GNN retriever: a graph network re-ranks the nodes of a first stage in the graph of each query."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files import file_sha256
from kbbench_hf.model_specs import Spec, parse
from kbbench_hf.protocols import Ranking, Retriever, matched
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.embedders import SentenceEmbedder, embed_nodes
from kbbench_hf.retrieval.graph_network import Batch, GraphNetwork, batch_of
from kbbench_hf.retrieval.query_graphs import QueryGraph, QueryGraphs, choices
from kbbench_hf.retrieval.top_k import best, pad
from kbbench_hf.retrieval.trained_folder import NETWORK, record, trained_folder

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
        """Return the `top_k` best nodes of every query."""
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
    """Return the scores of each graph's candidates."""
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
