"""What holds of any reply: thought changes nothing, words around change nothing, and hostile text costs no time."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbbench_hf.parsing.answers import parse_answers
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.parsing.scores import parse_score
from kbbench_hf.parsing.triples import parse_triples
from kbbench_hf.parsing.verdicts import parse_answerable, parse_supported

READERS: dict[str, Callable[[str], ParsedReply[Any]]] = {
    "triples": parse_triples,
    "answers": parse_answers,
    "supported": parse_supported,
    "answerable": parse_answerable,
    "score": parse_score,
}
REPLIES = {
    "triples": [
        '{"triples": [["Up", "director", "Pete"]]}',
        "director(Up, Pete)",
        "| Subject | Relation | Object |\n|---|---|---|\n| Up | director | Pete |",
        "- Up → director → Pete",
        "There are no triples in the text.",
    ],
    "answers": ['{"answer": ["Paris"]}', "Answer: Paris", "The answer is **Paris**.", "The table does not say."],
    "supported": ['{"supported": true}', "Not supported.", "False"],
    "answerable": ['{"answer": "no"}', "Yes", "The question cannot be answered."],
    "score": ["0.4", "Score: 0.4 (on a scale from 0 to 1)", '{"score": 0.4}', "4/10"],
}
PAIRS = [(task, reply) for task, replies in REPLIES.items() for reply in replies]
MARKERS = [
    ("<think>", "</think>"),
    ("<reasoning>\n", "\n</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
]
# What is thought: drafts in the task's own forms, words, and brackets, but no marker.
THOUGHTS = st.lists(
    st.sampled_from(
        ['{"triples": [["a", "r", "b"]]}', '{"answer": ["London"]}', "{", "[", '"', "0.9", "true", "Final: 0.8", "\n",
         "genre(Up, x)", "Wait, ", "So the answer is ", "| a | b | c |", "Yes.", "It is not supported. "]
    ),
    max_size=12,
).map(" ".join)  # fmt: skip


@pytest.mark.parametrize(("task", "reply"), PAIRS)
@given(thought=THOUGHTS)
@settings(max_examples=5)
def test_thought_changes_nothing(task: str, reply: str, thought: str) -> None:
    read = READERS[task]
    alone = read(reply).answer
    for opening, closing in MARKERS:
        assert read(f"{opening}{thought}{closing}\n{reply}").answer == alone
        if not opening.startswith("<|channel|>"):  # opened by the template
            assert read(f"{thought}{closing}\n{reply}").answer == alone
        with pytest.raises(ParseError) as cut:
            read(f"{opening}{thought}\n{reply}")
        assert thought.strip() in cut.value.thought


@pytest.mark.parametrize(("task", "reply"), PAIRS)
@pytest.mark.parametrize("before", ["Sure!\n\n", "Here is my answer:\n\n", "I read the text carefully.\n\n", "```\n"])
@pytest.mark.parametrize(
    "after", ["\n\nI hope this helps!", "\n\nLet me know if you need more.", "\n```", "<|im_end|>"]
)
def test_words_around_an_answer_change_nothing_or_make_it_unreadable(
    task: str, reply: str, before: str, after: str
) -> None:
    alone = READERS[task](reply).answer
    for text in (before + reply, reply + after, before + reply + after):
        with suppress(ParseError):
            assert READERS[task](text).answer == alone


def test_what_was_thought_is_told_apart() -> None:
    read = parse_answers('<think>London? No.</think>{"answer": ["Paris"]}')
    assert (read.answer, read.rule, read.thought) == (["Paris"], "json", "London? No.")
    assert parse_answers("Paris").thought == ""
    with pytest.raises(ParseError) as cut:
        parse_answers("<think>London? Or")
    assert cut.value.thought == "London? Or"


@given(st.text(alphabet="[]{}()<>|\"'“”`,:;/\\ \n.ab01-→*#", max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in READERS.values():
        with suppress(ParseError):
            json.dumps(read(text).answer)


HOSTILE = [
    *(
        "[",
        "{",
        '"',
        "(",
        "f(",
        "<think>",
        "</think>",
        "<answer>",
        "\\boxed{",
        '[["a","b","c"],',
        '{"a":',
        "['a, ",
        "// [",
    ),
    *("0", "0.5 ", "- ", "* ", "_", "| ", "a|b|c\n", "Final: ", "Wait, ", "is not supported by ", "<|channel|>"),
    *(
        "f(a, b), ",
        "A -> ",
        "\n",
        '\\"',
        "没有",
        "score: ",
        "the answer is ",
        "Text: x\n",
        "[/*",
        "a",
        " ",
        "subject: a\n",
    ),
    *("<|im_end|>assistant\n", "<|im_start|>user\n", "[/INST]", "Q: ", "}assistant\n\n", "<think></think></s>"),
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * (length // len(piece) + 1))[:length]
        started = time.process_time()
        for read in READERS.values():
            with suppress(ParseError):
                read(text)
        return time.process_time() - started

    if (long := seconds(8_000)) > 0.3:  # the less of two: a busy machine makes either slow
        long = min(long, seconds(8_000))
        # a square of the length would take sixteen times as long
        assert long < 0.3 or long < 9 * min(seconds(2_000), seconds(2_000))
