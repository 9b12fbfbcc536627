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
        DataError: the gold of a row of any split, written so, is not read back; the message has both.
    """
    relations = [underscored(each["label"]) for each in ontology["relations"]]
    for row in (row for rows in splits.values() for row in rows):
        if (answer := _answer({**row, "relations": relations})) != _written(row):
            raise DataError(
                f"The triples of {row['id']!r}, written as an answer, are read as {answer}, not as {_written(row)}: no "
                "model could score on it. Write their names without line ends and quotes."
            )
    asked = [{**row, "relations": relations} for row in splits.get("test") or next(iter(splits.values()))]
    examples = Examples(asked, Material(DatasetFolder(Path()), {ontology["ontology_id"]: ontology}))
    oracle = _figures(examples, [_answer(row) for row in asked])
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
