"""Cues by which replies mark what counts: final, draft, rejected, repeated, none, refused (`data/cues.txt`).

They are searched in prose only, never inside a value.
"""

import re

from kbbench_hf.parsing.word_lists import word_lists
from kbbench_hf.text.patterns import lazy_pattern

_LISTS = word_lists("cues")


def _cue(name: str, template: str = "{}") -> "re.Pattern[str]":
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
"""What announces the answer that holds."""
SECOND_THOUGHTS = _cue("second_thoughts", rf"{_SENTENCE}{{}}")
"""What takes back what stands before it."""
RETRACTIONS = _cue("retractions")
"""In second thoughts: what stands before them is wrong."""
DRAFT = _cue("draft")
"""In a heading: what stands under it was tried."""
REJECTED = _cue("rejected")
"""In a heading: what stands under it was thrown away."""
REPEATED = _cue("repeated")
"""In a heading: what stands under it is from the prompt."""
GIVEN = _cue("given")
"""In a heading that names no answer: what stands under it is from the prompt."""
BEFORE_REJECTED = _cue("before_rejected", r"{}[^\n\ue000]{0,160}$")
"""Before a value, in its sentence: it is not the model's answer."""
AFTER_REJECTED = _cue("after_rejected", r"^[\s\"'`)*,;:–—-]{0,6}{}")
"""Right after a value: it is not the model's answer."""
NEW_INPUT = lazy_pattern(
    rf"^[ \t>#*_\-]{{0,8}}(?:{_LISTS['new_input']})\s*(?:no\.?\s*)?#?\d{{0,3}}\s*[*_]{{0,3}}(?:[:：]|\n)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that gives an input: repeated before the answer, or made up after it."""
REFUSAL = _cue("refusal")
"""The model does not do what was asked."""
OTHERS = _cue("others")
"""None beside those given."""
NONE = _cue("none")
"""Said in words: there is nothing of what was asked for."""
SINGLE = _cue("single", rf"{{}}|{_LISTS['none']}")
"""Said in words: a statement holds a single fact."""
COMPLETE = _cue("complete")
"""Said in words: what was given lacks nothing."""
UNANSWERABLE = _cue("unanswerable")
"""Said in words: what was given does not hold the answer."""
