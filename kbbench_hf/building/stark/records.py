"""Streaming parser of a pickled dictionary, one batch of items at a time.

Python's own unpickler keeps all that it has read until the end, because a pickle may refer back to it: 9 GB for MAG's
nodes. Here what is long or holds other values is let go once its batch of items (1,000, as picklers write them) has
been handed on. A pickle that refers back to such a value is to be read again, with all of it kept.

A pickle is a program; this interprets the few instructions that plain values need, and there is nothing else to reach:
a name is looked up in `unpickle.RECORDS`, any further instruction is refused.
"""

import struct
from collections.abc import Callable, Iterator
from typing import IO, Any

from kbbench_hf.building.stark.unpickle import RECORDS, AllowedCall, PickledDtype, RefusedArchive

_SHORT = 64
"""Texts of up to so many bytes are kept, and equal ones are one object: keys, types, dates."""
_MOST_SHARED = 1 << 16
_GONE = object()
_BLOCK = 1 << 20


class ReferredBack(Exception):
    """The pickle refers to a value that was let go."""


class Items:
    """The items of the dictionary in a pickle, in the order in which they were written.

    Args:
        stream: the pickle.
        keep: whether all values are kept until the end, so that any of them can be referred to.

    Iterating raises `Refused` where the pickle holds something else than a dictionary of plain values, and without
    `keep` `ReferredBack` where a value is needed that was let go.

    >>> import io, pickle
    >>> list(Items(io.BytesIO(pickle.dumps({0: {"name": "IL-2"}, 1: {"alias": ["a", None]}}))))
    [(0, {'name': 'IL-2'}), (1, {'alias': ['a', None]})]
    """

    def __init__(self, stream: IO[bytes], keep: bool = False) -> None:
        self._read, self._keep = stream.read, keep
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: list[Any] = []

    def __iter__(self) -> Iterator[tuple[object, object]]:
        read, stack, marks, memo = self._read, self._stack, self._marks, self._memo
        shared: dict[bytes, str] = {}
        handed_on = 0
        while (op := read(1)) != b".":
            if op == b"\x8c" or op == b"X":
                size = read(1)[0] if op == b"\x8c" else int.from_bytes(self._take(4), "little")
                raw = read(size) if size < _BLOCK else self._take(size)
                if len(raw) < size:
                    raise EOFError("it ends in a text")
                text = shared.get(raw)
                if text is None:
                    text = raw.decode("utf-8", "surrogatepass")
                    if size <= _SHORT and len(shared) < _MOST_SHARED:
                        shared[raw] = text
                stack.append(text)
            elif op == b"\x94":
                memo.append(stack[-1])
            elif op == b"K":
                stack.append(read(1)[0])
            elif op == b"J":
                stack.append(int.from_bytes(self._take(4), "little", signed=True))
            elif op == b"j" or op == b"h":
                value = memo[read(1)[0] if op == b"h" else int.from_bytes(self._take(4), "little")]
                if value is _GONE:
                    raise ReferredBack
                if value is stack[0]:
                    raise RefusedArchive("contains itself")
                stack.append(value)
            elif op == b"(":
                marks.append(len(stack))
            elif op == b"u" or op == b"s":
                mark = marks.pop() if op == b"u" else len(stack) - 2
                found = stack[mark:]
                del stack[mark:]
                whole = stack[-1]
                if type(whole) is not dict or len(found) % 2:
                    raise RefusedArchive("puts items into what is not a dictionary")
                if len(stack) > 1:
                    whole.update(zip(found[::2], found[1::2], strict=True))
                    continue
                yield from zip(found[::2], found[1::2], strict=True)
                if not self._keep:
                    memo[handed_on:] = [each if _stays(each) else _GONE for each in memo[handed_on:]]
                    handed_on = len(memo)
            elif op in _RARE:
                _RARE[op](self)
            elif not op:
                raise EOFError("it ends too early")
            else:
                raise RefusedArchive(f"holds the instruction {op!r}, which no release uses")
        if len(stack) != 1 or type(stack[0]) is not dict or marks:
            raise RefusedArchive(f"holds {[type(each).__name__ for each in stack[:3]]}; expected a dictionary")

    def _take(self, n: int) -> bytes:
        """Return exactly `n` bytes; read in blocks, for a pickle can claim any number of them."""
        parts, left = [], n
        while left:
            block = self._read(min(left, _BLOCK))
            if not block:
                raise EOFError("it ends too early")
            parts.append(block)
            left -= len(block)
        return b"".join(parts)

    def _protocol(self) -> None:
        if not 2 <= self._take(1)[0] <= 5:
            raise RefusedArchive("is a pickle of an unknown protocol")

    def _frame(self) -> None:
        self._take(8)  # says how much to read ahead

    def _append(self) -> None:
        self._extend(len(self._stack) - 1)

    def _extend(self, mark: int | None = None) -> None:
        mark = self._marks.pop() if mark is None else mark
        values = self._stack[mark:]
        del self._stack[mark:]
        if type(self._stack[-1]) is not list:
            raise RefusedArchive("appends to what is not a list")
        self._stack[-1].extend(values)

    def _tuple(self, mark: int | None = None) -> None:
        mark = self._marks.pop() if mark is None else mark
        if mark < 0:
            raise RefusedArchive("takes more values than there are")
        self._stack[mark:] = [tuple(self._stack[mark:])]

    def _long_text(self) -> None:
        self._stack.append(self._take(_integer(self._take(8))).decode("utf-8", "surrogatepass"))

    def _bytes(self, size: int) -> None:
        self._stack.append(self._take(_integer(self._take(size))))

    def _put(self, size: int) -> None:
        if _integer(self._take(size)) != len(self._memo):
            raise RefusedArchive("does not number its values in order")
        self._memo.append(self._stack[-1])

    def _global(self) -> None:
        lines = []
        for _ in range(2):
            line = bytearray()
            while (byte := self._take(1)) != b"\n":
                line += byte
            lines.append(line.decode())
        self._stack += lines
        self._named()

    def _named(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if (module, name) not in RECORDS:
            raise RefusedArchive(f"asks for {module}.{name}, which no release uses")
        self._stack.append(RECORDS[module, name])

    def _reduce(self) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        if type(function) is not AllowedCall or type(arguments) is not tuple:
            raise RefusedArchive("calls what is not a function")
        self._stack.append(function(*arguments))

    def _build(self) -> None:
        state, value = self._stack.pop(), self._stack[-1]
        if type(value) is not PickledDtype:
            raise RefusedArchive("changes a value")
        value.__setstate__(state)


def _integer(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _stays(value: object) -> bool:
    """Whether a value is kept: short texts, numbers, and what makes numbers."""
    return len(value) <= _SHORT if isinstance(value, str) else not isinstance(value, dict | list | tuple | bytes)


def _constant(make: Callable[[], object]) -> Callable[[Items], None]:
    return lambda reader: reader._stack.append(make())


_RARE: dict[bytes, Callable[[Items], None]] = {
    b"}": _constant(dict),
    b"]": _constant(list),
    b")": _constant(tuple),
    b"N": _constant(lambda: None),
    b"\x88": _constant(lambda: True),
    b"\x89": _constant(lambda: False),
    b"M": lambda reader: reader._stack.append(_integer(reader._take(2))),
    b"G": lambda reader: reader._stack.append(struct.unpack(">d", reader._take(8))[0]),
    b"\x8a": lambda reader: reader._stack.append(
        int.from_bytes(reader._take(reader._take(1)[0]), "little", signed=True)
    ),
    b"\x8d": Items._long_text,
    b"C": lambda reader: reader._bytes(1),
    b"B": lambda reader: reader._bytes(4),
    b"a": Items._append,
    b"e": Items._extend,
    b"t": Items._tuple,
    b"\x85": lambda reader: reader._tuple(len(reader._stack) - 1),
    b"\x86": lambda reader: reader._tuple(len(reader._stack) - 2),
    b"\x87": lambda reader: reader._tuple(len(reader._stack) - 3),
    b"q": lambda reader: reader._put(1),
    b"r": lambda reader: reader._put(4),
    b"c": Items._global,
    b"\x93": Items._named,
    b"R": Items._reduce,
    b"b": Items._build,
    b"\x80": Items._protocol,
    b"\x95": Items._frame,
}
"""What each further instruction does, in the order of Python's `pickletools`."""
