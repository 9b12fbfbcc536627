"""GenRES: generative relation extraction, scored by meaning rather than wording (Jiang et al., NAACL 2024).

A document is a sentence, a sentence with exactly two triples, or a whole abstract; the answer is a list of triples.
Counts and the hard-match baseline need no models; the five qualities need annotations (`benchmarks.annotations`), made
once per set of predictions by `kbbench annotate`. `metrics/generative_re.py` has the definitions. The registry imports
`CORPORA` and `MINI`, the metric module `genres` calls `score`. Mode `reference` must give the release's scores.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.addresses import on_request
from kbbench_hf.benchmarks import base
from kbbench_hf.benchmarks.annotated import AnnotationRules
from kbbench_hf.benchmarks.annotations import Annotations
from kbbench_hf.benchmarks.answers import ANY_TRIPLES, Answer
from kbbench_hf.benchmarks.base import Example, Examples, Explanation, Mark, Scores, of_text
from kbbench_hf.benchmarks.genres import prompts
from kbbench_hf.benchmarks.genres.topic_corpora import ANSWERED, topic_corpus
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics import generative_re
from kbbench_hf.text.tokens import tokenize

METRICS: Mapping[str, str] = {
    "completeness": "CS",
    "topical_similarity": "TS",
    "uniqueness": "US",
    "factualness": "FS",
    "granularity": "GS",
    "triples_per_document": "#tri",
    "tokens_per_triple": "#tok",
    "precision": "P",
    "recall": "R",
    "f1": "F1",
}
HARD_MATCH = frozenset({"precision", "recall", "f1"})
"""Metrics that need no annotations, and may still have no value for all other documents."""
Column = NDArray[np.float64]
Gold = tuple[str, str, str]
Triples = list[list[generative_re.Triple]]
"""The triples of each document, as selected by a mode."""


@dataclass(frozen=True)
class CorpusContext:
    """The config, its relations, and distractor entities for prompts."""

    config: str
    relations: tuple[str, ...]
    strangers: Mapping[str, str] = field(default_factory=dict)
    """Document -> an entity that it does not name; see `prompts.strangers`."""


def load(folder: DatasetFolder, config: str, split: str) -> Examples:
    """Return the documents of a config."""
    rows = folder.rows(config, split)
    relations = sorted({triple["rel"] for row in rows for triple in row["triples_stated"]})
    return Examples(rows, CorpusContext(config, tuple(relations), strangers=prompts.strangers(rows)))


def gold_triples(row: Example, mode: str) -> list[Gold]:
    """Return the gold of a document: as released, or in other modes each stated triple once."""
    triples = [(t["sub"], t["rel"], t["obj"]) for t in row["triples" if mode == "reference" else "triples_stated"]]
    if mode == "fixed-2":
        return list({generative_re.match_key(triple, mode): triple for triple in reversed(triples)}.values())[::-1]
    return triples if mode == "reference" else list(dict.fromkeys(triples))


def score(examples: Examples, answers: Sequence[Answer | None], mode: str) -> Scores:
    """Return every metric of every document; the five qualities are NaN where the annotation they need is missing.

    A missing prediction scores 0 on what is scored; an empty one what `EMPTY_SCORES` says.
    """
    predicted = [generative_re.select_triples(answer or [], mode) for answer in answers]
    gold = [gold_triples(row, mode) for row in examples.rows]
    empty = generative_re.EMPTY_SCORES[mode]
    precision, recall, f1 = generative_re.hard_match(predicted, gold, empty=empty["f1"], mode=mode)
    values = {
        **_qualities(examples, predicted, gold, mode),
        "triples_per_document": generative_re.triples_per_document(predicted),
        "tokens_per_triple": generative_re.tokens_per_triple(
            predicted, _count_tokens(mode), empty=empty["tokens_per_triple"]
        ),
        "precision": precision,
        "recall": recall,
        "f1": f1,
    }
    missing = np.array([answer is None for answer in answers], dtype=bool)
    for metric, column in values.items():
        is_scored = metric in HARD_MATCH or not np.isnan(column).all()
        if metric != "tokens_per_triple" and is_scored:
            column[missing] = 0.0
    by_topic_model = _topical_similarities(examples, predicted, missing, mode)
    if len(by_topic_model):
        values["topical_similarity"] = by_topic_model.mean(axis=0)
    return Scores(
        {metric: values[metric] for metric in METRICS},
        {"gold_triples": [_bucket(len(triples)) for triples in gold]},
        _counters(examples, answers, predicted, gold),
        draws={"topical_similarity": by_topic_model} if len(by_topic_model) > 1 else {},
    )


def _topical_similarities(
    examples: Examples, predicted: Triples, missing: NDArray[np.bool_], mode: str
) -> NDArray[np.float64]:
    """Return the TS of each document by each topic model, shape (models, documents); no row without annotations."""
    annotations = examples.annotations
    if annotations is None or not annotations.has(f"topics-{generative_re.TOPIC_MODES[mode]}"):
        return np.zeros((0, len(predicted)))
    topics = zip(*annotations.topics(generative_re.TOPIC_MODES[mode], examples.ids, predicted), strict=True)
    found = np.stack([generative_re.topical_similarity(source, triples) for source, triples in topics])
    if "topical_similarity" in generative_re.EMPTY_SCORES[mode]:
        found[:, [not triples for triples in predicted]] = generative_re.EMPTY_SCORES[mode]["topical_similarity"]
    if not np.isnan(found).all():
        found[:, missing] = 0.0
    return found


def explain(examples: Examples, example: Example, answer: Sequence[generative_re.Triple]) -> Explanation:
    """Return a text, its gold, and each predicted triple with its verdict.

    Right: a judge found it supported, or, without a judge, it is in the gold. Hallucinated: a judge found it
    unsupported, or, without a judge, it has a name that the text does not have. Wrong: any other.
    """
    annotations, answer = examples.annotations, answer or []
    gold = gold_triples(example, "reference")
    parts: list[tuple[str, Mark]] = []
    for triple, words in zip(answer, ANY_TRIPLES.words(answer), strict=True):
        clean = generative_re.keep_well_formed([triple])
        is_judged = annotations is not None and annotations.has("factualness")
        judged = annotations.verdicts(example["id"], [triple]) if annotations and is_judged else None
        matched = bool(clean) and generative_re.hard_match([clean], [gold], empty=0.0)[0, 0] == 1
        named = all(end.lower() in example["text"].lower() for head, _, tail in clean for end in (head, tail))
        if judged is not None and judged[0] is not None:
            mark: Mark = "right" if judged[0] else "hallucinated"
        else:
            mark = "right" if matched else "wrong" if clean and named else "hallucinated"
        parts.append((words, mark))
    return Explanation([(example["text"], False)], [" | ".join(triple) for triple in gold], parts)


def _qualities(examples: Examples, predicted: Triples, gold: list[list[Gold]], mode: str) -> dict[str, Column]:
    """Return the five qualities of each document, TS without its annotation; NaN where an annotation is missing."""
    annotations, empty, n = examples.annotations, generative_re.EMPTY_SCORES[mode], len(predicted)
    values = {metric: np.full(n, math.nan) for metric in list(METRICS)[:5]}
    if annotations is None:
        return values
    silent = np.array([not triples for triples in predicted], dtype=bool)
    if annotations.has("embeddings"):
        places = [annotations.places(triples) for triples in predicted]
        values["uniqueness"] = generative_re.uniqueness(
            (None if each is None else annotations.sums(each) for each in places),
            annotations.threshold("embeddings", "uniqueness"),
            empty=empty["uniqueness"],
        )
        values["completeness"] = generative_re.completeness(
            (_similarities(annotations, *each, mode) for each in zip(gold, places, strict=True)),
            annotations.threshold("embeddings", "completeness"),
        )
    if annotations.has("cosines") and mode == "reference":  # without vectors there is no direction to look at
        values["completeness"] = generative_re.completeness(
            (annotations.best_cosines(name) for name in examples.ids), annotations.threshold("cosines", "completeness")
        )
    if mode == "reference" and (annotations.has("embeddings") or annotations.has("cosines")):
        values["completeness"][silent] = empty["completeness"]  # there even where there is no gold
    answered = list(zip(examples.ids, predicted, strict=True))
    if annotations.has("factualness"):
        verdicts = [annotations.verdicts(*each) for each in answered]
        values["factualness"] = generative_re.factualness(verdicts, empty=empty["factualness"])
    if annotations.has("granularity"):
        splits = [annotations.splits(*each) for each in answered]
        values["granularity"] = generative_re.granularity(splits, empty=empty["granularity"])
    return values


def _similarities(
    annotations: Annotations, gold: list[Gold], places: NDArray[np.int64] | None, mode: str
) -> NDArray[np.floating] | None:
    """Return the cosines of distinct gold and predicted triples; None where some element has no vector.

    Modes but `reference` set those of reversed triples to -1.
    """
    wanted = annotations.places(list(dict.fromkeys(gold)))
    if wanted is None or places is None:
        return None
    cosines = generative_re.all_cosines(annotations.sums(wanted), annotations.sums(places))
    if mode != "reference":
        cosines[generative_re.find_reversed(annotations.elements[wanted], annotations.elements[places])] = -1.0
    return cosines


def _counters(
    examples: Examples, answers: Sequence[Answer], predicted: Triples, gold: list[list[Gold]]
) -> dict[str, int]:
    """Return counts of empty predictions and gold, malformed and repeated triples, and verdicts that failed."""
    annotations = examples.annotations
    listed = [answer for answer in answers if answer]
    sound = [generative_re.keep_well_formed(answer) for answer in listed]
    counters = {
        "n_empty": sum(answer is not None and not triples for answer, triples in zip(answers, predicted, strict=True)),
        "n_empty_gold": sum(not triples for triples in gold),
        "n_malformed_triples": sum(map(len, listed)) - sum(map(len, sound)),
        "n_duplicate_triples": sum(len(triples) - len(set(triples)) for triples in sound),
    }
    for kind in ("factualness", "granularity"):
        if annotations is not None and annotations.has(kind):
            counters[f"n_{kind}_failures"] = annotations.failures(kind)
    return counters


def _bucket(n: int) -> str:
    return str(n) if n < 3 else "3-5" if n < 6 else "6-10" if n < 11 else "11+"


@cache
def _count_tokens(mode: str) -> Callable[[str], int]:
    return lru_cache(maxsize=2**18)(lambda text: len(tokenize(text, generative_re.WORDS[mode])))


HERE = Path(__file__).parent
_CITATION = (HERE / "citation.bib").read_text(encoding="utf-8")
TOPICS = {"cdr": 50, "docred": 100, "nyt10m": 150, "wiki20m": 150, "tacred": 150, "wiki80": 150, "sentences": 5}
"""Number of topics of the release's models, and of the one of `mini-genres`; 20 for any other config."""
_SCORING = base.Scoring(
    ANY_TRIPLES,
    METRICS,
    generative_re.MODES,
    score,
    warn=on_request("kbbench_hf.benchmarks.genres.warnings:warnings"),
    headline=("completeness", "topical_similarity", "uniqueness", "factualness", "granularity", "f1"),
    unbounded=frozenset({"triples_per_document", "tokens_per_triple"}),
    annotations=AnnotationRules(
        needs={
            "topics-reference": ("topical_similarity",),
            "topics-fixed": ("topical_similarity",),
            "embeddings": ("uniqueness", "completeness"),
            "cosines": ("completeness",),
            "factualness": ("factualness",),
            "granularity": ("granularity",),
        },
        gold=gold_triples,
        n_topics=lambda config: TOPICS.get(config, 20),
        corpus=topic_corpus,
        released_outputs=on_request("kbbench_hf.building.genres.release:released_outputs"),
        released_verdicts=on_request("kbbench_hf.building.genres.release:released_verdicts"),
        calibrates=on_request("kbbench_hf.building.genres.release:calibrates"),
        human_votes=on_request("kbbench_hf.building.genres.release:human_votes"),
    ),
)


