"""GenRES as a benchmark: modes, silence, missing predictions, and the small one that scores offline."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import benchmark, shipped_answers, shipped_dataset
from kbbench_hf.benchmarks.annotated import made_with, with_annotations
from kbbench_hf.benchmarks.annotations import write_annotation
from kbbench_hf.benchmarks.base import Examples, PromptOptions
from kbbench_hf.benchmarks.genres.benchmark import CORPORA, METRICS, CorpusContext, load, score
from kbbench_hf.benchmarks.genres.warnings import corpus_warning, threshold_warning
from kbbench_hf.benchmarks.genres.warnings import warnings as warn
from kbbench_hf.errors import UsageError
from kbbench_hf.files import annotations_folder
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.generative_re import MODES


@pytest.fixture
def mini() -> Examples:
    return load(shipped_dataset("mini-genres"), "sentences", "test")


def answers_of(file: Path, examples: Examples) -> list[list[list[str]]]:
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    by_id = {line["id"]: line["triples"] for line in lines}
    return [by_id[name] for name in examples.ids]


def documents(*gold: list[list[str]]) -> Examples:
    rows = []
    for n, triples in enumerate(gold):
        named = [dict(zip(("sub", "rel", "obj"), triple, strict=True)) for triple in triples]
        stated = [triple for triple in named if triple["rel"] != "not induced by"]
        rows.append({"id": f"d{n}", "text": f"Text {n}", "triples": named, "triples_stated": stated})
    return Examples(rows, CorpusContext("cdr", ("induced by",)))


def test_the_shipped_answers_score_offline_in_all_modes(mini: Examples) -> None:
    for mode in MODES:
        means = {}
        for file in shipped_answers("mini-genres"):
            annotated = with_annotations(mini, annotations_folder(file))
            scores = score(annotated, answers_of(file, mini), mode)
            assert list(scores.values) == list(METRICS)
            assert not any(np.isnan(column).all() for column in scores.values.values())
            means[file.stem] = {metric: np.nanmean(column) for metric, column in scores.values.items()}
        assert set(means) == {"careful", "hasty"}
        for metric in ("completeness", "factualness", "granularity"):
            assert means["careful"][metric] > means["hasty"][metric] + 0.1


def test_the_shipped_annotations_say_what_they_were_made_with(mini: Examples) -> None:
    for file in shipped_answers("mini-genres"):
        identities = made_with(with_annotations(mini, annotations_folder(file)))
        assert set(identities) == {"embeddings", "factualness", "granularity", "topics-reference", "topics-fixed"}
        embeddings = identities["embeddings"]
        assert embeddings["embedder"].startswith("sentence-transformers/all-MiniLM-L6-v2@")
        assert embeddings["completeness_threshold"] == 0.73
    assert made_with(mini) == {}


def test_silence_looks_unique_as_released_and_scores_nothing_when_fixed(mini: Examples) -> None:
    hasty = next(file for file in shipped_answers("mini-genres") if file.stem == "hasty")
    annotated, answers = with_annotations(mini, annotations_folder(hasty)), answers_of(hasty, mini)
    silent = next(place for place, answer in enumerate(answers) if not answer)
    released, fixed = (score(annotated, answers, mode).values for mode in ("reference", "fixed"))
    found = {metric: (released[metric][silent], fixed[metric][silent]) for metric in METRICS}
    assert found["uniqueness"] == (1.0, 0.0)
    assert found["factualness"] == found["completeness"] == (0.0, 0.0)
    assert math.isnan(found["granularity"][0]) and found["granularity"][1] == 0.0
    assert found["topical_similarity"][0] > 0 and found["topical_similarity"][1] == 0.0
    assert found["triples_per_document"] == (0.0, 0.0)
    assert found["tokens_per_triple"][0] == 0.0 and math.isnan(found["tokens_per_triple"][1])
    assert math.isnan(found["f1"][0]) and found["f1"][1] == 0.0


@pytest.fixture
def embedded(tmp_path: Path) -> Path:
    """Vectors of a, r and b at right angles: [a, r, b] is like [b, r, a] and like nothing else."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.eye(3, dtype=np.float32).ravel()), 3)
    identity = {"embedder": "m@1", "uniqueness_threshold": 0.9, "completeness_threshold": 0.9}
    write_annotation(tmp_path, "embeddings", identity, pa.table({"element": ["a", "r", "b"], "vector": vectors}))
    return tmp_path


