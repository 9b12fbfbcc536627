"""Source folder of ska-open from the sources' public repositories: `kbbench build ska-open` without `--source`.

Repositories are checked out at pinned commits, so git checks every byte; then the files of each source are converted to
what its reader takes. Two things are derived:

- the path of a question of MetaQA, whose questions come without: those of one wording share a path, the one that gives
  the answers of most of them;
- of HybridQA, whose dev questions with traces of their answers are kept where these lie in one row of OTT-QA's tables,
  the cells that a question quotes, and the second passage that some of them need, by its words.

The folder is cached under the commits of the repositories, because the same commits give the same bytes: another
conversion of a source needs another name of the folder, and another revision of ska-open.
"""

import csv
import json
import math
import os
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.ska_bench.units import Cells, clean
from kbbench_hf.building.ska_bench import hybridqa, metaqa, tatqa, tekgen, wikitablequestions
from kbbench_hf.building.ska_bench.source_files import lines_of, write_json_lines, write_lines
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash
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
    """Return a repository stated as `owner/name @commit`."""
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
            ("clone", "--quiet", "--no-checkout", "--no-tags", "--single-branch", "--filter=blob:none", address, "."),
            ("config", "core.autocrlf", "false"),
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
    write_json_lines(folder / tatqa.FILE, _read_json(checkout / "dataset_raw" / "tatqa_dataset_test_gold.json"))


def _write_wtq(checkout: Path, folder: Path) -> None:
    """Write WikiTableQuestions' questions on tables that are large enough, and these tables."""
    questions = [row for split in WTQ_SPLITS for row in _wtq_questions(checkout / "data" / f"{split}.tsv")]
    stored = {}
    for name in sorted({row["table"] for row in questions}):
        with (checkout / name).open(encoding="utf-8", newline="") as lines:
            rows = [[clean(cell) for cell in row] for row in csv.reader(lines, doublequote=False, escapechar="\\")]
        if len(rows[0]) >= wikitablequestions.FEWEST_COLUMNS and len(rows) > wikitablequestions.FEWEST_ROWS:
            stored[name] = {"table": name, "header": rows[0], "rows": rows[1:]}
    write_json_lines(folder / wikitablequestions.TABLES, stored.values())
    write_json_lines(folder / wikitablequestions.QUESTIONS, (row for row in questions if row["table"] in stored))


def _wtq_questions(file: Path) -> Iterator[Row]:
    """Yield the rows of a TSV file of questions, without its header."""
    for line in islice(lines_of(file), 1, None):
        name, text, table, answers = line.split("\t")
        row = {"id": name, "question": unescape_cell(text), "table": table}
        yield row | {"answers": list(map(unescape_cell, answers.split("|")))}


def unescape_cell(text: str) -> str:
    r"""Return a cell of the released TSV files as it was written.

    >>> unescape_cell(r"AC\pDC\nback to back \\ 1980")
    'AC|DC back to back \\ 1980'
    """
    return clean(re.sub(r"\\(.)", lambda found: {"n": " ", "p": "|"}.get(found[1], found[1]), text))


LEAST_WEIGHT = 6.0
"""The least weight of the words of a second passage, as summed inverse document frequencies, for it to be needed."""
_COMMON = frozenset(
    "a about after also an and are as at be been before between by did do does during first for from had has have "
    "he her his how in into is it its last more most name named not of on or she than that the their these they "
    "this those to was were what when where which who whom whose with".split()
)


def write_hybridqa(questions: Path, tables: Path, folder: Path) -> None:
    """Write the questions whose answer is in one row, and their tables with the passages of their links."""
    traced = _read_json(questions / "released_data" / "dev.traced.json")
    settled = [question for question in traced if len({node[1][0] for node in question["answer-node"]}) == 1]
    stored = {name: _table(tables / "data", name) for name in sorted({each["table_id"] for each in settled})}
    write_json_lines(folder / hybridqa.TABLES, stored.values())
    words = PassageWords(row["passages"] for row in stored.values())
    rows = (_question(each, stored[each["table_id"]], words) for each in settled)
    write_json_lines(folder / hybridqa.QUESTIONS, sorted(rows, key=lambda row: str(row["id"])))


def _read_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _table(source: Path, name: str) -> Row:
    """Return a table of OTT-QA with its passages, as `hybridqa` reads it."""
    table, passages = (_read_json(source / f"traindev_{part}_tok" / f"{name}.json") for part in ("tables", "request"))
    return {
        "table": name,
        "title": table["title"],
        "section": table["section_title"],
        "header": [text for text, _ in table["header"]],
        "rows": table["data"],
        "passages": passages,
    }


