"""Split one line of a reply into its answers (`28; 30`, `28, 30`, `28 and 30`, `甲、乙`), or those of JSON values.

A comma or an "and" may belong to one name ("Trinidad and Tobago", "Johnson City, Tennessee", "May 3, 1999"). It
separates answers where both sides are numbers or dates, or where the reply or the question speaks of several. Where two
careful people could differ, the line is refused. `answers` alone uses this; the word lists are in `data/answers.txt`.
"""

import re
from collections.abc import Callable, Iterator
from importlib.resources import files

from kbbench_hf.parsing.cues import word_lists
from kbbench_hf.parsing.lenient_json import CutList, CutObject, Value, normalize_key, normalize_members
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.text.dates import MONTH, WEEKDAYS
from kbbench_hf.text.folding import ignoring_case, lazy_pattern

LISTS = {name: f"(?:{rows})" for name, rows in word_lists("answers").items()}
"""The word lists of answers, each as a group."""
_MONTH, _WEEKDAY, _AND = rf"(?:{MONTH})\b\.?", rf"(?:{'|'.join(WEEKDAYS)})\b", LISTS["and"]


def _names_pattern(file: str) -> str:
    """Return an expression for the names of a data file, which has bars and line ends between them."""
    text = (files("kbbench_hf.parsing") / "data" / file).read_text(encoding="utf-8")
    return "|".join(map(re.escape, text.strip().replace("\n", "|").split("|")))


_JOINED_NAMES = rf"(?i:\b(?:{_names_pattern('names_with_and.txt')})\b)"
"""Names in which no word but knowledge shows that they are one."""
_PLACE = lazy_pattern(rf"(?:{_names_pattern('places.txt')}|{_JOINED_NAMES}|[A-Z]{{2}}|[A-Z]\.[A-Z]\.)(?![\w-])")
"""A state, a province or a country behind the name of a place ("Lima, Peru", "Austin, TX")."""
_TOKENS = lazy_pattern(
    rf"{_JOINED_NAMES}|"
    r"\"[^\"\n]*\"|“[^”\n]*”|«[^»\n]*»|「[^」\n]*」|《[^》\n]*》|\([^()\n]*\)|\[[^\[\]\n]*\]|（[^（）\n]*）"
    r"|(?P<hard>\s*(?:;(?!\S)|[；|｜、\n\t])\s*(?:and\b\s*)?|(?<=[^\W\d_])，\s*|(?<=\d)，\s*|(?<=\d);(?=\d))"
    rf"|(?P<comma>\s*[,،]\s+(?:{_AND}\s+)?|;)|(?P<and>\s+(?:{_AND}|as well as)\s+|(?<=\d)\s+(?:en|i|a)\s+(?=\d)"
    r"|(?<=\d)\s*[和与與及と와과]\s*(?=\d))"
    r"|(?P<or>\s+(?:and/or|or|oder|ou|или)\s+|(?<=[가-힣])[와과]\s+|\s+/\s+|\s*(?:或者?|または|또는)\s*"
    r"|(?<=\w{2})(?<!共)[和与及](?![平谐国])(?=\w{2}))"
)
_NUMBER = ignoring_case(
    r"(?:about |around |approximately |~|≈|ca\.? )?[-+−]?[$€£¥₹#]?\s?\d[\d,.'\u202f\u00a0]*(?:\s?(?P<unit>%|°\w?"
    r"|[^\W\d_]{1,12}[²³]?(?:/\w{1,4})?(?:\s[^\W\d_A-Z]{1,12})?))?(?:\s?\([^()]*\))?"
)
_UNIT = ignoring_case(LISTS["unit"])
"""Units of one dimension, which together make one measure: "5 years and 7 months"."""
_SUFFIX = lazy_pattern(rf"{LISTS['suffix']}\b")
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_WEEKDAY_BEFORE = ignoring_case(rf"{_WEEKDAY}(?:\s+{_DAY})?\s*$")
_MONTH_BEFORE = ignoring_case(rf"(?:{_MONTH}(?:\s+{_DAY})?|\d{{1,2}}\.? {_MONTH})\s*$")
_YEAR_AFTER = ignoring_case(r"(?:in )?\d{4}\b")
_DATE_AFTER = ignoring_case(rf"{_YEAR_AFTER.pattern}|\d{{1,2}}\s+{_MONTH}|{_MONTH}\s+\d")
_DATE = ignoring_case(rf"(?:{_MONTH}\s+{_DAY}|{_DAY}\.?\s+{_MONTH})(?:,?\s+\d{{4}})?")
"""A day of a month, with its year or without."""
_ARTICLE = lazy_pattern(r"(?:the|a|an|de|la|el|le|das|der|die|[Hh]er|[Hh]is|[Mm]y|its|[Tt]heir)\s")
_BODY = lazy_pattern(rf"\b{LISTS['body']}\W*$")
"""What ends a name of two: "Central American and Caribbean Games", "University of Science and Technology"."""
_SHAPE = ignoring_case(rf"({_MONTH}|{_WEEKDAY})|\d+(?:[.,:/]\d+)*")
_WRITTEN = {"comma": ", ", "and": " and ", "&": " & ", "oxford": ", and "}
_QUOTES = {'""', "“”", "«»", "「」", "《》"}

