"""`kbbench audit` as a user meets it."""

import json
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import audits, shipped_dataset
from kbbench_hf.benchmarks.ska_bench.benchmark import MINI
from kbbench_hf.building import retrieval_audit
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder, copy_dataset
from kbbench_hf.reports.exports import publications


@pytest.fixture
def built(in_tmp: Path) -> Path:
    assert MINI.data.shipped is not None
    return copy_dataset(DatasetFolder(MINI.data.shipped), Path("kbbench/ska-open")).path


def test_the_table_is_printed_and_stands_on_the_card(kbbench, built, monkeypatch):
    monkeypatch.setattr(audits, "FEWEST", 10_000)
    done = kbbench("audit", "ska-open")
    assert done.code == 0, done.err
    assert "rejection_all" in done.out and "limit" in done.out
    found = json.loads(kbbench("audit", "ska-open", "--json").out)
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0][:3] == ["baseline", "limit", found[0]["part"]]
    shown = [f"{each['value']:.4f}" for each in found if each["name"] == "first_unit"]
    assert next(line[2:] for line in lines if line[:1] == ["first_unit"]) == shown and len({*shown}) > 1
    card = (built / "README.md").read_text(encoding="utf-8")
    assert "What can be had without understanding" in card
    DatasetFolder(built).verify()


@pytest.mark.parametrize(("name", "mini"), [("ska-open", "mini-ska"), ("my-kb", "mini-stark")])
def test_a_figure_above_its_limit_ends_with_1_until_the_card_waives_it(kbbench, in_tmp, monkeypatch, name, mini):
    monkeypatch.setattr(audits, "FEWEST", 1)
    monkeypatch.setattr(retrieval_audit, "TYPE_LIMIT", 0.01)
    built = copy_dataset(shipped_dataset(mini), Path("kbbench") / name).path
    done = kbbench("audit", name, "--json")
    assert done.code == 1
    over = [each for each in json.loads(done.out.partition("]\n")[0] + "]") if each["is_over"]]
    assert over and all(f"{each['part']}.{each['name']}" in done.err for each in over)
    file = built / "README.md"
    assert "**Not waived: not to be released as it is.**" in file.read_text(encoding="utf-8")
    if name == "ska-open":
        with pytest.raises(UsageError, match="cannot be published"):
            publications(name, "kbbench")
    waived = "".join(f"- `{each['part']}.{each['name']}`: A dozen islands hold no more.\n" for each in over)
    file.write_text(file.read_text(encoding="utf-8") + f"\n{waived}", encoding="utf-8")
    assert kbbench("audit", name).code == 0
    assert name != "ska-open" or publications(name, "kbbench")
    assert "**Not waived" not in file.read_text(encoding="utf-8")
    assert "A dozen islands hold no more." in file.read_text(encoding="utf-8")


def test_a_card_without_the_canary_of_its_dataset_ends_with_1(kbbench, built, monkeypatch):
    monkeypatch.setattr(audits, "FEWEST", 10_000)
    canary = DatasetFolder(built).canary
    card = built / "README.md"
    text = card.read_text(encoding="utf-8")
    for other in (canary[:-4] + "0000", "removed"):
        card.write_text(text.replace(canary, other), encoding="utf-8")
        done = kbbench("audit", "ska-open")
        assert done.code == 1 and f"expected {canary}" in done.err


def test_a_benchmark_without_an_audit_is_refused_with_those_that_have_one(kbbench):
    done = kbbench("audit", "mini-text2kg")
    assert done.code == 2 and "ska-open" in done.err
