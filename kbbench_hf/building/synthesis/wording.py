"""Grammar of questions: a frame, relative clauses for relations, and clauses for requirements.

`questions` writes questions with `Wording.ask`, and `templates` leaves out those that do not read well. The words are
in `grammar.toml` and `english.toml`. A change here changes the questions of synthesized datasets.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from zlib import crc32

from kbbench_hf.building.synthesis import english
from kbbench_hf.building.synthesis.english import GRAMMAR, WORDS, RelationEnds, clauses_of
from kbbench_hf.building.synthesis.requirements import Requirement
from kbbench_hf.building.synthesis.schema import RelationStep, Schema
from kbbench_hf.building.synthesis.spec import SpecWords, Template
from kbbench_hf.knowledge_base.metapaths import Metapath, MetapathWalk

_OPERATORS = {"=": "equal", "<=": "most", ">=": "least"}
_ARTICLE = re.compile(r"^(?:an?|the) (?=\S)")
_LEFT_OVER = re.compile(r"[_{}]|\b(?:None|nan)\b")
"""What a sentence has where a name or a value is missing."""
_ROLE = re.compile(r"the \[(.+?)\|(.+?)\] (.*)")
"""A role in both numbers, and what follows: "the [director|directors] of {x}"."""
_REDUCIBLE = re.compile(r"that \[(?:is|was)\|(?:are|were)\] (?!not |an? )")
LONGEST_REPEAT = 2
"""The most hops of one relation in a row."""
LONGEST_SUBJECT = 8
"""Words of the longest subject of a question that is not a sentence of its own before the question."""


@dataclass(frozen=True)
class Choice:
    """Random choice of wordings for one question; a new variant in one slot does not change the other slots."""

    seed: str
    question: int

    def of(self, variants: Sequence[str], slot: str) -> str:
        """Return one of the variants."""
        return variants[crc32(f"{self.seed}/{self.question}/{slot}".encode()) % len(variants)]


class _Clause(NamedTuple):
    """A relative clause about the end of a walk, with `{x}` for another node or nodes."""

    text: str
    subject: str
    """The words for `{x}`."""
    these: str = ""
    """The same as a reference back to them, if they have a clause themselves."""
    any_one: str = ""
    """The same for any one of them."""
    subjects: bool = False
    """Whether `{x}` is in the plural."""

    @property
    def is_role(self) -> bool:
        """Whether it takes the place of the type: "the director of {x}"."""
        return self.text.startswith("the ")

    @property
    def is_about_subject(self) -> bool:
        """Whether `{x}` is the subject of its verb: "that {x} wrote"."""
        return self.text.startswith("that {x} ")

    @property
    def is_verb(self) -> bool:
        """Whether it is "that" and a verb whose subject is the answer."""
        return self.text.startswith("that ") and not self.is_about_subject

    def verbal(self, one: bool) -> "_Clause":
        """Return a role as a clause with a verb: "that is the director of {x}"."""
        if not (parts := _ROLE.fullmatch(self.text)):
            return self
        one = one and parts[1] != "part"  # a part of it, not the part
        noun = f"the {parts[1]}" if one else english.with_article(parts[1])
        nouns = f"the {parts[2]}" if one else parts[2]
        return self._replace(text=f"that [is {noun}|are {nouns}] {parts[3]}")

    def words(self, many: bool, person: bool, *, reduced: bool = False) -> str:
        """Return the clause in a number, filled in; reduced, "made with {x}" instead of "that is made with {x}"."""
        text = _REDUCIBLE.sub("", self.text) if reduced else self.text
        if person:
            text = re.sub("^that (?!{x})", "who ", text).replace("[its|their]", "their")
        text = english.agree(text, many=self.subjects if self.is_about_subject else many)
        return text.replace("{x}", self.subject)

    def inverted(self, subject: str = "") -> str:
        """Return the verb of a question about what `{x}` is the subject of; "" where the verb is not known.

        >>> _Clause("that {x} wrote", "Ada").inverted(), _Clause("that {x} [is|are] made with", "Ink").inverted()
        ('did Ada write', 'is Ink made with')
        """
        verb, _, rest = english.agree(self.text, many=self.subjects).removeprefix("that {x} ").partition(" ")
        subject, rest = subject or self.subject, f" {rest}" * bool(rest)
        if verb in ("is", "are", "was", "were"):
            return f"{verb} {subject}{rest}"
        base, tense = english.verb_form(verb)
        if not base or tense not in ("base", "present", "past"):
            return ""
        return f"{'did' if tense == 'past' else 'do' if self.subjects else 'does'} {subject} {base}{rest}"


class Wording:
    """Wording of questions with the words of a knowledge base, and what its schema says of number and direction."""

    def __init__(self, words: SpecWords, schema: Schema) -> None:
        self._words, self._schema = words, schema

    def ask(
        self,
        template: Template,
        topics: Mapping[str, str],
        requirements: Sequence[Requirement],
        choice: Choice,
        reached: Sequence[Sequence[int]],
        besides: Sequence[str] = (),
    ) -> tuple[str, int, int]:
        """Return the question about the answers of a template, and its numbers of words on relations and requirements.

        Args:
            template: its own phrases are used where it has some.
            topics: label of a topic -> its name.
            requirements: what the answers must meet besides.
            choice: chooses the wordings.
            reached: how many nodes each hop of each walk leads to, as `TopicDraws.reached` returns it.
            besides: names of topics that meet the template themselves, and are no answers.
        """
        path = template.path
        singles = [self._n_single(walk, counts) for walk, counts in zip(path.walks, reached, strict=True)]
        is_one = any(n == len(walk.hops) for walk, n in zip(path.walks, singles, strict=True)) and not template.phrases
        many = not is_one and not _is_mass(self.type(path.answer_type))
        required = [
            [
                english.agree(_requirement_words(each, choice, n, where), many=many)
                for n, each in enumerate(requirements)
            ]
            for where in ("predicate", "clause")
        ]
        if template.phrases:
            relational = choice.of(template.phrases, "phrase")
            for label, name in topics.items():
                relational = relational.replace(f"{{{label}}}", name)
            text = choice.of(GRAMMAR["frames"]["phrase"], "frame").replace("{phrase}", relational)
            text += f" Only those {' and '.join(required[1])}." if requirements else ""
        else:
            clauses = self._clauses(path, topics, choice, singles)
            relational = " ".join(each.words(many, False) for each in clauses)
            clauses = [each.verbal(is_one) for each in clauses] if besides else clauses
            other = f" other than {' and '.join(besides)}" * bool(besides)
            text = self._sentence(path.answer_type, clauses, required, many, choice, other)
        return text, len(relational.split()), len(" ".join(required[1]).split())

    def type(self, kind: str) -> str:
        """Return the words for a type, in the singular."""
        given = self._words.types.get(kind)
        return given or english.singular(_ARTICLE.sub("", english.name_words(kind.replace("/", " or "))))

    def clauses(self, step: RelationStep) -> list[str]:
        """Return the relative clauses about the node that a step leads to: the spec's, or those for its relation."""
        if given := self._words.of(step):
            return [english.with_plural(each) for each in given]
        schema, is_out = self._schema, step.hop.direction != "in"
        forth, back = (step, schema.back.get(step)) if is_out else (schema.back.get(step), step)
        head, tail = (step.start, step.end) if is_out else (step.end, step.start)
        ends = RelationEnds(
            self.type(head), self.type(tail), back in schema.single, forth in schema.single, step in schema.mutual
        )
        clauses = clauses_of(step.hop.relation, "to" if is_out else "from", ends)
        if step in schema.open_ended:  # "the author of" would be of any type
            clauses = [self._open(each, step) for each in clauses]
        return clauses

    def _open(self, clause: str, step: RelationStep) -> str:
        """Return a role that leads to several types with a verb, unless its noun says the type: the club of Ada."""
        role = _ROLE.fullmatch(clause)
        is_type = role and f" {self.type(step.end)}".endswith(f" {role[1]}")
        return clause if is_type else _Clause(clause, "").verbal(self._is_single(step)).text

    def _is_single(self, step: RelationStep) -> bool:
        """Return whether a step leads to one node as a rule, or to a place, which is one in what is said of it."""
        is_place = english.head_of(english.name_words(step.hop.relation)) in WORDS["places"]
        return step in self._schema.single or (is_place and step.hop.direction != "in")

    def reads_well(self, path: Metapath) -> bool:
        """Return whether the wording of a template encloses no clause in another one: the last one ends in it."""
        walks = [_steps(walk) for walk in path.walks]
        if any(" relation with " in self.clauses(step)[0] for steps in walks if len(steps) > 1 for step in steps):
            return False
        if len(walks) > 1 and walks[0][-1] == walks[1][-1] and len(walks[0]) != len(walks[1]):
            return False  # by both Ada and a cook who lives in Ayr, who is Ada
        if any(len(steps) > LONGEST_REPEAT and len({*steps}) == 1 for steps in walks):
            return False
        onward = [self.clauses(step) for steps in walks for step in steps[1:]]
        for start in ("the ", "whose "):  # the languages of the countries of the films
            if sum(all(_begins_or_ends_walk(each, start) for each in clauses) for clauses in onward) > 1:
                return False
        if len(onward) == len(walks) == 1:
            return True
        return all(any(map(_is_right_branching, clauses)) for clauses in onward)

    def _n_single(self, walk: MetapathWalk, counts: Sequence[int]) -> int:
        """Return how many hops, from the topic on, lead to one node by their kind and here."""
        single = [n == 1 and self._is_single(step) for step, n in zip(_steps(walk), counts, strict=True)]
        return 0 if walk.topic is None else [*single, False].index(False)

    def _clauses(
        self, path: Metapath, topics: Mapping[str, str], choice: Choice, singles: Sequence[int]
    ) -> list[_Clause]:
        """Return a clause for each walk: roles first, long ones late, negated ones last."""
        found = []
        for place, walk in enumerate(path.walks):
            name = f"any {self.type(walk.start_type)}" if walk.topic is None else topics[walk.topic]
            clause = self._clause(walk, name, choice, f"walk {place}", singles[place])
            rank = 3 if walk.hops[-1].negated else 0 if clause.is_role else 2 if clause.these else 1
            found.append((rank, place, clause))
        one, *others = (clause for _, _, clause in sorted(found))
        if len(others) == 1 and one.text == others[0].text and not others[0].these:
            pair = (one.subject, others[0].subject)
            subject = " and ".join(f'"{each}"' if " and " in each and each[:4] != "the " else each for each in pair)
            if (role := _ROLE.fullmatch(one.text)) and role[1] == self.type(path.answer_type) and role[3] == "of {x}":
                return [one._replace(text="that {x} have in common", subject=subject, subjects=True)]
            return [one._replace(subject=f"both {subject}", subjects=True).verbal(all(singles))]
        return [one, *(each.verbal(False) for each in others)]

    def _clause(self, walk: MetapathWalk, name: str, choice: Choice, slot: str, n_single: int) -> _Clause:
        """Return the relative clause about the end of a walk from a node of that name."""
        clause = _Clause("", name)
        for number, step in enumerate(_steps(walk)):
            variants = self.clauses(step)
            if number:
                variants = [each for each in variants if _is_right_branching(each)] or variants
            elif len(walk.hops) > 1:  # whose parent has Ada as its head, not: whose parent is one whose head is Ada
                variants = [each for each in variants if not each.startswith("whose ")] or variants
            text = choice.of(variants, f"{slot} hop {number}")
            if number:
                clause = self._onward(text, clause, step.start, one=number <= n_single)
            else:
                subject = self._subject(name, self.type(step.start)) if text.startswith("that {x} ") else name
                clause = _Clause(text, subject, any_one=name)
            if walk.hops[number].negated:
                clause = clause._replace(text=_negate(clause.verbal(False).text))
        return clause

    def _subject(self, name: str, kind: str) -> str:
        """Return a name for the subject of a verb, after its type if the name looks like a plural."""
        looks_plural = (name[-1] == "s" and not name.endswith(("ss", "us", "is"))) or " and " in name
        is_plain = looks_plural and not english.is_person(kind) and not name.startswith(("any ", f"the {kind} "))
        return f"the {kind} {name}" if is_plain else name

    def _onward(self, text: str, before: _Clause, kind: str, *, one: bool) -> _Clause:
        """Return a clause about the nodes of a type that an earlier clause is about."""
        noun = role[1] if (role := _ROLE.fullmatch(before.text)) else self.type(kind)
        if text.startswith("whose ") and text.endswith(" is {x}") and before.is_verb:  # whose director lives in
            predicate = before.words(False, False).removeprefix("that ")
            return _Clause(text.replace(" is {x}", " {x}"), predicate, f"this {noun}", predicate)
        any_one = self._noun_phrase(kind, [before], False, "the " if one else None)
        if one or _is_mass(noun) or not text.startswith(("that {x} ", "the ")):
            return _Clause(text, any_one, f"this {noun}", any_one)
        these = f"any of these {english.plural(noun)}"
        return _Clause(text, self._noun_phrase(kind, [before], True, "the "), these, any_one, subjects=True)

    def _noun_phrase(
        self, kind: str, clauses: Sequence[_Clause], many: bool, article: str | None, wheres: Sequence[str] = ()
    ) -> str:
        """Return the nodes of a type with clauses about them, after an article, the indefinite one for None."""
        noun, rest, person = self.type(kind), list(clauses), english.is_person(self.type(kind))
        noun = english.plural(noun) if many else noun
        if rest and (role := _ROLE.fullmatch(rest[0].text)):
            clause = rest.pop(0)
            noun = f"{role[1 + many]} {role[3]}".replace("{x}", clause.any_one if article is None else clause.subject)
        reduced = len(rest) == len(clauses) == 1 and not wheres
        phrases = [each.words(many, person, reduced=reduced) for each in rest]
        whole = " ".join(filter(None, [noun, " and ".join([*phrases, *wheres])]))
        return english.with_article(whole) if article is None else f"{article}{whole}"

    def _sentence(
        self, kind: str, clauses: list[_Clause], required: list[list[str]], many: bool, choice: Choice, other: str
    ) -> str:
        """Return a question with clauses about its answers, and requirements as predicates or as clauses."""
        first, (phrases, wheres) = clauses[0], required
        person, rest = english.is_person(self.type(kind)), clauses[clauses[0].is_role :]
        about = [each for each in clauses if each.is_about_subject]
        others = [each for each in clauses if not each.is_about_subject]
        inverted = about[0].inverted() if len(about) == 1 else ""
        forms, head, predicate = ["list"], others, inverted
        if wheres and not (inverted and len(clauses) == 1 and first.these):
            if len(clauses) == 1:  # "whose" at the end would be about the nodes between as well
                forms = ["predicate"] if first.is_role or first.these else ["predicate", "list"]
                head, predicate = clauses, " and ".join(phrases)
        elif not rest:
            forms = ["person" if person else "noun"]
        elif all(each.is_verb for each in rest):
            forms = ["predicate", "predicate", "list"][: 1 if first.is_role and first.these else 3]
            head = clauses[: first.is_role]
            predicate = " and ".join(each.words(many, person).partition(" ")[2] for each in rest)
        elif inverted and all(each.is_verb or each.is_role for each in others):
            is_short = inverted.startswith(("do ", "does ", "did ")) and not wheres
            is_short = is_short and len(about[0].subject.split()) <= LONGEST_SUBJECT
            forms = ["long"] if about[0].these and not is_short else ["inverted", "list"][: 1 if about[0].these else 2]
            predicate = about[0].inverted(about[0].these) if forms == ["long"] else inverted
        frame = choice.of(GRAMMAR["frames"][choice.of(forms, "form")], "frame")
        noun = english.plural(self.type(kind)) if many else self.type(kind)
        phrases = wheres if predicate == inverted or forms == ["long"] else []
        slots = {
            "answers": self._noun_phrase(kind, clauses, many, "the ", wheres).replace(noun, noun + other, 1),
            "type": self._noun_phrase(kind, head, many, "", phrases).replace(noun, noun + other, 1),
            "predicate": predicate,
            "subject": about[0].subject if about else "",
        }
        if slots["type"] == "person":
            frame = frame.replace("Which {type}", "Who").replace("which {type}", "who")
        text = english.fill(english.agree(frame, many=many), slots)
        return text[0].upper() + text[1:]


