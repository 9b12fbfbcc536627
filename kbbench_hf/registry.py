"""Tables from a name to the address of what it stands for, `package.module:attribute`, imported on request."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from kbbench_hf.errors import unknown_name


def registered(kind: str, name: str, table: Mapping[str, str]) -> Any:
    """Return the object at the address that a table has for a name.

    >>> registered("function", "root", {"root": "math:sqrt"})(9)
    3.0

    Raises:
        UsageError: the name is not in the table; the message has the `kind`, and the closest name.
    """
    if name not in table:
        raise unknown_name(kind, name, table)
    module, _, attribute = table[name].partition(":")
    return getattr(import_module(module), attribute)
