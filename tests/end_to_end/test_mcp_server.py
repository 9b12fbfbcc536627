"""Agents over the Model Context Protocol: the SDK's own client in memory, over stdio and over HTTP."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("mcp")
import anyio
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

import kbbench_hf
from kbbench_hf.agents.tool_schemas import TOOLS
from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.runners.agent_sessions import AgentSessions, mcp_server, open_sessions
from kbbench_hf.scoring.trajectories import read_trajectories
from tests.puzzles import Puzzle, Puzzles, mini_stark, odd
from tests.servers.serving import HANGS_AFTER_S, await_answer, free_port
from tests.servers.tool_caller import ToolCaller
from tests.servers.tool_policies import Case, noisy, plain, policy

N = 20
SERVE = [sys.executable, "-m", "kbbench_hf.cli", "serve", "--tools", "mini-stark"]
SCRIPTS = ("oracle", "search only", "lazy", "unknown", "wrong first", "only wrong", "twice", "one by one")


@pytest.fixture(scope="module")
def puzzles() -> Puzzles:
    return mini_stark()


def case_of(place: int, puzzles: Puzzles) -> Case:
    return {**plain(puzzles), **noisy(puzzles)}[SCRIPTS[place % len(SCRIPTS)]]


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, whose result is one line of JSON."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error
    (content,) = result.content
    assert content.type == "text" and "\n" not in content.text
    return dict(json.loads(content.text))


async def play(client: Client, puzzle: Puzzle, case: Case, **own: Any) -> dict[str, Any]:
    """Play a script to its end; every call comes alone."""
    started = await call(client, "start_question", id=puzzle.id)
    assert started["question"] == puzzle.query
    own = {name: started[name] for name in own}
    script, finished = case.play(puzzle), False
    turn = next(script)
    while not finished:
        results = [await call(client, each.name, **each.arguments, **own) for each in turn.calls]
        finished = any("finished" in each for each in results)
        turn = turn if finished else script.send(results)
    return started


async def play_all(client: Client, puzzles: Puzzles) -> None:
    for place, puzzle in enumerate(puzzles.questions[:N]):
        await play(client, puzzle, case_of(place, puzzles))


def lines(folder: Path) -> list[str]:
    return (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()


def check(folder: Path, puzzles: Puzzles) -> list[str]:
    """Check the predictions of all scripts: what was selected, then the base; and return them as they are."""
    base = folder.parent / json.loads((folder / "run.json").read_text(encoding="utf-8"))["base"]
    ranked = {each["id"]: each["ids"] for each in map(json.loads, lines(base))}
    found = {each["id"]: each for each in map(json.loads, lines(folder))}
    walks = {walk.id: walk for walk in read_trajectories(folder)}
    for place, puzzle in enumerate(puzzles.questions[:N]):
        case, walk = case_of(place, puzzles), walks[puzzle.id]
        selected = list(case.selected(puzzle))
        assert list(walk.selected) == selected, puzzle
        assert found[puzzle.id]["ids"] == [*selected, *(each for each in ranked[puzzle.id] if each not in selected)]
        assert found[puzzle.id]["scores"] == sorted(found[puzzle.id]["scores"], reverse=True)
        assert (walk.end, walk.tool_errors, walk.backed_off) == ("finished", dict(case.errors or {}), not selected)
        if case.play.__name__ == "oracle":
            assert walk.answer_seen and walk.answer_selected
    result = kbbench_hf.score(folder)
    assert result.counters["n_missing"] == 0
    return lines(folder)[:N]


@pytest.fixture
def sessions(in_tmp: Path) -> Iterator[AgentSessions]:
    with open_sessions("mini-stark", limit=N, show=False) as opened:
        yield opened


@contextlib.contextmanager
def served(folder: Path, limit: int = N, stop: signal.Signals = signal.SIGINT) -> Iterator[str]:
    """Serve from a folder over HTTP and give the address; end the server so at the end. Its run is in `run`."""
    port, log = free_port(), folder / "serve.log"
    command = [*SERVE, "--limit", str(limit), "--out", "run", "--http", str(port)]
    with log.open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, stderr=errors, stdout=subprocess.PIPE, text=True)
    try:
        await_answer(f"http://127.0.0.1:{port}/", process, log)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.send_signal(stop)
        printed, _ = process.communicate(timeout=HANGS_AFTER_S)
    assert printed == "", printed
    assert "Traceback" not in log.read_text(), log.read_text()


class Served(NamedTuple):
    """What clients met at one server."""

    folder: Path
    without_session: dict[str, Any]
    refused: list[int]


@pytest.fixture(scope="module")
def over_http(tmp_path_factory: pytest.TempPathFactory, puzzles: Puzzles) -> Served:
    """Twenty clients at once, one whose requests stand alone, and strangers."""
    folder, met = tmp_path_factory.mktemp("http"), dict[str, Any]()

    async def one(url: str, place: int) -> None:
        async with Client(url) as client:
            await play(client, puzzles.questions[place], case_of(place, puzzles))

    async def alone(url: str) -> None:
        async with Client(url, mode="2026-07-28") as client:
            await call(client, "start_question", id=puzzles.questions[N].id)
            met.update(await call(client, "select", node_ids=[1]))
            await play(client, puzzles.questions[N], case_of(0, puzzles), session="")

    async def everybody(url: str) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(alone, url)
            for place in range(N):
                group.start_soon(one, url, place)

    with served(folder, limit=N + 1) as url:
        anyio.run(everybody, url)
        refused = [stranger(url, **each) for each in ({"Host": "evil.example"}, {"Origin": "http://evil.example"})]
    return Served(folder / "run", met, refused)


def stranger(url: str, **headers: str) -> int:
    """Return the status of the answer to somebody from elsewhere."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    types = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(url, body, {**types, **headers}), timeout=5)
    refused.value.close()
    return refused.value.code


