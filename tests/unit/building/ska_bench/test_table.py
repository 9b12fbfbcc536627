"""The subset `table` from small made-up sources in the layout of the raw files."""

import gzip
import json
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kbbench_hf.benchmarks.ska_bench.units import Instance, InstanceSet, UnitPool
from kbbench_hf.building.ska_bench import programs, table, tatqa, wikitablequestions
from kbbench_hf.building.ska_bench.emptied_rows import add_emptied_rows
from kbbench_hf.building.ska_bench.name_matching import is_found_by_cells
from kbbench_hf.building.ska_bench.noise import (
    NearRowMaker,
    NoiseLibrary,
    contradicts_needed_row,
    key_columns,
    summed_columns,
)
from kbbench_hf.building.ska_bench.program_induction import induce_program
from kbbench_hf.building.ska_bench.programs import execute, leaves_answer, reads
from kbbench_hf.building.ska_bench.rejection_twins import TwinMaker
from kbbench_hf.building.ska_bench.source_files import SourceTable, TableSource
from kbbench_hf.errors import DataError
from tests.endurance.logical_forms import contradicts
from tests.unit.benchmarks.ska_bench.invariants import row_problems

HEADER = ["No", "Date", "Skipper", "Harbour", "Cargo", "Barrels"]
TOWNS, GOODS = ["Oslo", "Lund", "Bergen", "Skagen", "Rostock"], ["Salt", "Herring", "Timber", "Rope"]
SKIPPERS = ["Ann Berg", "Bo Dahl", "Cy Falk", "Di Holm", "Eli Lind", "Fay Moe", "Gus Ness", "Hal Ruud"]


def rows(seed: int, count: int = 40) -> list[list[str]]:
    drawn = random.Random(seed)
    return [
        [
            str(n),
            f"{drawn.choice(['May', 'June', 'July'])} {drawn.randint(1, 28)}, {drawn.randint(1981, 1999)}",
            drawn.choice(SKIPPERS) if n > 7 else SKIPPERS[n],
            drawn.choice(TOWNS),
            drawn.choice(GOODS),
            str(drawn.randint(10, 99)),
        ]
        for n in range(count)
    ]


def write(file: Path, objects: list[dict]) -> None:
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(each) + "\n" for each in objects)


def source(folder: Path, shuffled: int | None = None) -> Path:
    """Write a folder of 20 tables with five questions each, and four finance tables."""
    tables = [{"table": f"t{n}", "header": HEADER, "rows": rows(n)} for n in range(20)]
    questions = []
    for n, each in enumerate(tables):
        cells = each["rows"]
        late = [row for row in cells if int(row[1][-4:]) > 1990]
        asked = {
            f"how many trips were made after {1990}?": [str(len(late))],
            f"how many trips in {cells[0][1][:4].strip().lower()} had cargo of salt?": [
                str(sum(row[4] == "Salt" and row[1].startswith(cells[0][1][:4].strip()) for row in cells))
            ],
            f"how many loads of rope had more than {50 + n} barrels?": [
                str(sum(row[4] == "Rope" and int(row[5]) > 50 + n for row in cells))
            ],
            f"what is the total number of barrels of timber that went to {TOWNS[n % 5].lower()}?": [
                str(sum(int(row[5]) for row in cells if row[4] == "Timber" and row[3] == TOWNS[n % 5]))
            ],
        }
        for place, (question, answers) in enumerate(asked.items()):
            questions.append(
                {"id": f"nt-{n}-{place}", "question": question, "table": each["table"], "answers": answers}
            )
    documents = [
        {
            "table": {
                "uid": f"doc{n}",
                "table": [["", "2019", "2018"]]
                + [
                    [f"{goods} sales of depot {n}{k}", f"$ {10 * n + k + 3},100", f"({k + 5}.5)"]
                    for k, goods in enumerate(GOODS)
                ],
            },
            "questions": [
                {
                    "uid": f"q{n}",
                    "question": f"What are salt sales of depot {n}0 over herring sales of depot {n}1 in 2019?",
                    "answer": round((10 * n + 3.1) / (10 * n + 4.1) * 1, 2),
                    "answer_type": "arithmetic",
                    "derivation": f"{10 * n + 3},100 / {10 * n + 4},100",
                    "mappings": [{"table": [1, 1]}, {"table": [2, 1]}],
                    "scale": "",
                }
            ],
        }
        for n in range(4)
    ]
    if shuffled is not None:
        for each in (tables, questions, documents):
            random.Random(shuffled).shuffle(each)
    folder.mkdir(exist_ok=True)
    write(folder / wikitablequestions.TABLES, tables)
    write(folder / wikitablequestions.QUESTIONS, questions)
    write(folder / tatqa.FILE, documents)
    return folder


