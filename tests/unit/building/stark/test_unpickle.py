"""Hostile archives: nothing in them runs, nothing is written outside the target, and the error names the member.

All are read by the functions that read real ones, under the same limits, in one process for all of them; a few go the
whole way through a build.
"""

import io
import pickle
import struct
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import pytest

from kbbench_hf.errors import DataError

pytest.importorskip("torch")

import numpy as np

from tests.unit.building.stark import stark_archive
from tests.unit.building.stark.stark_archive import SMALL, damaged, tensor, write

ROOT = Path(__file__).parents[4]
MARK = "/tmp/kbbench-hostile-archive-was-here"
CALL = f"touch {MARK}"


def calls(module, name, *arguments):
    """A pickle that calls a function, by the oldest opcodes there are."""
    body = pickle.dumps(arguments, 2)[2:-1]
    return b"\x80\x02c" + f"{module}\n{name}\n".encode() + body + b"R."


def calls_stack_global(module, name, *arguments):
    """The same by the opcodes of protocol 4, which take dotted names."""
    text = [b"\x8c" + bytes([len(each)]) + each.encode() for each in (module, name)]
    return b"\x80\x04" + text[0] + text[1] + b"\x93" + pickle.dumps(arguments, 2)[2:-1] + b"R."


def alters(state):
    """A pickle that puts state into one of the functions it may call."""
    return b"\x80\x02ccollections\nOrderedDict\n" + pickle.dumps(state, 2)[2:-1] + b"b."


FUNCTIONS = [
    ("os", "system", CALL),
    ("posix", "system", CALL),
    ("nt", "system", CALL),
    ("os", "popen", CALL),
    ("os", "remove", MARK),
    ("os", "execv", "/bin/sh", ["sh", "-c", CALL]),
    ("os", "posix_spawn", "/bin/sh", ["sh", "-c", CALL], {}),
    ("subprocess", "Popen", ["touch", MARK]),
    ("subprocess", "check_output", ["touch", MARK]),
    ("subprocess", "getoutput", CALL),
    ("pty", "spawn", ["touch", MARK]),
    ("builtins", "eval", f"open({MARK!r}, 'w')"),
    ("builtins", "exec", f"open({MARK!r}, 'w')"),
    ("__builtin__", "eval", f"open({MARK!r}, 'w')"),
    ("builtins", "compile", "1", "", "eval"),
    ("builtins", "open", MARK, "w"),
    ("io", "open", MARK, "w"),
    ("_io", "FileIO", MARK, "w"),
    ("builtins", "__import__", "antigravity"),
    ("builtins", "getattr", {}, "clear"),
    ("builtins", "setattr", {}, "a", 1),
    ("builtins", "print", "hello"),
    ("builtins", "breakpoint"),
    ("builtins", "type", "a", (), {}),
    ("importlib", "import_module", "antigravity"),
    ("runpy", "run_path", MARK),
    ("timeit", "timeit", f"open({MARK!r}, 'w')"),
    ("cProfile", "run", f"open({MARK!r}, 'w')"),
    ("code", "interact"),
    ("pickle", "loads", calls("os", "system", CALL)),
    ("_pickle", "loads", calls("os", "system", CALL)),
    ("marshal", "loads", b"N"),
    ("types", "FunctionType"),
    ("types", "CodeType"),
    ("functools", "partial", 1),
    ("operator", "attrgetter", "a"),
    ("operator", "methodcaller", "a"),
    ("copyreg", "_reconstructor", 1, 2, 3),
    ("sys", "exit", 0),
    ("socket", "create_connection", ("127.0.0.1", 1)),
    ("urllib.request", "urlretrieve", "http://127.0.0.1:1/"),
    ("webbrowser", "open", "http://127.0.0.1:1/"),
    ("ctypes", "CDLL", "libc.so.6"),
    ("shutil", "copyfile", "/etc/hostname", MARK),
    ("pathlib", "Path", MARK),
    ("tempfile", "mkstemp"),
    ("zipfile", "ZipFile", MARK, "w"),
    ("logging", "FileHandler", MARK),
    ("multiprocessing.util", "spawnv_passfds", b"/bin/sh", ["sh", "-c", CALL], []),
    ("numpy", "load", MARK),
    ("numpy", "fromfile", MARK),
    ("numpy.testing._private.utils", "runstring", f"open({MARK!r}, 'w')", {}),
    ("numpy.core.multiarray", "_reconstruct", 1, 2, 3),
    ("torch", "load", MARK),
    ("torch.hub", "load", "x", "y"),
    ("torch.storage", "_load_from_bytes", calls("os", "system", CALL)),
    ("kbbench_hf.building.stark.unpickle", "limit", 0, 0),
    ("__main__", "main"),
]


