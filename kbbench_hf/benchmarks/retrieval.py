"""Retrieval benchmarks on knowledge bases: loading, scoring and warnings, for released and users' own ones.

`retrieval_benchmark` makes the benchmarks of released and of users' own knowledge bases; exports and other tools use
`grades_of`. Published scores rest on mode `reference`, whose order of ties and treatment of gold outside the candidates
must stay, as must the keys of metrics and slices, which results store.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kbbench_hf.addresses import on_request
from kbbench_hf.benchmarks.answers import IDS, Id
from kbbench_hf.benchmarks.base import Asking, Benchmark, Data, Examples, Facts, Scores, Scoring, Showing
from kbbench_hf.benchmarks.reviews import QUERY_QUESTIONS
from kbbench_hf.benchmarks.warnings import ScoreWarning, Severity
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import RELEVANCE, DatasetFolder
from kbbench_hf.metrics.aggregate import Estimate, estimate
from kbbench_hf.metrics.ranking import MODES, Mode, graded_ndcg, lower_bounds, measure
from kbbench_hf.metrics.ranks import locate, number_ids, rank

if TYPE_CHECKING:
    from kbbench_hf.knowledge_base.documents import Rendering

METRICS = {
    "hit_at_1": "Hit@1",
    "hit_at_5": "Hit@5",
    "recall_at_20": "R@20",
    "mrr": "MRR",
    **{f"hit_at_{k}": f"Hit@{k}" for k in (3, 10, 20, 50)},
    **{f"recall_at_{k}": f"R@{k}" for k in (5, 10, 50, 100)},
    "map": "MAP",
    "r_precision": "R-Prec",
    "ndcg_at_10": "nDCG@10",
}
"""The four metrics of published tables, the others of the authors' scripts, and nDCG."""
HEADLINE = ("hit_at_1", "hit_at_5", "recall_at_20", "mrr")
"""The four metrics of published tables."""
HEADLINE_DEPTH = 20
"""The deepest cut-off among the headline metrics: that of R@20."""
NODES = "data/nodes/full.parquet"
WRITTEN = ("train", "validation", "test")
"""The splits of the synthesized questions; `all` is the three together. `test_0_1` is a tenth of `test`."""


@dataclass(frozen=True)
class Candidates:
    """The ids that may be ranked, with their types where the knowledge base is local."""

    ids: Collection[Id]
    types: Mapping[Id, str] | None = None
    one_type: str = ""
    """The type of all candidates, where `types` is None and the benchmark ranks nodes of one type."""


@dataclass(frozen=True)
class RetrievalContext:
    """The candidates, and the training questions of each answer."""

    folder: Path
    """The folder of the dataset."""
    candidates: Candidates
    trained: Mapping[Id, AbstractSet[Id]]
    """Answer -> ids of the training questions that have it."""


def _load(
    folder: DatasetFolder, config: str, split: str, *, known: range | None, candidate_types: frozenset[str] | None
) -> Examples:
    """Return the questions of a split, each with the name of the split that it is from; `all` is three splits."""
    there = folder.configs().get(config, [])
    if split == "test_0_1" and split not in there:
        raise UsageError(
            f"{folder.path} was built from files without the list of the test_0_1 split, which only the Hub's copy of "
            "the release has. Score split 'test', or build again without --source."
        )
    chosen = [name for name in WRITTEN if name in there] if split == "all" else [split]
    rows = [{**row, "split": name} for name in chosen for row in folder.rows(config, name)]
    trained: dict[Id, set[Id]] = {}
    for row in folder.rows(config, "train") if "train" in there else ():
        for answer in row["answer_ids"]:
            trained.setdefault(answer, set()).add(row["id"])
    return Examples(rows, RetrievalContext(folder.path, _candidates(folder, known, candidate_types), trained))


def _candidates(folder: DatasetFolder, known: range | None, candidate_types: frozenset[str] | None) -> Candidates:
    """Return the nodes of the candidate types; `known` where the nodes are not local."""
    if not folder.path.joinpath(NODES).is_file():
        if known is not None and candidate_types is not None and len(candidate_types) == 1:
            return Candidates(known, None, *candidate_types)
        if "nodes" not in folder.configs():
            if known is None:
                raise UsageError(
                    f"{folder.path} holds no nodes; expected a knowledge base to rank. Build it with --nodes."
                )
            return Candidates(known)
    import pyarrow.parquet as pq

    file = pq.ParquetFile(folder.file(NODES), read_dictionary=["type"])  # read_table would import pandas
    nodes = file.read(["id", "type"]).to_pydict()
    types = {
        node: kind
        for node, kind in zip(nodes["id"], nodes["type"], strict=True)
        if candidate_types is None or kind in candidate_types
    }
    return Candidates(types.keys(), types)


def _check(examples: Examples, example_id: Id, answer: Sequence[Id]) -> str | None:
    """Return the problem of a ranking, or None."""
    candidates = examples.context.candidates.ids
    seen = set()
    for position, name in enumerate(answer, start=1):
        if name not in candidates:
            return f"{name!r} at position {position} is not one of the {len(candidates):,} candidates"
        if name in seen:
            return f"{name!r} occurs twice, the second time at position {position}"
        seen.add(name)
    return None


