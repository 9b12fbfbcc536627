"""Local causal language model (transformers, peft, GGUF) with batched generation, alone or under Accelerate.

`runners` make a `CausalLM` for `hf:MODEL` and call `generate`; agents also use `takes_tools`. Its `name` is part of the
keys of stored replies and stays as it is: it holds the revision, `plain` and the options. The dtype and the model's own
sampling are in `identity`, which `runners.model_identity` compares.
"""

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kbbench_hf.errors import UsageError, missing_extra
from kbbench_hf.llm.supported_parameters import Schema, cut_at_stop, without_system
from kbbench_hf.protocols import Completion, Message

if TYPE_CHECKING:
    from kbbench_hf.llm.constrained_decoding import SchemaDecoder

Parameters = Mapping[str, Any]
"""Parameters of a chat request: max_tokens, temperature, top_p, stop, and others of transformers' sampling."""
SAMPLED_BY = ("temperature", "top_p", "top_k", "min_p", "typical_p")
"""Parameters that count only with a temperature above 0."""
SHAPED_BY = ("repetition_penalty", "no_repeat_ngram_size", "length_penalty", "encoder_repetition_penalty")
"""Parameters of greedy decoding too. The model's `generation_config`, which is recorded, has their defaults."""
NOT_SAMPLED_BY = ("max_tokens", "stop", "seed", "tools", "tool_choice")
"""Other parameters of a request."""
ADAPTER = "adapter"
"""Key in the options of a model: the peft adapter to load."""


class _GenerationRequest(NamedTuple):
    """A prompt with its parameters and JSON schema."""

    messages: Sequence[Message]
    parameters: Parameters
    schema: Schema | None


