"""The `evaluate` modules: where they lie, and how they get to where `evaluate.load("kbbench/<name>")` finds them."""

import os
import shutil
from pathlib import Path

from kbbench_hf.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent.parent
_PLACES = (_PACKAGE / "evaluate_modules", _PACKAGE.parent / "metrics")
"""In a wheel the modules are in the package; in a checkout they are beside it."""


def metric_modules() -> dict[str, Path]:
    """Return the folder of each `evaluate` module, by name.

    >>> "ranking" in metric_modules()
    True
    """
    for place in _PLACES:
        found = {
            file.parent.name: file.parent for file in sorted(place.glob("*/*.py")) if file.stem == file.parent.name
        }
        if found:
            return found
    raise UsageError(
        f"No metric modules in {_PLACES[0]} or {_PLACES[1]}; the installation is broken. Install it again."
    )


def build_metrics(out: Path) -> list[str]:
    """Copy every module to `<out>/<name>/`, so that `evaluate.load("<out>/<name>")` finds it; return the names."""
    modules = metric_modules()
    for name, folder in modules.items():
        partial = out / f".{name}.partial-{os.getpid()}"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(folder, partial, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.rmtree(out / name, ignore_errors=True)
        partial.rename(out / name)
    return list(modules)
