"""Files of the `evaluate` modules and Spaces beside the package."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from kbbench_hf.errors import KBBenchError
from kbbench_hf.files.writing import whole_folder

_PACKAGE = Path(__file__).resolve().parent.parent


def metric_modules() -> dict[str, Path]:
    """Return the folder of each `evaluate` module, by name.

    >>> "ranking" in metric_modules()
    True
    """
    root = _root("evaluate_modules", "metrics")
    return {file.parent.name: file.parent for file in sorted(root.glob("*/*.py")) if file.stem == file.parent.name}


def space_files(name: str) -> dict[str, Path]:
    """Return the files of a Space, by their path in it."""
    folder = _root("spaces", "spaces") / name
    return {file.name: file for file in sorted(folder.iterdir()) if file.is_file()}


def build_metrics(out: Path, modules: Mapping[str, Path]) -> list[str]:
    """Copy modules to `<out>/<name>/`, so that `evaluate.load("<out>/<name>")` finds it; return the names."""
    for name, folder in modules.items():
        with whole_folder(out / name) as partial:
            shutil.copytree(folder, partial, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return list(modules)


def _root(in_wheel: str, in_checkout: str) -> Path:
    """Return where files lie: in a wheel they are inside the package, in a checkout beside it."""
    for place in (_PACKAGE / in_wheel, _PACKAGE.parent / in_checkout):
        if place.is_dir():
            return place
    raise KBBenchError(
        f"Neither {_PACKAGE / in_wheel} nor {_PACKAGE.parent / in_checkout} exists. Install kbbench-hf again."
    )
