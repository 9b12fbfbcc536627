"""Builder of the GenRES datasets from the user's clone of the release (pat-jj/GenRES, commit 7824249).

The release states no licence, so nothing of it is shipped: it is read from the user's clone. Texts of TACRED
(LDC2018T24) and NYT10m (LDC2008T19) are written only where the user's own licensed copy holds the same text, compared
by hash. Ids are hashes of texts, because texts are the release's only keys.

The benchmark names `build_genres_corpora`, and what it needs of the release to calibrate judges and to study people's
votes, by import string. The dataset is the same bytes in every build of the same clone.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from kbbench_hf.benchmarks.annotated import HumanVote
from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Example, Examples, TaskKey
from kbbench_hf.benchmarks.genres.statistics import repair_report
from kbbench_hf.benchmarks.genres.topic_corpora import (
    ANSWERED,
    CLONE,
    PUBLISHED,
    RAW,
    RELEASE_NAMES,
    corpus_config,
    licensed_texts,
    read_release,
    released_corpus,
    stored_by_text,
)
from kbbench_hf.benchmarks.published import read_published
from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.files.datasets import Row, write_dataset
from kbbench_hf.metrics.agreement import Vote

_CARD = Path(__file__).parent / "cards" / "genres-corpora.md"
UNSTATED = "not induced by"
"""The relation of CDR's gold that no text states: an annotator's "no relation", 79 % of its triples."""

_TRIPLES = pa.list_(pa.struct([(name, pa.string()) for name in ("sub", "rel", "obj")]))
DOCUMENTS = pa.schema([("id", pa.string()), ("text", pa.string()), ("triples", _TRIPLES), ("triples_stated", _TRIPLES)])
"""Columns of every config: the text, its gold as released, and the gold without CDR's unstated negatives."""
CORPUS = pa.schema([("id", pa.string()), ("text", pa.string())])
"""Columns of `CONFIG_corpus`, the texts that the topic models of a config are trained on."""


@dataclass(frozen=True)
class _Config:
    sample: str
    """The release's name of the sample, whose file `datasets/<sample>.json` is the only definition of it."""
    documents: int
    triples: int
    licensed: str | None = None
    """What a licensed copy is called, where one is needed."""


# The counts of documents and triples are those of the release: with others, a clone is refused.
CONFIGS: Mapping[str, _Config] = {
    "cdr": _Config("cdr_rand_200", 200, 2077),
    "docred": _Config("docred_rand_200", 200, 2485),
    "wiki20m": _Config("wiki20m_rand_500", 500, 1000),
    "wiki80": _Config("wiki80_rand_800", 800, 802),
    "tacred": _Config("tacred_rand_800", 800, 422, "TACRED (LDC2018T24): test.json"),
    "nyt10m": _Config("nyt10m_rand_500", 500, 720, "NYT10m (from LDC2008T19): nyt10m_test.txt"),
}


def text_id(text: str) -> str:
    """Return the id of a document: the first 16 hexadecimal digits of its text's sha256.

    >>> text_id("Paris is in France .")
    '520af9299c2d3933'
    """
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def build_genres_corpora(source: Path | None, out: Path, configs: Sequence[str] | None = None) -> None:
    """Write the dataset `genres-corpora` from the user's clone of the release.

    Args:
        source: the clone, or a folder with its `inputs` and `topical_corpora`. The texts of TACRED and NYT10m are
            looked for in `licensed/tacred/*.json` and `licensed/nyt10m/*.txt` below it.
        out: the dataset folder.
        configs: those to build; None for the four free ones and those whose licensed copy is there. Each brings the
            corpus of its topic models as `CONFIG_corpus`, where the source has it (see `topic_corpora`).

    Raises:
        UsageError: no source, or an unknown config.
        DataError: a file is missing or counts differently than the release's, or a licensed copy lacks texts.
    """
    if source is None:
        raise UsageError(
            "No source for genres-corpora; its release states no license, so it is neither shipped nor downloaded. "
            f"Clone it yourself ({CLONE}) and name the clone: --source GenRES"
        )
    release = _ReleaseFiles(source)
    for name in configs or ():
        if name not in CONFIGS:
            raise unknown_name("config of genres-corpora", name, CONFIGS)
    wanted = configs or [name for name in CONFIGS if not CONFIGS[name].licensed or release.licensed_files(name)]
    tables = {name: {"test": _document_table(release, name)} for name in wanted}
    for name in wanted:
        if corpus := release.corpus(name):
            rows = [{"id": text_id(text), "text": text} for text in corpus]
            tables[corpus_config(name)] = {"full": pa.Table.from_pylist(rows, CORPUS)}
    published = read_published(PUBLISHED)
    answers = {
        (name, "test", system): rows
        for name in wanted
        for system in published[TaskKey("genres-corpora", name, "test", "reference")]
        if (rows := release.answers(name, ANSWERED[system], tables[name]["test"]))
    }
    card = _CARD.read_text(encoding="utf-8")
    if missing := [name for name in wanted if corpus_config(name) not in tables]:
        card += (
            f"\n## Not in this build\n\nThe corpora of the topic models of {', '.join(missing)} were not in the "
            "source: TS rests on models of the scored texts there, and is far above published levels.\n"
        )
    write_dataset(out, tables, card + repair_report(answers), answers)


