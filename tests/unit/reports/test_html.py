"""Templates: texts are escaped by themselves, a forgotten value is an error, each is compiled once."""

import math
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from kbbench_hf.reports.page import ScoreBar, difference_bars, score_bars, templates

INERT = "&lt;b&gt;&#36;&#123;x&#125;&#96;&#92;&quot;&#x27;&amp;"
TEXT = "<b>${x}`\\\"'&"


@pytest.mark.parametrize(
    "template",
    [
        "{{ text }}",
        "{{ [text]|join }}",
        "{{ '' ~ text }}",
        "{{ '{}'.format(text) }}",
        "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(text) }}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ text }}{% endcall %}",
        "{% set x %}{{ text }}{% endset %}{{ x }}",
    ],
)
def test_a_text_is_escaped_once_wherever_it_stands(template: str) -> None:
    assert templates(Path()).from_string(template).render(text=TEXT) == INERT


def test_what_the_template_itself_says_stays() -> None:
    assert templates(Path()).from_string("<p>${x}</p>{{ 1 }}").render() == "<p>${x}</p>1"


def test_a_value_that_nobody_gave_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        templates(Path()).from_string("{{ text }}").render()


def test_a_template_is_compiled_once(tmp_path: Path) -> None:
    (tmp_path / "a.html.jinja").write_text("{{ n }}")
    made = templates(tmp_path)
    assert made.get_template("a.html.jinja") is made.get_template("a.html.jinja")


@pytest.mark.parametrize(
    ("value", "end"),
    [(None, "1"), (0.0, "1"), (0.03, "0.05"), (0.5, "0.5"), (1.0, "1"), (1.5, "2"), (100.0, "100"), (501.0, "1000")],
)
def test_a_scale_ends_at_a_round_number_that_holds_all(value: float | None, end: str) -> None:
    assert score_bars([(value, None, None)], unbounded=True)[1] == f"0 to {end}"
    assert score_bars([(value, None, None)])[1] == "0 to 1"


def test_bars_are_shares_of_their_scale_and_none_where_nothing_was_scored() -> None:
    bars, _ = score_bars([(1.2, -0.1, None), (math.nan, 0.0, 1.0), (0.25, math.nan, 0.5)])
    assert bars == [ScoreBar(0.0, 100.0, 100.0, 0.0), None, ScoreBar(25.0, 25.0, 50.0, 0.0)]
    assert difference_bars([(0.03, -0.01, None), (None, None, None)]) == (
        [ScoreBar(40.0, 80.0, 80.0, 50.0), None],
        "-0.05 to +0.05",
    )
