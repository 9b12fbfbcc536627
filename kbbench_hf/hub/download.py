"""Datasets on the Hub: ids on the command line, a cached listing, and downloads, whole or file by file at first use.

`benchmarks` finds datasets with it that are not built locally, readers of predictions those of a user, and pages their
lists. Without a network, what was downloaded before is used; nothing else waits for the Hub.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import CARD, MANIFEST, NAMESPACE, PREDICTIONS, DatasetFolder
from kbbench_hf.files.rows import ParsedFile, numbered
from kbbench_hf.hub.repository import ANSWER_S, answer_within

_ID = re.compile(
    r"(?P<scheme>hf:/{1,2}(?:datasets/)?)?(?P<name>[A-Za-z0-9][\w.-]*/[\w.-]+)(?:@(?P<revision>[\w.-]+))?"
    r"(?::(?:(?P<config>[\w.-]+)/)?(?P<split>[\w.-]+))?"
)
_FILE = re.compile(r"\.(?:jsonl?|csv|tsv|txt|run|trec|parquet|arrow|eval|zip|xlsx|gz|zst|bz2|xz)$", re.IGNORECASE)


class DatasetId(NamedTuple):
    """The name of a dataset, and its revision, config and split where given."""

    name: str
    revision: str | None
    config: str | None
    split: str | None


def dataset_id(text: str) -> DatasetId | None:
    """Return the parsed id of a dataset on the Hub; None if the text looks like a file, or has no owner.

    >>> dataset_id("me/answers:test")
    DatasetId(name='me/answers', revision=None, config=None, split='test')
    >>> dataset_id("runs/answers.jsonl"), dataset_id("answers")
    (None, None)
    """
    match = _ID.fullmatch(text)
    if match is None or (_FILE.search(match["name"]) and not match["scheme"]):
        return None
    return DatasetId(match["name"], match["revision"], match["config"], match["split"])


FIRST = (MANIFEST, CARD, f"{PREDICTIONS}/*")
"""Patterns of the files that are downloaded first; the tables follow at their first use."""


@dataclass(frozen=True)
class HubDataset(DatasetFolder):
    """A dataset on the Hub at one commit, whose files are downloaded at first use."""

    name: str
    """Without the owner."""

    def file(self, name: str) -> Path:
        """Return the path of one of the dataset's files, downloaded where necessary.

        Raises:
            UsageError: the download failed.
        """
        from huggingface_hub import hf_hub_download

        if (here := self.path / name).is_file():
            return here
        with _download_errors(self.name):
            commit = self.path.name
            return Path(hf_hub_download(f"{owner()}/{self.name}", name, repo_type="dataset", revision=commit))


def hub_dataset(name: str, revision: str | None = None) -> HubDataset:
    """Return a dataset on the Hub, at a commit or the newest; without a network, the last downloaded one.

    Raises:
        UsageError: the download failed; the message has the command that builds it.
    """
    try:
        with _download_errors(name):
            return HubDataset(_snapshot(name, revision, allow_patterns=list(FIRST)), name)
    except UsageError:
        if here := cached_dataset(name, revision):
            return HubDataset(here, name)
        raise


def download_dataset(name: str, revision: str | None = None) -> Path:
    """Return the whole local copy of a dataset on the Hub, at a commit or the newest.

    Raises:
        UsageError: the download failed; the message has the command that builds it.
    """
    with _download_errors(name):
        return _snapshot(name, revision)


def cached_dataset(name: str, revision: str | None = None) -> Path | None:
    """Return the local, perhaps incomplete, copy of a dataset without a request; None where there is none."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return _snapshot(name, revision, allow_patterns=list(FIRST), local_files_only=True)
    except LocalEntryNotFoundError:
        return None


def _snapshot(name: str, revision: str | None, **options: Any) -> Path:
    """Return the local folder of a commit of the owner's dataset, named after the commit."""
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(f"{owner()}/{name}", repo_type="dataset", revision=revision, **options))


def owner() -> str:
    """Return the owner of the datasets: the environment variable `KBBENCH_DATASETS`, or the default."""
    return os.environ.get("KBBENCH_DATASETS", NAMESPACE)


@contextmanager
def _download_errors(name: str) -> Iterator[None]:
    """Convert errors of a download inside the block into a UsageError with the command that builds the dataset."""
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        HTTPError,  # httpx's or httpx2's, as the version has it
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    try:
        yield
    except (HTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise UsageError(
            f"Dataset {name!r} is not in ./{NAMESPACE} and could not be downloaded from the Hub "
            f"({type(error).__name__}). Build it: kbbench build {name}"
        ) from error


def predictions_on_hub(dataset: DatasetId) -> ParsedFile:
    """Return the rows of a dataset on the Hub; of several configs or splits, one must be named.

    Raises:
        UsageError: it cannot be downloaded, or the config or split is ambiguous.
    """
    from datasets import get_dataset_config_names, get_dataset_split_names, load_dataset
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    name, revision, config, split = dataset
    try:
        config = config or _single(name, "config", get_dataset_config_names(name, revision=revision), "{}/SPLIT")
        split = split or _single(name, "split", get_dataset_split_names(name, config, revision=revision), "{}")
        rows = load_dataset(name, config, split=split, revision=revision)
    except (HfHubHTTPError, OfflineModeIsEnabled, OSError, ValueError) as error:
        raise UsageError(
            f"{name} is not a file or folder here, and could not be downloaded as a dataset from the Hub "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason'}). "
            "Check the path; or the dataset's id, the network, and HF_HUB_OFFLINE."
        ) from error
    text = f"the Hub's dataset {name}, config {config}, split {split}"
    return ParsedFile(text, numbered(rows), columns=list(rows.column_names))


def _single(name: str, kind: str, names: Sequence[str], form: str) -> str:
    """Return the only name.

    Raises:
        UsageError: there are several; the message has an example of how to choose one.
    """
    if len(names) == 1:
        return names[0]
    example = f"{name}:{form.format(names[0])}"
    raise UsageError(f"{name} has the {kind}s {', '.join(names)}; expected one to be named. Name it: {example}")


LOG = logging.getLogger("kbbench")
MAX_AGE_S = 600.0
"""After as many seconds the listing is refreshed."""
RETRY_S = 60.0
"""Seconds to the next request after a failed one."""


class Listing:
    """The names of the datasets of `owner()` on the Hub; empty before the first response."""

    def __init__(
        self, ask: Callable[[], frozenset[str]] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask or datasets_on_hub
        self._clock = clock
        self._names: frozenset[str] = frozenset()
        self._due = clock()
        self._lock = threading.Lock()

    def names(self) -> frozenset[str]:
        """Return the cached names; where they are old, a background thread refreshes them."""
        with self._lock:
            is_due = self._clock() >= self._due
            if is_due:
                self._due = self._clock() + RETRY_S
        if is_due:
            threading.Thread(target=self.refresh, name="listing", daemon=True).start()
        return self._names

    def refresh(self) -> None:
        """Refresh the names now; they stay unchanged where the request fails."""
        try:
            self._names = self._ask()
        except Exception as error:  # the classes of errors depend on the HTTP library of the Hub's client
            LOG.warning("the Hub did not list the datasets of %s: %s", owner(), type(error).__name__)
        else:
            self._due = self._clock() + MAX_AGE_S


def datasets_on_hub() -> frozenset[str]:
    """Return the names of the owner's datasets on the Hub, without the owner."""
    from huggingface_hub import HfApi

    answer_within(ANSWER_S)
    return frozenset(each.id.partition("/")[2] for each in HfApi().list_datasets(author=owner()))
