"""Safe unpickling of plain values and integer tensors.

A pickle is a program. Here it can use a few instructions and call the harmless functions below; while a tensor is read,
any action that Python audits (opening files, sockets, processes, imports) is refused. Tensors are read without torch,
from the bytes of their storage. To be used in a process of its own with `limit`, since a pickle can still ask for any
amount of memory. `archive_program` is that process.

What is refused must stay refused: `tests/unit/building/stark/test_unpickle.py` has the attacks.
"""

import io

# `pickle._Unpickler` is the pure Python one: the class in C has no `dispatch`, the table from which instructions can be
# taken away. The name is private, but has the same interface in Python 3.11, 3.12 and 3.13, where archives were read,
# and in CPython's source after 3.13 (commit 015a323): `dispatch`, `find_class`, `persistent_load`, `load`, and what
# `Items` sets itself (`stack`, `metastack`, `append`, `memo`, `read`, `readline`).
import pickle
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

_KIND = re.compile(r"[iuf][1248]|f16|b1|U[0-9]{1,6}")
"""NumPy types of plain values in the releases' records: numbers, bool, text."""
_ORDERS = [("<",), ("|",), ("=",)]
"""Byte orders in the state of a NumPy type; big-endian values would be read wrongly."""
_STORAGES = {"LongStorage": "<i8", "IntStorage": "<i4"}
_sealed = False
"""Whether `audit` refuses everything now."""


class RefusedArchive(Exception):
    """The archive is not what a release holds; the message names the member."""


def _dtype(name: object, *flags: object) -> "np.dtype[Any]":
    """Return a NumPy type of plain values, in place of `numpy.dtype`; others, objects above all, are refused."""
    if not isinstance(name, str) or not _KIND.fullmatch(name):
        raise RefusedArchive(f"holds values of the NumPy type {name!r}")
    return np.dtype(f"<{name}")


def _scalar(kind: Any, content: bytes) -> object:
    """Return a NumPy value as a plain one, in place of NumPy's `scalar`."""
    return np.frombuffer(content, kind, count=1)[0].item()


def _encode(text: str, encoding: str) -> bytes:
    """Return the bytes that protocol 2 writes as text, in place of `codecs.encode`."""
    if encoding != "latin1":
        raise RefusedArchive(f"encodes text as {encoding!r}")
    return text.encode("latin1")


class Storage(NamedTuple):
    """The numbers of a tensor, still in the file: of which type, in which member, how many."""

    kind: str
    key: str
    n: int


class Tensor(NamedTuple):
    """How a tensor lies in its storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _tensor(storage: object, offset: int, shape: Iterable[int], strides: Iterable[int], *rest: object) -> Tensor:
    if not isinstance(storage, Storage):
        raise RefusedArchive("holds a tensor without a storage")
    return Tensor(storage, offset, tuple(shape), tuple(strides))


RECORDS = {
    ("collections", "OrderedDict"): dict,
    ("_codecs", "encode"): _encode,
    ("numpy", "dtype"): _dtype,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
}
_TENSORS = {
    ("collections", "OrderedDict"): dict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    **{("torch", name): kind for name, kind in _STORAGES.items()},
}
_NAMES = (
    "PROTO STOP MARK MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 "
    "LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 "
    "TUPLE EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS GLOBAL STACK_GLOBAL REDUCE"
)
_OPS = [vars(pickle)[name][0] for name in _NAMES.split()]
"""The instructions of a release's pickles."""


class _Restricted(pickle._Unpickler):
    """An unpickler that knows the instructions of a release's pickles, and in place of functions what `known` has."""

    known: Mapping[tuple[str, str], object]
    dispatch: ClassVar[dict[int, Any]] = {op: pickle._Unpickler.dispatch[op] for op in _OPS}
    stack: list[Any]

    def find_class(self, module: str, name: str) -> object:
        """Return the stand-in of a name, or refuse."""
        if (module, name) not in self.known:
            raise RefusedArchive(f"asks for {module}.{name}, which no release uses")
        return self.known[module, name]

    def load_build(self) -> None:
        """Refuse to change a value; NumPy's types are whole without their state."""
        state, value = self.stack.pop(), self.stack[-1]
        if not isinstance(value, np.dtype) or not isinstance(state, tuple) or state[1:2] not in _ORDERS:
            raise RefusedArchive("changes a value")

    dispatch[pickle.BUILD[0]] = load_build


