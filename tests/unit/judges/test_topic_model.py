"""Topic models: the same corpus gives the same model, and a document's topics depend on itself alone."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.benchmarks.genres.topic_corpora import released_corpus
from kbbench_hf.judges.thresholds import spearman
from kbbench_hf.judges.topic_model import LdaSettings, TopicModel
from kbbench_hf.metrics.generative_re import content_words, join_triples, topical_similarity

pytest.importorskip("gensim")

CORPUS = [
    "Ferries cross the harbour .",
    "Harbour pilots guide ferries .",
    "Goats eat grass in summer .",
    "Grass feeds goats and sheep .",
] * 5
SETTINGS = LdaSettings(3, "reference")


@pytest.fixture(scope="module")
def model() -> TopicModel:
    return TopicModel.train(CORPUS, SETTINGS)


def test_the_same_corpus_and_seed_give_the_same_model(model: TopicModel) -> None:
    assert TopicModel.train(CORPUS, SETTINGS).identity == model.identity
    others = [
        TopicModel.train(CORPUS[:-1], SETTINGS),
        TopicModel.train(CORPUS, LdaSettings(3, "reference", seed=3)),
        TopicModel.train(CORPUS, LdaSettings(3, "fixed")),
    ]
    assert len({other.identity["model_sha256"] for other in [model, *others]}) == 4


def test_a_documents_topics_do_not_depend_on_its_neighbours(model: TopicModel) -> None:
    documents = [content_words(text, "reference") for text in CORPUS[:4]]
    together = model.shares(documents)
    assert np.array_equal(together, np.concatenate([model.shares([document]) for document in documents]))
    assert np.array_equal(together[::-1], model.shares(documents[::-1]))
    assert together.sum(axis=1) == pytest.approx(1.0)


def test_nothing_to_say_is_every_topic_alike() -> None:
    flat = TopicModel.train(CORPUS, LdaSettings(3, "fixed"))
    assert flat.shares([[], ["unheard"]]) == pytest.approx(np.full((2, 3), 1 / 3))
    assert flat.shares([]).shape == (0, 3)


def test_a_saved_model_is_the_same_model(model: TopicModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model.npz")
    again = TopicModel.load(tmp_path / "model.npz")
    assert again.identity == model.identity
    documents = [content_words(text, "reference") for text in CORPUS[:4]]
    assert np.array_equal(again.shares(documents), model.shares(documents))


def test_the_release_loses_the_first_word_of_every_head_but_the_first() -> None:
    triples = [["Ferries", "cross", "harbour"], ["Goats", "eat", "grass"]]
    words = {mode: content_words(join_triples(triples, mode), mode) for mode in ("reference", "fixed")}
    assert words["reference"] == ["Ferries", "cross", "harbour", "eat", "grass"]
    assert words["fixed"] == ["Ferries", "cross", "harbour", "Goats", "eat", "grass"]


@pytest.mark.parametrize(
    ("config", "n_words", "n_tokens"),
    [("cdr", 16_144, 193_356), ("wiki20m", 42_265, 204_901)],  # of 204,903: two sentence ends are seen by Punkt alone
)
def test_a_corpus_has_the_words_of_the_releases_dictionary(
    shared: Path, config: str, n_words: int, n_tokens: int
) -> None:
    # the release's stored dictionaries (GREScores/topical_process/*_dictionary.pkl)
    words = [content_words(text, "reference") for text in released_corpus(shared / "data/genres", config, [])]
    assert len({word for text in words for word in text}) == n_words
    assert sum(map(len, words)) == n_tokens


@pytest.mark.parametrize(
    ("config", "sample", "n_topics", "error", "rank"),
    [
        ("cdr", "cdr_rand_200", 50, 3.5, 0.96),
        pytest.param("wiki20m", "wiki20m_rand_500", 150, 1.2, 0.98, marks=pytest.mark.full),
    ],
)
def test_retrained_topics_follow_the_released_ts(
    shared: Path, config: str, sample: str, n_topics: int, error: float, rank: float
) -> None:
    folder = shared / "data/genres"
    documents = list(json.loads((folder / f"inputs/{config}_processed.json").read_text(encoding="utf-8")))
    model = TopicModel.train(released_corpus(folder, config, []), LdaSettings(n_topics, "reference"))
    source = model.shares([content_words(text, "reference") for text in documents])
    released = released_ts(shared, sample)
    found = []
    for name in released:
        answers = json.loads((folder / f"outputs/{sample}_{name}_1.json").read_text(encoding="utf-8"))
        words = [content_words(join_triples(answers[text], "reference"), "reference") for text in documents]
        found.append(100 * topical_similarity(source, model.shares(words)).mean())
    wanted = np.array(list(released.values()))
    assert len(wanted) == 14
    assert spearman(np.array(found), wanted) >= rank
    assert np.abs(np.array(found) - wanted).mean() <= error


def released_ts(shared: Path, sample: str) -> dict[str, float]:
    with (shared / "expected/genres_ts_retrained.csv").open(encoding="utf-8") as rows:
        return {
            row["model"]: float(row["released"])
            for row in csv.DictReader(rows)
            if row["dataset"] == sample and row["released"]
        }
