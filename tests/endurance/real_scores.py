"""The real per-example scores of the four benchmarks: what intervals and tests are measured on."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.text2kgbench.benchmark import DBPEDIA_WEBNLG, WIKIDATA_TEKGEN
from kbbench_hf.building.text2kgbench.release import build_dbpedia_webnlg, build_wikidata_tekgen
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.answers import score_answers
from kbbench_hf.metrics.generative_re import completeness, count_pairs, factualness, granularity
from kbbench_hf.metrics.ranking import measure
from kbbench_hf.metrics.ranks import locate, number_ids, rank
from kbbench_hf.retrieval.bm25 import BM25
from tests.golden.text2kg_runs import RUNS, responses

Column = NDArray[np.float64]


class Population(NamedTuple):
    """One system's scores on all examples of a benchmark; samples are drawn from them, and their mean is the truth."""

    benchmark: str
    examples: str
    """Which: systems on the same examples, in the same order, share it."""
    system: str
    metric: str
    values: Column
    groups: list[str] | None = None
    weights: Mapping[str, float] | None = None

    @property
    def name(self) -> str:
        """The row of a table."""
        return f"{self.examples} {self.system}"


def populations(shared: Path, place: Path) -> Iterator[Population]:
    """Yield the headline metrics of every system at hand; datasets are built in `place`."""
    yield from text2kgbench(shared / "data/text2kgbench", place)
    yield from stark(shared / "data/stark")
    yield from genres(shared / "data/genres")
    yield from ska(shared / "data/ska_open")


def text2kgbench(release: Path, place: Path) -> Iterator[Population]:
    """Yield the seven metrics of the published runs, with their ontologies."""
    benchmarks = {
        "wikidata_tekgen": (WIKIDATA_TEKGEN, build_wikidata_tekgen, None),
        "dbpedia_webnlg": (DBPEDIA_WEBNLG, build_dbpedia_webnlg, {"1_university": 2.0}),
    }
    for run in RUNS:
        benchmark, build, weights = benchmarks[run.dataset]
        folder = place / run.dataset
        if not folder.exists():
            build(release, folder, ["sentences", "ontologies"])
        examples = benchmark.data.load(DatasetFolder(folder), "sentences", run.split)
        answers = {row["id"]: row["triples"] for _, rows in responses(release, run) for row in rows}
        scores = benchmark.scoring.score(examples, [answers.get(name) for name in examples.ids], "reference")
        groups = [str(name) for name in scores.slices["ontology"]]
        for metric in list(scores.values)[:7]:
            name = f"{run.dataset}/{run.split}"
            yield Population("Text2KGBench", name, run.model, metric, scores.values[metric], groups, weights)


def stark(folder: Path) -> Iterator[Population]:
    """Yield the scores of ada-002's rankings of the human questions, and of BM25's on a slice of Prime."""
    for name in ("amazon", "mag", "prime"):
        ranked = {row["query_id"]: json.loads(row["pred_rank"]) for row in _table(_ada_002(folder / name))}
        asked = _table(folder / name / "stark_qa" / "stark_qa_human_generated_eval.csv")
        gold = [json.loads(row["answer_ids"]) for row in asked]
        yield from _of_rankings(f"{name}/human", "ada-002", [ranked[row["id"]] for row in asked], gold)
    part = folder / "prime" / "ibd_subgraph"
    nodes, questions = _table(part / "nodes.csv"), _table(part / "stark_qa_covered.csv")
    gold = [json.loads(row["answer_ids"]) for row in questions]
    ids = np.array([int(next(iter(row.values()))) for row in nodes])
    texts = [" ".join(list(row.values())[1:]) for row in nodes]
    for system, shown in (("BM25", texts), ("BM25 on names", [text[:80] for text in texts])):
        found = BM25(shown).search([row["query"] for row in questions], len(nodes)).ids
        yield from _of_rankings("prime slice", system, ids[found].tolist(), gold)


def _ada_002(folder: Path) -> Path:
    return folder / "avatar_vss_ada002" / "eval_results_human_generated_eval.csv"


def _of_rankings(
    examples: str, system: str, rankings: Sequence[Sequence[int]], gold: Sequence[Sequence[int]]
) -> Iterator[Population]:
    ranked, answers = number_ids(rankings, gold)
    for metric, values in measure(
        locate(rank(ranked), answers), ["hit_at_1", "hit_at_5", "recall_at_20", "mrr"]
    ).items():
        yield Population("STaRK", examples, system, metric, values)


