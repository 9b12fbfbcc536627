"""The SKA-Bench authors' files, read by a mapping of their fields that the user writes.

The release was not available when this was written, so no field name is known here. `fields.json`, written by the user
beside the files, maps them:

    {"KG.json": {"subset": "kg", "fields": {"<their name>": "question", "<another>": null}}}

A field mapped to null is left out on purpose; a field that is not mapped is refused by name, never guessed.
`dataset.build_official` builds `ska-bench` from what `read_official` returns.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Cells, Instance, InstanceSet, UnitPool, clean
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row

DECLARATION = "fields.json"
ROLES = {
    "id": "a string; without it, instances are numbered",
    "question": "a string",
    "answers": "a list of strings",
    "topics": "a list of entity names, from which hops are counted",
    "header": "a table's header: a list of strings",
    "positive_units": "the triples or rows that are needed: lists of strings",
    "noise_units": "the other triples or rows",
    "positive_texts": "the passages that are needed: strings, or [title, text]",
    "noise_texts": "the other passages",
}
"""The roles that a field can be mapped to, with their form."""
UNIT_ROLES, TEXT_ROLES = ("positive_units", "noise_units"), ("positive_texts", "noise_texts")
_REQUIRED = {"question", "answers", "positive_units", "noise_units"}


def read_official(source: Path) -> InstanceSet:
    """Return the instances and pools of the authors' files, each instance with units of its own.

    Table rows are numbered positives first, then noise in the file's order: where the authors put generated rows among
    real ones is not known, and in the paper's table 4 `original` is close to `prefix`.

    Raises:
        DataError: no `fields.json`; a file that is absent, not JSON or not a list of objects; a field that was not
            declared; a value of another form than its role's. The message names file, record and field.
    """
    instances: list[Instance] = []
    pools: dict[str, UnitPool] = {}
    for name, subset, roles in list(_declarations(source)):
        file = source / name
        records = _parse(file)
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise DataError(
                f"{file} is not a list of JSON objects; expected one object per instance. Convert it first."
            )
        by_role = [_by_role(f"{name}, record {n}", record, roles) for n, record in enumerate(records)]
        made, pools[subset] = _convert(name, subset, by_role)
        instances += made
    return InstanceSet(sorted(instances, key=lambda instance: instance.id), pools)


def _declarations(source: Path) -> Iterator[tuple[str, str, dict[str, str | None]]]:
    """Yield each file's name, subset and field roles."""
    file = source / DECLARATION
    if not file.is_file():
        raise DataError(
            f"{source} holds no {DECLARATION}; expected one that says for each file its subset ({', '.join(SUBSETS)}) "
            f"and for each of its fields one of {', '.join(ROLES)}, or null. Write it after looking at the files."
        )
    seen, declared = set(), _parse(file)
    entries = [*declared.values()] if isinstance(declared, dict) else [declared]
    if not all(isinstance(each, dict) and isinstance(each.get("fields", {}), dict) for each in (declared, *entries)):
        example = '{"KG.json": {"subset": "kg", "fields": {"<their name>": "question"}}}'
        raise DataError(f"{file} does not map files to a subset and fields; expected {example}, say. Correct it.")
    for name, entry in declared.items():
        subset, fields = entry.get("subset"), entry.get("fields", {})
        if subset not in SUBSETS:
            raise DataError(f"{file}: {name} has the unknown subset {subset!r}; expected one of {', '.join(SUBSETS)}.")
        if subset in seen:
            raise DataError(f"{file}: two files have the subset {subset!r}; expected one file per subset. Join them.")
        if unknown := sorted({str(role) for role in fields.values() if role is not None} - set(ROLES)):
            raise DataError(f"{file}: {name} uses the unknown roles {unknown}; expected {', '.join(ROLES)}, or null.")
        seen.add(subset)
        yield name, subset, fields


def _parse(file: Path) -> Any:
    """Return the JSON value of a file; whatever keeps it from being read is a DataError that names it."""
    try:
        return json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise DataError(
            f"{file} does not exist, but {DECLARATION} names it. Put it there or remove its entry."
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} is not JSON ({error}); expected the authors' file. Get it again.") from error