@pytest.fixture(scope="module")
def made_before(tmp_path_factory: pytest.TempPathFactory) -> tuple:
    release = table.make_instances(source(tmp_path_factory.mktemp("raw")), revision=1)
    return release.instances, release.pools["table"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple:
    release = table.make_instances(source(tmp_path_factory.mktemp("raw")))
    assert len(release.instances) > 10
    return release.instances, release.pools["table"]


def test_every_program_gives_gold_on_its_positives_and_on_all_it_can_be_asked_on(made: tuple) -> None:
    instances, pool = made
    for each in instances:
        assert not row_problems(each, pool), each.question
        assert each.split_key and each.licence and each.source


def test_near_rows_differ_from_a_real_row_in_one_cell_and_hold_no_answer(made_before: tuple) -> None:
    instances, pool = made_before
    for each in instances:
        donated, near = each.noise_groups
        assert pool.origins[near].made and not pool.origins[donated].made
        real = {tuple(row) for row in (*pool.sk[each.group], *pool.sk[donated])}
        for row in pool.sk[near][:60]:
            assert row not in real and leaves_answer(each.program)(row)
            assert any(sum(a != b for a, b in zip(row, other, strict=True)) == 1 for other in real), row
        assert len(set(pool.sk[near])) == len(pool.sk[near])


def test_no_near_row_contradicts_a_needed_row(made: tuple, made_before: tuple) -> None:
    found = {}
    for name, (instances, pool) in {"now": made, "before": made_before}.items():
        found[name] = sum(
            contradicts_needed_row(row, pool.sk[each.group][number], key_columns(pool.sk[each.group]))
            for each in instances
            for row in pool.sk[each.noise_groups[-1]]
            for number in each.positive_sk
        )
    assert found["now"] == 0 < found["before"]


MEDALS = [("Chad", 3, 1, 2), ("Fiji", 2, 2, 0), ("Guam", 1, 1, 0), ("Mali", 1, 0, 2), ("Oman", 0, 0, 2)]
MEDALS += [("Peru", 0, 1, 0), ("Togo", 0, 0, 1), ("Laos", 1, 0, 0), ("Cuba", 0, 1, 0)]


def test_no_near_row_contradicts_its_own_sum() -> None:
    rows = [(str(n), name, *map(str, won), str(sum(won))) for n, (name, *won) in enumerate(MEDALS, 1)]
    program, asked = {"type": "count", "where": [[5, ">=", "2"]]}, "how many countries won at least 2 medals in togo?"
    made = {keys: NearRowMaker("q", asked, program, rows[:5], rows[5:], keys).make(100) for keys in ((0, 1), None)}
    wrong = {keys: sum(sum(map(int, row[2:5])) != int(row[5]) for row in near) for keys, near in made.items()}
    assert wrong[0, 1] == 0 < wrong[None] and len(made[0, 1]) > 14
    assert any(row[2:] not in {other[2:] for other in rows[:5]} for row in made[0, 1])
    single = [(str(n), f"N{n}", "1", "0", "0", "1") for n in range(20)]  # most nations have one medal
    assert (5, slice(2, 5)) in summed_columns([*rows, *single])


def test_for_every_positive_row_there_are_rows_with_one_condition_cell_changed(made_before: tuple) -> None:
    instances, pool = made_before
    for each in instances:
        columns = {condition[0] for condition in each.program.get("where", ())}
        for number in each.positive_sk if columns else ():
            row = pool.sk[each.group][number]
            alike = [
                other
                for other in pool.sk[each.noise_groups[-1]]
                if [n for n, (a, b) in enumerate(zip(row, other, strict=True)) if a != b][1:] == []
                and next(n for n, (a, b) in enumerate(zip(row, other, strict=True)) if a != b) in columns
            ]
            assert alike, each.question


def test_a_shuffled_source_gives_the_same_release(made: tuple, tmp_path: Path) -> None:
    again = table.make_instances(source(tmp_path / "raw", shuffled=7))
    assert (again.instances, again.pools["table"].to_rows()) == (made[0], made[1].to_rows())


def test_the_quotas_hold(made: tuple) -> None:
    instances, _ = made
    single = sum(len(each.positive_sk) == 1 for each in instances)
    assert single <= 0.15 * len(instances)
    assert sum(each.program["type"] in ("compare", "diff") for each in instances) <= 0.4 * len(instances)


def test_what_breaks_no_quota_in_the_end_is_chosen_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = source(tmp_path / "raw")
    candidates = list(table.make_candidates(wikitablequestions.read_tables(folder)))
    quotas = {f"byte {n}": table.Quota(lambda each, n=n: each.key[n] / 255, 0.4) for n in range(6)}
    monkeypatch.setattr(table, "QUOTAS", quotas)
    monkeypatch.setattr(table, "NEWER_QUOTAS", quotas)
    before, now = (table.select_candidates(candidates, revision) for revision in (1, 2))
    assert len(now) > len(before) > 0 and len({each.question.id for each in now}) == len(now)
    assert all(sum(map(quota.counts, now)) <= quota.share * len(now) for quota in quotas.values())


@pytest.mark.parametrize(("revision", "most"), [(1, 0.585), (2, 0.59)])
def test_the_lengths_of_rows_tell_positives_from_noise_no_better_than_is_allowed(
    revision: int, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def candidate(n: int) -> SimpleNamespace:
        lengths = np.zeros((2, 160))
        lengths[0, 60 if n < 24 else 12], lengths[1, 5:45] = 3, 1
        question = Instance(f"q{n}", "table", f"question {n}", (str(n),), f"t{n}")
        return SimpleNamespace(question=question, key=bytes([n]), fill=1.0, found_by_cells=False, lengths=lengths)

    monkeypatch.setattr(table, "QUOTAS", {})
    monkeypatch.setattr(table, "NEWER_QUOTAS", {})
    given = [candidate(n) for n in range(40)]
    chosen = table.select_candidates(given, revision)  # type: ignore[arg-type]
    cues = [table.length_cue(np.sum([each.lengths for each in some], axis=0)) for some in (given, chosen)]
    assert cues[1] <= most < 0.67 < cues[0]
    left_out = [each.question.id for each in given if each not in chosen]
    assert 5 < len(left_out) < 12 and all(int(name[1:]) < 24 for name in left_out)  # those with long rows


def test_an_absent_or_malformed_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=wikitablequestions.TABLES):
        table.make_instances(tmp_path)
    source(tmp_path)
    write(tmp_path / wikitablequestions.QUESTIONS, [{"id": "nt-1", "question": "?", "table": "no", "answers": ["1"]}])
    with pytest.raises(DataError, match="nt-1 needs 'no'"):
        table.make_instances(tmp_path)
    write(tmp_path / wikitablequestions.TABLES, [{"table": "no", "header": ["A"], "rows": [[1]]}])
    with pytest.raises(DataError, match=r"'rows' is \[\[1\]\]; expected list of list of text"):
        table.make_instances(tmp_path)
    asked = {"question": "?", "answer_type": "arithmetic", "derivation": None, "mappings": [{"table": [1, 1]}]}
    grid = [["", "2019", "2018"], ["Sales", "3", "4"]]
    for document in (
        {"table": {"uid": "x"}, "questions": []},
        {"table": {"uid": "x", "table": grid}, "questions": [asked | {"question": "What are sales in 2019?"}]},
    ):
        source(tmp_path)
        write(tmp_path / tatqa.FILE, [document])
        with pytest.raises(DataError, match="a document is malformed"):
            table.make_instances(tmp_path)


SAMPLE = [
    ["1", "May 3, 1990", "Ann Berg", "Oslo", "Salt", "12"],
    ["2", "June 9, 1991", "Bo Dahl", "Lund", "Rope", "30"],
    ["3", "May 7, 1993", "Cy Falk", "Oslo", "Rope", "45"],
    ["4", "July 1, 1994", "Di Holm", "Oslo", "Salt", "7"],
    ["5", "May 30, 1995", "Eli Lind", "Lund", "Salt", "28"],
]


@pytest.mark.parametrize(
    ("question", "answers", "expected"),
    [
        ("how many trips went to oslo?", ["3"], (0, 2, 3)),
        ("how many trips were there in may?", ["3"], (0, 2, 4)),
        ("how many trips to oslo were made after 1992?", ["2"], (2, 3)),
        ("how many trips had more than 20 barrels?", ["3"], (1, 2, 4)),
        ("how many trips were made between 1990 and 1993?", ["3"], (0, 1, 2)),
        ("what is the difference in barrels between falk and dahl?", ["15"], (1, 2)),
        ("who carried more barrels, ann berg or di holm?", ["Ann Berg"], (0, 3)),
        ("what is the total number of barrels that went to lund?", ["58"], (1, 4)),
        ("how many trips did not go to oslo?", ["2"], None),  # rows by what they are not
        ("who carried the most barrels to oslo?", ["Cy Falk"], None),  # the best row needs all rows
        ("who sailed after bo dahl?", ["Cy Falk"], None),  # so does order
        ("how many trips went to paris?", ["0"], None),  # nothing is named
        ("how many barrels went to lund?", ["2"], None),  # it asks for barrels; that two rows match is chance
    ],
)
def test_programs_are_induced_only_where_all_agree(question: str, answers: list[str], expected: tuple | None) -> None:
    found = induce_program(question, HEADER, SAMPLE, answers)
    assert (found and found.positive_sk) == expected
    if found:
        assert execute(found.program, [SAMPLE[n] for n in found.positive_sk]) == answers


def test_a_question_is_left_out_if_part_of_another_rows_cell_meets_it_too() -> None:
    other = ["6", "May 1, 1996", "Fay Moe", "Oslo Fjord", "Salt", "5"]
    assert induce_program("how many trips went to oslo?", HEADER, [*SAMPLE, other], ["3"]) is None


def test_the_longest_cell_that_a_question_names_is_meant() -> None:
    others = [[str(n), f"May {n}, 1996", "Fay Moe", "Oslo Fjord", "Salt", str(n)] for n in (6, 8)]
    found = induce_program("how many trips went to oslo fjord?", HEADER, [*SAMPLE, *others], ["2"])
    assert found and (found.program["where"], found.positive_sk) == ([[3, "oslo fjord"]], (5, 6))


def test_people_s_logical_forms_prove_programs_wrong() -> None:
    ships = SourceTable(tuple(HEADER), [tuple(row) for row in SAMPLE])
    form = "(count (and (r.harbour c.oslo) (r.barrels (@p.num (> 10)))))"
    assert not contradicts(form, ships, (0, 2)) and contradicts(form, ships, (0, 2, 3))
    assert not contradicts("(!r.skipper (argmax 1 1 (r.harbour c.oslo) @index))", ships, (3,))  # not read


def test_decoys_hold_some_conditions_in_turn() -> None:
    program = {"type": "count", "where": [[3, "oslo"], [4, "rope"]]}
    cells = [tuple(row) for row in rows(1)]
    positives = [row for row in cells if reads(program, row)]
    others = [row for row in cells if not reads(program, row)]
    near = NearRowMaker("q", "how many loads of rope went to oslo?", program, positives, others).make(100)
    assert len(near) == 100 and not any(reads(program, row) for row in near)
    for value in ("Oslo", "Rope"):
        assert sum(value in row for row in near[:12]) >= 2


def test_rows_found_by_words_alone_are_known_as_such() -> None:
    assert is_found_by_cells("how many went to oslo?", [("1", "Oslo")], [("2", "Lund"), ("3", "Bergen")])
    assert not is_found_by_cells("how many went to oslo?", [("1", "Oslo", "")], [("2", "Lund", "Oslo")])


def test_a_finance_question_is_its_calculation_on_labelled_rows(tmp_path: Path) -> None:
    found = tatqa.read_tables(source(tmp_path / "raw")).questions
    assert [each.answers for each in found][:2] == [("0.76",), ("0.93",)]
    assert found[0].program["formula"] == "c0 / c1" and found[0].answer_aliases == (("0.756", "0.7561"),)


def test_a_row_whose_label_the_question_has_whole_would_do_as_well(tmp_path: Path) -> None:
    folder = source(tmp_path / "raw")
    with gzip.open(folder / tatqa.FILE, "rt", encoding="utf-8") as stored:
        documents = [json.loads(line) for line in stored]
    documents[0]["table"]["table"].append(["Depot sale 00, over salt", "4,000", "5,000"])
    write(folder / tatqa.FILE, documents)
    assert len(tatqa.read_tables(folder).questions) == len(documents) - 1


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        ("What is the ratio of salt sales of depot 00 over herring sales of depot 01 in 2019?", True),
        ("What is the ratio of herring sales of depot 01 over salt sales of depot 00 in 2019?", False),
        ("What are salt sales of depot 00 over herring sales of depot 01 in 2018?", False),  # the cells are of 2019
    ],
)
def test_a_calculation_that_the_question_turns_around_is_left_out(question: str, kept: bool, tmp_path: Path) -> None:
    folder = source(tmp_path / "raw")
    with gzip.open(folder / tatqa.FILE, "rt", encoding="utf-8") as stored:
        documents = [json.loads(line) for line in stored]
    documents[0]["questions"][0]["question"] = question
    write(folder / tatqa.FILE, documents)
    assert len(tatqa.read_tables(folder).questions) == len(documents) - (not kept)


