"""Exports of results: the Hub's `eval.yaml` and model results, TREC and ranx run files."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from kbbench_hf.benchmarks import benchmark, find_dataset
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.benchmarks.examples import question_column
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.scoring.result import PlainResult

INSTRUCTIONS = {
    "triples": "Write the facts of the text as triples, one a line: subject | relation | object.\n\n{prompt}",
    "answers": "Answer with names or values only, separated by semicolons.\n\n{prompt}",
}
"""Field of a parsed answer -> prompt template of inspect_ai's `eval.yaml`, which has no place for the package's own."""


NOT_OURS = "Scores are those of kbbench-hf; the tasks of this file have neither its prompts nor its metrics."


def hub_tasks(bench: Benchmark) -> dict[str, str]:
    """Return config -> id of its task on the Hub: the first config of each testbed, or all where there is none.

    Configs with another main metric than the benchmark's have none: no framework of the Hub measures refusals.

    >>> list(hub_tasks(benchmark("mini-ska")))
    ['noise_kg_1k', 'order_kg_prefix', 'hardness_kg_text_hard', 'noise_kg_4k']
    """
    known, metric = bench.data.configs, bench.headline_metrics(bench.metrics)[0]
    testbeds = ([each for each in of.configs(None) if each in known][:1] for of in bench.asking.testbeds.values())
    configs = [*dict.fromkeys(chain.from_iterable(testbeds))] or known
    named = {config: metric if config == known[0] else f"{config}.{metric}" for config in configs}
    return {config: name for config, name in named.items() if metric in bench.metrics_of(config)}


def eval_yaml(dataset: str) -> str:
    """Return the `eval.yaml` that makes a built dataset a benchmark on the Hub; empty if it has no headline config.

    The Hub lists such a leaderboard only for datasets it has allowed, and for frameworks it knows: mteb for retrieval,
    inspect_ai for the others. Source: huggingface/hub-docs, docs/hub/eval-results.md; inspect_ai 0.3.285, `HFTask`.
    """
    import yaml

    bench = benchmark(dataset)
    split, retrieval, built = bench.data.default_split, not bench.asking.prompts, find_dataset(dataset).configs()
    tasks = [
        {"id": task, **({"config": config} if retrieval else _reader_fields(bench, config, split)), "split": split}
        for config, task in hub_tasks(bench).items()
        if config in built
    ]
    if not tasks:
        return ""
    facts = {"name": bench.title, "description": f"{bench.title}. {NOT_OURS}"}
    framework = "mteb" if retrieval else "inspect-ai"
    return str(yaml.safe_dump({**facts, "evaluation_framework": framework, "tasks": tasks}, sort_keys=False))


def _reader_fields(bench: Benchmark, config: str, split: str) -> dict[str, object]:
    """Return the fields that inspect_ai needs to run a task; its scorers are a fixed list.

    The format has no place for contexts that are assembled from several tables: the questions alone are read, from the
    config that holds them.
    """
    kind, folder = bench.scoring.answer, find_dataset(bench.dataset)
    target = kind.gold or kind.field

    def columns(name: str) -> Sequence[str]:
        return folder.table(name, split).column_names if split in folder.configs()[name] else ()

    own = [config, *(each for each in folder.configs() if each.partition("_")[2] in config)]
    found = [each for each in own if target in columns(each)]
    best = config if config in found else max(found, key=len)
    template = INSTRUCTIONS.get(kind.field, "{prompt}")
    return {
        "config": best,
        "field_spec": {"input": question_column(dict.fromkeys(columns(best))), "target": target},
        "solvers": [{"name": "prompt_template", "args": {"template": template}}, {"name": "generate"}],
        "scorers": [{"name": "f1"}],
    }


def eval_results_yaml(result: PlainResult, date: str, source_url: str | None = None) -> str:
    """Return a `result.json` as the YAML of `.eval_results/<dataset>.yaml`: the main metric, the others in its notes.

    The date is the day of the evaluation, ISO 8601; at the source's address the run can be looked at.

    Raises:
        UsageError: the main metric has no score, or the config has no task on the Hub.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    bench = benchmark(result["benchmark"])
    tasks = hub_tasks(bench)
    if result["config"] not in tasks:
        expected = f"expected one of {', '.join(tasks)}. Use --as eee."
        raise UsageError(f"{result['config']} of {bench.dataset} has no task on the Hub; {expected}")
    metric, *others = bench.headline_metrics(bench.metrics_of(result["config"]))
    score = result["scores"][metric]
    if score["value"] is None:
        raise UsageError(f"The result has no {metric}; expected a score. Score the run first.")
    low, high = score["ci95"]
    spread = "" if low is None or high is None else f"95% interval {low:.4f} to {high:.4f}; "
    named = ((other, result["scores"][other]["value"]) for other in others)
    rest = "".join(f"{other} {value:.4f}, " for other, value in named if value is not None)
    entry = EvalResultEntry(
        dataset_id=f"{NAMESPACE}/{bench.dataset}",
        task_id=tasks[result["config"]],
        value=score["value"],
        dataset_revision=result["dataset_revision"],
        date=date,
        source_url=source_url,
        source_name="kbbench-hf" if source_url else None,
        notes=f"{spread}{rest}mode {result['mode']}, split {result['split']}, n {score['n_scored']}, "
        f"predictions sha256 {result['predictions_sha256']}",
    )
    return str(yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False))


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
            message = f"The id {name!r} cannot be written to a TREC file: its columns end at blanks."
            raise DataError(f"{message} Use --as ranx.")
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
    files = {"run.json": run, "qrels.json": qrels}
    return {name: json.dumps(each, ensure_ascii=False) + "\n" for name, each in files.items()}


RANKING_FILES: Mapping[str, Callable[[Lists, Grades, str], dict[str, str]]] = {"trec": trec_files, "ranx": ranx_files}
"""Name of the format -> what makes its files: file name -> content."""
