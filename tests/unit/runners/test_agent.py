"""Agents through the door that users have: how they are asked, what is refused, and what a run keeps."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf import run
from kbbench_hf.agents.tool_schemas import FIRST_TOOLS
from kbbench_hf.agents.tools import AgentTools
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.runners.agent import replay
from kbbench_hf.scoring.trajectories import read_trajectories
from tests.servers.scripted import MODEL, Reply, ScriptedServer

N = 3


def first_found(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """What a model does that searches the question and selects what it finds first."""
    results = [message["content"] for message in messages[2:] if message["role"] != "assistant"]
    if not results:
        return [("search_nodes", {"query": messages[1]["content"], "limit": 1})]
    if len(results) == 1:
        found = json.loads(results[0].removeprefix("Result: "))
        return [("select", {"node_ids": [found["nodes"][0]["id"]]})]
    return [("finish", {})]


def in_field(payload: dict[str, Any]) -> Reply:
    made = first_found(payload["messages"]) if "tools" in payload else []
    calls = [{"function": {"name": name, "arguments": json.dumps(given)}} for name, given in made]
    message = {"role": "assistant", "content": None if calls else "Ten.", "tool_calls": calls}
    body = {"choices": [{"message": message}], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    return Reply(200, json.dumps(body).encode())


def in_words(payload: dict[str, Any]) -> str:
    if len(payload["messages"]) == 1:
        return "Ten."  # the canary
    ((name, given),) = first_found(payload["messages"])
    return json.dumps({"tool": name, "arguments": given})


class InWords:
    """A model of a user's that takes nothing but messages."""

    name = "in-words"

    async def complete(self, messages: Sequence[Mapping[str, Any]], max_tokens: int) -> str:
        return in_words({"messages": messages})


class InBatches:
    """One that answers many prompts at a time."""

    name, batch_size = "in-batches", 2

    def generate(self, prompts: Sequence[Sequence[Mapping[str, Any]]], max_tokens: int) -> list[str]:
        return [in_words({"messages": messages}) for messages in prompts]


def walk(out: Path, **how: Any) -> Any:
    return run("mini-stark", "bm25", **{"limit": N, "out": out / "base", "show": False, **how})


def served(out: Path, server: ScriptedServer, **how: Any) -> Any:
    return walk(out, **{"agent": f"llm:{MODEL}", "canary": False, "base_url": server.url, **how})


def ids(folder: Path) -> list[list[Any]]:
    return [json.loads(line)["ids"] for line in (folder / "predictions.jsonl").read_text().splitlines()]


def test_a_run_that_started_without_text_pages_resumes_with_its_own_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedServer(reply=in_field) as server:
        with monkeypatch.context() as earlier:
            earlier.setattr(AgentTools.__init__, "__defaults__", (None, FIRST_TOOLS))
            started = served(tmp_path, server)
        sent = server.payloads[:]
        assert all("text_page" not in json.dumps(request) for request in sent)
        resumed = served(tmp_path, server)
        assert server.payloads == sent, "nothing is requested twice"
        assert "without text_page. It keeps them" in " ".join(capsys.readouterr().err.split())
        assert read_json(resumed.folder / "run.json") == read_json(started.folder / "run.json")
        anew = served(tmp_path / "anew", server)
    assert "text_page" in json.dumps(server.payloads[-1]) and ids(anew.folder) == ids(started.folder)
    assert "without text_page" not in capsys.readouterr().err


def test_whatever_way_a_model_is_asked_in_the_same_words_of_it_make_the_same_ranking(tmp_path: Path) -> None:
    rankings, folders = [], []
    with ScriptedServer(reply=in_field) as server:
        folders.append(served(tmp_path / "field", server).folder)
    with ScriptedServer(answer=in_words) as server:
        folders.append(served(tmp_path / "json", server, protocol="json").folder)
        assert "response_format" in server.payloads[-1]
        assert "tools" not in server.payloads[-1]
    folders.append(walk(tmp_path / "chat", agent=InWords()).folder)
    folders.append(walk(tmp_path / "batches", agent=InBatches()).folder)
    for folder in folders:
        rankings.append(ids(folder))
        assert [each.end for each in read_trajectories(folder)] == ["finished"] * N
        assert [each.steps for each in read_trajectories(folder)] == [3] * N
    assert rankings == [rankings[0]] * 4
    assert rankings[0] != ids(tmp_path / "field" / "base-base")
    protocols = [read_json(folder / "run.json")["settings"]["protocol"] for folder in folders]
    assert protocols == ["tools", "json", "json", "json"]