def laughs():
    """Ten lists of ten, each holding the one before ten times: 10**10 values in a few hundred bytes."""
    value = "ha"
    for _ in range(10):
        value = [value] * 10
    return {node: {"a": value} for node in range(6)}


STRUCTURES = {
    "laughs": pickle.dumps(laughs()),
    "dotted_name": calls_stack_global("pathlib", "Path.touch", MARK),
    "dotted_name_of_an_allowed_module": calls_stack_global("collections", "OrderedDict.__init__.__globals__", 1),
    "function_altered": alters({"a": 1}),
    "function_slots_altered": alters((None, {"_function": 1})),
    "object_of_a_function": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
    "instance_opcode": b"(S'touch'\nios\nsystem\n.",
    "object_opcode": b"(cos\nsystem\nS'touch'\no.",
    "extension_code": b"\x80\x02\x82\x01.",
    "text_persistent_id": b"Pos.system\n.",
    "binary_persistent_id": b"\x80\x02" + pickle.dumps(("storage", "<i8", "0", "cpu", 1), 2)[2:-1] + b"Q.",
    "other_encoding": calls("_codecs", "encode", "touch", "rot13"),
    "object_dtype": calls("numpy", "dtype", "O8", False, True),
    "dtype_of_no_text": calls("numpy", "dtype", ["i8"], False, True),
    "record_dtype": calls("numpy", "dtype", "V8", False, True),
    "scalar_of_no_dtype": calls("numpy.core.multiarray", "scalar", 1, b"12345678"),
    "truncated": pickle.dumps({0: {"name": "x" * 99}})[:40],
    "empty": b"",
    "no_pickle": b"\x00\x01\x02 not a pickle",
    "unknown_opcode": b"\x80\x02\xff.",
    "future_protocol": b"\x80\x63}.",
    "missing_memo": b"\x80\x02h\x07.",
    "stack_underflow": b"\x80\x02s.",
    "a_list": pickle.dumps([1, 2]),
    "unhashable_key": b"\x80\x02}]}s.",
    "records_missing": pickle.dumps({0: {}, 1: {}, 7: {}}),
    "text_keys": pickle.dumps({str(n): {} for n in range(6)}),
    "record_of_text": pickle.dumps(dict.fromkeys(range(6), "text")),
    "bytes_in_a_record": pickle.dumps({node: {"a": b"b"} for node in range(6)}),
    "set_in_a_record": pickle.dumps({node: {"a": {1}} for node in range(6)}),
    "deeply_nested": b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".",
    "deep_record": b"\x80\x02}K\x00}X\x01\x00\x00\x00a" + b"]" * 50_000 + b"a" * 49_999 + b"ss.",
    "giant_bytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 50) + b"x.",
    "giant_text": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b"x.",
    "giant_frame": b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b"}.",
    "giant_number": b"\x80\x02\x8b" + struct.pack("<i", 1 << 30) + b"1.",
    "giant_memo": b"\x80\x02}r\xff\xff\xff\x7f.",
    "contains_itself": b"\x80\x02}q\x00K\x00h\x00s.",
}


