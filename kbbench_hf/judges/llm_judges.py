"""LLM judges of factualness and granularity: prompts, schemas and parsers of replies; replay of released verdicts.

`runners.judge` sends the prompts to any chat model. A reply that cannot be parsed is an error with a status, never
"false". Hashes of the prompts are recorded with annotations: another wording is another judge.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.annotations import triple_key
from kbbench_hf.benchmarks.base import ROOM_FOR_THOUGHT, Prompt, object_schema
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.generative_re import count_pairs
from kbbench_hf.parsing.triples import parse_triples
from kbbench_hf.parsing.verdicts import parse_supported
from kbbench_hf.protocols import Verdict

Item = tuple[str, str]
"""(text, triple as JSON)."""
RELEASE_JUDGE = "gpt-3.5-turbo-instruct"
"""The judge of the release: a retired model, whose verdicts cannot be reproduced."""

_FACT = """You check whether a text supports a statement, given as a triple [subject, relation, object].
It is supported if the text says it or plainly implies it. What is true but not in the text is not supported.
Answer with JSON only: {"supported": true} or {"supported": false}."""
_SPLIT = """You look at a statement, given as a triple [subject, relation, object]: is it one fact or several?
If it joins several facts, write each as a triple of its own. If it is one fact, however long, the list is empty.
Answer with JSON only: {"sub_triples": [["subject", "relation", "object"], ...]} or {"sub_triples": []}."""
SUPPORTED = object_schema(supported={"type": "boolean"})
"""The schema of a verdict."""
_TRIPLE = {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3}
_SUB_TRIPLES = object_schema(sub_triples={"type": "array", "items": _TRIPLE})


def fact_prompt(text: str, triple: str) -> Prompt:
    """Return the prompt: does a text support a triple (as JSON)?"""
    return chat_prompt(_FACT, f"Text: {text}\nTriple: {triple}", SUPPORTED)


def split_prompt(text: str, triple: str) -> Prompt:
    """Return the prompt: into which triples does a triple (as JSON) split? The text is not part of it."""
    return chat_prompt(_SPLIT, f"Triple: {triple}", _SUB_TRIPLES)


FACT_PROMPT_SHA256 = sha256(_FACT.encode()).hexdigest()
SPLIT_PROMPT_SHA256 = sha256(_SPLIT.encode()).hexdigest()


def parse_fact_reply(reply: str) -> float:
    """Return 1 for the reply "supported", 0 for "not supported"; see `parsing.verdicts`.

    Raises:
        ParseError: the reply is neither, or both.

    >>> parse_fact_reply('"True." The text says so.'), parse_fact_reply('{"supported": false}')
    (1.0, 0.0)
    """
    return float(parse_supported(reply).answer)


def parse_split_reply(reply: str) -> float:
    """Return the number of sub-triples in a reply; 0 where it says that the triple is one fact.

    Raises:
        ParseError: it has none and does not say so, or is truncated inside its list.

    >>> parse_split_reply('[["a", "r", "b"], ["a", "r", "c"]]'), parse_split_reply("N/A (one fact)")
    (2.0, 0.0)
    """
    return float(len(parse_triples(reply, partial=False, single=True).answer))


class StoredFacts:
    """Replay of released factualness verdicts: a file `{text: {"results": [bool, ...]}}`, one per triple, in order.

    Raises:
        DataError: the file has another format.
    """

    name = f"stored:{RELEASE_JUDGE}"

    def __init__(self, file: Path) -> None:
        with _stored_object(file, "'results' for each text; expected a file of GREScores/factualness") as content:
            self._results: dict[str, list[bool]] = {text: list(row["results"]) for text, row in content.items()}

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """Return the stored verdict of each item; the items must have all triples of a text, in order.

        The status is `not_stored` where the text is unknown or has another number of verdicts.
        """
        counts = Counter(text for text, _ in items)
        results = {text: iter(stored) for text, stored in self._results.items() if len(stored) == counts[text]}
        return [
            Verdict(float(next(results[text])), "ok", "") if text in results else Verdict(None, "not_stored", "")
            for text, _ in items
        ]


class StoredSplits:
    """Replay of the release's granularity replies: a file `{text: {triple as JSON: reply}}`; brackets are counted.

    Raises:
        DataError: the file has another format.
    """

    name = f"stored:{RELEASE_JUDGE}"

    def __init__(self, file: Path) -> None:
        with _stored_object(file, "replies by triple; expected a file of GREScores/granularity") as content:
            self._replies = {
                (text, triple_key(json.loads(triple))): str(reply)
                for text, replies in content.items()
                for triple, reply in replies.items()
            }

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """Return the verdict of each item's stored reply, parsed as in the release; else `not_stored`."""
        replies = [self._replies.get(item) for item in items]
        return [
            Verdict(None, "not_stored", "") if reply is None else Verdict(float(count_pairs(reply)), "ok", reply)
            for reply in replies
        ]


def chat_prompt(system: str, user: str, schema: Mapping[str, object]) -> Prompt:
    """Return a prompt of two messages, with room for a model's reasoning."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return Prompt(messages, max_tokens=ROOM_FOR_THOUGHT, json_schema=schema)


@contextmanager
def _stored_object(file: Path, missing: str) -> Iterator[dict[str, Any]]:
    """Yield the object in a file; errors in the block become a `DataError` about the file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read ({error}); expected stored verdicts of the release.") from None
    if not isinstance(content, dict):
        raise DataError(f"{file} holds no object by text; expected stored verdicts of the release.")
    try:
        yield content
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DataError(f"{file} has no {missing}.") from None
