"""Whether visitors can sign in, and how a start that waits for the Hub ends."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("gradio")

from kbbench_hf.app import leaderboard, submit_page
from kbbench_hf.app.submit_page import OAUTH, Login, remember
from kbbench_hf.leaderboard.store import Store
from tests.servers.serving import serving

PERSON = {"type": "user", "name": "ada", "fullname": "Ada", "avatarUrl": ""}
SIGN_IN = dict.fromkeys(OAUTH, "x")


def never(*_: object) -> Mapping[str, Any]:
    Event().wait(30)
    return PERSON


def fails() -> Mapping[str, Any]:
    raise ConnectionError


@pytest.mark.parametrize(
    ("environment", "token", "whoami", "words"),
    [
        ({}, None, never, "no Hugging Face token"),
        ({}, "hf_x", lambda: PERSON, ""),
        ({}, "hf_x", lambda: {**PERSON, "type": "org"}, "belongs to no person"),
        ({}, "hf_x", fails, "ConnectionError"),
        ({}, "hf_x", never, "did not respond within 0.1 s"),
        ({"SPACE_ID": "a/b"}, "hf_x", never, "hf_oauth: true"),
        ({"SPACE_ID": "a/b", **SIGN_IN, "OAUTH_SCOPES": ""}, None, never, "no OAUTH_SCOPES"),
        ({"SPACE_ID": "a/b", **SIGN_IN}, None, never, ""),
    ],
)
def test_the_page_knows_why_nobody_can_sign_in(
    environment: dict[str, str],
    token: str | None,
    whoami: Callable[[], object],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submit_page, "WHO_S", 0.1)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: token)
    monkeypatch.setattr("huggingface_hub.whoami", whoami)
    for name in ("SPACE_ID", *OAUTH):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if whoami is not never:
        monkeypatch.setattr(submit_page, "WHO_S", 10.0)
    found = Login().problem()
    assert words in found and bool(words) == bool(found)


def test_gradio_does_not_ask_the_hub_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import gradio.oauth

    monkeypatch.setattr("gradio.oauth.whoami", never)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_x")
    monkeypatch.setattr("huggingface_hub.whoami", lambda: PERSON)
    monkeypatch.delenv("SPACE_ID", raising=False)
    found = Login()
    assert not found.problem()
    remember(found)
    assert gradio.oauth.whoami()["name"] == "ada"  # type: ignore[attr-defined]


def test_the_space_waits_for_a_silent_hub_no_longer_than_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[Callable[[], object]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBBENCH_RESULTS", "kbbench/results")
    monkeypatch.setattr(leaderboard, "FIRST_LOOK_S", 0.2)
    monkeypatch.setattr(leaderboard, "keep_alike", never)
    monkeypatch.setattr(leaderboard.signal, "signal", lambda *_: None)
    monkeypatch.setattr(leaderboard, "serve", lambda store, outbox, listing, wait: waits.append(wait))
    leaderboard.main()
    started = time.monotonic()
    waits[0]()
    assert time.monotonic() - started < 10


def test_the_address_is_printed_when_the_page_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed_before: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            printed_before.append(capsys.readouterr().out)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class App:
        root_path = "/prefix"

        def launch(self, **options: object) -> None:
            assert options["prevent_thread_lock"]

        def block_thread(self) -> None:
            pass

    monkeypatch.setattr(leaderboard, "Login", lambda: None)
    monkeypatch.setattr(leaderboard.Checks, "start", lambda checks: None)
    monkeypatch.setattr(leaderboard, "leaderboard", lambda boards, login, checks: App())
    with serving(HTTPServer(("127.0.0.1", 0), Page)) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setattr(App, "local_url", f"{address}/", raising=False)
        leaderboard.serve(Store(tmp_path / "store"))
    assert printed_before == [""] and capsys.readouterr().out == f"{address}/prefix  (Ctrl-C ends it)\n"


class ScriptedOutbox:
    """An outbox that fails with an error if it has one, and gets a submission in every third pause, or another one."""

    def __init__(self, error: str = "", every: int = 3) -> None:
        self.error, self.every, self.now = error, every, 0.0
        self.calls, self.waiting = list[str](), list[str]()
        self.repository = SimpleNamespace(name="me/results")
        self.catch_up, self.flush = partial(self.work, "catch_up"), partial(self.work, "flush")
        self.pending = self.backlog = lambda: list(self.waiting)

    def work(self, what: str) -> None:
        if len(self.calls) > 40:
            raise KeyboardInterrupt
        self.calls.append(what)
        if self.error:
            raise OSError(self.error)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.calls.append("sleep")
        if self.calls.count("sleep") % self.every == 0:
            self.waiting.append(f"submission {len(self.waiting)}")


def synchronized(outbox: ScriptedOutbox, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    clock = SimpleNamespace(monotonic=lambda: outbox.now, sleep=outbox.sleep)
    monkeypatch.setattr(leaderboard, "time", clock)
    looked = Event()
    with pytest.raises(KeyboardInterrupt):
        leaderboard.keep_alike(outbox, looked)  # type: ignore[arg-type]
    assert looked.is_set()
    return outbox.calls


def test_a_submission_is_sent_at_once_and_others_are_fetched_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = synchronized(ScriptedOutbox(), monkeypatch)
    assert calls[:10] == [*["catch_up", "flush", *["sleep"] * 3] * 2]
    quiet = synchronized(ScriptedOutbox(every=99), monkeypatch)
    assert quiet[:15] == ["catch_up", "flush", *["sleep"] * 12, "catch_up"]


def test_a_hub_that_is_down_is_logged_and_tried_again_after_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = synchronized(ScriptedOutbox("no route to host\nsecond line"), monkeypatch)
    assert calls[:16] == ["catch_up", "flush", *["sleep"] * 12, "catch_up", "flush"]
    words = "me/results is not synchronized with the store; {} submissions wait: OSError: no route to host"
    assert caplog.messages[:4] == [words.format(n) for n in (0, 0, 4, 4)]
