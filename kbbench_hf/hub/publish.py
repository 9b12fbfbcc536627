"""Publish a dataset, a metric's Space or the leaderboard: what differs is shown, then sent in one commit."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.hub.connection import connection

if TYPE_CHECKING:
    from huggingface_hub import HfApi


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
        commit_message=f"kbbench-hf {version('kbbench-hf')}",
        repo_type=wanted.repo_type,
        parent_commit=change.head,
    )
    return str(commit.oid)


def _hashes(content: Path | bytes) -> set[str]:
    """Return the names the Hub may know this content by: its sha256 (LFS) and git's blob id."""
    data = content.read_bytes() if isinstance(content, Path) else content
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return {hashlib.sha256(data).hexdigest(), blob}


def open_pull_request(model: str, dataset: str, text: str) -> str:
    """Open a pull request on a model's repository that adds the results, and return its address."""
    from huggingface_hub import HfApi

    with connection(model):
        commit = HfApi().upload_file(
            path_or_fileobj=text.encode(),
            path_in_repo=f".eval_results/{dataset}.yaml",
            repo_id=model,
            create_pr=True,
            commit_message=f"Add results on {NAMESPACE}/{dataset}",
        )
    return str(commit.pr_url or commit.commit_url)
