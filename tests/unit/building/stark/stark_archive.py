"""Archives in the exact form of STaRK's release, of any size; run as a script, one of Prime's or MAG's full size.

python -m tests.unit.building.stark.stark_archive prime OUT.zip
"""

import io
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

from kbbench_hf.building.stark.archives import MEMBERS, PACKAGES, Archive

SMALL = Archive(
    folder="processed",
    node_types=("disease", "gene/protein", "drug"),
    relations=("ppi", "target", "side effect"),
    n_nodes=6,
    n_edges=8,
    nodes_by_type={"disease": 2, "gene/protein": 3, "drug": 1},
)


def parts(known: Archive, seed: int = 0) -> dict[str, bytes]:
    """The six members of an archive with random edges and short records."""
    generator = np.random.default_rng(seed)
    sizes = known.nodes_by_type or {known.node_types[0]: known.n_nodes}
    node_types = np.repeat(np.arange(len(known.node_types)), [sizes.get(name, 0) for name in known.node_types])
    generator.shuffle(node_types)
    info = {
        node: {
            "id": str(node),
            "type": known.node_types[kind],
            "name": f"node {node}",
            "source": "made",
            "details": {"score": float("nan"), "aliases": ["a", "b"], "n": node},
        }
        for node, kind in enumerate(node_types.tolist())
    }
    return {
        "node_info.pkl": pickle.dumps(info),
        "node_type_dict.pkl": pickle.dumps(dict(enumerate(known.node_types))),
        "edge_type_dict.pkl": pickle.dumps(dict(enumerate(known.relations))),
        "node_types.pt": tensor(node_types),
        "edge_types.pt": tensor(generator.integers(0, len(known.relations), known.n_edges)),
        "edge_index.pt": tensor(generator.integers(0, known.n_nodes, (2, known.n_edges))),
    }


def tensor(values: np.ndarray) -> bytes:
    """What `torch.save` writes for a tensor."""
    sink = io.BytesIO()
    torch.save(torch.from_numpy(np.ascontiguousarray(values)), sink)
    return sink.getvalue()


def write(file: Path, members: dict[str, bytes], folder: str = "processed") -> Path:
    """Pack members into a folder of a zip file, as the release is packed."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{folder}/", "")
        for name, content in members.items():
            archive.writestr(f"{folder}/{name}", content)
    return file


def damaged(file: Path, seed: int) -> Path:
    """A good archive with a few bytes changed, cut or doubled, in the zip file or in one of its members."""
    generator = np.random.default_rng(seed)
    members = parts(SMALL)
    if seed % 3:
        name = sorted(members)[generator.integers(len(members))]
        members[name] = _damage(members[name], generator)
        return write(file, members)
    write(file, members)
    file.write_bytes(_damage(file.read_bytes(), generator))
    return file


def _damage(content: bytes, generator: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for _ in range(generator.integers(1, 4)):
        place = int(generator.integers(len(changed)))
        match generator.integers(4):
            case 0:
                changed[place] = int(generator.integers(256))
            case 1:
                changed[place] ^= 1 << int(generator.integers(8))
            case 2:
                del changed[place : place + int(generator.integers(1, 20))]
            case 3:
                changed[place:place] = changed[place : place + int(generator.integers(1, 20))]
    return bytes(changed)


READ_ALL = """
import json, sys
sys.path += sys.argv[1:]
from kbbench_hf.building.stark import archive_program as program
from kbbench_hf.building.stark.unpickle import RefusedArchive, audit, limit
from zipfile import BadZipFile
limit(2 << 30, 600)
sys.addaudithook(audit)
program.say = lambda message: None
for job in json.load(sys.stdin):
    try:
        print(json.dumps(["done", program.convert(job)]))
    except RefusedArchive as why:
        print(json.dumps(["refused", str(why)]))
    except program.DAMAGED as error:
        print(json.dumps(["refused", str(error)]))
    except BaseException as error:
        print(json.dumps(["crashed", repr(error)]))
"""


def read_all(files: list[Path]) -> list[tuple[str, object]]:
    """What the functions that read archives say of each file, all in one process like the real one.

    They write into a folder `target` beside each file.
    """
    caps = dict.fromkeys(MEMBERS, 70_000) | {"node_info.pkl": 300_000}
    jobs = []
    for file in files:
        out = file.parent / "target"
        out.mkdir()
        job = {"archive": str(file), "out": str(out), "folder": "processed", "caps": caps, "names_in": {"name": [""]}}
        job["without_type_names"] = False
        jobs.append(job)
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", READ_ALL, *PACKAGES],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=True,
        env={"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
    )
    lines = [tuple(json.loads(line)) for line in run.stdout.splitlines()]
    assert len(lines) == len(jobs)
    return lines


if __name__ == "__main__":
    from kbbench_hf.building.stark import release as stark_release

    release, out = sys.argv[1:]
    known = getattr(stark_release, release.upper()).archive
    write(Path(out), parts(known), known.folder)
