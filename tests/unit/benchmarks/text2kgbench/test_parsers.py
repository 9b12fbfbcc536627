"""Model texts as triples: the published ones as they were read, new ones without loss, any text without an error."""

import json
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kbbench_hf.benchmarks.text2kgbench.benchmark import (
    HISTORICAL_PARSERS,
    parse_balanced,
    parse_id,
    parse_json,
    parse_md,
    parse_quotes,
)
from kbbench_hf.metrics.triples import Ontology, score_reference, underscore_spaces
from kbbench_hf.parsing.parsed_reply import ParseError
from tests.golden.text2kg_runs import RUNS, Run, gold, ontologies, responses


def profile(run: Run, ontology: str, position: int, row: dict) -> str:
    """Which clean-up a published row went through (recovered by trial; see the release's response files)."""
    if run.split == "unseen" or run == Run("dbpedia_webnlg", "Vicuna-13B", "test"):
        return "quotes"
    if run.dataset == "wikidata_tekgen":
        return "md"
    from_row = {"5_athlete": 0, "6_politician": 119, "16_city": 157}
    return "quotes" if position >= from_row.get(ontology, 10_000) else "id"


def test_all_published_responses_are_read_to_their_published_triples(shared):
    n = 0
    for run in RUNS:
        for ontology, rows in responses(shared / "data/text2kgbench", run):
            for position, row in enumerate(rows):
                parse = HISTORICAL_PARSERS[profile(run, ontology, position, row)]
                assert [list(triple) for triple in parse(row["response"])] == row["triples"], (run, ontology, row["id"])
                n += 1
    assert n == 12_936


def test_the_three_profiles_differ_in_underscores_quotes_and_spaces():
    response = "award\\_received(Dune, 'Hugo \"Award\"')"
    assert parse_md(response) == [("Dune", "award_received", " 'Hugo \"Award\"'")]
    assert parse_quotes(response) == [("Dune", "_received", "Hugo Award")]
    assert parse_id(response) == [("Dune", "_received", " 'Hugo \"Award\"'")]


# How the release's prompts write triples. For WebNLG they write blanks for underscores.
WRITTEN = {
    "prompt, wikidata_tekgen": lambda sub, rel, obj: f"{underscore_spaces(rel)}({sub},{obj})",
    "prompt, dbpedia_webnlg": lambda sub, rel, obj: f"{rel}({sub}, {obj})".replace("_", " "),
    "underscores kept": lambda sub, rel, obj: f"{underscore_spaces(rel)}({sub}, {obj})",
}


def recall_of_gold(release, dataset, split, write, parse):
    """Return ontology -> the mean F1 of gold that was written and read again, over sentences with gold."""
    means = {}
    for name, ontology in ontologies(release, dataset).items():
        values = []
        for row in gold(release, dataset, split, name):
            wanted = [(each["sub"], each["rel"], each["obj"]) for each in row["triples"]]
            if wanted:
                read = parse("\n".join(write(*triple) for triple in wanted), row["sent"])
                values.append(score_reference(read, wanted, row["sent"], Ontology((), ontology.relations)).f1)
        means[name] = sum(values) / len(values)
    return means


@pytest.mark.parametrize(
    ("dataset", "split", "written"),
    [
        ("wikidata_tekgen", "test", "prompt, wikidata_tekgen"),
        ("wikidata_tekgen", "unseen", "prompt, wikidata_tekgen"),
        ("dbpedia_webnlg", "test", "prompt, dbpedia_webnlg"),
        ("dbpedia_webnlg", "test", "underscores kept"),
        ("wikidata_tekgen", "test", "underscores kept"),
    ],
)
def test_gold_written_as_prompts_write_it_is_read_back_whole(shared, dataset, split, written):
    means = recall_of_gold(shared / "data/text2kgbench", dataset, split, WRITTEN[written], parse_balanced)
    assert len(means) in (10, 19)
    assert {name: mean for name, mean in means.items() if mean != 1} == {}


