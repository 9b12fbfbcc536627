"""Tables that users bring: any type of column as text, any encoding or spelling of a header, or a true refusal."""

import datetime
import gzip
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbbench_hf.errors import DataError
from kbbench_hf.files.table_files import read_table, read_text, text_column

NOON = datetime.datetime.fromisoformat("2024-01-05T12:00:00")
CSV = "id,name\n1,Köln\n2,Bern\n"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([123456789012.0, 0.1, 1e-7, -0.0, float("nan")]), ["123456789012", "0.1", "0.0000001", "0", None]),
        (pa.array([0.1, 3.0], pa.float32()), ["0.1", "3"]),
        (pa.array([2**64 - 1, 0], pa.uint64()), ["18446744073709551615", "0"]),
        (pa.array([Decimal("19.90"), Decimal("2.00"), None]), ["19.90", "2", None]),
        (pa.array([True, None]), ["true", None]),
        (pa.array([NOON.date()]), ["2024-01-05"]),
        (pa.array([NOON.replace(hour=0)], pa.timestamp("ns")), ["2024-01-05"]),
        (pa.array([NOON], pa.timestamp("ns")), ["2024-01-05 12:00:00"]),
        (pa.array([NOON.time()], pa.time64("us")), ["12:00:00"]),
        (pa.array([b"K\xc3\xb6ln"]), ["Köln"]),
        (pa.array(["a", None]).dictionary_encode(), ["a", None]),
        (pa.array([7, None]).dictionary_encode(), ["7", None]),
        (pa.array(["a"], pa.large_string()), ["a"]),
        (pa.array(["a"], pa.string_view()), ["a"]),
        (pa.array([bytes(16)], pa.uuid()), ["00000000-0000-0000-0000-000000000000"]),
        (pa.array([["a", None], [], None, ["b"]]), ["a", None, None, "b"]),
        (pa.array([[1.0], [2.0]], pa.large_list(pa.float64())), ["1", "2"]),
        (pa.nulls(2), [None, None]),
        (pa.array([float("inf")]), r"row 1: inf; expected text or a finite number"),
        (pa.array([["a"], ["b", "c"]]), r"row 2: a list of 2 values, 'b', 'c'; expected one text"),
        (pa.array([{"body": "x"}]), r"holds objects; expected text. Write one of its fields \('body'\)"),
        (pa.array([b"\xff"]), r"has the type binary; expected text or integers"),
        (pa.array([datetime.timedelta(1)]), r"has the type duration"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), r"has the type map"),
    ],
)
def test_values_of_any_type_become_text_or_are_refused(values, expected):
    column = pa.chunked_array([values])
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            text_column(column, "column 'name'")
    else:
        assert text_column(column, "column 'name'").to_pylist() == expected


def test_lists_of_texts_are_the_lines_of_a_text_and_other_columns_are_kept(tmp_path):
    maps = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    table = pa.table({"id": [1, 2], "text": [["one", "two"], []], "seen": [NOON, NOON], "more": maps})
    pq.write_table(table, tmp_path / "n.parquet")
    read = read_table(tmp_path / "n.parquet", ["id", "text"])
    assert read.to_pylist() == [
        {"id": 1, "text": "one\ntwo", "seen": NOON, "more": '{"a": 1}'},
        {"id": 2, "text": None, "seen": NOON, "more": None},
    ]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([1.0, 2.0], [1, 2]),
        ([Decimal("1.00"), Decimal("2.00")], ["1", "2"]),
        ([1.0, 2.5], "row 2: 2.5 is not an id"),
        ([2.0**53, 1.0], "row 1: 9007199254740992.0 is not an id"),
        (["1.23457E+11", "2"], "'1.23457E\\+11' is an id that a spreadsheet shortened"),
        ([True, False], "column 'id' has the type bool"),
        ([NOON, NOON], "column 'id' has the type timestamp"),
        ([1.0, float("nan")], "row 2: no id"),
    ],
)
def test_ids_are_integers_or_text_and_never_a_damaged_number(tmp_path, ids, expected):
    pq.write_table(pa.table({"id": ids, "name": ["a", "b"]}), tmp_path / "n.parquet")
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            read_table(tmp_path / "n.parquet", ["id", "name"])
    else:
        assert read_table(tmp_path / "n.parquet", ["id", "name"])["id"].to_pylist() == expected


@pytest.mark.parametrize(
    "data",
    [
        CSV.replace("id,name", " ID ,\xa0Name").encode("utf-8-sig"),
        CSV.replace("id,name", '"id","name"').encode("utf-8-sig"),
        ("\ufeff" + CSV).encode("utf-8-sig"),
        CSV.encode("utf-16"),
        CSV.replace("\n", "\r").encode(),
        ("sep=;\n" + CSV.replace(",", ";")).encode(),
        gzip.compress(CSV.encode(), mtime=0),
    ],
)
def test_headers_and_encodings_that_can_be_known_are_read(tmp_path, data):
    (tmp_path / "n.csv").write_bytes(data)
    assert read_table(tmp_path / "n.csv", ["id", "name"]).to_pylist() == [
        {"id": "1", "name": "Köln"},
        {"id": "2", "name": "Bern"},
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (CSV.encode("latin-1"), r"line 2: not UTF-8: byte 0xf6.* iconv -f WINDOWS-1252 .*n o\.csv' > 'n o'\.utf8"),
        (CSV.replace("name", "größe").encode("latin-1"), "line 1: not UTF-8"),
        (CSV.encode("utf-16-le"), r"iconv -f UTF-16LE -t UTF-8 '.*n o\.csv' > 'n o'\.utf8\.csv"),
        (CSV.encode("utf-16-be"), r"iconv -f UTF-16BE"),
        (CSV.replace("id", "name").encode(), "two columns 'name'"),
        (CSV.replace("id,name", "Name, name").encode(), "several columns for 'name'"),
        (b"id\n1\n", "Begin the file with the columns id,name"),
        (b"", "Begin the file with a line of column names"),
        (b'{"id": 1}\n[]\n', r"line 2: .* is not a JSON object"),
        (CSV.encode() + b"3,a,b\n", "Expected 2 columns, got 3.* Put quotes around cells that hold ','"),
        (CSV.replace("2,", " ,").encode(), r"row 2: no id; expected a value in every row"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_what_to_type(tmp_path, data, words):
    (tmp_path / "n o.csv").write_bytes(data)
    with pytest.raises(DataError, match=words):
        read_table(tmp_path / "n o.csv", ["id", "name"])


def test_a_text_is_read_in_the_encodings_that_a_table_is(tmp_path):
    (tmp_path / "s.txt").write_bytes("Köln\r\nBern\r\n".encode("utf-16"))
    assert read_text(tmp_path / "s.txt", "sentences") == "Köln\nBern\n"
    (tmp_path / "s.txt").write_bytes("Bern\nKöln\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"s\.txt, line 2: not UTF-8.* Expected sentences\. .*iconv"):
        read_text(tmp_path / "s.txt", "sentences")
