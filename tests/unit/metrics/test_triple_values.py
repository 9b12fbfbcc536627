"""Triples compared by what they say: other writings of the same, what is not the same, and what is not asked."""

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.metrics.mention_forms import find_mention
from kbbench_hf.metrics.triple_values import same_entity, score_repaired_2, score_repaired_3
from kbbench_hf.metrics.triples import Ontology

ONTOLOGY = Ontology(("film", "award "), ("publication date", "director", "birthPlace"))


def same(predicted: str, gold: str, sentence: str) -> bool:
    return same_entity(predicted, gold, sentence, find_mention(sentence, gold))


SAME = """
    heat | Heat | Heat is a film.
    My Neighbor Totoro | My_Neighbor_Totoro | Totoro is a film.
    Totoro | "Totoro" | Totoro is a film.
    Totoro | Totoro_(film) | Totoro is a film.
    Totoro (film) | Totoro | Totoro is a film.
    Muller | Müller | by Müller
    A.C. Lumezzane | AC Lumezzane | AC Lumezzane won.
    Conrad | Joseph Conrad | Then Conrad wrote it.
    Joseph Teodor Conrad | Joseph Conrad | Joseph Teodor Conrad wrote it.
    Conrad, Joseph | Joseph Conrad | Joseph Conrad wrote it.
    Austin | Austin,_Texas | Austin, Texas
    Austin, Texas | Austin | In Austin, Texas, it rained.
    American | United_States | by the American, Karl
    US | United_States | in the United States
    sandwiches | Sandwich | a sandwich
    The Lancet | Lancet | The Lancet wrote
    20 July 2001 | 2001-07-20 | on July 20th, 2001
    July 2001 | 20 July 2001 | in July 2001
    2001 | 20 July 2001 | in 2001
    20 July 2001 | 20 July 2001 | in 2001
    01 January 2001 | 20 July 2001 | in 2001
    1988 | 01 January 1988 | in 1988
    1 January 1942 | 1942-01-01 | on January 1, 1942
    1942 | 1942-01-01 | active since 1942
    2008-04-30 | 30-Apr-08 | on 30 April 2008
    1,099 | 1099.0 | of 1,099 men
    252 m | 252000.0 (millimetres) | 252 metres long
    248 pages | "248" | has 248 pages
    58 minutes and 41 seconds | 58.41 | 58 minutes and 41 seconds
    9.8 million | 9833520.0 | around 9.8 million
"""
OTHER = """
    Heat | Up | Heat and Up are films.
    Texas | Austin,_Texas | Austin, Texas
    Carl Conrad | Joseph Conrad | Joseph Conrad and Carl Conrad
    Mexico | Mexicans | Mexico is inhabited by Mexicans.
    Demo (A album) | Demo_(B album) | Demo by A
    2001 | 20 July 2001 | on July 20th, 2001
    July 2001 | 20 July 2001 | on July 20th, 2001
    5 May 2001 | 20 July 2001 | in 2001
    21 July 2001 | 20 July 2001 | on July 20th, 2001
    2002 | 01 January 2001 | in 2001
    1942 | 1942-01-01 | on January 1, 1942
    1,098 | 1099.0 | of 1,099 men
    252 km | 252000.0 (millimetres) | 252 metres long
    9.8 million | 9833520.0 | 9,833,520 of them
    7 | -7 | at -7 degrees
    C | C++ | in C++
    Barack Obama, Person | Barack Obama | Barack Obama won.
    Murder | Murder , She Said | Murder , She Said is a film.
"""


def cases(text: str) -> list[list[str]]:
    return [[part.strip() for part in line.split("|")] for line in text.strip().splitlines()]


@pytest.mark.parametrize(("predicted", "gold", "sentence"), cases(SAME))
def test_the_same_in_other_writing(predicted, gold, sentence):
    assert same(predicted, gold, sentence)


@pytest.mark.parametrize(("predicted", "gold", "sentence"), cases(OTHER))
def test_what_is_not_the_same(predicted, gold, sentence):
    assert not same(predicted, gold, sentence)


def test_composed_and_decomposed_letters_are_the_same():
    assert same("Ha\u0308rtel", "Härtel", "by Härtel")
    assert same("Härtel", "Ha\u0308rtel", "by Ha\u0308rtel")


def test_relations_are_the_same_however_cut_into_words():
    gold = [("Ann", "birthPlace", "Rome")]
    for relation in ("birthPlace", "birth place", "birth_place", "BirthPlace"):
        scores = score_repaired_2([("Ann", relation, "Rome")], gold, "Ann was born in Rome.", ONTOLOGY)
        assert scores.mentioned[:4] == (1, 1, 1, 1)


def test_gold_that_the_sentence_does_not_name_is_neither_asked_nor_punished():
    gold = [("Heat", "director", "Michael Mann"), ("Ali", "director", "Michael Mann")]
    sentence = "Heat was made by Michael Mann."
    both = score_repaired_2(gold, gold, sentence, ONTOLOGY)
    assert both.mentioned[:3] == both.all_triples == (1, 1, 1)
    one = score_repaired_2(gold[:1], gold, sentence, ONTOLOGY)
    assert one.mentioned[:3] == (1, 1, 1)
    assert one.all_triples == (1, 1 / 2, 2 / 3)
    wrong = score_repaired_2([gold[0], ("Up", "director", "Michael Mann")], gold, sentence, ONTOLOGY)
    assert wrong.mentioned[:3] == (1 / 2, 1, 2 / 3)
    nothing = score_repaired_2(gold, gold, "It was made by him.", ONTOLOGY)
    assert all(map(isnan, nothing.mentioned[:3])) and nothing.all_triples == (1, 1, 1)


