"""Grammar of questions: a frame, relative clauses for relations, and clauses for requirements."""

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal
from zlib import crc32

from kbbench_hf.building.synthesis.requirements import Requirement
from kbbench_hf.building.synthesis.schema import RelationStep
from kbbench_hf.building.synthesis.spec import SpecWords, Template
from kbbench_hf.knowledge_base.metapaths import Hop, MetapathWalk

_GRAMMAR = tomllib.loads(Path(__file__).with_name("grammar.toml").read_text(encoding="utf-8"))
_FORMS = {name: frozenset(words) for name, words in _GRAMMAR["forms"].items()}
_OPERATORS = {"=": "equal", "<=": "most", ">=": "least"}
Direction = Literal["to", "from", "both"]
"""The end of an edge that a clause is about: its tail, its head, or either."""
LONGEST_NAME = 4
"""Words of a relation's name; a longer name is quoted."""
_SIGN = re.compile(r"[,;.!?\"]")
_ARTICLE = re.compile(r"^(?:an?|the) (?=\S)")
_LEFT_OVER = re.compile(r"[_{}]|\b(?:None|nan)\b")


@dataclass(frozen=True)
class Choice:
    """Random choice of wordings for one question; a new variant in one slot does not change the other slots."""

    seed: str
    question: int

    def of(self, variants: Sequence[str], slot: str) -> str:
        """Return one of the variants."""
        return variants[crc32(f"{self.seed}/{self.question}/{slot}".encode()) % len(variants)]


@dataclass(frozen=True)
class WordedQuestion:
    """A question, and how many of its words are about relations and about requirements."""

    text: str
    n_relational: int
    n_textual: int


