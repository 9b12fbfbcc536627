"""The examples in docstrings, package by package; modules without examples are not imported."""

import doctest
from importlib import import_module

import pytest

from tests.contract.test_architecture import sources

WITH_EXAMPLES = [source for source in sources().values() if ">>> " in source.text]


@pytest.mark.parametrize("package", sorted({source.package for source in WITH_EXAMPLES}))
def test_the_examples_in_docstrings_print_what_they_show(package: str) -> None:
    modules = [source.module for source in WITH_EXAMPLES if source.package == package]
    assert not [
        module for module in modules if doctest.testmod(import_module(module), optionflags=doctest.ELLIPSIS).failed
    ]
