"""What questions say: directions, numbers and pronouns by the schema, and phrases that nothing is cut from."""

import re
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.building.synthesis.english import (
    RelationEnds,
    clauses_of,
    is_person,
    plural,
    singular,
    verb_form,
    with_article,
)
from kbbench_hf.building.synthesis.instances import EntityNames
from kbbench_hf.building.synthesis.questions import make_questions
from kbbench_hf.building.synthesis.requirements import NodeTexts, Requirements, whole_phrases
from kbbench_hf.building.synthesis.schema import read_schema
from kbbench_hf.building.synthesis.spec import SynthesisSpec, Template
from kbbench_hf.building.synthesis.wording import Choice, Wording
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase


def made_of(nodes, edges) -> KnowledgeBase:
    """Return a knowledge base of (id, type, name, text) and (head, relation, tail)."""
    columns = [("id", "type", "name", "text"), ("head", "relation", "tail")]
    tables = (
        dict(zip(names, zip(*rows, strict=True), strict=True))
        for names, rows in zip(columns, (nodes, edges), strict=True)
    )
    return KnowledgeBase.from_arrow(*map(pa.table, tables))


@pytest.fixture(scope="module")
def towns() -> KnowledgeBase:
    names = "Aldwick Brede Corfe Dunholm Elmley Fowell".split()
    nodes = [(n, "town", name, "") for n, name in enumerate(names)]
    nodes += [(6 + n, "country", name, "") for n, name in enumerate(["Norland", "Sudria", "Westmark"])]
    return made_of(nodes, [(n, "country", 6 + n // 2) for n in range(6)])


def test_a_relation_named_like_its_target_is_no_possession(towns):
    texts = [each.text for each in make_questions(towns, SynthesisSpec(), 12, "1").questions]
    assert texts and not any(re.search(r"\b(has|have|belongs?)\b", text) for text in texts)
    assert any(re.fullmatch(r"Which country is \w+ in\?", text) for text in texts)
    assert any(re.fullmatch(r"Which towns are in \w+\?", text) for text in texts)


PERSON, FILM = "person", "film"


@pytest.mark.parametrize(
    ("relation", "head", "tail", "to", "back"),
    [
        ("directed_by", FILM, PERSON, "that directed {x}", "that [was|were] directed by {x}"),
        ("directed", FILM, PERSON, "that directed {x}", "that [was|were] directed by {x}"),
        ("DIRECTED", PERSON, FILM, "that [was|were] directed by {x}", "that directed {x}"),
        ("wasBornIn", PERSON, "city", "that {x} [was|were] born in", "that [was|were] born in {x}"),
        ("died in", PERSON, "city", "that {x} died in", "that died in {x}"),
        ("hasAuthor", "book", PERSON, "the [author|authors] of {x}", "that [has|have] {x} as [an author|an author]"),
        ("members", "club", PERSON, "the [member|members] of {x}", "that [has|have] {x} as [a member|a member]"),
        ("member of", PERSON, "club", "that {x} [is a member|are members] of", "the [member|members] of {x}"),
        ("coach of club", PERSON, "club", "that {x} [is a coach|are coaches] of", "the [coach|coaches] of {x}"),
        ("author", "author", "paper", "that [has|have] {x} as [an author|an author]", "the [author|authors] of {x}"),
        ("lives in town", PERSON, "town", "that {x} [lives|live] in", "that [lives|live] in {x}"),
        ("cites", "paper", "paper", "that [is|are] cited by {x}", "that [cites|cite] {x}"),
        ("paper___cites___paper", "paper", "paper", "that [is|are] cited by {x}", "that [cites|cite] {x}"),
        ("award received", PERSON, "award", "that [was|were] received by {x}", "that received the award {x}"),
        ("flew past", "probe", "moon", "that {x} flew past", "that flew past {x}"),
        ("shares border with", "town", "town", None, "that [shares|share] a border with {x}"),
        ("shares information with", "town", "town", None, "that [shares|share] information with {x}"),
        ("nests along", "bird", "river", "that {x} [nests|nest] along", "that [nests|nest] along {x}"),
        ("country", FILM, "country", "that {x} [is|are] from", "that [is|are] from {x}"),
        ("league of clubs", "league", "club", "that {x} [is a league|are leagues] of", "the [league|leagues] of {x}"),
        (
            "named as heir by",
            PERSON,
            PERSON,
            "that {x} [is|are] named as heir by",
            "that [is|are] named as heir by {x}",
        ),
        ("ground", "club", "place", "the [ground|grounds] of {x}", None),
        ("birth place", PERSON, "place", "that {x} [was|were] born in", "that [was|were] born in {x}"),
        ("location", "airport", "place", "that {x} [is|are] in", "that [is|are] in {x}"),
        ("instrumentation", "work", "instrument", "the [instrument|instruments] of {x}", None),
        ("expression absent", "a", "b", 'that {x} [has|have] the relation "expression absent" to', None),
    ],
)
def test_both_directions_of_a_relation_are_said_as_its_name_has_it(relation, head, tail, to, back):
    ends = RelationEnds(head, tail)
    assert to is None or clauses_of(relation, "to", ends) == [to]
    assert back is None or clauses_of(relation, "from", ends) == [back]


def test_the_cardinality_and_the_symmetry_of_a_relation_decide_its_words():
    capital = RelationEnds("country", "city", one_tail=True)
    assert "whose capital is {x}" in clauses_of("capital", "from", capital)
    married = RelationEnds(PERSON, PERSON, is_mutual=True)
    assert (
        clauses_of("spouse", "from", married) == clauses_of("spouse", "to", married) == ["the [spouse|spouses] of {x}"]
    )
    effect = RelationEnds("effect or phenotype", "drug", is_mutual=True)
    assert clauses_of("side effect", "to", effect) == ["that [has|have] {x} as [a side effect|a side effect]"]
    assert clauses_of("target", "to", effect) == ["that [has|have] a target relation with {x}"]
    home = RelationEnds("club", "place")
    assert clauses_of("ground", "from", home)[0] == "that [has|have] {x} as [its|their] ground"
    assert clauses_of("interacts with", "to", married) == ["that [interacts|interact] with {x}"]
    assert clauses_of("parent-child", "to", married)[0].startswith(
        "that [is a parent or child|are parents or children]"
    )


def test_types_in_the_plural_in_capitals_and_without_one_are_said_in_either_number(towns):
    wording = Wording(SynthesisSpec().words, read_schema(towns))
    assert [wording.type(kind) for kind in ("Courses", "SITE", "CVE", "sportsTeam")] == [
        "course", "site", "CVE", "sports team",
    ]  # fmt: skip
    assert (plural("equipment"), plural("field of study"), singular("people")) == (
        "equipment", "fields of study", "person",
    )  # fmt: skip
    assert is_person("board member") and not is_person("river")


@pytest.mark.parametrize(
    ("one", "several", "counted"),
    [
        ("policeman", "policemen", "a policeman"),
        ("horseman", "horsemen", "a horseman"),
        ("specimen", "specimens", "a specimen"),
        ("human", "humans", "a human"),
        ("thesis", "theses", "a thesis"),
        ("data analysis", "data analyses", "a data analysis"),
        ("synopsis", None, "a synopsis"),
        ("quiz", "quizzes", "a quiz"),
        ("city", "cities", "a city"),
        ("boy", "boys", "a boy"),
        ("hero of a war", "heroes of a war", "a hero of a war"),
        ("bus", "buses", "a bus"),
        ("box", "boxes", "a box"),
        ("gene or protein", "genes or proteins", "a gene or protein"),
        ("equipment", "equipment", "equipment"),
        ("NGO", "NGOs", "an NGO"),
        ("USA", "USAs", "a USA"),
    ],
)
def test_nouns_have_both_numbers_and_an_article(one, several, counted):
    assert (singular(one), with_article(one)) == (one, counted)
    assert plural(one) == (several or "synopses")
    assert several is None or (singular(several), plural(several)) == (one, several)


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("regulates", ("regulate", "present")),
        ("amplifies", ("amplify", "present")),
        ("candidates", ("", "")),
        ("lying", ("lie", "ing")),
        ("running", ("run", "ing")),
        ("making", ("make", "ing")),
        ("found", ("found", "base")),
        ("founded", ("found", "past")),
        ("seen", ("see", "participle")),
        ("born", ("bear", "participle")),
        ("has", ("have", "present")),
        ("zinged", ("", "past")),
        ("bed", ("", "")),
    ],
)
def test_forms_of_verbs_are_known_or_recognized(word, form):
    assert verb_form(word) == form


def cinema(*, inverse: bool) -> KnowledgeBase:
    people = [(n, "Person", f"Person P{chr(65 + n)}x", "") for n in range(12)]
    films = [(20 + n, "Film", f"Film F{chr(65 + n)}x", "") for n in range(24)]
    gear = [(50 + n, "equipment", f"Item I{chr(65 + n)}x", "") for n in range(6)]
    edges = [(20 + n, "directed_by", n // 3) for n in range(24)] + [(20 + n, "uses", 50 + n % 6) for n in range(24)]
    edges += [(20 + n, "starring", (n + k) % 12) for n in range(24) for k in (3, 7)]
    return made_of([*people, *films, *gear], edges + [(t, "directed", h) for h, _, t in edges[:24] * inverse])


def test_number_and_pronoun_follow_the_schema():
    texts = " ".join(each.text for each in make_questions(cinema(inverse=False), SynthesisSpec(), 60, "1").questions)
    assert re.search(r"Who directed |who directed ", texts) and re.search(r"(person|people) who ", texts)
    assert re.search(r"[Ff]ilms (were )?directed by ", texts) and not re.search(r"ilms (was|who|has) ", texts)
    assert not re.search(r"equipments|equipment (are|were|who)", texts)


def test_answers_differ_as_long_as_there_are_others():
    built = make_questions(cinema(inverse=False), SynthesisSpec(max_hops=2), 60, "1")
    assert len({each.answers for each in built.questions}) == 60


def test_a_relation_and_its_inverse_are_one():
    built = make_questions(cinema(inverse=True), SynthesisSpec(), 40, "1")
    assert list(built.account.inverses) == ["directed_by"] or list(built.account.inverses) == ["directed"]
    assert not built.account.alike
    paths = {each.template.template.metapath for each in built.questions}
    assert not all("directed]" in path for path in paths) and any("direct" in path for path in paths)


def test_a_schema_has_the_steps_that_can_be_asked_about_and_what_they_lead_to():
    kinds = {"film": 0, "person": 10, "A & B": 20, "code": 30, "studio": 40}
    names = {"code": lambda n: str(n), "studio": lambda n: f"Studio {n}" if n < 3 else "unknown"}
    nodes = [
        (first + n, kind, names.get(kind, lambda n: f"Node {n}")(n), "")
        for kind, first in kinds.items()
        for n in range(6)
    ]
    edges = [(n, "by", 10 + n) for n in range(6)] + [(10 + n, "made", n) for n in range(6)]
    edges += [(n, "cast", 10 + (n + k) % 6) for n in range(6) for k in (0, 1)]
    edges += [(10 + a, "knows", 10 + b) for n in range(6) for a, b in ((n, (n + 1) % 6), ((n + 1) % 6, n))]
    edges += [(10 + n, "likes", 10 + n) for n in range(6)] + [(10, "likes", 11)]  # one without the loops
    edges += [(n, "odd", 20 + n) for n in range(6)] + [(n, "seldom", 40 + n) for n in range(4)]
    edges += [(n, "id", first + n) for n in range(6) for first in (30, 40)]
    schema = read_schema(made_of(nodes, edges))

    def shown(steps):
        return [f"{step.start} -[{step.arrow}]-> {step.end}" for step in steps]

    pairs = {
        "film -[by]-> person": "person -[^by]-> film",
        "film -[cast]-> person": "person -[^cast]-> film",
        "film -[id]-> code": "code -[^id]-> film",
        "film -[id]-> studio": "studio -[^id]-> film",
        "person -[knows]-> person": "person -[knows]-> person",
    }
    assert dict(zip(shown(schema.steps), shown(schema.back.values()), strict=True)) == (
        pairs | {back: step for step, back in pairs.items()}
    )
    assert schema.inverses == ("made",) and schema.unwritable == ("film odd A & B",)
    assert schema.nameable == {"film", "person", "A & B", "studio"}  # half of the studios have names, no code has
    assert {*shown(schema.open_ended)} == {"film -[id]-> code", "film -[id]-> studio"}
    assert shown(schema.mutual) == ["person -[knows]-> person"]
    several = {"film -[cast]-> person", "person -[^cast]-> film", "person -[knows]-> person"}
    assert {*shown(schema.single)} == {*shown(schema.steps)} - several


def test_a_topic_that_meets_its_question_is_named_as_no_answer():
    kb = cinema(inverse=False)
    built = make_questions(kb, SynthesisSpec(max_hops=2), 80, "2")
    kinds = set()
    for each in built.questions:
        path, (topic, *_) = each.template.template.path, kb.names(each.topics)
        met = len(path.walks) == 1 and set(path.walks[0].follow(kb.graph, np.array(each.topics))) & {*each.topics}
        assert (f" other than {topic}" in each.text) == bool(met) or len(path.walks) > 1, each.text
        kinds.add(bool(met))
    assert kinds == {True, False}


def test_what_two_topics_share_is_not_what_each_has():
    kb = cinema(inverse=False)
    nodes = [(n, kind, name, "") for n, (kind, name) in enumerate(zip(kb.types(), kb.names(), strict=True))]
    edges = [
        (12 + n, role, (n + k) % 12) for n in range(24) for role, k in (("person", 1), ("editor", 2)) for k in (k, 7)
    ]
    texts = [each.text for each in make_questions(made_of(nodes, edges), SynthesisSpec(max_hops=2), 60, "1").questions]
    assert not any(
        re.search("(person|people|editors?) of both", text) and "are editors of" not in text for text in texts
    )
    assert any(re.search(r"do Film \w+ and Film \w+ have in common", text) for text in texts)


def test_a_relation_without_a_direction_is_not_said_in_a_chain():
    nodes = [(n, "drug" if n < 8 else "gene", f"Node {chr(65 + n)}", "") for n in range(16)]
    pairs = [(n, 8 + (n + k) % 8) for n in range(8) for k in (0, 1)]
    kb = made_of(
        nodes, [(a, r, b) for h, t in pairs for r, a, b in (("target", h, t), ("target", t, h), ("treats", h, t))]
    )
    wording = Wording(SynthesisSpec().words, read_schema(kb))
    paths = (
        "drug -[target]-> gene",
        "drug -[target]-> gene -[^treats]-> drug",
        "drug -[treats]-> gene -[^treats]-> drug",
    )
    assert [wording.reads_well(Metapath.parse(path)) for path in paths] == [True, False, True]


def test_a_name_that_is_a_clause_is_quoted_after_its_type():
    kb = made_of([(0, "pathway", "Aldwick Regulates Transcription", ""), (1, "pathway", "Brede", "")], [(0, "near", 1)])
    assert [EntityNames(kb).unambiguous(row, "pathway") for row in (0, 1)] == [
        'the pathway "Aldwick Regulates Transcription"', "Brede",
    ]  # fmt: skip


def test_clauses_are_not_enclosed_in_clauses_nor_two_ways_to_one_node():
    kitchen = KnowledgeBase.open(shipped_dataset("mini-stark").path)
    wording = Wording(SynthesisSpec().words, read_schema(kitchen))
    enclosed = "dish -[made with]-> ingredient -[grown near]-> town -[^lives in]-> cook"
    same = "dish -[^contains]-> cookbook -[written by]-> cook <-[written by]- cookbook"
    good = "ingredient -[^made with]-> dish -[^contains]-> cookbook -[written by]-> cook"
    assert [wording.reads_well(Metapath.parse(path)) for path in (enclosed, same, good)] == [False, False, True]


def test_the_words_of_a_spec_are_said_in_both_numbers(towns):
    given = {
        "words": {"relations": {"^country": ["that lies inside the borders of {x}"], "country": ["that holds {x}"]}}
    }
    texts = [each.text for each in make_questions(towns, SynthesisSpec.of(given, "spec"), 12, "3").questions]
    assert any(re.search(r"towns (that )?lie inside the borders of \w+", text) for text in texts)
    assert any(re.search(r"country (that )?holds \w+", text) for text in texts)
    assert not any(" in " in text for text in texts)


def asked(towns, template, *requirements, number=0):
    requirements = [dict(zip(("field", "op", "value"), each, strict=True), kind="attribute") for each in requirements]
    wording = Wording(SynthesisSpec().words, read_schema(towns))
    return wording.ask(template, {"country": "Norland"}, requirements, Choice("0", number), [[2]])


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        (("founded", "<=", 1900), "were founded in 1900 or earlier"),
        (("year", ">=", 1900), "are dated 1900 or later"),
        (("birth_year", "<=", 1900), "have a birth year of 1900 or earlier"),
        (("inhabitants", ">=", 500), "have at least 500 inhabitants"),
        (("towers", "<=", 2), "have at most 2 towers"),
        (("area_km", ">=", 2.5), "have an area of at least 2.5 km"),
        (("height", "<=", 10.0), "have a height of at most 10"),
        (("color", "=", "red"), "have red as their color"),
    ],
)
def test_a_requirement_is_said_as_its_attribute_has_it(towns, requirement, said):
    text, n_relational, n_textual = asked(towns, Template("country -[^country]-> town"), requirement)
    assert text == f"Which towns in Norland {said}?"
    assert n_relational == len("that are in Norland".split()) and n_textual >= len(said.split()) - 1


WRITTEN = """
cook -[^created by]-> dish | 3 | 0
    Which dishes were created by Ada?
cook -[^created by]-> dish | 3 | 1 | dated
    I am looking for the dishes that were created by Ada and that are dated 1900 or later.
dish -[created by]-> cook | 1 | 0
    Which cook created Leek pie?
dish -[created by]-> cook | 3 | 0 | dated
    Which cooks who created Leek pie are dated 1900 or later?
dish -[made with]-> ingredient | 1 | 1
    I am looking for the ingredients that Leek pie is made with.
dish -[made with]-> ingredient | 3 | 0 | dated
    Which ingredients that Leek pie is made with are dated 1900 or later?
cookbook -[written by]-> cook -[lives in]-> town | 1 | 0
    Which town does the cook who wrote Old Oven live in?
cookbook -[written by]-> cook -[lives in]-> town | 3 | 0
    Which towns do the cooks who wrote Old Oven live in?
cookbook -[written by]-> cook -[lives in]-> town | 3 | 0 | dated
    Take the cooks who wrote Old Oven. Which towns that are dated 1900 or later do any of these cooks live in?
town -[^lives in]-> cook -[^created by]-> dish | 3 | 0
    Which dishes were created by a cook who lives in Ayr?
town -[^lives in]-> cook -[^created by]-> dish | 3 | 0 | dated
    Which dishes created by a cook who lives in Ayr are dated 1900 or later?
ingredient -[^made with]-> dish <-[^created by]- cook | 3 | 0
    Which dishes are made with Salt and were created by Ada?
ingredient -[^made with]-> dish <-[^created by]- cook | 3 | 0 | dated
    I am looking for the dishes that are made with Salt and that were created by Ada and that are dated 1900 or later.
cook:1 -[^created by]-> dish <-[!^created by]- cook:2 | 3 | 0
    Which dishes were created by Ada and were not created by Bo?
ingredient:1 -[^made with]-> dish <-[^made with]- ingredient:2 | 3 | 0 | dated
    Which dishes made with both Salt and Oil are dated 1900 or later?
festival -[^served at]-> dish -[^contains]-> cookbook | 3 | 0
    Which cookbooks contain a dish served at Fair?
cook -[apprenticed to]-> cook -[lives in]-> town | 1 | 0 | dated
    Take the cook that Ada is apprenticed to. Which town that is dated 1900 or later does this cook live in?
cook -[apprenticed to]-> cook -[lives in]-> town | 3 | 0
    Which towns do the cooks that Ada is apprenticed to live in?
ingredient -[grown near]-> town -[^lives in]-> cook | 3 | 0 | dated
    Which cooks who live in a town that Salt is grown near are dated 1900 or later?
dish -[served at]-> festival -[held in]-> town | 3 | 0
    Take the festivals that Leek pie is served at. Which towns are any of these festivals held in?
"""
"""Template, nodes that each hop leads to, number of the question, "dated" with a requirement; then the question."""


@pytest.mark.parametrize("case", re.findall(r"(\S.*)\n    (.*)", WRITTEN), ids=lambda case: case[1])
def test_a_question_is_written_as_before(case):
    """The same seed gives the same sentences: a list of the grammar with a new wording changes only its own."""
    kitchen = KnowledgeBase.open(shipped_dataset("mini-stark").path)
    template, reached, number, *is_dated = case[0].split(" | ")
    named = Template(template)
    names = {"cook": "Ada", "dish": "Leek pie", "ingredient": "Salt", "cookbook": "Old Oven"}
    names |= {"town": "Ayr", "festival": "Fair", "cook:1": "Ada", "cook:2": "Bo"}
    names |= {"ingredient:1": "Salt", "ingredient:2": "Oil"}
    dated = {"kind": "attribute", "field": "year", "op": ">=", "value": 1900}
    wording = Wording(SynthesisSpec().words, read_schema(kitchen))
    hops = [[int(reached)] * len(walk.hops) for walk in named.path.walks]
    topics = {label: names[label] for label in named.path.topics}
    found = wording.ask(named, topics, [dated] * len(is_dated), Choice("0", int(number)), hops)
    assert found[0] == case[1] and wording.reads_well(named.path)


def test_several_requirements_are_joined_and_a_phrase_of_the_spec_has_them_after_it(towns):
    both = (("founded", "<=", 1900), ("towers", ">=", 2))
    text, *_ = asked(towns, Template("country -[^country]-> town"), *both, number=1)
    clauses = "that were founded in 1900 or earlier and that have at least 2 towers"
    assert text == f"I am looking for the towns that are in Norland and {clauses}."
    phrased = Template("country -[^country]-> town", phrases=("places of {country}",))
    assert asked(towns, phrased)[0] == "I need to know the places of Norland."
    text, n_relational, n_textual = asked(towns, phrased, *both)
    assert text == f"I need to know the places of Norland. Only those {clauses}."
    assert (n_relational, n_textual) == (3, len(clauses.replace(" and ", " ").split()))


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("It is a bowl of sour soup.", ["bowl of sour soup"]),
        ("He taught at the University of Vienna.", ["university of vienna"]),
        ("The crust breaks like ice.", []),  # a verb without its object
        ("She sang bold hymns.", []),  # a verb without its subject
        ("A town.", []),  # one common word
        ("A semi-dry cider in 2.5 litre jugs", []),  # bounds that are not known
        ("He was born in Kilnsea.", ["kilnsea"]),
        ("She met Dr. Anna Quill.", []),
        ("Natural Killer (NK) cells", []),
    ],
)
def test_a_phrase_is_whole(text, phrases):
    assert [" ".join(phrase) for phrase in whole_phrases(text)] == phrases


