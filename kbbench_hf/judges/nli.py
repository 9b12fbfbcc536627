"""NLI judges of triples (local cross-encoders): entailment of a triple by its text, decomposition into sub-triples.

`runners.judge` builds them for `kbbench annotate`; calibration reads `raw` again with other thresholds. Names and `raw`
are stored with annotations: another decomposition is another `_kind`.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import product
from pathlib import Path
from typing import Self

from kbbench_hf.errors import UsageError, missing_extra
from kbbench_hf.judges.llm_judges import Item
from kbbench_hf.protocols import Verdict
from kbbench_hf.retrieval.embedders import folder_hash, unloadable

DEFAULT_THRESHOLD = 0.5
_TOO_LONG = Verdict(None, "prompt_too_long", "")


class _NliJudge:
    """A judge with a natural-language-inference model.

    Args:
        model: a sequence-classification model, by its name on the Hub or a folder; one label must be "entailment".
        threshold: the least probability of entailment of a yes; 0.5, or the result of a calibration.
        batch: pairs per forward pass.
    """

    _kind: str

    def __init__(self, model: str, threshold: float | None = None, batch: int = 16) -> None:
        self._nli = NliModel(model, batch)
        self._set_threshold(DEFAULT_THRESHOLD if threshold is None else threshold)
        self.chosen = threshold is not None
        """Whether the user chose the threshold, so that no calibration may change it."""
        self.untuned = f"{self._kind}:{self._nli.name}"
        """The name without the threshold."""

    def at(self, threshold: float) -> Self:
        """Return the same judge with another threshold."""
        other = copy(self)
        other._set_threshold(threshold)
        return other

    def _set_threshold(self, threshold: float) -> None:
        self.threshold = threshold
        self.name = f"{self._kind}:{self._nli.name}@threshold={threshold}"

    def read(self, raw: str) -> float:
        """Return the verdict of a `raw` with this judge's threshold."""
        raise NotImplementedError

    def _verdict(self, raw: str) -> Verdict:
        return Verdict(self.read(raw), "ok", raw)


class NliFactJudge(_NliJudge):
    """Judge of factualness: does a text entail a triple, written as a sentence?

    A text longer than the context length is split into overlapping windows; the best window counts.
    """

    _kind = "nli-fact"

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """Return one verdict per (text, triple): 1 supported, 0 not; `raw` has the probability of entailment.

        A triple that is too long for the model has no verdict, the status "prompt_too_long" and an empty `raw`.
        """
        pairs = [(text, _sentence(json.loads(triple))) for text, triple in items]
        probabilities = self._nli.entailment(pairs)
        return [_TOO_LONG if each is None else self._verdict(f"{each:.6f}") for each in probabilities]

    def read(self, raw: str) -> float:
        """Return the verdict of a `raw` with this judge's threshold; NaN for an empty one."""
        return float(self.probability(raw) >= self.threshold) if raw else math.nan

    @staticmethod
    def probability(raw: str) -> float:
        """Return the probability of yes in a `raw`; 0 for an empty one."""
        return float(raw or 0)


class NliSplitJudge(_NliJudge):
    """Judge of granularity: decompositions of a triple (see `decompositions`) whose parts it entails.

    A decomposition holds if all of its parts are entailed; the one with the most parts counts.
    """

    _kind = "nli-split-2"

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """Return one verdict per (text, triple): the number of sub-triples, 0 where it is one fact.

        `raw` has each decomposition, with the lowest probability of its parts. A triple that is too long for the model
        has no verdict, the status "prompt_too_long" and an empty `raw`.
        """
        decomposed = [(_sentence(json.loads(triple)), decompositions(json.loads(triple))) for _, triple in items]
        pairs = [(whole, _sentence(part)) for whole, ways in decomposed for parts in ways for part in parts]
        distinct = list(dict.fromkeys(pairs))
        entailed = dict(zip(distinct, self._nli.entailment(distinct), strict=True))
        verdicts = []
        for whole, ways in decomposed:
            stored: list[dict[str, object]] = []
            for parts in ways:
                probabilities = [entailed[whole, _sentence(part)] for part in parts]
                known = [each for each in probabilities if each is not None]
                if len(known) == len(parts):
                    stored.append({"sub_triples": parts, "entailment": round(min(known), 6)})
            raw = json.dumps(stored, ensure_ascii=False)
            verdicts.append(_TOO_LONG if len(stored) < len(ways) else self._verdict(raw))
        return verdicts

    def read(self, raw: str) -> float:
        """Return the verdict of a `raw` with this judge's threshold; NaN for an empty one."""
        if not raw:
            return math.nan
        ways = [len(way["sub_triples"]) for way in json.loads(raw) if way["entailment"] >= self.threshold]
        return float(max(ways, default=0))

    @staticmethod
    def probability(raw: str) -> float:
        """Return the probability of yes in a `raw`, that of its best decomposition; 0 for an empty one."""
        return max((float(way["entailment"]) for way in json.loads(raw or "[]")), default=0.0)


