"""Judging: nothing invented, nothing asked twice, nothing taken from another judge."""

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.annotated import with_annotations
from kbbench_hf.benchmarks.annotations import read_annotation
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext, score
from kbbench_hf.benchmarks.judge_agreement import annotation_warnings
from kbbench_hf.errors import UsageError
from kbbench_hf.judges.llm_judges import StoredFacts, StoredSplits
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.protocols import Verdict
from kbbench_hf.runners.generate import UnreadError
from kbbench_hf.runners.jobs import Sampling
from kbbench_hf.runners.judge import ChatJudge, annotate_verdicts, judge_by_name
from tests.servers.scripted import MALFORMED, MODEL, Reply, ScriptedServer

RULES = benchmark("mini-genres").scoring.annotations
QUICK = {"canary": False, "attempts": 1, "concurrency": 8}


def documents(n: int, triples_each: int = 2) -> tuple[Examples, list[list[list[str]]]]:
    rows = [{"id": f"d{i}", "text": f"Text {i} .", "triples": [], "triples_stated": []} for i in range(n)]
    answers = [[[f"head {i}", "has", f"tail {k}"] for k in range(triples_each)] for i in range(n)]
    return Examples(rows, CorpusContext("sentences", ())), answers


class Scripted:
    """A local judge that answers from a table and remembers what it was asked."""

    def __init__(self, name: str = "scripted@1", value: float | None = 1.0, dies_after: int | None = None) -> None:
        self.name, self.value, self.dies_after = name, value, dies_after
        self.asked: list[tuple[str, str]] = []

    def judge(self, items: list[tuple[str, str]]) -> list[Verdict]:
        if self.dies_after is not None and len(self.asked) >= self.dies_after:
            raise KeyboardInterrupt
        self.asked += items
        return [Verdict(self.value, "ok" if self.value is not None else "failed: tired", "raw") for _ in items]


def chat(server: ScriptedServer, **options: Any) -> ChatJudge:
    return ChatJudge(Endpoint(server.url, MODEL, timeout_s=0.5), options={**QUICK, **options})


def verdict_of(payload: dict[str, Any]) -> str:
    """Nonsense for one document in ten, else true for even documents."""
    content = payload["messages"][-1]["content"]
    number = int(content.split("head ")[1].split('"')[0])
    return "I would rather not say." if number % 10 == 0 else "true" if number % 2 == 0 else "false"


def values(folder: Path, kind: str = "factualness") -> dict[tuple[str, str], float | None]:
    annotation = read_annotation(folder, kind)
    assert annotation is not None
    return {(row["id"], row["triple"]): row["value"] for row in annotation.table.to_pylist()}


def test_a_judge_that_talks_nonsense_for_one_in_ten_invents_no_verdict(tmp_path: Path) -> None:
    examples, answers = documents(40)
    with ScriptedServer(answer=verdict_of) as server:
        counts = annotate_verdicts(examples, answers, tmp_path, "factualness", chat(server), show=False)
    assert counts == {"ok": 72, "parse error": 8}  # 40 documents of two triples, 4 of them judged nonsensically
    found = values(tmp_path)
    # of the last digits 1 to 9, four are even: 4 * 4 * 2 true and 5 * 4 * 2 false
    assert Counter(found.values()) == {1.0: 32, 0.0: 40, None: 8}
    scores = score(with_annotations(examples, tmp_path), answers, "fixed")
    assert scores.counters["n_factualness_failures"] == 8
    column = scores.values["factualness"]
    assert [None if value != value else value for value in column[:4]] == [None, 0.0, 1.0, 0.0]


def test_a_judge_of_which_too_much_is_unread_leaves_no_verdicts_and_keeps_its_answers(tmp_path: Path) -> None:
    examples, answers = documents(40)
    with ScriptedServer(answer=lambda payload: "<think>The triple says true") as server:
        for _ in range(2):
            with pytest.raises(UnreadError, match="80 of 80 responses have no readable verdict"):
                annotate_verdicts(examples, answers, tmp_path, "factualness", chat(server), show=False)
        assert len(server.requests) == 80
    assert read_annotation(tmp_path, "factualness") is None


