"""Subset `kg`: MetaQA's questions (CC BY 3.0) on its graph of films, from people's templates, of one to three steps.

A question's `path` names the relations that lead from its topic to the answers. Questions are kept if their path gives
the gold answers exactly, over every triple read in both directions and names compared without case, and if each of
their positive triples is needed. Paths through tags, votes and ratings are left out, and paths through a title that
several films share (it has several release years), since their facts would be mixed up.

`sources` makes the subset with `make_instances`; `public_files` shares the file names and `RELATIONS`. The instances
are the same in both revisions, so that a change of a rule or quota needs a new one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, InstanceSet, Program, UnitPool, clean, counts
from kbbench_hf.building.ska_bench.evidence import Evidence
from kbbench_hf.building.ska_bench.name_matching import mentions, normal_name
from kbbench_hf.building.ska_bench.noise import DecoyIndex
from kbbench_hf.building.ska_bench.source_files import DataSource, JsonKind, read_json_lines, read_triples
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash

SOURCE = DataSource("MetaQA", "vaijsc/keallm @cf68f91", "CC BY 3.0")
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
"""Step of a path from or to `movie` -> its relation in the graph; questions with other steps are left out."""
QUOTAS = {2: 62, 3: 62, 4: 50, 5: 24, 6: 20, 7: 15, 8: 11, 9: 7, 10: 4, 11: 3, 12: 2}
"""How many instances of each number of units, with those of `demo`: 4.24 units on average (the paper: 4.25)."""
MOST_ANSWERS, MOST_ANSWERS_OF_ONE_STEP = 5, 2
"""With one step every answer needs a unit of its own, and nothing has to be put together."""
PER_WORDING, PER_ANSWER = (int(share * sum(QUOTAS.values())) for share in (0.028, 0.036))
"""The most instances of one wording and of one gold answer: below 3 % and 4 % of the instances without `demo`."""
LEAST_OTHERS = 3
"""A topic has at least this many triples that are not positive."""
BLANK = "*"
"""Replaces the topic in a wording."""


class PathCandidate(NamedTuple):
    """An instance that could be chosen, its question without names, and its path."""

    instance: Instance
    wording: str
    path: str


def choose_instances(candidates: Iterable[PathCandidate]) -> list[Instance]:
    """Return instances in the numbers of `QUOTAS` for each number of units, as chosen; one question for each topic.

    Of each size the path that was chosen least comes next, and within it the question with the fewest answers, then the
    order of hashes of ids. What a size lacks goes to the next smaller one, and what is still missing at the end to any
    size, larger ones first. No wording and no gold answer exceeds its limit.
    """
    of_size: defaultdict[int, list[PathCandidate]] = defaultdict(list)
    for each in sorted(candidates, key=lambda c: (len(c.instance.answers), seeded_hash(c.instance.id))):
        of_size[len(each.instance.positive_sk)].append(each)
    chosen, paths = list[Instance](), Counter[str]()
    taken = Counter[tuple[str, str]]()

    def uses(each: PathCandidate) -> dict[tuple[str, str], int]:
        """Return what a candidate uses (its topic, wording and answers) -> how often each may be used in all."""
        limits = {("topic", each.instance.split_key): 1, ("wording", each.wording): PER_WORDING}
        return limits | {("answer", normal_name(answer)): PER_ANSWER for answer in each.instance.answers}

    def take(candidates: Iterable[PathCandidate], number: int) -> int:
        """Take up to this many of the candidates, and return how many are missing."""
        while number > 0:
            candidates = [c for c in candidates if all(taken[use] < most for use, most in uses(c).items())]
            each = min(candidates, key=lambda c: (paths[c.path], seeded_hash(c.path)), default=None)
            if each is None:
                break
            chosen.append(each.instance)
            taken.update(uses(each).keys())
            paths[each.path] += 1
            number -= 1
        return number

    missing, sizes = 0, sorted(QUOTAS, reverse=True)
    for size, quota in [*((size, QUOTAS[size]) for size in sizes), *((size, 0) for size in sizes)]:
        missing = take(of_size[size], quota + missing)
    return chosen


def make_instances(folder: Path, revision: int = NEWEST) -> InstanceSet:
    """Return the instances of `kg`, and MetaQA's graph as their pool; the same in each `revision`.

    Raises:
        DataError: a file is absent or malformed.
    """
    triples = read_triples(folder / TRIPLES)
    fields: dict[str, JsonKind] = {"id": str, "path": str, "question": str, "topic": str, "answers": [str]}
    questions = read_json_lines(folder / QUESTIONS, fields)
    films = _FilmQuestions(UnitPool({GROUP: triples}, origins={GROUP: SOURCE.origin}))
    candidates = [found for question in questions if (found := films.candidate(question))]
    chosen = choose_instances(candidates)
    steps = {
        "asked": len(questions),
        "their path gives the gold alone, by needed triples": len(candidates),
        "chosen, so many of each number of units": len(chosen),
    }
    return InstanceSet(DecoyIndex(triples).add_decoys(chosen), {"kg": films.pool}, counts("kg", SOURCE.name, steps))


def path_program(path: str, topic: str) -> Program | None:
    """Return the program that follows a path of MetaQA; None where a step of it is left out.

    >>> path_program("movie_to_director_to_movie", "Heat")["where"]
    [['Heat', 'directed by', '?1'], ['?2', 'directed by', '?1']]
    """
    where = []
    for step, (kind, following) in enumerate(pairwise(path.split("_to_"))):
        relation = RELATIONS.get(following if kind == "movie" else kind)
        if relation is None:
            return None
        ends = [f"?{step}" if step else topic, f"?{step + 1}"]
        head, tail = ends if kind == "movie" else reversed(ends)
        where.append([head, relation, tail])
    return {"type": "match", "find": f"?{len(where)}", "where": where}


class _FilmQuestions:
    """The graph of films, with the evidence and the topics of its questions."""

    def __init__(self, pool: UnitPool) -> None:
        self.pool, self._evidence = pool, Evidence(pool)
        self._triples = pool.sk[GROUP]
        self._of_name = defaultdict[str, list[Cells]](list)
        for triple in self._triples:
            for name in {triple[0], triple[2]}:
                self._of_name[name].append(triple)
        years = Counter(head for head, relation, _ in self._triples if relation == RELATIONS["year"])
        self._shared_titles = {title for title, number in years.items() if number > 1}

    def candidate(self, question: dict[str, Any]) -> PathCandidate | None:
        """Return a question as an instance, or None where it or its evidence is not in order."""
        path, topic, answers = question["path"], clean(question["topic"]), tuple(map(clean, question["answers"]))
        program, wording = path_program(path, topic), _wording(question["question"], topic, len(answers))
        if program is None or wording is None or self._omits_topic(path, topic):
            return None
        most = MOST_ANSWERS if len(program["where"]) > 1 else MOST_ANSWERS_OF_ONE_STEP
        text = wording.replace(BLANK, topic)
        if not 0 < len(answers) <= most or any(mentions(normal_name(text), normal_name(each)) for each in answers):
            return None
        instance = Instance(
            id=question["id"],
            subset="kg",
            question=text,
            answers=answers,
            answer_type="date" if path.endswith("_year") else "entity",
            split_key=topic,
            group=GROUP,
            topics=(topic,),
            program=program,
            method="path of relations",
            **SOURCE.fields(question["id"]),
        )
        positives = {unit.number for found in self._evidence.derivations(instance) for unit in found.units}
        instance = replace(instance, positive_sk=tuple(sorted(positives)))
        return PathCandidate(instance, wording, path) if self._is_in_order(instance, topic) else None

    def _omits_topic(self, path: str, topic: str) -> bool:
        """Return whether a director of films wrote one as well: gold omits the topic from the films' writers."""
        first, *_, last = kinds = path.split("_to_")
        if kinds != [first, "movie", last] or first == last:
            return False
        films = {head for head, relation, tail in self._of_name[topic] if (relation, tail) == (RELATIONS[first], topic)}
        return any((film, RELATIONS.get(last), topic) in self._of_name[topic] for film in films)

    def _is_in_order(self, instance: Instance, topic: str) -> bool:
        """Return whether an instance needs several triples, has enough others, no shared title, and proven evidence."""
        triples = [self._triples[number] for number in instance.positive_sk]
        others = len(self._of_name[topic]) - sum(topic in triple for triple in triples)
        films = {head for head, _, _ in triples} - set(instance.answers)
        is_clear = len(triples) > 1 and others >= LEAST_OTHERS and not films & self._shared_titles
        return is_clear and not self._evidence.problems(instance)


