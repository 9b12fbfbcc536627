"""How one server wants to be asked: what its errors said of parameters, learnt once and kept for the whole run.

A request is written in OpenAI's words; where a server refuses one of them by name, the next request says it another way
or leaves it out. A run that lost its temperature is another run, so the dialect belongs to a run's identity.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbbench_hf.protocols import Message

Schema = Mapping[str, object]
SCHEMA_FORMS = ("json_schema", "json_object", "json_object in words", "value", "guided_json", "grammar")
"""The ways to ask for structured answers, in the order in which they are tried."""
LEFT_OUT = ("temperature", "top_p", "seed", "stop", "tool_choice")
"""What is left out where it is refused; a stop string then ends the answer here."""


@dataclass(frozen=True)
class Dialect:
    """What to say otherwise. `limit` is the name of the answer's limit, `schema` one of `SCHEMA_FORMS`."""

    limit: str = "max_tokens"
    schema: str = SCHEMA_FORMS[0]
    refused_schemas: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    system: bool = True
    """Whether the chat may have a system message; else it stands before the first question."""

    def learn(self, parameter: str, words: str, sent: Mapping[str, object]) -> "Dialect | None":
        """Return the dialect without what a server refused; None where there is no other way to say it.

        `words` are those of the error, in lower case, `sent` the refused request.
        """
        if parameter == "max_tokens" and "max_completion_tokens" in words and self.limit == "max_tokens":
            return replace(self, limit="max_completion_tokens")
        if parameter == "max_completion_tokens" and self.limit == parameter:
            return replace(self, limit="max_tokens") if "max_tokens" not in words.replace(parameter, "") else None
        if parameter in LEFT_OUT and parameter in sent and parameter not in self.left_out:
            return replace(self, left_out=tuple(sorted((*self.left_out, parameter))))
        if parameter == "response_format" and self.schema in _asked_for(sent):
            tried = (*self.refused_schemas, self.schema)
            rest = [form for form in SCHEMA_FORMS if form not in tried]
            named = [form for form in rest if _is_named(form, words)]
            return replace(self, schema=(named or rest)[0], refused_schemas=tried) if rest else None
        if parameter == "messages" and self.system and _has_system(sent) and ("system" in words or "role" in words):
            return replace(self, system=False)
        return None

    def changes(self) -> dict[str, object]:
        """Return what is not said in OpenAI's words, for a journal; empty where all is.

        >>> Dialect(limit="max_completion_tokens", left_out=("seed",)).changes()
        {'limit': 'max_completion_tokens', 'left_out': ['seed']}
        """
        usual = Dialect()
        every = {name: getattr(self, name) for name in ("limit", "schema", "refused_schemas", "left_out", "system")}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in every.items()
            if value != getattr(usual, name)
        }

    @classmethod
    def of(cls, changes: Mapping[str, Any]) -> "Dialect":
        """Return the dialect that `changes` tells of."""
        known: dict[str, Any] = {name: changes[name] for name in cls.__dataclass_fields__ if name in changes}
        kept: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in known.items()
        }
        return cls(**kept)

    def body(
        self, model: str, messages: Sequence[Message], parameters: Mapping[str, object], schema: Schema | None
    ) -> dict[str, object]:
        """Return the body of a chat request."""
        said = {name: value for name, value in parameters.items() if name not in self.left_out}
        if self.limit != "max_tokens" and "max_tokens" in said:
            said[self.limit] = said.pop("max_tokens")
        if not self.system:
            messages = without_system(messages)
        if schema is not None:
            said |= _schema_parameters(self.schema, schema)
            if self.schema.startswith("json_object"):
                messages = _told(messages, schema)
        return {"model": model, "messages": messages, **said}


def without_system(messages: Sequence[Message]) -> list[Message]:
    r"""Return a chat whose system messages stand at the head of the first question.

    >>> without_system([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}])
    [{'role': 'user', 'content': 'Be brief.\n\nWhy?'}]
    """
    system = [message["content"] for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    if not others:
        return [{"role": "user", "content": "\n\n".join(system)}]
    first = {**others[0], "content": "\n\n".join([*system, others[0]["content"]])}
    return [first, *others[1:]]


def _told(messages: Sequence[Message], schema: Schema) -> list[Message]:
    """Return a chat that says in words what is wanted: a server that takes no schema shows the model none."""
    told = f"{messages[-1]['content']}\n\nAnswer in JSON by this schema: {json.dumps(schema)}"
    return [*messages[:-1], {**messages[-1], "content": told}]


def _schema_parameters(form: str, schema: Schema) -> dict[str, object]:
    named = {"name": "answer", "schema": schema, "strict": True}
    forms: dict[str, dict[str, object]] = {
        "json_schema": {"response_format": {"type": "json_schema", "json_schema": named}},
        "json_object": {"response_format": {"type": "json_object", "schema": schema}},
        "json_object in words": {"response_format": {"type": "json_object"}},
        "value": {"response_format": {"type": "json_object", "value": schema}},
        "guided_json": {"guided_json": schema},
        "grammar": {"json_schema": schema},
    }
    return forms[form]


def _asked_for(sent: Mapping[str, object]) -> tuple[str, ...]:
    """Return the forms that a request may have had; none where it asked for no structure."""
    return SCHEMA_FORMS if {"response_format", "guided_json", "json_schema"} & sent.keys() else ()


def _is_named(form: str, words: str) -> bool:
    if form == "value":
        return "missing field" in words and "value" in words
    named = words.replace("must be 'json_schema'", "") if form != "json_schema" else words
    return form.partition(" ")[0] in named and ("must be" in words or "expected" in words or "should be" in words)


def _has_system(sent: Mapping[str, object]) -> bool:
    messages = sent.get("messages")
    return isinstance(messages, list | tuple) and any(message.get("role") == "system" for message in messages)