def test_a_judge_that_fails_and_stalls_leaves_a_run_that_can_go_on(tmp_path: Path) -> None:
    examples, answers = documents(40)
    with ScriptedServer(
        answer=lambda payload: "true", fault_rate=0.3, kinds=("500", "hang", "reset"), hang_s=2
    ) as server:
        first = annotate_verdicts(examples, answers, tmp_path, "factualness", chat(server), show=False)
        failed = sum(count for status, count in first.items() if status.startswith("failed"))
        assert 10 <= failed <= 40 and first["ok"] == 80 - failed
        assert Counter(values(tmp_path).values())[None] == failed  # exact, and none of them false
        asked = len(server.requests)
        for _ in range(3):
            last = annotate_verdicts(examples, answers, tmp_path, "factualness", chat(server), show=False)
        assert last == {"ok": 80}
        assert asked == 80 and len(server.requests) < 80 + 2 * failed  # only what had failed was asked again


def test_a_refusal_is_no_verdict_keeps_its_text_and_is_not_asked_again(tmp_path: Path) -> None:
    examples, answers = documents(1, triples_each=1)
    with ScriptedServer(always="refusal") as server:
        for _ in range(2):
            counts = annotate_verdicts(examples, answers, tmp_path, "factualness", chat(server), show=False)
            assert counts == {"refused: refusal": 1}
        assert len(server.requests) == 1
    annotation = read_annotation(tmp_path, "factualness")
    assert annotation is not None
    assert annotation.table["value"].to_pylist() == [None]
    assert annotation.table["raw"].to_pylist() == ["I cannot help with that."]


def test_a_cut_off_list_is_no_verdict(tmp_path: Path) -> None:
    examples, answers = documents(2, 1)
    reply = '{"sub_triples": [["a", "r", "b"], ["a", "r", "c"]]}....'
    server = ScriptedServer(answer=lambda payload: reply, always="length")
    with server, pytest.raises(UnreadError, match="2 of 2 responses have no readable verdict"):
        annotate_verdicts(examples, answers, tmp_path, "granularity", chat(server), show=False)


def thinks(tokens: int, every: int = 1) -> Callable[[dict[str, Any]], Reply]:
    """A model that thinks so many tokens about one document in `every`, and then says true."""

    def reply(payload: dict[str, Any]) -> Reply:
        number = int(payload["messages"][-1]["content"].split("head ")[1].split('"')[0])
        cut_off = number % every == 0 and payload["max_tokens"] < tokens
        body = MALFORMED["reasoning only"]("") if cut_off else MALFORMED["spaces round it"]("true")
        return Reply(200, json.dumps(body).encode())

    return reply


def test_a_judge_that_is_cut_off_while_it_thinks_is_asked_once_more_with_more_room(tmp_path: Path) -> None:
    examples, answers = documents(10, 1)
    with ScriptedServer(reply=thinks(6000, every=5)) as server:
        judge = ChatJudge(Endpoint(server.url, MODEL), options=QUICK)
        for _ in range(2):  # what is known is not asked again
            assert annotate_verdicts(examples, answers, tmp_path, "factualness", judge, show=False) == {"ok": 10}
            assert len(server.requests) == 10 + 2
    annotation = read_annotation(tmp_path, "factualness")
    assert annotation is not None and annotation.identity["max_tokens_where_cut_off"] == 8192


def test_a_judge_that_thinks_for_ever_has_no_figure_and_no_chosen_room_is_passed(tmp_path: Path) -> None:
    examples, answers = documents(10, 1)
    with ScriptedServer(reply=thinks(10**6)) as server:
        with pytest.raises(UnreadError, match="10 of 10 responses have no readable verdict"):
            annotate_verdicts(
                examples, answers, tmp_path, "factualness", ChatJudge(Endpoint(server.url, MODEL), options=QUICK),
                show=False,
            )  # fmt: skip
        assert len(server.requests) == 20
        chosen = ChatJudge(Endpoint(server.url, MODEL), Sampling(max_tokens=16), options=QUICK)
        with pytest.raises(UnreadError):
            annotate_verdicts(examples, answers, tmp_path, "factualness", chosen, show=False)
        assert len(server.requests) == 30
    assert read_annotation(tmp_path, "factualness") is None