class _TensorUnpickler(_Restricted):
    """An unpickler for which only the functions of a tensor exist."""

    known = _TENSORS
    dispatch = _Restricted.dispatch | {pickle.BINPERSID[0]: pickle._Unpickler.dispatch[pickle.BINPERSID[0]]}

    def persistent_load(self, reference: object) -> Storage:
        """Return the storage that a tensor's pickle refers to."""
        match reference:
            case ("storage", "<i8" | "<i4" as kind, str(key), _, int(n)) if key.isdecimal() and n >= 0:
                return Storage(kind, key, n)
        raise RefusedArchive("refers to a storage of an unknown form")


class Capped(io.RawIOBase):
    """A stream that refuses to give more than a number of bytes."""

    def __init__(self, stream: IO[bytes], cap: int) -> None:
        self.stream, self.left, self.cap = stream, cap, cap

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        block = self.stream.read(len(buffer))
        self.left -= len(block)
        if self.left < 0:
            raise RefusedArchive(f"unpacks to more than {self.cap:,} bytes")
        buffer[: len(block)] = block
        return len(block)


@contextmanager
def sealed() -> Iterator[None]:
    """Refuse everything that Python audits while the block runs."""
    global _sealed
    _sealed = True
    try:
        yield
    finally:
        _sealed = False


def audit(event: str, arguments: object) -> None:
    """The audit hook behind `sealed`."""
    if _sealed and event != "pickle.find_class":
        raise RefusedArchive(f"attempts {event}")


def check_names(archive: zipfile.ZipFile) -> None:
    """Refuse an archive with a member that unpacking would put elsewhere, that hides another, or is packed unusually.

    Raises:
        RefusedArchive: there is one; the message names it.
    """
    seen = set()
    for member in archive.infolist():
        name = member.orig_filename
        path = PurePosixPath(name)
        if name in seen:
            raise RefusedArchive(f"{name!r} occurs twice in the archive")
        if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name:
            raise RefusedArchive(f"{name!r} points outside the archive's folder")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise RefusedArchive(f"{name!r} is a link")
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RefusedArchive(f"{name!r} is encrypted or packed in a way that no release uses")
        seen.add(name)


def read_tensor(stream: IO[bytes], dimensions: int) -> NDArray[np.int64]:
    """Return the tensor of integers in a file written by `torch.save`, with this number of dimensions, as int64.

    Raises:
        RefusedArchive: the file holds anything else.
    """
    content = stream.read()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_names(archive)
        pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise RefusedArchive("is not a file of one tensor")
        folder = pickles[0].removesuffix("data.pkl")
        if f"{folder}byteorder" in archive.namelist() and _content(archive, f"{folder}byteorder", 99) != b"little":
            raise RefusedArchive("has its bytes in big-endian order")
        with sealed():
            tensor = _TensorUnpickler(io.BytesIO(_content(archive, pickles[0], 1 << 16))).load()
        if not isinstance(tensor, Tensor):
            raise RefusedArchive(f"holds a {type(tensor).__name__}; expected a tensor")
        storage, kind = tensor.storage, np.dtype(tensor.storage.kind)
        n_bytes = storage.n * kind.itemsize
        raw = _content(archive, f"{folder}data/{storage.key}", n_bytes)
    if len(raw) != n_bytes:
        raise RefusedArchive(f"has a storage of {len(raw):,} bytes; expected {n_bytes:,}")
    return _strided(np.frombuffer(raw, kind), tensor, dimensions)


def _content(archive: zipfile.ZipFile, name: str, cap: int) -> bytes:
    """Return the bytes of a part, which `torch.save` never packs; refuse a packed one, or more than `cap` bytes."""
    part = archive.getinfo(name)
    if part.compress_type != zipfile.ZIP_STORED or part.file_size > cap:
        raise RefusedArchive(f"has a part {name!r} that is packed or larger than {cap:,} bytes")
    return archive.read(part)


