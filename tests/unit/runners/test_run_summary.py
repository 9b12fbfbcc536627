import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.base import Prompt, of_text
from kbbench_hf.errors import KBBenchError
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.runners import progress
from kbbench_hf.runners.cost import Price
from kbbench_hf.runners.jobs import Sampling, Work
from kbbench_hf.runners.progress import Meter, quantile
from kbbench_hf.runners.run_summary import finish, parse_once, prediction, reply_warnings
from tests.servers.clock import Clock

split = of_text(str.split)


def record(number: int, **fields: Any) -> dict[str, Any]:
    work = Work({number: Prompt([{"role": "user", "content": "?"}])}, Sampling())
    answered = {
        "response": f"text {number}",
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "latency_s": float(number),
        "attempts": 1,
    }
    return next(work.jobs("m")).record(**answered | fields)


def finished(records: Sequence[dict[str, Any] | None], folder: Path | None = None, **options: Any) -> Any:
    meter = Meter(Price("m", 1.0, 10.0, "USD", "2026-11-01"))
    for each in records:
        if each is not None:
            meter.add(each)
    return finish(records, meter, "m", len(records), parse=split, answer="words", folder=folder, **options).summary


def test_the_summary_by_hand() -> None:
    summary = finished(
        [
            record(1),
            record(2, finish_reason="length"),
            record(3, response=" \n"),
            record(4, schema_violation="not JSON", completion_tokens=None),
            record(5, error="timeout", response=None, attempts=8, prompt_tokens=None, completion_tokens=None),
        ]
    )
    assert (summary.n_prompts, summary.n_answered, summary.n_failed, summary.errors) == (5, 4, 1, {"timeout": 1})
    assert (summary.n_cut_off, summary.n_empty, summary.n_schema_violations, summary.n_without_usage) == (1, 1, 1, 1)
    assert summary.n_requests == 12  # 4 * 1 + 8
    assert (summary.prompt_tokens, summary.completion_tokens) == (40, 6)
    assert summary.cost == (40 * 1.0 + 6 * 10.0) / 1e6
    assert (summary.latency_p50_s, summary.latency_p95_s) == (2.0, 4.0)  # of 1, 2, 3, 4


def test_a_run_that_answered_nothing_has_no_latency_and_no_parse_failures() -> None:
    summary = finished([record(1, error="timeout", response=None)])
    assert summary.latency_p50_s is None
    assert summary.parse_failure_rate == 0.0


def test_missing_completions_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(KBBenchError, match="1 of 3 completions are missing"):
        finished([record(1), None, record(3)], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_repeat_is_written_where_another_one_is_not_whole(tmp_path: Path) -> None:
    (tmp_path / "predictions.jsonl").write_text("old")
    with pytest.raises(KBBenchError, match="1 of 2 completions are missing"):
        finish([record(1), None], Meter(None), "m", 1, parse=split, answer="words", folder=tmp_path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("predictions.jsonl", "old")]
    finish([record(1), record(1)], Meter(None), "m", 1, parse=split, answer="words", folder=tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["predictions.1.jsonl", "predictions.jsonl"]


def test_predictions_replace_the_old_ones_whole(tmp_path: Path) -> None:
    (tmp_path / "predictions.jsonl").write_text("old")
    finished([record(1), record(2, error="refusal", response="no")], tmp_path)
    assert [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_bytes().splitlines()] == [
        {"id": 1, "words": ["text", "1"], "read_by": "split", "response": "text 1"},
        {"id": 2, "error": "refusal"},
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["predictions.jsonl"]


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), {1, 2}, object(), b"bytes"])
def test_an_answer_that_json_cannot_hold_is_a_parse_failure(answer: object) -> None:
    line, parsed, row = prediction(record(1), lambda *_: ParsedReply(answer, "any"), "words")
    assert not parsed and row == {"id": 1}
    assert json.loads(line) == {"id": 1, "response": "text 1"}


