"""Cards: the Hub takes their metadata, whoever copies their code gets data, and the papers are cited as everywhere."""

import json
import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import datasets
import mlcroissant
import pytest
import yaml
from datasets.utils.metadata import known_task_ids
from huggingface_hub import DatasetCard, SpaceCard
from packaging.licenses import canonicalize_license_expression

import kbbench_hf.benchmarks
from kbbench_hf.benchmarks import benchmark, benchmark_names, shipped_dataset
from kbbench_hf.benchmarks.audits import refuse_without_canary
from kbbench_hf.files.datasets import DatasetFolder, card_version
from kbbench_hf.reports.exports import evaluate_modules, publications
from tests.contract.croissant import MAX_CONFIGS, croissant

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = Path(kbbench_hf.benchmarks.__file__).parent
CARD_FILES = sorted((BENCHMARKS.parent / "building").glob("*/cards/*.md"))
RELEASED = {card.stem: card for card in CARD_FILES if card.stem != "private"}  # a private split is not published
MINIS = {folder.name: folder for folder in sorted((ROOT / "dataset_scripts").glob("mini-*"))}
CARDS = {**RELEASED, **{name: folder / "README.md" for name, folder in MINIS.items()}}
STAND_INS = {"stark": "mini-stark", "text2kg": "mini-text2kg", "ska": "mini-ska"}
"""What has the configs and splits that a released dataset's snippet names, by the first word of its name."""


def shipped(name: str) -> DatasetFolder:
    folder = shipped_dataset(name)
    assert folder
    return folder


def known(resource: str) -> set[str]:
    """The values that the library knows: the Hub's own lists."""
    return set(json.loads((files("datasets.utils.resources") / f"{resource}.json").read_text(encoding="utf-8")))


def check_licence(data: Any) -> None:
    for licence in [data.license] if isinstance(data.license, str) else data.license:
        if licence == "other":
            assert re.fullmatch(r"[a-z0-9.-]+", data.license_name) and data.license_link.startswith("https://")
        else:
            assert canonicalize_license_expression(licence).lower() == licence


def bibtex(card: str) -> str:
    return "\n".join(re.findall(r"```bibtex\n(.*?)```", card, re.DOTALL))


def test_every_dataset_has_a_card_and_its_script_shows_that_card() -> None:
    assert set(CARDS) == set(benchmark_names()) == {each.name for each in (ROOT / "dataset_scripts").iterdir()}
    assert all((ROOT / "dataset_scripts" / name / "README.md").samefile(card) for name, card in CARDS.items())


@pytest.mark.parametrize("name", CARDS)
def test_the_hub_takes_a_datasets_metadata(name: str) -> None:
    data = DatasetCard.load(CARDS[name], ignore_metadata_errors=False).data
    check_licence(data)
    assert data.pretty_name
    assert data.language and set(data.language) <= known("languages")
    assert data.task_categories and set(data.task_categories) <= set(known_task_ids)
    assert data.tags and all(re.fullmatch(r"[a-z-]+|arxiv:\d{4}\.\d{5}", tag) for tag in data.tags)
    assert any(tag.startswith("arxiv:") for tag in data.tags), "the Hub links a dataset with its paper by this tag"


@pytest.mark.parametrize("name", MINIS)
def test_a_built_card_adds_what_only_the_data_say(name: str) -> None:
    folder = shipped(name)
    data = DatasetCard.load(folder.path / "README.md", ignore_metadata_errors=False).data
    rows = sum(facts["rows"] for facts in folder.manifest["files"].values())
    assert data.size_categories == ["n<1K" if rows < 1000 else "1K<n<10K"]
    assert {each["config_name"] for each in data.configs} == set(folder.configs())
    assert {each["version"] for each in data.configs} == {card_version(folder.revision)}
    infos = data.dataset_info if isinstance(data.dataset_info, list) else [data.dataset_info]
    sizes = {(each["config_name"], split["name"]): split["num_examples"] for each in infos for split in each["splits"]}
    files = folder.manifest["files"].items()
    assert sizes == {tuple(file[5:-8].split("/")): facts["rows"] for file, facts in files}
    given = yaml.safe_load(CARDS[name].read_text(encoding="utf-8").split("---\n")[1])
    assert {key: data.get(key) for key in given} == given, "the card stands there as its source has it"