def test_a_run_says_how_it_was_asked_and_keeps_messages_only_where_it_is_told(tmp_path: Path) -> None:
    with ScriptedServer(reply=in_field) as server:
        plain = served(tmp_path, server)
        kept = served(tmp_path / "texts", server, keep_texts=True)
    settings = read_json(plain.folder / "run.json")["settings"]
    chosen = {"agent": MODEL, "max_steps": 12, "protocol": "tools", "compact": False, "tool_choice": None}
    assert chosen.items() <= settings.items()
    assert read_trajectories(plain.folder)[0].messages is None
    messages = read_trajectories(kept.folder)[0].messages
    assert messages is not None
    assert [message["role"] for message in messages] == ["system", "user", *["assistant", "tool"] * 3]


def test_calls_beyond_the_limit_of_a_step_are_replayed_as_they_were(tmp_path: Path) -> None:
    def in_excess(payload: dict[str, Any]) -> Reply:
        body = json.loads(in_field(payload).body)
        body["choices"][0]["message"]["tool_calls"] *= 9  # the last of these is refused, and equals the others
        return Reply(200, json.dumps(body).encode())

    with ScriptedServer(reply=in_excess) as server:
        made, kept = (served(tmp_path / name, server, keep_texts=name == "texts").folder for name in ("made", "texts"))
    assert read_trajectories(made)[0].tool_errors["too_many_calls"] > 0
    assert [list(each.messages) for each in replay(made)] == [list(each.messages) for each in replay(kept)]


def test_the_same_run_again_asks_nothing_and_another_contract_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    with ScriptedServer(reply=in_field) as server:
        folder = served(tmp_path, server).folder
        before, n = (folder / "predictions.jsonl").read_bytes(), len(server.payloads)
        served(tmp_path, server)
        assert len(server.payloads) == n
        assert (folder / "predictions.jsonl").read_bytes() == before
        monkeypatch.setattr("kbbench_hf.agents.agent.INSTRUCTIONS", "Answer.")
        with pytest.raises(UsageError, match="contract_sha256"):
            served(tmp_path, server)


def test_a_reply_that_was_given_to_another_request_is_not_taken_for_this_one(tmp_path: Path, monkeypatch: Any) -> None:
    with ScriptedServer(reply=in_field) as server:
        folder = served(tmp_path, server).folder
        for name in ("predictions.jsonl", "trajectories.jsonl"):
            (folder / name).unlink()
        monkeypatch.setattr("kbbench_hf.agents.tools.clean", lambda text, longest=20: text[:longest])
        with pytest.raises(UsageError, match=r"belongs to another request.*--out"):
            served(tmp_path, server)


def test_a_server_that_takes_no_tools_is_named_with_what_to_do(tmp_path: Path) -> None:
    words = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    refused = Reply(400, json.dumps({"error": {"message": words}}).encode())
    with (
        ScriptedServer(reply=lambda payload: refused if "tools" in payload else None) as server,
        pytest.raises(UsageError, match=r"refused the parameter 'tools'.*--tool-call-parser NAME.*--protocol json"),
    ):
        served(tmp_path, server)


@pytest.mark.parametrize(("tokens", "warned"), [(90, True), (900, False)])
def test_a_server_that_drops_the_tools_is_told_by_its_prompt_tokens(tmp_path: Path, tokens: int, warned: bool) -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": "Salt Atlas."}}]}
    counted = {**body, "usage": {"prompt_tokens": tokens, "completion_tokens": 3}}
    with ScriptedServer(reply=lambda payload: Reply(200, json.dumps(counted).encode())) as server:
        found = {each.code: each for each in served(tmp_path, server).warnings}
    assert ("tools_dropped" in found) is warned
    assert not warned or "--protocol json" in found["tools_dropped"].remedy


