"""What a metric's page answers to what one pastes, beginning with its own example."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import pytest

from kbbench_hf.app.metric_page import compute, explained, page_of
from kbbench_hf.hub.metric_modules import metric_modules


def pasted(name: str) -> tuple[str, str]:
    said = page_of(name)
    return json.dumps(said.predictions), json.dumps(said.references)


@pytest.mark.parametrize("name", metric_modules())
def test_the_example_of_a_page_is_scored_in_every_mode_and_each_figure_is_explained(name: str) -> None:
    said = page_of(name)
    telling = False
    for mode in said.modes or [None]:
        figures = compute(name, *pasted(name), mode)
        assert "error" not in figures, figures
        values = {metric for metric in figures if f"{metric}_ci95_low" in figures}
        assert not values - said.says.keys() and {*said.headline} <= values
        telling = telling or any(0 < figures[metric] < 1 for metric in said.headline)
        shown = explained(name, figures, *pasted(name), mode)
        first, _, rest = shown.partition("Scores by example")
        others = rest.partition("Other metrics")[2]
        assert {metric for metric in values if f"{metric}: {said.says[metric]}" in unescape(first)} == {*said.headline}
        assert all(f"{metric}: " in others for metric in values - {*said.headline}) and "95 % interval" in first
    assert telling, "an example on which everything is right or wrong shows nothing"
    usual = [compute(name, *pasted(name), mode) for mode in (None, *said.modes[:1])]
    assert len({json.dumps(each) for each in usual}) == 1, "the first mode is the default"


def test_lines_lists_and_what_python_prints_are_read_alike() -> None:
    as_list = compute("ranking", '[["a", "b"], ["c"]]', '[["b"], ["c"]]')
    assert as_list["mrr"] == 0.75
    assert compute("ranking", '["a", "b"]\n["c"]\n', '["b"]\n["c"]') == as_list
    assert compute("ranking", "[['a', 'b'], ['c']]", "[['b'], ['c']]") == as_list
    assert compute("rejection_rate", "no\nyes", "no\nyes")["balanced_accuracy"] == 1.0


@pytest.mark.parametrize(
    ("name", "predictions", "references", "words"),
    [
        ("ranking", "", "[]", "There are no predictions"),
        ("ranking", '["a", "b"]', '["a"]', "2 predictions and 1 references"),
        ("ranking", "hello", "hello", 'a prediction is ["q42"'),
        ("text2kg", '[[["a", "b", "c"]]]', '[{"sentence": "x"}]', "has no 'triples'"),
        ("answer_f1", '[["a"], "text"]', '[["a"], ["b"]]', "mix texts and lists"),
        ("rejection_rate", "no", "perhaps", "expected 'yes'"),
        ("ranking", "[" * 90_000, "[]", "There are 1 predictions and 0 references"),
        ("ranking", "[" * 300_000, "[]", "More than 200,000 characters"),
    ],
)
def test_what_cannot_be_scored_is_answered_in_words(name: str, predictions: str, references: str, words: str) -> None:
    figures = compute(name, predictions, references)
    assert words in figures["error"]
    assert explained(name, figures, predictions, references, None)


def test_what_was_not_scored_is_said_and_texts_stay_texts() -> None:
    figures = compute("genres", *pasted("genres"))
    assert math.isnan(figures["factualness"])
    assert "not scored" in explained("genres", figures, *pasted("genres"), None)
    script = json.dumps(["<script>alert(1)</script>"])
    shown = explained("answer_f1", compute("answer_f1", script, '[["x"]]'), script, '[["x"]]', None)
    assert "<script>" not in shown


def test_any_number_of_visitors_get_the_same_answer_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: compute("text2kg", *pasted("text2kg")), range(24)))
    assert all(each == found[0] for each in found)
