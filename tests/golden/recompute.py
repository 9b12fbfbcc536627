"""Every published figure that can be computed again from released answers: `python -m tests.golden.recompute --write`.

It writes `recomputed.csv`, a line per figure at full precision, from which the site says which published figures are
exact. Read are Text2KGBench's answers (cenguix/Text2KGBench at 50a3d25), GenRES's answers, verdicts and cosines
(pat-jj/GenRES at 7824249, cosines at c0968af), and STaRK's ada-002 rankings of the human-written questions
(zou-group/avatar), at `$KBBENCH_SHARED/data`.
"""

import contextlib
import csv
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.base import TaskKey
from kbbench_hf.benchmarks.baselines import published_places, published_rows
from kbbench_hf.benchmarks.genres.topic_corpora import ANSWERED
from kbbench_hf.metrics.generative_re import (
    completeness,
    count_pairs,
    factualness,
    granularity,
    hard_match,
    tokens_per_triple,
    triples_per_document,
)
from kbbench_hf.metrics.ranking import lower_bounds
from kbbench_hf.metrics.ranks import IdLists, locate, rank
from kbbench_hf.scoring.score import score
from kbbench_hf.text.tokens import tokenize

FILE = Path(__file__).with_name("recomputed.csv")
COLUMNS = ("benchmark", "config", "split", "mode", "system", "slice", "metric", "value")


class Recomputed(NamedTuple):
    """A figure as it comes out here; `part` is `ontology=1_movie`, say, and empty for the whole."""

    place: TaskKey
    system: str
    part: str
    metric: str
    value: float


def text2kg(release: Path, folder: Path) -> Iterator[Recomputed]:
    """Yield the figures of the published answers, scored in each mode in which figures of theirs were published."""
    with contextlib.chdir(folder):
        for name in ("text2kg-wikidata-tekgen", "text2kg-dbpedia-webnlg"):
            found = benchmark(name)
            assert found.data.build is not None
            found.data.build(release, Path("kbbench") / name, None)
            for place in (each for each in published_places() if each.benchmark == name):
                for row in published_rows(*place):
                    result = score(f"published:{row.system}", name, split=place.split, mode=place.mode)
                    for metric in row.figures:
                        yield Recomputed(place, row.system, "", metric, result.scores[metric].value)
                    for slice_name, keys in row.slices.items():
                        for key, figures in keys.items():
                            scores = result.slices[slice_name][key]
                            part = f"{slice_name}={key}"
                            yield from (Recomputed(place, row.system, part, m, scores[m].value) for m in figures)


def stark(data: Path) -> Iterator[Recomputed]:
    """Yield ada-002's figures on the human-written questions; Prime's were printed of 98 that the release has not."""
    csv.field_size_limit(1 << 24)
    for name, n_candidates in (("amazon", 957_192), ("mag", 700_244)):
        with (data / name / "avatar_vss_ada002/eval_results_human_generated_eval.csv").open(encoding="utf-8") as lines:
            run = list(csv.DictReader(lines))
        with (data / name / "stark_qa/stark_qa_human_generated_eval.csv").open(encoding="utf-8") as lines:
            gold = {row["id"]: json.loads(row["answer_ids"]) for row in csv.DictReader(lines)}
        ranked = rank(IdLists.of([json.loads(row["pred_rank"]) for row in run]))
        wanted = IdLists.of([gold[row["query_id"]] for row in run])
        ranks = locate(ranked, wanted, missing=None, n_candidates=n_candidates)
        place = TaskKey(f"stark-{name}", "queries", "human", "reference")
        for metric, values in lower_bounds(ranks, ["hit_at_1", "hit_at_5", "recall_at_20", "mrr"]).items():
            yield Recomputed(place, "ada-002", "", metric, float(values.mean()))


def genres(release: Path) -> Iterator[Recomputed]:
    """Yield what stored answers, verdicts and cosines give of the published rows."""
    stored = dict(_genres(release))
    for place in (each for each in published_places() if each.benchmark == "genres-corpora"):
        for row in published_rows(*place):
            for metric in row.figures:
                value = stored.get((place.config, ANSWERED[row.system], metric), math.nan)
                if not math.isnan(value):
                    yield Recomputed(place, row.system, "", metric, value)


def _genres(release: Path) -> Iterator[tuple[tuple[str, str, str], float]]:
    count = lru_cache(None)(lambda text: len(tokenize(text, "3.9")))
    outputs = {_key(file.stem): _read(file) for file in sorted((release / "outputs").glob("*.json"))}
    for key, stored in outputs.items():
        answers = list(stored.values())
        yield (*key, "triples_per_document"), float(triples_per_document(answers).mean())
        yield (*key, "tokens_per_triple"), float(tokens_per_triple(answers, count, empty=0.0).mean())
    gold = _read(release / "inputs/cdr_processed.json")
    for key, stored in outputs.items():
        if key[0] == "cdr":
            wanted = [gold[text] for text in stored]
            values = np.nanmean(hard_match(list(stored.values()), wanted, empty=math.nan), axis=1)
            yield from (((*key, m), float(v)) for m, v in zip(("precision", "recall", "f1"), values, strict=True))
    for file in sorted((release / "stored_verdicts/factualness").glob("*.json")):
        verdicts = [[float(verdict) for verdict in row["results"]] for row in _read(file).values()]
        key = _key(file.stem) if "details" not in file.stem else (file.stem.split("_")[0], "groundtruth")
        yield (*key, "factualness"), float(np.mean(factualness(verdicts, empty=0.0)))
    for file in sorted((release / "stored_verdicts/granularity").glob("*.json")):
        splits = [[count_pairs(reply) for reply in row.values()] for row in _read(file).values()]
        if splits:
            yield (*_key(file.stem), "granularity"), float(np.nanmean(granularity(splits, empty=math.nan)))
    for file in sorted((release / "stored_cosines").glob("*.json")):
        key, cosines = _key(f"{file.stem}_1"), _read(file)
        found = [
            np.array(list(cosines[text].values())) if predicted and cosines.get(text) else None
            for text, predicted in outputs[key].items()
        ]
        silent = np.array([not predicted for predicted in outputs[key].values()])
        scores = np.where(silent, 0.0, completeness(found, 0.95))
        yield (*key, "completeness"), float(np.nanmean(scores))


def _key(stem: str) -> tuple[str, str]:
    """`cdr_rand_200_gpt-4_1` -> (`cdr`, `gpt-4`)."""
    parts = stem.split("_")
    return parts[0], "_".join(parts[3:-1])


@lru_cache(1)
def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def recomputed(data: Path, folder: Path) -> Iterator[Recomputed]:
    """Yield all figures; datasets are built in a folder."""
    yield from stark(data / "stark")
    yield from text2kg(data / "text2kgbench", folder)
    yield from genres(data / "genres")


def read(file: Path = FILE) -> dict[tuple[TaskKey, str, str, str], float]:
    """Return (place, system, part, metric) -> value of a file that this wrote."""
    with file.open(encoding="utf-8", newline="") as lines:
        return {
            (TaskKey(*(row[column] for column in COLUMNS[:4])), row["system"], row["slice"], row["metric"]): float(
                row["value"]
            )
            for row in csv.DictReader(lines)
        }


if __name__ == "__main__" and "--write" in sys.argv:
    shared = Path(os.environ.get("KBBENCH_SHARED", "../shared")).resolve() / "data"
    with tempfile.TemporaryDirectory() as built, FILE.open("w", encoding="utf-8", newline="") as out:
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(COLUMNS)
        lines.writerows((*each.task_key, *each[1:4], repr(each.value)) for each in recomputed(shared, Path(built)))
