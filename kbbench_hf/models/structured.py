"""Whether an answer follows the JSON schema that was asked for: many servers take a schema and ignore it."""

import json
from collections.abc import Mapping
from typing import Any

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def violation(text: str, schema: Mapping[str, Any]) -> str | None:
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
        value = json.loads(text)
        return _violation(value, schema, "")
    except (ValueError, RecursionError):
        return "not JSON"


def _violation(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    place = where or "answer"
    kinds = schema.get("type", [])
    allowed = [kinds] if isinstance(kinds, str) else kinds
    if allowed and not any(_is(value, kind) for kind in allowed):
        return f"{place}: expected {' or '.join(allowed)}, found {type(value).__name__}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{place}: {value!r} is not one of {schema['enum']}"
    if isinstance(value, dict):
        return _object_violation(value, schema, where)
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return f"{place}: {len(value)} items"
        found = (_violation(item, schema.get("items", {}), f"{where}[{i}]") for i, item in enumerate(value))
        return next((problem for problem in found if problem), None)
    return None


def _object_violation(value: dict[str, Any], schema: Mapping[str, Any], where: str) -> str | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            return f"{where or 'answer'}: no {name!r}"
    for name, item in value.items():
        if name in properties:
            problem = _violation(item, properties[name], f"{where}.{name}" if where else name)
            if problem:
                return problem
        elif schema.get("additionalProperties", True) is False:
            return f"{where or 'answer'}: unexpected {name!r}"
    return None


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, object))
