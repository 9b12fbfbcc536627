"""Importers of output files of batch APIs, evaluation tools and extraction tools, detected by their keys.

Sources: the batch guides of OpenAI (Azure, Mistral, vLLM run-batch and Fireworks write the same lines), Anthropic,
Gemini and Vertex AI, and Amazon Bedrock; HELM's scenario_state.json; promptfoo's and lighteval's results; LangChain's
GraphDocument; LlamaIndex's nodes; the XML that WebNLG/WebNLG-Text-to-triples evaluates.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from xml.etree import ElementTree

from kbbench_hf.files.packing import OpenedFile
from kbbench_hf.files.rows import (
    FieldPath,
    ParsedFile,
    ParsedRow,
    ReadSettings,
    Unreadable,
    numbered,
    value_at,
    value_or_none,
)

Row = Mapping[str, object]


class ToolOutput(NamedTuple):
    """The format of one tool's rows."""

    format: str
    keys: tuple[str, ...]
    """Paths that every row has; of alternatives (separated by a bar), one."""
    fields: Mapping[str, FieldPath]
    one_of: str | None = None


def completion_text(reply: object) -> str | None:
    """Return the text of a completion in the format of any of these APIs; None where there is none.

    >>> completion_text({"body": {"choices": [{"message": {"content": [{"type": "text", "text": "[]"}]}}]}})
    '[]'
    >>> completion_text({"candidates": [{"content": {"parts": [{"text": "Hm", "thought": True}, {"text": "Yes"}]}}]})
    'Yes'

    Raises:
        Unreadable: it has several completions.
    """
    if isinstance(reply, str):
        return reply
    if isinstance(reply, list):  # the parts of a message
        texts = [each.get("text") for each in reply if isinstance(each, dict) and not each.get("thought")]
        nested = [
            completion_text(each.get("content")) for each in reply if isinstance(each, dict) and "content" in each
        ]
        all_texts = [text for text in (*texts, *nested) if isinstance(text, str)]
        return "".join(all_texts) if all_texts else None
    if not isinstance(reply, dict):
        return None
    for key in ("choices", "candidates", "completions", "outputs", "generations"):
        samples = reply.get(key)
        if isinstance(samples, list) and samples:
            if len(samples) > 1:
                message = f"a reply with {len(samples)} {key}, and one of them must be chosen"
                raise Unreadable(message, f"Write one line for each id, or map one of them: response=PATH.{key}.0...")
            return completion_text(samples[0])
    inner = (
        reply[key] for key in ("body", "response", "message", "content", "parts", "output", "text") if key in reply
    )
    return next((text for each in inner if (text := completion_text(each)) is not None), None)


def _response_field(path: str) -> FieldPath:
    """Return the function row -> text of the completion at a path."""

    def text(row: Row) -> object:
        completion = completion_text(value_or_none(row, path))
        if completion is None:
            raise KeyError(path)
        return completion

    return text


def _error_field(path: str) -> FieldPath:
    """Return the function row -> error that explains a missing completion; None where there is a completion."""

    def error(row: Row) -> object:
        reply = value_or_none(row, path)
        places = ((row, "error"), (reply, "error"), (reply, "body.error"), (row, "result.error"))
        if message := next((each for each in (value_or_none(*place) for place in places) if each), None):
            return message
        try:
            return None if completion_text(reply) is not None else value_or_none(row, "result.type") or "no text"
        except Unreadable:  # several completions: the response field raises it
            return None

    return error


def _batch(words: str, keys: tuple[str, ...], example_id: str, path: str) -> ToolOutput:
    return ToolOutput(words, keys, {"id": example_id, "response": _response_field(path), "error": _error_field(path)})


def _promptfoo_error(row: Row) -> object:
    """Return why a row has no output; an `error` beside an output is a failed assertion."""
    return None if value_or_none(row, "response.output") is not None else value_or_none(row, "error") or "no output"


def _promptfoo_output(row: Row) -> object:
    output = value_at(row, "response.output")
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def _graph_json(row: Row) -> object:
    """Return a graph as JSON for the parsers of completions, which resolve the ids of its nodes."""
    return json.dumps({key: row[key] for key in ("nodes", "relationships", "edges") if key in row}, ensure_ascii=False)


def _llama_index_json(row: Row) -> object:
    """Return the graph that LlamaIndex's extractors leave in a node's metadata, as JSON."""
    return json.dumps({"nodes": value_or_none(row, "metadata.nodes"), "relations": value_at(row, "metadata.relations")})