def test_a_client_in_memory_gets_the_predictions_of_our_own_loop(sessions: AgentSessions, puzzles: Puzzles) -> None:
    async def main() -> None:
        async with Client(mcp_server(sessions)) as client:
            await play_all(client, puzzles)

    anyio.run(main)
    sessions.write()
    task_key_of = {puzzle.id: place for place, puzzle in enumerate(puzzles.questions)}
    with ToolCaller(
        policy=policy(puzzles, lambda puzzle: case_of(task_key_of[puzzle.id], puzzles).play(puzzle))
    ) as server:
        ours = kbbench_hf.run("mini-stark", "bm25", agent="llm:m", base_url=f"{server.url}/v1", limit=N, show=False)
    assert ours.folder is not None
    assert check(sessions.folder, puzzles) == lines(ours.folder)


@pytest.mark.parametrize("ids", ["strings", "numbers"])
def test_odd_ids_are_walked_as_they_are(in_tmp: Path, ids: str) -> None:
    puzzles = odd(ids, seed=7)
    nodes, edges, queries = puzzles.write(in_tmp)
    tables = ["--nodes", str(nodes), "--edges", str(edges), "--queries", str(queries)]
    assert CliRunner().invoke(kbbench, ["build", "odd-kb", *tables]).exit_code == 0
    scripts = {**plain(puzzles), **noisy(puzzles)}

    async def main(sessions: AgentSessions) -> None:
        async with Client(mcp_server(sessions)) as client:
            for puzzle, name in zip(puzzles.questions, SCRIPTS, strict=False):
                await play(client, puzzle, scripts[name])

    with open_sessions("odd-kb", show=False) as sessions:
        anyio.run(main, sessions)
    walks = read_trajectories(sessions.folder)
    assert len(walks) == min(len(SCRIPTS), len(puzzles.questions))
    by_id = {puzzle.id: puzzle for puzzle in puzzles.questions}
    for walk, name in zip(walks, SCRIPTS, strict=False):
        assert list(walk.selected) == list(scripts[name].selected(by_id[walk.id])), (ids, name)


def test_over_stdio_the_same_predictions_come_out_as_over_http(
    over_http: Served, in_tmp: Path, puzzles: Puzzles
) -> None:
    server = StdioServerParameters(
        command=SERVE[0], args=[*SERVE[1:], "--limit", str(N), "--out", "run"], env=dict(os.environ)
    )

    async def over_stdio() -> None:
        async with Client(server) as client:
            await play_all(client, puzzles)

    anyio.run(over_stdio)
    assert check(Path("run"), puzzles) == check(over_http.folder, puzzles)


def test_requests_that_stand_alone_name_their_session(over_http: Served, puzzles: Puzzles) -> None:
    assert over_http.without_session["error"]["code"] == "no_question"
    puzzle = puzzles.questions[N]
    (walk,) = [walk for walk in read_trajectories(over_http.folder) if walk.id == puzzle.id]
    assert list(walk.selected) == list(puzzle.answers)


def test_other_hosts_and_origins_are_refused(over_http: Served) -> None:
    assert over_http.refused == [421, 403]


