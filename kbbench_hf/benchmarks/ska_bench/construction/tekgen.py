"""Instances from Text2KGBench's Wikidata-TekGen half (CC BY-SA): questions on its graph, and on graph and sentences.

Questions are templates over facts. *Chain*: the r2 of the r1 of an entity. *Conjunction*: the entities with two
properties, each of which several entities have. With text, the second property is withheld as a triple and must be read
from a sentence that names the entity and the property's object, and not the first one's object.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.construction.instances import instance, write_lines
from kbbench_hf.benchmarks.ska_bench.mentions import mentions
from kbbench_hf.benchmarks.ska_bench.programs import Program, execute
from kbbench_hf.benchmarks.ska_bench.units import clean
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.answers import wtq_normal

Fact = tuple[str, str, str]
MOST_ANSWERS = 5
_DATE = re.compile(r"\d\d \w+ \d{3,4}")
"""Dates are left out: "01 January" stands for an unknown day as well."""
PROVENANCE = {
    "dataset": "Text2KGBench Wikidata-TekGen",
    "repo": "cenguix/Text2KGBench",
    "licence": "CC BY-SA (badge CC BY 4.0, text CC BY-SA 4.0; TekGen's own sentences CC BY-SA 2.0)",
}
_asked = partial(instance, provenance=PROVENANCE, pool="tekgen", question_origin="template")


def make(source: Path, out: Path) -> dict[str, int]:
    """Write the instances and pools of a Text2KGBench release; return how many of each kind.

    Args:
        source: the folder `wikidata_tekgen` of the release, with `train`, `validation` and `ground_truth`.
        out: the folder for `tekgen_*.jsonl`.

    Raises:
        DataError: the folder is not such a release.
    """
    sentences = _sentences(source)
    facts = sorted({fact for stated in sentences.values() for fact in stated})
    graph = _Graph(facts)
    texts = {text: n for n, text in enumerate(sorted(sentences))}
    stating: defaultdict[Fact, list[str]] = defaultdict(list)
    for text in texts:
        for fact in sentences[text]:
            stating[fact].append(text)
    pool = [{"pool": "tekgen", "uid": f"tekgen:{n}", "triple": list(fact)} for n, fact in enumerate(facts)]
    passages = [
        {"uid": f"s{n}", "text": text, "triples": [f"tekgen:{graph.number[fact]}" for fact in sorted(sentences[text])]}
        for text, n in texts.items()
    ]
    written = {
        "tekgen_kg": [*_chains(graph), *_conjunctions(graph)],
        "tekgen_kg_text": list(_conjunctions_with_text(graph, stating, texts)),
        "tekgen_pool": pool,
        "tekgen_sentences": passages,
    }
    return {name: write_lines(out / f"{name}.jsonl", records) for name, records in written.items()}


class _Graph:
    """Facts by number, by subject and relation, and by relation and object."""

    def __init__(self, facts: list[Fact]) -> None:
        self.facts = facts
        self.number = {fact: n for n, fact in enumerate(facts)}
        self.of_subject: defaultdict[str, list[Fact]] = defaultdict(list)
        self.subjects: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for fact in facts:
            self.of_subject[fact[0]].append(fact)
            self.subjects[fact[1:]].add(fact[0])

    def uids(self, facts: set[Fact] | list[Fact]) -> list[str]:
        return [f"tekgen:{n}" for n in sorted(self.number[fact] for fact in facts)]


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
            found[_repaired(clean(row["sent"]))] |= {fact for fact in facts if all(fact)}
    return {text: stated for text, stated in found.items() if text and stated}


def _label(text: str) -> str:
    """Return a label as people write it: the test split's ` : ` and the stray blanks of relations are repaired."""
    return " ".join(_repaired(text).replace(" : ", ": ").replace(" 's", "'s").split())


