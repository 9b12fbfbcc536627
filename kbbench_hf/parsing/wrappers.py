r"""What an answer is wrapped in: turn tokens, answer tags, boxes, tool calls, code fences, a JSON string.

`unwrap` takes these off, so that what is left is the answer with the words around it.
"""

import json
import re

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
"""What stands between wrappers, or marks, of several answers."""
_TEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")


def unwrap(said: str) -> str:
    r"""Return what was said without what it is wrapped in.

    Of answers in tags the last is meant, or all of them where nothing but blanks stands between.

    >>> unwrap("So:\n<answer>\nLyon\n</answer><|im_end|>").strip()
    'Lyon'
    >>> unwrap(r'"{\"answer\": [\"Lyon\"]}"'), unwrap(r"Thus \boxed{\text{Lyon}}.")
    ('{"answer": ["Lyon"]}', 'Lyon')
    """
    said = _TOKENS.sub("\n", said)
    said = _boxed(_tagged(said))
    said = _STRAY.sub(" ", said)
    said = _FENCE.sub("", said)
    return _of_a_string(said)


def _tagged(said: str) -> str:
    """Return what the last answer tags hold; what stands after a tag that is never closed; all of it without tags."""
    held: list[tuple[int, int, int, int]] = []
    opened: dict[str, tuple[int, int]] = {}
    for tag in _TAG.finditer(said):
        name = tag[2].lower()
        if not tag[1]:
            opened[name] = tag.span()
        elif name in opened:
            start, inner = opened.pop(name)
            if said[inner : tag.start()].strip(" \n\t.…"):
                held.append((start, inner, *tag.span()))
    if held:
        return _last_run(said, held)
    first = min(opened.values(), default=(0, 0))
    return said[first[1] :] if not said[: first[0]].strip() else said


def _boxed(said: str) -> str:
    r"""Return what the last `\boxed{...}` holds, or all of it where there is none."""
    boxes: list[tuple[int, int, int, int]] = []
    for match in list(_BOX.finditer(said))[-20:]:
        depth, position = 1, match.end()
        while position < len(said) and depth:
            depth += {"{": 1, "}": -1}.get(said[position], 0)
            position += 1
        if not depth and said[match.end() : position - 1].strip():
            boxes.append((match.start(), match.end(), position - 1, position))
    return _TEX.sub(r"\1", _last_run(said, boxes)) if boxes else said


def _last_run(said: str, held: list[tuple[int, int, int, int]]) -> str:
    """Return what the last wrappers in a row hold, a line each; each has a start, inner start, inner end and end."""
    last = len(held) - 1
    while last and BESIDE.fullmatch(said, held[last - 1][3], held[last][0]):
        last -= 1
    return "\n".join(said[start:end].strip() for _, start, end, _ in held[last:])


def _of_a_string(said: str) -> str:
    """Return what a JSON string holds that is the whole text, once or twice over; else the text."""
    for _ in range(3):
        stripped = said.strip()
        if not (len(stripped) > 1 and stripped[0] == stripped[-1] == '"' and "\\" in stripped):
            break
        try:
            value = json.loads(stripped, strict=False)
        except (ValueError, RecursionError):
            break
        if not isinstance(value, str):
            break
        said = value
    return re.sub(r'\\"', '"', said) if '\\"' in said and not re.search(r'(?<!\\)"', said) else said
