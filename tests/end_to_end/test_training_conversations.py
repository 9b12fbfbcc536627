"""An agent's conversations as what TRL trains on: those of the training split, with what was said and shown."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kbbench_hf
from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.errors import UsageError
from kbbench_hf.runners.agent import replay
from kbbench_hf.runners.agent_sessions import open_sessions
from tests.puzzles import Puzzle, Puzzles, mini_stark
from tests.servers.embeddings import EmbeddingServer
from tests.servers.tool_caller import Call, Script, ToolCaller, Turn, conversation
from tests.servers.tool_policies import FINISH, oracle, policy, search, select
from tests.unit.retrieval.hashing import HashingEmbedder


def run(*arguments: str) -> str:
    done = CliRunner().invoke(kbbench, [*arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def puzzles(in_tmp: Path) -> Puzzles:
    """Build a knowledge base of one's own whose first eight questions are of the training split."""
    found = mini_stark()
    nodes, edges, queries = found.write(in_tmp)
    head, *rows = queries.read_text(encoding="utf-8").splitlines()
    split = [f"{row},{'train' if number < 8 else 'test'}" for number, row in enumerate(rows[:12])]
    queries.write_text("\n".join([f"{head},split", *split]), encoding="utf-8")
    run("build", "my-kb", "--nodes", str(nodes), "--edges", str(edges), "--queries", str(queries))
    return found


def play(puzzles: Puzzles) -> Any:
    """Return a policy that is right on even questions, thinks aloud, and is wrong on odd ones."""

    def wrong(puzzle: Any) -> Any:
        yield Turn(content="Let me see.", finish_reason="stop")
        yield Turn([search(puzzle.query), select(puzzles.wrong(puzzle, 1))], content="It may be this.")
        yield Turn([FINISH])

    place = {puzzle.id: number for number, puzzle in enumerate(puzzles.questions)}
    return policy(puzzles, lambda puzzle: (wrong if place[puzzle.id] % 2 else oracle)(puzzle))


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, (folder / "training.jsonl").read_text(encoding="utf-8").split("\n")[:-1])


def test_conversations_are_made_again_as_they_were_sent(puzzles: Puzzles) -> None:
    with ToolCaller(policy=play(puzzles)) as server:
        how: Any = {"agent": "llm:m", "base_url": f"{server.url}/v1", "show": False}
        kept = kbbench_hf.run("my-kb", "bm25", split="train", keep_texts=True, max_steps=11, **how).folder
        made = kbbench_hf.run("my-kb", "bm25", split="train", **how).folder
        test = kbbench_hf.run("my-kb", "bm25", split="test", **how).folder
    assert kept is not None and made is not None and test is not None
    sent = [list(each.messages[1:]) for each in replay(kept)]
    assert [list(each.messages[1:]) for each in replay(made)] == sent
    assert [each.right for each in replay(made)] == [number % 2 == 0 for number in range(8)]
    for each in replay(made):
        conversation(each.messages)  # is one that a strict server takes

    assert "4 conversations" in run("export", str(made), "--as", "trajectories")
    assert [line["id"] for line in lines(made)] == [puzzle.id for puzzle in puzzles.questions[:8:2]]
    assert "8 conversations" in run("export", str(made), "--as", "trajectories", "--all")
    for line in lines(made):
        calls = [call for message in line["messages"] for call in message.get("tool_calls", ())]
        assert all(isinstance(call["function"]["arguments"], dict) for call in calls)
        assert [tool["function"]["name"] for tool in line["tools"]] == ["search_nodes", "neighbors", "select", "finish"]
    said = [message["content"] for line in lines(made) for message in line["messages"]]
    assert "It may be this." in said and "Let me see." in said

    refused = CliRunner().invoke(kbbench, ["export", str(test), "--as", "trajectories", "--all"])
    assert isinstance(refused.exception, UsageError)
    assert "--split train" in str(refused.exception)
    assert not (test / "training.jsonl").exists()


