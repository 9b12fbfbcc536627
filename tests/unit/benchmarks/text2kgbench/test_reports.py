"""The reports of Text2KGBench: its Table 1, and errors by class."""

from pathlib import Path

import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.text2kgbench.analysis import CLASSES, error_classes, statistics
from kbbench_hf.benchmarks.text2kgbench.material import Material
from kbbench_hf.building.text2kgbench.audit import audit
from kbbench_hf.files.datasets import DatasetFolder, write_dataset

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
    assert table.notes[1] == "Sentences without prediction: 1; their gold counts as missed."


def test_table_1_is_the_papers(webnlg):
    found = statistics(webnlg)
    rows = {name: figures for name, *figures in found.tables["Ontologies (Table 1)"]}
    assert found.columns["Ontologies (Table 1)"] == ("types", "relations", "sentences", "train", "test")
    assert rows["1_university"] == ["15", "46", "156", "85", "71"]  # Table 1: 15 types, 46 relations, 156 sentences
    assert rows["16_city"] == ["11", "23", "348", "131", "217"]
    assert sum(int(each[2].replace(",", "")) for each in rows.values()) == 4860


def test_the_test_split_is_counted_by_sentences_triples_and_words():
    mini = shipped_dataset("mini-text2kg")
    assert mini is not None
    found, rows = statistics(mini), mini.rows("sentences", "test")
    gold, words = [len(row["triples_repaired"]) for row in rows], [len(row["sentence"].split()) for row in rows]
    assert found.tables["Test split"] == [
        ("sentences", "48"),
        ("different ones", str(len({row["sentence"] for row in rows}))),
        ("gold triples", str(sum(gold))),
        ("gold triples per sentence", f"{sum(gold) / 48:.2f}"),
        ("gold triples with both ends named", "100.0%"),
        ("words per sentence", f"{sum(words) / 48:.1f}"),
        ("selected", str(sum(row["selected"] for row in rows))),
    ]
    assert found.lengths == {"words per test sentence": words, "gold triples per test sentence": gold}


def test_an_audit_finds_what_can_be_copied(tmp_path):
    def row(name: str, split: str, sentence: str, obj: str, similar: list[str]) -> dict:
        triple = {"sub": "Heat", "rel": "set in", "obj": obj}
        fixed = {"triples": [triple], "triples_repaired": [triple], "repairs": [], "selected": False}
        return {"id": name, "ontology_id": "o", "split": split, "sentence": sentence, "similar_ids": similar, **fixed}

    rows = {
        "train": [row("a", "train", "Heat is set in Rome.", "Rome", [])],
        "test": [
            row("b", "test", "Rome is where Heat is set.", "Rome", ["a"]),
            row("c", "test", "Heat is set in Oslo.", "Oslo", ["a"]),
        ],
    }
    tables = {split: pa.Table.from_pylist(of) for split, of in rows.items()}
    ontologies = {"full": pa.Table.from_pylist([ONTOLOGY])}
    write_dataset(tmp_path / "o", {"sentences": tables, "ontologies": ontologies}, "---\npretty_name: o\n---\n")
    found = {each.name: each.value for each in audit(DatasetFolder(tmp_path / "o"))}
    # b's only triple is the demonstration's, a fact of train, and the names' own in the other direction; c's is new
    assert found == {"copy": 0.5, "train_facts": 0.5, "first_name": 0.0}
