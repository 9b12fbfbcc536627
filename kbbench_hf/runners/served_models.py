"""Embedding models and cross-encoders on a server, for retrievers and re-ranking.

Embedding models: `/v1/embeddings` of TEI, vLLM, Infinity, Ollama, OpenAI. Cross-encoders: `/rerank` of Cohere, Jina,
TEI, vLLM, Infinity. `run_options` creates them.

The name of an embedder is the key of its cached vectors: another form of it encodes all texts again. The texts of the
probes are stored as vectors and findings, so they stay, too.
"""

import base64
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.journal import Record
from kbbench_hf.files.writing import whole_file, write_text
from kbbench_hf.llm.concurrency import run
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.llm.failures import Failure, RefusalKind, RequestRefused
from kbbench_hf.llm.http_bodies import MAX_BYTES
from kbbench_hf.protocols import Completion, Message, token_count
from kbbench_hf.retrieval.reranker import MOST_CHARACTERS
from kbbench_hf.runners.chat_requests import RequestSender
from kbbench_hf.runners.cost import Budget
from kbbench_hf.runners.jobs import ATTEMPTS, Job

VECTOR_BYTES = 2**18
"""The longest vector in JSON: 8,192 numbers of 32 characters."""
PROBE = "The keeper of the lighthouse writes down the weather every morning."
"""Its vector shows the dimension, and whether the weights behind an address have changed."""
CHANGED = 0.01
"""A larger distance (1 - cosine) means another model; other hardware and precision make less than 0.001."""
SAME = 1e-5
"""Texts whose vectors are nearer than this (1 - cosine) are equal for the server: it truncates them alike."""
QUESTION = "Which animal lives in the sea?"
SENTENCES = ("The whale lives in the sea.", "The train leaves at noon.", "A sea is a large body of salt water.")
"""Their scores for `QUESTION` show whether the scores of a server follow the documents."""
OTHER_QUESTION = "When does the train leave?"
"""The second sentence answers it, the first one `QUESTION`: scores that ignore the query are wrong for one of them."""
ROW_BYTES = 1024
"""The longest accepted score with its index, on average, besides a copy of the document."""