def test_a_few_answers_that_stay_cut_off_are_counted_and_said_beside_the_figure(tmp_path: Path) -> None:
    examples, answers = documents(20, 1)
    with ScriptedServer(reply=thinks(10**6, every=20)) as server:
        judge = ChatJudge(Endpoint(server.url, MODEL), options=QUICK)
        counts = annotate_verdicts(examples, answers, tmp_path, "factualness", judge, show=False)
    assert counts == {"ok": 19, "cut off": 1}
    annotated = with_annotations(examples, tmp_path)
    column = score(annotated, answers, "fixed").values["factualness"]
    assert math.isnan(column[0]) and (column[1:] == 1.0).all()  # not scored, and not 0
    said = {each.code: each for each in annotation_warnings(benchmark("mini-genres"), annotated, answers)}
    assert said["unread_verdicts"].n_examples == 1 and "cut off 1" in said["unread_verdicts"].message
    assert "--max-tokens" in said["unread_verdicts"].remedy


def test_equal_items_are_judged_once(tmp_path: Path) -> None:
    examples, _ = documents(3)
    same = [["a", "r", "b"], ["a", "r", "b"], ["a", "r", "c"]]
    facts, splits = Scripted(), Scripted()
    annotate_verdicts(examples, [same] * 3, tmp_path, "factualness", facts, show=False)
    annotate_verdicts(examples, [same] * 3, tmp_path, "granularity", splits, show=False)
    assert len(facts.asked) == 6  # two triples in each of three texts
    assert len(splits.asked) == 2  # two triples
    assert len(values(tmp_path, "granularity")) == 6


def test_an_interrupted_judge_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbbench_hf.runners.judge._JUDGE_BATCH", 4)
    examples, answers = documents(10, 1)
    with pytest.raises(KeyboardInterrupt):
        annotate_verdicts(examples, answers, tmp_path, "factualness", Scripted(dies_after=4), show=False)
    assert read_annotation(tmp_path, "factualness") is None
    again = Scripted()
    annotate_verdicts(examples, answers, tmp_path, "factualness", again, show=False)
    assert len(again.asked) == 6
    assert len(values(tmp_path)) == 10


def test_another_judge_text_or_triple_is_never_served_from_the_journal(tmp_path: Path) -> None:
    examples, answers = documents(1, 1)
    annotate_verdicts(examples, answers, tmp_path, "factualness", Scripted(), show=False)
    served = 0
    for n in range(100):
        judge = Scripted(name=f"scripted@{n}", value=0.0) if n % 3 == 0 and n != 1 else Scripted(value=0.0)
        row = dict(examples.rows[0], text=f"Text {n}x ." if n % 3 == 1 else examples.rows[0]["text"])
        triple = [f"head {n}y", "has", "tail 0"] if n % 3 == 2 else answers[0][0]
        annotate_verdicts(Examples([row], examples.context), [[triple]], tmp_path, "factualness", judge, show=False)
        served += not judge.asked
    assert served == 0
    kept = Scripted()
    annotate_verdicts(examples, answers, tmp_path, "factualness", kept, show=False)
    assert kept.asked == [] and set(values(tmp_path).values()) == {1.0}


