"""Calls of tools as models make them: in the field of a reply for them, or written into its text in some dialect.

Servers with the right parser put calls into `tool_calls`; without one, and from local models, they come as the text
that the model's template taught it. What stands in thought is no call. Everything is read without an error: a call
that nobody could carry out is a call with a `problem`, which the agent of `agents` shows to the model.
"""

import ast
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from kbbench_hf.parsing.conversation_turns import extract_own_turn
from kbbench_hf.parsing.wrappers import strip_reasoning

LONGEST_NAME = 64
"""Characters of a tool's name that are kept: the most that OpenAI's interface allows."""


class ToolCall(NamedTuple):
    """One call: the tool's name, its arguments, and why these cannot be read where they cannot."""

    name: str
    arguments: dict[str, Any]
    problem: str = ""


class AssistantTurn(NamedTuple):
    """One reply: its calls in order, the text beside them, and whether they came in the field for calls."""

    calls: tuple[ToolCall, ...]
    response: str
    in_field: bool = False


def parse_tool_calls(text: str, tool_calls: object, names: Collection[str], *, in_text: bool = True) -> AssistantTurn:
    r"""Return what a reply calls. `tool_calls` is that field of the reply as it came, `names` are those of the tools.

    Where the field holds calls, these are all there are; else, with `in_text`, those in the text are read.

    >>> field = [{"id": "x", "function": {"name": "select", "arguments": "{\"node_ids\": [7]}"}}]
    >>> parse_tool_calls("", field, ["select"]).calls
    (ToolCall(name='select', arguments={'node_ids': [7]}, problem=''),)
    >>> parse_tool_calls('<tool_call>{"name": "finish"}</tool_call>', None, ["finish"]).calls[0].name
    'finish'
    >>> parse_tool_calls("I would finish here.", [], ["finish"]).calls
    ()
    """
    response = strip_reasoning(text).response.strip()
    if listed := tool_calls if isinstance(tool_calls, list) else [tool_calls] if tool_calls else []:
        return AssistantTurn(tuple(_parse_entry(each) for each in listed), response, in_field=True)
    if not in_text:
        return AssistantTurn((), response)
    calls = (*_calls_in_text(text, response, names),)
    return AssistantTurn(calls, "" if calls else response)


def _parse_entry(entry: object) -> ToolCall:
    """Read one entry of `tool_calls`, or the older `function_call`."""
    function = entry.get("function", entry) if isinstance(entry, dict) else None
    if not isinstance(function, dict):
        return ToolCall("", {}, "The call is no JSON object with a function.")
    name = function.get("name")
    return _make_call(name if isinstance(name, str) else "", next(_values_under(function, _ARGUMENTS), None))