def test_of_two_rows_that_state_one_number_either_would_do(tmp_path: Path) -> None:
    folder = source(tmp_path / "raw")
    with gzip.open(folder / tatqa.FILE, "rt", encoding="utf-8") as stored:
        documents = [json.loads(line) for line in stored]
    for cells in documents[0]["table"]["table"][1:3]:
        cells[2] = "(7.5)"
    documents[0]["questions"][0] |= {"answer": 7.5, "derivation": "([7.5] + [7.5]) / 2"}
    documents[0]["questions"][0]["mappings"] = [{"table": [1, 2]}, {"table": [2, 2]}]
    write(folder / tatqa.FILE, documents)
    assert len(tatqa.read_tables(folder).questions) == len(documents) - 1


FILMS = ("Film", "Votes", "Score", "Length (min)")
REELS = [("Ada", "30", "9", "95"), ("Eve", "10", "4", "80"), ("Ivy", "20", "6", "120"), ("Una", "40", "8", "60")]


@pytest.mark.parametrize(
    ("question", "where"),
    [
        ("how many ships were built between 1610 and 1630?", [[1, ">=", "1610"], [1, "<=", "1630"]]),
        ("how many ships were built from 1610 to 1630?", [[1, ">=", "1610"], [1, "<=", "1630"]]),
        ("how many ships were built in the 1640s?", [[1, ">=", "1640"], [1, "<=", "1649"]]),
        ("how many ships were built before 1630?", [[1, "<", "1630"]]),
        ("how many ships were built since the year 1630?", [[1, ">=", "1630"]]),
        ("how many ships have between 1600 and 3,000 guns?", [[2, ">=", "1600"], [2, "<=", "3000"]]),
        ("how many ships have at least 3,450 guns?", [[2, ">=", "3450"]]),
        ("how many ships have 3450 or more guns?", [[2, ">=", "3450"]]),
        ("how many ships have no more than 3450 guns?", [[2, "<=", "3450"]]),
        ("how many ships have more than 3450 guns?", [[2, ">", "3450"]]),
        ("how many ships have under 3450 guns?", [[2, "<", "3450"]]),
    ],
)
def test_a_bound_is_a_condition_on_years_or_on_the_numbers_that_the_question_speaks_of(
    question: str, where: list
) -> None:
    header = ("Ship", "Built", "Guns")
    ships = [(f"Ship {n}", str(1600 + 4 * n), str(200 + 650 * ((5 * n) % 12))) for n in range(12)]
    counted = sum(all(programs.meets([condition], row) for condition in where) for row in ships)
    found = induce_program(question, header, ships, [str(counted)])
    assert counted > 1 and found and found.program == {"type": "count", "where": where}


