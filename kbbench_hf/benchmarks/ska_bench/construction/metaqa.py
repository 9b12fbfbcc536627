"""Subset `kg`: MetaQA's questions (CC BY 3.0) on its graph of films, by people's templates, of one to three steps.

A question's `path` says which relations lead from its topic to the answers. Kept are questions whose path gives the
gold answers exactly, over every triple read both ways and with names compared without case, and each of whose positive
triples is needed. Left out are paths through tags, votes and ratings, and paths through a title that several films
share (it has several release years), since the facts of one would be read as those of the other.
"""

import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.ska_bench.construction.decoys import Decoys
from kbbench_hf.benchmarks.ska_bench.construction.evidence import Evidence
from kbbench_hf.benchmarks.ska_bench.construction.metaqa_wordings import BLANK, mended
from kbbench_hf.benchmarks.ska_bench.construction.raw_files import Source, read_json_lines, read_triples
from kbbench_hf.benchmarks.ska_bench.construction.sampling import Candidate, choose
from kbbench_hf.benchmarks.ska_bench.mentions import mentions, normal_name
from kbbench_hf.benchmarks.ska_bench.programs import Program
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Origin, Pool, Release, clean, counts

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
