"""Subset `kg_text`: HybridQA's questions, and templates on Text2KGBench beside them, each on its own graph."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.units import Instance, Pool, Release, counts
from kbbench_hf.building.ska_bench import hybridqa_graph_questions, tekgen
from kbbench_hf.building.ska_bench.evidence import Evidence

TEMPLATE_SHARE = 0.3
"""The most that instances from templates have of the subset."""
TEKGEN = Path("text2kgbench") / "wikidata_tekgen"


def make(folder: Path) -> Release:
    """Return the instances of `kg_text`, and the triples and texts of all its sources as one pool.

    Text2KGBench's release is optional: `text2kgbench/wikidata_tekgen` in the folder, or beside it.

    Raises:
        DataError: a file is absent or malformed.
    """
    parts = [hybridqa_graph_questions.make(folder)]
    parts += [tekgen.make(place / TEKGEN) for place in (folder, folder.parent) if (place / TEKGEN).is_dir()][:1]
    whole = merged("kg_text", parts)
    pool = whole.pools["kg_text"]
    evidence = Evidence(pool)
    kept = [instance for instance in whole.instances if len(parts) == 1 or not evidence.problems(instance)]
    asked = [instance for instance in kept if instance.source != tekgen.SOURCE.name]
    templates = [
        instance for instance in kept if instance.source == tekgen.SOURCE.name and not evidence.told_of_others(instance)
    ]
    most = int(len(asked) * TEMPLATE_SHARE / (1 - TEMPLATE_SHARE))
    steps = {"templates whose evidence is in order": len(templates), "chosen": len(templates[:most])}
    counted = (*whole.counts, *(counts("kg_text", tekgen.SOURCE.name, steps) if templates else ()))
    return Release([*asked, *templates[:most]], {"kg_text": pool}, counted)


def merged(subset: str, parts: Sequence[Release]) -> Release:
    """Return releases of one subset as one: their groups side by side, their passages numbered on.

    >>> texts = [Pool(text=[("", word)]) for word in ("a", "b")]
    >>> asked = [Instance(word, "kg_text", "?", ("x",), word, positive_text=(0,)) for word in ("a", "b")]
    >>> both = merged("kg_text", [Release([i], {"kg_text": p}) for i, p in zip(asked, texts)])
    >>> [i.positive_text for i in both.instances], both.pools["kg_text"].text
    ([(0,), (1,)], [('', 'a'), ('', 'b')])
    """
    instances: list[Instance] = []
    whole = Pool({}, [], {}, {}, [], {}, [])
    for release in parts:
        pool, start = release.pools[subset], len(whole.text)
        for instance in release.instances:
            positive, own = (tuple(n + start for n in part) for part in (instance.positive_text, instance.own_text))
            instances.append(replace(instance, positive_text=positive, own_text=own))
        whole = Pool(
            {**whole.sk, **pool.sk},
            [*whole.text, *pool.text],
            {**whole.headers, **pool.headers},
            {**whole.links, **{number + start: links for number, links in pool.links.items()}},
            [
                *whole.text_groups,
                *(pool.text_groups or [next(iter(pool.sk), "") if pool.links else ""] * len(pool.text)),
            ],
            {**whole.origins, **pool.origins},
            [*whole.text_origins, *pool.text_origins],
        )
    return Release(instances, {subset: whole}, tuple(each for release in parts for each in release.counts))