ROWS = (
    _batch("OpenAI batch output", ("custom_id", "response"), "custom_id", "response"),
    _batch("Anthropic batch results", ("custom_id", "result.type"), "custom_id", "result.message"),
    _batch("Gemini batch output", ("key", "response.candidates|error"), "key", "response"),
    _batch("Vertex AI batch output", ("request.contents", "response"), "key", "response"),
    _batch("Amazon Bedrock batch output", ("recordId", "modelInput"), "recordId", "modelOutput"),
    ToolOutput(
        "promptfoo results",
        ("vars", "response", "promptIdx"),
        {"id": "vars.id", "response": _promptfoo_output, "error": _promptfoo_error},
        "promptIdx",
    ),
    ToolOutput(
        "lighteval details", ("doc", "model_response"), {"id": "doc.specific.id", "response": "model_response.text.0"}
    ),
    ToolOutput("graph documents", ("id", "nodes", "relationships|edges"), {"id": "id", "response": _graph_json}),
    ToolOutput("LlamaIndex nodes", ("id_", "metadata.relations"), {"id": "metadata.id", "response": _llama_index_json}),
    ToolOutput(
        "graph documents (LangChain)", ("nodes", "relationships"), {"id": "source.metadata.id", "response": _graph_json}
    ),
)
HELM = ToolOutput(
    "a HELM scenario state",
    ("request_states",),
    {"id": "instance.id", "response": _response_field("result"), "error": _error_field("result")},
    "train_trial_index",
)


def detect_tool(first: object) -> ToolOutput | None:
    """Return the tool that wrote a row, by its keys; None for none of them."""
    if not isinstance(first, dict) or isinstance(first.get("response"), str):
        return None
    return next((each for each in ROWS if all(_has(first, key) for key in each.keys)), None)


def _has(row: Row, key: str) -> bool:
    return any(path in row if "." not in path else value_or_none(row, path) is not None for path in key.split("|"))


def parse_tool_output(tool: ToolOutput, lines: Iterator[ParsedRow]) -> ParsedFile:
    """Return the rows of a tool's output; `--map` can use all of their fields."""
    return ParsedFile(tool.format, lines, fields=tool.fields, one_of=tool.one_of)


def parse_tool_document(document: Mapping[str, object]) -> ParsedFile | None:
    """Return the rows of a file that is one object; None where it has the format of no tool."""
    if isinstance(states := document.get("request_states"), list):
        return parse_tool_output(HELM, numbered(states))
    for rows in (document.get("results"), value_or_none(document, "results.results")):
        if isinstance(rows, list) and rows and (tool := detect_tool(rows[0])):
            return parse_tool_output(tool, numbered(rows))
    return None


_START = re.compile(rb"\s*(<\?xml[^>]*>)?\s*(<!--.*?-->\s*)?<(benchmark|entries|entry)\b", re.DOTALL)
_SET = "generatedtripleset"
_GOLD_SETS = ("modifiedtripleset", "originaltripleset")


def is_webnlg(head: bytes) -> bool:
    """Return whether a text starts like WebNLG XML."""
    return _START.match(head) is not None


def parse_webnlg(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Return the triples of each entry under its `eid`.

    Raises:
        Unreadable: it is not XML, defines entities, or is the gold of the dataset.
    """
    text = opened.read()
    if b"<!ENTITY" in text:
        raise Unreadable("XML that defines entities, which are not expanded here", "Write it without them.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 (a user's own file, without entities)
    except ElementTree.ParseError as error:
        raise Unreadable(f"not XML: {error}", "Write it again.", error.position[0]) from None
    entries = [root] if root.tag == "entry" else root.findall(".//entry")
    if entries and all(entry.find(_SET) is None for entry in entries):
        gold_set = next((name for name in _GOLD_SETS if entries[0].find(name) is not None), "no set of triples")
        raise Unreadable(
            f"WebNLG's XML with {gold_set} and no generatedtripleset: the gold, no predictions",
            "Send a system's output: <generatedtripleset><gtriple>subject | relation | object</gtriple>.",
        )
    return ParsedFile(
        "WebNLG's XML", _rows(entries), fields={"id": "id", "triples": "triples"}, empty="it has no entry"
    )


def _rows(entries: list[ElementTree.Element]) -> Iterator[ParsedRow]:
    for number, entry in enumerate(entries, start=1):
        names = {**entry.attrib, "id": entry.get("eid") or entry.get("id")}
        texts = [each.text or "" for each in entry.findall(f"{_SET}/gtriple")]
        triples = [[part.strip() for part in text.split("|")] for text in texts if text.strip()]
        if wrong := next((text for text, triple in zip(texts, triples, strict=False) if len(triple) != 3), None):
            raise Unreadable(
                f"entry {number}: {wrong!r} is not 'subject | relation | object'", "Write two bars in each.", None
            )
        yield ParsedRow(number, {**names, "triples": triples})
