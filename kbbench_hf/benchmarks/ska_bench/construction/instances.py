"""Writing the instances format for makers that still write it."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.programs import Program
from kbbench_hf.files.datasets import Row
from kbbench_hf.files.writing import write_text


def instance(
    identifier: str,
    subset: str,
    question: str,
    answers: Sequence[str],
    provenance: Mapping[str, str],
    method: str,
    program: Program | None,
    **fields: object,
) -> Row:
    """Return one instance as a line: what all subsets have, and the fields of its own."""
    return {
        "id": identifier,
        "subset": subset,
        "question": question,
        "answers": list(answers),
        "program": program,
        "pos_method": method,
        "pos_confidence": "auto",
        "provenance": dict(provenance),
        **fields,
    }


def table_units(rows: Sequence[Sequence[str]], positive: Collection[int]) -> list[Row]:
    """Return the rows of a table as its structured units; the positive ones are named by number."""
    return [{"uid": f"r{n}", "cells": row, "order": n, "positive": n in positive} for n, row in enumerate(rows)]


def write_lines(file: Path, records: Iterable[Row]) -> int:
    """Write a JSON Lines file, whole or not at all; return the number of its lines."""
    lines = [json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n" for record in records]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, "".join(lines))
    return len(lines)