@pytest.mark.full
def test_a_server_that_is_killed_loses_nothing_and_open_sessions_go_on(in_tmp: Path, puzzles: Puzzles) -> None:
    first, second, third = puzzles.questions[:3]
    kept: dict[str, Any] = {}

    async def before(url: str) -> None:
        async with Client(url) as client:
            await play(client, first, case_of(0, puzzles))
            await call(client, "start_question", id=second.id)
            await call(client, "select", node_ids=[second.answers[0]])
            kept.update(await call(client, "start_question", id=third.id))
            await call(client, "select", node_ids=[third.answers[0]])

    async def after(url: str) -> None:
        async with Client(url) as client:
            again = await call(client, "start_question", id=first.id)
            assert again["error"]["code"] == "already_answered"
            await call(client, "start_question", id=second.id)  # anew: what was selected before does not count
            await call(client, "finish")
            found = await call(client, "select", node_ids=[third.topic.id], session=kept["session"])
            assert found["selected"] == 2
            await call(client, "finish", session=kept["session"])

    with served(in_tmp, stop=signal.SIGKILL) as url:
        anyio.run(before, url)
    assert not Path("run/predictions.jsonl").exists()
    with served(in_tmp, stop=signal.SIGTERM) as url:
        assert len(read_trajectories(Path("run"))) == 3  # of the journal, at once
        anyio.run(after, url)
    walks = {walk.id: walk for walk in read_trajectories(Path("run"))}
    assert list(walks[first.id].selected) == list(first.answers)
    assert list(walks[second.id].selected) == []
    assert list(walks[third.id].selected) == [third.answers[0], third.topic.id]
    assert len(walks[third.id].calls) == 3


def test_a_client_sees_five_tools_the_schema_and_no_answer(sessions: AgentSessions, puzzles: Puzzles) -> None:
    said: list[str] = []

    async def main() -> None:
        async with Client(mcp_server(sessions)) as client:
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == ["start_question", *(tool.name for tool in TOOLS)]
            for own, tool in zip(TOOLS, listed[1:], strict=True):
                given = dict(tool.input_schema)
                assert given["properties"].keys() == {*own.properties, "session"}
                assert given["required"] == list(own.required)
            instructions = client.instructions or ""
            assert "dish - made with -> ingredient (328)" in instructions
            names = {node.name for node in puzzles.nodes}
            assert not [name for name in names if name in instructions]
            for wrong in ({"id": True}, {"id": [0]}, {"id": "no such id"}, {"id": 1.0}):
                assert (await call(client, "start_question", **wrong))["error"]["code"] == "unknown_question"
            started = await call(client, "start_question", id="0")
            assert started.keys() == {"id", "question", "session", "left"}
            assert started["id"] == 0
            said.append(json.dumps(started))
            assert (await call(client, "start_question"))["id"] == 1
            for wrong in ({}, {"node_ids": None}, {"node_ids": {}}, {"what": 1}):
                assert (await call(client, "select", **wrong))["error"]["code"] == "bad_arguments"
            assert (await call(client, "walk"))["error"]["code"] == "unknown_tool"
            assert (await call(client, "finish", session="another"))["error"]["code"] == "no_question"

    anyio.run(main)
    assert not re.search(r"answer", said[0])


def test_a_client_reads_the_whole_text_of_a_node_in_pages(
    sessions: AgentSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbbench_hf.agents.tools.PAGE", 40)

    async def main() -> list[dict[str, Any]]:
        async with Client(mcp_server(sessions)) as client:
            await call(client, "start_question")
            pages = [await call(client, "neighbors", node_id=0, text_page=1)]
            while "next_page" in pages[-1]:
                pages.append(await call(client, "neighbors", node_id=0, text_page=pages[-1]["next_page"]))
            return pages

    pages = anyio.run(main)
    kb = sessions.tools.kb
    text = "".join(page["text"] for page in pages)
    assert text.startswith(" ".join(kb.texts([0])[0].split())) and len(text) == pages[0]["characters"] > 40
    assert [page["page"] for page in pages] == list(range(1, pages[0]["pages"] + 1))


def test_after_forty_calls_only_finish_is_answered(sessions: AgentSessions) -> None:
    async def main() -> None:
        async with Client(mcp_server(sessions)) as client:
            await call(client, "start_question")
            results = [await call(client, "search_nodes", query="treacle", limit=1) for _ in range(45)]
            codes = [each["error"]["code"] for each in results if "error" in each]
            assert codes == ["too_many_calls"] * 5
            assert await call(client, "finish") == {"finished": True}

    anyio.run(main)
    (walk,) = read_trajectories(sessions.folder)
    assert (len(walk.calls), walk.end) == (41, "finished")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tools", "mini-text2kg"], "has no knowledge base"),
        (["--tools", "mini-stark", "--store", "x"], "--store is for the leaderboard"),
        (["--http", "8000"], "--http needs --tools NAME"),
        (["--tools", "mini-stark", "--base", "bm52"], "bm52"),
    ],
)
def test_what_cannot_be_served_is_refused_in_words(in_tmp: Path, arguments: Sequence[str], says: str) -> None:
    done = subprocess.run([*SERVE[:4], *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("kbbench-runs").exists()