def test_a_line_holds_what_was_thought_whoever_set_it_apart() -> None:
    def thoughtful(text: str, _: object) -> ParsedReply[str]:
        return ParsedReply("b", "json", thought="first a")

    def thoughtless(text: str, _: object) -> ParsedReply[str]:
        raise ParseError("cut off", thought="first a")

    apart = {"id": 1, "words": "b", "read_by": "json", "thought": "first a", "response": "text 1"}
    assert json.loads(prediction(record(1), thoughtful, "words").line) == apart
    sent = record(1) | {"reasoning": "as the server sent it"}
    assert json.loads(prediction(sent, thoughtful, "words").line) == apart | {"thought": "as the server sent it"}
    unread = {"id": 1, "thought": "first a", "response": "text 1"}
    assert json.loads(prediction(record(1), thoughtless, "words").line) == unread


def test_a_reply_is_parsed_once_and_fails_again_with_its_thought() -> None:
    texts: list[str] = []

    def parse(text: str, _: object) -> ParsedReply[str]:
        texts.append(text)
        if text == "no":
            raise ParseError("no answer", thought="hm")
        return ParsedReply(text, "all")

    parsed = parse_once(parse)
    for _ in range(2):
        assert parsed("yes", 1).answer == "yes"
        with pytest.raises(ParseError, match="no answer") as error:
            parsed("no", 1)
        assert error.value.thought == "hm"
    assert texts == ["yes", "no"]
    parsed("yes", 2)
    assert texts[2:] == ["yes"]  # another example, whose text may be read in another way


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_text_is_one_line_and_comes_back_as_it_was(text: str) -> None:
    line = prediction(record(1, response=text), split, "words").line
    assert line.count(b"\n") == 1
    assert json.loads(line)["response"] == text


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_a_quantile_is_the_smallest_value_that_enough_values_do_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    enough = [value for value in ordered if sum(other <= value for other in ordered) >= share * len(ordered)]
    assert quantile(ordered, share) == enough[0]


@pytest.mark.parametrize(
    ("n", "seconds", "said"), [(0, 10, "0 req/s"), (50, 10, "5 req/s"), (10, 10, "1 req/s"), (4, 10, "2.5 s/req")]
)
def test_the_progress_line_has_seconds_per_request_below_one_a_second(
    n: int, seconds: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=clock.time))
    meter = Meter()
    for _ in range(n):
        meter.add(record(1))
    clock.sleep(seconds)
    assert said in meter.line().split(" · ")
    meter.pace = lambda: "slow: 3 of 32 at once"
    assert meter.line().startswith("slow: 3 of 32 at once · 0 errors · ")


def codes(records: Sequence[dict[str, Any]]) -> dict[str, int]:
    return {each.code: each.n_examples for each in reply_warnings(finished(records))}


def test_replies_of_a_sound_run_are_warned_of_by_nothing() -> None:
    assert codes([record(n) for n in range(40)]) == {}
    assert codes([record(n, response="same") for n in range(4)]) == {}  # too few to say so
    assert codes([*(record(n) for n in range(40)), record(41, finish_reason="length")]) == {}
    assert codes([]) == {}


def test_truncated_refused_and_equal_replies_are_warnings_with_a_remedy() -> None:
    cut = [record(n, finish_reason="length") for n in range(10)]
    assert codes(cut) == {"truncated": 10}
    (warning,) = reply_warnings(finished(cut))
    assert "10 of 10 replies were truncated" in str(warning) and "--max-tokens" in warning.remedy
    assert codes([record(n, response="  {}") for n in range(10)]) == {"equal_replies": 10}
    equal = finished([record(n, response="{}") for n in range(10)])
    remedies = [next(reply_warnings(equal, structured=structured)).remedy for structured in (False, True)]
    assert ["--structured" in remedy for remedy in remedies] == [True, False]
    filtered = [record(n, error="content_filter", response=None) for n in range(3)]
    assert codes([*filtered, *(record(n) for n in range(10))]) == {"refused": 3}
    refusing = [record(n, response=f"I'm sorry, but I can't help with text {n}.") for n in range(10)]
    assert finished(refusing).n_refusals == 0  # the parser read them
    meter = Meter(None)
    unread = finish(refusing, meter, "m", 10, parse=of_text(unreadable), answer="words").summary
    assert (unread.n_refusals, [each.code for each in reply_warnings(unread)]) == (10, ["refused"])


