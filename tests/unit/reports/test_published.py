"""What is published, as a terminal and a program read it: digits as printed, kinds, sources by number, remarks."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from kbbench_hf.benchmarks import TaskKey, benchmark, shipped_answers
from kbbench_hf.benchmarks.baselines import published_places
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.reports.published import print_nearest_published, print_published, published_json
from kbbench_hf.scoring.result import Result
from kbbench_hf.scoring.score import score

PRIME = TaskKey("stark-prime", "queries", "test", "reference")
Scored = Callable[..., Result]


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def scored() -> Scored:
    """A small result as if it were of another place, with an F1."""
    copied = score(next(file for file in shipped_answers("mini-text2kg") if file.stem == "copy"), "mini-text2kg")

    def made(f1: float, mode: str = "reference", **others: object) -> Result:
        figures = {**copied.scores, "f1": copied.scores["f1"]._replace(value=f1)}
        return replace(copied, benchmark="text2kg-wikidata-tekgen", mode=mode, scores=figures, **others)

    return made


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("wide")
def test_a_place_is_a_table_with_its_sources_and_remarks(capsys: pytest.CaptureFixture[str]) -> None:
    print_published(benchmark("stark-prime"), [PRIME])
    lines = lines_of(capsys)
    assert lines[0] == "queries, test, mode reference"
    apart = lines.index("Second-hand, not read in the text of the authors; not in tables, plots and leaderboards:")
    assert lines[1].split() == ["system", "from", "year", "model", "Hit@1", "Hit@5", "R@20", "MRR"]
    assert next(line for line in lines[:apart] if line.startswith("BM25")).split()[1:5] == [
        "printed",
        "[1]",
        "2024",
        "0.1275",
    ]
    ark = next(line for line in lines[:apart] if line.startswith("ARK ")).split()
    assert ark[1:] == ["printed", "[2,", "3]", "2026", "GPT-4.1", "0.4820", "0.6957", "0.6946", "0.5768"]
    grasp = next(line for line in lines[apart:] if line.startswith("GRASP")).split()
    assert grasp[:2] == ["GRASP", "secondary"] and grasp[-1] == "0.678*"
    assert not any(line.startswith(("GRASP", "HybGRAG")) for line in lines[:apart])
    assert any(line.endswith("printed: GraphRAFT (arXiv 2504.05478), Table 1") for line in lines)
    assert any("secondary: GraphRAFT (arXiv 2504.05478), Table 1; another's system" in line for line in lines)
    remark = next(line for line in lines if line.startswith("* trained on the benchmark's own train questions: "))
    assert "GRASP Hit@1" in remark
    seconds = lines.index("system           from            seconds per query")
    assert [line.split()[-1] for line in lines[seconds + 1 : seconds + 5]] == ["0.92", "1.29", "0.54", "0.90"]


def test_everything_fits_eighty_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("stark-prime", "text2kg-wikidata-tekgen", "ska-bench", "genres-corpora"):
        print_published(benchmark(name), [place for place in published_places() if place.benchmark == name])
    assert max(map(len, lines_of(capsys))) <= 80


def test_a_program_gets_value_digits_kind_source_and_key() -> None:
    found = published_json([PRIME])
    assert json.loads(json.dumps(found)) == found
    (row,) = [each for each in found["rows"] if each["system"] == "GRASP"]  # type: ignore[attr-defined]
    figure = row["figures"]["hit_at_1"]
    assert {key: figure[key] for key in ("value", "printed", "digits", "kind", "source", "key")} == {
        "value": 0.678,
        "printed": "0.678",
        "digits": 3,
        "kind": "secondary",
        "source": "grasp",
        "key": "GRASP",
    }
    assert found["sources"]["grasp"]["url"] == "https://arxiv.org/abs/2605.30237"  # type: ignore[index]


@pytest.mark.usefixtures("wide")
def test_a_result_has_its_published_neighbours_beside_it(capsys: pytest.CaptureFixture[str], scored: Scored) -> None:
    print_nearest_published(scored(0.3), benchmark("text2kg-wikidata-tekgen"))
    lines = lines_of(capsys)
    assert lines[1] == (
        "Published results nearest in F1 (same split and mode). All: kbbench list text2kg-wikidata-tekgen --published"
    )
    assert [line.split()[:3] for line in lines[3:]] == [
        ["Vicuna-13B", "recomputed", "0.35"],
        ["Alpaca-LoRA-13B", "recomputed", "0.27"],
    ]


@pytest.mark.usefixtures("wide")
def test_neighbours_of_another_mode_or_of_more_examples_say_so(
    capsys: pytest.CaptureFixture[str], scored: Scored
) -> None:
    found = benchmark("text2kg-wikidata-tekgen")
    print_nearest_published(scored(0.3, mode="repaired"), found)
    assert "for mode reference, not for this result" in lines_of(capsys)[1]
    print_nearest_published(
        scored(0.3, warnings=[ScoreWarning("limit", "The first 48 of 4,062.", "Run without --limit.")]), found
    )
    assert "for the whole split, not for this result" in lines_of(capsys)[1]


def test_without_anything_published_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_nearest_published(score(shipped_answers("mini-text2kg")[0], "mini-text2kg"), benchmark("mini-text2kg"))
    assert lines_of(capsys) == []