def _document_table(release: "_ReleaseFiles", name: str) -> pa.Table:
    """Return the table of a config, in the order of the release's sample.

    Raises:
        DataError: the counts are not the release's, or a licensed copy is absent or lacks a text.
    """
    config = CONFIGS[name]
    sample, gold = read_release(release.inputs / f"{config.sample}.json"), release.gold(name)
    found = (len(sample), sum(map(len, gold.values())))
    if found != (config.documents, config.triples) or not gold.keys() <= sample.keys():
        raise DataError(
            f"{config.sample} holds {found[0]} documents with {found[1]} gold triples; the release has "
            f"{config.documents} with {config.triples}. Take the release at its last commit: {CLONE}"
        )
    texts = release.licensed_texts(name, list(sample)) if config.licensed else list(sample)
    rows = []
    for text in texts:
        triples = [dict(zip(("sub", "rel", "obj"), triple, strict=True)) for triple in gold.get(text, [])]
        stated = [triple for triple in triples if triple["rel"] != UNSTATED]
        rows.append({"id": text_id(text), "text": text, "triples": triples, "triples_stated": stated})
    return pa.Table.from_pylist(rows, DOCUMENTS)


class _ReleaseFiles:
    """The release's files in a clone or in a folder of its parts."""

    def __init__(self, source: Path) -> None:
        self._root, self._is_clone = source, (source / "datasets").is_dir()
        self.inputs = source / ("datasets" if self._is_clone else "inputs")
        if not self.inputs.is_dir():
            raise UsageError(f"{source} holds neither 'datasets' nor 'inputs'; expected a clone of GenRES: {CLONE}")

    def gold(self, name: str) -> dict[str, list[list[str]]]:
        """Return text -> its gold triples; texts without gold may be absent."""
        folder = self.inputs / "processed" if self._is_clone else self.inputs
        by_sample = folder / f"{CONFIGS[name].sample}_processed.json"
        return dict(read_release(by_sample if by_sample.is_file() else folder / f"{name}_processed.json"))

    def corpus(self, name: str) -> list[str]:
        """Return the texts of a config's topic models; empty where they are not at hand."""
        return released_corpus(self._root, name, self.licensed_files(name) if CONFIGS[name].licensed else [])

    def answers(self, name: str, system: str, documents: pa.Table) -> list[Row]:
        """Return what a system answered to each document, parsed as released, with the text where that is stored.

        Empty where nothing is stored.
        """
        triples = stored_by_text(self._root, CONFIGS[name].sample, system)
        texts = stored_by_text(self._root, CONFIGS[name].sample, system, RAW) or {}
        if triples is None:
            return []
        given = zip(documents["id"].to_pylist(), documents["text"].to_pylist(), strict=True)
        return [
            {"id": document_id, "triples": triples.get(text, [])}
            | ({"response": texts[text]} if isinstance(texts.get(text), str) else {})
            for document_id, text in given
        ]

    def licensed_files(self, name: str) -> list[Path]:
        """Return the files of the user's licensed copy of a config, sorted; empty where there are none."""
        folder = self._root / "licensed" / name
        return sorted(path for path in folder.glob("*") if path.suffix in (".json", ".txt"))

    def licensed_texts(self, name: str, wanted: Sequence[str]) -> list[str]:
        """Return the wanted texts, each taken from the licensed copy.

        Raises:
            DataError: the copy is not there or lacks a text.
        """
        files = self.licensed_files(name)
        if not files:
            raise DataError(
                f"No licensed copy of {name} in {self._root / 'licensed' / name}; expected {CONFIGS[name].licensed}. "
                "Put your own copy there."
            )
        owned = {text_id(text): text for file in files for text in licensed_texts(file)}
        missing = [text for text in wanted if text_id(text) not in owned]
        if missing:
            raise DataError(
                f"The licensed copy of {name} lacks {len(missing)} of {len(wanted)} texts; the first has the id "
                f"{text_id(missing[0])}. Expected {CONFIGS[name].licensed}, unchanged."
            )
        return [owned[text_id(text)] for text in wanted]