def test_a_silent_document_is_incomplete_as_released_even_where_there_is_no_gold(embedded: Path) -> None:
    examples = with_annotations(documents([], [["a", "r", "b"]], [["a", "r", "unknown"]]), embedded)
    released, fixed = (score(examples, [[], [], []], mode).values["completeness"] for mode in ("reference", "fixed"))
    assert released.tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(fixed[0]) and fixed[1] == 0.0


def test_a_triple_turned_round_completes_the_gold_as_released_only(embedded: Path) -> None:
    examples = with_annotations(documents([["a", "r", "b"]], [["a", "r", "b"]]), embedded)
    answers = [[["b", "r", "a"]], [["b", "r", "a"], ["a", "r", "b"]]]
    assert score(examples, answers, "reference").values["completeness"].tolist() == [1.0, 1.0]
    assert score(examples, answers, "fixed").values["completeness"].tolist() == [0.0, 1.0]


def test_without_annotations_the_qualities_are_not_scored_and_the_rest_is(mini: Examples) -> None:
    scores = score(mini, [[["a", "r", "b"]]] * len(mini.rows), "reference").values
    assert [metric for metric in METRICS if np.isnan(scores[metric]).all()] == [
        "completeness",
        "topical_similarity",
        "uniqueness",
        "factualness",
        "granularity",
    ]


def test_a_missing_prediction_counts_as_worst(mini: Examples) -> None:
    careful = next(file for file in shipped_answers("mini-genres") if file.stem == "careful")
    answers = [None, *answers_of(careful, mini)[1:]]
    for mode in ("reference", "fixed"):
        scores = score(with_annotations(mini, annotations_folder(careful)), answers, mode)
        worst = {metric: scores.values[metric][0] for metric in METRICS if metric != "tokens_per_triple"}
        assert set(worst.values()) == {0.0}
        assert scores.counters["n_empty"] == 0  # missing is not empty


def test_unstated_negatives_are_gold_as_released_only() -> None:
    examples = documents([["pain", "induced by", "drug"], ["fever", "not induced by", "drug"]])
    answer = [[["pain", "induced by", "drug"]]]
    assert score(examples, answer, "reference").values["recall"].tolist() == [0.5]
    assert score(examples, answer, "fixed").values["recall"].tolist() == [1.0]


def test_a_document_without_gold_is_not_matched() -> None:
    examples = documents([], [["a", "r", "b"]])
    for mode in ("reference", "fixed"):
        scores = score(examples, [[["a", "r", "b"]], [["a", "r", "b"]]], mode)
        assert np.isnan(scores.values["f1"][0]) and scores.values["f1"][1] == 1.0
        assert scores.counters["n_empty_gold"] == 1


def test_counters_tell_repeated_malformed_and_empty() -> None:
    examples = documents([["a", "r", "b"]], [["a", "r", "b"]], [["a", "r", "b"]])
    answers = [[["a", "r", "b"], ["a", "r", "b "], ["a", "r", None]], [["a", "r"]], []]
    counters = score(examples, answers, "fixed").counters
    assert counters == {"n_empty": 2, "n_empty_gold": 0, "n_malformed_triples": 2, "n_duplicate_triples": 1}
    assert score(examples, answers, "reference").counters["n_empty"] == 1


def test_a_report_marks_what_a_judge_or_the_text_supports(mini: Examples) -> None:
    row = mini.rows[1]  # Dunmarrow lies on the river Sill and has 4,200 inhabitants .
    answer = [["Dunmarrow", "located_on", "river Sill"], ["Dunmarrow", "has", "4,200"], ["Kessen", "is", "small"], "?"]
    shown = CORPORA.showing.explain(mini, row, answer) if CORPORA.showing.explain else None
    assert shown is not None and shown.gold[0] == "Dunmarrow | located on | river Sill"
    assert [mark for _, mark in shown.answer] == ["right", "wrong", "hallucinated", "hallucinated"]
    hasty = next(file for file in shipped_answers("mini-genres") if file.stem == "hasty")
    judged = CORPORA.showing.explain(with_annotations(mini, annotations_folder(hasty)), row, answers_of(hasty, mini)[1])
    assert [mark for _, mark in judged.answer] == ["right", "hallucinated"]  # as its judge said


def test_types_in_names_are_warned_of_with_what_they_cost(mini: Examples) -> None:
    mini_genres = benchmark("mini-genres")
    plain = [[[t["sub"], t["rel"], t["obj"]] for t in row["triples"]] for row in mini.rows]
    typed = [[[f"{s}:PERSON", r, f"{o}:PLACE"] for s, r, o in answer] for answer in plain]
    codes = [[w.code for w in warn(mini_genres, mini, answers, "reference")] for answers in (plain, typed)]
    assert ("types_in_names" in codes[0], "types_in_names" in codes[1]) == (False, True)
    quoted = [[[f"“{s}”", r, f"“{o}”"] for s, r, o in answer] for answer in plain]
    assert "punctuation_of_names" in [w.code for w in warn(mini_genres, mini, quoted, "reference")]


