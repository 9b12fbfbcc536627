"""Records of Every Eval Ever: valid in their schemas and at the gate of the datastore; read back with every number."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator

from kbbench_hf import run
from kbbench_hf.benchmarks import benchmark, find_dataset, shipped_answers
from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.reports.every_eval_ever import RELATIONSHIPS, RecordOptions, load_schema, schema_versions, write_record
from kbbench_hf.scoring.comparison import compare
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.options import LogOptions
from kbbench_hf.scoring.result import Result, write_result
from kbbench_hf.scoring.results_table import logged_results
from kbbench_hf.scoring.score import score
from tests.puzzles import mini_stark
from tests.servers.scripted import MODEL, ScriptedServer
from tests.servers.tool_caller import ToolCaller
from tests.servers.tool_policies import oracle, policy

DAY = datetime(2026, 1, 2, tzinfo=UTC)
RUN = {"settings": {"model": "org/m", "temperature": 0.0, "max_tokens": 512}, "started": "2026-01-01T00:00:00+00:00"}
NAMES = ["mini-text2kg", "mini-stark", "mini-ska", "mini-genres"]
UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def strict_json(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def problems(folder: Path, wanted: str) -> Iterator[object]:
    """Yield what the schemas and the semantic checks of the datastore's validator find in exported files."""
    files = {file.relative_to(folder).as_posix(): file for file in sorted((folder / "data").rglob("*.json*"))}
    for place, file in files.items():
        if not re.fullmatch(rf"data/[^/]+/[^/]+/[^/]+/{UUID4}(\.json|_samples\.jsonl)", place):
            yield f"path {place}"
        if file.suffix == ".jsonl":
            continue
        record = strict_json(file.read_text(encoding="utf-8"))
        yield from Draft7Validator(load_schema(wanted)).iter_errors(record)
        developer, _, model = record["model_info"]["id"].partition("/")
        if place.split("/")[2:4] != [developer.replace(":", "_"), model.replace("/", "_").replace(":", "_")]:
            yield f"model {record['model_info']['id']} in {place}"
        for each in record["evaluation_results"]:
            low, high = (float(each["metric_config"][end]) for end in ("min_score", "max_score"))
            if not low <= each["score_details"]["score"] <= high:
                yield f"score outside its bounds: {each}"
        companion = files.get(place.removesuffix(".json") + "_samples.jsonl")
        detail = record.get("detailed_evaluation_results")
        if (detail is None) != (companion is None):
            yield f"{place} and its samples"
        if detail and companion:
            samples = [strict_json(line) for line in companion.read_text(encoding="utf-8").splitlines()]
            for sample in samples:
                yield from Draft7Validator(load_schema(wanted, "instance_level_eval")).iter_errors(sample)
            if detail["file_path"] != companion.relative_to(folder).as_posix() or detail["total_rows"] != len(samples):
                yield f"pointer of {place}"
            if detail["checksum"] != hashlib.sha256(companion.read_bytes()).hexdigest() or not samples:
                yield f"checksum of {place}"
            same = {(each["evaluation_id"], each["model_id"]) for each in samples}
            if same != {(record["evaluation_id"], record["model_info"]["id"])}:
                yield f"ids of {same}"


def scored(name: str, position: int = 0) -> Result:
    """Return the result of one of two systems."""
    rankings = [
        {"id": row["id"], "ids": list(dict.fromkeys([*row["answer_ids"][: 2 * position], *range(position, 281)]))}
        for row in (load_examples(name).examples.rows if name == "mini-stark" else [])
    ]
    return score(rankings or shipped_answers(name)[position], name)


def export(
    result: Result, folder: Path, run_facts: Mapping[str, Any] = RUN, wanted: str = "", **facts: Any
) -> tuple[Path, dict[str, Any], list[str]]:
    write_result(result, folder)
    options = RecordOptions(wanted or schema_versions()[0], "us", "third_party", **facts)
    place, notes = write_record(folder, result.to_dict(), run_facts, DAY, options, {})
    return place, json.loads(place.read_text(encoding="utf-8")), notes


def test_the_bundled_schemas_are_of_the_versions_of_their_folders() -> None:
    assert len(schema_versions()) == 2
    assert [load_schema(each)["version"] for each in schema_versions()] == schema_versions()
    assert all(load_schema(each, "instance_level_eval")["version"].endswith(each) for each in schema_versions())
    assert RELATIONSHIPS == ["first_party", "third_party", "collaborative", "other"]
    with pytest.raises(UsageError, match="Unknown version"):
        load_schema("9.9.9")