class CausalLM:
    """A causal language model from the Hub, a folder or a GGUF file; `name` includes its revision.

    One process uses one device, or spreads a model over all visible GPUs; in a group (torchrun, accelerate launch)
    each process has a copy on its own device. Weights keep their dtype on a GPU and are float32 on a CPU.
    `chat_template` None uses the tokenizer's template where it has one. `options` are transformers' options for
    loading a model (`dtype`, `quantization_config`, `attn_implementation`), and `adapter`; they are part of the name.

    Raises:
        UsageError: the model does not exist, an option is not supported, or transformers is not installed.
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        *,
        batch_size: int = 16,
        chat_template: bool | None = None,
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
        suffix = f" with {json.dumps(options, sort_keys=True)}" if options else ""
        try:
            files = {"revision": revision, "gguf_file": source.gguf_file}
            self._tokenizer = AutoTokenizer.from_pretrained(source.name, padding_side="left", **files)
            self._model = AutoModelForCausalLM.from_pretrained(source.name, **files, **loading).eval()
            if adapter is not None:
                self._model.load_adapter(adapter)
        except (OSError, ValueError, TypeError, AttributeError, ImportError) as error:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise UsageError(
                f"{model!r}{f' at {revision}' if revision else ''} cannot be loaded as a causal language model{suffix}"
                f": {first} Give a folder that save_pretrained wrote, a GGUF file, or a name on the Hub"
                f"{', and options that this model takes' if options else ''}."
            ) from error
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token or self._tokenizer.unk_token
        self._chat = bool(self._tokenizer.chat_template) if chat_template is None else chat_template
        folder = source.folder
        commit = getattr(self._model.config, "_commit_hash", None)
        self.revision = (
            str(commit or revision or "unknown") if folder is None else _hash_files(folder, source.gguf_file)
        )
        name = model if folder is None else source.gguf_file or folder.name
        self.name = f"{name}@{self.revision}{'' if self._chat else ' plain'}{suffix}"
        self._sampling = _model_sampling(self._model.generation_config)
        self._decoder: SchemaDecoder | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """The dtype of the weights, and the sampling parameters of the model's own configuration."""
        return {"dtype": str(self._model.dtype).removeprefix("torch."), "generation_config": self._sampling}

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

        `parameters` are those of chat requests, with max_tokens; the prompts are then one batch. max_tokens, stop and
        tools are each prompt's own, the others those of the first request, else of the model's own configuration.
        Tokens are sampled only with a temperature above 0 in `parameters`. A completion follows its schema in
        `schemas`, if any. Out of memory, this batch and later ones are halved until they fit. A prompt that does not
        fit the model with its output limit has the error "prompt_too_long".
        """
        size = self.batch_size if parameters is None else max(1, len(prompts))
        limits = parameters or [{"max_tokens": max_tokens}] * len(prompts)
        requests = [*map(_GenerationRequest, prompts, limits, schemas or [None] * len(prompts))]
        batches = (requests[start : start + size] for start in range(0, len(requests), size))
        return [completion for batch in batches for completion in self._complete_all(batch, seed)]

    def _complete_all(self, requests: Sequence[_GenerationRequest], seed: int) -> list[Completion]:
        """Return the completions of a batch, in order; it is halved while memory does not suffice.

        A part is seeded by its place, so that its samples differ from those of the first part.
        """
        from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

        completions: list[Completion] = []
        while (start := len(completions)) < len(requests):
            batch = requests[start : start + self._size]
            try:
                completions += self._complete(batch, seed + start)
            except Exception as error:
                if not should_reduce_batch_size(error) or len(batch) == 1:
                    raise
                self._size = (len(batch) + 1) // 2
                clear_device_cache(garbage_collection=True)
        return completions

    def wait_for_everyone(self) -> None:
        """Wait until every process of the group calls this."""
        self._state.wait_for_everyone()

    def _complete(self, requests: Sequence[_GenerationRequest], seed: int) -> list[Completion]:
        """Return the completions of requests in one forward pass; those that do not fit the model have an error."""
        import torch

        started = time.perf_counter()
        texts = [self._prompt_text(each.messages, each.parameters.get("tools")) for each in requests]
        special = not self._chat  # chat templates contain the special tokens
        lengths = [len(ids) for ids in self._tokenizer(texts, add_special_tokens=special)["input_ids"]]
        longest = getattr(self._model.config, "max_position_embeddings", None) or 2**62
        fits = [n + each.parameters["max_tokens"] <= longest for n, each in zip(lengths, requests, strict=True)]
        fitting = [each for each, fit in zip(requests, fits, strict=True) if fit]
        rows: list[list[int]] = []
        if fitting:
            inputs = self._tokenizer(
                [text for text, fit in zip(texts, fits, strict=True) if fit],
                add_special_tokens=special,
                padding=True,
                return_tensors="pt",
            ).to(self._model.device)
            most = max(each.parameters["max_tokens"] for each in fitting)
            torch.manual_seed(seed)
            with torch.inference_mode():
                output = self._model.generate(
                    input_ids=inputs["input_ids"],
                    attention_mask=inputs["attention_mask"],
                    generation_config=self._generation_config(requests[0].parameters, most),
                    logits_processor=self._logits_processors([each.schema for each in fitting]),
                )
            rows = output[:, inputs["input_ids"].shape[1] :].tolist()
        seconds = time.perf_counter() - started
        remaining = iter(rows)
        return [
            self._completion(next(remaining), each.parameters, length, seconds)
            if fit
            else Completion("", "", length, 0, seconds, "prompt_too_long")
            for each, length, fit in zip(requests, lengths, fits, strict=True)
        ]

    def _generation_config(self, parameters: Parameters, max_new_tokens: int) -> object:
        """Return the generation config of a request, greedy unless it has a temperature above 0.

        Raises:
            UsageError: a parameter that local models do not have.
        """
        from transformers import GenerationConfig

        given = {name: value for name, value in parameters.items() if name not in NOT_SAMPLED_BY}
        if strange := given.keys() - {*SAMPLED_BY, *SHAPED_BY}:
            raise UsageError(
                f"A local model takes no {', '.join(sorted(strange))}; expected some of "
                f"{', '.join((*SAMPLED_BY, *SHAPED_BY))}. Leave it out of --extra-body."
            )
        chosen = {**self._sampling, **given}
        sampled = given.get("temperature", 0.0) > 0  # whatever temperature the model's own configuration has
        return GenerationConfig(
            max_new_tokens=max_new_tokens,
            do_sample=sampled,
            pad_token_id=self._tokenizer.pad_token_id,
            eos_token_id=self._end_ids(),
            **{name: value for name, value in chosen.items() if sampled or name in SHAPED_BY},
        )

    def _logits_processors(self, schemas: Sequence[Schema | None]) -> list[Any]:
        """Return the processors that constrain completions to their schemas."""
        if all(schema is None for schema in schemas):
            return []
        if self._decoder is None:
            from kbbench_hf.llm.constrained_decoding import SchemaDecoder

            self._decoder = SchemaDecoder(self._tokenizer, self._model.config.vocab_size, self._end_ids())
        return [self._decoder.processor(schemas)]

    def _end_ids(self) -> list[int]:
        """Return the token ids that end a completion: the generation config has those of chat turns."""
        ends = self._model.generation_config.eos_token_id
        if ends is None:
            ends = self._tokenizer.eos_token_id
        return [] if ends is None else ends if isinstance(ends, list) else [ends]

    def _completion(self, row: list[int], limits: Parameters, length: int, seconds: float) -> Completion:
        stops = set(self._end_ids())
        end = next((place for place, token in enumerate(row) if token in stops), len(row))
        ids = row[: min(end, limits["max_tokens"])]
        text = self._tokenizer.decode(ids, skip_special_tokens=True)
        finish = "stop" if end < min(len(row), limits["max_tokens"]) else "length"
        return cut_at_stop(Completion(text, finish, length, len(ids), seconds), limits.get("stop", ()))

    @property
    def takes_tools(self) -> bool:
        """Whether the model's chat template has tools."""
        return self._chat and "tools" in str(self._tokenizer.chat_template)

    def _prompt_text(self, messages: Sequence[Message], tools: Sequence[object] | None = None) -> str:
        if not self._chat:
            return "\n\n".join(message["content"] for message in messages)
        from jinja2 import TemplateError

        forms = [messages]
        if messages[0]["role"] == "system":  # some templates refuse it
            forms.append(without_system(messages))
        for form in forms:
            try:
                return self._apply_template(form, tools)
            except TemplateError as error:
                reason = error
        raise UsageError(
            f"The chat template of {self.name} refuses the prompt: {reason}. Run it with --no-chat-template."
        )

    def _apply_template(self, messages: Sequence[Message], tools: Sequence[object] | None = None) -> str:
        more = {"tools": tools} if tools else {}
        chat = [*map(with_parsed_arguments, messages)]
        text: str = self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **more)
        return text


