"""Cues by which replies mark what counts: final, draft, rejected, repeated, none, refused (`data/cues.txt`).

They are searched in prose only, never inside a value. `word_lists` reads such data files: rows of regular expressions
under names, joined to one expression each. All parsers use them. A row may be added; one that is taken away lets a
draft or a rejected item count as the answer.
"""

import re
from functools import cache
from importlib.resources import files

from kbbench_hf.text.folding import lazy_pattern


@cache
def word_lists(name: str) -> dict[str, str]:
    r"""Return the expressions of a data file by name, each an alternation of its rows.

    Rows of a list of whole words match whole words only; those in scripts without spaces match anywhere. An indented
    line continues the row above it. `@name@` stands for an earlier list of the file.

    >>> word_lists("cues")["others"].startswith(r"\b(?:others?|else|")
    True
    """
    text = (files("kbbench_hf.parsing") / "data" / f"{name}.txt").read_text(encoding="utf-8")
    lists: dict[str, str] = {}
    for heading, body in re.findall(r"^\[(.+)\]\n((?:(?!\[[a-z_, ]+\]$).*\n)*)", text, re.MULTILINE):
        key, _, words = heading.partition(", ")
        rows = body.replace("\n  ", "").splitlines()
        if words:
            rows = [rf"\b(?:{row})(?!\w)" if row < "\u0600" else row for row in rows]
        lists[key] = re.sub(r"@(\w+)@", lambda match: lists[match[1]], "|".join(rows))
    return lists


_LISTS = word_lists("cues")


def _cue(name: str, template: str = "{}") -> "re.Pattern[str]":
    """Return the pattern of a list in any case, with the list in place of each `{}` of the template."""
    return lazy_pattern(template.replace("{}", f"(?:{_LISTS[name]})"), re.IGNORECASE)


_LINE = r"(?:^|(?<=\n))[ \t>#*_\-–—•\"'(\[【]{0,12}(?:\d{1,2}[.)]\s*)?[*_]{0,3}"
"""Where a line's words begin, after list markers and emphasis."""
_SENTENCE = r"(?:^|(?<=[\n.!?:;。！？\ue000)\]}\"']))[ \t>#*_\-–—•\"'(]{0,12}"
"""Where a sentence's words begin."""
_COLON = r"[*_\"')\]】]{0,4}[ \t]{0,3}(?:[:：=][*_]{0,3}|(?=\n)|(?=\ue000))"
"""What ends a label: a colon, the line, or the value itself."""
_FINAL = rf"(?:final|revised|corrected|amended|updated|fixed)(?:\s+(?:{_LISTS['answers']}))"
FINAL = _cue(
    "final",
    rf"{_LINE}{{}}{_COLON}|{_SENTENCE}(?:(?:my|the|our|here is (?:my|the))\s+)?{_FINAL}{{1,2}}"
    rf"(?:\s+(?:is|are|now reads?|reads?|would be|should be))?{_COLON}"
    rf"|{_SENTENCE}(?:{_FINAL}?|correction|revision)\s*[:：]|{_LINE}{_FINAL}?\s*(?:[-–—=]>?|→)\s*",
)
"""A label of the final answer."""
SECOND_THOUGHTS = _cue("second_thoughts", rf"{_SENTENCE}{{}}")
"""The beginning of a correction of the text before it."""
RETRACTIONS = _cue("retractions")
"""In a correction: the text before it is wrong."""
DRAFT = _cue("draft")
"""In a heading: a draft follows."""
REJECTED = _cue("rejected")
"""In a heading: rejected items follow."""
REPEATED = _cue("repeated")
"""In a heading: text of the prompt follows."""
GIVEN = _cue("given")
"""In a heading that names no answer: text of the prompt follows."""
BEFORE_REJECTED = _cue("before_rejected", r"{}[^\n\ue000]{0,160}$")
"""Before a value, in its sentence: the value is not the model's answer."""
AFTER_REJECTED = _cue("after_rejected", r"^[\s\"'`)*,;:–—-]{0,6}{}")
"""Right after a value: the value is not the model's answer."""
NEW_INPUT = lazy_pattern(
    rf"^[ \t>#*_\-]{{0,8}}(?:{_LISTS['new_input']})\s*(?:no\.?\s*)?#?\d{{0,3}}\s*[*_]{{0,3}}(?:[:：]|\n)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that gives an input: repeated before the answer, or made up after it."""
REFUSAL = _cue("refusal")
"""The model refuses the task."""
OTHERS = _cue("others")
"""None beside those given."""
NONE = _cue("none")
"""In words: there is no triple."""
SINGLE = _cue("single", rf"{{}}|{_LISTS['none']}")
"""In words: a statement holds a single fact."""
COMPLETE = _cue("complete")
"""In words: the context lacks nothing."""
UNANSWERABLE = _cue("unanswerable")
"""In words: the context does not hold the answer."""
