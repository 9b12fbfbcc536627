"""Predictions as files: read them strictly, report every problem with its line, and pair them with examples by id.

`score`, pages and the board (uploads) use it. Nothing is scored while a line is wrong: a file in an unexpected form
would have low scores without a word. The responses of models are the exception: an unparsable one is scored as empty.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from kbbench_hf.benchmarks import places_with_ids
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Benchmark, Example, Examples, ParseFunction
from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.files import shown_name
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.formats import prediction_files, read_file
from kbbench_hf.files.json_lines import check_plain
from kbbench_hf.files.rows import ParsedFile, Problem, Unreadable
from kbbench_hf.files.writing import write_json_lines
from kbbench_hf.hub.download import dataset_id
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.scoring.gold_columns import GoldColumn
from kbbench_hf.scoring.options import ReadOptions as ReadOptions
from kbbench_hf.scoring.result import Predictions as Predictions
from kbbench_hf.scoring.rows import Placed, RowReader, shown

MAX_PROBLEMS = 10_000
"""After so many problems reading stops: it is the wrong file."""
NAMED = 5
"""Missing ids that a message names."""
SHOWN = 20
"""Problems that a message lists; all of them are counted."""
REMEDIES = 3
"""Remedies that a message has."""
_ONE_LINE = "Keep one line for each id."
_LAST_LINE = "To let the last line of an id count: --duplicates last."
_ONE_CANDIDATE = (
    "For one candidate a line, call the fields qid, docid and rank or score. If the last line of an id replaces its "
    "other lines: --duplicates last."
)
_WHOLE_FILE = "A submission needs a prediction for every example."
_PART_OF_IT = "To accept missing predictions, add --partial."


class PredictionsError(DataError):
    """Predictions that cannot be used; `problems` holds every problem found, the message the first 20."""

    def __init__(self, problems: Sequence[Problem], expected: str) -> None:
        self.problems = list(problems)
        listed = "\n".join(f"  {problem}" for problem in problems[:SHOWN])
        more = f"\n  ... and {len(problems) - SHOWN:,} more" if len(problems) > SHOWN else ""
        count = f"{len(problems):,} problem{'s' if len(problems) != 1 else ''} in the predictions"
        match = next((problem.shown for problem in problems if problem.shown), None)
        lines = f"\nA line as it is:   {match}\nas it should be:   {expected}" if match else ""
        remedies = [*dict.fromkeys(problem.remedy for problem in problems if problem.remedy)][:REMEDIES]
        remedy = " ".join(remedies) or "Fix these lines and try again."
        super().__init__(f"{count}; nothing was scored.\n{listed}{more}{lines}\n{remedy}")


class Paired(NamedTuple):
    """One line: the id of the example, the answer, and whether there is one (None: error, empty: unparsed)."""

    example_id: Id
    answer: Answer
    status: Literal["ok", "unparsed", "error"]


def read_predictions(
    paths: Iterable[Path], benchmark: Benchmark, examples: Examples, options: ReadOptions | None = None
) -> Predictions:
    """Return the predictions of one or more files (or folders of them), paired with the examples by id.

    The format is detected from the content: see `files.formats`; `notes` lists what was converted. `answers` has the
    order of `examples`: None where a prediction is missing or failed, empty where its reply was not understood.

    Raises:
        PredictionsError: malformed lines, unknown or repeated ids, answers of the wrong shape; every problem is listed
            with its file and line, and nothing is returned.
        DataError: there is no prediction at all.
        UsageError: a path that does not exist, or a parser the benchmark does not have.
    """
    options = options or ReadOptions()
    return pair(parse_files(paths, options), benchmark, examples, options)


def parse_files(paths: Iterable[Path], options: ReadOptions) -> Iterator[tuple[str, ParsedFile]]:
    """Yield the name and the parsed content of each file at the paths, or of a dataset on the Hub."""
    for path in paths:
        if not path.exists() and (dataset := dataset_id(path.as_posix())):
            from kbbench_hf.hub.download import predictions_on_hub

            yield dataset.name, predictions_on_hub(dataset)
            continue
        for file in prediction_files([path]):
            yield shown_name(file), read_file(file, options.read_settings(), options.max_bytes)


def pair(
    files: Iterable[tuple[str, ParsedFile]], benchmark: Benchmark, examples: Examples, options: ReadOptions
) -> Predictions:
    """Return the predictions in the rows of files, paired with the examples by id; the core of `read_predictions`.

    `files` are (name, parsed file); of ids that may repeat, the last line counts.

    Raises:
        PredictionsError: predictions that cannot be used, every problem named.
        DataError: there is not one answer among them.
    """
    parse, known = _parser(benchmark, options), {row["id"]: row for row in examples.rows}
    answers, seen, names = dict[Id, Answer](), dict[Id, str](), dict[str, str]()
    failed_ids, error_ids, unknown, problems = set[Id](), set[Id](), list[Id](), list[Problem]()
    reader, gold_column = RowReader(benchmark, examples, options), GoldColumn(benchmark, options, parse)
    n_rows = n_duplicates = 0
    for file, line, row, whole in _rows(files, reader, names):
        n_rows += 1
        if len(problems) >= MAX_PROBLEMS:
            break
        if isinstance(row, Problem):
            problems.append(row)
            continue
        read = _read_answer(row, benchmark, options, parse, known)
        if isinstance(read, Unreadable):
            if isinstance(row, dict) and isinstance(row["id"], str | int) and row["id"] not in known:
                unknown.append(row["id"])
            problems.append(Problem(file, line, read.message, read.remedy, read.shown))
            continue
        example_id, answer, status = read
        if example_id in seen:
            n_duplicates += 1
            if options.duplicates == "error":
                message = f"id {example_id!r} occurs at {seen[example_id]} already"
                single = benchmark.scoring.answer.ranked and answer is not None and len(answer) == 1
                remedy = _ONE_LINE if options.of_stranger else _ONE_CANDIDATE if single else _LAST_LINE
                problems.append(Problem(file, line, message, remedy))
                continue
        seen[example_id] = f"{file}:{line}" if line else file
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
        gold_column.add(whole, answer, known[example_id])
    if unjoined := reader.problem():
        problems.append(unjoined.problem("predictions"))
    if elsewhere := gold_column.problem(len(answers)):
        problems.append(Problem(file, None, elsewhere.message, elsewhere.remedy, shown(row)))
    if not n_rows:
        raise _no_predictions_error(names, options, reader.n_empty)
    absent = [example_id for example_id in examples.ids if example_id not in seen]
    if absent and seen and not options.partial:
        few = ", ".join(map(str, absent[:NAMED]))
        more = f" and {len(absent) - NAMED:,} more" if len(absent) > NAMED else ""
        words = f"{len(absent):,} of {len(examples.ids):,} missing: {few}{more}"
        problems.append(Problem("predictions", None, words, _WHOLE_FILE if options.of_stranger else _PART_OF_IT))
    if problems and not seen and unknown and not options.of_stranger and (places := places_with_ids(unknown)):
        raise _other_benchmark_error(problems[0].file, benchmark.dataset, places)
    if problems:
        raise PredictionsError(reader.without_gold(problems), example_line(benchmark, examples))
    failures = [example_id for example_id in examples.ids if example_id in failed_ids]
    paired = [answers.get(example_id) for example_id in examples.ids]
    return Predictions(
        paired, failures, n_duplicates, len(error_ids), reader.notes(), gold_column.name, gold_column.with_texts
    )


def _rows(files: Iterable[tuple[str, ParsedFile]], reader: RowReader, names: dict[str, str]) -> Iterator[Placed]:
    """Yield the rows of all files; `names` gets each file's name and its message for no rows."""
    for name, reading in files:
        names[name] = reading.empty
        yield from reader.rows(name, reading)


