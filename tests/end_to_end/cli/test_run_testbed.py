"""A testbed of SKA-Bench in one command, and integration without a single request."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbbench_hf.cli.run import command
from kbbench_hf.errors import UsageError
from tests.servers.scripted import ScriptedServer


def run(server: ScriptedServer, *options: str) -> str:
    arguments = ["mini-ska", "--model", "scripted-model", "--base-url", server.url, *options]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_testbed_runs_its_configs_and_says_what_they_say_together(in_tmp: Path) -> None:
    with ScriptedServer(answer=lambda payload: '{"answer": ["nothing"]}') as server:
        printed = run(server, "--testbed", "order", "--subset", "kg")
    assert all(f"order_kg_{order}" in printed for order in ("prefix", "random", "suffix"))
    assert "standard deviation over orders 0.0000" in printed
    assert (in_tmp / "kbbench-runs" / "mini-ska" / "order.png").is_file()


def test_always_no_rejects_everything_and_is_at_chance_beside_the_control(in_tmp: Path) -> None:
    with ScriptedServer(answer=lambda payload: '{"answer": "no"}') as server:
        options = ["--testbed", "rejection_control", "--subset", "kg", "--json"]
        (result,) = json.loads(run(server, *options)).values()
    assert result["scores"]["rejection_rate"]["value"] == 1.0
    assert result["scores"]["balanced_accuracy"]["value"] == 0.5


def test_integration_sorts_finished_runs_and_sends_nothing(in_tmp: Path) -> None:
    with ScriptedServer(answer=lambda payload: '{"answer": ["nothing"]}') as server:
        with pytest.raises(UsageError, match="sends nothing"):
            run(server, "--testbed", "integration", "--subset", "kg")
        run(server, "--testbed", "noise", "--subset", "kg")
        sent = len(server.requests)
        buckets = json.loads(run(server, "--testbed", "integration", "--subset", "kg", "--json"))
        assert len(server.requests) == sent
    assert sum(each["n_scored"] for each in buckets["noise_kg_4k"].values()) == 14


def test_out_holds_a_folder_for_every_config_of_a_testbed(in_tmp: Path) -> None:
    with ScriptedServer(answer=lambda payload: '{"answer": ["nothing"]}') as server:
        run(server, "--testbed", "noise", "--subset", "kg", "--out", "mine")
        sent = len(server.requests)
        run(server, "--testbed", "integration", "--subset", "kg", "--out", "mine")
        assert len(server.requests) == sent
    assert {file.parent.name for file in Path("mine").glob("*/result.json")} >= {"noise_kg_1k", "noise_kg_4k"}


def test_an_unknown_testbed_or_subset_is_refused(in_tmp: Path) -> None:
    with ScriptedServer() as server:
        with pytest.raises(UsageError, match="Did you mean 'noise'"):
            run(server, "--testbed", "nois")
        with pytest.raises(UsageError, match="Unknown subset"):
            run(server, "--testbed", "noise", "--subset", "graph")
        assert not server.requests
