"""Scores during training are the scores of the command, and the examples run."""

import json
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sentence_transformers")

import kbbench_hf
from kbbench_hf.benchmarks.base import PromptOptions
from kbbench_hf.errors import UsageError
from kbbench_hf.protocols import Message, ProcessGroup
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.training import GenerationScores, RetrievalScores, scores
from tests.tiny_chat_model import tiny_chat_model
from tests.tiny_encoder import tiny_encoder

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def run(in_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Run an example and return the lines of its evaluations."""

    def call(name: str, *arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith("step")]

    return call


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained encoder that knows the words of mini-stark."""
    nodes, queries = kbbench_hf.load("mini-stark/nodes", split="full"), kbbench_hf.load("mini-stark", split="test")
    return tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny", [*nodes["text"], *queries["query"]])


@pytest.mark.filterwarnings("ignore")  # of trainers and tokenizers, on a model this small
def test_the_extractor_learns_and_every_evaluation_logs_its_figures(
    tmp_path: Path, run: Callable[..., list[str]]
) -> None:
    benchmark, examples, *_ = load_examples("mini-text2kg")
    prompts = [
        benchmark.asking.prompts["current"](row, examples, PromptOptions(shots=0, demonstrations="none"))
        for row in examples.rows[:16]
    ]
    texts = [message["content"] for prompt in prompts for message in prompt.messages]
    gold = [
        {"subject": triple["sub"], "relation": triple["rel"], "object": triple["obj"]}
        for row in examples.rows[:16]
        for triple in row["triples"]
    ]
    model = tiny_chat_model(tmp_path, [*texts, *(json.dumps({"triples": [triple]}) for triple in gold)])
    lines = run("train_extractor.py", str(model))
    figures = [float(line.split("F1 ")[1].split(",")[0]) for line in lines]
    assert len(figures) == 3 and figures[-1] > figures[0]


@pytest.mark.filterwarnings("ignore")
def test_the_retriever_is_ranked_before_and_while_it_learns(encoder: Path, run: Callable[..., list[str]]) -> None:
    lines = run("train_retriever.py", str(encoder))
    figures = [float(line.split("mrr ")[1]) for line in lines]
    assert len(figures) == 3 and figures[-1] > figures[0]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_the_retriever_starts_from_minilm_if_no_model_is_named(run: Callable[..., list[str]]) -> None:
    assert len(run("train_retriever.py")) == 3


def test_the_evaluator_gives_the_figures_of_kbbench_score(encoder: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    from kbbench_hf.runners.retrieval_run import rank
    from kbbench_hf.scoring.score import score

    rank(load_examples("mini-stark"), f"dense:{encoder}@text=named", tmp_path, top_k=100, show=False)
    ours = RetrievalScores("mini-stark", split="test")(SentenceTransformer(str(encoder), device="cpu"))
    scored = score(tmp_path / "predictions.jsonl", "mini-stark").scores
    assert ours["mini-stark_test_mrr"] == pytest.approx(scored["mrr"].value, abs=1e-9)
    assert ours["mini-stark_test_hit_at_1"] == scored["hit_at_1"].value


def test_two_evaluators_keep_their_values_apart(tmp_path: Path) -> None:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.evaluation import SequentialEvaluator
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = SentenceTransformer(str(tiny_encoder(tmp_path / "tiny", ["treacle dish festival town made"])), device="cpu")
    first = RetrievalScores("mini-stark", split="test", limit=4)
    second = RetrievalScores("mini-stark", split="test", limit=8, name="eight")
    assert (first.primary_metric, second.primary_metric) == ("mini-stark_test_mrr", "eight_mrr")
    values = {**first(model), **second(model)}
    assert len(values) == 2 * len(first(model)) and {type(value) for value in values.values()} == {float}
    both = SequentialEvaluator([first, second])
    assert both(model) == {**values, "sequential_score": values["eight_mrr"]}
    settings = {"eval_strategy": "steps", "eval_steps": 1, "max_steps": 1, "use_cpu": True, "save_strategy": "no"}
    trainer = SentenceTransformerTrainer(
        model,
        SentenceTransformerTrainingArguments(str(tmp_path / "out"), report_to=[], disable_tqdm=True, **settings),
        train_dataset=Dataset.from_dict({"anchor": ["dish", "town"], "positive": ["treacle", "festival"]}),
        loss=MultipleNegativesRankingLoss(model),
        evaluator=[first, second],
    )
    trainer.train()
    [logged] = [entry for entry in trainer.state.log_history if "eval_eight_mrr" in entry]
    assert {f"eval_{key}" for key in values} <= logged.keys()


def test_the_primary_metric_has_a_value_where_no_answer_is_in_the_rankings() -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import BoW

    evaluator = RetrievalScores("mini-stark", split="test", limit=2, top_k=3)
    values = evaluator(SentenceTransformer(modules=[BoW(["zzz"])], device="cpu"))
    assert values["mini-stark_test_hit_at_3"] == 0 and 0 < values[evaluator.primary_metric] < 0.01


def test_generated_answers_are_logged_under_the_config_and_split_that_are_named_or_the_given_name() -> None:
    assert GenerationScores(None, "mini-text2kg", split="test", limit=1).name == "mini-text2kg_test"
    assert GenerationScores(None, "mini-text2kg", split="test", limit=1, name="mine").name == "mine"


def test_no_other_split_than_validation_is_looked_at_unless_it_is_named() -> None:
    with pytest.raises(UsageError, match="no split 'validation'"):
        RetrievalScores("mini-stark")
    with pytest.raises(UsageError, match="no split 'validation'"):
        GenerationScores(None, "mini-text2kg")


def test_several_processes_answer_a_share_each_and_log_the_figures_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[int] = []

    class Scores(GenerationScores):
        def _generate(self, prompts: Sequence[Sequence[Message]]) -> list[str]:
            answered.append(len(prompts))
            return [f'[["a", "b", "{prompt[-1]["content"][-20:]}"]]' for prompt in prompts]

    def figures(kind: str) -> dict[str, float]:
        trainer = SimpleNamespace(accelerator=SimpleNamespace(distributed_type=kind))
        return Scores(trainer, "mini-text2kg", split="test", limit=7).figures()

    alone = figures("NO")
    parts: list[list[str]] = []
    for rank in range(2):
        share = ProcessGroup(rank, 2, lambda part: (parts.append(part), [part])[1])
        monkeypatch.setattr(scores, "group", lambda share=share: share)
        with pytest.raises(ValueError, match="is longer"):  # what the other one answered is not here
            figures("MULTI_CPU")
    monkeypatch.setattr(scores, "group", lambda: ProcessGroup(0, 2, lambda part: parts))
    assert figures("MULTI_CPU") == alone
    assert answered == [7, 3, 4, 3]


def test_the_other_kind_of_benchmark_is_refused_with_what_to_use() -> None:
    with pytest.raises(UsageError, match="Use RetrievalScores"):
        GenerationScores(None, "mini-stark")
    with pytest.raises(UsageError, match="Use GenerationScores"):
        RetrievalScores("mini-text2kg")
