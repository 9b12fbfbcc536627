"""Topic models: the same corpus gives the same model, and a document's topics depend on itself alone."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from kbbench_hf.metrics.generative_re import topical_similarity
from kbbench_hf.metrics.topics import content_words, triples_text
from kbbench_hf.models.thresholds import spearman
from kbbench_hf.models.topic_model import LdaSettings, TopicModel

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
    words = {mode: content_words(triples_text(triples, mode), mode) for mode in ("reference", "fixed")}
    assert words["reference"] == ["Ferries", "cross", "harbour", "eat", "grass"]
    assert words["fixed"] == ["Ferries", "cross", "harbour", "Goats", "eat", "grass"]


def test_cdrs_vocabulary_is_the_releases(shared: Path) -> None:
    # 16,144 terms in the release's stored dictionary of CDR (topical_process/cdr_lda.pkl)
    texts = corpus_of(shared)
    assert len({word for text in texts for word in content_words(text, "reference")}) == 16_144


@pytest.mark.slow
def test_retrained_topics_follow_the_published_ts_on_cdr(shared: Path) -> None:
    folder = shared / "data/genres"
    documents = list(json.loads((folder / "inputs/cdr_processed.json").read_text(encoding="utf-8")))
    model = TopicModel.train(corpus_of(shared), LdaSettings(50, "reference"))
    source = model.shares([content_words(text, "reference") for text in documents])
    published = poster(shared, "cdr_rand_200", "TS")
    found = {}
    for name in published:
        answers = json.loads((folder / f"outputs/cdr_rand_200_{name}_1.json").read_text(encoding="utf-8"))
        words = [content_words(triples_text(answers[text], "reference"), "reference") for text in documents]
        found[name] = topical_similarity(source, model.shares(words)).mean()
    assert len(published) == 14
    wanted = np.array(list(published.values()))
    assert spearman(np.array(list(found.values())), wanted) >= 0.98
    assert np.abs(100 * np.array(list(found.values())) - wanted).mean() < 2


def corpus_of(shared: Path) -> list[str]:
    files = [shared / f"data/genres/corpora/{part}_filter.data" for part in ("test", "train", "dev")]
    return [line.split("\t")[1] for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def poster(shared: Path, dataset: str, metric: str) -> dict[str, float]:
    with (shared / "expected/genres_expected.csv").open(encoding="utf-8") as rows:
        return {
            row["model"]: float(row["value"])
            for row in csv.DictReader(rows)
            if (row["dataset"], row["metric"]) == (dataset, metric)
            and row["source"].startswith("poster")
            and row["model"] != "groundtruth"
        }
