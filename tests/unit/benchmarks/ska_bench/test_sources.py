"""Instances made from public sources: laid out as their repositories are, with real content."""

import json
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks.ska_bench.construction import hybridqa, tekgen
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
