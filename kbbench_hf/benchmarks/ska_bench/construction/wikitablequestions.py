"""Instances from WikiTableQuestions (CC BY-SA 4.0): which rows a question needs, by inducing its answer program.

All small programs (`programs`) are tried whose conditions are cells that the question mentions. A
question is kept if some of them give the gold answer, and all that do read the same rows, and those rows hold every
mentioned cell. Questions about the order of rows, and superlatives, are left out: their evidence is the whole table.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.construction.instances import instance, table_units, write_lines
from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.programs import Program, execute, same_answers
from kbbench_hf.benchmarks.ska_bench.table_programs import reads
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.answers import wtq_normal, wtq_number

FEWEST_COLUMNS, FEWEST_ROWS = 6, 8
"""The paper's smallest tables."""
PROVENANCE = {"dataset": "WikiTableQuestions", "repo": "ppasupat/WikiTableQuestions", "licence": "CC BY-SA 4.0"}
_WHOLE_TABLE = re.compile(
    r"\b(first|last|next|previous|before|after|above|below|top|bottom|most|least|highest|lowest|largest|smallest|longest"
    r"|shortest|earliest|latest|oldest|youngest|biggest|best|worst|fastest|slowest|fewest|greatest|consecutive|following"
    r"|prior|listed|total|average|all|different|each|every|not|other|besides|between \d+)\b"
)
_COMPARED = re.compile(r"\bor\b")
_FEWER = re.compile(r"\b(fewer|less|lower|smaller|shorter|earlier|slower|worse)\b")
_EITHER_WAY = re.compile(r"\b(older|younger)\b")
"""Of a year of birth the older one is smaller, of an age larger."""
Table = tuple[list[str], list[list[str]]]


def make(source: Path, out: Path, split: str = "training") -> dict[str, int]:
    """Write the instances of a split, and the tables that can lend rows; return how many of each.

    Args:
        source: a checkout of the repository, with `data/<split>.tsv` and `csv/`.
        out: the folder for `wikitablequestions.jsonl` and `wikitablequestions_donors.jsonl`.
        split: `training`, `pristine-unseen-tables`, ...

    Raises:
        DataError: the folder is no such checkout.
    """
    file = source / "data" / f"{split}.tsv"
    if not file.is_file():
        raise DataError(f"{file} does not exist; expected a checkout of ppasupat/WikiTableQuestions. Check --source.")
    tables: dict[str, Table] = {}
    records = []
    for row in _questions(file):
        name = row["context"]
        if name not in tables:
            tables[name] = read_table(source / name)
        header, rows = tables[name]
        if len(header) < FEWEST_COLUMNS or len(rows) < FEWEST_ROWS:
            continue
        answers = [_unescaped(answer) for answer in row["targetValue"].split("|")]
        question = _unescaped(row["utterance"])
        if found := induce(question, header, rows, answers):
            program, positive = found
            records.append(
                instance(
                    f"wtq-{row['id']}",
                    "Table",
                    question,
                    answers,
                    {**PROVENANCE, "source_id": row["id"]},
                    f"program-induction:{program['type']}",
                    program=program,
                    table={"id": name, "header": header},
                    sk_units=table_units(rows, positive),
                    text_units=[],
                )
            )
    donors = [{"table_id": n, "header": h, "rows": r} for n, (h, r) in _donors(source, tables, records).items()]
    return {
        "wikitablequestions": write_lines(out / "wikitablequestions.jsonl", records),
        "wikitablequestions_donors": write_lines(out / "wikitablequestions_donors.jsonl", donors),
    }


def induce(
    question: str, header: Sequence[str], rows: Sequence[Sequence[str]], answers: Sequence[str]
) -> tuple[Program, set[int]] | None:
    """Return the program that answers a question and the rows it reads, or None where that is not settled."""
    asked = wtq_normal(question)
    if _WHOLE_TABLE.search(asked):
        return None
    mentioned = _mentioned(asked, rows)
    consistent: dict[frozenset[int], Program] = {}
    for program in _programs(asked, mentioned, rows, answers):
        if same_answers(execute(program, rows), answers):
            read = frozenset(n for n, row in enumerate(rows) if reads(program, row))
            consistent.setdefault(read, program)
            if len(consistent) > 1:
                return None
    if not consistent:
        return None
    [(positive, program)] = consistent.items()
    held = {wtq_normal(rows[n][column]) for n in positive for column in range(len(header))}
    return (program, set(positive)) if {value for _, value in mentioned} <= held else None


