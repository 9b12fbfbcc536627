"""The invariants of every testbed, on real instances: WikiTableQuestions, HybridQA, PathQuestion, WC2014, TekGen."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from kbbench_hf.benchmarks.ska_bench.configs import STANDARD, Config, bucket, configs
from kbbench_hf.benchmarks.ska_bench.construction.noise import measure
from kbbench_hf.benchmarks.ska_bench.construction.testbeds import Builder, arrange
from kbbench_hf.benchmarks.ska_bench.construction.tokens import tokenizer
from kbbench_hf.benchmarks.ska_bench.contexts import Renderer
from kbbench_hf.benchmarks.ska_bench.programs import same_answers
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, Release, write_row

Rows = dict[str, list[dict[str, Any]]]
"""Config -> the rows of one instance."""


class Built:
    """All rows of all table instances and every second one of the others, within the paper's budgets, built once."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self._rows: dict[str, list[tuple[Instance, Rows]]] = {}

    def builder(self, subset: str) -> Builder:
        return Builder(self.release.pools[subset], tokenizer())

    def instances(self, subset: str) -> list[Instance]:
        members = [instance for instance in self.release.instances if instance.subset == subset]
        return members if subset == "table" else members[::2]

    def rows(self, subset: str) -> list[tuple[Instance, Rows]]:
        if subset not in self._rows:
            builder = self.builder(subset)
            chosen = [c for c in configs().values() if c.subset == subset and not c.long and c.testbed != "depth"]
            self._rows[subset] = [(each, builder.rows(each, chosen)) for each in self.instances(subset)]
        return self._rows[subset]

    def each(self, subset: str) -> Iterator[tuple[Instance, Config, dict[str, Any]]]:
        for instance, rows in self.rows(subset):
            for name, made in rows.items():
                for row in made:
                    yield instance, configs()[name], row


@pytest.fixture(scope="module")
def built(real: Release) -> Built:
    return Built(real)


per_subset = pytest.mark.parametrize("subset", SUBSETS)


def units_of(row: dict[str, Any]) -> tuple[list[int], list[int]]:
    return row["sk_units"].tolist(), row["text_units"].tolist()


@per_subset
@pytest.mark.slow
def test_every_positive_is_present_exactly_once_and_none_in_rejection(built: Built, subset: str) -> None:
    for instance, _, row in built.each(subset):
        sk, text = units_of(row)
        shown = [sk.count(n) for n in instance.positive_sk] + [text.count(n) for n in instance.positive_text]
        assert set(shown) == ({1} if row["answerable"] else {0}), row["id"]
        assert row["n_required"] == len(shown)
        assert len(set(sk)) == len(sk) and len(set(text)) == len(text)
        assert not set(sk) & set(instance.withheld_sk), "a withheld fact is shown"


@per_subset
@pytest.mark.slow
def test_no_budget_is_exceeded_and_counts_equal_a_fresh_tokenisation(built: Built, subset: str) -> None:
    count, pool = tokenizer(), built.release.pools[subset]
    fresh = 0
    for number, (instance, config, row) in enumerate(built.each(subset)):
        assert row["kb_tokens"] <= config.budget and row["status"] in ("ok", "short")
        if number % 23 == 0:
            text = Renderer(instance, pool).context(*units_of(row)).all_text
            assert count.count(text) == row["kb_tokens"], row["id"]
            fresh += 1
    assert fresh > 20


@per_subset
def test_larger_budgets_hold_smaller_ones(built: Built, subset: str) -> None:
    names = [c.name for c in configs().values() if c.testbed == "noise" and c.subset == subset and not c.long]
    for _, rows in built.rows(subset):
        contexts = [tuple(map(set, units_of(rows[name][0]))) for name in names]
        for (sk, text), (more_sk, more_text) in pairwise(contexts):
            assert sk <= more_sk and text <= more_text


