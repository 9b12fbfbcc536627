"""Text2KGBench's metric against its release's script: CPU time for all six published runs, interleaved in one process.

The script's algorithm is re-created here as the plain loop it is, on NLTK and Punkt. Every value of both is compared.

    pip download --no-deps llama-index-core && unzip llama_index_core-*.whl -d unpacked
    python benchmarks_speed/text2kg.py RELEASE unpacked/llama_index/core/_static/nltk_cache
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import nltk
from nltk.stem import PorterStemmer
from nltk.tokenize import word_tokenize

from kbbench_hf.metrics import triples
from kbbench_hf.metrics.triples import Ontology, Triple, score_reference
from kbbench_hf.text import tokens as text

TARGETS = {"cold": 6, "contexts cached": 15, "everything cached": 50}
ROUNDS = 3
RUNS = [
    ("wikidata_tekgen", "Vicuna-13B", ""),
    ("wikidata_tekgen", "Alpaca-LoRA-13B", ""),
    ("wikidata_tekgen", "Vicuna-13B", "unseen"),
    ("wikidata_tekgen", "Alpaca-LoRA-13B", "unseen"),
    ("dbpedia_webnlg", "Vicuna-13B", ""),
    ("dbpedia_webnlg", "Alpaca-LoRA-13B", ""),
]


class Case(NamedTuple):
    """One answered sentence."""

    predicted: list[Triple]
    gold: list[Triple]
    sentence: str
    ontology: Ontology


def cases(release: Path) -> Iterator[Case]:
    """Yield every answered sentence of the six runs."""
    for dataset, model, split in RUNS:
        root = release / dataset
        gold_folder = root / "unseen_sentences/ground_truth" if split else root / "ground_truth"
        responses = list((root / "baselines" / model / split / "llm_responses").glob("*.jsonl"))
        for file in sorted((root / "ontologies").glob("*_ontology.json")):
            name = file.name.removesuffix("_ontology.json")
            labels = json.loads(file.read_text(encoding="utf-8"))
            ontology = Ontology(*(tuple(each["label"] for each in labels[key]) for key in ("concepts", "relations")))
            (answered,) = [each for each in responses if each.name.removeprefix("ont_").startswith(f"{name}_")]
            answers = {row["id"]: row["triples"] for row in _rows(answered)}
            for row in _rows(next(gold_folder.glob(f"ont_{name}_*"))):
                if row["id"] in answers:
                    gold = [(each["sub"], each["rel"], each["obj"]) for each in row["triples"]]
                    yield Case([tuple(each) for each in answers[row["id"]]], gold, row["sent"], ontology)


def _rows(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


stemmer = PorterStemmer()


def plain_normalise(string: str) -> str:
    stemmed = "".join([stemmer.stem(word) for word in word_tokenize(string)])
    return re.sub(r"(_|\s+)", "", stemmed).lower()


def plain_key(triple: Triple) -> str:
    return "".join(re.sub(r"(_|\s+)", "", part).lower() for part in triple)


def plain_score(case: Case) -> tuple[float, ...]:
    """Return the seven values of a sentence as the release's script does, one step after the other."""
    predicted, gold, sentence, ontology = case
    allowed = {relation.replace(" ", "_") for _, relation, _ in gold}
    found = {plain_key(triple) for triple in predicted if triple[1] in allowed}
    wanted = {plain_key(triple) for triple in gold}
    precision = recall = f1 = 0.0
    if found:
        precision, recall = len(found & wanted) / len(found), len(found & wanted) / len(wanted)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    if not predicted:
        return precision, recall, f1, 1.0, 0.0, 0.0, 0.0
    relations = [relation.replace(" ", "_") for relation in ontology.relations]
    conformant = len([triple for triple in predicted if triple[1] in relations]) / len(predicted)
    context = plain_normalise(sentence + " ".join(ontology.concepts))
    subjects = objects = 0
    for subject, _, obj in predicted:
        subjects += plain_normalise(subject).replace("01januari", "") not in context
        objects += plain_normalise(obj).replace("01januari", "") not in context
    n = len(predicted)
    return precision, recall, f1, conformant, subjects / n, 1 - conformant, objects / n


def empty_caches() -> None:
    for cached in (text.stem_text, text._word_form, triples.entity_form, triples.name_key, triples.relation_key):
        cached.cache_clear()


def fill_contexts(all_cases: list[Case]) -> None:
    empty_caches()
    for case in all_cases:
        text.stem_text(case.sentence + case.ontology.joined_concepts)
    text._word_form.cache_clear()


def cpu_seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main(release: Path, nltk_data: Path) -> None:
    nltk.data.path[:] = [str(nltk_data)]
    all_cases = list(cases(release))
    n_triples = sum(len(case.predicted) for case in all_cases)
    print(f"{len(all_cases):,} sentences, {n_triples:,} triples; NLTK {nltk.__version__}")
    seconds: dict[str, list[float]] = {name: [] for name in ("release's script", *TARGETS)}
    plain: list[tuple[float, ...]] = []
    ours: list[tuple[float, ...]] = []

    def run_plain() -> None:
        plain[:] = [plain_score(case) for case in all_cases]

    def run_ours() -> None:
        ours[:] = [score_reference(*case) for case in all_cases]

    word_tokenize("Punkt is loaded before the clock starts.")
    text.stem_text("So is the table.")
    for _ in range(ROUNDS):
        seconds["release's script"].append(cpu_seconds(run_plain))
        empty_caches()
        seconds["cold"].append(cpu_seconds(run_ours))
        fill_contexts(all_cases)
        seconds["contexts cached"].append(cpu_seconds(run_ours))
        seconds["everything cached"].append(cpu_seconds(run_ours))
    different = sum(a != b for p, o in zip(plain, ours, strict=True) for a, b in zip(p, o, strict=True))
    print(f"values that differ: {different} of {7 * len(plain):,}")
    base = min(seconds["release's script"])
    for name, times in seconds.items():
        best = min(times)
        target = f"  target {TARGETS[name]}x" if name in TARGETS else ""
        print(f"{name:18} {best:7.3f} s  {best / n_triples * 1e6:6.1f} us/triple  {base / best:5.1f}x{target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
