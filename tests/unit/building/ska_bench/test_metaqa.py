"""Subset `kg` on a made-up film graph in MetaQA's layout: directors with films, writers, years and genres."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.building.ska_bench.evidence import Evidence
from kbbench_hf.building.ska_bench.metaqa import make_instances, repair_wording
from kbbench_hf.errors import DataError

PEOPLE = 6


def graph(people: int = PEOPLE) -> list[tuple[str, str, str]]:
    triples = []
    for n in range(people):
        for film in range(3):
            title = f"Film {n} {'abc'[film]}"
            triples += [
                (title, "directed by", f"Director {n}"),
                (title, "written by", f"Writer {n} {film}"),
                (title, "release year", str(1950 + n + film)),
                (title, "has genre", ("Drama", "Comedy", "Crime")[film]),
                (f"Early {n}", "starred actors", f"Director {n}"),
                (f"Late {n}", "starred actors", f"Director {n}"),
                (f"Later {n}", "starred actors", f"Director {n}"),
            ]
    return sorted(set(triples))


def asked(path: str, number: int, wording: str, topic: str, answers: list[str]) -> dict[str, Any]:
    return {
        "id": f"{path}-{number}",
        "hop": path.count("_to_"),
        "path": path,
        "question": wording.replace("*", topic),
        "topic": topic,
        "answers": answers,
        "positive": [],
    }


def questions(people: int = PEOPLE) -> list[dict[str, Any]]:
    rows = []
    for n in range(people):
        years = [str(1950 + n + film) for film in range(3)]
        others = [f"Film {n} b", f"Film {n} c"]
        rows += [
            asked("director_to_movie_to_year", n, "when did the films directed by * release", f"Director {n}", years),
            asked("movie_to_director_to_movie", n, "which films have the same director of *", f"Film {n} a", others),
            asked("movie_to_tags", n, "which words describe *", f"Film {n} a", ["x"]),
        ]
    return rows


def write(folder: Path, triples: list[tuple[str, str, str]], rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    lines = "".join("\t".join(triple) + "\n" for triple in triples)
    (folder / "metaqa_triples.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metaqa_questions.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return folder


def test_a_question_becomes_an_instance_with_the_triples_of_its_path(tmp_path: Path) -> None:
    release = make_instances(write(tmp_path, graph(), questions()))
    instance = next(each for each in release.instances if each.id == "director_to_movie_to_year-3")
    triples = [release.pools["kg"].sk["metaqa"][number] for number in instance.positive_sk]
    assert instance.question == "When were the films directed by Director 3 released?"
    assert instance.answers == ("1953", "1954", "1955")
    assert instance.answer_type == "date"
    assert Counter(relation for _, relation, _ in triples) == {"directed by": 3, "release year": 3}
    assert instance.split_key == "Director 3"
    assert len(instance.decoys) >= 6
    assert not set(instance.decoys) & {name for triple in triples for name in triple}


def test_every_instance_passes_the_checks_of_its_evidence_and_no_topic_comes_twice(tmp_path: Path) -> None:
    release = make_instances(write(tmp_path, graph(), questions()))
    evidence = Evidence(release.pools["kg"])
    assert len(release.instances) > 10
    assert all(evidence.problems(instance) == [] for instance in release.instances)
    assert len({instance.split_key for instance in release.instances}) == len(release.instances)


def test_no_wording_has_more_than_its_share(tmp_path: Path) -> None:
    release = make_instances(write(tmp_path, graph(20), questions(20)))
    wordings = Counter(each.question.replace(each.split_key, "*") for each in release.instances)
    assert sorted(wordings.values()) == [7, 7]  # of 20 each; 3 % of 240 is 7


def without(triples: list[tuple[str, str, str]], *left_out: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    assert set(left_out) <= set(triples)
    return [triple for triple in triples if triple not in left_out]


YEAR, DIRECTED = "release year", "directed by"
FLAWS = {
    "an answer is missing in the graph": without(graph(), ("Film 3 a", YEAR, "1953")),
    "another film answers too": [*graph(), ("New", DIRECTED, "director 3"), ("New", YEAR, "2001")],
    "two ways lead to one answer": [*graph(), ("New", DIRECTED, "Director 3"), ("New", YEAR, "1953")],
    "two films share a title": [*graph(), ("Film 3 a", YEAR, "1954")],
    "the topic has no other triples": [t for t in graph() if t[1:] != ("starred actors", "Director 3")],
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_question_is_left_out_where(flaw: str, tmp_path: Path) -> None:
    release = make_instances(write(tmp_path, FLAWS[flaw], questions()))
    assert release.instances
    assert "director_to_movie_to_year-3" not in {instance.id for instance in release.instances}


def test_a_gold_answer_never_stands_in_the_question(tmp_path: Path) -> None:
    rows = questions()
    rows[0]["question"] = "when did the films directed by * release in 1950".replace("*", rows[0]["topic"])
    release = make_instances(write(tmp_path, graph(), rows))
    assert rows[0]["id"] not in {instance.id for instance in release.instances}


def test_shuffled_files_give_the_same_release(tmp_path: Path) -> None:
    triples, rows = graph(), questions()
    first = make_instances(write(tmp_path, triples, rows))
    random.Random(5).shuffle(triples)
    random.Random(6).shuffle(rows)
    assert make_instances(write(tmp_path, triples, rows)) == first


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    rows = questions()
    del rows[2]["topic"]
    with pytest.raises(DataError, match=r"metaqa_questions.jsonl.gz:3: 'topic' is None"):
        make_instances(write(tmp_path, graph(), rows))
    with pytest.raises(DataError, match=r"metaqa_questions.jsonl.gz:1: 'answers' is \[1950\]; expected list of text"):
        make_instances(write(tmp_path, graph(), [questions()[0] | {"answers": [1950]}]))
    with pytest.raises(DataError, match=r"metaqa_triples.tsv.gz:1 has an empty cell"):
        make_instances(write(tmp_path, [("Heat", "", "1995")], questions()))
    with pytest.raises(DataError, match="cannot be read"):
        make_instances(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("wording", "n_answers", "question"),
    [
        ("who is listed as director of * starred movies", 1, "Who is the director of movies starring *?"),
        ("who is listed as director of * starred movies", 2, "Who are the directors of movies starring *?"),
        (
            "what types are the films written by * writers",
            2,
            "What are the genres of the other films written by the writers of *?",
        ),
        (
            "who wrote movies that share actors with the movie *",
            2,
            "Who wrote movies that share actors with the movie *?",
        ),
        ("which movie did * write", 2, "Which movies did * write?"),
        ("what are the primary languages in the films directed by *", 2, None),
        ("the scriptwriter of * also wrote movies", 2, None),
        ("what is a film written by *", 3, None),
    ],
)
def test_wordings_are_mended_or_left_out(wording: str, n_answers: int, question: str | None) -> None:
    assert repair_wording(wording, n_answers) == question


def test_who_wrote_the_films_of_someone_who_wrote_too_is_not_asked(tmp_path: Path) -> None:
    wording = "who wrote the movies directed by *"
    rows = [
        asked("director_to_movie_to_writer", n, wording, f"Director {n}", [f"Writer {n} {film}" for film in range(3)])
        for n in range(PEOPLE)
    ]
    both = [*graph(), ("Film 0 a", "written by", "Director 0")]
    topics = [
        {instance.topics[0] for instance in make_instances(write(tmp_path / name, triples, rows)).instances}
        for name, triples in (("one", graph()), ("both", both))
    ]
    assert "Director 0" in topics[0] and topics[1] == topics[0] - {"Director 0"}
