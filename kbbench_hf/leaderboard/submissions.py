"""Submissions to a leaderboard: bounded reading, validation, scoring, description of the system, storing, quotas.

Used by the Submit tab, by `kbbench submit`, and by seeding. Files and texts come from strangers: the limits and the
refusals protect the server and its visitors. The form of stored texts (NFKC, one space) decides which names are equal.
"""

import json
import math
import os
import re
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import BusyError, DataError, UsageError
from kbbench_hf.files.datasets import Id, Row
from kbbench_hf.leaderboard.annotation_files import checked_annotations
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.owners import vouched_by
from kbbench_hf.leaderboard.store import GoldLikeness, Receipt, Store, System, gold_likeness
from kbbench_hf.scoring.eval_task import EvalTask, load_examples
from kbbench_hf.scoring.predictions import Predictions, ReadOptions, read_predictions
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import add_annotations, score_predictions

MAX_UPLOAD_BYTES = 50_000_000
MAX_EXPANDED_BYTES = 64_000_000
"""Maximum size of the predictions after unpacking: a small .gz file may unpack to gigabytes."""
MAX_ITEMS = 1_000
"""Maximum number of ids, triples or answers of an example; longer answers cost memory to read, and are no answers."""
MAX_NAME = 80
MAX_NOTES = 500
_PUNCTUATION = set(" .,+:/@()-_")
_INVISIBLE = {
    *map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
}
"""Letters and marks that are drawn as nothing (fillers, joiners, variation selectors): they would hide in a name."""
_SECRET = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_\-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}|xox[abp]-[\w\-]{10,})"
)
"""Tokens of Hugging Face, OpenAI, GitHub, AWS and Slack: submissions are public."""


@dataclass(frozen=True)
class Preview:
    """A submission that was read and scored but not stored; it can be pickled and sent to another process."""

    predictions: Predictions
    result: Result
    gold: GoldLikeness
    annotations: Mapping[str, bytes] = field(default_factory=dict)
    """The annotation files with which it was scored: file name -> content."""

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark of the predictions."""
        return benchmark(self.result.benchmark)


def preview(file: Path, dataset: str, annotations: Sequence[Path] = (), mode: str | None = None) -> Preview:
    """Return a predictions file, read and scored as by `preview_of`, on the default config and split of a dataset.

    Raises:
        KBBenchError: `preview_of` or `load_examples` raises it.
    """
    return preview_of(load_examples(dataset, mode=mode), file, annotations)


def preview_of(
    task: EvalTask, file: Path, annotations: Sequence[Path] = (), of_run: Sequence[ScoreWarning] = ()
) -> Preview:
    """Return an uploaded predictions file, read and scored, with its annotations; nothing is stored.

    `of_run` has the warnings of the run that wrote the file, if they are known. Each example needs a prediction.

    Raises:
        PredictionsError: the file has problems; the message lists them with their lines and remedies.
        DataError: the file is too large, or no JSON Lines file; or an annotation file is invalid.
        UsageError: there are annotations, and the benchmark is scored without any.
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
    strict = replace(benchmark, scoring=replace(benchmark.scoring, check=partial(_check_answer, benchmark)))
    predictions = read_predictions([file], strict, examples, options)
    if not annotations:
        return previewed(benchmark, examples, predictions, score_predictions(task, predictions, of_run))
    if benchmark.scoring.annotations is None:
        raise UsageError(f"{task.task_key.benchmark} is scored without annotations; expected none. Leave them out.")
    with TemporaryDirectory() as folder:
        checked_annotations(annotations, Path(folder))
        try:
            result = score_predictions(add_annotations(task, Path(folder)), predictions, of_run)
        except (ValueError, TypeError, LookupError) as error:  # valid columns may still contradict each other
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
    """Return the preview of a scored submission, with the number of its answers that equal the gold."""
    gold = gold_likeness(benchmark, examples, predictions.answers, result)
    return Preview(predictions, result, gold, annotations or {})