REMARK = ignoring_case(LISTS["remark"])
"""The beginning of a remark after an answer in its line."""
NOT_BUT = ignoring_case(
    rf"(?:it(?:['’]s| is) )?{LISTS['not']}(?!\s*{LISTS['not_only']}\b)\s*\S.{{0,80}}?"
    rf"[,，]?\s*{LISTS['not_but']}\s*(?=\S)"
)
"""What an answer is not: "not 28 but 30"."""
CORRECTED = ignoring_case(
    r"^.*(?:[,;?!…–—]|\.\.|\s-\s)\s*(?:(?:no|oh|hmm+|ah|sorry|but)[, ]+)*"
    rf"{LISTS['corrected']}(?:{LISTS['corrected_more']}\b[,.: ]*){{0,3}}(?=\w)"
)
"""What an answer takes back in its own line."""
TAKEN_BACK = ignoring_case(
    r"(?:(?:but|no|oh|ah|hmm+|wait|sorry|actually|correction|hold on|i mean|or rather|scratch that)[,.:;!…–—-]+\s*)+"
    r"(?:(?:it|that)(?:['’]s| is)\s+)?(?=\w)"
)
"""How a correction begins."""


def split_answers(line: str, several: bool = False, is_name: Callable[[str], bool] = lambda name: False) -> list[str]:
    """Return the answers in a line, each as it is written.

    Args:
        line: an answer line without its label.
        several: whether the question asks for several answers, or the reply announces several.
        is_name: whether what was given holds this text as one name.

    >>> split_answers("28 and 30"), split_answers("1,500, 2,500"), split_answers("Lima, Peru; Trinidad and Tobago")
    (['28', '30'], ['1,500', '2,500'], ['Lima, Peru', 'Trinidad and Tobago'])

    Raises:
        ParseError: the line may be one answer or several.
    """
    if len(line) > 400 or (_TOKENS.search(line) and is_name(line)):
        return [line]
    if (inner := re.fullmatch(r"[(\[{]([^()\[\]{}]*)[)\]}]", line)) and _TOKENS.search(inner[1]):
        line = inner[1].strip()
    if re.match(r"\(?(?:1|a|i)[.)]\s", line, re.I) and re.search(r"\s\(?(?:2|b|ii)[.)]\s", line, re.I):
        parts = re.split(r"(?:^|[,;]?\s+)\(?(?:\d{1,2}|[a-h]|[ivx]{1,4})[.)]\s+", line, flags=re.I)
        return [part.strip(" ,;.") for part in parts if part.strip(" ,;.")]
    both = re.match(r"both\s+(?=.+\sand\s)", line, re.IGNORECASE)
    line = line[both.end() :] if both else line
    joined = re.fullmatch(r"[\d\s.,]*\d+,\d+(?:,\d+)+|\d{4,}(?:,\d{4,})+", line)
    if joined and not re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", line):
        if re.search(r",0\d*(?:,|$)", line):  # "1,000,2,000"
            raise ParseError(f"{line!r} may be one number or several")
        return [each.strip() for each in line.split(",")]
    if (pair := re.fullmatch(r"(\d{1,2}),(\d{2})", line)) and len(pair[1]) == 2:
        raise ParseError(f"{line!r} may be one number or two")
    parts = _TOKENS.sub(lambda token: "\n" if token["hard"] else token[0], line).split("\n")
    if "、" in line:
        parts[-1:] = re.split(r"(?<=\w)(?:和|与|與|以?及)(?=\w{2})", parts[-1], maxsplit=1)
    if len(parts) > 1:
        answers = [each for part in parts if part.strip() for each in _split_numbers(part.strip()) or [part.strip()]]
    else:
        answers = _split_or_refuse(line, several or bool(both), is_name)
    if len(answers) > 1 and "(" not in "".join(answers[:-1]):  # "28, 30 (two ships)"
        answers[-1] = re.sub(r"\s+\([^()]*\)$", "", answers[-1])
    return [_strip_quotes(each) for each in answers] if len(answers) > 1 else answers


