"""Thought set apart from what is said: every family of markers in which models think aloud.

A server with the right reasoning parser sends thought in a field of its own; without one it stands in the text. The
families are those that the parsers of vLLM and SGLang know (vllm/reasoning, sglang/srt/parser/reasoning_parser.py) and
what models do by habit: tags in any brackets, channels, vendors' tokens, words. Some open the thought in the template,
so that only its end is in the text; some are cut off inside it.
"""

import re
from typing import NamedTuple

from kbbench_hf.parsing.conversation_turns import extract_own_turn


class StrippedReply(NamedTuple):
    """A reply taken apart: what was thought, and what was said after it."""

    thought: str
    said: str


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
_OWN: list[tuple[str, str]] = []
"""The markers that users have added."""
_DETAILS_END = re.compile(r"</details>", _FLAGS)

_HARMONY = re.compile(r"<\|channel\|>\s*([a-z]+)[^<]{0,200}(?:<\|constrain\|>[^<]{0,40})?<\|message\|>", _FLAGS)
_HARMONY_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_HARMONY_FINAL = re.compile(r"assistant\s*final(?:\s*json(?=\s*[{\[]))?")
_HARMONY_NEXT = re.compile(r"(?<=[}\].!?\"'\s])(?:user(?=[A-Z\n])|assistant\s*(?:analysis|commentary|final)(?![a-z]))")
_HARMONY_START = re.compile(r"\s*(?:assistant\s*)?(?:analysis|commentary)(?=[A-Z0-9\"'{\[(<]|\n|\s*$)")
_HARMONY_BARE_FINAL = re.compile(r"\s*(?:assistant\s*)?final(?=[{\[\"'A-Z0-9<])")
_THOUGHT_LINE = re.compile(r"\s*thought\n")
_WORDS_OPENING = re.compile(
    r"\s*\W{0,3}here(?:['’]s| is) (?:my|the) (?:thought|thinking|reasoning)(?: process)?\W{0,3}:", _FLAGS
)
_WORDS_CLOSING = re.compile(r"here(?:['’]s| is) (?:my|the) (?:final )?(?:response|answer|output)\W{0,3}:", _FLAGS)


def add_marker(opening: str, closing: str) -> None:
    """Take what stands between these two for thought from now on, as if they were known.

    >>> add_marker("<hmm>", "</hmm>")
    >>> strip_reasoning("<hmm>Seven? No.</hmm>Eight.").said
    'Eight.'
    """
    if (opening, closing) not in _OWN:
        _OWN.append((opening, closing))


def strip_reasoning(reply: str, asked: str = "") -> StrippedReply:
    """Return what a model thought and what it said in its own turn: all before the last closing marker is thought.

    `asked` is a text that the prompt contains; see `conversation_turns.extract_own_turn`. An opening marker that is
    never closed takes the rest with it. Of OpenAI's channels only `final` is said. Where nothing is left, nothing was
    said.

    >>> strip_reasoning("<think>Paris? No, Lyon.</think>Lyon")
    StrippedReply(thought='Paris? No, Lyon.', said='Lyon')
    >>> strip_reasoning("Paris? No.</think>Lyon").said, strip_reasoning("<think>Paris? Or").said
    ('Lyon', '')
    >>> strip_reasoning("<|channel|>analysis<|message|>Hm.<|end|><|channel|>final<|message|>Lyon").said
    'Lyon'
    """
    reply = extract_own_turn(reply, asked, lambda text: not _said(text).strip())
    said = _said(reply)
    thought = reply[: len(reply) - len(said)] if reply.endswith(said) else reply.replace(said, "", 1) if said else reply
    return StrippedReply(_without_markers(thought) if len(said) < len(reply) else "", said)


def _said(reply: str) -> str:
    said = _of_channels(reply)
    return _of_words(_of_markers(reply) if said is None else said)


def _of_channels(reply: str) -> str | None:
    """Return what stands in the last final channel; None where there are no channels."""
    said, found = None, False
    for match in _HARMONY.finditer(reply):
        found = True
        if match[1].lower() == "final":
            end = _HARMONY_END.search(reply, match.end())
            said = reply[match.end() : end.start() if end else len(reply)]
    if found:
        return said or ""
    started = _HARMONY_START.match(reply)
    final = _HARMONY_FINAL.search(reply)
    if final and (started or "assistantfinal" in reply):
        return _HARMONY_NEXT.split(reply[final.end() :], maxsplit=1)[0]
    if started and (reply[started.end() : started.end() + 1] != "\n" or "assistantcommentary" in reply):
        return ""
    if bare := _HARMONY_BARE_FINAL.match(reply):
        return reply[bare.end() :]
    return None


def _of_markers(reply: str) -> str:
    opening = _either(_OPENING, [start for start, _ in _OWN])
    closing = _either(_CLOSING, [end for _, end in _OWN])
    if re.search(_OPENING[-1], reply, _FLAGS):
        reply = _DETAILS_END.sub("</think>", reply)
    closed = max((match.end() for match in closing.finditer(reply)), default=0)
    said = reply[closed:]
    if match := opening.search(said):
        said = said[: match.start()]
    return _THOUGHT_LINE.sub("", said, count=1) if not closed and _THOUGHT_LINE.match(said) else said


def _of_words(said: str) -> str:
    if not _WORDS_OPENING.match(said):
        return said
    ends = list(_WORDS_CLOSING.finditer(said))
    return said[ends[-1].end() :] if ends else ""


def _either(known: tuple[str, ...], own: list[str]) -> "re.Pattern[str]":
    return re.compile("|".join([*known, *map(re.escape, own)]), _FLAGS)


def _without_markers(thought: str) -> str:
    own = [marker for pair in _OWN for marker in pair]
    markers = _either((*_OPENING, *_CLOSING, _HARMONY.pattern, _HARMONY_END.pattern), own)
    return markers.sub("\n", thought).strip()