def _score(examples: Examples, answers: Sequence[Sequence[Id] | None], mode: str) -> Scores:
    """Score rankings of any length.

    A ranking without some answers leaves their ranks open, and so `mrr` or `map`: such values are NaN, and
    `lower_bounds` counts answers beyond the ranking as ranked last. In mode `standard`, which has trec_eval's
    definitions, they were not retrieved and contribute nothing.

    Differs from upstream: its evaluator gives candidates without a score an arbitrary order behind the others.
    """
    candidates = examples.context.candidates
    released = [row["answer_ids"] for row in examples.rows]
    reference = mode == "reference"
    gold = [[name for name in each if name in candidates.ids] for each in released] if reference else released
    grades = [grades_of(row) for row in examples.rows]
    steps = sorted({grade for each in grades for grade in each.values()}) or [1]
    levels = [
        [[name for name in each if of[name] >= step] for each, of in zip(gold, grades, strict=True)] for step in steps
    ]
    ranked, *numbered = number_ids([answer or [] for answer in answers], *levels)
    top = rank(ranked)
    n_candidates = len(candidates.ids) if reference else None
    missing: Literal["zero"] | None = None if reference else "zero"
    located = [locate(top, each, missing=missing, n_candidates=n_candidates) for each in numbered]
    ranks = located[0]
    of_mode: Mode = "reference" if reference else "standard"
    values, least = measure(ranks, list(METRICS), of_mode), lower_bounds(ranks, list(METRICS), of_mode)
    if steps != [1]:
        gains = np.diff([0, *steps])
        values["ndcg_at_10"], least["ndcg_at_10"] = graded_ndcg([*zip(gains, located, strict=True)], 10, of_mode)
    open_queries = np.isnan(list(values.values())).any(axis=0)
    return Scores(
        values=values,
        slices=_slices(examples),
        counters={
            "n_empty": sum(answer is not None and not answer for answer in answers),
            "n_empty_gold": int((ranks.n_gold == 0).sum()),
            "n_not_candidates": sum(name not in candidates.ids for each in released for name in set(each)),
            "n_not_determined": int(open_queries.sum()),
        },
        at_least={metric: least[metric] for metric in METRICS if np.isnan(values[metric]).any()},
    )


def grades_of(row: Mapping[str, Any]) -> dict[Id, int]:
    """Return the grade of relevance of each gold node, 1 where the queries have none."""
    gold: list[Id] = row["answer_ids"]
    grades = row.get(RELEVANCE)
    if not isinstance(grades, list) or len(grades) != len(gold):  # older datasets may use the name for other columns
        return dict.fromkeys(gold, 1)
    return dict(zip(gold, grades, strict=True))


def _summarise(scores: Scores, mode: str) -> Mapping[str, Estimate]:
    """Return means in which an undetermined value counts as its lower bound, and as unscored.

    Otherwise a mean would leave out exactly the questions whose answers have low ranks.
    """
    estimates = {}
    for metric in METRICS:
        n_open = int(np.isnan(scores.values[metric]).sum())
        found = estimate(scores.compared(metric))
        estimates[metric] = found._replace(n_scored=found.n_scored - n_open, n_unscored=n_open)
    return estimates


_LATER = {
    True: "an answer that is in none of these ranks counts as ranked last",
    False: "what would come later counts as not found",
}


