"""STaRK's release (Hugging Face snap-stanford/stark, commit 88269e2) -> questions and knowledge base as Parquet.

Questions are read in `questions`, archives in `archives`; `files` downloads both, and `facts` says what they must hold.
"""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from kbbench_hf.benchmarks.stark.metapaths import METAPATHS
from kbbench_hf.benchmarks.stark.release.archives import read_archive
from kbbench_hf.benchmarks.stark.release.facts import AMAZON, MAG, PRIME, Release
from kbbench_hf.benchmarks.stark.release.files import download
from kbbench_hf.benchmarks.stark.release.questions import SYNTHESIZED, read_questions
from kbbench_hf.benchmarks.stark.release.recovered import with_templates
from kbbench_hf.errors import DataError, unknown_name
from kbbench_hf.files.datasets import write_dataset

_CARDS = Path(__file__).parents[1] / "cards"
CONFIGS = ("queries", "nodes", "edges", "schema")
_NO_QUESTIONS = (
    ". Expected the files of huggingface.co/datasets/snap-stanford/stark, or the folder of one dataset. Give that with "
    "--source, or leave --source out to download."
)
_NO_ARCHIVE = (
    ", the knowledge base. Expected the files of huggingface.co/datasets/snap-stanford/stark. For the questions alone: "
    "--configs queries."
)


def build(release: Release, source: Path | None, out: Path, configs: Sequence[str] | None = None) -> None:
    """Build one of the three datasets at `out` from the release at `source`, or from its download where None.

    `source` is the release's root (`qa/amazon`, `skb/amazon/processed.zip`) or the folder of one dataset.

    Raises:
        DataError: a file is absent or malformed, counts are not the release's, or an answer is no node.
        UsageError: a config that does not exist.
    """
    for config in configs or ():
        if config not in CONFIGS:
            raise unknown_name(f"config of {release.dataset}", config, CONFIGS)
    chosen = [config for config in CONFIGS if configs is None or config in configs]
    needs_archive = any(config != "queries" for config in chosen)
    if source is None:
        source = download(release.name, questions="queries" in chosen, archive=needs_archive)
    tables: dict[str, dict[str, pa.Table]] = {}
    if "queries" in chosen:
        folder = _folder(source, "qa", release.name, SYNTHESIZED, _NO_QUESTIONS)
        tables["queries"] = read_questions(folder, release.questions)
    with ExitStack() as open_archive:
        if needs_archive:
            file = _folder(source, "skb", release.name, "processed.zip", _NO_ARCHIVE) / "processed.zip"
            found = open_archive.enter_context(read_archive(file, release.archive, out.resolve().parent))
            tables |= {config: {"full": found[config]} for config in chosen if config in found}
            if "queries" in tables and release.lists_templates:
                templates = METAPATHS[release.name].values()
                tables["queries"] = with_templates(tables["queries"], [*templates], found["nodes"], found["edges"])
        write_dataset(out, tables, (_CARDS / f"{release.dataset}.md").read_text(encoding="utf-8"))


def build_archive(release: Release, archive: Path, out: Path) -> None:
    """Build at `out` the knowledge base in an archive of the release's form and any size up to it, without questions.

    Such are what the authors' code writes from a part of the raw data, or from data of one's own.

    Raises:
        DataError: the archive is malformed.
    """
    with read_archive(archive, replace(release.archive, part=True), out.resolve().parent) as found:
        form = f"A knowledge base in the form of {release.dataset}'s, without questions."
        card = f"---\npretty_name: {json.dumps(out.name)}\n---\n\n# {out.name}\n\n{form}\n"
        write_dataset(out, {config: {"full": table} for config, table in found.items()}, card)


_RELEASES = (AMAZON, MAG, PRIME)
build_amazon, build_mag, build_prime = (partial(build, release) for release in _RELEASES)
build_amazon_archive, build_mag_archive, build_prime_archive = (partial(build_archive, each) for each in _RELEASES)


def _folder(source: Path, kind: str, name: str, file: str, advice: str) -> Path:
    """Return the folder that holds a file of one dataset, in the release or alone."""
    for place in (source / kind / name, source / name, source):
        if (place / file).is_file():
            return place
    raise DataError(f"{source} holds no {kind}/{name}/{file}{advice}")
