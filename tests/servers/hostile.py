"""What strangers may send to a leaderboard: files that are broken, files that swell, texts that want to be code."""

# ruff: noqa: E501 - payloads are lines of their own length

import gzip
import io
import json
import pickle
import random
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks import shipped_dataset

GOOD = (shipped_dataset("mini-text2kg").path / "predictions" / "pattern.jsonl").read_bytes()
PLACE = "mini-text2kg/sentences/test/reference"
TRAPS = [
    b'{"id": NaN, "triples": []}', b'{"id": "x", "triples": [[NaN, "a", "b"]]}', b'{"id": Infinity}', b'{"id": 1e999}',
    b'{"id": "a", "id": "b", "triples": []}', b"[" * 100_000, b'{"a":' * 50_000, b'{"id": ' + b"9" * 5_000 + b"}",
    b'{"id": -995, "triples": []}', b'{"id": true, "triples": []}', b'{"id": 1.5, "triples": []}', b'{"id": null}',
    b'{"id": ["x"], "triples": []}', b'{"id": {}, "triples": []}', b'"id"', b"[]", b"7", b"null", b"{", b"}", b"\xff\xfe",
    b'{"id": "x\x00", "triples": []}', b'{"id": "\\ud800", "triples": []}', b"'id'", b'{"triples": []}', b"\xef\xbb\xbf{}",
    b'{"id": "x", "triples": "a"}', b'{"id": "x", "triples": [[1, 2, 3]]}', b'{"id": "x", "ids": [1, 2]}', b"// comment",
    b'{"id": "x", "answers": ["a"]}', b'{"id": "x", "triples": [["a", "b"]]}', b'{"id": "x", "triples": {"a": 1}}',
    "{\"id\": \"x\"}".encode("utf-16"), b"<html><script>alert(1)</script></html>", b"__import__('os').system('true')",
]  # fmt: skip
"""Lines that no predictions file may hold."""


def malformed(n: int, seed: int = 17) -> Iterator[tuple[str, bytes]]:
    """Yield n (name, content) of files of which most are broken; which are is for `is_valid` to say."""
    generator = random.Random(seed)
    lines = GOOD.splitlines()
    for number in range(n):
        kind = number % 6
        if kind == 0:
            yield "a.jsonl", _mutated(generator, GOOD)
        elif kind == 1:
            trap = generator.choice(TRAPS)
            place = generator.randrange(len(lines))
            yield "a.jsonl", b"\n".join([*lines[:place], trap, *lines[place + generator.randrange(2) :]])
        elif kind == 2:
            rows = [json.loads(line) for line in lines]
            _spoil(generator, rows)
            yield "a.jsonl", "\n".join(map(json.dumps, rows)).encode()
        elif kind == 3:
            packed = gzip.compress(GOOD)
            yield "a.jsonl.gz", _mutated(generator, packed) if generator.random() < 0.7 else packed[:-9]
        elif kind == 4:
            yield "a.jsonl", GOOD[: generator.randrange(len(GOOD) - 2)]
        else:
            yield "a.jsonl", generator.randbytes(generator.randrange(2_000))


def is_valid(name: str, data: bytes) -> bool:
    """Say, by a definition of its own, whether a file answers every example once, each with triples of strings."""
    try:
        text = gzip.decompress(data) if name.endswith(".gz") else data
        rows = [json.loads(line.decode("utf-8")) for line in text.split(b"\n") if line.strip()]
        ids = [row["id"] for row in rows]
        wanted = [json.loads(line)["id"] for line in GOOD.splitlines()]
        triples = [triple for row in rows for triple in row["triples"]]
        strings = [part for triple in triples for part in (triple.values() if isinstance(triple, dict) else triple)]
        return sorted(ids) == sorted(wanted) and all(
            isinstance(part, str) and part.encode() is not None for part in strings
        )
    except (ValueError, KeyError, TypeError, OSError, EOFError, zlib.error, RecursionError):
        return False


def bombs() -> Iterator[tuple[str, bytes]]:
    """Yield 30 (name, content) of files that swell when they are expanded or parsed."""
    parts = [
        b"0",
        b"{}\n",
        b"[",
        b'{"id":"',
        b'{"id": "x", "triples": [[]]}\n',
        b"\n",
        b" ",
        b'{"a":1}\n',
        b"1\n",
        b"[],",
    ]
    for part in parts:
        for n in (200_000_000, 400_000_000):
            yield "bomb.jsonl.gz", packed(part, n)
    ids = [json.loads(line)["id"] for line in GOOD.splitlines()]
    small = b'["a","b","c"],' * 68_000
    wide = b"".join(b'{"id": "%s", "triples": [%s["a","b","c"]]}\n' % (name.encode(), small) for name in ids)
    yield "wide.jsonl.gz", gzip.compress(wide)
    yield "wide.jsonl", b'{"id": "%s", "triples": [%s[]]}\n' % (ids[0].encode(), b"[]," * 320_000)
    yield "nested.jsonl", b"[" * 950_000 + b"\n"
    yield "keys.jsonl", b'{"id": "x", ' + b", ".join(b'"%d": 0' % n for n in range(80_000)) + b"}\n"
    yield "twice.jsonl.gz", gzip.compress(packed(b"0", 300_000_000))
    yield from ((name, _parquet()) for name in ("bomb.parquet", "bomb.jsonl", "bomb.jsonl.gz"))
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jsonl", b"0" * 300_000_000)
    yield from ((name, zipped.getvalue()) for name in ("bomb.zip", "zipped.jsonl"))


