"""Subset `kg_text`, templates: Text2KGBench's Wikidata-TekGen half (CC BY-SA), questions with several conditions.

A question asks for the one entity that meets two to five conditions, or for every entity that meets one. Some of the
facts are triples; the others have to be read from sentences, each of which names the entity and the condition's object,
has a word of the relation ("directed"), and names no object of another condition, or other answer; their triples are
never shown.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from kbbench_hf.benchmarks.ska_bench.mentions import mentions, normal_name
from kbbench_hf.benchmarks.ska_bench.units import SEED, Instance, Origin, Pool, Release
from kbbench_hf.building.ska_bench.decoys import Decoys
from kbbench_hf.building.ska_bench.evidence import Evidence
from kbbench_hf.building.ska_bench.raw_files import Source, written
from kbbench_hf.errors import DataError

SOURCE = Source("Text2KGBench Wikidata-TekGen", "cenguix/Text2KGBench", "CC BY-SA 4.0; TekGen's sentences CC BY-SA 2.0")
GROUP = "tekgen"
MOST_TRIPLES, MOST_TEXTS = 4, 2
MOST_ANSWERS = 5
AWARDS = frozenset({"award received", "nominated for"})
"""Who has one is asked with other conditions only: what is said of one nominee names its rivals, but not in full."""
DOUBTED = re.compile(
    r"\b(?:alternate|backup|not|never|planned|unreleased|cancell?ed|declined|rejected|instead|would have)\b"
)
"""Who was an alternate of a mission did not fly: a fact of which a sentence speaks so is not asked about."""
NEAR = 80
"""How many characters may stand between the word of a relation and its object."""
Fact = tuple[str, str, str]
PHRASES = {
    "director": ("film", "was directed by {}", r"direct"),
    "screenwriter": ("film", "was written by {}", r"writ|screenplay"),
    "cast member": ("film", "has {} in its cast", r"star|cast|play|featur"),
    "production company": ("film", "was produced by {}", r"produc"),
    "filming location": ("film", "was filmed in {}", r"film(?:ed|ing)|shot"),
    "narrative location": ("work", "is set in {}", r"\bset\b|takes place"),
    "based on": ("work", "is based on {}", r"based|adapt"),
    "characters": ("work", "features the character {}", r"character|featur|star|play|story"),
    "award received": ("work", "won the {}", r"\bwon\b|winn|receiv|award"),
    "nominated for": ("work", "was nominated for the {}", r"nomin"),
    "author": ("book", "was written by {}", r"writ|novel|author|book"),
    "illustrator": ("book", "was illustrated by {}", r"illustrat"),
    "publisher": ("work", "was published by {}", r"publish"),
    "composer": ("work", "was composed by {}", r"compos|score|music"),
    "lyrics by": ("work", "has lyrics by {}", r"lyric"),
    "performer": ("recording", "was performed by {}", r"perform|record|sung|song by|single by|album by"),
    "producer": ("recording", "was produced by {}", r"produc"),
    "record label": ("recording", "was released on {}", r"releas|label"),
    "developer": ("program", "was developed by {}", r"develop"),
    "platform": ("program", "runs on {}", r"platform|for the|releas|port|run"),
    "astronaut mission": ("person", "flew on {}", r"fl[ei]w|mission|aboard|pilot|crew|command"),
    "military branch": ("person", "served in the {}", r"serv|join|enlist|offic"),
    "military rank": ("person", "held the rank of {}", r"rank|promot"),
    "member of political party": ("person", "belonged to the {}", r"party|member|polit"),
    "member of sports team": ("person", "played for {}", r"play|sign|join|career"),
    "coach of sports team": ("person", "coached {}", r"coach|manag"),
    "country for sport": ("person", "competed for {}", r"compet|represent"),
    "mouth of the watercourse": ("river", "flows into the {}", r"flow|tributar|mouth|empties|joins"),
    "origin of the watercourse": ("river", "rises in {}", r"\bris|source|origin|begin"),
    "mountain range": ("mountain", "lies in the {}", r"mountain|range|peak"),
    "parent peak": ("mountain", "has the parent peak {}", r"peak|parent"),
}
"""What a relation's heads are called, how a question puts the condition, and a word of a sentence that states it."""