def _repaired(text: str) -> str:
    """Return the text, read as UTF-8 where it was read as Latin-1."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _id(kind: str, *parts: str) -> str:
    return f"{kind}-tekgen-{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:10]}"


def _chains(graph: _Graph) -> Iterator[Row]:
    """Yield one question per entity and first relation from which a second step leads on, and not back."""
    for topic in sorted(graph.of_subject):
        found: dict[tuple[str, str], set[Fact]] = {}
        for first in graph.of_subject[topic]:
            for second in graph.of_subject.get(first[2], ()):
                found.setdefault((first[1], second[1]), set()).update((first, second))
        for (r1, r2), facts in sorted(found.items()):
            answers = sorted({fact[2] for fact in facts if fact[1] == r2 and fact[0] != topic})
            if r1 == r2 or topic in answers or not 0 < len(answers) <= MOST_ANSWERS:
                continue
            if any(_DATE.fullmatch(answer) for answer in answers):
                continue
            yield _asked(
                _id("kg", topic, r1, r2),
                "KG",
                f'What is the {r2} of the {r1} of "{topic}"?',
                answers,
                method="template: chain",
                program={"type": "follow", "topics": [topic], "relations": [[r1, r2]]},
                topic_entities=[topic],
                positive_uids=graph.uids(facts),
            )


def _pairs(graph: _Graph) -> Iterator[tuple[str, Fact, Fact]]:
    """Yield (entity, fact, fact) where the two properties together single out the entity and neither does alone."""
    for entity in sorted(graph.of_subject):
        shared = [f for f in graph.of_subject[entity] if len(graph.subjects[f[1:]]) > 1 and not _DATE.fullmatch(f[2])]
        for first in shared:
            for second in shared:
                if first[1:] != second[1:] and graph.subjects[first[1:]] & graph.subjects[second[1:]] == {entity}:
                    yield entity, first, second


def _ask(first: Fact, second: Fact) -> tuple[str, Program]:
    question = f'Which entity has {first[1]} "{first[2]}" and {second[1]} "{second[2]}"?'
    return question, {"type": "conj", "r1": first[1], "o1": first[2], "r2": second[1], "o2": second[2]}


def _conjunctions(graph: _Graph) -> Iterator[Row]:
    """Yield one question per entity: the pair of facts whose hash comes first."""
    chosen: dict[str, tuple[str, Fact, Fact]] = {}
    for entity, first, second in _pairs(graph):
        if first < second:
            key = _id("kg", entity, *first[1:], *second[1:])
            chosen[entity] = min(chosen.get(entity, (key, first, second)), (key, first, second))
    for entity, (key, first, second) in sorted(chosen.items()):
        question, program = _ask(first, second)
        yield _asked(
            key,
            "KG",
            question,
            [entity],
            method="template: conjunction",
            program=program,
            topic_entities=[first[2], second[2]],
            positive_uids=graph.uids([first, second]),
        )


def _conjunctions_with_text(graph: _Graph, stating: dict[Fact, list[str]], texts: dict[str, int]) -> Iterator[Row]:
    """Yield one question per entity whose second fact a sentence states, in so many words."""
    chosen: dict[str, tuple[str, Fact, Fact, str]] = {}
    for entity, first, second in _pairs(graph):
        for text in stating[second]:
            normal = wtq_normal(text)
            named = all(mentions(normal, wtq_normal(label)) for label in (entity, second[2]))
            if named and wtq_normal(first[2]) not in normal:  # "Japanese" gives "Japan" away
                key = _id("kgtext", entity, *first[1:], *second[1:], text)
                chosen[entity] = min(chosen.get(entity, (key, first, second, text)), (key, first, second, text))
    for entity, (key, first, second, text) in sorted(chosen.items()):
        question, program = _ask(first, second)
        if execute(program, graph.facts) != [entity]:
            continue
        yield _asked(
            key,
            "KG+Text",
            question,
            [entity],
            method="template: conjunction, second fact only in text",
            program=program,
            positive_triple_uids=graph.uids([first]),
            positive_text_uids=[f"s{texts[text]}"],
            withheld_triple_uids=graph.uids([second]),
        )
