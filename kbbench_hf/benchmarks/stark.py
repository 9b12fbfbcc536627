"""STaRK: rank the nodes of a semi-structured knowledge base for a question (Wu et al., NeurIPS 2024).

A user's own knowledge base with questions is the same benchmark with other nodes: `own_knowledge_base`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from kbbench_hf.benchmarks.base import Benchmark, Examples, Scores
from kbbench_hf.dataset_folder import DatasetFolder
from kbbench_hf.errors import UsageError
from kbbench_hf.metrics.aggregate import Estimate, estimate
from kbbench_hf.metrics.id_lists import number_ids
from kbbench_hf.metrics.ranking import MODES, Mode, at_least, measure
from kbbench_hf.metrics.ranks import locate, rank

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
"""The four of the paper's tables, then the rest of what STaRK's eval.py writes, and nDCG."""

WRITTEN = ("train", "validation", "test")
"""The splits that share out the questions; `all` is the three together. `test_0_1` is a tenth of `test`."""


@dataclass(frozen=True)
class Candidates:
    """What may be ranked, and of which type each candidate is where the knowledge base is at hand."""

    ids: Collection[int] | Collection[str]
    types: Mapping[int, str] | Mapping[str, str] | None = None


@dataclass(frozen=True)
class Context:
    """What scoring needs once: the candidates, and in which training questions each answer stands."""

    candidates: Candidates
    trained: Mapping[Any, frozenset[Any]]
    """Answer -> ids of the training questions that have it."""


def _load(
    folder: DatasetFolder, config: str, split: str, *, known: range | None, candidate_types: frozenset[str] | None
) -> Examples:
    there = folder.configs().get(config, [])
    if split == "test_0_1" and split not in there:
        raise UsageError(
            f"{folder.path} was built from files without the list of the test_0_1 split, which only the Hub's copy of "
            "the release has. Score split 'test', or build again without --source."
        )
    chosen = [name for name in WRITTEN if name in there] if split == "all" else [split]
    rows = [{**row, "split": name} for name in chosen for row in folder.rows(config, name)]
    trained: dict[Any, set[Any]] = {}
    if "train" in there:
        for row in folder.rows(config, "train"):
            for answer in row["answer_ids"]:
                trained.setdefault(answer, set()).add(row["id"])
    context = Context(
        _candidates(folder, known, candidate_types),
        {answer: frozenset(questions) for answer, questions in trained.items()},
    )
    return Examples(rows, context)


def _candidates(folder: DatasetFolder, known: range | None, candidate_types: frozenset[str] | None) -> Candidates:
    """Return the nodes of the candidate types; `known` where the knowledge base was not built."""
    file = folder.path / "data" / "nodes" / "full.parquet"
    if not file.is_file():
        if known is None:
            raise UsageError(f"{folder.path} holds no nodes; expected a knowledge base to rank. Build it with --nodes.")
        return Candidates(known)
    nodes = pq.read_table(file, columns=["id", "type"], read_dictionary=["type"]).to_pydict()
    types = {
        node: kind
        for node, kind in zip(nodes["id"], nodes["type"], strict=True)
        if candidate_types is None or kind in candidate_types
    }
    return Candidates(types.keys(), types)


def _check(examples: Examples, example_id: Any, answer: Sequence[Any]) -> str | None:
    """Return what is wrong with a ranking, in words, or None."""
    candidates = examples.context.candidates.ids
    seen = set()
    for position, name in enumerate(answer, start=1):
        if name not in candidates:
            return f"{name!r} at position {position} is none of the {len(candidates):,} candidates"
        if name in seen:
            return f"{name!r} stands twice, the second time at position {position}"
        seen.add(name)
    return None


def _score(examples: Examples, answers: Sequence[Sequence[Any] | None], mode: str) -> Scores:
    """Score rankings, each cut off where it ends.

    A ranking that does not hold every answer leaves open where the others stand, and so `mrr` or `map`: such values are
    NaN, and `at_least` counts answers beyond the ranking as ranked last. In mode
    `standard` they were not retrieved and contribute nothing.

    Differs from upstream: its evaluator gives candidates without a score an arbitrary order behind the others.
    """
    candidates = examples.context.candidates
    released = [row["answer_ids"] for row in examples.rows]
    reference = mode == "reference"
    gold = [[name for name in each if name in candidates.ids] for each in released] if reference else released
    ranked, gold_ids = number_ids([answer or [] for answer in answers], gold)
    ranks = locate(
        rank(ranked),
        gold_ids,
        missing=None if reference else "zero",
        n_candidates=len(candidates.ids) if reference else None,
    )
    of_mode: Mode = "reference" if reference else "standard"
    values, least = measure(ranks, list(METRICS), of_mode), at_least(ranks, list(METRICS), of_mode)
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


def _summarise(scores: Scores, mode: str) -> Mapping[str, Estimate]:
    """Return means in which a value that is not determined counts as the least it can be, and as unscored.

    Without them a mean would leave out just the questions whose answers were ranked low.
    """
    figures = {}
    for metric in METRICS:
        column = scores.values[metric]
        n_open = int(np.isnan(column).sum())
        figure = estimate(scores.compared(metric))
        figures[metric] = figure._replace(n_scored=figure.n_scored - n_open, n_unscored=n_open)
    return figures


def _warn(benchmark: Benchmark, examples: Examples, answers: Sequence[Sequence[Any] | None]) -> list[str]:
    """Say how many rankings end before their last answer: they leave MRR and MAP open."""
    n_candidates = len(examples.context.candidates.ids)
    n_open = sum(
        bool(answer) and len(answer or ()) < n_candidates and not set(row["answer_ids"]) <= set(answer or ())
        for row, answer in zip(examples.rows, answers, strict=True)
    )
    if not n_open:
        return []
    return [
        f"{n_open:,} of {len(answers):,} rankings end before their last answer, which leaves MAP open, and MRR where "
        f"none is found: these count as the least they can be. Rank more of the {n_candidates:,} candidates (--top-k)."
    ]


def _slices(examples: Examples) -> dict[str, list[str]]:
    """Return the keys of each question: how many answers, of which type, seen in training, its template and split."""
    rows, context = examples.rows, examples.context
    nobody: frozenset[Any] = frozenset()
    slices = {"answer_count": [_bucket(len(set(row["answer_ids"]))) for row in rows]}
    if context.candidates.types is not None:
        slices["answer_type"] = [_type(row["answer_ids"], context.candidates.types) for row in rows]
    if context.trained:
        slices["answer_in_training"] = [
            str(any(context.trained.get(name, nobody) - itself for name in row["answer_ids"])).lower()
            for row in rows
            for itself in [frozenset({row["id"]} if row["split"] == "train" else ())]
        ]
    if rows and "template" in rows[0]:
        slices["template"] = [row["template"] or "unknown" for row in rows]
    if len({row["split"] for row in rows}) > 1:
        slices["split"] = [row["split"] for row in rows]
    return slices


def _bucket(n: int) -> str:
    """Return the bucket of a number of answers.

    >>> [_bucket(n) for n in (0, 1, 2, 5, 6, 20, 21)]
    ['0', '1', '2-5', '2-5', '6-20', '6-20', '21+']
    """
    return str(n) if n < 2 else "2-5" if n <= 5 else "6-20" if n <= 20 else "21+"


def _type(answers: Sequence[Any], types: Mapping[Any, str]) -> str:
    found = {types[name] for name in answers if name in types}
    return found.pop() if len(found) == 1 else "several" if found else "none"


def _benchmark(
    dataset: str,
    title: str,
    *,
    splits: tuple[str, ...],
    licence: str,
    known: range | None = None,
    candidate_types: frozenset[str] | None = None,
    default_split: str = "test",
    paper: str = "https://arxiv.org/abs/2404.13207",
    homepage: str = "https://stark.stanford.edu",
    citation: str = "",
) -> Benchmark:
    return Benchmark(
        dataset=dataset,
        title=title,
        paper=paper,
        homepage=homepage,
        licence=licence,
        citation=citation,
        configs=("queries",),
        splits=splits,
        default_split=default_split,
        modes=MODES,
        answer="ids",
        metrics=METRICS,
        load=partial(_load, known=known, candidate_types=candidate_types),
        score=_score,
        summarise=_summarise,
        warn=_warn,
        check=_check,
    )


CITATION = """\
@inproceedings{wu2024stark,
  title = {{STaRK}: Benchmarking {LLM} Retrieval on Textual and Relational Knowledge Bases},
  author = {Wu, Shirley and Zhao, Shiyu and Yasunaga, Michihiro and Huang, Kexin and Cao, Kaidi and Huang, Qian and
    Ioannidis, Vassilis N. and Subbian, Karthik and Zou, James and Leskovec, Jure},
  booktitle = {NeurIPS Datasets and Benchmarks Track},
  year = {2024}
}
"""
_RELEASED = partial(
    _benchmark, splits=(*WRITTEN, "test_0_1", "human", "all"), licence="cc-by-4.0 (questions)", citation=CITATION
)
AMAZON = _RELEASED(
    "stark-amazon",
    "STaRK-Amazon: product search",
    known=range(957_192),
    candidate_types=frozenset({"product"}),
)
MAG = _RELEASED(
    "stark-mag",
    "STaRK-MAG: academic paper search",
    known=range(1_172_724, 1_872_968),
    candidate_types=frozenset({"paper"}),
)
PRIME = _RELEASED("stark-prime", "STaRK-Prime: precision medicine inquiries", known=range(129_375))
MINI = _benchmark(
    "mini-stark", "mini-stark: STaRK in small", splits=("test",), licence="apache-2.0", paper="", homepage=""
)


def own_knowledge_base(name: str) -> Benchmark:
    """Return the benchmark of a user's own knowledge base, built with questions into `./kbbench/<name>`.

    Raises:
        UsageError: it was built without questions.
    """
    folder = DatasetFolder(Path("kbbench") / name)
    splits = folder.configs().get("queries", [])
    if not splits:
        raise UsageError(f"{folder.path} holds no questions; expected some to score. Build it again with --queries.")
    shared_out = [split for split in WRITTEN if split in splits]
    return _benchmark(
        name,
        name,
        splits=(*splits, "all") if len(shared_out) > 1 else tuple(splits),
        default_split="test" if "test" in splits else splits[0],
        licence="",
        paper="",
        homepage="",
    )
