"""The board for programs: plain addresses, answered as they say, errors in words."""

import csv
import gzip
import io
import json
import re

import httpx
import pytest
from starlette.applications import Starlette

from kbbench_hf.app.api import routes
from kbbench_hf.app.boards import Board, Boards
from kbbench_hf.benchmarks import TaskKey
from kbbench_hf.scoring.score import score
from tests.unit.app.parsed import parsed


@pytest.fixture
def get(boards: Boards) -> "Get":
    return Get(boards)


class Get:
    """Asks the addresses without a server between."""

    def __init__(self, boards: Boards) -> None:
        self.app = Starlette(routes=routes(boards))

    def __call__(self, path: str, **asked: str) -> httpx.Response:
        import asyncio

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://board") as client:
                return await client.get(path, params=asked or None)

        return asyncio.run(ask())


def test_a_board_has_every_row_with_all_digits(get: Get, board: Board, place: TaskKey) -> None:
    answer = get("/api/board", place=str(place)).json()
    assert [row["system"] for row in answer["rows"]] == ["pattern", "copy"] and answer["headline"] == "f1"
    figure = answer["rows"][0]["figures"]["f1"]
    assert figure["value"] == board.rows[0].scores["f1"].value
    assert figure["ci95"] == [board.rows[0].scores["f1"].low, board.rows[0].scores["f1"].high]
    assert [row["group"] for row in answer["rows"]] == [1, 2] and answer["rows"][1]["p_value"] < 0.001
    assert answer["rows"][1]["gap"] == pytest.approx(-0.2236, abs=1e-4)


def test_csv_and_latex_are_the_same_view(get: Get, place: TaskKey) -> None:
    answer = get("/api/board", place=str(place), format="csv", sort="-F1", columns="F1,vs previous row")
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert [line["system"] for line in lines] == ["copy", "pattern"]
    assert float(lines[1]["F1 low"]) < float(lines[1]["F1"]) < float(lines[1]["F1 high"])
    assert float(lines[1]["vs previous row"]) > 0 and 0 < float(lines[1]["p"]) < 0.001
    assert lines[1]["F1"] == "0.6264" and lines[1]["vs previous row"] == "0.2236" and lines[1]["paper"] == ""
    assert get("/api/board", place=str(place), format="tex").text.startswith("\\begin{tabular}")


def test_csv_has_the_printed_digits_and_the_paper_of_published_rows(get: Get) -> None:
    for place, system, value in (
        ("text2kg-dbpedia-webnlg/sentences/test/paper", "Alpaca-LoRA-13B", "0.25"),
        ("ska-bench/noise_kg_4k/test/squad", "", ""),
    ):
        lines = list(csv.DictReader(io.StringIO(get("/api/board", place=place, format="csv").text)))
        published = [line for line in lines if line["system"] == system or not system]
        assert published and all(line["paper"].startswith("https://arxiv.org/abs/") for line in published)
        assert {line["year"] for line in published} <= {"2023", "2025"} and "Table" in published[0]["source"]
        assert not value or published[0]["F1"] == value
        differences = [line["vs previous row"] for line in lines if line["vs previous row"]]
        assert all(len(each.lstrip("-").partition(".")[2]) <= 4 for each in differences)


def test_the_picture_of_links_is_a_png(get: Get) -> None:
    assert get("/kbbench.png").content.startswith(b"\x89PNG")


def test_a_row_and_its_predictions_score_to_the_same_figures(get: Get, board: Board, place: TaskKey) -> None:
    row = get(f"/api/rows/{board.rows[0].id}").json()
    file = get(f"/api/rows/{board.rows[0].id}/predictions.jsonl.gz")
    rows = [json.loads(line) for line in gzip.decompress(file.content).splitlines()]
    assert "attachment" in file.headers["content-disposition"]
    assert score(rows, "mini-text2kg").to_dict()["scores"] == row["result"]["scores"]
    assert row["place"] == str(place) and row["record"]["submitter"] == "somebody"


def test_what_there_is_not_is_said_with_404(get: Get, place: TaskKey) -> None:
    for path, asked in (
        ("/api/board", {}),
        ("/api/board", {"place": "a/b/c/d"}),
        ("/api/board", {"place": str(place), "format": "xml"}),
        ("/api/rows/nobody", {}),
        (f"/api/rows/{'f' * 32}/predictions.jsonl.gz", {}),
    ):
        answer = get(path, **asked)
        assert answer.status_code == 404 and len(answer.json()["error"]) > 20


def test_published_figures_have_no_predictions(get: Get, boards: Boards) -> None:
    row = boards.board(TaskKey("ska-bench", "noise_kg_4k", "test", "squad")).rows[0]
    assert get(f"/api/rows/{row.id}").json()["system"] == row.system
    assert "no predictions" in get(f"/api/rows/{row.id}/predictions.jsonl.gz").json()["error"]


def test_the_page_explains_every_address_and_its_example_is_a_program(get: Get) -> None:
    html = get("/api").text
    assert all(f"{each.path.replace('{row}', 'ID')}" in html for each in get.app.routes[2:] if hasattr(each, "path"))
    assert get("/kbbench.css").headers["content-type"].startswith("text/css")
    (example,) = parsed(re.sub(r"<!doctype[^>]*>|<link[^>]*>", "", html)).all("pre", id="example")
    compile("".join(str(each) for each in example.inside), "example", "exec")
