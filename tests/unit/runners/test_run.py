"""A user's own object as the model: three lines are enough, everything is kept, and what makes no sense is refused."""

import json
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.errors import InterruptedRunError, KBBenchError, UsageError
from kbbench_hf.llm.failures import Failure
from kbbench_hf.protocols import Completion, Message
from kbbench_hf.reports.run_page import run_page
from kbbench_hf.reports.tables import print_result
from kbbench_hf.runners.run import finished_run, run
from kbbench_hf.scoring import predictions
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.predictions import PredictionsError, ReadOptions
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import score

TRIPLES = '{"triples": [{"subject": "Petrel", "relation": "captain", "object": "Ines Calder"}]}'
N = 48
"""Examples of mini-text2kg."""


def best(query: str, top_k: int) -> list[int]:
    return [(len(query) + place) % 281 for place in range(top_k)]


def answer(messages: Sequence[Message]) -> str:
    """Answers half of the sentences, the same half every time."""
    return TRIPLES if len(messages[-1]["content"]) % 2 else '{"triples": []}'


class Ids:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def search(self, queries: Sequence[str], top_k: int) -> list[list[int]]:
        self.asked += queries
        return [best(query, top_k) for query in queries]


class Pairs(Ids):
    def search(self, queries: Sequence[str], top_k: int) -> list[Any]:
        found = super().search(queries, top_k)
        return [[(each, 1 / (place + 1)) for place, each in enumerate(ids)] for ids in found]


