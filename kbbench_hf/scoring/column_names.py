"""Names of columns: which hold gold answers, and which hold predictions.

The rules are for words, not for whole names, as every tool spells them in its own way: `expectedOutput`,
`gold_triples`, `reference_outputs.answer`, `y_true`.
"""

import re
from typing import Literal, NamedTuple

_WORD = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
_GOLD = re.compile(
    "golds?|golden|gt|ground(truth)?s?|truth(s|ful)?|ideals?|targets?|tgts?|labels?|labell?ed|ref(erence)?s?|expect.*|"
    "desired|wanted|correct.*|incorrect|true|ytrue|solutions?|solved|oracles?|keys?|annot.*|human|manual|y|"
    "accept(ed|able)|official|canonical|qrels?|relevan(t|ce)|positives?|right|best|aliases|examples?|dataset|doc|"
    "modified.*|original.*|(gold|true|target|reference|correct|expected|label)(answer|triple|output|response|label|ids?).*"
)
"""Whole words of gold columns. `example` and `doc` are the dataset's row in a tool's output."""
_WEAK_GOLD = re.compile("targets?|labels?|y|keys?|example|positives?|best|relevan(t|ce)")
"""Words that also name what is predicted, as in `predicted_label`."""
_PREDICTED = re.compile(
    "y?pred.*|predict.*|hyp(s|o.*)?|infer(red|ences?)?|guess(es|ed)?|y?hat|generated.*|picked|sampled"
)
_PRODUCED = re.compile(
    "(model|llm|raw|final|sys)?(generations?|gen|completions?|outputs?|outs?|responses?|resps?|repl(y|ies)|decoded)|"
    "messages|conversations?|genera(tion|ted)?text|extracted"
)
_MAKER = re.compile(
    "model|llm|assistant|bot|agent|system|sys|candidates?|retrieved|ranked|ranking|search|final|chatbot"
)
_ANSWER = re.compile(
    "ans|answers?|triples?|triplets?|facts?|results?|extractions?|kg|graph|relations?|ids|hits|retrieved|ranking|run"
)
_CONTENT = re.compile("text|content|value|message|parts|answers?|triples?|ids|data|body|choices")
"""Words under which a prediction's text is nested."""
_CLEANED = re.compile("filtered|parsed|final|processed|cleaned|extracted|post.*")
_OTHER = re.compile(
    "id|prompts?|inputs?|questions?|query|queries|instructions?|contexts?|tokens?|tok|log(s|its?|probs?)?|probs?|"
    "probabilit.*|scores?|hash|metrics?|type|kind|role|reason(ing)?|think.*|thoughts?|rationales?|explanations?|status|"
    "usage|format|length|len|count|num|n|path|files?|filename|urls?|parser|time.*|timestamp|date|created|cost|latency|"
    "seed|temperature|config|params|parameters?|settings?|name|version|errors?|finish|tools?|flags?|object|index|"
    "neg|negs|negatives?|distractors?|stop|fingerprint|schema|template|is|has|confidence|embeddings?|evidence|code|meta(data)?|judge.*|grade[drs]?"
)
"""Words of columns beside the answer: of a request, a prompt or a score."""


class Likeness(NamedTuple):
    """What a column holds by its name, and how plainly the name says so."""

    role: Literal["gold", "prediction", "other", ""]
    strength: float = 0


def likeness(path: str) -> Likeness:
    """Return what a column at a dotted path holds by its name.

    >>> [likeness(name).role for name in ("expectedOutput", "gold_triples", "references.0", "y_true", "labels")]
    ['gold', 'gold', 'gold', 'gold', 'gold']
    >>> [likeness(name).role for name in ("pred_triples", "resps.0.0", "response.body.choices.0.message.content")]
    ['prediction', 'prediction', 'prediction']
    >>> [likeness(name).role for name in ("response.body.id", "output_tokens", "sentence")]
    ['other', 'other', '']
    """
    parts = [part for part in path.split(".") if not part.isdecimal()]
    words = [[word.lower() for word in _WORD.findall(part)] for part in parts]
    every, leaf = [word for part in words for word in part], words[-1] if words else []
    predicted, produced = _any(_PREDICTED, every), _any(_PRODUCED, every)
    gold = [word for word in every if _GOLD.fullmatch(word)]
    if "actual" in every and not (predicted or produced):
        gold.append("actual")
    if gold and not (predicted and all(map(_WEAK_GOLD.fullmatch, gold))):
        return Likeness("gold", not _any(_OTHER, leaf))
    if _any(_OTHER, leaf):
        return Likeness("other")
    named = _any(_PREDICTED, leaf) or _any(_PRODUCED, leaf) or _any(_ANSWER, leaf)
    if not named and not (_any(_CONTENT, leaf) and (predicted or produced or _any(_ANSWER, every))):
        return Likeness("")
    strength = 4 if predicted else 3 if produced else 2 if _any(_MAKER, every) else 1
    return Likeness("prediction", strength + 0.5 * _any(_CLEANED, every))


def is_gold_name(path: str) -> bool:
    """Say whether a column holds gold answers by its name; `doc.id` and the like are the dataset's and no answers."""
    found = likeness(path)
    return found.role == "gold" and found.strength > 0


def _any(pattern: re.Pattern[str], words: list[str]) -> bool:
    return any(map(pattern.fullmatch, words))
