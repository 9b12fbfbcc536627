"""Uploaded annotation files: bounded reading, checks by column, conversion to our own format."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kbbench_hf.benchmarks.annotations import COLUMNS, KINDS, METADATA_KEY, Identity, write_annotation
from kbbench_hf.benchmarks.judge_agreement import JudgeAgreement
from kbbench_hf.errors import DataError

MAX_BYTES = 64_000_000
"""Of one file, and of what it unpacks to before texts are repeated."""
MAX_EXPANDED_BYTES = 256_000_000
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
    if size > MAX_BYTES:
        raise DataError(f"{file.name[-40:]!r} has {size:,} bytes; at most {MAX_BYTES:,} are read of an annotation.")
    plain = pq.ParquetFile(file)
    unpacked = sum(plain.metadata.row_group(n).total_byte_size for n in range(plain.metadata.num_row_groups))
    if unpacked > MAX_BYTES or plain.metadata.num_rows > MAX_ROWS:
        raise DataError(f"{file.name[-40:]!r} unpacks to more than {MAX_BYTES:,} bytes or {MAX_ROWS:,} rows.")
    kind, identity = _identity(plain.schema_arrow.metadata or {})
    if kind not in KINDS:
        raise DataError(f"{file.name[-40:]!r} is of kind {kind[:40]!r}; expected one of {', '.join(KINDS)}.")
    if missing := [name for name in COLUMNS[kind] if name not in plain.schema_arrow.names]:
        raise DataError(f"{kind} have no column {missing[0]!r}; expected {', '.join(COLUMNS[kind])}.")
    texts = [name for name, form in COLUMNS[kind].items() if form == "text"]
    # a text that is repeated a million times is one text as long as it stays in its dictionary
    table = pq.read_table(file, columns=list(COLUMNS[kind]), read_dictionary=texts, use_threads=False)
    _check_columns(kind, table)
    return kind, identity, table.cast(pa.schema([_decoded_field(field) for field in table.schema]))


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
    if kind in ("embeddings", "cosines") and "completeness_threshold" not in identity:
        raise DataError(f"{kind} name no completeness_threshold; expected the cosine that they were made for.")
    if kind == "embeddings" and "uniqueness_threshold" not in identity:
        raise DataError("embeddings name no uniqueness_threshold; expected the cosine that they were made for.")
    return kind, identity


def _check_columns(kind: str, table: pa.Table) -> None:
    expanded = 0
    for name, form in COLUMNS[kind].items():
        column = table[name]
        if not _FORMS[form](column.type):
            raise DataError(f"{kind}'s column {name!r} holds {column.type}; expected {form}.")
        if form == "text":
            expanded += sum(_length(chunk) for chunk in column.chunks)
        elif not _finite(column):
            raise DataError(f"{kind}'s column {name!r} has a value that is not a finite number.")
    if expanded > MAX_EXPANDED_BYTES:
        raise DataError(f"{kind} hold {expanded:,} bytes of text; at most {MAX_EXPANDED_BYTES:,} are read.")


def _length(texts: pa.DictionaryArray) -> int:
    """Return how many bytes texts have where each is written out."""
    return pc.sum(pc.take(pc.binary_length(texts.dictionary), texts.indices)).as_py() or 0


def _finite(column: pa.ChunkedArray) -> bool:
    while pa.types.is_fixed_size_list(column.type):
        if column.null_count:
            return False
        column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
    return pc.all(pc.is_finite(column.cast(pa.float64())), min_count=0).as_py() is not False


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _is_vector(kind: pa.DataType) -> bool:
    width = 1
    while pa.types.is_fixed_size_list(kind):
        width, kind = width * kind.list_size, kind.value_type
    return 1 <= width <= MAX_IDENTITY and math.isfinite(width) and bool(pa.types.is_floating(kind))


_FORMS = {"text": _is_text, "number": _is_number, "vector": _is_vector}


def _decoded_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, pa.string()) if pa.types.is_dictionary(field.type) else field
