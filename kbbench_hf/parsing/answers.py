"""The answers to a question that a reply gives: a list of texts, empty where it says that there is none."""

import re
from collections.abc import Callable
from itertools import pairwise

from kbbench_hf.parsing import cues
from kbbench_hf.parsing.answer_lists import CORRECTED, NOT_BUT, REMARK, TAKEN_BACK, clean_answer, split_answers
from kbbench_hf.parsing.final_answer import AnswerVersion, split_versions
from kbbench_hf.parsing.json_answers import Split, json_answers
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.parsing.reasoning import strip_reasoning
from kbbench_hf.parsing.wrappers import unwrap
from kbbench_hf.text.patterns import lazy_pattern

_LABEL = lazy_pattern(
    r"(?:^|(?<=[\n.!?:,，]))[ \t>#*_\-–•]{0,8}(?:(?:so|thus|therefore|hence|then|also|deshalb|donc|por lo tanto|"
    r"portanto|quindi)\b,?\s*)?"
    r"(?:(?:the|my|our|die|la|le|a|il|los|las|as|les|het)\s+)?(?:(?:final|correct|corrected|revised|short|"
    r"endgültige|finale|réponse finale|definitive)\s+)*"
    r"(?:answers?(?:\s+to (?:the|this|your) question)?(?:\s*#?\d{1,2})?|antwort(?:en)?|réponses?(?:\s+finale?s?)?|"
    r"respuestas?(?:\s+final(?:es)?)?|respostas?(?:\s+fina(?:l|is))?|rispost[ae](?:\s+final[ei])?|antwoord(?:en)?|"
    r"svar(?:et)?|vastaus|odpowiedź|odpověď|ответы?|відповідь|cevap|yanıt|válasz|answer\(s\)|final(?:\s+answer)?|"
    r"result|ergebnis|solution"
    r"|(?:最终|最終|正确|正しい)?(?:答案|回答|答え|答)|(?:최종\s*)?(?:정답|답변?|답)|الإجابة|उत्तर|đáp án|jawaban)"
    r"[*_]{0,3}\s*(?:(?:(?:is|are|was|would be|lautet|ist|sind|est|sont|es|son|é|são|è|sono|är|to|jest|je)\b|是|为|"
    r"為|は|：|:|=|->|→)[ \t]*[:：]?|[*_]{0,3}[ \t]*(?=\n))[ \t]*",
    re.IGNORECASE,
)
_MARK = lazy_pattern(
    r"\*\*([^*\n]{1,200})\*\*|__([^_\n]{1,200})__|(?<![\w`])`([^`\n]{1,200})`(?!`)|【([^】\n]{1,200})】"
)
_ITEM = lazy_pattern(r"^[ \t>]*(?:[-–—*•·+]|\(?\d{1,3}[.)])\s+(.+?)\s*$")
_NAME = lazy_pattern(r"(?:(?:(?:[^\W\d_]{1,3}|with|from|into|like|over|upon|[A-ZÀ-Þ]\S*)(?!\S))\s*)+")
_OF_DENIALS = lazy_pattern(
    r"\b(?:answer\w*|informations?|data|evidence|available|determin\w+|infer\w+|found|given|provided|mention\w*|stated|"
    r"enough|suffic\w+|insuffic\w+|applicable|known|unknown|specified|listed|included|present|possible|table|triples?|"
    r"texts?|context|i|we)\b",
    re.IGNORECASE,
)
"""What a line says of the answer itself, though it be in capitals."""
_LONGEST_BARE = 12
"""A reply of so many words, without a verb of saying, is an answer alone."""


