"""Subset `kg`: MetaQA's questions (CC BY 3.0) on its graph of films, by people's templates, of one to three steps.

A question's `path` says which relations lead from its topic to the answers. Kept are questions whose path gives the
gold answers exactly, over every triple read both ways and with names compared without case, and each of whose positive
triples is needed. Left out are paths through tags, votes and ratings, and paths through a title that several films
share (it has several release years), since the facts of one would be read as those of the other.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.ska_bench.mentions import mentions, normal_name
from kbbench_hf.benchmarks.ska_bench.programs import Program
from kbbench_hf.benchmarks.ska_bench.units import SEED, Cells, Instance, Origin, Pool, Release, clean, counts
from kbbench_hf.building.ska_bench.decoys import Decoys
from kbbench_hf.building.ska_bench.evidence import Evidence
from kbbench_hf.building.ska_bench.raw_files import Source, read_json_lines, read_triples


@dataclass(frozen=True)
class Candidate:
    """An instance that could be chosen."""

    instance: Instance
    wording: str
    """Its question without names: what a template leaves."""
    kind: str
    """What the choice spreads over, such as the path from topic to answer."""

    @property
    def size(self) -> int:
        """How many units it needs."""
        return len(self.instance.positive_sk) + len(self.instance.positive_text)


def choose(
    candidates: Iterable[Candidate], quotas: Mapping[int, int], *, wording_share: float, answer_share: float
) -> list[Instance]:
    """Return instances in the numbers that `quotas` asks for each size; one question for each `split_key`.

    Of each size the kind that was chosen least comes next, and within it the question with the fewest answers, then the
    order of hashes of ids. What a size lacks goes to the next smaller one, and what is still missing at the end to any
    size, larger ones first. No wording and no gold answer has more than its share of all that was asked for.
    """
    total = sum(quotas.values())
    chosen = _Choice(int(wording_share * total), int(answer_share * total))
    of_size: dict[int, list[Candidate]] = {size: [] for size in quotas}
    for candidate in sorted(candidates, key=lambda each: (len(each.instance.answers), _key(each.instance.id))):
        if candidate.size in of_size:
            of_size[candidate.size].append(candidate)
    missing = 0
    for size in sorted(quotas, reverse=True):
        missing = chosen.take(of_size[size], quotas[size] + missing)
    for size in sorted(quotas, reverse=True):
        missing = chosen.take(of_size[size], missing)
    return chosen.instances


class _Choice:
    def __init__(self, most_of_a_wording: int, most_of_an_answer: int) -> None:
        self.instances: list[Instance] = []
        self._most = (most_of_a_wording, most_of_an_answer)
        self._keys: set[str] = set()
        self._wordings, self._answers, self._kinds = Counter[str](), Counter[str](), Counter[str]()

    def take(self, candidates: Sequence[Candidate], number: int) -> int:
        """Take this many of the candidates; return how many could not be had."""
        of_kind: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            of_kind.setdefault(candidate.kind, []).append(candidate)
        while number > 0 and of_kind:
            kind = min(of_kind, key=lambda name: (self._kinds[name], _key(name)))
            allowed = next((n for n, each in enumerate(of_kind[kind]) if self._allows(each)), None)
            if allowed is None:
                del of_kind[kind]
                continue
            self._add(of_kind[kind][allowed])
            del of_kind[kind][: allowed + 1]
            number -= 1
        return number

    def _allows(self, candidate: Candidate) -> bool:
        return (
            candidate.instance.split_key not in self._keys
            and self._wordings[candidate.wording] < self._most[0]
            and all(self._answers[normal_name(answer)] < self._most[1] for answer in candidate.instance.answers)
        )

    def _add(self, candidate: Candidate) -> None:
        self.instances.append(candidate.instance)
        self._keys.add(candidate.instance.split_key)
        self._wordings[candidate.wording] += 1
        self._kinds[candidate.kind] += 1
        self._answers.update(map(normal_name, candidate.instance.answers))


def _key(text: str) -> bytes:
    return hashlib.sha256(f"{SEED}|{text}".encode()).digest()


SOURCE = Source("MetaQA", "vaijsc/keallm @cf68f91", "CC BY 3.0")
GROUP = "metaqa"
TRIPLES, QUESTIONS = "metaqa_triples.tsv.gz", "metaqa_questions.jsonl.gz"
RELATIONS = {
    "actor": "starred actors",
    "director": "directed by",
    "genre": "has genre",
    "language": "in language",
    "writer": "written by",
    "year": "release year",
}
"""What a step of a path from or to `movie` is called in the graph; questions with other steps are left out."""
QUOTAS = {2: 62, 3: 62, 4: 50, 5: 24, 6: 20, 7: 15, 8: 11, 9: 7, 10: 4, 11: 3, 12: 2}
"""How many instances of each number of units, those of `demo` among them: 4.24 units on average (the paper: 4.25)."""
MOST_ANSWERS, MOST_ANSWERS_OF_ONE_STEP = 5, 2
"""With one step every answer needs a unit of its own, and nothing has to be put together."""
WORDING_SHARE, ANSWER_SHARE = 0.028, 0.036
"""The most that one wording and one gold answer have: below 3 % and 4 % of what stays without `demo`."""
LEAST_OTHERS = 3
"""A topic has at least so many triples that are not positive."""


def make(folder: Path) -> Release:
    """Return the instances of `kg`, and MetaQA's graph as their pool.

    Raises:
        DataError: a file is absent or malformed.
    """
    triples = read_triples(folder / TRIPLES)
    fields = {"id": str, "path": str, "question": str, "topic": str, "answers": list}
    questions = read_json_lines(folder / QUESTIONS, fields)
    maker = _Maker(Pool({GROUP: triples}, origins={GROUP: Origin(SOURCE.name, SOURCE.licence)}))
    candidates = [found for question in questions if (found := maker.candidate(question))]
    chosen = choose(candidates, QUOTAS, wording_share=WORDING_SHARE, answer_share=ANSWER_SHARE)
    steps = {
        "asked": len(questions),
        "their path gives the gold alone, by needed triples": len(candidates),
        "chosen, so many of each number of units": len(chosen),
    }
    instances = [maker.with_decoys(instance) for instance in chosen]
    return Release(instances, {"kg": maker.pool}, counts("kg", SOURCE.name, steps))


def program_of(path: str, topic: str) -> Program | None:
    """Return the program that follows a path of MetaQA; None where a step of it is not asked about.

    >>> program_of("movie_to_director_to_movie", "Heat")["where"]
    [['Heat', 'directed by', '?1'], ['?2', 'directed by', '?1']]
    """
    kinds = path.split("_to_")
    where = []
    for step, (kind, following) in enumerate(pairwise(kinds)):
        relation = RELATIONS.get(following if kind == "movie" else kind)
        if relation is None:
            return None
        ends = [f"?{step}" if step else topic, f"?{step + 1}"]
        head, tail = ends if kind == "movie" else reversed(ends)
        where.append([head, relation, tail])
    return {"type": "match", "find": f"?{len(where)}", "where": where}


class _Maker:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        triples = pool.sk[GROUP]
        self._number = {triple: number for number, triple in enumerate(triples)}
        self._evidence = Evidence(pool)
        self._decoys = Decoys(triples)
        self._facts = defaultdict[str, list[Cells]](list)
        for triple in triples:
            for name in {triple[0], triple[2]}:
                self._facts[name].append(triple)
        years = Counter(head for head, relation, _ in triples if relation == RELATIONS["year"])
        self._shared_titles = {title for title, number in years.items() if number > 1}

    def with_decoys(self, instance: Instance) -> Instance:
        positives = [self.pool.sk[GROUP][number] for number in instance.positive_sk]
        return replace(instance, decoys=self._decoys.of(instance.id, positives))

    def candidate(self, question: dict[str, Any]) -> Candidate | None:
        """Return a question as an instance, or None where it or its evidence is not in order."""
        topic, answers = clean(question["topic"]), tuple(map(clean, question["answers"]))
        program = program_of(question["path"], topic)
        most = MOST_ANSWERS if program and len(program["where"]) > 1 else MOST_ANSWERS_OF_ONE_STEP
        wording = _wording(question["question"], topic, len(answers))
        if (
            program is None
            or wording is None
            or not 0 < len(answers) <= most
            or self._comes_back(question["path"], topic)
        ):
            return None
        asked = wording.replace(BLANK, topic)
        if any(mentions(normal_name(asked), normal_name(answer)) for answer in answers):
            return None
        instance = Instance(
            id=question["id"],
            subset="kg",
            question=asked,
            answers=answers,
            answer_type="date" if question["path"].endswith("_year") else "entity",
            split_key=topic,
            group=GROUP,
            topics=(topic,),
            program=program,
            method="path of relations",
            source=SOURCE.name,
            source_id=question["id"],
            commit=SOURCE.commit,
            licence=SOURCE.licence,
        )
        positives = {unit.number for found in self._evidence.derivations(instance) for unit in found.units}
        instance = replace(instance, positive_sk=tuple(sorted(positives)))
        return Candidate(instance, wording, question["path"]) if self._in_order(instance) else None

    def _comes_back(self, path: str, topic: str) -> bool:
        """Say whether who directed films wrote one as well: of their writers, gold omits the person who is named."""
        first, *_, last = kinds = path.split("_to_")
        if kinds != [first, "movie", last] or first == last:
            return False
        films = {head for head, relation, tail in self._facts[topic] if (relation, tail) == (RELATIONS[first], topic)}
        return any((film, RELATIONS.get(last, ""), topic) in self._number for film in films)

    def _in_order(self, instance: Instance) -> bool:
        triples = [self.pool.sk[GROUP][number] for number in instance.positive_sk]
        [topic] = instance.topics
        others = len(self._facts[topic]) - sum(topic in triple for triple in triples)
        films = {head for head, _, _ in triples} - set(instance.answers)
        return (
            len(triples) > 1
            and not films & self._shared_titles
            and others >= LEAST_OTHERS
            and not self._evidence.problems(instance)
        )


def _wording(question: str, topic: str, n_answers: int) -> str | None:
    """Return the question's wording, or None where the topic cannot be told from the rest of it."""
    parts = re.split(rf"(?<!\w){re.escape(topic)}(?!\w)", clean(question))
    return mended(BLANK.join(parts), n_answers) if len(parts) == 2 and BLANK not in "".join(parts) else None


