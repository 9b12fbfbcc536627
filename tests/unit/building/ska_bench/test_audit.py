import random
from dataclasses import replace
from math import isnan
from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.benchmarks import audits
from kbbench_hf.benchmarks.audits import Finding, in_markdown, read_card, read_closed_book, refuse_unwaived, waivers
from kbbench_hf.benchmarks.ska_bench.benchmark import MINI
from kbbench_hf.benchmarks.ska_bench.units import Instance, UnitPool
from kbbench_hf.building.ska_bench import audit as guesses
from kbbench_hf.building.ska_bench.audit import (
    AuditContext,
    ContextUnit,
    _lengths,
    audit,
    best_single,
    make_folds,
    question_features,
    regression_accuracy,
)
from kbbench_hf.building.ska_bench.dataset import write_audit
from kbbench_hf.errors import DataError, KBBenchError, UsageError
from kbbench_hf.files.datasets import DatasetFolder, copy_dataset

HEADER = ("Year", "Team", "Coach")
ROWS = [("1999", "Brann", "Dag"), ("2000", "Brann", "Eli"), ("2000", "Viking", "Ove"), ("2001", "Viking", "Ola")]


def on_table(
    question: str, answers: tuple[str, ...], positive: set[int], rows: list[tuple[str, ...]] = ROWS
) -> AuditContext:
    units = [ContextUnit(row, False, n in positive, 8) for n, row in enumerate(rows)]
    return AuditContext(Instance("q", "table", question, answers, "t"), HEADER, units)


def on_graph(question: str, answers: tuple[str, ...], *triples: tuple[str, str, str]) -> AuditContext:
    return AuditContext(
        Instance("q", "kg", question, answers, "g"), (), [ContextUnit(each, False, False, 8) for each in triples]
    )


def test_a_grep_for_quoted_cells_finds_the_row_that_holds_the_rarest() -> None:
    # "brann" is in 2 of 4 rows, "2000" in 2 of 4: row 1 holds both, and nothing else does
    seen = on_table("who was the coach of Brann in 2000?", ("Eli",), {1})
    assert guesses.grep_units(seen) == 1
    assert guesses.grep_answer(seen) == 1  # "coach" is the header of its one cell that is not quoted


def test_a_grep_is_wrong_where_another_row_holds_as_much() -> None:
    rows = [*ROWS, ("2000", "Brann", "Tom")]
    seen = on_table("who was the coach of Brann in 2000?", ("Eli",), {1}, rows)
    assert guesses.grep_units(seen) == 0
    # Eli and Tom answered, Eli right: P 1/2, R 1, F1 = 2/3
    assert guesses.grep_answer(seen) == pytest.approx(2 / 3)


def test_a_grep_counts_rows_where_the_question_asks_how_many() -> None:
    assert guesses.grep_answer(on_table("how many years did Viking have a coach?", ("2",), {2, 3})) == 1


def test_underscores_do_not_hide_a_cell_from_the_grep() -> None:
    seen = on_graph("who was the son of emperor temmu?", ("Kusakabe",), ("emperor_temmu", "child", "Kusakabe"))
    assert guesses.grep_answer(seen) == 1
    assert guesses.first_unit(seen) == guesses.last_unit(seen) == guesses.best_overlap(seen) == 1


def test_a_triple_answers_the_end_that_the_question_does_not_quote() -> None:
    seen = on_graph("what did Eli direct?", ("Rain",), ("Rain", "directed by", "Eli"), ("Snow", "has genre", "Drama"))
    assert seen.answer_of(seen.units[0]) == "Rain" and seen.answer_of(seen.units[1]) == "Drama"


def test_the_most_frequent_cell_is_no_quoted_one_and_no_relation() -> None:
    triples = [("A", "genre", "Drama"), ("B", "genre", "Drama"), ("A", "genre", "War"), ("A", "year", "1999")]
    assert guesses.frequent_cell(on_graph("what is the genre of A?", ("drama",), *triples)) == 1


def test_gold_in_the_question_counts_only_where_nothing_is_offered() -> None:
    assert guesses.gold_in_question(on_table("who coached Dag?", ("Dag",), {0})) == 1
    assert guesses.gold_in_question(on_table("was it Dag or Eli?", ("Dag",), {0})) == 0


def test_options_are_the_quoted_cells_on_both_sides_of_or() -> None:
    asked = [on_table("which was earlier, Dag or Eli?", (gold,), {0, 1}) for gold in ("Dag", "Eli", "Eli")]
    assert asked[0].options() == ["dag", "eli"]
    assert guesses.option_guess(asked) == (pytest.approx(2 / 3), 3)  # the last one is right twice
    assert isnan(guesses.option_guess([on_table("who was it?", ("Dag",), {0})])[0])


