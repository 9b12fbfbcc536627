"""Submissions: bounded reading, validation, scoring, storing, quotas; seeding with our own runs, and rescoring."""

import json
import math
import os
import re
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kbbench_hf.benchmarks import TaskKey, at_hand, benchmark, importable_names, shipped_answers, shipped_runs
from kbbench_hf.benchmarks.annotations import COLUMNS, KINDS, METADATA_KEY, Identity, write_annotation
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.baselines import published_answers, published_rows
from kbbench_hf.benchmarks.judge_agreement import JudgeAgreement
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import BusyError, DataError, KBBenchError, UsageError
from kbbench_hf.files.datasets import Id, Row, read_json
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.owners import vouched_by
from kbbench_hf.leaderboard.store import GoldLikeness, Receipt, Store, System, gold_likeness
from kbbench_hf.scoring.eval_task import RUN, EvalTask, load_examples, resolve_task, run_settings
from kbbench_hf.scoring.predictions import Predictions, ReadOptions, read_predictions
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import add_annotations, find_annotations, score_predictions
from kbbench_hf.scoring.warnings import stored_warnings

MAX_UPLOAD_BYTES = 50_000_000
MAX_EXPANDED_BYTES = 64_000_000
MAX_ITEMS = 1_000
"""So many ids, triples or answers one example may have: more is no answer, and costs memory to read."""
MAX_NAME = 80
MAX_NOTES = 500
_PUNCTUATION = set(" .,+:/@()-_")
_INVISIBLE = {
    *map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
}
"""Letters and marks that show nothing."""
_SECRET = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_\-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}|xox[abp]-[\w\-]{10,})"
)


@dataclass(frozen=True)
class Preview:
    """A submission that was read and scored but not stored; small, and can be sent from process to process."""

    predictions: Predictions
    result: Result
    gold: GoldLikeness
    """How many of the answers are exactly the gold."""
    annotations: Mapping[str, bytes] = field(default_factory=dict)
    """The files with which it was scored, by name."""

    @property
    def benchmark(self) -> Benchmark:
        """What it answers."""
        return benchmark(self.result.benchmark)


def preview(file: Path, dataset: str, annotations: Sequence[Path] = (), mode: str | None = None) -> Preview:
    """Read and score an uploaded predictions file as `preview_of` does, against the examples of a dataset.

    Raises:
        KBBenchError: what `preview_of` and `load_examples` raise.
    """
    return preview_of(load_examples(dataset, mode=mode), file, annotations)


def preview_of(
    task: EvalTask, file: Path, annotations: Sequence[Path] = (), of_run: Sequence[ScoreWarning] = ()
) -> Preview:
    """Read and score an uploaded predictions file, with the annotations made of it; nothing is stored.

    `of_run` holds the warnings of the run that wrote the file, if they are known.

    Raises:
        PredictionsError: every problem of the file, with lines, and how to mend it.
        DataError: the file is too large, or is no JSON Lines file; a file of the annotations is none.
        UsageError: annotations for a benchmark that is scored without any.
    """
    if not file.name.endswith((".jsonl", ".jsonl.gz")):
        raise DataError(
            f"{file.name[-40:]!r} is not a .jsonl or .jsonl.gz file; nothing else is read here. "
            "Write one with: kbbench validate FILE --benchmark NAME --out answers.jsonl"
        )
    if (size := file.stat().st_size) > MAX_UPLOAD_BYTES:
        raise DataError(
            f"The file has {size:,} bytes; at most {MAX_UPLOAD_BYTES:,} are accepted. Compress it with gzip."
        )
    benchmark, examples, *_ = task
    options = ReadOptions(partial=False, max_bytes=MAX_EXPANDED_BYTES)
    strict = replace(benchmark, scoring=replace(benchmark.scoring, check=partial(_check, benchmark)))
    predictions = read_predictions([file], strict, examples, options)
    if not annotations:
        return previewed(benchmark, examples, predictions, score_predictions(task, predictions, of_run))
    if benchmark.scoring.annotations is None:
        raise UsageError(f"{task.task_key.benchmark} is scored without annotations; expected none. Leave them out.")
    with TemporaryDirectory() as folder:
        checked_annotations(annotations, Path(folder))
        try:
            result = score_predictions(add_annotations(task, Path(folder)), predictions, of_run)
        except (ValueError, TypeError, LookupError) as error:  # a stranger's columns may contradict each other
            raise DataError(
                f"The annotations do not fit together ({error}); expected the files of one folder that "
                "'kbbench annotate' wrote. Send them as they are."
            ) from error
        contents = {each.name: each.read_bytes() for each in Path(folder).iterdir()}
    return previewed(benchmark, examples, predictions, result, contents)