def make(folder: Path) -> Release:
    """Return the instances of a Text2KGBench release, and its facts and sentences as their pool.

    Args:
        folder: the folder `wikidata_tekgen` of the release, with `train`, `validation` and `ground_truth`.

    Raises:
        DataError: the folder is not such a release.
    """
    sentences = _sentences(folder)
    facts, texts = sorted({fact for stated in sentences.values() for fact in stated}), sorted(sentences)
    number = {fact: n for n, fact in enumerate(facts)}
    origin = Origin(SOURCE.name, SOURCE.licence)
    pool = Pool(
        {GROUP: facts},
        [("", text) for text in texts],
        links={n: tuple(sorted(number[fact] for fact in sentences[text])) for n, text in enumerate(texts)},
        origins={GROUP: origin},
        text_origins=[origin] * len(texts),
    )
    evidence, decoys, asked = Evidence(pool), Decoys(facts), set[str]()
    instances = []
    saying: defaultdict[int, list[int]] = defaultdict(list)
    for passage, links in sorted(pool.links.items()):
        for link in links:
            saying[link].append(passage)
    said = _Said(number, saying, texts, [normal_name(text) for text in texts])
    for instance in sorted(chain(_of_several_conditions(said), _of_several_answers(said)), key=_order):
        if not asked & set(instance.topics) and not evidence.problems(instance):
            asked |= set(instance.topics)
            positives = [facts[n] for n in instance.positive_sk]
            instances.append(replace(instance, decoys=decoys.of(instance.id, positives)))
    return Release(instances, {"kg_text": pool})


class _Said(NamedTuple):
    """Facts, and the sentences that state them."""

    number: dict[Fact, int]
    saying: Mapping[int, Sequence[int]]
    """Number of a fact -> the passages that are marked with it."""
    texts: Sequence[str]
    normal: Sequence[str]
    """The passages in normal form."""

    def doubts(self, fact: Fact) -> bool:
        """Say whether a passage that is marked with a fact may deny it."""
        return any(DOUBTED.search(self.normal[n]) for n in self.saying.get(self.number[fact], ()))

    def passage(self, fact: Fact, others: Sequence[str]) -> int | None:
        """Return the first passage that states a fact in so many words, and names none of some others."""
        marked = self.saying.get(self.number[fact], ())
        whole = re.compile(rf"{re.escape(fact[0])}(?! [A-Z])")  # "Heat Productions" is not Heat
        return next((n for n in marked if whole.search(self.texts[n]) and _tells(self.normal[n], fact, others)), None)


def _of_several_conditions(said: _Said) -> Iterator[Instance]:
    """Yield one question for each entity of which texts tell some facts and triples others, not two of one relation."""
    of_entity: defaultdict[str, dict[str, Fact]] = defaultdict(dict)
    for fact in sorted(said.number, key=lambda each: _key("|".join(each))):
        if fact[1] in PHRASES:
            of_entity[fact[0]].setdefault(fact[1], fact)
    for entity, by_relation in sorted(of_entity.items()):
        facts = list({fact[2]: fact for fact in by_relation.values()}.values())
        nouns = {PHRASES[fact[1]][0] for fact in facts} - {"work"}
        told: dict[Fact, int] = {}
        if any(map(said.doubts, facts)):
            continue
        for fact in facts:
            passage = said.passage(fact, [other[2] for other in facts if other != fact])
            if passage is not None and len(told) < MOST_TEXTS:
                told[fact] = passage
        shown = [fact for fact in facts if fact not in told][:MOST_TRIPLES]
        if told and not shown and len(told) > 1:
            shown = [fact := next(iter(told))]
            del told[fact]
        if told and shown and len(nouns) <= 1:
            noun, conditions = next(iter(nouns), "work"), [*shown, *told]
            phrases = [PHRASES[relation][1].format(tail) for _, relation, tail in conditions]
            question = f"Which {noun} {', '.join(phrases[:-1])} and {phrases[-1]}?"
            yield _asked(question, shown, told, said.number, (entity,))


