"""Tokens a second of a local model, journal and all, against plain `model.generate` on the same batches.

    OMP_NUM_THREADS=1 python benchmarks_speed/local_generation.py [--model MODEL] [--prompts 64] [--new-tokens 16]
    python benchmarks_speed/local_generation.py --shape llama-8b --prompts 256 --new-tokens 64 --batches 8,32,128

Without a model, an untrained one of a shape is made; its answers have all the full length, so both do the same work.
The shapes of one billion parameters and more are for a GPU (bfloat16).
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
SHAPES = {  # hidden size, feed-forward size, layers, heads, key-value heads, vocabulary (0: the 257 tokens of bytes)
    "tiny": (128, 256, 2, 4, 4, 0),
    "llama-1b": (2048, 8192, 16, 32, 8, 128256),  # Llama-3.2-1B's config.json
    "qwen-1.5b": (1536, 8960, 28, 12, 2, 151936),  # Qwen2.5-1.5B's config.json
    "llama-8b": (4096, 14336, 32, 32, 8, 128256),  # Llama-3.1-8B's config.json
}


def untrained(folder: Path, shape: str = "tiny") -> str:
    """Save a random Llama model of a shape with a tokenizer of bytes, and return its path."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fast = Tokenizer(models.BPE({letter: place for place, letter in enumerate([*alphabet, "<end>"])}, []))
    fast.pre_tokenizer, fast.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    torch.manual_seed(0)
    hidden, feed_forward, layers, heads, key_value_heads, vocabulary = SHAPES[shape]
    config = LlamaConfig(
        vocab_size=vocabulary or len(alphabet) + 1,
        hidden_size=hidden,
        intermediate_size=feed_forward,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        eos_token_id=None,
        bos_token_id=None,
    )
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = LlamaForCausalLM(config)
    (model if shape == "tiny" else model.to(torch.bfloat16)).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="<end>").save_pretrained(folder)  # noqa: S106
    return str(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument(
        "--shape", choices=SHAPES, default="tiny", help="Shape of the model that is made without --model."
    )
    parser.add_argument("--batches", type=lambda text: [*map(int, text.split(","))], default=BATCHES)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--new-tokens", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        model = CausalLM(options.model or untrained(Path(place) / "model", options.shape))
        texts = {i: f"Sentence number {i:04} is captained by Ines Calder." for i in range(options.prompts)}
        prompts = {i: Prompt([{"role": "user", "content": text}], options.new_tokens) for i, text in texts.items()}

        def journalled(batch: int) -> int:
            model.batch_size = model._size = batch
            with tempfile.TemporaryDirectory() as folder:
                sampling = Sampling(max_tokens=options.new_tokens)
                return generate(prompts, model, Path(folder), sampling=sampling, show=False).summary.completion_tokens

        def plain(batch: int) -> int:
            rows: list[Any] = [model._prompt_text(prompt.messages) for prompt in prompts.values()]
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

        plain(options.batches[0])  # the first call compiles and allocates
        print(model.name, model._model.device, model.identity["dtype"], f"{model._model.num_parameters():,} parameters")
        print(f"{'batch':>5}{'journalled tok/s':>18}{'model.generate tok/s':>22}{'ratio':>8}  (target: at least 0.95)")
        for batch in options.batches:
            rates = [0.0, 0.0]
            for _ in range(3):
                for task_key_of, answer in enumerate((journalled, plain)):
                    started = time.perf_counter()
                    tokens = answer(batch)
                    rates[task_key_of] = max(rates[task_key_of], tokens / (time.perf_counter() - started))
            print(f"{batch:5}{rates[0]:18,.0f}{rates[1]:22,.0f}{rates[0] / rates[1]:8.2f}")


if __name__ == "__main__":
    main()
