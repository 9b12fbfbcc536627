"""Predictions as files: read them strictly, say every problem with its line, and pair them with examples by id."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from kbbench_hf.benchmarks.answers import Answer, ShapeError
from kbbench_hf.benchmarks.base import Benchmark, Example, Examples, ParseFunction
from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.json_lines import Problem, read_lines
from kbbench_hf.replies.reading import ParseError

MAX_PROBLEMS = 10_000
"""Reading stops here: a file this wrong is the wrong file."""
SHOWN = 20
"""How many problems a message lists; all of them are counted."""


class PredictionsError(DataError):
    """Predictions that cannot be used; `problems` holds every problem found, the message the first 20."""

    def __init__(self, problems: Sequence[Problem], remedy: str) -> None:
        self.problems = list(problems)
        shown = "\n".join(f"  {problem}" for problem in problems[:SHOWN])
        more = f"\n  ... and {len(problems) - SHOWN:,} more" if len(problems) > SHOWN else ""
        count = f"{len(problems):,} problem{'s' if len(problems) != 1 else ''} in the predictions"
        super().__init__(f"{count}; nothing was scored.\n{shown}{more}\n{remedy}")


@dataclass(frozen=True)
class Predictions:
    """The answer to each example, parsed; None where it is missing."""

    answers: list[Answer | None]
    parse_failures: list[Id] = field(default_factory=list)
    """Ids whose response held no answer: scored as an empty answer, and counted."""
    n_duplicates: int = 0
    n_errors: int = 0
    """How many lines say that the model was not reached or gave no answer (`error`); their answers are missing."""

    @property
    def n_missing(self) -> int:
        """How many examples have no prediction."""
        return sum(answer is None for answer in self.answers)

    def sha256(self, examples: Examples, field_name: str) -> str:
        """Return a hash of the answers themselves, independent of files, line order and spelling of the JSON."""
        digest = hashlib.sha256()
        for example_id, answer in zip(examples.ids, self.answers, strict=True):
            if answer is not None:
                line = json.dumps({"id": example_id, field_name: answer}, sort_keys=True, ensure_ascii=False)
                digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()


class Paired(NamedTuple):
    """One line: whose answer it is, the answer, and whether there was one."""

    example_id: Id
    answer: Answer
    status: Literal["ok", "unparsed", "error"]


@dataclass(frozen=True)
class ReadOptions:
    """How to read a predictions file: which field, which parser, and what a repeated id means."""

    source: Literal["answer", "response"] = "answer"
    """`answer`: the parsed field wins where a line has both; `response`: parse the raw text again."""
    parser: str | None = None
    duplicates: Literal["error", "last"] = "error"
    partial: bool = True
    """Whether examples may lack a prediction (they are then scored as the mode says, and counted)."""
    max_bytes: int | None = None
    """At most this many bytes are read, after decompression; for files from strangers."""


def read_predictions(
    paths: Iterable[Path], benchmark: Benchmark, examples: Examples, options: ReadOptions | None = None
) -> Predictions:
    """Return the predictions of one or more JSON Lines files (or folders of them), paired with the examples by id.

    Raises:
        PredictionsError: malformed lines, unknown or repeated ids, answers of the wrong shape; every problem is listed
            with its file and line, and nothing is returned.
        UsageError: a path that does not exist, or a parser the benchmark does not have.
    """
    options = options or ReadOptions()
    return pair(read_lines(paths, options.max_bytes), benchmark, examples, options)


def pair(
    lines: Iterable[tuple[str, int, object]], benchmark: Benchmark, examples: Examples, options: ReadOptions
) -> Predictions:
    """Pair (file, line, object or Problem) with the examples by id; the core of `read_predictions`."""
    parse = _parser(benchmark, options)
    known = {row["id"]: row for row in examples.rows}
    answers: dict[Id, Answer] = {}
    failed_ids: set[Id] = set()
    problems: list[Problem] = []
    seen: dict[Id, str] = {}
    n_duplicates, error_ids = 0, set[Id]()
    for file, line, row in lines:
        if len(problems) >= MAX_PROBLEMS:
            break
        if isinstance(row, Problem):
            problems.append(row)
            continue
        found = _answer(row, benchmark, options, parse, known)
        if isinstance(found, str):
            problems.append(Problem(file, line, found))
            continue
        example_id, answer, status = found
        if example_id in seen:
            n_duplicates += 1
            if options.duplicates == "error":
                problems.append(Problem(file, line, f"id {example_id!r} stands at {seen[example_id]} already"))
                continue
        seen[example_id] = f"{file}:{line}"
        (error_ids.add if status == "error" else error_ids.discard)(example_id)
        (failed_ids.add if status == "unparsed" else failed_ids.discard)(example_id)
        if status == "error":
            answers.pop(example_id, None)
            continue
        own_words = isinstance(row, dict) and "response" in row  # what a model wrote is scored, never refused
        problem = None if own_words else benchmark.scoring.check(examples, example_id, answer)
        if problem:
            problems.append(Problem(file, line, problem))
            continue
        answers[example_id] = answer
    if not options.partial:
        absent = [example_id for example_id in examples.ids if example_id not in seen]
        problems += [Problem("predictions", None, f"no prediction for id {example_id!r}") for example_id in absent]
    if problems:
        raise PredictionsError(problems, _remedy(problems, examples))
    failures = [example_id for example_id in examples.ids if example_id in failed_ids]
    paired = [answers.get(example_id) for example_id in examples.ids]
    return Predictions(paired, failures, n_duplicates, len(error_ids))


def _answer(
    row: object,
    benchmark: Benchmark,
    options: ReadOptions,
    parse: ParseFunction | None,
    known: Mapping[Id, Example],
) -> Paired | str:
    """Return the id with its answer, or what is wrong with the row, in words."""
    if not isinstance(row, dict):
        return f"expected an object with 'id', found {type(row).__name__}"
    if "id" not in row:
        return f"no 'id'; the keys are {sorted(row)[:5]}"
    example_id = row["id"]
    if isinstance(example_id, bool) or not isinstance(example_id, str | int):
        return f"id {example_id!r} is neither a string nor an integer"
    if example_id not in known:
        return f"id {example_id!r} matches no example"
    kind = benchmark.scoring.answer
    if kind.field in row and options.source == "answer":
        try:
            return Paired(example_id, kind.read(row), "ok")
        except ShapeError as problem:
            return str(problem)
    if row.get("error") is not None:
        return Paired(example_id, None, "error")
    if "response" not in row:
        return f"neither '{kind.field}' nor 'response'; the keys are {sorted(row)[:5]}"
    if parse is None:
        return f"'response' cannot be read: {benchmark.dataset} takes '{kind.field}'"
    if not isinstance(row["response"], str):
        return f"'response' is {type(row['response']).__name__}; expected text"
    try:
        return Paired(example_id, parse(row["response"], known[example_id]).answer, "ok")
    except ParseError:
        return Paired(example_id, [], "unparsed")


def _parser(benchmark: Benchmark, options: ReadOptions) -> ParseFunction | None:
    if not benchmark.asking.parsers:
        if options.source == "response":
            raise UsageError(
                f"{benchmark.dataset} has no responses to parse; "
                f"expected '{benchmark.scoring.answer.field}' in each line."
            )
        return None
    name = options.parser or next(iter(benchmark.asking.parsers))
    if name not in benchmark.asking.parsers:
        raise unknown_name(f"parser of {benchmark.dataset}", name, benchmark.asking.parsers)
    return benchmark.asking.parsers[name]


def _remedy(problems: Sequence[Problem], examples: Examples) -> str:
    text = " ".join(problem.message for problem in problems)
    remedies = []
    if "matches no example" in text:
        remedies.append(f"Ids look like {examples.ids[0]!r}; were these made for another split or dataset?")
    if "already" in text:
        remedies.append("To let the last line of an id count: --duplicates last.")
    if "no prediction for" in text:
        remedies.append("To accept a partial file: --partial.")
    return " ".join(remedies) or "Mend these lines and try again."
