"""Strangers over plain HTTP: no identity, no write; hostile files are refused in words; many at once are all stored."""

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from kbbench_hf.leaderboard.store import Store
from tests.servers.board import Server, Visitor, board_server
from tests.servers.hostile import FIELDS, GOOD, INJECTIONS, PLACE, code, is_valid, malformed
from tests.servers.hub import local_hub


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with local_hub() as hub, board_server(folder / "store", hub.environment(str(folder / "hf"))) as running:
        yield running


@pytest.fixture(scope="module")
def visitor(server: Server) -> Visitor:
    found = Visitor(server)
    found.log_in()
    return found


def test_no_handler_writes_without_identity_however_it_is_called(server: Server, folder: Path) -> None:
    stranger = Visitor(server)
    file = stranger.upload("a.jsonl", GOOD)
    values = [PLACE, [file], "stranger", "", "", 0, 0, 0, ""]
    before = set((folder / "store").rglob("*.json*"))
    assert "you are not signed in" in stranger.submit(PLACE, file, "stranger")
    for name, number in stranger.handlers.items():
        for arguments in (values, [PLACE] * len(values), []):
            stranger.client.post(f"/gradio_api/call/{name}", json={"data": arguments})
            stranger.client.post(f"/gradio_api/run/{name}", json={"data": arguments})
            body = {"data": arguments, "fn_index": number, "session_hash": "x", "event_data": {"value": ["row", "1"]}}
            stranger.client.post("/gradio_api/api/predict", json=body)
            stranger.client.post("/gradio_api/queue/join", json=body)
    assert set((folder / "store").rglob("*.json*")) == before and Store(folder / "store").visible() == []


def test_a_session_cannot_be_made_up(server: Server, folder: Path) -> None:
    from itsdangerous import TimestampSigner

    now = int(time.time())
    profile = {"sub": "1", "name": "A", "preferred_username": "ada", "profile": "", "picture": ""}
    told = {"oauth_info": {"access_token": "x", "scope": "", "expires_at": now + 3600, "userinfo": profile}}
    for secret in ("-v4", "", "None-v4"):  # what sessions are signed with where there is no secret
        key = hashlib.sha256(secret.encode()).hexdigest()
        cookie = TimestampSigner(key).sign(base64.b64encode(json.dumps(told).encode())).decode()
        stranger = Visitor(server)
        stranger.client.headers["Cookie"] = f"session={cookie}"
        assert "you are not signed in" in stranger.submit(PLACE, stranger.upload("a.jsonl", GOOD), "forged")


def test_an_owner_changes_and_withdraws_a_row_over_http_and_a_stranger_does_not(
    server: Server, visitor: Visitor, folder: Path
) -> None:
    said = visitor.submit(PLACE, visitor.upload("a.jsonl", GOOD), "soon gone")
    row = said.split("`")[1]
    stranger, store = Visitor(server), Store(folder / "store")
    buttons = [
        each["id"]
        for each in visitor.client.get("/config").json()["dependencies"]
        if each["api_name"] in ("withdraw", "put_back", "edit")
    ]
    for button in buttons:
        for data in ([row], [row, "", "", 0, 0, 0, ""]):
            body = {"data": data, "fn_index": button, "session_hash": "x"}
            stranger.client.post("/gradio_api/queue/join", json=body)
    refused = str(stranger.call("withdraw", row))
    assert "No submission is chosen, or you are not signed in" in refused and "Not changed" in refused
    assert "No submission is chosen" in str(visitor.call("withdraw", None))
    assert row in store.visible() and buttons
    visitor.call("edit", row, "", "MIT", 7, 0, 0, "with care")
    said = [
        event.said for event in Store(folder / "store").events if (event.submission, event.action) == (row, "edited")
    ]
    assert [(each["licence"], each["parameters_b"], each["notes"]) for each in said] == [("MIT", 7, "with care")]
    visitor.call("withdraw", row)
    assert row not in store.visible()


def test_only_the_handlers_for_programs_are_advertised(server: Server) -> None:
    listed = Visitor(server).client.get("/gradio_api/info").json()["named_endpoints"]
    assert set(listed) == {"/board", "/validate", "/submit", "/_check_login_status"}  # the last is Gradio's
    required = {
        name: [each["parameter_name"] for each in found["parameters"] if not each["parameter_has_default"]]
        for name, found in listed.items()
    }
    assert required == {
        "/board": ["place"],
        "/validate": ["place", "files"],
        "/submit": ["place", "files", "name"],
        "/_check_login_status": [],
    }
    for name, place in (("/board", "/test/reference"), ("/validate", PLACE), ("/submit", PLACE)):
        assert place in listed[name]["parameters"][0]["python_type"]["type"]


