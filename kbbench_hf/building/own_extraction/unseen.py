"""Unseen sentences: test sentences whose subject and object are swapped for others of the same relation."""

import random
import re
from collections.abc import Iterator, Sequence
from itertools import islice, product, zip_longest

from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.mention_forms import find_mention, index_sentence
from kbbench_hf.metrics.triples import name_key, triple_key
from kbbench_hf.text.name_matching import Label
from kbbench_hf.text.name_variants import QUALIFIER

MOST = 30
"""The largest number that an ontology of the release has is 28."""
_TRIES = 40
_PRONOUN = re.compile(r"\b(?:he|she|it|its|him|her|his|hers|they|them|their|theirs|himself|herself|itself)\b", re.I)
_ARTICLE = re.compile(r"\b(an?)\s+$", re.I)


def swap_entities(rows: Sequence[Row], triples: Sequence[Row], seed: int, most: int = MOST) -> list[Row]:
    """Return rows about facts that are in no text: sentences of `rows` with another subject and object.

    A source row has one triple, and its sentence names both ends word for word. The new ends come from triples of the
    same relation; the new triple is not in the table. Sentences are refused if they have a pronoun or another entity,
    name the subject inside the object, or would need another article. The relations take turns.
    """
    facts = {_key(each) for each in triples}
    ends = {part: _names_by_relation(triples, part) for part in ("sub", "obj")}
    entities = sorted({each[part] for each in triples for part in ("sub", "obj")})
    by_word: dict[str, list[str]] = {}
    for entity in entities:
        if words := Label.of(_written(entity)).words:
            by_word.setdefault(max(words, key=len), []).append(entity)
    waiting: dict[str, list[Row]] = {}
    for row in rows:
        if len(row["triples"]) == 1 and not _PRONOUN.search(row["sentence"]) and _only_these(row, by_word):
            waiting.setdefault(row["triples"][0]["rel"], []).append(row)
    drawn = [_swapped_rows(of, ends, facts, relation, seed) for relation, of in sorted(waiting.items())]
    turns = (row for turn in zip_longest(*drawn) for row in turn if row is not None)
    return [row | {"id": f"unseen_{number}"} for number, row in enumerate(islice(turns, most), start=1)]


def _key(triple: Row) -> str:
    return triple_key((triple["sub"], triple["rel"], triple["obj"]))


def _names_by_relation(triples: Sequence[Row], part: str) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for each in triples:
        if _is_plain(each[part]):
            found.setdefault(each["rel"], set()).add(each[part])
    return {relation: sorted(names) for relation, names in found.items()}


def _is_plain(name: str) -> bool:
    """Return whether a name fits into a sentence: no ISO date, and no brackets inside."""
    return not re.search(r"[()\"]|\d{4}-\d\d-\d\d|^00 ", _written(name))


def _written(name: str) -> str:
    """Return a name as a sentence has it: without underscores, quotation marks and a bracketed disambiguation."""
    return QUALIFIER.sub("", name.replace("_", " ")).strip().strip('"')


def _swapped_rows(
    rows: Sequence[Row], ends: dict[str, dict[str, list[str]]], facts: set[str], relation: str, seed: int
) -> Iterator[Row]:
    """Yield the rows of a relation with swapped entities, in random order."""
    draw = random.Random(f"{seed} {relation}")
    subjects, objects = (ends[part].get(relation, []) for part in ("sub", "obj"))
    sizes = len(subjects), len(objects)
    others = list(product(*map(range, sizes))) if sizes[0] * sizes[1] < 10_000 else []
    for row in draw.sample(rows, len(rows)):
        old = row["triples"][0]
        for _ in range(_TRIES):
            if not subjects or not objects:
                return
            first, second = draw.choice(others) if others else map(draw.randrange, sizes)
            new = {"sub": subjects[first], "rel": relation, "obj": objects[second]}
            distinct = len({name_key(name) for name in (new["sub"], new["obj"], old["sub"], old["obj"])}) == 4
            sentence = _rewritten(row["sentence"], old, new) if distinct and _key(new) not in facts else ""
            if sentence:
                triple = new | {"sub_id": None, "rel_id": old["rel_id"], "obj_id": None}
                yield row | {"split": "unseen", "sentence": sentence, "triples": [triple], "origin": "swapped"}
                break


def _only_these(row: Row, by_word: dict[str, list[str]]) -> bool:
    """Return whether a sentence names both ends of its triple word for word, apart, and no other entity."""
    triple, text = row["triples"][0], index_sentence(row["sentence"])
    taken: list[set[int]] = []
    for part in ("sub", "obj"):
        found = find_mention(row["sentence"], triple[part])
        if found.form != "verbatim":
            return False
        taken.append({place for span in text.places(Label.of(found.words)) for place in range(*span)})
    if not all(taken) or taken[0] & taken[1]:
        return False
    for word in set(text.words):
        for entity in by_word.get(word, ()):
            spans = text.places(Label.of(_written(entity)))
            if any(not taken[0].union(taken[1]).issuperset(range(*span)) for span in spans):
                return False
    return True


def _rewritten(sentence: str, old: Row, new: Row) -> str:
    """Return a sentence with the new names in place of the old ones; "" where it would read wrong."""
    holes = []
    for part, hole in (("sub", "\0"), ("obj", "\1")):
        pattern = re.compile(rf"(?<!\w){re.escape(_written(old[part]))}(?!\w)")
        if not pattern.search(sentence):
            return ""
        holes.append((hole, _written(new[part])))
        sentence = pattern.sub(lambda _, hole=hole: hole, sentence)  # type: ignore[misc]
    for hole, name in holes:
        for match in re.finditer(hole, sentence):
            article = _ARTICLE.search(sentence[: match.start()])
            if article and (len(article[1]) == 2) != (name[0].lower() in "aeiou"):
                return ""
        sentence = sentence.replace(hole, name)
    return sentence
