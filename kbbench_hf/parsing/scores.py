"""The score from 0 to 1 that a reply gives: the number that it calls its score, never another one."""

import re
from collections.abc import Iterator

from kbbench_hf.parsing import cues
from kbbench_hf.parsing.final_answer import AnswerVersion, split_versions
from kbbench_hf.parsing.lenient_json import Value
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError
from kbbench_hf.parsing.reasoning import strip_reasoning
from kbbench_hf.parsing.triple_parts import plain
from kbbench_hf.parsing.wrappers import unwrap

_DIGITS = r"(?:\d{1,9}(?:[.,]\d{1,20})?|[.,]\d{1,20})"
_PER = (
    r"\s*(?:%|％|percent\b|per cent\b|prozent\b|pour ?cent\b|por ciento\b|por cento\b|per cento\b|procent\b|процент\w*)"
)
_OUT_OF = r"\s*(?:/|／|\bout of\b|\bof\b|\bvon\b|\bsur\b|\bde\b|\bsu\b|\bvan\b|\baus\b|\bиз\b|\bz\b|\bin\b)\s*"
_NUMBER = re.compile(
    rf"(?<![A-Za-z0-9_.,/:'’-])(?<!\d[-–−])(?P<sign>[-−](?=[\d.,]))?(?P<number>{_DIGITS})(?:(?P<percent>{_PER})|"
    rf"(?P<of>{_OUT_OF})(?P<total>{_DIGITS})(?P<percents>%)?)?(?![A-Za-z0-9_%])(?![.,]\d)(?!\s*(?:[-–−~〜…]|\.\.+|"
    rf"\(?(?:to|or|vs)\b|bis\b|"
    rf"oder\b|ou\b|à\b)\s*\d)",
    re.IGNORECASE,
)
_SCALE = re.compile(
    rf"\(?\b(?:on|auf|sur|en|in|su|op|of|at|using|with)?\s*(?:a|an|the|einer|une|una|uma|een|the)?\s*(?:scale|skala"
    rf"|échelle|escala|scala|schaal|range|interval)\s*(?:of|from|von|de|da|van|between|is|:|ranging from|goes from|"
    rf"runs from)?\s*[\[(]?\s*{_DIGITS}\s*(?:to|-|–|—|bis|à|a|até|tot|and|,|\.\.|through)\s*{_DIGITS}\s*[\])]?"
    rf"|[\[(（]\s*(?:from |von |de |between |range:? |scale:? |scale of |max(?:imum)?\.? |out of )?{_DIGITS}\s*(?:to|"
    rf"-|–|—|〜|~|bis|à|a|até|tot|and|,|\.\.|=|…)?\s*(?:{_DIGITS})?[^()\[\]（）]{{0,40}}[\])）](?=\s*(?:[:：=.]|\s|$))"
    rf"|\b(?:from|between|von|zwischen|de|entre|da|tra|van|tussen|от)\s+{_DIGITS}\s+(?:to|and|bis|und|à|et|a|e|y|"
    rf"tot|en|до)\s+{_DIGITS}"
    rf"|{_DIGITS}\s*(?:to|bis|through)\s*{_DIGITS}\s*(?:scale|skala|range)?"
    rf"|{_DIGITS}\s*[-–—]\s*{_DIGITS}(?:\s*(?:scale|skala|range)|(?=\s*[:：]))|[（(][^（）()]{{0,20}}(?:满分|滿分|満点|만점|范围|"
    rf"最高|最大|総点)[^（）()]{{0,20}}[）)]|满分\s*[为是]?\s*{_DIGITS}|{_DIGITS}\s*(?:点満点|점 만점|分满分)(?:で|"
    rf"中|에서)?|out of (?:a )?(?:maximum|possible|total)(?: of)?(?: score of)? {_DIGITS}|(?:maximum|max|minimum|"
    rf"min|highest|lowest|best|worst|perfect|full) (?:possible )?(?:score|mark|rating|value)(?: possible)?(?: is| "
    rf"of| being|:)? {_DIGITS}",
    re.IGNORECASE,
)
"""Where the bounds of the scale are given."""
_NAME = (
    r"(?:scores?|ratings?|relevance(?: score)?|relevancy|grade|marks?|points?|verdict|answer|assessment|estimate|"
    r"evaluation|judge?ment|bewertung|punkt(?:e|zahl|wert|estand)|wertung|note|notation|score final|puntuación|"
    r"puntaje|calificación|valoración|nota|pontuação|avaliação|punteggio|voto|valutazione|beoordeling|cijfer|poäng|"
    r"betyg|arvosana|оценка|балл\w*|рейтинг|ocena|wynik|hodnocení|puan|pontszám"
    r"|评分|得分|分数|打分|评价|相关性|評分|評価|スコア|点数|得点|점수|평점|평가|الدرجة|التقييم|अंक|điểm|skor|nilai)"
)
_WHOLE = (
    r"(?:final|overall|total|combined|aggregate|corrected|revised|updated|adjusted|weighted|average|mean|resulting|"
    r"net|gesamt\w*|insgesamt|endgültige\w*|finale?\w*|korrigiert\w*|globale?|total[e]?|général\w*|corrigée?|"
    r"definitiv\w*|corregid\w*|geral|complessiv\w*|totaal|итог\w*|общ\w+|ogóln\w*|końcow\w*|celkov\w*|genel|总分?|"
    r"总体|最终|綜合|综合|総合|最終|합계|종합|최종|conclusion|bottom line|verdict|in total|in sum|all in all|"
    r"altogether|zusammen|summa summarum|en total|en conjunto|no geral|nel complesso)"
)
_LINK = (
    r"[*_\"'`\s]{0,4}(?:\([^()]{0,40}\)\s*)?(?:(?:is|are|of|at|as|be|would be|comes? (?:out )?(?:to|at)|stands at|"
    r"equals?|lands at|ist|beträgt|liegt bei|lautet|von|est|de|es|é|è|son|is dus|är|составляет|равна|to|jest|为|是|"
    r"為|は|:|：|=|->|→|-|–)[*_\"'`\s:：=]{0,4}){0,3}(?:(?:about|around|roughly|approximately|ca\.?|etwa|rund|"
    r"environ|unos|cerca de|circa|just|only|only a|a|an|around a|~|≈|约|約)\s*){0,2}[*_\"'`\s\[(]{0,4}"
)
_WHOLE_SCORE = re.compile(
    rf"(?<![\w])(?:{_WHOLE}[\s*_-]*(?:{_NAME}|assessment|rating|impression|fit|match|result|value)?|"
    rf"{_NAME}\s*{_WHOLE}){_LINK}(?=[-−]?[\d.,])",
    re.IGNORECASE,
)
_NAMED_SCORE = re.compile(
    rf"(?<![A-Za-z]){_NAME}(?![A-Za-z_-]|\s+(?:for|on|of (?:the|each|its))\b){_LINK}(?=[-−]?[\d.,])", re.IGNORECASE
)
_CONCLUDED = re.compile(
    r"(?:\b(?:i(?:['’]d| would| will|['’]ll)?|we(?:['’]d| would)?|ich|je|yo|eu|io|ik)\s+(?:\w+\s+){0,2}?(?:rate|"
    r"score|give|assign|say|grade|put|judge|estimate|settle|go|place|set|mark|award|rank|evaluate|bewerte|gebe|"
    r"vergebe|würde|schätze|donne|dirais|note|évalue|attribue|doy|daría|pondría|califico|dou|daria|avalio|do|darei|"
    r"darebbe|direi|valuto|geef)\b[^.!?\n\d]{0,80}?"
    r"|\b(?:rated?|scor(?:es|ed|ing)|assign(?:ed)?|deserves?|merits?|earns?|gets?|receives?|worth|"
    r"warrants?)\b[^.!?\n\d]{0,50}?"
    r"|\b(?:so|thus|therefore|hence|then|making it|which (?:gives|makes|yields)|giving|gives?|yields?|arrive at|"
    r"also|daher|deshalb|somit|folglich|ergibt|macht|donc|ainsi|soit|por (?:lo )?tanto|entonces|así que|portanto|"
    r"logo|então|quindi|pertanto|dunque|dus|поэтому|итак|因此|所以|よって|従って|したがって|따라서|"
    r"그래서),?\s*(?:it(?:['’]s| is)|a|an|the|my|i(?:['’]d)? say|about|um|eine|un|una|é|es|rating|score)?\s*(?:of|"
    r"is)?\s*[:：]?\s*"
    r"|(?:=|→|->|⇒)\s*)[*_\"'`(\[]{0,4}(?=[-−]?[\d.,])",
    re.IGNORECASE,
)
_NOT_MEANT = re.compile(
    r"(?:\bnot (?:a |an |quite |really |at |worth |fully )?|n['’]t (?:be |give it |a |deserve |get )?(?:a )?|"
    r"\bkein\w* |\bnicht |\bpas (?:un |une )?|\bno (?:es |un )?|\bnão (?:é )?|\bnon (?:è )?|\brather than (?:a )?|"
    r"\binstead of (?:a )?|\b(?:less|more|lower|higher|below|above|under|over|beyond|better|worse) (?:than )?(?:a "
    r")?|\bunder |\bfrom |\bwould (?:be|get|have|score|deserve|merit|receive|earn|need)[^.\d]{0,40}|"
    r"\bif\b[^.\n]{0,120}|\b(?:at (?:most|least)|up to|nearly|almost) (?:a )?|\b(?:perfect|full|ideal|"
    r"complete) [^.\n\d]{0,60}|\b(?:max|maximum|min|minimum|threshold|cut-?off)[^.\n\d]{0,20}|\bwere\b[^.\d]{0,60}|"
    r"\bhätte\w*[^.\d]{0,60}|\bwäre\w*[^.\d]{0,60}|\bwürde\w*[^.\d]{0,60})$",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"(?<!% )\b(?:confidence|certainty|uncertainty|probability|property|properties|relations?|entity|criterion|"
    r"criteria|attribute|weight|threshold|gene|rank|step|node|id|page|year|version|konfidenz|sicherheit|confiance|"
    r"confianza|confiança|certezza|zekerheid|requirement|condition|part|eigenschaft\w*|"
    r"beziehung\w*)\b(?:\s*\d{1,2})?[^.;\n\d]{0,20}$|置信度|信心|確信度",
    re.IGNORECASE,
)
_TURNED_DOWN = re.compile(
    rf"\b(?:not|rather than|instead of)\s+(?:an? |quite )?{_DIGITS}(?![\d.,]*\d|\s*(?:%|/|out\b|of\b))"
    rf"|(?<![\w.,/]){_DIGITS}(?:\s*%)?\s*(?:\?|(?:太|过|過)[高低大小]\w{{0,2}}|(?:would|might|could|may|seems?|is|feels?|"
    rf"looks?|wäre|ist|"
    r"scheint|serait|est|sería|es|seria|é|sarebbe|è|zou)\s[^.;,:\n\d]{0,40}?\b(?:too|over\w*|generous\w*|unwarranted|"
    r"unjustified|excessive|wrong|maximum|harsh|zu|trop|demasiado|muito|demais|troppo|te|exag\w+|"
    r"exces\w+)\b[^.;,:\n\d]{0,40})",
    re.IGNORECASE,
)
"""A number that the reply turns down: "0.9 would be too high"."""
_AND_ANOTHER = re.compile(
    rf"\s*(?:[,;/&\n]|and\b|or\b)[\s,;]*(?:maybe\s|perhaps\s|possibly\s)?{_DIGITS}(?![.)]?\s*[A-Za-z%/])(?![.)]\s)",
    re.IGNORECASE,
)
"""A second number right behind the first one."""
_RETRACTED = re.compile(rf"\d|{cues.RETRACTIONS.pattern}", re.IGNORECASE)
_LAST_SENTENCE = re.compile(rf"(?<=[.!?:\n])(?<!\.\.)\s+{_NUMBER.pattern}[\s.\"')\]]*$", re.IGNORECASE)
"""A number that is the last sentence."""
_KEYS = (
    "finalscore overallscore totalscore score rating relevance relevancescore overall final grade value result "
    "answer finalanswer points similarity match matchscore assessment bewertung punktzahl puntuación puntaje nota "
    "pontuação punteggio оценка 评分 得分 分数 スコア 점수 total"
).split()
_HOLDERS = ("arguments", "parameters", "input", "output", "result", "response", "answer", "data", "evaluation", "final")


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
    thought, said = strip_reasoning(reply)
    if not said.strip():
        raise ParseError("nothing but thought" if thought else "an empty reply", thought)
    for version in split_versions(unwrap(said), judged=True):
        if version.alternatives:
            break
        read = _read(version)
        if read is not None:
            score, rule = read
            if not 0 <= score <= 1:
                raise ParseError(f"{score:g} is not a score from 0 to 1", thought)
            return ParsedReply(score, rule, thought)
        if version.is_final or (version.takes_back and _RETRACTED.search(version.text)):
            break
    raise ParseError(f"no score: {said.strip()[:80]!r}", thought)


