"""Old module names: importing one imports the module under its new name, with a DeprecationWarning.

`moved.txt` lists them, old and new. They work for one version; `kbbench_hf` installs the finder when it is imported.
"""

import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_PACKAGE = "kbbench_hf"


@cache
def moved_modules() -> dict[str, str]:
    """Return old module name -> new module name, without the name of the package."""
    return {old: new for old, new, *_ in _rows()}


def _rows() -> list[list[str]]:
    """Return the rows of `moved.txt`: an old module, its new one, and renamed functions and classes as `old=new`."""
    return [line.split() for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()]


class _MovedModules(MetaPathFinder, Loader):
    """Find modules by their old names, after all other finders have failed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, old = fullname.partition(".")
        if package != _PACKAGE or old not in moved_modules():
            return None
        return ModuleSpec(fullname, self, is_package=_is_package(old))

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module with the names of the one that replaces it; a package stays empty."""
        old = module.__name__.partition(".")[2]
        if _is_package(old):
            return
        new = f"{_PACKAGE}.{moved_modules()[old]}"
        message = f"{module.__name__} has moved to {new}; the old name works for one version."
        # 2: the import statement; frames of importlib do not count
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        names = vars(import_module(new))
        vars(module).update({name: value for name, value in names.items() if not name.startswith("__")})
        renamed = next(pairs for name, _, *pairs in _rows() if name == old)
        vars(module).update({before: names[now] for before, now in (pair.split("=") for pair in renamed)})


def _is_package(old: str) -> bool:
    """Return whether an old name was a package; it stays one, so that its old modules can be found."""
    return old in {"models", "replies"}


def install() -> None:
    """Make imports by old names work."""
    sys.meta_path.append(_MovedModules())
