"""The leaderboard as a Gradio app: Board, Row, Compare, Submit, About."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbbench_hf.app.board_page import Boards, board_tab
from kbbench_hf.app.compare_page import compare_tab
from kbbench_hf.app.row_page import row_tab
from kbbench_hf.app.submit_page import submit_tab
from kbbench_hf.errors import missing_extra
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store

if TYPE_CHECKING:
    import gradio as gr

ABOUT = Path(__file__).parent / "about.md"
KEEP_UPLOADS_S = 600
LAUNCH: dict[str, Any] = {
    "max_file_size": "50mb",
    "allowed_paths": [],
    "show_error": False,
    "enable_monitoring": False,
    "ssr_mode": False,
    "footer_links": ["gradio"],
    "css": "#board td, #board th {font-variant-numeric: tabular-nums} footer {opacity: .6}",
}


def leaderboard(store: Store) -> "gr.Blocks":
    """Return the app of a store; the caller launches it with `LAUNCH`."""
    try:
        import gradio as gr
    except ImportError:
        raise missing_extra("gradio", "space") from None

    store.recover()
    boards = Boards(Index(store))
    with gr.Blocks(title="kbbench leaderboard", delete_cache=(KEEP_UPLOADS_S, KEEP_UPLOADS_S), fill_width=True) as app:
        gr.Markdown("# kbbench\nKnowledge benchmarks, scored from predictions that anyone can score again.")
        with gr.Tabs() as tabs:
            with gr.Tab("Board", id="board"):
                place, table, ids = board_tab(boards)
            with gr.Tab("Row", id="row") as row_page:
                row = row_tab(boards)
            with gr.Tab("Compare", id="compare") as compare_page:
                compared = compare_tab(boards)
            with gr.Tab("Submit", id="submit"):
                submit_tab(boards)
            with gr.Tab("About", id="about"):
                gr.Markdown(ABOUT.read_text(encoding="utf-8"))

        def menu(place: str) -> list[tuple[str, str]]:
            return [(name, json.dumps([place, row_id])) for name, row_id in boards.names(place)[:500]]

        def open_row(place: str, ids: list[str], event: gr.SelectData) -> Any:
            value = json.dumps([place, ids[event.index[0]]])
            return gr.Dropdown(menu(place), value=value), gr.Tabs(selected="row")

        def fill(place: str, value: str | None) -> Any:
            choices = menu(place)
            kept = value if value in [each for _, each in choices] else None
            return gr.Dropdown(choices, value=kept or (choices[0][1] if choices else None))

        def fill_compare(place: str, values: list[str]) -> Any:
            choices = menu(place)
            known = [each for _, each in choices]
            return gr.Dropdown(choices, value=[value for value in values if value in known] or known[:2])

        table.select(open_row, [place, ids], [row, tabs], show_progress="hidden", api_visibility="private")
        row_page.select(fill, [place, row], row, show_progress="hidden", api_visibility="private")
        compare_page.select(fill_compare, [place, compared], compared, show_progress="hidden", api_visibility="private")
        app.queue(default_concurrency_limit=8, max_size=None)
    return app