class Wording:
    """Wording of questions with the words of a knowledge base."""

    def __init__(self, words: SpecWords, mutual: Collection[RelationStep] = frozenset()) -> None:
        """Set the words; `mutual` are the symmetric steps, which need symmetric words."""
        self._words, self._mutual = words, mutual

    def ask(
        self, template: Template, topics: Mapping[str, str], requirements: Sequence[Requirement], choice: Choice
    ) -> WordedQuestion:
        """Return the question about the answer of a template; `topics` are the names by their labels."""
        kind = self.type(template.path.answer_type)
        own_sentences = len(requirements) > 0 and choice.of(["inside", "own"], "where requirements stand") == "own"
        said = [
            self._requirement(each, choice, place, "sentences" if own_sentences else "requirements")
            for place, each in enumerate(requirements)
        ]
        inside = [] if own_sentences else said
        if template.phrases:
            relational = choice.of(template.phrases, "phrase")
            for label, name in topics.items():
                relational = relational.replace(f"{{{label}}}", name)
            frame = choice.of(_GRAMMAR["frames"]["plural"], "frame")
            if inside:
                said = [self._requirement(each, choice, n, "sentences") for n, each in enumerate(requirements)]
            text = " ".join([frame.replace("{phrase}", relational), *said])
        else:
            walks = sorted(template.path.walks, key=lambda walk: any(hop.negated for hop in walk.hops))
            several = len(walks) + len(inside) > 1
            clauses = [self._walk(walk, topics, choice, place, several) for place, walk in enumerate(walks)]
            relational = " and ".join(clauses)
            stated = self._stated(walks[0], topics, choice) if len(walks) == 1 and not inside else ""
            asked = stated or self._framed(kind, [*inside, *clauses], choice)
            text = " ".join([asked, *(said if own_sentences else [])])
        return WordedQuestion(text, len(relational.split()), sum(len(each.split()) for each in said))

    def type(self, kind: str) -> str:
        """Return the words for a type, in the singular."""
        return self._words.types.get(kind) or _ARTICLE.sub("", spoken(kind).replace("/", " or "))

    def _framed(self, kind: str, clauses: list[str], choice: Choice) -> str:
        bare = [clause for clause in clauses if clause.startswith(("with ", "described "))]
        rest = [clause for clause in clauses if clause not in bare]
        between = " and " if bare and rest and rest[0].startswith("whose ") else " "
        joined = between.join(filter(None, [" and ".join(bare), " and ".join(rest)]))
        verbs = [clause.removeprefix("that ") for clause in clauses if _has_its_verb(clause)]
        frames = [*_GRAMMAR["frames"]["any"]]
        if len(verbs) == len(clauses):
            frames += _GRAMMAR["frames"]["direct"] * 2
        filled = {"type": kind, "a_type": _with_article(kind), "clauses": joined, "verbs": " and ".join(verbs)}
        return _fill(choice.of(frames, "frame"), filled)

    def _walk(self, walk: MetapathWalk, topics: Mapping[str, str], choice: Choice, place: int, several: bool) -> str:
        """Return the relative clause about the end of a walk."""
        said = topics[walk.topic] if walk.topic is not None else f"any {self.type(walk.start_type)}"
        start, clause = walk.start_type, ""
        for number, hop in enumerate(walk.hops):
            last = number == len(walk.hops) - 1
            clause = self._clause(start, hop, said, choice, f"walk {place} hop {number}", last and several)
            if hop.negated:
                clause = f"that is not one {clause}"
            if not last:
                said = f"{_with_article(self.type(hop.node_type))} {clause}"
            start = hop.node_type
        return clause

    def _stated(self, walk: MetapathWalk, topics: Mapping[str, str], choice: Choice) -> str:
        """Return a walk as a sentence that ends in the question; "" where it would not be easier to read.

        A relative clause like "that {x} is made with" for the last step would enclose all other steps: "a town that a
        cook that X is apprenticed to lives in".
        """
        if walk.topic is None or len(walk.hops) == 1 or any(hop.negated for hop in walk.hops):
            return ""
        said = noun = topics[walk.topic]
        start, is_sentence = walk.start_type, False
        for number, hop in enumerate(walk.hops):
            last = number == len(walk.hops) - 1
            clause = self._clause(start, hop, "{x}", choice, f"walk 0 hop {number}", last)
            start = hop.node_type
            if clause.startswith("that {x} "):
                thing = f"which {self.type(start)}?" if last else _with_article(self.type(start))
                predicate = clause.removeprefix("that {x} ")
                said, is_sentence = f"{said}{' that' * is_sentence} {predicate} {thing}", True
            elif last:
                return ""
            else:
                said, is_sentence = f"{_with_article(self.type(start))} {clause.replace('{x}', noun)}", False
            noun = f"{_with_article(self.type(start))} {clause.replace('{x}', noun)}"
        return said if said.startswith(topics[walk.topic]) else said[0].upper() + said[1:]

    def _clause(self, start: str, hop: Hop, said: str, choice: Choice, slot: str, whole: bool) -> str:
        step = RelationStep(start, replace(hop, negated=False))
        given = self._words.of(step)
        direction: Direction = "both" if step in self._mutual else "from" if hop.direction == "in" else "to"
        variants = list(given or clauses_of(hop.relation, direction, self.type(hop.node_type)))
        if whole:
            variants = [each for each in variants if each.startswith(("that ", "whose "))] or variants
        if "that" in said.split():  # it ends in a clause, which should be the end of this one
            fronted = [_fronted(each) for each in variants]
            variants = [each for each in fronted if each.endswith("{x}")] or fronted
        return choice.of(variants, slot).replace("{x}", said)

    def _requirement(self, requirement: Requirement, choice: Choice, place: int, where: str) -> str:
        value = requirement["value"]
        kind = "phrase" if requirement["kind"] == "phrase" else _OPERATORS[requirement["op"]]
        field = spoken(str(requirement.get("field", "")))
        shown = str(value) if isinstance(value, str | int) else f"{value:g}"
        variants = _GRAMMAR[where][kind]
        others = [*variants[place:], *variants[:place]]  # two requirements of a kind get different words
        return _fill(choice.of(others, "requirement"), {"field": field, "value": shown})


def spoken(name: str) -> str:
    """Return the words of a name in a schema.

    >>> [spoken(name) for name in ("in_district", "parentTaxon", "DNA test", "has-part")]
    ['in district', 'parent taxon', 'DNA test', 'has part']
    """
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.replace("_", " ").replace("-", " "))
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in parted.split())


