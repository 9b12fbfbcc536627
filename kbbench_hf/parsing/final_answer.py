"""Final answer of a reply: its last version, without drafts, rejected items, repeated prompts and made-up inputs.

The rules, in this order: a made-up next input ends the answer; a later version replaces what stands before it; what
stands under a heading of drafts, rejects or input, and what a sentence rejects or only supposes, does not count; values
that stand on their own count before those that stand inside a sentence. `answers`, `triples`, `scores` and `verdicts`
each parse a version of the answer; this module decides which version, and which parts of it, they get.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kbbench_hf.parsing import cues
from kbbench_hf.parsing.conversation_turns import fold_text
from kbbench_hf.parsing.lenient_json import CutList, CutObject, JsonSpan, Value, extract_json
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError, T
from kbbench_hf.parsing.wrappers import strip_reasoning, unwrap
from kbbench_hf.text.folding import ignoring_case

_MASK = "\ue000"
"""Stands for each character of a value while words are looked for."""
_MARKERS = re.compile(
    r"^[\s>*_#\-–—•·+|]*(?:(?:\(?\d{1,3}[.):\]]|\(?[a-z][.)]|[ivx]{1,4}[.)])\s+)?[\s*_`]*", re.IGNORECASE
)
_LEADS_ON = re.compile(r"(?:[:：=]|->|→|⇒|=>|⟹)[\s*_`\"']*$")
_LEADS_TO = re.compile(r"^\s*(?:→|->|=>|⇒|⟹)\s*$")
_OR = re.compile(r"^[\s\"'`*_]*(?:/|\||or\b|oder\b|ou\b|o\b|vs\.?|或|または|или\b)[\s\"'`*_]*$", re.IGNORECASE)
_BETWEEN = re.compile(r"^[\s,;.|&+]*(?:and|und|et|y|e|en|och|和|、)?[\s,;.|&+]*$", re.IGNORECASE)
_CALL_START = re.compile(r"[\w*`_/'\"-]\(")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\s)\"'\]]|\n")
_ANSWERS = re.compile(
    r"\b(?:triples?|answers?|outputs?|results?|extracted|extraction|final|relation(?:ship)?s?|facts?)\b", re.IGNORECASE
)


class Piece(NamedTuple):
    """A JSON value that counts, and its place in the text."""

    value: Value
    start: int
    end: int
    stands: bool
    """Whether it has a line of its own or follows a colon; else it is part of a sentence."""
    after: str
    """What follows it in its line."""

    @property
    def is_cut(self) -> bool:
        """Whether the text ends inside it."""
        return isinstance(self.value, CutList | CutObject)


@dataclass(frozen=True)
class AnswerVersion:
    """What counts of one version of an answer."""

    whole: str
    """The whole response, unwrapped."""
    text: str
    """Its text, with blanks for the parts that do not count."""
    pieces: list[Piece]
    alternatives: bool
    """Whether values are offered as a choice: this or that."""
    takes_back: bool
    """Whether it begins with a correction of the version before it."""
    is_final: bool
    """Whether it was announced as the one that holds."""


def parse_final_answer(
    reply: str,
    read: Callable[[AnswerVersion], tuple[T, str] | None],
    failure: str,
    *,
    source: str = "",
    repeated: str = "",
    judged: bool = False,
) -> ParsedReply[T]:
    """Return the parsed answer of a reply: that of its last version which has one.

    Args:
        reply: what a model sent.
        read: the reader of a version: the answer and the rule that read it; None where the version has no answer.
        failure: what the error says where no version has one; after a colon it quotes the reply.
        source: a text that the prompt contains.
        repeated: the text that the answer is about, by which a repeated input is told from a made-up one.
        judged: whether the task is a verdict or a score.

    Raises:
        ParseError: no version has an answer, or the last one can be read in two ways.
    """
    thought, response = strip_reasoning(reply, source)
    if not response.strip():
        raise ParseError("nothing but thought" if thought else "an empty reply", thought)
    try:
        for version in split_versions(unwrap(response), repeated, judged=judged):
            if version.alternatives:
                break
            if (answer := read(version)) is not None:
                return ParsedReply(*answer, thought)
            retracts = cues.RETRACTIONS.search(version.text) or (judged and re.search(r"\d", version.text))
            if (version.takes_back and retracts) or (version.is_final and version.text.strip()):
                break
    except ParseError as error:
        raise ParseError(str(error), thought) from None
    raise ParseError(f"{failure} {response.strip()[:80]!r}" if failure.endswith(":") else failure, thought)


def split_versions(response: str, source: str = "", *, judged: bool = False) -> Iterator[AnswerVersion]:
    """Yield the versions of the answer in a reply, the last one first; there is at least one.

    Args:
        response: the response, unwrapped.
        source: the text that the model was given, by which a repeated input is told from a made-up one.
        judged: whether the task is a verdict or a score; then "False:" is no heading of rejected items.
    """
    whole, response = response, _cut_inputs(response, source)
    shadow, _ = _mask_values(response, extract_json(response))
    starts: dict[int, tuple[bool, bool]] = {0: (False, False)}
    labels: set[str] = set()  # a label that repeats adds to its first answer
    for match in cues.FINAL.finditer(shadow):
        if shadow[match.end() :].strip(" \n*_:：") and match[0].strip() not in labels:
            starts[match.start()] = (False, True)
        labels.add(match[0].strip())
    for match in cues.SECOND_THOUGHTS.finditer(shadow):
        if shadow[: match.start()].strip():
            starts.setdefault(match.start(), (True, False))
    bounds = sorted(starts)
    for start, end in zip(reversed(bounds), reversed([*bounds[1:], len(response)]), strict=True):
        takes_back, is_final = starts[start]
        yield _parse_version(whole, response[start:end], takes_back, is_final, judged)


def _parse_version(whole: str, response: str, takes_back: bool, is_final: bool, judged: bool) -> AnswerVersion:
    values = extract_json(response)
    text = _blank_rejected(response, values, judged, takes_back or is_final)
    remaining = [each for each in values if text[each.start] == response[each.start]]
    pieces, alternatives = _place_pieces(text, remaining)
    return AnswerVersion(whole, text, pieces, alternatives, takes_back, is_final)


def _cut_inputs(response: str, source: str) -> str:
    """Return the text without the inputs that it gives before or after the answer."""
    wanted = fold_text(source)
    starts = list(cues.NEW_INPUT.finditer(response))
    for match in starts:
        line = response[match.end() : _end_of_line(response, match.end() + 1)]
        if wanted and (given := fold_text(line)) and (given in wanted or wanted in given):
            response = response[match.end() + len(line) :] if response[match.end() + len(line) :].strip() else response
            starts = list(cues.NEW_INPUT.finditer(response))
            break
    for match in starts:
        before = response[: match.start()]
        if before.strip() and (extract_json(before) or _CALL_START.search(before) or _has_items(before)):
            return before
    return response


def _has_items(text: str) -> bool:
    """Whether a text has lines that look like items of an answer."""
    return any(re.search(r"\||→|->|\t|;.*;|^\s*(?:[-*•]|\d+[.)])\s|[:：]\s*\S", line) for line in text.splitlines())


def _mask_values(text: str, values: list[JsonSpan]) -> tuple[str, list[tuple[int, int]]]:
    """Return the text with values and calls masked, so that cues match prose only, and the spans of these."""
    spans = [(each.start, each.end) for each in values]
    spans += _find_calls(_mask(text, spans))
    return _mask(text, spans), spans


def _mask(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts, done = [], 0
    for start, end in sorted(spans):
        if start >= done:
            parts += [text[done:start], _MASK * (end - start)]
            done = end
    return "".join([*parts, text[done:]])


def _blank_rejected(response: str, values: list[JsonSpan], judged: bool, announced: bool) -> str:
    """Return the text, as long as before, with blanks for what is under a heading of drafts, rejected or supposed."""
    shadow, spans = _mask_values(response, values)
    blank = bytearray(len(response))
    _blank_under_headings(shadow, blank, judged, announced)
    for start, end in spans:
        if _is_rejected(shadow, start, end):
            blank[start:end] = b"\x01" * (end - start)
    characters = zip(response, blank, strict=True)
    return "".join(" " if gone and character != "\n" else character for character, gone in characters)


def _blank_under_headings(shadow: str, blank: bytearray, judged: bool, announced: bool) -> None:
    """Mark the text under a heading of drafts, rejects or input: its line, or the paragraph after an empty one."""
    position, scope, empty = 0, False, True
    for line in shadow.splitlines(keepends=True):
        start, position = position, position + len(line)
        words = line.strip()
        if not words:
            scope = scope and empty
            continue
        heading = _find_heading(words)
        if heading is None:
            scope = scope and (empty or _MASK in words or bool(_ITEM.match(words)))
            if scope:
                blank[start:position] = b"\x01" * (position - start)
            empty = False
            continue
        counts = announced or _counts_under(heading, judged)
        announced = False
        empty = not words[len(heading) :].strip(" :：*_")
        scope = not counts and (empty or bool(_EXAMPLE.search(heading)))
        if not counts:
            blank[start:position] = b"\x01" * (position - start)


_ITEM = re.compile(r"[-*•\d(\[{|]")
_EXAMPLE = ignoring_case(
    r"\b(?:examples?|demonstration|beispiel\w*|exemples?|ejemplos?|exemplos?|esempi[o]?|примеры?)\b|例|예시"
)


_LABEL = re.compile(
    r"^[\s#>*_\-–—•(]{0,12}(?:\d{1,2}[.)]\s{0,3})?[*_]{0,3}([^\n:：\ue000|→]{1,80}?)[*_]{0,3}\s{0,3}[:：]"
)
_TITLE = re.compile(r"^(?:#{1,6}\s+(.{1,80})|\*\*([^*\n]{1,80})\*\*)$")


def _find_heading(words: str) -> str | None:
    """Return the heading that a line is or begins with; None where it has none."""
    if (match := _LABEL.match(words)) and "(" not in match[1] and len(match[1].split()) <= 9:
        return match[0]
    return match[0] if (match := _TITLE.match(words)) else None


def _counts_under(heading: str, judged: bool) -> bool:
    """Return whether what is under a heading counts: no draft, no rejected item, and no text of the prompt."""
    if judged and any(character.isdigit() for character in heading):
        return True
    heading = re.split(r"[.!?。]\s", heading)[-1]
    if cues.FINAL.match(f"{heading.strip()}\n"):
        return True
    if cues.REJECTED.search(heading):
        return judged
    if cues.DRAFT.search(heading) or cues.REPEATED.search(heading):
        return False
    return judged or not cues.GIVEN.search(heading) or bool(_ANSWERS.search(heading))


def _find_calls(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of `name(...)`; the name is a single word."""
    done = 0
    for match in _CALL_START.finditer(text):
        start = match.start()
        while start and (text[start - 1].isalnum() or text[start - 1] in "_-/'*`\"\\") and match.start() - start < 60:
            start -= 1
        if match.start() >= done and (end := _closing_bracket(text, match.end() - 1)) is not None:
            yield start, end
            done = end


