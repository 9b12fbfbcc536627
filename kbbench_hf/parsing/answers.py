"""The answers to a question that a reply gives: a list of texts, empty where it says that there is none.

Benchmarks with answer lists and the metric module `answer_f1` call `parse_answers`, `verdicts` the other function.
The rules are tried in this order: JSON, a label ("Answer:"), a list, one text in bold, a bare name or number, words.
"""

import re
from collections.abc import Callable
from itertools import pairwise

from kbbench_hf.parsing import cues
from kbbench_hf.parsing.answer_lists import (
    CORRECTED,
    LISTS,
    NOT_BUT,
    REMARK,
    TAKEN_BACK,
    Split,
    clean_answer,
    json_answers,
    split_answers,
)
from kbbench_hf.parsing.final_answer import AnswerVersion, parse_final_answer
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.parsing.wrappers import BESIDE
from kbbench_hf.text.folding import ignoring_case, lazy_pattern

_LABEL = ignoring_case(
    rf"(?:^|(?<=[\n.!?:,，]))[ \t>#*_\-–•]{{0,8}}{LISTS['before_label']}{LISTS['label']}"
    rf"[*_]{{0,3}}\s*(?:{LISTS['is']}[ \t]*[:：]?|[*_]{{0,3}}[ \t]*(?=\n))[ \t]*"
)
_MARK = lazy_pattern(
    r"\*\*([^*\n]{1,200})\*\*|__([^_\n]{1,200})__|(?<![\w`])`([^`\n]{1,200})`(?!`)|【([^】\n]{1,200})】"
)
_ITEM = lazy_pattern(r"^[ \t>]*(?:[-–—*•·+]|\(?\d{1,3}[.)])\s+(.+?)\s*$")
_NAME = lazy_pattern(r"(?:(?:(?:[^\W\d_]{1,3}|with|from|into|like|over|upon|[A-ZÀ-Þ]\S*)(?!\S))\s*)+")
_OF_DENIALS = ignoring_case(LISTS["of_denials"])
"""Words about the answer: a line with one of them is no name, even in capitals."""
_LONGEST_BARE = 12
"""The most words of a reply that is only an answer."""
_SEVERAL = ignoring_case(LISTS["several"])
"""In a question: it asks for several answers."""
_PLURAL = ignoring_case(LISTS["plural"])
"""In a label: several answers follow."""
_NOT_GIVEN = ignoring_case(LISTS["not_given"])
_SENTENCE = ignoring_case(rf"{LISTS['sentence']}|[:：](?!\d)|[{{}}\[\]?？]|[.。!！](?<!\b[A-Z]\.)(?!\d)\s*\S")
"""What an answer alone does not hold: a verb of saying, a colon, another sentence."""
_NO_ANSWER = ignoring_case(rf"\W*{LISTS['no_answer']}\W*")
_STRAIGHT = str.maketrans("“”«»「」", '""""""')
_ROLE = ignoring_case(r"(?:<[^<>\n]{1,40}>|\W)*(?:user|assistant|system|model|human|tool|developer|bot)\W*")
"""A word of a chat template, alone."""
_TWICE = lazy_pattern(r"\{[^{}]{0,99}?\"(answers?)\"\s*:[^{}]{0,300}?\"\1\"\s*:")
"""An object with two members of one name; JSON would keep only one."""