def is_filled(text: str, topics: Sequence[str]) -> bool:
    """Return whether a text names every topic in full, as whole words, and has no open slot."""
    rest = text
    for topic in sorted(topics, key=len, reverse=True):
        whole = re.compile(rf"(?<!\w){re.escape(topic)}(?!\w)")
        if not whole.search(text):
            return False
        rest = whole.sub("", rest)
    return not _LEFT_OVER.search(rest)


def _steps(walk: MetapathWalk) -> list[RelationStep]:
    """Return the steps of a walk, without negation."""
    starts = [walk.start_type, *(hop.node_type for hop in walk.hops)]
    return [RelationStep(start, replace(hop, negated=False)) for start, hop in zip(starts, walk.hops, strict=False)]


def _is_right_branching(clause: str) -> bool:
    """Return whether a clause ends in the other node, so that a clause about that node can follow."""
    return clause.endswith("{x}") and not clause.startswith("that {x}")


def _begins_or_ends_walk(clause: str, start: str) -> bool:
    """Return whether a clause begins with a word, or cannot be followed by a clause anyway."""
    return clause.startswith(start) or not _is_right_branching(clause)


def _negate(clause: str) -> str:
    """Return the negation of a relative clause.

    >>> _negate("that [lives|live] in {x}"), _negate("that {x} wrote")
    ('that [does|do] not live in {x}', 'that {x} did not write')
    >>> _negate("that [is a member|are members] of {x}"), _negate("that zings {x}")
    ('that [is not a member|are not members] of {x}', 'that [is not one|are not ones] that zings {x}')
    """
    parts = re.fullmatch(r"(that (?:\{x\} )?)(?:\[(\w+)([^|]*)\|(\w+)([^]]*)\]|(\w+))(.*)", clause)
    if parts and parts[2] in ("is", "was"):
        return f"{parts[1]}[{parts[2]} not{parts[3]}|{parts[4]} not{parts[5]}]{parts[7]}"
    if parts and parts[2]:
        return f"{parts[1]}[does|do] not {parts[4]}{parts[7]}"
    if parts and english.verb_form(parts[6])[0] and english.verb_form(parts[6])[1] == "past":
        return f"{parts[1]}did not {english.verb_form(parts[6])[0]}{parts[7]}"
    return f"that [is not one|are not ones] {clause}"


