"""Requests to the Hub: errors with a remedy, timeouts, names, and a dataset repository's files at one commit.

Publishing, downloads and the outbox of boards use it. `DatasetRepository` holds what a board has stored on the Hub:
after a lost response it must `forget`, since the commit may exist.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kbbench_hf.errors import KBBenchError, UsageError

if TYPE_CHECKING:
    from huggingface_hub import HfApi


ANSWER_S = 60.0
"""Timeout of a request in seconds; huggingface_hub has none of its own."""
LOGIN = 401, 403
"""Statuses of a missing login or permission."""


@contextmanager
def connection(repository: str) -> Iterator[None]:
    """Convert errors of requests about a repository inside the block.

    Raises:
        UsageError: the name is invalid, or the repository does not exist for this user.
        KBBenchError: there is no connection, or the Hub refuses the request.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        HfHubHTTPError,
        HFValidationError,
        HTTPError,  # of httpx or httpx2, by version
        LocalTokenNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    try:
        yield
    except HFValidationError:
        raise UsageError(f"{repository!r} is not a repository's name; expected OWNER/NAME, as on the Hub.") from None
    except (LocalTokenNotFoundError, RepositoryNotFoundError) as error:
        raise UsageError(f"{_first_line(error)}. Check the name {repository!r}, and log in: hf auth login") from error
    except HfHubHTTPError as error:
        remedy = "Log in with a token that may write: hf auth login" if _status(error) in LOGIN else "Try again later."
        raise KBBenchError(f"The Hub refuses, about {repository}: {_first_line(error)}. {remedy}") from error
    except (OfflineModeIsEnabled, HTTPError, TimeoutError) as error:
        raise KBBenchError(
            f"The Hub at {constants.ENDPOINT} cannot be reached: {_first_line(error)}. "
            "Check the network, and HF_HUB_OFFLINE and HF_ENDPOINT where they are set; then run this again."
        ) from error


def answer_within(seconds: float) -> None:
    """Set the timeout in seconds of the next requests to the Hub, in the session that all threads share."""
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    get_session().timeout = seconds


def check_name(repository: str) -> None:
    """Check a repository's name before anything is sent or written.

    Raises:
        UsageError: it is invalid.
    """
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    with connection(repository):
        validate_repo_id(repository)


def _first_line(error: Exception) -> str:
    """Return the first line of an error without its full stop; the class if it has none."""
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return first.strip().rstrip(".")


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an error; None without a response."""
    return getattr(getattr(error, "response", None), "status_code", None)


@dataclass(frozen=True)
class StoredFile:
    """A file on the Hub: its size in bytes, and its SHA-256 where it is stored as LFS or Xet."""

    size: int
    sha256: str = ""

    def same(self, other: "StoredFile") -> bool:
        """Return whether two files may be the same: equal sizes, and equal hashes if both are known."""
        return self.size == other.size and self.sha256 in ("", other.sha256 or self.sha256)


class DatasetRepository:
    """The known files of a dataset repository's branch `main`; only methods send requests."""

    def __init__(self, name: str, api: "HfApi") -> None:
        self.name = name
        self.api = api
        self.head: str | None = None
        """The commit of the known files; None before a refresh."""
        self.files: dict[str, StoredFile] = {}

    def refresh(self, create: bool = False) -> None:
        """List the files of the branch's head, if it has moved; `create` creates a missing repository.

        Raises:
            RepositoryNotFoundError: there is none, without `create`; other errors are those of huggingface_hub.
        """
        from huggingface_hub.errors import RepositoryNotFoundError

        answer_within(ANSWER_S)
        try:
            head = self._head()
        except RepositoryNotFoundError:
            if not create:
                raise
            self.api.create_repo(self.name, repo_type="dataset", exist_ok=True)
            head = self._head()
        if head != self.head or head is None:
            self.files = self._listed(head)
            self.head = head

    def forget(self) -> None:
        """Make the next `refresh` list the files in any case, after a lost response."""
        self.head = None

    def commit(self, files: Mapping[str, Path], message: str) -> None:
        """Add files (path in the repository -> local file) in one commit on the known head.

        The Hub refuses it if the branch has moved; errors are those of huggingface_hub.
        """
        from huggingface_hub import CommitOperationAdd

        answer_within(ANSWER_S)
        contents = {path: file.read_bytes() for path, file in files.items()}
        added = [CommitOperationAdd(path, data) for path, data in contents.items()]
        try:
            done = self.api.create_commit(
                self.name, added, commit_message=message, repo_type="dataset", parent_commit=self.head
            )
        except RuntimeError as error:  # wraps the error of one file
            raise (error.__cause__ or error) from None
        self.head = done.oid
        self.files.update(
            (path, StoredFile(len(data), hashlib.sha256(data).hexdigest())) for path, data in contents.items()
        )

    def fetch(self, path: str, folder: Path) -> Path:
        """Download a file of the known commit into a folder, under its path, and return its path."""
        answer_within(ANSWER_S)
        return Path(
            self.api.hf_hub_download(self.name, path, repo_type="dataset", revision=self.head, local_dir=folder)
        )

    def _head(self) -> str | None:
        return self.api.repo_info(self.name, repo_type="dataset", timeout=ANSWER_S).sha

    def _listed(self, head: str | None) -> dict[str, StoredFile]:
        from huggingface_hub.errors import EntryNotFoundError
        from huggingface_hub.hf_api import RepoFile

        try:
            entries = list(self.api.list_repo_tree(self.name, recursive=True, revision=head, repo_type="dataset"))
        except EntryNotFoundError:  # a repository without a file
            return {}
        return {
            each.path: StoredFile(each.size, each.lfs.sha256 if each.lfs else "")
            for each in entries
            if isinstance(each, RepoFile)
        }
