"""STaRK's release (Hugging Face snap-stanford/stark, commit 88269e2) -> questions and knowledge base as Parquet.

Questions are read in `stark_questions`, archives in `stark_archives`; `stark_files` downloads both, and `stark_facts`
says what they must hold.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kbbench_hf.dataset_folder import write_dataset
from kbbench_hf.errors import DataError, unknown_name
from kbbench_hf.releases.cards import card
from kbbench_hf.releases.stark_archives import read_archive
from kbbench_hf.releases.stark_facts import AMAZON, MAG, PRIME, Release
from kbbench_hf.releases.stark_files import download
from kbbench_hf.releases.stark_questions import SYNTHESIZED, read_questions

CONFIGS = ("queries", "nodes", "edges", "schema")
_KNOWLEDGE_BASE = ("nodes", "edges", "schema")


def build_amazon(source: Path | None, out: Path, configs: Sequence[str] | None = None) -> None:
    """Build `stark-amazon` at `out` from the release at `source`, or from its download where None.

    `source` is the release's root (`qa/amazon`, `skb/amazon/processed.zip`) or the folder of one dataset.

    Raises:
        DataError: a file is absent or malformed, counts are not the release's, or an answer is no node.
        UsageError: a config that does not exist.
    """
    build(AMAZON, source, out, configs)


def build_mag(source: Path | None, out: Path, configs: Sequence[str] | None = None) -> None:
    """Build `stark-mag` at `out`; as `build_amazon`."""
    build(MAG, source, out, configs)


def build_prime(source: Path | None, out: Path, configs: Sequence[str] | None = None) -> None:
    """Build `stark-prime` at `out`; as `build_amazon`."""
    build(PRIME, source, out, configs)


def build(release: Release, source: Path | None, out: Path, configs: Sequence[str] | None = None) -> None:
    """Build one of the releases; what `build_amazon`, `build_mag` and `build_prime` do."""
    for config in configs or ():
        if config not in CONFIGS:
            raise unknown_name(f"config of {release.dataset}", config, CONFIGS)
    chosen = [config for config in CONFIGS if configs is None or config in configs]
    needs_archive = any(config in _KNOWLEDGE_BASE for config in chosen)
    if source is None:
        source = download(release.name, questions="queries" in chosen, archive=needs_archive)
    tables: dict[str, dict[str, pa.Table]] = {}
    if "queries" in chosen:
        tables["queries"] = read_questions(_questions_folder(release, source), release.questions)
    if not needs_archive:
        write_dataset(out, tables, card(release.dataset))
        return
    with read_archive(_archive_file(release, source), release.archive, out.resolve().parent) as knowledge_base:
        for config in chosen:
            if config in _KNOWLEDGE_BASE:
                tables[config] = {"full": knowledge_base[config]}
        write_dataset(out, tables, card(release.dataset))


def _questions_folder(release: Release, source: Path) -> Path:
    places = [source / "qa" / release.name, source / release.name, source]
    for place in places:
        if (place / SYNTHESIZED).is_file():
            return place
    raise DataError(
        f"{source} holds no qa/{release.name}/{SYNTHESIZED}. Expected the files of huggingface.co/datasets/"
        "snap-stanford/stark, or the folder of one dataset. Give that with --source, or leave --source out to download."
    )


def _archive_file(release: Release, source: Path) -> Path:
    places = [source / "skb" / release.name, source / release.name, source]
    for place in places:
        if (place / "processed.zip").is_file():
            return place / "processed.zip"
    raise DataError(
        f"{source} holds no skb/{release.name}/processed.zip, the knowledge base. Expected the files of huggingface.co/"
        "datasets/snap-stanford/stark. For the questions alone: --configs queries."
    )
