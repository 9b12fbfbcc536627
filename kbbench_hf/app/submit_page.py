"""Submit tab: uploads are checked and scored at once, and stored after sign-in; the visitor's own submissions.

Programs use the API endpoints `/validate` and `/submit`, with the parameters of `check` and `submit`.
"""

import asyncio
import json
import logging
import os
import re
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbbench_hf.app.boards import Boards, task_label
from kbbench_hf.app.html import Listener
from kbbench_hf.benchmarks import TaskKey, as_task_key, at_hand, benchmark
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.hub.repository import answer_within
from kbbench_hf.leaderboard.checking import SIGN_IN, Checks, Upload
from kbbench_hf.leaderboard.store import Receipt, Record, System
from kbbench_hf.leaderboard.submissions import Preview, Quotas, checked_system, store_preview
from kbbench_hf.reports.tables import interval, number

if TYPE_CHECKING:
    import gradio as gr

OAUTH = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")
"""Variables that the Hub sets in a Space whose README.md has `hf_oauth: true`; Gradio's sign-in needs them."""
WHO_S = 10.0
"""Timeout of the request for the user of this machine's token: the pages wait for it."""
LOG = logging.getLogger("kbbench")
LOCAL = (
    "Score a file of any size on your own machine: `kbbench score FILE --benchmark NAME`. "
    "To show it on a board of your own: `kbbench submit FILE --benchmark NAME --name SYSTEM`, then `kbbench serve`."
)


class Login:
    """Sign-in of visitors: by OAuth on a Space, elsewhere as the user of this machine's token."""

    def __init__(self) -> None:
        from huggingface_hub import get_token

        self.user: Mapping[str, Any] = {}
        self._reason, self._until = "", time.monotonic() + WHO_S
        self._request: threading.Thread | None = None
        if "SPACE_ID" in os.environ:  # before `_import_gradio` sets a missing OAUTH_CLIENT_SECRET
            if missing := [name for name in OAUTH if not os.environ.get(name)]:
                self._reason = f"this Space has no {missing[0]} (its owner adds `hf_oauth: true` to its README.md)"
        elif get_token() is None:
            self._reason = "this machine has no Hugging Face token (its owner runs `hf auth login`, then starts again)"
        else:
            self._request = threading.Thread(target=self._ask_hub, name="login", daemon=True)
            self._request.start()

    def problem(self) -> str:
        """Return why visitors cannot sign in, else an empty string; waits for the Hub until `WHO_S` after the start."""
        if self._request:
            self._request.join(max(0.0, self._until - time.monotonic()))
            if not self.user and not self._reason:
                self._reason = f"the Hub did not respond within {WHO_S:g} s when this was started"
        if self._reason:
            LOG.warning("Sign-in is not available: %s", self._reason)
        return self._reason

    def _ask_hub(self) -> None:
        from huggingface_hub import whoami

        try:
            answer_within(WHO_S)
            user = whoami()
        except Exception as error:  # the classes depend on the Hub client's HTTP library
            self._reason = f"the Hub did not return the user of this machine's token ({type(error).__name__})"
            return
        if user.get("type") == "user":
            self.user = user
        else:
            self._reason = "the token of this machine belongs to no person (Gradio signs in persons only)"


def remember(login: Login) -> None:
    """Give Gradio the response of the Hub: its own request at the start would stop it if the Hub did not respond."""
    if login.user:
        import gradio.oauth

        gradio.oauth.whoami = lambda *_, **__: dict(login.user)


PREDICTIONS = "Predictions: .jsonl or .jsonl.gz"
ANNOTATED = f"{PREDICTIONS}, and with them the .parquet files that 'kbbench annotate' wrote"
WAITING = 200
"""Maximum number of uploads that are checked or wait; none of them holds a thread."""


