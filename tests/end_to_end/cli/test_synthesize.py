"""`kbbench synthesize` as a user meets it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbbench_hf.files import shards
from kbbench_hf.files.journal import Journal
from kbbench_hf.files.shards import Shard
from tests.end_to_end.cli.conftest import Command
from tests.servers.scripted import ScriptedServer
from tests.servers.writers import answer

SPEC = """\
templates:
  - "cookbook -[contains]-> dish"
  - "planet -[orbits]-> star"
skip_absent: true
requirements: 0
"""


def test_what_a_spec_cannot_ask_is_said_where_it_happens_and_on_the_card(kbbench, in_tmp):
    Path("specs").mkdir()
    Path("specs/mine.yaml").write_text(SPEC, encoding="utf-8")
    done = kbbench("synthesize", "mini-stark", "--count", "500", "--spec", "specs/mine.yaml", "--out", "made")
    said = "only 1 of the 2 templates of the spec can be asked of mini-stark"
    words = " ".join(done.err.split())
    assert done.code == 0 and said in words and "kbbench/made/README.md" in words
    card = Path("kbbench/made/README.md").read_text(encoding="utf-8")
    assert f"**500 were asked for**: {said}" in card
    assert "| `planet -[orbits]-> star` | types or relations that are not here |" in card
    assert "--count 500 --seed 0 --spec mine.yaml`" in card  # no folder of this machine


@pytest.fixture
def command(in_tmp: Path, kbbench: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """`kbbench synthesize` of a few questions, by scripted models."""
    monkeypatch.setattr(shards, "LATE_S", (0.0,))
    with ScriptedServer(answer=answer) as server:
        writer, judge = ({"model": name, "base_url": server.url} for name in ("writer", "always"))
        steps = {**dict.fromkeys(("extract", "fuse", "rewrite"), writer), "judges": [judge, judge]}
        Path("spec.json").write_text(json.dumps({"max_hops": 1, "max_templates": 4, "models": steps}))
        fixed = ["synthesize", "mini-stark", "--count", "4", "--spec", "spec.json"]
        yield lambda *more: kbbench(*fixed, *more)


def made(folder: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted(Path("kbbench", folder).rglob("*")) if file.is_file()]


def test_shards_are_collected_when_all_have_ended_and_once_more(
    command: Command, kbbench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("--out", "made").code == 0
    whole = made("made")
    refused = kbbench("status", "kbbench-runs/synthesize/made").err
    step = refused.partition("the last: kbbench status ")[2].strip()
    assert step.startswith("kbbench-runs/synthesize/made/judge-2-") and kbbench("status", step).code == 0
    for folder in ("kbbench", "kbbench-runs"):
        Path(folder).rename(f"{folder}-whole")
    first = command("--out", "made", "--shard", "1/2")
    assert first.code == 0 and "1 of 2 shards have not ended: 2" in first.out
    missing = command("--out", "made", "--collect")
    assert missing.code == 1 and "prompts of the step 'extract' are missing (shards 2 of 2 have not" in missing.err
    assert not Path("kbbench").exists()
    status = kbbench("status", "kbbench-runs/synthesize/made").out
    assert status.splitlines()[1:] == ["  shard 1/2: ended", "  shard 2/2: not started"]
    other = command("--out", "made", "--shard", "2/2", "--seed", "1")
    assert other.code == 2 and "its seed is '0', not '1'" in other.err
    submitted = command("--out", "made", "--slurm", "--array", "2", "--count", "5")
    assert submitted.code == 2 and "its count is 4, not 5" in submitted.err
    with Journal(Path("kbbench-runs/synthesize/made"), Shard(2, 2), abilities=()):  # as a shard between two steps
        status = kbbench("status", "kbbench-runs/synthesize/made").out
    assert status.startswith("kbbench-runs/synthesize/made: running\n")
    Path("spec.json").write_text(Path("spec.json").read_text().replace("127.0.0.1", "localhost"))
    assert "or add --allow-other-server" in command("--out", "made", "--shard", "2/2").err
    assert "4 questions" in command("--out", "made", "--shard", "2/2", "--allow-other-server").out
    assert made("made") == whole
    assert command("--out", "made", "--collect").code == 0 and made("made") == whole
    assert kbbench("status", "kbbench-runs/synthesize/made").out.startswith("kbbench-runs/synthesize/made: finished")
    for n in "23":
        assert "nothing is left to do" in command("--out", "made", "--slurm", "--array", n).out
    Path("kbbench/made").rename("elsewhere")
    monkeypatch.setenv("PATH", "")
    assert "--slurm needs Slurm's squeue" in command("--out", "made", "--slurm", "--array", "2").err


def test_jobs_of_slurm_have_the_same_command(command: Command) -> None:
    scripts = command("--out", "made", "--slurm", "--array", "8", "--dry-run").out
    array, collecting = (line for line in scripts.splitlines() if "kbbench_hf.cli synthesize mini-stark" in line)
    assert '--count=4 --seed=0 --spec=spec.json --out=made --concurrency=32 --shard "$SLURM_ARRAY_TASK_ID"/8' in array
    assert collecting.endswith("--concurrency=32 --collect")


@pytest.mark.parametrize("wrong", [["--shard", "1/2"], ["--collect"], ["--slurm"]])
def test_questions_without_models_have_no_shards(kbbench: Command, in_tmp: Path, wrong: list[str]) -> None:
    done = kbbench("synthesize", "mini-stark", "--count", "5", *wrong)
    assert done.code == 2 and "this spec names none: one process is fast" in done.err
    assert not [*in_tmp.iterdir()]
