"""Where a triple is written as several facts, and what is said of each."""

import json
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext
from kbbench_hf.building.genres.release import text_id
from kbbench_hf.judges.nli import decompositions
from kbbench_hf.runners.calibration import released_items


@pytest.mark.parametrize(
    ("triple", "parts"),
    [
        (
            ["paris and rome", "in", "france, spain"],
            [
                ("paris", "in", "france"),
                ("paris", "in", "spain"),
                ("rome", "in", "france"),
                ("rome", "in", "spain"),
            ],
        ),
        (["Bo", "wrote and sang", "Tosca"], [("Bo", "wrote", "Tosca"), ("Bo", "sang", "Tosca")]),
        (["it", "damages", "kidneys in rats"], [("it", "damages", "kidneys"), ("kidneys", "in", "rats")]),
        (["head of Acme", "is", "Bo"], [("head", "is", "Bo"), ("head", "of", "Acme")]),
        (["Bo", "leads", "Acme (a firm)"], [("Bo", "leads", "Acme"), ("Acme", "is", "a firm")]),
        (["Bo", "filed lawsuits in", "court"], [("Bo", "filed", "lawsuits"), ("Bo", "filed in", "court")]),
        (["Bo", "is", "British actor"], [("Bo", "is", "British"), ("Bo", "is", "actor")]),
        (
            ["it", "harms", "heart and liver of mice"],
            [("it", "harms", "heart"), ("it", "harms", "liver"), ("heart", "of", "mice"), ("liver", "of", "mice")],
        ),
    ],
)
def test_a_triple_is_taken_apart_where_it_is_written_as_several(
    triple: list[str], parts: list[tuple[str, str, str]]
) -> None:
    assert parts in decompositions(triple)


@pytest.mark.parametrize(
    "triple",
    [
        ["Bo", "in", "the land"],
        ["sandor", "is", "orlando"],  # letters, no conjunctions
        ["Bo", "lives in", "New York"],
        ["Bo", "has", "in"],
        ["", "", ""],
        ["Bo", "and", "or"],
        ["a", "r"],
        ["a", "r", "b", "c"],
        "abc",
        None,
    ],
)
def test_a_plain_or_malformed_triple_is_left_whole(triple: object) -> None:
    assert decompositions(triple) == []


def test_every_way_is_said_once_and_has_parts_without_gaps() -> None:
    ways = decompositions(["A, B and C", "met and saw", "D / E of F in G (H)"])
    assert len(ways) == len({tuple(parts) for parts in ways})
    assert all(len(parts) > 1 and all(element for part in parts for element in part) for parts in ways)
    assert decompositions(["a", None, 1961]) == []


def test_most_of_what_the_released_judge_split_can_be_split(shared: Path) -> None:
    """On the half of CDR's documents that nothing was chosen on; at commas and conjunctions alone it was .29."""
    release = shared / "data/genres"
    texts = json.loads((release / "inputs/cdr_rand_200.json").read_text(encoding="utf-8"))
    examples = Examples([{"id": text_id(text), "text": text} for text in texts], CorpusContext("cdr", ()))
    rules = benchmark("genres-corpora").scoring.annotations
    assert rules is not None
    found = released_items(rules, release, examples, "granularity")
    split = found.of(~found.fits & found.yes)
    can_be = [bool(decompositions(json.loads(triple))) for _, triple in split.items]
    assert len(can_be) == 6540 and sum(can_be) / len(can_be) > 0.97