def _read(version: AnswerVersion) -> tuple[float, str] | None:
    pieces = [piece for piece in version.pieces if piece.stands] or version.pieces
    held = {score for piece in pieces if not piece.is_cut for score in _held(piece.value, 0)}
    if held:
        return (held.pop(), "json") if len(held) == 1 else None
    text = re.sub(rf"({_DIGITS})\s*[(（]\s*out of\s*({_DIGITS})\s*[)）]", r"\1/\2", version.text, flags=re.IGNORECASE)
    text = _TURNED_DOWN.sub(" ", _SCALE.sub(" ", text))
    text = re.sub(r"[*_`]", " ", text)
    for rule, found in (
        ("overall", _after(_WHOLE_SCORE, text)),
        ("labelled", _after(_NAMED_SCORE, text)),
        ("concluded", _after(_CONCLUDED, text)),
    ):
        if found:
            return (found[0], rule) if len(set(found)) == 1 else None
    start = text.strip(" \n\t\"'([{#>-–•“”≈~;,:")
    opening = None if text.strip().startswith(("-", "−", "–")) else _NUMBER.match(start)
    if opening is None and text.strip().startswith(("-", "−")):
        return None
    if opening is not None and _AND_ANOTHER.match(start, opening.end()):
        return None
    if opening is not None and not re.match(r"\s*(?:=|means\b|(?:points?\s+)?for\b)", start[opening.end() :]):
        return _value(opening), "first"
    if (last := _LAST_SENTENCE.search(text)) and not _OTHER.search(text, max(0, last.start() - 100), last.start() + 1):
        return _value(last), "last"
    alone = [match for match in _NUMBER.finditer(text) if not match["total"] or len(text.split()) < 5]
    if (
        len(alone) == 1
        and len(text.split()) <= 12
        and not _is_other(text, alone[0].start())
        and not re.search(r"\d", text[: alone[0].start()] + text[alone[0].end() :])
    ):
        return _value(alone[0]), "only"
    return None