def _other_benchmark_error(file: str, wanted: str, places: Sequence[tuple[str, str]]) -> DataError:
    """Return the error for a file whose ids are all of other benchmarks or splits, `places`."""
    others = " or ".join(f"{name}, split {split}" for name, split in places)
    (name, split), *_ = places
    remedy = f"--split {split}" if name == wanted else f"--benchmark {name} --split {split}"
    return DataError(f"{file} has the ids of {others}, not of {wanted}. Score it with {remedy}.", code="benchmark")


def _no_predictions_error(names: Mapping[str, str], options: ReadOptions, n_empty: int) -> DataError:
    """Return the error for files without a single row."""
    name, why = next(iter(names.items()), ("The predictions", "they are empty"))
    if n_empty:
        why = f"its {n_empty:,} answers are empty cells"
    elif options.where:
        why = f"no row has {', '.join(f'{path}={value}' for path, value in options.where.items())}"
    message = f"{name} holds no predictions: {why}. Expected one for each example. Check the file."
    return DataError(message, code="empty")


def write_predictions(predictions: Predictions, examples: Examples, field_name: str, file: Path) -> None:
    """Write the predictions as JSON Lines, in the order of the examples; missing ones have no line."""
    pairs = zip(examples.ids, predictions.answers, strict=True)
    write_json_lines(file, [{"id": each, field_name: answer} for each, answer in pairs if answer is not None])


