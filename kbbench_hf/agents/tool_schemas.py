"""Agent tools: schemas of the four tools, argument parsing, outcomes, and cleaning of texts against prompt injection.

A result is a JSON object with keys in a fixed order. Wrong arguments have a result too: an error code, a message and
suggestions. The content of nodes is data: JSON strings on one line, in results only.

The agent loop and the MCP server offer these tools; `agents.tools` executes them. Names, descriptions and results are
what models see: they are part of published scores, and of runs that are resumed (see `FIRST_TOOLS`).
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

Id = int | str
LONGEST_QUERY = 400
LONGEST_SNIPPET = 300
"""Characters of a query, and of a snippet."""
LONGEST_NAME = 80
"""Of a suggested name, and of a value in a message."""
MOST_READ = 400
"""How many characters of a text a snippet is cut from."""
TEXT_PAGE = "text_page"
PAGE = 3_000
"""Characters of a page of a node's text."""
DIRECTIONS = ("out", "in", "both")


@dataclass(frozen=True)
class Tool:
    """One tool: its name, description, and the JSON schema of its arguments."""

    name: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        described = {name: dict(each) for name, each in self.properties.items()}
        return {"type": "object", "properties": described, "required": list(self.required)}

    def function(self) -> dict[str, Any]:
        """Return the tool in the format of a chat request."""
        about = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": about}


_ID = {"type": ["integer", "string"]}
_TYPE = {"type": "string", "description": "Only nodes of this type."}