def _split_numbers(part: str) -> list[str] | None:
    """Return the numbers of a part between semicolons that holds nothing else ("18, 20")."""
    return re.split(r",\s+(?:and\s+)?|\s+and\s+", part) if re.fullmatch(r"[\d.,\s]+(?:and[\d.\s]+)?", part) else None


def _cut_at_separators(line: str) -> tuple[list[str], list[str]]:
    """Return the parts of a line, and the kinds of separators between them; a comma inside a name is none."""
    parts, kinds, start = [], [], 0
    for token in _TOKENS.finditer(line):
        kind = token.lastgroup
        if kind is None or not token.start() or (kind == "comma" and _is_within_name(line, start, token)):
            continue
        parts.append(line[start : token.start()].strip())
        kinds.append("oxford" if kind == "comma" and token[0].strip() not in {",", "،", ";"} else kind)
        kinds[-1] = "&" if kind == "and" and "&" in token[0] else kinds[-1]
        start = token.end()
    return [*parts, line[start:].strip()], kinds


def _is_within_name(line: str, start: int, comma: "re.Match[str]") -> bool:
    """Return whether a comma is part of a date, of a name with "Jr." behind it, or of a place and where it is.

    `start` is where the part begins that the comma would end.
    """
    before, after = line[start : comma.start()], line[comma.end() : comma.end() + 60]
    if _WEEKDAY_BEFORE.search(before[-24:]) and _DATE_AFTER.match(after):
        return True
    if (_MONTH_BEFORE.search(before[-24:]) and _YEAR_AFTER.match(after)) or _SUFFIX.match(after):
        return True
    place = _PLACE.match(after)
    behind = place is not None and re.match(r"\s*(?:$|[,;.(]|and\b|&|or\b)", after[place.end() :])
    last = [re.sub(r"\([^()]*\)$", "", each).strip() for each in line[: comma.start()].split(",")[-2:]]
    return bool(behind) and before.strip()[:1].isalpha() and not any(map(_PLACE.fullmatch, last))


def _split_or_refuse(line: str, several: bool, is_name: Callable[[str], bool]) -> list[str]:
    """Return the answers of a line whose separators may also be inside a name.

    Raises:
        ParseError: the line may be one answer or several.
    """
    items, separators = _cut_at_separators(line)
    if not separators:
        return [line]
    if all(map(is_name, items)):
        return items
    numbers = [_NUMBER.fullmatch(item) for item in items]
    if "or" not in separators and all(items):
        if all(map(_DATE.fullmatch, items)):
            return items
        if all(numbers):
            units = [(number["unit"] or "").casefold().rstrip("s.") for number in numbers if number]
            if set(units[:-1]) <= {"", units[-1]} or len(items) > 2:
                return items
            if _UNIT.fullmatch(" ".join(units)):
                return [line]
        elif (len({_mask_numbers(item) for item in items}) == 1 and _SHAPE.search(items[0])) or (
            all(item[:1] + item[-1:] in _QUOTES for item in items)
        ):
            return items
        elif not any(numbers) and (names := _split_names(items, separators, several)):
            return names
    raise ParseError(f"{line[:80]!r} may be one answer or several; expected one answer a line")