def test_of_the_columns_that_hold_a_name_the_first_one_is_the_condition() -> None:
    names = ("Ann", "Bo", "Cy", "Di")
    header = ("No", *(f"Column {letter}" for letter in "abcdefgh"))
    rows = [(str(n), *(f"{names[n % 2]} {letter}{n}" for letter in "stuvwxyz")) for n in range(6)]
    found = induce_program("how many had ann?", header, rows, ["3"])
    assert found and found.program == {"type": "count", "where": [[1, "contains", "ann"]]}


def test_rows_are_counted_as_what_the_question_calls_them() -> None:
    trips = [("Cod", "Ann", "Oslo"), ("Tea", "Bo", "Oslo"), ("Oil", "Cy", "Lund"), ("Rye", "Ann", "Oslo")]
    header, trips = ("Load", "Skipper", "Harbour"), [*trips, ("Ice", "Di", "Lund")]
    assert induce_program("how many skippers went to oslo?", header, trips, ["3"]) is None  # Ann went twice
    for question, answer in {"how many trips went to oslo?": "3", "how many skippers went to lund?": "2"}.items():
        found = induce_program(question, header, trips, [answer])
        assert found is not None and found.program["type"] == "count"
    goals = [(f"{n // 2 + 1} May", each, town) for n, (_, each, town) in enumerate(trips)]
    assert (
        induce_program("how many games were in oslo?", ("Date", "Scorer", "City"), goals, ["3"]) is None
    )  # two on a day


