import numpy as np
import pytest

from kbbench_hf.retrieval.graph_ranker.entity_linking import EntityLinker

NAMES = ["Salt Mine", "Old Salt Mine", "Salt Kiln", "MMP9", "MMP10", "Salt Mine of King Alfred at Winter Bay"]


def _found(text: str) -> dict[str, float]:
    named = EntityLinker(NAMES).link(text)
    return {NAMES[row]: strength for row, strength in zip(named.rows.tolist(), named.strength.tolist(), strict=True)}


def test_a_name_within_a_longer_one_that_is_said_counts_a_quarter() -> None:
    alone, within = _found("near the salt mine"), _found("near the old salt mines")
    assert set(alone) == {"Salt Mine"}
    assert set(within) == {"Salt Mine", "Old Salt Mine"}
    assert within["Salt Mine"] == pytest.approx(alone["Salt Mine"] / 4)
    assert within["Old Salt Mine"] == pytest.approx(1)


@pytest.mark.parametrize("text", ["the old salt mine, a salt mine", "an old salt mine and another mine"])
def test_a_name_one_of_whose_words_is_said_once_more_counts_whole(text: str) -> None:
    assert _found(text)["Salt Mine"] == _found("salt mine")["Salt Mine"]


def test_names_of_the_same_length_share_their_words() -> None:
    assert _found("the salt kiln and mine") == {
        "Salt Mine": _found("salt mine")["Salt Mine"],
        "Salt Kiln": _found("salt kiln")["Salt Kiln"],
    }


def test_a_longer_name_that_is_not_said_takes_no_word() -> None:
    assert _found("the salt mine of King Harald") == _found("salt mine")


@pytest.mark.parametrize("text", ["MMP-9", "mmp-9", "MMP9"])
def test_a_hyphenated_word_is_read_as_one_too(text: str) -> None:
    assert set(_found(text)) == {"MMP9"}


def test_a_hyphenated_word_is_read_as_several_too() -> None:
    assert set(_found("the salt-kiln")) == {"Salt Kiln"}


def test_text_without_any_name_names_nothing() -> None:
    assert _found("a quarry") == _found("") == {}
    assert EntityLinker([]).link("a mill").rows.dtype == np.int64


def test_a_letter_of_a_name_is_no_contraction() -> None:
    names = EntityLinker(["Vitamin D", "T cell", "Don Quixote", "Vitamin K", "cell"])
    assert names.link("foods with vitamin k").rows.tolist() == [3]
    assert 1 not in names.link("the wall of a cell").rows
    assert names.link("who wrote Don Quixote").strength.tolist() == [1.0]


def test_the_function_words_of_a_name_count_where_they_are_not_said() -> None:
    names = EntityLinker(["This Is Not a Film", "Film of the Mill", *(f"Mill {number}" for number in range(99))])
    assert names.link("a film at noon").rows.tolist() == []
    assert names.link("a film of the mill").rows.tolist() == [1]
    assert names.link("I saw it: this is not a film").rows.tolist() == [0]


def test_a_common_word_of_a_name_may_be_missing() -> None:
    names = EntityLinker([*(f"Mill {number}" for number in range(99)), "Mill Green Badger"])
    assert names.link("a green badger").rows.tolist() == [99]
    assert names.link("a mill and a badger").rows.tolist() == []
