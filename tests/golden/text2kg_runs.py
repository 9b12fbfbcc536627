"""The published runs of Text2KGBench, read from the release as it is, without this package's own readers."""

import json
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.metrics.triples import Ontology, Triple


class Run(NamedTuple):
    """A dataset, a model, and the split it answered: "test" or "unseen"."""

    dataset: str
    model: str
    split: str


RUNS = [
    Run("wikidata_tekgen", "Vicuna-13B", "test"),
    Run("wikidata_tekgen", "Alpaca-LoRA-13B", "test"),
    Run("wikidata_tekgen", "Vicuna-13B", "unseen"),
    Run("wikidata_tekgen", "Alpaca-LoRA-13B", "unseen"),
    Run("dbpedia_webnlg", "Vicuna-13B", "test"),
    Run("dbpedia_webnlg", "Alpaca-LoRA-13B", "test"),
]


class Case(NamedTuple):
    """One answered sentence."""

    ontology_id: str
    id: str
    predicted: list[Triple]
    gold: list[Triple]
    sentence: str
    ontology: Ontology


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def ontologies(release: Path, dataset: str) -> dict[str, Ontology]:
    found = {}
    for file in (release / dataset / "ontologies").glob("*_ontology.json"):
        labels = json.loads(file.read_text(encoding="utf-8"))
        name = file.name.removesuffix("_ontology.json")
        found[name] = Ontology(*(tuple(each["label"] for each in labels[key]) for key in ("concepts", "relations")))
    return dict(sorted(found.items(), key=lambda item: int(item[0].split("_")[0])))


def responses(release: Path, run: Run) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the rows of each ontology's response file, in order."""
    folder = release / run.dataset / "baselines" / run.model / ("unseen" if run.split == "unseen" else "")
    files = list((folder / "llm_responses").glob("*.jsonl"))
    for name in ontologies(release, run.dataset):
        (file,) = [each for each in files if each.name.removeprefix("ont_").startswith(f"{name}_")]
        yield name, rows(file)


def gold(release: Path, dataset: str, split: str, name: str) -> list[dict[str, Any]]:
    folder = "unseen_sentences/ground_truth" if split == "unseen" else "ground_truth"
    return rows(next((release / dataset / folder).glob(f"ont_{name}_*")))


def cases(release: Path, run: Run) -> Iterator[Case]:
    """Yield the answered sentences of a run; the last answer of an id counts."""
    known = ontologies(release, run.dataset)
    for name, answered in responses(release, run):
        answers = {row["id"]: row["triples"] for row in answered}
        for row in gold(release, run.dataset, run.split, name):
            if row["id"] in answers:
                wanted = [(each["sub"], each["rel"], each["obj"]) for each in row["triples"]]
                predicted = [tuple(each) for each in answers[row["id"]]]
                yield Case(name, row["id"], predicted, wanted, row["sent"], known[name])


def nltk_data() -> Path | None:
    """The folder of NLTK data inside an installed `llama-index-core` (`pip install --no-deps llama-index-core`)."""
    try:
        files = metadata.files("llama-index-core") or []
    except metadata.PackageNotFoundError:
        return None
    found = [file.locate() for file in files if str(file).endswith("punkt_tab/english/abbrev_types.txt")]
    return Path(str(found[0])).parents[3] if found else None
