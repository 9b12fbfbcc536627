"""Instances and pools of ska-open: the subsets from their sources, aliases, the split `demo`, units in hash order.

`dataset` builds ska-open and the private split from `make_instances`, and sorts the units of every release. Ids of
`removed.csv` are never used again. Numbers of units, and which instances are `demo`, follow from hashes.
"""

import csv
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from kbbench_hf.benchmarks.ska_bench.longer_names import add_longer_names
from kbbench_hf.benchmarks.ska_bench.testbeds import NEWEST
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Cells, Instance, InstanceSet, UnitPool, counts
from kbbench_hf.building.ska_bench import hybridqa_graph, metaqa, table, table_text, tekgen
from kbbench_hf.building.ska_bench.evidence import Evidence
from kbbench_hf.building.ska_bench.unit_orders import seeded_hash

_T = TypeVar("_T")
REMOVED = Path(__file__).with_name("removed.csv")
"""Instances that a version removed, with the reason: they are never made again."""
DEMO = 20
"""How many instances of a subset are for demonstrations; the test instances share no topic or table with them."""
_NAME = r"(?:[A-Z]\.|[A-Z][\w'’-]*)"
_NAMES = rf"{_NAME}(?: {_NAME})*"
_NAME_ASKED = re.compile(r"(?i)\b(?:stage|nick|first|middle|last|birth|real|full|pen|former|original|official) ?name")
"""Questions for one particular name, of which another name is no alias."""
_FULL_NAME = re.compile(rf"({_NAMES}) \(")
"""The name before the first bracket of a page: "Anna Maria Lee (born 1950) is a singer."."""
_KNOWN_AS = re.compile(
    r"(?: [a-z]+)?(?: \([^()]*\))?,?(?: (?:also|once|at one time|better|[a-z]+ly))*"
    rf" (?:known|referred to)(?: \w+ly)? as (?:the )?({_NAMES}(?:,? or (?:the )?{_NAMES})*)"
)
"""What follows a name that is introduced by another one: its group holds all further names."""
TEMPLATE_SHARE = 0.3
"""The largest share of `kg_text` that instances from templates have."""


def make_instances(source: Path, subsets: Sequence[str] = SUBSETS, revision: int = NEWEST) -> InstanceSet:
    """Return the instances of these subsets, by subset and id, and their pools, by a revision of the construction.

    They have aliases and the splits `test`, `demo` and `unreviewed`; `counts` says what each step left.

    Raises:
        DataError: a file that a maker needs is absent or malformed.
    """
    with REMOVED.open(encoding="utf-8", newline="") as rows:
        removed = {row["id"] for row in csv.DictReader(rows)}
    made = [MAKERS[subset](source, revision) for subset in subsets if subset in MAKERS]
    if revision > 1:
        made = [
            part._replace(instances=[_with_further_names(each, part.pools[each.subset]) for each in part.instances])
            for part in made
        ]
    cleaned = [[clean_aliases(each, revision) for each in part.instances if each.id not in removed] for part in made]
    instances = [instance for members in cleaned for instance in assign_demo(members)]
    pools = {subset: pool for part in made for subset, pool in part.pools.items()}
    return InstanceSet(instances, pools, tuple(each for part in made for each in part.counts))


def make_kg_text(folder: Path, revision: int = NEWEST) -> InstanceSet:
    """Return the instances of `kg_text` from HybridQA and from templates, and their triples and texts as one pool.

    Text2KGBench's release is optional: `text2kgbench/wikidata_tekgen` in the folder, or beside it.

    Raises:
        DataError: a file is absent or malformed.
    """
    parts = [hybridqa_graph.make_instances(folder, revision)]
    places = (place / tekgen.FOLDER for place in (folder, folder.parent))
    parts += [tekgen.make_instances(place, revision) for place in places if place.is_dir()][:1]
    whole = merge_sets("kg_text", parts)
    evidence = Evidence(whole.pools["kg_text"])
    people, templates = list[Instance](), list[Instance]()
    for instance in whole.instances:
        if len(parts) > 1 and evidence.problems(instance):
            continue
        if instance.source != tekgen.SOURCE.name:
            people.append(instance)
        elif not evidence.rival_passages(instance):
            templates.append(instance)
    # in the order of `tekgen`: those that need most units first
    chosen = templates[: int(len(people) * TEMPLATE_SHARE / (1 - TEMPLATE_SHARE))]
    steps = {"templates whose evidence is in order": len(templates), "chosen": len(chosen)}
    counted = counts("kg_text", tekgen.SOURCE.name, steps) if templates else ()
    return InstanceSet([*people, *chosen], whole.pools, (*whole.counts, *counted))


