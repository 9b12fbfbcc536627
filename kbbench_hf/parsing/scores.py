"""Score from 0 to 1 in a reply: the number that the reply names as its score, never another one.

The reranker calls `parse_score`. The word lists are in `data/scores.txt`. A reply with two scores has none.
"""

import itertools
import re
from collections.abc import Iterator

from kbbench_hf.parsing.cues import word_lists
from kbbench_hf.parsing.final_answer import AnswerVersion, parse_final_answer
from kbbench_hf.parsing.lenient_json import Value, normalize_members
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.text.folding import ignoring_case

_LISTS = {name: f"(?:{rows})" for name, rows in word_lists("scores").items()}
_DIGITS, _NAME, _WHOLE = _LISTS["digits"], _LISTS["name"], _LISTS["whole"]
_NUMBER = re.compile(
    rf"(?<![A-Za-z0-9_.,/:'’-])(?<!\d[-–−])(?P<sign>[-−](?=[\d.,]))?(?P<number>{_DIGITS})"
    rf"(?:(?P<percent>\s*{_LISTS['percent']})|\s*{_LISTS['out_of']}\s*(?P<total>{_DIGITS})%?)?"
    r"(?![A-Za-z0-9_%])(?![.,]\d)(?!\s*(?:[-–−~〜…]|\.\.+|\(?(?:to|or|vs)\b|bis\b|oder\b|ou\b|à\b)\s*\d)",
    re.IGNORECASE,
)
_LINK = (
    rf"[*_\"'`\s]{{0,4}}(?:\([^()]{{0,40}}\)\s*)?(?:{_LISTS['link']}[*_\"'`\s:：=]{{0,4}}){{0,3}}"
    rf"(?:{_LISTS['about']}\s*){{0,2}}[*_\"'`\s\[(]{{0,4}}(?=[-−]?[\d.,])"
)


_SCALE = ignoring_case(_LISTS["scale"])
"""Where the bounds of the scale are given."""
_WHOLE_SCORE = ignoring_case(
    rf"(?<!\w)(?:{_WHOLE}[\s*_-]*(?:{_NAME}|impression|fit|match|result|value)?|{_NAME}\s*{_WHOLE}){_LINK}"
)
_NAMED_SCORE = ignoring_case(rf"(?<![A-Za-z]){_NAME}(?![A-Za-z_-]|\s+(?:for|on|of (?:the|each|its))\b){_LINK}")
_CONCLUDED = ignoring_case(rf"{_LISTS['concluded']}[*_\"'`(\[]{{0,4}}(?=[-−]?[\d.,])")
_NOT_MEANT = ignoring_case(rf"{_LISTS['not_meant']}$")
"""Before a number: it is not the score, or that of another case."""
_OTHER = ignoring_case(_LISTS["other"])
"""Before a number: it is a confidence, a part of the whole, or no score at all."""
_TURNED_DOWN = ignoring_case(_LISTS["turned_down"])
"""A number that the reply turns down: "0.9 would be too high"."""
_AND_ANOTHER = ignoring_case(
    rf"\s*(?:[,;/&\n]|and\b|or\b)[\s,;]*(?:maybe\s|perhaps\s|possibly\s)?{_DIGITS}(?![.)]?\s*[A-Za-z%/])(?![.)]\s)"
)
"""A second number right behind the first one."""
_LAST_SENTENCE = ignoring_case(rf"(?<=[.!?:\n])(?<!\.\.)\s+{_NUMBER.pattern}[\s.\"')\]]*$")
"""A number that is the last sentence."""
_KEYS = word_lists("scores")["keys"].split("|")
_HOLDERS = "arguments parameters input output result response answer data evaluation final".split()


def parse_score(reply: str) -> ParsedReply[float]:
    """Return the score that a reply gives.

    Read are the number that it names as its score, the one that it concludes, or else the one that it opens with or
    consists of; as a decimal, with a decimal comma, in per cent, or as n out of m.

    Raises:
        ParseError: it gives none, several, or one outside 0 to 1.

    >>> texts = ("Score: 0.2 (on a scale from 0.0 to 1.0)", "7/10", "0,7", "I'd say 85 %.")
    >>> [parse_score(text).answer for text in texts]
    [0.2, 0.7, 0.7, 0.85]
    >>> parse_score("0.0 - it is not linked to gene 1").answer
    0.0
    """
    return parse_final_answer(reply, _parse_version, "no score:", judged=True)


def _parse_version(version: AnswerVersion) -> tuple[float, str] | None:
    """Return the score of a version and the rule that read it.

    Raises:
        ParseError: it lies outside 0 to 1.
    """
    read = _find_score(version)
    if read is not None and not 0 <= read[0] <= 1:
        raise ParseError(f"{read[0]:g} is not a score from 0 to 1")
    return read


