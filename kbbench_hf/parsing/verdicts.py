"""Yes-or-no verdicts of a reply: is a triple supported by its text, is a question answerable from its context?

A verdict is a claim, not a word: "no doubt: supported" is yes, "unsupported" is no, and a claim about another case is
none. A reply that claims both, or neither, has no verdict.

The LLM judges and the synthesis of questions call `parse_supported`; testbeds of unanswerable questions and the metric
module `rejection_rate` call `parse_answerable`. The word lists are in `data/verdicts.txt`.
"""

import re
from collections.abc import Iterator

from kbbench_hf.parsing import cues
from kbbench_hf.parsing.answers import says_unanswerable
from kbbench_hf.parsing.cues import word_lists
from kbbench_hf.parsing.final_answer import AnswerVersion, Piece, parse_final_answer
from kbbench_hf.parsing.lenient_json import Value, normalize_members
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.text.folding import ignoring_case

_LISTS = {name: f"(?:{rows})" for name, rows in word_lists("verdicts").items()}


_WORD = ignoring_case(rf"(?:(?P<yes>{_LISTS['yes']})|(?P<no>{_LISTS['no']}))(?![\w'’-])")
_LAST_WORD = ignoring_case(rf"(?:[:：.!]|,? (?:so|hence|thus|therefore),?)\s+{_WORD.pattern}[\s.!)]*$")
"""A verdict that is the last sentence, or the end of the text behind a colon or "so"."""
_BOTH = ignoring_case(
    rf"\b{_LISTS['yes']}\s*(?:/|\||\bor\b|\boder\b|\bou\b)\s*{_LISTS['no']}\b|^\W*{_LISTS['yes']}\W+{_LISTS['no']}\W*$"
    r"|\b(?:un)?(?:supported|true)\s*(?:/|\||\bor\b)\s*(?:not |un)?(?:supported|false)\b"
)
"""Both verdicts side by side: the choices are repeated."""
_CONCEDED = ignoring_case(r"^\W*(?:al|even )?though\b[^,]*,|^\W*(?:while|whereas)\b[^,]*,")
"""What a sentence grants before it says the other thing."""
_IDIOMS = ignoring_case(_LISTS["idioms"])
"""Negations that deny nothing: "no doubt"."""
_NOT = ignoring_case(rf"{_LISTS['not']}(?:[\s,]+(?:{_LISTS['between']}\b[\s,]*){{0,4}})?\s*$")
"""A negation before a claim, with at most a few words between."""
_ANY_NOT = ignoring_case(rf"{_LISTS['not']}")
_NOT_AFTER = ignoring_case(r"\s*(?:no\b|nothing\b|none\b|kein\w*|pas\b|aucun\w*|nicht\b|niet\b|geen\b|not\b)")
_NOTHING_BEFORE = ignoring_case(
    r"(?:^|[\s(])(?:no|nothing|not (?:all|every\w*|each))(?:\s+(?!(?:and|but|or)\b)\w+){0,4}\s*$"
)
_NOT_WHOLLY = ignoring_case(r"not (?:fully|entirely|completely|wholly|quite|really|exactly|at all|yet)\b")
_OUTER_DENIAL = ignoring_case(rf"{_LISTS['outer_denial']}[^,;]*$")
"""A denial of all that the sentence says: "I do not think that ..."."""
_SUPPOSED = ignoring_case(_LISTS["suppositions"])
_OTHER_CLAIM = ignoring_case(r"\b(?:false|wrong|incorrect|untrue) that\b|\bthe (?:opposite|reverse|contrary)\b|\?\W*$")
"""In a sentence: it speaks of another claim than the one that is judged."""
_OPPOSITE = ignoring_case(r"\b(?:opposite|otherwise|reverse\w*|instead|contrary|another|different|other)\b")
_UNSAID = ignoring_case(_LISTS["unsaid"])
_BUT = rf"{_LISTS['but']}(?![a-zа-я])"
_PARTLY = ignoring_case(_LISTS["partly"])
_LIMITED = ignoring_case(
    rf"{_LISTS['limited']}|{_LISTS['partly']}|n['’]t(?=\W*$)|^\W*[^\W\d]+\W{{0,4}}{_BUT}"
    rf"|[,，]\s*{_BUT}[^.]{{0,80}}(?:\b(?:not|no|wrong|different|missing|differs)\b|不|没)"
)
"""What makes a yes one of a part: "everything but the last hop", "yes, but not the relation"."""


class VerdictTask:
    """What is decided: the words that claim it, the labels and members that hold it, from `data/verdicts.txt`."""

    def __init__(self, name: str) -> None:
        lists = word_lists("verdicts")
        self.claim = ignoring_case(lists[name])
        """Its words in a sentence; a negation before them, or their own, turns them round."""
        self.label = ignoring_case(
            rf"(?:^|(?<=[\s.;(]))(?:{lists['label']}|{lists[f'{name}_label']})\s*"
            r"(?:(?:is|ist|est|es|é|è)\s*[:：]?|[:：=?？]|->|→|是|は|\s[-–—]\s)\s*"
        )
        self.keys = frozenset(lists[f"{name}_keys"].split("|"))
        self.turned = frozenset(lists[f"{name}_turned_keys"].split("|"))
        """Members whose truth means no."""