def submit_tab(boards: Boards, tab: "gr.Tab", shown: "gr.Dropdown", login: Login, checks: Checks) -> None:
    """Add the components of the tab and their listeners; the tab opens with the benchmark of the board, `shown`."""
    import gradio as gr

    no_login = _login_button(login)
    seen = gr.State("")
    first = {each.benchmark: each for each in reversed(boards.open_places())}  # few, so that the page stays small
    menu = list(map(str, first.values()))[-2:]  # programs see here the form of a place
    place = gr.Dropdown(menu, value=None, label="Benchmark", elem_id="submit-place", allow_custom_value=True)
    form = gr.Markdown()
    kinds = [".jsonl", ".gz", ".parquet"]
    files = gr.File(label=PREDICTIONS, file_types=kinds, file_count="multiple", elem_id="file", height=130)
    report = gr.Markdown(label="report", elem_id="report")
    with gr.Row():
        name = gr.Textbox(label="System", placeholder="display name on the leaderboard", elem_id="name", min_width=200)
        link = gr.Textbox(label="Link", placeholder="https://...", elem_id="link", min_width=200)
        licence = gr.Textbox(label="License", placeholder="apache-2.0", elem_id="licence", min_width=120)
    with gr.Row():
        size = gr.Number(label="Model size in billion parameters (optional)", minimum=0, min_width=160)
        latency = gr.Number(label="Latency p95 in seconds (optional)", minimum=0, min_width=160)
        cost = gr.Number(label="Cost per 1,000 examples in USD (optional)", minimum=0, min_width=160)
    notes = gr.Textbox(label="Notes", lines=2, elem_id="notes")
    send = gr.Button("Submit", variant="primary", elem_id="send")
    receipt = gr.Markdown(label="receipt", elem_id="receipt")
    quotas, store = Quotas(boards.index), boards.index.store
    mine, own_rows = _own_rows(boards, quotas, [link, licence, size, latency, cost, notes])

    def choose(task_key: str | None, on_board: str, seen: str, profile: gr.OAuthProfile | None) -> object:
        """Choose the place of the board if it changed since the tab was open, else keep the chosen one."""
        places = boards.open_places()
        with suppress(KBBenchError):
            where = as_task_key(on_board)
            if on_board != seen and where.benchmark in {each.benchmark for each in places}:
                task_key = on_board
                places += [where] * (where not in places)  # not the default split and mode
        choices = [(task_label(each), str(each)) for each in places]
        form = describe(task_key) if task_key else (closed_text(on_board), gr.File(label=PREDICTIONS))
        return gr.Dropdown(choices, value=task_key or None), *form, *_own_rows_menu(boards, profile), on_board

    def describe(task_key: str) -> tuple[str, object]:
        return _format(task_key), gr.File(label=ANNOTATED if _takes_annotations(task_key) else PREDICTIONS)

    async def check(place: str, files: list[str] | None, request: gr.Request, profile: gr.OAuthProfile | None) -> str:
        """Check and score a predictions file, with its annotations if any; nothing is stored."""
        if not files:
            return ""
        try:
            who = profile.username if profile else f"session {request.session_hash}"
            upload = _upload(place, files)
            remedy = SIGN_IN
            if no_login:
                command = _command("validate", upload)
                remedy = f"Sign-in is not available here. Check the file on your own machine: {command}"
            return preview_text(await checks.check(upload, who, profile is not None, remedy))
        except KBBenchError as error:
            return _failure("Not accepted", error)

    async def submit(
        profile: gr.OAuthProfile | None,
        place: str,
        files: list[str] | None,
        name: str,
        link: str | None = None,
        licence: str | None = None,
        size: float | None = None,
        latency: float | None = None,
        cost: float | None = None,
        notes: str | None = None,
    ) -> str:
        """Check, score and store a predictions file for the user who is logged in; returns a receipt."""
        if profile is None and not no_login:
            return "**Not stored:** you are not signed in. Sign in above and submit again."
        if not files:
            return "**Not stored:** there is no file. Choose one above."
        try:
            if profile is None:
                command = _command("submit", _upload(place, files), name or "SYSTEM")
                raise UsageError(
                    f"Sign-in is not available here: {no_login}.\n"
                    f"To store the file on a board of your own and show it:\n  {command}\n  kbbench serve"
                )
            system, upload = described_system(name, link, licence, size, latency, cost, notes), _upload(place, files)
            with quotas.storing(profile.username):
                read = await checks.check(upload, profile.username, logged_in=True)
                stored = await asyncio.to_thread(
                    store_preview, store, read, system, profile.username, organisations=organisations(profile)
                )
            return await asyncio.to_thread(receipt_text, boards, upload.task_key, stored)
        except KBBenchError as error:
            return _failure("Not stored", error)

    inputs = [place, files, name, link, licence, size, latency, cost, notes]
    reading: Listener = {"concurrency_id": "read", "concurrency_limit": WAITING}
    quiet: Listener = {"show_progress": "hidden", "api_visibility": "private"}
    tab.select(choose, [place, shown, seen], [place, form, files, mine, own_rows, seen], **quiet)
    place.input(describe, place, [form, files], **quiet)
    gr.on([files.change, place.input], check, [place, files], report, api_name="validate", **reading)
    send.click(submit, inputs, receipt, api_name="submit", **reading)


