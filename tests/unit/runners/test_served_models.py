"""Embeddings and re-ranking by a server: rankings as of local models, and replies that must not become scores."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kbbench_hf import run
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.shards import ShardEnd
from kbbench_hf.protocols import Completion, ProcessGroup
from kbbench_hf.retrieval.context import no_bar
from kbbench_hf.retrieval.embedders import embed
from kbbench_hf.runners.served_models import EmbeddingClient, ServedEmbedder
from kbbench_hf.scoring.eval_task import load_examples
from tests.servers.embeddings import EmbeddingServer, RerankServer, Rows
from tests.servers.scripted import ScriptedServer
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
    return ServedEmbedder("m", 2, endpoint=lambda name: EmbeddingClient(server.url, name), **options)


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


def test_a_completion_has_the_vectors_in_base64_the_tokens_and_the_time_of_its_request(server: Any) -> None:
    async def complete() -> Completion:
        async with EmbeddingClient(server.url, "m") as client:
            return await client.complete([{"role": "user", "content": text} for text in TEXTS[:2]])

    text, finish, n_prompt, n_tokens, latency = asyncio.run(complete())[:5]
    vectors = np.frombuffer(base64.b64decode(text), np.float32).reshape(2, -1)
    assert np.allclose(vectors, Encoder().encode(TEXTS[:2]), atol=1e-6)
    assert (finish, n_tokens) == ("stop", None) and n_prompt and 0 < latency < 60


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
    found = json.loads((tmp_path / "400" / "truncation.json").read_bytes())
    assert 400 <= found.pop("characters") <= 400 + max(map(len, long)) // 50
    assert found == {"n_texts": 2, "n": 8}


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
        served = evaluate(model, out=tmp_path / f"served-{number}", base_url=server.url, extra_body={"user": "ada"})
        for name, score in local.scores.items():  # many vectors tie but for their last digit
            assert served.scores[name].value == pytest.approx(score.value, abs=1e-3), (model, name)
    made = json.loads((tmp_path / "served-0" / "run.json").read_bytes())
    assert f'"base_url": "{server.url}/v1", "dimension": 64' in made["revisions"]["m"]
    assert {each["user"] for each in server.payloads} == {"ada"}
    with pytest.raises(UsageError, match="has no embedding model"):
        evaluate("bm25", out=tmp_path / "none", base_url=server.url)
    with pytest.raises(UsageError, match="retriever-base-url is for"):
        evaluate("dense:m", out=tmp_path / "none", retriever_base_url=server.url)
    with pytest.raises(UsageError, match="temperature"):
        evaluate("dense:m", out=tmp_path / "none", base_url=server.url, temperature=1.0)
    assert not (tmp_path / "none").exists()


def overlap(query: str, text: str) -> float:
    """Score a document by the words of the query, below zero as logits may be, and never twice the same."""
    words = {*text.lower().split()}
    return len(words & {*query.lower().split()}) + len(words) / 1000 - 5


def reranked(server: RerankServer, out: Path, **options: Any) -> list[list[Any]]:
    """Return the ranking of each query."""
    how: dict[str, Any] = {"limit": 12, "base_url": server.url, "depth": 7, "show": False, **options}
    run("mini-stark", "bm25", out=out, rerank="cross:m@batch=3", **how)
    return [json.loads(line)["ids"] for line in (out / "predictions.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("address", "form"), [("/v1/rerank", "documents"), ("/rerank", "documents"), ("/rerank", "texts")]
)
def test_a_served_cross_encoder_orders_the_best_by_its_scores(address: str, form: str, tmp_path: Path) -> None:
    with RerankServer(score=overlap, address=address, form=form, retry_after_s=0.01) as server:
        faults = ["429 retry-after", "500", "reset"]
        server.fault_of = lambda key, n: faults[n] if "dish" in key and n < 3 else None  # type: ignore[method-assign]
        found = reranked(server, tmp_path / "a", extra_body={"raw_scores": True})
        sent = {json.dumps(each): each for each in server.payloads if form in each}.values()
        n_sent = len(server.payloads)
        assert reranked(server, tmp_path / "a", extra_body={"raw_scores": True}) == found
        assert len(server.payloads) - n_sent <= 6, "the probes; no document of the run is sent again"
    assert all(each["raw_scores"] and {"temperature", "max_tokens"}.isdisjoint(each) for each in sent)
    score = {(each["query"], text): overlap(each["query"], text) for each in sent for text in each[form]}
    base = [json.loads(line) for line in (tmp_path / "a-base" / "predictions.jsonl").read_text().splitlines()]
    lines = [json.loads(line) for line in (tmp_path / "a" / "predictions.jsonl").read_text().splitlines()]
    for before, after in zip(base, lines, strict=True):
        assert sorted(after["ids"][:7], key=str) == sorted(before["ids"][:7], key=str)
        assert after["ids"][7:] == before["ids"][7:]
        assert after["scores"] == sorted(after["scores"], reverse=True)
        assert all(any(abs(each - known) < 1e-9 for known in score.values()) for each in after["scores"][:7])
    assert found != [line["ids"] for line in base]
    stored = json.loads((tmp_path / "a" / "run.json").read_bytes())
    settings = stored["settings"]
    assert stored["summary"]["prompt_tokens"] == (12 * 7 if form == "documents" else 0)
    assert settings["rerank"] == "cross:m@batch=3" and settings["weight"] == 0


def _indices(*indices: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [{**row, "index": index} for row, index in zip(rows, indices, strict=False)]


def _scored(value: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [{"index": row["index"], "score": value if row["index"] == 1 else 0.5} for row in rows]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda rows: rows[:-1], "2 scores with the indices .*one for each of 3 texts"),
        (lambda rows: [*rows, rows[0]], "4 scores with the indices"),
        (_indices(0, 0, 1), r"indices \[0, 0, 1\]"),
        (_indices(1, 2, 3), r"indices \[1, 2, 3\]"),
        (lambda rows: [{"score": 1.0} for _ in rows], "indices .None"),
        (lambda rows: ["0.3" for _ in rows], "0 scores with the indices"),
        (_scored(float("nan")), "the score nan; expected a finite number"),
        (_scored(None), "the score None"),
        (_scored("high"), "the score high"),
        (_scored(True), "the score True"),
        (_indices(0, 1, 2), "the same texts in another order"),
    ],
)
@pytest.mark.parametrize("form", ["documents", "texts"])
def test_a_reply_without_one_score_per_document_is_refused(spoil: Any, words: str, form: str, tmp_path: Path) -> None:
    with RerankServer(score=overlap, form=form, address="/rerank", spoil=spoil) as server:
        with pytest.raises(DataError, match=words) as error:
            reranked(server, tmp_path / "a")
        assert server.url in str(error.value) and "run the same command" in str(error.value)
        server.spoil = lambda rows: spoil(rows) if "dish" in str(server.payloads[-1]) else rows
        if "another order" not in words:  # in the middle of a run: what came before is kept
            with pytest.raises(DataError, match=words):
                reranked(server, tmp_path / "b")
            server.spoil = lambda rows: rows
            reranked(server, tmp_path / "b")
    assert not (tmp_path / "a" / "predictions.jsonl").exists()


def test_a_refused_request_leaves_its_query_the_first_ranking_and_cut_documents_are_noted(tmp_path: Path) -> None:
    with RerankServer(score=overlap) as server:
        whole = reranked(server, tmp_path / "whole")
        base = [json.loads(line) for line in (tmp_path / "whole-base" / "predictions.jsonl").read_text().splitlines()]
        rows = load_examples("mini-stark", limit=12).examples.rows
        moved = [row["query"] for row, line, ids in zip(rows, base, whole, strict=True) if ids != line["ids"]]
        n_times = Counter(text for each in server.payloads for text in each["documents"])
        once = (text for each in server.payloads if each["query"] in moved for text in each["documents"])
        server.refuses = next(text for text in once if n_times[text] == 1)  # in one of the three requests of its query
        found = reranked(server, tmp_path / "refused")
        changed = [place for place in range(12) if found[place] != whole[place]]
        assert len(changed) == 1 and found[changed[0]] == base[changed[0]]["ids"]
    with RerankServer(score=overlap, most_characters=400) as server:
        reranked(server, tmp_path / "cut", depth=20)
        documents = {text for each in server.payloads for text in each["documents"] if "\n" in text}
    (noted,) = [
        each
        for each in json.loads((tmp_path / "cut" / "run.json").read_bytes())["warnings"]
        if each["code"] == "truncated_texts"
    ]
    assert "about the first 432 characters" in noted["message"]
    n = sum(len(text) > 432 for text in documents)
    assert n > 0 and f"; {n} of {len(documents)} documents are longer" in noted["message"]


@pytest.mark.parametrize(
    ("score", "codes"),
    [
        (overlap, set()),
        (lambda query, text: -overlap(query, text), {"scores_ignore_query"}),
        (lambda query, text: float(len(text)), {"scores_ignore_query"}),
        (lambda query, text: -float(len(text)), {"scores_ignore_query"}),
        (lambda query, text: 0.5, {"scores_ignore_query", "equal_replies"}),
    ],
)
def test_scores_that_do_not_follow_the_query_are_noted_and_equal_ones_are_no_sign_of_cut_documents(
    score: Any, codes: set[str], tmp_path: Path
) -> None:
    with RerankServer(score=score) as server:
        for _ in range(2):  # the second time, all scores are known
            reranked(server, tmp_path / "a", depth=20)
            noted = json.loads((tmp_path / "a" / "run.json").read_bytes())["warnings"]
            probed = {"scores_ignore_query", "truncated_texts", "equal_replies"}
            assert {each["code"] for each in noted} & probed == codes


def test_a_server_that_reads_little_is_no_server_of_equal_scores(tmp_path: Path) -> None:
    with RerankServer(score=overlap, most_characters=100) as server:
        reranked(server, tmp_path / "a")
    assert 90 <= json.loads((tmp_path / "a" / "truncation.json").read_bytes())["characters"] <= 125


def test_shards_of_a_cross_encoder_make_the_run_of_one_process(tmp_path: Path) -> None:
    with RerankServer(score=overlap) as server:
        whole = reranked(server, tmp_path / "whole")
        with pytest.raises(ShardEnd):
            reranked(server, tmp_path / "parts", shard="1/2")
        assert reranked(server, tmp_path / "parts", shard="2/2") == whole
        server.always = "500"  # a server that is gone
        assert reranked(server, tmp_path / "parts", collect=True) == whole


def test_what_a_cross_encoder_does_not_have_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "none"
    with RerankServer(score=overlap, address="/v1/score") as server:
        how: dict[str, Any] = {"limit": 2, "out": out, "show": False}
        for options, words in (
            ({"rerank": "cross:m"}, "expected cross:MODEL, and --base-url"),
            ({"rerank": "cross", "base_url": server.url}, "expected cross:MODEL"),
            ({"rerank": "cross:m@k=1", "base_url": server.url}, "no option 'k'"),
            ({"rerank": "cross:m", "base_url": server.url, "temperature": 1.0}, "temperature is for models that write"),
            ({"rerank": "cross:m", "base_url": server.url, "rerank_prompt": "clean"}, "rerank_prompt is for"),
        ):
            with pytest.raises(UsageError, match=words):
                run("mini-stark", "bm25", **how, **options)
        with pytest.raises(UsageError, match="Did you mean bm25 --rerank cross:m --base-url URL"):
            run("mini-stark", "cross:m", **how)
        assert not out.exists() and not Path(f"{out}-base").exists()
        with pytest.raises(UsageError, match=r"gave no scores of 'm'.*Is the model a cross-encoder"):
            run("mini-stark", "bm25", rerank="cross:m", base_url=server.url, **how)


def test_a_served_model_plans_each_query_once_with_the_schema_of_its_entities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan = {"paths": [], "attributes": [], "text": ""}

    def answer(payload: dict[str, Any]) -> str:
        if "response_format" not in payload:  # a first request, which tells whether the server answers
            return "yes"
        schema = payload["response_format"]["json_schema"]["schema"]
        (answer_type,) = schema.get("anyOf", [schema])[0]["properties"]["answer_type"]["enum"]
        return json.dumps({"answer_type": answer_type, **plan})

    with ScriptedServer(answer=answer) as server:
        how: dict[str, Any] = {"limit": 6, "base_url": server.url, "show": False}
        run("mini-stark", "plan:llm:m@samples=2", out=tmp_path / "a", **how)
        n_sent = len(server.requests)
        run("mini-stark", "plan:llm:m@samples=2", out=tmp_path / "b", **how)
        assert len(server.requests) == n_sent > 2
    assert (tmp_path / "a/predictions.jsonl").read_bytes() == (tmp_path / "b/predictions.jsonl").read_bytes()
    lines = (tmp_path / "a/explanations.jsonl").read_text(encoding="utf-8").splitlines()
    plans = [json.loads(line)["plans"] for line in lines]
    assert {each["score"] for found in plans for each in found} == {1.0}
    with pytest.raises(UsageError, match="expected --base-url URL"):
        run("mini-stark", "plan:llm:m", out=tmp_path / "none", limit=2, show=False)
    assert not (tmp_path / "none").exists()
