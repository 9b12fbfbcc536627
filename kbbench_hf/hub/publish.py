"""Publish a dataset, a metric's Space or the leaderboard: what differs is shown, then sent in one commit."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import kbbench_hf
from kbbench_hf.benchmarks import BENCHMARKS, benchmark
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.hub.load import find_dataset
from kbbench_hf.hub.metric_modules import metric_modules, space_files

if TYPE_CHECKING:
    from huggingface_hub import HfApi

LEADERBOARD = "leaderboard"
N_HEADLINES = 4
"""How many figures of a benchmark become tasks and results on the Hub: those of the papers' tables."""
GRADIO_VERSION = "6.31.0"


@dataclass(frozen=True)
class Publication:
    """A repository as it should be: its id, its type, and the content of every file."""

    repo_id: str
    repo_type: Literal["dataset", "space"]
    files: Mapping[str, Path | bytes]


@dataclass(frozen=True)
class Difference:
    """What publishing would change, as paths in the repository."""

    added: list[str]
    changed: list[str]
    removed: list[str]
    unchanged: list[str]
    head: str | None
    """The commit that was compared with; None where the repository does not exist."""

    def __bool__(self) -> bool:
        """Say whether there is anything to send."""
        return bool(self.added or self.changed or self.removed)

    def lines(self) -> list[str]:
        """Return the difference as a person reads it: `+` added, `~` changed, `-` removed."""
        marked = [("+", self.added), ("~", self.changed), ("-", self.removed)]
        return [f"{mark} {path}" for mark, paths in marked for path in paths] + [f"{len(self.unchanged)} unchanged"]


def publication(target: str, namespace: str) -> Publication:
    """Return what a target is on the Hub: a dataset's name, a metric's name, or `leaderboard`.

    Raises:
        UsageError: no such target, or a dataset that was not built.
    """
    target = target.removeprefix("kbbench/")
    metrics = metric_modules()
    if target in metrics:
        return Publication(f"{namespace}/{target}", "space", _metric_files(target, metrics[target]))
    if target == LEADERBOARD:
        return Publication(f"{namespace}/{target}", "space", dict(space_files(LEADERBOARD)))
    if target in BENCHMARKS:
        return Publication(f"{namespace}/{target}", "dataset", _dataset_files(target))
    raise unknown_name("target", target, [*BENCHMARKS, *metrics, LEADERBOARD])


def difference(wanted: Publication, api: "HfApi") -> Difference:
    """Compare a publication with the repository on the Hub, by content."""
    from huggingface_hub.errors import RepositoryNotFoundError
    from huggingface_hub.hf_api import RepoFile

    try:
        info = api.repo_info(wanted.repo_id, repo_type=wanted.repo_type)
    except RepositoryNotFoundError:
        return Difference(sorted(wanted.files), [], [], [], None)
    there = {
        entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id
        for entry in api.list_repo_tree(wanted.repo_id, repo_type=wanted.repo_type, recursive=True, revision=info.sha)
        if isinstance(entry, RepoFile)
    }
    common = [path for path in sorted(wanted.files) if path in there]
    changed = [path for path in common if there[path] not in _hashes(wanted.files[path])]
    return Difference(
        added=sorted(set(wanted.files) - set(there)),
        changed=changed,
        removed=sorted(path for path in there if path not in wanted.files and path != ".gitattributes"),
        unchanged=sorted(set(common) - set(changed)),
        head=info.sha,
    )


def publish(wanted: Publication, change: Difference, api: "HfApi") -> str:
    """Send what differs in one commit, tag it with the package's version, and return the commit's sha.

    Large files go first and by content, so a publication that broke off goes on where it stopped. A commit that another
    one overtook is refused by the Hub (412): look at the difference again.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    if not change and change.head:
        return change.head
    sdk = "gradio" if wanted.repo_type == "space" else None
    api.create_repo(wanted.repo_id, repo_type=wanted.repo_type, exist_ok=True, space_sdk=sdk)
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        CommitOperationAdd(path, str(content) if isinstance(content, Path) else content)
        for path, content in wanted.files.items()
        if path in change.added or path in change.changed
    ]
    operations += [CommitOperationDelete(path) for path in change.removed]
    commit = api.create_commit(
        wanted.repo_id,
        operations,
        commit_message=f"kbbench-hf {kbbench_hf.__version__}",
        repo_type=wanted.repo_type,
        parent_commit=change.head,
    )
    return str(commit.oid)


def eval_yaml(dataset: str) -> str:
    """Return the `eval.yaml` that makes a dataset a benchmark on the Hub: one task per headline figure.

    The Hub lists such a leaderboard only for datasets it has allowed, and for frameworks it knows.
    """
    import yaml

    found = benchmark(dataset)
    tasks = [
        {"id": task_id(found.configs[0], config, metric), "config": config, "split": found.default_split}
        for config in found.configs
        for metric in list(found.metrics)[:N_HEADLINES]
    ]
    facts = {"name": found.title, "description": f"{found.title}, {found.paper}", "evaluation_framework": "kbbench"}
    return str(yaml.safe_dump({**facts, "tasks": tasks}, sort_keys=False))


def task_id(default_config: str, config: str, metric: str) -> str:
    """Return the id of a figure on the Hub: the metric's name, after the config's where it is not the default.

    >>> task_id("sentences", "sentences", "f1"), task_id("cdr", "docred", "factualness")
    ('f1', 'docred.factualness')
    """
    return metric if config == default_config else f"{config}.{metric}"


def _dataset_files(name: str) -> dict[str, Path | bytes]:
    folder = find_dataset(name)
    folder.verify()
    files: dict[str, Path | bytes] = {
        str(file.relative_to(folder.path)): file
        for file in sorted(folder.path.rglob("*"))
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(folder.path).parts)
    }
    if "README.md" not in files:
        raise UsageError(
            f"{folder.path} has no README.md; a dataset is not published without its card. Build it again."
        )
    return {**files, "eval.yaml": eval_yaml(name).encode()}


def _metric_files(name: str, folder: Path) -> dict[str, Path | bytes]:
    files: dict[str, Path | bytes] = {
        file.name: file for file in sorted(folder.iterdir()) if file.is_file() and file.name != "README.md"
    }
    front = (
        f"---\ntitle: {name}\nsdk: gradio\nsdk_version: {GRADIO_VERSION}\napp_file: app.py\npinned: false\n"
        "license: apache-2.0\ntags:\n- evaluate\n- metric\n---\n\n"
    )
    app = f'from kbbench_hf.app.metric_page import page\n\npage("{name}").launch()\n'
    card = (folder / "README.md").read_text(encoding="utf-8")
    if card.startswith("---\n"):
        card = card.split("---\n", 2)[2].lstrip("\n")
    requirements = f"kbbench-hf[space]=={kbbench_hf.__version__}\n"
    return {
        **files,
        "README.md": (front + card).encode(),
        "app.py": app.encode(),
        "requirements.txt": requirements.encode(),
    }


def _hashes(content: Path | bytes) -> set[str]:
    """Return the names the Hub may know this content by: its sha256 (LFS) and git's blob id."""
    data = content.read_bytes() if isinstance(content, Path) else content
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return {hashlib.sha256(data).hexdigest(), blob}
