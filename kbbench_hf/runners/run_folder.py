"""Run folders and `run.json`: default names, settings of the run, and the check that a folder holds the same run.

All kinds of runs, training and `synthesize` use it. Names and hashes of folders must stay: by them a repeated command
finds its started run. Later versions read `run.json`; new facts may be added, and settings only with a default that
runs of earlier versions have.
"""

import glob
import hashlib
import json
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks import TaskKey, find_dataset, rows_of_code
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.files.shards import COLLECT, IncompleteError, Shard, read_again
from kbbench_hf.files.writing import write_new, write_text
from kbbench_hf.scoring.eval_task import RUN

_PACKAGES = "kbbench-hf numpy transformers torch sentence-transformers bm25s faiss-cpu accelerate".split()


def default_folder(task_key: TaskKey, model: str, settings: Mapping[str, Any]) -> Path:
    """Return `kbbench-runs/<dataset>/<config>-<split>-<model>-<hash of the settings>`: one folder for one run.

    >>> str(default_folder(TaskKey("mini-stark", "queries", "test", "reference"), "rrf(bm25,dense:a/b)", {}))
    'kbbench-runs/mini-stark/queries-test-rrf-bm25-dense-a-b-44136fa3'
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
    words = re.sub(r"[^\w.]+", "-", f"{task_key.config}-{task_key.split}-{model}").strip("-")[:80]
    return Path("kbbench-runs") / task_key.benchmark / f"{words}-{digest}"


def folder_after(first: Path, *parts: str) -> Path:
    """Return the default folder of a run over the run in `first`: beside it, named after it and these parts.

    >>> str(folder_after(Path("runs/bm25"), "org/model", "20"))
    'runs/bm25-org-model-20'
    """
    return first.with_name("-".join([first.name, *(re.sub(r"[^A-Za-z0-9_.]+", "-", part) for part in parts)]))


def second_stage_folders(out: Path) -> tuple[Path, Path | None]:
    """Return the folders of a base run and of the run of an agent or re-ranker over it: `OUT-base` and OUT.

    Earlier versions put the base run into OUT and named the other one after it. If such a run is next to OUT, it is
    resumed: then the first folder is OUT, and the second None (named after the base run).

    Raises:
        UsageError: OUT holds a run of a retriever only.
    """
    if (out / RUN).is_file():
        base = read_json(out / RUN).get("settings") or {}
        if not _is_second_stage(base):
            others = (
                read_json(file).get("settings") or {} for file in out.parent.glob(f"{glob.escape(out.name)}-*/{RUN}")
            )
            if any(_is_second_stage(each) and base.items() <= each.items() for each in others):
                return out, None
            raise UsageError(
                f"{out} holds a run of {base.get('model')} without --agent or --rerank; expected a new folder. "
                f"Name another with --out. To keep this run as the base, rename {out} to NEW-base and write --out NEW."
            )
    named = out if out.name not in ("", "..") else out.resolve()
    return named.with_name(f"{named.name}-base"), out


def _is_second_stage(settings: Mapping[str, Any]) -> bool:
    return not settings.keys().isdisjoint(("agent", "rerank"))


@read_again
def open_run(
    folder: Path,
    settings: Mapping[str, Any],
    circumstances: Mapping[str, Any],
    *,
    name: str = RUN,
    shard: Shard | None = None,
) -> None:
    """Write `run.json`, or a file of another `name`; if there is one, check that it has the same settings.

    `settings` decide the results: benchmark, revision, model, prompt, sampling. `circumstances`, such as the number of
    processes, do not, and may differ when the run is resumed. A setting that is None equals a missing one.

    Raises:
        UsageError: another run is in this folder; the message names the first setting that differs.
        IncompleteError: there is no run to collect.
    """
    file = folder / name
    written = json.loads(json.dumps(settings))
    if not file.is_file():
        if shard == COLLECT:
            raise IncompleteError(folder, 0, 0, "")
        folder.mkdir(parents=True, exist_ok=True)
        data = _new_run(settings, written, circumstances)
        if shard is None:
            write_text(file, data)
            return
        if write_new(file, data.encode()):  # else another shard has written it since
            return
    before = read_json(file).get("settings") or {}
    for key in {**written, **before}:
        if before.get(key) != written.get(key):
            raise UsageError(
                f"{folder} holds another run: its {key} is {before.get(key)!r}, not {written.get(key)!r}. "
                "Name another folder with --out, or repeat the run with its own settings."
            )


def _new_run(settings: Mapping[str, Any], written: Mapping[str, Any], circumstances: Mapping[str, Any]) -> str:
    """Return the text of a new `run.json`; `written` are the settings as JSON has them."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    versions = {
        "python": platform.python_version(),
        **{name: found for name in _PACKAGES if (found := installed_version(name))},
    }
    run = {"settings": written, "started": started, "versions": versions, **_canary(settings), **circumstances}
    return json.dumps(run, indent=2) + "\n"


def _canary(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the canary of the dataset of a run as a fact of `run.json`; empty if it has none.

    Logs with texts of the dataset are then found in training data. The canary is not in the prompts.
    """
    name, canary = settings.get("benchmark"), None
    if name and rows_of_code(name) is None:
        with suppress(UsageError):  # `rank_nodes` takes examples that are in no dataset
            canary = find_dataset(name, whole=False).canary
    return {"canary": canary} if canary else {}


def add_to_run(folder: Path, **facts: Any) -> None:
    """Add facts that are known only at the end, such as latency and cost, to `run.json`; equal keys are replaced."""
    add_facts(folder / RUN, facts)


def add_facts(file: Path, facts: Mapping[str, Any]) -> None:
    """Add facts to what `open_run` wrote."""
    write_text(file, json.dumps({**read_json(file), **facts}, indent=2) + "\n")


def installed_version(package: str) -> str | None:
    """Return the version of a package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