def genres(folder: Path) -> Iterator[Population]:
    """Yield what the stored verdicts, cosines and votes give.

    Uniqueness and topical similarity need models; the human study has the authors' own per document.
    """
    for file in sorted((folder / "outputs").glob("*.json")):
        sample, system = "_".join(file.stem.split("_")[:3]), "_".join(file.stem.split("_")[3:-1])
        if system == "groundtruth":
            continue
        answers, columns = _read(file), {}
        silent = np.array([not predicted for predicted in answers.values()])
        verdicts = folder / "stored_verdicts" / "factualness" / file.name
        if verdicts.is_file():
            judged = [[float(each) for each in row["results"]] for row in _read(verdicts).values()]
            columns["factualness"] = np.array(factualness(judged, empty=0.0))
        splits = folder / "stored_verdicts" / "granularity" / file.name
        if splits.is_file() and (stored := _read(splits)):
            counts = [[count_pairs(reply) for reply in row.values()] for row in stored.values()]
            columns["granularity"] = np.array(granularity(counts, empty=np.nan))
        cosines = folder / "stored_cosines" / f"{sample}_{system}.json"
        if cosines.is_file():
            best = _read(cosines)
            found = [np.array(list(best[t].values())) if p and best.get(t) else None for t, p in answers.items()]
            columns["completeness"] = np.where(silent, 0.0, completeness(found, 0.95))
        for metric, values in columns.items():
            yield Population("GenRES", sample, system, metric, np.asarray(values, dtype=np.float64))
    study: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in _table(folder / "human_study" / "pairs.csv"):
        for side in "ab":
            if row["metric"] in {"US", "TS"} and row[f"score_{side}"]:
                study[row["metric"], row[side]][row["sample"] + row["id"]] = float(row[f"score_{side}"])
    names = {"US": "uniqueness", "TS": "topical_similarity"}
    for (metric, system), scores in study.items():
        if len(scores) >= 40:
            values = np.array([scores[name] for name in sorted(scores)])
            yield Population("GenRES", "human study", system, names[metric], values)


def ska(folder: Path) -> Iterator[Population]:
    """Yield answer F1 of two rules: say what the marked evidence says, and say what resembles the question."""
    for file in ("wtq_table", "hybridqa_table_text", "kg_path"):
        with (folder / f"{file}.jsonl").open(encoding="utf-8") as source:
            rows = [json.loads(line) for line in source]
        for system, rule in (("evidence", _say_the_evidence), ("resemblance", _say_what_resembles)):
            found = score_answers([rule(row) for row in rows], [row["answers"] for row in rows], "squad")
            yield Population("SKA-Bench", file, system, "answer_f1", np.asarray(found["answer_f1"], dtype=np.float64))


def _say_the_evidence(row: Mapping[str, Any]) -> list[str]:
    if "positive_triples" in row:
        return list(dict.fromkeys(end for h, _, t in row["positive_triples"] for end in (h, t)))[-3:]
    asked = set(row["question"].lower().split())
    header = [set(str(name).lower().split()) for name in row["table"]["header"]]
    column = max(range(len(header)), key=lambda position: len(header[position] & asked))
    return [unit["cells"][column] for unit in row["sk_units"] if unit["positive"]]


def _say_what_resembles(row: Mapping[str, Any]) -> list[str]:
    asked = set(row["question"].lower().split())
    if "positive_triples" in row:
        return [tail for head, relation, tail in row["positive_triples"] if set(relation.split("_")) & asked]
    best = max(row["sk_units"], key=lambda unit: len(asked & set(" ".join(unit["cells"]).lower().split())))
    return [cell for cell in best["cells"] if cell and cell.lower() not in row["question"].lower()][:2]


def pairs(found: Sequence[Population]) -> Iterator[tuple[Population, Population]]:
    """Yield the pairs of neighbouring systems on the same examples and metric."""
    of_examples: dict[tuple[str, str, str], list[Population]] = defaultdict(list)
    for each in found:
        of_examples[each.benchmark, each.examples, each.metric].append(each)
    for systems in of_examples.values():
        for a, b in pairwise(systems):
            if len(a.values) == len(b.values):
                yield a, b


def _table(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as source:
        return list(csv.DictReader(source))


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
