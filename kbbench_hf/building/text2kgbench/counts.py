"""What the release holds, counted: a build refuses anything that counts differently.

Counted at commit 50a3d25; the paper's Table 1 (arXiv 2308.02357) agrees but for Sport, of which 1,609 of its 1,693
sentences were released, and Computer, whose 12 relations are 4 in the JSON and 8 more in the Turtle file.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from kbbench_hf.building.text2kgbench.repairs import triple_key
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row
from kbbench_hf.text.folding import unscramble

_COUNTS = Path(__file__).with_suffix(".tsv")
"""A line for each count: half, name, number."""


def expected_counts(half: str) -> dict[str, int]:
    """Return what each count of a half, `wikidata_tekgen` or `dbpedia_webnlg`, is in the release.

    >>> expected_counts("wikidata_tekgen")["3_sport: test"]
    487
    """
    rows = [line.split("\t") for line in _COUNTS.read_text(encoding="utf-8").splitlines()]
    return {name: int(number) for of, name, number in rows if of == half}


class _Counts(Counter[str]):
    """Counts `<name>` over all ontologies and `<ontology id>: <name>` of each; what is absent counts 0."""

    def add(self, ontology_id: str, name: str, number: int = 1) -> None:
        self[name] += number
        self[f"{ontology_id}: {name}"] += number


def count(ontologies: Sequence[Row], splits: Mapping[str, Sequence[Row]]) -> Counter[str]:
    """Return every count of what was read, by the names of `expected_counts`."""
    counts = _Counts()
    for ontology in ontologies:
        _count_ontology(ontology, counts)
    for split, rows in splits.items():
        for row in rows:
            counts.add(row["ontology_id"], split)
            counts.add(row["ontology_id"], f"{split} gold", len(row["triples"]))
            for each in row["repairs"]:
                counts.add(row["ontology_id"], f"{split} {each['kind']}")
    for row in splits["train"]:
        counts.add(row["ontology_id"], "train with similar ids", bool(row["similar_ids"]))
        counts["train gold without an object id"] += sum(each["obj_id"] is None for each in row["triples"])
    known = {
        ontology["ontology_id"]: {each["label"].strip() for each in ontology["relations"] if each["source"] == "json"}
        for ontology in ontologies
    }
    train = {row["id"]: row for row in splits["train"]}
    for row in splits["test"]:
        _count_test_row(row, known[row["ontology_id"]], train, counts)
    _count_overlaps(splits, counts)
    return counts


def _count_ontology(ontology: Row, counts: _Counts) -> None:
    name = ontology["ontology_id"]
    qids = {each["qid"] for each in ontology["concepts"]} | {""}
    relations = [each for each in ontology["relations"] if each["source"] == "json"]
    counts.add(name, "concepts", sum(each["source"] == "json" for each in ontology["concepts"]))
    counts.add(name, "relations", len(relations))
    counts.add(name, "ttl relations", len(ontology["relations"]) - len(relations))
    counts.add(name, "blank ranges", sum(not each["range"] for each in relations))
    counts.add(name, "unknown qids", sum(each[end] not in qids for each in relations for end in ("domain", "range")))


def _count_test_row(row: Row, relations: set[str], train: Mapping[str, Row], counts: _Counts) -> None:
    name, gold = row["ontology_id"], row["triples"]
    counts.add(name, "test selected", row["selected"])
    counts.add(name, "test empty gold", not gold)
    counts.add(name, "test selected and empty gold", row["selected"] and not gold)
    counts.add(name, "test with a no-break space", "\u00a0" in row["sentence"])
    counts.add(name, f"test with gold of length {len(gold)}")
    for triple in gold:
        sub, rel, obj = str(triple["sub"]), str(triple["rel"]), str(triple["obj"])
        counts.add(name, f"test gold of {rel}")
        counts.add(name, "test gold outside the JSON", rel not in relations)
        counts.add(name, "test gold subjects with a comma", "," in sub)
        counts.add(name, "test gold with mojibake", unscramble(sub) != sub or unscramble(obj) != obj)
        counts.add(name, "test gold dated 01 January", obj.startswith("01 January "))
        counts.add(name, "test gold dated 00", obj.startswith("00 "))
    if any(each["kind"] == "demonstration_leaks" for each in row["repairs"]):
        shown = triple_key(train[row["similar_ids"][0]]["triples"][0])
        counts.add(name, "test shown its own gold", shown in map(triple_key, gold))


def _count_overlaps(splits: Mapping[str, Sequence[Row]], counts: _Counts) -> None:
    """Count what test shares with the other splits: a sentence or fact counts once in each ontology."""
    test = splits["test"]
    sentences = {split: {(row["ontology_id"], row["sentence"]) for row in rows} for split, rows in splits.items()}
    for name, number in Counter(row["ontology_id"] for row in test).items():
        counts.add(name, "test repeated in the ontology", number - sum(each == name for each, _ in sentences["test"]))
    for split in ("train", "validation"):
        counts[f"test sentences that {split} has"] = len(sentences["test"] & sentences.get(split, set()))
    elsewhere = {sentence for split in ("train", "validation") for _, sentence in sentences.get(split, ())}
    counts["test in train or validation"] = sum(row["sentence"] in elsewhere for row in test)
    facts = [
        {(row["ontology_id"], *triple_key(each)) for row in splits[split] for each in row["triples"]}
        for split in ("test", "train")
    ]
    counts["test facts that train has"] = len(facts[0] & facts[1])


def check_counts(folder: Path, half: str, ontologies: Sequence[Row], splits: Mapping[str, Sequence[Row]]) -> None:
    """Compare the counts of what was read from `folder` with the release's.

    Raises:
        DataError: some differ; the message names the folder, the first five counts and both values of each.
    """
    found = count(ontologies, splits)
    wrong = [
        f"{name} {found[name]:,} (expected {number:,})"
        for name, number in expected_counts(half).items()
        if found[name] != number
    ]
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise DataError(
            f"{folder}: the counts are not those of cenguix/Text2KGBench at 50a3d25: {', '.join(wrong[:5])}{more}. "
            "Expected that commit's files, unchanged. Fetch the release again, or leave --source out to download it."
        )