def test_two_rows_are_compared_in_the_column_that_the_question_speaks_of() -> None:
    found = induce_program("which film is longer, eve or ivy?", FILMS, REELS, ["Ivy"])
    assert found is not None and found.program["by"] == 3  # their votes and scores would say the same
    spelled = [(*row[:3], f"{row[3]}:00") for row in REELS]
    assert (
        induce_program("which film is longer, eve or ivy?", FILMS, spelled, ["Ivy"]) is None
    )  # nor do those prove anything


PEAKS = ("No", "Peak", "Elevation (m)", "Col height (m)", "Area", "Gold", "Total", "Huts")
HILLS = [
    ("7", "Ark", "900", "30", "8", "1", "9", "4 huts, 2 roads"),
    ("8", "Bel", "800", "20", "6", "5", "7", "3 huts"),
    ("9", "Cob", "700", "10", "7", "3", "5", "1 hut"),
    ("10", "Dun", "650", "5", "7", "2", "5", "1 hut"),
]


@pytest.mark.parametrize(
    ("question", "answers", "by"),
    [
        ("which peak is higher, ark or bel?", ["Ark"], 2),  # its number, area and total would say the same
        ("which peak has more huts, bel or cob?", ["Bel"], 7),  # what is counted in the cells
        ("which peak has the larger total, ark or bel?", ["Ark"], 6),
        ("how many more gold medals has bel than cob?", ["2"], 5),  # as many as the difference of the totals
        ("who climbs the north wall, ark or bel?", ["Ark"], None),
        ("which peak has more visitors, ark or bel?", ["Ark"], None),
        ("which peak is higher, ark or bel?", ["Bel"], None),
    ],
)
def test_only_a_column_that_the_question_speaks_of_is_compared(question: str, answers: list[str], by: int) -> None:
    found = induce_program(question, PEAKS, HILLS, answers)
    assert (found and found.program["by"]) == by