def _mentioned(asked: str, rows: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Return the (column, cell) pairs that the question mentions, without cells inside longer mentioned ones."""
    cells = {(column, wtq_normal(cell)) for row in rows for column, cell in enumerate(row)}
    found = {(column, cell) for column, cell in cells if len(cell) > 1 and mentions(asked, cell)}
    longest = {cell for _, cell in found}
    return sorted((c, cell) for c, cell in found if not any(cell != other and cell in other for other in longest))


def _programs(
    asked: str, mentioned: Sequence[tuple[int, str]], rows: Sequence[Sequence[str]], answers: Sequence[str]
) -> Iterator[Program]:
    """Yield the programs to try: of the types that the wording allows."""
    columns = range(len(rows[0]))
    by_column: defaultdict[int, list[str]] = defaultdict(list)
    for column, value in mentioned:
        by_column[column].append(value)
    difference = "difference" in asked or "how many more" in asked or "how much more" in asked
    for key, values in by_column.items():
        for pair in combinations(values, 2):
            for by in columns:
                if by == key or not any(wtq_number(row[by]) is not None for row in rows):
                    continue
                if difference:
                    yield {"type": "diff", "key": key, "by": by, "values": list(pair)}
                elif _COMPARED.search(asked) and not _EITHER_WAY.search(asked):
                    op = "argmin2" if _FEWER.search(asked) else "argmax2"
                    yield {"type": "compare", "key": key, "by": by, "values": list(pair), "op": op}
    if difference or _COMPARED.search(asked):
        return
    single = [[list(condition)] for condition in mentioned]
    double = [[list(a), list(b)] for a, b in combinations(mentioned, 2) if a[0] != b[0]]
    for where in double or single:
        taken = {column for column, _ in where}
        if asked.startswith("how many") and wtq_number(answers[0]) is not None:
            yield {"type": "count", "where": where}
        for select in columns:
            if select not in taken:
                yield {"type": "lookup2" if len(where) == 2 else "lookup", "where": where, "select": select}


def _questions(file: Path) -> Iterator[Mapping[str, str]]:
    """Yield the rows of a question file, their fields as they stand."""
    head, *lines = file.read_text(encoding="utf-8").splitlines()
    names = head.split("\t")
    for number, line in enumerate(lines, start=2):
        values = line.split("\t")
        if len(values) != len(names):
            raise DataError(
                f"{file.name}:{number} has {len(values)} fields; expected {len(names)}. Get the file again."
            )
        yield dict(zip(names, values, strict=True))


def _unescaped(text: str) -> str:
    r"""Return the text of a field; `\n`, `\p` and `\\` stand for a line break, a pipe and a backslash."""
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "p": "|"}.get(match[1], match[1]), text)


def read_table(file: Path) -> Table:
    """Return header and rows of one of the release's CSV files, whose quotes are escaped with a backslash."""
    try:
        with file.open(encoding="utf-8", newline="") as source:
            header, *rows = csv.reader(source, doublequote=False, escapechar="\\")
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as a table ({error}); is the checkout complete?") from error
    return header, [row for row in rows if len(row) == len(header)]


def _donors(source: Path, tables: Mapping[str, Table], records: Sequence[Row]) -> dict[str, Table]:
    """Return the tables that share a normalised header with a used one, and are not used themselves."""
    used = {record["table"]["id"] for record in records}
    wanted = Counter(tuple(map(wtq_normal, tables[name][0])) for name in used)
    found = {}
    for file in sorted((source / "csv").rglob("*.csv")):
        name = file.relative_to(source).as_posix()
        if name not in used and tuple(map(wtq_normal, (table := tables.get(name) or read_table(file))[0])) in wanted:
            found[name] = table
    return found