def _find_score(version: AnswerVersion) -> tuple[float, str] | None:
    """Return the score and its rule: JSON, a named score, a conclusion, the first, last or only number; else None."""
    pieces = [piece for piece in version.pieces if piece.stands] or version.pieces
    values = {score for piece in pieces if not piece.is_cut for score in _json_scores(piece.value, 0)}
    if values:
        return (values.pop(), "json") if len(values) == 1 else None
    text = re.sub(rf"({_DIGITS})\s*[(（]\s*out of\s*({_DIGITS})\s*[)）]", r"\1/\2", version.text, flags=re.IGNORECASE)
    text = _TURNED_DOWN.sub(" ", _SCALE.sub(" ", text))
    text = re.sub(r"[*_`]", " ", text)
    for rule, names in (("overall", _WHOLE_SCORE), ("labelled", _NAMED_SCORE), ("concluded", _CONCLUDED)):
        if scores := _scores_after(names, text):
            return (scores[0], rule) if len(set(scores)) == 1 else None
    start = text.strip(" \n\t\"'([{#>-–•“”≈~;,:")
    opening = None if text.strip().startswith(("-", "−", "–")) else _NUMBER.match(start)
    if opening is None and text.strip().startswith(("-", "−")):
        return None
    if opening is not None and _AND_ANOTHER.match(start, opening.end()):
        return None
    if opening is not None and not re.match(r"\s*(?:=|means\b|(?:points?\s+)?for\b)", start[opening.end() :]):
        return _to_score(opening), "first"
    if (last := _LAST_SENTENCE.search(text)) and not _OTHER.search(text, max(0, last.start() - 100), last.start() + 1):
        return _to_score(last), "last"
    alone = [match for match in _NUMBER.finditer(text) if not match["total"] or len(text.split()) < 5]
    if len(alone) != 1 or len(text.split()) > 12 or _is_other(text, alone[0].start()):
        return None
    rest = text[: alone[0].start()] + text[alone[0].end() :]
    return None if re.search(r"\d", rest) else (_to_score(alone[0]), "only")


_ONLY_IF = re.compile(r"\s*,?\s*(?:only )?(?:if|would|when|requires?|unless|wenn|falls|si)\b", re.IGNORECASE)
"""What makes the number before it one of another case."""


def _scores_after(names: "re.Pattern[str]", text: str) -> list[float]:
    """Return the scores right after these names, without those that the reply only supposes or rules out."""
    scores = []
    for match in names.finditer(text):
        number = _NUMBER.match(text, match.end())
        if number is None or _ONLY_IF.match(text, number.end()) or _is_supposed(text, match.start(), match.end()):
            continue
        is_meant = not _NOT_MEANT.search(text, max(0, match.start() - 150), match.start())
        if not is_meant or (names is not _CONCLUDED and _is_other(text, match.start())):
            continue
        scores += [_to_score(number), -1.0] if _AND_ANOTHER.match(text, number.end()) else [_to_score(number)]
    return scores


def _is_other(text: str, position: int) -> bool:
    """Whether the text before a number says that it is a part of the whole, or no score."""
    line = text[max(text.rfind("\n", 0, position) + 1, position - 150) : position]
    sentence = re.split(r"[.!?;]\s", line)[-1]
    return bool(_NOT_MEANT.search(sentence) or _OTHER.search(sentence))


_SUPPOSED = ignoring_case(
    r"\bif\b[^,]*,|\bhad\b.*\bwould\b|\bwere\b.*\bwould\b|\bperfect\b|\bwould (?:get|have|need|score|"
    r"receive|earn|deserve)\b(?<!i would)|\bwenn\b|\bfalls\b"
)
_DENIED = ignoring_case(r"\bnot\b(?:\s+\w+){0,5}\s*$|n['’]t\b(?:\s+\w+){0,3}\s*$")


def _is_supposed(text: str, start: int, end: int) -> bool:
    """Return whether the sentence up to a number only supposes it, or denies it."""
    sentence = re.split(r"[.!?;\n]\s*", text[max(0, start - 200) : end])[-1]
    return bool(_SUPPOSED.search(sentence) or _DENIED.search(text[start:end]))


def _to_score(match: "re.Match[str]") -> float:
    """Return a number as a fraction: of 100 for per cent, of its total; outside 0 to 1 where it is no score."""
    number = _parse_float(match["number"])
    if match["percent"]:
        number /= 100
    elif match["total"]:
        total = _parse_float(match["total"])
        number = number / total if total >= 1 else -1.0
    return -number if match["sign"] else number


def _parse_float(digits: str) -> float:
    return float(digits.replace(",", "."))


def _json_scores(value: Value, depth: int) -> Iterator[float]:
    """Yield the score of a value: a number, the only item of a list, or the first member of a name for scores."""
    if isinstance(value, str) and (match := re.fullmatch(rf"\s*(?:{_NUMBER.pattern})\W*", value, re.IGNORECASE)):
        yield _to_score(match)
    elif isinstance(value, list) and len(value) == 1:
        yield from _json_scores(value[0], depth + 1)
    elif isinstance(value, dict) and depth <= 4:
        members = normalize_members(value)
        inner = [members[key] for key in _KEYS if key in members]
        inner += [members[key] for key in _HOLDERS if isinstance(members.get(key), dict)]
        yield from itertools.islice((score for each in inner for score in _json_scores(each, depth + 1)), 1)