def _split_names(items: list[str], separators: list[str], several: bool) -> list[str] | None:
    """Return names as one or several; None where it is not certain."""
    line = items[0] + "".join(_WRITTEN[kind] + item for kind, item in zip(separators, items[1:], strict=True))
    if all(map(_PLACE.fullmatch, items)):
        return items
    if max(len(item.split()) for item in items) > 7:
        return None
    if any(map(_ARTICLE.match, items[1:])):
        is_one = len(items) == 2 and items[0][:1].isupper() and separators != ["comma"] and not several
        return [line] if is_one else None
    if set(separators) == {"&"}:
        return None if several else [line]
    behind = ["," in item for item in items]
    some_behind = any(behind) and not all(behind) and set(separators) == {"comma"}
    if items[-1].endswith(("?", "!")) or "and" in separators[:-1] or some_behind:
        return None
    if several or "oxford" in separators:
        return items
    are_long = [len(item.split()) > 1 and item[:1].isupper() for item in items]
    if sum(are_long) >= 2 and not _BODY.search(items[-1]):
        return items
    return items if len(items) > 2 and set(separators) == {"comma"} else None


def _mask_numbers(item: str) -> str:
    """Return an item with "9" for each number and "m" for each month or weekday: items of one form are then equal."""
    return _SHAPE.sub(lambda names: "m" if names[1] else "9", item.casefold())


def _strip_quotes(item: str) -> str:
    """Return an item without emphasis and one pair of quotes around it."""
    item = item.strip().strip("*_`").strip()
    return item[1:-1] if len(item) > 2 and item[:1] + item[-1:] in _QUOTES else item


_ABBREVIATION = re.compile(r"(?:[A-Z]\.[A-Z]|\b(?:Inc|Ltd|Corp|Dept|Prof|Sgt|Capt|Univ|Bros|Jr|Sr|Mrs))\.$")
"""The end of what is no sentence, though a point and a capital follow."""
_KEEPS_POINT = re.compile(r"\b(?:[A-Z]|Inc|Ltd|Corp|Co|Jr|Sr|Bros|St|Dr|Mr|Mrs|No|vs|etc)\.$|\.\w+\.$")
_AROUND = {*_QUOTES - {"《》"}, "''", "‘’"}


def clean_answer(text: str) -> str | None:
    """Return an answer without the marks and the remarks around it; None where it is too long, or breaks off."""
    bold = re.match(r"\*\*([^*\n]+)\*\*\s+[-–—(]", text.strip())
    answer = bold[1] if bold else REMARK.split(text.strip(), maxsplit=1)[0]
    sentences = re.split(r"(?<=[\w)\"'’*][.!。！])\s+(?=[A-Z(])", answer)
    if len(sentences) > 1 and not _ABBREVIATION.search(sentences[0]):
        last, rest = sentences[0].rstrip(".").split()[-1], answer[len(sentences[0]) :].lstrip()
        if (rest.startswith("(") or len(rest.split()) > 2) and (len(last) > 3 or last.isdigit()):
            answer = sentences[0]
    if answer.rstrip("\"'”’*_ ").endswith(("...", "…")):
        return None
    for _ in range(3):
        answer = answer.strip().strip("*_`").strip()
        marks = answer[:1] + answer[-1:]
        if len(answer) > 1 and marks in _AROUND and answer.count(marks[0]) == (2 if marks[0] == marks[1] else 1):
            answer = answer[1:-1]
        if answer.endswith(("。", "．", "!")) or (answer.endswith(".") and not _KEEPS_POINT.search(answer)):
            answer = answer[:-1]
    return answer if answer and len(answer) <= 200 else None


