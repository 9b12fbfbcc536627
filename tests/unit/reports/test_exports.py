"""What the Hub gets of a result: valid in its formats, read by the framework that it names, and of one mind."""

import gc
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from kbbench_hf.benchmarks import benchmark, benchmark_names, find_dataset
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.reports import exports
from kbbench_hf.reports.exports import eval_results_yaml, eval_yaml, hub_tasks, publications
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.scoring.score import score

KNOWN_TO_THE_HUB = {"inspect-ai", "mteb"}
"""Of the names in packages/tasks/src/eval.ts of huggingface.js."""


@pytest.mark.parametrize("config", ["order_kg_prefix", "noise_kg_1k"])
def test_results_and_benchmark_agree_on_the_hub(config: str) -> None:
    """A result of the Hub names a task that `eval.yaml` lists for its dataset."""
    place = f"mini-ska/{config}"
    rows = [{"id": row["id"], "answers": ["no"]} for row in load_examples(place).examples.rows]
    (entry,) = parse_eval_result_entries(yaml.safe_load(eval_results_yaml(score(rows, place).to_dict(), "2026-01-02")))
    assert entry.task_id in {task["id"] for task in yaml.safe_load(eval_yaml("mini-ska"))["tasks"]}
    assert entry.task_id == hub_tasks(benchmark("mini-ska"))[config]
    assert re.search(r"exact_match 0\.0000, .*mode typed, split test, n \d+, predictions sha256", str(entry.notes))


def test_a_result_of_a_config_without_a_task_on_the_hub_is_refused() -> None:
    rows = [{"id": row["id"], "answers": ["no"]} for row in load_examples("mini-ska/rejection_kg").examples.rows]
    with pytest.raises(UsageError, match=r"rejection_kg .*expected one of noise_kg_1k, .*--as eee"):
        eval_results_yaml(score(rows, "mini-ska/rejection_kg").to_dict(), "2026-01-02")


def test_benchmarks_have_few_tasks_on_the_hub_and_unique_ids() -> None:
    for name in benchmark_names():
        tasks = hub_tasks(benchmark(name))
        assert 1 <= len(tasks) <= 6 and len(set(tasks.values())) == len(tasks), name
    of_retrieval = yaml.safe_load(eval_yaml("mini-stark"))
    assert list(of_retrieval) == ["name", "description", "evaluation_framework", "tasks"]
    assert of_retrieval["evaluation_framework"] == "mteb"
    assert of_retrieval["tasks"] == [{"id": "hit_at_1", "config": "queries", "split": "test"}]


@pytest.mark.parametrize("name", ["mini-text2kg", "mini-ska", "mini-genres"])
def test_inspect_ai_reads_eval_yaml_and_runs_its_tasks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspect_ai = pytest.importorskip("inspect_ai")
    from inspect_ai._eval.task import hf
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    (tmp_path / "eval.yaml").write_text(eval_yaml(name), encoding="utf-8")
    loaded: list[tuple[str, str]] = []

    def of_folder(path: str, name: str, split: str, revision: str, **how: Any) -> Any:
        loaded.append((path, name))
        here = str(find_dataset(path.removeprefix("kbbench/")).path)
        return hf_dataset(here, name=name, split=split, cached=False, **how)

    hf_dataset = hf.hf_dataset
    monkeypatch.setattr(hf, "hf_dataset", of_folder)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda **_: str(tmp_path / "eval.yaml"))
    tasks = hf.task_create_from_hf(f"hf/kbbench/{name}")
    assert len(tasks) == len(hub_tasks(benchmark(name)))
    subsets = ["kg", "kg", "kg_text", "kg"]
    assert loaded == [
        (f"kbbench/{name}", each)
        for each in ([f"instances_{subset}" for subset in subsets] if name == "mini-ska" else ["sentences"])
    ]
    assert yaml.safe_load(eval_yaml(name))["evaluation_framework"] in KNOWN_TO_THE_HUB
    output = ModelOutput.from_content("mock", "Ostra")
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else a tokenizer is downloaded
    model = get_model("mockllm/model", custom_outputs=lambda *_: output, memoize=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses what is deprecated, and leaves streams to the garbage collector
        (log,) = inspect_ai.eval(tasks[:1], model=model, limit=2, display="none", log_dir=str(tmp_path / "logs"))
        gc.collect()
    assert log.status == "success", log.error.traceback
    assert log.results.scores[0].name == "f1"
    rows = load_examples(name).examples.rows
    question = next(rows[0][each] for each in ("question", "sentence", "text") if each in rows[0])
    assert question in {each.input for each in log.samples}


def test_the_board_is_a_space_that_reads_a_dataset_of_results() -> None:
    results, space = publications("kbbench/leaderboard", "org", released=True)
    assert (results.repo_id, results.repo_type, results.keeps_others) == ("org/results", "dataset", True)
    assert (space.repo_id, space.repo_type, space.keeps_others) == ("org/leaderboard", "space", False)
    assert space.variables == {"KBBENCH_RESULTS": "org/results"} and space.secrets == ("HF_TOKEN",)
    assert set(space.files) == {"README.md", "app.py", "requirements.txt"} and set(results.files) == {"README.md"}
    assert re.fullmatch(rb"kbbench-hf\[space\]==\S+\n", space.files["requirements.txt"])  # type: ignore[arg-type]
    assert not (results.private or space.private)


def test_a_metric_is_a_space_with_its_module_and_a_page() -> None:
    (space,) = publications("answer_f1", "org", released=True, private=True)
    assert (space.repo_id, space.repo_type, space.private) == ("org/answer_f1", "space", True)
    assert set(space.files) == {"README.md", "answer_f1.py", "app.py", "example.json", "requirements.txt"}
    assert b'main("answer_f1")' in space.files["app.py"]  # type: ignore[operator]
    card = yaml.safe_load(space.files["README.md"].split(b"---")[1])  # type: ignore[union-attr]
    assert (card["sdk"], card["app_file"]) == ("gradio", "app.py") and card["title"]


def test_a_dataset_is_published_with_its_card_and_its_tasks_and_no_hidden_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mini"
    shutil.copytree(find_dataset("mini-genres").path, folder)
    (folder / ".cache").mkdir()
    (folder / ".cache" / "store").touch()
    monkeypatch.setattr(exports, "find_dataset", lambda name: DatasetFolder(folder))
    (dataset,) = publications("mini-genres", "org")
    assert (dataset.repo_id, dataset.repo_type, dataset.private) == ("org/mini-genres", "dataset", False)
    on_disk = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} - {".cache/store"}
    assert set(dataset.files) == on_disk | {"eval.yaml"} and "README.md" in on_disk
    monkeypatch.setattr(DatasetFolder, "is_private", True)
    with pytest.raises(UsageError, match="must stay private"):
        publications("mini-genres", "org")
    assert publications("mini-genres", "org", private=True)[0].private
    (folder / "README.md").unlink()
    monkeypatch.setattr(DatasetFolder, "verify", lambda self: None)
    with pytest.raises(UsageError, match=r"has no README\.md"):
        publications("mini-genres", "org", private=True)


def test_what_cannot_be_published_is_refused() -> None:
    for target in ("leaderboard", "answer_f1"):
        with pytest.raises(UsageError, match="cannot fetch its own wheel"):
            publications(target, "org", private=True)
    with pytest.raises(UsageError, match="target 'mini-skas'"):
        publications("mini-skas", "org")