def previewed(
    benchmark: Benchmark,
    examples: Examples,
    predictions: Predictions,
    result: Result,
    annotations: Mapping[str, bytes] | None = None,
) -> Preview:
    """Return a submission that was scored, with how much of it is the gold."""
    gold = gold_likeness(benchmark, examples, predictions.answers, result)
    return Preview(predictions, result, gold, annotations or {})


def _check(benchmark: Benchmark, examples: Examples, example_id: Id, answer: Answer) -> str | None:
    """Return the benchmark's problem with a stranger's answer, or that it cannot be written as text.

    Raises:
        DataError: at the first answer with too many items, because the next may be as large.
    """
    if len(answer) > MAX_ITEMS:
        raise DataError(
            f"{example_id!r} has {len(answer):,} {benchmark.scoring.answer.field}; at most {MAX_ITEMS:,} are read. "
            "Keep the best."
        )
    try:
        json.dumps(answer, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return f"the answer to {example_id!r} holds half of a character (a lone surrogate)"
    return benchmark.scoring.check(examples, example_id, answer)


def store_preview(
    store: Store,
    read: Preview,
    system: System,
    submitter: str,
    origin: str = "submitted",
    organisations: Sequence[str] = (),
    figures_only: bool = False,
) -> Receipt:
    """Store a scored submission under a submitter's name; a new description of the system replaces the old one.

    With `figures_only` neither predictions nor annotations are kept.

    The organisations are those that have the submitter as a member, as the login provider says: they vouch for names
    that stand under theirs, `acme/KOTO`.

    Raises:
        DataError: what the submitter says of the system cannot be shown; the message says why.
    """
    if not submitter:
        raise DataError("You are not logged in; a submission needs a user name. Log in and submit again.")
    rows = (
        {"id": example_id, read.benchmark.scoring.answer.field: answer}
        for example_id, answer in zip(read.result.ids, read.predictions.answers, strict=True)
        if answer is not None
    )
    checked = checked_system(system)
    vouched = vouched_by(checked.name, submitter, organisations)
    kept, annotations = (None, {}) if figures_only else (rows, read.annotations)
    receipt = store.add(read.result, kept, checked, submitter, origin, annotations, vouched, read.gold)
    if receipt.existed and store.latest_system(receipt.id) != checked:
        store.edit(receipt.id, checked, submitter)
        return replace(receipt, edited=True)
    return receipt


def checked_system(system: System) -> System:
    """Return a system's description in the form that is stored: normalised text, finite numbers.

    Raises:
        DataError: a name with unusual characters, a link that is not https, a secret, a number out of range.

    >>> checked_system(System(name="  My  model ")).name
    'My model'
    """
    text: Row = {key: _clean(value) for key, value in vars(system).items() if isinstance(value, str)}
    if secret := next((key for key, value in text.items() if _SECRET.search(value)), None):
        raise DataError(f"{secret!r} holds what looks like a secret token; it was not stored. Revoke it and remove it.")
    if not _can_be_name(text["name"]):
        raise DataError(
            f"{system.name[:MAX_NAME]!r} cannot be a system's name; expected 1 to {MAX_NAME} letters, digits and "
            ". , + : / @ ( ) - _, beginning with a letter or digit. Choose another name."
        )
    if text["link"] and not re.fullmatch(r"https://[\w.\-]+(?:/[\w.\-~/%?=&#+:@]*)?", text["link"]):
        raise DataError(
            f"{text['link'][:MAX_NAME]!r} cannot be a link; expected an https address. Correct it or leave it out."
        )
    if len(text["licence"]) > MAX_NAME or len(text["notes"]) > MAX_NOTES:
        raise DataError(f"License or notes are too long; at most {MAX_NAME} and {MAX_NOTES} characters. Shorten them.")
    for key, value in vars(system).items():
        if isinstance(value, int | float) and not (math.isfinite(value) and 0 <= value < 1e6):
            raise DataError(f"{key} is {value!r}; expected a number from 0 to 1,000,000. Correct it or leave it out.")
    return replace(system, **text)


def _can_be_name(name: str) -> bool:
    """Say whether a name has letters, digits and their marks, not four on one, and little else."""
    kinds = [unicodedata.category(each)[0] for each in name]
    too_marked = "MMMM" in "".join(kinds)
    plain = all(kind in "LNM" or each in _PUNCTUATION for each, kind in zip(name, kinds, strict=True))
    return 0 < len(name) <= MAX_NAME and kinds[0] in "LN" and plain and not too_marked and not _INVISIBLE & {*name}


def _clean(text: str) -> str:
    """Return text without control, formatting and look-alike characters: NFKC, one space at a time."""
    normal = unicodedata.normalize("NFKC", text)
    visible = "".join(each for each in normal if each.isspace() or unicodedata.category(each)[0] != "C")
    return " ".join(visible.split())


PER_USER = 50
IN_TOTAL = 2_000
DAY = timedelta(days=1)


class Quotas:
    """Counts what users stored and changed within a day; by account, whatever the names of their systems.

    What was stored is counted from the store, so neither a restart nor withdrawing gives anything back. Changes of
    one's rows are counted since the start.
    """

    def __init__(self, index: Index, per_user: int | None = None, in_total: int | None = None) -> None:
        self.index = index
        self.per_user = per_user or int(os.environ.get("KBBENCH_PER_USER_AND_DAY", PER_USER))
        self.in_total = in_total or int(os.environ.get("KBBENCH_PER_DAY", IN_TOTAL))
        self._under_way: Counter[str] = Counter()
        self._changes: list[tuple[float, str]] = []
        self._lock = threading.Lock()

    @contextmanager
    def storing(self, user: str) -> Iterator[None]:
        """Keep a place for what is stored meanwhile.

        Raises:
            BusyError: the user, or all users together, stored as much as they may in a day.
        """
        key = user.casefold()
        with self._lock:
            self.index.update()
            since = (datetime.now(UTC) - DAY).isoformat(timespec="microseconds")
            theirs, all_of_them = self.index.n_stored(user, since)
            self._refuse(theirs + self._under_way[key], all_of_them + self._under_way.total(), user, "submissions")
            self._under_way[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way[key] -= 1

    def changing(self, user: str, now: Callable[[], float] = time.monotonic) -> None:
        """Count a change of one's own rows.

        Raises:
            BusyError: the user made as many as they may in a day.
        """
        key = user.casefold()
        with self._lock:
            self._changes = [each for each in self._changes if each[0] > now() - DAY.total_seconds()]
            n_theirs = sum(who == key for _, who in self._changes)
            self._refuse(n_theirs, len(self._changes), user, "changes")
            self._changes.append((now(), key))

    def _refuse(self, theirs: int, all_of_them: int, user: str, what: str) -> None:
        if theirs >= self.per_user:
            raise BusyError(
                f"{user} made {theirs:,} {what} within a day; at most {self.per_user:,} are taken. Try again tomorrow."
            )
        if all_of_them >= self.in_total:
            raise BusyError(
                f"{all_of_them:,} {what} were made here within a day; no more are taken. Try again tomorrow."
            )


MAX_FILE_BYTES = 64_000_000
"""Of one file, and of what it unpacks to before texts are repeated."""
MAX_TEXT_BYTES = 256_000_000
MAX_ROWS = 1_000_000
MAX_IDENTITY = 10_000
"""Characters of what an annotation says that it was made with."""


def checked_annotations(files: Sequence[Path], folder: Path) -> None:
    """Write the annotations of uploaded files into a folder, as `write_annotation` writes them.

    Which kind a file is, it says itself; its name does not matter.

    Raises:
        DataError: a file that is no annotation, is too large, or holds what no annotation does; the message names it.
    """
    seen: set[str] = set()
    for file in files:
        try:
            kind, identity, table = _read(file)
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{file.name[-40:]!r} cannot be read as an annotation ({type(error).__name__}); expected a .parquet "
                "file that 'kbbench annotate' wrote. Send the files of the annotations' folder as they are."
            ) from error
        if kind in seen:
            raise DataError(f"Two files hold {kind}; expected one of each kind. Send those of one folder.")
        seen.add(kind)
        write_annotation(folder, kind, identity, table)


def _read(file: Path) -> tuple[str, Identity, pa.Table]:
    size = file.stat().st_size
    if size > MAX_FILE_BYTES:
        raise DataError(
            f"{file.name[-40:]!r} has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read of an annotation."
        )
    plain = pq.ParquetFile(file)
    unpacked = sum(plain.metadata.row_group(n).total_byte_size for n in range(plain.metadata.num_row_groups))
    if unpacked > MAX_FILE_BYTES or plain.metadata.num_rows > MAX_ROWS:
        raise DataError(f"{file.name[-40:]!r} unpacks to more than {MAX_FILE_BYTES:,} bytes or {MAX_ROWS:,} rows.")
    kind, identity = _identity(plain.schema_arrow.metadata or {})
    if kind not in KINDS:
        raise DataError(f"{file.name[-40:]!r} is of kind {kind[:40]!r}; expected one of {', '.join(KINDS)}.")
    if missing := [name for name in COLUMNS[kind] if name not in plain.schema_arrow.names]:
        raise DataError(f"{kind} have no column {missing[0]!r}; expected {', '.join(COLUMNS[kind])}.")
    texts = [name for name, form in COLUMNS[kind].items() if form == "text"]
    # a text that is repeated a million times is one text as long as it stays in its dictionary
    table = pq.read_table(file, columns=list(COLUMNS[kind]), read_dictionary=texts, use_threads=False)
    _check_columns(kind, table)
    plain = [(each.name, pa.string() if each.name in texts else each.type) for each in table.schema]
    return kind, identity, table.cast(pa.schema(plain))


def _identity(metadata: dict[bytes, bytes]) -> tuple[str, Identity]:
    text = metadata.get(METADATA_KEY, b"{}")
    if len(text) > MAX_IDENTITY:
        raise DataError(
            f"The metadata of an annotation has {len(text):,} characters; expected at most {MAX_IDENTITY:,}."
        )
    identity = json.loads(text)
    kind = str(identity.pop("kind", "nothing"))
    for name, value in identity.items():
        if name.endswith("_threshold") and not -1 <= float(value) <= 1:
            raise DataError(f"{name} is {value!r}; expected a cosine.")
    if agreement := identity.get("agreement"):
        str(JudgeAgreement.of(agreement))
    needed = {"embeddings": ("completeness_threshold", "uniqueness_threshold"), "cosines": ("completeness_threshold",)}
    if missing := next((name for name in needed.get(kind, ()) if name not in identity), None):
        raise DataError(f"{kind} name no {missing}; expected the cosine that they were made for.")
    return kind, identity


def _check_columns(kind: str, table: pa.Table) -> None:
    expanded = 0
    for name, form in COLUMNS[kind].items():
        column = table[name]
        if not _FORMS[form](column.type):
            raise DataError(f"{kind}'s column {name!r} holds {column.type}; expected {form}.")
        if form == "text":
            for texts in column.chunks:  # their bytes where each is written out
                expanded += pc.sum(pc.take(pc.binary_length(texts.dictionary), texts.indices)).as_py() or 0
        elif not _finite(column):
            raise DataError(f"{kind}'s column {name!r} has a value that is not a finite number.")
    if expanded > MAX_TEXT_BYTES:
        raise DataError(f"{kind} hold {expanded:,} bytes of text; at most {MAX_TEXT_BYTES:,} are read.")


def _finite(column: pa.ChunkedArray) -> bool:
    while pa.types.is_fixed_size_list(column.type):
        if column.null_count:
            return False
        column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
    return pc.all(pc.is_finite(column.cast(pa.float64())), min_count=0).as_py() is not False


def _is_vector(kind: pa.DataType) -> bool:
    width = 1
    while pa.types.is_fixed_size_list(kind):
        width, kind = width * kind.list_size, kind.value_type
    return 1 <= width <= MAX_IDENTITY and math.isfinite(width) and bool(pa.types.is_floating(kind))


_FORMS: dict[str, Callable[[pa.DataType], bool]] = {
    "text": lambda kind: bool(pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)),
    "number": lambda kind: bool(pa.types.is_floating(kind) or pa.types.is_integer(kind)),
    "vector": _is_vector,
}


