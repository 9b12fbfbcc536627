"""The judge that reads no meaning: what it sees, what it was fitted on, and how far it may be believed."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.annotated import with_annotations
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext, score
from kbbench_hf.benchmarks.judge_agreement import HumanCheck, JudgeAgreement, agreement_warnings
from kbbench_hf.building.genres.release import text_id
from kbbench_hf.judges.surface import OTHER, Logistic, SurfaceJudge, fact_features, fit_logistic, split_features
from kbbench_hf.metrics.agreement import Agreement, Decided, agreement
from kbbench_hf.runners.calibration import released_items
from kbbench_hf.runners.judge import annotate_verdicts, judge_by_name

TEXT = "Ada Lovelace wrote the first program in London ."
CORPORA = ("cdr", "docred", "wiki20m", "wiki80")
NOTE = {  # balanced accuracy and kappa of the same kind of model, fitted by others
    "factualness": ((0.762, 0.651), (0.573, 0.240), (0.653, 0.378), (0.639, 0.335)),
    "granularity": ((0.797, 0.595), (0.780, 0.562), (0.741, 0.478), (0.741, 0.482)),
}


def item(*triple: object, text: str = TEXT) -> tuple[str, str]:
    return text, json.dumps(triple)


@pytest.mark.parametrize("kind", NOTE)
@pytest.mark.parametrize("corpus", CORPORA)
def test_its_agreement_is_that_of_surface_features_elsewhere(kind: str, corpus: str) -> None:
    judge = SurfaceJudge(kind, corpus)
    balanced, kappa = NOTE[kind][CORPORA.index(corpus)]
    assert judge.agreement.judge.balanced_accuracy == pytest.approx(balanced, abs=0.03)
    assert judge.agreement.judge.kappa == pytest.approx(kappa, abs=0.03)
    assert judge.agreement.constant.kappa == 0 and judge.agreement.ceiling.kappa > judge.agreement.judge.kappa
    assert judge.name.startswith(f"surface:{corpus}@")


@pytest.mark.parametrize("corpus", CORPORA)
def test_on_the_released_verdicts_it_agrees_as_it_says(corpus: str, shared: Path) -> None:
    """On the documents that it was not fitted on, with the weights that are shipped, fitted on all systems."""
    release = shared / "data/genres"
    [file] = (release / "inputs").glob(f"{corpus}_rand_*.json")
    texts = json.loads(file.read_text(encoding="utf-8"))
    examples = Examples([{"id": text_id(text), "text": text} for text in texts], CorpusContext(corpus, ()))
    rules = benchmark("genres-corpora").scoring.annotations
    assert rules is not None
    for kind, known in NOTE.items():
        found = released_items(rules, release, examples, kind)
        checked, judge = found.of(~found.fits), SurfaceJudge(kind, corpus)
        said = [bool(verdict.value) for verdict in judge.judge(checked.items)]
        measured = agreement(checked.yes, said)
        assert measured.n == judge.agreement.judge.n
        assert (measured.balanced_accuracy, measured.kappa) == pytest.approx(known[CORPORA.index(corpus)], abs=0.03)


def test_texts_of_another_kind_are_judged_by_the_model_of_all_corpora() -> None:
    other, known = SurfaceJudge("factualness", "movies"), SurfaceJudge("factualness", "cdr")
    assert other.corpus == OTHER and other.name != known.name
    assert "fitted on others" in other.agreement.corpus


def test_it_tells_what_the_text_says_from_what_it_does_not() -> None:
    judge = SurfaceJudge("factualness", "docred")
    stated, invented, empty = judge.judge(
        [item("Ada Lovelace", "wrote", "first program"), item("Bob Kahn", "invented", "Quito"), item("", "", "")]
    )
    assert (stated.value, invented.value, empty.value) == (1.0, 0.0, 0.0)
    assert float(stated.raw) > float(invented.raw)


def test_it_tells_several_facts_from_one() -> None:
    one, several = SurfaceJudge("granularity", "wiki80").judge(
        [
            item("Ada", "wrote", "program"),
            item("Ada", "wrote", "the first program, and letters, in London"),
        ]
    )
    assert (one.value, several.value) == (0.0, 2.0)


@pytest.mark.parametrize("triple", [["a"], ["a", "r", None], ["a", "r", ["b", "c"]], "abc", ["a", "r", "b", "c"], []])
def test_malformed_triples_are_judged_too(triple: object) -> None:
    for kind in ("factualness", "granularity"):
        [verdict] = SurfaceJudge(kind, "cdr").judge([(TEXT, json.dumps(triple))])
        assert verdict.status == "ok" and verdict.value in (0.0, 1.0, 2.0)


def test_nothing_to_judge_is_nothing() -> None:
    assert SurfaceJudge("factualness", "cdr").judge([]) == []
    assert fact_features([]).shape == (0, 8) and split_features([]).shape == (0, 7)


def test_a_fit_finds_the_weights_that_made_the_answers() -> None:
    rng = np.random.default_rng(4)
    features = rng.normal([3.0, -1.0], [2.0, 0.1], size=(20_000, 2))
    made_by = Logistic((1.0, -8.0), -11.0)
    truth = rng.random(len(features)) < made_by.probabilities(features)
    found = fit_logistic(features, truth)
    assert found.weights == pytest.approx(made_by.weights, rel=0.1)
    assert found.intercept == pytest.approx(made_by.intercept, rel=0.1)


def test_the_agreement_goes_with_every_figure(tmp_path: Path) -> None:
    rows = [{"id": "d1", "text": TEXT, "triples": [], "triples_stated": []}]
    examples, answers = Examples(rows, CorpusContext("docred", ())), [[["Ada Lovelace", "wrote", "first program"]]]
    for kind in NOTE:
        annotate_verdicts(examples, answers, tmp_path, kind, judge_by_name("surface", kind, "docred"), show=False)
    annotated = with_annotations(examples, tmp_path)
    assert score(annotated, answers, "fixed").values["factualness"].tolist() == [1.0]
    identities = annotated.annotations.identities()
    found = agreement_warnings({"factualness": "FS", "granularity": "GS"}, identities)
    assert [warning.code for warning in found] == ["judge_agreement"] * 2
    assert all(warning.severity == "warning" for warning in found)  # no better than surface features: it is they
    measured = SurfaceJudge("factualness", "docred").agreement
    assert f"accuracy {measured.judge.kappa:.2f} / {measured.judge.balanced_accuracy:.2f}" in found[0].message
    assert "a baseline that reads no meaning" in found[0].message


def test_a_judge_that_nobody_calibrated_is_said_to_be_one() -> None:
    [warning] = agreement_warnings({"factualness": "FS"}, {"factualness": {"judge": "chat:m@1"}})
    assert warning.code == "judge_not_calibrated" and "was not measured" in warning.message
    assert agreement_warnings({"factualness": "FS"}, {"factualness": {"judge": "stored:gpt-3.5-turbo-instruct"}}) == []
    assert agreement_warnings({"factualness": "FS"}, {}) == []


def test_a_table_of_an_agreement_has_its_baselines_the_votes_of_people_and_the_cost() -> None:
    one, none = Agreement(1200, 0.25, 0.9, 0.8, 0.75), Agreement(7, 0.5, 0.5, 0.5, 0.0)
    check = HumanCheck(Decided(9, 7, 4, 2), Decided(9, 7, 5, 1), {"a": -0.5, "b": 1.0}, {"a": 0.25, "b": 0.0})
    parts: dict[str, Any] = {"judge": one, "constant": none, "surface": none, "ceiling": one, "spearman": 0.5}
    few = JudgeAgreement("docred", "gpt", 1000, 3, **parts, mean_absolute_error=None)
    assert few.table().splitlines() == [
        "                    accuracy  balanced   kappa  triples",
        "  this judge           0.900     0.800   0.750    1,200",
        "  surface features     0.500     0.500   0.000        7",
        "  always the same      0.500     0.500   0.000        7",
        "  gpt with itself      0.900     0.800   0.750    1,200",
        "  against gpt on docred: 1,000 documents, 3 systems, 0 answers without a verdict; 25.0 % are yes",
    ]
    whole = replace(
        few, mean_absolute_error=0.031, people=check, threshold=0.25, cost={"n_items": 2000, "seconds": 1.5}
    )
    assert whole.table().splitlines()[6:] == [
        "  systems' figures: mean absolute error 3.1 points, Spearman 0.500 (surface features alone reach .6 to .95: "
        "it proves no judge)",
        "  people decide 7 of 9 pairs: this judge says the same of 4 and the opposite of 2 (released 5 and 1); "
        "strength by people and by this judge: b +1.00 +0.00, a -0.50 +0.25",
        "  threshold 0.25, fitted on the other half of the documents",
        "  cost: items 2,000, seconds 1.5",
    ]
    assert JudgeAgreement.of(json.loads(json.dumps(whole.to_dict()))) == whole


def test_an_agreement_comes_back_from_its_file_even_where_nothing_could_be_measured() -> None:
    measured = SurfaceJudge("factualness", "cdr").agreement
    assert JudgeAgreement.of(json.loads(json.dumps(measured.to_dict()))) == measured
    unknown = JudgeAgreement.of({**measured.to_dict(), "ceiling": agreement([True], [True])._asdict()})
    plain = json.loads(json.dumps(unknown.to_dict(), allow_nan=False))
    assert math.isnan(JudgeAgreement.of(plain).ceiling.kappa)
