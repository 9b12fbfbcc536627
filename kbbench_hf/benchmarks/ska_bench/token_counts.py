"""Token counts of lines by GPT-4o's tokenizer, exactly and offline.

tiktoken downloads its vocabularies, so OpenAI's comes from the package toktok-rs, which includes it, and is checked
against the hash that tiktoken itself expects. Counts under it are additive: the tokens of a text are the sum of its
lines' tokens, each line counted with its end, as long as no line is empty, begins with white space or begins with `/`
(`units` writes none). `building` fills contexts to a budget by these counts, which stored datasets have as `kb_tokens`.
"""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import DataError, missing_extra

VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
GPT_4O = "o200k_base"

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PIECES = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
"""The pattern by which o200k_base splits a text before it merges bytes."""


def vocabulary() -> list[bytes]:
    """Return the tokens of o200k_base by rank.

    Raises:
        DataError: they are not those of OpenAI's file.
    """
    try:
        import toktok
    except ModuleNotFoundError as error:
        raise missing_extra("toktok-rs", "text") from error
    tokens: list[bytes] = toktok._encoding(GPT_4O).token_byte_values()
    found = hashlib.sha256(vocabulary_file(tokens)).hexdigest()
    if found != VOCABULARY_SHA256:
        raise DataError(
            f"The {GPT_4O} of toktok-rs {toktok.__version__} has sha256 {found}; expected {VOCABULARY_SHA256}. "
            "Install the version that is tested: pip install toktok-rs==0.3.0"
        )
    return tokens


def vocabulary_file(tokens: Sequence[bytes]) -> bytes:
    """Return tokens as OpenAI publishes them, a line each: the token in base64 and its rank."""
    return b"".join(b"%s %d\n" % (b64encode(token), rank) for rank, token in enumerate(tokens))


class Tokenizer:
    """Counts tokens by o200k_base through tiktoken."""

    name = GPT_4O
    """Stored with the counts."""

    def __init__(self) -> None:
        try:
            import tiktoken
        except ModuleNotFoundError as error:
            raise missing_extra("tiktoken", "text") from error
        ranks = {token: rank for rank, token in enumerate(vocabulary())}
        self._encoding = tiktoken.Encoding(GPT_4O, pat_str=PIECES, mergeable_ranks=ranks, special_tokens={})

    def count(self, text: str) -> int:
        """Return the number of tokens of a text; no special tokens are added."""
        return len(self._encoding.encode_ordinary(text))

    def count_lines(self, lines: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of tokens of each line together with its end."""
        return np.array([self.count(f"{line}\n") for line in lines], dtype=np.int64)


@cache
def tokenizer() -> Tokenizer:
    """Return GPT-4o's tokenizer.

    >>> tokenizer().count("(George Weah, position held, President of Liberia)")
    12
    """
    return Tokenizer()
