"""Holding a local model to a JSON schema while it writes: tokens that would break it are never chosen."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbbench_hf.errors import UsageError, missing_extra

_BITS = 32
_SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""One way to space JSON: where any is allowed, a small model writes blanks until its limit."""


class SchemaDecoder:
    """Makes logits processors that hold each row of a batch to a schema of its own, by llguidance.

    Raises:
        UsageError: llguidance is not installed.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Sequence[int]) -> None:
        try:
            import llguidance.hf
        except ImportError:
            raise missing_extra("llguidance", "structured") from None
        try:
            self._tokens = llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=list(ends))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise UsageError(  # its panics are no exceptions
                f"The model's tokenizer cannot be held to a schema ({error}). Run it without --structured."
            ) from None
        self._vocabulary, self._ends = vocabulary, list(ends)

    def processor(self, schemas: Sequence[Mapping[str, object] | None]) -> "_Held":
        """Return the processor of one batch; a row whose schema is None writes freely.

        Raises:
            UsageError: a schema says something that the grammar cannot.
        """
        from llguidance import LLMatcher

        matchers: list[Any] = []
        for schema in schemas:
            if schema is None:
                matchers.append(None)
                continue
            grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=_SPACING)
            matcher = LLMatcher(self._tokens, grammar)
            if matcher.is_error():
                said = matcher.get_error().splitlines()[0]
                raise UsageError(f"This JSON schema cannot constrain a local model: {said}. Run without --structured.")
            matchers.append(matcher)
        return _Held(matchers, self._vocabulary, self._ends)


class _Held:
    """A logits processor as transformers calls it: (ids so far, scores of the next) -> scores."""

    def __init__(self, matchers: Sequence[Any], vocabulary: int, ends: Sequence[int]) -> None:
        self._matchers, self._vocabulary, self._ends = matchers, vocabulary, ends
        self._begun = False
        self._mask = np.zeros((1, -(-vocabulary // _BITS)), dtype=np.int32)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores with minus infinity for what would break the schema."""
        import torch
        from llguidance.numpy import fill_next_token_bitmask

        for row, matcher in enumerate(self._matchers):
            if matcher is None:
                continue
            if self._begun and not matcher.is_stopped():
                matcher.consume_token(int(input_ids[row, -1]))
            allowed = np.zeros(scores.shape[1], dtype=bool)
            if matcher.is_stopped():
                allowed[self._ends] = True
            else:
                fill_next_token_bitmask(matcher, self._mask, 0)
                bits = np.unpackbits(self._mask.view(np.uint8), bitorder="little")[: self._vocabulary]
                allowed[: len(bits)] = bits
            scores[row, torch.from_numpy(~allowed).to(scores.device)] = float("-inf")
        self._begun = True
        return scores
