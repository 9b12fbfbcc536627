"""Builder of the Text2KGBench datasets from the release (cenguix/Text2KGBench, commit 50a3d25).

Released ids, sentences and labels are kept verbatim; repairs are separate, flagged columns (`repairs`). Every file is
pinned by its SHA-256 (`files.tsv`): another revision is refused. The benchmark names `build_wikidata_tekgen` and
`build_dbpedia_webnlg` by import string. Both revisions of a dataset are the same bytes in every build.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from kbbench_hf.building.text2kgbench.columns import (
    ONTOLOGIES,
    PROMPTS,
    FoundMentions,
    Triple,
    distinct,
    flag_across_rows,
    flag_unstated,
    prompt_row,
    repair,
    sentence_tables,
)
from kbbench_hf.errors import DataError, KBBenchError, unknown_name
from kbbench_hf.files.datasets import Answers, Row, read_json, write_dataset
from kbbench_hf.files.download import PinnedFile, cache_folder, fetch

_CARDS = Path(__file__).with_name("cards")
CONFIGS = ("sentences", "sentences_folded", "ontologies", "prompts")
"""The configs of both datasets."""


@dataclass(frozen=True)
class ReleaseHalf:
    """Dataset name, folder, splits and prompt templates of one of the two halves of the release."""

    dataset: str
    folder: str
    splits: tuple[str, ...]
    templates: Mapping[str, str]
    """Split -> template of its published prompts."""
    similar: str
    """Name of the file of similar train ids; the ontology's id goes into the braces."""

    def ontology_ids(self) -> list[str]:
        """Return the ids of its ontologies, in the order of their numbers."""
        names = (Path(file.path).name for file in pinned_files(self.folder))
        ids = [name.removesuffix("_ontology.json") for name in names if name.endswith("_ontology.json")]
        return sorted(ids, key=lambda name: int(name.partition("_")[0]))


WIKIDATA_TEKGEN = ReleaseHalf(
    dataset="text2kg-wikidata-tekgen",
    folder="wikidata_tekgen",
    splits=("train", "validation", "test", "unseen"),
    templates={"test": "h1", "unseen": "h2"},
    similar="ont_{}_test_train_similarity.json",
)
DBPEDIA_WEBNLG = ReleaseHalf(
    dataset="text2kg-dbpedia-webnlg",
    folder="dbpedia_webnlg",
    splits=("train", "test"),
    templates={"test": "h2_d"},
    similar="{}_test_train_similarity.json",
)


def build(
    release: ReleaseHalf, source: Path | None, out: Path, configs: Sequence[str] | None = None, revision: int = 2
) -> None:
    """Build the dataset of a half at `out` from the release at `source`, or from its download where None.

    Revision 1 has the `mentions` of mode `repaired-2`, revision 2 those of `repaired-3`, and the repair
    `restored_not_stated`. All else is the same.

    Raises:
        DataError: the release is not there, is malformed, or is not that of commit 50a3d25, by its bytes.
        UsageError: a config that does not exist.
    """
    for config in configs or ():
        if config not in CONFIGS:
            raise unknown_name(f"config of {release.dataset}", config, CONFIGS)
    folder = download(release.folder) if source is None else _find_half(release, source)
    check_pins(folder)  # so that what follows is of the form that the release has
    ontologies = [
        read_ontology(name, folder / f"ontologies/{name}_ontology.json", folder / f"ontologies/owl/ont_{name}.ttl")
        for name in release.ontology_ids()
    ]
    splits, prompts = _read_sentences(release, folder, ontologies)
    if revision > 1:
        flag_unstated(splits)
    answers = _read_answers(release, folder, splits) if configs is None or "sentences" in configs else {}
    found: FoundMentions = {}
    tables = {
        "sentences": sentence_tables(splits, version=revision + 1, found=found),
        "sentences_folded": sentence_tables(fold(splits), version=revision + 1, found=found),
        "ontologies": {"full": pa.Table.from_pylist(ontologies, ONTOLOGIES)},
        "prompts": {name: pa.Table.from_pylist(rows, PROMPTS) for name, rows in prompts.items()},
    }
    chosen = {config: tables[config] for config in CONFIGS if configs is None or config in configs}
    write_dataset(out, chosen, (_CARDS / f"{release.dataset}.md").read_text(encoding="utf-8"), answers)