def _check_answer(benchmark: Benchmark, examples: Examples, example_id: Id, answer: Answer) -> str | None:
    """Return the problem of an answer: that of the benchmark's own check, or a character that UTF-8 does not have.

    Raises:
        DataError: the answer has too many items. Raised at the first one, because the next may be as large.
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
    scores_only: bool = False,
) -> Receipt:
    """Store a scored submission, and return its receipt; a new description of the system replaces the old one.

    With `scores_only`, neither predictions nor annotations are stored. `organisations` are the accounts of which the
    login provider lists the submitter as a member: they vouch for names of the form `acme/KOTO`.

    Raises:
        DataError: there is no submitter, or `checked_system` refuses the description.
        BusyError: the disk is full.
    """
    if not submitter:
        raise DataError("You are not logged in; a submission needs a user name. Log in and submit again.")
    field_name = read.benchmark.scoring.answer.field
    rows = (
        {"id": example_id, field_name: answer}
        for example_id, answer in zip(read.result.ids, read.predictions.answers, strict=True)
        if answer is not None
    )
    checked = checked_system(system)
    vouched = vouched_by(checked.name, submitter, organisations)
    stored_rows, annotations = (None, {}) if scores_only else (rows, read.annotations)
    receipt = store.add(read.result, stored_rows, checked, submitter, origin, annotations, vouched, read.gold)
    if receipt.existed and store.latest_system(receipt.id) != checked:
        store.edit(receipt.id, checked, submitter)
        return replace(receipt, edited=True)
    return receipt


def checked_system(system: System) -> System:
    """Return a system's description in the form that is stored: normalized texts, finite numbers.

    Raises:
        DataError: a name with unusual characters, a link that is not https, a secret, a number out of range.

    >>> checked_system(System(name="  My  model ")).name
    'My model'
    """
    text: Row = {key: _normalize_text(value) for key, value in vars(system).items() if isinstance(value, str)}
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
    """Whether a name begins with a letter or digit, and has only these, their marks and common punctuation."""
    kinds = [unicodedata.category(each)[0] for each in name]
    too_marked = "MMMM" in "".join(kinds)  # four marks on a letter are drawn over the rows above and below
    plain = all(kind in "LNM" or each in _PUNCTUATION for each, kind in zip(name, kinds, strict=True))
    return 0 < len(name) <= MAX_NAME and kinds[0] in "LN" and plain and not too_marked and not _INVISIBLE & {*name}


def _normalize_text(text: str) -> str:
    """Return text in NFKC, without control and formatting characters, with single spaces and none at the ends."""
    normal = unicodedata.normalize("NFKC", text)
    visible = "".join(each for each in normal if each.isspace() or unicodedata.category(each)[0] != "C")
    return " ".join(visible.split())


PER_USER = 50
"""Submissions, and changes, of a user within a day; `KBBENCH_PER_USER_AND_DAY` sets another number."""
IN_TOTAL = 2_000
"""The same of all users together; `KBBENCH_PER_DAY` sets another number."""
DAY = timedelta(days=1)


class Quotas:
    """Limits of submissions and changes within a day, per account and for all accounts together; thread-safe.

    Submissions are counted in the store, so neither a restart nor a withdrawal resets the count. Changes are counted
    since the start of the process. Accounts that differ in case only are one account.
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
        """Count the submission that is checked and stored in this block, so that concurrent ones do not pass the limit.

        Raises:
            BusyError: the user, or all users together, have reached their limit.
        """
        key = user.casefold()
        with self._lock:
            self.index.update()
            since = (datetime.now(UTC) - DAY).isoformat(timespec="microseconds")
            n_of_user, n_of_all = self.index.n_stored(user, since)
            self._refuse(n_of_user + self._under_way[key], n_of_all + self._under_way.total(), user, "submissions")
            self._under_way[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way[key] -= 1

    def changing(self, user: str, now: Callable[[], float] = time.monotonic) -> None:
        """Count a change that a user makes to a row; `now` is the clock, in seconds.

        Raises:
            BusyError: the user, or all users together, have reached their limit.
        """
        key = user.casefold()
        with self._lock:
            self._changes = [each for each in self._changes if each[0] > now() - DAY.total_seconds()]
            n_of_user = sum(who == key for _, who in self._changes)
            self._refuse(n_of_user, len(self._changes), user, "changes")
            self._changes.append((now(), key))

    def _refuse(self, n_of_user: int, n_of_all: int, user: str, what: str) -> None:
        if n_of_user >= self.per_user:
            raise BusyError(
                f"{user} made {n_of_user:,} {what} within a day; at most {self.per_user:,} are accepted. "
                "Try again tomorrow."
            )
        if n_of_all >= self.in_total:
            raise BusyError(
                f"{n_of_all:,} {what} were made here within a day; no more are accepted. Try again tomorrow."
            )
