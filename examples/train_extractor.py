"""Fine-tune a language model on sentences and their triples, and score it on mini-text2kg during the training.

    python examples/train_extractor.py MODEL

MODEL is a chat model for transformers, a name on the Hub or a folder. It runs on a CPU. The model is scored on 8 of the
16 sentences that it is trained on, so the scores show that it learns, not that it is good.
"""

import json
import sys
import tempfile
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments

from kbbench_hf.benchmarks.base import PromptOptions
from kbbench_hf.scoring.eval_task import load_examples
from kbbench_hf.training import GenerationScores

N = 16
OPTIONS = PromptOptions(shots=0, demonstrations="none")
SCORED = {"split": "test", "limit": 8, "options": OPTIONS, "max_tokens": 120}
LEARNING = {"per_device_train_batch_size": N, "max_steps": 36, "learning_rate": 4e-3, "lr_scheduler_type": "constant"}
REPORTING = {"eval_strategy": "steps", "eval_steps": 12, "save_strategy": "no", "report_to": [], "disable_tqdm": True}
NAMES = {"sub": "subject", "rel": "relation", "obj": "object"}


def training_rows(tokenizer: Any) -> list[dict[str, list[int]]]:
    """Return the prompt of each sentence with the gold triples as completion, on which alone the loss is computed."""
    benchmark, examples, *_ = load_examples("mini-text2kg")
    rows = []
    for row in examples.rows[:N]:
        messages = benchmark.asking.prompts["current"](row, examples, OPTIONS).messages
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        prompt = tokenizer(text)["input_ids"]
        triples = [{NAMES[part]: triple[part] for part in NAMES} for triple in row["triples"]]
        completion = tokenizer(json.dumps({"triples": triples}) + tokenizer.eos_token)["input_ids"]
        rows.append({"input_ids": prompt + completion, "labels": [-100] * len(prompt) + completion})
    return rows


def main() -> None:
    """Train, and print the logged scores."""
    name = sys.argv[1] if sys.argv[1:] else sys.exit(__doc__)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    rows = training_rows(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        chosen = TrainingArguments(folder, use_cpu=True, **LEARNING, **REPORTING)
        data = {"train_dataset": rows, "eval_dataset": rows[:2], "data_collator": DataCollatorForSeq2Seq(tokenizer)}
        trainer = Trainer(model, chosen, processing_class=tokenizer, **data)
        trainer.add_callback(GenerationScores(trainer, "mini-text2kg", **SCORED))
        trainer.train()
    for entry in trainer.state.log_history:
        if "eval_mini-text2kg_test_f1" in entry:
            print(f"step {entry['step']:3}: F1 {entry['eval_mini-text2kg_test_f1']:.3f}")


if __name__ == "__main__":
    main()