def test_the_released_expression_loses_most_of_city(shared):
    release, write = shared / "data/text2kgbench", WRITTEN["prompt, dbpedia_webnlg"]
    means = recall_of_gold(release, "dbpedia_webnlg", "test", write, lambda text, _: parse_id(text))
    assert round(means["16_city"], 3) == 0.386
    assert round(sum(means.values()) / len(means), 4) == 0.8928


def test_without_the_sentence_four_answers_of_webnlg_cannot_be_decided(shared):
    release, write = shared / "data/text2kgbench", WRITTEN["prompt, dbpedia_webnlg"]
    means = recall_of_gold(release, "dbpedia_webnlg", "test", write, lambda text, _: parse_balanced(text))
    assert [name for name, mean in means.items() if mean != 1] == ["5_athlete", "7_company"]
    assert sum(means.values()) / len(means) > 0.997


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("director(Up, Pete Docter)", [("Up", "director", "Pete Docter")]),
        ("- `director(Up,Pete)`\n2) **genre**(Up, film)", [("Up", "director", "Pete"), ("Up", "genre", "film")]),
        ("Test Output: director(Up, Pete), genre(Up, film).", [("Up", "director", "Pete"), ("Up", "genre", "film")]),
        ("a. cast\\_member(Up, Ed Asner)", [("Up", "cast_member", "Ed Asner")]),
        ("LCCN number(Journal, 77246451)", [("Journal", "LCCN_number", "77246451")]),
        ("languages spoken, written or signed(Li, Latin)", [("Li", "languages_spoken,_written_or_signed", "Latin")]),
        ("docking/undocking date(Soyuz, 2016)", [("Soyuz", "docking/undocking_date", "2016")]),
        ("Therefore it is cast_member(Up, X).", [("Up", "cast_member", "X")]),
        ("area(Austin, 703.95 (square kilometres))", [("Austin", "area", "703.95 (square kilometres)")]),
        ("album(Nord (Year of No Light album), (unknown))", [("Nord (Year of No Light album)", "album", "(unknown)")]),
        ("director(Up, Pete Docter\ngenre(Up, film)", [("Up", "director", "Pete Docter"), ("Up", "genre", "film")]),
        ("director(Up,\n  Pete Docter)", [("Up", "director", "Pete Docter")]),
        ('starring("Jerry, Jerry", "Mel Blanc")', [("Jerry, Jerry", "starring", "Mel Blanc")]),
        ('starring("Jerry, Jerry", Mel Blanc)', [("Jerry, Jerry", "starring", "Mel Blanc")]),
        ('language("W/X/Y",Japanese)', [('"W/X/Y"', "language", "Japanese")]),
        ('name(Bolt, "Larry, \\"L\\", B (x")', [("Bolt", "name", '"Larry, \\"L\\", B (x"')]),
        ('name("Bolt", "Larry, \\"L\\"")', [("Bolt", "name", 'Larry, "L"')]),
        ("based_on(Turn Left , Right,Turn Left, Right)", [("Turn Left , Right", "based_on", "Turn Left, Right")]),
        ("part(Anderson,_Indiana, Madison,_Indiana)", [("Anderson,_Indiana", "part", "Madison,_Indiana")]),
        ("founded(Trane, January 01, 1913)", [("Trane", "founded", "January 01, 1913")]),
        ("area code(Atlanta, 404, 678, 470)", [("Atlanta", "area_code", "404, 678, 470")]),
        ("height(K2, 8,611)", [("K2", "height", "8,611")]),
        ("lyrics_by(The Heist,Ryan Lewis,Hollis)", [("The Heist", "lyrics_by", "Ryan Lewis,Hollis")]),
        ("cost(Up,) , cost(, 5) , cost() , (Up, X) , not (a, b) in prose.", []),
        ("", []), ("No triples.", []), ("f(" * 50, []),
    ],
)  # fmt: skip
def test_a_text_worked_by_hand(text, expected):
    assert parse_balanced(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"triples": [{"subject": "Up", "relation": "director", "object": "Pete (Docter), Jr."}]}',
        '```json\n[["Up", "director", "Pete (Docter), Jr."]]\n```',
        'Sure: {"sub": "Up", "rel": "director", "obj": "Pete (Docter), Jr."} Done (really).',
        '{"n": 1, "triples": [{"subject": "Up", "predicate": "director", "object": "Pete (Docter), Jr."}]}',
    ],
)
def test_json_is_read_before_anything_else(text):
    assert parse_balanced(text) == parse_json(text) == [("Up", "director", "Pete (Docter), Jr.")]


