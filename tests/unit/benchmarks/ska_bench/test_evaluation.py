"""The paper's tables and figures as data: what its text says of them holds for what is made of its printed figures."""

import numpy as np
import pytest

from kbbench_hf.benchmarks import benchmark, shipped_dataset
from kbbench_hf.benchmarks.base import ScoredConfig
from kbbench_hf.benchmarks.charts import ScoreTable, Section
from kbbench_hf.benchmarks.ska_bench.evaluation import dataset_section, evaluation
from kbbench_hf.benchmarks.ska_bench.testbeds import bucket
from tests.unit.benchmarks.ska_bench.identities import read

F1, REJECTED, ACCEPTED = "answer_f1", "rejection_rate", "acceptance_rate"


def scored(values: dict[str, float], metric: str = F1, **others: object) -> ScoredConfig:
    mean = float(np.mean(list(values.values())))
    figure = {"value": mean, "ci95": [mean - 0.1, mean + 0.1], "n_scored": len(values)}
    return ScoredConfig({"scores": {metric: figure}, "slices": {}, "warnings": [], **others}, {metric: values})


def tables(sections: list[Section]) -> dict[str, ScoreTable]:
    return {table.name: table for section in sections for table in section.tables}


@pytest.fixture(scope="module")
def published() -> dict[str, ScoreTable]:
    made = benchmark("ska-bench").showing.published_evaluation
    assert made is not None
    return tables(list(made()))


def test_subsets_agree_on_means_over_budgets_as_the_paper_says(published: dict[str, ScoreTable]) -> None:
    """Section 4.2: the trends are similar, all Spearman correlations exceed .64."""
    values = [cell.value for row in published["figure-6a"].rows.values() for cell in row if cell]
    assert len(values) == 16 and min(values) > 0.64


def test_deepseek_r1_deviates_least_over_budgets_as_the_paper_says(published: dict[str, ScoreTable]) -> None:
    average = {model: row[-1].value for model, row in published["figure-5b"].rows.items() if row[-1]}
    assert min(average, key=lambda model: average[model]) == "DeepSeek-R1"


def test_subsets_agree_on_sensitivity_to_order_as_the_paper_says(published: dict[str, ScoreTable]) -> None:
    assert all(cell and cell.value > 0 for row in published["figure-8b"].rows.values() for cell in row)


def test_what_is_computed_of_the_printed_figures_is_what_is_printed(published: dict[str, ScoreTable]) -> None:
    printed = {(config, system, metric): value for config, system, metric, value in read()}
    for model, row in published["table-5"].rows.items():
        assert row[-1] and row[-1].value == pytest.approx(printed["rejection", model, REJECTED], abs=1e-4)
    for model, row in published["table-7"].rows.items():
        for place, subset in ((3, "kg"), (7, "kg_text")):
            wanted = printed[f"hardness_{subset}", model, "std_over_hardness"]
            assert row[place] and row[place].value == pytest.approx(wanted, abs=1e-4)
    assert len(published["table-3"].columns) == 14 and len(published["table-3"].rows) == 8
    assert all(
        cell is None or cell.ci95 is None for table in published.values() for row in table.rows.values() for cell in row
    )


def test_a_system_that_did_not_run_all_settings_has_its_figures_and_no_mean() -> None:
    whole = {f"noise_kg_{size}": scored({"a": 1.0, "b": 0.0, "c": x}) for size, x in (("1k", 1.0), ("4k", 0.0))}
    sections = evaluation({"whole": whole, "part": {"noise_kg_1k": whole["noise_kg_1k"]}})
    made = tables(sections)
    assert [cell is not None for cell in made["table-3"].rows["part"]] == [True, False]
    assert "part" not in made["figure-5a"].rows
    mean, deviation = made["figure-5a"].rows["whole"][0], made["figure-5b"].rows["whole"][0]
    assert mean and mean.value == pytest.approx(0.5) and mean.ci95 and mean.ci95[0] < 0.5 < mean.ci95[1]
    assert deviation and deviation.value == pytest.approx(1 / 6)  # of 2/3 and 1/3
    for name, cell in (("figure-5a", mean), ("figure-5b", deviation)):  # drawn as it is printed, with its interval
        (panel,) = sections[0].pictures[name].panels
        assert panel.series["whole"][0] == (0, cell.value, cell.ci95, None)
    assert "figure-6a" not in made and "need three systems" in sections[0].notes[0]


