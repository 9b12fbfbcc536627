"""`published:NAME` on a place: figures and answers by name, pattern and nearness, and what is said without any."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from kbbench_hf import run
from kbbench_hf.benchmarks import TaskKey, shipped_answers, shipped_runs
from kbbench_hf.benchmarks.baselines import (
    answers_of,
    find_published,
    published_answers,
    published_beside,
    published_rows,
    published_systems,
)
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import write_dataset
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.score import score

MINI = TaskKey("mini-text2kg", "sentences", "test", "reference")
TEKGEN = TaskKey("text2kg-wikidata-tekgen", "sentences", "test", "reference")
MINIS = ("mini-genres", "mini-ska", "mini-stark", "mini-text2kg")
PRIME = TaskKey("stark-prime", "queries", "test", "reference")
CARD = "---\nlicense: mit\n---\n# A dataset\n"


@pytest.fixture
def built(in_tmp: Path) -> Path:
    """A built dataset with the answers of one published system."""
    data = {"sentences": {"test": pa.table({"id": ["a"]}), "unseen": pa.table({"id": ["b"]})}}
    answers = {("sentences", "test", "Vicuna-13B"): [{"id": "a", "triples": []}]}
    write_dataset(Path("kbbench/text2kg-wikidata-tekgen"), data, CARD, answers)
    return Path("kbbench/text2kg-wikidata-tekgen")


def test_a_name_is_found_in_any_case_and_with_or_without_the_prefix() -> None:
    for name in ("published:GraphRAFT", "graphraft", "published:GRAPHRAFT"):
        (found,) = find_published(name, PRIME)
        assert (found.system, found.answers) == ("GraphRAFT", None)
        assert found.row is not None and found.row.scores["hit_at_1"] == 0.6371


def test_a_pattern_means_every_system_it_fits() -> None:
    assert [each.system for each in find_published("published:*reranker", PRIME._replace(split="test_0_1"))] == [
        "Claude3 Reranker",
        "GPT4 Reranker",
    ]
    everything = [each.system for each in find_published("published:*", PRIME)]
    assert everything == [row.system for row in published_systems(PRIME)] and len(everything) == 15


def test_an_unknown_name_gets_the_closest_one() -> None:
    with pytest.raises(UsageError, match=r"stark-prime/queries, split test.*Did you mean 'GritLM-7b'\?"):
        find_published("published:GritLM7b", PRIME)
    with pytest.raises(UsageError, match="Unknown published system"):
        find_published("published:nothing-like-*", PRIME)


def test_figures_of_another_split_or_mode_are_never_returned_but_said() -> None:
    with pytest.raises(
        UsageError, match=r"no scores for .* mode repaired; it has some for .*mode paper.*mode reference"
    ):
        find_published("published:Alpaca-LoRA-13B", TEKGEN._replace(mode="repaired"))
    with pytest.raises(UsageError, match=r"some for split human, mode reference; split test_0_1, mode reference"):
        find_published("published:GPT4 Reranker", PRIME)
    with pytest.raises(UsageError, match=r"nothing is published for .*See: kbbench list stark-prime --published"):
        find_published("published:mine", PRIME._replace(split="validation"))
    with pytest.raises(UsageError, match="nothing is published for mini-stark/queries"):
        find_published("published:mine", TaskKey("mini-stark", "queries", "test", "reference"))


def test_what_was_published_without_a_mode_stands_at_the_default_one() -> None:
    place = TaskKey("ska-bench", "noise_kg_4k", "test", "squad")
    systems = [each.system for each in find_published("published:*", place)]
    assert len(systems) == 8 and "data" not in systems  # what was published of the dataset is no system
    assert {each.row.task_key.mode for each in find_published("published:*", place) if each.row} == {""}


def test_answers_are_those_the_dataset_brings_for_config_and_split(built: Path) -> None:
    assert published_answers(TEKGEN) == {"Vicuna-13B": built / "predictions/sentences/test/Vicuna-13B.jsonl"}
    assert published_answers(TEKGEN._replace(split="unseen")) == {}
    both = {each.system: each.answers is not None for each in find_published("published:*", TEKGEN)}
    assert both == {"Alpaca-LoRA-13B": False, "Vicuna-13B": True}
    assert answers_of("published:vicuna-13b", TEKGEN) == published_answers(TEKGEN)["Vicuna-13B"]
    (repaired,) = find_published("Vicuna-13B", TEKGEN._replace(mode="repaired"))
    assert repaired.row is None and repaired.answers is not None  # answers can be scored in any mode


def test_answers_that_are_not_at_hand_come_with_the_command_that_brings_them(built: Path) -> None:
    with pytest.raises(UsageError, match="kbbench build text2kg-wikidata-tekgen"):
        answers_of("published:Alpaca-LoRA-13B", TEKGEN)


def test_answers_that_were_never_released_are_said_to_be_figures_only() -> None:
    with pytest.raises(UsageError, match=r"published:BM25 has scores only.*kbbench list stark-prime/queries --pub"):
        answers_of("published:bm25", PRIME)
    with pytest.raises(UsageError, match=r"published:\* means 2 systems: copy, pattern"):
        answers_of("published:*", MINI)


def test_a_published_system_is_scored_and_compared_like_a_file(in_tmp: Path) -> None:
    shipped = published_answers(MINI)
    assert score("published:Copy", "mini-text2kg") == score(shipped["copy"], "mini-text2kg")
    Path("run.json").write_text(json.dumps({"settings": {}}), encoding="utf-8")  # of whatever run one stands in
    test = compare("published:pattern", shipped["copy"], "mini-text2kg").tests["f1"]
    assert test.difference == pytest.approx(0.2236, abs=1e-4)


MODEL = "SmolLM2-135M-Instruct"


def test_a_shipped_run_of_a_model_is_found_by_its_full_name_and_scored_as_a_file() -> None:
    (folder, structured) = shipped_runs("mini-text2kg")
    assert (folder.name, structured.name) == (MODEL, f"{MODEL}-structured")
    assert answers_of("published:smollm2-135m-instruct", MINI) == folder / "predictions.jsonl"
    assert score(f"published:{MODEL}", "mini-text2kg").scores == score(folder).scores
    assert MODEL not in {each.system for each in find_published("published:*", MINI)}
    assert folder / "predictions.jsonl" not in shipped_answers("mini-text2kg")
    with pytest.raises(UsageError, match=MODEL):
        find_published(f"published:{MODEL}", TaskKey("mini-ska", "noise_kg_4k", "test", "typed"))


@pytest.mark.parametrize(
    "folder", [run for name in MINIS for run in shipped_runs(name)], ids=lambda run: f"{run.parents[2].name} {run.name}"
)
def test_a_shipped_run_records_what_made_it_and_answers_every_example(folder: Path) -> None:
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["summary"]["n_answered"] == run["summary"]["n_prompts"]
    assert {"prompt", "prompt_sha256", "sampling", "structured"} <= run["settings"].keys() or "rerank" in run[
        "settings"
    ]
    assert run["versions"]["kbbench-hf"] and run["summary"]["servers"][0]["version"]
    assert "/" not in run["summary"]["servers"][0]["served_model"]  # a file of no use elsewhere
    task, result = load_examples(run["settings"]["benchmark"]), score(folder)
    assert (result.dataset_revision, result.ids) == (run["settings"]["dataset_revision"], task.examples.ids)
    assert not {"revision", "missing", "limit"} & {each.code for each in result.warnings}


def test_the_documented_scores_of_shipped_runs_are_theirs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/guides/served_model.md").read_text(encoding="utf-8")
    (reranked,) = shipped_runs("mini-stark")
    base = run("mini-stark", "bm25", out=tmp_path / "bm25", show=False)
    for system, result in (("bm25", base), (reranked.name, score(reranked))):
        values = [f"{result.scores[metric].value:.4f}" for metric in ("hit_at_1", "hit_at_5", "recall_at_20", "mrr")]
        assert f"| `mini-stark` | {system} | {' | '.join(values)} |" in page
    for name in set(MINIS) - {"mini-stark"}:
        for folder in shipped_runs(name):
            result = score(folder)
            value = next(each.value for metric, each in result.scores.items() if metric.endswith("f1"))
            unparsable = f"{result.counters['n_parse_failures']} of {len(result.ids)}"
            copied = [each.message for each in result.warnings if each.code == "copied_triples"]
            share = re.search(r"\((.*?)\)", copied[0])[1] if copied else "none"  # type: ignore[index]
            assert f"| `{name}` | {folder.name} | {value:.4f} | {unparsable} | {share} |" in page


def test_the_nearest_stand_above_and_below() -> None:
    beside = published_beside(PRIME, {"hit_at_1": 0.13, "mrr": 0.9})
    assert [(each.row.system, each.metric, each.elsewhere) for each in beside] == [
        ("multi-ada-002", "hit_at_1", ""),
        ("BM25", "hit_at_1", ""),
    ]
    assert [each.row.system for each in published_beside(PRIME, {"hit_at_1": 0.99})] == ["GraphRAFT"]
    assert [each.row.system for each in published_beside(PRIME, {"hit_at_1": 0.0})] == ["DPR (roberta)"]


def test_where_less_is_better_the_better_one_has_less() -> None:
    beside = published_beside(TEKGEN._replace(mode="paper"), {"object_hallucination": 0.17})
    assert [each.row.scores["object_hallucination"] for each in beside] == [0.17]


def test_another_mode_or_split_is_said_and_another_config_never_shown() -> None:
    (beside,) = published_beside(TEKGEN._replace(mode="repaired"), {"f1": 0.9})
    assert (beside.elsewhere, beside.row.task_key.mode) == ("mode reference", "reference")
    validation = published_beside(PRIME._replace(split="validation"), {"mrr": 0.2})
    assert {each.elsewhere for each in validation} == {"split test"}
    ska = TaskKey("ska-bench", "noise_kg_4k", "test", "squad")
    assert {each.elsewhere for each in published_beside(ska, {"answer_f1": 0.6})} == {"no mode stated"}
    assert published_beside(ska._replace(config="noise_kg_2k"), {"answer_f1": 0.6}) == []
    assert published_beside(PRIME, {"unheard_of": 0.5}) == []


def test_places_without_figures_are_empty() -> None:
    assert published_rows("mini-stark", "queries", "test", "reference") == []
