"""What a finished dataset is held to: its own gold, written as a model would, must score as perfect."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.text2kgbench.benchmark import read_careful, score, summarise
from kbbench_hf.benchmarks.text2kgbench.material import Material, gold_triples
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import DatasetFolder, Row
from kbbench_hf.metrics.triples import Triple, underscored


def measure(ontology: Row, splits: Mapping[str, Sequence[Row]]) -> dict[str, float]:
    """Return what answers that need no model score on the test split in `reference`, by name.

    - `oracle f1`, `oracle conformance`: gold, written as the prompts ask for it and read as answers are.
    - `gold subjects not found`, `gold objects not found`: what the hallucination metrics say of gold: their floor.
    - `copy f1`: the triples of the most similar train sentence.

    Raises:
        DataError: gold does not score as perfect; the message has a row of which a part is lost.
    """
    rows = splits.get("test") or next(iter(splits.values()))
    relations = [underscored(each["label"]) for each in ontology["relations"]]
    asked = [{**row, "relations": relations} for row in rows]
    examples = Examples(asked, Material(DatasetFolder(Path()), {ontology["ontology_id"]: ontology}))
    answers = [_answer(row) for row in asked]
    oracle = _figures(examples, answers)
    if oracle["f1"] < 1 or oracle["ontology_conformance"] < 1:
        wrong = next(row for row, answer in zip(asked, answers, strict=True) if {*answer} != {*_written(row)})
        raise DataError(
            f"The triples of {wrong['id']!r}, written as an answer, are read as {_answer(wrong)}, not as "
            f"{_written(wrong)}: no model could score on it. Write its names without line ends, brackets and quotes."
        )
    train = {row["id"]: row for row in splits.get("train", ())}
    copied = _figures(examples, [_written(train[row["similar_ids"][0]]) if row["similar_ids"] else [] for row in asked])
    return {
        "oracle f1": oracle["f1"],
        "oracle conformance": oracle["ontology_conformance"],
        "gold subjects not found": oracle["subject_hallucination"],
        "gold objects not found": oracle["object_hallucination"],
        "copy f1": copied["f1"],
    }


def _written(row: Row) -> list[Triple]:
    return [(subject, underscored(relation), obj) for subject, relation, obj in gold_triples(row)]


def _answer(row: Row) -> list[Triple]:
    parts = [dict(zip(("subject", "relation", "object"), triple, strict=True)) for triple in _written(row)]
    return read_careful(json.dumps({"triples": parts}, ensure_ascii=False), row).answer


def _figures(examples: Examples, answers: Sequence[Sequence[Triple]]) -> dict[str, float]:
    return {
        metric: found.value for metric, found in summarise(score(examples, answers, "reference"), "reference").items()
    }
