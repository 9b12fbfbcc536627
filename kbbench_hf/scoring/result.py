"""Predictions, the result of scoring them, and the files that store results.

Scoring makes them; comparisons, pages and boards read them. The keys of `result.json` and `scores.jsonl`, and
`Predictions.sha256`, are stored formats: results of earlier versions must stay readable and equal.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks import TaskKey, benchmark
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.warnings import PlainWarning, ScoreWarning
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Id, Row, read_json
from kbbench_hf.files.writing import write_text
from kbbench_hf.metrics.aggregate import Estimate

if TYPE_CHECKING:
    import pandas


ANNOTATIONS = "annotations:"
"""Prefix of the keys of `versions` with the identity of a kind of annotation."""
AGREEMENT = "agreement:"
"""Prefix of the keys of `versions` with a judge's agreement with released verdicts of a kind."""


def annotations_of(versions: Mapping[str, str]) -> dict[str, str]:
    """Return kind of annotation -> its identity as JSON text, from a result's `versions`.

    >>> annotations_of({"numpy": "2.0", "annotations:factualness": '{"judge": "surface"}'})
    {'factualness': '{"judge": "surface"}'}
    """
    return {name.removeprefix(ANNOTATIONS): made for name, made in versions.items() if name.startswith(ANNOTATIONS)}


class PlainScore(TypedDict):
    """A score as `result.json` has it: null if nothing was scored."""

    value: float | None
    ci95: list[float | None]
    n_scored: int
    n_unscored: int
    n_missing: int


NamedScores = dict[str, dict[str, PlainScore]]
"""Key of a slice, or name of a config -> metric -> score."""


class PlainResult(TypedDict):
    """The content of `result.json`."""

    benchmark: str
    config: str
    split: str
    mode: str
    dataset_revision: str
    scores: dict[str, PlainScore]
    slices: dict[str, NamedScores]
    counters: dict[str, int]
    versions: dict[str, str]
    predictions_sha256: str
    warnings: NotRequired[list[PlainWarning]]
    repeats: NotRequired[dict[str, list[float | None]]]


BEGINNING = 20
"""Items of an answer that `Predictions.digests` compare."""


@dataclass(frozen=True)
class Predictions:
    """The parsed answer to each example."""

    answers: list[Answer | None]
    """In the order of the examples; None if it is missing, empty if the response has none."""
    parse_failures: list[Id] = field(default_factory=list)
    """Ids whose response held no answer: scored as an empty answer, and counted."""
    n_duplicates: int = 0
    n_errors: int = 0
    """Number of lines with an `error`: the model was not reached or gave no answer; their answers are missing."""
    notes: list[ScoreWarning] = field(default_factory=list)
    """Notes on conversions while reading, and on the files."""
    gold_column: str = ""
    """The column that the user named for them, if its name is that of a gold column; else empty."""
    with_texts: bool = False
    """Whether lines that equal the gold also have a text of their example, or other answers."""

    @property
    def n_missing(self) -> int:
        """Number of examples without a prediction."""
        return sum(answer is None for answer in self.answers)

    def digests(self) -> list[int]:
        """Return a hash of the first items of each answer; 0 if it is missing or empty."""
        return [zlib.crc32(repr(answer[:BEGINNING]).encode()) if answer else 0 for answer in self.answers]

    def sha256(self, examples: Examples, field_name: str) -> str:
        """Return a hash of the answers themselves, independent of files, line order and spelling of the JSON."""
        digest = hashlib.sha256()
        for example_id, answer in zip(examples.ids, self.answers, strict=True):
            if answer is not None:
                line = json.dumps({"id": example_id, field_name: answer}, sort_keys=True, ensure_ascii=False)
                digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()