def torch_file(data, storages=(("0", b"\0" * 48),), extra=(), method=zipfile.ZIP_STORED):
    """A file like `torch.save`'s with any pickle in it."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        archive.writestr("archive/data.pkl", data)
        for key, content in storages:
            archive.writestr(f"archive/data/{key}", content)
        for name, content in extra:
            archive.writestr(name, content)
    return sink.getvalue()


class Reference:
    """Pickled as a reference to a storage."""

    def __init__(self, kind="LongStorage", key="0", n=6, what="storage"):
        self.id = (what, kind, key, "cpu", n)


class TensorPickler(pickle._Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Reference) else None

    def save(self, value, save_persistent_id=True):
        if isinstance(value, str) and value.endswith("Storage"):
            self.write(b"ctorch\n" + value.encode() + b"\n")
        else:
            super().save(value, save_persistent_id)


def tensor_pickle(reference=None, offset=0, shape=(6,), strides=(1,)):
    sink = io.BytesIO()
    arguments = (reference or Reference(), offset, shape, strides, False, {})
    TensorPickler(sink, 2).dump(arguments)
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + sink.getvalue()[2:-1] + b"R."


TENSORS = {
    "code": torch_file(calls("os", "system", CALL)),
    "sparse": torch_file(calls("torch._utils", "_rebuild_sparse_tensor", 1, 2)),
    "parameter": torch_file(calls("torch._utils", "_rebuild_parameter", 1, 2, 3)),
    "floats": torch_file(tensor_pickle(Reference("FloatStorage"))),
    "objects": torch_file(tensor_pickle(Reference("UntypedStorage"))),
    "another_file": torch_file(tensor_pickle(Reference(key="../../../node_info.pkl"))),
    "absent_storage": torch_file(tensor_pickle(Reference(key="7"))),
    "short_storage": torch_file(tensor_pickle(), [("0", b"\0" * 40)]),
    "long_storage": torch_file(tensor_pickle(), [("0", b"\0" * 400_000)]),
    "immense_storage": torch_file(tensor_pickle(Reference(n=1 << 60))),
    "negative_storage": torch_file(tensor_pickle(Reference(n=-1))),
    "no_storage": torch_file(tensor_pickle(Reference(what="module"))),
    "negative_offset": torch_file(tensor_pickle(offset=-2)),
    "offset_behind": torch_file(tensor_pickle(offset=3)),
    "steps_behind": torch_file(tensor_pickle(strides=(2,))),
    "negative_steps": torch_file(tensor_pickle(strides=(-1,))),
    "blown_up": torch_file(tensor_pickle(shape=(1 << 40,), strides=(0,))),
    "two_dimensions": torch_file(tensor_pickle(shape=(2, 3), strides=(3, 1))),
    "shape_of_text": torch_file(tensor_pickle(shape=("6",))),
    "big_endian": torch_file(tensor_pickle(), extra=[("archive/byteorder", b"big")]),
    "bomb_inside": torch_file(
        tensor_pickle(Reference(n=6_000_000)), [("0", b"\0" * 48_000_000)], method=zipfile.ZIP_DEFLATED
    ),
    "two_pickles": torch_file(tensor_pickle(), extra=[("other/data.pkl", b"}.")]),
    "slip_inside": torch_file(tensor_pickle(), extra=[("../../x", b"x")]),
    "old_format": pickle.dumps(0x1950A86A20F9469CFC6C) + pickle.dumps(1001),
    "dictionary": torch_file(pickle.dumps({"a": 1}, 2)),
    "long_pickle": torch_file(b"\x80\x02" + b"}0" * 40_000 + b"}."),
}


def with_member(name, content=b"x", attributes=0, method=zipfile.ZIP_DEFLATED):
    """A good archive with one member more."""

    def make(file):
        good(file)
        with warnings.catch_warnings(), zipfile.ZipFile(file, "a") as archive:
            warnings.simplefilter("ignore")
            info = zipfile.ZipInfo("x")
            info.filename, info.external_attr, info.compress_type = name, attributes, method
            archive.writestr(info, content)

    return make


def good(file):
    return write(file, stark_archive.parts(SMALL))


def changed(change):
    """A good archive whose bytes are changed."""

    def make(file):
        good(file)
        file.write_bytes(change(file.read_bytes()))

    return make


def replaced(name, content):
    return lambda file: write(file, stark_archive.parts(SMALL) | {name: content})


def without(name, instead=None):
    def make(file):
        members = stark_archive.parts(SMALL)
        content = members.pop(name)
        write(file, members | ({instead: content} if instead else {}))

    return make


def encrypted(content):
    """Set the flag that says a member is encrypted, in the list at the end."""
    place = content.index(b"PK\x01\x02") + 8
    return content[:place] + b"\x01" + content[place + 1 :]


def understated(content):
    """Let the list at the end say that the largest member unpacks to ten bytes."""
    place = content.index(b"PK\x01\x02")
    while b"node_info.pkl" not in content[place + 46 : place + 80]:
        place = content.index(b"PK\x01\x02", place + 4)
    return content[: place + 24] + struct.pack("<I", 10) + content[place + 28 :]


def flipped(content):
    """Change one byte in the middle of the largest member."""
    place = content.index(b"node_info.pkl") + 100
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


ZIPS = {
    "slip": with_member("../../outside"),
    "slip_inside_a_folder": with_member("processed/../../outside"),
    "absolute": with_member(MARK),
    "drive": with_member("C:/outside"),
    "backslash": with_member("..\\outside"),
    "link": with_member("processed/link", b"/etc/passwd", 0o120777 << 16),
    "twice": with_member("processed/node_info.pkl"),
    "lzma": with_member("processed/x", method=zipfile.ZIP_LZMA),
    "bzip2": with_member("processed/x", method=zipfile.ZIP_BZIP2),
    "encrypted": changed(encrypted),
    "size_understated": changed(understated),
    "truncated": changed(lambda content: content[:-200]),
    "halved": changed(lambda content: content[: len(content) // 2]),
    "empty": changed(lambda content: b""),
    "no_zip": changed(lambda content: b"x" * len(content)),
    "bit_flipped": changed(flipped),
    "no_members": lambda file: write(file, {}),
    "renamed": without("node_info.pkl", "node_info.pickle"),
    "upper_case": without("edge_types.pt", "EDGE_TYPES.PT"),
    "missing": without("edge_type_dict.pkl"),
    "zero_bomb": replaced("node_type_dict.pkl", b"\0" * 50_000_000),
    "record_bomb": replaced("node_info.pkl", b"\x80\x02X" + struct.pack("<I", 50_000_000) + b"a" * 50_000_000 + b"."),
    "tensor_bomb": replaced("node_types.pt", b"\0" * 50_000_000),
    "types_by_name": replaced("node_type_dict.pkl", pickle.dumps({"disease": 0})),
    "types_of_numbers": replaced("edge_type_dict.pkl", pickle.dumps({0: 1})),
}

HOSTILE = {
    **{f"calls {f[0]}.{f[1]}": ("node_info.pkl", replaced("node_info.pkl", calls(*f))) for f in FUNCTIONS},
    **{f"pickle {name}": ("node_info.pkl", replaced("node_info.pkl", each)) for name, each in STRUCTURES.items()},
    **{f"tensor {name}": ("node_types.pt", replaced("node_types.pt", each)) for name, each in TENSORS.items()},
    **{f"zip {name}": ("", make) for name, make in ZIPS.items()},
}
NAMED = {
    "slip": "../../outside",
    "slip_inside_a_folder": "processed/../../outside",
    "absolute": MARK,
    "drive": "C:/outside",
    "link": "processed/link",
    "renamed": "processed/node_info.pkl",
    "upper_case": "processed/edge_types.pt",
    "missing": "processed/edge_type_dict.pkl",
    "zero_bomb": "processed/node_type_dict.pkl",
    "record_bomb": "processed/node_info.pkl",
    "tensor_bomb": "processed/node_types.pt",
    "size_understated": "processed/node_info.pkl",
    "bit_flipped": "processed/node_info.pkl",
    "twice": "processed/node_info.pkl",
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """What the reading process says of every hostile archive, and what lay in each one's folder afterwards."""
    Path(MARK).unlink(missing_ok=True)
    place = tmp_path_factory.mktemp("hostile")
    files = []
    for number, (_, make) in enumerate([*HOSTILE.values(), ("", good)]):
        (place / str(number)).mkdir()
        files.append(place / str(number) / "processed.zip")
        make(files[-1])
    lines = stark_archive.read_all(files)
    there = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    return dict(zip([*HOSTILE, "good"], lines, strict=True)), there


