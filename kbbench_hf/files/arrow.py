"""Conversion between NumPy or Python values and Arrow arrays without pandas (whose import takes 0.2 s).

Knowledge bases and their builders use it, with columns of millions of values: so arrays share memory, and texts are
encoded in one pass. Parquet files written from these arrays are compared byte for byte.
"""

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def arrow_numbers(values: NDArray[Any]) -> pa.Array:
    """Return numbers as an Arrow array over the same memory.

    >>> arrow_numbers(np.array([2, 3])).to_pylist()
    [2, 3]
    """
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, buffer])


def arrow_array(values: Sequence[Any], kind: pa.DataType, errors: str = "strict") -> pa.Array:
    """Return texts or integers as an Arrow array of a type; None becomes null. With a list type, lists of them.

    `errors` is that of `str.encode`: what becomes of lone surrogates.

    >>> arrow_array([["a", "ü"], []], pa.list_(pa.string())).to_pylist(), arrow_array([1, None], pa.int64()).to_pylist()
    ([['a', 'ü'], []], [1, None])
    """
    if pa.types.is_list(kind):
        items = arrow_array([*chain.from_iterable(values)], kind.value_type, errors)
        return pa.ListArray.from_arrays(arrow_numbers(_offsets(values)), items)
    known = np.array([value is not None for value in values], bool)
    buffers = [None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))]
    if pa.types.is_string(kind):
        texts = [(text or "").encode("utf-8", errors) for text in values]
        buffers += [pa.py_buffer(_offsets(texts)), pa.py_buffer(b"".join(texts))]
    else:
        buffers += [pa.py_buffer(np.array([number or 0 for number in values], kind.to_pandas_dtype()))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def numpy_numbers(values: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return numbers, none of which is missing, as a NumPy array over the same memory where they are in one chunk.

    >>> numpy_numbers(arrow_numbers(np.array([2, 3])).slice(1))
    array([3])
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    kind = np.dtype(values.type.to_pandas_dtype())
    buffer = values.buffers()[1] if len(values) else b""
    return np.frombuffer(buffer, kind, len(values), values.offset * kind.itemsize if len(values) else 0)


def _offsets(values: Sequence[Sequence[Any]]) -> NDArray[np.int32]:
    """Return the n + 1 offsets of n values in their concatenation."""
    return np.fromiter(accumulate(map(len, values), initial=0), np.int32, len(values) + 1)