class Seed(NamedTuple):
    """Answers of a system, and what is known of it."""

    task_key: TaskKey
    file: Path
    system: System
    origin: str
    """`own`, or `released` by others."""
    figures_only: bool = False
    """Whether nothing but figures may be kept: who released the answers states no licence."""
    options: ReadOptions = ReadOptions()


def shipped_seeds() -> Iterator[Seed]:
    """Yield the answers that packages carry with their small datasets: our own runs."""
    for dataset in importable_names():
        bench = benchmark(dataset)
        place = TaskKey(dataset, bench.data.configs[0], bench.data.default_split, bench.scoring.modes[0])
        yield from (Seed(place, file, System(file.stem), "own") for file in shipped_answers(dataset))


def model_seeds() -> Iterator[Seed]:
    """Yield the runs of small language models that packages carry, on the installed datasets."""
    for dataset in filter(at_hand, importable_names()):
        for folder in shipped_runs(dataset):
            yield run_seed(folder, folder.name)


def released_seeds() -> Iterator[Seed]:
    """Yield the answers of published systems that the datasets built here bring with them, each with its source."""
    for dataset in importable_names():
        folder, bench = at_hand(dataset), benchmark(dataset)
        if folder is None or folder.path == bench.data.shipped:
            continue
        for config in bench.data.configs:
            for split in bench.data.splits:
                task_key = TaskKey(dataset, config, split, bench.scoring.modes[0])
                for system, file in published_answers(task_key).items():
                    yield Seed(task_key, file, _released(system, task_key), "released", not bench.facts.redistributable)


