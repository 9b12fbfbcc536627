"""Embeddings of a server: the same rankings as local ones, and replies that must not become vectors."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kbbench_hf import run
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.protocols import ProcessGroup
from kbbench_hf.retrieval.context import no_bar
from kbbench_hf.retrieval.embedders import embed
from kbbench_hf.runners.served_embedder import ServedEmbedder
from tests.servers.embeddings import EmbeddingServer, Rows
from tests.unit.retrieval.hashing import HashingEmbedder

TEXTS = [f"the {word} of the island" for word in "keeper lighthouse harbor weather captain storm".split()]


class Encoder(HashingEmbedder):
    """Its vectors are never zero."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return super().encode([f"{text} ." for text in texts])

    encode_queries = encode


@pytest.fixture
def server() -> Any:
    with EmbeddingServer(encode=Encoder().encode, retry_after_s=0.01, model="m") as started:
        yield started


def embedder(server: EmbeddingServer, **options: Any) -> ServedEmbedder:
    return ServedEmbedder("m", 2, endpoint=lambda name: Endpoint(server.url, name), **options)


def test_vectors_are_those_of_the_texts_whatever_order_the_server_sends_and_after_faults(server: Any) -> None:
    server.spoil = lambda rows: rows[::-1]
    served = embedder(server)
    server.faults = {json.dumps(TEXTS[:2]): ["429 retry-after", "500", "truncated json", "reset"]}
    assert np.allclose(served.encode(TEXTS), Encoder().encode(TEXTS), atol=1e-6)
    assert server.attempts[json.dumps(TEXTS[:2])] == 5


def test_prefixes_extra_fields_and_empty_texts_are_sent(server: Any) -> None:
    served = embedder(server, query_prefix="query: ", document_prefix="passage: ", extra={"dimensions": 64})
    served.encode(["a"])
    served.encode_queries(["b"])
    assert [each["input"] for each in server.payloads[1:]] == [["passage: a"], ["query: b"]]
    assert all(each["dimensions"] == 64 for each in server.payloads)
    embedder(server).encode([""])
    assert server.payloads[-1]["input"] == [" "]


def _with(value: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [*rows[:-1], {**rows[-1], "embedding": value}]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda rows: rows[:-1], "1 vectors with the indices"),
        (lambda rows: [*rows, rows[0]], "3 vectors with the indices"),
        (lambda rows: [{**rows[0], "index": 0}, {**rows[1], "index": 0}], r"indices \[0, 0\]"),
        (lambda rows: [{"embedding": row["embedding"][:32], "index": row["index"]} for row in rows], r"\(2, 64\)"),
        (_with([1.0]), "one length"),
        (_with([float("nan")] * 64), "NaN"),
        (_with([0.0] * 64), "zeros"),
        (_with("AAAA"), "no lists of numbers"),
        (_with(None), "no lists of numbers"),
    ],
)
def test_a_reply_without_one_usable_vector_per_text_is_refused(server: Any, spoil: Any, words: str) -> None:
    served = embedder(server)
    server.spoil = spoil
    with pytest.raises(DataError, match=words) as error:
        served.encode(TEXTS[:2])
    assert (
        server.url in str(error.value) and "expected" in str(error.value) and "run the same command" in str(error.value)
    )


def test_a_request_that_the_server_refuses_ends_the_run_with_its_words(server: Any) -> None:
    served = embedder(server)
    server.always = "400"
    with pytest.raises(UsageError, match="scripted 400"):
        served.encode(TEXTS)


def _cached(served: ServedEmbedder, folder: Path, texts: list[str]) -> np.ndarray[Any, Any]:
    return embed(lambda: texts, served, folder, ProcessGroup(), no_bar)


def test_a_server_that_truncates_is_noticed_also_when_the_vectors_are_cached(server: Any, tmp_path: Path) -> None:
    long = [" ".join(f"word{n}" for n in range(start, start + 200)) for start in (0, 300)]
    for most, expected in ((None, []), (400, ["truncated_texts"])):
        server.most_characters = most
        for _ in range(2):
            warnings: list[Any] = []
            _cached(embedder(server, warnings=warnings), tmp_path / str(most), [*TEXTS, *long])
            assert [each.code for each in warnings] == expected
    assert "2 of 8 texts are longer" in warnings[0].message


def test_other_weights_behind_the_same_address_do_not_meet_the_cached_vectors(server: Any, tmp_path: Path) -> None:
    _cached(embedder(server), tmp_path, TEXTS)
    n = len(server.payloads)
    _cached(embedder(server), tmp_path, TEXTS)
    assert len(server.payloads) == n + 1  # only the probe
    server.encode = lambda texts: Encoder().encode([text[::-1] for text in texts])
    with pytest.raises(DataError, match="other weights"):
        _cached(embedder(server), tmp_path, TEXTS)


def test_runs_with_a_served_and_a_local_model_have_the_same_scores(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("kbbench_hf.retrieval.embedders.SentenceEmbedder", lambda *_, **__: Encoder())
    evaluate = partial(run, "mini-stark", limit=10, show=False)
    for number, model in enumerate(("dense:m", "rrf(bm25,dense:m)", "graph:dense:m", "multi:m", "vss:m")):
        local = evaluate(model, out=tmp_path / f"local-{number}")
        served = evaluate(model, out=tmp_path / f"served-{number}", base_url=server.url)
        for name, score in local.scores.items():  # many vectors tie but for their last digit
            assert served.scores[name].value == pytest.approx(score.value, abs=1e-3), (model, name)
    made = json.loads((tmp_path / "served-0" / "run.json").read_bytes())
    assert f'"base_url": "{server.url}/v1", "dimension": 64' in made["revisions"]["m"]
    with pytest.raises(UsageError, match="has no embedding model"):
        evaluate("bm25", out=tmp_path / "none", base_url=server.url)
    with pytest.raises(UsageError, match="retriever-base-url is for"):
        evaluate("dense:m", out=tmp_path / "none", retriever_base_url=server.url)
    with pytest.raises(UsageError, match="temperature"):
        evaluate("dense:m", out=tmp_path / "none", base_url=server.url, temperature=1.0)
    assert not (tmp_path / "none").exists()