def with_parsed_arguments(message: Message) -> Message:
    """Return a message whose tool calls, if any, have arguments as objects, which chat templates write as JSON."""
    if "tool_calls" not in message:
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _model_sampling(config: Any) -> dict[str, Any]:
    """Return the sampling parameters of a model's configuration that differ from transformers' defaults."""
    values = config.to_diff_dict()
    return {name: values[name] for name in (*SAMPLED_BY, *SHAPED_BY) if values.get(name) is not None}


def _hash_files(folder: Path, gguf_file: str | None = None) -> str:
    """Return a hash of all bytes of a model's files, 40 hex digits: other weights under one name have another hash."""
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        loaded = file.suffix in (".json", ".safetensors", ".bin", ".model", ".jinja", ".txt")
        if file.name == gguf_file if gguf_file else loaded:
            with file.open("rb") as source:
                digest.update(file.name.encode() + hashlib.file_digest(source, "sha256").digest())
    return digest.hexdigest()[:40]


_WEIGHTS = re.compile(r"(pytorch_)?model[^/]*\.(safetensors|bin)$")
"""Weights that transformers loads without conversion: a GGUF file beside them is ignored."""
_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$", re.IGNORECASE)


class ModelSource(NamedTuple):
    """A folder or a name on the Hub, and the GGUF file in it, if any."""

    name: str
    gguf_file: str | None = None

    @property
    def folder(self) -> Path | None:
        """The folder; None for a name on the Hub."""
        return path if (path := Path(self.name)).is_dir() else None


def model_source(model: str, revision: str | None = None) -> ModelSource:
    """Return the source of a model: a GGUF file, a folder, a name on the Hub, or a file there (ORG/NAME/FILE.gguf).

    Raises:
        UsageError: the file does not exist, there are several or it is one part of several, or gguf is not installed.
    """
    path = Path(model).expanduser()
    source = ModelSource(str(path) if path.exists() else model)
    if path.is_dir():
        if files := _gguf_files(file.name for file in path.iterdir()):
            source = ModelSource(str(path), _single_file(files, model))
    elif model.lower().endswith(".gguf"):
        steps = model.split("/")
        if path.is_file():
            source = ModelSource(str(path.parent), path.name)
        elif len(steps) < 3 or not steps[0].strip(".~"):
            raise UsageError(
                f"There is no file {model!r}. Give the path of a GGUF file, or hf:ORG/NAME/FILE.gguf on the Hub."
            )
        else:
            source = ModelSource("/".join(steps[:2]), "/".join(steps[2:]))
    elif not path.exists() and "gguf" in model.lower() and (files := _hub_files(model, revision)):
        source = ModelSource(model, _single_file(files, model))
    if source.gguf_file is not None:
        if part := _PART.search(source.gguf_file):
            raise UsageError(
                f"{source.gguf_file} is one of {int(part[1])} parts; transformers loads whole GGUF files. Join them: "
                "llama-gguf-split --merge FIRST_PART OUT.gguf"
            )
        if find_spec("gguf") is None:
            raise UsageError(f"{source.gguf_file} needs the package 'gguf', which is not installed: pip install gguf")
    return source


def _single_file(files: Sequence[str], model: str) -> str:
    if len(files) > 1 and not all(map(_PART.search, files)):
        raise UsageError(
            f"{model} holds {len(files)} GGUF files ({', '.join(files[:8])}); expected one. Name it: "
            f"hf:{model.rstrip('/')}/{files[0]}"
        )
    return files[0]


def _hub_files(name: str, revision: str | None) -> list[str]:
    """Return the GGUF files of a repository; none where it cannot be listed."""
    from huggingface_hub import HfApi

    try:
        return _gguf_files(HfApi().list_repo_files(name, revision=revision))
    except Exception:  # offline, no such name: loading says so, and what to do
        return []


def _gguf_files(names: Iterable[str]) -> list[str]:
    """Return the GGUF models among these files; none beside weights that need no conversion."""
    files = list(names)
    if any(map(_WEIGHTS.match, files)):
        return []
    return sorted(each for each in files if each.lower().endswith(".gguf") and not each.startswith("mmproj"))
