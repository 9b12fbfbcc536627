"""Scripted servers of `/v1/embeddings` and of `/rerank`: any model behind them, and replies that break the protocol."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.servers.scripted import Reply, ScriptedServer

Rows = list[dict[str, Any]]


@dataclass
class EmbeddingServer(ScriptedServer):
    """`spoil` changes the rows of each reply; a text is read up to `most_characters`."""

    encode: Callable[[Sequence[str]], NDArray[np.float32]] | None = None
    spoil: Callable[[Rows], Rows] = lambda rows: rows
    most_characters: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.answer = self.embed

    def key_of(self, payload: dict[str, Any]) -> str:
        return json.dumps(payload["input"])

    def embed(self, payload: dict[str, Any]) -> dict[str, Any]:
        assert self.encode is not None
        vectors = self.encode([text[: self.most_characters] for text in payload["input"]])
        rows = [{"index": place, "embedding": vector.tolist()} for place, vector in enumerate(vectors)]
        return {"data": self.spoil(rows), "model": payload["model"], "usage": {"prompt_tokens": 1}}


@dataclass
class RerankServer(ScriptedServer):
    """It has one address, and a form of requests: `documents`, or the `texts` of TEI. It sends the best first."""

    score: Callable[[str, str], float] = lambda query, text: 0.0
    address: str = "/v1/rerank"
    form: str = "documents"
    spoil: Callable[[Rows], Rows] = lambda rows: rows
    most_characters: int | None = None
    refuses: str | None = None
    """A request with this document is refused, as if it was too long."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.answer, self.reply = self.rank, self.refuse

    def key_of(self, payload: dict[str, Any]) -> str:
        return json.dumps(payload)

    def refuse(self, payload: dict[str, Any]) -> Reply | None:
        if self.requests[-1][1][":path"] != self.address:
            return Reply(404, b'{"detail": "Not Found"}')
        if self.form not in payload:
            return Reply(422, b'{"error": "missing field `%s`"}' % self.form.encode())
        too_long = self.refuses in payload[self.form]
        return Reply(413, b'{"error": "must have less than 512 tokens"}') if too_long else None

    def rank(self, payload: dict[str, Any]) -> Any:
        if self.form not in payload:
            return {}
        query, texts = payload["query"], payload[self.form]
        scored = [(self.score(query, text[: self.most_characters]), place) for place, text in enumerate(texts)]
        rows = [{"index": place, "score": score} for score, place in sorted(scored, key=lambda each: -each[0])]
        if self.form == "texts":
            return self.spoil(rows)
        for row in rows:
            row["relevance_score"] = row.pop("score")
        return {"results": self.spoil(rows), "usage": {"total_tokens": len(texts)}}
