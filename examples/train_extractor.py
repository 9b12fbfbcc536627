"""Fine-tune a language model on sentences and their triples, and see its F1 on mini-text2kg while it learns.

    python examples/train_extractor.py

A Llama of two layers made on the spot, on a CPU, in under a minute; put a model of your own in its place.
"""

import json
import tempfile

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Trainer, TrainingArguments

from kbbench_hf.benchmarks.base import PromptOptions
from kbbench_hf.scoring.asked import load_examples
from kbbench_hf.training import GenerationScores

N = 16
OPTIONS = PromptOptions(shots=0, demonstrations="none")
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def main() -> None:
    """Train and print what was logged."""
    torch.manual_seed(0)
    benchmark, examples, *_ = load_examples("mini-text2kg")
    prompt = benchmark.asking.prompts["current"]
    asked = [prompt(row, examples, OPTIONS).messages for row in examples.rows[:N]]
    answers = [
        json.dumps(
            {"triples": [{"subject": t["sub"], "relation": t["rel"], "object": t["obj"]} for t in row["triples"]]}
        )
        for row in examples.rows[:N]
    ]
    tokenizer = make_tokenizer([message["content"] for messages in asked for message in messages] + answers)
    rows = []
    for messages, answer in zip(asked, answers, strict=True):
        before = tokenizer(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))[
            "input_ids"
        ]
        after = tokenizer(f"{answer}<end>")["input_ids"]
        rows.append({"input_ids": before + after, "labels": [-100] * len(before) + after})
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=1024,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )

    def collate(batch: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        longest = max(len(row["input_ids"]) for row in batch)
        padded = {"input_ids": tokenizer.pad_token_id, "labels": -100}
        return {
            name: torch.tensor([row[name] + [pad] * (longest - len(row[name])) for row in batch])
            for name, pad in padded.items()
        }

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model,
            TrainingArguments(
                folder,
                per_device_train_batch_size=N,
                max_steps=36,
                learning_rate=4e-3,
                lr_scheduler_type="constant",
                eval_strategy="steps",
                eval_steps=12,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                remove_unused_columns=False,
            ),
            train_dataset=rows,
            eval_dataset=rows[:2],
            processing_class=tokenizer,
            data_collator=collate,
        )
        trainer.add_callback(
            GenerationScores(trainer, "mini-text2kg", split="test", limit=8, options=OPTIONS, max_tokens=120)
        )
        trainer.train()
    for entry in trainer.state.log_history:
        if "eval_mini-text2kg_f1" in entry:
            f1, unparsed = entry["eval_mini-text2kg_f1"], entry["eval_mini-text2kg_unparsed"]
            print(f"step {entry['step']:3}: F1 {f1:.3f}, unparsed {unparsed:.0%}")


def make_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer that knows these texts well."""
    fast = Tokenizer(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    fast.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<end>", "<pad>"]
    fast.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=1500, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    special_tokens = {"eos_token": "<end>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=fast,
        **special_tokens,
        chat_template=TEMPLATE,
    )


if __name__ == "__main__":
    main()