def _question(question: Row, table: Row, words: "PassageWords") -> Row:
    """Return a traced question as `hybridqa` reads it."""
    nodes, row = question["answer-node"], question["answer-node"][0][1][0]
    passages = list(dict.fromkeys(link for _, _, link, where in nodes if where == "passage"))
    bridges, hits = words.find_bridges(question["question"], table, row, passages)
    return {
        "id": question["question_id"],
        "question": question["question"],
        "answer": question["answer-text"],
        "table": question["table_id"],
        "row": row,
        "row_cells_quoted": quoted_columns(question["question"], [text for text, _ in table["rows"][row]]),
        "answer_in_table": any(where == "table" for *_, where in nodes),
        "answer_passages": passages,
        "bridge_passages": bridges,
        "bridge_hits_in_table": hits if bridges else 0,
    }


def quoted_columns(question: str, cells: Sequence[str]) -> list[int]:
    """Return the columns whose cells a question quotes, as whole words.

    >>> quoted_columns("who rode for Team 3 in 1999 ?", ["1999", "Team 3", "9", ""])
    [0, 1]
    """
    text = f" {' '.join(_words(question))} "
    return [n for n, cell in enumerate(cells) if (words := _words(cell)) and f" {' '.join(words)} " in text]


class PassageWords:
    """Inverse document frequencies of the words of the passages of all tables."""

    def __init__(self, passages: Iterable[Mapping[str, str]]) -> None:
        texts = {link: text for each in passages for link, text in each.items()}
        frequencies = Counter(chain.from_iterable(set(_words(text)) for text in texts.values()))
        self._idf = {word: math.log(len(texts) / (1 + n)) for word, n in frequencies.items() if word not in _COMMON}

    def find_bridges(self, question: str, table: Row, row: int, answering: Sequence[str]) -> tuple[list[str], int]:
        """Return the links of other passages of a row that a question refers to, sorted, and how many of the table fit.

        They hold words of the question that neither the row, title and header nor the passages of the answer have, and
        that weigh `LEAST_WEIGHT` together. None where no passage has the answer.
        """
        if not answering:
            return [], 0
        passages: Mapping[str, str] = table["passages"]
        known = [*(text for text, _ in table["rows"][row]), *table["header"], table["title"]]
        known += [passages[link] for link in answering if link in passages]
        wanted = set(_words(question)) - set(chain.from_iterable(map(_words, known)))
        fitting = {
            link
            for link, text in passages.items()
            if math.fsum(self._idf.get(word, 0.0) for word in wanted & set(_words(text))) >= LEAST_WEIGHT
        }
        linked = {link for _, links in table["rows"][row] for link in links}
        return sorted((linked & fitting) - set(answering)), len(fitting)


def _words(text: str) -> list[str]:
    """Return the words of a tokenized text in lower case, in their order."""
    return re.findall(r"\w+", text.lower())


MOST_OF_A_KIND = 320
"""How many questions of each number of steps and of triples are taken, in the order of their hashes."""
MOST_ANSWERS, MOST_TRIPLES = 6, 12
_KINDS = {**{relation: kind for kind, relation in metaqa.RELATIONS.items()}, "has tags": "tags"}
_TRIED = 40
"""How many questions of a wording decide its path."""


class PathQuestion(NamedTuple):
    """A question as it is published."""

    id: str
    hops: int
    text: str
    """Its topic is in brackets."""
    answers: frozenset[str]

    @property
    def topic(self) -> str:
        """The entity that the question is about, without its brackets."""
        return self.text.partition("[")[2].partition("]")[0]


def write_metaqa(checkout: Path, folder: Path) -> None:
    """Write the triples, and questions whose answers follow from them alone."""
    source = checkout / "data" / "MetaQA"
    triples = sorted(set(_read_triples(source)))
    write_lines(folder / metaqa.TRIPLES, ("\t".join(triple) for triple in triples))
    lines = [(hops, line) for hops in (1, 2, 3) for line in lines_of(source / f"{hops}-hop" / "test.txt")]
    questions = []
    for n, (hops, line) in enumerate(lines):
        text, answers = line.split("\t")
        questions.append(PathQuestion(f"metaqa-{hops}h-{n}", hops, text, frozenset(answers.split("|"))))
    write_json_lines(folder / metaqa.QUESTIONS, add_paths(questions, triples))


