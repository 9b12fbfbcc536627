"""A local transformers model, in one process or a group of them under Accelerate."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbbench_hf.errors import UsageError, missing_extra
from kbbench_hf.llm.gguf_files import model_source
from kbbench_hf.llm.supported_parameters import Schema, without_system
from kbbench_hf.protocols import Completion, Message

if TYPE_CHECKING:
    from kbbench_hf.llm.constrained_decoding import SchemaDecoder

Parameters = Mapping[str, Any]
"""Those of a chat request: max_tokens, temperature, top_p, stop, and what else transformers samples by."""
SAMPLED_BY = ("temperature", "top_p", "top_k", "min_p", "typical_p")
"""What counts only where a temperature above 0 is asked for."""
SHAPED_BY = ("repetition_penalty", "no_repeat_ngram_size", "length_penalty", "encoder_repetition_penalty")
"""What shapes greedy answers too. A model's own `generation_config` sets what is not asked for, and is recorded."""
NOT_SAMPLED_BY = ("max_tokens", "stop", "seed", "tools", "tool_choice")
"""What a request says besides."""
ADAPTER = "adapter"
"""In the options of a model: the adapter to load over it, by peft."""


class CausalLM:
    """A causal language model from the Hub, a folder or a GGUF file; `name` carries its revision.

    One process takes one device, or spreads a model over all visible GPUs; in a group (torchrun, accelerate launch)
    each process holds a copy on its own device. Weights keep their own type on a GPU and are float32 on a CPU.
    `chat_template` None uses the tokenizer's template where it has one. `processes`, if given, is how many the caller
    means to run. `options` are transformers' own for loading a model (`dtype`, `quantization_config`,
    `attn_implementation`), and `adapter`; they are part of the name.

    Raises:
        UsageError: there is no such model, an option is none of it, the group has another number of processes than was
            asked for, or transformers is not installed.
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        *,
        batch_size: int = 16,
        chat_template: bool | None = None,
        processes: int | None = None,
        options: Mapping[str, Any] | None = None,
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
                f"{self.n_processes} process(es) are running, but --processes is {processes}. Start the group with "
                f"'torchrun --nproc_per_node {processes}'; 'accelerate launch --cpu' starts a single process."
            )
        self.batch_size = self._size = batch_size
        on_gpu = torch.cuda.is_available()
        spread = on_gpu and self.n_processes == 1 and torch.cuda.device_count() > 1
        loading = {
            "dtype": "auto" if on_gpu else torch.float32,
            "device_map": "auto" if spread else {"": self._state.device},
            **(options or {}),
        }
        adapter = loading.pop(ADAPTER, None)
        chosen = loading.pop("gguf_file", None)
        source = model_source(model if chosen is None else f"{model}/{chosen}", revision)
        said = f" with {json.dumps(options, sort_keys=True)}" if options else ""
        try:
            files = {"revision": revision, **source.arguments}
            self._tokenizer = AutoTokenizer.from_pretrained(source.name, padding_side="left", **files)
            self._model = AutoModelForCausalLM.from_pretrained(source.name, **files, **loading).eval()
            if adapter is not None:
                self._model.load_adapter(adapter)
        except (OSError, ValueError, TypeError, AttributeError, ImportError) as error:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise UsageError(
                f"{model!r}{f' at {revision}' if revision else ''} cannot be loaded as a causal language model{said}: "
                f"{first} Give a folder that save_pretrained wrote, a GGUF file, or a name on the Hub"
                f"{', and options that this model takes' if options else ''}."
            ) from error
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token or self._tokenizer.unk_token
        self._chat = bool(self._tokenizer.chat_template) if chat_template is None else chat_template
        folder = source.folder
        commit = getattr(self._model.config, "_commit_hash", None)
        self.revision = str(commit or revision or "unknown") if folder is None else _digest(folder, source.gguf_file)
        called = model if folder is None else source.gguf_file or folder.name
        self.name = f"{called}@{self.revision}{'' if self._chat else ' plain'}{said}"
        self._own = _own_sampling(self._model.generation_config)
        self._decoder: SchemaDecoder | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Which weights answer, as numbers of which type, and what the model's own configuration sets of sampling."""
        return {"dtype": str(self._model.dtype).removeprefix("torch."), "generation_config": self._own}

    def generate(
        self,
        prompts: Sequence[Sequence[Message]],
        max_tokens: int,
        *,
        parameters: Sequence[Parameters] | None = None,
        seed: int = 0,
        schemas: Sequence[Schema | None] | None = None,
    ) -> list[Completion]:
        """Return one completion per chat prompt, in order; greedy where no `parameters` are given.

        `parameters` are those of a chat request: max_tokens, temperature, top_p, stop, and others that transformers
        knows; the prompts are then one batch. All but max_tokens and stop are taken from the first, and from the
        model's own configuration where it does not say. Each answer follows its schema in `schemas`, where it has one.
        Out of memory, the batch is halved until it fits, and so are
        later ones. A prompt that does not fit the model together with its answer has the error "prompt_too_long".
        """
        if parameters is not None:
            return self._batch(prompts, parameters, seed, schemas or [None] * len(prompts))
        completions: list[Completion] = []
        for start in range(0, len(prompts), self.batch_size):
            batch = prompts[start : start + self.batch_size]
            limits = [{"max_tokens": max_tokens}] * len(batch)
            completions += self._batch(batch, limits, seed, (schemas or [None] * len(prompts))[start:])
        return completions

    def _batch(
        self,
        prompts: Sequence[Sequence[Message]],
        parameters: Sequence[Parameters],
        seed: int,
        schemas: Sequence[Schema | None],
    ) -> list[Completion]:
        from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

        outcomes: list[Completion] = []
        while len(outcomes) < len(prompts):
            start, end = len(outcomes), min(len(outcomes) + self._size, len(prompts))
            try:
                outcomes += self._complete(prompts[start:end], parameters[start:end], seed + start, schemas[start:end])
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
        self,
        prompts: Sequence[Sequence[Message]],
        parameters: Sequence[Parameters],
        seed: int,
        schemas: Sequence[Schema | None],
    ) -> list[Completion]:
        import torch

        started = time.perf_counter()
        texts = [
            self._text(messages, limits.get("tools")) for messages, limits in zip(prompts, parameters, strict=True)
        ]
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
                    logits_processor=self._held([each for each, fit in zip(schemas, fits, strict=True) if fit]),
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

        asked = {name: value for name, value in parameters[0].items() if name not in NOT_SAMPLED_BY}
        if strange := asked.keys() - {*SAMPLED_BY, *SHAPED_BY}:
            raise UsageError(
                f"A local model takes no {', '.join(sorted(strange))}; expected some of "
                f"{', '.join((*SAMPLED_BY, *SHAPED_BY))}. Leave it out of --extra-body."
            )
        chosen = {**self._own, **asked}
        sampled = chosen.get("temperature", 0.0) > 0 and "temperature" in asked
        return GenerationConfig(
            max_new_tokens=max(limits["max_tokens"] for limits, fit in zip(parameters, fits, strict=True) if fit),
            do_sample=sampled,
            pad_token_id=self._tokenizer.pad_token_id,
            eos_token_id=self._stops(),
            **{name: value for name, value in chosen.items() if sampled or name in SHAPED_BY},
        )

    def _held(self, schemas: Sequence[Schema | None]) -> list[Any]:
        """Return what holds these answers to their schemas."""
        if not any(schema is not None for schema in schemas):
            return []
        if self._decoder is None:
            from kbbench_hf.llm.constrained_decoding import SchemaDecoder

            self._decoder = SchemaDecoder(self._tokenizer, self._model.config.vocab_size, self._stops())
        return [self._decoder.processor(schemas)]

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

    @property
    def takes_tools(self) -> bool:
        """Whether the model's chat template tells it of tools."""
        return self._chat and "tools" in str(self._tokenizer.chat_template)

    def _text(self, messages: Sequence[Message], tools: Sequence[object] | None = None) -> str:
        if not self._chat:
            return "\n\n".join(message["content"] for message in messages)
        from jinja2 import TemplateError

        try:
            return self._templated(messages, tools)
        except TemplateError as error:
            if messages[0]["role"] != "system":
                raise UsageError(
                    f"The chat template of {self.name} refuses the prompt: {error}. Run it with --no-chat-template."
                ) from None
        return self._templated(without_system(messages), tools)

    def _templated(self, messages: Sequence[Message], tools: Sequence[object] | None = None) -> str:
        more = {"tools": tools} if tools else {}
        chat = [_with_objects(message) if "tool_calls" in message else message for message in messages]
        text: str = self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **more)
        return text


def _with_objects(message: Message) -> Message:
    """Return a message whose calls have their arguments as objects: templates write these as JSON, not texts of it."""
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _own_sampling(config: Any) -> dict[str, Any]:
    """Return what a model's own configuration sets of sampling, beyond transformers' defaults."""
    set_there = config.to_diff_dict()
    return {name: set_there[name] for name in (*SAMPLED_BY, *SHAPED_BY) if set_there.get(name) is not None}


def _digest(folder: Path, gguf_file: str | None = None) -> str:
    """Return a digest of a model's files with all of their bytes: weights saved again under one name differ."""
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        loaded = file.suffix in (".json", ".safetensors", ".bin", ".model", ".jinja", ".txt")
        if file.name == gguf_file if gguf_file else loaded:
            with file.open("rb") as source:
                digest.update(file.name.encode() + hashlib.file_digest(source, "sha256").digest())
    return digest.hexdigest()[:40]