class _Runs:
    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, (f"touch {self.canary}",)


def code(canary: Path) -> Iterator[tuple[str, bytes]]:
    """Yield 100 (name, content) that would make the file `canary` if anything ran them."""
    shell, python = f"touch {canary}", f"__import__('os').system('touch {canary}')"
    ids = [json.loads(line)["id"] for line in GOOD.splitlines()]
    payloads = [
        *(pickle.dumps(_Runs(canary), protocol) for protocol in range(5)),
        b"\x93NUMPY\x01\x00" + pickle.dumps(_Runs(canary)),
        f"!!python/object/apply:os.system ['{shell}']".encode(), f"!!python/object/new:os.system ['{shell}']".encode(),
        python.encode(), f"eval(\"{python}\")".encode(), f"$({shell})".encode(), f"`{shell}`".encode(), f"; {shell}".encode(),
        f"{{{{ {python} }}}}".encode(), f"${{{python}}}".encode(), f"[{python}]".encode(), f"@py {python}".encode(),
        f"=cmd|' /C {shell}'!A0".encode(), f"<?php system('{shell}'); ?>".encode(), f"<%= `{shell}` %>".encode(),
        json.dumps({"__reduce__": ["os.system", shell]}).encode(), json.dumps({"py/reduce": ["os.system", [shell]]}).encode(),
        json.dumps({"id": ids[0], "triples": python}).encode(), json.dumps({"id": python, "triples": []}).encode(),
        json.dumps({"__class__": "os.system", "id": "x"}).encode(),
    ]  # fmt: skip
    names = ["a.jsonl", "a.jsonl.gz", "a.pkl", "../../a.jsonl"]
    for payload in payloads:
        for name in names:
            yield name, gzip.compress(payload) if name.endswith(".gz") else payload


INJECTIONS = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>", "<iframe src=javascript:alert(1)>",
    "<a href='javascript:alert(1)'>x</a>", "[x](javascript:alert(1))", "![x](https://example.org/track.png)",
    "\"><script>alert(1)</script>", "' onmouseover='alert(1)", "{{constructor.constructor('alert(1)')()}}", "${alert(1)}",
    "{{#with this}}{{alert}}{{/with}}", "`${alert(1)}`", "<details open ontoggle=alert(1)>", "<math><mi xlink:href=javascript:alert(1)>",
    "<style>@import 'https://example.org'</style>", "<base href='https://example.org/'>", "&lt;script&gt;alert(1)", "\u202egnp.exe",
    "=1+1", "=HYPERLINK(\"https://example.org\",\"x\")", "+SUM(1)", "-2+3+cmd|' /C calc'!A0", "@SUM(1)", "\t=1+1", "\r=1+1",
    "<form action=https://example.org><input name=q>", "<object data=javascript:alert(1)>", "javascript:alert(1)", "data:text/html,<script>alert(1)</script>",
]  # fmt: skip
"""Texts that want to be HTML, a script, a template, Markdown or a spreadsheet's formula: 30, for each of five fields."""
FIELDS = ("name", "link", "licence", "notes", "answer")


def _mutated(generator: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(generator.randint(1, 8)):
        kind, position = generator.randrange(4), generator.randrange(len(changed) or 1)
        if kind == 0 and changed:
            changed[position] ^= 1 << generator.randrange(8)
        elif kind == 1:
            del changed[position : position + generator.randint(1, 200)]
        elif kind == 2:
            changed[position:position] = generator.choice(TRAPS)[:200]
        else:
            changed[position:position] = changed[: generator.randint(1, 500)]
    return bytes(changed)


def _spoil(generator: random.Random, rows: list[dict[str, Any]]) -> None:
    """Make one row wrong in meaning."""
    row = generator.choice(rows)
    wrong: list[Any] = [None, -1, True, 1.5, "x" * 300, "ont_9_nowhere_test_1", ["a"], {"a": 1}, 10**400, "\ud800"]
    kind = generator.randrange(5)
    if kind == 0:
        row["id"] = generator.choice(wrong)
    elif kind == 1:
        row["triples"] = generator.choice(
            [None, "a", 1, {"a": 1}, [None], [["a"]], [["a", 1, "b"]], [["\ud800", "a", "b"]]]
        )
    elif kind == 2:
        rows.append(dict(row))
    elif kind == 3:
        rows.remove(row)
    else:
        row.pop(generator.choice(["id", "triples"]))
        row.pop("response", None)


def packed(part: bytes, n: int) -> bytes:
    """Return n bytes, a part again and again, as gzip in one stream: a megabyte is packed once, and stands there often."""
    chunk = part * (1_000_000 // len(part))
    often, packer, crc = n // len(chunk), zlib.compressobj(6, zlib.DEFLATED, -15), 0
    block = packer.compress(chunk) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(often):
        crc = zlib.crc32(chunk, crc)
    head = gzip.compress(b"")[:10]
    return head + block * often + packer.flush() + struct.pack("<II", crc, often * len(chunk))


def _parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pa.DictionaryArray.from_arrays(pa.array([0] * 1_500, pa.int32()), pa.array(["x" * 1_000_000]))
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": column}), sink, compression="zstd")
    return sink.getvalue()