BLANK = "*"
"""Stands for the topic in a wording."""

_LEFT_OUT = (
    r"\ba (film|movie)\b",  # "can you name a film ...": one is right, all are gold
    r"^(?!.*\b(who|whom|whose|which|what|when|where|how)\b)",  # "the scriptwriter of X also wrote movies"
    r"\bthat the (actors|directors)\b",  # "who are the directors that the actors in their films also appear in X"
    r"\bthe actors of the (director|screenwriter|writer)\b",
    r"\b(primary|main)\b",  # the graph does not say which of several languages is the main one
)
_MENDED = (
    (r"^who in the world\b", "who"),
    (r"^(?:which|what) person\b", "who"),
    (r"\bwho is listed as (director|screenwriter) (?:of|for)\b", r"who is the \1 of"),
    (r"^who is the director that directed\b", "who directed"),
    (r"\brelease dates\b", "release years"),
    (r"\brelease date\b", "release year"),
    (r"\brelease years the\b", "release years of the"),
    (r"\b(movies|films) \* was a writer on\b", r"\1 was * a writer on"),
    (r"\b(which|what) (film|movie) (did|was)\b", r"\1 \2s \3"),
    (r"\* (?:starred|acted) (films|movies)\b", r"\1 starring *"),
    (r"\* (directed|written) (films|movies)\b", r"\2 \1 by *"),
    (r"\bthe \* director\b", "the director of *"),
    (r"\bby \* (actors|writers|screenwriters)\b", r"by the \1 of *"),
    (r"\b(films|movies) (?:starred|acted) by\b", r"\1 starring"),
    (r"^who starred (films|movies) for\b", r"who starred in \1 for"),
    (r"\bthe same actor (?:of|as)\b", "an actor with"),
    (r"\b(?:have|share) an actor with\b", "share an actor with"),
    (r"^what are the (films|movies) that have an actor with\b", r"which \1 share an actor with"),
    (r"\bthe same (director|screenwriter) of\b", r"the same \1 as"),
    (r"\bthe actor (in|of) (.*) also appears\b", r"the actors \1 \2 also appear"),
    (r"\bthe actor of (.*) also starred\b", r"the actors of \1 also starred"),
    (r"^(?:what|which) (?:genres|types) (?:are|do) the (.+?)(?: in| fall under)?$", r"what are the genres of the \1"),
    (r"^what languages are the (.+) in$", r"what languages are spoken in the \1"),
    (r"^when did the (films|movies) release (whose .+)$", r"when were the \1 \2 released"),
    (r"^when did the (.+) release$", r"when were the \1 released"),
    (r"\bshare directors with the films\b", "share directors with the film"),
    (r"^who are (film |movie )?co-", r"who are the \1co-"),
    (
        r"^(?!.*\bshare\b)(.*?)\b(films|movies)\b(.*\b(?:of|in|wrote|directed) (?:the (?:film|movie) )?\*)",
        r"\1other \2\3",
    ),
)


