"""Instances made from public sources: laid out as their repositories are, with real content."""

from pathlib import Path

import pytest

from kbbench_hf.building.ska_bench import tekgen
from kbbench_hf.errors import DataError


def test_tekgen_refuses_another_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="wikidata_tekgen"):
        tekgen.make_instances(tmp_path)
