"""Two machines that share nothing but the folder of the run, against two processes of one machine.

    python -m tests.endurance.machines

Two torchrun agents with homes, caches, data and models of their own train a dense retriever and a graph network, rank
with `dense:`, `late:` and both, and answer with an `hf:` model. Exits 1 if a file differs. A minute on two idle cores.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.servers.serving import free_port
from tests.tiny_encoder import tiny_encoder
from tests.unit.llm import tiny_lm

ROOT = Path(__file__).parents[3]
WORK = """
import json, sys
from pathlib import Path
from kbbench_hf import train
from kbbench_hf.runners.run import run
out = Path(sys.argv[1])
how = {"epochs": 2, "batch": 4, "evaluations": 1, "learning_rate": 1e-3, "length": 16, "show": False}
dense = train("things", "dpr", "encoder/model", out / "dpr", **how)
graph = train("things", "qagnn", "encoder/model", out / "qagnn", candidates=4, graph_size=8, **how)
for name in ("dense:encoder/model", "late:encoder/model", dense.model, graph.model):
    run("things", name, out=out / name.replace(str(out), "").replace(":", "-").replace("/", "-"), show=False)
run("mini-text2kg", "hf:tiny-lm", out=out / "hf", limit=6, max_tokens=4, show=False)
"""
N_SECONDS = 480
N_FILES = 8
"""Three networks, and five times predictions."""


def machine(folder: Path, out: Path, *launch: str) -> "subprocess.Popen[str]":
    """Start torchrun in the folder of a machine, which has homes and caches of its own."""
    own = {name: str(folder / name.lower()) for name in ("HOME", "XDG_CACHE_HOME", "HF_HOME", "KBBENCH_CACHE")}
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *launch, "work.py", str(out)],
        cwd=folder,
        env={**os.environ, **own, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process: "subprocess.Popen[str]") -> str:
    try:
        return process.communicate(timeout=N_SECONDS)[0]
    finally:
        process.kill()


def disk(folder: Path) -> Path:
    """Write what every machine has of its own: a dataset, an encoder, a language model."""
    folder.mkdir()
    names = [f"{colour} {thing}" for thing in ("kite", "boat", "lamp") for colour in ("red", "blue", "green", "black")]
    rows = [f"n{n},thing,{name}," for n, name in enumerate(names)]
    (folder / "nodes.csv").write_text("\n".join(["id,type,name,text", *rows]) + "\n")
    (folder / "edges.csv").write_text("head,relation,tail\n" + "".join(f"n{n},near,n{n + 1}\n" for n in range(11)))
    splits = ["train", "train", "validation", "test"]
    asked = [f'q{n},where is the {name},"[""n{n}""]",{splits[n % 4]}' for n, name in enumerate(names)]
    (folder / "queries.csv").write_text("\n".join(["id,query,answer_ids,split", *asked]) + "\n")
    tables = [f"--{name}={name}.csv" for name in ("nodes", "edges", "queries")]
    subprocess.run([sys.executable, "-m", "kbbench_hf.cli", "build", "things", *tables], check=True, cwd=folder)
    tiny_encoder(folder / "encoder", [*names, "where is the name type thing"])
    tiny_lm.train(folder / "tiny-lm", [([{"role": "user", "content": "Where is the kite?"}], "In the boat.")], steps=2)
    (folder / "work.py").write_text(WORK)
    return folder


def results(out: Path) -> dict[str, bytes]:
    """Return the weights and predictions below a folder."""
    return {
        str(file.relative_to(out)): file.read_bytes()
        for file in sorted(out.rglob("*"))
        if file.suffix == ".safetensors" or file.name == "predictions.jsonl"
    }


def main() -> int:
    """Run both, and say which files are the same."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = disk(folder / "disk")
        for copy in ("one", "two", "both"):
            shutil.copytree(own, folder / copy)
        port = f"--master_port={free_port()}"
        said = finished(machine(folder / "both", folder / "here", "--nproc_per_node=2", port))
        expected = results(folder / "here")
        launch = ["--nnodes=2", "--nproc_per_node=1", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
        agents = [
            machine(folder / name, folder / "shared", *launch, f"--node_rank={rank}")
            for rank, name in enumerate(("one", "two"))
        ]
        said += "\n".join(finished(agent) for agent in agents)
        found = results(folder / "shared")
    for file in sorted({*expected, *found}):
        same = expected.get(file) == found.get(file)
        print(f"{file}: {'the same bytes' if same else 'DIFFERS, or is in one only'}")
    if len(expected) != N_FILES or expected != found:
        print(said)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