def mended(wording: str, n_answers: int) -> str | None:
    """Return a wording as a question in good form, `*` for the topic, or None where it is left out.

    With several answers, "who is the writer" becomes "who are the writers".

    >>> mended("what types are the movies starred by *", 2)
    'What are the genres of the movies starring *?'
    >>> mended("who is the writer of *", 2)
    'Who are the writers of *?'
    >>> mended("can you name a film directed by *", 3) is None
    True
    """
    text = " ".join(wording.split()).removesuffix("?").strip()
    if any(re.search(pattern, text) for pattern in _LEFT_OUT):
        return None
    for pattern, replacement in _MENDED:
        text = re.sub(pattern, replacement, text)
    if n_answers > 1:
        text = re.sub(
            r"^who(?: is|'s| was) the (director|writer|author|screenwriter|creator)\b", r"who are the \1s", text
        )
        text = re.sub(r"^what (is|was) the (language|genre|release year)\b", _plural, text)
        text = re.sub(r"^the director of (.*) was who$", r"the directors of \1 were who", text)
        text = re.sub(r"^which screenwriter wrote\b", "which screenwriters wrote", text)
    return f"{text[0].upper()}{text[1:]}?"


def _plural(found: re.Match[str]) -> str:
    verb = {"is": "are", "was": "were"}[found[1]]
    return f"what {verb} the {found[2]}s"
