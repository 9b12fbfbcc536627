import pytest

from kbbench_hf.retrieval.graph_ranker.answer_type import remove_comparisons, split_exclusions
from kbbench_hf.retrieval.graph_ranker.parsed_query import parse_query

QUESTION = "which films are set in Rome?"


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Which workshops smelt Galena?", [("workshops", "smelt", "galena")]),
        ("Could you please give me a list of raw ores that are stored in the mill?", [("raw", "ores")]),
        ("I am looking for information about metals involved in trade.", [("metals",)]),
        ("In which parts of the mill do they sit?", [("mill",)]),
        ("Where in the mill are those ores found?", []),
        ("Which of the ores gives most? Answer fast.", [("ores", "gives")]),
        ("I would like to know the parent peak of the hill.", [("parent", "peak")]),
        ("films Rome Fellini", [("films", "rome", "fellini")]),
        ("Which one was it? I remember a film about Rome.", [("film",)]),
        ("I once heard of a film whose name sounds like Speed. What is it?", [("film",)]),
        ("I heard of a film whos name sounds like Speed. What is it?", [("film",)]),
        ("What would you give somebody with a cold?", []),
        ("Can you think of a film about Rome?", [("film",)]),
        ("Which players interact with a coach?", [("players",)]),
        ("Where was Roma filmed?", []),
        ("Where was Roma filmed? It should be a city.", [("city",)]),
        ("Where can I find films about Rome?", [("films",)]),
        ("What did Fellini direct in Rome?", []),
        ("Where was Roma made? (award wanted)", [("award",)]),
        ("Tell me the place of Roma's studio. It should be a city.", [("city",)]),
        ("Which films should be seen? Which actors play in them?", [("films",), ("actors",)]),
        ("Roma, 1972 (film award sought)?", [("film", "award")]),
        ("Who directed the film Roma?", [("directed", "person")]),
        ("Who is the director of Roma?", [("director", "person")]),
        ("The film Roma was directed by whom?", [("person",)]),
        ('I read about a film: "who lives in Rome and". What was its name?', [("film",), ("lives",)]),
        ("Find films produced by a studio of Rome.", [("films",)]),
        ("Which written works are old?", [("written", "works")]),
        ("Which works written by Moravia are old?", [("works",)]),
        ("Anything paid for by a studio", []),
        ("I would be grateful for the names of films about Rome.", [("films",)]),
        ("Grandpa once wrote down the name of a film about Rome.", [("film",)]),
        ("Who signed off the film Roma?", [("signed", "person")]),
        ("On a quiz night we were asked for a film about Rome.", [("film",)]),
        ("I'm after a film about Rome.", [("film",)]),
        ("I'd like a film about Rome.", [("film",)]),
        ("Like my sister, I look after actors. She wants films.", [("films",)]),
        ("What do you know? Find films.", [("films",)]),
        ("What is there?", []),
        ("", []),
    ],
)
def test_what_is_asked_for_is_the_noun_phrase_after_the_cue(question: str, asked: list[tuple[str, ...]]) -> None:
    assert list(parse_query(question).phrases) == asked


@pytest.mark.parametrize(
    "wording",
    [
        "Hello! {}",
        "Dear team, {}",
        "I work in a cinema. {}",
        "As a critic, I would like to know: {}",
        "In our lab we study actors and music; {}",
        "{} (asked by a student during a course on actors)",
        "{} I need this for a report on actors.",
        "{} You know that, do you not?",
        'My boss asked: "{}"',
        "Q: {}",
        "{} Right?",
        "Unlike my last question, which was about actors, this one is new. {}",
        "This has nothing to do with the actor Sordi. {}",
        "I do not want any actors. {}",
    ],
)
def test_what_stands_around_a_question_is_not_asked_for(wording: str) -> None:
    phrases = parse_query(wording.format(QUESTION)).phrases
    assert ("films",) in phrases
    assert not any("actor" in word for phrase in phrases for word in phrase)