def merge_sets(subset: str, parts: Sequence[InstanceSet]) -> InstanceSet:
    """Return sets of one subset as one: their groups side by side, their passages renumbered.

    >>> texts = [UnitPool(text=[("", word)]) for word in ("a", "b")]
    >>> asked = [Instance(word, "kg_text", "?", ("x",), word, positive_text=(0,)) for word in ("a", "b")]
    >>> both = merge_sets("kg_text", [InstanceSet([i], {"kg_text": p}) for i, p in zip(asked, texts)])
    >>> [i.positive_text for i in both.instances], both.pools["kg_text"].text
    ([(0,), (1,)], [('', 'a'), ('', 'b')])
    """
    instances: list[Instance] = []
    whole = UnitPool({}, [], {}, {}, [], {}, [])
    for part in parts:
        pool, start = part.pools[subset], len(whole.text)
        for each in part.instances:
            positive, own = (tuple(n + start for n in numbers) for numbers in (each.positive_text, each.own_text))
            instances.append(replace(each, positive_text=positive, own_text=own))
        group = next(iter(pool.sk), "") if pool.links else ""
        links = {number + start: links for number, links in pool.links.items()}
        added = replace(pool, links=links, text_groups=pool.text_groups or [group] * len(pool.text))
        whole = UnitPool(*map(_join, vars(whole).values(), vars(added).values()))
    return InstanceSet(instances, {subset: whole}, tuple(each for part in parts for each in part.counts))


def _join(one: Any, other: Any) -> Any:
    """Return two mappings, or two sequences, as one."""
    return {**one, **other} if isinstance(one, dict) else [*one, *other]


MAKERS: Mapping[str, Callable[[Path, int], InstanceSet]] = {
    "kg": metaqa.make_instances,
    "table": table.make_instances,
    "kg_text": make_kg_text,
    "table_text": table_text.make_instances,
}
"""Subset -> a function from a source folder and a revision of the construction to its instances and its pool."""


def _with_further_names(instance: Instance, pool: UnitPool) -> Instance:
    """Return an instance whose answers have the longer forms and the further names of its evidence as aliases."""
    longer = add_longer_names(instance, pool)
    if _NAME_ASKED.search(instance.question):
        return longer
    texts = [pool.text[number] for number in instance.positive_text]
    return _with_aliases(
        longer, lambda answer, names: [*names, *chain(*(further_names(answer, *text) for text in texts))]
    )


def _with_aliases(instance: Instance, further: Callable[[str, Cells], Iterable[str]]) -> Instance:
    """Return an instance with other aliases, which a function makes of each answer and its aliases."""
    given = instance.answer_aliases or ((),) * len(instance.answers)
    aliases = tuple(tuple(further(*each)) for each in zip(instance.answers, given, strict=True))
    return replace(instance, answer_aliases=aliases if any(aliases) else ())


def further_names(answer: str, title: str, text: str) -> list[str]:
    """Return the names that a passage gives beside an answer: its full name on its own page, and what it is known as.

    Each comes once, in the order of the passage; there are none of an answer in lower case but its full name.

    >>> further_names("Dene", "", "It is named after a Dene tribe also known as the Red Knives or Copper People.")
    ['Red Knives', 'Copper People']
    >>> further_names("Ann Lee", "Ann Lee (singer)", "Anna Maria Lee (born 1950) is a singer.")
    ['Anna Maria Lee']
    """
    own = _FULL_NAME.match(text) if title.partition(" (")[0] == answer else None
    found = [own[1]] if own else []
    for place in re.finditer(rf"(?<!\w){re.escape(answer)}", text) if answer[:1].isupper() else ():
        rest = text[place.end() :]
        while names := _KNOWN_AS.match(rest):
            found += re.split(r",? or (?:the )?", names[1])
            rest = rest[names.end() :]
    return list(dict.fromkeys(found))