Split = Callable[[str, bool], list[str]]
"""Splits a line into its answers, given the line and whether several are announced."""
_WORDS = word_lists("answers")
_KEYS = _WORDS["keys"].split("|")
_HOLDERS = "arguments parameters input args data output result response content final properties".split()
_NAMES = "name answer label text value title entity answertext".split()
_PLACEHOLDER = re.compile(rf"\W*(?:{_WORDS['placeholder']})?\W*", re.IGNORECASE)
_ASIDES = "score confidence probability source sources evidence reason reasoning explanation id row rows".split()
_ASIDES += "index type rank note".split()
"""Members beside an answer that are none."""


def json_answers(value: Value, depth: int, question: str, split: Split) -> list[str] | None:
    """Return the answers in a value, [] where its list is empty; None where it has no member for answers.

    Args:
        value: a value of the reply.
        depth: how many objects are around it; too many hold nothing.
        question: the question; its noun tells which member of an object is the answer.
        split: splits a text with several answers.

    Raises:
        ParseError: it is not certain which member, or how many answers a text is.
    """
    if depth > 6 or isinstance(value, CutList | CutObject):
        return None if depth else ([] if isinstance(value, CutList | CutObject) else None)
    if isinstance(value, list):
        if not value:
            return []
        answers = list(_list_answers(value, question, split))
        return answers if answers and not all(map(_PLACEHOLDER.fullmatch, answers)) else None
    if not isinstance(value, dict):
        return None
    members = normalize_members(value)
    for key in _KEYS:
        if key in members:
            each = members[key]
            if isinstance(each, dict) and (inner := json_answers(each, depth + 1, question, split)) is not None:
                return inner
            answers = list(_list_answers(each, question, split))
            if isinstance(each, str) and answers:
                answers = split(answers[0], key.endswith("s"))
            return None if answers and all(map(_PLACEHOLDER.fullmatch, answers)) else answers
    for key in _HOLDERS:
        each = members.get(key)
        if isinstance(each, dict | list) and (inner := json_answers(each, depth + 1, question, split)) is not None:
            return inner
    return None


def _list_answers(value: Value, question: str, split: Split) -> Iterator[str]:
    """Yield the answers of a member: a text, a number, an entity's name, or those of a list; no empty ones."""
    if isinstance(value, bool):
        yield "yes" if value else "no"
    elif isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, list):
        alone = value[0].strip() if len(value) == 1 and isinstance(value[0], str) else ""
        if re.fullmatch(r"[\d\s.,;&]+(?:and\b[\d\s.,]+)?", alone):  # ["18, 20 and 30"]
            yield from split(alone, False)
        else:
            yield from (answer for each in value for answer in _list_answers(each, question, split))
    elif isinstance(value, dict) and value:
        yield from _list_answers(_find_answer_member(value, question), question, split)


def _find_answer_member(value: dict[str, Value], question: str) -> Value:
    """Return the member of an object that is the answer: its name, its only member, or the one in the question.

    Raises:
        ParseError: it has several, or only one that is true or false.
    """
    members = normalize_members(value)
    if key := next((key for key in _NAMES if key in members), None):
        return members[key]
    rest = {key: each for key, each in value.items() if normalize_key(key) not in _ASIDES}
    numbers = [re.sub(r"^\D*", "", key) for key in rest]
    if len(rest) > 1 and numbers in ([str(n + first) for n in range(len(rest))] for first in (0, 1)):
        return list(rest.values())  # answer_1, answer_2
    source = [key for key in rest if _asks_for(question, key)] if len(rest) > 1 else list(rest)
    if len(source) != 1 or source[0].isdigit() or isinstance(rest[source[0]], bool | None):
        raise ParseError(f"an object with the members {', '.join(value)[:80]}; expected one answer or its name")
    return rest[source[0]]


def _asks_for(question: str, key: str) -> bool:
    """Return whether a question asks for what a member is named after: "Which port", "how many ships"."""
    noun = re.escape(key.replace("_", " ").casefold().removesuffix("s"))
    asking = rf"\b(?:which|what|how many|how much|whose)\s+(?:\w+\s+)?{noun}(?:e?s)?\b"
    return re.search(asking, question.casefold()) is not None