def test_units_that_share_equally_rare_words_with_the_question_are_equally_like_it() -> None:
    # sets have another order after each start of Python, and floats that are added in another order another last digit
    units, words = [], [[f"w{row}x{n}" for n in range(6)] for row in range(30)]
    for each in words:
        units += [ContextUnit((" ".join(each[n:]),), False, n == 0, 8) for n in range(6)]
    asked = Instance("q", "table", " ".join(word for each in words for word in each), ("a",), "t")
    context = AuditContext(asked, ("X",), units)
    assert len({context.overlap_idf(unit) for unit in units[::6]}) == 1


def test_length_is_looked_at_within_contexts_too() -> None:
    def context(positive: int, *noise: int) -> AuditContext:
        units = [ContextUnit(("x",), False, n == 0, tokens) for n, tokens in enumerate((positive, *noise))]
        return AuditContext(Instance("q", "table", "?", ("a",), "t"), ("X",), units)

    # a wide table: long rows, few of them; a narrow one: short rows, many; in each the positive is as long as the noise
    wide, narrow = context(40, 40), context(10, *[10] * 20)
    found = {each.name: each.value for each in _lengths("table", [wide, narrow])}
    assert found["length_sk_within"] == 0.5 < found["length_sk"]
    assert {each.name: each.value for each in _lengths("kg", [context(9, 5, 5)])}["length_sk_within"] == 1


@pytest.mark.parametrize(
    ("before", "in_first_1k", "in_first_4k"), [(1000, 1, 1), (1020, 0, 1), (4080, 0, 1), (4090, 0, 0)]
)
def test_positives_are_at_the_beginning_if_the_last_one_ends_there(
    before: int, in_first_1k: int, in_first_4k: int
) -> None:
    units = [ContextUnit(("a", "b", "c"), False, is_positive, n) for is_positive, n in ((True, 8), (False, before - 8))]
    units += [ContextUnit(("a", "b", "d"), False, is_positive, n) for is_positive, n in ((True, 8), (False, 9000))]
    context = AuditContext(Instance("q", "kg", "?", ("a",), "g"), (), units)
    found = {each.name: each for each in guesses._places("kg", [context], [context])}
    assert (found["in_first_1k"].value, found["in_first_4k"].value) == (in_first_1k, in_first_4k)
    assert found["places"].value == pytest.approx(0.375) and found["places"].n == 2  # at 1/8 and 5/8


def test_a_made_row_that_keeps_the_key_of_a_needed_row_is_found() -> None:
    pool = UnitPool({"t": ROWS}, headers={"t": HEADER})
    for made, is_found in ((("1998", "Viking", "Una"), False), (("2001", "Viking", "Dag"), True)):
        units = [ContextUnit(row, False, row[0] == "2001", 8) for row in (*ROWS, made)]
        units[-1] = replace(units[-1], is_positive=False)
        context = AuditContext(Instance("q", "table", "?", ("x",), "t"), HEADER, units)
        assert guesses._is_contradicted(context, pool) is is_found


def test_the_best_constant_is_the_most_frequent_gold_answer() -> None:
    asked = [on_table("?", (gold,), {0}) for gold in ("2", "2", "3", "4")]
    assert guesses.best_constant(asked) == 1 / 2


def test_a_feature_that_tells_twins_apart_is_found_and_noise_is_not() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = np.random.default_rng(seed)
    y = np.arange(400) % 2 == 0
    fold = make_folds([f"q{n // 2}" for n in range(400)])
    assert all(fold[::2] == fold[1::2])
    noise = draw.normal(size=(400, 3))
    told = np.column_stack([noise, y + draw.normal(scale=0.1, size=400)])
    assert best_single(told, y, fold) > 0.97 and regression_accuracy(told, y, fold) > 0.97
    assert best_single(noise, y, fold) < 0.62 and regression_accuracy(noise, y, fold) < 0.62


def test_what_only_features_together_tell_the_regression_finds() -> None:
    draw = np.random.default_rng(7)
    common = draw.normal(size=400)
    y = np.arange(400) % 2 == 0
    x = np.column_stack([common + np.where(y, 0.3, -0.3), common])
    fold = make_folds([f"q{n // 2}" for n in range(400)])
    assert regression_accuracy(x, y, fold) > 0.95 > 0.7 > best_single(x, y, fold)