_VERDICTS = ("GREScores", "stored_verdicts")
"""Folders of the released judge's verdicts, in a clone or in a folder of its parts."""


def released_outputs(release: Path, examples: Examples) -> list[tuple[str, list[Answer], Mapping[str, float]]]:
    """Return (system, its stored answers, its published scores) of every system with both, of the examples' config.

    Scores that cannot be recomputed from stored answers are left out.

    Raises:
        DataError: the release has no stored outputs of this config.
    """
    config = examples.context.config
    place = TaskKey("genres-corpora", config, "test", "reference")
    published = read_published(PUBLISHED)[place]
    found: list[tuple[str, list[Answer], Mapping[str, float]]] = []
    for system, name in RELEASE_NAMES.items():
        answers = stored_answers(release, config, name, examples)
        if system in published and answers is not None:
            figures = published[system].figures.items()
            sound = {metric: each.value for metric, each in figures if not each.note.startswith("no stored basis")}
            found.append((name, answers, sound))
    if not found:
        raise DataError(f"{release} has no stored outputs of {config}; expected a clone of GenRES. Check the path.")
    return found


def stored_answers(release: Path, config: str, name: str, examples: Examples) -> list[Answer] | None:
    """Return a system's released answer to each document, parsed; None where nothing is stored.

    `name` is the system's in the release's files, a value of `RELEASE_NAMES`.
    """
    stored = stored_by_text(release, CONFIGS[config].sample, name)
    return None if stored is None else [stored.get(row["text"], []) for row in examples.rows]


def released_verdicts(release: Path, examples: Examples, kind: str) -> list[tuple[str, list[Answer], Path]]:
    """Return (system, stored answers, file of verdicts) of each judged system of the examples' config.

    `kind` is `factualness` or `granularity`.

    Raises:
        DataError: the release has no verdicts of this config.
    """
    config, found = examples.context.config, []
    for name in RELEASE_NAMES.values() if config in CONFIGS else ():
        sample, answers = CONFIGS[config].sample, stored_answers(release, config, name, examples)
        files = (release / folder / kind / f"{sample}_{name}_1.json" for folder in _VERDICTS)
        file = next((file for file in files if file.is_file()), None)
        if file is not None and answers is not None:
            found.append((name, answers, file))
    if not found:
        raise DataError(
            f"{release} has no verdicts on {kind} of {config}; expected a clone of GenRES with GREScores/{kind}. Check "
            "the path."
        )
    return found


def calibrates(row: Example) -> bool:
    """Return whether a document is of the half for choosing and fitting judges: its id's last digit is even.

    >>> calibrates({"id": "520af9299c2d397a"}), calibrates({"id": "520af9299c2d3979"})
    (True, False)
    """
    return int(row["id"][-1], 16) % 2 == 0


STUDIED = "wiki20m"
"""The config of the human study."""
_STUDIED_METRICS = {
    "CS": "completeness",
    "GS": "granularity",
    "TS": "topical_similarity",
    "US": "uniqueness",
    "FS": "factualness",
}
"""The study's name of a quality -> our metric."""


def human_votes(release: Path, examples: Examples) -> list[HumanVote]:
    """Return the votes of the human study on documents of these examples; none where the release or config has none.

    People compared two systems' answers to a document by each of the five qualities: the first 100 documents of Wiki20m
    and four systems. Votes on the ground truth are left out: the release scored its triples in another order of
    elements, so that its scores of them are meaningless.

    Raises:
        DataError: the file of votes is of another form.
    """
    file = release / "human_study" / "pairs.csv"
    if not file.is_file() or examples.context.config != STUDIED:
        return []
    known = set(examples.ids)
    try:
        with file.open(encoding="utf-8", newline="") as source:
            rows = [row for row in csv.DictReader(source) if "groundtruth" not in (row["a"], row["b"])]
            return [_parse_vote(row) for row in rows if row["id"] in known]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{file} holds no votes ({error!r}); expected the columns metric, id, a, b, merged, score_a and score_b."
        ) from None


def _parse_vote(row: Mapping[str, str]) -> HumanVote:
    """Return a row of the human study as a vote; a KeyError or ValueError says that it is none."""
    votes: Mapping[str, Vote] = {"a": "a", "b": "b", "tie": "tie"}
    scores = float(row["score_a"]), float(row["score_b"])
    return HumanVote(_STUDIED_METRICS[row["metric"]], row["id"], row["a"], row["b"], votes[row["merged"]], *scores)
