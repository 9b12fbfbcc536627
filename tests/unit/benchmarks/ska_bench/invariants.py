"""What must hold of every built SKA-Open: a second reading of the files, with dictionaries and lists."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from kbbench_hf.benchmarks.ska_bench.testbeds import STANDARD, Config, configs
from kbbench_hf.benchmarks.ska_bench.token_counts import tokenizer
from kbbench_hf.benchmarks.ska_bench.units import Cells, Instance, RenderedContext, UnitPool, render_context
from kbbench_hf.building.ska_bench.evidence import Evidence
from kbbench_hf.building.ska_bench.programs import TABLE_TYPES, execute, reads, same_answers
from kbbench_hf.files.datasets import DatasetFolder

Row = dict[str, Any]
SMALL = 24 << 10
"""Contexts up to here are written out and tokenised again; of longer ones every tenth."""


@dataclass
class Subset:
    """One subset of a built dataset, and what was found wrong with it."""

    folder: DatasetFolder
    name: str
    small: bool = False
    """A world too small for the limits on shares of rows and budgets."""
    wrong: list[str] = field(default_factory=list)

    @cached_property
    def pool(self) -> UnitPool:
        return UnitPool.from_rows(self.folder.rows(f"pool_{self.name}", "full"))

    @cached_property
    def splits(self) -> dict[str, list[Instance]]:
        config = f"instances_{self.name}"
        return {
            split: [Instance.from_row(row) for row in self.folder.rows(config, split)]
            for split in self.folder.configs()[config]
        }

    @cached_property
    def instances(self) -> dict[str, Instance]:
        return {each.id: each for members in self.splits.values() for each in members}

    @cached_property
    def rows(self) -> dict[str, list[Row]]:
        built = self.folder.configs()
        known = [config for config in configs().values() if config.subset == self.name and config.name in built]
        return {c.name: [row for split in built[c.name] for row in self.folder.rows(c.name, split)] for c in known}

    def each(self, *testbeds: str) -> Iterator[tuple[Config, Instance, Row]]:
        for name, rows in self.rows.items():
            if configs()[name].testbed in testbeds or not testbeds:
                for row in rows:
                    yield configs()[name], self.instances[row["instance_id"]], row

    def context(self, row: Row) -> RenderedContext:
        return render_context(self.instances[row["instance_id"]], self.pool, row["sk_units"], row["text_units"])

    def by_instance(self, testbed: str) -> dict[str, dict[str, Row]]:
        found: defaultdict[str, dict[str, Row]] = defaultdict(dict)
        for config, instance, row in self.each(testbed):
            found[instance.id][config.name] = row
        return found

    def expect(self, holds: object, words: str) -> None:
        if not holds:
            self.wrong.append(f"{self.name}: {words}")


def violations(folder: DatasetFolder, *, small: bool = False) -> list[str]:
    """Return everything that is wrong with a built dataset; an empty list if nothing is."""
    found: list[str] = []
    for config in folder.configs():
        if config.startswith("instances_"):
            subset = Subset(folder, config.removeprefix("instances_"), small)
            for check in CHECKS:
                check(subset)
            found += subset.wrong
    return found


def positives_stand_once(s: Subset) -> None:
    for config, instance, row in s.each():
        if row["status"] == "over_budget":
            s.expect(
                not row["sk_units"] and not row["text_units"], f"{config.name} {row['id']} shows what is over budget"
            )
            continue
        removed = Counter(row["removed"])
        for section, units, positive in (
            ("sk", row["sk_units"], instance.positive_sk),
            ("text", row["text_units"], instance.positive_text),
        ):
            s.expect(len(set(units)) == len(units), f"{config.name} {row['id']} repeats a unit")
            for number in positive:
                wanted = 0 if not row["answerable"] and removed[f"{section}:{number}"] else 1
                s.expect(
                    units.count(number) == wanted, f"{config.name} {row['id']}: {section}:{number} not {wanted} times"
                )
        s.expect(
            not set(row["sk_units"]) & set(instance.withheld_sk), f"{config.name} {row['id']} shows a withheld fact"
        )
        s.expect(
            row["n_required"] == len(instance.positive_sk) + len(instance.positive_text), f"{row['id']}: n_required"
        )


def budgets_hold_and_counts_are_fresh(s: Subset) -> None:
    count = tokenizer()
    for number, (config, instance, row) in enumerate(s.each()):
        s.expect(row["kb_tokens"] <= row["budget"] <= config.budget, f"{config.name} {row['id']} exceeds its budget")
        if row["status"] == "over_budget" or (config.budget > SMALL and number % 10):
            continue
        context = s.context(row)
        text = context.all_text
        s.expect(count.count(text) == row["kb_tokens"], f"{config.name} {row['id']}: kb_tokens is not the count")
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        s.expect(digest == row["context_sha256"], f"{config.name} {row['id']}: context_sha256 is another")
        if instance.is_table:
            lines = context.sk_text.splitlines()
            s.expect(
                lines.count(context.header) == 1 and len(lines) == 1 + len(row["sk_units"]), f"{row['id']}: header"
            )
        for lines, marks in ((context.sk, context.sk_positive), (context.text, context.text_positive)):
            s.expect(len(set(lines)) == len(lines), f"{config.name} {row['id']} shows a line twice")
            s.expect(len(lines) == len(marks), f"{row['id']}: marks")


def budgets_are_nested_and_filled(s: Subset) -> None:
    names = [c.name for c in sorted(configs().values(), key=lambda c: c.budget) if c.testbed == "noise"]
    names = [name for name in names if name in s.rows]
    for rows in s.by_instance("noise").values():
        shown = [rows[name] for name in names if name in rows and rows[name]["status"] != "over_budget"]
        for less, more in pairwise(shown):
            for units in ("sk_units", "text_units"):
                s.expect(set(less[units]) <= set(more[units]), f"{more['id']}: {more['budget']} lacks a unit of less")
    before: dict[str, str] = {}
    for name in names:
        rows = [row for row in s.folder.rows(name, "test") if row["status"] != "over_budget"]
        fill = sum(row["kb_tokens"] / row["budget"] for row in rows) / len(rows)
        same = sum(before.get(row["id"]) == row["context_sha256"] for row in rows) / len(rows)
        s.expect(fill >= 0.9 and same < 0.02, f"{name} is filled to {fill:.3f}, {same:.3f} like the budget before")
        before = {row["id"]: row["context_sha256"] for row in rows}


def orders_are_permutations(s: Subset) -> None:
    standard = s.by_instance("noise")
    for testbed in ("order", "depth"):
        for name, rows in s.by_instance(testbed).items():
            instance = s.instances[name]
            plain = standard[name].get(f"noise_{s.name}_{STANDARD[s.name]}")
            for config, row in rows.items():
                setting = configs()[config]
                for units, positive in (("sk_units", instance.positive_sk), ("text_units", instance.positive_text)):
                    order = row[units]
                    if plain:
                        s.expect(
                            set(order) == set(plain[units]), f"{config} {name} has other units than the noise config"
                        )
                    if setting.depth is not None and row["status"] != "over_budget":
                        first = round(setting.depth * (len(order) - len(positive)))
                        placed = set(order[first : first + len(positive)])
                        s.expect(placed == set(positive), f"{config} {name}: positives are not at their depth")
            random, prefix = rows.get(f"order_{s.name}_random"), rows.get(f"order_{s.name}_prefix")
            if random and prefix:
                whole = set(random["sk_units"]) | set(random["text_units"])
                differ = (random["sk_units"], random["text_units"]) != (prefix["sk_units"], prefix["text_units"])
                s.expect(differ or len(whole) <= random["n_required"], f"{name}: random is prefix")


def tables_keep_their_order(s: Subset) -> None:
    for config, instance, row in s.each():
        if instance.is_table and config.setting == "original":
            own = len(s.pool.sk[instance.group])
            noise = [n for n in row["sk_units"] if n < own and n not in instance.positive_sk]
            s.expect(noise == sorted(noise), f"{config.name} {row['id']}: the table's rows are not in its order")


def positives_are_spread(s: Subset) -> None:
    for name in s.rows:
        if configs()[name].testbed != "noise":
            continue
        for units in ("sk", "text"):
            depths: list[float] = []
            for row in s.folder.rows(name, "test"):
                order = row[f"{units}_units"]
                positive = getattr(s.instances[row["instance_id"]], f"positive_{units}")
                depths += [(place + 0.5) / len(order) for place, n in enumerate(order) if n in positive]
            if len(depths) >= 100:
                s.expect(kolmogorov(depths) <= 0.10, f"{name}, {units}: KS {kolmogorov(depths):.3f} from uniform")


def kolmogorov(values: list[float]) -> float:
    """Return the largest distance of the empirical distribution from the uniform one on [0, 1]."""
    ordered, n = sorted(values), len(values)
    return max(max((k + 1) / n - value, value - k / n) for k, value in enumerate(ordered))


def row_problems(instance: Instance, pool: UnitPool) -> list[str]:
    """Return what is wrong with the evidence of an instance on table rows."""

    def gives_gold(rows: Sequence[Cells]) -> bool:
        return same_answers(execute(instance.program or {}, rows), instance.answers)

    positives = [pool.sk[instance.group][number] for number in instance.positive_sk]
    problems = [] if gives_gold(positives) else ["not sufficient: the positive rows do not give the gold answers"]
    if not gives_gold(pool.structured(instance)):
        problems.append("not unique: with the other rows the program gives another answer")
    return problems + [
        f"not necessary: {row} can be left out"
        for number, row in enumerate(positives)
        if gives_gold(positives[:number] + positives[number + 1 :])
    ]


def programs_give_the_gold(s: Subset) -> None:
    evidence = Evidence(s.pool)
    for instance in filter(lambda each: each.program, s.instances.values()):
        shown = tuple(group for group in instance.noise_groups if not group.endswith("#emptied"))
        instance = replace(instance, noise_groups=shown)
        for problem in row_problems(instance, s.pool) if instance.is_table else evidence.problems(instance):
            s.expect(False, f"{instance.id}: {problem}")
    for config, instance, row in s.each():
        program = instance.program
        if not program or program["type"] not in TABLE_TYPES or row["status"] == "over_budget" or not instance.is_table:
            continue
        cells = s.pool.structured(instance)
        found = execute(program, [cells[n] for n in row["sk_units"]])
        right = same_answers(found, instance.answers)
        s.expect(right == row["answerable"], f"{config.name} {row['id']}: the program gives {found}")
        s.expect(row["answerable"] or not any(found), f"{config.name} {row['id']}: the twin gives {found}")
    for config, instance, row in s.each("rejection", "rejection_control"):
        if instance.is_table or not instance.program:
            continue
        shown = {(False, n) for n in row["sk_units"]} | {(True, n) for n in row["text_units"]}
        follows = {d.answer for d in evidence.derivations(instance) if set(d.units) <= shown}
        s.expect(bool(follows) == row["answerable"], f"{config.name} {row['id']}: {follows} follows")


def twins_are_matched(s: Subset) -> None:
    pairs: defaultdict[str, list[Row]] = defaultdict(list)
    for _, instance, row in s.each("rejection_control"):
        pairs[instance.id].append(row)
    for name, rows in pairs.items():
        instance, sections = s.instances[name], [[each.split(":")[0] for each in row["removed"]] for row in rows]
        s.expect(len(rows) == 2 and rows[0]["answerable"] + rows[1]["answerable"] == 1, f"{name} has no two twins")
        s.expect(sections[0] and sorted(sections[0]) == sorted(sections[-1]), f"{name}: twins lost unlike units")
        lengths = {(len(row["sk_units"]), len(row["text_units"])) for row in rows}
        s.expect(len(lengths) == 1, f"{name}: twins of {lengths} units")
        for row in rows:
            if not instance.is_table and not s.small:
                about = [n for n in row["sk_units"] if set(instance.topics) & set(s.pool.sk[instance.group][n])]
                about += [n for n in row["text_units"] if set(instance.topics) & set(s.pool.text[n])]
                noise = set(about) - set(instance.positive_sk)
                s.expect(len(noise) >= 3, f"{row['id']}: {len(noise)} units of noise about the topic")
    rejected = {(row["id"], row["context_sha256"]) for _, _, row in s.each("rejection")}
    control = {(row["id"], row["context_sha256"]) for _, _, row in s.each("rejection_control") if not row["answerable"]}
    if control:
        s.expect(rejected == control, "rejection is not the unanswerable half of its control")


def hardness_is_of_one_length(s: Subset) -> None:
    for name, rows in s.by_instance("hardness").items():
        s.expect(len(rows) == 2, f"{name} has one level of hardness")
        hard, easy = (rows.get(f"hardness_{s.name}_{level}") for level in ("hard", "easy"))
        if hard and easy:
            more = max(hard["kb_tokens"], easy["kb_tokens"])
            s.expect(
                abs(hard["kb_tokens"] - easy["kb_tokens"]) <= 0.02 * more, f"{name}: hard and easy differ in length"
            )
        instance = s.instances[name]
        hops = breadth_first_hops(s.pool.sk[instance.group], instance.topics)
        for row, near in ((hard, True), (easy, False)):
            for n in row["sk_units"] if row else ():
                if n not in instance.positive_sk:
                    s.expect(hops[n] <= 2 if near else hops[n] >= 4, f"{name}: sk:{n} has hop {hops[n]}")


def breadth_first_hops(triples: Any, topics: tuple[str, ...]) -> list[float]:
    """1 + the distance of the nearer end, walking edges both ways."""
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for head, _, tail in triples:
        neighbours[head].add(tail)
        neighbours[tail].add(head)
    distance, frontier, step = dict.fromkeys(topics, 0), set(topics), 0
    while frontier:
        step += 1
        frontier = {n for e in frontier for n in neighbours[e]} - set(distance)
        distance |= dict.fromkeys(frontier, step)
    far = float("inf")
    return [1 + min(distance.get(head, far), distance.get(tail, far)) for head, _, tail in triples]


def splits_share_nothing(s: Subset) -> None:
    keys = {split: {each.split_key for each in members} for split, members in s.splits.items()}
    s.expect(all(all(of_split) for of_split in keys.values()), "an instance has no split_key")
    for other in ("test", "unreviewed"):
        s.expect(not keys.get("demo", set()) & keys.get(other, set()), f"demo and {other} share a topic or table")
    for name, rows in s.rows.items():
        testbed = configs()[name].testbed
        for row in rows:
            unreviewed = s.instances[row["instance_id"]].split == "unreviewed"
            s.expect(unreviewed == (testbed == "unreviewed"), f"{name} {row['id']} is among the reviewed")
    ids = [each.id for members in s.splits.values() for each in members]
    s.expect(len(set(ids)) == len(ids), "an id stands twice")


def noise_is_no_evidence(s: Subset) -> None:
    if s.name != "table":
        return
    for _, instance, row in s.each("noise"):
        if instance.program and row["status"] != "over_budget":
            cells = s.pool.structured(instance)
            noise = (cells[n] for n in row["sk_units"] if n not in instance.positive_sk)
            s.expect(
                not any(reads(instance.program, each) for each in noise), f"{row['id']}: noise meets the conditions"
            )


def units_say_where_they_are_from(s: Subset) -> None:
    for row in s.folder.rows(f"pool_{s.name}", "full"):
        s.expect(row["source"] and row["licence"], f"{row['section']} {row['group']}:{row['number']} has no origin")


CHECKS = (
    positives_stand_once,
    budgets_hold_and_counts_are_fresh,
    budgets_are_nested_and_filled,
    orders_are_permutations,
    tables_keep_their_order,
    positives_are_spread,
    programs_give_the_gold,
    twins_are_matched,
    hardness_is_of_one_length,
    splits_share_nothing,
    noise_is_no_evidence,
    units_say_where_they_are_from,
)
