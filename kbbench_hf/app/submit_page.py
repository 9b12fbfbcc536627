"""From a file to a row: checked and scored at once, stored after login."""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbbench_hf.app.boards import Boards, place_label
from kbbench_hf.app.html import Listener
from kbbench_hf.benchmarks import Place, as_place, benchmark
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.hub.connection import answer_within
from kbbench_hf.leaderboard.checking import Checks, Upload
from kbbench_hf.leaderboard.quotas import Quotas
from kbbench_hf.leaderboard.records import Receipt, Record, System
from kbbench_hf.leaderboard.submissions import Preview, checked_system, store_preview
from kbbench_hf.reports.tables import interval, number

if TYPE_CHECKING:
    import gradio as gr

PREDICTIONS = "Predictions: .jsonl or .jsonl.gz"
ANNOTATED = f"{PREDICTIONS}, and with them the .parquet files that 'kbbench annotate' wrote"
LOG = logging.getLogger("kbbench")
WHO_S = 10.0
"""For so long the Hub is waited for to say whose token the machine's is."""
WAITING = 200
"""So many uploads are read or wait for it; none of them holds a thread."""


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
    with gr.Accordion("Your submissions", open=False, visible=False, elem_id="own-rows") as own_rows:
        mine = gr.Dropdown([], label="Submission", elem_id="mine", allow_custom_value=True)
        with gr.Row():
            changing = gr.Button("Say of it what stands above", size="sm", elem_id="change")
            withdrawing = gr.Button("Withdraw it from the board", size="sm", elem_id="withdraw")
            returning = gr.Button("Put it back", size="sm", elem_id="return")
        changed = gr.Markdown(elem_id="changed")
    checks, quotas, store = Checks(), Quotas(boards.index), boards.index.store

    def choose(place: str | None, profile: gr.OAuthProfile | None) -> object:
        places = boards.open_places()
        value = place or str(places[0])
        menu = gr.Dropdown([(place_label(each), str(each)) for each in places], value=value)
        return menu, *describe(value), *theirs(profile)

    def theirs(profile: gr.OAuthProfile | None) -> tuple[object, object]:
        """Return the menu of the visitor's own submissions, and whether there is one."""
        boards.index.update()
        found = boards.index.of_submitter(profile.username) if profile else []
        choices = [(_own_label(record, withdrawn), record.id) for record, withdrawn in found]
        return gr.Dropdown(choices, value=None), gr.Accordion(visible=bool(found))

    def describe(place: str) -> tuple[str, object]:
        return _format(place), gr.File(label=ANNOTATED if _takes_annotations(place) else PREDICTIONS)

    async def check(place: str, files: list[str] | None, request: gr.Request, profile: gr.OAuthProfile | None) -> str:
        if not files:
            return ""
        try:
            who = profile.username if profile else f"session {request.session_hash}"
            return preview_text(await checks.check(_upload(place, files), who, profile is not None))
        except KBBenchError as error:
            return _failure("Not accepted", error)

    def described(
        name: str, link: str, licence: str, size: float | None, latency: float | None, cost: float | None, notes: str
    ) -> System:
        numbers = {"parameters_b": size, "latency_p95_s": latency, "cost_per_1000_usd": cost}
        said = {key: value for key, value in numbers.items() if value}
        return checked_system(System(name or "", link or "", licence or "", notes=notes or "", **said))

    async def submit(
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
            system, upload = described(name, link, licence, size, latency, cost, notes), _upload(place, files)
            with quotas.storing(profile.username):
                read = await checks.check(upload, profile.username, logged_in=True)
                stored = await asyncio.to_thread(
                    store_preview, store, read, system, profile.username, organisations=organisations(profile)
                )
            return await asyncio.to_thread(receipt_text, boards, upload.place, stored)
        except KBBenchError as error:
            return _failure("Not stored", error)

    def change(profile: gr.OAuthProfile | None, row: str | None, do: Callable[[str, str], None], done: str) -> object:
        """Change one of the visitor's own rows; return what is said of it and the menu as it is then."""
        try:
            if profile is None or not row:
                raise UsageError("No row is chosen, or nobody is logged in; expected one of your own. Choose it above.")
            quotas.changing(profile.username)
            do(row, profile.username)
            return f"**{done}** `{row}`.", *theirs(profile)
        except KBBenchError as error:
            return _failure("Not changed", error), gr.skip(), gr.skip()

    def withdraw(profile: gr.OAuthProfile | None, row: str | None) -> object:
        return change(profile, row, store.withdraw, "Withdrawn:")

    def put_back(profile: gr.OAuthProfile | None, row: str | None) -> object:
        return change(profile, row, partial(store.withdraw, undo=True), "On the board again:")

    def edit(
        profile: gr.OAuthProfile | None,
        row: str | None,
        link: str,
        licence: str,
        size: float | None,
        latency: float | None,
        cost: float | None,
        notes: str,
    ) -> object:
        def do(row: str, actor: str) -> None:
            name = store.record(row).system.name
            store.edit(row, described(name, link, licence, size, latency, cost, notes), actor)

        return change(profile, row, do, "Changed:")

    inputs = [place, files, name, link, licence, size, latency, cost, notes]
    reading: Listener = {"concurrency_id": "read", "concurrency_limit": WAITING}
    own: Listener = {"api_visibility": "private"}
    tab.select(choose, place, [place, form, files, mine, own_rows], show_progress="hidden", api_visibility="private")
    changing.click(edit, [mine, *inputs[3:]], [changed, mine, own_rows], **own)
    withdrawing.click(withdraw, mine, [changed, mine, own_rows], **own)
    returning.click(put_back, mine, [changed, mine, own_rows], **own)
    place.input(describe, place, [form, files], show_progress="hidden", api_visibility="private")
    gr.on([files.change, place.input], check, [place, files], report, api_name="validate", **reading)
    send.click(submit, inputs, receipt, api_name="submit", **reading)


def can_log_in() -> bool:
    """Say whether somebody can log in: on a Space, or where the Hub knows the machine's own token.

    Elsewhere than on a Space, Gradio asks the Hub who that is before it serves, and does not serve without an answer.
    """
    from huggingface_hub import get_token, whoami

    if "SPACE_ID" in os.environ or get_token() is None:
        return "SPACE_ID" in os.environ
    try:
        answer_within(WHO_S)
        whoami()
    except Exception as error:  # whatever the Hub's client raises, whose classes depend on its HTTP library
        LOG.warning("nobody can log in until this is started again: the Hub did not say who (%s)", type(error).__name__)
        return False
    return True


def organisations(profile: Mapping[str, Any]) -> list[str]:
    """Return the account names of the organisations that the login provider says have somebody as a member.

    >>> organisations({"preferred_username": "ada", "orgs": [{"name": "ACME Ltd", "preferred_username": "acme"}]})
    ['acme']
    """
    found = profile.get("orgs")
    known = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return [str(each["preferred_username"]) for each in known if each.get("preferred_username")]


def receipt_text(boards: Boards, place: Place, stored: Receipt) -> str:
    """Return what a submitter is told of a stored row: its id, how safe it is, and the notes that the board shows."""
    state = "It was there already." if stored.existed else "It is on the board now."
    state = "It was there already; it says now what you wrote." if stored.edited else state
    safe = f" {boards.outbox.state(stored.id)}" if boards.outbox else ""
    row = boards.row(place, stored.id, now=True)
    notes = "".join(f"\n\n⚠ The board notes of it: {_plain(each.reason)}" for each in (row.flags if row else ()))
    return f"**Stored** as `{stored.id}`. {state}{safe}{notes}"


def _own_label(record: Record, withdrawn: bool) -> str:
    place = Place(record.benchmark, record.config, record.split, record.mode)
    try:
        where = place_label(place)
    except KBBenchError:  # a benchmark that is no longer installed
        where = str(place)
    return f"{record.system.name} · {where}{' (withdrawn)' if withdrawn else ''}"


def _upload(place: str, files: Sequence[str]) -> Upload:
    where, paths = as_place(place), [Path(each) for each in files]
    annotations = [path for path in paths if path.suffix == ".parquet"]
    predictions = [path for path in paths if path not in annotations]
    if len(predictions) != 1:
        names = ", ".join(path.name for path in predictions) or "none"
        raise UsageError(f"Files of predictions: {names}; expected one. Choose one, with its annotations if any.")
    return Upload(str(predictions[0]), where, [str(each) for each in annotations])


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