build_wikidata_tekgen, build_dbpedia_webnlg = (partial(build, half) for half in (WIKIDATA_TEKGEN, DBPEDIA_WEBNLG))


def _find_half(release: ReleaseHalf, source: Path) -> Path:
    """Return the half's folder, given the repository's root, its `data`, the half itself, or what holds the data.

    Raises:
        DataError: `source` is none of these.
    """
    places = [source / parent / release.folder for parent in ("", "data", "text2kgbench")]
    if source.name == release.folder:
        places.append(source)
    if found := next((place for place in places if (place / "ontologies").is_dir()), None):
        return found
    raise DataError(
        f"{source} holds no {release.folder}/ontologies. Expected a checkout of github.com/cenguix/Text2KGBench, "
        "or its data folder. Give that with --source, or leave --source out to download it."
    )


def read_ontology(ontology_id: str, json_path: Path, ttl_path: Path) -> Row:
    """Return one row of the config `ontologies`: `ontology_id title concepts relations`.

    A concept is `{qid, label, subclass_of, source}`, a relation `{pid, label, domain, range, source}`. Those of the
    JSON file come first, verbatim and in its order, with source "json": labels may end in a blank, repeat, or name
    a domain that is no concept, and published prompts and figures depend on each of these. Those that only the
    Turtle file has follow, sorted by identifier, with source "ttl". `subclass_of` lists qids (music only).
    """
    released = json.loads(json_path.read_text(encoding="utf-8"))
    owl = _read_turtle(ttl_path)
    row: Row = {"ontology_id": ontology_id, "title": released["title"]}
    for part, kind, (key, *others) in (
        ("concepts", "owl:Class", ("qid", "label")),
        ("relations", "owl:ObjectProperty", ("pid", "label", "domain", "range")),
    ):
        row[part] = [{name: each[name] for name in (key, *others)} | {"source": "json"} for each in released[part]]
        known = {each[key] for each in row[part]}
        for name in sorted(name for name, facts in owl.items() if kind in facts.get("a", ()) and name not in known):
            completed = {other: owl[name].get(f"rdfs:{other}", [""])[0] for other in others}
            row[part].append({key: name, **completed, "source": "ttl"})
    for concept in row["concepts"]:
        concept["subclass_of"] = owl.get(concept["qid"], {}).get("rdfs:subClassOf", [])
    return row


_TERM = re.compile(r'<(?:[^<>]*#)?([^<>]*)>|"([^"]*)"|(@prefix|a\b|\w+:\w*)|([;,.])')
"""A term of Turtle as the release's 29 files write it: IRI (what follows its `#`), string, name; or a mark."""


