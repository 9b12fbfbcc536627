"""The files of Text2KGBench's release that a build reads, pinned by size and SHA-256, and how to get them."""

import hashlib
from pathlib import Path

from kbbench_hf.errors import DataError, KBBenchError
from kbbench_hf.files.download import PinnedFile, cache_folder, fetch

COMMIT = "50a3d255371b8817cdff70fd88459ac82b339cfe"
"""The release: github.com/cenguix/Text2KGBench, 2024-05-05."""
ORIGINAL_COMMIT = "388d15c9db709e16b854eb0d163566b88d8bdad6"
"""An earlier revision, whose gold has one triple, with identifiers, for every test sentence."""
ORIGINAL_GOLD = "ground_truth_original_388d15c"
"""The folder beside `ground_truth` into which that gold goes; the repository has none of this name."""
ANSWERS = "llm_responses"
"""The folders of what models answered."""

_REPOSITORY = "https://raw.githubusercontent.com/cenguix/Text2KGBench"
_PINS = Path(__file__).with_name("files.tsv")


def pinned_files(folder: str, *, answers: bool = False) -> list[PinnedFile]:
    """Return the files of one half, `wikidata_tekgen` or `dbpedia_webnlg`; paths are as below the release's `data`.

    With `answers`, those of what models answered, which a build can do without.

    >>> len(pinned_files("wikidata_tekgen")), len(pinned_files("dbpedia_webnlg"))
    (120, 114)
    >>> len(pinned_files("wikidata_tekgen", answers=True)), len(pinned_files("dbpedia_webnlg", answers=True))
    (40, 38)
    """
    files = []
    for line in _PINS.read_text(encoding="utf-8").splitlines()[1:]:
        path, size, sha256 = line.split("\t")
        if path.startswith(f"{folder}/") and (f"/{ANSWERS}/" in path) == answers:
            files.append(PinnedFile(path, _address(path), int(size), sha256))
    return files


def download(folder: str) -> Path:
    """Return one half of the release, downloaded where it is not there yet (12 MB and 6 MB)."""
    return fetch([*pinned_files(folder), *pinned_files(folder, answers=True)], _cache()) / folder


def download_original_gold() -> Path:
    """Return the folder of the earlier revision's gold, which a checkout of the release lacks (1.4 MB).

    Raises:
        KBBenchError: it could not be downloaded; the message says where to put it.
    """
    folder = f"wikidata_tekgen/{ORIGINAL_GOLD}"
    try:
        return fetch(pinned_files(folder), _cache()) / folder
    except KBBenchError as error:
        raise type(error)(
            f"The release has 142 empty gold lists; what restores them was not at {_cache() / folder} and could not be "
            f"downloaded: {error} Or put src/data/ground_truth of commit {ORIGINAL_COMMIT[:7]} into the release as "
            f"{folder}/1_movie.jsonl and so on."
        ) from error


def check_pins(half: Path) -> None:
    """Compare the files of one half, wherever it lies, with the pinned ones; line ends may be Windows'.

    The earlier revision's gold and the models' answers are compared where they are there.

    Raises:
        DataError: some differ; the message has the first one and both checksums.
    """
    for file in [*pinned_files(half.name), *pinned_files(half.name, answers=True)]:
        path = half.parent / file.path
        if (ORIGINAL_GOLD in file.path or f"/{ANSWERS}/" in file.path) and not path.is_file():
            continue
        content = path.read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if file.sha256 not in (found, hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()):
            raise DataError(
                f"{path}: SHA-256 {found}; at commit {COMMIT[:7]} it is {file.sha256}. Expected that commit's files, "
                "unchanged. Fetch the release again, or leave --source out to download it."
            )


def _cache() -> Path:
    return cache_folder() / f"text2kgbench-{COMMIT[:7]}"


def _address(path: str) -> str:
    folder, _, name = path.rpartition("/")
    if folder.endswith(ORIGINAL_GOLD):
        stem = name.removesuffix(".jsonl")
        return f"{_REPOSITORY}/{ORIGINAL_COMMIT}/src/data/ground_truth/ont_{stem}_ground_truth.jsonl"
    return f"{_REPOSITORY}/{COMMIT}/data/{path}"