def parse_answers(
    reply: str, question: str = "", is_name: Callable[[str], bool] = lambda name: False
) -> ParsedReply[list[str]]:
    """Return the answers of a reply, in order; none where it says that the context does not hold the answer.

    Args:
        reply: what the model wrote.
        question: the question; it may ask for several answers.
        is_name: whether the context holds this text as one name, though it has a comma or an "and".

    Raises:
        ParseError: it gives none and does not say so, breaks off, or can be read in two ways.

    >>> parse_answers('I thought of {"answer": ["Lyon"]}</think>{"answers": [{"name": "Paris"}]}').answer
    ['Paris']
    >>> parse_answers("The answer is **Paris**.").answer, parse_answers("无法回答这个问题。").answer
    (['Paris'], [])
    >>> parse_answers("Answer: 28 and 30").answer, parse_answers("Answer: not 28 but 30").answer
    (['28', '30'], ['30'])
    """
    asks_for_several = bool(_SEVERAL.search(question[:1000]))

    def split(line: str, several: bool) -> list[str]:
        return split_answers(line, several or asks_for_several, is_name)

    def read(version: AnswerVersion) -> tuple[list[str], str] | None:
        return _parse_version(version, question, split)

    return parse_final_answer(reply, read, "no answer, and no word that there is none:", source=question)


def _parse_version(version: AnswerVersion, question: str, split: Split) -> tuple[list[str], str] | None:
    """Return the answers of one version and the name of the rule, stored with each prediction; None without answers."""
    if _TWICE.search(version.whole):
        raise ParseError("an object with two members 'answer'")
    values = [
        (piece, answers)
        for piece in version.pieces
        if (answers := json_answers(piece.value, 0, question, split)) is not None
    ]
    values = [each for each in values if each[0].stands] or [each for each in values if isinstance(each[0].value, dict)]
    if any(piece.is_cut for piece, _ in values) or (not values and any(piece.is_cut for piece in version.pieces)):
        return None
    if values:
        lists = list(dict.fromkeys(tuple(answers) for _, answers in values))
        if len(lists) > 1 and not _stand_in_a_row(version):
            return None
        merged = [answer for each in lists for answer in each]
        return list(dict.fromkeys(merged)) if len(lists) > 1 else merged, "json"
    text = _without_repeated_heading(version.text)
    rules = {"labelled": _parse_labeled, "list": _parse_list, "marked": _parse_bold, "alone": _parse_bare}
    for rule, read in rules.items():
        if (answers := read(text, split)) is not None:
            return answers, rule
    return ([], "none, in words") if says_unanswerable(text) else None


def _without_repeated_heading(text: str) -> str:
    r"""Return a text without the heading that it repeats until its end, where the last one may be cut off.

    >>> _without_repeated_heading("It is old.\nThe answer is:\n\nThe answer is:\n\nThe answer is:\nThe ans")
    'It is old.'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines.pop() if lines and not lines[-1].rstrip("*_ ").endswith((":", "：")) else ""
    heading, n = lines[-1] if lines else "", len(lines)
    while lines and lines[-1] == heading:
        lines.pop()
    is_cut = heading.startswith(last) and (" " in last or n - len(lines) > 2)
    repeats = n - len(lines) > 1 and heading.rstrip("*_ ").endswith((":", "：")) and (not last or is_cut)
    return "\n".join(lines) if repeats else text


def _stand_in_a_row(version: AnswerVersion) -> bool:
    """Whether only white space separates the values."""
    pieces = version.pieces
    return all(not version.text[one.end : other.start].strip(" \n,;") for one, other in pairwise(pieces))


def _parse_labeled(text: str, split: Split) -> list[str] | None:
    """Return the answers behind "Answer:" or "the answer is", or the items of the list under it."""
    labels = [
        label for label in _LABEL.finditer(text) if not _IF.search(text, max(0, label.start() - 120), label.start())
    ]
    answers: list[str] | None = None
    for position in reversed(range(len(labels))):
        label = labels[position]
        if answers is None:
            answers = _answers_under(text, label, split)
            continue
        line, end = _line_after(text, label)
        follows = labels[position + 1]
        if not line or line.endswith((":", "：")) or "\n" not in text[end : follows.start() + 1]:
            continue
        is_next = not text[end : follows.start()].strip(" \t\n>#*_-–•")
        alike = re.sub(r"[\W\d]+", "", label[0].casefold()) == re.sub(r"[\W\d]+", "", labels[-1][0].casefold())
        if not alike or len(line.split()) > 6:
            break
        before = _answers_under(text, label, split)
        if before is not None and before != answers:
            if not is_next or not (before and answers):
                raise ParseError(f"answers {before!r:.60} and {answers!r:.60}")
            answers = [*before, *answers]
    return answers


_IF = lazy_pattern(r"\b(?:if|had|were|would|wenn|falls|si|se)\b[^.!?\n]*$", re.IGNORECASE)


def _line_after(text: str, label: "re.Match[str]") -> tuple[str, int]:
    """Return the rest of a label's line, stripped, and where the line ends."""
    end = text.find("\n", label.end())
    end = len(text) if end < 0 else end
    return text[label.end() : end].strip(), end