def _login_button(login: Login) -> str:
    """Add the button to sign in, and return ""; where there is no sign-in, show and return the reason."""
    import gradio as gr

    if problem := login.problem():
        gr.Markdown(
            f"Sign-in is not available here: {problem}. Files are checked and scored, but not stored. {LOCAL}",
            elem_id="no-login",
        )
    else:
        remember(login)
        gr.LoginButton(size="sm")
    return problem


def _own_rows(
    boards: Boards, quotas: Quotas, description: "list[gr.components.Component]"
) -> "tuple[gr.Dropdown, gr.Accordion]":
    """Add the menu and the buttons of the visitor's own submissions; an update stores the fields of `description`."""
    import gradio as gr

    with gr.Accordion("Your submissions", open=False, visible=False, elem_id="own-rows") as own_rows:
        mine = gr.Dropdown([], label="Submission", elem_id="mine", allow_custom_value=True)
        with gr.Row():
            changing = gr.Button("Update with the values above", size="sm", elem_id="change")
            withdrawing = gr.Button("Withdraw it from the board", size="sm", elem_id="withdraw")
            returning = gr.Button("Put it back", size="sm", elem_id="return")
        changed = gr.Markdown(elem_id="changed")
    store = boards.index.store

    def change(profile: gr.OAuthProfile | None, row: str | None, do: Callable[[str, str], None], done: str) -> object:
        """Change one of the visitor's own rows; return the outcome, and the menu after the change."""
        try:
            if profile is None or not row:
                raise UsageError(
                    "No submission is chosen, or you are not signed in; expected one of yours. Choose it above."
                )
            quotas.changing(profile.username)
            do(row, profile.username)
            return f"**{done}** `{row}`.", *_own_rows_menu(boards, profile)
        except KBBenchError as error:
            return _failure("Not changed", error), gr.skip(), gr.skip()

    def withdraw(profile: gr.OAuthProfile | None, row: str | None) -> object:
        return change(profile, row, store.withdraw, "Withdrawn:")

    def put_back(profile: gr.OAuthProfile | None, row: str | None) -> object:
        return change(profile, row, partial(store.withdraw, undo=True), "On the board again:")

    def edit(profile: gr.OAuthProfile | None, row: str | None, *described: Any) -> object:
        def do(row: str, actor: str) -> None:
            store.edit(row, described_system(store.record(row).system.name, *described), actor)

        return change(profile, row, do, "Changed:")

    outputs, own = [changed, mine, own_rows], Listener(api_visibility="private")
    changing.click(edit, [mine, *description], outputs, **own)
    withdrawing.click(withdraw, mine, outputs, **own)
    returning.click(put_back, mine, outputs, **own)
    return mine, own_rows


def _own_rows_menu(boards: Boards, profile: "gr.OAuthProfile | None") -> tuple[object, object]:
    """Return the menu of the visitor's own submissions, and their part of the tab, hidden if there are none."""
    import gradio as gr

    boards.index.update()
    own_rows = boards.index.of_submitter(profile.username) if profile else []
    choices = [(_own_label(record, withdrawn), record.id) for record, withdrawn in own_rows]
    return gr.Dropdown(choices, value=None), gr.Accordion(visible=bool(own_rows))


def described_system(name: str, *described: Any) -> System:
    """Return the system that the form describes: its link, license, size, latency, cost and notes, as far as given.

    Raises:
        DataError: a value is not accepted.
    """
    link, licence, size, latency, cost, notes = described
    numbers = {"parameters_b": size, "latency_p95_s": latency, "cost_per_1000_usd": cost}
    given = {key: value for key, value in numbers.items() if value}
    return checked_system(System(name or "", link or "", licence or "", notes=notes or "", **given))


def closed_text(task_key: str) -> str:
    """Return the text before a benchmark is chosen, with the reason why the open board accepts no submissions."""
    choose, name = "Choose the benchmark that your file answers.", task_key.partition("/")[0]
    try:
        title = benchmark(name).title
    except KBBenchError:
        return choose
    return (
        f"{choose} {title} accepts no submissions here, because its data is not on this machine; the owner of this "
        f"board opens it with `kbbench build {name}` and a restart."
    )