def test_replies_with_turns_of_others_or_one_text_over_and_over_are_warnings() -> None:
    # a base model behind ChatML, as Gemma 3 270M wrote
    own = '{"triples": []}<|im_end|>\n<|im_start|>user\nThe Petrel is captained by Ines Calder.'
    going_on = finished([record(n, response=f"{own} {n}") for n in range(3)])
    (warning,) = reply_warnings(going_on)
    assert (warning.code, warning.n_examples) == ("other_turns", 3)
    assert "3 of 3 replies contain marks of other turns, such as '<|im_end|>'" in warning.message
    assert """--extra-body '{"stop": ["<|im_end|>"]}'""" in warning.remedy
    cut = finished([record(n, response=f"{own} {n}", finish_reason="length") for n in range(3)])
    assert [(each.code, "--max-tokens does not help" in each.remedy) for each in reply_warnings(cut)] == [
        ("other_turns", False),
        ("truncated", True),
    ]
    endless = [record(n, response=f"{n}" + " The river is long." * 20, finish_reason="length") for n in range(3)]
    (warning,) = reply_warnings(finished(endless))
    assert warning.code == "truncated" and "3 of them repeat one text until the limit" in warning.message
    assert "--structured" in warning.remedy
    assert "--structured" not in next(reply_warnings(finished(endless), structured=True)).remedy
    both = [record(n, response=f"4<|im_end|>{' user' * 40}", finish_reason="length") for n in range(3)]
    assert "repeat one text" in [*reply_warnings(finished(both))][1].message
    listing = [record(n, response=", ".join(map(str, range(300))), finish_reason="length") for n in range(3)]
    assert "repeat" not in str(next(reply_warnings(finished(listing))))
    sound = ["User:\nPetrel", "a < b\nInput is [1].", '{"triples": [["user", "is", "assistant"]]}', "A: 4\nB"]
    assert codes([record(n, response=text) for n, text in enumerate(sound)]) == {}


REFUSALS = (
    "申し訳ありませんが、そのリクエストにはお応えできません。",
    "抱歉，我无法处理这个请求。",
    "抱歉，我無法協助。",
    "죄송하지만 그 요청은 처리할 수 없습니다.",
    "Tyvärr kan jag inte hjälpa dig med det.",
    "Xin lỗi, tôi không thể giúp bạn việc này.",
    "Maaf, saya tidak bisa membantu permintaan itu.",
    "Üzgünüm, bu konuda yardımcı olamam.",
    "عذراً، لا أستطيع المساعدة في ذلك.",
    "Вибачте, я не можу допомогти з цим.",
    "Λυπάμαι, δεν μπορώ να σας βοηθήσω.",
)


@pytest.mark.parametrize("reply", REFUSALS)
def test_a_refusal_in_any_of_these_languages_is_no_empty_answer(reply: str) -> None:
    meter = Meter(None)
    parse = benchmark("mini-text2kg").asking.parsers["balanced"]
    row = {"sentence": "A sentence.", "ontology_id": "ont_1_isles"}
    records = [record(n, response=reply) for n in range(3)]
    read = finish(records, meter, "m", 3, parse=lambda text, _: parse(text, row), answer="triples").summary
    assert (read.n_parse_failures, read.n_refusals) == (3, 3)


def unreadable(text: str) -> list[str]:
    raise ParseError("nothing")


def test_calls_of_tools_are_no_equal_replies() -> None:
    assert codes([record(n, response="", tool_calls=[{"function": {"name": "f"}}]) for n in range(9)]) == {}


def test_a_bar_ends_with_its_count_and_its_note_and_nothing_is_shown_without_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for total, note, options in ((2, "3 errors", {}), (2, "", {}), (0, "none", {}), (2, "hidden", {"show": False})):
        with progress.progress(f"Ranking {note}".strip(), total, done=1, **options) as advance:  # type: ignore[arg-type]
            advance(note=note)
    lines = [line.rstrip() for line in capsys.readouterr().err.splitlines()]
    assert [re.sub(r"\W+2/2 .*", " 2/2", line) for line in lines] == [
        "Ranking 3 errors 2/2",
        "  3 errors",
        "Ranking 2/2",
    ]
