"""A judge's agreement is measured where nothing was fitted, kept, and found beside every figure that it gives."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.annotated import AnnotationRules, HumanVote, made_with, with_annotations
from kbbench_hf.benchmarks.annotations import read_annotation
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext
from kbbench_hf.benchmarks.judge_agreement import JudgeAgreement, annotation_warnings, read_agreement, write_agreement
from kbbench_hf.errors import DataError
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.metrics.agreement import Agreement
from kbbench_hf.protocols import Verdict
from kbbench_hf.runners.calibration import calibrate_judge, predict_from_surface, released_items
from kbbench_hf.runners.generate import UnreadError
from kbbench_hf.runners.judge import ChatJudge, annotate_verdicts, with_calibrated_threshold
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.result import Predictions
from kbbench_hf.scoring.score import score_predictions
from tests.servers.scripted import MODEL, ScriptedServer

SYSTEMS = ("a", "b", "c")
KIND = "factualness"


def truth_of(triple: str) -> bool:
    return "true" in triple


@pytest.fixture
def release(tmp_path: Path) -> tuple[AnnotationRules, Examples]:
    """Three systems on 40 documents of four triples, of which the released judge holds three of four for true."""
    rows = [{"id": f"{n:016x}", "text": f"Text {n} .", "triples": [], "triples_stated": []} for n in range(40)]
    answers = {
        name: [[[f"{name} {n}", "has", f"{str(k != n % 4).lower()} {k}"] for k in range(4)] for n in range(40)]
        for name in SYSTEMS
    }
    for name, lists in answers.items():
        stored = {
            row["text"]: {"results": [truth_of(str(triple)) for triple in triples]}
            for row, triples in zip(rows, lists, strict=True)
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(stored))
    rules = benchmark("mini-genres").scoring.annotations
    assert rules is not None
    verdicts = [(name, lists, tmp_path / f"{name}.json") for name, lists in answers.items()]
    return replace(rules, released_verdicts=lambda *asked: verdicts), Examples(rows, CorpusContext("cdr", ()))


class Local:
    """A local judge by a function of the item."""

    def __init__(self, say: Any, name: str = "local@1") -> None:
        self.say, self.name = say, name
        self.asked: list[tuple[str, str]] = []

    def judge(self, items: Sequence[tuple[str, str]]) -> list[Verdict]:
        self.asked += items
        return [Verdict(float(self.say(*item)), "ok", "") for item in items]


class Graded(Local):
    """A judge with a threshold."""

    untuned, chosen = "graded@1", False

    def __init__(self, say: Any, threshold: float = 0.5) -> None:
        super().__init__(say, f"graded@1@threshold={threshold}")
        self.threshold = threshold

    def at(self, threshold: float) -> "Graded":
        return Graded(self.say, threshold)

    def read(self, raw: str) -> float:
        return float(float(raw) >= self.threshold)

    @staticmethod
    def probability(raw: str) -> float:
        return float(raw)

    def judge(self, items: Sequence[tuple[str, str]]) -> list[Verdict]:
        raws = [str(self.say(*item)) for item in items]
        return [Verdict(self.read(raw), "ok", raw) for raw in raws]


def measure(release: tuple[AnnotationRules, Examples], judge: Any, folder: Path, **how: Any) -> Any:
    return calibrate_judge(release[0], Path(), release[1], KIND, judge, folder, show=False, **how)


def test_the_truth_agrees_wholly_and_a_constant_not_at_all(
    release: tuple[AnnotationRules, Examples], tmp_path: Path
) -> None:
    right = measure(release, Local(lambda text, triple: truth_of(triple)), tmp_path / "k")
    always = measure(release, Local(lambda text, triple: True, "always@1"), tmp_path / "k")
    assert (right.judge.kappa, right.mean_absolute_error) == (1.0, 0.0)
    assert (always.judge.kappa, always.judge.balanced_accuracy) == (0.0, 0.5)
    assert always.judge == always.constant and always.judge.accuracy == 0.75
    assert right.judge.n == 20 * 4 * 3  # the half of the documents whose ids end on an odd digit
    assert right.n_documents == 20 and right.n_systems == 3 and right.cost["n_items"] == 240


def test_a_judge_without_a_threshold_is_asked_of_the_checking_half_alone(
    release: tuple[AnnotationRules, Examples], tmp_path: Path
) -> None:
    judge = Local(lambda text, triple: True)
    measure(release, judge, tmp_path / "k")
    assert {int(text.split()[1]) % 2 for text, _ in judge.asked} == {1}
    few = Local(lambda text, triple: True, "few@1")
    measure(release, few, tmp_path / "k", sample=30)
    assert len(few.asked) == 30


def test_a_threshold_is_fitted_on_the_other_half_and_the_other_systems(
    release: tuple[AnnotationRules, Examples], tmp_path: Path
) -> None:
    def probability(text: str, triple: str) -> float:
        if int(text.split()[1]) % 2:  # on the checking half, .55 would be best
            return 0.56 if truth_of(triple) else 0.54
        low = "c " in triple  # system c's own best threshold is below .3, the others' is above .6
        return (0.2 if low else 0.9) if truth_of(triple) else (0.1 if low else 0.6)

    measured = measure(release, Graded(probability), tmp_path / "k")
    assert measured.threshold == pytest.approx(0.65)
    # a and b are judged with .15, as the other and c want it, so all is yes; c with .65, so all is no
    assert measured.judge.accuracy == pytest.approx((0.75 + 0.75 + 0.25) / 3)
    chosen = Graded(probability, 0.55)
    chosen.chosen = True  # type: ignore[misc]
    assert measure(release, chosen, tmp_path / "k").judge.kappa == 1.0


def test_what_was_measured_stands_beside_the_figures_of_that_judge_on_that_corpus_alone(
    release: tuple[AnnotationRules, Examples], tmp_path: Path
) -> None:
    judge = Graded(lambda text, triple: 0.8 if truth_of(triple) else 0.4)
    measured, (_, examples) = measure(release, judge, tmp_path / "k"), release
    answers = [[["x", "has", "true"]]] * len(examples.rows)

    def annotated(judge: Any, config: str) -> Examples:
        here = Examples(examples.rows, CorpusContext(config, ()))
        folder = tmp_path / f"{judge.name}-{config}"
        annotate_verdicts(here, answers, folder, KIND, judge, agreements=tmp_path / "k", show=False)
        return with_annotations(here, folder)

    found = annotated(judge, "cdr")
    assert made_with(found)[KIND]["agreement"] == json.loads(json.dumps(measured.to_dict()))
    versions = score_predictions(load_examples("mini-genres")._replace(examples=found), Predictions(answers)).versions
    assert "agreement" not in json.loads(versions[f"annotations:{KIND}"]) and f"agreement:{KIND}" in versions
    [warning] = annotation_warnings(benchmark("mini-genres"), found, answers)
    assert warning.code == "judge_agreement" and warning.severity == "note" and "1.00 / 1.00" in warning.message
    kept = read_annotation(tmp_path / f"{judge.name}-cdr", KIND)
    assert kept is not None and kept.identity["judge"] == f"graded@1@threshold={measured.threshold}"
    for other in (annotated(judge, "docred"), annotated(Local(lambda *item: True, "other@1"), "cdr")):
        assert "agreement" not in made_with(other)[KIND]
        assert [each.code for each in annotation_warnings(benchmark("mini-genres"), other, answers)] == [
            "judge_not_calibrated"
        ]


def test_a_served_judge_is_calibrated_once_and_its_unread_answers_are_counted(
    release: tuple[AnnotationRules, Examples], tmp_path: Path
) -> None:
    def say(payload: dict[str, Any]) -> str:
        triple = payload["messages"][-1]["content"].partition("Triple: ")[2]
        return "I am not sure." if 'a 1"' in triple else str(truth_of(triple)).lower()

    with ScriptedServer(answer=say) as server:
        judge = ChatJudge(Endpoint(server.url, MODEL), options={"canary": False, "attempts": 1})
        measured = measure(release, judge, tmp_path / "k", sample=None)
        again = measure(release, judge, tmp_path / "k", sample=None)
        assert len(server.requests) == 240
    assert measured.n_unread == 4 and measured.judge.n == 236 and measured.judge.kappa == 1.0
    assert again.judge == measured.judge and measured.cost["n_requests"] == 240 and measured.cost["prompt_tokens"] > 0


def test_a_judge_that_is_cut_off_while_it_thinks_has_no_agreement(
    release: tuple[AnnotationRules, Examples], tmp_path: Path
) -> None:
    with ScriptedServer(answer=lambda payload: "<think>Is it true? Well ...", always="length") as server:
        judge = ChatJudge(Endpoint(server.url, MODEL), options={"canary": False, "attempts": 1})
        with pytest.raises(UnreadError, match="have no readable verdict"):
            measure(release, judge, tmp_path / "k", sample=20)
    assert not list((tmp_path / "k").glob("*.json"))


def test_surface_features_are_fitted_without_the_documents_and_the_system_they_judge(
    release: tuple[AnnotationRules, Examples],
) -> None:
    found = released_items(release[0], Path(), release[1], KIND)
    said = predict_from_surface(found, ~found.fits)
    assert found.fits.sum() == len(said) == 240
    upside_down = np.where(found.fits, found.values, 1 - found.values)  # what is checked decides nothing
    assert (predict_from_surface(replace(found, values=upside_down), ~found.fits) == said).all()


def test_people_are_asked_where_they_voted(release: tuple[AnnotationRules, Examples], tmp_path: Path) -> None:
    rules, examples = release
    # of systems a and b, people prefer a on the first two documents, b on the third, and neither on the fourth
    said = ["a", "a", "b", "tie"]
    votes = [
        HumanVote(KIND, row["id"], "a", "b", vote, 0.0, 1.0)  # type: ignore[arg-type]
        for row, vote in zip(examples.rows, said, strict=False)
    ]
    stored = [(name, answers, {}) for name, answers, _ in rules.released_verdicts(Path(), examples, KIND)]
    rules = replace(rules, human_votes=lambda *asked: votes, released_outputs=lambda *asked: stored)
    likes_a = Local(lambda text, triple: "a " in triple, "likes-a@1")
    found = measure((rules, examples), likes_a, tmp_path / "k").people
    assert found.judge == (4, 3, 2, 1) and found.released == (4, 3, 1, 2)
    assert found.judge_strengths["a"] > found.people_strengths["a"] > 0
    again = read_agreement(tmp_path / "k", {"judge": "likes-a@1"}, KIND, "cdr")
    assert again is not None and again.people == found
    (file,) = (tmp_path / "k").glob(f"{KIND}-cdr-*.json")
    for damaged in ('{"agreement": {}}', '{"agreement": []}'):
        file.write_text(damaged, encoding="utf-8")
        with pytest.raises(DataError, match="holds no calibration"):
            read_agreement(tmp_path / "k", {"judge": "likes-a@1"}, KIND, "cdr")


@pytest.mark.parametrize(("measured", "threshold"), [(0.25, 0.25), (0.0, 0.0), (None, 0.5)])
def test_a_judge_takes_the_threshold_of_its_calibration_where_there_is_one(
    measured: float | None, threshold: float, tmp_path: Path
) -> None:
    examples = Examples([], CorpusContext("docred", ()))
    judge, same = Graded(lambda *_: 1), Agreement(9, 0.5, 0.5, 0.5, 0.0)
    assert with_calibrated_threshold(judge, "factualness", examples, None) is judge
    assert with_calibrated_threshold(judge, "factualness", examples, tmp_path) is judge
    parts: dict[str, Any] = dict.fromkeys(("judge", "constant", "surface", "ceiling"), same)
    found = JudgeAgreement("docred", "gpt", 9, 1, **parts, spearman=None, mean_absolute_error=None, threshold=measured)
    write_agreement(tmp_path, {"judge": judge.untuned}, "factualness", found)
    calibrated = with_calibrated_threshold(judge, "factualness", examples, tmp_path)
    assert isinstance(calibrated, Graded) and calibrated.threshold == threshold
    judge.chosen = True
    assert with_calibrated_threshold(judge, "factualness", examples, tmp_path) is judge
