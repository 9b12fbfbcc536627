"""Downloader of datasets from the Hub: whole, or file by file at first use."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import CARD, MANIFEST, NAMESPACE, PREDICTIONS, DatasetFolder
from kbbench_hf.files.rows import ParsedFile, numbered
from kbbench_hf.hub.ids import DatasetId

FIRST = (MANIFEST, CARD, f"{PREDICTIONS}/*")
"""The files that are downloaded first."""


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
            return Path(hf_hub_download(_repository(self.name), name, repo_type="dataset", revision=commit))


def hub_dataset(name: str, revision: str | None = None) -> HubDataset:
    """Return a dataset on the Hub, at a commit or the newest; without a network, the last downloaded one.

    Raises:
        UsageError: the download failed; the message has the command that builds it.
    """
    try:
        with _download_errors(name):
            return HubDataset(_snapshot(name, revision, allow_patterns=list(FIRST)), name)
    except UsageError:
        if here := downloaded_dataset(name, revision):
            return HubDataset(here, name)
        raise


def download_dataset(name: str, revision: str | None = None) -> Path:
    """Return the whole local copy of a dataset on the Hub, at a commit or the newest.

    Raises:
        UsageError: the download failed; the message has the command that builds it.
    """
    with _download_errors(name):
        return _snapshot(name, revision)


def downloaded_dataset(name: str, revision: str | None = None) -> Path | None:
    """Return the local, perhaps incomplete, copy of a dataset without a request; None where there is none."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return _snapshot(name, revision, allow_patterns=list(FIRST), local_files_only=True)
    except LocalEntryNotFoundError:
        return None


def _snapshot(name: str, revision: str | None, **options: Any) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(_repository(name), repo_type="dataset", revision=revision, **options))


def owner() -> str:
    """Return the owner of the datasets: the environment variable `KBBENCH_DATASETS`, or the default."""
    return os.environ.get("KBBENCH_DATASETS", NAMESPACE)


def _repository(name: str) -> str:
    return f"{owner()}/{name}"


@contextmanager
def _download_errors(name: str) -> Iterator[None]:
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


def answers_on_hub(dataset: DatasetId) -> ParsedFile:
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
    if len(names) == 1:
        return names[0]
    example = f"{name}:{form.format(names[0])}"
    raise UsageError(f"{name} has the {kind}s {', '.join(names)}; expected one to be named. Name it: {example}")
