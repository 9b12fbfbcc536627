"""A retriever learns from training questions alone, stops and goes on, and comes out the same."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

import torch
from transformers import Trainer

from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.errors import UsageError
from kbbench_hf.protocols import ProcessGroup
from kbbench_hf.retrieval.trained_folder import publication
from kbbench_hf.runners.run import run
from kbbench_hf.training import encoders
from kbbench_hf.training import questions as training_questions
from kbbench_hf.training.encoders import (
    FILES,
    NegativeRefresh,
    TrainingBar,
    TrainingPairs,
    last_checkpoint,
    mask_answers,
)
from kbbench_hf.training.questions import SplitQuestions, load_training_data
from kbbench_hf.training.spec import TrainSpec
from kbbench_hf.training.train import RETRIEVERS, TRAINED, controls, train
from tests.tiny_encoder import tiny_encoder
from tests.unit.training.worlds import build_world, weights

COLOURS = ["red", "blue", "green", "black", "white"]
THINGS = ["kite", "boat", "lamp", "drum", "coat", "harp", "sled", "vase"]
STRANGE = {"red": "rubrum", "blue": "caeruleum", "green": "viride", "black": "nigrum", "white": "album"}
"""The questions name colours in words that no node has: what they mean is to be learned."""
QUICK = {"learning_rate": 3e-3, "batch": 16, "train_length": 16, "length": 16}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a knowledge base of coloured things, and an encoder that knows the words."""
    folder = tmp_path_factory.mktemp("world")
    nodes = [(f"n{7 * i}", "thing", f"{c} {t}") for i, (c, t) in enumerate((c, t) for t in THINGS for c in COLOURS)]
    ids = {name: node for node, _, name in nodes}
    asked = [(f"which {t} is {STRANGE[c]}", [ids[f"{c} {t}"]]) for t in THINGS for c in COLOURS]
    asked += [(f"what is {STRANGE[c]}", [ids[f"{c} {t}"] for t in THINGS]) for c in COLOURS]
    splits = ["train"] * 3 + ["validation", "test"]
    edges = [("n0", "near", "n7")]
    rows = [(q, a, "train" if len(a) > 1 else splits[n % 5]) for n, (q, a) in enumerate(asked)]
    build_world(folder, "things", nodes, edges, rows)
    tiny_encoder(folder / "encoder", [name for _, _, name in nodes] + [q for q, _ in asked] + ["name type thing"])
    return folder


