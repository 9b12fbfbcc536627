"""Yes or no: is a triple supported by its text, can a question be answered from what is given?

A verdict is the claim that is made, not a word: "no doubt: supported" says yes, "unsupported" no, and what is said of
another case says nothing. Where a reply says both, or neither, it has no verdict.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kbbench_hf.parsing import cues
from kbbench_hf.parsing.answers import says_unanswerable
from kbbench_hf.parsing.final_answer import AnswerVersion, Piece, split_versions
from kbbench_hf.parsing.lenient_json import Value
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.parsing.reasoning import strip_reasoning
from kbbench_hf.parsing.triple_parts import plain
from kbbench_hf.parsing.wrappers import unwrap
from kbbench_hf.text.patterns import lazy_pattern

_YES = (
    r"yes|yeah|yep|true|correct|right|positive|affirmative|ja|jawohl|wahr|richtig|oui|vrai|exact|sí|si|verdadero|"
    r"cierto|sim|verdadeiro|vero|waar|sant|tak|prawda|ano|да|верно|evet|doğru|igen|sì"
    r"|نعم|صحيح|हाँ|हां|有|是的?|对|對|正确|真|能|可以|はい|正しい|예|네|그렇다|참|1"
)
_NO = (
    r"no|nope|nah|false|incorrect|wrong|negative|nein|falsch|unwahr|non|faux|falso|não|nee|onwaar|nej|falskt|nie|"
    r"fałsz|ne|нет|неверно|ложь|hayır|yanlış|nem"
    r"|لا|خطأ|नहीं|没有|不是|否|不|错误?|假|不能|不可以|いいえ|偽|아니요?|아니오|거짓|0"
)
_WORD = lazy_pattern(rf"(?:(?P<yes>{_YES})|(?P<no>{_NO}))(?![\w'’-])", re.IGNORECASE)
_LAST_WORD = lazy_pattern(rf"(?:[:：.!]|,? (?:so|hence|thus|therefore),?)\s+{_WORD.pattern}[\s.!)]*$", re.IGNORECASE)
"""A verdict that is the last sentence, or stands behind a colon or "so" at the end."""
_CONCEDED = lazy_pattern(r"^\W*(?:al|even )?though\b[^,]*,|^\W*(?:while|whereas)\b[^,]*,", re.IGNORECASE)
"""What a sentence grants before it says the other thing."""
_IDIOMS = lazy_pattern(
    r"\b(?:no (?:doubt|denying|question|problem|wonder|contradiction|more|less|further|other|errors?|issues?|"
    r"conflict|need|reason)|without (?:a |any )?(?:doubt|question)|not only|nothing (?:missing|contradicts)|"
    r"no,? (?:really)|kein(?:e[nr]?)? (?:zweifel|frage)|zweifellos|sans (?:aucun )?doute|pas de doute|"
    r"sin (?:ninguna )?duda|no hay duda|sem dúvida|senza dubbio|zonder twijfel|без сомнени\w+|"
    r"bez wątpienia)\b|毫无疑问|"
    r"没有疑问|無疑|间違いなく",
    re.IGNORECASE,
)
_LABEL = (
    r"(?:(?:final|overall|corrected|revised|my|the)\s+)*(?:answer|verdict|judge?ment|decision|conclusion|label|"
    r"result|assessment|response|output|final|corrected|revised|correction|prediction|classification|evaluation|"
    r"ruling|determination"
    r"|antwort|urteil|ergebnis|réponse|verdict|respuesta|veredicto|resposta|veredito|risposta|verdetto|antwoord|"
    r"oordeel|ответ|вердикт|odpowiedź|答案|结论|判断|判定|回答|結論|답|판정|결론)"
)


@dataclass(frozen=True)
class VerdictTask:
    """What is asked: the words that claim it, the words that deny it, and the members that hold the answer."""

    claim: "re.Pattern[str]"
    """Its words in a sentence; a negation before them, or their own, turns them round."""
    keys: frozenset[str]
    turned: frozenset[str]
    """Members whose truth means no."""


_NOT = lazy_pattern(
    r"(?:\b(?:not|never|neither|nor|cannot|hardly|barely|no longer|fails? to|failed to|lacks?|without|nicht|kein\w*"
    r"|pas|jamais|nicht|no|não|nao|non|niet|ikke|inte|nie|не|ne|nem|değil)\b|n['’]t\b|(?:不|未|没有|沒有|无法|無法|"
    r"並不|并不)\s*(?:被|能|可以|得到|受)?|\b(?:nothing|no (?:evidence|part|sentence|statement|mention|indication|"
    r"support))\b"
    r"[^.]{0,40}\b(?:that|which|to))(?:[\s,]+(?:(?:be|been|being|directly|explicitly|fully|clearly|actually|"
    r"entirely|completely|wholly|quite|totally|exactly|strictly|"
    r"really|at all|in any way|in fact|itself|the|by|or implied|anywhere|it|is|are|state or|say or|werden|être|ser|"
    r"essere|worden|as|a|what)\b[\s,]*){0,4})?\s*$",
    re.IGNORECASE,
)
_SUPPORTED = VerdictTask(
    claim=lazy_pattern(
        r"\b(?P<neg>un|dis|in|non-|not-)?(?:supported|supports|support|entailed|entails|stated|states|implied|"
        r"implies|inferred|deduced|confirmed|confirms|backed|backs|justified|verified|verifiable|grounded|correct|"
        r"accurate|true|"
        r"valid|warranted|expressed|substantiated|attested"
        r"|belegt|gestützt|bestätigt|unterstützt|gedeckt|étayé\w*|soutenu\w*|confirmé\w*|appuyé\w*|respaldad\w*|"
        r"apoyad\w*|confirmad\w*|soportad\w*|sustentad\w*|apoiad\w*|supportat\w*|sostenut\w*|confermat\w*|"
        r"ondersteund|bevestigd|подтвержд\w+|подтвержден\w*|поддерж\w+|potwierdz\w+|wspierane?)\b"
        r"|\b(?P<against>contradicted|contradicts?|refuted|refutes|false|incorrect|wrong|invalid|inaccurate|untrue|"
        r"fabricated|hallucinated|unfounded|invented|widerlegt|widerspricht|falsch|contredit\w*|faux|fausse|falso|"
        r"falsa|опроверг\w+|ложн\w+|неверн\w+)\b"
        r"|(?:支持|成立|属实|正确|裏付けられ|支持され|지지|뒷받침)",
        re.IGNORECASE,
    ),
    keys=frozenset(
        "supported verdict answer label result support issupported judgment judgement decision conclusion entailed "
        "entailment correct true valid factual final finalanswer finalverdict response prediction output value "
        "stated judge classification assessment belegt gestützt unterstützt soutenu étayé respaldado apoyado "
        "apoiado supportato ondersteund 支持 判断 答案 结论".split()
    ),
    turned=frozenset(
        "unsupported contradicted false incorrect refuted hallucinated notsupported contradiction hallucination".split()
    ),
)
_ANSWERABLE = VerdictTask(
    claim=lazy_pattern(
        r"\b(?P<neg>un|in|non-)?(?:answerable|answered|sufficient|suffices?|suffice|enough|adequate|possible to "
        r"answer|able to answer|can answer|"
        r"answer (?:is|appears|can be found)(?= (?:in|there|given|stated|listed|present)\b)|"
        r"be answered|determined|determinable|deduced|inferred|derived|beantwortet|beantworten|beantwortbar|"
        r"ausreichend|reichen|reicht|répondre|répondue?|suffisant\w*|suffisent|responder(?:se)?|respondid[ao]|"
        r"suficientes?|contestar(?:se)?|rispondere|risposta|sufficient[ei]|beantwoord(?:en)?|voldoende|ответить|"
        r"достаточно|odpowiedzieć|wystarczając\w+)\b"
        r"|\b(?:contains?|provides?|includes?|holds?|gives?|lists?|states?|shows?|has|have|mentions?|enthält|"
        r"enthalten|contient|contiennent|contienen?|contêm|contém|contiene|"
        r"contengono)\b(?=[^.!?\n]{0,60}\b(?:information|answer|facts?|data|everything|all|needed|necessary|"
        r"required|evidence|angaben|informationen|informations?|información|informação|informazioni|datos|dados)\b)"
        r"|(?P<against>\b(?:missing|absent|lacking|impossible|insufficient|inadequate|incomplete|unmöglich|fehlt|"
        r"fehlen|manque\w*|impossible|imposible|faltan?|impossível|faltam|impossibile|mancan?o?|ontbre\w+|"
        r"insuffisant\w*|insuficiente\w*|unzureichend|недостаточно|невозможно|brakuje)\b|无法|無法|不足|缺少|不够|"
        r"できません|できない|答えられ|불가능|없습니다)"
        r"|(?:可以回答|能回答|能够回答|足够|答えられます|回答できます|답할 수 있)",
        re.IGNORECASE,
    ),
    keys=frozenset(
        "answer answerable canbeanswered cananswer isanswerable sufficient verdict decision label result judgment "
        "judgement final finalanswer response output value enough possible conclusion prediction answerability "
        "canbeanswer answers beantwortbar réponse respuesta 答案 可回答 回答".split()
    ),
    turned=frozenset(
        "unanswerable insufficient missing notanswerable rejected reject cannotanswer cannotbeanswered".split()
    ),
)


def parse_supported(reply: str) -> ParsedReply[bool]:
    """Return whether a reply says that a triple is supported by its text.

    Raises:
        ParseError: it does not say, or says both.

    >>> parse_supported("No doubt about it: supported.").answer, parse_supported('{"verdict": "not supported"}').answer
    (True, False)
    """
    return _read(reply, _SUPPORTED)


def parse_answerable(reply: str) -> ParsedReply[str]:
    """Return "yes" or "no" for whether a reply says that a question can be answered from what was given.

    Raises:
        ParseError: it does not say, or says both.

    >>> parse_answerable("The table does not contain the year.").answer, parse_answerable('{"answer": true}').answer
    ('no', 'yes')
    """
    read = _read(reply, _ANSWERABLE)
    return ParsedReply("yes" if read.answer else "no", read.rule, read.thought)


def _read(reply: str, question: VerdictTask) -> ParsedReply[bool]:
    thought, said = strip_reasoning(reply)
    if not said.strip():
        raise ParseError("nothing but thought" if thought else "an empty reply", thought)
    for version in split_versions(unwrap(said), judged=True):
        found, rule = _of_values(version, question), "json"
        if found is None and not version.alternatives:
            found, rule = _of_words(version.text, question)
        if found is not None and len(found) == 1:
            return ParsedReply(found.pop(), rule, thought)
        if found or version.alternatives:
            break
        if version.takes_back and cues.RETRACTIONS.search(version.text):
            break
    raise ParseError(f"no verdict, or two: {said.strip()[:80]!r}", thought)


def _of_values(version: AnswerVersion, question: VerdictTask) -> set[bool] | None:
    """Return what the values of a reply say; empty where they say both; None where none has a verdict."""
    pieces = [piece for piece in version.pieces if piece.stands] or version.pieces
    held = [verdict for piece in pieces for verdict in _held(piece, question)]
    if not held:
        return None
    if version.alternatives or None in held or len(set(held)) > 1:
        return set()
    return {verdict for verdict in held if verdict is not None}


def _held(piece: Piece, question: VerdictTask) -> Iterator[bool | None]:
    """Yield the verdicts of a value; None where a member that must hold one holds none, or both."""
    if piece.is_cut:
        return
    if isinstance(piece.value, list):
        if len(piece.value) == 1:
            yield _verdict(piece.value[0], question)
        return
    if not isinstance(piece.value, dict):
        return
    members = {plain(key): value for key, value in piece.value.items()}
    for key in members:
        inner = members[key]
        if isinstance(inner, dict) and key not in question.keys:
            yield from _held(piece._replace(value=inner), question)
    named = [key for key in members if key in question.keys] or [key for key in members if key in question.turned]
    first = next(
        (key for key in members if key in question.keys and key not in {"response", "output", "value", "result"}), None
    )
    for key in [first] if first else named[:1]:
        value = members[key]
        if isinstance(value, dict):
            yield from _held(piece._replace(value=value), question)
            continue
        verdict = _verdict(value, question)
        yield (not verdict) if key in question.turned and verdict is not None else verdict


def _verdict(value: Value, question: VerdictTask) -> bool | None:
    """Return what a member says: a boolean, a word, a phrase, or the one item of a list."""
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return _verdict(value[0], question) if len(value) == 1 else None
    if not isinstance(value, str):
        return None
    found, _ = _of_words(value, question)
    return found.pop() if found is not None and len(found) == 1 else None


def _of_words(text: str, question: VerdictTask) -> tuple[set[bool] | None, str]:
    """Return what a text says, by a label, by its first word, or by what it claims; empty where it says both.

    A yes that is limited ("yes, but not the relation", "everything but the last hop") is none, and a first word that
    the sentences after it contradict is none either.
    """
    found, rule, scope = _stated(text, question)
    if found == {True} and cues.LIMITED.search(_IDIOMS.sub(" ", scope)):
        return set(), ""
    first = _WORD.match(text.lstrip(" \n\t*_`([{#>'’\"“:：.-–—"))
    if rule == "first word" and first and found == {said := first["yes"] is not None}:
        rest = (
            first.string[first.end() :]
            if re.match(r"\W*(?:[,.;:!—–\n。，；！]|$)", first.string[first.end() :])
            else ""
        )
        claims = {
            claim for each in _sentences(rest) if not cues.OPPOSITE.search(each) for claim in _claims(each, question)
        }
        if claims == {not said} or (said and cues.UNSAID.search(rest)):
            return set(), ""
    return found, rule


def _stated(text: str, question: VerdictTask) -> tuple[set[bool] | None, str, str]:
    """Return what a text says, the rule that tells it, and the words that may limit it."""
    plain_text = re.sub(r"[*_`\"“”]+", " ", text).strip()
    if re.search(
        rf"\b(?:{_YES})\s*(?:/|\||\bor\b|\boder\b|\bou\b)\s*(?:{_NO})\b|\b(?:un)?(?:supported|true)\s*(?:/|\||"
        rf"\bor\b)\s*(?:not |un)?(?:supported|false)\b|^\W*(?:{_YES})\W+(?:{_NO})\W*$",
        plain_text,
        re.IGNORECASE,
    ):
        return set(), "", ""
    labels = re.finditer(
        rf"(?:^|(?<=[\s.;(]))(?:{_LABEL}|{_KEY_WORDS[question.keys]})\s*(?:(?:is|ist|est|es|é|è)\s*[:：]?|"
        rf"[:：=?？]|->|→|是|は|\s[-–—]\s)\s*",
        plain_text,
        re.IGNORECASE,
    )
    labelled = [
        (verdict, after[:300].partition("\n")[0])
        for match in labels
        if (verdict := _leading(after := plain_text[match.end() :], question)) is not None
    ]
    if labelled:
        verdict, scope = labelled[-1]
        return ({verdict} if len({verdict for verdict, _ in labelled}) == 1 else set()), "labelled", scope
    alone = {
        match["yes"] is not None for line in plain_text.splitlines() if (match := _WORD.fullmatch(line.strip(" .!")))
    }
    if len(alone) > 1:
        return set(), "", ""
    if last := _LAST_WORD.search(plain_text):
        return {last["yes"] is not None}, "last word", ""
    leading = _leading(plain_text, question)
    claims = set(_claims(plain_text, question))
    start = plain_text.lstrip(" \n\t([{-–—#>'’:：.")
    if leading is not None and (_WORD.match(start) or cues.NOT_WHOLLY.match(start)):
        return {leading}, "first word", _first_sentences(plain_text)
    if claims:
        return (claims, "words", plain_text) if not cues.PARTLY.search(plain_text) else (set(), "", "")
    if leading is None and question is _ANSWERABLE and says_unanswerable(plain_text):
        return {False}, "words", ""
    return (None, "", "") if leading is None else ({leading}, "first word", _first_sentences(plain_text))


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?。！？])\s*|\n+|[;；]", text)


def _first_sentences(text: str) -> str:
    """Return the first sentence; after one word, with the second where that takes something back."""
    first, second = [*_sentences(text), ""][:2]
    return f"{first}, {second}" if len(first.split()) < 3 and re.match(rf"\W*{cues.BUT}", second, re.I) else first


_KEY_WORDS = {
    _SUPPORTED.keys: r"(?:is )?supported(?: by the text)?|support|entailed|belegt|gestützt|étayé|respaldado",
    _ANSWERABLE.keys: r"answerable|can (?:it|the question) be answered|can be answered|sufficient|beantwortbar",
}


def _leading(text: str, question: VerdictTask) -> bool | None:
    """Return the verdict that a text begins with: a word, or a claim right at its start."""
    start = text.lstrip(" \n\t([{-–—#>'’:：.,")
    if question is _ANSWERABLE and cues.COMPLETE.match(start):
        return True
    if cues.NOT_WHOLLY.match(start):
        return False
    if match := _IDIOMS.match(start):
        claims = set(_claims(start, question))
        return (
            claims.pop()
            if len(claims) == 1
            else True
            if not claims and re.match(r"\W*$", start[match.end() :])
            else None
        )
    if match := _WORD.match(start):
        rest = start[match.end() :]
        if (
            re.match(r"\s*(?:/|\||or\b|and\b|oder\b)", rest, re.IGNORECASE)
            or (
                question is _SUPPORTED
                and match[0].lower() in {"no", "right", "correct", "true", "wrong", "incorrect", "false"}
                and re.match(r"\s(?!(?:as|because|since|it|the|this|that|they|i|there|not|if|in)\b)[a-z]+\b", rest)
            )
            or (match["no"] and re.match(r"[\s]+(?:\w+\s+){0,1}(?:doubt|question)", rest))
        ):
            return None
        return match["yes"] is not None
    first = re.split(r"[.!?\n。！？,;:—–]", start, maxsplit=1)[0]
    if len(first.split()) <= 4 and start[len(first) : len(first) + 1] != "?":
        claims = set(_claims(first, question))
        if len(claims) == 1:
            return claims.pop()
    return None


def _claims(text: str, question: VerdictTask) -> Iterator[bool]:
    """Yield what the sentences of a text claim; what they only suppose, or say of something else, is left out."""
    for sentence in _sentences(text):
        if re.search(
            r"\b(?:if|would|had|were it|should it|unless|wenn|würde|wäre|hätte|falls|si (?:le|la|el)|serait|sería|"
            r"seria|sarebbe|se (?:o|a|il|la) )\b|如果|もし|만약",
            sentence,
            re.IGNORECASE,
        ):
            continue
        if re.search(
            r"\b(?:false|wrong|incorrect|untrue) that\b|\bthe (?:opposite|reverse|contrary)\b|\?\W*$", sentence, re.I
        ):
            continue
        if cues.REFUSAL.search(sentence):
            continue
        sentence = _CONCEDED.sub(" ", sentence)
        if question is _ANSWERABLE and cues.COMPLETE.search(sentence):
            yield True
            continue
        for match in question.claim.finditer(sentence):
            groups = match.groupdict()
            if sentence[match.end() :].startswith(" that "):  # "it is true that ..."
                continue
            before = _IDIOMS.sub(" ", sentence[max(0, match.start() - 200) : match.start()])
            negated = bool(_NOT.search(before) or cues.NOTHING_BEFORE.search(before)) or (
                question is _ANSWERABLE and _far_negation(before, sentence[match.end() :])
            )
            said = groups.get("against") is None and groups.get("neg") is None
            yield (said != negated) != bool(
                cues.OUTER_DENIAL.search(sentence[max(0, match.start() - 200) : match.start()])
            )


def _far_negation(before: str, after: str) -> bool:
    return bool(
        re.search(
            r"\b(?:cannot|can not|not|no|neither|never|nicht|kein\w*|ne|pas|aucun\w*|não|non|niet|geen|нельзя|не)\b"
            r"|n['’]t\b|无法|不能|不|没有",
            before,
            re.IGNORECASE,
        )
    ) or bool(
        re.match(
            r"\s*(?:no\b|nothing\b|none\b|kein\w*|pas\b|aucun\w*|nicht\b|niet\b|geen\b|not\b)", after, re.IGNORECASE
        )
    )