def test_a_board_that_does_not_exist_is_answered_with_why(visitor: Visitor) -> None:
    table, page = visitor.call("board", "mini-nothing/sentences/test/reference", "", "all", "", [], 3, "all", "all")
    assert "Unknown benchmark" in table and page == 1


def test_submit_opens_with_the_benchmark_of_the_board(visitor: Visitor) -> None:
    menu, form, *_ = visitor.call("choose", None, PLACE, None)
    assert menu["value"] == PLACE and "ont_1_isles_test_1" in form
    unseen = PLACE.replace("reference", "repaired")
    assert visitor.call("choose", PLACE, unseen, None)[0]["value"] == unseen
    menu, form, *_ = visitor.call("choose", None, "stark-prime/queries/test/reference", None)
    assert menu["value"] is None and "kbbench build stark-prime" in form


def test_the_address_is_printed_once_and_answers(server: Server) -> None:
    assert server.log.read_text().count(f"{server.url}  (Ctrl-C ends it)") == 1


def test_the_example_of_the_api_page_runs_as_it_stands_there(visitor: Visitor) -> None:
    page = visitor.client.get("/api").text
    (program,) = re.findall(r'<pre[^>]* id="example">(.*?)</pre>', page, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", html.unescape(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    place = visitor.client.get("/api/boards").json()[0]
    assert len(done.stdout.splitlines()) == place["n_rows"] and "'value': " in done.stdout


def test_malformed_files_are_refused_in_words(server: Server, visitor: Visitor) -> None:
    before = server.log.read_text()
    for number, (name, data) in enumerate(malformed(30, seed=4)):
        said = visitor.submit(PLACE, visitor.upload(name, data), f"m{number}")
        assert said.startswith("**Not stored.**") or is_valid(name, data), said
    assert server.log.read_text() == before


def test_nothing_that_is_sent_is_executed(visitor: Visitor, folder: Path) -> None:
    for name, data in islice(code(folder / "canary"), 0, None, 7):
        assert not visitor.submit(PLACE, visitor.upload(name, data), "code").startswith("**Stored**")
    assert not (folder / "canary").exists()


def test_names_and_links_that_want_to_be_more_are_refused(visitor: Visitor) -> None:
    file = visitor.upload("a.jsonl", GOOD)
    for text in INJECTIONS[::4]:
        if set(text) & set("<>{}$`=\"'"):
            assert visitor.submit(PLACE, file, text).startswith("**Not stored.**")
        assert visitor.submit(PLACE, file, "a name", link=text).startswith("**Not stored.**")
    assert len(INJECTIONS) * len(FIELDS) == 150


def test_unknown_places_and_other_files_are_refused(visitor: Visitor) -> None:
    file = visitor.upload("a.jsonl", GOOD)
    for place in (
        "",
        "x",
        "mini-text2kg/sentences/test/../..",
        "a/b/c/d",
        PLACE + "/x",
        "mini-text2kg/x/test/reference",
    ):
        assert visitor.submit(place, file, "a name").startswith("**Not stored.**")
    for path in ("/etc/passwd", "http://127.0.0.1/a.jsonl", "../a.jsonl"):
        said = visitor.submit(PLACE, {"path": path, "meta": {"_type": "gradio.FileData"}}, "a name")
        assert "Stored" not in said and "root:" not in said


def test_one_file_of_predictions_is_submitted_with_its_annotations(visitor: Visitor) -> None:
    one, two = visitor.upload("a.jsonl", GOOD), visitor.upload("b.jsonl", GOOD)
    table = visitor.upload("facts.parquet", b"")
    assert "a.jsonl, b.jsonl; expected one" in visitor.call("validate", PLACE, [one, two])[0]
    assert "none; expected one" in visitor.call("validate", PLACE, [table])[0]
    assert visitor.submit(PLACE, one, "a name", annotations=[table]).startswith("**Not stored.**")


def test_ten_visitors_at_once_are_stored_once_each(server: Server, folder: Path) -> None:
    visitors = [Visitor(server) for _ in range(10)]
    before = len(Store(folder / "store").visible())

    def submit(number: int) -> str:
        visitors[number].log_in()
        return visitors[number].submit(PLACE, visitors[number].upload("a.jsonl", GOOD), f"visitor {number}")

    with ThreadPoolExecutor(10) as pool:
        first, again = (list(pool.map(submit, range(10))) for _ in range(2))
    assert all("on the board now" in said for said in first) and all("there already" in said for said in again)
    visible = Store(folder / "store").visible()
    assert len(visible) == len(set(visible)) == before + 10 and Store(folder / "store").check() == []
