"""The contract between a model and a knowledge base: four tools, what each takes, how it is read, what it answers.

An answer is a JSON object, its keys in a fixed order. Arguments that are wrong get an answer too, of which a model can
learn: an error's code, what is wrong, and what is near. What nodes hold is data: it stands in results alone, as JSON
strings on one line.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Id = int | str
LONGEST_QUERY = 400
LONGEST_SNIPPET = 300
LONGEST_NAME = 80
"""Of a name that is offered for a wrong one, and of what a message repeats."""
MOST_READ = 400
"""So much of a text is looked at to cut a snippet from."""
DIRECTIONS = ("out", "in", "both")


@dataclass(frozen=True)
class Tool:
    """One tool as a model is told of it: its name, what it does, and the JSON schema of its arguments."""

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
        """Return the tool as a chat request has it."""
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
ERRORS = ("unknown_tool", "bad_arguments", "unknown_node", "unknown_relation", "unknown_type", "too_many_calls")
"""The codes of the errors that a call can meet."""


class Outcome(NamedTuple):
    """What became of a call."""

    result: dict[str, Any]
    error: str | None = None
    """One of `ERRORS`."""
    shown: tuple[Id, ...] = ()
    """The ids of the nodes that the result names, in order."""
    repaired: int = 0
    """How many arguments were taken otherwise than they were given, or left aside."""

    @property
    def total(self) -> int | None:
        """How many nodes there were before the limit; None where the call lists none."""
        return self.result.get("total")

    @property
    def text(self) -> str:
        """The result on one line, as a model sees it; what hides or steers in an id stands as JSON's escape."""
        text = json.dumps(self.result, ensure_ascii=False)
        return text if text.isprintable() else _HIDDEN.sub(lambda hidden: json.dumps(hidden[0])[1:-1], text)


class WrongCallError(Exception):
    """A call that cannot be answered, with what the model is told of it."""

    def __init__(self, code: str, message: str, did_you_mean: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.code, self.message, self.did_you_mean = code, message, did_you_mean


def failed(code: str, message: str, did_you_mean: Sequence[Any] = (), repaired: int = 0) -> Outcome:
    """Return the outcome of a call that failed.

    >>> failed("too_many_calls", "At most 8 calls a step.").text
    '{"error": {"code": "too_many_calls", "message": "At most 8 calls a step."}}'
    """
    error: dict[str, Any] = {"code": code, "message": message}
    return Outcome(
        {"error": error | ({"did_you_mean": list(did_you_mean)} if did_you_mean else {})}, code, (), repaired
    )


@dataclass
class Arguments:
    """The arguments of one call, read one by one; `repaired` counts what was not as the schema has it."""

    given: dict[str, Any]
    repaired: int = 0
    notes: list[str] = field(default_factory=list)

    def text(self, name: str, *, longest: int | None = None) -> str | None:
        """Return an argument that is a text; None where it is absent or empty.

        Raises:
            WrongCallError: it is something else.
        """
        value = self.given.get(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.repaired += 1
            value = said(value)
        if not isinstance(value, str):
            raise WrongCallError("bad_arguments", f"{name} is {said(value)}; expected a text.")
        if not value.strip():
            self.repaired += 1
            return None
        if longest is not None and len(value) > longest:
            self.repaired += 1
            self.notes.append(f"{name} has {len(value):,} characters; the first {longest} count.")
            value = value[:longest]
        return value

    def limit(self, tool: Tool) -> int:
        """Return how many nodes to show, within the tool's bounds."""
        schema, value = tool.properties["limit"], self.given.get("limit")
        if value is None:
            return int(schema["default"])
        if (isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,9}\s*", value)) or (
            isinstance(value, float) and value.is_integer()
        ):
            self.repaired += 1
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise WrongCallError("bad_arguments", f"limit is {said(value)}; expected a whole number.")
        bounded = min(max(value, 1), int(schema["maximum"]))
        if bounded != value:
            self.repaired += 1
            self.notes.append(f"limit is {said(value)}; {bounded} is used, of 1 to {schema['maximum']}.")
        return bounded

    def ids(self, name: str) -> list[Any]:
        """Return an argument that is a list of ids; a single one, or a list inside a text, is one too."""
        value = self.given.get(name)
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
                self.repaired += 1
            except (ValueError, RecursionError):
                pass
        if isinstance(value, int | str) and not isinstance(value, bool):
            self.repaired += 1
            value = [value]
        if not isinstance(value, list):
            raise WrongCallError("bad_arguments", f"{name} is {said(value)}; expected a list of ids.")
        return value


_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]+"
)
"""Characters that steer or hide: controls, changes of direction, tags; joiners, which scripts need, stay."""
_TOKEN = re.compile(
    r"<(?=[|｜]|/?(?:s|unk|pad|bos|eos|think|(?:start|end)_of_\w+|tools?|tool_\w+|function_\w+|im_\w+|<?SYS>)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|TOOL_\w+|AVAILABLE_TOOLS|ARGS|CALL_ID)\])"
)
"""How tokens begin that part the turns of a conversation: many servers and tokenizers take them from any text."""


def clean(text: str, longest: int = LONGEST_SNIPPET) -> str:
    r"""Return a node's text on one line, without what hides or steers, and cut at a word.

    >>> clean("Salt\x1b[31m\nof the earth, of the sea", 20)
    'Salt [31m of the…'
    >>> clean("<|im_end|><b>[/INST]")
    '< |im_end|><b>[ /INST]'
    """
    words = " ".join(text[:MOST_READ].split())
    if not words.isprintable():
        words = " ".join(_HIDDEN.sub(" ", words).split())
    if "<" in words or "[" in words:
        words = _TOKEN.sub(r"\g<0> ", words)
    if len(words) <= longest and len(text) <= MOST_READ:
        return words
    head = words[: longest - 1]
    return f"{head[: head.rfind(' ')] if ' ' in head else head}…"


def said(value: object) -> str:
    """Return a value of a call as a message has it: JSON on one line, at most 80 characters.

    >>> said("x" * 100)[-3:], said([1, None]), said(10**5000)
    ('xx…', '[1, null]', 'a value of type int')
    """
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    text = _HIDDEN.sub(" ", text[:200])
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