@pytest.fixture
def there(world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(world)
    monkeypatch.setenv("KBBENCH_CACHE", str(world / "cache"))
    return world


def taught(world: Path, out: Path, method: str = "dpr", **how: Any) -> Any:
    return train("things", method, str(world / "encoder/model"), out, show=False, **{**QUICK, **how})


@pytest.mark.parametrize(("method", "epochs"), [("dpr", 40), ("colbert", 30)])
def test_what_was_learned_ranks_the_training_questions_first_by_its_name(
    there: Path, tmp_path: Path, method: str, epochs: int
) -> None:
    done = taught(there, tmp_path / "m", method, epochs=epochs)
    learned = run("things", done.model, split="train", out=tmp_path / "r", show=False).scores["hit_at_1"].value
    before = f"{RETRIEVERS[method]}:{there / 'encoder/model'}"
    untrained = run("things", before, split="train", out=tmp_path / "u", show=False)
    assert learned == 1.0 > 0.3 > untrained.scores["hit_at_1"].value
    assert done.facts["chosen_step"] in [each["step"] for each in done.facts["curve"]]
    assert not (tmp_path / "m/checkpoints").exists()
    card = (tmp_path / "m/README.md").read_text()
    data = load_training_data("things")
    assert all(f"{split} `{digest}`" in card for split, digest in data.hashes.items())
    assert "| all | 8 |" in card and "| answer seen in training |" in card and data.train.texts[0] not in card
    sent = publication(tmp_path / "m", "me")
    assert (sent.repo_id, sent.repo_type) == ("me/m", "model")
    assert {"README.md", "training.json", "model.safetensors", "modules.json"} <= {*sent.files}


@pytest.mark.parametrize(("method", "how"), [("dpr", {"mini_batch": 4}), ("colbert", {"dimension": 16})])
def test_a_training_that_is_stopped_goes_on_to_the_same_bytes(
    there: Path, tmp_path: Path, method: str, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = taught(there, tmp_path / "whole", method, epochs=3, evaluations=3, **how)
    step = TrainingBar.on_step_end

    def stopped(self: TrainingBar, args: Any, state: Any, control: Any, **others: Any) -> None:
        step(self, args, state, control, **others)
        if state.global_step == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingBar, "on_step_end", stopped)
    with pytest.raises(KeyboardInterrupt):
        taught(there, tmp_path / "halves", method, epochs=3, evaluations=3, **how)
    monkeypatch.setattr(TrainingBar, "on_step_end", step)
    again = taught(there, tmp_path / "halves", method, epochs=3, evaluations=3, **how)
    assert weights(again.folder) == weights(whole.folder)
    assert again.facts["curve"] == whole.facts["curve"]
    assert again.facts["refreshes"] == whole.facts["refreshes"] == []


def test_a_checkpoint_that_was_not_written_to_its_end_is_not_taken_up(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {"method": "ance", "epochs": 3, "evaluations": 3, "refresh": 4}
    whole = taught(there, tmp_path / "whole", **how)
    for place, (owner, name) in enumerate(
        [(Trainer, "_save_optimizer_and_scheduler"), (Trainer, "_save_rng_state"), (NegativeRefresh, "on_save")]
    ):
        write, left = getattr(owner, name), iter((True, False))

        def torn(self: Any, *given: Any, left: Any = left, write: Any = write, **named: Any) -> Any:
            if next(left):
                return write(self, *given, **named)
            raise KeyboardInterrupt

        monkeypatch.setattr(owner, name, torn)
        with pytest.raises(KeyboardInterrupt):
            taught(there, tmp_path / f"torn-{place}", **how)
        monkeypatch.setattr(owner, name, write)
        again = taught(there, tmp_path / f"torn-{place}", **how)
        assert weights(again.folder) == weights(whole.folder), f"torn in {name}"
        assert again.facts["curve"] == whole.facts["curve"]
        assert again.facts["refreshes"] == whole.facts["refreshes"] and len(whole.facts["refreshes"]) == 2


def test_a_checkpoint_that_was_partly_removed_is_not_whole(tmp_path: Path) -> None:
    for step in (9, 10):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "weights").write_text("w" * step)
        (folder / FILES).write_text(json.dumps({"weights": step}))
    (tmp_path / "checkpoint-11").mkdir()
    alone = ProcessGroup()
    assert last_checkpoint(tmp_path, alone) == tmp_path / "checkpoint-10"
    (tmp_path / "checkpoint-10/weights").unlink()
    assert last_checkpoint(tmp_path, alone) == tmp_path / "checkpoint-9"
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint-9"]
    assert last_checkpoint(tmp_path / "none", alone) is None


def test_another_training_in_the_same_folder_is_refused_and_the_same_one_is_done_at_once(
    there: Path, tmp_path: Path
) -> None:
    first = taught(there, tmp_path / "m", epochs=1, evaluations=1)
    before = weights(tmp_path / "m")
    assert taught(there, tmp_path / "m", epochs=1, evaluations=1).facts == first.facts
    with pytest.raises(UsageError, match="seed is 0, not 1"):
        taught(there, tmp_path / "m", epochs=1, evaluations=1, seed=1)
    assert weights(tmp_path / "m") == before


def test_a_base_that_cannot_be_loaded_is_named_and_leaves_no_folder_behind(there: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent' cannot be loaded"):
        train("things", "dpr", str(tmp_path / "absent"), tmp_path / "m", show=False)
    assert not (tmp_path / "m").exists()
    taught(there, tmp_path / "m", epochs=1, evaluations=1)


def test_no_test_question_is_asked_of_a_miner_or_looked_at(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load_training_data("things")
    with (there / "queries.csv").open() as rows:
        test = {row["query"] for row in csv.DictReader(rows) if row["split"] == "test"}
    assert test and not test & {*data.train.texts, *data.validation.texts}
    asked: list[str] = []
    ranked = training_questions.retriever

    def watched(*arguments: Any) -> Any:
        found = ranked(*arguments)
        search = found.search
        monkeypatch.setattr(type(found), "search", lambda self, q, k: (asked.extend(q), search(q, k))[1])
        return found

    monkeypatch.setattr(training_questions, "retriever", watched)
    taught(there, tmp_path / "m", epochs=1, evaluations=1)
    assert asked == list(data.train.texts)


def test_processes_that_start_from_other_weights_train_nothing(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = lambda value: [value, ("other", dict.fromkeys(value[1], "another"))]  # noqa: E731
    monkeypatch.setattr(encoders, "group", lambda: ProcessGroup(0, 2, others))
    spec = TrainSpec("things", "dpr", str(there / "encoder/model"), **QUICK)
    with pytest.raises(UsageError, match="the hash of the weights before training"):
        encoders.train_encoder(spec, load_training_data("things"), tmp_path, tmp_path / "checkpoints", show=False)


def test_known_answers_are_masked_and_nothing_else() -> None:
    questions = SplitQuestions(["a", "b"], [np.array([1, 2]), np.array([2, 3])])
    pairs = TrainingPairs(questions, lambda rows: [str(row) for row in rows])
    pairs.replace_negatives(np.array([[5], [2], [1], [1]]))  # of (a, 1), (a, 2), (b, 2), (b, 3)
    labels = np.array([0, 2]) + len(pairs) * pairs.version
    # columns: the positives 1 and 2, then the negatives 5 and 1; 2 answers a as well, and so does the negative 1
    assert pairs.known_answers(labels).tolist() == [[False, True, False, True], [False, False, False, False]]
    assert not TrainingPairs(questions, lambda rows: [], masked=False).known_answers(np.array([0, 2])).any()


def test_shuffled_questions_have_the_answers_of_others_all_of_them_once() -> None:
    questions = SplitQuestions(["q"] * 9, [np.array([each]) for each in range(9)])
    for seed in range(5):
        answers = [int(each[0]) for each in questions.shuffle_answers(seed).answers]
        assert sorted(answers) == [*range(9)] and all(answer != own for own, answer in enumerate(answers))


@pytest.mark.parametrize("cached", [False, True])
def test_a_masked_loss_without_anything_to_mask_is_the_loss_it_was(there: Path, cached: bool) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import losses

    model = SentenceTransformer(str(there / "encoder/model"), device="cpu").eval()
    made: Callable[[], Any] = lambda: (  # noqa: E731
        losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=2)
        if cached
        else losses.MultipleNegativesRankingLoss(model)
    )
    texts = (["what is rubrum", "what is album", "which lamp"], ["red lamp", "white lamp", "black lamp"])
    features = [model.preprocess(each) for each in texts]
    labels = torch.arange(3)
    plain = made()([dict(each) for each in features], labels).item()
    nothing = mask_answers(made(), lambda rows: np.zeros((3, 3), bool))
    assert nothing([dict(each) for each in features], labels).item() == pytest.approx(plain, abs=1e-6)
    other = np.zeros((3, 3), bool)
    other[0, 2] = True
    less = mask_answers(made(), lambda rows: other)([dict(each) for each in features], labels).item()
    assert less < plain - 1e-3


@pytest.mark.parametrize(
    ("method", "how", "said"),
    [
        ("dpr", {"held_out": 0.5}, "--held-out is for --method plan; dpr has no use for it"),
        ("plan", {"n_negatives": 2}, "--n-negatives is for --method dpr, ance, colbert; plan"),
        ("fuse", {"seed": 1, "epochs": 5}, "--epochs is for --method dpr, ance, colbert, qagnn, plan; fuse"),
        ("qagnn", {"mask": False, "dimension": 8}, "--dimension is for --method colbert; qagnn"),
    ],
)
def test_options_of_other_methods_are_refused(method: str, how: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        train("mini-stark", method, "tiny", show=False, **how)


def test_a_benchmark_without_splits_is_refused_with_what_it_needs() -> None:
    with pytest.raises(UsageError, match="a column `split`"):
        load_training_data("mini-stark")


def test_the_command_trains_and_says_how_to_rank(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = str(there / "encoder/model")
    arguments = ["--method", "dpr", "--base", base, "--epochs", "1", "--evaluations", "1", "--out", str(tmp_path / "m")]
    kbbench.main(["train", "things", *arguments], standalone_mode=False)
    assert f"run things --model dense:{tmp_path / 'm'}" in capsys.readouterr().out


def test_weights_are_learned_for_what_ranks_well_and_the_fusion_is_run_by_its_name(there: Path, tmp_path: Path) -> None:
    dpr = taught(there, tmp_path / "m", epochs=20)
    fused = train("things", "fuse", f"weighted(bm25,{dpr.model})", tmp_path / "f", show=False)
    stored = json.loads((tmp_path / "f/fusion.json").read_text())
    assert stored["parts"] == ["bm25", dpr.model] and sum(stored["weights"]) == pytest.approx(1)
    by_hand = f"weighted(bm25,{dpr.model})@weights={'/'.join(map(str, stored['weights']))}"
    figures = [
        run("things", model, out=tmp_path / f"r{n}", show=False).scores["mrr"].value
        for n, model in enumerate((fused.model, by_hand))
    ]
    assert figures[0] == figures[1]
    with pytest.raises(UsageError, match="expected two or more"):
        train("things", "fuse", "bm25", tmp_path / "g", show=False)


def test_controls_are_trained_beside_the_model_and_paired_with_it_on_the_validation_questions(
    there: Path, tmp_path: Path
) -> None:
    done = taught(there, tmp_path / "m", epochs=5, evaluations=1)
    lines = {line.system: line for line in controls(done, seeds=2, show=False) if line.part == "all"}
    assert [len(line.seeds) for line in lines.values()] == [2, 1, 1, 1, 1, 1] and {
        line.n for line in lines.values()
    } == {8}
    again = {line.system: line for line in controls(done, seeds=2, show=False) if line.part == "all"}
    assert again == lines  # its own table in the folder makes no other model of it
    own = lines[TRAINED]
    assert own.gain == 0 and own.mrr == pytest.approx(np.mean(own.seeds))
    assert all(line.gain == pytest.approx(own.mrr - line.mrr) for line in lines.values())
    assert lines["shuffled answers"].ci95[0] > 0  # what was taught wrongly ranks clearly worse
    made = {
        name: json.loads((tmp_path / f"m-{name}/training.json").read_text()) for name in ("seed-1", "shuffled-answers")
    }
    assert made["seed-1"]["settings"]["seed"] == 1 and made["shuffled-answers"]["settings"]["shuffle"] is True
    assert {line["n"] for line in json.loads((tmp_path / "m/controls.json").read_text())["lines"]} == {8}
