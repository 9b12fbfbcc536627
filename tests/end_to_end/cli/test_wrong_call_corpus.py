"""Wrong calls as users make them: no stack trace, the documented exit code, and the words that mend the call."""

import json
import re
import shutil
from pathlib import Path

from tests.end_to_end.cli.processes import kbbench_process

STREAMS = ("stdin", "stdout", "stderr")


def test_every_wrong_call_ends_as_documented_and_says_what_mends_it(
    shared: Path, tmp_path: Path, kbbench, monkeypatch
) -> None:
    corpus = shared / "data" / "user_files"
    calls = [json.loads(line) for line in (corpus / "wrong_calls.jsonl").read_text(encoding="utf-8").splitlines()]
    wrong = []
    for call in calls:
        folder = tmp_path / call["id"]
        copied(corpus / "wrong_calls", folder)
        monkeypatch.chdir(folder)
        if "result" in call["argv"]:
            kbbench("score", "good.jsonl", "--benchmark", "mini-text2kg", "--out", "result")
        env = call.get("env", {})
        if call.keys() & {*STREAMS, "fsize"} or env.keys() - {"COLUMNS", "TERM"}:
            streams = {name: call[name] for name in STREAMS if name in call}
            done = kbbench_process(call["argv"], folder, env=env, streams=streams, fsize=call.get("fsize"))
        else:
            with monkeypatch.context() as terminal:
                for name, value in env.items():
                    terminal.setenv(name, value)
                done = kbbench(*call["argv"])
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(folder)
        said = done.out + done.err
        problems = [] if done.code in call["exit"] else [f"exit {done.code}"]
        problems += [trace for trace in ("Traceback", "Exception ignored", "mistake in kbbench") if trace in said]
        problems += [f"{word!r} is not said" for word in call.get("says", []) if word not in said]
        problems += [
            f"{word!r} is not shown"
            for word in call.get("stdout_has", [])
            if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", done.out)
        ]
        if problems:
            wrong.append((call["id"], problems))
    assert wrong == []


def copied(source: Path, target: Path) -> None:
    """Copy the files of a folder that may be read-only."""
    target.mkdir()
    for file in sorted(source.rglob("*")):
        place = target / file.relative_to(source)
        place.mkdir(parents=True, exist_ok=True) if file.is_dir() else place.write_bytes(file.read_bytes())
