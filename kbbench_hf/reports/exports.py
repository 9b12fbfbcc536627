"""Exports of results: the Hub's `eval.yaml` and model results, TREC and ranx run files."""

import json
from collections.abc import Callable, Mapping, Sequence

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.scoring.result import PlainResult

N_HEADLINES = 4
"""How many figures of a benchmark become tasks and results on the Hub: those of the papers' tables."""


def eval_yaml(dataset: str) -> str:
    """Return the `eval.yaml` that makes a dataset a benchmark on the Hub: one task per headline figure.

    The Hub lists such a leaderboard only for datasets it has allowed, and for frameworks it knows.
    """
    import yaml

    bench = benchmark(dataset)
    tasks = [
        {"id": task_id(bench.data.configs[0], config, metric), "config": config, "split": bench.data.default_split}
        for config in bench.data.configs
        for metric in list(bench.metrics_of(config))[:N_HEADLINES]
    ]
    facts = {"name": bench.title, "description": f"{bench.title}, {bench.facts.paper}"}
    return str(yaml.safe_dump({**facts, "evaluation_framework": "kbbench", "tasks": tasks}, sort_keys=False))


def eval_results_yaml(result: PlainResult, date: str, source_url: str | None = None) -> str:
    """Return a `result.json` as the YAML of `.eval_results/<dataset>.yaml`.

    The date is the day of the evaluation, ISO 8601; at the source's address the run can be looked at.

    Raises:
        UsageError: the result has no finite headline figure.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    bench = benchmark(result["benchmark"])
    headlines = list(bench.metrics_of(result["config"]))[:N_HEADLINES]
    scored = [metric for metric in headlines if result["scores"][metric]["value"] is not None]
    if not scored:
        raise UsageError("The result has no scored metric; expected at least one. Score the run first.")
    entries = []
    for metric in scored:
        score = result["scores"][metric]
        low, high = score["ci95"]
        spread = "" if low is None or high is None else f"95% interval {low:.4f} to {high:.4f}; "
        entries.append(
            EvalResultEntry(
                dataset_id=f"{NAMESPACE}/{bench.dataset}",
                task_id=task_id(bench.data.configs[0], result["config"], metric),
                value=score["value"],
                dataset_revision=result["dataset_revision"],
                date=date,
                source_url=source_url,
                source_name="kbbench-hf" if source_url else None,
                notes=f"{spread}mode {result['mode']}, split {result['split']}, n {score['n_scored']}, "
                f"predictions sha256 {result['predictions_sha256']}",
            )
        )
    return str(yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False))


def task_id(default_config: str, config: str, metric: str) -> str:
    """Return the id of a figure on the Hub: the metric's name, after the config's where it is not the default.

    >>> task_id("sentences", "sentences", "f1"), task_id("cdr", "docred", "factualness")
    ('f1', 'docred.factualness')
    """
    return metric if config == default_config else f"{config}.{metric}"


Id = str | int
Lists = Mapping[Id, Sequence[Id]]
"""Query -> candidates."""
Grades = Mapping[Id, Mapping[Id, int]]
"""Query -> gold candidate -> its grade of relevance."""


def trec_files(rankings: Lists, gold: Grades, tag: str) -> dict[str, str]:
    r"""Return `run.trec` (`query Q0 candidate rank score tag`) and `qrels.trec` (`query 0 candidate relevance`).

    A query without candidates has no line in a run; `trec_eval -c` counts it as 0 all the same.

    Raises:
        DataError: an id is empty or holds white space, which separates the columns.

    >>> trec_files({7: [3, 9]}, {7: {9: 1}}, "bm25")["run.trec"]
    '7 Q0 3 1 2 bm25\n7 Q0 9 2 1 bm25\n'
    """
    names = {each for lists in (rankings, gold) for query, ids in lists.items() for each in (query, *ids)}
    for name in names:
        if str(name).split() != [str(name)]:
            raise DataError(
                f"The id {name!r} cannot be written to a TREC file: its columns end at blanks. Use --as ranx."
            )
    run = [
        f"{query} Q0 {candidate} {rank} {len(ids) - rank + 1} {'-'.join(tag.split())}\n"
        for query, ids in rankings.items()
        for rank, candidate in enumerate(ids, start=1)
    ]
    qrels = [f"{query} 0 {candidate} {grade}\n" for query, of in gold.items() for candidate, grade in of.items()]
    return {"run.trec": "".join(run), "qrels.trec": "".join(qrels)}


def ranx_files(rankings: Lists, gold: Grades, tag: str) -> dict[str, str]:
    r"""Return `run.json` and `qrels.json`, query -> candidate -> score, for `Run.from_file` and `Qrels.from_file`.

    >>> ranx_files({7: [3, 9]}, {7: {9: 1}}, "bm25")["run.json"]
    '{"7": {"3": 2, "9": 1}}\n'
    """
    run = {str(query): {str(each): len(ids) - rank for rank, each in enumerate(ids)} for query, ids in rankings.items()}
    qrels = {str(query): {str(each): grade for each, grade in of.items()} for query, of in gold.items()}
    return {
        f"{name}.json": json.dumps(each, ensure_ascii=False) + "\n" for name, each in (("run", run), ("qrels", qrels))
    }


RANKING_FILES: Mapping[str, Callable[[Lists, Grades, str], dict[str, str]]] = {"trec": trec_files, "ranx": ranx_files}
"""Name of the format -> what makes its files: file name -> content."""
