"""Modules that moved are still imported by their old names, with a warning that names the new one."""

from importlib import import_module

import pytest

from kbbench_hf.moved import moved_modules


def test_an_old_name_imports_the_new_module() -> None:
    with pytest.warns(
        DeprecationWarning, match=r"kbbench_hf\.replies\.triples has moved to kbbench_hf\.parsing\.triples"
    ):
        from kbbench_hf.replies.triples import parse_triples, read_triples  # type: ignore[import-not-found]

    from kbbench_hf.parsing import triples

    assert parse_triples is read_triples is triples.parse_triples


@pytest.mark.filterwarnings("ignore:.* has moved to:DeprecationWarning")
def test_every_new_name_exists_and_no_old_one_does() -> None:
    for old, new in moved_modules().items():
        import_module(f"kbbench_hf.{new}")
        import_module(f"kbbench_hf.{old}")
        assert old not in moved_modules().values()
    by_chunks = import_module("kbbench_hf.retrieval.multi_vector")
    assert by_chunks.build is import_module("kbbench_hf.retrieval.dense").build_multi


def test_an_unknown_name_is_no_module() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("kbbench_hf.replies.nothing")
