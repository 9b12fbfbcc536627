"""Topics of questions on a library of 200 books by 101 hands: who is drawn, how often, and by which name."""

from random import Random

import pytest

from kbbench_hf.building.synthesis import questions
from kbbench_hf.building.synthesis.instances import EntityNames, TopicDraws, Usage
from kbbench_hf.building.synthesis.spec import SynthesisSpec
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase
from tests.unit.building.synthesis.test_wording import made_of

HUB = 200
OF_HAND = Metapath.parse("hand -[^by]-> book")
OF_BOOK = Metapath.parse("book -[by]-> hand")
SAME_HAND = Metapath.parse("book -[by]-> hand -[^by]-> book")


@pytest.fixture(scope="module")
def library() -> KnowledgeBase:
    """Hand 200 wrote the books 0 to 99, the hands 201 to 300 one each, the others none."""
    nodes = [(n, "book", f"Book {n}", "") for n in range(200)] + [(n, "hand", f"Hand {n}", "") for n in range(200, 350)]
    return made_of(nodes, [(n, "by", HUB if n < 100 else n + 101) for n in range(200)])


def test_topics_have_answers_and_much_linked_ones_are_drawn_seldom(library):
    draws = TopicDraws(library)
    drawn = [draws.draw(OF_HAND, Random(seed)) for seed in range(300)]
    assert all(drawn) and len({each[0][0] for each in drawn}) > 60
    assert sum(each[0] == [HUB] for each in drawn) < 4  # one of 101 hands, and of half the books
    for topics, answers, met in drawn:
        assert topics[0] <= 300 and answers == OF_HAND.answers(library.graph, *topics).tolist() and met == []
    same = [draws.draw(SAME_HAND, Random(seed)) for seed in range(60)]
    topics, answers, met = next(each for each in same if each and each[0][0] < 100)
    assert met == topics and answers == [
        row for row in range(100) if row not in topics
    ]  # a book is no answer to itself
    assert draws.reached(SAME_HAND, [5]) == [[1, 100]] and draws.reached(OF_HAND, [201]) == [[1]]
    assert draws.draw(Metapath.parse("hand -[by]-> book"), Random(0)) is None


def test_a_second_topic_is_found_from_an_answer_of_the_first_and_excluded_by_negation():
    nodes = [(n, "book", f"Book {n}", "") for n in range(4)] + [(n, "hand", f"Hand {n}", "") for n in range(4, 7)]
    kb = made_of(nodes, [(0, "by", 4), (0, "by", 5), (1, "by", 4), (2, "by", 5), (3, "by", 6)])
    draws = TopicDraws(kb)
    both = Metapath.parse("hand:1 -[^by]-> book <-[by]- hand:2".replace("<-[by]-", "<-[^by]-"))
    but = Metapath.parse("hand:1 -[^by]-> book <-[!^by]- hand:2")
    found = [(path, draws.draw(path, Random(seed))) for path in (both, but) for seed in range(40)]
    assert {tuple(each[0]) for path, each in found if each and path is both} == {(4, 5), (5, 4)}
    assert {tuple(each[1]) for path, each in found if each and path is both} == {(0,)}
    assert {(*each[0], *each[1]) for path, each in found if each and path is but} == {(4, 5, 1), (5, 4, 2)}


def test_topics_hubs_and_answers_are_used_so_often_and_no_more(library):
    usage = Usage(library, 50)
    assert usage.hubs.nonzero()[0].tolist() == [HUB] and usage.most_linked == {0, HUB}
    for _ in range(3):
        assert usage.refusal_of_topics(OF_HAND, [201]) is None
        usage.take(OF_HAND, [201], [100], [])
    assert usage.refusal_of_topics(OF_HAND, [201]) == "a topic serves three questions of the template"
    assert usage.refusal_of_topics(OF_BOOK, [201]) == "a topic serves too many questions"
    assert usage.refusal_of_topics(OF_HAND, [202]) is None
    for book in range(5):  # a tenth of 50
        assert usage.refusal_of_topics(SAME_HAND, [book]) is None
        usage.take(SAME_HAND, [book], [150], [])
    assert usage.refusal_of_topics(SAME_HAND, [5]) == usage.refusal_of_topics(OF_HAND, [HUB]) == "a hub"
    assert usage.refusal_of_topics(SAME_HAND, [150]) is None and usage.refusal_of_topics(OF_BOOK, [5]) is None
    assert usage.refusal_of_answers([7, 150]) == "a node answers too many questions"
    assert usage.refusal_of_answers([7]) is None
    for answer in (0, HUB) * 3:  # 12 % of 50
        assert usage.refusal_of_answers([answer]) is None
        usage.take(OF_BOOK, [160], [answer], [{"kind": "phrase", "value": "old"}, {"kind": "attribute", "value": 3}])
    assert usage.refusal_of_answers([0]) == "the node of its type with most edges is an answer"
    assert usage.phrases == {"old": 6} and usage.most_of_phrase == 3
    wide = Usage(library, 1000)
    assert wide.most_of_phrase == 20 and wide.refusal_of_answers([0]) is None


def test_a_topic_has_a_name_of_its_own():
    nodes = [
        (0, "town", "Ayr", ""), (1, "river", "Ayr", ""), (2, "town", "Brede", ""), (3, "town", "bréde", ""),
        (4, "town", "x", ""), (5, "town", "Ayr Mouth", ""), (6, "town", "Who Is Here", ""), (7, "town", "Corfe", ""),
    ]  # fmt: skip
    names = EntityNames(made_of(nodes, [(0, "near", 1)]))
    assert [names.unambiguous(row, "town") for row in (0, 6, 7)] == ["the town Ayr", 'the town "Who Is Here"', "Corfe"]
    refusals = {
        (0,): None,
        (2,): "another node of its type has a topic's name",
        (4,): "a topic has no name to be called by",
    }
    refusals |= {(0, 5): "a topic's name stands in another's", (0, 7): None}
    assert {topics: names.refusal(topics) for topics in refusals} == refusals


def test_a_question_is_easy_among_the_first_five_and_hard_beyond_a_hundred(library, monkeypatch):
    made = questions.make_questions(library, SynthesisSpec(max_hops=1, requirements=0), 5, "1")
    monkeypatch.setattr(questions, "ranks_by_words", lambda kb, words, answers: [1, 5, 6, 100, 101][: len(answers)])
    levels = questions.difficulties_of(library, made.questions)
    assert levels == ["easy", "easy", "medium", "medium", "hard"]
