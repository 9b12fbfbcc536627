"""The published averages are those of the paper's Table 2 and of the release's own evaluation."""

import csv
from pathlib import Path

from kbbench_hf.benchmarks.baselines import published_rows

COLUMNS = dict(zip(("P", "R", "F1", "OC", "SH", "RH", "OH"), (
    "precision", "recall", "f1", "ontology_conformance", "subject_hallucination", "relation_hallucination",
    "object_hallucination"), strict=True))  # fmt: skip
DATASETS = {"wikidata_tekgen": "text2kg-wikidata-tekgen", "dbpedia_webnlg": "text2kg-dbpedia-webnlg"}


def test_every_published_average_is_there(shared: Path) -> None:
    with (shared / "expected" / "text2kg_expected.csv").open(encoding="utf-8") as source:
        expected = [row for row in csv.DictReader(source) if row["ontology"] == "GLOBAL"]
    n_found = 0
    for row in expected:
        from_paper = row["source"] == "paper_table_2"
        if not from_paper and row["source"] != "repo_eval_metrics":
            continue
        place = (DATASETS[row["dataset"]], "sentences", "unseen" if row["variant"] == "unseen" else "test")
        rows = {each.system: each for each in published_rows(*place, "paper" if from_paper else "reference")}
        found = rows[row["model"]].figures
        if row["variant"] == "selected":
            found = rows[row["model"]].slices["selected"]["true"]
        for column, metric in COLUMNS.items():
            assert found[metric].value == float(row[column if from_paper else f"{column}_full"])
            n_found += 1
    assert n_found == 7 * (8 + 3)


def test_what_was_published_of_fewer_sentences_is_no_system_of_its_own() -> None:
    rows = published_rows("text2kg-wikidata-tekgen", "sentences", "test", "paper")
    assert [row.system for row in rows] == ["Alpaca-LoRA-13B", "Vicuna-13B"]


def test_every_cell_of_table_3_stands_beside_the_whole(shared: Path) -> None:
    rows = {row.system: row for row in published_rows("text2kg-wikidata-tekgen", "sentences", "test", "paper")}
    vicuna = rows["Vicuna-13B"]
    with (shared / "expected" / "text2kg_expected.csv").open(encoding="utf-8") as source:
        printed = [row for row in csv.DictReader(source) if row["source"] == "paper_table_3"]
    assert len(printed) == len(vicuna.slices["ontology"]) == 10
    for row in printed:
        part = vicuna.slices["ontology"][row["ontology"]]
        assert {name: figure.value for name, figure in part.items()} == {
            metric: float(row[column]) for column, metric in COLUMNS.items()
        }
    assert (vicuna.scores["f1"], vicuna.scores["relation_hallucination"]) == (0.35, 0.17)