def test_an_agent_over_a_served_retriever_is_exported_without_the_server(
    puzzles: Puzzles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wander(puzzle: Puzzle) -> Script:
        found = yield Turn([search(puzzle.query, limit=3), search(puzzle.topic.name, node_type=puzzle.topic.type)])
        node = found[0]["nodes"][0]["id"]
        yield Turn([Call("neighbors", {"node_id": node, "query": puzzle.query, "limit": 2}), select([node])])
        if puzzle is puzzles.questions[0]:
            yield Turn([Call("neighbors", {"node_id": "the lighthouse"})])  # gets suggestions by its search
        yield Turn([FINISH])

    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").resolve()))
    encode = HashingEmbedder().encode
    with (
        ToolCaller(policy=policy(puzzles, wander)) as server,
        EmbeddingServer(encode=lambda texts: encode([f"{text} ." for text in texts]), model="org/encoder") as encoder,
    ):
        how: Any = {"agent": "llm:org/m", "base_url": f"{server.url}/v1", "retriever_base_url": encoder.url}
        for name in ("kept", "made"):
            how |= {"split": "train", "keep_texts": name == "kept", "show": False}
            kbbench_hf.run("my-kb", "dense:org/encoder", out=Path(name), **how)

    def local(*_: Any, **__: Any) -> Any:
        raise AssertionError("no local model has the vectors of a served one")

    monkeypatch.setattr("kbbench_hf.retrieval.embedders.SentenceEmbedder", local)
    assert "8 conversations" in run("export", "kept", "--as", "trajectories", "--all")
    run("export", "kept", "--as", "eee")
    for format in ("trajectories", "eee"):
        refused = CliRunner().invoke(kbbench, ["export", "made", "--as", format, *(["--all"] * (format != "eee"))])
        assert isinstance(refused.exception, UsageError) and "--keep-texts" in str(refused.exception)
        assert "dense:org/encoder searched with a server" in str(refused.exception)
    walks = Path("made", "trajectories.jsonl")
    _, *others = walks.read_text(encoding="utf-8").splitlines(keepends=True)
    walks.write_text("".join(others), encoding="utf-8")
    assert "7 conversations" in run("export", "made", "--as", "trajectories", "--all")
    assert list(lines(Path("made"))) == list(lines(Path("kept")))[1:]

    changed = json.loads(others[0])
    changed["calls"][0]["total"] += 1
    walks.write_text(json.dumps(changed) + "\n", encoding="utf-8")
    refused = CliRunner().invoke(kbbench, ["export", "made", "--as", "trajectories", "--all"])
    assert isinstance(refused.exception, UsageError) and "has another result than in the run" in str(refused.exception)


def test_the_files_load_as_datasets_with_every_argument_as_it_was(puzzles: Puzzles) -> None:
    import datasets

    with open_sessions("my-kb", split="train", show=False) as sessions:
        for puzzle in puzzles.questions[:2]:
            session, _ = sessions.start(puzzle.id)
            assert session is not None
            for name, given in (search(puzzle.query), select(puzzle.answers), FINISH):
                sessions.call(session.handle, name, dict(given))
    run("export", str(sessions.folder), "--as", "trajectories")
    file = str(sessions.folder / "training.jsonl")
    loaded = datasets.load_dataset("json", data_files=file, split="train", cache_dir="cache")
    assert len(loaded) == 2
    for row, puzzle in zip(loaded, puzzles.questions, strict=False):
        given = [
            call["function"]["arguments"] for message in row["messages"] for call in message.get("tool_calls") or ()
        ]
        assert given == [{"query": puzzle.query}, {"node_ids": list(puzzle.answers)}, {}]


def test_a_run_without_an_agent_has_no_conversations(in_tmp: Path) -> None:
    folder = kbbench_hf.run("mini-stark", "bm25", limit=2, show=False).folder
    done = CliRunner().invoke(kbbench, ["export", str(folder), "--as", "trajectories"])
    assert isinstance(done.exception, UsageError)
    assert "has no trajectories" in str(done.exception)
