r"""What stands around answers: reasoning, turn tokens, answer tags, boxes, tool calls, code fences, a JSON string.

`unwrap` removes all but the reasoning; the answer and the words around it are left. `strip_reasoning` returns the
response after the reasoning: a server with the right reasoning parser sends thought in a field of its own; without one
it stands in the text. The families are those that the parsers of vLLM and SGLang know (vllm/reasoning,
sglang/srt/parser/reasoning_parser.py) and what models do by habit: tags in any brackets, channels, vendors' tokens,
words. Some open the thought in the template, so that only its end is in the text; some are cut off inside it.
`final_answer` calls both for every reply, `tool_calls` the second.
"""

import json
import re
from itertools import pairwise
from typing import NamedTuple

from kbbench_hf.parsing import cues
from kbbench_hf.parsing.conversation_turns import extract_own_turn
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.text.folding import lazy_pattern

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
    response = _unwrap_boxes(_unwrap_tags(_TOKENS.sub("\n", response)))
    return _decode_string(_FENCE.sub("", _STRAY.sub(" ", response)))


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


class StrippedReply(NamedTuple):
    """The reasoning of a reply, and the response after it."""

    thought: str
    response: str


_NAMES = (
    r"(?:[\w.-]{1,20}:)?(?:[\w-]{0,20}think(?:ing|er)?[\w-]{0,20}|thoughts?(?:[_ -]process)?|inner[_ ]thoughts?|"
    r"(?:chain|train)[_ -]of[_ -]thoughts?"
    r"|cot|reasoning(?:[_ -](?:steps|process|content))?|scratch[_ -]?pad|(?:internal|inner|private)?[_ ]?monologue|"
    r"analysis"
    r"|(?:self[_ -]?)?reflection|deliberation|planning|brainstorm(?:ing)?|working[_ ]out)"
)
"""Names of tags that hold thought. A tag of another name (`<reason>`, `<note>`) may stand beside an answer."""
_THOUGHT = r"(?:think(?:ing)?|thoughts?|reasoning|cot)"
_OPENING = (
    rf"<{_NAMES}(?:\s[^<>]{{0,100}})?>",
    rf"\[{_NAMES}\]",
    rf"\{{{_NAMES}\}}",
    rf"◁{_NAMES}▷",
    rf"<[|｜](?:(?:start|begin)[_▁]?(?:of[_▁]?)?)?{_THOUGHT}(?:[_▁]?(?:start|begin))?[|｜]>",
    r"<\|inner_prefix\|>",
    rf"<\|open\|>\s*{_THOUGHT}\s*<\|sep\|>",
    r"<\|channel>[^\S\n]*\w*",
    r"<unused94>(?:thought)?",
    r"<details[^<>]{0,60}type=.?reasoning[^<>]{0,100}>",
)
_CLOSING = (
    rf"</\s*{_NAMES}\s*>",
    rf"\[/\s*{_NAMES}\]",
    rf"\{{/{_NAMES}\}}",
    rf"◁/{_NAMES}▷",
    rf"<[|｜](?:/|end[_▁]?(?:of[_▁]?)?){_THOUGHT}[|｜]>|<[|｜]{_THOUGHT}[_▁]?end[|｜]>",
    r"<\|inner_suffix\|>",
    rf"<\|close\|>\s*{_THOUGHT}\s*<\|sep\|>",
    r"<channel\|>",
    r"<unused95>",
)
_FLAGS = re.IGNORECASE
_DETAILS_END = re.compile(r"</details>", _FLAGS)

