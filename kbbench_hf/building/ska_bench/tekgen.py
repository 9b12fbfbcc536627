"""Subset `kg_text`, templates: Text2KGBench's Wikidata-TekGen half (CC BY-SA), questions with several conditions.

A question asks for the one entity that meets two to five conditions, or for every entity that meets one. Some of the
facts are triples; the others have to be read from sentences, each of which names the entity and the condition's object,
has a word of the relation ("directed"), and names no object of another condition, or other answer; their triples are
never shown. `sources.make_kg_text` joins some of these instances with those by people (`hybridqa_graph`).

A question's id is a hash of its facts. The patterns, wordings and the order in which questions take topics are parts of
the built dataset.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, UnitPool
from kbbench_hf.building.ska_bench.evidence import Evidence
from kbbench_hf.building.ska_bench.name_matching import mentions, normal_name
from kbbench_hf.building.ska_bench.noise import DecoyIndex
from kbbench_hf.building.ska_bench.source_files import DataSource, join_tokens, read_json_lines
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash
from kbbench_hf.errors import DataError

SOURCE = DataSource(
    "Text2KGBench Wikidata-TekGen", "cenguix/Text2KGBench", "CC BY-SA 4.0; TekGen's sentences CC BY-SA 2.0"
)
FOLDER = Path("text2kgbench") / "wikidata_tekgen"
"""Where the release is in a source folder, or beside it."""
GROUP = "tekgen"
MOST_TRIPLES, MOST_TEXTS = 4, 2
MOST_ANSWERS = 5
AWARDS = frozenset({"award received", "nominated for"})
"""Relations for questions with several conditions only: a sentence on one nominee names some of the rivals."""
DOUBTED = re.compile(
    r"\b(?:alternate|backup|not|never|planned|unreleased|cancell?ed|declined|rejected|instead|would have)\b"
)
"""Words of sentences whose facts are skipped: an alternate member of a mission did not fly."""
_IS = r"\b(?:is|was) an? (?:(?!(?:based|by|film|movie|from|of|on|the|to)\b)[\w-]+ ){0,5}"
OF_ANOTHER_KIND = {
    "film": re.compile(
        rf"{_IS}(?:novel|novella|book|manga|comic|stage play|musical|opera|song|album|game|poem)\b(?! film)"
    ),
    "book": re.compile(rf"{_IS}(?:film|movie|song|album|game|opera)\b"),
    "recording": re.compile(rf"{_IS}(?:film|movie|novel|book|game)\b"),
}
"""Noun of a question -> what a sentence says of something that is no such thing: a novel that was filmed is no film."""
MADE_FROM = (
    r"\b(?:expansion|add on|counterpart|remake|reboot|port|[sp]r?equel|follow up|successor|spin off|companion|sister)\b"
    r".* (?:for|of|to)\b.*(?:{})"
)
"""In "an expansion of Ada, developed by Bo" both may be Bo's; where a word of the relation goes is left open."""
MOSTLY = 0.8
"""The share of a relation's entities with one fact from which on a second fact of an entity is doubted."""
NEAR = 80
"""How many characters there may be between the word of a relation and its object."""
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


def make_instances(folder: Path, revision: int = NEWEST) -> InstanceSet:
    """Return the instances of a Text2KGBench release, those that need most units first, with its facts and sentences.

    No two share a topic, and each one's evidence is in order.

    Args:
        folder: the folder `wikidata_tekgen` of the release, with `train`, `validation` and `ground_truth`.
        revision: of the construction.

    Raises:
        DataError: the folder is not such a release.
    """
    sentences = _read_sentences(folder)
    facts, texts = sorted({fact for stated in sentences.values() for fact in stated}), sorted(sentences)
    number = {fact: n for n, fact in enumerate(facts)}
    pool = UnitPool(
        {GROUP: facts},
        [("", text) for text in texts],
        links={n: tuple(sorted(number[fact] for fact in sentences[text])) for n, text in enumerate(texts)},
        origins={GROUP: SOURCE.origin},
        text_origins=[SOURCE.origin] * len(texts),
    )
    evidence, topics, instances = Evidence(pool), set[str](), list[Instance]()
    stated = _StatedFacts(facts, pool, revision)
    made = [*stated.conjunctions(), *stated.answer_lists()]
    made.sort(key=lambda each: (-len(each.positive_sk) - len(each.positive_text), seeded_hash(each.id)))
    for instance in made:
        if not topics & set(instance.topics) and not evidence.problems(instance):
            topics |= set(instance.topics)
            instances.append(instance)
    return InstanceSet(DecoyIndex(facts).add_decoys(instances), {"kg_text": pool})


