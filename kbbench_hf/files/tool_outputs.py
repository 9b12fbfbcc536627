"""Output files of batch APIs, evaluation tools and extraction tools, recognized by their keys.

Sources: the batch guides of OpenAI (Azure, Mistral, vLLM run-batch and Fireworks write the same lines), Anthropic,
Gemini and Vertex AI, and Amazon Bedrock; HELM's scenario_state.json; promptfoo's and lighteval's results; LangChain's
GraphDocument.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kbbench_hf.files.rows import Line, Place, Reading, Unreadable, at, at_or_none

Row = Mapping[str, object]


class Output(NamedTuple):
    """The form of one tool's rows."""

    words: str
    keys: tuple[str, ...]
    """Paths that every row has; of those with a bar between them, one."""
    fields: Mapping[str, Place]
    one_of: str | None = None


def completion(reply: object) -> str | None:
    """Return the text of a model's reply as any of the APIs above writes it; None where there is none.

    >>> completion({"body": {"choices": [{"message": {"content": [{"type": "text", "text": "[]"}]}}]}})
    '[]'
    >>> completion({"candidates": [{"content": {"parts": [{"text": "Hm", "thought": True}, {"text": "Yes"}]}}]})
    'Yes'

    Raises:
        Unreadable: it has several completions.
    """
    if isinstance(reply, str):
        return reply
    if isinstance(reply, list):  # the parts of a message
        texts = [each.get("text") for each in reply if isinstance(each, dict) and not each.get("thought")]
        nested = [completion(each.get("content")) for each in reply if isinstance(each, dict) and "content" in each]
        found = [text for text in (*texts, *nested) if isinstance(text, str)]
        return "".join(found) if found else None
    if not isinstance(reply, dict):
        return None
    for key in ("choices", "candidates", "completions", "outputs", "generations"):
        samples = reply.get(key)
        if isinstance(samples, list) and samples:
            if len(samples) > 1:
                message = f"a reply with {len(samples)} {key}, and one of them must be chosen"
                raise Unreadable(message, f"Write one line for each id, or map one of them: response=PATH.{key}.0...")
            return completion(samples[0])
    inner = (
        reply[key] for key in ("body", "response", "message", "content", "parts", "output", "text") if key in reply
    )
    return next((text for each in inner if (text := completion(each)) is not None), None)


def _reply(path: str) -> Place:
    """Return what reads the text of the reply at a path of a row."""

    def text(row: Row) -> object:
        found = completion(at_or_none(row, path))
        if found is None:
            raise KeyError(path)
        return found

    return text


def _failure(path: str) -> Place:
    """Return what reads why a row has no reply at a path, or None where it has one."""

    def error(row: Row) -> object:
        reply = at_or_none(row, path)
        places = ((row, "error"), (reply, "error"), (reply, "body.error"), (row, "result.error"))
        if found := next((each for each in (at_or_none(*place) for place in places) if each), None):
            return found
        try:
            return None if completion(reply) is not None else at_or_none(row, "result.type") or "no text"
        except Unreadable:  # several completions: `_reply` says so
            return None

    return error


def _batch(words: str, keys: tuple[str, ...], example_id: str, path: str) -> Output:
    return Output(words, keys, {"id": example_id, "response": _reply(path), "error": _failure(path)})


def _promptfoo_error(row: Row) -> object:
    """Return why a row has no output; `error` alone may say that an assertion failed."""
    return None if at_or_none(row, "response.output") is not None else at_or_none(row, "error") or "no output"


def _promptfoo_output(row: Row) -> object:
    found = at(row, "response.output")
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _graph(row: Row) -> object:
    """Return a graph as the JSON text that the parsers of replies read: they resolve the ids of its nodes."""
    return json.dumps({key: row[key] for key in ("nodes", "relationships", "edges") if key in row}, ensure_ascii=False)


ROWS = (
    _batch("OpenAI batch output", ("custom_id", "response"), "custom_id", "response"),
    _batch("Anthropic batch results", ("custom_id", "result.type"), "custom_id", "result.message"),
    _batch("Gemini batch output", ("key", "response.candidates|error"), "key", "response"),
    _batch("Vertex AI batch output", ("request.contents", "response"), "key", "response"),
    _batch("Amazon Bedrock batch output", ("recordId", "modelInput"), "recordId", "modelOutput"),
    Output(
        "promptfoo results",
        ("vars", "response", "promptIdx"),
        {"id": "vars.id", "response": _promptfoo_output, "error": _promptfoo_error},
        "promptIdx",
    ),
    Output(
        "lighteval details", ("doc", "model_response"), {"id": "doc.specific.id", "response": "model_response.text.0"}
    ),
    Output("graph documents", ("id", "nodes", "relationships|edges"), {"id": "id", "response": _graph}),
    Output("graph documents (LangChain)", ("nodes", "relationships"), {"id": "source.metadata.id", "response": _graph}),
)
HELM = Output(
    "a HELM scenario state",
    ("request_states",),
    {"id": "instance.id", "response": _reply("result"), "error": _failure("result")},
    "train_trial_index",
)


def of_rows(first: object) -> Output | None:
    """Return the tool that wrote a row, by its keys; None where none of them did."""
    if not isinstance(first, dict) or isinstance(first.get("response"), str):
        return None
    return next((each for each in ROWS if all(_has(first, key) for key in each.keys)), None)


def _has(row: Row, key: str) -> bool:
    return any(path in row if "." not in path else at_or_none(row, path) is not None for path in key.split("|"))


def reading(tool: Output, lines: Iterator[Line]) -> Reading:
    """Return the rows of a tool's output; `--map` finds all of their fields."""
    return Reading(tool.words, lines, fields=tool.fields, one_of=tool.one_of)


def of_document(found: Mapping[str, object]) -> Reading | None:
    """Return the rows of a file that is one object of a tool; None where no tool is known that writes it."""
    if isinstance(states := found.get("request_states"), list):
        return reading(HELM, _numbered(states))
    for rows in (found.get("results"), at_or_none(found, "results.results")):
        if isinstance(rows, list) and rows and (tool := of_rows(rows[0])):
            return reading(tool, _numbered(rows))
    return None


def _numbered(rows: Iterable[object]) -> Iterator[Line]:
    return (Line(number, row) for number, row in enumerate(rows, start=1))
