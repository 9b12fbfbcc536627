"""Addresses, `package.module:attribute`: what a name stands for, imported on request.

The registries of benchmarks, retrievers and training use it, so that listing names imports none of them, and so does
every entry point of a plug-in.
"""

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kbbench_hf.errors import UsageError, unknown_name

_ADDRESS = re.compile(r"([A-Za-z_]\w*)(?:\.\w+)*:[A-Za-z_]\w*")


def imported(address: str) -> Any:
    """Return the object at an address.

    >>> imported("math:sqrt")(9)
    3.0
    """
    module, _, attribute = address.partition(":")
    return getattr(import_module(module), attribute)


def registered(kind: str, name: str, table: Mapping[str, str]) -> Any:
    """Return the object at the address that a table has for a name.

    >>> registered("function", "root", {"root": "math:sqrt"})(9)
    3.0

    Raises:
        UsageError: the name is not in the table; the message has the `kind`, and the closest name.
    """
    if name not in table:
        raise unknown_name(kind, name, table)
    return imported(table[name])


def on_request(address: str) -> Callable[..., Any]:
    """Return the function at an address as one that is imported when it is first called.

    >>> on_request("math:sqrt")(9)
    3.0
    """

    def function(*arguments: Any, **options: Any) -> Any:
        return imported(address)(*arguments, **options)

    function.__name__ = address.partition(":")[2]
    return function


@cache  # a search goes through the entry points of all groups
def plug_ins(group: str) -> Mapping[str, str]:
    """Return name -> address of the entry points that other packages register in a group."""
    return MappingProxyType({each.name: each.value for each in _entry_points().select(group=group)})


@cache
def _entry_points() -> Any:
    """Search all installed packages once."""
    from importlib.metadata import entry_points

    return entry_points()


def is_importable(text: str) -> bool:
    """Return whether a text is an address whose top-level package is installed or in the working directory.

    >>> is_importable("math:sqrt"), is_importable("llama3:8b"), is_importable("no_such_package:Model")
    (True, False, False)
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or found[1] in sys.modules:  # find_spec fails for a loaded module without a spec: __main__
        return found is not None
    return _is_in_working_directory(found[1]) or find_spec(found[1]) is not None


def _is_in_working_directory(package: str) -> bool:
    return Path(f"{package}.py").is_file() or Path(package, "__init__.py").is_file()


def plugged(kind: str, name: str, address: str) -> Any:
    """Return the object at an address in another package; a class is called without arguments.

    Raises:
        UsageError: the import or the call fails; the message has the `kind`, the name and the error.
    """
    if _is_in_working_directory(address.partition(":")[0].partition(".")[0]) and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # a console script does not have it
    try:
        found = imported(address)
        return found() if isinstance(found, type) else found
    except Exception as error:  # whatever code of other packages raises
        raise UsageError(
            f"The {kind} {name!r} could not be imported from {address}: {type(error).__name__}: {error}. "
            "Fix or uninstall the package that provides it."
        ) from error