_HARMONY = re.compile(r"<\|channel\|>\s*([a-z]+)[^<]{0,200}(?:<\|constrain\|>[^<]{0,40})?<\|message\|>", _FLAGS)
_HARMONY_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_OPENS, _CLOSES = lazy_pattern("|".join(_OPENING), _FLAGS), lazy_pattern("|".join(_CLOSING), _FLAGS)
_MARKERS = lazy_pattern("|".join((*_OPENING, *_CLOSING, _HARMONY.pattern, _HARMONY_END.pattern)), _FLAGS)
_HARMONY_FINAL = re.compile(r"assistant\s*final(?:\s*json(?=\s*[{\[]))?")
_HARMONY_NEXT = re.compile(r"(?<=[}\].!?\"'\s])(?:user(?=[A-Z\n])|assistant\s*(?:analysis|commentary|final)(?![a-z]))")
_HARMONY_START = re.compile(r"\s*(?:assistant\s*)?(?:analysis|commentary)(?=[A-Z0-9\"'{\[(<]|\n|\s*$)")
_HARMONY_BARE_FINAL = re.compile(r"\s*(?:assistant\s*)?final(?=[{\[\"'A-Z0-9<])")
_THOUGHT_LINE = re.compile(r"\s*thought\n")
_WORDS_OPENING = re.compile(
    r"\s*\W{0,3}here(?:['’]s| is) (?:my|the) (?:thought|thinking|reasoning)(?: process)?\W{0,3}:", _FLAGS
)
_WORDS_CLOSING = re.compile(r"here(?:['’]s| is) (?:my|the) (?:final )?(?:response|answer|output)\W{0,3}:", _FLAGS)


def strip_reasoning(reply: str, source: str = "") -> StrippedReply:
    """Return the reasoning and the response of a model's own turn; all before the last closing marker is reasoning.

    `source` is a text that the prompt contains; see `conversation_turns.extract_own_turn`. An opening marker that is
    never closed takes the rest with it. Of OpenAI's channels only `final` is the response. It is empty where nothing
    is left.

    >>> strip_reasoning("<think>Paris? No, Lyon.</think>Lyon")
    StrippedReply(thought='Paris? No, Lyon.', response='Lyon')
    >>> strip_reasoning("Paris? No.</think>Lyon").response, strip_reasoning("<think>Paris? Or").response
    ('Lyon', '')
    >>> strip_reasoning("<|channel|>analysis<|message|>Hm.<|end|><|channel|>final<|message|>Lyon").response
    'Lyon'
    """
    reply = extract_own_turn(reply, source, lambda text: not _drop_reasoning(text).strip())
    response = _drop_reasoning(reply)
    ends = reply.endswith(response)
    thought = reply[: len(reply) - len(response)] if ends else reply.replace(response, "", 1)
    return StrippedReply(_remove_markers(thought) if len(response) < len(reply) else "", response)


def _drop_reasoning(reply: str) -> str:
    response = _final_channel(reply)
    return _drop_worded(_drop_marked(reply) if response is None else response)


def _final_channel(reply: str) -> str | None:
    """Return the text of the last final channel; None where there are no channels."""
    response, has_channels = None, False
    for match in _HARMONY.finditer(reply):
        has_channels = True
        if match[1].lower() == "final":
            end = _HARMONY_END.search(reply, match.end())
            response = reply[match.end() : end.start() if end else len(reply)]
    if has_channels:
        return response or ""
    started = _HARMONY_START.match(reply)
    final = _HARMONY_FINAL.search(reply)
    if final and (started or "assistantfinal" in reply):
        return _HARMONY_NEXT.split(reply[final.end() :], maxsplit=1)[0]
    if started and (reply[started.end() : started.end() + 1] != "\n" or "assistantcommentary" in reply):
        return ""
    if bare := _HARMONY_BARE_FINAL.match(reply):
        return reply[bare.end() :]
    return None


def _drop_marked(reply: str) -> str:
    """Return what follows the last closing marker of thought, up to a marker that opens another thought."""
    if re.search(_OPENING[-1], reply, _FLAGS):
        reply = _DETAILS_END.sub("</think>", reply)
    closed = max((match.end() for match in _CLOSES.finditer(reply)), default=0)
    response = reply[closed:]
    if match := _OPENS.search(response):
        response = response[: match.start()]
    return _THOUGHT_LINE.sub("", response, count=1) if not closed and _THOUGHT_LINE.match(response) else response


def _drop_worded(response: str) -> str:
    """Return what follows "Here is my response:" in a reply that begins with "Here is my thought process:"."""
    if not _WORDS_OPENING.match(response):
        return response
    ends = list(_WORDS_CLOSING.finditer(response))
    return response[ends[-1].end() :] if ends else ""


def _remove_markers(thought: str) -> str:
    return _MARKERS.sub("\n", thought).strip()
