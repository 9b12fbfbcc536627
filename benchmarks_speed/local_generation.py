"""Tokens a second of a local model, journal and all, against plain `model.generate` on the same batches.

    OMP_NUM_THREADS=1 python benchmarks_speed/local_generation.py [--model MODEL] [--prompts 64] [--new-tokens 16]

Without a model, a small untrained one is made; its answers have all the full length, so both do the same work.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.llm.causal_lm import CausalLM
from kbbench_hf.runners.generate import generate
from kbbench_hf.runners.jobs import Sampling

BATCHES = (1, 8, 32)


def untrained(folder: Path) -> str:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fast = Tokenizer(models.BPE({letter: place for place, letter in enumerate([*alphabet, "<end>"])}, []))
    fast.pre_tokenizer, fast.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(alphabet) + 1,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        eos_token_id=None,
        bos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="<end>").save_pretrained(folder)  # noqa: S106
    return str(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--new-tokens", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        model = CausalLM(options.model or untrained(Path(place) / "model"))
        texts = {i: f"Sentence number {i:04} is captained by Ines Calder." for i in range(options.prompts)}
        prompts = {i: Prompt([{"role": "user", "content": text}], options.new_tokens) for i, text in texts.items()}

        def journalled(batch: int) -> int:
            model.batch_size = model._size = batch
            with tempfile.TemporaryDirectory() as folder:
                sampling = Sampling(max_tokens=options.new_tokens)
                return generate(prompts, model, Path(folder), sampling=sampling, show=False).summary.completion_tokens

        def plain(batch: int) -> int:
            rows: list[Any] = [model._text(prompt.messages) for prompt in prompts.values()]
            tokens = 0
            for start in range(0, len(rows), batch):
                inputs = model._tokenizer(rows[start : start + batch], padding=True, return_tensors="pt")
                inputs = inputs.to(model._model.device)
                output = model._model.generate(
                    input_ids=inputs["input_ids"],
                    attention_mask=inputs["attention_mask"],
                    max_new_tokens=options.new_tokens,
                    do_sample=False,
                    pad_token_id=model._tokenizer.pad_token_id,
                )
                tokens += output[:, inputs["input_ids"].shape[1] :].numel()
            return tokens

        plain(BATCHES[0])  # the first call compiles and allocates
        print(f"{'batch':>5}{'journalled tok/s':>18}{'model.generate tok/s':>22}{'ratio':>8}  (target: at least 0.95)")
        for batch in BATCHES:
            rates = [0.0, 0.0]
            for _ in range(3):
                for task_key_of, answer in enumerate((journalled, plain)):
                    started = time.perf_counter()
                    tokens = answer(batch)
                    rates[task_key_of] = max(rates[task_key_of], tokens / (time.perf_counter() - started))
            print(f"{batch:5}{rates[0]:18,.0f}{rates[1]:22,.0f}{rates[0] / rates[1]:8.2f}")


if __name__ == "__main__":
    main()
