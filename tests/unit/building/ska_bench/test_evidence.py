import pytest

from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, UnitPool
from kbbench_hf.building.ska_bench.evidence import (
    Evidence,
    UnitId,
    answers_from,
    positive_units,
    smallest_cuts,
)

BOTH = {"type": "match", "find": "?x", "where": [["?x", "club", "Ajax"], ["?x", "born in", "Malmö"]]}
CLUB = ("Zlatan", "club", "Ajax")
BORN = "Zlatan was born in Malmö."


def asked(sk: tuple[int, ...], text: tuple[int, ...] = ()) -> Instance:
    question = "Who of Ajax was born in Malmö?"
    return Instance("q", "kg_text", question, ("Zlatan",), "g", positive_sk=sk, positive_text=text, program=BOTH)


def pool(triples: list[Cells], *texts: str) -> UnitPool:
    return UnitPool({"g": triples}, [("", text) for text in texts])


def test_a_triple_and_a_sentence_are_sufficient_necessary_and_unique() -> None:
    assert Evidence(pool([CLUB], BORN)).problems(asked((0,), (0,))) == []


def test_without_the_sentence_the_evidence_is_not_sufficient() -> None:
    assert Evidence(pool([CLUB], BORN)).problems(asked((0,))) == [
        "not sufficient: the positive units do not give the gold answers"
    ]


def test_a_sentence_that_says_the_same_again_makes_a_positive_unneeded() -> None:
    problems = Evidence(pool([CLUB], BORN, "Zlatan, a son of Malmö.")).problems(asked((0,), (0, 1)))
    assert len(problems) == 2
    assert all(problem.startswith("not necessary") for problem in problems)


@pytest.mark.parametrize(
    ("triples", "texts"),
    [
        ([("Björn", "club", "AJAX"), ("bjorn", "born in", "Malmo")], []),  # case and marks
        ([("Ajax", "club", "Björn"), ("Malmö", "born in", "Björn")], []),  # the other way round
        ([("Björn", "club", "Ajax")], ["In Malmö, Björn is known."]),  # a sentence that names both
        ([("Björn", "lives in", "Lund")], ["Malmö knows Björn of Ajax."]),
    ],
)
def test_a_second_entity_is_found_however_it_is_stated(triples: list[Cells], texts: list[str]) -> None:
    problems = Evidence(pool([CLUB, *triples], BORN, *texts)).problems(asked((0,), (0,)))
    assert "not unique: 'bjorn' answers it too" in problems


def test_an_entity_that_meets_one_condition_is_no_answer() -> None:
    triples = [CLUB, ("Björn", "club", "Ajax"), ("Kim", "born in", "Malmö")]
    assert Evidence(pool(triples, BORN)).problems(asked((0,), (0,))) == []


def test_the_span_of_another_passage_is_another_answer() -> None:
    program = {"type": "match", "where": [["?film", "year", "1999"]], "read": ["?film", "set in Oslo"]}
    triples: list[Cells] = [("Ada", "year", "1999"), ("Ben", "year", "2000")]
    texts = [("Ada", "It is set in Oslo."), ("Ben", "It is set in Rome.")]
    instance = Instance(
        "q", "kg_text", "?", ("set in Oslo",), "g", positive_sk=(0,), positive_text=(0,), program=program
    )
    assert Evidence(UnitPool({"g": triples}, texts)).problems(instance) == []
    triples[1] = ("Ben", "year", "1999")
    assert Evidence(UnitPool({"g": triples}, texts)).problems(instance) == [
        "not unique: 'what is said of ben' answers it too"
    ]


def test_an_answer_without_words_is_in_no_passage() -> None:
    program = {"type": "match", "where": [["?film", "year", "1999"]], "read": ["?film", "★", "Oslo"]}
    asked = Instance("q", "kg_text", "?", ("★", "Oslo"), "g", positive_sk=(0,), positive_text=(0,), program=program)
    evidence = Evidence(UnitPool({"g": [("Ada", "year", "1999")]}, [("Ada", "It is set in Oslo.")]))
    assert "not unique: 'what is said of ada' answers it too" in evidence.problems(asked)


def test_the_smallest_cuts_break_every_way_to_an_answer() -> None:
    routes = [{"a", "b"}, {"c", "b"}, {"a", "d"}]
    cuts = smallest_cuts("abcd", lambda cut: all(route & {*cut} for route in routes))
    assert cuts == [("a", "b"), ("a", "c"), ("b", "d")]
    assert smallest_cuts("b", lambda cut: False) == []


def test_what_follows_is_what_the_units_hold() -> None:
    derivations = Evidence(pool([CLUB], BORN)).derivations(asked((0,), (0,)))
    assert answers_from(derivations, positive_units(asked((0,), (0,)))) == {"zlatan"}
    assert answers_from(derivations, [UnitId(False, 0)]) == set()