def _parser(name: str) -> Callable[..., Any]:
    return on_request(f"kbbench_hf.benchmarks.genres.parsers:{name.replace('-', '_')}")


_ASKING = base.Asking(
    prompts={
        "open": prompts.open_prompt,
        "open-named": prompts.open_named_prompt,
        "semi-open": prompts.semi_open_prompt,
        "closed": prompts.closed_prompt,
        "closed-1": prompts.closed_prompt_1,
    },
    parsers={
        **{name: _parser(name) for name in ("careful", "careful-semi-open")},
        **{name: of_text(_parser(name)) for name in ("lenient", "lenient-semi-open")},
        **{name: of_text(_parser(name)) for name in ("historical", "historical-semi-open")},
    },
)
_STATISTICS = on_request("kbbench_hf.benchmarks.genres.statistics:statistics")

CORPORA = base.Benchmark(
    base.Facts(
        "genres-corpora",
        "GenRES",
        family="GenRES",
        paper="https://arxiv.org/abs/2402.10744",
        homepage="https://github.com/pat-jj/GenRES",
        license="none stated by the release; built from the user's clone",
        redistributable=False,
        citation=_CITATION,
    ),
    base.Data(
        ("cdr", "docred", "wiki20m", "wiki80", "tacred", "nyt10m"),
        ("test",),
        "test",
        load,
        build=on_request("kbbench_hf.building.genres.release:build_genres_corpora"),
    ),
    _SCORING,
    _ASKING,
    base.Showing(
        explain,
        published=HERE / "published.csv",
        gold="Ground truth",
        answered=frozenset(ANSWERED),
        statistics=_STATISTICS,
        names=HERE / "names.toml",
    ),
)
MINI = base.Benchmark(
    base.Facts(
        "mini-genres", "GenRES, mini", "Mini", paper=CORPORA.facts.paper, license="apache-2.0", citation=_CITATION
    ),
    base.Data(("sentences",), ("test",), "test", load, shipped=HERE / "mini"),
    _SCORING,
    _ASKING,
    base.Showing(explain, statistics=_STATISTICS, names=HERE / "names.toml"),
)