def run_seed(folder: Path, name: str | None = None) -> Seed:
    """Return a run of one's own, with how long it took and what it cost where that is known.

    Raises:
        UsageError: the folder is no run's, or of some examples only.
    """
    if not (folder / RUN).is_file():
        raise UsageError(f"{folder} holds no {RUN}; expected a run's folder. Check the path.")
    task, run = resolve_task([folder]), read_json(folder / RUN)
    if task.n_available != len(task.examples.rows):
        raise UsageError(
            f"{folder} is a partial run ({len(task.examples.rows):,} of {task.n_available:,} examples); the "
            "leaderboard needs all. Run it without --limit."
        )
    return Seed(task.task_key, folder / "predictions.jsonl", _of_run(run, name), "own")


def sow(store: Store, seeds: Iterable[Seed], submitter: str) -> Iterator[tuple[Seed, Receipt]]:
    """Score and store seeds one after the other, and yield what became of each; the same seed again is one row.

    Raises:
        PredictionsError: a file cannot be read as answers to its place; seeds before it are stored.
    """
    load = lru_cache(maxsize=1)(load_examples)
    for seed in seeds:
        read = _scored(load(*seed.task_key), seed)
        yield (
            seed,
            store_preview(store, read, seed.system, submitter, origin=seed.origin, figures_only=seed.figures_only),
        )