def _wording(question: str, topic: str, n_answers: int) -> str | None:
    """Return the question's wording with `BLANK` for the topic; None where the topic does not occur exactly once."""
    parts = re.split(rf"(?<!\w){re.escape(topic)}(?!\w)", clean(question))
    return repair_wording(BLANK.join(parts), n_answers) if len(parts) == 2 and BLANK not in "".join(parts) else None


# The order of the rules matters, and a change alters published questions: bind it to a new revision.
_LEFT_OUT = (
    r"\ba (film|movie)\b",  # "can you name a film ...": one is right, all are gold
    r"^(?!.*\b(who|whom|whose|which|what|when|where|how)\b)",  # "the scriptwriter of X also wrote movies"
    r"\bthat the (actors|directors)\b",  # "who are the directors that the actors in their films also appear in X"
    r"\bthe actors of the (director|screenwriter|writer)\b",
    r"\b(primary|main)\b",  # the graph does not say which of several languages is the main one
)
_REPAIRS = (
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
_PLURALS = (
    (r"^who(?: is|'s| was) the (director|writer|author|screenwriter|creator)\b", r"who are the \1s"),
    (r"^what is the (language|genre|release year)\b", r"what are the \1s"),
    (r"^what was the (language|genre|release year)\b", r"what were the \1s"),
    (r"^the director of (.*) was who$", r"the directors of \1 were who"),
    (r"^which screenwriter wrote\b", "which screenwriters wrote"),
)
"""Applied where a question has several answers."""


def repair_wording(wording: str, n_answers: int) -> str | None:
    """Return a wording as a question in good form, `*` for the topic, or None where it is left out.

    >>> repair_wording("what types are the movies starred by *", 2)
    'What are the genres of the movies starring *?'
    >>> repair_wording("who is the writer of *", 2)
    'Who are the writers of *?'
    >>> repair_wording("can you name a film directed by *", 3) is None
    True
    """
    text = " ".join(wording.split()).removesuffix("?").strip()
    if any(re.search(pattern, text) for pattern in _LEFT_OUT):
        return None
    for pattern, replacement in (*_REPAIRS, *(_PLURALS if n_answers > 1 else ())):
        text = re.sub(pattern, replacement, text)
    return f"{text[0].upper()}{text[1:]}?"