def test_one_thing_said_in_two_ways_counts_once():
    gold = [("Heat", "director", "Michael Mann")]
    said = [("Heat", "director", "Michael Mann"), ("heat", "Director", "Mann"), ("Heat", "director", "Al Pacino")]
    scores = score_repaired_2(said, gold, "Heat is by Mann, with Al Pacino.", ONTOLOGY)
    assert scores.mentioned[:3] == (1 / 2, 1, 2 / 3)


def test_relations_that_the_named_gold_does_not_use_are_left_out():
    gold = [("Heat", "director", "Michael Mann")]
    said = [*gold, ("Heat", "publication date", "1995")]
    assert score_repaired_2(said, gold, "Heat is by Michael Mann.", ONTOLOGY).mentioned.precision == 1


def test_a_value_that_the_sentence_has_in_other_writing_is_no_hallucination():
    said = [("Heat", "publication date", "1995-12-15"), ("Heat", "publication date", "1996-12-15")]
    scores = score_repaired_2(said, [], "Heat of December 15, 1995.", ONTOLOGY).mentioned
    assert (scores.subject_hallucination, scores.object_hallucination) == (0, 0.5)


def test_an_empty_answer_finds_nothing_and_conforms():
    scores = score_repaired_2([], [("Heat", "director", "Mann")], "Heat by Mann.", ONTOLOGY)
    assert scores.mentioned == (0, 0, 0, 1, 0, 0, 0) and scores.all_triples == (0, 0, 0)
    assert all(map(isnan, score_repaired_2([], [], "Heat.", ONTOLOGY).all_triples))


names = st.text("abAB ,._(1é", max_size=6)
triples = st.lists(st.tuples(names, st.sampled_from(["director", "birthPlace"]), names), max_size=4)


@given(triples, triples, st.text(max_size=30))
def test_scores_stay_within_bounds_and_gold_is_always_right(predicted, gold, sentence):
    scores = score_repaired_2(predicted, gold, sentence, ONTOLOGY)
    assert all(isnan(value) or 0 <= value <= 1 for value in (*scores.mentioned, *scores.all_triples))
    own = score_repaired_2(gold, gold, sentence, ONTOLOGY)
    assert not gold or own.all_triples == (1, 1, 1)


@pytest.mark.parametrize(
    ("subject", "obj", "gold", "sentence"),
    [
        ("Ocean’s Eleven", "Ann", ("Ocean's Eleven", "Ann"), "Ocean's Eleven is by Ann."),
        ("Ocean's Eleven", "Ann", ("Ocean's Eleven", "Ann"), "Ocean’s Eleven is by Ann."),
        ("Heat", "Jean\u2011Luc Doe", ("Heat", "Jean-Luc Doe"), "Heat is by Jean-Luc Doe."),
        ("Heat", '"Hans Doe"@de', ("Heat", "Hans Doe"), "Heat is by Hans Doe."),
        ("Heat", '"41.0"^^xsd:double', ("Heat", "41.0"), "Heat is 41.0 metres long."),
        ("Heat", "+2001-04-25T00:00:00Z", ("Heat", "25 April 2001"), "Heat came out on 25 April 2001."),
        ("Cat\u200bch", "Ann", ("Catch", "Ann"), "Catch is by Ann."),
    ],
)
def test_version_3_never_counts_a_triple_both_as_right_and_as_hallucinated(subject, obj, gold, sentence):
    values = score_repaired_3([(subject, "director", obj)], [(gold[0], "director", gold[1])], sentence, ONTOLOGY)
    assert values.mentioned == (1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)


def test_version_3_still_finds_what_is_hallucinated():
    values = score_repaired_3([("Heat", "director", "Bob")], [("Heat", "director", "Ann")], "Heat is by Ann.", ONTOLOGY)
    assert values.mentioned == (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0)


def test_version_3_accepts_the_words_of_the_sentence_and_version_2_stays():
    gold = [("Salt Wasp", "director", "Hardcover"), ("Salt Wasp", "director", "83.2104")]
    said = [("A Salt Wasp", "director", "hardback"), ("Salt Wasp", "director", "83.2")]
    sentence = "A Salt Wasp came out in hardback, 83.2 metres up."
    assert score_repaired_3(said, gold, sentence, ONTOLOGY).mentioned[:3] == (1, 1, 1)
    old = score_repaired_2(said, gold, sentence, ONTOLOGY)
    assert old.n_not_named == 2 and old.all_triples == (0, 0, 0)


NAMED = [
    ("青山灯塔守护着青山港。", "青山灯塔", "青山港"),
    ("東京タワーは港区にある。", "東京タワー", "港区"),
    ("김철수는 서울에서 태어났다.", "김철수", "서울"),
    ("วัดโพธิ์ตั้งอยู่ในกรุงเทพ", "วัดโพธิ์", "กรุงเทพ"),
    ("អង្គរវត្តស្ថិតនៅសៀមរាប", "អង្គរវត្ត", "សៀមរាប"),
    ("iPhone手机由苹果公司生产。", "iPhone", "苹果公司"),
]


@pytest.mark.parametrize(("sentence", "subject", "obj"), NAMED)
def test_version_3_finds_names_in_sentences_without_blanks(sentence: str, subject: str, obj: str) -> None:
    gold = [(subject, "director", obj)]
    old, new = (score(gold, gold, sentence, ONTOLOGY).mentioned for score in (score_repaired_2, score_repaired_3))
    assert isnan(old.f1)  # version 2 keeps its values: its names are of words between blanks
    assert (new.f1, new.subject_hallucination, new.object_hallucination) == (1.0, 0.0, 0.0)
    wrong = score_repaired_3([(subject, "director", "京都大学")], gold, sentence, ONTOLOGY).mentioned
    assert (wrong.f1, wrong.object_hallucination) == (0.0, 1.0)