def _strided(numbers: NDArray[np.integer], tensor: Tensor, dimensions: int) -> NDArray[np.int64]:
    """Return a copy of the numbers of a storage in a tensor's layout; one that leads outside the storage is refused."""
    layout = (tensor.offset, *tensor.shape, *tensor.strides)
    if any(type(each) is not int or each < 0 for each in layout) or len(tensor.shape) != len(tensor.strides):
        raise RefusedArchive("has a tensor of an impossible layout")
    if len(tensor.shape) != dimensions:
        raise RefusedArchive(f"has a tensor of {len(tensor.shape)} dimensions; expected {dimensions}")
    last = tensor.offset + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True))
    size = int(np.prod(tensor.shape, dtype=object))
    if size > len(numbers) or (size and last >= len(numbers)):
        raise RefusedArchive("has a tensor larger than its storage")
    steps = [step * numbers.itemsize for step in tensor.strides]
    return np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.shape, steps).astype(np.int64)


def limit(memory_bytes: int, cpu_seconds: int) -> None:
    """Limit what this process can use; without effect where the system has no such limits."""
    try:
        import resource
    except ImportError:
        return
    for name, value in {"AS": memory_bytes, "CPU": cpu_seconds, "FSIZE": memory_bytes, "CORE": 0}.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


_SHORT = 64
"""Texts of up to so many bytes stay, and equal ones are one object: keys, types, dates."""
_MOST_SHARED = 1 << 16
"""So many different short texts are shared; further ones stay as they are."""
_GONE = object()
"""Stands for a value that was let go."""


class ReferredBack(Exception):
    """The pickle refers to a value that was let go."""


class _Memo(list[Any]):
    """The values that a pickle can refer back to, by number.

    Without `keep`, values that were handed on are let go, but for short texts, numbers and what makes numbers.
    """

    def __init__(self, keep: bool) -> None:
        self.keep, self.n_handed_on = keep, 0
        self.shared: dict[str, str] = {}

    def __setitem__(self, number: Any, value: Any) -> None:
        if number != len(self):
            raise RefusedArchive("does not number its values in order")
        self.append(value)

    def __getitem__(self, number: Any) -> Any:
        value = super().__getitem__(number)
        if value is _GONE:
            raise RefusedArchive("contains itself") if self.keep else ReferredBack
        return value

    def let_go(self, root: object) -> None:
        """Let go of what was handed on since the last call, and always of the whole dictionary, `root`."""
        latest = self[self.n_handed_on :]
        del self[self.n_handed_on :]
        self += [_GONE if each is root else each if self.keep else self._stand_in(each) for each in latest]
        self.n_handed_on = len(self)

    def _stand_in(self, value: object) -> object:
        if not isinstance(value, str):
            return _GONE if isinstance(value, dict | list | tuple | bytes) else value
        if len(self.shared) < _MOST_SHARED and len(value) <= _SHORT:
            return self.shared.setdefault(value, value)
        return self.shared.get(value, value if len(value) <= _SHORT else _GONE)


class Items(_Restricted):
    """The items of the dictionary in a pickle, in the order in which they were written.

    Args:
        stream: the pickle.
        keep: whether all values are kept until the end, so that any of them can be referred to.

    Iterating raises `RefusedArchive` or an error of `pickle` where the pickle holds something else than a dictionary
    of plain values, and without `keep` `ReferredBack` where a value is needed that was let go.

    >>> import io, pickle
    >>> list(Items(io.BytesIO(pickle.dumps({0: {"name": "IL-2"}, 1: {"alias": ["a", None]}}))))
    [(0, {'name': 'IL-2'}), (1, {'alias': ['a', None]})]
    """

    known = RECORDS
    dispatch = _Restricted.dispatch | {pickle.FRAME[0]: lambda items: items.read(8)}  # says how much to read ahead

    def __init__(self, stream: IO[bytes], keep: bool = False) -> None:
        super().__init__(stream)
        self.read, self.readline = stream.read, stream.readline
        self.memo = _Memo(keep)
        self.metastack: list[list[Any]] = []
        self.stack = []
        self.append = self.stack.append

    def __iter__(self) -> Iterator[tuple[object, object]]:
        while (op := self.read(1)) != pickle.STOP:
            self.dispatch[op[0]](self)
            if op in (pickle.SETITEM, pickle.SETITEMS) and len(self.stack) == 1 and not self.metastack:
                root, self.stack[0] = self.stack[0], {}
                yield from root.items()
                self.memo.let_go(root)
        if len(self.stack) != 1 or type(self.stack[0]) is not dict or self.metastack:
            raise RefusedArchive(f"holds {[type(each).__name__ for each in self.stack[:3]]}; expected a dictionary")
