"""The answers to a question that a reply gives: a list of texts, empty where it says that there is none."""

import re
from collections.abc import Iterator
from itertools import pairwise

from kbbench_hf.replies import cues
from kbbench_hf.replies.final_answer import Version, versions
from kbbench_hf.replies.lenient_json import CutList, CutObject, Value
from kbbench_hf.replies.reading import ParseError, Reading
from kbbench_hf.replies.reasoning import separate
from kbbench_hf.replies.triple_parts import plain
from kbbench_hf.replies.wrapping import unwrapped

_KEYS = (
    "finalanswer finalanswers answer answers answerlist correctanswer theanswer ans result results response output "
    "solution prediction predictions entity entities final"
    " antwort antworten réponse réponses respuesta respuestas resposta respostas risposta risposte antwoord ответ "
    "ответы odpowiedź 答案 回答 答え 답 정답"
).split()
_HOLDERS = (
    "arguments",
    "parameters",
    "input",
    "args",
    "data",
    "output",
    "result",
    "response",
    "content",
    "final",
    "properties",
)
_NAMES = ("name", "answer", "label", "text", "value", "title", "entity", "answertext")
_PLACEHOLDER = re.compile(
    r"\W*(?:\.{2,}|…|string|value|answer\W?\d?|your answer(?: here)?|entity\W?\d?|name|text|item\W?\d?|list of "
    r"answers|answer[s ]*here|answer text)?\W*",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?:^|(?<=[\n.!?:]))[ \t>#*_\-–•]{0,8}(?:(?:so|thus|therefore|hence|then|also|deshalb|donc|por lo tanto|"
    r"portanto|quindi)\b,?\s*)?"
    r"(?:(?:the|my|our|die|la|le|a|il|los|las|as|les|het)\s+)?(?:(?:final|correct|corrected|revised|short|"
    r"endgültige|finale|réponse finale|definitive)\s+)*"
    r"(?:answers?(?:\s+to (?:the|this|your) question)?|antwort(?:en)?|réponses?(?:\s+finale?s?)?|"
    r"respuestas?(?:\s+final(?:es)?)?|respostas?(?:\s+fina(?:l|is))?|rispost[ae](?:\s+final[ei])?|antwoord(?:en)?|"
    r"svar(?:et)?|vastaus|odpowiedź|odpověď|ответы?|відповідь|cevap|yanıt|válasz|answer\(s\)|final(?:\s+answer)?|"
    r"result|ergebnis|solution"
    r"|(?:最终|最終|正确|正しい)?(?:答案|回答|答え|答)|(?:최종\s*)?(?:정답|답변?|답)|الإجابة|उत्तर|đáp án|jawaban)"
    r"[*_]{0,3}\s*(?:(?:(?:is|are|was|would be|lautet|ist|sind|est|sont|es|son|é|são|è|sono|är|to|jest|je)\b|是|为|"
    r"為|は|：|:|=|->|→)[ \t]*[:：]?|[*_]{0,3}[ \t]*(?=\n))[ \t]*",
    re.IGNORECASE,
)
_MARK = re.compile(r"\*\*([^*\n]{1,200})\*\*|__([^_\n]{1,200})__|(?<![\w`])`([^`\n]{1,200})`(?!`)|【([^】\n]{1,200})】")
_ITEM = re.compile(r"^[ \t>]*(?:[-–—*•·+]|\(?\d{1,3}[.)])\s+(.+?)\s*$")
_NAME = re.compile(r"(?:(?:(?:[^\W\d_]{1,3}|with|from|into|like|over|upon|[A-ZÀ-Þ]\S*)(?!\S))\s*)+")
_OF_DENIALS = re.compile(
    r"\b(?:answer\w*|informations?|data|evidence|available|determin\w+|infer\w+|found|given|provided|mention\w*|stated|"
    r"enough|suffic\w+|insuffic\w+|applicable|known|unknown|specified|listed|included|present|possible|table|triples?|"
    r"texts?|context|i|we)\b",
    re.IGNORECASE,
)
"""What a line says of the answer itself, though it be in capitals."""
_LONGEST_BARE = 12
"""A reply of so many words, without a verb of saying, is an answer alone."""


