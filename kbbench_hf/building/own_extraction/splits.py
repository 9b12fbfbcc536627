"""Selection of aligned sentences (TekGen's rule), splits by shared facts or subject (WebNLG), and unseen sentences.

`dataset` builds datasets of the user's ontology with it, question synthesis uses `connected_groups`. All functions give
the same for the same rows and seed on every machine. `split_by_subject` gives DBpedia-WebNLG its released split.
"""

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice, product, zip_longest

from scipy.cluster.hierarchy import DisjointSet

from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.mention_forms import find_mention, index_sentence
from kbbench_hf.metrics.triples import name_key, triple_key
from kbbench_hf.text.name_matching import Label
from kbbench_hf.text.name_variants import QUALIFIER

SHARES = {"train": 0.4, "validation": 0.3, "test": 0.3}
"""The shares of Wikidata-TekGen."""
MOST = 200
"""Sentences of a relation, as in Wikidata-TekGen."""
FEWEST = 10
"""A relation with fewer of 1,000 or more sentences is dropped; of fewer sentences, one with less than 1 %."""


def select_rows(rows: Sequence[Row]) -> tuple[list[Row], dict[str, int]]:
    """Return the rows that TekGen's rule takes: the first 200 of each relation, frequent entities last.

    They come without the triples of dropped relations, and with the number of sentences that these relations had.

    A triple goes to the end of its relation's queue if its subject or object, with that relation, was in more than a
    tenth of 200 triples before it. A row is kept if it is among the first of some relation, with all its triples.

    Differs from upstream: relations of too few sentences for three splits are dropped, and named.
    """
    queues: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    seen: Counter[tuple[str, ...]] = Counter()
    for position, row in enumerate(rows):
        for triple in row["triples"]:
            ends = [(triple["rel"], part, name_key(triple[part])) for part in ("sub", "obj")]
            seen.update(ends)
            queues[triple["rel"]][any(seen[end] > MOST / 10 for end in ends)].append(position)
    fewest = max(1, min(FEWEST, len(rows) // 100))
    taken: set[int] = set()
    dropped: dict[str, int] = {}
    for relation, (first, last) in queues.items():
        waiting = list(dict.fromkeys((*first, *last)))
        if len(waiting) < fewest:
            dropped[relation] = len(waiting)
        else:
            taken.update(waiting[:MOST])
    remaining = []
    for row in (rows[position] for position in sorted(taken)):
        places = [place for place, each in enumerate(row["triples"]) if each["rel"] not in dropped]
        remaining.append(row | {column: [row[column][place] for place in places] for column in ("triples", "grades")})
    return [row for row in remaining if row["triples"]], dropped


def split_by_group(rows: Sequence[Row], seed: int) -> list[str]:
    """Return the split of each row, a key of `SHARES`: the shares of every relation, as far as groups allow.

    Rows that share a sentence or a triple are of one group, and stay together. The largest groups are assigned first;
    each goes to the split that lacks most of its relations.

    Differs from upstream: TekGen draws triples one by one, without a seed, so that a sentence or fact can be in two
    splits.
    """
    relations = [Counter({triple["rel"] for triple in row["triples"]}) for row in rows]
    total: Counter[str] = sum(relations, Counter())
    held: dict[str, Counter[str]] = {split: Counter() for split in SHARES}
    placed = dict.fromkeys(SHARES, 0)
    splits = [""] * len(rows)

    def order(group: Sequence[int]) -> tuple[int, bytes]:
        return -len(group), hashlib.sha256(f"{seed} {min(rows[each]['id'] for each in group)}".encode()).digest()

    for group in sorted(connected_groups([row_marks(row) for row in rows]), key=order):
        brings: Counter[str] = sum((relations[each] for each in group), Counter())

        # Rounded, so that equal needs are ties, which the share of rows and then the order of the splits decide.
        def lacks(split: str, brings: Counter[str] = brings) -> tuple[float, float]:
            of_relations = sum(n * (SHARES[split] - held[split][name] / total[name]) for name, n in brings.items())
            return round(of_relations, 9), SHARES[split] - placed[split] / len(rows)

        chosen = max(SHARES, key=lacks)
        held[chosen] += brings
        placed[chosen] += len(group)
        for position in group:
            splits[position] = chosen
    return splits


def row_marks(row: Row) -> set[Hashable]:
    """Return what a row can share with others of its group: its sentence, and each triple."""
    return {("sentence", name_key(row["sentence"])), *(("triple", _triple_key(each)) for each in row["triples"])}


def connected_groups(keys: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Return the groups of places that are connected by common keys, each ascending, in the order of their first.

    >>> connected_groups([["a"], ["b", "c"], ["a", "d"], ["c"], ["e"]])
    [[0, 2], [1, 3], [4]]
    """
    places, first = DisjointSet(range(len(keys))), dict[Hashable, int]()
    for place, each in enumerate(keys):
        for key in each:
            places.merge(place, first.setdefault(key, place))
    return [sorted(group) for group in places.subsets()]


def split_by_subject(subjects: Iterable[Iterable[str]]) -> list[str]:
    """Return the split of each row, given its subjects in the release's order, as DBpedia-WebNLG was split.

    A row with a subject of the test split goes to test. So does one without a subject of train, while test has fewer
    than twice as many rows as train has subjects. Any other goes to train. Nothing is random, and the order counts. A
    test row can add a subject that train has too: facts can be in both splits.

    Source: cenguix/Text2KGBench at commit 50a3d25, src/benchmark/dbpedia_webnlg_sentence_alignment.ipynb.

    >>> split_by_subject([["a"], ["b"], ["b", "c"], ["c"], ["a"]])
    ['train', 'test', 'test', 'test', 'train']
    """
    of_train: set[str] = set()
    of_test: set[str] = set()
    splits: list[str] = []
    for each in subjects:
        group = set(each)
        n_test = splits.count("test")
        to_test = bool(group & of_test) or (n_test < 2 * len(of_train) and not group & of_train)
        (of_test if to_test else of_train).update(group)
        splits.append("test" if to_test else "train")
    return splits


MOST_UNSEEN = 30
"""The largest number that an ontology of the release has is 28."""
_TRIES = 40
"""Draws of new ends for one sentence."""
_UNFIT = re.compile(r"[()\"]|\d{4}-\d\d-\d\d|^00 ")
"""What fits into no sentence: brackets or quotes inside a name, an ISO date, a torn date."""
_PRONOUN = re.compile(r"\b(?:he|she|it|its|him|her|his|hers|they|them|their|theirs|himself|herself|itself)\b", re.I)
_ARTICLE = re.compile(r"\b(an?)\s+$", re.I)
"""An indefinite article, which may be wrong before another name."""


def swap_entities(rows: Sequence[Row], triples: Sequence[Row], seed: int) -> list[Row]:
    """Return rows about facts that are in no text: sentences of `rows` with another subject and object.

    A source row has one triple, and its sentence names both ends word for word. The new ends come from triples of the
    same relation; the new triple is not in the table. Sentences are refused if they have a pronoun or another entity,
    name the subject inside the object, or would need another article. The relations take turns.
    """
    facts = {_triple_key(each) for each in triples}
    ends = {part: _names_by_relation(triples, part) for part in ("sub", "obj")}
    entities = sorted({each[part] for each in triples for part in ("sub", "obj")})
    by_word: dict[str, list[str]] = {}
    for entity in entities:
        if words := Label.of(_surface_form(entity)).words:
            by_word.setdefault(max(words, key=len), []).append(entity)
    waiting: dict[str, list[Row]] = {}
    for row in rows:
        if len(row["triples"]) == 1 and not _PRONOUN.search(row["sentence"]) and _names_only_its_ends(row, by_word):
            waiting.setdefault(row["triples"][0]["rel"], []).append(row)
    drawn = [_swap_rows(of, ends, facts, relation, seed) for relation, of in sorted(waiting.items())]
    turns = (row for turn in zip_longest(*drawn) for row in turn if row is not None)
    return [row | {"id": f"unseen_{number}"} for number, row in enumerate(islice(turns, MOST_UNSEEN), start=1)]


def _triple_key(triple: Row) -> str:
    return triple_key((triple["sub"], triple["rel"], triple["obj"]))


def _names_by_relation(triples: Sequence[Row], part: str) -> dict[str, list[str]]:
    """Return relation -> its subjects or objects (`part`) that fit into sentences, sorted."""
    by_relation: dict[str, set[str]] = {}
    for each in triples:
        if not _UNFIT.search(_surface_form(each[part])):
            by_relation.setdefault(each["rel"], set()).add(each[part])
    return {relation: sorted(names) for relation, names in by_relation.items()}


def _surface_form(name: str) -> str:
    """Return a name as a sentence has it: without underscores, quotation marks and a bracketed disambiguation."""
    return QUALIFIER.sub("", name.replace("_", " ")).strip().strip('"')


def _swap_rows(
    rows: Sequence[Row], ends: dict[str, dict[str, list[str]]], facts: set[str], relation: str, seed: int
) -> Iterator[Row]:
    """Yield the rows of a relation with swapped entities, in random order; no two have one sentence."""
    made: set[str] = set()
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
            is_new = distinct and _triple_key(new) not in facts
            sentence = _rewrite_sentence(row["sentence"], old, new) if is_new else ""
            if sentence and sentence not in made:
                made.add(sentence)
                triple = new | {"sub_id": None, "rel_id": old["rel_id"], "obj_id": None}
                # `repairs` of its own: the flags of both rows are appended later.
                changed = {"split": "unseen", "sentence": sentence, "triples": [triple], "repairs": []}
                yield row | changed | {"origin": "swapped"}
                break


def _names_only_its_ends(row: Row, by_word: dict[str, list[str]]) -> bool:
    """Return whether a sentence names both ends of its triple word for word, apart, and no other entity."""
    triple, text = row["triples"][0], index_sentence(row["sentence"])
    taken: list[set[int]] = []
    for part in ("sub", "obj"):
        mention = find_mention(row["sentence"], triple[part])
        if mention.form != "verbatim":
            return False
        taken.append({place for span in text.places(Label.of(mention.words)) for place in range(*span)})
    if not all(taken) or taken[0] & taken[1]:
        return False
    for word in set(text.words):
        for entity in by_word.get(word, ()):
            spans = text.places(Label.of(_surface_form(entity)))
            if any(not taken[0].union(taken[1]).issuperset(range(*span)) for span in spans):
                return False
    return True


def _rewrite_sentence(sentence: str, old: Row, new: Row) -> str:
    """Return a sentence with the new names in place of the old ones; "" where it would read wrong."""
    holes = []
    for part, hole in (("sub", "\0"), ("obj", "\1")):
        pattern = re.compile(rf"(?<!\w){re.escape(_surface_form(old[part]))}(?!\w)")
        if not pattern.search(sentence):
            return ""
        holes.append((hole, _surface_form(new[part])))
        sentence = pattern.sub(lambda _, hole=hole: hole, sentence)  # type: ignore[misc]
    for hole, name in holes:
        for match in re.finditer(hole, sentence):
            article = _ARTICLE.search(sentence[: match.start()])
            if article and (len(article[1]) == 2) != (name[0].lower() in "aeiou"):
                return ""
        sentence = sentence.replace(hole, name)
    return sentence
