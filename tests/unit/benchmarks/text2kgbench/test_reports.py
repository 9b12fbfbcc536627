"""The reports of Text2KGBench: its Table 1, and errors by class."""

from pathlib import Path

import pytest

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.text2kgbench.error_classes import CLASSES, error_classes
from kbbench_hf.benchmarks.text2kgbench.material import Material
from kbbench_hf.benchmarks.text2kgbench.release import build_dbpedia_webnlg
from kbbench_hf.benchmarks.text2kgbench.statistics import statistics
from kbbench_hf.files.datasets import DatasetFolder

ONTOLOGY = {
    "ontology_id": "o",
    "title": "Films",
    "concepts": [{"qid": "film", "label": "film", "source": "json"}],
    "relations": [
        {"pid": name, "label": name, "domain": "film", "range": "", "source": "json"} for name in ("director", "set in")
    ],
}


def example(sentence: str, *gold: tuple[str, str, str]) -> dict:
    triples = [dict(zip(("sub", "rel", "obj"), each, strict=True)) for each in gold]
    return {"id": sentence, "ontology_id": "o", "sentence": sentence, "triples": triples}


def test_every_answered_triple_is_of_the_class_that_a_reader_gives_it():
    rows = [
        example(
            "Heat by Mann is set in Rome; Up is by Docter.",
            ("Heat", "director", "Mann"),
            ("Heat", "set in", "Rome"),
            ("Up", "director", "Docter"),
        ),
        example("Nothing is answered here.", ("Kiki", "director", "Miyazaki")),
    ]
    said = [
        ("Heat", "director", "Mann"),  # right
        ("heat", "director", "mann"),  # said twice
        ("Heat", "Set_In", "Rome"),  # spelled otherwise
        ("Heat", "shot_in", "Rome"),  # no relation
        ("Rome", "set_in", "Heat"),  # exchanged
        ("Up", "set_in", "Docter"),  # another relation
        ("Alien", "director", "Mann"),  # no such subject
        ("Up", "director", "Lasseter"),  # no such object
        ("Alien", "director", "Scott"),  # neither
        ("Heat", "director", "Docter"),  # another object
        ("Up", "set_in", "Rome"),  # another subject
        ("Mann", "set_in", "Docter"),  # named, but not in gold
    ]
    table = error_classes(Examples(rows, Material(DatasetFolder(Path()), {"o": ONTOLOGY})), [said, None])
    counts = {name: int(table.rows[words][0].value) for name, words in CLASSES.items()}
    # of four gold triples two are not answered, however spelled: "Up, director, Docter" and "Kiki"
    assert counts == dict.fromkeys(CLASSES, 1) | {"missed": 2, "both": 1}
    assert table.rows["right"][1].value == pytest.approx(1 / 12)
    assert table.rows[CLASSES["missed"]][1].value == pytest.approx(2 / 4)
    assert table.notes[1] == "1 sentences have no answer; their gold counts as missed."


def test_table_1_is_the_papers(shared, tmp_path):
    build_dbpedia_webnlg(shared / "data/text2kgbench", tmp_path / "webnlg", ["sentences", "ontologies"])
    found = statistics(DatasetFolder(tmp_path / "webnlg"))
    rows = {name: figures for name, *figures in found.tables["Ontologies (Table 1)"]}
    assert found.columns["Ontologies (Table 1)"] == ("types", "relations", "sentences", "train", "test")
    assert rows["1_university"] == ["15", "46", "156", "85", "71"]  # Table 1: 15 types, 46 relations, 156 sentences
    assert rows["16_city"] == ["11", "23", "348", "131", "217"]
    assert sum(int(each[2].replace(",", "")) for each in rows.values()) == 4860
