"""Source folder of ska-open from the sources' public repositories: `kbbench build ska-open` without `--source`.

Repositories are checked out at pinned commits, so git checks every byte; then the files of each source are converted to
what its reader takes. Two things are derived: the path of a question of MetaQA (`public_metaqa`), and the cells that a
question of HybridQA quotes with the second passage that some of them need (`public_hybridqa`).
"""

import csv
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.units import clean
from kbbench_hf.building.ska_bench import hybridqa, metaqa, tatqa, tekgen, wikitablequestions
from kbbench_hf.building.ska_bench.public_hybridqa import write_hybridqa
from kbbench_hf.building.ska_bench.public_metaqa import write_metaqa
from kbbench_hf.building.ska_bench.source_files import lines_of, write_json_lines
from kbbench_hf.errors import DataError, KBBenchError
from kbbench_hf.files.datasets import Row
from kbbench_hf.files.download import cache_folder
from kbbench_hf.files.writing import whole_folder

HOST = "https://github.com"
WTQ_SPLITS = ("training", "pristine-unseen-tables")


class PinnedRepository(NamedTuple):
    """A repository at a commit, and which of its files are read, as patterns of `git sparse-checkout`."""

    name: str
    commit: str
    patterns: Sequence[str]


def _repository(stated: str, *patterns: str) -> PinnedRepository:
    name, _, commit = stated.partition(" @")
    return PinnedRepository(name, commit, patterns)


_HYBRIDQA, _OTTQA = hybridqa.SOURCE.commit.split(", ")
REPOSITORIES: Mapping[str, PinnedRepository] = {
    "metaqa": _repository(metaqa.SOURCE.commit, "/data/MetaQA/*.tsv", "/data/MetaQA/*2text.txt", "/data/MetaQA/?-hop/"),
    "wtq": _repository(wikitablequestions.SOURCE.commit, "/csv/*/*.csv", "/data/"),
    "tatqa": _repository(tatqa.SOURCE.commit, "/dataset_raw/"),
    "hybridqa": _repository(_HYBRIDQA, "/released_data/"),
    "ottqa": _repository(_OTTQA, "/data/traindev_tables_tok/", "/data/traindev_request_tok/"),
    "tekgen": _repository("cenguix/Text2KGBench @50a3d255371b8817cdff70fd88459ac82b339cfe", "/data/wikidata_tekgen/"),
}
"""Source -> its repository, at the commits that instances state (`source_files.DataSource`)."""


def download_sources(host: str = HOST) -> Path:
    """Return a folder of raw files in the layout that the readers take, made from the public files where absent.

    The same commits give the same bytes. Takes some minutes the first time; after an interruption, complete
    repositories are not fetched again.

    Raises:
        KBBenchError: git is absent, a repository cannot be reached, or lacks its commit.
        DataError: a file is not what its commit holds.
    """
    home = cache_folder() / "ska-open"
    made = home / "-".join(["source", *(repository.commit[:7] for repository in REPOSITORIES.values())])
    if not made.is_dir():
        checkouts = {source: _check_out(repository, host, home) for source, repository in REPOSITORIES.items()}
        with whole_folder(made) as folder:
            _write_sources(checkouts, folder)
    return made