def read_answers(reply: str) -> Reading[list[str]]:
    """Return the answers that a reply gives, in order; none where it says that the question has none in what was given.

    Raises:
        ParseError: it gives none and does not say so, breaks off, or can be read in two ways.

    >>> read_answers('I thought of {"answer": ["Lyon"]}</think>{"answers": [{"name": "Paris"}]}').answer
    ['Paris']
    >>> read_answers("The answer is **Paris**.").answer, read_answers("无法回答这个问题。").answer
    (['Paris'], [])
    """
    thought, said = separate(reply)
    if not said.strip():
        raise ParseError("nothing but thought" if thought else "an empty reply", thought)
    for version in versions(unwrapped(said)):
        if version.alternatives:
            break
        read = _read(version)
        if read is not None:
            return Reading(*read, thought)
        if version.takes_back and cues.RETRACTIONS.search(version.text):
            break
    raise ParseError(f"no answer, and no word that there is none: {said.strip()[:80]!r}", thought)


def _read(version: Version) -> tuple[list[str], str] | None:
    values = [(piece, answers) for piece in version.pieces if (answers := _held(piece.value, 0)) is not None]
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
        if (answers := read(version.text)) is not None:
            return answers, rule
    return ([], "none, in words") if says_unanswerable(version.text) else None


def _in_a_row(version: Version) -> bool:
    """Whether nothing but blanks stands between the values."""
    pieces = version.pieces
    return all(not version.text[one.end : other.start].strip(" \n,;") for one, other in pairwise(pieces))


def _held(value: Value, depth: int) -> list[str] | None:
    """Return the answers in a value; None where it holds none."""
    if depth > 6 or isinstance(value, CutList | CutObject):
        return None if depth else ([] if isinstance(value, CutList | CutObject) else None)
    if isinstance(value, list):
        if not value:
            return []
        answers = list(_texts(value))
        return answers if answers and not all(map(_PLACEHOLDER.fullmatch, answers)) else None
    if not isinstance(value, dict):
        return None
    members = {plain(key): each for key, each in value.items()}
    for key in _KEYS:
        if key in members:
            if isinstance(members[key], dict) and (inner := _held(members[key], depth + 1)) is not None:
                return inner
            answers = list(_texts(members[key]))
            return None if answers and all(map(_PLACEHOLDER.fullmatch, answers)) else answers
    for key in _HOLDERS:
        if isinstance(each := members.get(key), dict | list) and (inner := _held(each, depth + 1)) is not None:
            return inner
        if isinstance(each, str) and each.lstrip().startswith("{"):
            from kbbench_hf.replies.lenient_json import find_values

            if (found := find_values(each)) and (inner := _held(found[0].value, depth + 1)) is not None:
                return inner
    return None


def _texts(value: Value) -> Iterator[str]:
    """Yield the answers of a member: a text, a number, an entity's name, or those of a list; no empty ones."""
    if isinstance(value, bool):
        yield "yes" if value else "no"
    elif isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        members = {plain(key): each for key, each in value.items()}
        key = next((key for key in _NAMES if key in members), None)
        if key is not None:
            yield from _texts(members[key])


def _labelled(text: str) -> list[str] | None:
    """Return what stands behind "Answer:" or "the answer is", or the items of the list under it."""
    labels = list(_LABEL.finditer(text))
    for label in reversed(labels):
        end = text.find("\n", label.end())
        line = text[label.end() : len(text) if end < 0 else end].strip()
        if not line.strip("*_ "):
            items = _items(text[label.end() :])
            if items:
                return items
            lines = [each for each in text[label.end() :].strip("*_ \n").splitlines() if each.strip()]
            line = lines[0] if len(lines) == 1 else ""
        if re.match(r"(?:either|maybe|perhaps|probably|possibly|likely)\b", line, re.IGNORECASE):
            return None
        if re.match(r"(?:not|nowhere|unavailable|missing|absent)\b", line, re.IGNORECASE):
            return []
        if (len(line.split()) > 2 and _denies(line)) or re.fullmatch(
            r"\W*(?:none|n/?a|unknown|unanswerable|not (?:given|known|stated|available))\W*", line, re.IGNORECASE
        ):
            return []
        if marked := _marks(line):
            return marked
        if line and (answer := _clean(line)):
            return [answer]
    return None


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
    return [answer for item in items if (answer := _clean(item))]