def test_topics_of_another_corpus_and_thresholds_of_other_texts_are_warned_of() -> None:
    (warning,) = corpus_warning({"corpus": "ten texts", "instead_of": "docred_corpus"})
    assert warning.code == "topic_corpus" and "trained on ten texts instead of" in warning.message
    assert "(docred_corpus)" in warning.message and corpus_warning({"corpus": "docred_corpus"}) == []
    (warning,) = threshold_warning("cdr", {"threshold_corpus": "docred"})
    assert warning.code == "thresholds_of_other_texts" and "on docred, not on cdr" in warning.message
    assert threshold_warning("cdr", {"threshold_corpus": "cdr"}) == threshold_warning("cdr", {}) == []


def test_each_dataset_and_strategy_has_a_prompt_of_its_own() -> None:
    asked = set()
    for config in CORPORA.data.configs:
        examples = Examples([], CorpusContext(config, ("induced by", "title")))
        for prompt in CORPORA.asking.prompts.values():
            for mode in MODES:
                options = PromptOptions(mode=mode)
                asked.add(json.dumps(prompt({"id": "", "text": "", "triples": []}, examples, options).messages))
    # open in two forms; closed in 3 modes; semi-open, and in fixed where a list or direction differs; CDR's mark | in
    # fixed-2
    assert len(asked) == 2 * 6 + 18 + 6 + 2 + 3


def test_each_strategy_shows_what_it_should() -> None:
    examples = documents([["pain", "induced by", "drug"], ["fever", "not induced by", "drug"]])
    options = PromptOptions()
    asked = {
        name: [message["content"] for message in write(examples.rows[0], examples, options).messages]
        for name, write in CORPORA.asking.prompts.items()
    }
    assert all("Text 0" in contents[-1] and len(contents) == 4 for contents in asked.values())
    assert "induced by" not in asked["open"][0] and "induced by" in asked["semi-open"][0]
    assert asked["closed"][-1].endswith('Pairs:\n- ["pain", "drug"]\n- ["fever", "drug"]')
    assert "induced by; not induced by." in asked["closed"][0] and "chemical, disease." in asked["semi-open"][0]
    bare = CORPORA.asking.prompts["open"](examples.rows[0], examples, PromptOptions(shots=0))
    assert len(bare.messages) == 2


def test_fixed_asks_for_every_pair_and_names_no_unstated_relation() -> None:
    examples = documents([["pain", "induced by", "drug"], ["fever", "not induced by", "drug"]])
    options = PromptOptions(mode="fixed")
    closed, semi = (
        CORPORA.asking.prompts[name](examples.rows[0], examples, options) for name in ("closed", "semi-open")
    )
    ends = ("drug", "fever", "pain")  # the order of the gold would tell
    wanted = [f'- ["{head}", "{tail}"]' for head in ends for tail in ends if head != tail]
    assert closed.messages[-1]["content"].splitlines()[2:] == wanted
    for prompt in (closed, semi):
        assert "not induced by" not in prompt.messages[0]["content"]
        assert "The disease comes first" in prompt.messages[0]["content"]


def test_a_demonstration_is_in_the_form_that_is_asked_for() -> None:
    for config in (*CORPORA.data.configs, "sentences"):
        examples = Examples([], CorpusContext(config, ("r",)))
        prompt = CORPORA.asking.prompts["open"]({"id": "", "text": "T", "triples": []}, examples, PromptOptions())
        answer = prompt.messages[-2]["content"]
        triples = json.loads(answer)["triples"]
        assert sorted(CORPORA.asking.parsers["lenient"](answer, {}).answer) == sorted(triples)
        named = CORPORA.asking.prompts["open-named"]({"id": "", "text": "T", "triples": []}, examples, PromptOptions())
        answer = named.messages[-2]["content"]
        schema: Any = named.json_schema
        required = schema["properties"]["triples"]["items"]["required"]
        assert [[*each] for each in json.loads(answer)["triples"]] == [required] * len(triples)
        assert sorted(CORPORA.asking.parsers["careful"](answer, {"text": "T"}).answer) == sorted(triples)


