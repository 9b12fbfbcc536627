"""Judgements asked for as they can be read best, and a run that ends where too many cannot be read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.protocols import LanguageModel
from kbbench_hf.runners.generate import Generation, generate

MOST_UNREAD = 0.1
"""The share of answers without a judgement above which a run has no figures."""


class UnreadError(KBBenchError):
    """Too many answers of a judging model hold no judgement; they are kept, and nothing was made of the others."""


def check_read(n_unread: int, n_answered: int, what: str) -> None:
    """Raise where more than a tenth of the answers could not be read.

    Raises:
        UnreadError: so many.

    >>> check_read(1, 10, "score")
    >>> check_read(2, 10, "score")
    Traceback (most recent call last):
    kbbench_hf.runners.unparsed.UnreadError: 2 of 10 responses have no readable score ...
    """
    if n_answered and n_unread > MOST_UNREAD * n_answered:
        raise UnreadError(
            f"{n_unread:,} of {n_answered:,} responses have no readable {what} ({n_unread / n_answered:.0%}; the "
            "limit is "
            f"{MOST_UNREAD:.0%}), so there is no result. The responses are kept. If the model was truncated while "
            "reasoning, raise --max-tokens; or use --structured, or another model."
        )


def generate_judgements(
    prompts: Mapping[Any, Prompt], model: LanguageModel, folder: Path, *, structured: bool | None = None, **how: Any
) -> tuple[Generation, bool]:
    """Return the finished run of prompts, and whether its answers were asked for by schema.

    With `structured` None a served model is asked by schema, and in words alone where it takes none in any form.
    """
    if structured is None:
        try:
            return generate(prompts, model, folder, structured=hasattr(model, "complete"), **how), hasattr(
                model, "complete"
            )
        except UsageError as error:
            if "'response_format'" not in str(error):
                raise
    return generate(prompts, model, folder, structured=bool(structured), **how), bool(structured)