def _by_role(place: str, record: Row, roles: Mapping[str, str | None]) -> Row:
    """Return a record's values by their role, without fields that are left out; units and texts are lists.

    Raises:
        DataError: a field is not declared, two have one role, a required role has none, or a list is none.
    """
    if unknown := sorted(set(record) - set(roles)):
        raise DataError(
            f"{place}: unknown fields {', '.join(map(repr, unknown))}; expected only those in {DECLARATION}. "
            f"Declare each as one of {', '.join(ROLES)}, or null to leave it out."
        )
    values: Row = {}
    for field, value in record.items():
        if (role := roles[field]) is None:
            continue
        if role in values:
            raise DataError(f"{place}: two fields are declared as {role!r}; expected one. Declare one of them as null.")
        if role in (*UNIT_ROLES, *TEXT_ROLES) and not isinstance(value, list):
            raise DataError(f"{place}: {role} is {value!r:.60}; expected a list. Convert the file first.")
        values[role] = value
    if missing := sorted(_REQUIRED - set(values)):
        raise DataError(f"{place}: nothing is declared as {', '.join(map(repr, missing))}; complete {DECLARATION}.")
    return values


def _convert(name: str, subset: str, records: Sequence[Row]) -> tuple[list[Instance], UnitPool]:
    """Return the records of a file as instances, and their pool: a group of units for each, and all passages."""
    texts = [
        [[_passage(f"{name}, record {n}", text) for text in record.get(role, ())] for role in TEXT_ROLES]
        for n, record in enumerate(records)
    ]
    passages = sorted({passage for of_record in texts for of_role in of_record for passage in of_role})
    numbers = {passage: n for n, passage in enumerate(passages)}
    sk, headers, instances = dict[str, list[Cells]](), dict[str, Cells](), list[Instance]()
    is_table = subset.startswith("table")
    for n, record in enumerate(records):
        place, id_ = f"{name}, record {n}", str(record.get("id", f"{subset}-{n:04}"))
        if id_ in sk:
            raise DataError(f"{name}: the id {id_!r} occurs twice; expected one record per instance. Remove one.")
        if is_table:
            headers[id_] = _strings(place, "header", record.get("header"))
        width = len(headers[id_]) if is_table else 3
        positives, noise = ([_unit(place, role, unit, width) for unit in record[role]] for role in UNIT_ROLES)
        units = list(dict.fromkeys(positives + noise))
        sk[id_] = units if is_table else sorted(units)
        needed, others = ({numbers[passage] for passage in of_role} for of_role in texts[n])
        instances.append(
            Instance(
                id=id_,
                subset=subset,
                question=_strings(place, "question", record["question"], str)[0],
                answers=_strings(place, "answers", record["answers"]),
                group=id_,
                positive_sk=tuple(sorted({sk[id_].index(unit) for unit in positives})),
                positive_text=tuple(sorted(needed)),
                own_text=tuple(sorted(needed | others)),
                topics=_strings(place, "topics", record.get("topics", [])),
                method="authors",
                split_key=id_,
                source="SKA-Bench",
                source_id=id_,
                licence="the authors'",
            )
        )
    return instances, UnitPool(sk, passages, headers)


def _strings(place: str, role: str, value: object, kind: type = list) -> Cells:
    """Return a list of strings, or with kind `str` the only one."""
    texts = value if isinstance(value, list) else [value]
    if not isinstance(value, kind) or not all(isinstance(each, str) for each in texts):
        raise DataError(f"{place}: {role} is {value!r:.60}; expected {ROLES[role]}. Convert the file first.")
    return tuple(map(clean, texts))


def _unit(place: str, role: str, value: object, width: int) -> Cells:
    """Return a triple or row, of as many cells as its table has columns."""
    cells = _strings(place, role, value)
    if len(cells) != width:
        raise DataError(f"{place}: a unit of {role} has {len(cells)} cells; expected {width}. Repair the record.")
    return cells


def _passage(place: str, value: object) -> Cells:
    """Return a passage as (title, text); a string alone has no title."""
    cells = ("", clean(value)) if isinstance(value, str) else _unit(place, "positive_texts", value, 2)
    if not cells[1]:
        raise DataError(f"{place}: an empty passage; expected text. Remove it.")
    return cells
