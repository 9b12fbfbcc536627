"""Domains and ranges: what gold tells of types, and what cannot be judged."""

from math import isnan

from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.metrics.triples import Signature, TypedOntology

SIGNATURES = [
    Signature("directed by", "film", "human"),
    Signature("league", "team", "league"),
    Signature("league", "player", "league"),
    Signature("year", "film", "Year"),
    Signature("note", "", "string"),
]
GOLD = [("Up", "directed by", "Pete"), ("Ajax", "league", "Eredivisie"), ("Heat", "album note", "x")]


def test_an_entity_of_the_wrong_type_does_not_conform():
    typed = TypedOntology(SIGNATURES, GOLD, {})
    # Subjects: Up is a film; Pete is none. Objects: Pete is a human; Up is none.
    assert typed.conformance([("up", "Directed_by", "pete"), ("Pete", "directed by", "Up")]) == (0.5, 0.5)


def test_a_label_that_stands_twice_takes_either_domain():
    assert TypedOntology(SIGNATURES, GOLD, {}).conformance([("Ajax", "league", "Eredivisie")]) == (1, 1)


def test_concepts_above_count():
    typed = TypedOntology([*SIGNATURES, Signature("award", "work", "human")], GOLD, {"film": frozenset({"work"})})
    assert typed.conformance([("Up", "award", "Pete")]) == (1, 1)


def test_literals_are_judged_by_their_form():
    typed = TypedOntology(SIGNATURES, GOLD, {})
    assert typed.conformance([("Up", "year", "in 2009"), ("Up", "year", "Pete")])[1] == 0.5


def test_what_gold_never_names_is_not_judged():
    typed = TypedOntology(SIGNATURES, GOLD, {})
    unknown = [("Nemo", "directed by", "Lee"), ("Up", "unknown relation", "Pete"), ("Up", "note", "Pete")]
    assert all(map(isnan, typed.conformance(unknown)))
    assert all(map(isnan, typed.conformance([])))


names = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(st.tuples(names, st.sampled_from(["directed by", "league", "note"]), names), max_size=8))
def test_gold_always_conforms_to_itself(gold):
    domain, range_ = TypedOntology(SIGNATURES, gold, {}).conformance(gold)
    assert (isnan(domain) or domain == 1) and (isnan(range_) or range_ == 1)