def test_json_objects_in_a_row_are_one_answer():
    lines = "\n".join(json.dumps({"subject": "Up", "relation": "rating", "object": n}) for n in (1, 2.5))
    assert parse_json(lines) == [("Up", "rating", "1"), ("Up", "rating", "2.5")]


def test_json_without_triples_is_an_empty_answer_and_no_json_is_an_error():
    assert parse_json('{"triples": []}') == []
    for text in ("", "director(Up, X)", "[1, 2]", '{"a": "b"}', "[" * 5000, '[["Up", true, "x"]]'):
        with pytest.raises(ParseError, match="expected"):
            parse_json(text)
    assert parse_balanced("genre(Up, []) director(Up, X)") == [("Up", "genre", "[]"), ("Up", "director", "X")]


@pytest.mark.parametrize("rest", ['["x"]', '{"subject": "Up"}', '["Up", "rating", null]', '"none"', "3"])
def test_a_list_that_holds_something_else_than_triples_is_not_read_in_part(rest):
    for text in (f'{{"triples": [["Up", "director", "Pete"], {rest}]}}', f'[["Up", "director", "Pete"], {rest}]'):
        with pytest.raises(ParseError, match="no JSON list of triples"):
            parse_json(text)
        assert parse_balanced(text) == []


names = st.text(st.sampled_from("ab ,()\"'\\_[]{}1\n.é"), min_size=1, max_size=12).map(str.strip).filter(bool)


def quoted(subject: str, relation: str, obj: str) -> str:
    """A triple in the form that can hold any names: both in quotes, as JSON strings."""
    return f"{relation}({json.dumps(subject)}, {json.dumps(obj)})"


@given(st.lists(st.tuples(names, st.sampled_from(["director", "cast_member"]), names), max_size=5))
def test_quoted_names_are_read_back_whatever_they_hold(triples):
    text = "\n".join(quoted(*triple) for triple in triples)
    assume("\\_" not in text)  # which is how Markdown writes an underscore
    assert parse_balanced(text) == triples


@given(st.text(max_size=300), st.text(max_size=50))
def test_any_text_can_be_read(text, sentence):
    for triple in parse_balanced(text, sentence):
        assert len(triple) == 3 and all(isinstance(part, str) and part for part in triple)


def test_ten_thousand_mutated_responses_can_be_read(shared):
    random_numbers = random.Random(20230804)
    originals = [row["response"] for _, rows in responses(shared / "data/text2kgbench", RUNS[4]) for row in rows]
    pieces = ["(", ")", ",", '"', "\\", "\n", "[", "]", "{", "}", "_", ": ", "```json", "\x00", "\ud800", "é", "(,)"]
    for _ in range(10_000):
        text = list(random_numbers.choice(originals)[:400])
        for _ in range(random_numbers.randint(1, 8)):
            place = random_numbers.randint(0, len(text))
            text[place : place + random_numbers.randint(0, 5)] = random_numbers.choice(pieces)
        mutated = "".join(text)
        first = parse_balanced(mutated)
        assert all(len(triple) == 3 for triple in first)
        for parse in HISTORICAL_PARSERS.values():
            parse(mutated)


@pytest.mark.parametrize(
    "text", ["f(" * 20_000, "(" * 50_000, "[" * 50_000, "f(a,b" * 10_000, '"' * 50_000, "f(a" + ", b" * 5000 + ")"]
)
def test_a_long_text_takes_no_time(text):
    import time

    start = time.process_time()
    parse_balanced(text)
    assert time.process_time() - start < 30  # about 0.3 s; a square of the length would be minutes
