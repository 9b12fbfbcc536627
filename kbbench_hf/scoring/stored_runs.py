"""Stored runs of several systems in a folder: results by system and config, and the runs left out.

Reports of testbeds use it, and `compare --across-revisions`. Runs on other data, splits or modes are never mixed: the
sentences of `left_out` say how many there are.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.benchmarks import TaskKey, at_hand, benchmark
from kbbench_hf.benchmarks.base import Benchmark, Result, ScoredConfig, Systems
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import Id, Row, read_json
from kbbench_hf.scoring.eval_task import RUN, system_name
from kbbench_hf.scoring.options import LogOptions
from kbbench_hf.scoring.result import PlainResult, UsedPrompt, read_result, stored_rows
from kbbench_hf.scoring.result import Result as ScoringResult
from kbbench_hf.scoring.score import score

OF_A_CONFIG = ("benchmark", "config", "split", "dataset_revision", "n_examples", "model", "prompt_sha256")
"""Settings that may differ between the runs of one system, or are its name; others make another system."""


@dataclass(frozen=True)
class StoredRuns:
    """The runs of one benchmark, split and mode, on the same data."""

    benchmark: Benchmark
    split: str
    mode: str
    revision: str
    systems: Systems
    """System -> config -> results; systems by name, configs in the benchmark's order."""
    left_out: Sequence[str] = field(default_factory=list)
    """Sentences on runs that are in the folder and not among these."""

    @property
    def warnings(self) -> list[ScoreWarning]:
        """The warnings of each system's results."""
        results = {name: {c: each.result for c, each in of.items()} for name, of in self.systems.items()}
        return [replace(each, system=name) for name, of in results.items() for each in warnings_together(of)]


def warnings_together(results: Mapping[str, Result]) -> list[ScoreWarning]:
    """Return the warnings of the results of several configs, one for each code, with its configs and their examples.

    Notes are left out.
    """
    by_code: dict[str, list[tuple[str, ScoreWarning]]] = {}
    for config, result in results.items():
        for plain in result.get("warnings", ()):
            if plain["severity"] == "warning":
                by_code.setdefault(plain["code"], []).append((config, ScoreWarning.of(plain)))
    together = []
    for code, each_of in by_code.items():
        touched = []
        for config, each in each_of:
            n = results[config]["counters"]["n_examples"]
            n += each.n_examples if code == "limit" else 0  # those that were not asked are no examples of the result
            touched.append(f"{config} ({each.n_examples:,} of {n:,})" if each.n_examples else config)
        words = code.replace("_", " ").capitalize()
        n_examples = sum(each.n_examples for _, each in each_of)
        together.append(ScoreWarning(code, f"{words}: {', '.join(touched)}.", each_of[0][1].remedy, n_examples))
    return together


class _Run(NamedTuple):
    folder: Path
    settings: Row
    started: str
    result: PlainResult


def read_runs(folder: Path, split: str | None = None, mode: str | None = None) -> StoredRuns:
    """Return the scored runs below a folder, of one benchmark, by system and config.

    Runs on other data than the installed ones, or else than the latest run's, on another split or in another mode are
    not mixed with them: they are counted in `left_out`, as are runs without a result, and all but the largest and
    latest of those that differ in nothing else. Models of one name with other settings are systems of their own.

    Args:
        folder: `kbbench-runs/NAME`, or any folder of run folders.
        split: the benchmark's usual one where None.
        mode: in which to score; that of the stored results where None.

    Raises:
        UsageError: no scored run, or runs of several benchmarks.
    """
    runs, unfinished = [], []
    for file in sorted(folder.rglob(RUN)):
        parsed = read_json(file)
        if not (file.parent / "result.json").is_file():
            unfinished.append(str(file.parent.relative_to(folder)))
            continue
        result = read_result(file.parent / "result.json")
        runs.append(_Run(file.parent, parsed.get("settings", {}), parsed.get("started", ""), result))
    if not runs:
        raise UsageError(
            f"{folder} holds no finished run; expected folders that 'kbbench run' wrote. Run a model first, or start "
            "the same run again to finish it."
        )
    names = sorted({run.result["benchmark"] for run in runs})
    if len(names) > 1:
        message = f"{folder} holds runs of {', '.join(names)}; expected those of one benchmark."
        raise UsageError(f"{message} Name a folder below it.")
    found_benchmark = benchmark(names[0])
    wanted = split or found_benchmark.data.default_split
    chosen, left_out = _select_comparable(found_benchmark, runs, wanted, mode)
    if unfinished:
        left_out.append(f"Without a result, start them again to finish them: {', '.join(unfinished)}.")
    systems: dict[str, dict[str, ScoredConfig]] = {}
    groups: dict[tuple[str, str], list[_Run]] = {}
    for label, run in zip(_labels(chosen), chosen, strict=True):
        groups.setdefault((label, run.result["config"]), []).append(run)
    for (system, config), same in groups.items():
        run = max(same, key=lambda each: (each.result["counters"]["n_examples"], each.started))
        if len(same) > 1:
            left_out.append(f"{system} ran {config} {len(same)} times; shown is {run.folder.name}.")
        systems.setdefault(system, {})[config] = _load_scores(run, mode)
    order = {config: position for position, config in enumerate(found_benchmark.data.configs)}
    in_order = {
        system: dict(sorted(systems[system].items(), key=lambda each: order.get(each[0], len(order))))
        for system in sorted(systems)
    }
    first = chosen[0].result
    return StoredRuns(found_benchmark, wanted, mode or first["mode"], first["dataset_revision"], in_order, left_out)


