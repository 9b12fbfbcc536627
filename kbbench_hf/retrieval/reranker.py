"""Re-rankers: prompt for one candidate of an LLM, request of a cross-encoder, parser of scores, and the new order.

The idea is that of Wu et al. (NeurIPS 2024): a score from 0 to 1 for how well a candidate's document meets the query.
The wordings `clean` and `clean-1` are ours; `clean-1`, of earlier runs, requests a bare number beside a JSON schema.
`reference` prompts and parses as upstream does: its parser takes "10.5" for 0.5 and refuses "1" and ".5", which ours
do not. Differs from upstream: if a candidate fails, the others of its query keep their scores.

`runners` send the prompts (`--rerank`) and reorder the rankings. Prompts are part of stored keys of replies: another
wording is a new entry of `RERANK_METHODS`.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from kbbench_hf.benchmarks.base import ROOM_FOR_THOUGHT, Prompt
from kbbench_hf.parsing import scores
from kbbench_hf.parsing.parsed_reply import ParseError

_TASK = """\
You judge search results. Below are a query and one candidate of type "{node_type}" with what is known of it. \
How well does the candidate meet everything that the query asks for, its properties and its relations?

Answer with """
_SCALE = """\
0.0 if nothing supports it, 1.0 if all of it is clearly supported, in between if part of it is.

Query: {query}

Candidate:
{document}"""
INSTRUCTION = f'{_TASK}JSON only: {{{{"score": NUMBER}}}}, where the number is from 0.0 to 1.0: {_SCALE}'
INSTRUCTION_1 = f"{_TASK}one number from 0.0 to 1.0 and nothing else: {_SCALE}\n\nScore:"
REFERENCE_INSTRUCTION = """\
You examine whether a {node_type} satisfies the requirements of a query. Give it a score from 0.0 to 1.0: 0.0 if it \
satisfies none of them, 1.0 if there is strong and explicit evidence that it satisfies all of them, a value in between \
if it satisfies part of them or the evidence is weaker.

The query:
"{query}"

What is known of the {node_type}:
{document}

Answer with the score as a decimal number and nothing else.
The score is:"""
MOST_CHARACTERS = 24_000
"""A document is cut here, except by `reference`; about 6,000 tokens: hubs have many thousand neighbors."""
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}},
    "required": ["score"],
}
"""The JSON schema of a reply; that of the reference has none."""
RANK_WEIGHT = 0.1
"""The weight of the first ranking, as upstream has it: it orders equal scores, and those that differ by less."""
_REFERENCE_SCORE = re.compile(r"0\.\d+|1\.0")


def prompt(query: str, node_type: str, document: str, instruction: str = INSTRUCTION) -> Prompt:
    """Return the prompt for one candidate."""
    text = instruction.format(node_type=node_type, query=query, document=document[:MOST_CHARACTERS])
    return Prompt([{"role": "user", "content": text}], max_tokens=ROOM_FOR_THOUGHT, json_schema=SCHEMA)


def reference_prompt(query: str, node_type: str, document: str) -> Prompt:
    """Return the prompt for one candidate in the structure of upstream's: 5 tokens, the whole document.

    Source: github.com/snap-stanford/stark, models/llm_reranker.py, whose wording has changed twice. This is its order
    (task and type, scale, query in quotes, document with relations, the number only, an opening for it), not its words.
    """
    text = REFERENCE_INSTRUCTION.format(node_type=node_type, query=query, document=document)
    return Prompt([{"role": "user", "content": text}], max_tokens=5)


def pair_request(query: str, node_type: str, *documents: str) -> Prompt:
    """Return the request of a cross-encoder: the query, and then the documents that it scores.

    The type is not sent. An empty document is one blank, because servers refuse empty texts.
    """
    texts = [query, *(document[:MOST_CHARACTERS] or " " for document in documents)]
    return Prompt([{"role": "user", "content": text} for text in texts])


def parse_score(reply: str) -> float:
    """Return the score in a response, from 0 to 1; see `parsing.scores`.

    Raises:
        ParseError: there is none, or it lies outside 0 to 1.

    >>> [parse_score(text) for text in ("0.8", ".5", "1", "Score: 8/10", "about 85 %", '{"score": 0.25}')]
    [0.8, 0.5, 1.0, 0.8, 0.85, 0.25]
    """
    return scores.parse_score(reply).answer


def parse_reference_score(reply: str) -> float:
    r"""Return the one match of `0\.\d+|1\.0`, as upstream parses a score.

    Raises:
        ParseError: there is no match, or more than one.

    >>> parse_reference_score("10.5"), parse_reference_score("-0.5")
    (0.5, 0.5)
    """
    numbers = _REFERENCE_SCORE.findall(reply)
    if len(numbers) != 1:
        raise ParseError(f"{len(numbers)} numbers like 0.x or 1.0 in {reply[:80]!r}")
    return float(numbers[0])


@dataclass(frozen=True)
class RerankMethod:
    """How a candidate is scored: the prompt, the parser, and retries."""

    prompt: Callable[..., Prompt]
    """(query, type of the first candidate, document of each candidate) -> the prompt."""
    parse: Callable[[str], float | list[float]]
    """Text of a reply -> the score of each candidate."""
    temperature: float = 0.0
    tries: int = 1
    """Attempts until a response has a score."""
    batch: int = 1
    """Candidates of one prompt."""
    weight: float = RANK_WEIGHT
    """The default weight of the first ranking."""
    whole: bool = False
    """Whether a query keeps its first ranking where a candidate has no score."""

    @property
    def prompt_sha256(self) -> str:
        """A hash of the wording."""
        return sha256(json.dumps(self.prompt("", "", "").messages).encode()).hexdigest()


RERANK_METHODS = {
    "clean": RerankMethod(prompt, parse_score),
    "clean-1": RerankMethod(partial(prompt, instruction=INSTRUCTION_1), parse_score),
    "reference": RerankMethod(reference_prompt, parse_reference_score, temperature=1.0, tries=3, whole=True),
}
"""Name -> method; the first is the default."""
BY_CROSS_ENCODER = RerankMethod(pair_request, json.loads, batch=32, weight=0.0, whole=True)
"""How a cross-encoder scores candidates. Its scores may be logits, which have no common scale with a rank."""


def reorder(
    ids: Sequence[int | str], judged: Mapping[int | str, float | None], weight: float = RANK_WEIGHT
) -> list[tuple[int | str, float]]:
    """Return a ranking with its judged candidates, all at its top, in the order of their scores.

    A candidate's new score is the model's plus `weight` * (n - rank) / n, with rank 0 for the first of n judged; one
    without a score (None) has the second part alone. The others follow below, so that Recall@n cannot change. With a
    weight of 0, candidates of one score keep their order.

    >>> reorder(["a", "b", "c"], {"a": 0.2, "b": 0.9})
    [('b', 0.9500000000000001), ('a', 0.30000000000000004), ('c', -1.0)]
    """
    top, rest = [each for each in ids if each in judged], [each for each in ids if each not in judged]
    n = len(top)
    scored = [((judged[each] or 0.0) + weight * (n - rank) / n, -rank, each) for rank, each in enumerate(top)]
    ordered: list[tuple[int | str, float]] = []
    lowest = 0.0
    for score, _, each in sorted(scored, key=lambda one: one[:2], reverse=True):
        if not weight and ordered:  # equal scores would be ordered by id
            score = min(score, math.nextafter(ordered[-1][1], -math.inf))
        ordered.append((each, score))
        lowest = min(lowest, score)
    return [*ordered, *((each, lowest - 1.0 - place) for place, each in enumerate(rest))]
