"""Readers of the authors' releases, and the table of what can be built: dataset -> function."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kbbench_hf.registry import registered

Builder = Callable[[Path | None, Path, Sequence[str] | None], None]
"""(the release's folder or None to download it, the dataset folder to write, the configs to build or None for all)."""

BUILDERS = {
    "genres-corpora": "kbbench_hf.releases.genres:build_genres_corpora",
    "ska-bench": "kbbench_hf.construction.ska_datasets:build_official",
    "ska-open": "kbbench_hf.construction.ska_datasets:build_open",
    "stark-amazon": "kbbench_hf.releases.stark:build_amazon",
    "stark-mag": "kbbench_hf.releases.stark:build_mag",
    "stark-prime": "kbbench_hf.releases.stark:build_prime",
    "text2kg-dbpedia-webnlg": "kbbench_hf.releases.text2kgbench:build_dbpedia_webnlg",
    "text2kg-wikidata-tekgen": "kbbench_hf.releases.text2kgbench:build_wikidata_tekgen",
}


def builder(dataset: str) -> Builder:
    """Return the function that builds a dataset, by its name with or without `kbbench/` before it.

    >>> builder("text2kg-wikidata-tekgen").__name__
    'build_wikidata_tekgen'

    Raises:
        UsageError: nothing of that name can be built; the message has the closest name.
    """
    found: Builder = registered("dataset", dataset.removeprefix("kbbench/"), BUILDERS)
    return found