def _command(verb: str, upload: Upload, name: str = "") -> str:
    """Return the command of a verb (`validate` or `submit`) for an upload, to run on the visitor's own machine."""
    task_key, bench = upload.task_key, benchmark(upload.task_key.benchmark)
    dataset = "/".join(task_key[: 1 + (task_key.config != bench.data.configs[0])])
    words = ["kbbench", verb, Path(upload.file).name, "--benchmark", dataset]
    words += ["--split", task_key.split] * (task_key.split != bench.data.default_split)
    words += ["--mode", task_key.mode] * (verb != "validate" and task_key.mode != bench.scoring.modes[0])
    return shlex.join(words + (["--name", name] if name else []))


def organisations(profile: Mapping[str, Any]) -> list[str]:
    """Return the account names of the organizations of a user, from the profile of the login provider.

    >>> organisations({"preferred_username": "ada", "orgs": [{"name": "ACME Ltd", "preferred_username": "acme"}]})
    ['acme']
    """
    orgs = profile.get("orgs")
    known = [each for each in orgs if isinstance(each, dict)] if isinstance(orgs, list) else []
    return [str(each["preferred_username"]) for each in known if each.get("preferred_username")]


def receipt_text(boards: Boards, task_key: TaskKey, stored: Receipt) -> str:
    """Return the receipt of a stored row as Markdown: id, state on the Hub, and the notes that the board shows."""
    state = "It was there already." if stored.existed else "It is on the board now."
    state = "It was there already; its description is now yours." if stored.edited else state
    safe = f" {boards.outbox.state(stored.id)}" if boards.outbox else ""
    row = boards.row(task_key, stored.id, now=True)
    notes = "".join(f"\n\n⚠ Note on the board: {_escape_markdown(each.reason)}" for each in (row.flags if row else ()))
    return f"**Stored** as `{stored.id}`. {state}{safe}{notes}"


def _own_label(record: Record, withdrawn: bool) -> str:
    try:
        where = task_label(record.task_key)
    except KBBenchError:  # a benchmark that is no longer installed
        where = str(record.task_key)
    return f"{record.system.name} · {where}{' (withdrawn)' if withdrawn else ''}"


def _upload(task_key: str | None, files: Sequence[str]) -> Upload:
    """Return the upload of these files: one of predictions, the .parquet files are annotations; else UsageError."""
    where, paths = as_task_key(task_key or ""), [Path(each) for each in files]
    annotations = [path for path in paths if path.suffix == ".parquet"]
    predictions = [path for path in paths if path not in annotations]
    if len(predictions) != 1:
        names = ", ".join(path.name for path in predictions) or "none"
        raise UsageError(f"Files of predictions: {names}; expected one. Choose one, with its annotations if any.")
    return Upload(str(predictions[0]), where, [str(each) for each in annotations])


def _takes_annotations(task_key: str) -> bool:
    try:
        return benchmark(as_task_key(task_key).benchmark).scoring.annotations is not None
    except KBBenchError:
        return False


def preview_text(read: Preview) -> str:
    """Return the scores and the warnings of a checked submission, as Markdown."""
    counters = read.result.counters
    lines = ["**Accepted.** Its scores:", "", "| metric | value | 95 % interval |", "|---|---|---|"]
    for metric, score in read.result.scores.items():
        label = read.benchmark.metrics.get(metric, metric)
        lines.append(f"| {label} | {number(score.value)} | {interval(score.ci95)} |")
    n = f"{counters['n_examples']:,}"
    warnings = [f"\n⚠ {_escape_markdown(str(warning))}" for warning in read.result.warnings]
    return "\n".join([*lines, "", f"All {n} examples have a prediction.", *warnings])


def _escape_markdown(text: str) -> str:
    """Return text escaped for Markdown, because texts of files are no markup."""
    return re.sub(r"([\\`*_{}\[\]()#+!|<>&~$-])", r"\\\1", text)


def _failure(what: str, error: KBBenchError) -> str:
    return f"**{what}.**\n\n~~~text\n{str(error).replace('~~~', '~ ~ ~')}\n~~~"


def _format(task_key: str) -> str:
    """Return an example line of predictions as Markdown; its id is that of the first example if the data is here."""
    try:
        where = as_task_key(task_key)
        line = json.loads(benchmark(where.benchmark).scoring.answer.example)
    except KBBenchError:
        return ""
    with suppress(KBBenchError, LookupError, OSError, ValueError):  # the data may be damaged, or generated by code
        if folder := at_hand(where.benchmark):
            line["id"] = folder.first_id(where.config, where.split)
    return f"One JSON object per line, one line per example:\n```json\n{json.dumps(line, ensure_ascii=False)}\n```"