_ONLY_IF = re.compile(r"\s*,?\s*(?:only )?(?:if|would|when|requires?|unless|wenn|falls|si)\b", re.IGNORECASE)
"""What makes the number before it one of another case."""


def _after(names: "re.Pattern[str]", text: str) -> list[float]:
    """Return the scores right after these names, without those of which is said that they are not meant."""
    found = []
    for match in names.finditer(text):
        number = _NUMBER.match(text, match.end())
        if number is None or _ONLY_IF.match(text, number.end()) or _is_supposed(text, match.start(), match.end()):
            continue
        if _NOT_MEANT.search(text, max(0, match.start() - 150), match.start()):
            continue
        if names is not _CONCLUDED and _is_other(text, match.start()):
            continue
        found += [_value(number), -1.0] if _AND_ANOTHER.match(text, number.end()) else [_value(number)]
    return found


def _is_other(text: str, position: int) -> bool:
    """Whether what stands before says that the number is none of the whole, or not the score."""
    line = text[max(text.rfind("\n", 0, position) + 1, position - 150) : position]
    sentence = re.split(r"[.!?;]\s", line)[-1]
    return bool(_NOT_MEANT.search(sentence) or _OTHER.search(sentence))


def _is_supposed(text: str, start: int, end: int) -> bool:
    sentence = re.split(r"[.!?;\n]\s*", text[max(0, start - 200) : end])[-1]
    return bool(
        re.search(
            r"\bif\b[^,]*,|\bhad\b.*\bwould\b|\bwere\b.*\bwould\b|\bperfect\b|\bwould (?:get|have|need|score|"
            r"receive|earn|deserve)\b(?<!i would)|\bwenn\b|\bfalls\b",
            sentence,
            re.IGNORECASE,
        )
    ) or bool(re.search(r"\bnot\b(?:\s+\w+){0,5}\s*$|n['’]t\b(?:\s+\w+){0,3}\s*$", text[start:end], re.IGNORECASE))


