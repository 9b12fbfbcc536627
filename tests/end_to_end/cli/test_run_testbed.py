"""A testbed of SKA-Bench in one command, and integration without a single request."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from kbbench_hf.benchmarks.charts import Panels
from kbbench_hf.cli.report import command as report
from kbbench_hf.cli.run import command
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.reports import plots
from tests.servers.scripted import Reply, ScriptedServer
from tests.servers.sharding import SCORED


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


def test_what_weakens_a_config_stands_under_the_table(in_tmp: Path) -> None:
    with ScriptedServer(answer=lambda payload: "I would rather talk about the weather.") as server:
        printed = " ".join(run(server, "--testbed", "order", "--subset", "kg").split())
    assert "! Parse failures: order_kg_prefix (14 of 14), order_kg_random (14 of 14)" in printed


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


def test_a_testbed_in_shards_makes_the_files_of_one_process(in_tmp: Path) -> None:
    with ScriptedServer(answer=lambda payload: '{"answer": ["nothing"]}') as server:
        options = ["--testbed", "noise", "--subset", "kg", "--out"]
        whole = run(server, *options, "whole")
        first = run(server, *options, "mine", "--shard", "1/2")
        assert "Shard 1/2 of mine/noise_kg_1k has ended. 1 of 2" in first and "noise_kg_1k  " not in first
        last = run(server, *options, "mine", "--shard", "2/2")
        assert last.splitlines()[-3:] == [line.replace("whole", "mine") for line in whole.splitlines()[-3:]]
        assert run(server, *options, "mine", "--collect").splitlines()[-3:] == last.splitlines()[-3:]
        Path("mine/noise_kg_4k/shard.2-of-2.done").unlink()
        partial = run(server, *options, "mine", "--shard", "1/2")
    assert "1 of 2 shards have not ended: 2" in partial and "noise.png" in last and "noise.png" not in partial
    for config in ("noise_kg_1k", "noise_kg_4k"):
        for name in SCORED:
            assert Path("mine", config, name).read_bytes() == Path("whole", config, name).read_bytes()


def test_an_unknown_testbed_or_subset_is_refused(in_tmp: Path) -> None:
    with ScriptedServer() as server:
        with pytest.raises(UsageError, match="Did you mean 'noise'"):
            run(server, "--testbed", "nois")
        with pytest.raises(UsageError, match="Unknown subset"):
            run(server, "--testbed", "noise", "--subset", "graph")
        assert not server.requests


def refusing_over(characters: int) -> Callable[[dict[str, Any]], Reply | None]:
    """Return a script of a server whose window is short."""
    words = b'{"error": {"message": "Prompt is longer than the maximum model length", "type": "BadRequestError"}}'
    return lambda payload: Reply(400, words) if len(payload["messages"][-1]["content"]) > characters else None


@pytest.mark.parametrize("window", [5_000, 100])
def test_a_testbed_against_a_short_window_prints_every_config_and_what_was_refused(window: int, in_tmp: Path) -> None:
    with ScriptedServer(answer=lambda payload: '{"answer": ["nothing"]}', reply=refusing_over(window)) as server:
        arguments = ["mini-ska", "--model", "scripted-model", "--base-url", server.url, "--testbed", "noise"]
        done = CliRunner().invoke(command, arguments)
        printed, sent = done.stdout, len(server.requests)
        again = CliRunner().invoke(command, arguments)
        assert len(server.requests) == sent
    for each in (done, again):  # a testbed fails where no config has a response
        failed = "requests failed (context_length) and are scored as missing" in str(each.exception)
        assert (each.exit_code, failed) == ((0, False) if window == 5_000 else (1, True))
    configs = ("noise_kg_1k", "noise_kg_4k", "noise_table_1k", "noise_table_4k", "noise_kg_text_4k")
    assert all(printed.count(config) >= 2 for config in configs)  # when it is run, and in the table
    assert "errors (context_length" in printed


def test_a_testbed_whose_key_is_revoked_prints_what_it_has_and_why_it_stopped(in_tmp: Path) -> None:
    with ScriptedServer(answer=lambda payload: '{"answer": ["nothing"]}') as server:
        server.reply = lambda payload: Reply(401, b"{}") if len(server.times) > 20 else None
        arguments = ["mini-ska", "--model", "scripted-model", "--base-url", server.url, "--testbed", "order"]
        done = CliRunner().invoke(command, [*arguments, "--subset", "kg"])
    assert isinstance(done.exception, KBBenchError)
    assert "2 of 3 configs are not finished" in str(done.exception)
    assert "order_kg_prefix: 14 responses" in done.stdout
    assert "order_kg_suffix: not run" in done.stdout


def test_models_that_ran_before_stand_in_the_picture_and_the_folder_is_reported_as_a_whole(
    in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[list[str]] = []

    def plot_panels(panels: Panels) -> Figure:
        drawn.append(sorted({name for panel in panels.panels for name in panel.series}))
        return plots.plot_panels(panels)

    monkeypatch.setattr("kbbench_hf.reports.score_table.plot_panels", plot_panels)
    with ScriptedServer(answer=lambda payload: '{"answer": ["nothing"]}') as server:
        for name in ("one", "two"):
            arguments = ["mini-ska", "--model", name, "--base-url", server.url, "--testbed", "order", "--subset", "kg"]
            assert CliRunner().invoke(command, arguments, catch_exceptions=False).exit_code == 0
    assert drawn == [["one"], ["one", "two"]]
    monkeypatch.setattr("kbbench_hf.reports.score_table.plot_panels", plots.plot_panels)
    done = CliRunner().invoke(report, ["kbbench-runs/mini-ska"], catch_exceptions=False)
    assert done.output.split() == [f"kbbench-runs/mini-ska/report/report.{form}" for form in ("html", "tex", "csv")]
    page = Path("kbbench-runs/mini-ska/report/report.html").read_text(encoding="utf-8")
    assert "2 systems" in page and "F1 by orders (Table 4)" in page
