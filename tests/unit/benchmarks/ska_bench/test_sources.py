"""Instances made from public sources: laid out as their repositories are, with real content."""

from pathlib import Path

import pytest

from kbbench_hf.benchmarks.ska_bench.construction import hybridqa, tekgen
from kbbench_hf.errors import DataError


def test_tekgen_refuses_another_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="wikidata_tekgen"):
        tekgen.make(tmp_path, tmp_path / "out")


def test_hybridqa_refuses_another_folder_and_malformed_questions(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="tables_tok/ and request_tok/"):
        hybridqa.make(tmp_path / "dev.traced.json", tmp_path, tmp_path / "out")
    for folder in ("tables_tok", "request_tok"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.json").write_text("{}")
    (tmp_path / "dev.traced.json").write_text('[{"question_id": "q1", "table_id": "t"}]')
    with pytest.raises(DataError, match="q1: question or table is malformed"):
        hybridqa.make(tmp_path / "dev.traced.json", tmp_path, tmp_path / "out")
