"""The instances format, read from the real extract."""

from collections import Counter
from pathlib import Path

import pytest

from kbbench_hf.benchmarks.ska_bench.release.instances import read
from kbbench_hf.benchmarks.ska_bench.units import Instance, Pool, Release


@pytest.fixture(scope="module")
def release(shared: Path) -> Release:
    return read(shared / "data" / "ska_open")  # proves every program on the way


def test_all_instances_are_read_and_proved(release: Release) -> None:
    assert Counter(each.subset for each in release.instances) == {
        "table": 513,
        "kg": 350,
        "table_text": 250,
        "kg_text": 96,
    }
    assert sum(each.program is not None for each in release.instances) == 513 + 350 + 96


def test_pools_hold_equal_passages_once(release: Release) -> None:
    pools = release.pools
    assert len(pools["table_text"].text) == len(set(pools["table_text"].text)) == 8180
    assert len(pools["kg_text"].text) == len(set(pools["kg_text"].text)) == 12134  # of 13,390 sentences
    assert sum(map(len, pools["kg"].sk.values())) == 20376


def test_each_table_with_text_has_one_positive_row_and_passage(release: Release) -> None:
    for each in release.instances:
        if each.subset == "table_text":
            assert len(each.positive_sk) == len(each.positive_text) == 1 and set(each.positive_text) <= set(
                each.own_text
            )


def test_instances_and_pools_survive_their_rows(release: Release) -> None:
    for each in release.instances[::50]:
        assert Instance.from_row(each.to_row()) == each
    pool = Pool.from_rows(release.pools["kg_text"].to_rows())
    assert Pool.from_rows(pool.to_rows()) == pool


def test_every_instance_states_a_licence(release: Release) -> None:
    assert all(each.licence for each in release.instances)
    assert {each.licence for each in release.instances if each.subset == "table"} == {"CC BY-SA 4.0"}
