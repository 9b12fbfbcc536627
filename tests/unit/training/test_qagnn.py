"""A graph network passes messages along relations, and what it learns from them its control cannot."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

import torch

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.protocols import ProcessGroup, Ranking
from kbbench_hf.retrieval.qagnn import (
    HEADS,
    LINKED,
    OWN_RELATIONS,
    WIDTH,
    Batch,
    GraphNetwork,
    Messages,
    QueryGraph,
    QueryGraphs,
    batch_of,
    choices,
)
from kbbench_hf.runners.run import run
from kbbench_hf.training import qagnn
from kbbench_hf.training.questions import load_training_data
from kbbench_hf.training.spec import TrainSpec
from kbbench_hf.training.train import TRAINED, controls, train
from tests.tiny_encoder import tiny_encoder
from tests.unit.training.worlds import build_world, weights

KEEPERS = ["ada", "bo", "cy", "di", "eve", "fay", "gus", "hal"]
ANIMALS = ["owl", "fox", "hen", "cat", "dog", "elk", "bee", "yak"]
QUICK = {"epochs": 40, "evaluations": 4, "batch": 4, "learning_rate": 2e-3, "length": 16}
QUICK |= {"candidates": 12, "graph_size": 24}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with keepers who feed one animal and fear another; texts do not tell which."""
    folder = tmp_path_factory.mktemp("zoo")
    people = [f"{name} {n}" for n in range(4) for name in KEEPERS]
    beasts = [f"{name} {n}" for n in range(4) for name in ANIMALS]
    nodes = [(f"p{n}", "keeper", name) for n, name in enumerate(people)]
    nodes += [(f"a{n}", "animal", name) for n, name in enumerate(beasts)]
    n = len(people)
    feeds, fears = {each: (each * 5 + 3) % n for each in range(n)}, {each: (each * 7 + 11) % n for each in range(n)}
    edges = [(f"p{a}", word, f"a{b}") for word, pairs in (("feeds", feeds), ("fears", fears)) for a, b in pairs.items()]
    asked = [
        (f"{people[a]} {verb}", f"a{b}")
        for verb, pairs in (("feed", feeds), ("fear", fears))
        for a, b in pairs.items()
        if feeds[a] != fears[a]
    ]
    splits = ["train", "train", "train", "validation", "test"]
    build_world(folder, "zoo", nodes, edges, [(q, [answer], splits[n % 5]) for n, (q, answer) in enumerate(asked)])
    tiny_encoder(folder / "encoder", people + beasts + [q for q, _ in asked] + ["name type keeper animal"])
    return folder


