"""Publisher of datasets, metric Spaces and the leaderboard: difference from the Hub, then one commit.

`kbbench publish` and `export` use it, and trained retrievers. A private dataset is never sent to a public repository,
and a commit is refused if the repository has changed since it was compared.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.hub.repository import ANSWER_S, connection

if TYPE_CHECKING:
    from huggingface_hub import HfApi


@dataclass(frozen=True)
class Publication:
    """The wanted state of a repository: id, type, and path -> content of every file."""

    repo_id: str
    repo_type: Literal["dataset", "space", "model"]
    files: Mapping[str, Path | bytes]
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of a Space."""
    secrets: tuple[str, ...] = ()
    """The names of a Space's secrets, which its owner must set."""
    keeps_others: bool = False
    """Whether other files of the repository stay."""
    private: bool = False
    """Whether a new repository is private."""

    @property
    def url(self) -> str:
        """The URL of the repository."""
        from huggingface_hub import constants

        kind = "" if self.repo_type == "model" else f"{self.repo_type}s/"
        return f"{constants.ENDPOINT}/{kind}{self.repo_id}"


@dataclass(frozen=True)
class Difference:
    """The changes of a publication, as paths in the repository."""

    added: list[str]
    changed: list[str]
    removed: list[str]
    unchanged: list[str]
    head: str | None
    """The compared commit; None where the repository does not exist."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of a Space to set."""

    def __bool__(self) -> bool:
        """Return whether anything differs."""
        return bool(self.added or self.changed or self.removed or self.variables)

    def lines(self) -> list[str]:
        """Return the difference as lines of text: `+` added, `~` changed, `-` removed, `=` variables, a count."""
        marked = [("+", self.added), ("~", self.changed), ("-", self.removed)]
        files = [f"{mark} {path}" for mark, paths in marked for path in paths]
        variables = [f"= {name}: {value}" for name, value in self.variables.items()]
        return [*files, *variables, f"{len(self.unchanged)} unchanged"]


def difference(wanted: Publication, api: "HfApi") -> Difference:
    """Return the changes that make the repository on the Hub a publication, by content; paths are sorted.

    Raises:
        UsageError: it is private, and the repository is public.
    """
    from huggingface_hub.errors import RepositoryNotFoundError
    from huggingface_hub.hf_api import RepoFile

    try:
        info = api.repo_info(wanted.repo_id, repo_type=wanted.repo_type, timeout=ANSWER_S)
    except RepositoryNotFoundError:
        return Difference(sorted(wanted.files), [], [], [], None, wanted.variables)
    if wanted.private and not info.private:
        raise UsageError(
            f"{wanted.repo_id} is public already; expected a private repository. Name another --namespace, or make it "
            f"private: {wanted.url}/settings"
        )
    there = {
        entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id
        for entry in api.list_repo_tree(wanted.repo_id, repo_type=wanted.repo_type, recursive=True, revision=info.sha)
        if isinstance(entry, RepoFile)
    }
    known = api.get_space_variables(wanted.repo_id) if wanted.variables else {}
    common = [path for path in sorted(wanted.files) if path in there]
    changed = [path for path in common if there[path] not in _hashes(wanted.files[path])]
    return Difference(
        added=sorted(set(wanted.files) - set(there)),
        changed=changed,
        removed=[] if wanted.keeps_others else sorted({*there} - {*wanted.files, ".gitattributes"}),
        unchanged=sorted(set(common) - set(changed)),
        head=info.sha,
        variables={
            name: value for name, value in wanted.variables.items() if name not in known or known[name].value != value
        },
    )


def publish(wanted: Publication, change: Difference, api: "HfApi") -> str:
    """Upload the difference in one commit, tag it with the package's version, and return the commit's sha.

    A Space gets its variables before its first commit; an existing tag is not moved. Large files are uploaded first, by
    content, so that an interrupted publication resumes. The Hub refuses a commit (412) after another one: compute the
    difference again.
    """
    sdk = "gradio" if wanted.repo_type == "space" else None
    api.create_repo(
        wanted.repo_id, repo_type=wanted.repo_type, exist_ok=True, space_sdk=sdk, private=wanted.private or None
    )
    for name, value in change.variables.items():
        api.add_space_variable(wanted.repo_id, name, value)
    changed = change.added or change.changed or change.removed
    revision = _commit(wanted, change, api) if changed or not change.head else change.head
    api.create_tag(
        wanted.repo_id, tag=f"v{version('kbbench-hf')}", revision=revision, repo_type=wanted.repo_type, exist_ok=True
    )
    return revision


def _commit(wanted: Publication, change: Difference, api: "HfApi") -> str:
    """Upload the changes in one commit on the compared one, and return its sha."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

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
    """Return the hashes of a content on the Hub: its SHA-256 (LFS) and git's blob id."""
    data = content.read_bytes() if isinstance(content, Path) else content
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return {hashlib.sha256(data).hexdigest(), blob}


def open_pull_request(model: str, dataset: str, text: str) -> str:
    """Open a pull request that adds results to a model's repository, and return its URL."""
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
