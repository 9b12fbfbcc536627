"""Building the datasets: the same bytes from the same facts, small on disk, whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbbench_hf.benchmarks.ska_bench.configs import configs
from kbbench_hf.benchmarks.ska_bench.construction.cues import length_cues
from kbbench_hf.benchmarks.ska_bench.construction.datasets import build, build_official, build_open
from kbbench_hf.benchmarks.ska_bench.construction.tokens import tokenizer
from kbbench_hf.benchmarks.ska_bench.contexts import Renderer
from kbbench_hf.benchmarks.ska_bench.release.instances import read
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, Pool, Release
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder
from tests.unit.benchmarks.ska_bench import archipelago

FEW = ["noise_kg_1k", "order_table_random", "rejection_control_kg_text", "noise_table_text_4k"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archipelago.write(tmp_path_factory.mktemp("source"), archipelago.lines())


def test_every_config_is_written_with_its_instances_and_pools(source: Path, tmp_path: Path) -> None:
    built = [name for name, config in configs().items() if not (config.long and config.subset.startswith("table"))]
    build_open(source, tmp_path / "ska-open", built)
    folder = DatasetFolder(tmp_path / "ska-open")
    found = folder.configs()
    assert set(found) == {*built, *(f"{kind}_{subset}" for kind in ("instances", "pool") for subset in SUBSETS)}
    assert found["noise_kg_1k"] == ["test", "demo"]
    assert next(iter(found)) == "instances_kg" and found["pool_table"] == ["full"]
    card = (folder.path / "README.md").read_text(encoding="utf-8")
    assert "This is not the\nauthors' data" in card and "| kg | sk | 0." in card
    assert "Not to be published" not in card


def test_only_what_was_asked_for_and_what_it_needs_is_built(source: Path, tmp_path: Path) -> None:
    build_open(source, tmp_path / "ska-open", ["noise_kg_1k"])
    assert set(DatasetFolder(tmp_path / "ska-open").configs()) == {"instances_kg", "pool_kg", "noise_kg_1k"}


def test_stored_numbers_render_to_the_text_that_was_built(source: Path, tmp_path: Path) -> None:
    import hashlib

    build_open(source, tmp_path / "ska-open", FEW)
    folder = DatasetFolder(tmp_path / "ska-open")
    for name in FEW:
        subset = configs()[name].subset
        pool = Pool.from_rows(folder.rows(f"pool_{subset}", "full"))
        instances = {row["id"]: Instance.from_row(row) for row in folder.rows(f"instances_{subset}", "test")}
        for row in folder.rows(name, "test"):
            text = Renderer(instances[row["instance_id"]], pool).context(row["sk_units"], row["text_units"]).all_text
            assert hashlib.sha256(text.encode()).hexdigest().startswith(row["context_sha256"])
            assert tokenizer().count(text) == row["kb_tokens"]


def build_elsewhere(source: Path, out: Path, hash_seed: str) -> str:
    code = (
        "import sys; from pathlib import Path;"
        "from kbbench_hf.benchmarks.ska_bench.construction.datasets import build_open;"
        f"build_open(Path(sys.argv[1]), Path(sys.argv[2]), {FEW!r})"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[4])}
    subprocess.run([sys.executable, "-c", code, source, out], check=True, env=environment, capture_output=True)
    return DatasetFolder(out).revision


def test_another_hash_seed_and_shuffled_input_give_the_same_content_hash(source: Path, tmp_path: Path) -> None:
    build_open(source, tmp_path / "here", FEW)
    shuffled = archipelago.write(tmp_path / "shuffled", archipelago.lines(), shuffle=7)
    assert (shuffled / "table.jsonl").read_bytes() != (source / "table.jsonl").read_bytes()
    assert build_elsewhere(shuffled, tmp_path / "there", "4711") == DatasetFolder(tmp_path / "here").revision


def test_lengths_do_not_give_positives_away(real: Release) -> None:
    cues = length_cues(real.instances[::6], real.pools, tokenizer())
    assert {(subset, section) for subset, found in cues.items() for section in found} == {
        ("kg", "sk"),
        ("table", "sk"),
        ("kg_text", "sk"),
        ("kg_text", "text"),
        ("table_text", "sk"),
        ("table_text", "text"),
    }
    assert all(0.5 <= auc <= 0.7 for found in cues.values() for auc in found.values()), cues


def test_an_instance_whose_positives_exceed_the_budget_is_marked_and_shows_nothing(tmp_path: Path) -> None:
    files = archipelago.lines()
    for record in files["table"]:
        record["sk_units"][0]["cells"][5] = "a very long home port" * 300
    build_open(archipelago.write(tmp_path / "source", {"table": files["table"]}), tmp_path / "out", ["noise_table_1k"])
    rows = DatasetFolder(tmp_path / "out").rows("noise_table_1k", "test")
    over = [row for row in rows if row["status"] == "over_budget"]
    assert over and all(row["sk_units"] == [] and row["kb_tokens"] == 0 for row in over)
    assert all(row["kb_tokens"] <= 1024 for row in rows)


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda files: files["table"][0].pop("program"), "table.jsonl:1: a table instance without 'program'"),
        (lambda files: files["graph"][0].update(subset="Tables"), "unknown subset 'Tables'"),
        (lambda files: files["graph"][0].update(hints=[1]), "unknown fields 'hints'"),
        (lambda files: files["graph"][0].update(answers=["Nowhere"]), "mini-kg-00: on its positive units the program"),
        (lambda files: files["graph"][0].update(positive_uids=["isles:999"]), "isles:999"),
        (lambda files: files["graph"].append(files["graph"][0]), "stands twice"),
        (lambda files: files["table"][0]["sk_units"][1]["cells"].pop(), "a row has 5 cells; expected 6"),
        (lambda files: files["table"][0]["program"].update(type="guess"), "Unknown answer program 'guess'"),
        (lambda files: [files[name].clear() for name in list(files)], "holds no instances"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(break_it, words: str, tmp_path: Path) -> None:
    files = archipelago.lines()
    break_it(files)
    out = tmp_path / "built" / "ska-open"
    with pytest.raises(DataError) as caught:
        build_open(archipelago.write(tmp_path / "source", files), out)
    assert words in str(caught.value)
    assert not out.parent.exists()


def test_a_table_instance_without_a_program_is_built_but_gets_no_near_misses(tmp_path: Path) -> None:
    files = archipelago.lines()
    record = files["table"][0] | {"program": None}
    build_open(archipelago.write(tmp_path / "source", {"table": [record]}), tmp_path / "out", ["noise_table_4k"])
    [row] = DatasetFolder(tmp_path / "out").rows("noise_table_4k", "test")
    near_misses = range(len(record["sk_units"]), 2 * len(record["sk_units"]))
    assert not set(row["sk_units"]) & set(near_misses)


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"uid": \n')
    with pytest.raises(DataError, match=r"a\.jsonl:1 is not JSON"):
        build_open(tmp_path, tmp_path / "out")


def test_unknown_configs_and_missing_sources_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'noise_kg_4k'"):
        build_open(source, tmp_path / "out", ["noise_kg_4kk"])
    with pytest.raises(UsageError, match="--source"):
        build_open(None, tmp_path / "out")
    with pytest.raises(UsageError, match="--source"):
        build_official(None, tmp_path / "out")
    only_table = archipelago.write(tmp_path / "one", {"table": archipelago.lines()["table"]})
    with pytest.raises(UsageError, match="no kg instances"):
        build_open(only_table, tmp_path / "out", ["noise_kg_4k"])


def test_licences_that_are_not_stated_are_named_in_the_card(tmp_path: Path) -> None:
    files = archipelago.lines()
    for record in files["graph"]:
        record["provenance"] = {"dataset": "Found", "licence": "none stated"}
    build_open(archipelago.write(tmp_path / "source", files), tmp_path / "out", ["noise_kg_1k"])
    assert "**Not to be published**: Found states no licence" in (tmp_path / "out" / "README.md").read_text()
    assert DatasetFolder(tmp_path / "out").rows("instances_kg", "test")[0]["licence"] == "none stated"


def test_a_hugging_face_tokenizer_measures_budgets_too(source: Path, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    (tmp_path / "model").mkdir()
    words.save(str(tmp_path / "model" / "tokenizer.json"))
    count = tokenizer(f"hf:{tmp_path / 'model'}")
    build("ska-open", read(source), tmp_path / "out", ["noise_table_1k"], count)
    folder = DatasetFolder(tmp_path / "out")
    pool = Pool.from_rows(folder.rows("pool_table", "full"))
    instances = {row["id"]: Instance.from_row(row) for row in folder.rows("instances_table", "test")}
    for row in folder.rows("noise_table_1k", "test"):
        context = Renderer(instances[row["instance_id"]], pool).context(row["sk_units"], [])
        assert count.count(context.all_text) == row["kb_tokens"] <= 1024 and row["tokenizer"].startswith("hf:model@")


def test_the_shipped_mini_dataset_is_what_its_source_builds(source: Path, tmp_path: Path) -> None:
    from kbbench_hf.benchmarks import shipped_dataset
    from kbbench_hf.benchmarks.ska_bench.benchmark import MINI

    build("mini-ska", read(source), tmp_path / "mini-ska", MINI.data.configs, demo=False)
    assert DatasetFolder(tmp_path / "mini-ska").revision == shipped_dataset("mini-ska").revision
    found = DatasetFolder(tmp_path / "mini-ska").configs()
    assert len(found) == 40 and {split for splits in found.values() for split in splits} == {"test", "full"}