def example_line(benchmark: Benchmark, examples: Examples) -> str:
    """Return a correct line of a predictions file, with the id of the first example."""
    line = json.loads(benchmark.scoring.answer.example)
    return json.dumps({**line, "id": examples.ids[0]}, ensure_ascii=False)


def _read_answer(
    row: object,
    benchmark: Benchmark,
    options: ReadOptions,
    parse: ParseFunction | None,
    known: Mapping[Id, Example],
) -> Paired | Unreadable:
    """Return the id with its answer, or the error of the row."""
    if not isinstance(row, dict):
        return Unreadable(f"expected an object with 'id', found {type(row).__name__}", shown=shown(row))
    example_id = row["id"]
    if isinstance(example_id, bool) or not isinstance(example_id, str | int):
        return Unreadable(f"id {example_id!r} is neither a string nor an integer", shown=shown(row))
    if example_id not in known:
        return _unknown_id_error(example_id, known)
    kind = benchmark.scoring.answer
    try:
        check_plain({name: row[name] for name in (kind.field, "scores", "response") if name in row})
        if kind.field in row and options.source == "answer":
            return Paired(example_id, kind.read(row), "ok")
    except ValueError as problem:
        return Unreadable(str(problem), shown=shown(row))
    if row.get("error") is not None:
        return Paired(example_id, None, "error")
    if "response" not in row:
        return Unreadable("no 'response'", shown=shown(row))
    if parse is None:
        return Unreadable(f"'response' cannot be read: {benchmark.dataset} takes '{kind.field}'", shown=shown(row))
    if not isinstance(row["response"], str):
        return Unreadable(f"'response' is {type(row['response']).__name__}; expected text", shown=shown(row))
    try:
        return Paired(example_id, parse(row["response"], known[example_id]).answer, "ok")
    except ParseError:
        return Paired(example_id, [], "unparsed")


def _unknown_id_error(example_id: Id, known: Mapping[Id, Example]) -> Unreadable:
    """Return the error for an id of no example, with an id as an example, and one that ends alike if there is one."""
    message, like = f"id {example_id!r} matches no example", f"Ids look like {next(iter(known))!r}"
    suggestion = next((each for each in known if str(each).endswith(f"_{example_id}")), None)
    if suggestion is None:
        return Unreadable(message, f"{like}; were these made for another split or dataset?")
    return Unreadable(f"{message}; did you mean {suggestion!r}?", f"{like}: write full ids.")


def _parser(benchmark: Benchmark, options: ReadOptions) -> ParseFunction | None:
    """Return the parser of responses; None if the benchmark has none.

    Raises:
        UsageError: an unknown parser, or responses are to be read and the benchmark has none.
    """
    field = benchmark.scoring.answer.field
    if not benchmark.asking.parsers and options.source == "response":
        raise UsageError(f"{benchmark.dataset} has no responses to parse; expected '{field}' in each line.")
    if not benchmark.asking.parsers:
        return None
    name = options.parser or next(iter(benchmark.asking.parsers))
    if name not in benchmark.asking.parsers:
        raise unknown_name(f"parser of {benchmark.dataset}", name, benchmark.asking.parsers)
    return benchmark.asking.parsers[name]