@pytest.mark.parametrize("wanted", schema_versions())
@pytest.mark.parametrize("name", NAMES)
def test_an_export_passes_the_gate_and_has_every_number(name: str, wanted: str, tmp_path: Path) -> None:
    result, newest = scored(name), wanted == schema_versions()[0]
    place, record, notes = export(result, tmp_path, wanted=wanted)
    assert list(problems(tmp_path / "every_eval_ever", wanted)) == []
    assert record["schema_version"] == wanted
    found = {each["evaluation_result_id"]: each for each in record["evaluation_results"]}
    unbounded = benchmark(name).scoring.unbounded
    expected = {m: f for m, f in result.scores.items() if math.isfinite(f.value) and (newest or m not in unbounded)}
    assert {metric: each["score_details"]["score"] for metric, each in found.items()} == {
        metric: each.value for metric, each in expected.items()
    }
    assert bool(notes) == (len(expected) < len(result.scores))
    for metric, each in expected.items():
        uncertainty = found[metric]["score_details"]["uncertainty"]
        interval = uncertainty["confidence_interval"]
        assert (interval["lower"], interval["upper"], uncertainty["num_samples"]) == (*each.ci95, each.n_scored)
        values = result.values[metric][~np.isnan(result.values[metric])]
        if result.group_by is None:
            error = uncertainty["standard_error"]["value"]
            assert error == pytest.approx(values.std(ddof=1) / math.sqrt(len(values)))
    assert export(result, tmp_path, wanted=wanted)[0] == place, "a second export replaces the first"


@pytest.mark.parametrize("name", NAMES)
def test_an_export_that_is_read_back_compares_as_the_scores_themselves(name: str, tmp_path: Path) -> None:
    results = [scored(name, position) for position in (0, 1)]
    places = [export(each, tmp_path / str(number), model=f"org/{number}")[0] for number, each in enumerate(results)]
    a, b = logged_results(places) or []
    assert [each.log.name for each in (a, b) if each.log] == ["org/0", "org/1"]
    for read, result in ((a, results[0]), (b, results[1])):
        assert read.ids == [str(each) for each in result.ids]
        lower = benchmark(name).scoring.lower_is_better & read.values.keys()
        assert read.definition.scoring.lower_is_better == lower
        for metric, values in read.values.items():
            np.testing.assert_array_equal(values, result.values[metric])
            if result.group_by is None:
                assert read.scores[metric].value == pytest.approx(result.scores[metric].value, abs=1e-12)
    assert [*a.values] == [m for m in results[0].values if all(np.isfinite(each.values[m]).any() for each in results)]
    comparison, own = compare(a, b), compare(*results)
    if results[0].group_by is None:
        for metric, test in comparison.tests.items():
            assert test.difference == pytest.approx(own.tests[metric].difference, abs=1e-12)