def _scored(task: EvalTask, seed: Seed) -> Preview:
    predictions = read_predictions([seed.file], task.benchmark, task.examples, seed.options)
    folder = find_annotations(seed.file)
    annotations = {file.name: file.read_bytes() for file in sorted(folder.glob("*.parquet"))} if folder else {}
    of_run = stored_warnings(run_settings([seed.file]).get("warnings", []))
    result = score_predictions(add_annotations(task, folder), predictions, of_run)
    return previewed(task.benchmark, task.examples, predictions, result, annotations)


def _released(name: str, task_key: TaskKey) -> System:
    """Return what is known of a published system: where its answers and figures are from, and under which licence."""
    bench = benchmark(task_key.benchmark)
    rows = [row for mode in bench.scoring.modes for row in published_rows(*task_key[:3], mode) if row.system == name]
    sources = [source for row in rows for source in row.sources if source.kind in ("released", "recomputed")]
    link = sources[0].url if sources else bench.facts.homepage or bench.facts.paper
    notes = f"Released answers, scored here. {sources[0]}" if sources else "Released answers, scored here."
    licence = bench.facts.license if bench.facts.redistributable else "none stated"
    return System(name, link, licence, notes=notes[:MAX_NOTES])


def _of_run(run: Row, name: str | None) -> System:
    summary, settings = run.get("summary") or {}, run["settings"]
    is_reranked = "rerank" in settings  # its summary counts candidates, not queries
    took = run.get("latency") or ({} if is_reranked else summary)
    cost = summary.get("cost") if summary.get("currency") == "USD" else None
    n = settings["n_examples"] if is_reranked else summary.get("n_prompts")
    return System(
        name or settings["model"],
        latency_p50_s=took.get("latency_p50_s"),
        latency_p95_s=took.get("latency_p95_s"),
        cost_per_1000_usd=cost and 1000 * cost / n,
    )


