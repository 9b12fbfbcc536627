"""Instances made from public sources: laid out as their repositories are, with real content."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks.ska_bench.construction import hybridqa, tekgen
from kbbench_hf.benchmarks.ska_bench.construction import wikitablequestions as from_wikitablequestions
from kbbench_hf.benchmarks.ska_bench.construction.wikitablequestions import induce
from kbbench_hf.benchmarks.ska_bench.release.instances import read
from kbbench_hf.errors import DataError


def extract(shared: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (shared / "data" / "ska_open" / name).read_text().splitlines()]


@pytest.mark.slow
def test_tekgen_gives_proved_questions_on_its_graph_and_on_its_text(shared: Path, tmp_path: Path) -> None:
    made = tekgen.make(shared / "data" / "text2kgbench" / "wikidata_tekgen", tmp_path)
    assert made["tekgen_kg"] > 500 and made["tekgen_kg_text"] > 100
    release = read(tmp_path)  # executes every program on the positives and on the whole pool
    pool = release.pools["kg_text"]
    for each in release.instances:
        assert each.licence.startswith("CC BY-SA")
        if each.subset == "kg_text":
            [shown], [withheld], [text] = each.positive_sk, each.withheld_sk, each.positive_text
            fact, hidden = pool.sk["tekgen"][shown], pool.sk["tekgen"][withheld]
            assert withheld in pool.links[text] and fact[2] not in pool.text[text][1] and fact[0] == hidden[0]
    assert not any("01 January" in each.question for each in release.instances)


def test_tekgen_refuses_another_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="wikidata_tekgen"):
        tekgen.make(tmp_path, tmp_path / "out")


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("|", "\\p")


@pytest.fixture(scope="module")
def wikitablequestions(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("WikiTableQuestions")
    lines = ["id\tutterance\tcontext\ttargetValue"]
    tables = {each["table_id"]: [each["header"], *each["rows"]] for each in extract(shared, "wtq_donor_tables.jsonl")}
    for each in extract(shared, "wtq_table.jsonl"):
        tables[each["table"]["id"]] = [each["table"]["header"], *(unit["cells"] for unit in each["sk_units"])]
        answers = "|".join(map(escaped, each["answers"]))
        lines.append(
            "\t".join([each["provenance"]["source_id"], escaped(each["question"]), each["table"]["id"], answers])
        )
    (root / "data").mkdir()
    (root / "data" / "training.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, rows in tables.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        with (root / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL, doublequote=False, escapechar="\\").writerows(rows)
    return root


def test_wikitablequestions_positives_are_those_of_the_extract(
    wikitablequestions: Path, shared: Path, tmp_path: Path
) -> None:
    made = from_wikitablequestions.make(wikitablequestions, tmp_path)
    known = {f"wtq-{each['provenance']['source_id']}": each for each in extract(shared, "wtq_table.jsonl")}
    release = read(tmp_path)
    assert made["wikitablequestions"] == len(release.instances) >= 400  # of 513; this rule is the stricter one
    for each in release.instances:
        expected = {n for n, unit in enumerate(known[each.id]["sk_units"]) if unit["positive"]}
        assert set(each.positive_sk) == expected, each.question
        assert each.licence == "CC BY-SA 4.0" and each.program
    assert made["wikitablequestions_donors"] > 100 and len(release.pools["table"].sk) > 300


def test_wikitablequestions_refuses_another_folder_and_broken_files(wikitablequestions: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"training\.tsv does not exist"):
        from_wikitablequestions.make(tmp_path, tmp_path / "out")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "training.tsv").write_text("id\tutterance\tcontext\ttargetValue\nnt-1\tonly two\n")
    with pytest.raises(DataError, match=r"training\.tsv:2 has 2 fields; expected 4"):
        from_wikitablequestions.make(tmp_path, tmp_path / "out")
    (tmp_path / "data" / "training.tsv").write_text("id\tutterance\tcontext\ttargetValue\nnt-1\t?\tcsv/no.csv\tx\n")
    with pytest.raises(DataError, match="cannot be read as a table"):
        from_wikitablequestions.make(tmp_path, tmp_path / "out")


HEADER = ["Name", "City", "Age"]
ROWS = [["Ann", "Oslo", "12"], ["Bo", "Lund", "7"], ["Cy", "Oslo", "9"], ["Di", "Rome", "12"]]


@pytest.mark.parametrize(
    ("question", "answers", "expected"),
    [
        ("how many people live in oslo?", ["2"], {0, 2}),
        ("where does bo live, and what is the city?", ["Lund"], {1}),
        ("what is the difference in age between ann and bo?", ["5"], {0, 1}),
        ("who has the higher age, ann or cy?", ["Ann"], {0, 2}),
        ("who is older, ann or cy?", ["Ann"], None),  # the larger number, or the smaller
        ("who is the oldest in oslo?", ["Ann"], None),  # superlatives need the whole table
        ("who comes after bo?", ["Cy"], None),  # so does order
        ("how many people live in paris?", ["0"], None),  # nothing is mentioned
        ("what is the age of ann of rome?", ["12"], None),  # no row holds both mentioned cells
    ],
)
def test_programs_are_induced_only_where_all_agree(
    question: str, answers: list[str], expected: set[int] | None
) -> None:
    found = induce(question, HEADER, ROWS, answers)
    assert (found and found[1]) == expected


def test_hybridqa_evidence_is_that_of_the_extract(shared: Path, tmp_path: Path) -> None:
    known = {}
    for folder in hybridqa.FOLDERS[1]:
        (tmp_path / folder).mkdir()
    asked = []
    for each in extract(shared, "hybridqa_table_text.jsonl"):
        if not each["pos_method"].endswith("answer-in-passage"):
            continue
        table, known[f"hybridqa-{each['provenance']['source_id']}"] = each["table"], each
        [row] = [unit for unit in each["sk_units"] if unit["positive"]]
        [passage] = [unit for unit in each["text_units"] if unit["positive"]]
        data = [
            [[cell, unit["links"] if c == 0 else []] for c, cell in enumerate(unit["cells"])]
            for unit in each["sk_units"]
        ]
        stored = {"title": table["title"], "header": [[name, []] for name in table["header"]], "data": data}
        (tmp_path / "traindev_tables_tok" / f"{table['id'].replace('/', '_')}.json").write_text(json.dumps(stored))
        passages = {unit["link"]: unit["text"] for unit in each["text_units"]}
        (tmp_path / "traindev_request_tok" / f"{table['id'].replace('/', '_')}.json").write_text(json.dumps(passages))
        node = [each["answers"][0], [row["order"], 0], passage["link"], "passage"]
        asked.append(
            {
                "question_id": each["provenance"]["source_id"],
                "question": each["question"],
                "table_id": table["id"].replace("/", "_"),
                "answer-text": each["answers"][0],
                "answer-node": [node],
            }
        )
    (tmp_path / "dev.traced.json").write_text(json.dumps(asked))
    made = hybridqa.make(tmp_path / "dev.traced.json", tmp_path, tmp_path / "out")
    assert len(known) == 168 and made["hybridqa"] > 120  # of 168; the wording filter here is the stricter one
    release = read(tmp_path / "out")
    for each in release.instances:
        expected = known[each.id]
        assert list(each.positive_sk) == [n for n, unit in enumerate(expected["sk_units"]) if unit["positive"]]
        [text] = [unit["text"] for unit in expected["text_units"] if unit["positive"]]
        assert [release.pools["table_text"].text[n][1] for n in each.positive_text] == [text.strip()]


def test_hybridqa_refuses_another_folder_and_malformed_questions(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="tables_tok/ and request_tok/"):
        hybridqa.make(tmp_path / "dev.traced.json", tmp_path, tmp_path / "out")
    for folder in ("tables_tok", "request_tok"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.json").write_text("{}")
    (tmp_path / "dev.traced.json").write_text('[{"question_id": "q1", "table_id": "t"}]')
    with pytest.raises(DataError, match="q1: question or table is malformed"):
        hybridqa.make(tmp_path / "dev.traced.json", tmp_path, tmp_path / "out")