def _of_several_answers(said: _Said) -> Iterator[Instance]:
    """Yield one question for each condition that a few entities meet; texts tell it of half of them or fewer."""
    meeting: defaultdict[tuple[str, str], list[Fact]] = defaultdict(list)
    for fact in sorted(said.number, key=lambda each: _key("|".join(each))):
        if fact[1] in PHRASES.keys() - AWARDS:
            meeting[fact[1:]].append(fact)
    for (relation, tail), facts in sorted(meeting.items()):
        if not 2 <= len(facts) <= MOST_ANSWERS or any(map(said.doubts, facts)):
            continue
        told: dict[Fact, int] = {}
        for fact in facts:
            passage = said.passage(fact, [other[0] for other in facts if other != fact])
            if passage is not None and 2 * len(told) < len(facts) and passage not in told.values():
                told[fact] = passage
        shown = [fact for fact in facts if fact not in told]
        if told and shown:
            noun, phrase, _ = PHRASES[relation]
            question = f"Name every {noun} that {phrase.format(tail)}."
            yield _asked(question, shown, told, said.number, tuple(sorted(fact[0] for fact in facts)))


def _tells(text: str, fact: Fact, others: Sequence[str]) -> bool:
    """Say whether a sentence states a fact in so many words, and gives away none of some other names.

    The word of the relation stands before the object, and not far: "an album by Ann, produced by Bo" says not that Ann
    produced it.
    """
    head, relation, tail = fact
    if not mentions(text, normal_name(head)) or any(normal_name(other) in text for other in others):
        return False
    name = re.escape(normal_name(tail))
    return bool(re.search(rf"(?:{PHRASES[relation][2]})(?:.{{0,{NEAR}}} | ){name}(?!\w)", text))


def _asked(
    question: str, shown: Sequence[Fact], told: Mapping[Fact, int], number: Mapping[Fact, int], answers: tuple[str, ...]
) -> Instance:
    """Return a question for all entities that meet the conditions of some facts, of which texts tell a part."""
    facts = [*shown, *told]
    conditions = list(dict.fromkeys(fact[1:] for fact in facts))
    identifier = hashlib.sha256("|".join(part for fact in facts for part in fact).encode()).hexdigest()[:10]
    return Instance(
        id=f"tekgen-{identifier}",
        subset="kg_text",
        question=question,
        answers=answers,
        split_key=answers[0] if len(conditions) > 1 else conditions[0][1],
        group=GROUP,
        positive_sk=tuple(sorted(number[fact] for fact in shown)),
        positive_text=tuple(sorted(told.values())),
        withheld_sk=tuple(sorted(number[fact] for fact in told)),
        topics=tuple(dict.fromkeys(tail for _, tail in conditions)),
        program={"type": "match", "find": "?x", "where": [["?x", relation, tail] for relation, tail in conditions]},
        method="template: conditions in triples and in texts",
        source=SOURCE.name,
        source_id=identifier,
        commit=SOURCE.commit,
        licence=SOURCE.licence,
    )


def _order(instance: Instance) -> tuple[int, bytes]:
    return -len(instance.positive_sk) - len(instance.positive_text), _key(instance.id)


def _key(text: str) -> bytes:
    return hashlib.sha256(f"{SEED}|{text}".encode()).digest()


def _sentences(source: Path) -> dict[str, set[Fact]]:
    """Return sentence -> the facts it states, with the encoding and the labels repaired."""
    found: defaultdict[str, set[Fact]] = defaultdict(set)
    files = [
        file for split in ("train", "validation", "ground_truth") for file in sorted((source / split).glob("*.jsonl"))
    ]
    if not files:
        raise DataError(f"{source} has no train, validation or ground_truth; expected Text2KGBench's wikidata_tekgen.")
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            stated = row.get("triples") or []
            if "sub_label" in row:
                stated = [{"sub": row["sub_label"], "rel": row["rel_label"], "obj": row["obj_label"]}]
            facts = {(_label(each["sub"]), _label(each["rel"]), _label(each["obj"])) for each in stated}
            found[written(_repaired(row["sent"]))] |= {fact for fact in facts if all(fact)}
    return {text: stated for text, stated in found.items() if text and stated}


def _label(text: str) -> str:
    """Return a label as people write it: split tokens and the stray blanks of relations are repaired."""
    return written(_repaired(text))


def _repaired(text: str) -> str:
    """Return the text, read as UTF-8 where it was read as Latin-1."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text
