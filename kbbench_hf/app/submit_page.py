"""From a file to a row: checked and scored at once, stored after login."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbbench_hf.app.boards import Boards, place_label
from kbbench_hf.app.html import Listener
from kbbench_hf.benchmarks import as_place, benchmark
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.leaderboard.store import System
from kbbench_hf.leaderboard.submissions import Preview, preview, store_preview
from kbbench_hf.reports.tables import interval, number

if TYPE_CHECKING:
    import gradio as gr

PREDICTIONS = "Predictions: .jsonl or .jsonl.gz"
ANNOTATED = f"{PREDICTIONS}, and with them the .parquet files that 'kbbench annotate' wrote"
READ_AT_ONCE = 4
"""So many uploads are read and scored at once; the others wait, so that memory stays bounded."""


def submit_tab(boards: Boards, tab: "gr.Tab") -> None:
    """Lay out the tab."""
    import gradio as gr

    if can_log_in():
        gr.LoginButton(size="sm")
    else:
        gr.Markdown("Nobody can log in here, so nothing can be stored: files are checked and scored only. "
                    "Run `hf auth login` before `kbbench serve`, or store with `kbbench submit`.")  # fmt: skip
    place = gr.Dropdown([], label="Benchmark", elem_id="submit-place", allow_custom_value=True)
    form = gr.Markdown()
    files = gr.File(
        label=PREDICTIONS,
        file_types=[".jsonl", ".gz", ".parquet"],
        file_count="multiple",
        elem_id="file",
        height=130,
    )
    report = gr.Markdown(elem_id="report")
    with gr.Row():
        name = gr.Textbox(label="System", placeholder="as the board shall show it", elem_id="name", min_width=200)
        link = gr.Textbox(label="Link", placeholder="https://...", elem_id="link", min_width=200)
        licence = gr.Textbox(label="Licence", placeholder="apache-2.0", elem_id="licence", min_width=120)
    with gr.Row():
        size = gr.Number(label="Parameters, billions (0: not said)", minimum=0, min_width=160)
        latency = gr.Number(label="Latency p95, seconds (0: not said)", minimum=0, min_width=160)
        cost = gr.Number(label="1,000 examples, US dollars (0: not said)", minimum=0, min_width=160)
    notes = gr.Textbox(label="Notes", lines=2, elem_id="notes")
    send = gr.Button("Submit", variant="primary", elem_id="send")
    receipt = gr.Markdown(elem_id="receipt")

    def choose(place: str | None) -> object:
        places = boards.open_places()
        value = place or str(places[0])
        return gr.Dropdown([(place_label(each), str(each)) for each in places], value=value), *describe(value)

    def describe(place: str) -> tuple[str, object]:
        return _format(place), gr.File(label=ANNOTATED if _takes_annotations(place) else PREDICTIONS)

    def check(place: str, files: list[str] | None) -> str:
        if not files:
            return ""
        try:
            return preview_text(_read(place, files))
        except KBBenchError as error:
            return _failure("Not accepted", error)

    def submit(
        profile: gr.OAuthProfile | None,
        place: str,
        files: list[str] | None,
        name: str,
        link: str,
        licence: str,
        size: float | None,
        latency: float | None,
        cost: float | None,
        notes: str,
    ) -> str:
        if profile is None:
            return "**Not stored:** nobody is logged in. Sign in above and submit again."
        if not files:
            return "**Not stored:** there is no file. Choose one above."
        try:
            numbers = {"parameters_b": size, "latency_p95_s": latency, "cost_per_1000_usd": cost}
            said = {key: value for key, value in numbers.items() if value}
            system = System(name or "", link or "", licence or "", notes=notes or "", **said)
            stored = store_preview(boards.index.store, _read(place, files), system, profile.username)
        except KBBenchError as error:
            return _failure("Not stored", error)
        state = "It was there already." if stored.existed else "It is on the board now."
        return f"**Stored** as `{stored.id}`. {state}"

    inputs = [place, files, name, link, licence, size, latency, cost, notes]
    reading: Listener = {"concurrency_id": "read", "concurrency_limit": READ_AT_ONCE}
    tab.select(choose, place, [place, form, files], show_progress="hidden", api_visibility="private")
    place.input(describe, place, [form, files], show_progress="hidden", api_visibility="private")
    gr.on([files.change, place.input], check, [place, files], report, api_name="validate", **reading)
    send.click(submit, inputs, receipt, api_name="submit", **reading)


def can_log_in() -> bool:
    """Say whether somebody can log in: on a Space, or where the machine itself is logged in to the Hub."""
    from huggingface_hub import get_token

    return "SPACE_ID" in os.environ or get_token() is not None


def _read(place: str, files: Sequence[str]) -> Preview:
    where, paths = as_place(place), [Path(each) for each in files]
    annotations = [path for path in paths if path.suffix == ".parquet"]
    predictions = [path for path in paths if path not in annotations]
    if len(predictions) != 1:
        names = ", ".join(path.name for path in predictions) or "none"
        raise UsageError(f"Files of predictions: {names}; expected one. Choose one, with its annotations if any.")
    return preview(predictions[0], where.benchmark, where.config, where.split, annotations, where.mode)


def _takes_annotations(place: str) -> bool:
    try:
        return benchmark(as_place(place).benchmark).scoring.annotations is not None
    except KBBenchError:
        return False


def preview_text(read: Preview) -> str:
    """Return what a submission would get, as Markdown."""
    counters = read.result.counters
    lines = ["**Accepted.** This is what it would get:", "", "| metric | value | 95 % interval |", "|---|---|---|"]
    for metric, figure in read.result.scores.items():
        label = read.benchmark.metrics.get(metric, metric)
        lines.append(f"| {label} | {number(figure.value)} | {interval(figure.ci95)} |")
    n = f"{counters['n_examples']:,}"
    warnings = [f"\n⚠ {_plain(str(warning))}" for warning in read.result.warnings]
    return "\n".join([*lines, "", f"{n} of {n} examples answered.", *warnings])


def _plain(text: str) -> str:
    """Return text as Markdown that shows it letter by letter: what stands in a file is no markup."""
    return re.sub(r"([\\`*_{}\[\]()#+!|<>&~$-])", r"\\\1", text)


def _failure(what: str, error: KBBenchError) -> str:
    return f"**{what}.**\n\n~~~text\n{str(error).replace('~~~', '~ ~ ~')}\n~~~"


def _format(place: str) -> str:
    try:
        found = benchmark(as_place(place).benchmark)
    except KBBenchError:
        return ""
    return f"One JSON object per example and line:\n```json\n{found.scoring.answer.example}\n```"