def test_two_columns_that_a_question_speaks_of_alike_compare_nothing_unless_they_agree() -> None:
    header, rows = ("Team", "Home goals", "Away goals"), [("Elk", "3", "5"), ("Fox", "4", "2"), ("Gnu", "1", "1")]
    assert induce_program("who scored more goals, elk or fox?", header, rows, ["Fox"]) is None
    assert induce_program("who scored more goals, elk or gnu?", header, rows, ["Elk"]) is not None


@pytest.mark.parametrize(
    ("question", "answers", "is_found"),
    [
        ("how many nations won more than 4 gold medals?", ["1"], False),  # the rank of the only one is chance
        ("how many gold medals did chad win?", ["4"], True),
        ("how many skiers of the 15 kilometre race were late?", ["2"], False),  # "15" is a part of their times
        ("how many nations had at least 7% of the votes?", ["2"], True),
    ],
)
def test_numbers_are_read_where_the_question_speaks_of_them(question: str, answers: list[str], is_found: bool) -> None:
    header = ("Rank", "Nation", "Gold", "Delay", "Votes", "Votes in all")
    rows = [
        ("1", "Bhutan", "6", "+1:15.2", "9%", "900"),
        ("2", "Chad", "4", "+2:15.4", "8%", "800"),
        ("3", "Fiji", "2", "+3:20.0", "6%", "600"),
        ("15", "Guam", "1", "+4:21.0", "3%", "300"),
    ]
    assert bool(induce_program(question, header, rows, answers)) == is_found