class Texts:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def generate(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> list[str]:
        self.asked += [prompt[-1]["content"] for prompt in prompts]
        return [answer(prompt) for prompt in prompts]


class Text:
    def __init__(self, fails: Sequence[str] = ()) -> None:
        self.asked: list[str] = []
        self.fails = fails

    async def complete(self, messages: Sequence[Message], max_tokens: int) -> str:
        self.asked.append(messages[-1]["content"])
        if messages[-1]["content"] in self.fails:
            raise RuntimeError("the tokens ran dry")
        return answer(messages)


SEARCHERS: list[type[Ids]] = [Ids, Pairs]
MODELS: list[type[Any]] = [*SEARCHERS, Texts, Text]


def task_key_of(model: type[Any]) -> dict[str, Any]:
    """Return where such a model is run, and how, so that it is asked in several parts and nothing else is asked."""
    if issubclass(model, Ids):
        return {"benchmark": "mini-stark", "top_k": 20, "batch": 8}
    return {"benchmark": "mini-text2kg"} | ({"canary": False} if model is Text else {})


def run_of(model: Any, folder: Path, **how: Any) -> Result:
    return run(**{"model": model, "out": folder, "show": False, **task_key_of(type(model)), **how})


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def sentences() -> list[str]:
    return [row["sentence"] for row in load_examples("mini-text2kg").examples.rows]


@pytest.mark.parametrize("model", MODELS)
def test_an_object_of_ones_own_is_run_and_scored_as_its_answers_are(model: type[Any], tmp_path: Path) -> None:
    result = run_of(model(), tmp_path)
    benchmark = task_key_of(model)["benchmark"]
    if issubclass(model, Ids):
        own: list[dict[str, Any]] = [
            {"id": row["id"], "ids": best(row["query"], 20)} for row in load_examples(benchmark).examples.rows
        ]
    else:
        triple = ["Petrel", "captain", "Ines Calder"]
        own = [
            {"id": row["id"], "triples": [triple] if len(row["sentence"]) % 2 else []}
            for row in load_examples(benchmark).examples.rows
        ]
    assert result.scores == score(own, benchmark).scores
    assert result == score(lines_of(tmp_path / "predictions.jsonl"), benchmark) == score(tmp_path)
    assert result.folder == tmp_path
    assert json.loads((tmp_path / "result.json").read_text(encoding="utf-8")) == result.to_dict()


def test_candidates_are_kept_as_they_were_found_with_scores_where_there_are_any(tmp_path: Path) -> None:
    for model, fields in ((Ids, {"id", "ids"}), (Pairs, {"id", "ids", "scores"})):
        run_of(model(), tmp_path / model.__name__, limit=3)
        lines = lines_of(tmp_path / model.__name__ / "predictions.jsonl")
        assert [set(line) for line in lines] == [fields] * 3
        assert [len(line["ids"]) for line in lines] == [20] * 3
    assert lines[0]["scores"][:3] == [1.0, 0.5, 1 / 3]


@pytest.mark.parametrize("model", MODELS)
def test_predictions_are_scored_in_memory(model: type[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "read_predictions", lambda *_: pytest.fail("the run reads its own file"))
    result = run_of(model(), tmp_path)
    monkeypatch.undo()
    assert score(tmp_path) == result


def test_a_candidate_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    class Wrong(Ids):
        def search(self, queries: Sequence[str], top_k: int) -> list[list[int]]:
            return [[-7, *found] for found in super().search(queries, top_k)]

    with pytest.raises(PredictionsError, match=r"predictions\.jsonl:2: -7 at position 1 is not one of"):
        run_of(Wrong(), tmp_path, limit=3)


def test_candidates_may_be_numbers_of_numpy(tmp_path: Path) -> None:
    class Array(Ids):
        def search(self, queries: Sequence[str], top_k: int) -> Any:
            return np.array(super().search(queries, top_k))

    assert run_of(Array(), tmp_path / "array") == run_of(Ids(), tmp_path / "lists")


def test_pairs_may_be_lists_and_more_candidates_than_asked_for_are_dropped(tmp_path: Path) -> None:
    class Generous(Pairs):
        def search(self, queries: Sequence[str], top_k: int) -> list[Any]:
            return [list(map(list, found)) for found in super().search(queries, 2 * top_k)]

    assert run_of(Generous(), tmp_path / "generous") == run_of(Pairs(), tmp_path / "pairs")


@pytest.mark.parametrize("model", MODELS)
def test_the_second_start_asks_nothing(model: type[Any], tmp_path: Path) -> None:
    first, again = model(), model()
    result = run_of(first, tmp_path)
    assert len(first.asked) == len(result.ids)
    assert run_of(again, tmp_path) == result
    assert again.asked == []


@pytest.mark.parametrize("model", MODELS)
def test_half_a_journal_leaves_the_other_half_to_ask(model: type[Any], tmp_path: Path) -> None:
    first, again = model(), model()
    result = run_of(first, tmp_path)
    predictions = (tmp_path / "predictions.jsonl").read_bytes()
    journal = tmp_path / "journal.jsonl"
    records = journal.read_bytes().splitlines(keepends=True)
    # Whole batches of 16 prompts, so that no batch is made again for a part of it: 48 = 16 + 32.
    kept = 16 if model is Texts else len(records) // 2
    journal.write_bytes(b"".join(records[:kept]) + records[kept][:10])  # cut off in the middle of a record
    for each in ("predictions.jsonl", "result.json", "scores.jsonl"):
        (tmp_path / each).unlink()
    assert run_of(again, tmp_path) == result
    assert (tmp_path / "predictions.jsonl").read_bytes() == predictions
    n_kept = kept * 8 if issubclass(model, Ids) else kept
    assert 0 < len(again.asked) == len(first.asked) - n_kept
    assert sorted(again.asked) == sorted(first.asked[n_kept:])


def test_what_a_model_raises_is_a_failed_prompt_that_the_next_start_asks_again(tmp_path: Path) -> None:
    (unlucky, *_) = sentences()
    failing = Text(fails=[unlucky])
    done = finished_run("mini-text2kg", failing, out=tmp_path, show=False, canary=False)
    assert done.summary is not None
    assert (done.summary.n_answered, done.summary.errors) == (N - 1, {"model_error": 1})
    assert failing.asked.count(unlucky) == 1  # who raises once raises again
    assert done.result.counters["n_errors"] == 1
    (record,) = [each for each in lines_of(tmp_path / "journal.jsonl") if each["error"]]
    assert (record["detail"], record["settled"]) == ("RuntimeError: the tokens ran dry", False)
    mended = Text()
    result = run_of(mended, tmp_path)
    assert mended.asked == [unlucky]
    assert result.counters["n_errors"] == 0
    assert result == run_of(Text(), tmp_path / "whole")


def test_a_completion_that_names_an_error_is_a_failed_prompt_too(tmp_path: Path) -> None:
    (unlucky, *_) = sentences()

    class Cut(Text):
        async def complete(self, messages: Sequence[Message], max_tokens: int) -> Any:
            text = await super().complete(messages, max_tokens)
            error = "out_of_tokens" if messages[-1]["content"] == unlucky else None
            return Completion(text, "stop", None, None, 0.0, error)

    result = run_of(Cut(), tmp_path)
    assert (result.counters["n_errors"], result.counters["n_missing"]) == (1, 1)


def test_a_model_that_raises_every_time_stops_the_run_after_twenty(tmp_path: Path) -> None:
    failing = Text(fails=sentences())
    with pytest.raises(KBBenchError, match=r"The last 20 examples all failed.*model_error: RuntimeError: the tokens"):
        run_of(failing, tmp_path, concurrency=1)
    assert 20 <= len(failing.asked) < N
    assert not (tmp_path / "result.json").exists()
    assert len(run_of(mended := Text(), tmp_path).ids) == len(mended.asked) == N


@pytest.mark.parametrize(
    ("model", "how", "message"),
    [
        (Ids, {"topk": 5}, r"Unknown option 'topk'\. Did you mean 'top_k'"),
        (Text, {"temprature": 0.5}, r"Unknown option 'temprature'\. Did you mean 'temperature'"),
        (Ids, {"temperature": 0.5}, "temperature is for language models; mini-stark is not run by one here"),
        (Ids, {"prompt": "current"}, "prompt is for language models"),
        (Text, {"top_k": 5}, "top_k is for retrievers; mini-text2kg is not run by one here"),
        (Texts, {"depth": 5}, "depth is for retrievers"),
        (Texts, {"max_requests": 5}, "max-requests and --max-cost are for served models"),
        (Texts, {"batch_size": 5}, "batch_size is for models that are named"),
        (Ids, {"base_url": "http://h"}, "base_url is for"),
        (Texts, {"mode": "repared"}, "Did you mean 'repaired'"),
    ],
)
def test_options_that_would_be_ignored_are_refused_before_anything_is_asked(
    in_tmp: Path, model: type[Any], how: dict[str, Any], message: str
) -> None:
    given = model()
    with pytest.raises(UsageError, match=message):
        run_of(given, Path("run"), **how)
    assert given.asked == []
    assert not list(in_tmp.iterdir())


def test_a_model_of_the_wrong_kind_is_refused(in_tmp: Path) -> None:
    for model in (Text(), object()):
        with pytest.raises(UsageError, match=r"mini-stark evaluates retrievers; .* an object with search, not"):
            run("mini-stark", model, show=False)  # type: ignore[arg-type]
    for model in (Ids(), object()):
        with pytest.raises(UsageError, match=r"mini-text2kg evaluates language models; .* generate or complete"):
            run("mini-text2kg", model, show=False)  # type: ignore[arg-type]
    assert not list(in_tmp.iterdir())


@pytest.mark.parametrize("n_lists", [0, 7, 9])
def test_a_search_that_returns_another_number_of_lists_is_refused(tmp_path: Path, n_lists: int) -> None:
    class Miscounting(Ids):
        def search(self, queries: Sequence[str], top_k: int) -> list[list[int]]:
            return [[1]] * n_lists

    with pytest.raises(UsageError, match=f"found {n_lists} lists for 8 queries; expected one for each"):
        run_of(Miscounting(), tmp_path)
    assert not (tmp_path / "predictions.jsonl").exists()


@pytest.mark.parametrize("n_texts", [0, 15, 17])
def test_a_generate_that_returns_another_number_of_texts_is_refused(tmp_path: Path, n_texts: int) -> None:
    class Miscounting(Texts):
        def generate(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> list[str]:
            return [TRIPLES] * n_texts

    with pytest.raises(UsageError, match=f"made {n_texts} answers for 16 prompts; expected one for each"):
        run_of(Miscounting(), tmp_path)
    assert not (tmp_path / "predictions.jsonl").exists()


@pytest.mark.parametrize("model", MODELS)
def test_the_name_decides_the_folder(in_tmp: Path, model: type[Any]) -> None:
    how = {"out": None, "limit": 2}
    folders = [run_of(model(), **how, folder=Path(), **name).folder for name in ({}, {"name": "mine"}, {"name": "x"})]  # type: ignore[arg-type]
    assert len({*folders}) == 3
    assert [model.__name__ in str(folders[0]), "-mine-" in str(folders[1])] == [True, True]
    assert [json.loads((folder / "run.json").read_text())["settings"]["model"] for folder in folders if folder] == [
        model.__name__,
        "mine",
        "x",
    ]
    again = model()
    assert run_of(again, Path(), **how, name="mine").folder == folders[1]
    assert again.asked == []


def test_another_object_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    run_of(Ids(), tmp_path, limit=2)
    with pytest.raises(UsageError, match="its model is 'Ids', not 'Pairs'"):
        run_of(Pairs(), tmp_path, limit=2)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("how", [{}, {"limit": 7}, {"mode": True}, {"mode": True, "limit": 7}])
def test_a_runs_folder_is_scored_as_the_run_was_without_naming_the_benchmark(
    model: type[Any], how: dict[str, Any], tmp_path: Path
) -> None:
    if "mode" in how:
        how = {**how, "mode": "standard" if issubclass(model, Ids) else "repaired"}
    result = run_of(model(), tmp_path, **how)
    again = score(tmp_path)
    assert again == result
    assert (again.mode, len(again.ids)) == (how.get("mode", "reference"), how.get("limit", len(again.ids)))
    assert score(tmp_path / "predictions.jsonl") == result


def test_a_runs_folder_is_read_by_the_runs_parser(tmp_path: Path) -> None:
    class Terse(Texts):
        def generate(self, prompts: Sequence[Sequence[Message]], max_tokens: int) -> list[str]:
            texts = super().generate(prompts, max_tokens)
            return ["captain(Petrel, Ines Calder)" if "Petrel" in text else text for text in texts]

    strict = run_of(Terse(), tmp_path, parser="json")
    assert strict.counters["n_parse_failures"] == sum(len(each) % 2 for each in sentences()) > 0
    assert score(tmp_path) == strict
    lenient = run_of(Terse(), tmp_path)  # the same answers, read in another way
    assert score(tmp_path) == lenient
    assert lenient.counters["n_parse_failures"] == 0
    assert score(tmp_path, options=ReadOptions(source="response", parser="json")) == strict


def test_a_mode_that_is_named_goes_before_the_runs(tmp_path: Path) -> None:
    repaired = run_of(Text(), tmp_path, mode="repaired", limit=5)
    reference = score(tmp_path, mode="reference")
    assert (reference.mode, len(reference.ids)) == ("reference", 5)
    assert reference != repaired == score(tmp_path, "mini-text2kg")


def test_what_is_no_run_needs_a_benchmark(tmp_path: Path) -> None:
    (tmp_path / "predictions.jsonl").write_text("")
    with pytest.raises(UsageError, match=r"--benchmark is required for a predictions file"):
        score(tmp_path)


class Slow(Text):
    """Times out at some sentences, as `timeout_s` says."""

    timeout_s = 6.0

    async def complete(self, messages: Sequence[Message], max_tokens: int) -> Any:
        if self.fails and messages[-1]["content"] in self.fails:
            raise Failure("timeout", "no whole answer within 6 s", transient=True)
        return await super().complete(messages, max_tokens)


def test_prompts_that_time_out_are_a_warning_with_its_remedy_in_every_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = Slow(fails=sentences()[:2])
    done = finished_run("mini-text2kg", lost, out=tmp_path, show=False, canary=False, attempts=2)
    said = "2 of 48 prompts were not answered within 6 s; they are scored as missing."
    (warning,) = [each for each in done.result.warnings if each.code == "timeouts"]
    assert (warning.message, warning.n_examples, warning.severity) == (said, 2, "warning")
    assert warning.remedy.startswith("Start the same run again with --timeout 12 --concurrency ")
    for file in ("run.json", "result.json"):
        assert said in (tmp_path / file).read_text(), file
    print_result(done.result, benchmark("mini-text2kg"))
    assert "2 of 48 prompts were not answered within 6 s" in " ".join(capsys.readouterr().out.split())
    assert said in unescape(run_page(tmp_path))
    assert "timeouts" not in {each.code for each in run_of(Slow(), tmp_path / "whole").warnings}


def test_prompts_that_time_out_are_a_warning_of_a_run_that_is_collected_from_shards(tmp_path: Path) -> None:
    how: dict[str, Any] = {"out": tmp_path, "show": False, "canary": False, "attempts": 2}
    with pytest.raises(KBBenchError, match="2 requests of shard 1/1 failed"):
        finished_run("mini-text2kg", Slow(fails=sentences()[:2]), shard="1/1", **how)
    done = finished_run("mini-text2kg", Slow(), collect=True, **how)
    (warning,) = [each for each in done.result.warnings if each.code == "timeouts"]
    assert warning.message.startswith("2 of 48 prompts were not answered within 6 s")
    assert warning.remedy.startswith("Start the same run again with --timeout 12 --concurrency ")


def test_ctrl_c_is_a_plain_keyboard_interrupt_to_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ends a script with exit code 130 for this very class only, and with 1 for its subclasses."""

    def interrupted(*_: object, **__: object) -> None:
        raise InterruptedRunError

    monkeypatch.setattr("kbbench_hf.runners.run.finished_run", interrupted)
    with pytest.raises(KeyboardInterrupt, match="start the same run again") as caught:
        run("mini-text2kg", "hf:m")
    assert caught.type is KeyboardInterrupt


def test_an_unknown_prompt_for_reranking_is_refused_before_the_base_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="re-ranking prompt 'kind'"):
        run("mini-stark", "bm25", rerank=Texts(), rerank_prompt="kind", out=tmp_path / "run", show=False)
    assert not [*tmp_path.iterdir()]