@pytest.mark.parametrize(
    ("question", "aside"),
    [
        (f"Unlike Speed, {QUESTION}", "Speed"),
        (f"Forget what I said about Speed; {QUESTION}", "Speed"),
        (f"I already know about Speed. {QUESTION}", "Speed"),
        (f"Unlike my last question, which was about Speed, this one is new. {QUESTION}", "Speed"),
        (f"After my question on Speed, here is another one: {QUESTION}", "Speed"),
        (f"Your last answer about Speed was wrong. {QUESTION}", "Speed"),
        (f"{QUESTION} This is unrelated to what I asked about Speed.", "Speed"),
        (f"So much for Speed. {QUESTION}", "Speed"),
        (f"In contrast to Speed, {QUESTION}", "Speed"),
    ],
)
def test_what_is_set_aside_is_not_said(question: str, aside: str) -> None:
    found = parse_query(question)
    assert aside not in found.included
    assert aside not in found.excluded
    assert QUESTION in found.included


@pytest.mark.parametrize(
    "exception",
    [
        "but not directed by Fellini",
        "except those by Fellini",
        "excluding any of Fellini",
        "leaving out those of Fellini",
        "other than Roma",
        "that are not directed by Fellini",
        "apart from those by Fellini",
        "excluding any of Dr. F. Fellini",
    ],
)
def test_what_is_ruled_out_stands_apart(exception: str) -> None:
    found = parse_query(f"Find films set in Rome, {exception}, please.")
    assert "Fellini" in found.excluded or "Roma" in found.excluded
    assert "Fellini" not in found.included
    assert [phrase[0] for phrase in found.phrases] == ["films"]


@pytest.mark.parametrize("exception", ["Apart from those by Fellini", "Leaving aside the ones by Fellini"])
def test_what_is_ruled_out_first_stands_apart_too(exception: str) -> None:
    found = parse_query(f"{exception}, {QUESTION}")
    assert (found.excluded, found.phrases) == (exception, (("films",),))


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Which films of Federico F. Fellini are old?", [("films",)]),
        ("Which films, excluding those of St. Clair, are old?", [("films",)]),
        ("I love vitamin C. Which films are old?", [("films",)]),
    ],
)
def test_an_abbreviation_ends_no_sentence(question: str, asked: list[tuple[str, ...]]) -> None:
    found = parse_query(question)
    assert list(found.phrases) == asked
    assert "Clair" not in found.included


@pytest.mark.parametrize("question", ["Which drugs should not be given with alcohol?", "What does not rust?"])
def test_a_negated_verb_rules_nothing_out(question: str) -> None:
    assert parse_query(question).included == question


def test_a_question_of_which_nothing_would_be_left_is_kept_whole() -> None:
    assert parse_query("Not about Rome").included == "Not about Rome"


def test_names_are_no_part_of_what_is_asked_for() -> None:
    (phrase,) = parse_query("Name the Roman film Speed director.", {"speed", "roman"}).phrases
    assert phrase == ("film", "director")


def test_a_word_that_types_share_is_part_of_a_name_beside_another_of_its_words() -> None:
    pairs = {("salt", "bridge")}
    assert parse_query("What is Salt Bridge made of?", {"salt"}, pairs).phrases == ()
    assert parse_query("Which bridge is made of salt?", {"salt"}, pairs).phrases == (("bridge",),)
    assert parse_query("Find inspections covering Salt Bridge.", {"salt"}, pairs).phrases == (("inspections",),)


def test_all_words_but_names_are_kept_where_no_cue_asks() -> None:
    assert parse_query("My uncle was fond of films with Sordi.", {"sordi"}).uncued == tuple(
        "my uncle was fond of films with".split()
    )
    assert parse_query(QUESTION).uncued == ()


@pytest.mark.parametrize(
    "question",
    ["Which one interacts with genes of the heart?", "What treats a cold?", "Which are involved in pathways of pain?"],
)
def test_what_is_said_of_the_asked_is_not_what_is_asked_for(question: str) -> None:
    assert parse_query(question).phrases == ()