def _limit(most: int, usual: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": usual, "description": "How many to show."}


SEARCH_NODES = Tool(
    "search_nodes",
    "Search all nodes of the knowledge base by words, best first. Nodes without a matching word are left out.",
    {
        "query": {"type": "string", "maxLength": LONGEST_QUERY, "description": "Words of the node's name or text."},
        "node_type": _TYPE,
        "limit": _limit(20, 10),
    },
    ("query",),
)
NEIGHBORS = Tool(
    "neighbors",
    "List the nodes that an edge joins to a node, each once, with the relations between them. "
    "With a query, those that match its words best come first.",
    {
        "node_id": {**_ID, "description": "The id of the node, as another result has it."},
        "relation": {"type": "string", "description": "Only edges of this relation."},
        "direction": {
            "type": "string",
            "enum": list(DIRECTIONS),
            "default": "both",
            "description": "out: edges that leave the node; in: edges that lead to it.",
        },
        "node_type": _TYPE,
        "query": {"type": "string", "maxLength": LONGEST_QUERY, "description": "Words to order the neighbours by."},
        "limit": _limit(50, 20),
        TEXT_PAGE: {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "Instead of neighbours, a page of the node's whole text: 1, then next_page.",
        },
    },
    ("node_id",),
)
SELECT = Tool(
    "select",
    "Add nodes to the answer, the most certain first. What is selected stays; selecting it again changes nothing.",
    {"node_ids": {"type": "array", "items": _ID, "description": "Ids of nodes that answer the question."}},
    ("node_ids",),
)
FINISH = Tool("finish", "Say that the answer is complete.", {})
TOOLS: tuple[Tool, ...] = (SEARCH_NODES, NEIGHBORS, SELECT, FINISH)
_FIRST = {name: schema for name, schema in NEIGHBORS.properties.items() if name != TEXT_PAGE}
FIRST_TOOLS = (SEARCH_NODES, replace(NEIGHBORS, properties=_FIRST), SELECT, FINISH)
"""The tools of runs that started before texts had pages; they keep them."""
ERRORS = ("unknown_tool", "bad_arguments", "unknown_node", "unknown_relation", "unknown_type", "too_many_calls")
"""The error codes of calls."""


class Outcome(NamedTuple):
    """The outcome of a call."""

    result: dict[str, Any]
    error: str | None = None
    """One of `ERRORS`."""
    shown: tuple[Id, ...] = ()
    """The ids of the nodes in the result, in order."""
    repaired: int = 0
    """How many arguments were corrected or ignored."""

    @property
    def total(self) -> int | None:
        """The number of nodes before the limit; None for a call without nodes."""
        return self.result.get("total")

    @property
    def text(self) -> str:
        """The result on one line, as the model gets it; control characters in ids are JSON escapes."""
        text = json.dumps(self.result, ensure_ascii=False)
        return text if text.isprintable() else _HIDDEN.sub(lambda hidden: json.dumps(hidden[0])[1:-1], text)


class WrongCallError(Exception):
    """An invalid call, with the message for the model."""

    def __init__(self, code: str, message: str, did_you_mean: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.code, self.message, self.did_you_mean = code, message, did_you_mean


def failed_call(code: str, message: str, did_you_mean: Sequence[Any] = (), repaired: int = 0) -> Outcome:
    """Return the outcome of a call that failed.

    >>> failed_call("too_many_calls", "At most 8 calls a step.").text
    '{"error": {"code": "too_many_calls", "message": "At most 8 calls a step."}}'
    """
    error: dict[str, Any] = {"code": code, "message": message}
    if did_you_mean:
        error["did_you_mean"] = list(did_you_mean)
    return Outcome({"error": error}, code, (), repaired)


@dataclass
class Arguments:
    """Parser of the arguments of one call; `repaired` counts those that violate the schema."""

    given: dict[str, Any]
    repaired: int = 0
    notes: list[str] = field(default_factory=list)

    def text(self, name: str, *, longest: int | None = None) -> str | None:
        """Return a text argument; None where it is absent or empty.

        Raises:
            WrongCallError: it has another type.
        """
        value = self.given.get(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.repaired += 1
            value = quote_value(value)
        if not isinstance(value, str):
            raise WrongCallError("bad_arguments", f"{name} is {quote_value(value)}; expected a text.")
        if not value.strip():
            self.repaired += 1
            return None
        if longest is not None and len(value) > longest:
            self.repaired += 1
            self.notes.append(f"{name} has {len(value):,} characters; the first {longest} count.")
            value = value[:longest]
        return value

    def number(self, tool: Tool, name: str = "limit") -> int:
        """Return a whole number, within the tool's bounds; its default where it is absent.

        Raises:
            WrongCallError: it is no whole number.
        """
        schema, value = tool.properties[name], self.given.get(name)
        if value is None:
            return int(schema["default"])
        if (isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,9}\s*", value)) or (
            isinstance(value, float) and value.is_integer()
        ):
            self.repaired += 1
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise WrongCallError("bad_arguments", f"{name} is {quote_value(value)}; expected a whole number.")
        bounded = min(max(value, int(schema["minimum"])), int(schema.get("maximum", 2**62)))
        if bounded != value:
            self.repaired += 1
            bounds = f"of {schema['minimum']} to {schema['maximum']}" if "maximum" in schema else "the least"
            self.notes.append(f"{name} is {quote_value(value)}; {bounded} is used, {bounds}.")
        return bounded

    def ids(self, name: str) -> list[Any]:
        """Return an argument of ids: a list, a single id, or a list as JSON text. Its items may be anything.

        Raises:
            WrongCallError: it is none of these.
        """
        value = self.given.get(name)
        if isinstance(value, str) and value.lstrip().startswith("["):
            with suppress(ValueError, RecursionError):
                value = json.loads(value)
                self.repaired += 1
        if isinstance(value, int | str) and not isinstance(value, bool):
            self.repaired += 1
            value = [value]
        if not isinstance(value, list):
            raise WrongCallError("bad_arguments", f"{name} is {quote_value(value)}; expected a list of ids.")
        return value


_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]+"
)
"""Control characters, changes of direction, tags; joiners, which scripts need, are not among them."""
_TOKEN = re.compile(
    r"<(?=[|｜]|/?(?:s|unk|pad|bos|eos|think|(?:start|end)_of_\w+|tools?|tool_\w+|function_\w+|im_\w+|<?SYS>)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|TOOL_\w+|AVAILABLE_TOOLS|ARGS|CALL_ID)\])"
)
"""Starts of special tokens of chat templates, which many servers and tokenizers accept in any text."""


def clean(text: str, longest: int = LONGEST_SNIPPET) -> str:
    r"""Return a node's text on one line, without control characters and special tokens, cut at a word.

    >>> clean("Salt\x1b[31m\nof the earth, of the sea", 20)
    'Salt [31m of the…'
    >>> clean("<|im_end|><b>[/INST]")
    '< |im_end|><b>[ /INST]'
    """
    words = on_one_line(text[:MOST_READ])
    if len(words) <= longest and len(text) <= MOST_READ:
        return words
    head = words[: longest - 1]
    return f"{head[: head.rfind(' ')] if ' ' in head else head}…"


def on_one_line(text: str) -> str:
    """Return a text on one line, without control characters, and with special tokens that are none any more."""
    words = " ".join(text.split())
    if not words.isprintable():
        words = " ".join(_HIDDEN.sub(" ", words).split())
    return _TOKEN.sub(r"\g<0> ", words) if "<" in words or "[" in words else words


def quote_value(value: object) -> str:
    """Return a value of a call for a message: JSON on one line, at most 80 characters.

    >>> quote_value("x" * 100)[-3:], quote_value([1, None]), quote_value(10**5000)
    ('xx…', '[1, null]', 'a value of type int')
    """
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    text = _HIDDEN.sub(" ", text[:200])
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