@pytest.mark.parametrize("name", MINIS)
def test_a_built_card_has_the_canary_of_its_dataset_which_no_text_has(name: str) -> None:
    folder = shipped(name)
    refuse_without_canary(folder)
    assert len({shipped(each).canary for each in MINIS}) == len(MINIS)
    text = (folder.path / "README.md").read_text(encoding="utf-8").split("---\n", 2)[2]
    config, (split, *_) = next(iter(folder.configs().items()))
    assert f"`{config}` {split} {folder.table(config, split).num_rows:,}" in text
    assert "License: apache-2.0." in text
    for config, splits in folder.configs().items():
        assert not any(folder.canary in json.dumps(folder.table(config, each).to_pylist()) for each in splits)


@pytest.mark.parametrize("name", CARDS)
def test_a_card_cites_its_paper_as_the_board_does(name: str) -> None:
    folder = BENCHMARKS / RELEASED[name].parents[1].name if name in RELEASED else shipped(name).path.parent
    cited = bibtex(CARDS[name].read_text(encoding="utf-8"))
    assert (folder / "citation.bib").read_text(encoding="utf-8") in cited
    assert all(" author = {" in entry for entry in cited.split("\n@")), "an entry without authors is no citation"


@pytest.mark.parametrize("name", evaluate_modules())
def test_a_metrics_card_cites_a_paper_that_is_measured_with_it(name: str) -> None:
    card = (ROOT / "metrics" / name / "README.md").read_text(encoding="utf-8")
    assert bibtex(card) in {file.read_text(encoding="utf-8") for file in BENCHMARKS.glob("*/citation.bib")}


@pytest.mark.parametrize("name", CARDS)
def test_the_code_on_a_card_loads_data(
    name: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", CARDS[name].read_text(encoding="utf-8"), re.DOTALL)
    assert any(f'load_dataset("kbbench/{name}"' in block for block in blocks)
    stand_in = name if name in MINIS else STAND_INS.get(name.partition("-")[0])
    if stand_in:
        folder = shipped(stand_in).path
    else:
        folder = tmp_path / name
        build = benchmark(name).data.build
        assert build
        build(shared / "data/genres", folder, ["cdr"])
    load = datasets.load_dataset

    def load_here(path: str, *config: str, split: str) -> datasets.Dataset:
        assert path == f"kbbench/{name}"
        return load(str(folder), *config, split=split, cache_dir=str(tmp_path / "cache"))

    monkeypatch.setattr(datasets, "load_dataset", load_here)
    for block in blocks:
        found: dict[str, Any] = {}
        exec(block, found)  # noqa: S102
        assert [len(each) > 0 for each in found.values() if isinstance(each, datasets.Dataset)]


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning")  # both of mlcroissant's making
@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("name", MINIS)
def test_the_hubs_croissant_metadata_reads_every_row(name: str, tmp_path: Path) -> None:
    folder = DatasetFolder(shutil.copytree(shipped(name).path, tmp_path / name))
    description = folder.path / "croissant.json"
    description.write_text(json.dumps(croissant(DatasetCard.load(folder.path / "README.md"))), encoding="utf-8")
    read = mlcroissant.Dataset(jsonld=description)
    assert not read.metadata.ctx.issues.errors
    assert {each.uuid for each in read.metadata.record_sets} == set(folder.configs())
    for config in list(folder.configs())[:5]:
        tables = [folder.table(config, split) for split in sorted(folder.configs()[config])]
        column = tables[0].column_names[0]
        expected = [value for table in tables for value in table[column].to_pylist()]
        values = [row[f"{config}/{column}"] for row in read.records(config)]
        assert [each.decode() if isinstance(each, bytes) else each for each in values] == expected


def test_no_dataset_has_configs_that_the_hubs_croissant_metadata_would_leave_out() -> None:
    unscored = 8  # `ska-open` has instances and a pool of each of its four subsets besides what is scored
    assert max(len(benchmark(name).data.configs) for name in benchmark_names()) + unscored <= MAX_CONFIGS


@pytest.mark.parametrize("name", evaluate_modules())
def test_the_hub_takes_a_metrics_metadata_as_a_space(name: str) -> None:
    (space,) = publications(name, "kbbench", released=True)
    card = space.files["README.md"]
    assert isinstance(card, bytes)
    data = SpaceCard(card.decode(), ignore_metadata_errors=False).data
    check_licence(data)
    assert (data.sdk, data.app_file in space.files, data.python_version) == ("gradio", True, "3.12")
    assert data.title and {"evaluate", "metric"} <= set(data.tags)
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {data.colorFrom, data.colorTo} <= colours and len(data.emoji) <= 2