def test_what_is_compared_with_is_taken_out_and_the_rest_stays() -> None:
    assert "speed" not in remove_comparisons("Which film is longer than Speed, and older?").lower()
    assert remove_comparisons("Rather a film about Rome?") == "Rather a film about Rome?"


def test_an_exclusion_after_which_of_the_films_ends_with_its_name() -> None:
    query = "Which of the films other than Speed are set in Rome?"
    assert split_exclusions(query, {"speed", "rome"}).excluded == "other than Speed"


@pytest.mark.parametrize(
    ("question", "sought"),
    [
        ("Could you please recommend a film about Rome? Thanks!", "Could you a film Rome? !"),
        ("I'm looking for well-known films", "I'm for well-known films"),
        ("Find examples, please", "Find examples, please"),  # nothing else is left
    ],
)
def test_the_words_of_asking_are_not_sought(question: str, sought: str) -> None:
    assert " ".join(parse_query(question).keywords.split()) == sought


def test_a_word_of_asking_in_a_name_is_sought() -> None:
    assert "Search" in parse_query("Who wrote the film Search?", {"search"}).keywords
    assert "Search" not in parse_query("Search the film of Fellini").keywords


def test_markup_is_not_read() -> None:
    assert parse_query(f"<p><b>{QUESTION}</b><br/></p>").phrases == parse_query(QUESTION).phrases
    assert "p < 0.05" in parse_query("Which films have p < 0.05 and q > 2?").included


@pytest.mark.parametrize(
    ("question", "excluded"),
    [
        ("Which films other than Speed are set in Rome?", "other than Speed"),
        ("Which films except Speed and Roma are set in Rome?", "except Speed and Roma"),
        ("Which films that are not directed by Fellini are set in Rome?", "that are not directed by Fellini"),
        ("Which films apart from Speed are set in Rome?", ""),
        ("Which films instead of Speed are set in Rome?", ""),
        ("Which films, unlike those of Fellini, are set in Rome?", ""),
        ("Which films, unlike others by Sordi the actor, show the port of Rome?", ""),
    ],
)
def test_what_is_excluded_in_the_middle_ends_with_its_names(question: str, excluded: str) -> None:
    found = parse_query(question, {"speed", "roma", "fellini", "sordi", "rome"})
    assert found.excluded == excluded
    assert found.included.rstrip().endswith("Rome?")
    assert not any(name in found.included for name in ("Speed", "Fellini", "Sordi", "Roma "))


@pytest.mark.parametrize(
    "negated",
    [
        "who never worked with Sordi",
        "and did not show Rome",
        "that Fellini didn't direct",
        "where Sordi has not acted",
        "without Sordi",
        "outside of Rome",
        "but none by Fellini",
        "which aren't of Fellini",
    ],
)
def test_what_is_negated_is_ruled_out_where_it_has_a_name(negated: str) -> None:
    names = {"speed", "fellini", "sordi", "rome"}
    found = parse_query(f"Find the crew of Speed {negated}, please.", names)
    assert found.excluded == negated
    assert parse_query("Find a crew that never sailed and did not drive.", names).excluded == ""
    assert parse_query("I like ships! Which crew has not met Fellini?", names).excluded == ""
    assert parse_query("Find a crew, but I do not know whether Fellini has one.", names).excluded == ""


def test_the_sentences_that_ask_are_told_from_the_others() -> None:
    found = parse_query("I live near Rome. Which films did Fellini direct? My uncle liked Sordi.")
    assert found.cued.strip() == "which films did fellini direct"
    assert parse_query("My uncle liked Sordi.").cued == ""


def test_what_is_excluded_without_a_known_name_is_all_that_follows() -> None:
    assert parse_query("Which films other than comedies are set in Rome?").included.split() == ["Which", "films", "?"]


def test_what_is_excluded_behind_what_is_said_of_the_asked_is_all_that_follows() -> None:
    found = parse_query("Which films are set in Rome, but not those of Fellini that won a prize?", {"fellini", "rome"})
    assert found.excluded == "but not those of Fellini that won a prize"
