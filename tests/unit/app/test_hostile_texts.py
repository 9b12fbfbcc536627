"""Texts from strangers on every page: read as they were written, and never HTML nor one of Gradio's templates."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from kbbench_hf.app import row_page
from kbbench_hf.app.board_page import table_html
from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.app.html import CSS, HEAD, ON_CLICK, Dot, multiples, render_html, scatter, table
from kbbench_hf.app.row_page import ShownExample
from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.benchmarks.base import Explanation
from kbbench_hf.errors import UsageError
from kbbench_hf.leaderboard.owners import Flag
from kbbench_hf.leaderboard.table import BoardScore
from kbbench_hf.leaderboard.view import View
from tests.servers.hostile import INJECTIONS
from tests.unit.app.parsed import Element, parsed

HOSTILE = [*INJECTIONS, "{{value}}", "${value}", "`${1 + 1}`", "\\u003cscript>", "{% raw %}", "&#123;&#123;", "a ±b"]
OURS = {
    *("div", "table", "caption", "thead", "tbody", "tr", "th", "td", "button", "span", "a", "p", "h2", "h3", "i", "b"),
    *("article", "section", "nav", "details", "summary", "pre", "ul", "li", "mark", "code", "figure", "figcaption"),
    *("svg", "line", "text", "polyline", "circle", "title", "form", "input"),
    *("label", "select", "option"),
}


def inert(html: str) -> Element:
    """Return a page's tree after a look at it: nothing for a template to read, no tag and no handler but ours."""
    assert re.findall(r"[{}$`\\]", html) == []
    page = parsed(html)
    assert page.tags() <= OURS
    assert not [name for tag in OURS for each in page.all(tag) for name in each.attributes if name.startswith("on")]
    ours = ("?place=", "?tab=row&row=", "api/", "https://")
    assert [each for each in page.all("a") if not str(each.attributes["href"]).startswith(ours)] == []
    return page


def words(text: str) -> str:
    return " ".join(text.split())


def test_names_on_the_board_are_text(board_of: Callable[[list[str]], Board], place: TaskKey) -> None:
    page = inert(table_html(board_of(HOSTILE), place, View(), ["F1"]))
    assert [row[0] for row in page.rows()] == [words(text) for text in HOSTILE]


def test_ids_and_licences_are_text_too(board_of: Callable[[list[str]], Board], place: TaskKey) -> None:
    found = board_of(HOSTILE)
    found = replace(found, rows=[replace(row, id=row.system, licence=row.system) for row in found.rows])
    page = inert(table_html(found, place, View(), ["license"]))
    assert [row.attributes["data-row"] for row in page.all("tr") if "data-row" in row.attributes] == HOSTILE
    assert [row[1] for row in page.rows()] == [words(text) for text in HOSTILE]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_row_s_head_and_an_error_are_text(board: Board, place: TaskKey, text: str) -> None:
    row = replace(board.rows[0], system=text, submitter=text, licence=text, link=text, notes=text)
    head = inert(row_page.head_html(row, place))
    assert head.all("h2")[0].text == words(text) and head.all("p")[-1].text == words(text)
    inert(row_page.head_html(replace(row, link=f"https://example.org/{text}"), place))
    assert inert(render_html("words", text=UsageError(text))).text == words(text)


def test_names_and_keys_in_tables_are_text(boards: Boards, board: Board) -> None:
    for text in HOSTILE:
        rows = [replace(row, system=text) for row in board.rows]
        inert(row_page.scores_side_by_side(board, rows))
        inert(row_page.test_table(boards.index.store, board, rows))
        inert(row_page.difference_table(boards.index.store, board, rows))
        inert(multiples({text: {text: (BoardScore(0.5, 0.4, 0.6), "?place=x")}}, text))
        page = inert(table([text, text], [[text, text]], text, note=text))
        assert page.rows() == [[words(text)] * 2] and page.all("p")[0].text == words(text)


def test_pictures_flags_and_examples_are_text() -> None:
    for text in HOSTILE:
        dots = [Dot(n, BoardScore(0.5 / n), text, "?place=x") for n in (1, 20)]
        drawn = scatter(dots, (text, True), (text, False), logarithmic=True)
        inert(render_html("plot", drawn=drawn, costs=True, axes={"x": (text, text, [text, "b"])}))
        explained = Explanation([(text, True), (text, False)], [text], [(text, "wrong")])
        shown = [
            ShownExample(text, {text: text}, {text: explained}, {text: text}),
            ShownExample(text, {text: text}, {}, {text: text}),
        ]
        page = inert(row_page.examples_html(shown, text, text))
        assert page.all("mark")[0].text == words(text) and page.all("code")[0].text == words(text)
        inert(render_html("no_row", row=text).replace('href="?"', 'href="?place=x"'))


def test_a_whole_row_and_its_flags_are_text(boards: Boards, board: Board, place: TaskKey) -> None:
    page = inert(row_page.row_html(boards, place, board.rows[0].id))
    assert page.all("h2")[0].text == board.rows[0].system
    for text in HOSTILE:
        flagged = replace(board.rows[0], flags=(Flag("copy", text, text),))
        assert words(text) in inert(row_page.head_html(flagged, place)).text


def test_a_text_is_inert_by_itself_wherever_a_template_puts_it() -> None:
    assert render_html("words", text="<b>{{x}}") == '<p class="kb-empty">&lt;b&gt;&#123;&#123;x&#125;&#125;</p>'


def test_what_the_pages_bring_along_stays_as_it_was_written() -> None:
    assert CSS.startswith(".gradio-container.gradio-container [") and ON_CLICK.partition("(")[0] + " =" in HEAD
    assert HEAD.endswith("</script>") and "window.kbbench = choices =>" in HEAD