_NAMES = ("tool", "name", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_FENCE = re.compile(r"\s*```(?:json)?\s*\n?(.*?)\n?\s*```\s*", re.DOTALL)


def _parse_finite(text: str) -> float:
    """Return a number that JSON can hold; raise ValueError for NaN and infinities, which cannot be sent back."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a number of JSON's")
    return number


_DECODER = json.JSONDecoder(strict=False, parse_float=_parse_finite, parse_constant=_parse_finite)


def _values_under(record: Mapping[str, Any], names: Collection[str]) -> Iterator[Any]:
    """Yield the values of the members that have one of the names, in the order of the names."""
    return (record[name] for name in names if name in record)


def _make_call(name: str, arguments: object) -> ToolCall:
    """Return a call; its arguments are an object, or the JSON of one, perhaps in a fence, or absent."""
    name = re.sub(r"^functions[.:]|:\d+$", "", name.strip())[:LONGEST_NAME]
    read = arguments
    for _ in range(2):  # some servers encode twice
        if not isinstance(read, str):
            break
        fenced = _FENCE.fullmatch(read)
        read = fenced[1] if fenced else read
        if not read.strip():
            read = None
            break
        try:
            read = _DECODER.decode(read)
        except (ValueError, RecursionError) as error:
            why = "deeply nested" if isinstance(error, RecursionError) else str(error)
            return ToolCall(name, {}, f"The arguments are no JSON ({why}); expected one JSON object.")
    if read is None:
        return ToolCall(name, {})
    if not isinstance(read, dict):
        return ToolCall(name, {}, f"The arguments are a JSON {type(read).__name__}; expected one JSON object.")
    return ToolCall(name, read)


_NAME = r"(?:functions\.)?([\w.-]{1,64})"
_BEFORE_JSON = re.compile(
    "|".join(
        (
            rf"\bto={_NAME}[^{{]{{0,80}}?<\|message\|>\s*",  # gpt-oss
            rf"<｜tool▁sep｜>{_NAME}\s*```(?:json)?\s*",  # DeepSeek V3, R1
            rf"<｜tool▁call▁begin｜>{_NAME}<｜tool▁sep｜>\s*(?=\{{)",  # DeepSeek V3.1
            rf"<\|tool_call_begin\|>\s*{_NAME}(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*",  # Kimi K2
            rf"\[TOOL_CALLS\]\s*{_NAME}(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{{)",  # Mistral
            rf"<function={_NAME}>\s*(?=\{{)",  # Llama 3
        )
    )
)
"""A tool's name, right before the JSON object of its arguments."""
_TAGGED = re.compile(
    rf"<function={_NAME}>(.*?)(?:</function>|$)"  # Qwen3-Coder
    rf"|<invoke name=\"{_NAME}\">(.*?)(?:</invoke>|$)"  # MiniMax and others
    rf"|<tool_call>\s*{_NAME}\s*((?:<arg_key>.*?)?)(?:</tool_call>|$)",  # GLM
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>"
    r"|<parameter name=\"([\w.-]+)\"[^<>]*>(.*?)</parameter>"
    r"|<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>",
    re.DOTALL,
)
_MARKER = re.compile(
    r"</?tool_calls?>|<\|/?tool_call(?:_start|_end)?\|?>|\[/?TOOL_CALLS\]|<\|python_tag\|>|<\|eom_id\|>"
    r"|</?function_calls?>|<\|(?:start|end)_action\|>|functools(?=\[)|```(?:json|tool_call|tool_code|python)?"
)
"""Markers around calls that are JSON or Python."""
_OPENED = re.compile(r"<tool_call>|<\|tool_call\|?>|\[TOOL_CALLS\]|<\|python_tag\|>|<function_call>")
_LONGEST_PYTHON = 4000


def _calls_in_text(text: str, response: str, names: Collection[str]) -> list[ToolCall]:
    """Return the calls that a model wrote; in prose without markers only those of known tools."""
    source = extract_own_turn(text) if "<|message|>" in text else response
    named = ((_matched_groups(match)[0], match.end()) for match in _BEFORE_JSON.finditer(source))
    calls = [_make_call(name, _decode_at(source, end)) for name, end in named]
    tagged = () if calls else map(_matched_groups, _TAGGED.finditer(source))
    calls += [_make_call(name, _parameters("".join(body))) for name, *body in tagged]
    if calls:
        return calls
    marked = _OPENED.search(response) is not None
    bare = _MARKER.sub("\n", response).strip()
    for record in _find_records(bare):
        name = next(_values_under(record, _NAMES), None)
        if isinstance(name, dict):
            record, name = name, name.get("name")
        if isinstance(name, str) and (marked or name in names):
            calls.append(_make_call(name, next(_values_under(record, _ARGUMENTS), None)))
    unread = [ToolCall("", {}, "The call holds no JSON object.")] if marked else []
    return calls or _calls_in_python(bare, names) or unread


def _matched_groups(match: re.Match[str]) -> list[str]:
    """Return the groups of the alternative that matched."""
    return [group for group in match.groups() if group is not None]


def _decode_at(text: str, start: int) -> object:
    """Return the JSON value that starts here; the text itself, which is none, where there is none."""
    try:
        return _DECODER.raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return text[start : start + 80] or "{"


def _parameters(body: str) -> dict[str, Any]:
    """Return arguments that stand in tags of their own; a value that is no JSON is a text."""
    arguments: dict[str, Any] = {}
    for match in _PARAMETER.finditer(body):
        key, value = _matched_groups(match)
        try:
            arguments[key] = _DECODER.decode(value)
        except (ValueError, RecursionError):
            arguments[key] = value
    return arguments


def _find_records(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects of a text, also those of a list."""
    position, tries = 0, 0
    while (match := re.compile(r"[{\[]").search(text, position)) and tries < 100:
        try:
            value, position = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            tries += 1
            position = match.end()
            continue
        if isinstance(value, dict):
            value = value.get("tool_calls") or [value]
        yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _calls_in_python(text: str, names: Collection[str]) -> list[ToolCall]:
    """Return calls written in Python, `[search_nodes(query="salt")]`, with plain values by keyword."""
    if len(text) > _LONGEST_PYTHON or not re.match(rf"\[?\s*(?:{'|'.join(map(re.escape, names)) or '$'})\s*\(", text):
        return []
    try:
        tree = ast.parse(text, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
        return [
            ToolCall(node.func.id, {str(each.arg): ast.literal_eval(each.value) for each in node.keywords})
            if not node.args
            else ToolCall(node.func.id, {}, "Arguments need their names.")
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        return []
