"""The private split on a small graph and a small table: no name remains, programs keep their form and their gold."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kbbench_hf.benchmarks.ska_bench.units import Instance, InstanceSet, UnitPool
from kbbench_hf.building.ska_bench import dataset
from kbbench_hf.building.ska_bench.dataset import build_private
from kbbench_hf.building.ska_bench.private import (
    WORD,
    invent_words,
    move_years,
    rename_instances,
    word_key,
    years_later,
)
from kbbench_hf.building.ska_bench.programs import execute
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder

SEED = "nobody knows"
FILMS = [
    ("The Night of Iguazu", "directed by", "Ulla Brandt"),
    ("Amélie", "directed by", "Ulla Brandt"),
    ("Amelie", "directed by", "J. R. Olsen"),
    ("Amélie", "release year", "1999"),
    ("2012", "release year", "2012"),
    ("The Other", "has genre", "Drama"),
    ("Amelie", "has tags", "ulla brandt"),
    ("Amelie", "has tags", "about Ulla Brandt and her dog"),
]
HEADER = ("Year", "Club", "City", "Result", "Gate")
ROWS = [
    ("1999", "Crystal Palace", "London, England", "Won", "1,999"),
    ("2000–01", "Barcelona", "Barcelona", "Lost", "2,001"),
    ("2002", "Real Madrid", "Madrid", "Won", "1,850"),
    ("2003", "Rapid", "Wien", "Won", "900"),
]


def film(question: str, where: list[list[str]], answers: tuple[str, ...], topic: str) -> Instance:
    program = {"type": "match", "find": "?1", "where": where}
    return Instance(question, "kg", question, answers, "g", topics=(topic,), split_key=topic, program=program)


def club(question: str, program: dict[str, object], *answers: str) -> Instance:
    return Instance(question, "table", question, answers, "t", noise_groups=("t#near",), program=program)


@pytest.fixture(scope="module")
def release() -> InstanceSet:
    kg = [
        film("who directed Amélie", [["Amélie", "directed by", "?1"]], ("Ulla Brandt",), "Amélie"),
        film("what other film is by Ulla Brandt", [["?1", "directed by", "Ulla Brandt"]],
             ("Amélie", "The Night of Iguazu"), "Ulla Brandt"),
        film("what is the genre of The Other", [["The Other", "has genre", "?1"]], ("Drama",), "The Other"),
    ]  # fmt: skip
    table = [
        club("how often did real madrid win?", {"type": "count", "where": [[1, "real madrid"], [3, "won"]]}, "1"),
        club("when did crystal palace play?", {"type": "lookup", "where": [[1, "crystal palace"]], "select": 0},
             "1999"),
        club("who played in 2000-01?", {"type": "lookup", "where": [[0, "2000-01"]], "select": 1}, "Barcelona"),
        club("who won in the 1990s?", {"type": "lookup", "where": [[0, "<", "2000"]], "select": 1}, "Crystal Palace"),
        club("how many english clubs are there?", {"type": "count", "where": [[2, "contains", "england"]]}, "1"),
    ]  # fmt: skip
    near = [("2002", "Barcelona", "Madrid", "Lost", "900")]
    pools = {
        "kg": UnitPool({"g": FILMS}),
        "table": UnitPool({"t": ROWS, "t#near": near}, headers={"t": HEADER, "t#near": HEADER}),
    }
    return InstanceSet([*kg, *table], {**pools, "kg_text": UnitPool()})


def masked(program: object) -> object:
    """Return a program without its words and numbers: its form."""
    if isinstance(program, dict):
        return {key: value if key in ("type", "select", "find") else masked(value) for key, value in program.items()}
    return [masked(each) for each in program] if isinstance(program, list) else type(program)


def test_films_and_people_are_renamed_wherever_they_stand(release: InstanceSet) -> None:
    made, left_out = rename_instances(release, SEED)
    texts = [cell for triple in made.pools["kg"].sk["g"] for cell in triple]
    texts += [
        text for i in made.instances if i.subset == "kg" for text in (i.question, *i.answers, *i.topics, i.split_key)
    ]
    for name in ("Ulla", "Brandt", "Iguazu", "Amélie", "Amelie", "Olsen"):
        assert not [text for text in texts if re.search(rf"\b{name}\b", text, re.I)], name
    kept = {text for text in texts if text in ("Drama", "directed by", "has genre")}
    assert len(kept) == 3 and set(made.pools) == {"kg", "table"}
    assert len({head for head, _, _ in made.pools["kg"].sk["g"]}) == len({head for head, _, _ in FILMS})
    tag = made.pools["kg"].sk["g"][-1][2]
    assert (
        tag.startswith("about ")
        and tag.endswith(" and her dog")
        and not left_out.keys() & {i.id for i in made.instances}
    )


def test_questions_keep_their_wording_and_programs_their_form_and_gold(release: InstanceSet) -> None:
    made, _ = rename_instances(release, SEED)
    before = {instance.id: instance for instance in release.instances}
    for instance in made.instances:
        assert masked(instance.program) == masked(before[instance.id].program)
        pool = made.pools[instance.subset]
        assert set(execute(instance.program or {}, pool.structured(instance))) == set(instance.answers)
    questions = {i.id: i.question for i in made.instances}
    assert questions["what other film is by Ulla Brandt"].startswith("what other film is by ")
    assert re.fullmatch(r"how often did real \w+ win\?", questions["how often did real madrid win?"])


def test_years_move_by_one_constant_and_amounts_stay(release: InstanceSet) -> None:
    made, _ = rename_instances(release, SEED)
    years = years_later(SEED)
    rows = made.pools["table"].sk["t"]
    assert [row[0] for row in rows] == [
        str(1999 + years),
        f"{2000 + years}–{1 + years:02d}",
        *map(str, (2002 + years, 2003 + years)),
    ]
    assert [row[4] for row in rows] == [row[4] for row in ROWS] and [row[3] for row in rows] == [row[3] for row in ROWS]
    by_id = {instance.id: instance for instance in made.instances}
    assert by_id["when did crystal palace play?"].answers == (str(1999 + years),)
    assert f"{2000 + years}-{1 + years:02d}" in by_id["who played in 2000-01?"].question
    assert 3 <= years <= 9


def test_years_and_names_of_small_words_alone_are_renamed_in_questions() -> None:
    films = [*FILMS, ("To the", "directed by", "Ulla Brandt")]
    asked = [
        film("which films are of 1999", [["?1", "release year", "1999"]], ("Amélie",), "1999"),
        film("who directed To the", [["To the", "directed by", "?1"]], ("Ulla Brandt",), "To the"),
    ]
    made, _ = rename_instances(InstanceSet(asked, {"kg": UnitPool({"g": films})}), SEED)
    of_year, of_film = (instance.question for instance in made.instances)
    assert of_year == f"which films are of {1999 + years_later(SEED)}"
    assert re.fullmatch(r"who directed (?!To )\w+ (?!the)\w+", of_film)


def test_of_words_that_no_list_knows_those_with_a_capital_are_names(release: InstanceSet) -> None:
    program = {"type": "lookup", "where": [[1, "crystal palace"]], "select": 0}
    asked = [club("Did Haemerlinck quozzle at Crystal Palace?", program, "1999")]
    made, _ = rename_instances(InstanceSet(asked, {"table": release.pools["table"]}), SEED)
    assert re.fullmatch(r"Did (?!Haem)[A-Z]\w+ quozzle at (?!Crystal)\w+ (?!Palace)\w+\?", made.instances[0].question)


def test_a_name_of_ordinary_words_among_names_is_renamed_as_a_whole(release: InstanceSet) -> None:
    made, _ = rename_instances(release, SEED)
    by_id = {instance.id: instance for instance in made.instances}
    assert "palace" not in by_id["when did crystal palace play?"].question
    assert not {"Crystal", "Palace"} & {word for row in made.pools["table"].sk["t"] for word in WORD.findall(row[1])}


def test_what_cannot_be_renamed_faithfully_is_left_out_and_said(release: InstanceSet) -> None:
    _, left_out = rename_instances(release, SEED)
    assert left_out["who won in the 1990s?"].startswith("its question names a decade")
    assert left_out["how many english clubs are there?"].endswith("in another form than the cells")
    assert len(left_out) == 2


def test_another_seed_makes_another_split_and_the_same_one_the_same(release: InstanceSet) -> None:
    assert rename_instances(release, SEED) == rename_instances(release, SEED)
    shuffled = InstanceSet(list(reversed(release.instances)), release.pools)
    assert {i.id: i for i in rename_instances(shuffled, SEED)[0].instances} == {
        i.id: i for i in rename_instances(release, SEED)[0].instances
    }
    names = [{i.id: i.question for i in rename_instances(release, seed)[0].instances} for seed in (SEED, "another")]
    assert all(names[0][each] != names[1][each] for each in ("who directed Amélie", "when did crystal palace play?"))


def test_invented_words_are_a_bijection_without_the_old_initials() -> None:
    words = [f"{a}{b}{c}son" for a in "abcdefgh" for b in "aeiou" for c in "lmnrst"]
    made = invent_words(words, SEED, avoid=set(words))
    assert len(set(made.values())) == len(words) and not set(made.values()) & set(words)
    assert all(new[0] != word[0] and new == word_key(new) for word, new in made.items())


def test_short_words_that_are_invented_twice_are_told_apart_in_the_order_of_the_alphabet() -> None:
    words = [f"{a}{b}{c}{d}" for a in "bcdfghlmnprst" for b in "aeiou" for c in "lmnrst" for d in "aeiou"]
    made = invent_words(words, SEED, avoid=())
    apart = {word: invent_words([word], SEED, avoid=())[word] for word in words}
    taken: set[str] = set()
    for word in sorted(words):
        assert (made[word] == apart[word]) == (apart[word] not in taken), word
        taken.add(made[word])
    assert len(taken) == len(words) > len(set(apart.values()))


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("1999", "2003"), ("May 1, 1999", "May 1, 2003"), ("1999/00", "2003/04"), ("1999-2000", "2003-2004"),
        ("2005-06-12", "2009-06-12"), ("1,999", "1,999"), ("$2000", "$2000"), ("2000.5", "2000.5"), ("12000", "12000"),
        ("in 2003.", "in 2007."), ("1850%", "1850%"),
    ],
)  # fmt: skip
def test_what_is_a_year_moves(text: str, moved: str) -> None:
    assert move_years(text, 4) == moved


def test_the_card_of_a_private_split_counts_what_was_left_out_and_no_file_has_the_seed(
    release: InstanceSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven = release._replace(instances=[replace(each, positive_sk=(0,)) for each in release.instances])
    monkeypatch.setattr(dataset, "make_instances", lambda folder, subsets, revision: proven)
    build_private(tmp_path, tmp_path / "out", ["noise_table_1k"], SEED)
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "- 1 instances: its question names a decade, a century or a cut-off year\n" in card
    assert "- 1 instances: its question names a condition in another form than the cells\n" in card
    assert len(DatasetFolder(tmp_path / "out").rows("instances_table", "test")) == 3
    assert not any(SEED.encode() in file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())


def test_hybrid_configs_and_an_empty_seed_are_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match="hybrid subset"):
        build_private(tmp_path, tmp_path / "out", ["noise_kg_text_4k"], SEED)
    with pytest.raises(UsageError, match="seed is empty"):
        build_private(tmp_path, tmp_path / "out", None, " ")
