"""Where a dataset is found: built here, carried in the package, or on the Hub; and what is said where it is nowhere."""

from pathlib import Path

import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import benchmark, find_dataset, shipped_dataset, task_key_of
from kbbench_hf.benchmarks.stark.benchmark import MINI as MINI_STARK
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import MANIFEST, write_dataset

CARD = "---\nlicense: mit\n---\n"


def test_the_packaged_dataset_is_found_under_either_name(in_tmp):
    assert find_dataset("mini-stark").path == shipped_dataset("mini-stark").path
    assert find_dataset("kbbench/mini-stark").path == shipped_dataset("mini-stark").path


def test_what_was_built_here_is_taken_before_the_packaged_copy(in_tmp):
    write_dataset(Path("kbbench/mini-stark"), {"nodes": {"full": pa.table({"id": [1]})}}, CARD)
    assert find_dataset("mini-stark").path == Path("kbbench/mini-stark")


def test_a_folder_that_was_never_finished_is_not_taken(in_tmp):
    Path("kbbench/mini-stark/data").mkdir(parents=True)
    assert find_dataset("mini-stark").path == shipped_dataset("mini-stark").path


def test_a_benchmark_of_the_registry_and_a_knowledge_base_of_ones_own_are_found(in_tmp):
    assert benchmark("kbbench/mini-stark") is MINI_STARK
    tables = {"nodes": "full", "edges": "full", "queries": "test"}
    write_dataset(Path("kbbench/my-kb"), {name: {split: pa.table({"id": [1]})} for name, split in tables.items()}, CARD)
    assert benchmark("my-kb").dataset == "my-kb"


def test_a_folder_of_ones_own_without_nodes_and_edges_is_no_knowledge_base(in_tmp):
    write_dataset(Path("kbbench/my-kb"), {"queries": {"test": pa.table({"id": [1]})}}, CARD)
    with pytest.raises(UsageError, match="neither a known benchmark's nor a knowledge base"):
        benchmark("my-kb")


def test_an_unknown_name_gets_the_closest_known_one_without_asking_the_hub(in_tmp):
    with pytest.raises(UsageError, match=r"benchmark 'mini-strk'\. Did you mean 'mini-stark'\?"):
        benchmark("mini-strk")
    with pytest.raises(UsageError, match=r"dataset 'stark-prim'\. Did you mean 'stark-prime'\?"):
        find_dataset("stark-prim")


def test_a_dataset_that_is_nowhere_comes_with_the_command_that_builds_it(in_tmp):
    with pytest.raises(
        UsageError,
        match=r"'stark-prime' is not in ./kbbench and could not be downloaded.*: kbbench build stark-prime",
    ):
        find_dataset("stark-prime")


@pytest.mark.parametrize("name", ["../secrets", "{here}/secrets", "..", "a/b", ""])
def test_a_name_is_never_a_path_to_somewhere_else(in_tmp, name):
    for place in (".", "secrets", "kbbench/a/b"):
        Path(place).mkdir(parents=True, exist_ok=True)
        Path(place, MANIFEST).write_text("{}")
    for find in (find_dataset, benchmark, task_key_of):  # what visitors of the leaderboard name goes through these
        with pytest.raises(UsageError, match="Unknown"):
            find(name.format(here=in_tmp))
