"""Templates of `kg_text` on a made-up Text2KGBench release of films."""

import json
import random
from pathlib import Path

import pytest

from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, UnitPool
from kbbench_hf.building.ska_bench import sources as kg_text
from kbbench_hf.building.ska_bench.evidence import Evidence
from kbbench_hf.building.ska_bench.tekgen import make_instances
from kbbench_hf.errors import DataError

STATED = [
    ("Ada", "director", "Ann Ash", "Ada was directed by Ann Ash."),
    ("Ada", "cast member", "Bo Birch", "Ada is a film with Bo Birch and others."),  # no word of the relation
    ("Ada", "filming location", "Oslo", "They filmed a winter in the north for Ada."),  # does not name Oslo
    ("Eve", "director", "Ann Ash", "Ann Ash made Eve."),
    ("Eve", "filming location", "Lund", "Eve has views of Lund."),
    ("Ivy", "director", "Cy Cedar", "Ivy was directed by Cy Cedar."),
    ("Ivy", "filming location", "Oslo", "In Oslo there is a street."),
]


def write(folder: Path, stated: list[tuple[str, str, str, str]]) -> Path:
    (folder / "train").mkdir(parents=True)
    rows = [
        {"id": str(n), "sub_label": head, "rel_label": relation, "obj_label": tail, "sent": sentence}
        for n, (head, relation, tail, sentence) in enumerate(stated)
    ]
    (folder / "train" / "films.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def test_conditions_are_read_from_triples_and_from_sentences_that_state_them(tmp_path: Path) -> None:
    release = make_instances(write(tmp_path, STATED))
    pool = release.pools["kg_text"]
    instance = next(each for each in release.instances if each.answers == ("Ada",))
    assert instance.question == "Which film has Bo Birch in its cast, was filmed in Oslo and directed by Ann Ash?"
    assert {pool.sk["tekgen"][n][1] for n in instance.positive_sk} == {"cast member", "filming location"}
    assert [pool.text[n][1] for n in instance.positive_text] == ["Ada was directed by Ann Ash."]
    assert [pool.sk["tekgen"][n] for n in instance.withheld_sk] == [("Ada", "director", "Ann Ash")]
    assert Evidence(pool).problems(instance) == []
    assert not any(answer in instance.question for answer in instance.answers)


def test_all_that_meet_a_condition_are_asked_for_some_by_triples_and_some_by_sentences(tmp_path: Path) -> None:
    release = make_instances(
        write(tmp_path, [*STATED, ("Una", "director", "Ann Ash", "Una, a film by Bo, is known to Ann Ash.")])
    )
    pool = release.pools["kg_text"]
    instance = next(each for each in release.instances if len(each.answers) > 1)
    assert instance.question == "Name every film that was directed by Ann Ash."
    assert instance.answers == ("Ada", "Eve", "Una")
    assert [pool.sk["tekgen"][n][0] for n in instance.positive_sk] == ["Eve", "Una"]
    assert [pool.text[n][1] for n in instance.positive_text] == ["Ada was directed by Ann Ash."]
    assert Evidence(pool).problems(instance) == []


def test_a_sentence_is_no_evidence_if_a_triple_of_a_usually_single_relation_says_otherwise(tmp_path: Path) -> None:
    other = ("Ada", "director", "Zoe Zinn", "Zoe Zinn is known.")
    rest = [(f"Film {n}", "director", f"Person {n}", "It is long.") for n in range(5)]
    for revision, has_text in ((1, True), (2, False)):
        release = make_instances(write(tmp_path / str(revision), [*STATED, other, *rest]), revision)
        withheld = {release.pools["kg_text"].sk["tekgen"][n] for each in release.instances for n in each.withheld_sk}
        assert (("Ada", "director", "Ann Ash") in withheld) is has_text


def test_of_two_directors_neither_is_a_condition_and_a_higher_peak_is_no_parent(tmp_path: Path) -> None:
    other = ("Ivy", "director", "Zoe Zinn", "Zoe Zinn is known.")
    rest = [(f"Film {n}", "director", f"Person {n}", "It is long.") for n in range(5)]
    set_in = ("Ivy", "narrative location", "Rome", "Ivy is set in Rome.")
    peaks = [
        ("Low Top", "parent peak", "Big Top", "Low Top is the second highest peak after Big Top."),
        ("Mid Top", "parent peak", "Big Top", "Mid Top is high."),
    ]
    for revision, is_asked in ((1, True), (2, False)):
        stated = [*STATED, other, *rest, set_in, *peaks]
        questions = [i.question for i in make_instances(write(tmp_path / str(revision), stated), revision).instances]
        assert any("set in Rome" in question for question in questions) is is_asked
        assert any("Big Top" in question for question in questions) is is_asked


def test_no_two_questions_share_a_topic_and_the_one_that_needs_more_is_asked(tmp_path: Path) -> None:
    more = [("Una", "director", "Ann Ash", "Una is known."), ("Una", "cast member", "Bo Birch", "Una has Bo Birch.")]
    more += [("Una", "filming location", "Oslo", "Una was filmed in Oslo."), ("Ove", "cast member", "Di", "Di, Ove.")]
    asked = make_instances(write(tmp_path, [*STATED, *more])).instances
    topics = [topic for each in asked for topic in each.topics]
    assert len(asked) > 1 and len(topics) == len(set(topics))


def test_people_are_who_and_games_no_programs(tmp_path: Path) -> None:
    flown = [
        ("Ann", "astronaut mission", "STS-9", "Ann flew on STS-9."),
        ("Bo", "astronaut mission", "STS-9", "STS-9 had Bo."),
        ("Orb", "developer", "Elk Games", "Orb was developed by Elk Games."),
        ("Pax", "developer", "Elk Games", "Pax is a game."),
    ]
    asked = {each.question for each in make_instances(write(tmp_path / "new", flown)).instances}
    assert asked == {
        "Name every person who flew on STS-9.",
        "Name every software title that was developed by Elk Games.",
    }
    older = {each.question for each in make_instances(write(tmp_path / "old", flown), 1).instances}
    assert older == {"Name every person that flew on STS-9.", "Name every program that was developed by Elk Games."}


def test_names_that_were_cut_into_tokens_are_one_with_those_that_were_not(tmp_path: Path) -> None:
    said = ["Ann Ash 's film Do n't Go ( 1990 ) was directed by her .", "Don't Go was directed by Ann Ash."]
    twice = [(name, "director", "Ann Ash", text) for name, text in zip(["Do n't Go", "Don't Go"], said, strict=True)]
    pool = make_instances(write(tmp_path, [*STATED, *twice])).pools["kg_text"]
    assert [fact for fact in pool.sk["tekgen"] if "Go" in fact[0]] == [("Don't Go", "director", "Ann Ash")]
    assert ("", "Ann Ash's film Don't Go (1990) was directed by her.") in pool.text


def test_a_word_of_the_relation_that_is_of_something_else_states_nothing(tmp_path: Path) -> None:
    other = [("Una", "director", "Cy Cedar", "Una, with Cy Cedar, was directed by nobody.")]
    asked = next(each for each in make_instances(write(tmp_path, STATED + other)).instances if "Una" in each.answers)
    assert asked.answers == ("Ivy", "Una") and len(asked.positive_text) == 1


def test_an_entity_without_a_sentence_that_states_a_fact_is_not_asked_for(tmp_path: Path) -> None:
    assert ("Eve",) not in {each.answers for each in make_instances(write(tmp_path, STATED)).instances}


def test_another_entity_that_sentences_put_there_too_drops_the_question(tmp_path: Path) -> None:
    rival = [("Uma", "based on", "Ada", "Uma, with Bo Birch, was directed by Ann Ash in Oslo.")]
    assert ("Ada",) not in {each.answers for each in make_instances(write(tmp_path, STATED + rival)).instances}


def test_what_a_sentence_may_deny_is_not_asked(tmp_path: Path) -> None:
    flown = [(name, "astronaut mission", "Orion 3", f"{name} flew aboard Orion 3.") for name in ("Ulf", "Vera", "Wim")]
    asked = {each.answers for each in make_instances(write(tmp_path / "a", flown)).instances}
    assert ("Ulf", "Vera", "Wim") in asked
    flown[2] = ("Wim", "astronaut mission", "Orion 3", "Wim was an alternate of the mission Orion 3.")
    assert not make_instances(write(tmp_path / "b", flown)).instances


def test_a_novel_is_no_film_even_if_it_was_filmed(tmp_path: Path) -> None:
    says = "Una is a novel by Bo that was adapted for Ann Ash."
    stated = [*STATED, ("Una", "director", "Ann Ash", says.replace("a novel by", "a film of the novel by"))]
    asked = {each.answers for each in make_instances(write(tmp_path / "a", stated)).instances}
    stated[-1] = (*stated[-1][:3], says)
    left = {each.answers for each in make_instances(write(tmp_path / "b", stated)).instances}
    assert ("Ada", "Eve", "Una") in asked and not any("Una" in answers for answers in left)


@pytest.mark.parametrize(("kind", "is_asked"), [("a game", True), ("an expansion pack for Orb", False)])
def test_what_a_sentence_may_say_of_another_thing_is_not_asked(kind: str, is_asked: bool, tmp_path: Path) -> None:
    made = [("Pax", "developer", "Elk Games", f"Pax is {kind}, developed by Elk Games.")]
    made += [("Zed", "developer", "Elk Games", "Zed is a game.")]
    assert bool(make_instances(write(tmp_path, made)).instances) == is_asked


def test_a_name_within_a_longer_one_is_another_name(tmp_path: Path) -> None:
    made = [("Una", "production company", "Cedar Films", "It was produced by Una Brothers and Cedar Films.")]
    made += [("Ivo", "production company", "Cedar Films", "Ivo was produced by Cedar Films.")]
    [asked] = [each for each in make_instances(write(tmp_path, made)).instances if each.answers == ("Ivo", "Una")]
    assert len(asked.positive_text) == len(asked.positive_sk) == 1
    made = [made[0], ("Ivo", "production company", "Cedar Films", "Cedar Films.")]
    assert not make_instances(write(tmp_path / "b", made)).instances


def test_who_has_an_award_is_not_asked_for_since_rivals_are_named_in_part(tmp_path: Path) -> None:
    lost = "Una was nominated for the Golden Reel, losing to Zoe."
    prizes = [("Una", "nominated for", "Golden Reel", lost), ("Eve", "nominated for", "Golden Reel", "Of Eve.")]
    asked = make_instances(write(tmp_path, STATED + prizes)).instances
    assert asked and not any("Golden Reel" in each.question for each in asked)


@pytest.mark.parametrize(
    ("page", "kept"),
    [
        (("Zoe (film)", "Zoe was made by Cy Cedar."), False),
        (("Una (film)", "Cy Cedar made Una."), True),  # an answer's own
        (("Zoe (film)", "Cy made Zoe, and a cedar is seen."), True),
    ],
)
def test_a_page_of_another_source_that_names_all_conditions_may_be_one_more_answer(
    page: Cells, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = {"type": "match", "find": "?x", "where": [["?x", "b", "c"]]}
    others = [Instance(f"h{n}", "kg_text", "?", ("a",), "h", positive_sk=(0,), program=program) for n in range(9)]
    beside = InstanceSet(others, {"kg_text": UnitPool({"h": [("a", "b", "c")]}, [page], links={0: (0,)})})
    monkeypatch.setattr(kg_text.hybridqa_graph, "make_instances", lambda folder, revision: beside)
    stated = [("Una", "director", "Cy Cedar", "Una was directed by Cy Cedar.")]
    write(tmp_path / kg_text.tekgen.FOLDER, STATED + stated)
    asked = {each.question for each in kg_text.make_kg_text(tmp_path).instances}
    assert ("Name every film that was directed by Cy Cedar." in asked) == kept


def test_shuffled_lines_give_the_same_release(tmp_path: Path) -> None:
    shuffled = list(STATED)
    random.Random(5).shuffle(shuffled)
    assert make_instances(write(tmp_path / "a", STATED)) == make_instances(write(tmp_path / "b", shuffled))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"sent": ', r"films.jsonl:1 is not JSON"),
        ("{}", r"films.jsonl:1: 'sent' is None"),
        ('{"sent": "Ada.", "triples": [{"sub": "Ada"}]}', r"the facts of 'Ada.' are malformed \(KeyError\('rel'\)\)"),
        ('{"sent": "Ada.", "triples": [["Ada"]]}', "the facts of 'Ada.' are malformed"),
        ('{"sent": "Ada.", "sub_label": 1, "rel_label": "a", "obj_label": "b"}', "are malformed"),
    ],
)
def test_a_malformed_line_is_named(line: str, message: str, tmp_path: Path) -> None:
    (write(tmp_path, []) / "train" / "films.jsonl").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        make_instances(tmp_path)


def test_a_folder_without_the_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no train, validation or ground_truth"):
        make_instances(tmp_path)