def _warn(
    benchmark: Benchmark, examples: Examples, answers: Sequence[Sequence[Id] | None], mode: str
) -> list[ScoreWarning]:
    """Return warnings on cut-offs above the number of candidates, short rankings, and undetermined MRR and MAP."""
    n_candidates, found = len(examples.context.candidates.ids), list[ScoreWarning]()
    if left_out := DatasetFolder(examples.context.folder).left_out:
        remedy = "See 'Left out' on the card of the dataset."
        message = f"Left out of the knowledge base: {' '.join(left_out)}"
        found.append(ScoreWarning("left_out", message, remedy, severity="note"))
    if any(grade != 1 for row in examples.rows for grade in grades_of(row).values()):
        message = "The gold has grades: nDCG@10 uses them (linear gain), all other metrics count grade 1 and above."
        found.append(ScoreWarning("graded", message, severity="note"))
    trivial = [
        metric
        for metric in METRICS
        if metric.startswith(("hit_at_", "recall_at_")) and int(metric.rpartition("_")[2]) >= n_candidates
    ]
    if trivial:
        names = ", ".join(METRICS[metric] for metric in trivial)
        whole = "every ranking that is not empty" if mode == "reference" else "every ranking of all candidates"
        message = f"There are {n_candidates:,} candidates: {names} are 1 for {whole}, and cannot separate systems."
        rest = [METRICS[metric] for metric in ("hit_at_1", "hit_at_3", "mrr") if metric not in trivial]
        severity: Severity = "note" if set(HEADLINE).isdisjoint(trivial) else "warning"
        remedy = f"Compare systems by {' or '.join(rest)}."
        found.append(ScoreWarning("trivial_cutoffs", message, remedy, severity=severity))
    depth = min(HEADLINE_DEPTH, n_candidates)
    shallow = [len(answer) for answer in answers if answer and len(answer) < depth]
    if shallow:
        message = (
            f"{len(shallow):,} of {len(answers):,} rankings end before rank {depth}, the longest of these at "
            f"{max(shallow)}; {_LATER[mode == 'reference']}."
        )
        found.append(ScoreWarning("shallow_rankings", message, f"Rank at least {depth} candidates.", len(shallow)))
    pairs = list(zip(examples.rows, answers, strict=True))
    n_open = sum(
        bool(answer) and len(answer or ()) < n_candidates and not set(row["answer_ids"]) <= set(answer or ())
        for row, answer in pairs
    )
    if n_open:
        longest = max(len(answer or ()) for answer in answers)
        n_without = sum(bool(answer) and set(row["answer_ids"]).isdisjoint(answer or ()) for row, answer in pairs)
        message = (
            f"MRR and MAP are at depth {longest:,}, the least that they can be: {n_open:,} of {len(answers):,} "
            f"rankings end before their last answer, {n_without:,} before their first."
        )
        remedy = f"Rank more of the {n_candidates:,} candidates (--top-k)."
        found.append(ScoreWarning("open_rankings", message, remedy, n_open, severity="note"))
    return found


def _slices(examples: Examples) -> dict[str, list[str]]:
    """Return the slice keys of each question: answers, seen in training, template, hops, difficulty, split."""
    rows, context = examples.rows, examples.context
    nobody: frozenset[Id] = frozenset()
    slices = {"answer_count": [_bucket(len(set(row["answer_ids"]))) for row in rows]}
    if context.candidates.types is not None or context.candidates.one_type:
        slices["answer_type"] = [_type(row["answer_ids"], context.candidates) for row in rows]
    if context.trained:
        slices["answer_in_training"] = [
            str(any(context.trained.get(name, nobody) - itself for name in row["answer_ids"])).lower()
            for row in rows
            for itself in [frozenset({row["id"]} if row["split"] == "train" else ())]
        ]
    for name in ("template", "hops", "difficulty"):
        if any(row.get(name) for row in rows):
            slices[name] = [str(row.get(name) or "unknown") for row in rows]
    if len({row["split"] for row in rows}) > 1:
        slices["split"] = [row["split"] for row in rows]
    return slices


def _bucket(n: int) -> str:
    """Return the bucket of a number of answers.

    >>> [_bucket(n) for n in (0, 1, 2, 5, 6, 20, 21)]
    ['0', '1', '2-5', '2-5', '6-20', '6-20', '21+']
    """
    return str(n) if n < 2 else "2-5" if n <= 5 else "6-20" if n <= 20 else "21+"


def _type(answers: Sequence[Id], candidates: Candidates) -> str:
    """Return the type of the answers that are candidates; "several" or "none" where there is not one."""
    one, types = candidates.one_type, candidates.types or {}
    found = {one or types[name] for name in answers if name in candidates.ids}
    return found.pop() if len(found) == 1 else "several" if found else "none"


def retrieval_benchmark(
    facts: Facts,
    splits: tuple[str, ...],
    *,
    default_split: str = "test",
    known: range | None = None,
    candidate_types: frozenset[str] | None = None,
    documents: Mapping[str, Callable[[], "Rendering"]] | None = None,
    own_documents: str | None = None,
    published: Path | None = None,
    **data: Any,
) -> Benchmark:
    """Return the benchmark of a knowledge base with questions.

    Args:
        facts: see `base`, as for all that is not described here.
        splits: the splits of the questions.
        default_split: one of them.
        known: the candidates' ids, where they are known without the knowledge base.
        candidate_types: the node types that may be ranked; all where None.
        documents: see `base.Asking`.
        own_documents: see `base.Asking`.
        published: see `base.Showing`.
        data: further fields of `base.Data`.
    """
    return Benchmark(
        facts,
        Data(
            ("queries",),
            splits,
            default_split,
            partial(_load, known=known, candidate_types=candidate_types),
            audit=on_request("kbbench_hf.building.retrieval_audit:audit"),
            review=on_request("kbbench_hf.building.retrieval_audit:review_items"),
            review_questions=QUERY_QUESTIONS,
            **data,
        ),
        Scoring(IDS, METRICS, MODES, _score, _summarise, check=_check, warn=_warn, headline=HEADLINE),
        Asking(documents=documents or {}, own_documents=own_documents),
        Showing(
            on_request("kbbench_hf.benchmarks.retrieval_statistics:explain"),
            published=published,
            statistics=on_request("kbbench_hf.benchmarks.retrieval_statistics:statistics"),
            names=Path(__file__).with_name("retrieval_names.toml"),
        ),
    )