_SEVERAL = lazy_pattern(
    r"^\W*(?:which|what|who)\b(?:\s+[\w'’-]+){0,4}?\s+(?:are|were)\b|\b(?:list|name|give|find)\s+(?:all|both|every|"
    r"each|the (?:two|three|four|five|names))\b|\b(?:which|what|the) (?:two|three|four|five|six)\b|"
    r"\bwhich (?:of )?both\b",
    re.IGNORECASE,
)
"""In a question: it asks for several answers."""
_PLURAL = lazy_pattern(
    r"answers|antworten|réponses|respuestas|respostas|risposte|antwoorden|ответы|\b(?:are|sind|sont|son|são|sono|"
    r"zijn)\b",
    re.IGNORECASE,
)
"""In a label: several answers follow."""
_NOT_GIVEN = lazy_pattern(
    r"(?:(?:not|nowhere)(?: \w+ly| anywhere| clearly)? (?:in|with|among|part|given|stated|available|found|mentioned|"
    r"present|listed|known|specified|provided|possible|determin\w+|there|clear|contained|included|shown|enough|"
    r"answerable|recorded|covered|to be|any)|nowhere|unavailable|missing|absent)\b",
    re.IGNORECASE,
)
_STRAIGHT = str.maketrans("“”«»「」", '""""""')
_ROLE = lazy_pattern(
    r"(?:<[^<>\n]{1,40}>|\W)*(?:user|assistant|system|model|human|tool|developer|bot)\W*", re.IGNORECASE
)
"""A word of a chat template, alone."""
_TWICE = lazy_pattern(r"\{[^{}]{0,99}?\"(answers?)\"\s*:[^{}]{0,300}?\"\1\"\s*:")
"""An object with two members of one name, of which JSON keeps one."""
_BOXES = lazy_pattern(r"\\boxed\s*\{((?:[^{}\n]|\{[^{}\n]*\})*)\}")
_BESIDE = lazy_pattern(r"(?:[\s,;、$.*_]|\\q?quad|\\[,;])*(?:and|und|et|y|e|和|&)?[\s,;$*_]*", re.IGNORECASE)


def parse_answers(
    reply: str, question: str = "", is_name: Callable[[str], bool] = lambda name: False
) -> ParsedReply[list[str]]:
    """Return the answers that a reply gives, in order; none where it says that the question has none in what was given.

    Args:
        reply: what the model wrote.
        question: what was asked; it may say that several answers are wanted.
        is_name: whether what was given holds this text as one name, though it has a comma or an "and".

    Raises:
        ParseError: it gives none and does not say so, breaks off, or can be read in two ways.

    >>> parse_answers('I thought of {"answer": ["Lyon"]}</think>{"answers": [{"name": "Paris"}]}').answer
    ['Paris']
    >>> parse_answers("The answer is **Paris**.").answer, parse_answers("无法回答这个问题。").answer
    (['Paris'], [])
    >>> parse_answers("Answer: 28 and 30").answer, parse_answers("Answer: not 28 but 30").answer
    (['28', '30'], ['30'])
    """
    thought, said = strip_reasoning(reply, question)
    if not said.strip():
        raise ParseError("nothing but thought" if thought else "an empty reply", thought)
    if _TWICE.search(said):
        raise ParseError("an object with two members 'answer'", thought)
    asks_for_several = bool(_SEVERAL.search(question[:1000]))

    def split(line: str, several: bool) -> list[str]:
        return split_answers(line, several or asks_for_several, is_name)

    try:
        for version in split_versions(unwrap(_side_by_side(said))):
            if version.alternatives:
                break
            read = _read(version, question, split)
            if read is not None:
                return ParsedReply(*read, thought)
            if version.is_final or (version.takes_back and cues.RETRACTIONS.search(version.text)):
                break
    except ParseError as error:
        raise ParseError(str(error), thought) from None
    raise ParseError(f"no answer, and no word that there is none: {said.strip()[:80]!r}", thought)


def _side_by_side(said: str) -> str:
    r"""Return a text with the boxes in a row as the lines of one: `\boxed{28} and \boxed{30}`.

    Raises:
        ParseError: boxes hold different answers, and none is announced as the one that holds.
    """
    boxes = list(_BOXES.finditer(said))
    if len({box[1].strip() for box in boxes}) < 2:
        return said
    row = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        if not _BESIDE.fullmatch(said, box.end(), row[0].start()):
            break
        row.insert(0, box)
    between = said[boxes[-len(row) - 1].end() : row[0].start()] if len(row) < len(boxes) else ""
    if between and not (cues.FINAL.search(between) or cues.SECOND_THOUGHTS.search(between)):
        raise ParseError("several boxes hold different answers")
    if len(row) == 1:
        return said
    return f"{said[: row[0].start()]}\n\\boxed{{{chr(10).join(f'- {box[1]}' for box in row)}}}"


def _read(version: AnswerVersion, question: str, split: Split) -> tuple[list[str], str] | None:
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
        if len(lists) > 1 and not _in_a_row(version):
            return None
        return list(dict.fromkeys(answer for answers in lists for answer in answers)) if len(lists) > 1 else list(
            lists[0]
        ), "json"
    for rule, read in (("labelled", _labelled), ("list", _listed), ("marked", _marked), ("alone", _alone)):
        if (answers := read(version.text, split)) is not None:
            return answers, rule
    return ([], "none, in words") if says_unanswerable(version.text) else None