@per_subset
def test_orders_are_permutations_with_the_positives_where_their_name_says(built: Built, subset: str) -> None:
    for instance, rows in built.rows(subset):
        settings = {name.rsplit("_", 1)[1]: rows[name][0] for name in rows if name.startswith(f"order_{subset}_")}
        standard = rows[f"noise_{subset}_{STANDARD[subset]}"][0]
        for row in settings.values():
            assert set(row["sk_units"].tolist()) == set(standard["sk_units"].tolist())
            assert set(row["text_units"].tolist()) == set(standard["text_units"].tolist())
        for units, positives in (("sk_units", instance.positive_sk), ("text_units", instance.positive_text)):
            k = len(positives)
            assert set(settings["prefix"][units].tolist()[:k]) == set(positives)
            assert set(settings["suffix"][units].tolist()[len(settings["suffix"][units]) - k :]) == set(positives)
        assert units_of(settings["random"]) != units_of(settings["prefix"])


@pytest.mark.parametrize("subset", ["table", "table_text"])
def test_tables_keep_their_order_with_made_rows_after_them(built: Built, subset: str) -> None:
    for instance, config, row in built.each(subset):
        if config.setting == "original":
            sk = row["sk_units"].tolist()
            assert sk == sorted(sk), instance.id
    header = write_row(built.release.pools[subset].headers[instance.group])
    context = Renderer(instance, built.release.pools[subset]).context(*units_of(row))
    assert context.sk_text.splitlines().count(header) == 1 and len(context.sk) == len(row["sk_units"])


def test_all_513_table_programs_give_the_gold_answer_unless_the_positives_are_withheld(built: Built) -> None:
    proved = 0
    for instance, rows in built.rows("table"):
        renderer = Renderer(instance, built.release.pools["table"])
        for name, made in rows.items():
            for row in made:
                right = same_answers(renderer.execute(*units_of(row)) or [], instance.answers)
                assert right == row["answerable"], (name, row["id"])
        proved += 1
    assert proved == 513


@pytest.mark.parametrize("subset", ["kg", "kg_text"])
def test_graph_programs_give_the_gold_answers_unless_the_positives_are_withheld(built: Built, subset: str) -> None:
    for instance, config, row in built.each(subset):
        if config.testbed in ("rejection_control", "hardness") or config.name.endswith(("_4k", "_12k")):
            found = Renderer(instance, built.release.pools[subset]).execute(*units_of(row)) or []
            assert set(found) == set(instance.answers) if row["answerable"] else not set(found) & set(instance.answers)


@pytest.mark.parametrize("subset", ["kg", "kg_text"])
def test_rejection_shows_no_other_fact_about_a_positive_pair(built: Built, subset: str) -> None:
    pool = built.release.pools[subset]
    removed = 0
    for instance, rows in built.rows(subset):
        triples = pool.sk[instance.group]
        pairs = [{triples[n][0], triples[n][2]} for n in (*instance.positive_sk, *instance.withheld_sk)]
        sk, text = units_of(rows[f"rejection_{subset}"][0])
        assert not [n for n in sk if {triples[n][0], triples[n][2]} in pairs]
        assert not [n for n in text if any(all(end in pool.text[n][1] for end in pair) for pair in pairs)]
        removed += sum({t[0], t[2]} in pairs for t in triples) > len(pairs)
    assert removed > (15 if subset == "kg" else 0)


@pytest.mark.parametrize("subset", ["kg", "kg_text"])
def test_hard_noise_is_near_and_easy_noise_is_far(built: Built, subset: str) -> None:
    pool, builder = built.release.pools[subset], built.builder(subset)
    for instance, rows in built.rows(subset)[::20]:
        hops = breadth_first_hops(pool.sk[instance.group], instance.topics)
        for level, near in (("hard", True), ("easy", False)):
            for n in rows[f"hardness_{subset}_{level}"][0]["sk_units"].tolist():
                if n not in instance.positive_sk:
                    assert (hops[n] <= 2) if near else (hops[n] >= 4)
    assert builder