def test_a_phrase_bites_says_nothing_said_and_does_not_do_alone():
    texts = ["a shallow gravel bed", "a shallow gravel bed", "a steep bank", "a stone bridge and a steep bank"] * 3
    kb = made_of([(n, "river", f"River {n}", f"With {text}.") for n, text in enumerate(texts)], [(0, "near", 1)])
    requirements = Requirements(kb, NodeTexts(kb))
    drawn = requirements.draw(2, [0, 1, 2], 1, Random(0))
    assert [(each["value"], met) for each, met in drawn] == [("steep bank", frozenset({2}))]
    by_number = {
        size: [each["value"] for each, _ in requirements.draw(3, [0, 2, 3], size, Random(0))] for size in (1, 2)
    }
    assert by_number == {1: ["stone bridge", "steep bank"], 2: ["steep bank", "stone bridge"]}  # 1 and 2 have them
    assert not requirements.draw(2, [0, 1, 2], 1, Random(0), {"steep"})  # a word of the question
    assert not requirements.draw(2, [2], 1, Random(0))  # removes nothing
    assert not requirements.draw(2, [2, 3, 6, 7, 10, 0], 1, Random(0))  # says all that the relation says


def test_attributes_that_tell_nodes_apart_are_required_with_bounds_that_the_gold_node_meets():
    n = 8
    kb = KnowledgeBase.from_arrow(
        pa.table(
            {
                "id": range(n),
                "type": ["town"] * n,
                "name": [f"Town {each}" for each in range(n)],
                "text": [""] * n,
                "built": [1203, 1250, 1300, 1340, 1402, 1500, 1600, 1987],
                "height": [1.25, 2.5, None, 3.75, 10.0, 11.5, 12.0, 13.0],
                "coast": pa.array(["east", "west"] * 4).dictionary_encode(),
                "half": ["p", "q", "p", "q", None, "", None, ""],
                "mayor": [f"M{each}" for each in range(n)],  # one each
                "seldom": ["x", "y"] + [None] * 6,
                "same": ["z"] * n,
                "motto": ["a" * 200, "b" * 200] * 4,
                "is_port": [True, False] * 4,
                "tags": [["a"]] * n,
            }
        ),
        pa.table({"head": [0], "relation": ["near"], "tail": [1]}),
    )
    requirements = Requirements(kb, NodeTexts(kb))

    def drawn(gold: int) -> set[tuple[object, ...]]:
        """Return all attributes that seeds draw, with the nodes that meet them."""
        every = (pair for seed in range(12) for pair in requirements.draw(gold, range(n), 2, Random(seed)))
        return {(each["field"], each["op"], each["value"], tuple(sorted(met))) for each, met in every}

    assert drawn(0) == {
        ("built", "<=", 1210, (0,)),
        ("built", ">=", 1200, tuple(range(n))),
        ("height", "<=", 2, (0,)),
        ("height", ">=", 1, (0, 1, 3, 4, 5, 6, 7)),
        ("coast", "=", "east", (0, 2, 4, 6)),
        ("half", "=", "p", (0, 2)),
    }
    assert {each[:3] for each in drawn(2)} == {
        ("built", "<=", 1300), ("built", ">=", 1300), ("coast", "=", "east"), ("half", "=", "p"),
    }  # fmt: skip
    orders = {tuple(each["field"] for each, _ in requirements.draw(0, [0], 1, Random(seed))) for seed in range(12)}
    assert len(orders) > 1 and all({*order} == {"built", "height", "coast", "half"} for order in orders)


def test_a_phrase_is_spelled_as_the_text_spells_it():
    texts = ["Steep  bank. Near the Great-North road. Gravel bed: Wide ford", "By a Steep Bank"]
    kb = made_of([(n, "river", f"River {n}", text) for n, text in enumerate(texts)], [(0, "near", 1)])
    requirements = Requirements(kb, NodeTexts(kb))

    def spelled(gold: int, phrase: str) -> str:
        return requirements.verbatim(gold, {"kind": "phrase", "value": phrase})["value"]

    assert spelled(0, "steep bank") == "steep  bank"  # where a sentence begins, the capital is not the phrase's
    assert spelled(0, "great north road") == "Great-North road"
    assert (spelled(0, "gravel bed"), spelled(0, "wide ford")) == ("gravel bed", "wide ford")
    assert spelled(1, "steep bank") == "Steep Bank"
    assert spelled(1, "deep bank") == "deep bank"  # not there
    year = {"kind": "attribute", "field": "built", "op": "<=", "value": 1900}
    assert requirements.verbatim(0, year) == year