def test_settings_that_scored_another_number_of_examples_are_listed_and_depths_have_a_section() -> None:
    runs = {"noise_kg_1k": scored({"a": 1.0, "b": 0.0}), "noise_kg_4k": scored({"a": 1.0})}
    runs["noise_table_1k"] = scored({"a": 1.0})
    (noise,) = evaluation({"one": runs, "two": {"noise_kg_4k": scored({"a": 0.0})}})
    assert noise.notes[-1] == "KG: 2 examples in 1k; 1 examples in 4k."
    assert not any("examples in" in note for note in noise.notes[:-1])
    (depth,) = evaluation({"one": {"depth_kg_75": scored({"a": 1.0}), "depth_kg_text_0": scored({"a": 0.5})}})
    (table,) = depth.tables
    assert table.columns == [("KG", "75 %"), ("KG + Text", "0 %")]
    assert [cell and cell.value for cell in table.rows["one"]] == [1.0, 0.5]
    assert [panel.title for panel in depth.pictures["depth"].panels] == ["KG", "KG + Text"]


def test_hard_mixed_and_easy_noise_stand_side_by_side_with_their_deviation() -> None:
    runs = {f"hardness_kg_{level}": scored({"a": x, "b": x}) for level, x in (("hard", 0.2), ("easy", 0.8))}
    systems = {
        "one": {**runs, "noise_kg_4k": scored({"a": 0.5, "b": 0.5})},
        "two": {"noise_kg_4k": runs["hardness_kg_easy"]},
    }
    hardness = evaluation(systems)[-1]
    (table,) = hardness.tables
    assert table.columns == [("KG", words) for words in ("hard", "mixed", "easy", "deviation")]
    assert list(table.rows) == ["one"]
    shown = [cell.value for cell in table.rows["one"] if cell]
    assert shown == pytest.approx([0.2, 0.5, 0.8, np.std([0.2, 0.5, 0.8])])
    (panel,) = hardness.pictures["hardness"].panels
    assert [(point.x, point.y) for point in panel.series["one"]] == [(0, 0.2), (1, 0.5), (2, 0.8)]
    assert list(panel.series) == ["one"] and hardness.pictures["hardness"].ticks == {0: "hard", 1: "mixed", 2: "easy"}
    (alone,) = evaluation({"one": {"hardness_kg_hard": runs["hardness_kg_hard"]}})
    assert [cell and cell.value for cell in alone.tables[0].rows["one"]] == [0.2, None, None, None]


def test_scores_by_units_needed_have_their_deviation_where_the_examples_are_known() -> None:
    folder = shipped_dataset("mini-ska")
    assert folder is not None
    needed = {row["id"]: bucket(row["n_required"]) for row in folder.rows("noise_table_4k", "test")}
    means = {"2": 0.25, ">4": 0.75}
    values = {name: means.get(n, 0.0) for name, n in needed.items()}
    slices = {n: {F1: {"value": x, "ci95": [x, x], "n_scored": 3}} for n, x in means.items()}
    systems = {"one": {"noise_table_4k": scored(values, slices={"n_required": slices})}}
    systems["two"] = {
        "noise_table_4k": scored(values, slices={"n_required": {"2": slices["2"]}}),
        "noise_table_1k": scored(values),
    }
    for data, n_tables in ((None, 1), (folder, 2)):
        found = next(each for each in evaluation(systems, data) if each.title == "Information integration")
        table, *others = found.tables
        assert table.columns == [("Table", "2"), ("Table", ">4")] and 1 + len(others) == n_tables
        assert {name: [cell and cell.value for cell in row] for name, row in table.rows.items()} == {
            "one": [0.25, 0.75],
            "two": [0.25, None],
        }
    (deviation,) = others
    assert list(deviation.rows) == ["one"] and deviation.columns == [("", "Table")]
    (cell,) = deviation.rows["one"]
    assert cell and cell.value == pytest.approx(0.25) and cell.ci95 == pytest.approx((0.25, 0.25))


def test_ranks_of_three_systems_are_compared_between_subsets() -> None:
    def runs(kg: float, table: float) -> dict[str, ScoredConfig]:
        values = {"kg": {str(n): kg + n / 900 for n in range(9)}, "table": {str(n): table for n in range(9)}}
        return {f"noise_{subset}_{size}": scored(values[subset]) for subset in values for size in ("1k", "4k")}

    systems = {"a": runs(0.1, 0.3), "b": runs(0.5, 0.2), "c": runs(0.9, 0.9)}
    systems["d"] = {name: run for name, run in runs(0.2, 0.9).items() if "kg" in name}  # in no rank: it has not run all
    found = tables(evaluation(systems))["figure-6a"]
    assert found.columns == [("", "KG"), ("", "Table")] and list(found.rows) == ["KG", "Table"]
    (same, across), (back, again) = found.rows["KG"], found.rows["Table"]
    assert same and again and (same.value, again.value, same.ci95) == (1.0, 1.0, None)
    assert across and back and across.value == back.value == pytest.approx(0.5)  # ranks 1 2 3 and 2 1 3
    assert across.ci95 == pytest.approx((0.5, 0.5)) and across.n_scored == 3
    assert "over 3 systems" in found.notes[0] and "hardly informative" in found.notes[0]
    assert "figure-6a" not in tables(evaluation({name: systems[name] for name in "ab"}))


