"""Addresses, `package.module:attribute`: what a name stands for, imported on request."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kbbench_hf.errors import unknown_name


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