def _check_out(repository: PinnedRepository, host: str, home: Path) -> Path:
    """Return a folder below `home` with the files of a repository that are read, fetched where absent."""
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
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    with Console(stderr=True).status(f"Fetch {address} at {repository.commit}"), whole_folder(place) as folder:
        for arguments in (
            ("init", "--quiet"),
            ("config", "core.autocrlf", "false"),
            ("remote", "add", "origin", address),
            ("fetch", "--quiet", "--no-tags", "--filter=blob:none", "origin", "HEAD"),
            ("sparse-checkout", "set", "--no-cone", *repository.patterns),
            ("checkout", "--quiet", "--detach", repository.commit),
        ):
            done = subprocess.run(  # noqa: S603 - git, with arguments of this module
                [git, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                lines = done.stderr.strip().splitlines() or [f"git ended with {done.returncode}"]
                raise KBBenchError(
                    f"{address} at {repository.commit} could not be fetched ({lines[-1]}). Run the same command again, "
                    "or give --source with a folder of the sources' files."
                )
        shutil.rmtree(folder / ".git")
    return place


def _write_sources(checkouts: Mapping[str, Path], folder: Path) -> None:
    """Write the raw files of a build into a folder, from the checkouts of `REPOSITORIES`."""
    release = checkouts["tekgen"] / "data" / tekgen.FOLDER.name
    writers: Mapping[str, Callable[[], object]] = {
        "metaqa": partial(write_metaqa, checkouts["metaqa"], folder),
        "wtq": partial(_write_wtq, checkouts["wtq"], folder),
        "tatqa": partial(_write_tatqa, checkouts["tatqa"], folder),
        "hybridqa": partial(write_hybridqa, checkouts["hybridqa"], checkouts["ottqa"], folder),
        "tekgen": partial(shutil.copytree, release, folder / tekgen.FOLDER),
    }
    for source, writer in writers.items():
        try:
            writer()
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise DataError(
                f"{checkouts[source]} does not hold the files of its commit ({error!r}). Remove that folder and run "
                "the same command again."
            ) from error


def _write_tatqa(checkout: Path, folder: Path) -> None:
    """Write TAT-QA's test documents with gold, a list in the release, one a line."""
    documents = json.loads((checkout / "dataset_raw" / "tatqa_dataset_test_gold.json").read_text(encoding="utf-8"))
    write_json_lines(folder / tatqa.FILE, documents)


def _write_wtq(checkout: Path, folder: Path) -> None:
    """Write WikiTableQuestions' questions on tables that are large enough, with logical forms, and these tables."""
    forms = parse_logical_forms(lines_of(checkout / "data" / "annotated-all.examples"))
    questions = [row for split in WTQ_SPLITS for row in _wtq_questions(checkout / "data" / f"{split}.tsv", forms)]
    stored = {}
    for name in sorted({row["table"] for row in questions}):
        with (checkout / name).open(encoding="utf-8", newline="") as lines:
            rows = [[clean(cell) for cell in row] for row in csv.reader(lines, doublequote=False, escapechar="\\")]
        if len(rows[0]) >= wikitablequestions.FEWEST_COLUMNS and len(rows) > wikitablequestions.FEWEST_ROWS:
            stored[name] = {"table": name, "header": rows[0], "rows": rows[1:]}
    write_json_lines(folder / wikitablequestions.TABLES, stored.values())
    write_json_lines(folder / wikitablequestions.QUESTIONS, (row for row in questions if row["table"] in stored))


def _wtq_questions(file: Path, forms: Mapping[str, str]) -> Iterator[Row]:
    for line in islice(lines_of(file), 1, None):
        name, text, table, answers = line.split("\t")
        row = {"id": name, "split": file.stem, "question": unescape_cell(text), "table": table}
        yield row | {"answers": list(map(unescape_cell, answers.split("|"))), "logical_form": forms.get(name)}


def unescape_cell(text: str) -> str:
    r"""Return a cell of the released TSV files as it was written.

    >>> unescape_cell(r"AC\pDC\nback to back \\ 1980")
    'AC|DC back to back \\ 1980'
    """
    return clean(re.sub(r"\\(.)", lambda found: {"n": " ", "p": "|"}.get(found[1], found[1]), text))


def parse_logical_forms(examples: Iterable[str]) -> dict[str, str]:
    """Return the logical forms that people wrote, by the id of their question.

    >>> parse_logical_forms(['(example (id nt-3) (utterance "how many?") (targetFormula (count (r.year c.1990))))'])
    {'nt-3': '(count (r.year c.1990))'}
    """
    forms = {}
    for example in examples:
        name, form = re.search(r"\(id (\S+)\)", example), example.partition("(targetFormula ")[2]
        if name and form:
            forms[name[1]] = _balanced(form)
    return forms


def _balanced(text: str) -> str:
    depth = 0
    for end, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth <= 0:
            return text[: end + (depth == 0 and character == ")")]
    return text
