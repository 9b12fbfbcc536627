"""A result as the Hub's own records: `.eval_results/*.yaml`, one entry per headline figure."""

from collections.abc import Mapping
from typing import Any

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.errors import UsageError
from kbbench_hf.hub.load import NAMESPACE
from kbbench_hf.hub.publish import N_HEADLINES, task_id


def eval_results_yaml(result: Mapping[str, Any], date: str, source_url: str | None = None) -> str:
    """Return a `result.json` as the YAML of `.eval_results/<dataset>.yaml`.

    Args:
        result: what `result.json` holds.
        date: the day of the evaluation, ISO 8601.
        source_url: where the run can be looked at.

    Raises:
        UsageError: the result has no finite headline figure.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    found = benchmark(result["benchmark"])
    scored = [metric for metric, figure in result["scores"].items() if figure["value"] is not None]
    if not scored:
        raise UsageError("The result has no figure that was scored; expected at least one. Score the run first.")
    entries = []
    for metric in scored[:N_HEADLINES]:
        figure = result["scores"][metric]
        low, high = figure["ci95"]
        spread = "" if low is None or high is None else f"95% interval {low:.4f} to {high:.4f}; "
        entries.append(
            EvalResultEntry(
                dataset_id=f"{NAMESPACE}/{found.dataset}",
                task_id=task_id(found.configs[0], result["config"], metric),
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


def open_pull_request(model: str, dataset: str, text: str) -> str:
    """Open a pull request on a model's repository that adds the results, and return its address."""
    from huggingface_hub import HfApi

    commit = HfApi().upload_file(
        path_or_fileobj=text.encode(),
        path_in_repo=f".eval_results/{dataset}.yaml",
        repo_id=model,
        create_pr=True,
        commit_message=f"Add results on {NAMESPACE}/{dataset}",
    )
    return str(commit.pr_url or commit.commit_url)