@pytest.fixture
def there(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(zoo)
    monkeypatch.setenv("KBBENCH_CACHE", str(zoo / "cache"))
    return zoo


def taught(zoo: Path, out: Path, **how: Any) -> Any:
    return train("zoo", "qagnn", str(zoo / "encoder/model"), out, show=False, **{**QUICK, **how})


def toy(generator: np.random.Generator, n: int = 7, n_relations: int = 5) -> QueryGraph:
    """Return a random graph: a node for itself, some edges, some of them twice."""
    ends = generator.integers(0, n, (2, 3 * n))
    own = np.arange(n)
    return QueryGraph(
        np.concatenate([[-1], np.sort(generator.choice(20, n - 1, replace=False))]),
        np.concatenate([[0], generator.integers(1, 4, n - 1)]),
        generator.random((n, 4)).astype(np.float32),
        np.concatenate([own, ends[0]]),
        np.concatenate([own, ends[1]]),
        np.concatenate([np.zeros(n, int), generator.integers(1, n_relations, 3 * n)]),
        np.arange(1, n),
    )


def toy_batch(graphs: list[QueryGraph], seed: int) -> Batch:
    generator = np.random.default_rng(seed)
    vectors = generator.standard_normal((20, 6)).astype(np.float32)
    asked = generator.standard_normal((len(graphs), 6)).astype(np.float32)
    return batch_of([[graph] for graph in graphs], asked, vectors, generator.integers(0, 3, 20))


def test_messages_by_scattering_are_those_of_dense_matrices() -> None:
    torch.manual_seed(0)
    graph = toy(np.random.default_rng(0))
    batch, n = toy_batch([graph], 1), len(graph.rows)
    layer = Messages(5).double().eval()
    states, own = torch.randn(n, WIDTH).double(), torch.randn(n, WIDTH).double()
    found = layer(states, own, batch)
    given, size = torch.cat([states, own], 1), WIDTH // HEADS
    ones = torch.cat(
        [
            torch.nn.functional.one_hot(batch.relations, 5),
            torch.nn.functional.one_hot(batch.kinds[batch.sources], 4),
            torch.nn.functional.one_hot(batch.kinds[batch.targets], 4),
        ],
        1,
    ).double()
    edges = layer.edge(ones)
    sends = torch.nn.functional.one_hot(batch.sources, n).double()  # (edges, nodes)
    hears = torch.nn.functional.one_hot(batch.targets, n).double()
    parts = []
    for head in range(HEADS):
        one = slice(head * size, (head + 1) * size)
        queries = (sends @ layer.query(given))[:, one]
        keys = (hears @ layer.key(given) + layer.edge_key(edges))[:, one]
        messages = (sends @ layer.message(given) + layer.edge_message(edges))[:, one]
        logits = (queries * keys).sum(1) / size**0.5
        by_sender = sends.T * logits + torch.where(sends.T > 0, 0.0, -torch.inf)
        shares = by_sender.softmax(1) * sends.sum(0)[:, None]
        parts.append(hears.T @ (shares.sum(0)[:, None] * messages))
    dense = states + torch.nn.functional.gelu(layer.update(torch.cat(parts, 1)))
    assert torch.allclose(found, dense, atol=1e-9)


@pytest.mark.parametrize("layers", [0, 2])
def test_scores_follow_the_nodes_and_no_other_question(layers: int) -> None:
    torch.manual_seed(0)
    generator = np.random.default_rng(3)
    graphs = [toy(generator) for _ in range(3)]
    network = GraphNetwork(6, 3, 5, layers).double().eval()

    def scores(batch: Batch) -> torch.Tensor:
        found: torch.Tensor = network(batch._replace(texts=batch.texts.double(), numbers=batch.numbers.double()))
        return found.detach()

    together = scores(toy_batch(graphs, 1))
    order = np.concatenate([[0], 1 + generator.permutation(6)])
    new = np.argsort(order)
    last = graphs[2]
    moved = QueryGraph(
        last.rows[order], last.kinds[order], last.numbers[order], new[last.sources], new[last.targets],
        last.relations, last.scored,
    )  # fmt: skip
    shuffled = scores(toy_batch([*graphs[:2], moved], 1))
    assert torch.allclose(shuffled[:12], together[:12], atol=1e-9)
    assert torch.allclose(shuffled[12:], together[12:][order[1:] - 1], atol=1e-9)
    without = last._replace(sources=last.sources[:7], targets=last.targets[:7], relations=last.relations[:7])
    changed = scores(toy_batch([*graphs[:2], without], 1))
    assert torch.allclose(changed, together, atol=1e-9) == (layers == 0)  # the control sees no edges


def test_a_graph_has_what_is_named_what_is_found_and_what_joins_them(there: Path) -> None:
    kb = KnowledgeBase.open(there / "kbbench/zoo")
    graphs = QueryGraphs(kb, depth=2, size=9)
    row = {name: number for number, name in enumerate(kb.names())}
    found = Ranking(np.array([[row["owl 1"], row["fox 2"], row["hen 0"]]]), np.array([[3.0, 2.0, 1.0]]))
    (graph,) = graphs.build(["ada 0 feed"], found)
    names = dict(zip(kb.names(graph.rows[1:]), graph.kinds[1:].tolist(), strict=True))
    assert names["ada 0"] == LINKED and {"owl 1", "fox 2"} <= {*names} and "hen 0" not in names and len(names) <= 8
    # score of the first stage, strength of the link, degree (all animals and keepers have two edges), and room for one
    numbers = dict(zip(kb.names(graph.rows[1:]), graph.numbers[1:].tolist(), strict=True))
    assert (numbers.pop("owl 1"), numbers.pop("fox 2")) == ([1, 0, 1, 0], [0.5, 0, 1, 0])
    first, strength, *others = numbers.pop("ada 0")
    assert (first, *others) == (0, 1, 0) and strength > 0
    assert all(each == [0, 0, 1, 0] for each in numbers.values()) and not graph.numbers[0].any()
    fed = {kb.names([r])[0] for r in kb.neighbors(row["ada 0"], direction="both")}
    assert fed & {*names}  # what stands between is joined to what is named
    inner = graph.relations >= OWN_RELATIONS
    there_are = {
        (int(graph.rows[a]), int(graph.rows[b]))
        for a, b in zip(graph.sources[inner], graph.targets[inner], strict=True)
    }
    kept = graph.rows[1:].tolist()
    wanted = {(a, b) for a in kept for b in kept if b in kb.neighbors(a, direction="both")}
    assert there_are == wanted
    for own in choices(graph):
        assert len(own.scored) == 1 and own.rows[0] == -1
        ends = own.rows[own.targets[(own.sources == 0) & (own.targets > 0)]].tolist()
        assert set(ends) == {row["ada 0"]} | (
            {int(own.rows[own.scored[0]])} & {row["owl 1"], row["fox 2"], row["ada 0"]}
        )


def test_messages_teach_what_texts_cannot_and_the_control_stands_beside_it(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = taught(there, tmp_path / "m", candidates=24, graph_size=40)
    with_edges, without = (
        run("zoo", model, split="train", out=tmp_path / f"r{n}", show=False).scores["mrr"].value
        for n, model in enumerate((f"{done.model}(bm25)", f"{done.model}@layers=0"))
    )
    assert with_edges > 0.9 and without < 0.8  # which of two neighbours is meant only their relations tell
    assert done.facts["ceilings"]["train"] == 1.0
    over = {gain["over"]: gain for gain in done.facts["gains"]}
    assert set(over) == {"control@layers=0", "first stage, bm25"} and over["control@layers=0"]["mrr"] > 0
    card = (tmp_path / "m/README.md").read_text()
    assert "over control@layers=0." in card and "Questions with an answer in their graph: 100.0% of train" in card
    with pytest.raises(UsageError, match="was trained over bm25"):
        run("zoo", f"{done.model}(graph:bm25)", out=tmp_path / "no", show=False)
    with pytest.raises(UsageError, match="no network of 3 layers"):
        run("zoo", f"{done.model}@layers=3", out=tmp_path / "no", show=False)


@pytest.mark.parametrize("mode", ["choices", pytest.param("joint", marks=pytest.mark.full)])
def test_a_network_that_is_stopped_goes_on_to_the_same_bytes(
    there: Path, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {"mode": mode, "epochs": 2, "evaluations": 2, "layers": 1}
    whole = taught(there, tmp_path / "whole", **how)
    judge = qagnn._TrainingState.add_score
    for stop in (1, 2):  # in the network, then in its control
        left = iter(range(stop, -1, -1))

        def stopped(self: Any, *arguments: Any, left: Any = left) -> None:
            if not next(left):
                raise KeyboardInterrupt
            judge(self, *arguments)

        monkeypatch.setattr(qagnn._TrainingState, "add_score", stopped)
        with pytest.raises(KeyboardInterrupt):
            taught(there, tmp_path / "parts", **how)
    monkeypatch.setattr(qagnn._TrainingState, "add_score", judge)
    again = taught(there, tmp_path / "parts", **how)
    assert weights(again.folder) == weights(whole.folder)
    assert again.facts["curve"] == whole.facts["curve"] and again.facts["gains"] == whole.facts["gains"]


def test_processes_with_other_revisions_of_the_encoder_train_nothing(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = lambda value: [value, ("other", dict.fromkeys(value[1], "another"))]  # noqa: E731
    monkeypatch.setattr(qagnn, "group", lambda: ProcessGroup(0, 2, others))
    spec = TrainSpec("zoo", "qagnn", str(there / "encoder/model"), **QUICK)
    with pytest.raises(UsageError, match="the encoder's revision"):
        qagnn.train_qagnn(spec, load_training_data("zoo"), tmp_path, tmp_path / "checkpoints", show=False)


def test_a_network_for_another_knowledge_base_is_refused(there: Path, tmp_path: Path) -> None:
    done = taught(there, tmp_path / "m", epochs=1, evaluations=1, layers=1)
    with pytest.raises(DataError, match="other node types or relations"):
        run("mini-stark", done.model, out=tmp_path / "no", show=False)


@pytest.mark.full
def test_the_controls_of_a_network_are_its_first_stage_and_the_network_without_edges(
    there: Path, tmp_path: Path
) -> None:
    done = taught(there, tmp_path / "m", epochs=2, evaluations=1, layers=1)
    lines = {line.system: line for line in controls(done, seeds=2, show=False) if line.part == "all"}
    assert len(lines["control@layers=0"].seeds) == len(lines[TRAINED].seeds) == 2
    assert {"first stage", "knn", "shuffled answers", "known answers not masked"} <= {*lines}