@pytest.mark.parametrize(
    ("question", "is_found"),
    [
        ("who scored more goals, elk or fox?", True),
        ("who scored more goals against chad, elk or fox?", False),  # goals of a career, and Chad is another thing
        ("who scored more goals against chat, elk or fox?", False),
        ("who scored more goals in july, elk or fox?", False),
    ],
)
def test_what_a_question_restricts_a_number_to_is_a_condition(question: str, is_found: bool) -> None:
    header = ("Player", "Goals", "First cap", "First opponent")
    rows = [("Elk", "9", "1 July 1990", "Chad"), ("Fox", "4", "1 July 1990", "Chad"), ("Gnu", "2", "May 1991", "Fiji")]
    assert bool(induce_program(question, header, rows, ["Elk"])) == is_found


@pytest.mark.parametrize(("header", "is_found"), [("Event", False), ("Place", True)])
def test_counted_rows_are_no_number_of_a_column(header: str, is_found: bool) -> None:
    rows = [("Rain A", "1960", "66"), ("Rain B", "1961", "8"), ("Rain C", "1962", "9")]
    question = "what is the total number of storm events that occurred in 1960?"
    assert bool(induce_program(question, (header, "Year", "Storms"), rows, ["66"])) == is_found


@pytest.mark.parametrize(
    ("winners", "is_found"), [(("Elk (1)", "Elk (2)"), False), (("Elk", "Elk"), True), (("Elk*", "Elk (3)"), True)]
)
def test_what_one_row_counts_by_itself_is_not_counted_over_rows(winners: tuple[str, str], is_found: bool) -> None:
    rows = [("1990", winners[0]), ("1991", "Fox"), ("1992", winners[1]), ("1993", "Gnu")]
    assert bool(induce_program("how many times was elk the winner?", ("Year", "Winner"), rows, ["2"])) == is_found


@pytest.mark.parametrize(("state", "is_found"), [("Ohio", False), ("Iowa", True)])
def test_a_value_that_other_rows_have_in_another_column_of_the_needed_one_is_no_condition(
    state: str, is_found: bool
) -> None:
    trees = [("Fir", "60", state, ""), ("Elm", "63", "Ohio", "Ohio"), ("Yew", "41", "Maine", "")]
    found = induce_program(
        "what was the height of the tree from ohio?", ("Tree", "Height", "State", "Notes"), trees, ["63"]
    )
    assert bool(found) == is_found


