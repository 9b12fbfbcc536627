"""`kbbench run --slurm`: what it submits, with an sbatch of ours that runs the tasks, and with a real Slurm."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import kbbench_hf
from kbbench_hf.errors import UsageError
from kbbench_hf.runners.refusal_scope import CANARY
from kbbench_hf.runners.slurm import SlurmRun
from tests.end_to_end.cli.conftest import Command
from tests.end_to_end.cli.processes import PACKAGE, Ended, kbbench_process
from tests.servers.scripted import MODEL, ScriptedServer
from tests.servers.sharding import SCORED
from tests.servers.slurm import SlurmCluster, missing_daemon, wait_until

RUN = ["run", "mini-text2kg", "--model", MODEL]


SLURM = """#!{python}
import os, re, subprocess, sys
from pathlib import Path
folder, name = Path({folder!r}), Path(sys.argv[0]).name
with (folder / "calls").open("a") as calls:
    print(name, *sys.argv[1:], file=calls)
if name == "squeue":
    print(os.environ.get("QUEUED", ""))
elif name == "sbatch":
    job, script = 1 + len([*folder.glob("*.sh")]), sys.stdin.read()
    if str(job) == os.environ.get("REFUSED"):
        sys.exit("sbatch: error: Batch job submission failed: Invalid partition name specified")
    (folder / f"{{job}}.sh").write_text(script)
    print(os.environ.get("ID", f"{{job}};cluster"))
    low, _, high = (re.findall("--array=([0-9-]+)", script) or ["0"])[0].partition("-")
    for task in range(int(low), int(high or low) + 1) if "TASKS" in os.environ else ():
        own = dict(SLURM_ARRAY_JOB_ID=str(job), SLURM_ARRAY_TASK_ID=str(task), SLURM_ARRAY_TASK_COUNT="9")
        subprocess.run(["bash"], input=script, text=True, env=os.environ | own, stdout=subprocess.DEVNULL)
"""
"""A Slurm that runs each task of a job at once where TASKS is set; it keeps the scripts and the calls."""


@pytest.fixture
def slurm(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the scripts `1.sh`, `2.sh` of all jobs, and of the calls of Slurm's commands."""
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("sbatch", "squeue", "scancel", "scontrol"):
        (folder / name).write_text(SLURM.format(python=sys.executable, folder=str(folder)))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    return folder


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(answer=lambda payload: '{"triples": []}') as server:
        yield server


def files(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in SCORED]