def test_twins_that_share_their_question_cannot_be_told_by_it() -> None:
    asked = [on_table(f"question {n // 2}?", ("a",), {0}) for n in range(60)]
    x = np.array([question_features(each) for each in asked], dtype=float)
    y = np.arange(60) % 2 == 0
    assert regression_accuracy(x, y, make_folds([f"{n // 2}" for n in range(60)])) == 0.5


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    assert MINI.data.shipped is not None
    return copy_dataset(DatasetFolder(MINI.data.shipped), tmp_path_factory.mktemp("audit") / "ska-open")


def test_an_audit_has_every_line_for_every_subset_of_a_built_dataset(mini: DatasetFolder) -> None:
    findings = audit(mini)
    names = {part: [each.name for each in findings if each.part == part] for part in ("kg", "table")}
    assert set(guesses.GUESSES) | {"best_constant", "option_guess", "places", "in_first_1k", "length_sk"} <= set(
        names["kg"]
    )
    assert {"rejection_single", "rejection_all", "rejection_question", "contradictions"} <= set(names["table"])
    assert audit(mini) == findings
    assert all(isnan(each.value) or 0 <= each.value <= 1 for each in findings)


def test_closed_book_answers_are_scored_as_the_benchmark_scores_them(mini: DatasetFolder, tmp_path: Path) -> None:
    rows = mini.rows("instances_kg", "test")
    file = tmp_path / "answers.jsonl"
    right, wrong = rows[0], rows[1]
    lines = [f'{{"instance_id": "{right["id"]}", "answers": {list(right["answers"])!r}}}'.replace("'", '"')]
    file.write_text("\n".join([*lines, f'{{"instance_id": "{wrong["id"]}", "answers": []}}']), encoding="utf-8")
    found = {each.key: each for each in audit(mini, read_closed_book(file))}["kg.closed_book"]
    assert (found.value, found.n) == (1 / 2, 2)


@pytest.mark.parametrize(
    "line", ["{", "[" * 9999, '{"instance_id": "a"}', '{"instance_id": "a", "answers": "x"}', "[]"]
)
def test_a_line_that_is_no_answered_question_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(f'{{"instance_id": "b", "answers": []}}\n{line}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"answers\.jsonl:2"):
        read_closed_book(file)


def test_answers_about_other_instances_are_refused(mini: DatasetFolder) -> None:
    with pytest.raises(DataError, match="'nobody'"):
        audit(mini, {"nobody": ["x"]})


def test_a_dataset_without_a_whole_subset_cannot_be_audited(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"revision": "x", "files": {}}', encoding="utf-8")
    with pytest.raises(UsageError, match="without --configs"):
        audit(DatasetFolder(tmp_path))


OVER = Finding("kg", "first_unit", "the first unit", 0.2, 0.1, 120)


def test_a_figure_above_its_limit_is_refused_unless_the_card_says_why() -> None:
    with pytest.raises(KBBenchError, match=r"kg\.first_unit 0\.200"):
        refuse_unwaived([OVER])
    said = waivers("# Card\n\n- `kg.first_unit`: Films have one genre, so that it is often right.\n")
    refuse_unwaived([replace(OVER, waiver=said["kg.first_unit"])])
    refuse_unwaived([replace(OVER, n=audits.FEWEST - 1)])
    assert waivers("- `kg.first_unit`: so.") == {}  # no sentence


def test_an_earlier_revision_keeps_the_faults_that_a_later_audit_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("# Card\n", encoding="utf-8")
    monkeypatch.setattr("kbbench_hf.building.ska_bench.dataset.audit", lambda folder: [OVER])
    write_audit(DatasetFolder(tmp_path), revision=1)
    assert OVER.name in read_card(DatasetFolder(tmp_path))
    with pytest.raises(KBBenchError, match="above their limits"):
        write_audit(DatasetFolder(tmp_path))


def test_the_table_stands_once_on_the_card_and_waives_nothing_itself(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "# Card\n\n- `kg.first_unit`: A sentence on why this is so.\n", encoding="utf-8"
    )
    folder = DatasetFolder(tmp_path)
    for value in (0.2, 0.3):
        audits.write_into_card(folder, [replace(OVER, value=value)])
    card = read_card(folder)
    audits.write_into_card(folder, [replace(OVER, value=0.3)])
    assert read_card(folder) == card
    assert card.count(audits.BEGIN) == 1 and "**0.300**" in card and "0.200" not in card
    assert waivers(card) == {"kg.first_unit": "A sentence on why this is so."}
    assert "Not waived" in in_markdown([OVER])