def results_across_revisions(systems: Sequence[tuple[str, object]], options: LogOptions) -> list[ScoringResult]:
    """Return the stored scores of runs on different revisions of the data as results; a warning has their sizes.

    `systems` are (name, run folder); questions are matched by id.

    Raises:
        UsageError: a folder without a finished run, or runs of another config, split or mode.
    """
    folders = [Path(str(given)) for _, given in systems]
    for folder in folders:
        if not all((folder / name).is_file() for name in (RUN, "result.json", "scores.jsonl")):
            message = f"{folder} is not the folder of a finished run; expected what 'kbbench run' wrote."
            raise UsageError(f"{message} Name it.")
    from kbbench_hf.scoring.score_logs import results_of_logs

    runs = [read_json(folder / RUN) for folder in folders]
    stored = [read_result(folder / "result.json") for folder in folders]
    place, definition = TaskKey(*(stored[0][key] for key in TaskKey._fields)), benchmark(stored[0]["benchmark"])  # type: ignore[literal-required]
    if other := next((each for each in stored if (each["config"], each["split"], each["mode"]) != place[1:]), None):
        raise UsageError(
            f"The runs are of {place} and {other['benchmark']}/{other['config']}/{other['split']}/{other['mode']}; "
            "expected one config, split and mode. Run them alike."
        )
    if definition.scoring.group_by:
        raise UsageError(f"The scores of {place} are means over groups; expected means over examples. Leave it out.")
    metrics = [metric for metric in definition.metrics if all(metric in each["scores"] for each in stored)]
    files = [(name, folder / "scores.jsonl") for (name, _), folder in zip(systems, folders, strict=True)]
    results = results_of_logs(files, replace(options, value=options.value or metrics, across_revisions=False))
    sizes = [
        f"{name}: {each['benchmark']} {each['dataset_revision'][:8]}"
        + "".join(f", {n:,} {table}" for table, n in run.get("tables", {}).items() if table != "schema")
        for (name, _), each, run in zip(systems, stored, runs, strict=True)
    ]
    message = f"The runs are on different revisions of the data ({'; '.join(sizes)}). The difference includes theirs."
    warning = ScoreWarning("revisions", message, "For systems alone, run both on one revision.")
    differ = [warning] if len({(each["benchmark"], each["dataset_revision"]) for each in stored}) > 1 else []
    return [
        replace(
            result,
            **place._asdict(),
            versions={"format": "stored scores"},
            log=result.log and replace(result.log, benchmark=definition),
            warnings=[*differ[number:], *(each for each in result.warnings if each.code != "direction")],
            prompt=UsedPrompt.of_run(run["settings"]),
        )
        for number, (result, run) in enumerate(zip(results, runs, strict=True))
    ]


def _select_comparable(
    of: Benchmark, runs: Sequence[_Run], split: str, mode: str | None
) -> tuple[list[_Run], list[str]]:
    """Return the runs of a split in one mode on the same data, and sentences on the others.

    Without a `mode`, it is the benchmark's first one if a run has it, else the most frequent. The data are the
    installed ones if a run has them, else the latest run's.

    Raises:
        UsageError: no run is of the split.
    """
    in_split = [run for run in runs if run.result["split"] == split]
    if not in_split:
        there = ", ".join(sorted({run.result["split"] for run in runs}))
        raise UsageError(f"No run of the split {split!r}; these are of {there}. Name one with --split.")
    modes = Counter(run.result["mode"] for run in in_split)
    usual = mode or max(modes, key=lambda each: (each == of.scoring.modes[0], modes[each]))
    in_mode = in_split if mode else [run for run in in_split if run.result["mode"] == usual]
    data = at_hand(of.dataset)
    revisions = {run.result["dataset_revision"] for run in in_mode}
    latest = max(in_mode, key=lambda run: run.started).result["dataset_revision"]
    revision = data.revision if data and data.revision in revisions else latest
    chosen = [run for run in in_mode if run.result["dataset_revision"] == revision]
    counts = {
        f"on another split than {split}": len(runs) - len(in_split),
        f"scored in another mode than {usual} (--mode scores them again)": len(in_split) - len(in_mode),
        f"on other data than {revision[:8]}": len(in_mode) - len(chosen),
    }
    return chosen, [f"Not shown: {n:,} runs {words}." for words, n in counts.items() if n]


def _labels(runs: Sequence[_Run]) -> list[str]:
    """Return each run's system: its model, with the settings in which the runs of that model differ."""
    settings = [dict(_flatten({k: v for k, v in run.settings.items() if k not in OF_A_CONFIG})) for run in runs]
    models = [system_name(run.settings) or run.folder.name for run in runs]
    labels = []
    for model, own in zip(models, settings, strict=True):
        of_model = [each for name, each in zip(models, settings, strict=True) if name == model]
        differing = [key for key in own if any(each.get(key) != own[key] for each in of_model)]
        words = ", ".join(f"{key} {own[key]}" for key in differing)
        labels.append(f"{model} ({words})" if words else model)
    return labels


def _flatten(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the settings with those of nested objects, by their last key."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flatten(value)
        else:
            yield key, value


def _load_scores(run: _Run, mode: str | None) -> ScoredConfig:
    """Return a run's result and the values of its examples; scored again if another mode is wanted."""
    if mode is None or mode == run.result["mode"]:
        return ScoredConfig(run.result, _by_metric(stored_rows(run.folder / "scores.jsonl")))
    result = score(run.folder, mode=mode)
    return ScoredConfig(result.to_dict(), _by_metric(json.loads(line) for line in result.example_lines()))


def _by_metric(lines: Iterable[Row]) -> dict[str, dict[Id, float]]:
    """Return metric -> example -> value from the lines of `scores.jsonl`; unscored examples are left out."""
    values: dict[str, dict[Id, float]] = {}
    for line in lines:
        for metric, value in line.items():
            if metric != "id" and value is not None:
                values.setdefault(metric, {})[line["id"]] = value
    return values
