"""Templates of questions: the spec's, or those derived from the schema that give answer sets of usable size.

`questions` takes its templates here, in the order in which they take turns.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, cycle, product
from random import Random

from kbbench_hf.building.synthesis.instances import TopicDraws
from kbbench_hf.building.synthesis.schema import RelationStep, Schema
from kbbench_hf.building.synthesis.spec import SynthesisSpec, Template
from kbbench_hf.building.synthesis.wording import Wording
from kbbench_hf.errors import DataError
from kbbench_hf.knowledge_base.metapaths import Metapath
from kbbench_hf.knowledge_base.store import KnowledgeBase

N_SAMPLED, N_FIRST = 200, 40
"""Draws of topics for a chosen template, and for a derived one before the choice."""
FEWEST_SHARE = 0.1
"""Least share of draws with a usable number of answers."""
MOST_MEASURED = 100
"""Templates of one form that are measured; of more, a random sample."""


Chain = tuple[RelationStep, ...]
"""Steps, each from the type that the one before leads to."""


@dataclass(frozen=True)
class TemplateYield:
    """How many answers a template gives for sampled topics."""

    template: Template
    form: str
    """`1 hop`, `2 hops`, ..., `join`, `chain and join`, `negation`, or `given`."""
    n_sampled: int = 0
    outcomes: Mapping[str, int] = field(default_factory=Counter)
    median_answers: float = 0.0
    n_different: int = 0
    """How many usable sets of answers differ."""

    @property
    def n_usable(self) -> int:
        """How many of the sampled topics have a usable number of answers."""
        return self.outcomes["usable"]


def sayable(schema: Schema, wording: Wording) -> tuple[Schema, list[str]]:
    """Return a schema without relations that would be worded alike, and the names of these.

    A question could be about `expressed_in` or `expressedIn` between the same types. Words of the spec for a relation
    prevent this.
    """
    by_words: dict[tuple[str, ...], list[RelationStep]] = {}
    for step in schema.steps:
        by_words.setdefault((step.start, step.end, *wording.clauses(step)), []).append(step)
    alike = {step for steps in by_words.values() if len(steps) > 1 for step in steps}
    alike |= {schema.back[step] for step in alike}
    said_apart = {step: back for step, back in schema.back.items() if step not in alike}
    return replace(schema, back=said_apart), sorted({step.hop.relation for step in alike})


def templates_of(
    kb: KnowledgeBase, schema: Schema, spec: SynthesisSpec, draws: TopicDraws, seed: str, wording: Wording
) -> list[TemplateYield]:
    """Return the measured templates of a spec, or of the schema where the spec has none.

    Raises:
        DataError: none gives questions.
    """
    if spec.templates:
        given = [each for each in spec.templates if not spec.skip_absent or each.path.is_within(kb.graph)]
        chosen = [TemplateYield(each, "given") for each in given]
    else:
        chosen = _choose(_derive(schema, spec, draws, seed, wording), spec.max_templates)
    measured = [_measure(each, spec, draws, seed, N_SAMPLED) for each in chosen]
    usable = [each for each in measured if each.n_usable]
    if not usable:
        raise DataError(
            f"No template gives {spec.least_answers} to {spec.most_answers} answers for enough topics. Raise "
            "most_answers in the spec, list templates there, or bring a knowledge base with more edges."
        )
    return usable


def left_out(kb: KnowledgeBase, spec: SynthesisSpec, kept: Sequence[TemplateYield]) -> dict[str, str]:
    """Return the templates of a spec that are not among those kept, with the reason."""
    there = {each.template.metapath for each in kept}
    why = {True: "no topics with a usable number of answers", False: "types or relations that are not here"}
    return {each.metapath: why[each.path.is_within(kb.graph)] for each in spec.templates if each.metapath not in there}


def words_of(path: Metapath) -> list[str]:
    """Return the names of the types and relations of a template."""
    return [name for walk in path.walks for hop in walk.hops for name in (walk.start_type, hop.relation, hop.node_type)]


def _derive(schema: Schema, spec: SynthesisSpec, draws: TopicDraws, seed: str, wording: Wording) -> list[TemplateYield]:
    """Return the templates of the schema that read well and give usable answers for a tenth of the draws at least."""
    kept = []
    for form, paths in _metapaths_by_form(schema, spec).items():
        paths = [path for path in paths if wording.reads_well(Metapath.parse(path))]
        if len(paths) > MOST_MEASURED:
            paths = sorted(Random(f"{seed}/{form}").sample(paths, MOST_MEASURED))
        for path in paths:
            measured = _measure(TemplateYield(Template(path), form), spec, draws, seed, N_FIRST)
            if measured.n_usable >= FEWEST_SHARE * N_FIRST:
                kept.append(measured)
    return kept


def _metapaths_by_form(schema: Schema, spec: SynthesisSpec) -> dict[str, list[str]]:
    """Return form -> its metapaths, in the order of their texts; their topics and answers have names."""
    named = [step for step in schema.steps if step.start in schema.nameable]
    onward: dict[str, list[RelationStep]] = {}
    for step in schema.steps:
        onward.setdefault(step.start, []).append(step)
    chains: list[list[Chain]] = [[(step,) for step in named]]
    for _ in range(1, spec.max_hops):
        pairs = ((chain, step) for chain in chains[-1] for step in onward.get(chain[-1].end, ()))
        chains.append([(*chain, step) for chain, step in pairs if step != schema.back[chain[-1]]])
    answerable = [[chain for chain in each if chain[-1].end in schema.nameable] for each in chains]
    forms = {f"{n} hop{'s' * (n > 1)}": [_chain(chain) for chain in each] for n, each in enumerate(answerable, start=1)}
    singles = answerable[0]
    if spec.max_hops > 1:
        forms["join"] = _joins(combinations_with_replacement(singles, 2))
    if spec.max_hops > 2:
        forms["chain and join"] = _joins(product(answerable[1], singles))
    if spec.negation:
        forms["negation"] = _joins(product(singles, singles), "!")
    return {form: sorted(set(paths)) for form, paths in forms.items()}


def _joins(pairs: Iterable[tuple[Chain, Chain]], negated: str = "") -> list[str]:
    """Return the metapaths of two chains with one end; `negated` is "!" where the second must not lead there."""
    return [_join(one, other, negated) for one, other in pairs if one[-1].end == other[-1].end]


def _chain(chain: Chain, label: str = "") -> str:
    """Return the metapath of a chain; `label` distinguishes its topic from another one of the type."""
    return f"{chain[0].start}{label}" + "".join(f" -[{step.arrow}]-> {step.end}" for step in chain)


def _join(one: Chain, other: Chain, negated: str = "") -> str:
    """Return the metapath of two chains with one end."""
    same = one[0].start == other[0].start
    topic = f"{other[0].start}{':2' if same else ''}"
    return f"{_chain(one, ':1' if same else '')} <-[{negated}{other[0].arrow}]- {topic}"


def _measure(of: TemplateYield, spec: SynthesisSpec, draws: TopicDraws, seed: str, n: int) -> TemplateYield:
    """Return how many answers a template gives for `n` draws of topics."""
    path, rng = of.template.path, Random(f"{seed}/{of.template.metapath}")
    outcomes: Counter[str] = Counter()
    sizes: list[int] = []
    different: set[tuple[int, ...]] = set()
    for _ in range(n):
        drawn = draws.draw(path, rng)
        size = 0 if drawn is None else len(drawn[1])
        sizes.append(size)
        few, many = size < spec.least_answers, size > spec.most_answers
        if drawn and not few and not many:
            different.add(tuple(drawn[1]))
        outcomes["none or too few" if few else "too many" if many else "usable"] += 1
    return replace(
        of, n_sampled=n, outcomes=outcomes, median_answers=float(sorted(sizes)[n // 2]), n_different=len(different)
    )


def _choose(measured: list[TemplateYield], most: int) -> list[TemplateYield]:
    """Return the best: one for each relation and answer type, then alternating between forms, by different answers."""
    by_yield = sorted(measured, key=lambda each: (-each.n_different, -each.n_usable, each.template.metapath))
    chosen: dict[str, TemplateYield] = {}
    wanted: set[str] = set()
    for each in by_yield:
        path = each.template.path
        new = {f"answer {path.answer_type}", *(hop.relation for walk in path.walks for hop in walk.hops)} - wanted
        if new and len(chosen) < most:
            wanted |= new
            chosen[each.template.metapath] = each
    forms = dict.fromkeys(each.form for each in measured)
    queues: list[Iterator[TemplateYield]] = [iter([each for each in by_yield if each.form == form]) for form in forms]
    for queue in cycle(queues) if queues else ():
        if len(chosen) >= min(most, len(measured)):
            break
        for each in queue:
            if each.template.metapath not in chosen:
                chosen[each.template.metapath] = each
                break
    return [each for each in measured if each.template.metapath in chosen]
