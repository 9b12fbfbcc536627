r"""Wrappers of answers: turn tokens, answer tags, boxes, tool calls, code fences, a JSON string.

`unwrap` removes them; the answer and the words around it are left.
"""

import json
import re
from itertools import pairwise

from kbbench_hf.parsing import cues
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.text.patterns import lazy_pattern

_TOKENS = re.compile(
    r"<[|｜][\w▁]{1,40}[|｜]>(?:\s*\w{1,12}<\|sep\|>)?|<bos>|<s>|<pad>|<\|?tool_call\|?>|</\|?tool_call\|?>"
)
_ANSWER = (
    r"(?:final|(?:final[_ -]?)?(?:answers?|response|output|result|solution|verdict|score|rating|triples?[_ -]?list|"
    r"extraction))"
)
_TAG = re.compile(rf"<(/?)({_ANSWER})(?:\s[^<>]{{0,80}})?>", re.IGNORECASE)
_STRAY = re.compile(
    rf"</?{_ANSWER}\s*>|</?(?:tool_calls?|function_calls?|minimax:tool_call|invoke|tool|parameters?|"
    rf"arguments?)(?:\s[^<>]{{0,120}})?>"
    r"|</?function(?:=[\w.-]{1,60}|s)?>|<parameter=[\w.-]{1,60}>|</parameter>|<arg_key>[^<]{0,60}</arg_key>|"
    r"</?arg_value>"
    r"|\[/?(?:TOOL_CALLS|ARGS|ANSWER|RESPONSE|OUTPUT)\]|\$\$|\\\[|\\\]|\\\(|\\\)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n`]*$|```(?:json|python|text|xml|yaml)?", re.MULTILINE)
_BOX = re.compile(r"\\boxed\s*\{")
BESIDE = lazy_pattern(r"(?:[\s,;、$.*_]|\\q?quad|\\[,;])*(?:and|und|et|y|e|和|&)?[\s,;$*_]*", re.IGNORECASE)
"""Text between the wrappers of several answers."""
_TEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")


def unwrap(response: str) -> str:
    r"""Return a response without its wrappers.

    Of several answer tags or boxes the last one counts, or all of a row that only white space or commas separate.

    Raises:
        ParseError: boxes hold different answers, and no words say that a later one replaces them.

    >>> unwrap("So:\n<answer>\nLyon\n</answer><|im_end|>").strip()
    'Lyon'
    >>> unwrap(r'"{\"answer\": [\"Lyon\"]}"'), unwrap(r"Thus \boxed{\text{Lyon}}.")
    ('{"answer": ["Lyon"]}', 'Lyon')
    """
    response = _TOKENS.sub("\n", response)
    response = _unwrap_boxes(_unwrap_tags(response))
    response = _STRAY.sub(" ", response)
    response = _FENCE.sub("", response)
    return _decode_string(response)


def _unwrap_tags(response: str) -> str:
    """Return the text in the last answer tags, or after a tag that is never closed; all of it without tags."""
    spans: list[tuple[int, int, int, int]] = []
    opened: dict[str, tuple[int, int]] = {}
    for tag in _TAG.finditer(response):
        name = tag[2].lower()
        if not tag[1]:
            opened[name] = tag.span()
        elif name in opened:
            start, inner = opened.pop(name)
            if response[inner : tag.start()].strip(" \n\t.…"):
                spans.append((start, inner, *tag.span()))
    if spans:
        return _last_run(response, spans)
    first = min(opened.values(), default=(0, 0))
    return response[first[1] :] if not response[: first[0]].strip() else response


def _unwrap_boxes(response: str) -> str:
    r"""Return the text in the last `\boxed{...}`, or all of it where there is none."""
    boxes: list[tuple[int, int, int, int]] = []
    for match in list(_BOX.finditer(response))[-20:]:
        depth, position = 1, match.end()
        while position < len(response) and depth:
            depth += {"{": 1, "}": -1}.get(response[position], 0)
            position += 1
        if not depth and response[match.end() : position - 1].strip():
            boxes.append((match.start(), match.end(), position - 1, position))
    if not boxes:
        return response
    last = _last_run(response, boxes)
    for (_, start, end, after), following in pairwise(boxes):
        new_version = any(cue.search(response[after : following[0]]) for cue in (cues.FINAL, cues.SECOND_THOUGHTS))
        if response[start:end].strip() not in last.split("\n") and not new_version:
            raise ParseError("boxes hold different answers, and no words say which one is final")
    return _TEX.sub(r"\1", last)


def _last_run(response: str, spans: list[tuple[int, int, int, int]]) -> str:
    """Return the texts in the last row of wrappers, a line each; a span has start, inner start, inner end and end."""
    last = len(spans) - 1
    while last and BESIDE.fullmatch(response, spans[last - 1][3], spans[last][0]):
        last -= 1
    return "\n".join(response[start:end].strip() for _, start, end, _ in spans[last:])


def _decode_string(response: str) -> str:
    """Return the value of a text that is one JSON string, encoded once or twice; else the text."""
    for _ in range(3):
        stripped = response.strip()
        if not (len(stripped) > 1 and stripped[0] == stripped[-1] == '"' and "\\" in stripped):
            break
        try:
            value = json.loads(stripped, strict=False)
        except (ValueError, RecursionError):
            break
        if not isinstance(value, str):
            break
        response = value
    return re.sub(r'\\"', '"', response) if '\\"' in response and not re.search(r'(?<!\\)"', response) else response