def breadth_first_hops(triples: list[tuple[str, ...]], topics: tuple[str, ...]) -> list[float]:
    """1 + the distance of the nearer end, walking edges both ways: a second definition, with dictionaries."""
    neighbours: dict[str, set[str]] = {}
    for head, _, tail in triples:
        neighbours.setdefault(head, set()).add(tail)
        neighbours.setdefault(tail, set()).add(head)
    distance, frontier, step = dict.fromkeys(topics, 0), set(topics), 0
    while frontier:
        step += 1
        frontier = {n for e in frontier for n in neighbours.get(e, ())} - set(distance)
        distance |= dict.fromkeys(frontier, step)
    return [1 + min(distance.get(head, np.inf), distance.get(tail, np.inf)) for head, _, tail in triples]


@per_subset
def test_no_noise_is_written_like_a_positive_or_twice(built: Built, subset: str) -> None:
    pool = built.release.pools[subset]
    for instance, rows in built.rows(subset)[::4]:
        row = rows[f"noise_{subset}_24k"][0]
        context = Renderer(instance, pool).context(*units_of(row))
        for lines, marks in ((context.sk, context.sk_positive), (context.text, context.text_positive)):
            noise = [line for line, positive in zip(lines, marks, strict=True) if not positive]
            assert len(set(noise)) == len(noise)
            assert not set(noise) & {line for line, positive in zip(lines, marks, strict=True) if positive}


@per_subset
def test_depths_put_the_positives_after_their_share_of_the_noise(built: Built, subset: str) -> None:
    builder = built.builder(subset)
    depths = [c for c in configs().values() if c.testbed == "depth" and c.subset == subset]
    for instance in built.instances(subset)[:4]:
        for config in depths:
            [row] = builder.rows(instance, [config])[config.name]
            for units, positives in (
                (row["sk_units"], instance.positive_sk),
                (row["text_units"], instance.positive_text),
            ):
                places = [place for place, n in enumerate(units.tolist()) if n in positives]
                before = round(config.depth * (len(units) - len(positives)))
                assert places == list(range(before, before + len(positives)))


def test_graphs_and_texts_record_the_budget_they_reach(built: Built) -> None:
    config = configs()["noise_kg_1m"]
    [row] = built.builder("kg").rows(built.instances("kg")[0], [config])[config.name]
    assert row["status"] == "short" and 0 < row["kb_tokens"] < config.budget


def test_integration_only_reads_the_column_of_the_noise_runs(built: Built) -> None:
    found = [bucket(rows["noise_table_4k"][0]["n_required"]) for _, rows in built.rows("table")]
    # the extract's count of positive rows: 235 x 1, 160 x 2, 25 x 3, 25 x 4, the other 68 more
    assert {key: found.count(key) for key in ("1", "2", "3", "4", ">4")} == {
        "1": 235,
        "2": 160,
        "3": 25,
        "4": 25,
        ">4": 68,
    }


def test_the_control_holds_the_rejection_rows_and_their_answerable_twins(built: Built) -> None:
    for instance, rows in built.rows("kg")[:20]:
        without, with_positives = rows["rejection_control_kg"]
        assert units_of(without) == units_of(rows["rejection_kg"][0]) and without["id"] == instance.id
        assert units_of(with_positives) == units_of(rows["noise_kg_4k"][0])
        assert (with_positives["id"], with_positives["answerable"]) == (f"{instance.id}:answerable", True)


@per_subset
def test_a_config_is_the_same_whether_built_alone_or_with_larger_ones(built: Built, subset: str) -> None:
    small, large = (configs()[f"noise_{subset}_{size}"] for size in ("4k", "64k"))
    builder = built.builder(subset)
    for instance in built.instances(subset)[:6]:
        [row] = builder.rows(instance, [small])[small.name]
        [same] = builder.rows(instance, [small, large])[small.name]
        assert units_of(row) == units_of(same) and row["context_sha256"] == same["context_sha256"]


def test_positives_and_noise_in_different_sections_are_placed_at_all() -> None:
    config = configs()["order_table_text_random"]
    instance = Instance("q", "table_text", "?", ("x",), "t", positive_text=(0,), own_text=(0,))
    text = measure(["the one passage"], tokenizer(), in_text=True)
    rows = measure(["|a|", "|b|"], tokenizer(), in_text=False)
    sk, passages = arrange(instance, text, rows, config)
    assert sorted(sk.numbers.tolist()) == [0, 1] and passages.numbers.tolist() == [0]