def _read_triples(source: Path) -> Iterator[Cells]:
    """Yield the triples of all files of the graph, repeated ones too, without those of entities that have no name."""
    names, relations = (
        dict(line.split("\t") for line in lines_of(source / f"{of}2text.txt")) for of in ("entity", "relation")
    )
    for file in sorted(source.glob("*.tsv")):
        for head, relation, tail in (line.split("\t") for line in lines_of(file)):
            if names.get(head) and names.get(tail):
                yield clean(names[head]), relations[relation], clean(names[tail])


def add_paths(questions: Iterable[PathQuestion], triples: Iterable[Cells]) -> list[Row]:
    """Return the questions whose path gives their answers exactly, with that path, at most so many of each kind.

    >>> facts = [("Heat", "directed by", "Mann"), ("Ali", "directed by", "Mann"), ("Ali", "written by", "Roth")]
    >>> [row["path"] for row in add_paths([PathQuestion("q", 1, "who made [Heat]", frozenset({"Mann"}))], facts)]
    ['movie_to_director']
    """
    graph = FilmGraph(triples)
    by_wording: defaultdict[tuple[int, str], list[PathQuestion]] = defaultdict(list)
    for each in questions:
        by_wording[each.hops, each.text.replace(f"[{each.topic}]", "[]")].append(each)
    kinds: defaultdict[tuple[int, int], list[Row]] = defaultdict(list)
    for (hops, _), members in sorted(by_wording.items()):
        if path := graph.find_path(hops, members):
            for each in members:
                n_triples = graph.n_triples(path, each.topic)
                if len(each.answers) <= MOST_ANSWERS and n_triples <= MOST_TRIPLES and graph.is_answered(each, path):
                    text = each.text.replace(f"[{each.topic}]", each.topic)
                    row = {"id": each.id, "hop": hops, "path": "_to_".join(path), "question": text}
                    row |= {"topic": each.topic, "answers": sorted(each.answers)}
                    kinds[hops, min(n_triples, 5)].append(row)
    hashed = (sorted(kinds[kind], key=lambda row: seeded_hash(row["id"])) for kind in sorted(kinds))
    return [row for rows in hashed for row in rows[:MOST_OF_A_KIND]]


class FilmGraph:
    """A graph of films, walked along MetaQA's paths: ("actor", "movie", "year") goes from an actor to years."""

    def __init__(self, triples: Iterable[Cells]) -> None:
        self._ends: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        for head, relation, tail in triples:
            if kind := _KINDS.get(relation):
                self._ends["movie", kind, head].add(tail)
                self._ends[_start(kind), "movie", tail].add(head)

    def find_path(self, hops: int, questions: Sequence[PathQuestion]) -> Cells:
        """Return the path that answers most of these questions exactly; empty where two answer as many, or none any."""
        tried = sorted(questions, key=lambda each: seeded_hash(each.id))[:_TRIED]
        fits = Counter({path: sum(self.is_answered(each, path) for each in tried) for path in _paths(hops)})
        (best, most), (_, second) = fits.most_common(2)
        return best if most > second else ()

    def is_answered(self, question: PathQuestion, path: Cells) -> bool:
        """Return whether a path leads from the topic of a question to its answers and nowhere else."""
        return self._layers(path, question.topic)[-1] == question.answers

    def n_triples(self, path: Cells, topic: str) -> int:
        """Return how many triples lie on the ways along a path from its topic to its end."""
        *before, needed = self._layers(path, topic)
        number = 0
        for step, layer in zip(reversed(list(pairwise(path))), reversed(before), strict=True):
            used = [(name, end) for name in layer for end in self._ends.get((*step, name), set()) & needed]
            number, needed = number + len(used), {name for name, _ in used}
        return number

    def _layers(self, path: Cells, topic: str) -> list[set[str]]:
        """Return what is reached after each step; no step returns to the topic."""
        layers = [{topic}]
        for step in pairwise(path):
            layers.append(set(chain.from_iterable(self._ends.get((*step, name), ()) for name in layers[-1])) - {topic})
        return layers


def _start(kind: str) -> str:
    return "tag" if kind == "tags" else kind


def _paths(hops: int) -> Sequence[Cells]:
    """Return the paths of so many steps that MetaQA's questions follow; every second node is a film."""
    kinds = list(_KINDS.values())
    through = [kind for kind in kinds if kind not in ("tags", "genre", "language", "year")]
    if hops == 1:
        return [("movie", kind) for kind in kinds] + [(_start(kind), "movie") for kind in kinds]
    if hops == 2:
        return [("movie", kind, "movie") for kind in through] + [(a, "movie", b) for a, b in product(through, kinds)]
    return [("movie", kind, "movie", end) for kind, end in product(through, kinds)]