def _read_turtle(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return subject -> predicate -> objects, each IRI cut to what follows its `#`."""
    subjects: dict[str, dict[str, list[str]]] = {}
    subject = predicate = ""
    for iri, text, name, mark in _TERM.findall(path.read_text(encoding="utf-8")):
        if mark in (".", ";"):
            subject, predicate = "" if mark == "." else subject, ""
        elif not subject:
            subject = iri or name
        elif not predicate:
            predicate = name
        elif not mark and subject != "@prefix":
            subjects.setdefault(subject, {}).setdefault(predicate, []).append(iri or text or name)
    return subjects


def _read_sentences(
    release: ReleaseHalf, folder: Path, ontologies: Sequence[Row]
) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
    """Return the rows of `sentences` and of `prompts`, by split, in the release's order, with all repairs and flags."""
    splits: dict[str, list[Row]] = {split: [] for split in release.splits}
    prompts: dict[str, list[Row]] = {split: [] for split in release.templates}
    for ontology in ontologies:
        name = ontology["ontology_id"]
        relations = {each["label"] for each in ontology["relations"] if each["source"] == "json"}
        similarity = folder / "baselines/test_train_sent_similarity"
        similar = read_json(similarity / release.similar.format(name))
        original: dict[str, Triple] = {}
        selected: set[str] = set()
        if "unseen" in release.splits:
            similar |= read_json(similarity / f"unseen/{name}_unseen_test_train_similarity.json")
            original = _read_original_gold(folder, name)
            verified = folder / f"manually_verified_sentences/selected_ont_{name}.txt"
            selected = set(verified.read_text(encoding="utf-8").split())
        for split in release.splits:
            file, asked_file = _split_files(folder, name, split)
            asked = _read_rows(asked_file)
            for row_id, released in _read_rows(file).items():
                row = {
                    "id": row_id,
                    "ontology_id": name,
                    "split": split,
                    "sentence": released["sent"],
                    "triples": _parse_triples(released),
                    "repairs": [],
                    "selected": row_id in selected,
                    "similar_ids": similar.get(row_id, []),
                }
                repair(row, original.get(row_id), relations)
                splits[split].append(row)
                if split in release.templates:
                    if (prompted := asked[row_id]["sent"]) != row["sentence"]:
                        row["repairs"].append({"kind": "asked_differently", "detail": prompted})
                    prompts[split].append(prompt_row(row, release.templates[split]))
    flag_across_rows(splits)
    return splits, prompts


def _split_files(folder: Path, name: str, split: str) -> tuple[Path, Path]:
    """Return the file with an ontology's triples of a split, and the one with the sentences that models saw."""
    prompted = folder / f"{split}/ont_{name}_{split}.jsonl"
    if split == "test":
        return folder / f"ground_truth/ont_{name}_ground_truth.jsonl", prompted
    if split == "unseen":
        unseen, name = folder / "unseen_sentences", f"ont_{name}_unseen"
        return unseen / f"ground_truth/{name}_ground_truth.jsonl", unseen / f"test/{name}_test.jsonl"
    return prompted, prompted


def _parse_triples(released: Row) -> list[Triple]:
    """Return the triples of a row that has them as a list, or a single one in fields of its own with identifiers."""
    parts = ("sub", "rel", "obj")
    if "triples" in released:
        no_ids = dict.fromkeys((f"{part}_id" for part in parts), None)
        return [{part: each[part] for part in parts} | no_ids for each in released["triples"]]
    labels = {part: released[f"{part}_label"] for part in parts}
    return [labels | {f"{part}_id": released.get(part) for part in parts}]


def _read_original_gold(folder: Path, name: str) -> dict[str, Triple]:
    """Return the single triple that each test sentence had at commit 388d15c, with its Wikidata identifiers."""
    file = folder / ORIGINAL_GOLD / f"{name}.jsonl"
    if not file.is_file():
        file = download_original_gold() / f"{name}.jsonl"
    return {row_id: _parse_triples(row)[0] for row_id, row in _read_rows(file).items()}


def _read_answers(release: ReleaseHalf, folder: Path, splits: Mapping[str, list[Row]]) -> Answers:
    """Return each model's released predictions for a split's sentences; the last prediction of an id counts."""
    answers: dict[tuple[str, str, str], list[Row]] = {}
    for model in sorted(each for each in (folder / "baselines").iterdir() if (each / ANSWERS).is_dir()):
        for split in release.templates:
            place = model / ("unseen" if split == "unseen" else "") / ANSWERS
            files = sorted(place.glob("*.jsonl"))
            given = dict(each for file in files for each in _read_rows(file).items())
            if of_split := [given[row["id"]] for row in splits[split] if row["id"] in given]:
                answers["sentences", split, model.name] = of_split
    return answers


def fold(splits: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """Return the splits with one train row per sentence of an ontology: the first row, with the triples of all.

    Ids in `similar_ids` are replaced by the id of the row that holds them now.
    """
    by_key: dict[tuple[str, str], Row] = {}
    home: dict[str, str] = {}
    for row in splits["train"]:
        folded = by_key.setdefault(
            (row["ontology_id"], row["sentence"]), row | {"triples": [], "triples_repaired": [], "repairs": []}
        )
        home[row["id"]] = folded["id"]
        for column in ("triples", "triples_repaired"):
            folded[column] = distinct(folded[column] + row[column])
        others = [each for each in row["repairs"] if each["kind"] != "repeated_sentence"]
        folded["repairs"] += [each for each in others if each not in folded["repairs"]]
        if row["id"] != folded["id"]:
            folded["repairs"].append({"kind": "folded", "detail": row["id"]})
    folded_splits = dict(splits) | {"train": list(by_key.values())}
    return {
        name: [row | {"similar_ids": list(dict.fromkeys(home[each] for each in row["similar_ids"]))} for row in rows]
        for name, rows in folded_splits.items()
    }


def _read_rows(file: Path) -> dict[str, Row]:
    """Return the rows of a file by their ids; one of further answers in a checkout has no pin, and may be malformed.

    Raises:
        DataError: it is no JSON Lines, or a row has no id.
    """
    try:
        rows = map(json.loads, file.read_text(encoding="utf-8").split("\n")[:-1])
        return {row["id"]: row for row in rows}
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{file}: {error!r}. Expected one JSON object with an id a line. Fetch it again.") from error


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


def pinned_files(folder: str) -> list[PinnedFile]:
    """Return the files of one half, `wikidata_tekgen` or `dbpedia_webnlg`; paths are as below the release's `data`.

    >>> len(pinned_files("wikidata_tekgen")), len(pinned_files("dbpedia_webnlg"))
    (160, 152)
    """
    rows = (line.split("\t") for line in _PINS.read_text(encoding="utf-8").splitlines()[1:])
    return [
        PinnedFile(path, _file_url(path), int(size), sha256)
        for path, size, sha256 in rows
        if path.startswith(f"{folder}/")
    ]


def download(folder: str) -> Path:
    """Return the folder of one half of the release, downloaded where it is not there yet (12 MB and 6 MB).

    Raises:
        KBBenchError: it could not be downloaded.
    """
    return fetch(pinned_files(folder), _cache()) / folder


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
    """Compare the files of one half, in any folder, with the pinned ones; Windows line ends are accepted.

    The earlier revision's gold and the models' answers may be absent.

    Raises:
        DataError: some differ; the message has the first one and both checksums.
    """
    for file in pinned_files(half.name):
        path = half.parent / file.path
        if (ORIGINAL_GOLD in file.path or f"/{ANSWERS}/" in file.path) and not path.is_file():
            continue
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path}: {error}. Expected a file of the release. Fetch it again.") from error
        actual = hashlib.sha256(content).hexdigest()
        if file.sha256 not in (actual, hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()):
            raise DataError(
                f"{path}: SHA-256 {actual}; at commit {COMMIT[:7]} it is {file.sha256}. Expected that commit's files, "
                "unchanged. Fetch the release again, or leave --source out to download it."
            )


def _cache() -> Path:
    """Return the folder of the downloaded release."""
    return cache_folder() / f"text2kgbench-{COMMIT[:7]}"


def _file_url(path: str) -> str:
    """Return the address of a pinned file; the earlier gold has another commit and other names."""
    folder, _, name = path.rpartition("/")
    if folder.endswith(ORIGINAL_GOLD):
        stem = name.removesuffix(".jsonl")
        return f"{_REPOSITORY}/{ORIGINAL_COMMIT}/src/data/ground_truth/ont_{stem}_ground_truth.jsonl"
    return f"{_REPOSITORY}/{COMMIT}/data/{path}"
