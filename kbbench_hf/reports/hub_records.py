"""What the Hub is told: a dataset, a metric or the leaderboard as a repository, and a result as the Hub's records."""

from importlib.metadata import version
from pathlib import Path

from kbbench_hf.benchmarks import benchmark, benchmark_names, find_dataset, importable_names
from kbbench_hf.benchmarks.audits import is_released, read_card
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.hub.metric_modules import metric_modules, space_files
from kbbench_hf.hub.publish import Publication
from kbbench_hf.scoring.result import PlainResult

LEADERBOARD = "leaderboard"
N_HEADLINES = 4
"""How many figures of a benchmark become tasks and results on the Hub: those of the papers' tables."""
GRADIO_VERSION = "6.31.0"


def evaluate_modules() -> dict[str, Path]:
    """Return the folder of each `evaluate` module, by name: our own, and those of benchmarks that are plugged in."""
    folders = (benchmark(name).showing.evaluate_module for name in importable_names())
    return {**{folder.name: folder for folder in folders if folder}, **metric_modules()}


def targets() -> list[str]:
    """Return the names of what can be published."""
    return [*benchmark_names(), *evaluate_modules(), LEADERBOARD]


def publication(target: str, namespace: str) -> Publication:
    """Return what a target is on the Hub: a dataset's name, a metric's name, or `leaderboard`.

    Raises:
        UsageError: no such target, or a dataset that was not built.
    """
    target = target.removeprefix("kbbench/")
    metrics = evaluate_modules()
    if target in metrics:
        return Publication(f"{namespace}/{target}", "space", _metric_files(target, metrics[target]))
    if target == LEADERBOARD:
        return Publication(f"{namespace}/{target}", "space", dict(space_files(LEADERBOARD)))
    if target in benchmark_names():
        return Publication(f"{namespace}/{target}", "dataset", _dataset_files(target))
    raise unknown_name("target", target, targets())


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
        raise UsageError("The result has no figure that was scored; expected at least one. Score the run first.")
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


def _dataset_files(name: str) -> dict[str, Path | bytes]:
    folder = find_dataset(name)
    folder.verify()
    found = {file.relative_to(folder.path): file for file in sorted(folder.path.rglob("*")) if file.is_file()}
    files = {str(name): file for name, file in found.items() if not any(part.startswith(".") for part in name.parts)}
    if "README.md" not in files:
        raise UsageError(
            f"{folder.path} has no README.md; a dataset is not published without its card. Build it again."
        )
    if not is_released(read_card(folder)):
        raise UsageError(
            f"{folder.path} is not to be released: its audit has figures above their limits that the card does not "
            f"waive. Expected none; see: kbbench audit {name}"
        )
    return {**files, "eval.yaml": eval_yaml(name).encode()}


def _metric_files(name: str, folder: Path) -> dict[str, Path | bytes]:
    files = {file.name: file for file in sorted(folder.iterdir()) if file.is_file() and file.name != "README.md"}
    front = (
        f"---\ntitle: {name}\nsdk: gradio\nsdk_version: {GRADIO_VERSION}\napp_file: app.py\npinned: false\n"
        "license: apache-2.0\ntags:\n- evaluate\n- metric\n---\n\n"
    )
    app = f'from kbbench_hf.app.metric_page import page\n\npage("{name}").launch()\n'
    card = (folder / "README.md").read_text(encoding="utf-8")
    if card.startswith("---\n"):
        card = card.split("---\n", 2)[2].lstrip("\n")
    requirements = f"kbbench-hf[space]=={version('kbbench-hf')}\n"
    ours = {"README.md": front + card, "app.py": app, "requirements.txt": requirements}
    return {**files, **{file: text.encode() for file, text in ours.items()}}
