"""Text2KGBench's prompts: the published ones byte for byte, and ours."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.benchmarks.base import Examples, PromptOptions
from kbbench_hf.benchmarks.text2kgbench.benchmark import parse_balanced, parse_json
from kbbench_hf.benchmarks.text2kgbench.material import Demonstrations
from kbbench_hf.benchmarks.text2kgbench.prompts import (
    as_written,
    choose,
    current,
    h1,
    h2,
    h2_d,
    leak_warnings,
    published,
    render,
    short,
    with_similar_ids,
)
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.triples import name_key


@dataclass(frozen=True)
class Material:
    ontologies: dict[str, Any]
    demonstrations: Demonstrations


def examples_of(folder: DatasetFolder, split: str) -> Examples:
    ontologies = {row["ontology_id"]: row for row in folder.rows("ontologies", "full")}
    train = {row["id"]: row for row in folder.rows("sentences", "train")}
    others = [
        row for name in folder.configs()["sentences"] if name != "train" for row in folder.rows("sentences", name)
    ]
    shown = Demonstrations(train, frozenset(name_key(row["sentence"]) for row in others))
    return Examples(folder.rows("sentences", split), Material(ontologies, shown))


@pytest.fixture(scope="module")
def release(shared: Path) -> Path:
    return shared / "data" / "text2kgbench"


@pytest.fixture(scope="module")
def mini() -> Examples:
    return examples_of(shipped_dataset("mini-text2kg"), "test")


# Source: cenguix/Text2KGBench at 50a3d25, data/*/baselines/prompts; counted with `wc -l`.
PUBLISHED = [
    ("wikidata", "test", "wikidata_tekgen/baselines/prompts", 4062, h1),
    ("wikidata", "unseen", "wikidata_tekgen/baselines/prompts/unseen", 174, h2),
    ("webnlg", "test", "dbpedia_webnlg/baselines/prompts", 2014, h2_d),
]


@pytest.mark.parametrize(("dataset", "split", "folder", "number", "function"), PUBLISHED)
def test_all_published_prompts_come_out_byte_for_byte(
    dataset: str, split: str, folder: str, number: int, function: Any, release: Path, request: pytest.FixtureRequest
) -> None:
    built: DatasetFolder = request.getfixturevalue(dataset)
    examples = examples_of(built, split)
    rows = {row["id"]: row for row in examples.rows}
    recipes = {row["id"]: row for row in built.rows("prompts", split)}
    lines = [line for file in (release / folder).glob("*.jsonl") for line in file.read_text("utf-8").splitlines()]
    assert len(lines) == number == len(rows) == len(recipes)
    for line in lines:
        name = json.loads(line)["id"]
        text = published(recipes[name], rows[name], examples.context.ontologies, examples.context.demonstrations)
        assert json.dumps({"id": name, "prompt": text}) == line
        prompt = function(rows[name], examples, PromptOptions(demonstrations="similar"))
        assert prompt.messages == [{"role": "user", "content": text}]


def test_the_published_demonstration_leaks_in_320_prompts_and_leak_free_in_none(wikidata: DatasetFolder) -> None:
    examples = examples_of(wikidata, "test")
    leaks: Counter[str] = Counter()
    for row in examples.rows:
        for kind in ("similar", "leak-free", "random"):
            shown = choose(row, examples.context.demonstrations, PromptOptions(demonstrations=kind))
            leaks[kind] += any(each["sentence"] == row["sentence"] for each in shown)
    assert leaks == {"similar": 320, "leak-free": 0, "random": 0}


@pytest.mark.parametrize(("dataset", "split"), [("wikidata", "test"), ("wikidata", "unseen"), ("webnlg", "test")])
def test_default_demonstrations_show_no_sentence_of_another_split_and_no_gold_triple(
    dataset: str, split: str, request: pytest.FixtureRequest
) -> None:
    examples = examples_of(request.getfixturevalue(dataset), split)
    asked = {row["sentence"] for row in examples.rows}
    for row in examples.rows:
        (shown,) = choose(row, examples.context.demonstrations, PromptOptions())
        gold = {(each["sub"], each["rel"], each["obj"]) for each in row["triples"] + row["triples_repaired"]}
        told = examples.context.demonstrations.triples_by_sentence[shown["ontology_id"], shown["sentence"]]
        assert shown["sentence"] not in asked
        assert gold.isdisjoint((each["sub"], each["rel"], each["obj"]) for each in told + shown["triples"])


def test_leaks_are_counted_and_warned_of(wikidata: DatasetFolder) -> None:
    examples = examples_of(wikidata, "test")
    (warning,) = leak_warnings(examples, PromptOptions(demonstrations="similar"))
    assert (warning.code, warning.severity, warning.n_examples) == ("demonstration_leaks", "warning", 322)
    assert "Of 4,062 prompts, 320 contain the test sentence" in str(warning)
    assert leak_warnings(examples, PromptOptions()) == []
    assert leak_warnings(examples, PromptOptions(demonstrations="none")) == []


ONTOLOGY = {
    "title": "Small",
    "concepts": [
        {"qid": "Q1", "label": "film", "source": "json"},
        {"qid": "Q2", "label": "award ", "source": "json"},
        {"qid": "Q1", "label": "movie", "source": "json"},
        {"qid": "Q9", "label": "only in the OWL file", "source": "ttl"},
    ],
    "relations": [
        {"label": "won prize ", "domain": "Q1", "range": "Q2", "source": "json"},
        {"label": "cost", "domain": "Q7", "range": "number", "source": "json"},
        {"label": "unseen", "domain": "Q1", "range": "Q9", "source": "ttl"},
    ],
}
SHOWN = {
    "sentence": "Up won an Oscar.",
    "triples": [{"sub": "Up_2", "rel": "won prize ", "obj": "Oscar"}, {"sub": "Up_2", "rel": "cost_x", "obj": "9"}],
}


def test_h1_writes_first_labels_blanks_for_the_unknown_and_underscores_in_relations() -> None:
    text = render("h1", "It cost 9.", ONTOLOGY, [SHOWN])
    assert text.startswith("\nGiven the following ontology")
    assert "Ontology Concepts: film, award , movie,\n" in text
    assert "Ontology Relations: won_prize_(film,award ), cost(,)\n\n" in text
    assert "Example Output: won_prize_(Up_2,Oscar)\ncost_x(Up_2,9)\n\n" in text
    assert text.endswith("Test Sentence: It cost 9.\nTest Output: ")


def test_h2_d_keeps_unknown_ranges_and_writes_blanks_for_underscores() -> None:
    text = render("h2_d", "It cost 9.", ONTOLOGY, [SHOWN])
    assert "cost(,number)" in text
    assert "Example Output:\nwon prize (Up 2, Oscar)\ncost x(Up 2, 9)\n\n" in text


def test_shots_repeat_the_example_and_none_leaves_it_out() -> None:
    assert render("h2", "s", ONTOLOGY, [SHOWN] * 3).count("Example Sentence: ") == 3
    assert "Example" not in render("h2", "s", ONTOLOGY, [])


def test_braces_in_a_sentence_are_text() -> None:
    assert "Test Sentence: a {sentence} {0}\n" in render("h1", "a {sentence} {0}", ONTOLOGY, [])


def test_demonstrations_are_as_many_as_asked_or_as_there_are(mini: Examples) -> None:
    row = mini.rows[0]
    train = mini.context.demonstrations
    assert [each["id"] for each in choose(row, train, PromptOptions(shots=3))] == row["similar_ids"][:3]
    assert len(choose(row, train, PromptOptions(shots=9))) == 5
    assert len(choose(row, train, PromptOptions(shots=99, demonstrations="random"))) == 22
    assert choose(row, train, PromptOptions(demonstrations="none")) == []
    assert choose(row, train, PromptOptions(shots=0)) == []


def test_leak_free_takes_the_next_similar_row_that_is_not_the_sentence_itself() -> None:
    train = Demonstrations(
        {
            name: {"id": name, "ontology_id": "1_x", "sentence": sentence, "triples_repaired": []}
            for name, sentence in (("a", "same"), ("b", "same"), ("c", "other"))
        }
    )
    row = {"id": "t", "ontology_id": "1_x", "sentence": "same", "similar_ids": ["a", "b", "c"]}
    for kind, expected in (("similar", ["a"]), ("leak-free", ["c"]), ("random", ["c"])):
        assert [each["id"] for each in choose(row, train, PromptOptions(demonstrations=kind))] == expected


def train_of(*rows: tuple[str, str, list[tuple[str, str, str]]]) -> Demonstrations:
    """Return train rows of (id, sentence, triples)."""
    columns = ("sub", "rel", "obj")
    return Demonstrations(
        {
            name: {
                "id": name,
                "ontology_id": "1_x",
                "sentence": sentence,
                "triples_repaired": [dict(zip(columns, triple, strict=True)) for triple in triples],
            }
            for name, sentence, triples in rows
        }
    )


ROWS = train_of(
    ("a", "The film is by Ann.", [("Ran", "by", "Ann")]),
    ("b", "Ran came out on 9 May 2009.", [("Ran_(film)", "date", "2009-05-09")]),
    ("c", "In & Out is by Bo_b and 83.2 m long.", [('"In & Out"', "by", "Bo_b"), ("In_&_Out", "size", "83.2104")]),
    ("d", "On is by Cy.", [("On_Time", "by", "Cy")]),
)


def test_mentioned_takes_the_first_row_that_names_its_triples_and_several_before_one() -> None:
    def chosen(name: str, similar: list[str], shots: int = 1) -> list[str]:
        row = {"id": name, "ontology_id": "1_x", "sentence": "x", "similar_ids": similar}
        return [each["id"] for each in choose(row, ROWS, PromptOptions(shots=shots, demonstrations="mentioned"))]

    assert chosen("id_2", ["a", "b", "d"]) == ["b"]
    assert chosen("id_2", ["a", "b", "c"], 3) == ["c", "b"]  # no row is left that names its triples
    assert chosen("id_2", ["a"])[0] in ("b", "c")  # one of the others
    assert 20 < sum(chosen(f"id_{n}", ["b"]) == [] for n in range(300)) < 40


def test_as_written_has_names_dates_and_numbers_of_the_sentence() -> None:
    examples = Examples([], Material({"1_x": ONTOLOGY}, ROWS))

    def shown(name: str, prompt: Any) -> list[tuple[str, str, str]]:
        row = {"id": "t", "ontology_id": "1_x", "sentence": "x", "similar_ids": [name]}
        messages = prompt(row, examples, PromptOptions(demonstrations="similar")).messages
        return parse_json(messages[2]["content"])

    assert shown("b", as_written) == [("Ran", "date", "9 May 2009")]
    assert shown("b", current) == [("Ran_(film)", "date", "2009-05-09")]
    assert shown("c", as_written) == [("In & Out", "by", "Bo_b"), ("In & Out", "size", "83.2")]
    assert shown("d", as_written) == [("On Time", "by", "Cy")]


def test_short_has_relations_without_concepts_and_a_reminder_with_each_sentence(mini: Examples) -> None:
    row, options = mini.rows[0], PromptOptions(shots=2)
    prompt, whole = short(row, mini, options), current(row, mini, options)
    system, first, reply, *_, last = (each["content"] for each in prompt.messages)
    assert len(system) < 0.4 * len(whole.messages[0]["content"])
    assert "\n- home_port\n" in system and "shipyard" not in system and "->" not in system
    assert last == f"Sentence: {row['sentence']}\nFacts of this sentence, with names from it only:"
    assert first.startswith("Sentence: ") and reply == whole.messages[2]["content"]
    assert (len(prompt.messages), prompt.json_schema) == (6, whole.json_schema)


def test_nine_of_ten_prompts_have_a_demonstration_that_names_its_triples(webnlg: DatasetFolder) -> None:
    examples = examples_of(webnlg, "test")
    numbers: Counter[int] = Counter()
    for row in examples.rows:
        messages = as_written(row, examples, PromptOptions(demonstrations="mentioned")).messages
        triples = parse_json(messages[2]["content"]) if len(messages) > 2 else []
        numbers[len(triples)] += 1
        assert not any("_" in sub + obj or '"' in sub + obj for sub, _, obj in triples)
    assert numbers[0] == 186 and sum(number for n, number in numbers.items() if n > 1) == 1811


def test_random_demonstrations_depend_on_seed_and_id_alone(mini: Examples) -> None:
    def drawn(seed: int, shots: int = 4) -> list[list[str]]:
        options = PromptOptions(shots=shots, demonstrations="random", seed=seed)
        return [[each["id"] for each in choose(row, mini.context.demonstrations, options)] for row in mini.rows]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert [each[:2] for each in drawn(1)] == drawn(1, shots=2)
    assert all(len(set(each)) == 4 for each in drawn(1))
    assert len({name for each in drawn(1) for name in each}) == 22  # 192 draws reach every one of 22 rows


def test_a_demonstration_shows_all_triples_of_its_sentence(mini: Examples) -> None:
    # "Fairweather Works, founded in 1780, stands on Hollin." is two train rows with one triple each.
    row = next(
        each for each in mini.rows if "train_16" in each["similar_ids"][0] or "train_17" in each["similar_ids"][0]
    )
    messages = current(row, mini, PromptOptions()).messages
    assert [each["role"] for each in messages] == ["system", "user", "assistant", "user"]
    assert parse_json(messages[2]["content"]) == [
        ("Fairweather Works", "inception", "1780"),
        ("Fairweather Works", "located_on", "Hollin"),
    ]


def test_our_prompt_states_the_ontology_once_and_ends_with_the_sentence(mini: Examples) -> None:
    row = mini.rows[0]
    system, *turns = current(row, mini, PromptOptions(shots=3)).messages
    assert "- home_port: ship -> port\n" in system["content"]
    assert "- height: lighthouse -> any\n" in system["content"]
    assert '{"triples": [{"subject": "...", "relation": "...", "object": "..."}]}' in system["content"]
    assert [each["role"] for each in turns] == ["user", "assistant"] * 3 + ["user"]
    assert turns[-1]["content"] == row["sentence"]


def test_our_prompt_writes_labels_without_blanks_types_as_they_are_and_any_for_unknown_ids() -> None:
    train = Demonstrations({})
    examples = Examples([], Material({"1_x": ONTOLOGY}, train))
    row = {"id": "t", "ontology_id": "1_x", "sentence": "s {x}", "similar_ids": []}
    system, question = current(row, examples, PromptOptions()).messages
    assert "Concepts: film, award, movie\n" in system["content"]
    assert "- won_prize: film -> award\n- cost: any -> number\n\n" in system["content"]
    assert question["content"] == "s {x}"


def test_the_schema_admits_the_relations_of_the_ontology_and_no_other(mini: Examples) -> None:
    schema = current(mini.rows[0], mini, PromptOptions()).json_schema
    assert schema is not None
    triple = schema["properties"]["triples"]["items"]["properties"]
    relations = mini.context.ontologies["1_isles"]["relations"]
    assert triple["relation"]["enum"] == [each["label"].replace(" ", "_") for each in relations]


def test_what_our_prompt_demonstrates_is_read_by_the_default_parser(mini: Examples) -> None:
    for row in mini.rows:
        for message in current(row, mini, PromptOptions(shots=5)).messages:
            if message["role"] == "assistant":
                assert parse_balanced(message["content"]) == parse_json(message["content"]) != []


def test_our_prompt_needs_no_similar_ids_for_unlabelled_text(mini: Examples) -> None:
    row = dict(mini.rows[0]) | {"similar_ids": []}
    assert len(current(row, mini, PromptOptions()).messages) == 2
    assert "Example" not in h1(row, mini, PromptOptions()).messages[0]["content"]


class Lengths:
    """Embeds a text as (its length, 10): the nearer in length, the higher the cosine."""

    name = "lengths"

    def encode(self, texts: Any) -> NDArray[np.float32]:
        return np.array([[len(text), 10] for text in texts], dtype=np.float32)


def test_similar_ids_can_come_from_any_embedder() -> None:
    train = {
        name: {"id": name, "ontology_id": ontology_id, "sentence": "x" * length}
        for name, ontology_id, length in (("a", "1_x", 30), ("b", "1_x", 12), ("c", "2_y", 10), ("d", "1_x", 12))
    }
    rows = [
        {"id": "t1", "ontology_id": "1_x", "sentence": "x" * 11, "similar_ids": ["a"]},
        {"id": "t2", "ontology_id": "3_z", "sentence": "x", "similar_ids": ["a"]},
        {"id": "t3", "ontology_id": "2_y", "sentence": "x", "similar_ids": []},
    ]
    examples = Examples(rows, Material({}, Demonstrations(train)))
    ranked = with_similar_ids(examples, Lengths(), count=2)
    # Of ontology 1_x, "b" and "d" (12) are nearer to 11 than "a" (30), and tie in their order; 3_z has no train rows.
    assert [row["similar_ids"] for row in ranked.rows] == [["b", "d"], [], ["c"]]
    assert rows[0]["similar_ids"] == ["a"]