def _answers_under(text: str, label: "re.Match[str]", split: Split) -> list[str] | None:
    """Return the answers behind a label, or in the list or the lines under it; None where there are none."""
    line, several = _line_after(text, label)[0], bool(_PLURAL.search(label[0]))
    block = text[label.end() : label.end() + 4000].split("\n\n", 1)[0].splitlines()
    while len(block) > 1 and line and re.search(r"(?:[,;、]|\b(?:and|und|et|y))$", line):
        line = f"{line} {block.pop(1).strip()}"
    if len(block) > 1 and all(re.fullmatch(r"\s*[\d.,]+\s*", each) for each in block):
        return [each.strip() for each in block]
    if not line.strip("*_ ") or (len(block) > 1 and (_ITEM.match(line) or line.endswith(":"))):
        if items := _list_items(text[label.end() :]):
            return items if len(items) > 1 else _split_line(items[0], several, split)
        lines = [each for each in text[label.end() :].strip("*_ \n").splitlines() if each.strip()]
        if len(lines) > 1:
            return _parse_lines(lines)
        line = lines[0] if lines else ""
    if _LABEL.match(line):  # a reply that repeats its label
        return None
    if re.match(r"(?:n?either|maybe|perhaps|probably|possibly|likely)\b", line, re.IGNORECASE):
        raise ParseError(f"{line[:80]!r} is not certain")
    if correction := NOT_BUT.match(line):
        line = line[correction.end() :]
    denies = len(line.split()) > 2 and _denies_answer(line)
    if denies or _NOT_GIVEN.match(line) or _NO_ANSWER.fullmatch(line):
        return []
    if re.match(r"not\b", line):
        raise ParseError(f"{line[:80]!r} says what is not the answer")
    if marked := _bold_texts(line):
        return marked if len(marked) > 1 else _split_line(marked[0], several, split)
    return _split_line(line, several, split) if line else None


def _split_line(line: str, several: bool, split: Split) -> list[str] | None:
    """Return the answers of a line, without what it takes back; None where it is a sentence, or breaks off."""
    if len(line) <= 400:
        line = CORRECTED.sub("", line)
    answer = clean_answer(line)
    if answer and f'"{answer}"' in line.translate(_STRAIGHT) and re.search(r"[^\W\d]", answer):
        return [answer]
    return split(answer, several) if answer else None


def _list_items(text: str) -> list[str]:
    """Return the items of the list that a text begins with."""
    items: list[str] = []
    for line in text.strip("\n ").removeprefix("**").splitlines():
        if not line.strip():
            if items:
                break
            continue
        match = _ITEM.match(line)
        if match is None:
            break
        items.append(match[1])
    return _clean_items(items)


def _clean_items(items: list[str]) -> list[str]:
    """Return items without marks and remarks.

    Raises:
        ParseError: each is a name and what is said of it, "Petrel: 28".
    """
    answers = [answer for item in items if (answer := clean_answer(item))]
    if len(answers) > 1 and all(re.search(r"\w: \S", answer) for answer in answers):
        raise ParseError(f"of {answers[0]!r:.80} it is not certain which part is the answer")
    return answers