class ServedEmbedder:
    """An embedding model on a server; it takes the place of `SentenceEmbedder`.

    Args:
        model: the model's name on the server.
        batch: texts per request.
        normalize: whether vectors are scaled to length 1.
        query_prefix: put before each query, `"query: "` for e5 models.
        document_prefix: put before each document.
        endpoint: creates the client of the server from the model's name.
        extra: more fields of each request, `dimensions` say.
        concurrency: maximum number of concurrent requests.
        attempts: maximum tries of a request.
        warnings: warnings on the vectors are appended here.

    Raises:
        UsageError: the server refuses the key, the model or the request.
        DataError: a reply does not have one usable vector per text.
        KBBenchError: the server does not answer.
    """

    def __init__(
        self,
        model: str,
        batch: int = 32,
        *,
        normalize: bool = True,
        query_prefix: str = "",
        document_prefix: str = "",
        endpoint: Callable[[str], "EmbeddingClient"],
        extra: Mapping[str, Any] | None = None,
        concurrency: int = 32,
        attempts: int = ATTEMPTS,
        warnings: list[ScoreWarning] | None = None,
    ) -> None:
        self._client = endpoint(model)
        self._batch, self._normalize, self._extra = batch, normalize, dict(extra or {})
        self._prefixes = document_prefix, query_prefix
        self._limits: dict[str, int] = {"concurrency": concurrency, "attempts": attempts}
        self._warnings = [] if warnings is None else warnings
        self._probe = self._encode([PROBE])
        facts = self._client.server
        # an address identifies the server of a model whose revision nobody tells
        where = {} if "revision" in facts else {"base_url": self._client.base_url}
        about = {**facts, **where, "dimension": self._probe.shape[1], **self._extra}
        self.name = f"{model}@{json.dumps(about, sort_keys=True)}"
        self.settings = {"embedder": self.name, "normalize": normalize, "prefix": document_prefix}
        """All settings on which the vectors of documents depend."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text, shape (n, dimension)."""
        return self._encode([self._prefixes[0] + text for text in texts])

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per query, shape (n, dimension)."""
        return self._encode([self._prefixes[1] + text for text in texts])

    def check_server(self, folder: Path, render: Callable[[], Sequence[str]]) -> None:
        """Append a warning if the server truncates the documents that `render` returns.

        The probe's vector and the finding are stored in `folder`; with a stored finding, nothing is rendered.

        Raises:
            DataError: the vectors in `folder` were made by other weights.
        """
        probe, file = folder / "probe.npy", folder / "truncation.json"
        if probe.is_file() and _distance(np.load(probe), self._probe[0]) > CHANGED:
            raise DataError(
                f"The vectors in {folder} come from other weights than {self._client.base_url} now has under the name "
                f"{self._client.model!r}; expected the same. Delete this folder, or serve the old model."
            )
        if not file.is_file():
            texts = render()
            limit = self._truncates_after(max(texts, key=len, default=""))
            n = 0 if limit is None else sum(len(text) > limit for text in texts)
            folder.mkdir(parents=True, exist_ok=True)
            with whole_file(probe) as out:
                np.save(out, self._probe[0])
            write_text(file, json.dumps({"characters": limit, "n_texts": n, "n": len(texts)}))
        stored = json.loads(file.read_bytes())
        if stored["n_texts"]:
            message = (
                f"{self._client.base_url} reads about the first {stored['characters']:,} characters of a long text and "
                f"ignores the rest; {stored['n_texts']:,} of {stored['n']:,} texts are longer."
            )
            remedy = "Raise the server's limit if the model allows for it, or use multi:MODEL, which encodes chunks."
            self._warnings.append(ScoreWarning("truncated_texts", message, remedy))

    def _truncates_after(self, text: str) -> int | None:
        """Return after about how many characters a text is truncated; None if its last tenth changes the vector."""
        whole = self.encode([text])[0]

        def reads_beyond(end: int) -> bool:
            return _distance(self.encode([text[:end]])[0], whole) > SAME

        low, high = 0, len(text) * 9 // 10
        if not high or reads_beyond(high):
            return None
        while high - low > max(16, len(text) // 50):  # to about 2 % of the text
            middle = (low + high) // 2
            low, high = (middle, high) if reads_beyond(middle) else (low, middle)
        return high

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text, in order; the requests of batches are concurrent."""
        if not texts:
            return np.zeros((0, self._probe.shape[1]), np.float32)
        # OpenAI and TEI refuse an empty text; to a tokenizer, a space is the same
        messages = [{"role": "user", "content": text or " "} for text in texts]
        starts = range(0, len(messages), self._batch)
        parts = [Prompt(messages[start : start + self._batch]) for start in starts]
        replies: dict[int, str] = {}

        def keep(record: Record) -> None:
            if record["error"] is not None and record["id"] is not None:
                longest = max(len(message["content"]) for message in parts[record["id"]].messages)
                raise UsageError(
                    f"{self._client.base_url} gave no vectors: {record['error']}: {record['detail'] or 'no detail'} "
                    f"(the longest text of the request has {longest:,} characters; {record['attempts']} tries). "
                    "Expected a vector per text. If texts are too long, start the server so that it truncates "
                    "them (TEI: --auto-truncate; vLLM: --extra-body '{\"truncate_prompt_tokens\": -1}'). See its log."
                )
            if record["id"] is not None:
                replies[record["id"]] = record["response"]

        async def send() -> None:
            sender = RequestSender(self._client, keep, Budget(None), **self._limits)
            async with self._client:
                if not self._client.server:
                    await sender.recognize()
                jobs = (Job(str(place), place, 0, part, self._extra, None) for place, part in enumerate(parts))
                await sender.send_all(jobs)

        run(send())
        flat = b"".join(base64.b64decode(replies[place]) for place in range(len(parts)))
        vectors = np.frombuffer(bytearray(flat), np.float32).reshape(len(texts), -1)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if self._normalize else vectors


class _TextClient(Endpoint):
    """Requests on texts with the interface of a chat model, so that `RequestSender` sends and retries them."""

    def learn(self, refused: RequestRefused) -> None:
        """Return None: the form of a request is known, so that no refusal changes it."""

    async def _post(self, url: str, body: Mapping[str, Any], room: int) -> tuple[object, int | None]:
        """Send a request once, whose reply has up to `room` bytes; return the reply and its tokens.

        Raises:
            Failure: there is no reply.
        """
        reply = await self.post(url, body, attempts=1, max_bytes=MAX_BYTES + room)  # the sender retries
        if isinstance(reply, dict) and reply.get("error"):
            raise Failure("error_in_body", str(reply["error"])[:300], transient=True)
        usage = reply.get("usage") if isinstance(reply, dict) else None
        usage = usage if isinstance(usage, dict) else {}
        return reply, token_count(usage.get("prompt_tokens", usage.get("total_tokens")))


