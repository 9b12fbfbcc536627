"""Checks of uploaded annotation files (Parquet): size, columns, finite values, metadata.

Used for submissions from the Submit tab and `kbbench submit`. The files come from strangers: each limit and each check
is needed, or a small file may fill the memory of the server or change scores.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kbbench_hf.benchmarks.annotations import COLUMNS, KINDS, METADATA_KEY, Identity, write_annotation
from kbbench_hf.benchmarks.judge_agreement import JudgeAgreement
from kbbench_hf.errors import DataError

MAX_FILE_BYTES = 64_000_000
"""Maximum size of a file, and of its unpacked columns, in which a repeated text counts once."""
MAX_TEXT_BYTES = 256_000_000
"""Maximum size of the texts of a file, each repetition counted."""
MAX_ROWS = 1_000_000
MAX_IDENTITY = 10_000
"""Maximum number of characters of the identity in a file's metadata, and maximum length of a vector."""


def checked_annotations(files: Sequence[Path], folder: Path) -> None:
    """Write the annotations of uploaded files into a folder, as `write_annotation` writes them.

    The metadata of a file give its kind; its name does not matter. Columns that annotations do not have are dropped.
    Where a file is refused, those before it are already written.

    Raises:
        DataError: a file is no annotation, is too large, or has wrong columns or values; or two files are of one kind.
    """
    seen: set[str] = set()
    for file in files:
        try:
            kind, identity, table = _read_annotation_file(file)
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{file.name[-40:]!r} cannot be read as an annotation ({type(error).__name__}); expected a .parquet "
                "file that 'kbbench annotate' wrote. Send the files of the annotations' folder as they are."
            ) from error
        if kind in seen:
            raise DataError(f"Two files hold {kind}; expected one of each kind. Send those of one folder.")
        seen.add(kind)
        write_annotation(folder, kind, identity, table)


def _read_annotation_file(file: Path) -> tuple[str, Identity, pa.Table]:
    """Return the kind, the identity and the rows of a file, checked from the cheapest check to the dearest."""
    size = file.stat().st_size
    if size > MAX_FILE_BYTES:
        raise DataError(
            f"{file.name[-40:]!r} has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read of an annotation."
        )
    parquet = pq.ParquetFile(file)
    unpacked = sum(parquet.metadata.row_group(n).total_byte_size for n in range(parquet.metadata.num_row_groups))
    if unpacked > MAX_FILE_BYTES or parquet.metadata.num_rows > MAX_ROWS:
        raise DataError(f"{file.name[-40:]!r} unpacks to more than {MAX_FILE_BYTES:,} bytes or {MAX_ROWS:,} rows.")
    kind, identity = _parse_identity(parquet.schema_arrow.metadata or {})
    if kind not in KINDS:
        raise DataError(f"{file.name[-40:]!r} is of kind {kind[:40]!r}; expected one of {', '.join(KINDS)}.")
    if missing := [name for name in COLUMNS[kind] if name not in parquet.schema_arrow.names]:
        raise DataError(f"{kind} have no column {missing[0]!r}; expected {', '.join(COLUMNS[kind])}.")
    texts = [name for name, form in COLUMNS[kind].items() if form == "text"]
    # as dictionaries, or a text that is repeated a million times takes its size a million times before it is checked
    table = pq.read_table(file, columns=list(COLUMNS[kind]), read_dictionary=texts, use_threads=False)
    _check_columns(kind, table)
    schema = pa.schema([(each.name, pa.string() if each.name in texts else each.type) for each in table.schema])
    return kind, identity, table.cast(schema)


def _parse_identity(metadata: dict[bytes, bytes]) -> tuple[str, Identity]:
    """Return the kind and the identity in the metadata of a file; the kind is "nothing" where they name none."""
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
        str(JudgeAgreement.of(agreement))  # fails here, and not later on the pages that show it
    needed = {"embeddings": ("completeness_threshold", "uniqueness_threshold"), "cosines": ("completeness_threshold",)}
    if missing := next((name for name in needed.get(kind, ()) if name not in identity), None):
        raise DataError(f"{kind} name no {missing}; expected the cosine that they were made for.")
    return kind, identity


def _check_columns(kind: str, table: pa.Table) -> None:
    """Refuse columns of another type than a kind has, values that are not finite, and too much text."""
    expanded = 0
    for name, form in COLUMNS[kind].items():
        column = table[name]
        if not _FORMS[form](column.type):
            raise DataError(f"{kind}'s column {name!r} holds {column.type}; expected {form}.")
        if form == "text":
            for texts in column.chunks:
                lengths = pc.take(pc.binary_length(texts.dictionary), texts.indices)
                expanded += pc.sum(lengths).as_py() or 0
        elif not _is_finite(column):
            raise DataError(f"{kind}'s column {name!r} has a value that is not a finite number.")
    if expanded > MAX_TEXT_BYTES:
        raise DataError(f"{kind} hold {expanded:,} bytes of text; at most {MAX_TEXT_BYTES:,} are read.")


def _is_finite(column: pa.ChunkedArray) -> bool:
    """Whether a column of numbers or vectors has finite numbers only; numbers may be null, but not vectors."""
    while pa.types.is_fixed_size_list(column.type):
        if column.null_count:
            return False
        column = pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
    return pc.all(pc.is_finite(column.cast(pa.float64())), min_count=0).as_py() is not False


def _is_vector(kind: pa.DataType) -> bool:
    """Whether a type is a vector of floats, or a matrix of them as nested lists, of a fixed and bounded size."""
    is_list, width = pa.types.is_fixed_size_list(kind), 1
    while pa.types.is_fixed_size_list(kind):
        width, kind = width * kind.list_size, kind.value_type
    return is_list and 1 <= width <= MAX_IDENTITY and bool(pa.types.is_floating(kind))


_FORMS: dict[str, Callable[[pa.DataType], bool]] = {
    "text": lambda kind: bool(pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)),
    "number": lambda kind: bool(pa.types.is_floating(kind) or pa.types.is_integer(kind)),
    "vector": _is_vector,
}
