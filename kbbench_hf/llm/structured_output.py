"""Checker of JSON schemas: the first violation in a completion. Many servers accept a schema and ignore it."""

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