_SUPPORTED, _ANSWERABLE = VerdictTask("supported"), VerdictTask("answerable")


def parse_supported(reply: str) -> ParsedReply[bool]:
    """Return whether a reply says that a triple is supported by its text.

    Raises:
        ParseError: it does not say, or says both.

    >>> parse_supported("No doubt about it: supported.").answer, parse_supported('{"verdict": "not supported"}').answer
    (True, False)
    """
    return _parse_verdict(reply, _SUPPORTED)


def parse_answerable(reply: str) -> ParsedReply[str]:
    """Return "yes" or "no" for whether a reply says that a question can be answered from its context.

    Raises:
        ParseError: it does not say, or says both.

    >>> parse_answerable("The table does not contain the year.").answer, parse_answerable('{"answer": true}').answer
    ('no', 'yes')
    """
    read = _parse_verdict(reply, _ANSWERABLE)
    return ParsedReply("yes" if read.answer else "no", read.rule, read.thought)


def _parse_verdict(reply: str, task: VerdictTask) -> ParsedReply[bool]:
    """Return the verdict of a reply, from its JSON or else its words; ParseError where it has none, or both."""

    def read(version: AnswerVersion) -> tuple[bool, str] | None:
        verdicts, rule = _json_verdicts(version, task), "json"
        if verdicts is None:
            verdicts, rule = _parse_words(version.text, task)
        if verdicts is not None and len(verdicts) != 1:
            raise ParseError(f"no verdict, or two: {version.whole.strip()[:80]!r}")
        return None if verdicts is None else (verdicts.pop(), rule)

    return parse_final_answer(reply, read, "no verdict, or two:", judged=True)


def _json_verdicts(version: AnswerVersion, task: VerdictTask) -> set[bool] | None:
    """Return the verdicts of the values in a reply; empty where they contradict; None where none has a verdict."""
    pieces = [piece for piece in version.pieces if piece.stands] or version.pieces
    verdicts = [verdict for piece in pieces for verdict in _piece_verdicts(piece, task)]
    if not verdicts:
        return None
    if None in verdicts or len(set(verdicts)) > 1:
        return set()
    return {verdict for verdict in verdicts if verdict is not None}


def _piece_verdicts(piece: Piece, task: VerdictTask) -> Iterator[bool | None]:
    """Yield the verdicts of a value; None where a member that must hold one holds none, or both."""
    if isinstance(piece.value, list) and len(piece.value) == 1 and not piece.is_cut:
        yield _value_verdict(piece.value[0], task)
    if not isinstance(piece.value, dict) or piece.is_cut:
        return
    members = normalize_members(piece.value)
    for key, inner in members.items():
        if isinstance(inner, dict) and key not in task.keys:
            yield from _piece_verdicts(piece._replace(value=inner), task)
    named = [key for key in members if key in task.keys]
    first = [key for key in named if key not in {"response", "output", "value", "result"}]
    for key in (first or named or [key for key in members if key in task.turned])[:1]:
        value = members[key]
        if isinstance(value, dict):
            yield from _piece_verdicts(piece._replace(value=value), task)
            continue
        verdict = _value_verdict(value, task)
        yield (not verdict) if key in task.turned and verdict is not None else verdict


def _value_verdict(value: Value, task: VerdictTask) -> bool | None:
    """Return the verdict of a member: a boolean, a word, a phrase, or the one item of a list."""
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return _value_verdict(value[0], task) if len(value) == 1 else None
    if not isinstance(value, str):
        return None
    verdicts, _ = _parse_words(value, task)
    return verdicts.pop() if verdicts is not None and len(verdicts) == 1 else None


def _parse_words(text: str, task: VerdictTask) -> tuple[set[bool] | None, str]:
    """Return the verdicts of a text and the rule: a label, its first word, or its claims; empty where they contradict.

    A yes that is limited ("yes, but not the relation", "everything but the last hop") is none, and a first word that
    the sentences after it contradict is none either.
    """
    verdicts, rule, scope = _find_statement(text, task)
    if verdicts == {True} and _LIMITED.search(_IDIOMS.sub(" ", scope)):
        return set(), ""
    first = _WORD.match(text.lstrip(" \n\t*_`([{#>'’\"“:：.-–—"))
    if rule == "first word" and first and verdicts == {is_yes := first["yes"] is not None}:
        rest = first.string[first.end() :]
        rest = rest if re.match(r"\W*(?:[,.;:!—–\n。，；！]|$)", rest) else ""
        sentences = [each for each in _sentences(rest) if not _OPPOSITE.search(each)]
        claims = {claim for each in sentences for claim in _sentence_claims(each, task)}
        if claims == {not is_yes} or (is_yes and _UNSAID.search(rest)):
            return set(), ""
    return verdicts, rule