def test_another_prompt_or_sampling_is_asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kbbench_hf.runners import judge as module

    examples, answers = documents(1, 1)
    with ScriptedServer(answer=lambda payload: "true") as server:
        identities = []
        for sampling in (Sampling(), Sampling(temperature=0.3), Sampling(seed=1)):
            asks = ChatJudge(Endpoint(server.url, MODEL), sampling, options=QUICK)
            annotate_verdicts(examples, answers, tmp_path, "factualness", asks, show=False)
            annotation = read_annotation(tmp_path, "factualness")
            assert annotation is not None
            identities.append(json.dumps(annotation.identity, sort_keys=True))
        assert len(server.requests) == len(set(identities)) == 3
        monkeypatch.setattr("kbbench_hf.judges.llm_judges._FACT", "Is it so?")
        annotate_verdicts(examples, answers, tmp_path, "factualness", chat(server), show=False)
        assert len(server.requests) == 4
    assert module.KINDS["factualness"].prompt_sha256 != module.KINDS["granularity"].prompt_sha256


def test_a_refused_key_stops_the_run_and_writes_nothing(tmp_path: Path) -> None:
    examples, answers = documents(5)
    with ScriptedServer(always="401") as server, pytest.raises(UsageError):
        annotate_verdicts(examples, answers, tmp_path, "factualness", chat(server), show=False)
    assert read_annotation(tmp_path, "factualness") is None


def test_a_triple_that_is_cleaned_in_fixed_mode_keeps_its_verdict(tmp_path: Path) -> None:
    examples, _ = documents(1)
    answers = [[[" a", "in", 1961], ["a", "r", None], ["a", "r"]]]
    annotate_verdicts(examples, answers, tmp_path, "factualness", Scripted(), show=False)
    annotated = with_annotations(examples, tmp_path)
    assert score(annotated, answers, "fixed").values["factualness"].tolist() == [1.0]
    assert score(annotated, answers, "reference").values["factualness"].tolist() == [1.0]


def test_stored_verdicts_of_the_release_score_as_recomputed(shared: Path, tmp_path: Path) -> None:
    # DocRED, GPT-4: FS 93.5083... and GS are compared with a plain mean over the stored files
    folder = shared / "data/genres"
    name = "docred_rand_200_gpt-4_1.json"
    outputs = json.loads((folder / "outputs" / name).read_text(encoding="utf-8"))
    rows = [{"id": str(n), "text": text, "triples": [], "triples_stated": []} for n, text in enumerate(outputs)]
    examples, answers = Examples(rows, CorpusContext("docred", ())), list(outputs.values())
    facts, splits = (folder / "stored_verdicts" / kind / name for kind in ("factualness", "granularity"))
    annotate_verdicts(examples, answers, tmp_path, "factualness", StoredFacts(facts), show=False)
    annotate_verdicts(examples, answers, tmp_path, "granularity", StoredSplits(splits), show=False)
    found = score(with_annotations(examples, tmp_path), answers, "reference").values
    stored = json.loads(facts.read_text(encoding="utf-8"))
    assert found["factualness"].tolist() == pytest.approx([stored[text]["score"] for text in outputs])
    assert 100 * found["granularity"].mean() == pytest.approx(expected(shared, "GS"), abs=5.1e-5)
    assert 100 * found["factualness"].mean() == pytest.approx(expected(shared, "FS"), abs=5.1e-5)


def test_a_judge_is_found_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "stored@1.json"
    file.write_text("{}")
    assert isinstance(judge_by_name(f"stored:{file}", "factualness", "sentences"), StoredFacts)
    assert isinstance(judge_by_name(f"stored:{file}", "granularity", "sentences"), StoredSplits)
    with pytest.raises(UsageError, match="expected surface, nli:MODEL"):
        judge_by_name("gpt-4", "factualness", "sentences")
    with pytest.raises(UsageError, match="Did you mean 'granularity'"):
        judge_by_name("stored:x", "granularty", "sentences")


def expected(shared: Path, metric: str) -> float:
    for line in (shared / "expected/genres_expected.csv").read_text(encoding="utf-8").splitlines():
        dataset, model, name, value, source = line.split(",", 4)
        if (dataset, model, name) == ("docred_rand_200", "gpt-4", metric) and "recomputed" in source:
            return float(value)
    raise AssertionError(f"no figure of {metric}")
