"""HTTP routes under `/api` of the board (JSON, CSV, LaTeX), and their help page.

They are read-only and need no login. They return nothing that the pages do not show: no gold, and no predictions on
private data. Programs use the addresses and the JSON keys, which the help page documents.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kbbench_hf.app.board_page import chosen_columns
from kbbench_hf.app.boards import Boards, task_label
from kbbench_hf.app.html import CSS, PICTURE, PNG, STYLES, public_address, render_html
from kbbench_hf.app.row_page import why_no_answers
from kbbench_hf.benchmarks import TaskKey, as_task_key
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.datasets import Row as PlainRow
from kbbench_hf.leaderboard.table import Row
from kbbench_hf.leaderboard.view import csv_text, latex_text, requested_columns
from kbbench_hf.scoring.result import finite

FORMATS = ("json", "csv", "tex")


def routes(boards: Boards) -> list[Route]:
    """Return the routes of a store's boards, for the server of the pages."""

    def in_thread(make: Callable[[Request], Response]) -> Callable[[Request], Any]:
        """Return the endpoint that calls `make` in a thread; an error is JSON with status 404."""

        async def endpoint(request: Request) -> Response:
            try:
                return await run_in_threadpool(make, request)
            except KBBenchError as error:
                return JSONResponse({"error": str(error)}, status_code=404)

        return endpoint

    def page(request: Request) -> Response:
        task_key = next(iter(boards.families().values()))[0]
        row = boards.board(task_key).rows[0].id
        base = public_address(request)
        return HTMLResponse(render_html("api", styles=STYLES, base=base, place=str(task_key), row=row))

    def board(request: Request) -> Response:
        query = dict(request.query_params)
        return board_answer(boards, as_task_key(query.get("place", "")), query)

    def predictions(request: Request) -> Response:
        row_id = request.path_params["row"]
        task_key = _task_key_of_row(boards, row_id)
        row = boards.row(task_key, row_id)
        if row is None or row.badge == "published":
            raise UsageError(f"{row_id!r} was published as scores only; there are no predictions here.")
        if why := why_no_answers(boards, task_key, [row]):
            raise UsageError(f"{row_id!r} has predictions that are not public. {why}")
        data = boards.index.store.predictions_file(row_id).read_bytes()
        name = f"{row_id[:12]}.predictions.jsonl.gz"
        return Response(data, media_type="application/gzip", headers=_attachment(name))

    def static(content: str | bytes, kind: str, seconds: int) -> Callable[[Request], Response]:
        """Return an endpoint with constant content, which browsers cache for this time."""
        return lambda _: Response(content, media_type=kind, headers={"Cache-Control": f"max-age={seconds}"})

    return [
        Route(f"/{STYLES}", static(CSS, "text/css", 300)),
        Route(f"/{PICTURE}", static(PNG, "image/png", 86400)),
        Route("/api", in_thread(page)),
        Route("/api/boards", in_thread(lambda _: _json([_board_facts(boards, each) for each in boards.places()]))),
        Route("/api/board", in_thread(board)),
        Route("/api/rows/{row}", in_thread(lambda request: _json(row_values(boards, request.path_params["row"])))),
        Route("/api/rows/{row}/predictions.jsonl.gz", in_thread(predictions)),
    ]


def board_answer(boards: Boards, task_key: TaskKey, query: Mapping[str, str]) -> Response:
    """Return the response with a board, all pages of it.

    `query` may have `search`, `origin`, `sort`, `columns` and others, as the address of the page, and a `format`. JSON
    has all fields of a row; `columns` are for CSV and LaTeX.

    Raises:
        UsageError: there is no such format.
    """
    board, form = boards.board(task_key), query.get("format", "json")
    if form not in FORMATS:
        raise UsageError(f"{form[:20]!r} is not a format; expected {', '.join(FORMATS)}. Name one of them.")
    rows = board.differences(board.chosen(board.view(query)))
    headings = requested_columns(query.get("columns", ""), board.columns, [each.heading for each in board.columns])
    name = f"{'-'.join(task_key[:3])}.{form}"
    if form == "csv":
        text = csv_text(rows, chosen_columns(board, headings))
        return PlainTextResponse(text, media_type="text/csv", headers=_attachment(name))
    if form == "tex":
        return PlainTextResponse(latex_text(rows, board.benchmark, headings), headers=_attachment(name))
    return _json({**_board_facts(boards, task_key), "rows": [_row_to_json(row) for row in rows]})


def row_values(boards: Boards, row_id: str) -> PlainRow:
    """Return the public facts of a row, for JSON; those of a stored row include its `record` and its `result`.

    Raises:
        UsageError: no board has a row with this id.
    """
    task_key = _task_key_of_row(boards, row_id)
    row = boards.row(task_key, row_id)
    values = {"place": str(task_key), **_row_to_json(row)} if row else {}
    if row and row.badge != "published":
        store = boards.index.store
        values |= {"record": json.loads(store.record(row_id).to_bytes()), "result": store.result(row_id)}
    return values


def _task_key_of_row(boards: Boards, row_id: str) -> TaskKey:
    task_key = boards.task_key_of(row_id)
    if task_key is None:
        raise UsageError(f"No such row: {row_id[:80]!r}. The ids of all rows of a place: /api/board?place=PLACE")
    return task_key


def _board_facts(boards: Boards, task_key: TaskKey) -> PlainRow:
    board = boards.board(task_key)
    return {
        "place": str(task_key),
        "title": task_label(task_key),
        "headline": board.headline,
        "lower_is_better": board.lower_is_better,
        "n_rows": len(board.rows),
    }


def _row_to_json(row: Row) -> PlainRow:
    """Return a row for JSON, in full precision, with None for unknown numbers."""
    left_out = ("scores", "slices", "warnings", "flags", "above", "gap_digits")
    values = {key: value for key, value in asdict(row).items() if key not in left_out}
    values["figures"] = {
        metric: {"value": finite(each.value), "ci95": [finite(each.low), finite(each.high)]}
        for metric, each in row.scores.items()
    }
    values["warnings"] = [{"code": each.code, "text": str(each)} for each in row.warnings]
    values["flags"] = [each._asdict() for each in row.flags]
    values["p_value"] = row.above.p_value if row.above else None
    return values


def _json(values: object) -> Response:
    return Response(json.dumps(values, ensure_ascii=False), media_type="application/json", headers=_OPEN)


def _attachment(name: str) -> dict[str, str]:
    return {**_OPEN, "Content-Disposition": f'attachment; filename="{name}"'}


_OPEN = {"Access-Control-Allow-Origin": "*"}
"""Scripts of any site may read the responses, which are public."""