def test_there_are_enough_of_them():
    assert len(HOSTILE) >= 60


def test_a_good_archive_is_read_by_the_same_process(verdicts):
    verdict, said = verdicts[0]["good"]
    assert verdict == "done" and said["node_types"] == ["disease", "gene/protein", "drug"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_its_member_named(verdicts, name):
    verdict, why = verdicts[0][name]
    assert verdict == "refused", why
    kind, _, case = name.partition(" ")
    if kind == "calls":
        assert f"asks for {case}" in why
    assert (HOSTILE[name][0] or NAMED.get(case, "")) in why
    assert not Path(MARK).exists()


def test_nothing_was_written_outside_the_targets(verdicts):
    allowed = {"nodes.arrow", "node_types.npy", "edge_types.npy", "edge_index.npy"}
    for path in verdicts[1]:
        _, *rest = Path(path).parts
        assert rest == ["processed.zip"] or (rest[0] == "target" and rest[1] in allowed and len(rest) == 2), path
    assert not Path("/tmp/outside").exists()


@pytest.mark.parametrize(
    ("member", "content"),
    [
        ("node_info.pkl", pickle.dumps({0: "x" * 10_000_000})),
        ("node_info.pkl", b"\x80\x04" + (b"\x8c\x01a\x8c\x01b" * 30_000) + b"."),
        ("node_info.pkl", calls("os", "system", CALL)),
        ("node_type_dict.pkl", calls("builtins", "eval", f"open({MARK!r}, 'w')")),
        ("edge_index.pt", torch_file(calls("subprocess", "Popen", ["touch", MARK]))),
    ],
)
def test_a_build_refuses_it_and_leaves_nothing(tmp_path, member, content):
    from kbbench_hf.building.stark.archives import read_archive

    file = write(tmp_path / "processed.zip", stark_archive.parts(SMALL) | {member: content})
    with pytest.raises(DataError, match=f"processed/{member}"), read_archive(file, SMALL, tmp_path / "scratch"):
        pass
    assert not list((tmp_path / "scratch").iterdir())
    assert not Path(MARK).exists()


def test_archives_damaged_at_random_are_read_or_refused(tmp_path):
    files = []
    for seed in range(150):
        (tmp_path / str(seed)).mkdir()
        files.append(damaged(tmp_path / str(seed) / "processed.zip", seed))
    verdicts = [verdict for verdict, _ in stark_archive.read_all(files)]
    assert set(verdicts) <= {"done", "refused"} and verdicts.count("refused") > 75


def test_what_python_audits_is_refused_while_a_pickle_is_read():
    script = (
        "import sys; sys.path.append(sys.argv[1]); import socket, os\n"
        "from kbbench_hf.building.stark.unpickle import RefusedArchive, audit, sealed\n"
        "sys.addaudithook(audit)\n"
        "for act in (lambda: open('/etc/hostname'), lambda: os.system('true'), lambda: socket.socket(),\n"
        "            lambda: __import__('antigravity'), lambda: os.listdir('.'), lambda: eval('1')):\n"
        "    try:\n"
        "        with sealed(): act()\n"
        "        print('done')\n"
        "    except RefusedArchive: print('refused')\n"
    )
    run = subprocess.run([sys.executable, "-I", "-c", script, str(ROOT)], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["refused"] * 6


@pytest.mark.parametrize(
    "values", [np.arange(6), np.arange(12).reshape(2, 6), np.arange(12).reshape(6, 2).T, np.zeros(0)]
)
def test_tensors_are_read_as_torch_saves_them(values):
    import torch

    from kbbench_hf.building.stark.unpickle import read_tensor

    values = values.astype(np.int64)
    sink = io.BytesIO()
    torch.save(torch.from_numpy(values), sink)
    assert np.array_equal(read_tensor(io.BytesIO(sink.getvalue()), values.ndim), values)
    assert np.array_equal(read_tensor(io.BytesIO(tensor(values)), values.ndim), values)
