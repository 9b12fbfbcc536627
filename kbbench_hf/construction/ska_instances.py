"""Writing the instances format (`releases.ska_open` reads it)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbbench_hf.dataset_folder import write_text


def instance(
    identifier: str,
    subset: str,
    question: str,
    answers: Sequence[str],
    provenance: Mapping[str, str],
    method: str,
    program: Mapping[str, Any] | None,
    **fields: Any,
) -> dict[str, Any]:
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


def write_lines(file: Path, records: Iterable[Mapping[str, Any]]) -> int:
    """Write a JSON Lines file, whole or not at all; return the number of its lines."""
    lines = [json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n" for record in records]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, "".join(lines))
    return len(lines)