def clean_aliases(instance: Instance, revision: int = 1) -> Instance:
    """Return an instance whose answers have no alias twice; of a possessive answer the plain name is one.

    From revision 2 of the construction on only where the question asks whose: a title may end in "Minsky's".

    >>> asked = Instance("a", "kg", "?", ("Zee Tamil's",), "g", answer_aliases=(("Zee Tamil's",),))
    >>> clean_aliases(asked).answer_aliases
    (('Zee Tamil',),)
    """
    is_possessor = revision < 2 or instance.question.casefold().startswith("whose ")

    def cleaned(answer: str, names: Cells) -> Iterable[str]:
        possessor = (answer[:-2],) if answer.endswith("'s") and is_possessor else ()
        return dict.fromkeys(name for name in (*names, *possessor) if name != answer)

    return _with_aliases(instance, cleaned)


def assign_demo(instances: Iterable[Instance], size: int = DEMO) -> list[Instance]:
    """Return the instances of one subset by id, at most `size` of them as `demo`: all of a topic or table, or none.

    Topics and tables are drawn in the order of their hashes; those with unreviewed instances stay as they are.
    """
    ordered = sorted(instances, key=lambda each: each.id)
    by_key: defaultdict[str, list[Instance]] = defaultdict(list)
    for instance in ordered:
        by_key[instance.split_key].append(instance)
    demo: set[str] = set()
    for key in sorted(by_key, key=lambda key: seeded_hash(f"demo|{key}")):
        members = {each.id for each in by_key[key]}
        if len(demo) + len(members) <= size and all(each.split == "test" for each in by_key[key]):
            demo |= members
    return [replace(each, split="demo") if each.id in demo else each for each in ordered]


def sort_units(release: InstanceSet) -> InstanceSet:
    """Return a release whose triples and passages are numbered by the hashes of their cells.

    Contexts list the noise of graphs and texts by number: in an order without meaning, independent of the sources'.
    """
    instances, pools = sorted(release.instances, key=lambda each: each.id), dict(release.pools)
    for subset, pool in release.pools.items():
        keeps_rows = subset.startswith("table")
        sk = {g: {n: n for n in range(len(u))} if keeps_rows else _new_numbers(u) for g, u in pool.sk.items()}
        text = _new_numbers(pool.text)
        first = next(iter(sk), "")
        links = {
            text[n]: _renumber(sk[pool.text_groups[n] if pool.text_groups else first], numbers)
            for n, numbers in sorted(pool.links.items())
        }
        pools[subset] = replace(
            pool,
            sk={group: _reorder(units, sk[group]) for group, units in pool.sk.items()},
            text=_reorder(pool.text, text),
            text_origins=_reorder(pool.text_origins, text),
            links=links,
            text_groups=_reorder(pool.text_groups, text),
        )
        for place, each in enumerate(instances):
            if each.subset == subset:
                instances[place] = replace(
                    each,
                    positive_sk=_renumber(sk[each.group], each.positive_sk),
                    withheld_sk=_renumber(sk[each.group], each.withheld_sk),
                    positive_text=_renumber(text, each.positive_text),
                    own_text=_renumber(text, each.own_text),
                )
    return release._replace(instances=instances, pools=pools)


def _new_numbers(units: Sequence[Cells]) -> dict[int, int]:
    """Return old -> new number, by the SHA-256 of the cells; equal units keep their order."""
    keys = [hashlib.sha256("\0".join(cells).encode()).digest() for cells in units]
    return {old: new for new, old in enumerate(sorted(range(len(units)), key=lambda n: keys[n]))}


def _renumber(new: Mapping[int, int], numbers: Iterable[int]) -> tuple[int, ...]:
    """Return the new numbers, sorted."""
    return tuple(sorted(new[number] for number in numbers))


def _reorder(values: Sequence[_T], new: Mapping[int, int]) -> list[_T]:
    """Return values by their new numbers; an empty sequence stays empty."""
    return [values[old] for old in sorted(range(len(values)), key=lambda n: new[n])]
