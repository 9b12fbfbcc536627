"""Files of GenRES's release: stored answers, system names, and training corpora of topic models.

The corpora have many more texts than are scored; the level of TS depends on them. The annotators of `runners` train
topic models on `topic_corpus`; `building` reads the release by the other functions.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.annotated import TopicCorpus
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import DatasetFolder

CLONE = "git clone https://github.com/pat-jj/GenRES && git -C GenRES checkout 7824249"
PUBLISHED = Path(__file__).with_name("published.csv")
RELEASE_NAMES: dict[str, str] = json.loads(Path(__file__).with_name("systems.json").read_text(encoding="utf-8"))
"""Published system of the main table -> its name in the release's files."""
STRATEGY_NAMES = {
    "GPT-3.5-Turbo-Instruct, closed": "gpt-3.5_closed",
    "GPT-3.5-Turbo-Instruct, semi-open": "gpt-3.5_semi",
    "GPT-3.5-Turbo-Instruct, open": "gpt-3.5-turbo-instruct",
}
"""The same of the hard-match table, whose rows are strategies of one model."""
ANSWERED = {**RELEASE_NAMES, **STRATEGY_NAMES, "Ground truth": "groundtruth"}
"""All published rows whose answers the release has."""
PARSED = ("processed_results", "outputs")
"""Folders of the parsed answers, in a clone or in a folder of its parts."""
RAW = ("results", "raw_responses")
"""The same of the texts."""


def stored_by_text(release: Path, sample: str, name: str, folders: Sequence[str] = PARSED) -> dict[str, Any] | None:
    """Return text -> a system's stored answer to it; None where nothing is stored.

    Args:
        release: a clone, or a folder of its parts.
        sample: the release's name of a dataset's sample, `cdr_rand_200` say.
        name: the release's name of a system.
        folders: `PARSED` for triples, `RAW` for texts.
    """
    for folder in folders:
        file = release / folder / f"{sample}_{name}_1.json"
        if file.is_file():
            stored: dict[str, Any] = read_release(file)
            return stored
    return None


def read_release(file: Path) -> Any:
    """Return the content of a JSON file of the release.

    Raises:
        DataError: it is not there, or torn.
    """
    if not file.is_file():
        raise DataError(f"{file} does not exist; expected it in a clone of GenRES. Clone it again: {CLONE}")
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{file} is not JSON ({error}). Clone the release again: {CLONE}") from None


CORPUS_SIZES = {"cdr": 1_500, "docred": 5_051, "wiki20m": 14_257, "wiki80": 22_400, "tacred": 38_140, "nyt10m": 11_086}
"""How many texts the release trained each config's topic model on."""


def corpus_config(config: str) -> str:
    """Return the config in which a dataset has the corpus of a config's topic models.

    >>> corpus_config("wiki80")
    'wiki80_corpus'
    """
    return f"{config}_corpus"


def topic_corpus(dataset: DatasetFolder, config: str) -> TopicCorpus:
    """Return the training texts of a config's topic models: its corpus if the dataset has it, else its own texts."""
    name = corpus_config(config)
    if name in dataset.configs():
        texts = [row["text"] for row in dataset.rows(name, "full")]
        return TopicCorpus(texts, f"{name}, {len(texts):,} texts")
    texts = [row["text"] for row in dataset.rows(config, "test")]
    missing = f"{name}, {CORPUS_SIZES[config]:,} texts" if config in CORPUS_SIZES else ""
    return TopicCorpus(texts, f"the {len(texts):,} texts of {config} itself", missing)


def released_corpus(root: Path, config: str, licensed: Sequence[Path]) -> list[str]:
    """Return the corpus of a config's topic models from a release; empty where it has none.

    It is `CONFIG_all_text.json` of `GREScores/topical_process` in a clone, or of `topical_corpora` in a folder of its
    parts. Without that file, CDR's is made of the test, training and development part, DocRED's of `train_annotated`,
    `dev` and `test` of the public dataset in `topical_corpora/docred`. What needs a licence is taken from the user's
    own copy alone, if that is the whole of it.

    Args:
        root: the clone, or the folder of its parts.
        config: which config.
        licensed: the files of the user's licensed copy; none where the config needs no licence.

    Raises:
        DataError: there is a corpus, but malformed, or of another size than the release's.
    """
    try:
        texts, source = _find_corpus(root, config, licensed)
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # DataError is none of these
        where = licensed[0].parent if licensed else root
        raise DataError(
            f"The files of {config}'s topic corpus in {where} are malformed ({error!r}); expected those of "
            "the release. Get them again."
        ) from None
    if texts and len(texts) != CORPUS_SIZES[config]:
        if licensed:
            return []  # the test part alone scores, and is no corpus
        raise DataError(
            f"{source} holds {len(texts):,} texts; the release trained {config}'s topic model on "
            f"{CORPUS_SIZES[config]:,}. Put the release's own file there, or take this one away."
        )
    return texts


def _find_corpus(root: Path, config: str, licensed: Sequence[Path]) -> tuple[list[str], Path]:
    """Return the texts of a corpus, and the file or folder that they are from; no texts where there is none."""
    if licensed:
        ordered = sorted(licensed, key=lambda file: ("test" not in file.stem, file.name))
        return [text for file in ordered for text in licensed_texts(file)], ordered[0].parent
    for folder in (root / "GREScores" / "topical_process", root / "topical_corpora"):
        file = folder / f"{config}_all_text.json"
        if file.is_file():
            texts: list[str] = read_release(file)
            return texts, file
    if config == "cdr":
        folder = next((each for each in (root / "datasets" / "cdr", root / "corpora") if each.is_dir()), root)
        files = [folder / f"{part}_filter.data" for part in ("test", "train", "dev")]
        if all(file.is_file() for file in files):
            lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
            return [line.split("\t")[1] for line in lines], folder
    if config == "docred":
        folder = root / "topical_corpora" / "docred"
        files = [folder / f"{part}.json" for part in ("train_annotated", "dev", "test")]
        if all(file.is_file() for file in files):
            rows = [row for file in files for row in read_release(file)]
            return ["".join(f"{token} " for sentence in row["sents"] for token in sentence) for row in rows], folder
    return [], root


def licensed_texts(file: Path) -> list[str]:
    """Return texts as the release writes them: TACRED's tokens each with a space after it, NYT10m's as they are."""
    if file.suffix == ".json":
        return ["".join(f"{token} " for token in row["token"]) for row in read_release(file)]
    return [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
