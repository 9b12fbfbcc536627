"""A local transformers model, in one process or a group of them under Accelerate."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbbench_hf.errors import UsageError, missing_extra
from kbbench_hf.protocols import Completion, Message

Parameters = Mapping[str, Any]
"""Those of a chat request: max_tokens, temperature, top_p, stop."""


class CausalLM:
    """A causal language model from the Hub or a folder; `name` carries its revision.

    One process takes one device, or spreads a model over all visible GPUs; in a group (torchrun, accelerate launch)
    each process holds a copy on its own device. Weights keep their own type on a GPU and are float32 on a CPU.
    `chat_template` None uses the tokenizer's template where it has one. `processes`, if given, is how many the caller
    means to run.

    Raises:
        UsageError: there is no such model, the group has another number of processes than was asked for, or
            transformers is not installed.
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        *,
        batch_size: int = 16,
        chat_template: bool | None = None,
        processes: int | None = None,
    ) -> None:
        try:
            import torch
            from accelerate import PartialState
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            raise missing_extra(str(error.name), "models") from None
        self._state = PartialState(cpu=not torch.cuda.is_available())
        self.rank, self.n_processes = self._state.process_index, self._state.num_processes
        if processes is not None and processes != self.n_processes:
            raise UsageError(
                f"{self.n_processes} process(es) are running, but {processes} were asked for. Start the group with "
                f"'torchrun --nproc_per_node {processes}'; 'accelerate launch --cpu' starts a single process."
            )
        self.batch_size = self._size = batch_size
        on_gpu = torch.cuda.is_available()
        spread = on_gpu and self.n_processes == 1 and torch.cuda.device_count() > 1
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(model, revision=revision, padding_side="left")
            self._model = AutoModelForCausalLM.from_pretrained(
                model,
                revision=revision,
                dtype="auto" if on_gpu else torch.float32,
                device_map="auto" if spread else {"": self._state.device},
            ).eval()
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{model!r} cannot be loaded as a causal language model: {str(error).splitlines()[0]} "
                "Give a folder that save_pretrained wrote, or a name on the Hub."
            ) from error
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token or self._tokenizer.unk_token
        self._chat = bool(self._tokenizer.chat_template) if chat_template is None else chat_template
        folder = Path(model)
        commit = getattr(self._model.config, "_commit_hash", None)
        self.revision = _digest(folder) if folder.is_dir() else str(commit or revision or "unknown")
        self.name = f"{folder.name if folder.is_dir() else model}@{self.revision}{'' if self._chat else ' plain'}"

    def generate(
        self,
        prompts: Sequence[Sequence[Message]],
        max_tokens: int,
        *,
        parameters: Sequence[Parameters] | None = None,
        seed: int = 0,
    ) -> list[Completion]:
        """Return one completion per chat prompt, in order; greedy where no `parameters` are given.

        `parameters` are those of a chat request: max_tokens, temperature, top_p, stop; the prompts are then one batch.
        Temperature and top_p are taken from the first. Out of memory, the batch is halved until it fits, and so are
        later ones. A prompt that does not fit the model together with its answer has the error "prompt_too_long".
        """
        if parameters is not None:
            return self._batch(prompts, parameters, seed)
        completions: list[Completion] = []
        for start in range(0, len(prompts), self.batch_size):
            batch = prompts[start : start + self.batch_size]
            completions += self._batch(batch, [{"max_tokens": max_tokens}] * len(batch), seed)
        return completions

    def _batch(
        self, prompts: Sequence[Sequence[Message]], parameters: Sequence[Parameters], seed: int
    ) -> list[Completion]:
        from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

        outcomes: list[Completion] = []
        while len(outcomes) < len(prompts):
            start, end = len(outcomes), min(len(outcomes) + self._size, len(prompts))
            try:
                outcomes += self._complete(prompts[start:end], parameters[start:end], seed + start)
            except Exception as error:
                if not should_reduce_batch_size(error) or end - start == 1:
                    raise
                self._size = (end - start + 1) // 2
                clear_device_cache(garbage_collection=True)
        return outcomes

    def wait_for_everyone(self) -> None:
        """Wait until every process of the group is here."""
        self._state.wait_for_everyone()

    def _complete(
        self, prompts: Sequence[Sequence[Message]], parameters: Sequence[Parameters], seed: int
    ) -> list[Completion]:
        import torch

        started = time.perf_counter()
        texts = [self._text(messages) for messages in prompts]
        lengths = [len(ids) for ids in self._tokenizer(texts, add_special_tokens=not self._chat)["input_ids"]]
        longest = getattr(self._model.config, "max_position_embeddings", None) or 2**62
        fits = [length + limits["max_tokens"] <= longest for length, limits in zip(lengths, parameters, strict=True)]
        rows: list[list[int]] = []
        if any(fits):
            inputs = self._tokenizer(
                [text for text, fit in zip(texts, fits, strict=True) if fit],
                add_special_tokens=not self._chat,
                padding=True,
                return_tensors="pt",
            ).to(self._model.device)
            torch.manual_seed(seed)
            with torch.inference_mode():
                output = self._model.generate(
                    input_ids=inputs["input_ids"],
                    attention_mask=inputs["attention_mask"],
                    generation_config=self._generation(parameters, fits),
                )
            rows = output[:, inputs["input_ids"].shape[1] :].tolist()
        seconds = time.perf_counter() - started
        answered = iter(rows)
        return [
            self._completion(next(answered), limits, length, seconds)
            if fit
            else Completion("", "", length, 0, seconds, "prompt_too_long")
            for limits, length, fit in zip(parameters, lengths, fits, strict=True)
        ]

    def _generation(self, parameters: Sequence[Parameters], fits: Sequence[bool]) -> object:
        from transformers import GenerationConfig

        temperature = parameters[0].get("temperature", 0.0)
        sampled = {"temperature": temperature, "top_p": parameters[0].get("top_p", 1.0)} if temperature > 0 else {}
        return GenerationConfig(
            max_new_tokens=max(limits["max_tokens"] for limits, fit in zip(parameters, fits, strict=True) if fit),
            do_sample=temperature > 0,
            pad_token_id=self._tokenizer.pad_token_id,
            eos_token_id=self._stops(),
            **sampled,
        )

    def _stops(self) -> list[int]:
        """The ids that end an answer: the generation config's, which for chat models has the end of a turn."""
        ends = self._model.generation_config.eos_token_id
        if ends is None:
            ends = self._tokenizer.eos_token_id
        return [] if ends is None else ends if isinstance(ends, list) else [ends]

    def _completion(self, row: list[int], limits: Parameters, length: int, seconds: float) -> Completion:
        stops = set(self._stops())
        end = next((place for place, token in enumerate(row) if token in stops), len(row))
        ids = row[: min(end, limits["max_tokens"])]
        text = self._tokenizer.decode(ids, skip_special_tokens=True)
        cuts = [place for stop in limits.get("stop", ()) if (place := text.find(stop)) >= 0]
        return Completion(
            text=text[: min(cuts)] if cuts else text,
            finish_reason="stop" if cuts or end < min(len(row), limits["max_tokens"]) else "length",
            prompt_tokens=length,
            completion_tokens=len(ids),
            latency_s=seconds,
        )

    def _text(self, messages: Sequence[Message]) -> str:
        if self._chat:
            text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            return text
        return "\n\n".join(message["content"] for message in messages)


def _digest(folder: Path) -> str:
    """Return a digest of a model folder's files with all of their bytes: weights saved again under one name differ."""
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix in (".json", ".safetensors", ".bin", ".model", ".jinja", ".txt"):
            with file.open("rb") as source:
                digest.update(file.name.encode() + hashlib.file_digest(source, "sha256").digest())
    return digest.hexdigest()[:40]