def test_a_tool_choice_that_is_refused_is_left_out_and_said(tmp_path: Path) -> None:
    words = "Unexpected fields in the request: {'tool_choice'}"

    def reply(payload: dict[str, Any]) -> Reply:
        return Reply(422, json.dumps({"detail": words}).encode()) if "tool_choice" in payload else in_field(payload)

    with ScriptedServer(reply=reply) as server:
        result = served(tmp_path, server, tool_choice="required", concurrency=1)
        assert sum("tool_choice" in payload for payload in server.payloads) == 1
    assert any("tool_choice" in warning.message for warning in result.warnings)


def test_what_failed_counts_as_selected_so_far_and_goes_on_later(tmp_path: Path) -> None:
    broken = {"now": True}

    def reply(payload: dict[str, Any]) -> Reply:
        late = len(payload["messages"]) == 6 and broken["now"]
        return Reply(500, b"{}") if late else in_field(payload)

    with ScriptedServer(reply=reply) as server:
        folder = served(tmp_path, server, attempts=1).folder
        (first, *_) = read_trajectories(folder)
        assert (first.end, first.steps, len(first.selected), first.backed_off) == ("failed", 2, 1, False)
        broken["now"] = False
        n = len(server.payloads)
        served(tmp_path, server, attempts=1)
        assert len(server.payloads) - n == N, "the last step of each, and no other"
    assert [each.end for each in read_trajectories(folder)] == ["finished"] * N


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"max_steps": 3}, r"max_steps is for agents \(--agent\)"),
        ({"agent": InWords(), "rerank": InWords()}, "--rerank and --agent both"),
        ({"agent": InWords(), "depth": 3}, r"depth is for models that re-rank \(--rerank\)"),
        ({"agent": InWords(), "protocol": "tools"}, "in-words does not support tool calls.*json"),
        ({"agent": InWords(), "repeats": 2}, "repeats is for language models"),
        ({"agent": "llm:m"}, "--base-url"),
    ],
)
def test_options_that_would_be_ignored_or_cannot_be_kept_are_refused(
    how: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        walk(tmp_path, **how)
    assert not (tmp_path / "base").exists(), "said before anything is searched"


def test_calls_of_tools_are_not_held_to_a_schema_of_ours(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--structured.*--protocol json"), ScriptedServer(reply=in_field) as server:
        served(tmp_path, server, structured=True)


TEMPLATE = (
    "{% if tools %}{% endif %}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% for call in message['tool_calls'] or [] %}{{ call['function']['arguments']['node_ids'][0] }}{% endfor %}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def test_a_local_model_calls_by_its_chat_template_or_in_words_where_that_has_no_tools(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """The template reads the arguments as an object, as those of real models do."""
    from kbbench_hf.agents.agent import Agent
    from kbbench_hf.runners.retrieval_run import agent_tools
    from kbbench_hf.scoring.eval_task import load_examples
    from tests.unit.llm.tiny_lm import train

    for name in ("INSTRUCTIONS", "JSON_INSTRUCTIONS"):
        monkeypatch.setattr(f"kbbench_hf.agents.agent.{name}", f"{name}.")  # few words are learnt sooner
    asked = load_examples("mini-stark", limit=1)
    tools, (row,) = agent_tools(asked, "bm25"), asked.examples.rows
    begun = {each: Agent(tools, protocol=each).conversation(row["query"]).messages() for each in ("tools", "json")}
    said = {
        "tools": '<tool_call>{"name": "select", "arguments": {"node_ids": [7]}}</tool_call>',
        "json": '{"tool": "select", "arguments": {"node_ids": [8]}}',
    }
    folder = train(tmp_path / "model", [([dict(m) for m in begun[each]], said[each]) for each in begun], steps=60)
    how = {"agent": f"llm:hf:{folder}", "limit": 1, "max_steps": 2, "max_tokens": 60}
    for protocol, selected in (("json", 8), ("tools", 7)):
        if protocol == "tools":
            (folder / "chat_template.jinja").write_text(TEMPLATE)
        done = walk(tmp_path / protocol, **how)
        assert read_json(done.folder / "run.json")["settings"]["protocol"] == protocol
        (trajectory,) = read_trajectories(done.folder)
        assert (trajectory.steps, trajectory.selected[:1]) == (2, [selected])