class UsedPrompt(NamedTuple):
    """The prompt of a run: of what (a re-ranker, an agent with these limits), its name, and the hash of its words."""

    of: str
    name: str
    sha256: str

    @classmethod
    def of_run(cls, settings: Mapping[str, Any]) -> "UsedPrompt | None":
        """Return the prompt of a run by its settings; None where no prompt was sent.

        >>> UsedPrompt.of_run({"model": "m", "prompt": "clean", "prompt_sha256": "1b"})
        UsedPrompt(of='', name='clean', sha256='1b')
        """
        if "contract_sha256" in settings:
            limits = [str(settings.get(name)) for name in ("protocol", "max_steps", "calls_a_step")]
            return cls(f"agent {' '.join(limits)}", "agent", settings["contract_sha256"])
        name, sha256 = settings.get("wording", settings.get("prompt")), settings.get("prompt_sha256", "")
        if "wording" in settings and name == "clean" and not sha256:
            name = "clean-1"  # runs of earlier versions recorded no hash of a re-ranking prompt
        return cls("re-ranking" if "wording" in settings else "", name, sha256) if name else None

    def differs(self, other: "UsedPrompt") -> bool:
        """Return whether the wording differs; prompts of different kinds (`of`) are not compared."""
        known = self.sha256 and other.sha256
        return self.of == other.of and (self.sha256 != other.sha256 if known else self.name != other.name)


