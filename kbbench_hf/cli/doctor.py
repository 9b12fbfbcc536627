"""`kbbench doctor`: list installed extras and datasets and verify checksums, or describe a model server."""

import os
import platform
import shlex
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import click

from kbbench_hf.benchmarks import benchmark_names, shipped_dataset
from kbbench_hf.cli.options import API_KEY_ENV, option
from kbbench_hf.errors import KBBenchError, UsageError, install
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
    "ontology": ["rdflib", "fastobo"],
    "harnesses": ["inspect-ai", "ir-datasets", "lm-eval", "mteb"],
    "tracking": ["trackio"],
}


@click.command()
@option("--base-url", "Describe this server instead, with at most 12 short requests.")
@option("--model", "A model of the server, if it has several.")
@API_KEY_ENV
def command(base_url: str | None, model: str | None, api_key_env: str | None) -> None:
    """List installed and missing extras, and check datasets, memory and disk; exit code 1 if something is broken.

    With --base-url, describe a model server in less than ten seconds, and propose options for it.

    Examples:
      kbbench doctor
      kbbench doctor --base-url http://localhost:8000/v1
    """
    if base_url is not None:
        _describe_server(base_url, model, api_key_env)
        return
    if model or api_key_env:
        raise UsageError(
            f"{'--model' if model else '--api-key-env'} is for a server; expected --base-url URL with it. Add it."
        )
    broken = 0
    echo(f"kbbench-hf {version('kbbench-hf')}, Python {platform.python_version()}, {platform.platform()}")
    for extra, packages in PACKAGES.items():
        states = {package: installed_version(package) for package in packages}
        installed = ", ".join(f"{package} {state}" for package, state in states.items() if state)
        echo(f"{extra:10} {installed or 'nothing installed'}")
        if absent := [package for package, state in states.items() if not state]:
            remedy = install("" if extra == "core" else extra)
            echo(f"{'':10} missing: {', '.join(absent)}; install with: {remedy}")
            broken += extra == "core"
    echo(f"metrics    {', '.join(metric_modules())}")
    built = {file.parent.name: DatasetFolder(file.parent) for file in sorted(Path(NAMESPACE).glob(f"*/{MANIFEST}"))}
    for name, here in [*((name, None) for name in benchmark_names()), *built.items()]:
        try:
            if folder := here or shipped_dataset(name):
                folder.verify()
                echo(f"dataset    {name} {folder.revision[:12]}, all files unchanged")
        except (KBBenchError, OSError) as error:
            broken += 1
            echo(f"dataset    {error}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30 if hasattr(os, "sysconf") else 0
    free = shutil.disk_usage(".").free / 2**30
    echo(f"machine    {os.cpu_count()} cores, {memory:.0f} GiB memory, {free:.0f} GiB disk free here")
    sys.exit(1 if broken else 0)


def _describe_server(base_url: str, model: str | None, api_key_env: str | None) -> None:
    from kbbench_hf.llm.endpoint import Endpoint, key_from_environment
    from kbbench_hf.runners.server_probe import PROBE_S, probe_server, served_model

    key = key_from_environment(api_key_env)
    if model is None:
        model = served_model(Endpoint(base_url, "", key, PROBE_S), attempts=1)
    report = probe_server(Endpoint(base_url, model, key, PROBE_S))
    for name, words in report.lines():
        echo(f"{name:10} {words}")
    echo(f"\nkbbench run NAME --base-url {shlex.quote(base_url)} {' '.join(report.options())}")