def test_nothing_of_the_releases_prompts_is_in_ours(shared: Path) -> None:
    texts = Path(__file__).parents[4] / "kbbench_hf/benchmarks/genres/texts"
    ours = " ".join(" ".join(file.read_text(encoding="utf-8") for file in texts.iterdir()).lower().split())
    for file in (shared / "data/genres/prompts").glob("*.txt"):
        words = file.read_text(encoding="utf-8").lower().split()
        assert not [run for n in range(len(words) - 7) if (run := " ".join(words[n : n + 8])) in ours]


def test_a_predictions_file_may_hold_what_models_really_wrote(mini: Examples, tmp_path: Path) -> None:
    from kbbench_hf.scoring.predictions import PredictionsError, read_predictions

    strange = [["a", "r", 1961], ["a", "r", None], ["a", "r"], "a r b", {"sub": "a", "rel": "r", "obj": "b"}]
    file = tmp_path / "predictions.jsonl"
    file.write_text(json.dumps({"id": mini.ids[0], "triples": strange}) + "\n", encoding="utf-8")
    answers = read_predictions([file], benchmark("mini-genres"), mini).answers
    fixed = score(mini, answers, "fixed").values["triples_per_document"]
    assert fixed[0] == 2.0  # [a, r, "1961"] and [a, r, b]
    assert score(mini, answers, "reference").values["triples_per_document"][0] == 5.0
    file.write_text(json.dumps({"id": mini.ids[0], "triples": "a"}) + "\n", encoding="utf-8")
    with pytest.raises(PredictionsError, match="expected a list"):
        read_predictions([file], benchmark("mini-genres"), mini)


def test_a_run_on_a_served_model_is_prompted_parsed_and_scored(in_tmp: Path) -> None:
    from kbbench_hf.llm.endpoint import Endpoint
    from kbbench_hf.runners.run import finished_run
    from tests.servers.scripted import MODEL, ScriptedServer

    with ScriptedServer(
        answer=lambda payload: '{"triples": [["Tarn", "is a", "cheese"], ["Tarn", "aged", 2]]}'
    ) as server:
        endpoint = Endpoint(server.url, MODEL)
        done = finished_run("mini-genres", endpoint, name="llm:m", limit=5, show=False, canary=False)
    assert done.summary is not None
    assert done.summary.n_answered == 5 and done.summary.n_parse_failures == 0
    assert done.result.scores["triples_per_document"].value == 2.0


def test_a_score_finds_the_annotations_beside_its_predictions_and_says_what_they_were_made_with() -> None:
    from kbbench_hf.scoring.score import score as score_file

    careful, hasty = (score_file(file, "mini-genres") for file in shipped_answers("mini-genres"))
    assert careful.scores["factualness"].value == 1.0 > hasty.scores["factualness"].value
    made_with = json.loads(careful.versions["annotations:embeddings"])
    assert made_with["embedder"].startswith("sentence-transformers/all-MiniLM-L6-v2@")
    assert "annotations:factualness" in careful.to_dict()["versions"]


def test_figures_of_different_judges_are_not_compared(in_tmp: Path) -> None:
    import shutil

    from kbbench_hf.benchmarks.annotations import read_annotation, write_annotation
    from kbbench_hf.scoring.comparison import compare
    from kbbench_hf.scoring.score import score as score_file

    [careful, hasty] = shipped_answers("mini-genres")
    shutil.copy(hasty, "predictions.jsonl")
    shutil.copytree(annotations_folder(hasty), "annotations")
    ours, theirs = score_file(careful, "mini-genres"), score_file(Path(), "mini-genres")
    assert compare(ours, theirs).tests["factualness"].difference > 0
    annotation = read_annotation(Path("annotations"), "factualness")
    assert annotation is not None
    write_annotation(Path("annotations"), "factualness", {"judge": "another@1"}, annotation.table)
    with pytest.raises(UsageError, match="differ in the annotations of factualness"):
        compare(ours, score_file(Path(), "mini-genres"))


def test_both_are_in_the_registry_and_name_their_parsers() -> None:
    assert benchmark("kbbench/genres-corpora") is CORPORA
    assert benchmark("mini-genres").data.configs == ("sentences",)
    assert next(iter(CORPORA.asking.parsers)) == "careful"


def test_the_mini_folder_is_what_its_documents_say(mini: Examples) -> None:
    written = Path(__file__).parents[4] / "dataset_scripts/mini-genres/documents.jsonl"
    lines = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in mini.rows] == [line["text"] for line in lines]
    for file in shipped_answers("mini-genres"):
        assert answers_of(file, mini) == [[triple[:3] for triple in line[file.stem]] for line in lines]
    DatasetFolder(shipped_dataset("mini-genres").path).verify()
