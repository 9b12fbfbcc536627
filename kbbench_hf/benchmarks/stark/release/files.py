"""Downloading STaRK's release from the Hub, at one commit, every file checked against its SHA-256."""

import hashlib
from pathlib import Path

from kbbench_hf.errors import DataError, KBBenchError
from kbbench_hf.files import file_sha256

REPOSITORY = "snap-stanford/stark"
REVISION = "88269e23e90587f99476c5dd74e235a0877e69be"
"""The commit of 2024-10-20, the last."""

_QUESTIONS = (
    "stark_qa/stark_qa.csv",
    "stark_qa/stark_qa_human_generated_eval.csv",
    "split/train.index",
    "split/val.index",
    "split/test.index",
    "split/test-0.1.index",
)
KNOWN_SHA256 = {
    "qa/prime/stark_qa/stark_qa.csv": "a27e5d63da6044e562e33bc94e37f41e076f2cb4142d6adc370a0981c5ee6f16",
    "qa/prime/split/train.index": "b828de166d641cc7d2f64001ad868058641de9529e5af36fea2f0a7494349e9c",
    "qa/prime/split/val.index": "df7fce5fde2a96bf14a1e9af3b3818dc448ef094bafb3501183ebb2873fb0c17",
    "qa/prime/split/test.index": "424d99e7d0ec209ad37361da14b63970d6c3bff27369f597cf3aec6cc28dbb76",
    "skb/prime/processed.zip": "f6f265f60b761784fb7c2f052359f9cd3bf9ea20c4a307865f62ce173b294dfc",
    "skb/mag/processed.zip": "7bfac742c1fb77694b3fab76be5088f9c3a636f47366188b70d3f378cfbd3053",
}
"""Checksums known from elsewhere. Those of the other files are the ones that the pinned commit states."""


def download(name: str, *, questions: bool, archive: bool) -> Path:
    """Return a folder with the release's files of one dataset, downloaded into the Hub's cache where absent.

    Raises:
        DataError: a file's bytes are not those of the pinned commit.
        KBBenchError: the Hub cannot be reached and the files are not in its cache.
    """
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    paths = [f"qa/{name}/{file}" for file in _QUESTIONS] if questions else []
    paths += [f"skb/{name}/processed.zip"] if archive else []
    try:
        folder = Path(
            snapshot_download(REPOSITORY, repo_type="dataset", revision=REVISION, allow_patterns=paths, max_workers=4)
        )
        expected = KNOWN_SHA256 if constants.HF_HUB_OFFLINE else _stated(paths) | KNOWN_SHA256
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise KBBenchError(
            f"{REPOSITORY} could not be downloaded from the Hub: {error}. Run the same command again to continue, or "
            "give a folder that holds the release with --source."
        ) from error
    for path in paths:
        if path in expected:  # offline, what the commit states cannot be asked; it was when the file was fetched
            _verify(folder / path, expected[path])
    return folder


def _stated(paths: list[str]) -> dict[str, str]:
    """Return what the pinned commit says of each file: its SHA-256, or of a small file Git's own hash."""
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    listed = HfApi().get_paths_info(REPOSITORY, paths, repo_type="dataset", revision=REVISION)
    stated = {each.path: each.lfs.sha256 if each.lfs else each.blob_id for each in listed if isinstance(each, RepoFile)}
    absent = [path for path in paths if path not in stated]
    if absent:
        raise DataError(f"{REPOSITORY} at {REVISION[:7]} has no {absent[0]}; expected it. Is this a mirror of the Hub?")
    return stated


def _verify(file: Path, expected: str) -> None:
    if len(expected) == 40:  # a Git blob's SHA-1, over a header and the bytes
        content = file.read_bytes()
        found = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    else:
        found = file_sha256(file)
    if found != expected:
        raise DataError(
            f"{file}: checksum {found}; expected {expected}, that of {REPOSITORY} at {REVISION[:7]}. It was damaged on "
            "its way. Remove the file and run the same command again."
        )
