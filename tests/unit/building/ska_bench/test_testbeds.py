"""What holds of every built dataset, on the archipelago; and what each part of the machinery does, by hand."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.benchmarks.ska_bench.testbeds import bucket, configs
from kbbench_hf.benchmarks.ska_bench.units import Instance, InstanceSet, Origin, UnitPool
from kbbench_hf.building.ska_bench.emptied_rows import add_emptied_rows, empty_columns
from kbbench_hf.building.ska_bench.noise import NoiseLibrary
from kbbench_hf.building.ska_bench.rejection_twins import TwinMaker
from kbbench_hf.building.ska_bench.sources import assign_demo
from kbbench_hf.building.ska_bench.testbeds import RowMaker, UnitOrder, build_testbeds, draw_ranks
from kbbench_hf.building.ska_bench.unit_orders import measure
from kbbench_hf.files.datasets import DatasetFolder
from tests.unit.benchmarks.ska_bench import archipelago
from tests.unit.benchmarks.ska_bench.invariants import kolmogorov, violations


def test_nothing_is_wrong_with_the_shipped_dataset() -> None:
    assert violations(shipped_dataset("mini-ska"), small=True) == []


def without_first_unit(row: dict) -> dict:
    return row | {"sk_units": row["sk_units"][1:]}


@pytest.mark.parametrize(
    ("config", "change", "words"),
    [
        ("noise_kg_4k", lambda row: row | {"sk_units": sorted(row["sk_units"])[:3]}, "not 1 times"),
        ("noise_kg_1k", lambda row: row | {"kb_tokens": row["kb_tokens"] - 1}, "kb_tokens is not the count"),
        ("order_kg_prefix", lambda row: row | {"sk_units": row["sk_units"][::-1]}, "not at their depth"),
        ("noise_table_4k", lambda row: row | {"sk_units": row["sk_units"][::-1]}, "not in its order"),
        ("rejection_kg", lambda row: row | {"removed": []}, "not 1 times"),
        ("hardness_kg_text_hard", lambda row: row | {"kb_tokens": row["kb_tokens"] - 40}, "differ in length"),
        ("order_table_suffix", without_first_unit, "other units than the noise config"),
    ],
)
def test_a_broken_dataset_is_found_out(config: str, change, words: str, tmp_path: Path) -> None:
    broken = tmp_path / "mini-ska"
    shutil.copytree(shipped_dataset("mini-ska").path, broken)
    file = broken / "data" / config / "test.parquet"
    table = pq.read_table(file)
    pq.write_table(pa.Table.from_pylist([change(row) for row in table.to_pylist()], table.schema), file)
    assert any(words in each for each in violations(DatasetFolder(broken), small=True))


def test_a_budget_without_test_rows_is_filled_to_nothing_and_has_no_equal_contexts() -> None:
    made = archipelago.release()
    demo = [replace(each, split="demo") for each in made.instances if each.subset == "kg"]
    built = build_testbeds(demo, made.pools, ["noise_kg_1k", "noise_kg_4k"])
    assert {name: tuple(each) for name, each in built.budgets.items()} == {
        "noise_kg_1k": (0, 0.0, 0.0), "noise_kg_4k": (0, 0.0, 0.0)
    }  # fmt: skip
    assert not built.tables


def test_ranks_are_uniform_and_distinct() -> None:
    draws = np.random.default_rng(7).integers(0, 2**64, 4000, dtype=np.uint64).tolist()
    ranks = [draw_ranks(draws[n : n + 4], 46) for n in range(0, 4000, 4)]
    assert all(len(set(each.tolist())) == 4 for each in ranks)
    assert kolmogorov([(rank + 0.5) / 50 for each in ranks for rank in each.tolist()]) < 0.04


ROWS = [("Ann", "Oslo", "12"), ("Bo", "Lund", "7"), ("Cy", "Oslo", "9"), ("Di", "Rome", "4"), ("Ed", "Lund", "3")]
NEAR = [("Ann", "Lund", "12"), ("Bo", "Rome", "7"), ("Ann", "Rome", "12"), ("Di", "Lund", "4")]
TABLE = UnitPool(sk={"t": ROWS, "t#near": NEAR}, headers={"t": ("Name", "City", "Age")})
LOOKUP = Instance(
    "q",
    "table",
    "How old is the Ann of Oslo?",
    ("12",),
    "t",
    positive_sk=(0,),
    noise_groups=("t#near",),
    program={"type": "lookup", "where": [[0, "ann"], [1, "oslo"]], "select": 2},
)


def test_a_row_that_a_twin_lost_stands_there_without_the_cell_that_the_answer_is_read_from() -> None:
    release = add_emptied_rows(InstanceSet([LOOKUP], {"table": TABLE}))
    [asked], pool = release.instances, release.pools["table"]
    candidates = NoiseLibrary(pool).context_units(asked)
    cells = pool.structured(asked)
    assert not any("" in cells[n] for n in candidates.noise.numbers.tolist())
    found = TwinMaker(asked, pool, candidates, candidates.noise).make_twins()
    assert found is not None
    [(lost, stand_in)], [(other, its_stand_in)] = (each.removed.items() for each in found)
    assert lost == (False, 0) and cells[stand_in[1]] == ("Ann", "Oslo", "")
    assert cells[other[1]] in ROWS[1:] and cells[its_stand_in[1]] == (*cells[other[1]][:2], "")
    assert found[0].names == ["sk:0"] and not found[0].answerable and found[1].answerable


@pytest.mark.parametrize(
    ("question", "term", "n_lost"),
    [
        ("Which has the size 42?", "Oslo fjord", 1),
        ("Which has the size 42?", "perfect fifth", 0),  # a common noun, which its row gives away by what it means
        ("What number has the size 42?", "7.9", 1),
        ("What percentage has the size 42?", "7.9", 0),  # a reader divides other cells
    ],
)
def test_what_follows_from_the_meaning_of_other_cells_has_no_twins(question: str, term: str, n_lost: int) -> None:
    rows = [(term, "42", "3:2"), ("third", "14", "6:5"), ("prime", "9", "1:1")]
    program = {"type": "lookup", "where": [[1, "42"]], "select": 0}
    kind = "number" if term == "7.9" else "entity"
    asked = replace(LOOKUP, question=question, answers=(term,), answer_type=kind, noise_groups=(), program=program)
    pool = UnitPool(sk={"t": rows}, headers={"t": ("Name", "Size", "Ratio")})
    release = add_emptied_rows(InstanceSet([asked], {"table": pool}))
    [asked], pool = release.instances, release.pools["table"]
    candidates = NoiseLibrary(pool).context_units(asked)
    assert len(TwinMaker(asked, pool, candidates, candidates.noise).find_cut()) == n_lost


TERMS = [("1", "Ann", "May 1, 1861", "June 7, 1861", "Oslo"), ("2", "Bo", "June 9, 1861", "July 2, 1870", "Lund")]
TERMS += [("3", "Cy", "July 9, 1870", "May 5, 1881", "Oslo"), ("4", "Di", "May 8, 1881", "June 6, 1890", "Rome")]


@pytest.mark.parametrize(
    ("row", "made", "is_shown"),
    [
        (("9", "Ed", "May 1, 1861", "June 7, 1861", "Oslo"), True, False),  # a copy of its row
        (("8", "Ann", "May 4, 1899", "May 9, 1899", "Lund"), True, False),
        (("8", "Ed", "May 4, 1899", "May 9, 1899", "Lund"), True, True),
        (("9", "Ed", "June 7, 1861", "May 9, 1899", "of Ann"), False, False),  # beside a rare cell of its row
        (("9", "Ed", "May 4, 1899", "May 9, 1899", "of Ann"), False, True),
    ],
)
def test_neither_twin_shows_a_row_that_tells_an_emptied_cell(row: tuple, made: bool, is_shown: bool) -> None:
    program = {"type": "lookup", "where": [[0, "1"], [4, "oslo"]], "select": 1}
    asked = replace(LOOKUP, answers=("Ann",), program=program, noise_groups=("more",))
    sk = {"t": TERMS, "more": [row, ("6", "Gil", "May 2, 1905", "June 8, 1907", "Bern")]}
    pool = UnitPool(sk=sk, headers={"t": tuple("#NTLC")}, origins={"more": Origin("", "", made=made)})
    release = add_emptied_rows(InstanceSet([asked], {"table": pool}))
    maker = RowMaker(release.instances[0], NoiseLibrary(release.pools["table"]))
    lost, kept = maker.rows(configs()["rejection_control_table"])
    assert lost["removed"] == ["sk:0"] and len(lost["sk_units"]) == len(kept["sk_units"])
    assert [len(TERMS) in twin["sk_units"] for twin in (lost, kept)] == [is_shown] * 2


@pytest.mark.parametrize(("test", "n_lost"), [([1, ">=", "5"], 0), ([1, "9"], 1)])
def test_a_lookup_that_compares_numbers_has_no_twins(test: list, n_lost: int) -> None:
    rows = [("Peru", "9", "4"), ("Chad", "0", "7"), ("Mali", "2", "8")]
    program = {"type": "lookup", "where": [test], "select": 0}
    asked = replace(LOOKUP, question="Which has wins?", answers=("Peru",), noise_groups=(), program=program)
    pool = UnitPool(sk={"t": rows}, headers={"t": ("Name", "Wins", "Losses")})
    release = add_emptied_rows(InstanceSet([asked], {"table": pool}))
    [asked], pool = release.instances, release.pools["table"]
    candidates = NoiseLibrary(pool).context_units(asked)
    assert len(TwinMaker(asked, pool, candidates, candidates.noise).find_cut()) == n_lost


@pytest.mark.parametrize(("city", "n_own", "n_shown"), [("Oslo", 6, 7), ("of 12 men", 6, None), ("of 12 men", 5, 6)])
def test_rows_that_look_like_the_evidence_are_left_out_or_forbid_twins(city: str, n_own: int, n_shown: int) -> None:
    rows = [*ROWS, ("Flo", city, "20"), ("Gil", "Bern", "21")]
    asked = replace(LOOKUP, answers=("Ann",), program={"type": "lookup", "where": [[2, "12"]], "select": 0})
    pool = UnitPool(sk={"t": rows[:n_own], "t#near": rows[n_own:]}, headers=TABLE.headers)
    release = add_emptied_rows(InstanceSet([asked], {"table": pool}))
    maker = RowMaker(release.instances[0], NoiseLibrary(release.pools["table"]))
    found = [len(row["sk_units"]) for row in maker.rows(configs()["rejection_table"])]
    assert found == ([] if n_shown is None else [n_shown])


@pytest.mark.parametrize(
    ("title", "more", "shown"),
    [
        ("Up", ("Up", "has tags", "bell"), [1, 2]),
        ("Up", ("Up", "has genre", "Drama"), [1, 2, 3]),
        ("Up with Ann Bell", ("Up", "has genre", "Drama"), None),
    ],
)
def test_no_tag_or_title_names_what_a_triple_named(title: str, more: tuple, shown: list | None) -> None:
    films = [(title, "starred actors", "Ann Bell"), ("Oz", "starred actors", "Cy"), ("Oz", "has tags", "r"), more]
    program = {"type": "match", "find": "?a", "where": [[title, "starred actors", "?a"]]}
    asked = Instance("q", "kg", "Who starred?", ("Ann Bell",), "g", positive_sk=(0,), program=program)
    rows = RowMaker(asked, NoiseLibrary(UnitPool(sk={"g": films}))).rows(configs()["rejection_kg"])
    assert [sorted(row["sk_units"]) for row in rows] == ([] if shown is None else [shown])


@pytest.mark.parametrize(("relation", "shown"), [("has genre", [1, 2, 4]), ("directed by", [1, 2, 3, 4])])
def test_no_tag_of_a_film_tells_its_genre(relation: str, shown: list[int]) -> None:
    films = [("Up", relation, "War"), ("Oz", relation, "Cy"), ("Ax", "has tags", "r")]
    films += [("Up", "has tags", "baseball"), ("Up", "release year", "1999")]
    program = {"type": "match", "find": "?a", "where": [["Up", relation, "?a"]]}
    asked = Instance("q", "kg", "What is it?", ("War",), "g", positive_sk=(0,), program=program)
    [row] = RowMaker(asked, NoiseLibrary(UnitPool(sk={"g": films}))).rows(configs()["rejection_kg"])
    assert sorted(row["sk_units"]) == shown


def test_totals_have_no_twins_because_they_have_another_answer_instead_of_none() -> None:
    total = replace(LOOKUP, program={"type": "count", "where": [[1, "oslo"]]}, positive_sk=(0, 2), answers=("2",))
    candidates = NoiseLibrary(TABLE).context_units(total)
    assert TwinMaker(total, TABLE, candidates, candidates.noise).find_cut() == []


LINKED = UnitPool(
    sk={"t": ROWS},
    text=[("Ann", "She bakes bread in the harbour."), ("Bo", "He bakes cakes in the harbour."), ("Cy", "A tailor.")],
    headers={"t": ("Name", "City", "Age")},
)
BAKES = Instance(
    "b", "table_text", "What does who is 12 bake in the harbour?", ("bread",), "t", positive_sk=(0,), positive_text=(0,)
)


@pytest.mark.parametrize(
    ("question", "cut"),
    [
        ("What does who is 12 bake in the harbour?", (True, 0)),  # another passage has these words
        ("What does she bake who is 12?", (False, 0)),  # none has "she": the absence would show
    ],
)
def test_a_passage_goes_only_if_another_one_is_as_close_to_the_question(question: str, cut: tuple[bool, int]) -> None:
    [asked], pool = empty_columns({"b": (0,)}, [replace(BAKES, question=question)], LINKED)
    candidates = NoiseLibrary(pool).context_units(asked)
    assert TwinMaker(asked, pool, candidates, candidates.noise, revision=1).find_cut() == [cut]


ISLE_TEXT = ("Up", "Up is a film that Ann made. It is set on Hook Island.")
LISTED = [("Up", "listed in", "Films of Ann"), ("Up", "year", "1999"), ("Big", "listed in", "Films of Ann")]
SET_ON = Instance(
    "s",
    "kg_text",
    "On what is the film of 1999 set?",
    ("Hook Island",),
    "g",
    positive_sk=(0, 1),
    positive_text=(0,),
    topics=("Films of Ann",),
)


WESLEYAN = {"question": "What is its creed?", "answers": ("Methodist",), "positive_text": (1,)}


@pytest.mark.parametrize(
    ("what", "triples", "texts", "change", "cut"),
    [
        ("the text that states it, and no triple", (), (), {}, [0]),
        ("a text that has its words, wherever they are", (), (("Rocks", "An island, a hook."),), {}, [0, 1]),
        ("not a text with one of its words", (), (("Rocks", "Islands have some."),), {}, [0]),
        ("a text that names what is asked about", (), (("Films", "Up is one."),), {}, [0, 1]),
        ("nothing, if a triple states it", (("Oz", "place", "Hook Island"),), (), {}, []),
        (
            "nothing, if a needed text without a title states it",
            (),
            (("", "On Hook Island."),),
            {"positive_text": (1,)},
            [],
        ),
        ("nothing, if too many texts state it", (), [(str(n), "Hook Island.") for n in range(8)], {}, []),
        ("nothing, if the question begins a word of it", (), (), {"question": "Where off Islandia is it?"}, []),
        ("nothing, if a place is asked for", (), (), {"question": "Where is it?"}, []),
        (
            "nothing, if the area is asked for where it is located",
            (),
            (),
            {"question": "The area where it is located?"},
            [],
        ),
        ("nothing, if it is of which state", (), (), {"question": "He is a native of which state?"}, []),
        (
            "nothing, if a needed text that stays has a word of it",
            (),
            (("Oz", "Islands."),),
            {"positive_text": (0, 1)},
            [],
        ),
        (
            "nothing, if a long title describes what is asked about",
            (),
            (("Texas Wesleyan University", "It is Methodist."),),
            WESLEYAN,
            [],
        ),
        (
            "a text with a long title, if a person is asked for",
            (),
            (("Texas Wesleyan University", "It is led by Bo Moe."),),
            {"question": "Who leads it?", "answers": ("Bo Moe",), "positive_text": (1,)},
            [1],
        ),
        (
            "nothing, if a needed triple has a number and one is asked for",
            (),
            (("Up", "It was their fifth trophy."),),
            {"answers": ("5",), "answer_type": "number", "positive_text": (1,)},
            [],
        ),
        (
            "a text with the ordinal of a number",
            (),
            (("Oz", "It was their fifth trophy."),),
            {"answers": ("5",), "answer_type": "number", "positive_sk": (0,), "positive_text": (1,)},
            [1],
        ),
        (
            "nothing, if another text has the quantity that is asked about",
            (),
            (("Rocks", "Rainwater is worth $3 billion."),),
            {"question": "What is it, worth $3.0 billion?"},
            [],
        ),
        (
            "the text that states it, if another has the number of another unit, or the year",
            (),
            (("Rocks", "Rainwater paid $3 million in 2001 films."),),
            {"question": "What is it, worth $3.0 billion in 2001 films?"},
            [0],
        ),
        (
            "a text about a person of the same last name",
            (),
            (("Bo Moe", "Bo Moe (born 1950) is on Hook Island."), ("Al Moe", "Al Moe, born 1951.")),
            {"positive_text": (1,)},
            [0, 1, 2],
        ),
        (
            "not a text about a person of another last name",
            (),
            (("Bo Moe", "Bo Moe (born 1950) is on Hook Island."), ("Al Roe", "Al Roe, born 1951.")),
            {"positive_text": (1,)},
            [0, 1],
        ),
        (
            "what names it with initials that have no dots there",
            (),
            (("C.S.D. Moe", "It is on Hook Island."), ("Oz", "CSD Moe plays there.")),
            {"positive_text": (1,)},
            [0, 1, 2],
        ),
    ],
)
def test_a_twin_loses_every_text_on_the_answer(
    what: str, triples: tuple, texts: tuple, change: dict, cut: list
) -> None:
    pool = UnitPool(sk={"g": [*LISTED, *triples]}, text=[ISLE_TEXT, *texts])
    asked = replace(SET_ON, **change)
    candidates = NoiseLibrary(pool).context_units(asked)
    found = TwinMaker(asked, pool, candidates, candidates.noise).find_cut()
    assert found == [(True, n) for n in cut], what


def test_no_cell_is_emptied_whose_value_follows_from_others() -> None:
    medals = [("Ann", "2", "5", "7"), ("Bo", "4", "1", "5"), ("Cy", "3", "6", "9"), ("Di", "8", "2", "10")]
    program = {"type": "lookup", "where": [[0, "bo"]], "select": 3}
    asked = replace(LOOKUP, question="What has Bo?", answers=("5",), positive_sk=(1,), noise_groups=(), program=program)
    for column, has_twins in ((3, False), (1, False)):
        asked = replace(asked, program=program | {"select": column})
        pool = UnitPool(sk={"t": medals}, headers={"t": ("Name", "Won", "Lost", "Played")})
        release = add_emptied_rows(InstanceSet([asked], {"table": pool}))
        candidates = NoiseLibrary(release.pools["table"]).context_units(release.instances[0])
        for revision in (1, 2):
            maker = TwinMaker(release.instances[0], release.pools["table"], candidates, candidates.noise, revision)
            assert bool(maker.find_cut()) is (revision == 1 or has_twins)


def test_of_two_cuts_that_is_taken_which_leaves_no_other_triple_between_its_ends() -> None:
    film = [("Up", "written by", "Ann"), ("Up", "directed by", "Ann"), ("Oz", "written by", "Ann")]
    pool = UnitPool(sk={"g": film})
    where = [["Up", "written by", "?w"], ["?f", "written by", "?w"]]
    program = {"type": "match", "find": "?f", "where": where}
    asked = Instance(
        "q", "kg", "Which films share the writer of Up?", ("Oz",), "g", positive_sk=(0, 2), program=program
    )
    candidates = NoiseLibrary(pool).context_units(asked)
    assert TwinMaker(asked, pool, candidates, candidates.noise).find_cut() == [(False, 2)]
    assert TwinMaker(asked, pool, candidates, candidates.noise, revision=1).find_cut() == [(False, 2)]


def test_the_papers_rejection_testbed_has_noise_alone_and_none_that_states_the_answer() -> None:
    config = configs()["rejection_noise_kg_text"]
    pool = UnitPool(sk={"g": [*LISTED, ("Up", "place", "Hook Island")]}, text=[ISLE_TEXT, ("Cy", "Cy is a tailor.")])
    [row] = RowMaker(SET_ON, NoiseLibrary(pool)).rows(config)
    assert row["sk_units"].tolist() == [2] and row["text_units"].tolist() == [1] and not row["answerable"]
    assert (row["id"], row["testbed"], row["status"], row["removed"]) == ("s", "rejection_noise", "short", [])


def test_a_question_that_little_else_is_said_about_has_no_twins() -> None:
    others = [(f"Cy {n}", "met", f"Di {n}") for n in range(4000)]
    pool = UnitPool(sk={"g": [("Ann", "made", "Up"), ("Ann", "met", "Bo"), *others]})
    program = {"type": "match", "find": "?f", "where": [["Ann", "made", "?f"]]}
    asked = Instance("q", "kg", "What did Ann make?", ("Up",), "g", positive_sk=(0,), topics=("Ann",), program=program)
    candidates = NoiseLibrary(pool).context_units(asked)
    assert TwinMaker(asked, pool, candidates, candidates.noise[:50]).make_twins() is None


def test_a_cut_is_the_thinnest_layer_of_a_path() -> None:
    film = [("Ann", "made", "Up"), ("Up", "stars", "Bo"), ("Up", "stars", "Cy"), ("Up", "stars", "Di")]
    pool = UnitPool(sk={"g": film})
    where = [["Ann", "made", "?f"], ["?f", "stars", "?s"]]
    asked = Instance(
        "q",
        "kg",
        "Who starred in what Ann made?",
        ("Bo", "Cy", "Di"),
        "g",
        positive_sk=(0, 1, 2, 3),
        topics=("Ann",),
        program={"type": "match", "find": "?s", "where": where},
    )
    candidates = NoiseLibrary(pool).context_units(asked)
    assert TwinMaker(asked, pool, candidates, candidates.noise).find_cut() == [(False, 0)]


def test_positives_and_noise_in_different_sections_are_placed_at_all() -> None:
    config = configs()["order_table_text_random"]
    instance = Instance("q", "table_text", "?", ("x",), "t", positive_text=(0,), own_text=(0,))
    text = measure(["the one passage"], in_text=True)
    rows = measure(["|a|", "|b|"], in_text=False)
    sk, passages = UnitOrder(instance, 2).sections(text, rows, config)
    assert sorted(sk.numbers.tolist()) == [0, 1] and passages.numbers.tolist() == [0]


def test_hops_of_noise_and_of_a_second_reading_agree() -> None:
    from tests.unit.benchmarks.ska_bench.invariants import breadth_first_hops

    pool = archipelago.release().pools["kg"]
    instance = archipelago.release().instances[0]
    found = NoiseLibrary(pool).graph("isles").hops(instance.topics)
    assert found.tolist() == breadth_first_hops(pool.sk["isles"], instance.topics)


def test_a_config_is_the_same_whether_built_alone_or_with_larger_ones() -> None:
    small, large = (configs()[f"noise_kg_{size}"] for size in ("1k", "4k"))
    release = archipelago.release()
    library = NoiseLibrary(release.pools["kg"])
    for instance in release.instances[:4]:
        [row] = RowMaker(instance, library).rows(small)
        both = RowMaker(instance, library)
        assert both.rows(large)
        [same] = both.rows(small)
        assert row["context_sha256"] == same["context_sha256"]


def test_demonstrations_take_whole_topics_and_leave_those_that_wait_for_review() -> None:
    asked = [Instance(f"q{n}", "table", "?", ("x",), "t", split_key=f"t{n // 3}") for n in range(30)]
    asked[0] = replace(asked[0], split="unreviewed")
    split = assign_demo(asked, size=8)
    demo = {each.split_key for each in split if each.split == "demo"}
    assert sum(each.split == "demo" for each in split) == 6  # two topics of three; a third one would be nine
    assert not demo & {each.split_key for each in split if each.split != "demo"} and "t0" not in demo


def test_integration_sorts_by_the_number_of_units() -> None:
    assert [bucket(n) for n in (1, 2, 4, 5, 12)] == ["1", "2", "4", ">4", ">4"]