@dataclass(frozen=True, eq=False)
class ScoreLog:
    """The part of a result that comes from a log of another harness, in place of a benchmark."""

    name: str
    """The system's name."""
    benchmark: Benchmark
    """The metrics of the logs that are compared, with their directions."""
    rows: Sequence[Row]
    """The id, question and gold of each example, for pages; None if the log does not have them."""
    outputs: Sequence[str | None]
    """The system's output for each example; None if the log does not have it."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The scores of one set of predictions, with everything needed to reproduce them."""

    benchmark: str
    config: str
    split: str
    mode: str
    dataset_revision: str
    scores: Mapping[str, Estimate]
    slices: Mapping[str, Mapping[str, Mapping[str, Estimate]]]
    counters: Mapping[str, int]
    versions: Mapping[str, str]
    predictions_sha256: str
    ids: list[Id]
    """The id of each example."""
    values: Mapping[str, NDArray[np.float64]]
    """One value per example and metric, NaN where not scored."""
    compared: Mapping[str, NDArray[np.float64]]
    """The values for paired tests: as `values`, with the lowest possible value where one is open; for a metric with
    several draws (of seeds, for example) one row per draw, shape (draws, examples)."""
    example_slices: Mapping[str, list[str]]
    """Slice name -> the key of each example."""
    group_by: str | None
    """The slice over whose keys the scores are averaged; None for plain means."""
    repeats: Mapping[str, list[float]] = field(default_factory=dict)
    """Metric -> its score in every repeat, the first being this result's; empty without repeats."""
    warnings: list[ScoreWarning] = field(default_factory=list)
    """Warnings and notes on the scores."""
    answered: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Whether each example has a prediction."""
    digests: list[int] = field(default_factory=list)
    """A number for each answer (`Predictions.digests`); empty where the answers are not available."""
    made_on: str = ""
    """The dataset revision of the run; empty if unknown."""
    texts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Retriever -> the rendering and fields of the texts that it read; empty if unknown."""
    prompt: "UsedPrompt | None" = None
    """The prompt of the run; None if unknown."""
    folder: Path | None = None
    """The run's folder, if a run was scored."""
    averaged: "Result | None" = None
    """Of a run with repeats: the result of each example's mean over all repeats, with which systems are compared."""

    log: ScoreLog | None = None
    """The log from which the scores are; None for those of a benchmark."""
    clusters: list[str] | None = None
    """The cluster of each example; None where examples are independent."""

    @property
    def definition(self) -> Benchmark:
        """The benchmark, with its metrics and their directions."""
        return self.log.benchmark if self.log else benchmark(self.benchmark)

    @property
    def task_key(self) -> TaskKey:
        """What was scored: benchmark, config, split and mode."""
        return TaskKey(self.benchmark, self.config, self.split, self.mode)

    @property
    def groups(self) -> list[str] | None:
        """The key of each example in the slice over which scores are averaged; None for plain means."""
        return self.example_slices.get(self.group_by) if self.group_by else None

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same scores of the same predictions, whatever versions made them."""
        if not isinstance(other, Result):
            return NotImplemented
        return self._compared_as() == other._compared_as()

    def __hash__(self) -> int:
        """Return a hash of the task and the predictions."""
        return hash((self.task_key, self.predictions_sha256))

    def __repr__(self) -> str:
        """Return the task, with the first scores and their intervals."""
        scored = [(name, estimate) for name, estimate in self.scores.items() if estimate.n_scored][:4]
        figures = [f"{name} {f.value:.4f} [{f.ci95[0]:.3f}, {f.ci95[1]:.3f}]" for name, f in scored]
        counts = [f"{len(self.ids):,} examples"]
        if self.counters["n_missing"]:
            counts.append(f"{self.counters['n_missing']:,} missing")
        return f"<Result {self.task_key}: {', '.join([*(figures or ['nothing scored']), *counts])}>"

    def to_pandas(self) -> "pandas.DataFrame":
        """Return one row per example: its id, every metric (NaN where not scored), and the key of each slice."""
        import pandas

        return pandas.DataFrame({"id": self.ids, **self.values, **self.example_slices})

    def _compared_as(self) -> tuple[object, ...]:
        plain = {name: value for name, value in self.to_dict().items() if name != "versions"}
        return plain, list(self.example_lines())

    def to_dict(self) -> PlainResult:
        """Return the content of `result.json`: plain numbers at full precision, null if nothing was scored."""
        own = {name: getattr(self, name) for name in PlainResult.__annotations__ if name not in ("warnings", "repeats")}
        slices = {
            name: {key: _scores_to_dict(each) for key, each in keys.items()} for name, keys in self.slices.items()
        }
        plain = cast(PlainResult, {**own, "scores": _scores_to_dict(self.scores), "slices": slices})
        plain["warnings"] = [warning.to_dict() for warning in self.warnings]
        if self.repeats:
            plain["repeats"] = {name: list(map(finite, each)) for name, each in self.repeats.items()}
        return plain

    def example_lines(self) -> Iterable[str]:
        """Yield the lines of `scores.jsonl` without line ends: one object per example with every metric."""
        for row, example_id in enumerate(self.ids):
            values = {metric: finite(column[row]) for metric, column in self.values.items()}
            yield json.dumps({"id": example_id, **values}, ensure_ascii=False)


def read_result(file: Path) -> PlainResult:
    """Return the content of a `result.json`.

    Raises:
        DataError: the file was cut off or altered since, or is not a result.
    """
    parsed = read_json(file)
    if absent := PlainResult.__required_keys__ - parsed.keys():
        raise DataError(
            f"{file} is not a kbbench result: it lacks {', '.join(sorted(absent))}. Expected what 'kbbench score "
            "--out' or 'kbbench run' wrote. Score the predictions again."
        )
    return cast(PlainResult, parsed)


def stored_rows(file: Path) -> list[Row]:
    """Return the rows of a JSON Lines file of a run's folder; empty if there is no such file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def write_result(result: Result, folder: Path) -> None:
    """Write `scores.jsonl` (one line per example) and then `result.json` into a folder, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "scores.jsonl", "".join(f"{line}\n" for line in result.example_lines()))
    write_text(folder / "result.json", json.dumps(result.to_dict(), indent=2) + "\n")


def _scores_to_dict(scores: Mapping[str, Estimate]) -> dict[str, PlainScore]:
    return {
        metric: cast(PlainScore, {**f._asdict(), "value": finite(f.value), "ci95": [finite(end) for end in f.ci95]})
        for metric, f in scores.items()
    }


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None for NaN and infinities."""
    return float(value) if math.isfinite(value) else None