def test_a_figure_is_marked_where_a_warning_of_its_run_weakens_it_and_so_is_what_is_made_of_it() -> None:
    warning = {"code": "missing", "severity": "warning", "message": "", "remedy": "", "n_examples": 1, "effect": {}}
    runs = {
        "noise_kg_1k": scored({"a": 1.0, "b": 0.0}, warnings=[warning]),
        "noise_kg_4k": scored({"a": 1.0, "b": 0.0}, warnings=[{**warning, "severity": "note"}]),
    }
    made = tables(evaluation({"one": runs}))
    assert [cell.weak for cell in made["table-3"].rows["one"] if cell] == [True, False]
    assert all(cell and cell.weak for cell in made["figure-5a"].rows["one"])


def test_the_control_stands_beside_rejection_and_always_no_is_at_chance() -> None:
    names = {REJECTED: 1.0, ACCEPTED: 0.0, "balanced_accuracy": 0.5}
    scores = {metric: {"value": value, "ci95": [None, None], "n_scored": 9} for metric, value in names.items()}
    control = ScoredConfig({"scores": scores, "slices": {}}, {REJECTED: {"a": 1.0}, ACCEPTED: {"a:answerable": 0.0}})
    made = evaluation({"no": {"rejection_control_kg": control, "rejection_kg": scored({"a": 1.0}, REJECTED)}})
    row = tables(made)["rejection-control"].rows["no"]
    assert [cell and cell.value for cell in row] == [1.0, 0.0, 0.5, 0.5]
    (section,) = made
    assert section.notes == []
    (noise,) = evaluation({"no": {"rejection_noise_kg": scored({"a": 0.5}, REJECTED)}})
    assert [cell and cell.value for cell in noise.tables[0].rows["no"]] == [0.5, 0.5]
    assert noise.tables[0].name == "rejection-noise" and "always answers no is best" in noise.notes[0]
    (alone,) = evaluation({"no": {"rejection_kg": scored({"a": 1.0}, REJECTED)}})
    assert "always answers no is best" in alone.notes[0]


def test_the_data_of_a_built_dataset_are_counted() -> None:
    folder = shipped_dataset("mini-ska")
    assert folder is not None
    section = dataset_section(folder)
    about = {table.name: table for table in section.tables}
    instances = folder.rows("instances_kg", "test")
    needed, n = about["table-1"].rows["KG"][2], about["table-1"].rows["KG"][-1]
    assert needed and needed.value == pytest.approx(np.mean([len(row["positive_sk"]) for row in instances]))
    assert n and n.value == len(instances)
    # 517 triples, two needed; 536, one needed and one withheld, with 128 passages, one needed
    others = {name: [cell and cell.value for cell in row[3:8]] for name, row in about["table-1"].rows.items()}
    assert (others["KG"][0], others["KG"][3:]) == (None, [515.0, None])
    assert (others["KG + Text"][0], others["KG + Text"][3:]) == (1.0, [534.0, 127.0])
    assert sum(cell.value for cell in about["table-6"].rows["KG"] if cell) == pytest.approx(1.0)
    contexts = folder.rows("noise_kg_4k", "test")
    tokens = about["table-2"].rows["KG 4k"][2]
    assert tokens and tokens.value == pytest.approx(np.mean([row["kb_tokens"] for row in contexts]))
    for panel in section.pictures["figure-4"].panels:
        assert all(sum(point.y for point in series) == pytest.approx(1.0) for series in panel.series.values())


def test_absent_budgets_and_short_contexts_are_said() -> None:
    folder = shipped_dataset("mini-ska")
    assert folder is not None
    noise = next(s for s in evaluation({"one": {"noise_kg_1k": scored({"a": 1.0})}}, folder) if "noise" in s.pictures)
    said = " ".join(noise.notes)
    short = sum(row["status"] == "short" for row in folder.rows("noise_kg_4k", "test"))
    assert "does not have: 12k, 24k" in said
    assert (f"noise_kg_4k {short} of" in said) == bool(short)