def join_passive(phrases: Sequence[str]) -> list[str]:
    """Return conditions as a person puts them: those with "was" at the end, and "was" once.

    >>> join_passive(["was shot by Bo", "has Ann in its cast", "was nominated for the Gold"])
    ['has Ann in its cast', 'was shot by Bo', 'nominated for the Gold']
    """
    passive = [phrase.removeprefix("was ") for phrase in phrases if phrase.startswith("was ")]
    active = [phrase for phrase in phrases if not phrase.startswith("was ")]
    return [*active, *(f"was {phrase}" for phrase in passive[:1]), *passive[1:]]


class _StatedFacts:
    """Facts, and the sentences that state them."""

    def __init__(self, facts: Sequence[Cells], pool: UnitPool, revision: int) -> None:
        self._revision = revision
        self._number = {fact: n for n, fact in enumerate(facts)}
        self._facts = sorted((fact for fact in facts if fact[1] in PHRASES), key=lambda f: seeded_hash("|".join(f)))
        self._texts = [text for _, text in pool.text]
        self._normal = [normal_name(text) for text in self._texts]
        self._stating: defaultdict[int, list[int]] = defaultdict(list)
        """Number of a fact -> the passages that are linked to it."""
        self._n_tails = Counter(fact[:2] for fact in facts)
        n_heads = Counter(relation for _, relation in self._n_tails)
        n_single = Counter(relation for (_, relation), n in self._n_tails.items() if n == 1)
        self._single = {relation for relation, n in n_heads.items() if n_single[relation] > MOSTLY * n}
        """Relations of which most entities have one fact: another fact of the same entity casts doubt on the first."""
        for passage, links in sorted(pool.links.items()):
            for link in links:
                self._stating[link].append(passage)

    def conjunctions(self) -> Iterator[Instance]:
        """Yield one question per entity with facts in texts and others in triples, not two of one relation."""
        of_entity: defaultdict[str, dict[str, Cells]] = defaultdict(dict)
        for fact in self._facts:
            of_entity[fact[0]].setdefault(fact[1], fact)
        for entity, by_relation in sorted(of_entity.items()):
            facts = list({fact[2]: fact for fact in by_relation.values()}.values())
            nouns = {PHRASES[fact[1]][0] for fact in facts} - {"work"}
            if any(map(self._has_rival, facts)) or any(map(self._is_doubted, facts)):
                continue
            in_text = dict(islice(self._find_passages(facts, 2), MOST_TEXTS))
            shown = [fact for fact in facts if fact not in in_text][:MOST_TRIPLES]
            if len(in_text) > 1 and not shown:
                shown = [fact := next(iter(in_text))]
                del in_text[fact]
            if in_text and shown and len(nouns) <= 1:
                phrases = [PHRASES[relation][1].format(tail) for _, relation, tail in (*shown, *in_text)]
                *listed, last = join_passive(phrases) if self._revision > 1 else phrases
                question = f"Which {self._noun(next(iter(nouns), 'work'))} {', '.join(listed)} and {last}?"
                yield self._instance(question, shown, in_text, (entity,))

    def answer_lists(self) -> Iterator[Instance]:
        """Yield one question for each condition that a few entities meet; texts state it of half of them or fewer."""
        meeting: defaultdict[Cells, list[Cells]] = defaultdict(list)
        for fact in self._facts:
            if fact[1] not in AWARDS:
                meeting[fact[1:]].append(fact)
        for (relation, tail), facts in sorted(meeting.items()):
            if not 2 <= len(facts) <= MOST_ANSWERS or any(map(self._is_doubted, facts)):
                continue
            in_text: dict[Cells, int] = {}
            for fact, passage in self._find_passages(facts, 0):
                if 2 * len(in_text) < len(facts) and passage not in in_text.values():
                    in_text[fact] = passage
            shown = [fact for fact in facts if fact not in in_text]
            if in_text and shown:
                noun, phrase, _ = PHRASES[relation]
                which = "who" if self._revision > 1 and noun == "person" else "that"
                question = f"Name every {self._noun(noun)} {which} {phrase.format(tail)}."
                yield self._instance(question, shown, in_text, tuple(sorted(fact[0] for fact in facts)))

    def _noun(self, noun: str) -> str:
        """Return what a question calls a thing: a game is no program, from revision 2 on."""
        return "software title" if self._revision > 1 and noun == "program" else noun

    def _is_doubted(self, fact: Cells) -> bool:
        """Return whether a linked passage may deny a fact or what its head is called, or states it of two things."""
        texts = [self._normal[n] for n in self._stating.get(self._number[fact], ())]
        other = OF_ANOTHER_KIND.get(PHRASES[fact[1]][0], DOUBTED) if self._revision > 1 else DOUBTED
        stated_twice = re.compile(MADE_FROM.format(PHRASES[fact[1]][2]) if self._revision > 1 else "(?!)")
        return any(pattern.search(text) for text in texts for pattern in (DOUBTED, other, stated_twice))

    def _has_rival(self, fact: Cells) -> bool:
        """Return whether a relation of which most entities have one has two facts of an entity; not in revision 1."""
        return self._revision > 1 and fact[1] in self._single and self._n_tails[fact[:2]] > 1

    def _find_passages(self, facts: Sequence[Cells], end: int) -> Iterator[tuple[Cells, int]]:
        """Yield facts with a passage that states each, and names none of the heads (`end` 0) or tails of the others."""
        for fact in facts:
            passage = self._find_passage(fact, [other[end] for other in facts if other != fact])
            if passage is not None:
                yield fact, passage

    def _find_passage(self, fact: Cells, others: Iterable[str]) -> int | None:
        """Return the first passage that states a fact in its words, and names none of some others.

        From revision 2 on there is none for one of two directors: a triple with the other one would contradict it.

        The word of the relation precedes the object closely: "an album by Ann, produced by Bo" does not say that Ann
        produced it.
        """
        head, relation, tail = fact
        if self._has_rival(fact):
            return None
        whole = re.compile(rf"{re.escape(head)}(?! [A-Z])")  # "Heat Productions" is not Heat
        words, name = PHRASES[relation][2], re.escape(normal_name(tail))
        words = "parent" if self._revision > 1 and relation == "parent peak" else words  # no peak beside a higher one
        states = re.compile(rf"(?:{words})(?:.{{0,{NEAR}}} | ){name}(?!\w)")
        names = list(map(normal_name, others))
        for n in self._stating.get(self._number[fact], ()):
            text = self._normal[n]
            is_stated = whole.search(self._texts[n]) and mentions(text, normal_name(head)) and states.search(text)
            if is_stated and not any(other in text for other in names):
                return n
        return None

    def _instance(
        self, question: str, shown: Sequence[Cells], in_text: Mapping[Cells, int], answers: Cells
    ) -> Instance:
        """Return a question for all entities that meet the conditions of some facts, of which texts state a part."""
        facts = [*shown, *in_text]
        conditions = list(dict.fromkeys(fact[1:] for fact in facts))
        name = hashlib.sha256("|".join(part for fact in facts for part in fact).encode()).hexdigest()[:10]
        return Instance(
            id=f"tekgen-{name}",
            subset="kg_text",
            question=question,
            answers=answers,
            split_key=answers[0] if len(conditions) > 1 else conditions[0][1],
            group=GROUP,
            positive_sk=tuple(sorted(self._number[fact] for fact in shown)),
            positive_text=tuple(sorted(in_text.values())),
            withheld_sk=tuple(sorted(self._number[fact] for fact in in_text)),
            topics=tuple(dict.fromkeys(tail for _, tail in conditions)),
            program={"type": "match", "find": "?x", "where": [["?x", relation, tail] for relation, tail in conditions]},
            method="template: conditions in triples and in texts",
            **SOURCE.fields(name),
        )


