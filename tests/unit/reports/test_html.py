"""Templates: texts are escaped by themselves, a forgotten value is an error, each is compiled once."""

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from kbbench_hf.reports.page import templates

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
