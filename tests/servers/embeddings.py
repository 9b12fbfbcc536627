"""A scripted server of `/v1/embeddings`: any embedder behind it, and replies that break the protocol on request."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.servers.scripted import ScriptedServer

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