class EmbeddingClient(_TextClient):
    """Requests for embeddings."""

    _dimension: int | None = None

    async def complete(
        self, messages: Sequence[Message], max_tokens: int | None = None, *, schema: object = None, **extra: object
    ) -> Completion:
        """Send the contents of the messages once; the text of the completion is the vectors in base64.

        Raises:
            Failure: there is no reply.
            DataError: the reply does not have one usable vector per text.
        """
        started = time.perf_counter()
        texts = [str(message["content"]) for message in messages]
        body = {"model": self.model, "input": texts, **extra}
        reply, tokens = await self._post(f"{self.base_url}/embeddings", body, len(texts) * VECTOR_BYTES)
        vectors = read_embeddings(reply, len(texts), self._dimension, self.base_url)
        self._dimension = vectors.shape[1]
        text = base64.b64encode(vectors.tobytes()).decode("ascii")
        return Completion(text, "stop", tokens, None, time.perf_counter() - started)


def read_embeddings(reply: object, n: int, dimension: int | None, where: str) -> NDArray[np.float32]:
    """Return the vectors of a reply in the order of the texts, shape (n, dimension).

    Raises:
        DataError: it does not have one vector for each of the `n` texts, of this dimension if one is given, finite and
            not zero.

    >>> reply = {"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]}
    >>> read_embeddings(reply, 2, None, "http://localhost:8000/v1").tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    rows = _by_index(reply.get("data") if isinstance(reply, dict) else None, n, where, "vectors")
    try:
        vectors = np.array([row.get("embedding") for row in rows], np.float32)
    except (TypeError, ValueError):
        raise _unusable(where, "embeddings that are no lists of numbers of one length", "lists of numbers") from None
    if vectors.ndim != 2 or not vectors.shape[1] or dimension not in (None, vectors.shape[1]):
        raise _unusable(where, f"vectors of shape {vectors.shape}", f"({n}, {dimension or 'dimension'})")
    if not np.isfinite(vectors).all():
        raise _unusable(where, "a vector with NaN or infinity", "finite numbers")
    if not vectors.any(axis=1).all():
        raise _unusable(where, "a vector of zeros", "a vector with a direction")
    return vectors


class CrossEncoderClient(_TextClient):
    """Requests for the scores of documents.

    The first message of a prompt is the query, the others are documents. The text of the completion is a JSON list of
    scores in their order.
    """

    extra: Mapping[str, Any] = {}
    """More fields of each request."""
    text_limit = MOST_CHARACTERS
    """About how many characters of a document the server reads."""
    follows_query = True
    """Whether a sentence that answers a question scores above an unrelated one."""
    _form = ("", "")
    """The base URL of `/rerank`, and the field of the documents."""

    async def recognize(self) -> dict[str, str]:
        """Identify the server, the form of its requests, and how much it reads of a document.

        Raises:
            Failure: the server cannot be reached or refuses the key.
            UsageError: it has no `/rerank`.
            DataError: its scores do not follow the documents.
        """
        facts = await super().recognize()
        site, refused = self.base_url.rpartition("/v")[0], list[Failure]()
        forms = (self.base_url, "documents"), (site, "documents"), (site, "texts")  # TEI has the last one
        for self._form in forms:
            try:
                scores, _ = await self._score(QUESTION, SENTENCES)
                break
            except Failure as failure:
                kind = failure.refusal.kind if isinstance(failure, RequestRefused) and failure.refusal else None
                if failure.transient or kind in (RefusalKind.KEY, RefusalKind.QUOTA):
                    raise
                refused.append(failure)
        else:
            # what a server says of an address that it has is more precise
            words = min(refused, key=lambda failure: failure.reason in ("http_404", "http_405"))
            raise UsageError(
                f"{self.base_url} gave no scores of {self.model!r}: {words}. Expected /rerank as of Cohere, Jina or "
                "TEI. Is the model a cross-encoder, and the address right?"
            )
        turned = (await self._score(QUESTION, SENTENCES[::-1]))[0][::-1]
        moved = max(abs(one - other) for one, other in zip(scores, turned, strict=True))
        if moved > (max(scores) - min(scores)) / 2:
            actual = f"the scores {scores} for texts, and {turned} for the same texts in another order"
            raise _unusable(self.base_url, actual, "scores that follow the texts by their index")
        other, _ = await self._score(OTHER_QUESTION, SENTENCES[:2])
        self.follows_query = scores[0] > scores[1] and other[0] < other[1]
        await self._find_text_limit()
        return facts

    async def _find_text_limit(self) -> None:
        """Set `text_limit` from the scores of beginnings of a long text whose end answers the query."""
        filler = " ".join(f"On day {n} the keeper wrote: wind {n % 12}, rain." for n in range(MOST_CHARACTERS // 30))
        text = f"{filler[: MOST_CHARACTERS - 30]} {SENTENCES[0]}"
        ends = [int(len(text) * 0.8**step) for step in range(30)]  # TEI takes 32 texts; the last has 37 characters
        try:
            (whole, *parts), _ = await self._score(QUESTION, [text[:end] for end in ends])
        except Failure:  # it refuses long texts, or is slow
            return
        equal = [math.isclose(score, whole, rel_tol=1e-4) for score in parts]
        if not all(equal):  # scores that are all equal tell nothing
            self.text_limit = ends[equal.index(False)] if equal[0] else self.text_limit

    async def complete(
        self, messages: Sequence[Message], max_tokens: int | None = None, *, schema: object = None, **parameters: object
    ) -> Completion:
        """Score the contents of the messages after the first, once.

        Raises:
            Failure: there is no reply.
            DataError: the reply does not have one finite score for each document.
        """
        started = time.perf_counter()
        query, *documents = (str(message["content"]) for message in messages)
        scores, tokens = await self._score(query, documents)
        return Completion(json.dumps(scores), "stop", tokens, None, time.perf_counter() - started)

    async def _score(self, query: str, documents: Sequence[str]) -> tuple[list[float], int | None]:
        """Return the scores of documents in their order, and the tokens of the request if the server counts them."""
        base, field = self._form
        model = {"model": self.model} if field == "documents" else {}
        body = {**model, "query": query, field: list(documents), **self.extra}
        room = sum(12 * len(each) + ROW_BYTES for each in documents)  # some return the documents
        reply, tokens = await self._post(f"{base}/rerank", body, room)
        return read_scores(reply, len(documents), self.base_url), tokens


def read_scores(reply: object, n: int, where: str) -> list[float]:
    """Return the scores of a reply of `/rerank`, in the order of the documents.

    Raises:
        DataError: it does not have one finite score for each of the `n` documents.

    >>> of_cohere = {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]}
    >>> of_tei = [{"index": 1, "score": 0.9}, {"index": 0, "score": 0.2}]
    >>> [read_scores(each, 2, "http://localhost:8000/v1") for each in (of_cohere, of_tei)]
    [[0.2, 0.9], [0.2, 0.9]]
    """
    rows = _by_index(reply.get("results") if isinstance(reply, dict) else reply, n, where, "scores", unnumbered=False)
    scores = [row.get("relevance_score", row.get("score")) for row in rows]
    for score in scores:
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise _unusable(where, f"the score {str(score)[:40]}", "a finite number")
    return [float(score) for score in scores]


def _by_index(data: object, n: int, where: str, what: str, *, unnumbered: bool = True) -> list[Mapping[str, Any]]:
    """Return the rows of a reply in order of their `index`; if they may be `unnumbered`, rows without one by place.

    Raises:
        DataError: there is not one row for each of the `n` texts.
    """
    rows = data if isinstance(data, list) and all(isinstance(row, dict) for row in data) else []
    places = [row.get("index", place if unnumbered else None) for place, row in enumerate(rows)]
    if sorted(map(str, places)) != sorted(map(str, range(n))):
        raise _unusable(where, f"{len(rows)} {what} with the indices {str(places)[:80]}", f"one for each of {n} texts")
    by_place = dict(zip(map(str, places), rows, strict=True))
    return [by_place[str(place)] for place in range(n)]


def _unusable(where: str, actual: str, expected: str) -> DataError:
    """Return the error for a reply of another form."""
    return DataError(
        f"{where} returned {actual}; expected {expected}. What was received before is kept: see the server's log, and "
        "run the same command again."
    )


def _distance(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Return 1 - cosine; 2 where the dimensions differ."""
    if a.shape != b.shape:
        return 2.0
    x, y = a.astype(np.float64), b.astype(np.float64)
    return float(1 - x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))
