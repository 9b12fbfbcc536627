"""A language model written down instead of trained: whatever is asked, it gives one answer and stops.

It knows which token follows which, and nothing else: the answer, one token, follows `<|assistant|>`, and `<|end|>` the
answer. It counts a token for every byte of a prompt, so that a test knows what fits into its window. The same model is
saved as transformers loads it (a GPT-2, which breaks where its positions end) and as llama.cpp does (GGUF).
"""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.unit.llm.tiny_lm import TEMPLATE

ROLES = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
WIDTH = 32
_ASKED, _ANSWERED, _OTHER = 0, 1, 2
"""The dimensions that say which token came last."""


def _bytes() -> list[str]:
    """Return the 256 characters that stand for bytes in GPT-2's vocabulary, byte by byte."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) if byte in shown else chr(256 + hidden.index(byte)) for byte in range(256)]


def _matrices(vocabulary: Sequence[str], answer: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the embeddings and the output matrix, each of (tokens, WIDTH)."""
    last, following = np.zeros((2, len(vocabulary), WIDTH), np.float32)
    last[:, _OTHER] = 1
    for place, token in ((_ASKED, "<|assistant|>"), (_ANSWERED, answer)):
        last[vocabulary.index(token)] = np.eye(WIDTH)[place]
    following[vocabulary.index(answer), _ASKED] = 5
    following[vocabulary.index("<|end|>"), [_ANSWERED, _OTHER]] = 5
    return last, following


def save(folder: Path, answer: str, window: int) -> Path:
    """Save the model for transformers; a prompt of `window` bytes and more makes it fail."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    vocabulary = [*_bytes(), *ROLES, answer]
    fast = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(_bytes())}, merges=[]))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    fast.decoder = decoders.ByteLevel()
    fast.add_special_tokens(ROLES)
    fast.add_tokens([answer])
    end = "<|end|>"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=fast, eos_token=end, pad_token=end, chat_template=TEMPLATE)
    number = tokenizer.eos_token_id
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(vocabulary),
            n_positions=window,
            n_embd=WIDTH,
            n_layer=1,
            n_head=1,
            eos_token_id=number,
            bos_token_id=number,
            pad_token_id=number,
            tie_word_embeddings=False,
        )
    )
    last, following = _matrices(vocabulary, answer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.transformer.ln_f.weight.fill_(1)
        model.transformer.wte.weight.copy_(torch.from_numpy(last))
        model.lm_head.weight.copy_(torch.from_numpy(following))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_gguf(file: Path, answer: str, window: int) -> Path:
    """Save the model as one GGUF file for llama.cpp: a Llama of one layer that does nothing."""
    vocabulary = [*_bytes(), *ROLES, answer]
    normal, control, user_defined = 1, 3, 4
    kinds = [*[normal] * 256, *[control] * len(ROLES), user_defined]
    end = vocabulary.index("<|end|>")
    facts: dict[str, object] = {
        "general.architecture": "llama",
        "general.name": "bigram",
        "llama.context_length": window,
        "llama.embedding_length": WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": WIDTH,
        "llama.attention.head_count": 1,
        "llama.attention.head_count_kv": 1,
        "llama.attention.layer_norm_rms_epsilon": 1e-6,
        "llama.rope.dimension_count": WIDTH,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": vocabulary,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": ["\u0120 \u0120"],  # one at least is wanted
        "tokenizer.ggml.bos_token_id": end,
        "tokenizer.ggml.eos_token_id": end,
        "tokenizer.ggml.padding_token_id": end,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }
    last, following = _matrices(vocabulary, answer)
    square, ones = np.zeros((WIDTH, WIDTH), np.float32), np.ones(WIDTH, np.float32)
    tensors = {"token_embd.weight": last, "output_norm.weight": ones, "output.weight": following}
    tensors |= {f"blk.0.{name}_norm.weight": ones for name in ("attn", "ffn")}
    names = "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down".split()
    tensors |= {f"blk.0.{name}.weight": square for name in names}
    file.write_bytes(_gguf(facts, tensors))
    return file


_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_ALIGNMENT = 32


def _gguf(facts: Mapping[str, object], tensors: Mapping[str, np.ndarray]) -> bytes:
    """Return a file of GGUF version 3: facts, the tensors' names and shapes, their float32 values."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    head += b"".join(_text(name) + _fact(value) for name, value in facts.items())
    values = b""
    for name, tensor in tensors.items():
        shape = tensor.shape[::-1]
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(values))
        values += _padded(np.ascontiguousarray(tensor, "<f4").tobytes())
    return _padded(head) + values


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _fact(value: object) -> bytes:
    if isinstance(value, list):
        kind, *_ = [_STRING if isinstance(each, str) else _INT32 for each in value]
        packed = [_text(each) if isinstance(each, str) else struct.pack("<i", each) for each in value]
        return struct.pack("<IIQ", _ARRAY, kind, len(value)) + b"".join(packed)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    kind, form = {bool: (_BOOL, "?"), int: (_UINT32, "I"), float: (_FLOAT32, "f")}[type(value)]
    return struct.pack(f"<I{form}", kind, value)


def _padded(raw: bytes) -> bytes:
    return raw + bytes(-len(raw) % _ALIGNMENT)
