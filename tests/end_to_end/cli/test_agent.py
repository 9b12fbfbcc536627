"""`kbbench run --agent`: a scripted model walks from a ranking; what it costs, and what it finds."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.cli.conftest import Command
from tests.puzzles import mini_stark, odd
from tests.servers.scripted import Reply, ScriptedServer
from tests.servers.tool_caller import ToolCaller
from tests.servers.tool_policies import endless, oracle, oracle_steps, policy, search_only

PRICES = (
    "as_of: 2026-11-01\ncurrency: USD\nmodels:\n  scripted-model: {input_per_million: 10.0, output_per_million: 30.0}\n"
)


def walked(kbbench: Command, server: ToolCaller, name: str, *options: object) -> dict[str, Any]:
    arguments = ("--model", "bm25", "--agent", "llm:scripted-model", "--base-url", server.url)
    done = kbbench("run", name, *arguments, *options, "--json")
    assert done.code == 0, done.err
    result: dict[str, Any] = json.loads(done.out)
    return result


def value(result: dict[str, Any], metric: str) -> float:
    return float(result["scores"][metric]["value"])


def the(pattern: str) -> Path:
    (found,) = Path("kbbench-runs").rglob(pattern)
    return found


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_an_oracle_is_right_on_all_of_mini_stark(kbbench: Command) -> None:
    puzzles = mini_stark()
    with ToolCaller(policy=policy(puzzles, oracle)) as server:
        result = walked(kbbench, server, "mini-stark")
        assert server.n_paid_twice <= 1  # the canary
    assert [value(result, each) for each in ("hit_at_1", "mrr", "recall_at_20")] == [1.0, 1.0, 1.0]
    trajectories = read(the("trajectories.jsonl"))
    assert [each["steps"] for each in trajectories] == [oracle_steps(each) for each in puzzles.questions]
    assert all(
        each["end"] == "finished" and each["answer_selected"] and not each["tool_errors"] for each in trajectories
    )


@pytest.mark.parametrize("ids", ["strings", "numbers"])
def test_an_oracle_is_right_where_ids_are_no_rows(kbbench: Command, ids: str) -> None:
    puzzles = odd(ids, n_questions=20, seed=3)
    nodes, edges, queries = puzzles.write(Path())
    assert kbbench("build", "odd", "--nodes", nodes, "--edges", edges, "--queries", queries).code == 0
    with ToolCaller(policy=policy(puzzles, oracle)) as server:
        result = walked(kbbench, server, "odd")
    assert [value(result, each) for each in ("hit_at_1", "mrr")] == [1.0, 1.0]
    for line, puzzle in zip(read(the("trajectories.jsonl")), puzzles.questions, strict=True):
        assert line["selected"] == list(puzzle.answers) and line["id"] == puzzle.id


def test_who_only_searches_has_the_figures_of_the_base_to_the_last_bit(kbbench: Command) -> None:
    base = json.loads(kbbench("run", "mini-stark", "--model", "bm25", "--json").out)
    with ToolCaller(policy=policy(mini_stark(), search_only)) as server:
        result = walked(kbbench, server, "mini-stark")
    assert result["scores"] == {**result["scores"], **base["scores"]}
    first, second = sorted(Path("kbbench-runs").rglob("predictions.jsonl"), key=lambda file: len(str(file)))
    assert [each["ids"][:100] for each in read(first)] == [each["ids"][:100] for each in read(second)]
    assert all(each["backed_off"] for each in read(the("trajectories.jsonl")))


def cost(usage: dict[str, int]) -> float:
    return (10.0 * usage["prompt_tokens"] + 30.0 * usage["completion_tokens"]) / 1e6


@pytest.mark.parametrize("concurrency", [1, 8])
def test_money_ends_a_run_with_no_more_spent_than_was_under_way_and_more_lets_it_go_on(
    kbbench: Command, concurrency: int
) -> None:
    Path("prices.yaml").write_text(PRICES, encoding="utf-8")
    puzzles = mini_stark()
    options = ("--limit", 12, "--prices", "prices.yaml", "--concurrency", concurrency, "--max-steps", 6)
    with ToolCaller(policy=policy(puzzles, endless)) as server:
        told: list[float] = []
        answer = server.answer
        assert answer is not None

        def counted(payload: dict[str, Any]) -> str | dict[str, Any]:
            said = answer(payload)
            told.append(cost(said["usage"]) if isinstance(said, dict) else cost(CANARY))
            return said

        server.answer = counted
        chance, most = random.Random(7), 0.0
        for _ in range(4):
            most = sum(told) + chance.uniform(0.001, 0.05)
            stopped = kbbench(
                "run", "mini-stark", "--model", "bm25", "--agent", "llm:scripted-model", "--base-url", server.url,
                *options, "--max-cost", most,
            )  # fmt: skip
            assert stopped.code == 1 and "max-cost" in stopped.err
            assert most <= sum(told) <= most + concurrency * max(told)
        walked(kbbench, server, "mini-stark", *options, "--max-cost", 1000)
        assert server.n_paid_twice <= 10  # canaries
        assert len(server.answered) - 1 == 12 * 6
    summary = json.loads(the("trajectories.jsonl").with_name("run.json").read_text(encoding="utf-8"))["summary"]
    assert summary["cost"] == pytest.approx(sum(told))


CANARY = {"prompt_tokens": 100, "completion_tokens": 10}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use. To learn more about provider routing, visit: our docs"),
        (400, "Unrecognized request argument supplied: tools"),
        (422, "tools: extra fields not permitted"),
    ],
)
def test_a_server_that_takes_no_tools_is_told_what_to_do(kbbench: Command, status: int, message: str) -> None:
    def refuse(payload: dict[str, Any]) -> Reply | None:
        body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}})
        return Reply(status, body.encode()) if "tools" in payload else None

    with ScriptedServer(reply=refuse) as server:
        arguments = ("--model", "bm25", "--agent", "llm:scripted-model", "--base-url", server.url, "--limit", 3)
        done = kbbench("run", "mini-stark", *arguments)
    assert done.code == 2 and "--protocol json" in done.err and message[:40] in done.err


def test_out_is_the_run_of_the_agent_and_its_base_is_next_to_it(kbbench: Command) -> None:
    with ToolCaller(policy=policy(mini_stark(), oracle)) as server:
        options = ("--limit", 4, "--out", "runs/mine")
        walked(kbbench, server, "mini-stark", *options)
        n_requests = len(server.answered)
        again = walked(kbbench, server, "mini-stark", *options)
        assert len(server.answered) <= n_requests + 1  # a canary, and nothing else
    settings = {
        folder.name: json.loads((folder / "run.json").read_text(encoding="utf-8")) for folder in Path("runs").iterdir()
    }
    assert sorted(settings) == ["mine", "mine-base"]
    assert settings["mine"]["settings"]["agent"] == "scripted-model" and settings["mine"]["base"] == "mine-base"
    assert "agent" not in settings["mine-base"]["settings"]
    assert again["run"] == "runs/mine"


def test_a_run_whose_base_is_in_out_resumes_as_it_is(kbbench: Command) -> None:
    # earlier versions put the base run into OUT, and the agent's run into OUT-MODEL-HASH
    with ToolCaller(policy=policy(mini_stark(), oracle)) as server:
        walked(kbbench, server, "mini-stark", "--limit", 4)
        (folder,) = Path("kbbench-runs").iterdir()
        base, second = sorted(folder.iterdir(), key=lambda each: len(each.name))
        Path("runs").mkdir()
        for each in (base, second):
            each.rename(Path("runs", each.name.replace(base.name, "mine")))
        before = Path("runs/mine/predictions.jsonl").read_bytes()
        n_requests = len(server.answered)
        again = walked(kbbench, server, "mini-stark", "--limit", 4, "--out", "runs/mine")
        assert len(server.answered) <= n_requests + 1
    assert again["run"] == "runs/" + second.name.replace(base.name, "mine")
    assert sorted(each.name for each in Path("runs").iterdir()) == ["mine", Path(again["run"]).name]
    assert Path("runs/mine/predictions.jsonl").read_bytes() == before


def test_an_agent_does_not_take_the_folder_of_a_base_run_unless_it_is_named_so(kbbench: Command) -> None:
    assert kbbench("run", "mini-stark", "--model", "bm25", "--limit", 4, "--out", "runs/mine").code == 0
    before = Path("runs/mine/predictions.jsonl").read_bytes()
    with ToolCaller(policy=policy(mini_stark(), oracle)) as server:
        call = ("run", "mini-stark", "--model", "bm25", "--agent", "llm:scripted-model", "--base-url", server.url)
        done = kbbench(*call, "--limit", 4, "--out", "runs/mine")
        assert done.code == 2 and not server.answered
        assert "runs/mine holds a run of bm25" in done.err and "rename runs/mine to NEW-base" in done.err
        assert [each.name for each in Path("runs").iterdir()] == ["mine"]
        Path("runs/mine").rename("runs/new-base")
        assert walked(kbbench, server, "mini-stark", "--limit", 4, "--out", "runs/new")["run"] == "runs/new"
    assert Path("runs/new-base/predictions.jsonl").read_bytes() == before
