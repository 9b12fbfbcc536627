"""A dataset and a result as the Hub's records: `eval.yaml`, and the entries of a model's results."""

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.scoring.result import PlainResult

N_HEADLINES = 4
"""How many figures of a benchmark become tasks and results on the Hub: those of the papers' tables."""


def eval_yaml(dataset: str) -> str:
    """Return the `eval.yaml` that makes a dataset a benchmark on the Hub: one task per headline figure.

    The Hub lists such a leaderboard only for datasets it has allowed, and for frameworks it knows.
    """
    import yaml

    found = benchmark(dataset)
    tasks = [
        {"id": task_id(found.data.configs[0], config, metric), "config": config, "split": found.data.default_split}
        for config in found.data.configs
        for metric in list(found.metrics_of(config))[:N_HEADLINES]
    ]
    facts = {"name": found.title, "description": f"{found.title}, {found.facts.paper}"}
    return str(yaml.safe_dump({**facts, "evaluation_framework": "kbbench", "tasks": tasks}, sort_keys=False))


def eval_results_yaml(result: PlainResult, date: str, source_url: str | None = None) -> str:
    """Return a `result.json` as the YAML of `.eval_results/<dataset>.yaml`.

    The date is the day of the evaluation, ISO 8601; at the source's address the run can be looked at.

    Raises:
        UsageError: the result has no finite headline figure.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    found = benchmark(result["benchmark"])
    headlines = list(found.metrics_of(result["config"]))[:N_HEADLINES]
    scored = [metric for metric in headlines if result["scores"][metric]["value"] is not None]
    if not scored:
        raise UsageError("The result has no scored metric; expected at least one. Score the run first.")
    entries = []
    for metric in scored:
        figure = result["scores"][metric]
        low, high = figure["ci95"]
        spread = "" if low is None or high is None else f"95% interval {low:.4f} to {high:.4f}; "
        entries.append(
            EvalResultEntry(
                dataset_id=f"{NAMESPACE}/{found.dataset}",
                task_id=task_id(found.data.configs[0], result["config"], metric),
                value=figure["value"],
                dataset_revision=result["dataset_revision"],
                date=date,
                source_url=source_url,
                source_name="kbbench-hf" if source_url else None,
                notes=f"{spread}mode {result['mode']}, split {result['split']}, n {figure['n_scored']}, "
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
