"""Subset `kg_text`: HybridQA's questions, with templates on Text2KGBench beside them, on one graph and its texts."""

from dataclasses import replace
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.construction import hybridqa_graph, tekgen
from kbbench_hf.benchmarks.ska_bench.construction.evidence import Evidence
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, Origin, Pool, Release

GROUP = "graph"
TEMPLATE_SHARE = 0.3
"""The most that instances from templates have of the subset."""
TEKGEN = Path("text2kgbench") / "wikidata_tekgen"


def make(folder: Path) -> Release:
    """Return the instances of `kg_text`, and the triples and texts of all its sources as one pool.

    Text2KGBench's release is optional: `text2kgbench/wikidata_tekgen` in the folder, or beside it.

    Raises:
        DataError: a file is absent or malformed.
    """
    parts = [hybridqa_graph.make(folder)]
    parts += [tekgen.make(place / TEKGEN) for place in (folder, folder.parent) if (place / TEKGEN).is_dir()][:1]
    whole = one_graph(parts)
    pool = whole.pools["kg_text"]
    evidence = Evidence(pool)
    kept = [instance for instance in whole.instances if len(parts) == 1 or not evidence.problems(instance)]
    asked = [instance for instance in kept if instance.source != tekgen.SOURCE.name]
    templates = [instance for instance in kept if instance.source == tekgen.SOURCE.name]
    most = int(len(asked) * TEMPLATE_SHARE / (1 - TEMPLATE_SHARE))
    return Release([*asked, *templates[:most]], {"kg_text": pool})


def one_graph(parts: list[Release]) -> Release:
    """Return releases of one graph each as one graph, their triples and passages numbered on.

    >>> pools = [Pool({"g": [(head, "r", "b")]}, [("", head)], links={0: (0,)}) for head in ("a", "c")]
    >>> asked = [Instance(q, "kg_text", "?", ("b",), "g", positive_sk=(0,), positive_text=(0,)) for q in ("q", "p")]
    >>> both = one_graph([Release([i], {"kg_text": pool}) for i, pool in zip(asked, pools)])
    >>> [(i.group, i.positive_sk, i.positive_text) for i in both.instances], both.pools["kg_text"].links
    ([('graph', (0,), (0,)), ('graph', (1,), (1,))], {0: (0,), 1: (1,)})
    """
    instances: list[Instance] = []
    triples, text, links = list[Cells](), list[Cells](), dict[int, tuple[int, ...]]()
    text_origins, origins = list[Origin](), list[Origin]()
    for release in parts:
        pool = release.pools["kg_text"]
        [group] = pool.sk
        first, first_text = len(triples), len(text)
        instances += [
            replace(
                each,
                group=GROUP,
                positive_sk=tuple(n + first for n in each.positive_sk),
                withheld_sk=tuple(n + first for n in each.withheld_sk),
                positive_text=tuple(n + first_text for n in each.positive_text),
            )
            for each in release.instances
        ]
        triples += list(pool.sk[group])
        text += list(pool.text)
        links |= {n + first_text: tuple(m + first for m in of) for n, of in pool.links.items()}
        text_origins += list(pool.text_origins)
        origins += [pool.origins[group]] if group in pool.origins else []
    sources, licences = dict.fromkeys(each.source for each in origins), dict.fromkeys(each.licence for each in origins)
    return Release(
        instances,
        {
            "kg_text": Pool(
                {GROUP: triples},
                text,
                {},
                links,
                {GROUP: Origin("; ".join(sources), "; ".join(licences))},
                text_origins,
            )
        },
    )