def _value(match: "re.Match[str]") -> float:
    number = _float(match["number"])
    if match["percent"]:
        number /= 100
    elif match["total"]:
        total = _float(match["total"])
        number = number / total if total >= 1 else -1.0
    return -number if match["sign"] else number


def _float(digits: str) -> float:
    return float(digits.replace(",", "."))


def _held(value: Value, depth: int) -> Iterator[float]:
    """Yield the scores of an object's members, the one that is final alone."""
    if isinstance(value, list) and len(value) == 1:
        yield from _number(value[0]) if not isinstance(value[0], dict) else _held(value[0], depth + 1)
    if not isinstance(value, dict) or depth > 4:
        return
    members = {plain(key): each for key, each in value.items()}
    for key in _KEYS:
        if key in members:
            each = members[key]
            found = list(_held(each, depth + 1)) if isinstance(each, dict | list) else list(_number(each))
            if found:
                yield found[0]
                return
    for key in _HOLDERS:
        if isinstance(each := members.get(key), dict):
            yield from _held(each, depth + 1)
            return
        if isinstance(each, str) and each.lstrip().startswith("{"):
            from kbbench_hf.parsing.lenient_json import extract_json

            for inner in extract_json(each)[:1]:
                yield from _held(inner.value, depth + 1)
            return


def _number(value: Value) -> Iterator[float]:
    if isinstance(value, str):
        match = re.fullmatch(rf"\s*(?:{_NUMBER.pattern})\W*", value, re.IGNORECASE)
        if match:
            yield _value(match)
