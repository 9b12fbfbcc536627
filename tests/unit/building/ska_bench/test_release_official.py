"""The authors' files: only what is declared is read, everything else is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.building.ska_bench.dataset import build_official
from kbbench_hf.building.ska_bench.official import read_official
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import DatasetFolder

FIELDS = {
    "q": "question",
    "gold": "answers",
    "cols": "header",
    "need": "positive_units",
    "rest": "noise_units",
    "x": None,
}


def record(**changed: Any) -> dict[str, Any]:
    rows = [["Oslo", "Norway"], ["Bergen", "Norway"], ["Lund", "Sweden"]]
    return {
        "q": "Where is Lund?",
        "gold": ["Sweden"],
        "cols": ["City", "Land"],
        "need": rows[2:],
        "rest": rows[:2],
    } | changed


def write(folder: Path, records: Any, fields: Any = FIELDS, subset: str = "table") -> Path:
    (folder / "fields.json").write_text(json.dumps({"Table.json": {"subset": subset, "fields": fields}}))
    (folder / "Table.json").write_text(json.dumps(records))
    return folder


def test_declared_fields_become_instances_with_their_own_units(tmp_path: Path) -> None:
    release = read_official(write(tmp_path, [record(x="left out"), record(q="Again?")]))
    first, second = release.instances
    assert (first.id, first.question, first.answers, first.positive_sk) == (
        "table-0000",
        "Where is Lund?",
        ("Sweden",),
        (0,),
    )
    assert release.pools["table"].sk[second.group] == [("Lund", "Sweden"), ("Oslo", "Norway"), ("Bergen", "Norway")]


def test_the_converted_dataset_is_built_and_never_called_official(tmp_path: Path) -> None:
    build_official(write(tmp_path, [record()]), tmp_path / "ska-bench", ["noise_table_1k", "rejection_table"])
    folder = DatasetFolder(tmp_path / "ska-bench")
    assert folder.rows("noise_table_1k", "test")[0]["n_required"] == 1
    assert 0 not in folder.rows("rejection_table", "test")[0]["sk_units"]
    assert "The authors did not make this\nconversion." in (folder.path / "README.md").read_text()


def test_passages_are_pooled_once_and_found_again(tmp_path: Path) -> None:
    fields = FIELDS | {"p": "positive_texts", "n": "noise_texts"}
    records = [record(p=["Lund lies in Skåne."], n=[["Oslo", "A capital."]]), record(p=[["Oslo", "A capital."]], n=[])]
    release = read_official(write(tmp_path, records, fields, "table_text"))
    pool = release.pools["table_text"]
    assert [pool.text[n] for n in release.instances[0].positive_text] == [("", "Lund lies in Skåne.")]
    assert release.instances[0].own_text == (0, 1) and release.instances[1].positive_text == (1,)


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([record(surprise=1, hidden=2)], "Table.json, record 0: unknown fields 'hidden', 'surprise'"),
        ([{"q": "?"}], "nothing is declared as 'answers', 'noise_units', 'positive_units'"),
        ([record(gold="Sweden")], "answers is 'Sweden'"),
        ([record(need=[["Lund"]])], "a unit of positive_units has 1 cells; expected 2"),
        ([record(cols=None)], "header is None"),
        ([record(need=None)], "positive_units is None; expected a list"),
        ([record(p="Lund lies in Skåne.")], "positive_texts is 'Lund lies in Skåne.'; expected a list"),
        ([record(question="Where is Oslo?")], "two fields are declared as 'question'"),
        ({"data": []}, "not a list of JSON objects"),
    ],
)
def test_what_was_not_expected_is_refused_by_name(tmp_path: Path, records: Any, words: str) -> None:
    fields = FIELDS | {"p": "positive_texts", "question": "question"}
    with pytest.raises(DataError) as caught:
        build_official(write(tmp_path, records, fields), tmp_path / "out")
    assert words in str(caught.value) and not (tmp_path / "out").exists()


def test_a_corrupt_or_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no fields\.json"):
        read_official(tmp_path)
    write(tmp_path, [])
    (tmp_path / "Table.json").write_text('[{"q": ')
    with pytest.raises(DataError, match=r"Table\.json is not JSON"):
        read_official(tmp_path)
    (tmp_path / "Table.json").unlink()
    with pytest.raises(DataError, match="does not exist"):
        read_official(tmp_path)


def test_a_declaration_with_unknown_subsets_or_roles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="unknown subset 'tables'"):
        read_official(write(tmp_path, [], subset="tables"))
    with pytest.raises(DataError, match=r"unknown roles \['query'\]"):
        read_official(write(tmp_path, [], {"q": "query"}))
    for declared in ([], {"Table.json": "table"}, {"Table.json": {"subset": "table", "fields": ["q"]}}):
        (tmp_path / "fields.json").write_text(json.dumps(declared))
        with pytest.raises(DataError, match="does not map files to a subset and fields"):
            read_official(tmp_path)