def _in_a_row(version: AnswerVersion) -> bool:
    """Whether nothing but blanks stands between the values."""
    pieces = version.pieces
    return all(not version.text[one.end : other.start].strip(" \n,;") for one, other in pairwise(pieces))


def _labelled(text: str, split: Split) -> list[str] | None:
    """Return what stands behind "Answer:" or "the answer is", or the items of the list under it."""
    labels = [
        label for label in _LABEL.finditer(text) if not _IF.search(text, max(0, label.start() - 120), label.start())
    ]
    answers: list[str] | None = None
    for place in reversed(range(len(labels))):
        label = labels[place]
        if answers is None:
            answers = _under(text, label, split)
            continue
        line, end = _line(text, label)
        follows = labels[place + 1]
        if not line or line.endswith((":", "：")) or "\n" not in text[end : follows.start() + 1]:
            continue
        is_next = not text[end : follows.start()].strip(" \t\n>#*_-–•")
        alike = re.sub(r"[\W\d]+", "", label[0].casefold()) == re.sub(r"[\W\d]+", "", labels[-1][0].casefold())
        if not alike or len(line.split()) > 6:
            break
        before = _under(text, label, split)
        if before is not None and before != answers:
            if not is_next or not (before and answers):
                raise ParseError(f"answers {before!r:.60} and {answers!r:.60}")
            answers = [*before, *answers]
    return answers


_IF = lazy_pattern(r"\b(?:if|had|were|would|wenn|falls|si|se)\b[^.!?\n]*$", re.IGNORECASE)


def _line(text: str, label: "re.Match[str]") -> tuple[str, int]:
    end = text.find("\n", label.end())
    end = len(text) if end < 0 else end
    return text[label.end() : end].strip(), end


def _under(text: str, label: "re.Match[str]", split: Split) -> list[str] | None:
    """Return the answers behind a label, or in the list or the lines under it; None where there are none."""
    line, several = _line(text, label)[0], bool(_PLURAL.search(label[0]))
    block = text[label.end() : label.end() + 4000].split("\n\n", 1)[0].splitlines()
    while len(block) > 1 and line and re.search(r"(?:[,;、]|\b(?:and|und|et|y))$", line):
        line = f"{line} {block.pop(1).strip()}"
    if len(block) > 1 and all(re.fullmatch(r"\s*[\d.,]+\s*", each) for each in block):
        return [each.strip() for each in block]
    if not line.strip("*_ ") or (len(block) > 1 and (_ITEM.match(line) or line.endswith(":"))):
        if items := _items(text[label.end() :]):
            return items if len(items) > 1 else _split_up(items[0], several, split)
        lines = [each for each in text[label.end() :].strip("*_ \n").splitlines() if each.strip()]
        if len(lines) > 1:
            return _lines(lines)
        line = lines[0] if lines else ""
    if re.match(r"(?:n?either|maybe|perhaps|probably|possibly|likely)\b", line, re.IGNORECASE):
        raise ParseError(f"{line[:80]!r} is not certain")
    if meant := NOT_BUT.match(line):
        line = line[meant.end() :]
    if _NOT_GIVEN.match(line):
        return []
    if (len(line.split()) > 2 and _denies(line)) or re.fullmatch(
        r"\W*(?:none|n/?a|unknown|unanswerable|not (?:given|known|stated|available))\W*", line, re.IGNORECASE
    ):
        return []
    if re.match(r"not\b", line):
        raise ParseError(f"{line[:80]!r} says what is not the answer")
    if marked := _marks(line):
        return marked if len(marked) > 1 else _split_up(marked[0], several, split)
    return _split_up(line, several, split) if line else None


def _split_up(line: str, several: bool, split: Split) -> list[str] | None:
    """Return the answers of a line, without what it takes back; None where it is a sentence, or breaks off."""
    if len(line) <= 400:
        line = CORRECTED.sub("", line)
    answer = clean_answer(line)
    if answer and f'"{answer}"' in line.translate(_STRAIGHT) and re.search(r"[^\W\d]", answer):
        return [answer]
    return split(answer, several) if answer else None


def _items(text: str) -> list[str]:
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
    return _cleaned(items)


def _cleaned(items: list[str]) -> list[str]:
    """Return items without marks and remarks.

    Raises:
        ParseError: each is a name and what is said of it, "Petrel: 28".
    """
    answers = [answer for item in items if (answer := clean_answer(item))]
    if len(answers) > 1 and all(re.search(r"\w: \S", answer) for answer in answers):
        raise ParseError(f"of {answers[0]!r:.80} it is not certain which part is the answer")
    return answers