def _find_statement(text: str, task: VerdictTask) -> tuple[set[bool] | None, str, str]:
    """Return the verdicts of a text, the rule that found them, and the words that may limit them."""
    plain_text = re.sub(r"[*_`\"“”]+", " ", text).strip()
    if _BOTH.search(plain_text):
        return set(), "", ""
    labelled = [
        (verdict, after[:300].partition("\n")[0])
        for match in task.label.finditer(plain_text)
        if (verdict := _leading_verdict(after := plain_text[match.end() :], task)) is not None
    ]
    if labelled:
        verdict, scope = labelled[-1]
        return ({verdict} if len({verdict for verdict, _ in labelled}) == 1 else set()), "labelled", scope
    alone = [_WORD.fullmatch(line.strip(" .!")) for line in plain_text.splitlines()]
    if len({match["yes"] is not None for match in alone if match}) > 1:
        return set(), "", ""
    if last := _LAST_WORD.search(plain_text):
        return {last["yes"] is not None}, "last word", ""
    leading = _leading_verdict(plain_text, task)
    claims = set(_sentence_claims(plain_text, task))
    start = plain_text.lstrip(" \n\t([{-–—#>'’:：.")
    if leading is not None and (_WORD.match(start) or _NOT_WHOLLY.match(start)):
        return {leading}, "first word", _first_sentences(plain_text)
    if claims:
        return (claims, "words", plain_text) if not _PARTLY.search(plain_text) else (set(), "", "")
    if leading is None and task is _ANSWERABLE and says_unanswerable(plain_text):
        return {False}, "words", ""
    return (None, "", "") if leading is None else ({leading}, "first word", _first_sentences(plain_text))


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?。！？])\s*|\n+|[;；]", text)


def _first_sentences(text: str) -> str:
    """Return the first sentence; after one word, with the second where that takes something back."""
    first, second = [*_sentences(text), ""][:2]
    return f"{first}, {second}" if len(first.split()) < 3 and re.match(rf"\W*{_LISTS['but']}", second, re.I) else first


_ADJECTIVES = frozenset({"no", "right", "correct", "true", "wrong", "incorrect", "false"})
"""Verdicts that before a noun speak of that only."""
_NOUN = re.compile(r"\s(?!(?:as|because|since|it|the|this|that|they|i|there|not|if|in)\b)[a-z]+\b")


def _leading_verdict(text: str, task: VerdictTask) -> bool | None:
    """Return the verdict that a text begins with: a word, or a claim right at its start."""
    start = text.lstrip(" \n\t([{-–—#>'’:：.,")
    if task is _ANSWERABLE and cues.COMPLETE.match(start):
        return True
    if _NOT_WHOLLY.match(start):
        return False
    if match := _IDIOMS.match(start):
        claims = set(_sentence_claims(start, task))
        if not claims and re.match(r"\W*$", start[match.end() :]):
            return True
        return claims.pop() if len(claims) == 1 else None
    if match := _WORD.match(start):
        rest = start[match.end() :]
        is_adjective = task is _SUPPORTED and match[0].lower() in _ADJECTIVES and _NOUN.match(rest)
        no_doubt = match["no"] and re.match(r"[\s]+(?:\w+\s+){0,1}(?:doubt|question)", rest)
        is_choice = re.match(r"\s*(?:/|\||or\b|and\b|oder\b)", rest, re.IGNORECASE)
        return None if is_adjective or no_doubt or is_choice else match["yes"] is not None
    first = re.split(r"[.!?\n。！？,;:—–]", start, maxsplit=1)[0]
    if len(first.split()) <= 4 and start[len(first) : len(first) + 1] != "?":
        claims = set(_sentence_claims(first, task))
        return claims.pop() if len(claims) == 1 else None
    return None


def _sentence_claims(text: str, task: VerdictTask) -> Iterator[bool]:
    """Yield the claims of the sentences of a text, without suppositions and claims about other things."""
    for sentence in _sentences(text):
        if _SUPPOSED.search(sentence) or _OTHER_CLAIM.search(sentence) or cues.REFUSAL.search(sentence):
            continue
        sentence = _CONCEDED.sub(" ", sentence)
        if task is _ANSWERABLE and cues.COMPLETE.search(sentence):
            yield True
            continue
        for match in task.claim.finditer(sentence):
            groups, after = match.groupdict(), sentence[match.end() :]
            if after.startswith(" that "):  # "it is true that ..."
                continue
            start = sentence[max(0, match.start() - 200) : match.start()]
            before = _IDIOMS.sub(" ", start)
            is_far = task is _ANSWERABLE and (_ANY_NOT.search(before) or _NOT_AFTER.match(after))
            negated = bool(_NOT.search(before) or _NOTHING_BEFORE.search(before) or is_far)
            is_claimed = groups.get("against") is None and groups.get("neg") is None
            yield (is_claimed != negated) != bool(_OUTER_DENIAL.search(start))
