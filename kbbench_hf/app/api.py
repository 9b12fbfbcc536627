"""Addresses under `/api` of the board (JSON, CSV, LaTeX), and their help page.

They are read only and need no login; what a browser may not see is not here either.
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
    """Return the addresses of a store's boards, for the server that has the pages too."""

    def answered(make: Callable[[Request], Response]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            try:
                return await run_in_threadpool(make, request)
            except KBBenchError as error:
                return JSONResponse({"error": str(error)}, status_code=404)

        return answer

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
            raise UsageError(f"{row_id!r} has predictions that are not handed on. {why}")
        data = boards.index.store.predictions_file(row_id).read_bytes()
        name = f"{row_id[:12]}.predictions.jsonl.gz"
        return Response(data, media_type="application/gzip", headers=_attachment(name))

    def fixed(content: str | bytes, kind: str, seconds: int) -> Callable[[Request], Response]:
        return lambda _: Response(content, media_type=kind, headers={"Cache-Control": f"max-age={seconds}"})

    return [
        Route(f"/{STYLES}", fixed(CSS, "text/css", 300)),
        Route(f"/{PICTURE}", fixed(PNG, "image/png", 86400)),
        Route("/api", answered(page)),
        Route("/api/boards", answered(lambda _: _json([_place(boards, each) for each in boards.places()]))),
        Route("/api/board", answered(board)),
        Route("/api/rows/{row}", answered(lambda request: _json(row_values(boards, request.path_params["row"])))),
        Route("/api/rows/{row}/predictions.jsonl.gz", answered(predictions)),
    ]


def board_answer(boards: Boards, task_key: TaskKey, asked: Mapping[str, str]) -> Response:
    """Return a board as a view of it asks, whole: `search`, `origin`, `sort` and `columns` as in the page's address.

    Raises:
        UsageError: a format that there is not.
    """
    board, form = boards.board(task_key), asked.get("format", "json")
    if form not in FORMATS:
        raise UsageError(f"{form[:20]!r} is not a format; expected {', '.join(FORMATS)}. Name one of them.")
    rows = board.differences(board.chosen(board.view(asked)))
    headings = requested_columns(asked.get("columns", ""), board.columns, [each.heading for each in board.columns])
    name = f"{'-'.join(task_key[:3])}.{form}"
    if form == "csv":
        text = csv_text(rows, chosen_columns(board, headings))
        return PlainTextResponse(text, media_type="text/csv", headers=_attachment(name))
    if form == "tex":
        return PlainTextResponse(latex_text(rows, board.benchmark, headings), headers=_attachment(name))
    return _json({**_place(boards, task_key), "rows": [_row(row) for row in rows]})


def row_values(boards: Boards, row_id: str) -> PlainRow:
    """Return everything that may be shown of a row; of a stored one its record and its result too.

    Raises:
        UsageError: no board has a row of this id.
    """
    task_key = _task_key_of_row(boards, row_id)
    row = boards.row(task_key, row_id)
    values = {"place": str(task_key), **_row(row)} if row else {}
    if row and row.badge != "published":
        store = boards.index.store
        values |= {"record": json.loads(store.record(row_id).to_bytes()), "result": store.result(row_id)}
    return values


def _task_key_of_row(boards: Boards, row_id: str) -> TaskKey:
    task_key = boards.task_key_of(row_id)
    if task_key is None:
        raise UsageError(f"No such row: {row_id[:80]!r}. The ids of all rows of a place: /api/board?place=PLACE")
    return task_key


def _place(boards: Boards, task_key: TaskKey) -> PlainRow:
    board = boards.board(task_key)
    return {
        "place": str(task_key),
        "title": task_label(task_key),
        "headline": board.headline,
        "lower_is_better": board.lower_is_better,
        "n_rows": len(board.rows),
    }


def _row(row: Row) -> PlainRow:
    """Return a row as JSON has it: full precision, null where nothing is known."""
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
"""Any page may read what is public."""
