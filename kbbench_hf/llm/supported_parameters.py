"""Dialect of one chat server: which request parameters it supports, learned from its errors and kept for the whole run.

Requests use OpenAI's parameters. Where a server refuses one by name, the next request uses another form or leaves it
out. A run without its temperature is another run, so the dialect is part of a run's identity: `changes` is written to
journals and read back by `of`, and its keys stay. `llm.endpoint` writes every request in a dialect.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kbbench_hf.protocols import Completion, Message

Schema = Mapping[str, object]
SCHEMA_FORMS = ("json_schema", "json_object", "json_object in words", "value", "guided_json", "grammar")
"""The forms of a request for structured output, in the order in which they are tried."""
LEFT_OUT = ("temperature", "top_p", "seed", "stop", "tool_choice")
"""Parameters that are left out where they are refused; the client then cuts at a stop string itself."""


@dataclass(frozen=True)
class Dialect:
    """The form of requests. `limit` is the name of the output limit, `schema` one of `SCHEMA_FORMS`."""

    limit: str = "max_tokens"
    schema: str = SCHEMA_FORMS[0]
    refused_schemas: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    system: bool = True
    """Whether the chat may have a system message; else its text is put before the first user message."""

    def learn(self, parameter: str, words: str, sent: Mapping[str, object]) -> "Dialect | None":
        """Return the dialect without a refused parameter; None where there is no other form.

        `words` is the text of the error, in lower case, `sent` the refused request.
        """
        if parameter == "max_tokens" and "max_completion_tokens" in words and self.limit == "max_tokens":
            return replace(self, limit="max_completion_tokens")
        if parameter == "max_completion_tokens" and self.limit == parameter:
            return replace(self, limit="max_tokens") if "max_tokens" not in words.replace(parameter, "") else None
        if parameter in LEFT_OUT and parameter in sent and parameter not in self.left_out:
            return replace(self, left_out=tuple(sorted((*self.left_out, parameter))))
        if parameter == "response_format" and {"response_format", "guided_json", "json_schema"} & sent.keys():
            tried = (*self.refused_schemas, self.schema)
            rest = [form for form in SCHEMA_FORMS if form not in tried]
            named = [form for form in rest if _is_named(form, words)]
            return replace(self, schema=(named or rest)[0], refused_schemas=tried) if rest else None
        if parameter == "messages" and self.system and _has_system(sent) and ("system" in words or "role" in words):
            return replace(self, system=False)
        return None

    def changes(self) -> dict[str, object]:
        """Return the differences from OpenAI's form, for a journal; empty where there are none.

        >>> Dialect(limit="max_completion_tokens", left_out=("seed",)).changes()
        {'limit': 'max_completion_tokens', 'left_out': ['seed']}
        """
        values = {name: value for name, value in asdict(self).items() if value != getattr(Dialect(), name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def of(cls, changes: Mapping[str, Any]) -> "Dialect":
        """Return the dialect with these changes, as `changes` wrote them; unknown ones are ignored."""
        known: dict[str, Any] = {name: changes[name] for name in cls.__dataclass_fields__ if name in changes}
        known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        return cls(**known)

    def body(
        self, model: str, messages: Sequence[Message], parameters: Mapping[str, object], schema: Schema | None
    ) -> dict[str, object]:
        """Return the body of a chat request."""
        supported = {name: value for name, value in parameters.items() if name not in self.left_out}
        if self.limit != "max_tokens" and "max_tokens" in supported:
            supported[self.limit] = supported.pop("max_tokens")
        if not self.system:
            messages = without_system(messages)
        if schema is not None:
            supported |= _schema_parameters(self.schema, schema)
            if self.schema.startswith("json_object"):  # such a server does not show the schema to the model
                last = f"{messages[-1]['content']}\n\nAnswer in JSON by this schema: {json.dumps(schema)}"
                messages = [*messages[:-1], {**messages[-1], "content": last}]
        return {"model": model, "messages": messages, **supported}


def without_system(messages: Sequence[Message]) -> list[Message]:
    r"""Return a chat with the text of its system messages at the start of the first user message.

    >>> without_system([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}])
    [{'role': 'user', 'content': 'Be brief.\n\nWhy?'}]
    """
    system = [message["content"] for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    first = others[0] if others else {"role": "user"}
    texts = [*system, first["content"]] if others else system
    return [{**first, "content": "\n\n".join(texts)}, *others[1:]]


def cut_at_stop(completion: Completion, stops: Sequence[str]) -> Completion:
    """Return a completion up to its first stop string, for servers and models that do not stop there themselves."""
    ends = [place for stop in stops if (place := completion.text.find(stop)) >= 0]
    return completion._replace(text=completion.text[: min(ends)], finish_reason="stop") if ends else completion


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


def _is_named(form: str, words: str) -> bool:
    """Return whether an error recommends a form of structured output."""
    if form == "value":
        return "missing field" in words and "value" in words
    named = words.replace("must be 'json_schema'", "") if form != "json_schema" else words
    return form.partition(" ")[0] in named and ("must be" in words or "expected" in words or "should be" in words)


def _has_system(sent: Mapping[str, object]) -> bool:
    messages = sent.get("messages")
    return isinstance(messages, list | tuple) and any(message.get("role") == "system" for message in messages)
