"""Embeddings and topics: made once, resumed, and remade for whatever they do not belong to."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.annotated import TopicCorpus, made_with, with_annotations
from kbbench_hf.benchmarks.annotations import read_annotation
from kbbench_hf.benchmarks.base import Examples, Scores
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext, score
from kbbench_hf.benchmarks.genres.topic_corpora import topic_corpus
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.judges.thresholds import Thresholds
from kbbench_hf.metrics.aggregate import means
from kbbench_hf.runners.annotators import _corpus, annotate_embeddings, annotate_stored_cosines, annotate_topics

RULES = benchmark("mini-genres").scoring.annotations
N_TOPICS = RULES.n_topics("sentences")
TEXTS = ["Ferries cross the harbour .", "Goats eat grass ."]
CORPUS = TopicCorpus(TEXTS * 5, "ten texts")
GOLD = [("Ferries", "cross", "harbour"), ("Goats", "eat", "grass")]
ANSWERS: list[list[list[object]]] = [[["Ferries", "cross", "harbour"], ["harbour", "cross", "Ferries"]], []]
THRESHOLDS = Thresholds(0.9, 0.9, "test")


class OneHot:
    """Embeds every text as its own direction."""

    def __init__(self, name: str = "one-hot@1") -> None:
        self.name = name
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += texts
        vectors = np.zeros((len(texts), 64), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row, sum(text.encode()) % 64] = 1
        return vectors


@pytest.fixture
def examples() -> Examples:
    rows = [
        {"id": f"d{n}", "text": text, "triples": gold, "triples_stated": gold}
        for n, (text, gold) in enumerate(
            (text, [dict(zip(("sub", "rel", "obj"), triple, strict=True))])
            for text, triple in zip(TEXTS, GOLD, strict=True)
        )
    ]
    return Examples(rows, CorpusContext("sentences", ("cross", "eat")))


def test_every_element_of_gold_and_answers_is_encoded_once(examples: Examples, tmp_path: Path) -> None:
    embedder = OneHot()
    assert annotate_embeddings(RULES, examples, ANSWERS, tmp_path, embedder, THRESHOLDS, show=False) == 6
    assert sorted(embedder.encoded) == ["Ferries", "Goats", "cross", "eat", "grass", "harbour"]
    assert not (tmp_path / "work").exists() or not list((tmp_path / "work").iterdir())


def test_only_new_elements_are_encoded_for_the_same_embedder(examples: Examples, tmp_path: Path) -> None:
    annotate_embeddings(RULES, examples, ANSWERS, tmp_path, OneHot(), THRESHOLDS, show=False)
    again = OneHot()
    assert annotate_embeddings(RULES, examples, ANSWERS, tmp_path, again, THRESHOLDS, show=False) == 0
    more = [*ANSWERS[:1], [["Goats", "like", "grass"]]]
    assert annotate_embeddings(RULES, examples, more, tmp_path, again, THRESHOLDS, show=False) == 1
    assert again.encoded == ["like"]
    annotation = read_annotation(tmp_path, "embeddings")
    assert annotation is not None
    stored = dict(zip(annotation.table["element"].to_pylist(), annotation.table["vector"].to_pylist(), strict=True))
    assert stored["harbour"] == OneHot().encode(["harbour"])[0].tolist()


@pytest.mark.parametrize(
    ("embedder", "thresholds"),
    [
        (OneHot("one-hot@2"), THRESHOLDS),
        (OneHot(), Thresholds(0.9, 0.91, "test")),
        (OneHot(), Thresholds(0.8, 0.9, "")),
    ],
)
def test_another_embedder_or_threshold_starts_anew(
    examples: Examples, tmp_path: Path, embedder: OneHot, thresholds: Thresholds
) -> None:
    annotate_embeddings(RULES, examples, ANSWERS, tmp_path, OneHot(), THRESHOLDS, show=False)
    assert annotate_embeddings(RULES, examples, ANSWERS, tmp_path, embedder, thresholds, show=False) == 6


def test_direction_matters_in_fixed_mode_only(examples: Examples, tmp_path: Path) -> None:
    reversed_only = [[["harbour", "cross", "Ferries"]], [["Goats", "eat", "grass"]]]
    annotate_embeddings(RULES, examples, reversed_only, tmp_path, OneHot(), THRESHOLDS, show=False)
    annotated = with_annotations(examples, tmp_path)
    assert score(annotated, reversed_only, "reference").values["completeness"].tolist() == [1.0, 1.0]
    assert score(annotated, reversed_only, "fixed").values["completeness"].tolist() == [0.0, 1.0]


def test_silence_in_both_modes(examples: Examples, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    annotate_embeddings(RULES, examples, ANSWERS, tmp_path, OneHot(), THRESHOLDS, show=False)
    annotate_topics(examples, ANSWERS, tmp_path, CORPUS, N_TOPICS, tmp_path / "models", show=False)
    annotated = with_annotations(examples, tmp_path)
    released, fixed = (score(annotated, ANSWERS, mode).values for mode in ("reference", "fixed"))
    assert released["uniqueness"].tolist() == [0.0, 1.0]  # both triples alike; silence is unique
    assert fixed["uniqueness"].tolist() == [0.0, 0.0]
    assert released["completeness"].tolist() == fixed["completeness"].tolist() == [1.0, 0.0]
    assert released["topical_similarity"][1] > 0 and fixed["topical_similarity"][1] == 0
    assert np.isnan(released["factualness"]).all()  # nobody judged


def test_topic_models_and_source_topics_are_kept_for_the_next_system(
    examples: Examples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gensim")
    annotate_topics(
        examples,
        ANSWERS,
        tmp_path / "a",
        TopicCorpus(TEXTS * 5, "ten texts"),
        N_TOPICS,
        tmp_path / "models",
        modes=["fixed"],
        show=False,
    )
    texts: list[str] = []
    monkeypatch.setattr(
        "kbbench_hf.runners.annotators.content_words", lambda text, _: texts.append(text) or text.split()
    )
    monkeypatch.setattr("kbbench_hf.judges.topic_model.TopicModel.train", lambda *_: pytest.fail("trained again"))
    annotate_topics(
        examples,
        ANSWERS,
        tmp_path / "b",
        TopicCorpus(TEXTS * 5, "ten texts"),
        N_TOPICS,
        tmp_path / "models",
        modes=["fixed"],
        show=False,
    )
    assert not set(texts) & set(TEXTS)  # the sources' topics were kept
    kept, again = (read_annotation(tmp_path / name, "topics-fixed") for name in "ab")
    assert kept is not None and again is not None and kept.identity == again.identity


def test_a_corpus_of_ones_own_is_a_json_list_or_has_a_text_a_line(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("one\n\n  \ntwo ü\n", encoding="utf-8")
    (tmp_path / "own.json").write_text('["one", "", "two ü"]', encoding="utf-8")
    for ending in ("txt", "json"):
        corpus = _corpus(tmp_path / f"own.{ending}")
        assert (list(corpus.texts), corpus.name) == (["one", "two ü"], f"own.{ending}, 2 texts")
    for written, words in (
        ("[1]", "is not a list of texts"),
        ('{"a": 1}', "is not a list of texts"),
        ("[", "is not JSON"),
    ):
        (tmp_path / "own.json").write_text(written)
        with pytest.raises(DataError, match=words):
            _corpus(tmp_path / "own.json")
    with pytest.raises(UsageError, match="does not exist"):
        _corpus(tmp_path / "none.txt")


def test_another_corpus_is_another_topic_model(examples: Examples, tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    identities = []
    for corpus in (CORPUS, TopicCorpus(TEXTS * 6, "twelve texts")):
        annotate_topics(
            examples, ANSWERS, tmp_path / "run", corpus, N_TOPICS, tmp_path / "models", modes=["fixed"], show=False
        )
        identities.append(made_with(with_annotations(examples, tmp_path / "run"))["topics-fixed"])
    assert identities[0]["corpus_sha256"] != identities[1]["corpus_sha256"]
    assert identities[0]["models_sha256"] != identities[1]["models_sha256"]
    assert [each["corpus"] for each in identities] == ["ten texts", "twelve texts"]
    assert identities[0]["seeds"] == [0, 1, 2, 3, 4]


def test_a_figure_over_topic_models_is_their_mean_and_its_interval_spans_theirs(
    examples: Examples, tmp_path: Path
) -> None:
    pytest.importorskip("gensim")
    answers = [ANSWERS[0], [["Goats", "eat", "grass"]]]

    def annotated(seeds: list[int]) -> Scores:
        folder = tmp_path / "-".join(map(str, seeds))
        models = tmp_path / "models"
        annotate_topics(
            examples, answers, folder, CORPUS, N_TOPICS, models, seeds=seeds, modes=["reference"], show=False
        )
        return score(with_annotations(examples, folder), answers, "reference")

    alone = [annotated([seed]) for seed in (3, 4)]
    both = annotated([3, 4])
    values = [each.values["topical_similarity"] for each in alone]
    assert both.draws["topical_similarity"].tolist() == [each.tolist() for each in values]
    assert both.values["topical_similarity"] == pytest.approx(np.mean(values, axis=0))
    figures = [means(each.values, each.draws)["topical_similarity"] for each in (*alone, both)]
    assert not alone[0].draws
    assert figures[2].ci95 == (min(f.ci95[0] for f in figures[:2]), max(f.ci95[1] for f in figures[:2]))
    assert both.of(np.array([True, False])).draws["topical_similarity"].shape == (2, 1)


def test_a_topic_model_is_trained_on_the_corpus_where_there_is_one(tmp_path: Path) -> None:
    import pyarrow as pa

    from kbbench_hf.files.datasets import DatasetFolder, write_dataset

    tables = {
        name: {split: pa.table({"text": [f"{name} text"]})}
        for name, split in (("cdr", "test"), ("docred", "test"), ("cdr_corpus", "full"))
    }
    write_dataset(tmp_path / "set", tables, "---\nlicense: other\n---\n")
    folder = DatasetFolder(tmp_path / "set")
    assert topic_corpus(folder, "cdr") == (["cdr_corpus text"], "cdr_corpus, 1 texts", "")
    assert topic_corpus(folder, "docred") == (
        ["docred text"],
        "the 1 texts of docred itself",
        "docred_corpus, 5,051 texts",
    )


def test_stored_cosines_score_completeness_as_released(examples: Examples, tmp_path: Path) -> None:
    stored = {TEXTS[0]: {"['Ferries', 'cross', 'harbour']": [0.91, 0.95], "['x', 'y', 'z']": [0.94, 0.2]}}
    (tmp_path / "cosines.json").write_text(json.dumps(stored))
    assert annotate_stored_cosines(examples, tmp_path / "run", tmp_path / "cosines.json") == 1
    annotated = with_annotations(examples, tmp_path / "run")
    assert score(annotated, ANSWERS, "reference").values["completeness"].tolist() == [0.5, 0.0]  # silence: 0
    assert score(annotated, [[], []], "reference").values["completeness"].tolist() == [0.0, 0.0]
    assert np.isnan(score(annotated, ANSWERS, "fixed").values["completeness"]).all()  # direction cannot be seen
    (tmp_path / "cosines.json").write_text("[]")
    with pytest.raises(DataError, match="GREScores/completeness/details"):
        annotate_stored_cosines(examples, tmp_path / "run", tmp_path / "cosines.json")


def test_every_stored_cosine_gives_the_recomputed_completeness(shared: Path, tmp_path: Path) -> None:
    # Wiki20m, GPT-4: CS 40.0, from completeness/details at c0968af
    folder = shared / "data/genres"
    outputs = json.loads((folder / "outputs/wiki20m_rand_500_gpt-4_1.json").read_text(encoding="utf-8"))
    rows = [{"id": str(n), "text": text, "triples": [], "triples_stated": []} for n, text in enumerate(outputs)]
    documents = Examples(rows, CorpusContext("wiki20m", ()))
    annotate_stored_cosines(documents, tmp_path, folder / "stored_cosines/wiki20m_rand_500_gpt-4.json")
    values = score(with_annotations(documents, tmp_path), list(outputs.values()), "reference").values["completeness"]
    assert np.nanmean(values) == pytest.approx(0.4, abs=5e-7)


def test_a_thousand_triples_and_strange_elements_are_annotated_and_scored(examples: Examples, tmp_path: Path) -> None:
    many: list[list[list[object]]] = [
        [[f"[e{n}]", "r", f"t {n}"] for n in range(1000)],
        [["a", "r", None], ["a", "r", 1961], ["a", "r"], ["", "r", "b"], ["a", "r", ["b"]]],
    ]
    annotate_embeddings(RULES, examples, many, tmp_path, OneHot(), THRESHOLDS, show=False)
    annotated = with_annotations(examples, tmp_path)
    released, fixed = (score(annotated, many, mode) for mode in ("reference", "fixed"))
    assert released.values["triples_per_document"].tolist() == [1000, 5]
    assert fixed.values["triples_per_document"].tolist() == [1000, 1]  # ["a", "r", "1961"]
    assert fixed.counters["n_malformed_triples"] == 4
    assert not np.isnan(released.values["uniqueness"]).any() and not np.isnan(fixed.values["uniqueness"]).any()