def test_a_sample_has_the_question_the_gold_and_the_response_of_a_model(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        done = run("mini-ska", MODEL, base_url=f"{server.url}/v1", out=tmp_path / "run", limit=8, show=False)
    assert done.folder
    place, _, _ = export(done, done.folder, json.loads((done.folder / "run.json").read_text()), model="org/m")
    assert list(problems(done.folder / "every_eval_ever", schema_versions()[0])) == []
    samples = [json.loads(line) for line in place.with_name(f"{place.stem}_samples.jsonl").read_text().splitlines()]
    lines = [json.loads(line) for line in (done.folder / "predictions.jsonl").read_text().splitlines()]
    rows = {row["id"]: row for row in load_examples("mini-ska").examples.rows}
    assert {each["sample_id"] for each in samples} == {line["id"] for line in lines}
    canary = find_dataset("mini-ska").canary
    assert canary and {each["metadata"]["canary"] for each in samples} == {canary}
    assert json.loads((done.folder / "run.json").read_text())["canary"] == canary
    assert server.requests and not any(canary in prompt for prompt, _ in server.requests)
    for line in lines:
        of_line = [each for each in samples if each["sample_id"] == line["id"]]
        assert {each["output"]["raw"][0] for each in of_line} == {line["response"]}
        assert {each["input"]["raw"] for each in of_line} == {rows[line["id"]]["question"]}
        assert of_line[0]["input"]["reference"] == rows[line["id"]]["answers"]


@pytest.mark.parametrize("private", [False, True])
def test_a_sample_of_an_agent_has_its_conversation(
    private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ToolCaller(policy=policy(mini_stark(), oracle)) as server:
        how: dict[str, Any] = {"base_url": f"{server.url}/v1", "limit": 2, "show": False, "out": tmp_path / "run"}
        folder = run("mini-stark", "bm25", agent="llm:m", **how).folder
    monkeypatch.setattr("kbbench_hf.files.datasets.DatasetFolder.is_private", private)
    done = CliRunner().invoke(kbbench, ["export", str(folder), "--as", "eee", "--model", "org/m"])
    assert done.exit_code == 0, done.output
    assert list(problems(tmp_path / "run" / "every_eval_ever", schema_versions()[0])) == []
    (file,) = (tmp_path / "run").rglob("*_samples.jsonl")
    each = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    calls = [call for message in each["messages"] for call in message["tool_calls"] or ()]
    assert each["interaction_type"] == "agentic" and len(each["messages"]) == 9
    assert [call["name"] for call in calls] == ([] if private else ["search_nodes", "neighbors", "select", "finish"])
    assert private or json.loads(calls[2]["arguments"]["json"]) == {"node_ids": [211, 249, 252, 265, 268]}
    assert each["evaluation"] == {"score": 1, "is_correct": True}


def test_samples_of_data_that_may_not_be_handed_on_have_scores_and_hashes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbbench_hf.files.datasets.DatasetFolder.is_private", True)
    place, _, notes = export(scored("mini-text2kg"), tmp_path)
    assert list(problems(tmp_path / "every_eval_ever", schema_versions()[0])) == []
    text = place.with_name(f"{place.stem}_samples.jsonl").read_text(encoding="utf-8")
    assert "Petrel" not in text and '"sample_hash"' in text
    assert any("the dataset is private" in note for note in notes)


def test_texts_of_another_revision_of_the_data_are_withheld(tmp_path: Path) -> None:
    place, _, notes = export(replace(scored("mini-text2kg"), dataset_revision="0" * 40), tmp_path)
    text = place.with_name(f"{place.stem}_samples.jsonl").read_text(encoding="utf-8")
    assert "Petrel" not in text and '"sample_hash"' in text
    assert any("another revision than the one that was scored" in note for note in notes)


@pytest.mark.parametrize(
    ("server", "engine"),
    [({"kind": "vllm", "version": "1"}, "1"), ({"kind": "vllm"}, "unknown"), ({"version": "1"}, None), (None, None)],
)
def test_a_server_is_the_engine_where_it_said_what_it_is(server: Any, engine: str | None, tmp_path: Path) -> None:
    _, record, _ = export(scored("mini-text2kg"), tmp_path, {"settings": {"model": "org/m", "server": server}})
    named = f'"inference_engine": {{"name": "vllm", "version": "{engine}"}}'
    assert (named in json.dumps(record)) == (engine is not None) == ("inference_engine" in json.dumps(record))


def test_warnings_and_the_names_of_a_system_go_with_the_record(tmp_path: Path) -> None:
    rows = [{"id": row["id"], "ids": [0]} for row in load_examples("mini-stark").examples.rows[:50]]
    _, record, _ = export(score(rows, "mini-stark"), tmp_path, {"settings": {"model": "bm25", "agent": "org/m"}})
    details = [each["score_details"]["details"] for each in record["evaluation_results"]]
    assert details and all("49 of 99" in each["warning:missing"] for each in details)
    assert (record["model_info"]["name"], record["model_info"]["id"]) == ("agent org/m over bm25", "org/m")


@pytest.mark.parametrize("model", ["bm25", "org/", "/home/m", "unknown/m", "org/a?b", "con/m"])
def test_a_model_without_a_folder_in_the_datastore_is_refused_and_nothing_is_written(
    model: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="--model DEVELOPER/"):
        export(scored("mini-text2kg"), tmp_path, {"settings": {"model": model}})
    assert not (tmp_path / "every_eval_ever").exists()


def test_a_result_without_scores_is_refused(tmp_path: Path) -> None:
    result = scored("mini-text2kg").to_dict()
    result["scores"] = {}
    with pytest.raises(UsageError, match="no scored metric"):
        write_record(tmp_path, result, RUN, DAY, RecordOptions(schema_versions()[0]), {})


def sample(example: str, value: object, version: str = "0.2.1", **other: object) -> dict[str, object]:
    """Return a sample as converters of other harnesses write it."""
    return {
        "schema_version": version,
        "evaluation_id": "sums/org_m/1",
        "model_id": "org/m",
        "evaluation_name": "sums",
        "sample_id": example,
        "interaction_type": "single_turn",
        "input": {"raw": f"What is {example}?", "reference": ["4"]},
        "output": {"raw": ["4"]},
        "answer_attribution": [],
        "evaluation": {"score": value, "is_correct": bool(value)},
        **other,
    }


def write(file: Path, samples: list[dict[str, object]]) -> Path:
    file.write_text("".join(f"{json.dumps(each)}\n" for each in samples), encoding="utf-8")
    return file


def test_samples_of_older_schemas_and_without_a_record_are_compared(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", [sample(f"q{n}", n % 2) for n in range(8)])
    b = write(tmp_path / "b.jsonl", [sample(f"q{n}", 0.0, "instance_level_eval_0.2.2") for n in range(8)])
    comparison = compare(a, b)
    assert (comparison.a.benchmark, comparison.tests["sums"].difference) == ("sums", 0.5)


def test_results_subjects_and_epochs_are_told_apart(tmp_path: Path) -> None:
    rows = [
        sample("q1", value, evaluation_name=subject, evaluation_result_id=result, metadata={"epoch": str(epoch)})
        for subject, result, values in (("sums", "x:mean", (1, 0)), ("roots", "x:mean", (1, 1)), ("sums", "y", (0, 0)))
        for epoch, value in enumerate(values)
    ]
    read = logged_results([write(tmp_path / "a.jsonl", rows), write(tmp_path / "b.jsonl", rows)]) or []
    assert read[0].ids == ["sums/q1", "roots/q1"]
    np.testing.assert_array_equal(read[0].values["x:mean"], [0.5, 1])
    np.testing.assert_array_equal(read[0].values["y"], [0, math.nan])


def record_file(samples: Path, metrics: Mapping[str, Any]) -> Path:
    file = samples.with_name(samples.name.replace("_samples.jsonl", ".json"))
    detail = {
        "format": "jsonl",
        "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(samples.read_bytes()).hexdigest(),
    }
    results = [
        {"evaluation_result_id": name, "metric_config": config, "score_details": {"score": 0.5}}
        for name, config in metrics.items()
    ]
    record = {"schema_version": "0.3.0", "evaluation_results": results, "detailed_evaluation_results": detail}
    file.write_text(json.dumps(record), encoding="utf-8")
    return file


def test_a_record_says_which_direction_is_better_and_whether_its_samples_are_whole(tmp_path: Path) -> None:
    rows = [sample(f"q{n}", n % 2, evaluation_result_id=name) for n in range(8) for name in ("accuracy", "words", "z")]
    samples = write(tmp_path / "a_samples.jsonl", rows)
    unknown = {"lower_is_better": True, "additional_details": {"polarity": "unknown"}}
    metrics = {"accuracy": {"lower_is_better": True}, "words": {"lower_is_better": False}, "z": unknown}
    record = record_file(samples, metrics)
    read = (logged_results([record, record]) or [])[0]
    assert read.definition.scoring.lower_is_better == {"accuracy"}
    notes = {each.code: each.message for each in read.warnings}
    assert notes["direction"] == "Higher is taken to be better in z." and "other_average" not in notes
    samples.write_text(samples.read_text(encoding="utf-8").replace('"score": 0', '"score": 1', 1), encoding="utf-8")
    codes = {each.code for each in (logged_results([record, samples]) or [])[0].warnings}
    assert "other_average" in codes


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.jsonl", [sample(f"q{n}", n % 2) for n in range(8)])
    lonely = tmp_path / "b.json"
    lonely.write_text(json.dumps({"schema_version": "0.3.0", "evaluation_results": [{"evaluation_name": "x"}]}))
    with pytest.raises(DataError, match=r"averages only.*_samples\.jsonl"):
        compare(lonely, whole)
    twice = write(tmp_path / "c.jsonl", [sample("q1", 1), sample("q1", 0)])
    with pytest.raises(DataError, match="occurs twice"):
        compare(twice, whole)
    for evaluation in ({"is_correct": True}, {"score": "good", "is_correct": True}):
        bad = write(tmp_path / "d.jsonl", [{**sample("q1", 1), "evaluation": evaluation}])
        with pytest.raises(DataError, match="score"):
            compare(bad, whole, logs=LogOptions())