def _listed(text: str) -> list[str] | None:
    """Return the items of a list that is all of the text but for a heading."""
    lines = [line for line in text.splitlines() if line.strip()]
    while lines and lines[0].rstrip(" *_").endswith((":", "：")):
        lines = lines[1:]
    items = [_ITEM.match(line) for line in lines]
    if not lines or not all(items) or any(map(_denies, lines)):
        return None
    answers = [_clean(item[1]) for item in items if item]
    return (
        [answer for answer in answers if answer]
        if all(answers) and all(len(answer.split()) <= _LONGEST_BARE for answer in answers if answer)
        else None
    )


def _marked(text: str) -> list[str] | None:
    """Return what is set in bold in a text of one sentence."""
    if len(text.strip().splitlines()) != 1 or _denies(text):
        return None
    return _marks(text) or None


def _marks(text: str) -> list[str]:
    marks = [next(each for each in match.groups() if each) for match in _MARK.finditer(text)]
    return [answer for mark in marks if (answer := _clean(mark))]


def _alone(text: str) -> list[str] | None:
    """Return a reply that is nothing but a name or a number."""
    line = text.strip()
    if "\n" in line or not line or len(line.split()) > _LONGEST_BARE or len(line) > 120:
        return None
    if re.fullmatch(r"\W*(?:none|n/?a|unknown|unanswerable|nothing|null|no answer)\W*", line, re.IGNORECASE):
        return []
    if (
        re.search(
            r"\b(?:i|i['’]m|we|you|sorry|let|here|sure|question|answer|table|text|cannot|can['’]t|please|okay|ok|is"
            r"|are|was|does|not|will|would|maybe|perhaps|probably)\b|[:：{}\[\]]|[?？]|[.。!！]\s*\S",
            line,
            re.IGNORECASE,
        )
        or _denies(line)
        or cues.REFUSAL.search(line)
    ):
        return None
    answer = _clean(line)
    if sum(word[0].islower() for word in line.split()) > 4 or (cues.NONE.search(line) and len(line.split()) > 4):
        return None
    return [answer] if answer and (not answer[0].islower() or len(answer.split()) <= 3) else None


def _denies(line: str) -> bool:
    """Whether a line says that there is no answer; a name in capitals, as "Nothing but Trouble", says nothing."""
    is_name = _NAME.fullmatch(line.strip(" *_`\"'“”.-–•0123456789)")) and not _OF_DENIALS.search(line)
    return not is_name and bool(cues.UNANSWERABLE.search(line))


def _clean(text: str) -> str | None:
    """Return an answer without the marks and the remarks around it; None where it may be several, or a sentence."""
    answer = text.strip()
    answer = re.split(r"\s+(?:[-–—]\s+|#\s|//\s)(?=\S+(?:\s+\S+){2,})|\s*[;；]\s+", answer, maxsplit=1)[0]
    sentences = re.split(r"(?<=[\w)\"'’*][.!。！])\s+(?=[A-Z(])", answer)
    if (
        len(sentences) > 1
        and len(sentences[0].rstrip(".").split()[-1]) > 3
        and not re.search(r"\b(?:Inc|Ltd|Corp|Dept|Prof|Sgt|Capt|Univ|Bros|Jr|Sr|Mrs)\.$", sentences[0])
    ):
        answer = sentences[0]
    for _ in range(3):
        answer = answer.strip().strip("*_`").strip()
        if (
            len(answer) > 1
            and answer[0] + answer[-1] in {'""', "''", "“”", "‘’", "«»", "「」"}
            and answer.count(answer[0]) <= 2
        ):
            answer = answer[1:-1]
        if answer.endswith(("。", "．", "!")) or (
            answer.endswith(".")
            and not re.search(
                r"(?:\b[A-Z]|\b(?:Inc|Ltd|Corp|Co|Jr|Sr|Bros|St|Dr|Mr|Mrs|No|vs|etc))\.$|\.\w+\.$", answer
            )
        ):
            answer = answer[:-1]
    if not answer or (answer.count(",") >= 2 and not re.search(r"\d,\d", answer)) or len(answer) > 200:
        return None
    return answer


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