_OF_FILES = ("n_duplicates", "n_errors", "n_parse_failures")
"""Counters of the file that was sent: the store keeps its answers only, an unparsable reply as an empty one."""


class Rescored(NamedTuple):
    """What scoring a submission again came to, and in words where it was not the same."""

    submission: str
    outcome: Literal["identical", "different", "other data", "figures only", "not possible"]
    detail: str = ""


def rescore(store: Store, submission: str) -> Rescored:
    """Score one stored submission again and compare all of its figures, slices, counters and per-example scores."""
    record, stored = store.record(submission), store.result(submission)
    if not store.has_predictions(submission):
        return Rescored(submission, "figures only", "its source states no licence, so its predictions are not kept")
    try:
        task = load_examples(*record.task_key)
        if (here := task.revision) != (there := record.dataset_revision):
            return Rescored(submission, "other data", f"stored on {there[:12]}, here is {here[:12]}")
        read = read_predictions([store.predictions_file(submission)], task.benchmark, task.examples, ReadOptions())
        result = score_predictions(add_annotations(task, store.annotations(submission)), read)
    except KBBenchError as error:
        return Rescored(submission, "not possible", str(error).splitlines()[0])
    again = json.loads(json.dumps(result.to_dict()))
    for part in ("scores", "slices", "predictions_sha256"):
        if again[part] != stored[part]:
            return Rescored(submission, "different", f"{part} differ")
    counted = stored["counters"].items()  # those that were counted then: others may have been added since
    if other := [f"{name} {value}, now {again['counters'].get(name)}" for name, value in counted
                 if name not in _OF_FILES and again["counters"].get(name) != value]:  # fmt: skip
        return Rescored(submission, "different", f"counters differ: {', '.join(other)}")
    if list(result.example_lines()) != store.score_lines(submission):
        return Rescored(submission, "different", "scores of single examples differ")
    return Rescored(submission, "identical")
