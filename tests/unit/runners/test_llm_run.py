"""A generative benchmark from prompts to scores: what is asked, what is kept, and what is refused first."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners import jobs
from kbbench_hf.runners.jobs import Sampling
from kbbench_hf.runners.llm_run import PromptedTask, prompt_task, run_language_model
from kbbench_hf.runners.run import finished_run
from kbbench_hf.runners.run_folder import default_folder, open_run
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.score import score
from tests.servers.scripted import MODEL, ScriptedServer

QUICK: dict[str, Any] = {"show": False, "canary": False, "attempts": 2}
GOLD = {
    row["sentence"]: json.dumps(
        {"triples": [{"subject": t["sub"], "relation": t["rel"], "object": t["obj"]} for t in row["triples"]]}
    )
    for row in load_examples("mini-text2kg").examples.rows
}


def task(name: str = "mini-text2kg", limit: int | None = None, **how: Any) -> PromptedTask:
    return prompt_task(load_examples(name, limit=limit), **how)


def oracle(payload: dict[str, Any]) -> str:
    return next(answer for sentence, answer in GOLD.items() if sentence in payload["messages"][-1]["content"])


def run(server: ScriptedServer, asked: PromptedTask, folder: Path | None = None, **options: Any) -> Any:
    return run_language_model(asked, Endpoint(server.url, MODEL), MODEL, folder, **QUICK, **options)


def test_a_model_that_answers_with_the_gold_scores_one(tmp_path):
    with ScriptedServer(answer=oracle) as server:
        endpoint = Endpoint(server.url, MODEL)
        done = finished_run("mini-text2kg", endpoint, name=MODEL, mode="repaired", out=tmp_path / "run", **QUICK)
    folder, summary, result = done.folder, done.summary, done.result
    assert summary is not None
    assert summary.n_answered == len(result.ids) == 48
    assert result.scores["recall"].value == 1.0
    assert score(folder, "mini-text2kg", mode="repaired").to_dict() == result.to_dict()
    assert json.loads((folder / "result.json").read_text(encoding="utf-8")) == result.to_dict()


def test_the_run_is_written_down_before_anything_is_asked(tmp_path):
    asked = task(limit=2, shots=0)
    with ScriptedServer(always="401") as server, pytest.raises(UsageError, match="HTTP 401"):
        run(server, asked, tmp_path / "run", sampling=Sampling(temperature=0.5))
    settings = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))["settings"]
    assert settings["model"] == MODEL
    assert settings["prompt_sha256"] == asked.prompt_sha256()
    assert settings["prompt_options"] == {"shots": 0, "demonstrations": "leak-free", "seed": 42}
    assert settings["sampling"]["temperature"] == 0.5
    assert settings["n_examples"] == 2


def test_other_settings_get_another_folder_and_the_same_ones_the_same(in_tmp):
    with ScriptedServer(answer=oracle) as server:
        asked = task(limit=2)
        first, *_ = run(server, asked)
        n_requests = len(server.requests)
        again, *_ = run(server, asked)
        assert (again, len(server.requests)) == (first, n_requests)
        others = {run(server, asked, sampling=Sampling(temperature=1.0))[0], run(server, asked, repeats=2)[0]}
    assert len({first, *others}) == 3


def test_another_parser_reads_the_kept_answers_without_asking_again(tmp_path):
    with ScriptedServer(answer=lambda payload: "captain(Petrel, Ines Calder)") as server:
        asked = task(limit=3)
        _, _, historical, _ = run(server, asked, tmp_path / "run", parser="balanced")
        n_requests = len(server.requests)
        _, summary, strict, _ = run(server, asked, tmp_path / "run", parser="json")
        assert len(server.requests) == n_requests
    assert historical.scores["f1"].value > 0
    assert (strict.scores["f1"].value, summary.n_parse_failures) == (0.0, 3)
    assert strict.counters["n_parse_failures"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [({"parser": "jsn"}, "Did you mean 'json'"), ({"mode": "repared"}, "Did you mean 'repaired'")],
)
def test_an_unknown_parser_or_mode_is_said_before_anything_is_asked(tmp_path, options, message):
    with ScriptedServer(answer=oracle) as server:
        with pytest.raises(UsageError, match=message):
            finished_run("mini-text2kg", Endpoint(server.url, MODEL), out=tmp_path / "run", **options, **QUICK)
        assert server.requests == []
    assert not (tmp_path / "run").exists()


def test_a_benchmark_of_retrievers_asks_nothing_of_a_language_model():
    with pytest.raises(UsageError, match="mini-stark is answered by retrievers; expected --model bm25"):
        task(name="mini-stark")
    with pytest.raises(UsageError, match=r"prompt of mini-text2kg 'h2_b'.* Known: as_written, current"):
        task(prompt="h2_b")


NOISE = "mini-ska/noise_table_1k"


@pytest.mark.parametrize(("earlier", "name", "chosen"), [
    ("paper", "paper", None), ("clean-1", "clean", None), ("clean-1", "clean", "clean"),
])  # fmt: skip
@pytest.mark.parametrize("named", [True, False])
def test_a_started_run_keeps_the_prompt_that_its_folder_records(
    in_tmp: Path, capsys: pytest.CaptureFixture[str], earlier: str, name: str, chosen: str | None, named: bool
) -> None:
    out = in_tmp / "run" if named else None
    with ScriptedServer(answer=lambda payload: '{"answer": ["7"]}') as server:
        asked = replace(task(NOISE, limit=4), prompt_name=earlier)
        folder = out or default_folder(asked.task.task_key, MODEL, asked.settings(MODEL, Sampling()) | {"prompt": name})
        open_run(folder, asked.settings(MODEL, Sampling()) | {"prompt": name}, {})
        n_canary = len(server.payloads)
        done, *_ = run_language_model(
            task(NOISE, limit=4, **({"prompt": chosen} if chosen else {})),
            Endpoint(server.url, MODEL), MODEL, out, **{**QUICK, "show": True},
        )  # fmt: skip
        sent = [payload["messages"] for payload in server.payloads[n_canary:]]
    assert done == folder and sent == [list(each.messages) for each in asked.prompts.values()]
    settings = json.loads((folder / "run.json").read_text(encoding="utf-8"))["settings"]
    assert (settings["prompt"], settings["prompt_sha256"]) == (name, asked.prompt_sha256())
    assert f"started with the prompt '{name}'" in " ".join(capsys.readouterr().err.split())


def test_a_new_or_finished_run_has_the_prompt_of_today_and_another_choice_is_refused(in_tmp: Path) -> None:
    with ScriptedServer(answer=lambda payload: '{"answer": ["7"]}') as server:
        first, *_ = run(server, task(NOISE, limit=2, prompt="paper"))
        second, *_ = run(server, task(NOISE, limit=2))
        assert first != second, "a finished run is not taken up by a run without --prompt"
        open_run(in_tmp / "run", task(NOISE, limit=2, prompt="paper").settings(MODEL, Sampling()), {})
        with pytest.raises(UsageError, match="its prompt is 'paper', not 'clean'"):
            run(server, task(NOISE, limit=2, prompt="clean"), in_tmp / "run")


def test_the_hash_of_the_prompts_changes_with_their_wording_and_their_examples():
    hashes = [task(shots=shots, limit=limit).prompt_sha256() for shots, limit in ((0, 5), (1, 5), (1, 6))]
    assert len({*hashes}) == 3
    assert task(shots=1, limit=5).prompt_sha256() == hashes[1]


def test_prompts_are_in_the_order_of_the_dataset_and_written_once(monkeypatch: pytest.MonkeyPatch):
    asked = task(limit=4)
    prompts = asked.prompts
    assert (list(prompts), len(prompts)) == (asked.task.examples.ids, 4)
    row = asked.task.examples.rows[2]
    assert prompts[row["id"]].messages[-1]["content"] == row["sentence"]
    assert prompts[row["id"]] is prompts[row["id"]]
    monkeypatch.setattr(jobs, "MOST_KEPT", 100)  # fewer characters than one prompt has
    large = task(limit=4).prompts
    assert large[row["id"]] == prompts[row["id"]] is not large[row["id"]]


def test_every_repeat_is_scored(tmp_path):
    seen: dict[str, int] = {}

    def second_time_silent(payload: dict[str, Any]) -> str:
        sentence = payload["messages"][-1]["content"]
        seen[sentence] = seen.get(sentence, 0) + 1
        return oracle(payload) if seen[sentence] == 1 else "[]"

    with ScriptedServer(answer=second_time_silent) as server:
        how = {"mode": "repaired", "repeats": 2, "limit": 4, "out": tmp_path / "run", **QUICK}
        done = finished_run("mini-text2kg", Endpoint(server.url, MODEL), **how)
    folder, result = done.folder, done.result
    assert result.repeats["recall"] == [1.0, 0.0]
    assert json.loads((folder / "result.json").read_text(encoding="utf-8"))["repeats"]["recall"] == [1.0, 0.0]
    assert score(folder, mode="repaired") == result
    (folder / "predictions.1.jsonl").unlink()
    assert not score(folder, mode="repaired").repeats


def test_demonstrations_that_show_what_is_asked_are_warned_of_at_once_and_in_the_result(tmp_path, capsys):
    asked = load_examples("mini-text2kg", limit=2)
    train = asked.examples.context.demonstrations.rows
    row = asked.examples.rows[0]
    first = train[row["similar_ids"][0]]
    row |= {"sentence": first["sentence"], "triples": first["triples"]}
    leaking = prompt_task(asked, demonstrations="similar")
    with ScriptedServer(answer=lambda payload: "[]") as server:
        folder, _, result, _ = run_language_model(
            leaking, Endpoint(server.url, MODEL), MODEL, tmp_path / "run", **{**QUICK, "show": True}
        )
    (warning,) = [each for each in result.warnings if each.code == "demonstration_leaks"]
    assert "Of 2 prompts, 1 contain the test sentence as a demonstration" in str(warning)
    assert "1 contain the test sentence" in " ".join(capsys.readouterr().err.split())
    again = score(folder)
    assert [each.code for each in again.warnings if each.code == "demonstration_leaks"]


def test_a_model_that_repeats_its_demonstration_is_warned_of_in_the_run_and_its_score(tmp_path):
    with ScriptedServer(answer=lambda payload: payload["messages"][-2]["content"]) as server:
        folder, _, result, _ = run(server, task(limit=6, shots=2), tmp_path / "run")
    stored = json.loads((folder / "run.json").read_text(encoding="utf-8"))["warnings"]
    (warning,) = [each.to_dict() for each in result.warnings if each.code == "copied_triples"]
    assert [each for each in stored if each["code"] == "copied_triples"] == [warning]
    assert [each.to_dict() for each in score(folder).warnings if each.code == "copied_triples"] == [warning]


def test_runs_of_benchmarks_without_demonstrations_to_choose_keep_their_settings():
    options = task("mini-genres").settings(MODEL, Sampling())["prompt_options"]
    assert options == {"shots": 1, "demonstrations": "similar", "seed": 42}


@pytest.mark.parametrize(("config", "warned"), [("rejection_kg", False), ("rejection_control_kg", True)])
def test_equal_replies_that_are_right_are_warned_of_nowhere(tmp_path, config, warned):
    """No example of `rejection_kg` has an answer, so one "no" is right for all; half of its controls have one."""
    with ScriptedServer(answer=lambda payload: "no") as server:
        endpoint = Endpoint(server.url, MODEL)
        done = finished_run(f"mini-ska/{config}", endpoint, name=MODEL, out=tmp_path / "run", **QUICK)
    codes = [each["code"] for each in json.loads((done.folder / "run.json").read_text(encoding="utf-8"))["warnings"]]
    assert ["equal_replies" in found for found in (codes, [each.code for each in done.result.warnings])] == [warned] * 2
