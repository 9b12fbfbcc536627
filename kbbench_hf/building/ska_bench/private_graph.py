"""Invented names for the private split, and graph instances renamed with them.

Words of names are replaced by invented ones: a bijection that a seed determines, pronounceable, unlike any word before.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, UnitPool
from kbbench_hf.building.ska_bench.graph_programs import Fact, find_matches, index_facts, is_variable
from kbbench_hf.text.folding import strip_accents

WORD = re.compile(r"(?<![^\W\d_]['’])[^\W\d_]+|(?<=['’])(?!(?:s|t|re|ll|ve|d|m)\b)[^\W\d_]+", re.I)
"""A word of a name: letters alone, so that `O'Brien` has two; what an apostrophe cuts off a verb is none."""
_ONSETS = "b d f g h j k l m n p r s t v w z br dr gr kr pl pr st tr".split()
_VOWELS = "aeiou"
_CODAS = "lmnrs"
NAMED = frozenset({"directed by", "written by", "starred actors"})
"""The relations whose tails are people; the heads of all relations are films."""
DATED = "release year"
KEPT = frozenset("a an and as at by for from in of on or the to vs with ii iii iv vi vii viii ix xi xii".split())
"""Words that stay in a name, unless it has no others."""
LONGEST = 12
"""No name of more words is looked for inside a text."""
_TOKEN = re.compile(r"\w+")


class RenamedSubset(NamedTuple):
    """A subset with invented names, and why some of its instances were left out."""

    instances: list[Instance]
    pool: UnitPool
    left_out: dict[str, str]


@lru_cache(maxsize=1 << 20)
def word_key(word: str) -> str:
    """Return the form that all spellings of a word share: without marks and case.

    >>> word_key("Müller"), word_key("MULLER")
    ('muller', 'muller')
    """
    return strip_accents(word).casefold()


def word_keys(*texts: str) -> set[str]:
    """Return the keys of the words of some texts."""
    return {word_key(word) for text in texts for word in WORD.findall(text)}


def invent_words(words: Iterable[str], seed: str, avoid: Collection[str]) -> dict[str, str]:
    """Return a distinct invented word for each of these keys, in lower case, in any order of the words.

    None begins with the letter of the word that it replaces, none is among `avoid`; of a word, only its length is kept,
    roughly. Without the seed nobody can say which word replaces which.

    >>> made = invent_words(["robson", "keane"], "secret", avoid={"robson"})
    >>> len(set(made.values())), made == invent_words(["keane", "robson"], "secret", avoid={"robson"})
    (2, True)
    """
    made: dict[str, str] = {}
    taken = set(avoid)
    for word in sorted(set(words)):
        attempt = 0
        while word not in made:
            digest = hmac.new(seed.encode(), f"{word}|{attempt}".encode(), hashlib.sha256).digest()
            found = _pronounceable(digest, len(word))
            if found not in taken and found[0] != word[:1]:
                made[word] = found
                taken.add(found)
            attempt += 1
    return made


def years_later(seed: str) -> int:
    """Return the constant, from 3 to 9, by which years are shifted."""
    return 3 + hmac.new(seed.encode(), b"years", hashlib.sha256).digest()[0] % 7


def _pronounceable(digest: bytes, length: int) -> str:
    """Return syllables that a digest chooses: two for a short word, three for a long one."""
    draws = iter(digest)
    parts = [_ONSETS[next(draws) % len(_ONSETS)] + _VOWELS[next(draws) % 5] for _ in range(2 if length < 7 else 3)]
    return "".join(parts) + ("" if (coda := next(draws) % 8) >= len(_CODAS) else _CODAS[coda])


def match_case(word: str, invented: str) -> str:
    """Return an invented word in the case of another one: in capitals, with one, or without.

    >>> match_case("USA", "velon"), match_case("Usa", "velon"), match_case("usa", "velon"), match_case("O", "velon")
    ('VELON', 'Velon', 'velon', 'Velon')
    """
    if word.isupper() and len(word) > 1:
        return invented.upper()
    return invented.capitalize() if word[:1].isupper() else invented


def replace_words(text: str, words: Mapping[str, str], only: Collection[str]) -> str:
    """Return a text with the words replaced that have an invented one and whose keys are among `only`.

    >>> replace_words("Robson's goals", {"robson": "velon"}, {"robson"})
    "Velon's goals"
    """

    def one(found: re.Match[str]) -> str:
        key = word_key(found[0])
        return match_case(found[0], words[key]) if key in words and key in only else found[0]

    return WORD.sub(one, text)


class GraphNames:
    """The new names of a graph, alone and inside a text."""

    def __init__(self, triples: Iterable[Cells], vocabulary: Iterable[str], seed: str) -> None:
        self._later = years_later(seed)
        names: set[str] = set()
        self._years: set[str] = set()
        known = word_keys(*vocabulary)
        for head, relation, tail in triples:
            names |= {head, tail} if relation in NAMED else {head}
            self._years |= {tail} if relation == DATED and tail.isdigit() else set()
            known |= word_keys(head, tail)
        wordless = {name.casefold() for name in names if not WORD.search(name)}
        invented = invent_words(word_keys(*names) | wordless, seed, avoid=known)
        self._new: dict[str, str] = {}
        taken: set[str] = set()
        for name in sorted(names):
            folded, keys = name.casefold(), word_keys(name)
            if folded in self._new:
                continue
            new = replace_words(name, invented, keys - KEPT or keys) if keys else invented[folded].capitalize()
            while new.casefold() in taken:  # two names that differ in marks alone
                more = f"{name}|{new}"
                new = f"{new} {invent_words([more], seed, known)[more].capitalize()}"
            taken.add(new.casefold())
            self._new[folded] = new
        self._inside = {_core(name): _core(new, fold=False) for name, new in self._new.items()}

    def cell(self, cell: str, *, year: bool | None = None) -> str:
        """Return the new form of a cell; without `year`, its own form decides whether it is a year."""
        if cell in self._years and (year or (year is None and cell.casefold() not in self._new)):
            return str(int(cell) + self._later)
        new = self._new.get(cell.casefold())
        return self.text(cell) if new is None else new.casefold() if cell == cell.casefold() else new

    def triple(self, triple: Cells) -> Cells:
        """Return the new form of a triple."""
        head, relation, tail = triple
        return (self.cell(head), relation, self.cell(tail, year=relation == DATED))

    def text(self, text: str, only: Sequence[str] | None = None) -> str:
        """Return a text with all names of several words renamed, the longest first, or only these, of one word too."""
        also = {_core(name) for name in only or ()}
        tokens = list(_TOKEN.finditer(text))
        parts, place, n = [], 0, 0
        while n < len(tokens):
            for last in range(min(n + LONGEST, len(tokens)) - 1, n - 1, -1):
                found = text[tokens[n].start() : tokens[last].end()]
                if found in also and found in self._years:
                    new: str | None = self.cell(found, year=True)
                else:
                    sought = last > n if only is None else found.casefold() in also
                    new = self._inside.get(found.casefold()) if sought else None
                if new is not None:
                    parts += [text[place : tokens[n].start()], new]
                    place, n = tokens[last].end(), last
                    break
            n += 1
        return "".join([*parts, text[place:]])

    def instance(self, instance: Instance) -> Instance:
        """Return the new form of an instance, its program about the same entities and years."""
        year, program = instance.answer_type == "date", instance.program
        if program:
            where = []
            for head, relation, tail in program["where"]:
                ends = [t if is_variable(t) else self.cell(t, year=relation == DATED) for t in (head, tail)]
                where.append([ends[0], relation, ends[1]])
            program = {**program, "where": where}
        return replace(
            instance,
            question=self.text(instance.question, instance.topics),
            answers=tuple(self.cell(answer, year=year) for answer in instance.answers),
            answer_aliases=tuple(tuple(self.cell(each, year=year) for each in of) for of in instance.answer_aliases),
            topics=tuple(map(self.cell, instance.topics)),
            decoys=tuple(map(self.cell, instance.decoys)),
            split_key=self.cell(instance.split_key),
            title=self.text(instance.title),
            program=program,
        )


def rename_graph(instances: Sequence[Instance], pool: UnitPool, seed: str) -> RenamedSubset:
    """Return the instances on triples with invented names; those are left out whose gold no longer follows."""
    triples = [triple for group in pool.sk.values() for triple in group]
    names = GraphNames(triples, [instance.question for instance in instances], seed)
    new = replace(pool, sk={group: [names.triple(triple) for triple in units] for group, units in pool.sk.items()})
    facts = index_facts((Fact(h, t, None), relation) for group in new.sk.values() for h, relation, t in group)
    kept, left_out = [], dict[str, str]()
    for instance in map(names.instance, instances):
        program = instance.program
        found = {match.binding[program["find"]] for match in find_matches(program, facts)} if program else set()
        if found != set(instance.answers):
            left_out[instance.id] = "its program gives other answers"
        else:
            kept.append(instance)
    return RenamedSubset(kept, new, left_out)


def _core(name: str, *, fold: bool = True) -> str:
    """Return a name from its first word to its last, as it occurs inside a text."""
    tokens = list(_TOKEN.finditer(name))
    core = name[tokens[0].start() : tokens[-1].end()] if tokens else name
    return core.casefold() if fold else core