def test_tasks_and_the_collecting_job_make_the_files_of_one_process_and_only_open_shards_are_submitted_again(
    kbbench: Command, slurm: Path, server: ScriptedServer, in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = [*RUN, "--base-url", f"{server.url}/v1", "--out"]
    command = [*served, "it's 100% mine", "--slurm", "--time", "1:00", "--slurm-args", "-A 'my lab'"]
    command += ["--array=2%1", "--limit", "6"]
    monkeypatch.setenv("TASKS", "1")
    assert kbbench(*command).out.startswith("Submitted job 1 for 2 of 2 shards, and job 2, which collects it's 100% mi")
    kbbench_hf.run("mini-text2kg", MODEL, base_url=f"{server.url}/v1", limit=6, out=Path("whole"), show=False)
    assert files(Path("it's 100% mine")) == files(Path("whole"))
    tasks, collects = ((slurm / f"{job}.sh").read_text() for job in (1, 2))
    first, second = (line for line in (slurm / "calls").read_text().splitlines() if line.startswith("sbatch"))
    for submitted in (first, second):  # arguments hold against variables such as SBATCH_JOB_NAME, headers do not
        assert " --job-name=kbbench-it-s-100-mine-" in submitted
    assert " --array=1-2%1 " in first and second.endswith(" --time=1:00 -A my lab --dependency=afterany:1")
    assert all("#SBATCH --time=1:00 -A 'my lab'\n" in script for script in (tasks, collects))
    assert "s 100%% mine/slurm/%A_%a.log'\n" in tasks
    assert "#SBATCH --array=1-2%1\n" in tasks and "#SBATCH --dependency=afterany:1\n" in collects
    for again in (command, [*command, "--array=3"]):
        assert kbbench(*again).out.startswith("it's 100% mine is finished: nothing is left to do")
    other = kbbench(*command, "--temperature", "0.5")
    assert other.code == 2 and "its sampling is {'temperature': 0.0," in other.err
    monkeypatch.delenv("TASKS")
    (in_tmp / "it's 100% mine/result.json").unlink()
    assert kbbench(*command).out.startswith("Submitted job 3, which collects it's 100% mine.")
    (in_tmp / "it's 100% mine/shard.2-of-2.done").unlink()
    submitted = json.loads(kbbench(*command, "--json").out)
    assert (submitted["jobs"], submitted["shards"]) == (["4", "5"], [2])
    assert "#SBATCH --array=2%1\n" in (slurm / "4.sh").read_text()


def test_what_slurm_refuses_or_has_in_the_queue_is_not_submitted_and_leaves_nothing(
    kbbench: Command, slurm: Path, in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "mini-stark", "--model", "bm25", "--out", "shared", "--slurm"]
    for refused in ("1", "2"):
        monkeypatch.setenv("REFUSED", refused)
        done = kbbench(*command)
        assert done.code == 1 and not done.out
        assert "sbatch refused the job: Batch job submission failed: Invalid partition name specified." in done.err
    assert (slurm / "calls").read_text().endswith("scancel 1\n")
    monkeypatch.setenv("REFUSED", "")
    monkeypatch.setenv("ID", "")  # as with --test-only
    done = kbbench(*command)
    assert done.code == 1 and not done.out and "sbatch printed no id of a job: nothing. " in done.err
    monkeypatch.setenv("QUEUED", "12_[3-4]")
    done = kbbench(*command)
    assert done.code == 75 and "shared has jobs in the queue: 12_[3-4]. " in done.err
    monkeypatch.setenv("PATH", str(in_tmp))
    done = kbbench(*command)
    assert done.code == 2 and "is not on the PATH of this machine" in done.err
    before = (slurm / "calls").read_text()
    done = kbbench(*command, "--dry-run")
    assert (done.code, done.out.count("#!/bin/bash\n")) == (0, 2)
    assert (slurm / "calls").read_text() == before
    assert not [*in_tmp.iterdir()]


def test_a_folder_of_another_retriever_top_k_or_second_stage_is_refused_before_jobs_are_submitted(
    kbbench: Command, slurm: Path, in_tmp: Path
) -> None:
    command = ["run", "mini-stark", "--model", "bm25", "--top-k", "5", "--limit", "9", "--out", "run"]
    assert kbbench(*command, "--shard", "1/1").code == 0
    assert kbbench(*command, "--slurm").out == "run is finished: nothing is left to do, and nothing is submitted.\n"
    for words, *more in (
        ("its model is 'bm25', not 'graph(bm25)'", "--model", "graph:bm25"),
        ("its top_k is 5, not 4", "--top-k", "4"),
        ("its n_examples is 9, not 8", "--limit", "8"),
        ("its rerank is None, not 'a'", "--rerank", "llm:a", "--base-url", "http://127.0.0.1:9"),
    ):
        refused = kbbench(*command, *more, "--slurm")
        assert refused.code == 2 and words in refused.err
    assert not (slurm / "calls").exists()


@pytest.mark.parametrize(
    ("summary", "shards"),
    [
        (None, []),  # of a retriever
        ({"stopped": None, "errors": {"refusal": 2}}, []),
        ({"stopped": None, "errors": {"refusal": 2, "timeout": 1}}, [1, 2]),
        ({"stopped": "All 5 requests of --max-requests are used.", "errors": {}}, [1, 2]),
    ],
)
def test_a_scored_run_of_one_process_has_open_shards_only_where_prompts_are_sent_again(
    summary: dict[str, object] | None, shards: list[int], tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"settings": {}, "summary": summary}))
    assert SlurmRun(["kbbench"], tmp_path, "2", is_collected=True).open_shards() == shards
    assert SlurmRun(["kbbench"], tmp_path, "2").open_shards() == [1, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--job-name=zz", "sets --job-name. Leave it out"),
        ("-t 1 --job-n zz", "sets --job-name. Leave it out"),
        ("-Jzz", "sets --job-name. Leave it out"),
        ("--arr 3", "sets --array. Write --array N"),
        ("-a 3", "sets --array. Write --array N"),
        ("--wrap=x", "sets --wrap. Leave it out"),
        ("--parsable", "sets --parsable. Leave it out"),
    ],
)
def test_an_option_that_slurm_sets_itself_is_refused(options: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        SlurmRun(["kbbench"], Path("shared"), "4", options)


@pytest.mark.parametrize("options", ["--comment='x -a y --wrap'", "--partition=a -A -- --time 1", "-p array -N2"])
def test_an_option_whose_value_looks_like_one_of_these_is_taken(options: str) -> None:
    assert "--array=1-4" in SlurmRun(["kbbench"], Path("shared"), "4", options).array_script()


@pytest.mark.parametrize(
    ("number", "restarts", "code", "calls"),
    [
        (signal.SIGUSR1, 99, 0, "scontrol requeue 7_2\n"),
        (signal.SIGUSR1, 100, 1, ""),  # or a model that loads for longer than the time limit would start for ever
        (signal.SIGTERM, 0, 143, ""),
    ],
)
def test_a_task_stops_its_command_at_a_signal_and_is_requeued_before_its_time_limit_only(
    number: int, restarts: int, code: int, calls: str, slurm: Path, in_tmp: Path
) -> None:
    python = in_tmp / "python"
    python.write_text(
        "#!/bin/bash\ntrap 'sleep 0.3; echo \"${@: -1}\" >stopped; exit 130' TERM\ntouch begun\nsleep 30 & wait\n"
    )
    python.chmod(0o755)
    script = SlurmRun([str(python)], in_tmp / "shared", "4").array_script()
    task = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2", "SLURM_RESTART_COUNT": str(restarts)}
    shell = subprocess.Popen(["bash", "-c", script], env=os.environ | task, start_new_session=True)
    try:
        wait_until((in_tmp / "begun").exists, "the command")
        if number == signal.SIGTERM:  # Slurm sends it to all processes of the task
            os.killpg(shell.pid, number)
        else:
            shell.send_signal(number)
        assert shell.wait(20) == code
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    assert (in_tmp / "stopped").read_text() == "2/4\n"
    assert ((slurm / "calls").read_text() if calls else "") == calls


def journaled(run: Path, shard: int) -> int:
    return sum(file.read_bytes().count(b"\n") for file in run.glob(f"journal.{shard}-of-4-*.jsonl"))


def holder(run: Path, shard: int) -> int:
    """Return the id of the process that runs a shard."""
    pid: int = json.loads((run / f"claim.{shard}-of-4.1.json").read_bytes())["pid"]
    return pid


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.full
@pytest.mark.skipif(missing_daemon() is not None, reason=f"{missing_daemon()} of slurm-wlm and munge is not installed")
def test_tasks_of_a_real_slurm_are_killed_requeued_preempted_and_submitted_again(
    tmp_path: Path, server: ScriptedServer
) -> None:
    run, whole, server.latency_s = tmp_path / "it's 100% mine", tmp_path / "whole", 0.6
    served = [*RUN, "--base-url", f"{server.url}/v1", "--concurrency"]
    with SlurmCluster(tmp_path / "slurm") as slurm:

        def submit() -> Ended:
            command = [*served, "1", "--out", run.name, "--slurm", "--array", "4", "--partition", "low"]
            own = {"SBATCH_JOB_NAME": "other", "SBATCH_ARRAY_INX": "9"}  # which sbatch takes before a script's words
            return kbbench_process(command, tmp_path, env=slurm.environment | own)

        def wait_for(shard: int, n: int) -> None:
            wait_until(lambda: journaled(run, shard) >= n, f"{n} responses of shard {shard}")

        first = submit()
        assert first.out.startswith("Submitted job 1 for 4 of 4 shards, and job 2, which collects "), first.err
        wait_for(1, 3)
        os.kill(holder(run, 1), signal.SIGKILL)
        wait_for(2, 3)
        os.kill(parent(holder(run, 2)), signal.SIGUSR1)  # as Slurm does before the time limit
        wait_for(3, 2)
        slurm.call("sbatch", "--partition=high", "--cpus-per-task=2", "--output=/dev/null", "--wrap=sleep 1")
        busy = submit()
        assert busy.code == 75 and "has jobs in the queue: " in busy.err
        slurm.wait()
        logs = "".join(file.read_text() for file in (run / "slurm").iterdir())
        assert "DUE TO PREEMPTION" in logs and (run / "claim.2-of-4.2.json").exists()
        assert "of 48 prompts are missing (shards 1 of 4 have not ended)" in logs
        assert not (run / "result.json").exists()
        assert "for 1 of 4 shards, and job" in submit().out
        slurm.wait()
        assert "is finished: nothing is left to do" in submit().out
    n_starts = len([*run.glob("claim.*-of-4.*.json")])
    twice = sum(n - 1 for prompt, n in server.attempts.items() if prompt != CANARY.messages[-1]["content"])
    assert twice <= n_starts - 4  # one was under way at each stop
    server.latency_s = 0
    assert kbbench_process([*served, "64", "--out", whole.name], tmp_path).code == 0
    assert files(run) == files(whole)