def _parse_list(text: str, split: Split) -> list[str] | None:
    """Return the items of a list, or the lines, that are all of the text but for a heading."""
    lines = [line for line in text.splitlines() if line.strip()]
    while lines and lines[0].rstrip(" *_").endswith((":", "：")):
        lines = lines[1:]
    items = [_ITEM.match(line) for line in lines]
    if not lines or any(map(_denies_answer, lines)):
        return None
    if not all(items):
        return _parse_lines(lines) if len(lines) > 1 else None
    answers = _clean_items([item[1] for item in items if item])
    is_text = any(len(answer.split()) > _LONGEST_BARE or _ROLE.fullmatch(answer) for answer in answers)
    if len(answers) < len(lines) or is_text:
        return None
    return answers if len(answers) > 1 else split(answers[0], False)


def _parse_lines(lines: list[str]) -> list[str] | None:
    """Return the answers of lines that hold one each; None where one of them is more than a name or a number."""
    if any("|" in line or len(line.split()) > 6 or line.strip()[:1].islower() or _ITEM.match(line) for line in lines):
        return None
    answers = [_parse_bare(line, lambda line, several: [line]) for line in lines]
    return [answer[0] for answer in answers if answer] if all(answers) else None


def _parse_bold(text: str, split: Split) -> list[str] | None:
    """Return the answers in bold in a text of one sentence."""
    if len(text.strip().splitlines()) != 1 or _denies_answer(text):
        return None
    marks = _bold_texts(text)
    if any(map(_ROLE.fullmatch, marks)):
        return None
    return marks if len(marks) > 1 else split(marks[0], False) if marks else None


def _bold_texts(text: str) -> list[str]:
    """Return the texts in bold, where only commas and the like separate them."""
    spans = list(_MARK.finditer(text))
    if not all(BESIDE.fullmatch(text, one.end(), other.start()) for one, other in pairwise(spans)):
        return []
    marks = [next(each for each in match.groups() if each) for match in spans]
    return [answer for mark in marks if (answer := clean_answer(mark))]


def _parse_bare(text: str, split: Split) -> list[str] | None:
    """Return a reply that is nothing but a name, a number, or several of them."""
    line = text.strip()
    if "\n" in line or not line or len(line.split()) > _LONGEST_BARE or len(line) > 120 or _ROLE.fullmatch(line):
        return None
    if _NO_ANSWER.fullmatch(line):
        return []
    if correction := NOT_BUT.match(line) or CORRECTED.match(line) or TAKEN_BACK.match(line):
        line = line[correction.end() :]
    line = REMARK.split(line, maxsplit=1)[0]
    if not line or (_SENTENCE.search(line) or _denies_answer(line) or cues.REFUSAL.search(line)):
        return None
    answer = clean_answer(line)
    if sum(word[0].islower() for word in line.split()) > 4 or (cues.NONE.search(line) and len(line.split()) > 4):
        return None
    return split(answer, False) if answer and (not answer[0].islower() or len(answer.split()) <= 3) else None


def _denies_answer(line: str) -> bool:
    """Whether a line says that there is no answer; a name in capitals, as "Nothing but Trouble", says nothing."""
    is_name = _NAME.fullmatch(line.strip(" *_`\"'“”.-–•0123456789)")) and not _OF_DENIALS.search(line)
    return not is_name and bool(cues.UNANSWERABLE.search(line))


def says_unanswerable(text: str) -> bool:
    """Return whether a text says in words that the context holds no answer; a refusal of the task does not say so.

    >>> says_unanswerable("Die Tabelle enthält die Angaben nicht."), says_unanswerable("I can't help with that.")
    (True, False)
    """
    sentences = filter(cues.UNANSWERABLE.search, re.split(r"(?<=[.!?;。！？])\s*|\n+", text))
    return any(not cues.REFUSAL.search(each) and not cues.COMPLETE.search(each) for each in sentences)
