"""Repositories to publish: a dataset, a metric, the leaderboard and its results."""

from importlib.metadata import version
from pathlib import Path

from kbbench_hf.benchmarks import benchmark, benchmark_names, find_dataset, importable_names
from kbbench_hf.benchmarks.audits import is_released, read_card
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.hub.metric_modules import DISTRIBUTION, metric_modules, own_wheel, space_files
from kbbench_hf.hub.publish import Publication
from kbbench_hf.reports.exports import eval_yaml

LEADERBOARD = "leaderboard"
RESULTS = "results"
"""The dataset of what was submitted to the leaderboard."""
GRADIO_VERSION = "6.31.0"
PYTHON_VERSION = "3.12"
"""A Space that names none runs an older Python than the package does."""


def evaluate_modules() -> dict[str, Path]:
    """Return the folder of each `evaluate` module, by name: our own, and those of benchmarks that are plugged in."""
    folders = (benchmark(name).showing.evaluate_module for name in importable_names())
    return {**{folder.name: folder for folder in folders if folder}, **metric_modules()}


def targets() -> list[str]:
    """Return the names of what can be published."""
    return [*benchmark_names(), *evaluate_modules(), LEADERBOARD]


def publications(target: str, namespace: str, released: bool = False, private: bool = False) -> list[Publication]:
    """Return what a target is on the Hub, in the order in which it is sent.

    Args:
        target: a dataset's name, a metric's name, or `leaderboard`, which is the Space and the dataset of its results.
        namespace: the user or organisation whose it will be.
        released: a Space installs the package's release; else the wheel of what runs here, which is sent with it.
        private: repositories that are made are private.

    Raises:
        UsageError: no such target; a dataset that was not built, or is private and shall not be; a private Space that
            is to be sent with a wheel.
    """
    target = target.removeprefix("kbbench/")
    metrics, repo_id = evaluate_modules(), f"{namespace}/{target}"
    if private and not released and (target in metrics or target == LEADERBOARD):
        raise UsageError(
            "A private Space cannot fetch its own wheel where it is built; expected a dataset, or a Space of the "
            "release. Add --released, or leave --private out."
        )
    if target in metrics:
        files = {**_metric_files(target, metrics[target]), **_installation(repo_id, released)}
        return [Publication(repo_id, "space", files, private=private)]
    if target == LEADERBOARD:
        results = f"{namespace}/{RESULTS}"
        files = {**space_files(LEADERBOARD), **_installation(repo_id, released)}
        variables = {"KBBENCH_RESULTS": results}
        return [
            Publication(results, "dataset", dict(space_files(RESULTS)), keeps_others=True, private=private),
            Publication(repo_id, "space", files, variables, secrets=("HF_TOKEN",), private=private),
        ]
    if target in benchmark_names():
        return [Publication(repo_id, "dataset", _dataset_files(target, private), private=private)]
    raise unknown_name("target", target, targets())


def _dataset_files(name: str, private: bool) -> dict[str, Path | bytes]:
    folder = find_dataset(name)
    folder.verify()
    if folder.is_private and not private:
        raise UsageError(
            f"The card of {folder.path} says that it must stay private; expected a private repository. Add --private."
        )
    found = {file.relative_to(folder.path): file for file in sorted(folder.path.rglob("*")) if file.is_file()}
    files = {str(name): file for name, file in found.items() if not any(part.startswith(".") for part in name.parts)}
    if "README.md" not in files:
        message = f"{folder.path} has no README.md; a dataset is not published without its card."
        raise UsageError(f"{message} Build it again.")
    if not is_released(read_card(folder)):
        raise UsageError(
            f"{folder.path} cannot be published: baselines of its audit are above their limits, and the card does not "
            f"accept them. See: kbbench audit {name}"
        )
    return {**files, **({"eval.yaml": tasks.encode()} if (tasks := eval_yaml(name)) else {})}


def _metric_files(name: str, folder: Path) -> dict[str, Path | bytes]:
    from huggingface_hub import SpaceCard

    files = {file.name: file for file in sorted(folder.iterdir()) if file.is_file() and file.name != "README.md"}
    card = SpaceCard.load(folder / "README.md")
    card.data["title"] = card.data.get("title") or name
    space = {"sdk": "gradio", "sdk_version": GRADIO_VERSION, "python_version": PYTHON_VERSION, "app_file": "app.py"}
    for key, value in space.items():
        card.data[key] = value
    app = f'from kbbench_hf.app.metric_page import main\n\nmain("{name}")\n'
    return {**files, "README.md": str(card).encode(), "app.py": app.encode()}


def _installation(repo_id: str, released: bool) -> dict[str, Path | bytes]:
    """Return what makes a Space install the package: requirements, and the wheel that they name.

    A Space is built where only its `requirements.txt` is at hand, so the wheel has an address, not a path.
    """
    if released:
        return {"requirements.txt": f"{DISTRIBUTION}[space]=={version(DISTRIBUTION)}\n".encode()}
    from huggingface_hub import constants

    wheel = own_wheel()
    line = wheel.requirement(f"{constants.ENDPOINT}/spaces/{repo_id}/resolve/main")
    return {"requirements.txt": f"{line}\n".encode(), wheel.name: wheel.content}
