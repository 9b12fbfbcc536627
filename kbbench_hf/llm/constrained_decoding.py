"""JSON schemas of replies: constrained decoding of local models (llguidance), and checks of replies of servers.

`CausalLM` decodes with `SchemaDecoder`; runs and `kbbench doctor` count replies with a `violation`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kbbench_hf.errors import UsageError, missing_extra

_BITS = 32
"""Tokens in one number of llguidance's bit mask."""
_SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""Fixed whitespace: with flexible whitespace, small models write blanks until the output limit."""


class SchemaDecoder:
    """Builder of logits processors that constrain each row of a batch to its own schema.

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
            raise UsageError(  # a panic of llguidance is a BaseException
                f"The model's tokenizer cannot be held to a schema ({error}). Run it without --structured."
            ) from None
        self._vocabulary, self._ends = vocabulary, list(ends)

    def processor(self, schemas: Sequence[Mapping[str, object] | None]) -> "SchemaProcessor":
        """Return the processor of one batch; a row whose schema is None is not constrained.

        Raises:
            UsageError: the grammar does not support a schema.
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
                reason = matcher.get_error().splitlines()[0]
                raise UsageError(
                    f"This JSON schema cannot constrain a local model: {reason}. Run without --structured."
                )
            matchers.append(matcher)
        return SchemaProcessor(matchers, self._vocabulary, self._ends)


class SchemaProcessor:
    """Logits processor of transformers: (token ids, scores of the next token) -> scores."""

    def __init__(self, matchers: Sequence[Any], vocabulary: int, ends: Sequence[int]) -> None:
        self._matchers, self._vocabulary, self._ends = matchers, vocabulary, ends
        self._begun = False
        self._mask = np.zeros((1, -(-vocabulary // _BITS)), dtype=np.int32)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores with minus infinity for tokens that would violate the schema."""
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


Schema = Mapping[str, Any]
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def violation(text: str, schema: Schema) -> str | None:
    """Return the first violation of a schema in a text, as a message; None where the text follows the schema.

    Checked: type, enum, required, properties, additionalProperties: false, items, minItems, maxItems. Other keywords
    are ignored.

    >>> schema = {"type": "object", "required": ["score"], "properties": {"score": {"type": "number"}}}
    >>> violation('{"score": 0.5}', schema)
    >>> violation('{"score": "high"}', schema)
    'score: expected number, found str'
    >>> violation("0.5, I think", schema)
    'not JSON'
    """
    try:
        return next(_violations(json.loads(text), schema, ""), None)
    except (ValueError, RecursionError):
        return "not JSON"


def _violations(value: object, schema: Schema, path: str) -> Iterator[str]:
    name = path or "answer"
    types = schema.get("type", [])
    allowed = [types] if isinstance(types, str) else types
    if allowed and not any(_has_type(value, each) for each in allowed):
        yield f"{name}: expected {' or '.join(allowed)}, found {type(value).__name__}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{name}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, dict):
        yield from (f"{name}: no {key!r}" for key in schema.get("required", []) if key not in value)
        properties = schema.get("properties", {})
        for key, item in value.items():
            if key in properties:
                yield from _violations(item, properties[key], f"{path}.{key}" if path else key)
            elif schema.get("additionalProperties", True) is False:
                yield f"{name}: unexpected {key!r}"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{name}: {len(value)} items"
        for i, item in enumerate(value):
            yield from _violations(item, schema.get("items", {}), f"{path}[{i}]")


def _has_type(value: object, name: str) -> bool:
    return name == "boolean" if isinstance(value, bool) else isinstance(value, _TYPES.get(name, object))