@pytest.mark.parametrize(("margin", "is_found"), [("Playoff", False), ("", True), ("4 strokes", True)])
def test_a_bound_that_a_word_may_meet_settles_nothing(margin: str, is_found: bool) -> None:
    won = [(f"{n} Open", f"{n} strokes") for n in range(1, 6)]
    question = "which tournaments had a margin of at most 1 stroke?"
    found = induce_program(question, ("Tournament", "Margin"), [*won, ("Elk Cup", margin)], ["1 Open"])
    assert bool(found) == is_found


def test_no_row_of_another_account_is_labelled_as_a_needed_one() -> None:
    program = {
        "type": "arithmetic",
        "formula": "c0 - c1",
        "reads": [[[[0, "net cash from operating activities"]], n] for n in (1, 2)],
    }
    text = "How did the net cash from operation activities change?"
    asked = Instance("q", "table", text, ("1",), "t", "number", program=program, positive_sk=(0,))
    others = ["Net cash provided by operating activities", "Net cash used in investing activities"]
    rows = {"t": [("Net cash from operating activities", "3", "2")], "u": [(label, "9", "8") for label in others]}
    tables = {name: SourceTable(("", "2019", "2018"), cells) for name, cells in rows.items()}
    found = TableSource(tatqa.SOURCE, tables, [asked], 1)
    real = [[row[0] for row in each.real] for r in (1, 2) for each in table.make_candidates(found, r)]
    assert real == [others, others[1:]]


def test_a_comparison_in_no_column_by_name_has_no_rejection_twin() -> None:
    for question, n_twins in {"which film is longer, eve or ivy?": 1, "which film is dearer, eve or ivy?": 0}.items():
        found = induce_program(question, FILMS, REELS, ["Ivy"], revision=1)
        assert found is not None
        instance = Instance(
            "a", "table", question, ("Ivy",), "films", program=found.program, positive_sk=found.positive_sk
        )
        pool = UnitPool({"films": REELS}, headers={"films": FILMS})
        made = add_emptied_rows(InstanceSet([instance], {"table": pool}))
        [asked] = made.instances
        candidates = NoiseLibrary(made.pools["table"]).context_units(asked)
        assert len(asked.noise_groups) == n_twins
        assert bool(TwinMaker(asked, made.pools["table"], candidates, candidates.noise).make_twins()) == n_twins


def test_rows_that_are_one_without_their_cells_have_no_rejection_twin() -> None:
    question, program = "which films have 3 votes?", {"type": "lookup", "select": 0, "where": [[1, "3"]]}
    for second, n_twins in {"4": 2, "9": 0}.items():
        rows = [*REELS, ("Hal", "3", "9", "70"), ("Jon", "3", second, "70")]
        instance = Instance("a", "table", question, ("Hal", "Jon"), "films", program=program, positive_sk=(4, 5))
        made = add_emptied_rows(InstanceSet([instance], {"table": UnitPool({"films": rows}, headers={"films": FILMS})}))
        [asked] = made.instances
        candidates = NoiseLibrary(made.pools["table"]).context_units(asked)
        assert len(TwinMaker(asked, made.pools["table"], candidates, candidates.noise).make_twins() or ()) == n_twins


@pytest.mark.parametrize("question", ["how many votes did this film have?", "which films did they give over 25 votes?"])
def test_what_is_meant_by_a_title_that_is_not_shown_is_not_asked(question: str) -> None:
    assert induce_program(question, FILMS, REELS, ["30"]) is None
    assert induce_program("which films have over 25 votes?", FILMS, REELS, ["Ada", "Una"]) is not None


@pytest.mark.parametrize(
    ("question", "is_found"),
    [
        ("how many films have over 25 votes?", True),
        ("how many films of hanako had over 25 votes?", False),
        ("how many films had over 25 votes in 2004?", False),
        ("how many films of uk had over 25 votes?", True),  # two letters are no name
    ],
)
def test_names_and_years_that_only_a_title_could_say_are_not_asked(question: str, is_found: bool) -> None:
    known = wikitablequestions.usual_words([SourceTable(FILMS, REELS)], [])
    shown = [FILMS, *REELS]
    assert (not wikitablequestions.unshown_words(question, shown, known)) == is_found