def _closing_bracket(text: str, opening: int) -> int | None:
    """Return where a bracket that opens ends, in its line and not far away."""
    depth = 0
    for position in range(opening, min(len(text), opening + 400)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if text[position] == "\n" or depth > 8:
            return None
        if not depth:
            return position + 1
    return None


def _is_rejected(shadow: str, start: int, end: int) -> bool:
    """Whether the sentence around a value rejects it, or only supposes it."""
    line = shadow.rfind("\n", 0, start) + 1
    before = shadow[max(line, start - 300) : start]
    before = _SENTENCE_END.split(before)[-1]
    before = before[before.rfind(_MASK) + 1 :]
    announced = _answers_after(before) or (_LEADS_ON.search(before) and not cues.REJECTED.search(before))
    if cues.BEFORE_REJECTED.search(before) and not announced:
        return True
    after = shadow[end : min(_end_of_line(shadow, end), end + 200)]
    return bool(cues.AFTER_REJECTED.search(after)) and not after.lstrip(" .)").startswith(("not " + _MASK, _MASK))


def _answers_after(before: str) -> bool:
    """Whether the words right before a value announce it as the answer."""
    announces = r"\b(?:answer|output|triples?|result|verdict|score) (?:is|are|would be):?\s*$"
    supposed = re.search(r"\bif\b|\bhad\b|\bwould\b|\bwere\b", before, re.IGNORECASE)
    return not supposed and re.search(announces, before, re.IGNORECASE) is not None


def _place_pieces(text: str, values: list[JsonSpan]) -> tuple[list[Piece], bool]:
    """Return the values with their place in the text, and whether two of them are offered as a choice."""
    pieces: list[Piece] = []
    alternatives, done = False, 0
    for each in values:
        line = text.rfind("\n", 0, each.start) + 1
        between = text[done : each.start] if pieces else None
        before = text[max(line, done) : each.start]
        after = text[each.end : _end_of_line(text, each.end)]
        if between is not None and "\n" not in between and _OR.match(between):
            alternatives = True
        stands = not _MARKERS.sub("", before).strip(" `*_\"'(,;") or bool(_LEADS_ON.search(before))
        if between is not None and done > line:
            stands = bool(_LEADS_ON.search(before)) or (bool(_BETWEEN.match(between)) and pieces[-1].stands)
        if between is not None and _LEADS_TO.match(between):  # a statement, and what it is split into
            pieces[-1] = pieces[-1]._replace(stands=False)
        pieces.append(Piece(each.value, each.start, done := each.end, stands, after))
    return pieces, alternatives


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