def _listed(text: str, split: Split) -> list[str] | None:
    """Return the items of a list, or the lines, that are all of the text but for a heading."""
    lines = [line for line in text.splitlines() if line.strip()]
    while lines and lines[0].rstrip(" *_").endswith((":", "：")):
        lines = lines[1:]
    items = [_ITEM.match(line) for line in lines]
    if not lines or any(map(_denies, lines)):
        return None
    if not all(items):
        return _lines(lines) if len(lines) > 1 else None
    answers = _cleaned([item[1] for item in items if item])
    if len(answers) < len(lines) or any(
        len(answer.split()) > _LONGEST_BARE or _ROLE.fullmatch(answer) for answer in answers
    ):
        return None
    return answers if len(answers) > 1 else split(answers[0], False)


def _lines(lines: list[str]) -> list[str] | None:
    """Return the answers of lines that hold one each; None where one of them is more than a name or a number."""
    if any("|" in line or len(line.split()) > 6 or line.strip()[:1].islower() or _ITEM.match(line) for line in lines):
        return None
    answers = [_alone(line, lambda line, several: [line]) for line in lines]
    return [answer[0] for answer in answers if answer] if all(answers) else None


def _marked(text: str, split: Split) -> list[str] | None:
    """Return what is set in bold in a text of one sentence."""
    if len(text.strip().splitlines()) != 1 or _denies(text):
        return None
    marks = _marks(text)
    if any(map(_ROLE.fullmatch, marks)):
        return None
    return marks if len(marks) > 1 else split(marks[0], False) if marks else None


def _marks(text: str) -> list[str]:
    """Return what is set in bold, where nothing but commas and the like stands between."""
    found = list(_MARK.finditer(text))
    if not all(_BESIDE.fullmatch(text, one.end(), other.start()) for one, other in pairwise(found)):
        return []
    marks = [next(each for each in match.groups() if each) for match in found]
    return [answer for mark in marks if (answer := clean_answer(mark))]


def _alone(text: str, split: Split) -> list[str] | None:
    """Return a reply that is nothing but a name, a number, or several of them."""
    line = text.strip()
    if "\n" in line or not line or len(line.split()) > _LONGEST_BARE or len(line) > 120 or _ROLE.fullmatch(line):
        return None
    if re.fullmatch(r"\W*(?:none|n/?a|unknown|unanswerable|nothing|null|no answer)\W*", line, re.IGNORECASE):
        return []
    if meant := NOT_BUT.match(line) or CORRECTED.match(line) or TAKEN_BACK.match(line):
        line = line[meant.end() :]
    line = REMARK.split(line, maxsplit=1)[0]
    if not line or (
        re.search(
            r"\b(?:i|i['’]m|we|you|sorry|let|here|sure|question|answer|table|text|cannot|can['’]t|please|okay|ok|is"
            r"|are|was|does|not|will|would|maybe|perhaps|probably)\b|[:：](?!\d)|[{}\[\]?？]|"
            r"[.。!！](?<!\b[A-Z]\.)(?!\d)\s*\S",
            line,
            re.IGNORECASE,
        )
        or _denies(line)
        or cues.REFUSAL.search(line)
    ):
        return None
    answer = clean_answer(line)
    if sum(word[0].islower() for word in line.split()) > 4 or (cues.NONE.search(line) and len(line.split()) > 4):
        return None
    return split(answer, False) if answer and (not answer[0].islower() or len(answer.split()) <= 3) else None


def _denies(line: str) -> bool:
    """Whether a line says that there is no answer; a name in capitals, as "Nothing but Trouble", says nothing."""
    is_name = _NAME.fullmatch(line.strip(" *_`\"'“”.-–•0123456789)")) and not _OF_DENIALS.search(line)
    return not is_name and bool(cues.UNANSWERABLE.search(line))


def says_unanswerable(text: str) -> bool:
    """Whether a text says in words that what was given holds no answer.

    >>> says_unanswerable("Die Tabelle enthält die Angaben nicht."), says_unanswerable("I can't help with that.")
    (True, False)
    """
    sentences = re.split(r"(?<=[.!?;。！？])\s*|\n+", text)
    return any(
        cues.UNANSWERABLE.search(each) and not cues.REFUSAL.search(each) and not cues.COMPLETE.search(each)
        for each in sentences
    )
