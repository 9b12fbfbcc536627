"""The release's download: at one commit, only what is asked for, every file against its checksum."""

import hashlib
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub.hf_api import RepoFile

from kbbench_hf.building.stark import release as stark_files
from kbbench_hf.errors import DataError, KBBenchError

CONTENT = b"1\n2\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
BLOB = hashlib.sha1(b"blob 4\0" + CONTENT, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub whose files all hold CONTENT; half of them lie in large-file storage, half in Git."""
    calls = SimpleNamespace(asked=[], content=CONTENT, absent=())

    def snapshot(repository, *, repo_type, revision, allow_patterns, max_workers):
        assert (repository, repo_type) == ("snap-stanford/stark", "dataset")
        assert revision == "88269e23e90587f99476c5dd74e235a0877e69be"
        calls.asked += allow_patterns
        for path in allow_patterns:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(calls.content)
        return str(tmp_path)

    def listed(self, repository, paths, *, repo_type, revision):
        return [
            RepoFile(path=path, size=4, oid=BLOB)
            if number % 2
            else RepoFile(path=path, size=4, oid="x", lfs={"oid": SHA256, "size": 4, "pointerSize": 1})
            for number, path in enumerate(paths)
            if path not in calls.absent
        ]

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    monkeypatch.setattr(huggingface_hub.HfApi, "get_paths_info", listed)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(stark_files, "KNOWN_SHA256", {})
    return calls


def test_only_what_is_asked_for_is_downloaded(hub, tmp_path):
    assert stark_files.download("amazon", questions=True, archive=False) == tmp_path
    assert hub.asked == [
        "qa/amazon/stark_qa/stark_qa.csv",
        "qa/amazon/stark_qa/stark_qa_human_generated_eval.csv",
        "qa/amazon/split/train.index",
        "qa/amazon/split/val.index",
        "qa/amazon/split/test.index",
        "qa/amazon/split/test-0.1.index",
    ]
    hub.asked.clear()
    stark_files.download("mag", questions=False, archive=True)
    assert hub.asked == ["skb/mag/processed.zip"]


def test_bytes_that_are_not_the_commits_are_refused(hub):
    hub.content = b"1\n3\n"
    with pytest.raises(DataError, match="stark_qa.csv: checksum .* expected " + SHA256):
        stark_files.download("amazon", questions=True, archive=False)


def test_a_checksum_known_from_elsewhere_goes_before_what_the_hub_says(hub, monkeypatch):
    monkeypatch.setattr(stark_files, "KNOWN_SHA256", {"skb/prime/processed.zip": "f" * 64})
    with pytest.raises(DataError, match="expected " + "f" * 64):
        stark_files.download("prime", questions=False, archive=True)


def test_a_file_that_the_commit_lacks_is_named(hub):
    hub.absent = ("qa/amazon/split/val.index",)
    with pytest.raises(DataError, match="has no qa/amazon/split/val"):
        stark_files.download("amazon", questions=True, archive=False)


def test_without_a_network_the_remedy_is_given():
    with pytest.raises(KBBenchError, match="give a folder that holds the release"):
        stark_files.download("amazon", questions=True, archive=False)


def test_the_known_checksums_are_those_of_the_real_files(shared):
    for path, expected in stark_files.KNOWN_SHA256.items():
        kind, name, *rest = path.split("/")
        if kind == "qa":
            folder = shared / "data/stark" / name / ("hf_from_mor" if rest[-1].endswith(".csv") else "")
            file = folder / (rest[-1] if rest[-1].endswith(".csv") else "/".join(rest))
            assert hashlib.sha256(file.read_bytes()).hexdigest() == expected
