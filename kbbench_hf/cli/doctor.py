"""`kbbench doctor`: list installed extras and datasets, and verify checksums."""

import os
import platform
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import click

from kbbench_hf.benchmarks import benchmark_names, shipped_dataset
from kbbench_hf.errors import KBBenchError, install
from kbbench_hf.files.datasets import MANIFEST, NAMESPACE, DatasetFolder
from kbbench_hf.hub.metric_modules import metric_modules
from kbbench_hf.reports.terminal import echo
from kbbench_hf.runners.run_folder import installed_version

PACKAGES = {
    "core": ["numpy", "pyarrow", "datasets", "evaluate", "huggingface_hub", "bm25s", "matplotlib", "click", "rich"],
    "models": ["torch", "transformers", "accelerate", "sentence-transformers", "faiss-cpu"],
    "structured": ["llguidance"],
    "text": ["gensim", "tiktoken", "toktok-rs"],
    "space": ["gradio"],
    "mcp": ["mcp"],
    "ontology": ["rdflib"],
}


@click.command()
def command() -> None:
    """List installed and missing extras, and check datasets, memory and disk; exit code 1 if something is broken.

    Example: kbbench doctor
    """
    broken = 0
    echo(f"kbbench-hf {version('kbbench-hf')}, Python {platform.python_version()}, {platform.platform()}")
    for extra, packages in PACKAGES.items():
        states = {package: installed_version(package) for package in packages}
        found = ", ".join(f"{package} {state}" for package, state in states.items() if state)
        echo(f"{extra:10} {found or 'nothing installed'}")
        if absent := [package for package, state in states.items() if not state]:
            remedy = install("" if extra == "core" else extra)
            echo(f"{'':10} missing: {', '.join(absent)}; install with: {remedy}")
            broken += extra == "core"
    echo(f"metrics    {', '.join(metric_modules())}")
    built = [file.parent.name for file in sorted(Path(NAMESPACE).glob(f"*/{MANIFEST}"))]
    for name, find in [*((name, shipped_dataset) for name in benchmark_names()), *((name, _built) for name in built)]:
        try:
            if folder := find(name):
                folder.verify()
                echo(f"dataset    {name} {folder.revision[:12]}, all files unchanged")
        except (KBBenchError, OSError) as error:
            broken += 1
            echo(f"dataset    {error}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30 if hasattr(os, "sysconf") else 0
    free = shutil.disk_usage(".").free / 2**30
    echo(f"machine    {os.cpu_count()} cores, {memory:.0f} GiB memory, {free:.0f} GiB disk free here")
    sys.exit(1 if broken else 0)


def _built(name: str) -> DatasetFolder:
    return DatasetFolder(Path(NAMESPACE) / name)
