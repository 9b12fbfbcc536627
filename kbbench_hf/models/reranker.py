"""Re-ranking by a language model: what it is asked of one candidate, how its answer is read, and the new order.

The idea is that of Wu et al. (NeurIPS 2024): a score from 0 to 1 for how well a candidate's document meets the query.
The wording is ours. Differs from upstream: its parser takes "10.5" for 0.5 and refuses "1" and ".5"; and where one
candidate fails it throws away what the others of the query have cost.
"""

import json
import re
from collections.abc import Mapping, Sequence

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.replies.reading import ParseError

INSTRUCTION = """\
You judge search results. Below are a query and one candidate of type "{node_type}" with what is known of it. \
How well does the candidate meet everything that the query asks for, its properties and its relations?

Answer with one number from 0.0 to 1.0 and nothing else: 0.0 if nothing supports it, 1.0 if all of it is clearly \
supported, in between if part of it is.

Query: {query}

Candidate:
{document}

Score:"""
MOST_CHARACTERS = 24_000
"""A document is cut here, about 6,000 tokens; hubs have many thousand neighbours."""
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}},
    "required": ["score"],
}
RANK_WEIGHT = 0.1
"""The weight of the first ranking beside the model's score, as upstream has it: it orders equal scores."""

_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?|\.\d+)\s*(?:(%)|(?:/|out of)\s*(\d+(?:\.\d+)?))?(?![\w])")
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


def prompt(query: str, node_type: str, document: str) -> Prompt:
    """Return the question about one candidate."""
    text = INSTRUCTION.format(node_type=node_type, query=query, document=document[:MOST_CHARACTERS])
    return Prompt([{"role": "user", "content": text}], max_tokens=16, json_schema=SCHEMA)


def parse_score(text: str) -> float:
    """Return the score that a model gave, from 0 to 1.

    Read are a bare number, JSON with "score", a percentage, "8/10" and "8 out of 10", and numbers within a sentence;
    of several, the last one. What a model thought aloud before its answer does not count.

    Raises:
        ParseError: there is no number, or it lies outside 0 to 1.

    >>> [parse_score(text) for text in ("0.8", ".5", "1", "Score: 8/10", "about 85 %", '{"score": 0.25}')]
    [0.8, 0.5, 1.0, 0.8, 0.85, 0.25]
    """
    plain = _THOUGHT.sub(" ", text)
    score = _json_score(plain)
    if score is None:
        found = list(_NUMBER.finditer(plain))
        if not found:
            raise ParseError("no number in the answer")
        number, percent, total = found[-1].groups()
        score = float(number) / (100 if percent else float(total) if total and float(total) else 1)
    if not 0 <= score <= 1:
        raise ParseError(f"{score:g} is not a score from 0 to 1")
    return score


def reordered(ids: Sequence[int | str], judged: Mapping[int | str, float | None]) -> list[tuple[int | str, float]]:
    """Return a ranking whose judged candidates, all at its top, are in the order of their scores; the rest stays.

    A candidate's new score is the model's plus 0.1 * (n - rank) / n, with rank 0 for the first of n judged; one whose
    judgement failed (None) has the second part alone. The others follow below, so that Recall@n cannot change.

    >>> reordered(["a", "b", "c"], {"a": 0.2, "b": 0.9})
    [('b', 0.9500000000000001), ('a', 0.30000000000000004), ('c', -1.0)]
    """
    top, rest = [each for each in ids if each in judged], [each for each in ids if each not in judged]
    n = len(top)
    scored = [((judged[each] or 0.0) + RANK_WEIGHT * (n - rank) / n, -rank, each) for rank, each in enumerate(top)]
    ordered = [(each, score) for score, _, each in sorted(scored, key=lambda one: one[:2], reverse=True)]
    return [*ordered, *((each, -1.0 - place) for place, each in enumerate(rest))]


def _json_score(text: str) -> float | None:
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        value = json.loads(text[start : end + 1])["score"]
        return None if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
