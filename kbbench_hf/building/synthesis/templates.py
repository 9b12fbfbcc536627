"""The templates to ask by: the spec's, or those found in the schema that give answer sets of usable size."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from random import Random

from kbbench_hf.building.synthesis.schema import Schema, Step
from kbbench_hf.building.synthesis.spec import Spec, Template, Words
from kbbench_hf.building.synthesis.topic_entities import TopicDraws
from kbbench_hf.building.synthesis.wording import clauses_of
from kbbench_hf.errors import DataError
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase

N_SAMPLED, N_FIRST = 200, 40
"""Topics that are drawn for a template that is kept, and to choose among those that are found."""
FEWEST_SHARE = 0.1
"""Of the topics that are drawn, so many have a usable number of answers."""
MOST_MEASURED = 100
"""Templates of one form that are measured; of more, some are drawn."""


@dataclass(frozen=True)
class Yield:
    """What a template gave for sampled topics."""

    template: Template
    form: str
    """`1 hop`, `2 hops`, ..., `join`, `chain and join`, `negation`, or `given`."""
    n_sampled: int = 0
    outcomes: Mapping[str, int] = field(default_factory=Counter)
    median_answers: float = 0.0

    @property
    def n_usable(self) -> int:
        """How many of the sampled topics have a usable number of answers."""
        return self.outcomes["usable"]


def sayable(schema: Schema, words: Words) -> tuple[Schema, list[str]]:
    """Return a schema without relations that would be said in the same words, and the names of these.

    Of `expressed_in` and `expressedIn` between the same types, nobody could tell which one a question is about. A
    relation that the spec has words for is told apart by them.
    """
    said: dict[tuple[str, ...], list[Step]] = {}
    for step in schema.steps:
        if words.of(step) is None:
            clauses = clauses_of(step.hop.relation, "from" if step.hop.direction == "in" else "to", step.end)
            said.setdefault((step.start, step.end, *clauses), []).append(step)
    alike = {step for steps in said.values() if len(steps) > 1 for step in steps}
    alike |= {schema.back[step] for step in alike}
    kept = {step: back for step, back in schema.back.items() if step not in alike}
    return replace(schema, back=kept), sorted({step.hop.relation for step in alike})


def templates_of(kb: KnowledgeBase, schema: Schema, spec: Spec, draws: TopicDraws, seed: str) -> list[Yield]:
    """Return the templates of a spec, measured; those that are found in the schema where it has none.

    Raises:
        DataError: none gives questions.
    """
    if spec.templates:
        given = [each for each in spec.templates if not spec.skip_absent or each.path.is_within(kb.graph)]
        chosen = [Yield(each, "given") for each in given]
    else:
        chosen = _chosen(_found(kb, schema, spec, draws, seed), spec.max_templates)
    measured = [_measured(kb, each, spec, draws, seed, N_SAMPLED) for each in chosen]
    kept = [each for each in measured if each.n_usable]
    if not kept:
        raise DataError(
            f"No template gives {spec.least_answers} to {spec.most_answers} answers for enough topics. Raise "
            "most_answers in the spec, list templates there, or bring a knowledge base with more edges."
        )
    return kept


def left_out(kb: KnowledgeBase, spec: Spec, kept: Sequence[Yield]) -> dict[str, str]:
    """Return the templates of a spec that are not among those kept, with the reason."""
    there = {each.template.metapath for each in kept}
    why = {True: "no topics with a usable number of answers", False: "types or relations that are not here"}
    return {each.metapath: why[each.path.is_within(kb.graph)] for each in spec.templates if each.metapath not in there}


def hops_of(path: Metapath) -> int:
    """Return the number of edges that a template names."""
    return sum(len(walk.hops) for walk in path.walks)


def _found(kb: KnowledgeBase, schema: Schema, spec: Spec, draws: TopicDraws, seed: str) -> list[Yield]:
    kept = []
    for form, paths in _forms(schema, spec).items():
        if len(paths) > MOST_MEASURED:
            paths = sorted(Random(f"{seed}/{form}").sample(paths, MOST_MEASURED))
        for path in paths:
            found = _measured(kb, Yield(Template(path), form), spec, draws, seed, N_FIRST)
            if found.n_usable >= FEWEST_SHARE * N_FIRST:
                kept.append(found)
    return kept


def _forms(schema: Schema, spec: Spec) -> dict[str, list[str]]:
    """Return the metapaths of each form, in the order of their texts."""
    named = [step for step in schema.steps if step.start in schema.nameable]
    onward: dict[str, list[Step]] = {}
    for step in schema.steps:
        onward.setdefault(step.start, []).append(step)
    chains: list[list[tuple[Step, ...]]] = [[(step,) for step in named]]
    for _ in range(1, spec.max_hops):
        longer = [
            (*chain, step)
            for chain in chains[-1]
            for step in onward.get(chain[-1].end, ())
            if step != schema.back[chain[-1]]
        ]
        chains.append(longer)
    answerable = [[chain for chain in each if chain[-1].end in schema.nameable] for each in chains]
    forms = {f"{n} hop{'s' * (n > 1)}": [_chain(chain) for chain in each] for n, each in enumerate(answerable, start=1)}
    singles = answerable[0]
    if spec.max_hops > 1:
        forms["join"] = [
            _join(one, other)
            for place, one in enumerate(singles)
            for other in singles[place:]
            if one[-1].end == other[-1].end
        ]
    if spec.max_hops > 2:
        forms["chain and join"] = [
            _join(one, other) for one in answerable[1] for other in singles if one[-1].end == other[-1].end
        ]
    if spec.negation:
        forms["negation"] = [
            _join(one, other, "!") for one in singles for other in singles if one[-1].end == other[-1].end
        ]
    return {form: sorted(set(paths)) for form, paths in forms.items()}


def _chain(chain: tuple[Step, ...], label: str = "") -> str:
    return f"{chain[0].start}{label}" + "".join(f" -[{step.arrow}]-> {step.end}" for step in chain)


def _join(one: tuple[Step, ...], other: tuple[Step, ...], negated: str = "") -> str:
    same = one[0].start == other[0].start
    topic = f"{other[0].start}{':2' if same else ''}"
    return f"{_chain(one, ':1' if same else '')} <-[{negated}{other[0].arrow}]- {topic}"


def _measured(kb: KnowledgeBase, of: Yield, spec: Spec, draws: TopicDraws, seed: str, n: int) -> Yield:
    """Return what a template gives for `n` draws of topics."""
    path, rng = of.template.path, Random(f"{seed}/{of.template.metapath}")
    outcomes: Counter[str] = Counter()
    sizes = []
    for _ in range(n):
        drawn = draws.draw(path, rng)
        size = 0 if drawn is None else len(drawn[1])
        sizes.append(size)
        few, many = size < spec.least_answers, size > spec.most_answers
        outcomes["none or too few" if few else "too many" if many else "usable"] += 1
    return replace(of, n_sampled=n, outcomes=outcomes, median_answers=float(sorted(sizes)[n // 2]))


def _chosen(measured: list[Yield], most: int) -> list[Yield]:
    """Return the best: for each relation and answer type one, then form by form, by how much they give."""
    by_yield = sorted(measured, key=lambda each: (-each.n_usable, each.template.metapath))
    chosen: dict[str, Yield] = {}
    wanted: set[str] = set()
    for each in by_yield:
        path = each.template.path
        new = {f"answer {path.answer_type}", *(hop.relation for walk in path.walks for hop in walk.hops)} - wanted
        if new and len(chosen) < most:
            wanted |= new
            chosen[each.template.metapath] = each
    queues: list[Iterator[Yield]] = [
        iter([each for each in by_yield if each.form == form]) for form in dict.fromkeys(each.form for each in measured)
    ]
    for queue in cycle(queues) if queues else ():
        if len(chosen) >= min(most, len(measured)):
            break
        for each in queue:
            if each.template.metapath not in chosen:
                chosen[each.template.metapath] = each
                break
    return [each for each in measured if each.template.metapath in chosen]