def _is_mass(noun: str) -> bool:
    """Return whether a noun phrase cannot be counted, so that it has no plural."""
    return noun.split()[-1] in WORDS["mass"]


def _requirement_words(requirement: Requirement, choice: Choice, place: int, where: str) -> str:
    """Return the words of a requirement in both numbers, `where` a clause or a predicate; `place` is its number."""
    kind = "phrase" if requirement["kind"] == "phrase" else _OPERATORS[requirement["op"]]
    value, field = requirement["value"], english.name_words(str(requirement.get("field", "value")))
    shown = str(value) if isinstance(value, str | int) else f"{value:g}"
    if english.verb_form(field)[1] in ("past", "participle") and kind != "equal":
        kind = f"{kind}_event"
    elif field in ("year", "date") and kind != "equal":
        kind = f"{kind}_date"
    elif not WORDS["times"].isdisjoint(field.split()) and kind != "equal":
        kind = f"{kind}_time"
    elif english.singular(field) != field:
        kind = f"{kind}_count"
    elif " " in field and field.split()[-1] in WORDS["units"]:
        field, _, unit = field.rpartition(" ")
        shown = f"{shown} {unit}"
    slots = {"field": field, "a_field": english.with_article(field), "value": shown}
    return english.fill(choice.of(GRAMMAR[where][kind], f"requirement {place}"), slots)
