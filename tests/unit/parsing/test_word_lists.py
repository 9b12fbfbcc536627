"""Word lists: each is a valid expression, none is empty or matches the empty text, and each has a reader."""

import re
from importlib.resources import files

import pytest

from kbbench_hf.parsing.cues import word_lists

NAMES = ("answers", "cues", "scores", "triples", "verdicts")
SOURCES = "".join(file.read_text("utf-8") for file in files("kbbench_hf.parsing").iterdir() if file.name[-3:] == ".py")
FORMATTED = re.compile(r"(?:supported|answerable)_")  # one reader for both tasks


@pytest.mark.parametrize("name", NAMES)
def test_each_list_of_a_data_file_is_an_expression_with_a_reader(name: str) -> None:
    lists = word_lists(name)
    text = (files("kbbench_hf.parsing") / "data" / f"{name}.txt").read_text("utf-8")
    assert len(lists) == len(re.findall(r"^\[[a-z_]+(?:, whole words)?\]$", text, re.MULTILINE)) > 5
    for key, rows in lists.items():
        optional = key in ("before_label",)
        assert (re.compile(rows, re.IGNORECASE).fullmatch("") is None) != optional, key
        reader = FORMATTED.sub("{name}_", key)
        assert f'"{key}"' in SOURCES or f"'{key}'" in SOURCES or f"'{reader}'" in SOURCES or f'f"{reader}"' in SOURCES \
            or f"@{key}@" in text, key  # fmt: skip
