import pytest

from kbbench_hf.retrieval.graph_ranker.parsed_query import Spelling

SPELLING = Spelling(["cellular", "medication", "structure", "gene"], {"meditation", "reaction"}.__contains__)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("whihc celllular structres", "which cellular structures"),
        ("medicatin, medicaation, medicstion, mediactions", "medication, medication, medication, medications"),
        ("enggage intteract throgh excpet", "engage interact through except"),
    ],
)
def test_one_slip_of_the_finger_is_mended(written: str, meant: str) -> None:
    assert SPELLING.correct(written) == meant


@pytest.mark.parametrize(
    "text",
    [
        "a meditation, two reactions",  # words that the knowledge base uses
        "Strucure of MEDICATIN and medicaTion",  # capitals may be those of names
        "pre-medicatin, medicatin-like, medicatin2",  # parts of compounds
        "genne",  # too short to be sure
        "struttures, dedication, structured",  # one letter away, but not one key
        "telephone",
        "",
    ],
)
def test_what_may_be_meant_as_it_stands_stays(text: str) -> None:
    assert SPELLING.correct(text) == text


def test_of_words_that_are_alike_the_one_a_finger_may_miss_is_meant() -> None:
    spelling = Spelling(["master", "matter"], set().__contains__)
    assert spelling.correct("a mayter, a madter") == "a matter, a master"