@lru_cache(maxsize=4096)
def clauses_of(relation: str, direction: Direction, kind: str = "") -> list[str]:
    """Return relative clauses about the node, a `kind`, that a relation leads `to`, or comes `from`, or both.

    `{x}` is the node at the other end.

    >>> clauses_of("guards", "from"), clauses_of("made with", "to"), clauses_of("in_district", "from")
    (['that guards {x}'], ['that {x} is made with'], ['that is in {x}', 'that has {x} as its district'])
    >>> clauses_of("parent taxon", "to"), clauses_of("season", "to", "season")
    (['that is the parent taxon of {x}', 'that {x} has as its parent taxon'], ['that {x} has', 'that belongs to {x}'])
    >>> clauses_of("interacts with", "both")
    ['that interacts with {x}']
    """
    words = spoken(relation).split() or [relation]
    if words[0] == "has" and len(words) > 1 and words[1] not in _FORMS["prepositions"]:
        words = words[1:]
    if words[0] == "is" and len(words) > 1:
        words = words[1:]
    first, last = words[0], words[-1]
    filled = {"r": " ".join(words), "preposition": first, "noun": " ".join(words[1:])}
    if filled["r"] in _FORMS["pairs"]:
        filled["r"], form, direction = relation, "quoted", "both"
    elif len(words) > LONGEST_NAME or first in ("a", "an", "the") or _SIGN.search(relation):
        filled["r"], form = relation, "quoted"
    elif first in _FORMS["prepositions"] and len(words) > 1:
        form = "place"
    elif first == "has" or (_is_verb(first) and (len(words) == 1 or last in _FORMS["prepositions"])):
        form = "verb"
    elif last in _FORMS["prepositions"]:
        form = "participle"
    elif len(words) == 1 and (first.endswith("ed") or first in _FORMS["past"]):
        form = "past"
    elif last.endswith("s") and not last.endswith(("ss", "us", "is")):
        form = "plural"
    elif f" {kind}".endswith(f" {filled['r']}"):
        form = "same"
    else:
        form = "noun"
    return [_fill(variant, filled) for variant in _GRAMMAR["clauses"][form][direction]]


def is_filled(text: str, topics: Sequence[str]) -> bool:
    """Return whether a text names every topic in full, as whole words, and has no open slot."""
    rest = text
    for topic in sorted(topics, key=len, reverse=True):
        whole = re.compile(rf"(?<!\w){re.escape(topic)}(?!\w)")
        if not whole.search(text):
            return False
        rest = whole.sub("", rest)
    return not _LEFT_OVER.search(rest)


def _is_verb(word: str) -> bool:
    """Return whether a word is the third person of a known verb."""
    bases = (
        {word.removesuffix("s"), word.removesuffix("es"), f"{word.removesuffix('ies')}y"} if word[-1:] == "s" else ()
    )
    return any(base in _FORMS["verbs"] for base in bases)


def _fronted(clause: str) -> str:
    """Return a clause with its final preposition at the start ("with which").

    >>> _fronted("that {x} is made with"), _fronted("that {x} contains")
    ('with which {x} is made', 'that {x} contains')
    """
    words = clause.split()
    if clause.startswith("that {x} ") and len(words) > 3 and words[-1] in _FORMS["prepositions"] - {"as"}:
        return f"{words[-1]} which {' '.join(words[1:-1])}"
    return clause


def _has_its_verb(clause: str) -> bool:
    """Return whether a clause is "that" and a verb whose subject is the node itself."""
    words = clause.split()
    return words[0] == "that" and len(words) > 1 and (words[1] in ("is", "has", "counts") or _is_verb(words[1]))


def _fill(text: str, slots: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: slots.get(found[1], found[0]), text)


def _with_article(noun: str) -> str:
    """Return a noun after its indefinite article.

    >>> [_with_article(noun) for noun in ("ingredient", "unit", "hour", "town")]
    ['an ingredient', 'a unit', 'an hour', 'a town']
    """
    first = noun.lower()
    vowel = first.startswith(("a", "e", "i", "o", "u", "hour", "honour", "heir")) and not first.startswith(
        ("uni", "use", "eu", "one", "ura")
    )
    return f"{'an' if vowel else 'a'} {noun}"
