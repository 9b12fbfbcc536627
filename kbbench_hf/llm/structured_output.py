"""Whether an answer follows the JSON schema that was asked for: many servers take a schema and ignore it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

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
    """Return what breaks the schema in a text, in words, or None where it follows.

    Checked: type, enum, required, properties, additionalProperties: false, items, minItems, maxItems. Other keywords
    are not looked at.

    >>> schema = {"type": "object", "required": ["score"], "properties": {"score": {"type": "number"}}}
    >>> violation('{"score": 0.5}', schema)
    >>> violation('{"score": "high"}', schema)
    'score: expected number, found str'
    >>> violation("0.5, I think", schema)
    'not JSON'
    """
    try:
        return next(_problems(json.loads(text), schema, ""), None)
    except (ValueError, RecursionError):
        return "not JSON"


def _problems(value: object, schema: Schema, where: str) -> Iterator[str]:
    """Yield what breaks the schema; only the first of them is meant to be asked for."""
    place = where or "answer"
    kinds = schema.get("type", [])
    allowed = [kinds] if isinstance(kinds, str) else kinds
    if allowed and not any(_is(value, kind) for kind in allowed):
        yield f"{place}: expected {' or '.join(allowed)}, found {type(value).__name__}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, dict):
        yield from (f"{place}: no {name!r}" for name in schema.get("required", []) if name not in value)
        properties = schema.get("properties", {})
        for name, item in value.items():
            if name in properties:
                yield from _problems(item, properties[name], f"{where}.{name}" if where else name)
            elif schema.get("additionalProperties", True) is False:
                yield f"{place}: unexpected {name!r}"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{place}: {len(value)} items"
        for i, item in enumerate(value):
            yield from _problems(item, schema.get("items", {}), f"{where}[{i}]")


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, object))
