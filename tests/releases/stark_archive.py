"""Archives in the exact form of STaRK's release, of any size; run as a script, one of Prime's or MAG's full size.

python tests/releases/stark_archive.py prime OUT.zip
"""

import io
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

from kbbench_hf.releases.stark_archives import Archive

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


if __name__ == "__main__":
    from kbbench_hf.releases import stark_facts

    release, out = sys.argv[1:]
    known = getattr(stark_facts, release.upper()).archive
    write(Path(out), parts(known), known.folder)
