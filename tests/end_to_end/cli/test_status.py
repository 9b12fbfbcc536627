"""`kbbench status` as a user meets it: one line a run, --watch until its end, --json, and what it imports."""

import json
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import kbbench_hf
from kbbench_hf.cli import status
from kbbench_hf.files import heartbeat
from kbbench_hf.files.heartbeat import RunControl, read_control, write_control
from kbbench_hf.runners.chat_requests import DRAIN_S
from tests.servers.scripted import MODEL, ScriptedServer


def test_a_run_is_watched_until_it_is_finished_and_steered_meanwhile(kbbench, in_tmp, monkeypatch):
    monkeypatch.setattr(status, "PRINT_S", 0.05)
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.02)
    with ScriptedServer(answer=lambda _: '{"triples": []}', hold_from=9) as server:
        how = {"base_url": server.url, "out": Path("run"), "show": False, "concurrency": 4, "canary": False}
        thread = threading.Thread(target=kbbench_hf.run, args=("mini-text2kg", MODEL), kwargs=how)
        thread.start()
        server.wait_for(13)
        done = kbbench("status", "run")
        assert (done.code, done.out.split(",")[0]) == (0, "run: running")
        assert "9 of 48 done, " in done.out
        assert kbbench("status", "run", "--pause", "--concurrency", "3").code == 0
        assert read_control(Path("run")) == RunControl(paused=True, concurrency=3)
        assert kbbench("status", "run", "--resume").code == 0
        assert read_control(Path("run")) == RunControl(paused=False, concurrency=3)
        threading.Timer(0.5, server.release).start()
        lines = kbbench("status", "run", "--watch").out.splitlines()
        thread.join()
    assert "9 of 48 done" in lines[0]
    assert lines[-1] == "run: finished, 48 of 48 done"


def test_retrievers_have_no_concurrency_to_change_and_an_absent_process_may_come_later(kbbench, in_tmp):
    assert kbbench("run", "mini-stark", "--model", "bm25", "--limit", "3", "--out", "run").code == 0
    assert kbbench("status", "run").out == "run: finished, 3 of 3 done\n"
    failed = replace(status.StatusReader(Path("run")).read(), failed={"timeout": 1, "refusal": 2})
    assert [*status._lines(failed)] == ["run: finished, 3 of 3 done, 3 of them failed (refusal 2, timeout 1)"]
    (in_tmp / "run/result.json").unlink()
    done = kbbench("status", "run", "--pause", "--json")
    assert (done.code, "No process of run reports here" in done.err) == (0, True)
    assert json.loads(done.out)["state"] == "complete"
    assert [each["name"] for each in json.loads(kbbench("status", ".", "--all", "--json").out)] == ["run"]
    machine, pid = heartbeat.machine(), heartbeat.start_of(1)
    report = {"machine": machine, "pid": 1, "started": pid, "report": {"abilities": ["pause"], "n_done": 3}}
    (in_tmp / "run/progress.json").write_text(json.dumps(report))
    refused = kbbench("status", "run", "--concurrency", "3")
    assert (refused.code, "process 0 of run cannot do that: it sends no requests" in refused.err) == (2, True)
    assert read_control(in_tmp / "run") == RunControl(paused=True)


def test_a_paused_run_says_why_it_waits_and_can_be_interrupted_at_once(in_tmp):
    with ScriptedServer(answer=lambda _: '{"triples": []}', latency_s=0.2) as server:
        command = ["run", "mini-text2kg", "--model", MODEL, "--base-url", server.url, "--out", "run"]
        command += ["--concurrency", "1"]
        child = subprocess.Popen([sys.executable, "-m", "kbbench_hf.cli", *command], stderr=subprocess.PIPE, text=True)
        server.wait_for(3)
        write_control(in_tmp / "run", paused=True)
        line = child.stderr.readline()
        child.send_signal(signal.SIGINT)
        started = time.monotonic()
        line += child.communicate()[1]
        assert child.returncode == 130
        assert time.monotonic() - started < DRAIN_S
    assert line.startswith("run is paused. To resume: kbbench status run --resume\n")
    report = json.loads((in_tmp / "run/progress.json").read_bytes())
    assert report["ended"].startswith("Interrupted.")


def test_it_imports_no_table_and_no_dataset(kbbench, in_tmp):
    assert kbbench("run", "mini-stark", "--model", "bm25", "--limit", "3", "--out", "run").code == 0
    code = "import sys\nfrom kbbench_hf.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, "status", "run"], capture_output=True, text=True)
    assert done.returncode == 0
    heavy = {"torch", "datasets", "pyarrow", "pandas", "scipy", "rich", "asyncio", "kbbench_hf.runners.generate"}
    assert heavy & {*done.stderr.split()} == set()
