"""The public repositories of ska-open's sources, checked out at pinned commits: git itself checks every byte."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.building.ska_bench import hybridqa_tables, metaqa, tatqa, wikitablequestions
from kbbench_hf.errors import KBBenchError
from kbbench_hf.files.writing import whole_folder

HOST = "https://github.com"


class Repository(NamedTuple):
    """A repository at a commit, and which of its files are read, as patterns of `git sparse-checkout`."""

    name: str
    commit: str
    patterns: Sequence[str]


def _repository(stated: str, *patterns: str) -> Repository:
    name, _, commit = stated.partition(" @")
    return Repository(name, commit, patterns)


_HYBRIDQA, _OTTQA = hybridqa_tables.SOURCE.commit.split(", ")
REPOSITORIES: Mapping[str, Repository] = {
    "metaqa": _repository(metaqa.SOURCE.commit, "/data/MetaQA/*.tsv", "/data/MetaQA/*2text.txt", "/data/MetaQA/?-hop/"),
    "wtq": _repository(wikitablequestions.SOURCE.commit, "/csv/*/*.csv", "/data/"),
    "tatqa": _repository(tatqa.SOURCE.commit, "/dataset_raw/"),
    "hybridqa": _repository(_HYBRIDQA, "/released_data/"),
    "ottqa": _repository(_OTTQA, "/data/traindev_tables_tok/", "/data/traindev_request_tok/"),
    "tekgen": _repository("cenguix/Text2KGBench @50a3d255371b8817cdff70fd88459ac82b339cfe", "/data/wikidata_tekgen/"),
}
"""Source -> where its public files lie, at the commits that instances state (`raw_files.Source`)."""


def checkout(repository: Repository, host: str, home: Path) -> Path:
    """Return a folder below `home` with the files of a repository that are read, fetched where it is not there yet.

    Raises:
        KBBenchError: git is absent, the repository cannot be reached, or lacks the commit.
    """
    from rich.console import Console

    place = home / repository.name.replace("/", "--") / repository.commit
    if place.is_dir():
        return place
    git = shutil.which("git")
    if git is None:
        raise KBBenchError(
            "ska-open's public files are fetched by git, which is not on the PATH. Install it, or give --source with a "
            "folder of the sources' files."
        )
    address = f"{host}/{repository.name}"
    with Console(stderr=True).status(f"Fetch {address} at {repository.commit}"), whole_folder(place) as folder:
        for arguments in (
            ("init", "--quiet"),
            ("config", "core.autocrlf", "false"),
            ("remote", "add", "origin", address),
            ("fetch", "--quiet", "--no-tags", "--filter=blob:none", "origin", "HEAD"),
            ("sparse-checkout", "set", "--no-cone", *repository.patterns),
            ("checkout", "--quiet", "--detach", repository.commit),
        ):
            environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
            done = subprocess.run(  # noqa: S603 - git, with arguments of this module
                [git, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                said = done.stderr.strip().splitlines() or [f"git ended with {done.returncode}"]
                raise KBBenchError(
                    f"{address} at {repository.commit} could not be fetched ({said[-1]}). Run the same command again, "
                    "or give --source with a folder of the sources' files."
                )
        shutil.rmtree(folder / ".git")
    return place
