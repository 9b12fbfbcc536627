"""ska-open's source folder, made from what its sources published: `kbbench build ska-open` without `--source`.

`checkouts` fetches the repositories at pinned commits; each other module turns the files of one source into what its
reader takes. What is published is kept, but for what the sources leave to be found: the path that a question of MetaQA
asks along, and of HybridQA's questions the cells that they quote and the second passage that some of them need.
"""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from kbbench_hf.building.ska_bench.kg_text import TEKGEN
from kbbench_hf.building.ska_bench.public_files import hybridqa, metaqa, tatqa, wikitablequestions
from kbbench_hf.building.ska_bench.public_files.checkouts import HOST, REPOSITORIES, checkout
from kbbench_hf.errors import DataError
from kbbench_hf.files.download import cache_folder
from kbbench_hf.files.writing import whole_folder


def download(host: str = HOST) -> Path:
    """Return a folder of raw files in the layout that the makers read, made from the public files where absent.

    The same commits give the same bytes. Takes some minutes the first time; where it was interrupted, repositories that
    are there are not fetched again.

    Raises:
        KBBenchError: git is absent, a repository cannot be reached, or lacks its commit.
        DataError: a file is not what its commit holds.
    """
    home = cache_folder() / "ska-open"
    made = home / "-".join(["source", *(repository.commit[:7] for repository in REPOSITORIES.values())])
    if not made.is_dir():
        checkouts = {source: checkout(repository, host, home) for source, repository in REPOSITORIES.items()}
        with whole_folder(made) as folder:
            write(checkouts, folder)
    return made


def write(checkouts: Mapping[str, Path], folder: Path) -> None:
    """Write the raw files of a build into a folder, from the checkouts of `checkouts.REPOSITORIES`.

    Raises:
        DataError: a file of a checkout is absent or malformed.
    """
    tekgen = checkouts["tekgen"] / "data" / TEKGEN.name
    writers: Mapping[str, Callable[[], object]] = {
        "metaqa": partial(metaqa.write, checkouts["metaqa"], folder),
        "wtq": partial(wikitablequestions.write, checkouts["wtq"], folder),
        "tatqa": partial(tatqa.write, checkouts["tatqa"], folder),
        "hybridqa": partial(hybridqa.write, checkouts["hybridqa"], checkouts["ottqa"], folder),
        "tekgen": partial(shutil.copytree, tekgen, folder / TEKGEN),
    }
    for source, writer in writers.items():
        try:
            writer()
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise DataError(
                f"{checkouts[source]} does not hold the files of its commit ({error!r}). Remove that folder and run "
                "the same command again."
            ) from error
