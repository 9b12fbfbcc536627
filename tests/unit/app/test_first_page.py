"""What the server sends before any script runs."""

from threading import Event

import pytest

pytest.importorskip("starlette")
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from kbbench_hf.app.board_page import table_html
from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.app.leaderboard import FirstPage, first_html, requested_tab
from kbbench_hf.app.row_page import row_html
from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.leaderboard.view import View
from tests.unit.app.parsed import parsed

GRADIOS = '<meta property="og:title" content="Gradio" /><meta\n\tproperty="og:image"\n content=""\n/>'
EMPTY = f'<html><head>{GRADIOS}<base href="./" /></head><body><gradio-app></gradio-app></body></html>'


@pytest.fixture
def client(boards: Boards, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr("kbbench_hf.app.leaderboard.PATIENCE_S", 60.0)  # of a busy machine

    def page(request: Request) -> Response:
        return HTMLResponse(EMPTY)

    routes = [Route("/", page, methods=["GET", "HEAD"]), Route("/config", page)]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(FirstPage, boards=boards)]))


def test_a_board_is_sent_with_the_rows_that_its_address_asks_for(board: Board, boards: Boards, place: TaskKey) -> None:
    found = first_html(boards, {"place": str(place), "sort": "-F1", "search": "pattern"})
    assert table_html(board, place, View(search="pattern", sort="-F1"), board.default_columns) in found
    assert [row[1] for row in parsed(found).rows()] == ["pattern"]
    words = {each.all("dt")[0].text: each.all("dd")[0].text for each in parsed(found).all("dl")[0].all("div")}
    assert words == {"Dataset": "Text2KGBench, mini", "Subset and split": "test", "Search": "pattern", "Origin": "all"}


def test_a_row_and_the_overview_are_sent_whole(board: Board, boards: Boards, place: TaskKey) -> None:
    row = board.rows[0].id
    assert row_html(boards, place, row) in first_html(boards, {"row": row})
    assert "No such row" in first_html(boards, {"row": "f" * 32})
    for home in ({}, {"tab": "board"}, {"tab": "overview"}):
        assert parsed(first_html(boards, home)).all("h2")[0].text == "STaRK"


def test_ticked_rows_are_compared_without_scripts_too(client: TestClient, board: Board, place: TaskKey) -> None:
    form = parsed(client.get(f"/?place={place}").text.partition("<main>")[2].partition("</main>")[0])
    boxes = form.all("input", type="checkbox", form="kb-compare")
    assert [each.attributes["value"] for each in boxes] == [row.id for row in board.rows]
    hidden = {each.attributes["name"]: each.attributes["value"] for each in form.all("form")[0].all("input")}
    assert hidden == {"place": str(place), "tab": "compare"}
    query = [*hidden.items(), *(("compare", row.id) for row in board.rows)]
    page = client.get("/", params=query).text
    assert "Paired tests on the same examples" in page


@pytest.mark.parametrize("asked", [{"tab": "submit"}, {"tab": "row"}, {"tab": "compare", "compare": "nobody"}])
def test_forms_are_left_to_the_scripts(boards: Boards, asked: dict[str, str]) -> None:
    assert first_html(boards, asked) == ""


def test_only_the_page_itself_is_filled(client: TestClient, place: TaskKey) -> None:
    page = client.get(f"/?place={place}").text
    assert page.index("<table") < page.index("<gradio-app>") and page.index("kbbench.css") < page.index("</head>")
    assert client.head("/").text == "" and client.get("/config").text == EMPTY
    unknown = client.get("/?place=nobody").text
    assert "<table" not in unknown and "<gradio-app>" in unknown


@pytest.mark.parametrize("path", ["/", "/prefix/"])  # with the prefix stripped by the proxy, and left
def test_behind_a_prefix_the_page_is_filled_and_names_its_own_addresses(
    path: str, client: TestClient, place: TaskKey
) -> None:
    behind = TestClient(client.app, root_path="/prefix")
    page = behind.get(f"{path}?place={place}").text
    assert page.index("<table") < page.index("<gradio-app>")
    assert '<base href="/prefix/" />' in page
    links = [
        each.attributes["href"] or "" for each in parsed(page[page.index("<div") : page.index("<gradio-app")]).all("a")
    ]
    assert links and not [each for each in links if each.startswith("/")]
    assert behind.get("/prefix", follow_redirects=False).headers["location"] == "/prefix/"


def test_a_link_to_a_page_is_shown_elsewhere_as_what_the_page_is(
    client: TestClient, board: Board, place: TaskKey
) -> None:
    first = board.rows[0]
    for asked, title, description in (
        (
            f"?place={place}",
            "Text2KGBench, mini · test · kbbench leaderboard",
            "2 systems, ranked by F1; first: pattern",
        ),
        (f"?row={first.id}", "pattern on Text2KGBench, mini · test", "F1 0.6264, 95 % interval 0.492–0.748."),
        ("", "kbbench leaderboard", "Systems on knowledge graph and LLM benchmarks"),
        ('?tab=about&x="><script>', "kbbench leaderboard", "Systems on"),
    ):
        page = client.get(f"/{asked}", headers={"x-forwarded-host": "example.org"}).text
        metas = [each.attributes for each in parsed(page[page.index("<meta") : page.index("<base")]).all("meta")]
        words = {each.get("property") or each["name"]: str(each["content"]) for each in metas}
        assert len(words) == len(metas) == 8  # and nothing of Gradio's
        assert words["og:title"] == title and words["og:description"].startswith(description)
        assert words["og:url"].startswith("http://example.org/") and asked.count("=") == words["og:url"].count("=")
        assert words["og:image"] == "http://example.org/kbbench.png"


def test_a_page_that_takes_long_or_fails_is_sent_without(
    client: TestClient, boards: Boards, monkeypatch: pytest.MonkeyPatch, place: TaskKey
) -> None:
    monkeypatch.setattr("kbbench_hf.app.leaderboard.PATIENCE_S", 0.05)
    asked_on, finished = Event(), list[bool]()
    monkeypatch.setattr(boards, "board", lambda *_: finished.append(asked_on.wait(60)))
    assert "<table" not in client.get(f"/?place={place}").text and not finished  # nobody waited for the board
    asked_on.set()
    monkeypatch.setattr(boards, "board", lambda *_: 1 / 0)
    assert client.get(f"/?place={place}").status_code == 200


@pytest.mark.parametrize(
    ("tab", "wanted"),
    [("leaderboard", "board"), ("system", "row"), ("board", "board"), ("row", "row"), ("overview", "board")],
)
def test_tabs_are_found_by_their_labels_and_by_their_names_of_before(tab: str, wanted: str) -> None:
    assert requested_tab({"tab": tab}) == wanted
