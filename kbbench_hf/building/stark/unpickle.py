"""Safe unpickling of plain values and integer tensors.

A pickle is a program. Here it can call five harmless functions written below; while one is read, any action that Python
audits (opening files, sockets, processes, imports) is refused; tensors are read without torch, from the bytes of their
storage. To be used in a process of its own with `limit`, since a pickle can still ask for any amount of memory.
"""

import io
import pickle
import re
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

_KIND = re.compile(r"[iuf][1248]|f16|b1|U[0-9]{1,6}")
_STORAGES = {"LongStorage": "<i8", "IntStorage": "<i4"}
_sealed = False


class RefusedArchive(Exception):
    """The archive is not what a release holds; the message names the member."""


class AllowedCall:
    """What a pickle gets in place of a class or function: it can be called and nothing else."""

    __slots__ = ("_function",)
    _function: Callable[..., object]

    def __init__(self, function: Callable[..., object]) -> None:
        object.__setattr__(self, "_function", function)

    def __call__(self, *arguments: object) -> object:
        """Call the function."""
        return self._function(*arguments)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise RefusedArchive(f"sets the attribute {name!r} of a function")

    def __setstate__(self, state: object) -> NoReturn:
        raise RefusedArchive("changes a function")


class PickledDtype:
    """A NumPy dtype in a pickle: the name of a plain number or text type."""

    __slots__ = ("dtype",)

    def __init__(self, name: str, *flags: object) -> None:
        if not isinstance(name, str) or not _KIND.fullmatch(name):
            raise RefusedArchive(f"holds values of the NumPy type {name!r}")
        self.dtype = np.dtype(f"<{name}")

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", "|", "="):
            raise RefusedArchive("holds a NumPy type of an unknown form")


def _scalar(kind: PickledDtype, content: bytes) -> object:
    return np.frombuffer(content, kind.dtype, count=1)[0].item()


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise RefusedArchive(f"encodes text as {encoding!r}")
    return text.encode("latin1")


def _ordered(pairs: Iterable[tuple[object, object]] = ()) -> dict[object, object]:
    return dict(pairs)


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
    ("collections", "OrderedDict"): AllowedCall(_ordered),
    ("_codecs", "encode"): AllowedCall(_encode),
    ("numpy", "dtype"): AllowedCall(PickledDtype),
    ("numpy.core.multiarray", "scalar"): AllowedCall(_scalar),
    ("numpy._core.multiarray", "scalar"): AllowedCall(_scalar),
}
_TENSORS: dict[tuple[str, str], object] = {
    ("collections", "OrderedDict"): AllowedCall(_ordered),
    ("torch._utils", "_rebuild_tensor_v2"): AllowedCall(_tensor),
    **{("torch", name): kind for name, kind in _STORAGES.items()},
}


class Unpickler(pickle.Unpickler):
    """An unpickler for which only the functions of a table exist."""

    def __init__(self, file: IO[bytes], table: Mapping[tuple[str, str], object]) -> None:
        super().__init__(file)
        self.table = table

    def find_class(self, module: str, name: str) -> object:
        """Return the stand-in of a name, or refuse."""
        if (module, name) not in self.table:
            raise RefusedArchive(f"asks for {module}.{name}, which no release uses")
        return self.table[module, name]

    def persistent_load(self, reference: object) -> Storage:
        """Return the storage that a tensor's pickle refers to."""
        if self.table is not _TENSORS or not isinstance(reference, tuple) or len(reference) != 5:
            raise RefusedArchive("refers to something outside itself")
        what, kind, key, _, n = reference
        plain = kind in _STORAGES.values() and isinstance(key, str) and key.isdecimal() and type(n) is int
        if what != "storage" or not plain or n < 0:
            raise RefusedArchive("refers to a storage of an unknown form")
        return Storage(kind, key, n)


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
    """Refuse an archive with a member that unpacking would put elsewhere, or that hides another."""
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
    """Return the tensor of integers in a file written by `torch.save`."""
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
            tensor = Unpickler(io.BytesIO(_content(archive, pickles[0], 1 << 16)), _TENSORS).load()
        if not isinstance(tensor, Tensor):
            raise RefusedArchive(f"holds a {type(tensor).__name__}; expected a tensor")
        storage, kind = tensor.storage, np.dtype(tensor.storage.kind)
        n_bytes = storage.n * kind.itemsize
        raw = _content(archive, f"{folder}data/{storage.key}", n_bytes)
    if len(raw) != n_bytes:
        raise RefusedArchive(f"has a storage of {len(raw):,} bytes; expected {n_bytes:,}")
    return _strided(np.frombuffer(raw, kind), tensor, dimensions)


def _content(archive: zipfile.ZipFile, name: str, cap: int) -> bytes:
    part = archive.getinfo(name)
    if part.compress_type != zipfile.ZIP_STORED or part.file_size > cap:
        raise RefusedArchive(f"has a part {name!r} that is packed or larger than {cap:,} bytes")
    return archive.read(part)


def _strided(numbers: NDArray[np.integer], tensor: Tensor, dimensions: int) -> NDArray[np.int64]:
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
    for kind, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, memory_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))
