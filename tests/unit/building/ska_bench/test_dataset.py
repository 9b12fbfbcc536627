"""Building the datasets: the same bytes from the same facts, small on disk, whole or not at all."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.benchmarks.ska_bench.benchmark import MINI
from kbbench_hf.benchmarks.ska_bench.units import Instance, InstanceSet, UnitPool
from kbbench_hf.building.ska_bench import testbeds
from kbbench_hf.building.ska_bench.dataset import build, build_official, build_open, write_report
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder
from tests.unit.benchmarks.ska_bench import archipelago

FEW = ["noise_kg_1k", "order_table_random", "rejection_control_kg_text", "noise_table_text_4k"]


def test_only_what_was_asked_for_and_what_it_needs_is_built(tmp_path: Path) -> None:
    build("ska-open", archipelago.release(), tmp_path / "ska-open", ["noise_kg_1k"])
    assert set(DatasetFolder(tmp_path / "ska-open").configs()) == {"instances_kg", "pool_kg", "noise_kg_1k"}


def build_elsewhere(out: Path, hash_seed: str) -> str:
    code = (
        "import sys; from pathlib import Path;"
        "from kbbench_hf.building.ska_bench.dataset import build;"
        "from tests.unit.benchmarks.ska_bench import archipelago as a;"
        f"build('ska-open', a.shuffled(a.release(), {hash_seed}), Path(sys.argv[1]), {FEW!r})"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[4])}
    subprocess.run([sys.executable, "-c", code, out], check=True, env=environment, capture_output=True)
    return DatasetFolder(out).revision


def test_another_hash_seed_and_shuffled_input_give_the_same_content_hash(tmp_path: Path) -> None:
    build("ska-open", archipelago.release(), tmp_path / "here", FEW)
    assert build_elsewhere(tmp_path / "there", "4242") == DatasetFolder(tmp_path / "here").revision


def test_an_instance_whose_positives_exceed_the_budget_is_marked_and_shows_nothing(tmp_path: Path) -> None:
    made = archipelago.release()
    pool = made.pools["table"]
    long = "a very long home port " * 300
    southern = [(*row[:5], long) if n == 2 else row for n, row in enumerate(pool.sk["southern"])]
    wide = replace(pool, sk={**pool.sk, "southern": southern})
    build(
        "ska-open",
        InstanceSet(made.instances, {**made.pools, "table": wide}),
        tmp_path / "out",
        ["noise_table_1k"],
        every_budget=True,
    )
    rows = DatasetFolder(tmp_path / "out").rows("noise_table_1k", "test")
    over = [row for row in rows if row["status"] == "over_budget"]
    assert over and all(row["sk_units"] == [] and row["kb_tokens"] == 0 for row in over)
    assert all(row["kb_tokens"] <= 1024 for row in rows)


def test_a_budget_that_distinct_units_do_not_fill_is_left_out(tmp_path: Path) -> None:
    build("ska-open", archipelago.release(), tmp_path / "out", ["noise_kg_1k", "noise_kg_4k", "noise_kg_24k"])
    assert {"noise_kg_1k", "noise_kg_4k"} == {c for c in DatasetFolder(tmp_path / "out").configs() if "noise" in c}


def test_unreviewed_instances_have_a_config_of_their_own_and_demo_ones_a_split(tmp_path: Path) -> None:
    made = archipelago.release()
    kg = [each for each in made.instances if each.subset == "kg"]
    kg[0], kg[1] = replace(kg[0], split="unreviewed"), replace(kg[1], split="demo")
    build("ska-open", InstanceSet(kg, made.pools), tmp_path / "out", ["noise_kg_4k", "unreviewed_kg"])
    folder = DatasetFolder(tmp_path / "out")
    assert [row["id"] for row in folder.rows("unreviewed_kg", "test")] == [kg[0].id]
    assert [row["id"] for row in folder.rows("noise_kg_4k", "demo")] == [kg[1].id]
    assert {row["id"] for row in folder.rows("noise_kg_4k", "test")} == {each.id for each in kg[2:]}
    assert [row["id"] for row in folder.rows("instances_kg", "unreviewed")] == [kg[0].id]


def test_unknown_configs_and_missing_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'noise_kg_4k'"):
        build_open(tmp_path, tmp_path / "out", ["noise_kg_4kk"])
    with pytest.raises(UsageError, match="rejection_noise_kg"):
        build_open(tmp_path, tmp_path / "out", ["rejection_noise_kg"], revision=1)
    with pytest.raises(UsageError, match="--source"):
        build_official(None, tmp_path / "out")
    only_table = [each for each in archipelago.release().instances if each.subset == "table"]
    with pytest.raises(UsageError, match="no kg instances"):
        build("ska-open", InstanceSet(only_table, archipelago.release().pools), tmp_path / "out", ["noise_kg_4k"])


def test_instances_and_pools_survive_their_rows() -> None:
    made = archipelago.release()
    aliased = replace(made.instances[0], answer_aliases=(("Old Pell", "Pell Island"),), answers=("Pell",))
    for each in (*made.instances, aliased):
        assert Instance.from_row(each.to_row()) == each
    for pool in made.pools.values():
        read = UnitPool.from_rows(pool.to_rows())
        assert (read.sk, read.text, read.headers, read.links) == (pool.sk, list(pool.text), pool.headers, pool.links)


def test_the_shipped_mini_dataset_is_what_its_source_builds(tmp_path: Path) -> None:
    build("mini-ska", archipelago.release(), tmp_path / "mini-ska", MINI.data.configs, revision=1)
    assert DatasetFolder(tmp_path / "mini-ska").revision == shipped_dataset("mini-ska").revision
    found = DatasetFolder(tmp_path / "mini-ska").configs()
    assert len(found) == 38 and {split for splits in found.values() for split in splits} == {"test", "full"}


@pytest.mark.parametrize(("revision", "version"), [(1, "1.0.0"), (2, "2.0.0")])
def test_manifest_and_card_say_which_revision_of_the_construction_made_a_dataset(
    revision: int, version: str, tmp_path: Path
) -> None:
    build("ska-open", archipelago.release(), tmp_path / "out", ["noise_kg_1k"], revision=revision)
    assert DatasetFolder(tmp_path / "out").manifest["version"] == version
    assert f"Version {version}" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_the_card_has_the_positions_of_needed_units_in_tenths_of_their_section() -> None:
    instance = Instance("q", "kg", "?", ("x",), "g", positive_sk=(0, 7))
    rows = [{"instance_id": "q", "sk_units": [5, 0, 1, 2, 3, 4, 6, 8, 9, 7], "text_units": []}]
    built = testbeds.Testbeds({"noise_kg_4k": {"test": pa.Table.from_pylist(rows)}}, {}, {})
    report = write_report(InstanceSet([instance], {"kg": UnitPool({"g": [("a", "b", "c")] * 10})}), built)
    shares = " | ".join(["0%", "50%", *["0%"] * 7, "50%"])
    assert f"| kg | sk_units | {shares} | 0.450 |" in report and "text_units" not in report


def test_a_table_without_rows_of_some_kind_is_read_as_it_was_written() -> None:
    pool = UnitPool({"t": [("a",)], "t#donated": []}, headers={"t": ("Name",), "t#donated": ("Name",)})
    assert UnitPool.from_rows(pool.to_rows()).sk == pool.sk