class NliModel:
    """A sequence-classification model with a label "entailment"."""

    def __init__(self, model: str, batch: int) -> None:
        try:
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError:
            raise missing_extra("transformers", "models") from None
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(model)
            self._model = AutoModelForSequenceClassification.from_pretrained(model).eval()
        except (OSError, ValueError) as error:
            raise unloadable(model, error) from error
        labels = {label.lower(): index for index, label in self._model.config.id2label.items()}
        if "entailment" not in labels:
            raise UsageError(
                f"{model} has the labels {', '.join(labels)}; expected one to be 'entailment'. Name an NLI model."
            )
        self._entailment, self._batch = labels["entailment"], batch
        limits = (self._tokenizer.model_max_length, getattr(self._model.config, "max_position_embeddings", 512), 512)
        self._window = min(limits)
        self._stride = self._window // 4
        folder = Path(model)
        commit = getattr(self._model.config, "_commit_hash", None)
        revision = folder_hash(folder) if folder.is_dir() else str(commit)
        self.name = f"{folder.name if folder.is_dir() else model}@{revision}"

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return the probability of entailment of each (premise, hypothesis), in order, in its best window.

        It is None where a hypothesis leaves no room for a window of its premise.
        """
        fits = self._fits(pairs)
        found = iter(self._best_windows([pair for pair, fit in zip(pairs, fits, strict=True) if fit]))
        return [next(found) if fit else None for fit in fits]

    def _fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return which pairs the tokenizer can cut into windows; it panics at others."""
        if not pairs:
            return []
        n_special = self._tokenizer.num_special_tokens_to_add(pair=True)
        hypotheses = self._tokenizer([each for _, each in pairs], add_special_tokens=False)["input_ids"]
        has_room = [self._window - n_special - len(ids) > self._stride for ids in hypotheses]
        return [
            room or len(self._tokenizer(*pair)["input_ids"]) <= self._window
            for pair, room in zip(pairs, has_room, strict=True)
        ]

    def _best_windows(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability of each pair, the highest of its windows."""
        import torch

        best: list[float] = []
        for start in range(0, len(pairs), self._batch):
            chunk = pairs[start : start + self._batch]
            encoded = self._tokenizer(
                [premise for premise, _ in chunk],
                [hypothesis for _, hypothesis in chunk],
                truncation="only_first",
                max_length=self._window,
                stride=self._stride,
                return_overflowing_tokens=True,
                padding=True,
                return_tensors="pt",
            )
            owners = encoded.pop("overflow_to_sample_mapping").tolist()
            with torch.inference_mode():
                probabilities = self._model(**encoded).logits.softmax(-1)[:, self._entailment].tolist()
            for i in range(len(chunk)):
                best.append(max(p for p, owner in zip(probabilities, owners, strict=True) if owner == i))
        return best


def _sentence(triple: Sequence[object]) -> str:
    return f"{' '.join(map(str, triple))}."


Triple = tuple[str, str, str]

_PREPOSITIONS = (
    r"about|above|across|after|against|along|among|around|as|at|because of|before|behind|below|beneath|beside|between|"
    r"beyond|by|during|except|for|from|in|inside|into|like|near|of|off|on|onto|opposite|outside|over|per|since|through|"
    r"throughout|to|towards?|under|until|upon|up|via|within|without|with"
)
_CLAUSES = r"that|which|whom|whose|who|where|when|while|because|but|than|if"
_JOINT = re.compile(r"\s*(?:[,;/&]|\bas well as\b|\band\b|\bor\b)\s*", re.IGNORECASE)
_CUT = re.compile(
    rf"(?<=\S)(?:\s+(?P<word>{_PREPOSITIONS}|{_CLAUSES})(?=\s)|\s*[()\[\]:–]|\s-\s)\s*(?=\S)", re.IGNORECASE
)
_PREPOSITION = re.compile(_PREPOSITIONS, re.IGNORECASE)
_AUXILIARIES = frozenset(
    "is are was were be been being has have had will would can could may might must should does do did not".split()
)
_ARTICLES = frozenset("a an the his her its their".split())


def decompositions(triple: object) -> list[list[Triple]]:
    """Return the decompositions of a triple into two or more sub-triples; none for a simple one.

    It is split at commas and conjunctions of its elements, at prepositions, clauses and brackets of head and tail,
    after the verb of its relation, and, without these, between the words of its tail outside of names. Each split is
    one decomposition; the last one combines several.

    >>> for parts in decompositions(["Bo", "paints", "birds and boats in Rome"]):
    ...     print(parts)
    [('Bo', 'paints', 'birds'), ('Bo', 'paints', 'boats in Rome')]
    [('Bo', 'paints', 'birds and boats'), ('birds and boats', 'in', 'Rome')]
    [('Bo', 'paints', 'birds'), ('Bo', 'paints', 'boats'), ('birds', 'in', 'Rome'), ('boats', 'in', 'Rome')]
    """
    if not isinstance(triple, list | tuple) or len(triple) != 3:
        return []
    head, relation, tail = map(str, triple)
    candidates: list[list[Triple]] = [
        [*product(_split_joints(head), _split_joints(relation), _split_joints(tail))],
        *([(head, relation, left), (left, word, right)] for left, word, right in _cuts(tail)),
        *([(left, relation, tail), (left, word, right)] for left, word, right in _cuts(head)),
        *_split_after_verb(head, relation, tail),
        *([(head, relation, left), (head, relation, right)] for left, right in _split_words(tail)),
        _split_everywhere(head, relation, tail),
    ]
    whole = [[part for part in dict.fromkeys(parts) if all(part)] for parts in candidates]
    return [parts for n, parts in enumerate(whole) if len(parts) > 1 and parts not in whole[:n]]


def _split_joints(text: str) -> list[str]:
    """Return the parts between commas and conjunctions."""
    return [part for part in _JOINT.split(text) if part.strip()] or [text]


def _cuts(text: str) -> Iterator[Triple]:
    """Yield (before, word, after) at each preposition, clause or bracket inside a text; brackets stand for "is"."""
    for match in _CUT.finditer(text):
        left, right = text[: match.start()].strip(" ()[]"), text[match.end() :].strip(" ()[]")
        if left and right:
            yield left, match["word"] or "is", right


def _split_after_verb(head: str, relation: str, tail: str) -> Iterator[list[Triple]]:
    """Yield [head, filed, lawsuits] and [head, filed in, court] for [head, filed lawsuits in, court]."""
    words = relation.split()
    verb = next((n for n, word in enumerate(words) if word.lower() not in _AUXILIARIES), len(words)) + 1
    end = len(words) - 1 if words and _PREPOSITION.fullmatch(words[-1]) else len(words)
    if words[verb:end]:
        verbs = words[:verb]
        yield [(head, " ".join(verbs), " ".join(words[verb:end])), (head, " ".join(verbs + words[end:]), tail)]


def _split_words(text: str) -> Iterator[tuple[str, str]]:
    """Yield (first word, others) and (others, last word), unless the cut is inside a name."""
    words = [] if _CUT.search(text) or len(_split_joints(text)) > 1 else text.split()
    for cut in sorted({1, len(words) - 1}) if len(words) > 1 else ():
        article = cut == 1 and words[0].lower() in _ARTICLES
        if not article and (words[cut - 1][0].islower() or words[cut][0].islower()):
            yield " ".join(words[:cut]), " ".join(words[cut:])


def _split_everywhere(head: str, relation: str, tail: str) -> list[Triple]:
    """Return the sub-triples of all cuts of the tail and all conjunctions together."""
    cuts = list(_CUT.finditer(tail))
    starts, ends = [0, *(cut.end() for cut in cuts)], [*(cut.start() for cut in cuts), len(tail)]
    pieces = [_split_joints(tail[start:end].strip(" ()[]")) for start, end in zip(starts, ends, strict=True)]
    words = [cut["word"] or "is" for cut in cuts]
    parts = [*product(_split_joints(head), _split_joints(relation), pieces[0])]
    for before, word, after in zip(pieces, words, pieces[1:], strict=False):
        parts += product(before, [word], after)
    return parts