def _read_sentences(source: Path) -> dict[str, set[Cells]]:
    """Return sentence -> the facts that it states, with the encoding and the labels repaired; none without facts.

    Raises:
        DataError: there is no file, or one is malformed.
    """
    found: defaultdict[str, set[Cells]] = defaultdict(set)
    splits = (source / name for name in ("train", "validation", "ground_truth"))
    files = [file for split in splits for file in sorted(split.glob("*.jsonl"))]
    if not files:
        raise DataError(f"{source} has no train, validation or ground_truth; expected Text2KGBench's wikidata_tekgen.")
    for file in files:
        for row in read_json_lines(file, {"sent": str}):
            try:
                stated = [[each[part] for part in ("sub", "rel", "obj")] for each in row.get("triples", ())]
                if "sub_label" in row:
                    stated = [[row[f"{part}_label"] for part in ("sub", "rel", "obj")]]
                found[_repair(row["sent"])] |= {tuple(map(_repair, fact)) for fact in stated}
            except (AttributeError, KeyError, TypeError) as error:
                raise DataError(f"{file}: the facts of {row['sent']!r:.60} are malformed ({error!r}).") from error
    return {text: stated for text, stated in found.items() if text and stated}


def _repair(text: str) -> str:
    """Return a label or sentence detokenized, and read as UTF-8 where it was read as Latin-1."""
    with suppress(UnicodeError):
        text = text.encode("latin-1").decode("utf-8")
    return join_tokens(text)
