"""Datasets from the Hub."""

from pathlib import Path

from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE


def download_dataset(name: str, revision: str | None = None) -> Path:
    """Return the local copy of a dataset on the Hub, at a commit or the newest.

    Raises:
        UsageError: it could not be had; the message has the command that builds it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        return Path(snapshot_download(f"{NAMESPACE}/{name}", repo_type="dataset", revision=revision))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise UsageError(
            f"Dataset {name!r} is not in ./{NAMESPACE} and could not be had from the Hub ({type(error).__name__}). "
            f"Build it: kbbench build {name}"
        ) from error


def downloaded_dataset(name: str) -> Path | None:
    """Return the copy of a dataset that was had from the Hub before, without asking it; None where there is none."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(f"{NAMESPACE}/{name}", repo_type="dataset", local_files_only=True))
    except LocalEntryNotFoundError:
        return None
