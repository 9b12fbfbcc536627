"""Natural-language-inference models as local judges of triples: is it a fact of the text, is it several facts?"""

import json
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Self

from kbbench_hf.errors import UsageError, missing_extra
from kbbench_hf.models.embedders import folder_hash
from kbbench_hf.models.judges import Item
from kbbench_hf.models.splits import decompositions
from kbbench_hf.protocols import Verdict

DEFAULT_THRESHOLD = 0.5


class _NliJudge:
    """A judge that asks a natural-language-inference model.

    Args:
        model: a sequence-classification model, by its name on the Hub or a folder; one label must be "entailment".
        threshold: the probability of entailment from which a statement holds; 0.5, or what a calibration finds.
        batch: pairs per forward pass.
    """

    _kind: str

    def __init__(self, model: str, threshold: float | None = None, batch: int = 16) -> None:
        self._nli = _Nli(model, batch)
        self._set(DEFAULT_THRESHOLD if threshold is None else threshold)
        self.chosen = threshold is not None
        """Whether its threshold was chosen by hand, and no calibration may change it."""
        self.untuned = f"{self._kind}:{self._nli.name}"
        """What it is called whatever its threshold."""

    def at(self, threshold: float) -> Self:
        """Return the same judge with another threshold."""
        other = copy(self)
        other._set(threshold)
        return other

    def _set(self, threshold: float) -> None:
        self.threshold = threshold
        self.name = f"{self._kind}:{self._nli.name}@threshold={threshold}"


class NliFactJudge(_NliJudge):
    """Says whether a text entails a triple, read out as a sentence.

    A text longer than the model reads is cut into overlapping windows; the best window counts.
    """

    _kind = "nli-fact"

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """Return one verdict per (text, triple): 1 supported, 0 not; `raw` has the probability of entailment."""
        pairs = [(text, _sentence(json.loads(triple))) for text, triple in items]
        raws = [f"{probability:.6f}" for probability in self._nli.entailment(pairs)]
        return [Verdict(self.read(raw), "ok", raw) for raw in raws]

    def read(self, raw: str) -> float:
        """Return the verdict that a `raw` comes to with this judge's threshold."""
        return float(self.probability(raw) >= self.threshold)

    @staticmethod
    def probability(raw: str) -> float:
        """Return the probability of yes that a `raw` has."""
        return float(raw)


class NliSplitJudge(_NliJudge):
    """Takes a triple apart where it is written as several (see `splits`), and asks whether it entails the parts.

    A way to take it apart holds if every one of its parts is entailed; the one with the most parts counts.
    """

    _kind = "nli-split-2"

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """Return one verdict per (text, triple): the number of sub-triples, 0 where it is one fact.

        `raw` has each way to take it apart, with the probability of its least entailed part.
        """
        found = [(_sentence(json.loads(triple)), decompositions(json.loads(triple))) for _, triple in items]
        pairs = [(whole, _sentence(part)) for whole, ways in found for parts in ways for part in parts]
        distinct = list(dict.fromkeys(pairs))
        entailed = dict(zip(distinct, self._nli.entailment(distinct), strict=True))
        verdicts = []
        for whole, ways in found:
            least = [min(entailed[whole, _sentence(part)] for part in parts) for parts in ways]
            taken = [
                {"sub_triples": parts, "entailment": round(each, 6)} for parts, each in zip(ways, least, strict=True)
            ]
            raw = json.dumps(taken, ensure_ascii=False)
            verdicts.append(Verdict(self.read(raw), "ok", raw))
        return verdicts

    def read(self, raw: str) -> float:
        """Return the verdict that a `raw` comes to with this judge's threshold."""
        ways = [len(way["sub_triples"]) for way in json.loads(raw) if way["entailment"] >= self.threshold]
        return float(max(ways, default=0))

    @staticmethod
    def probability(raw: str) -> float:
        """Return the probability of yes that a `raw` has: of its most entailed way."""
        return max((float(way["entailment"]) for way in json.loads(raw)), default=0.0)


class _Nli:
    """A sequence-classification model that knows which of its labels is entailment."""

    def __init__(self, model: str, batch: int) -> None:
        try:
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError:
            raise missing_extra("transformers", "models") from None
        self._tokenizer = AutoTokenizer.from_pretrained(model)
        self._model = AutoModelForSequenceClassification.from_pretrained(model).eval()
        labels = {label.lower(): index for index, label in self._model.config.id2label.items()}
        if "entailment" not in labels:
            raise UsageError(
                f"{model} has the labels {', '.join(labels)}; expected one to be 'entailment'. Name an NLI model."
            )
        self._entailment = labels["entailment"]
        self._batch = batch
        limits = (self._tokenizer.model_max_length, getattr(self._model.config, "max_position_embeddings", 512), 512)
        self._window = min(limits)
        folder = Path(model)
        commit = getattr(self._model.config, "_commit_hash", None)
        revision = folder_hash(folder) if folder.is_dir() else str(commit)
        self.name = f"{folder.name if folder.is_dir() else model}@{revision}"

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return for each (premise, hypothesis) the probability of entailment, of its best window."""
        import torch

        best: list[float] = []
        for start in range(0, len(pairs), self._batch):
            chunk = pairs[start : start + self._batch]
            encoded = self._tokenizer(
                [premise for premise, _ in chunk],
                [hypothesis for _, hypothesis in chunk],
                truncation="only_first",
                max_length=self._window,
                stride=self._window // 4,
                return_overflowing_tokens=True,
                padding=True,
                return_tensors="pt",
            )
            owners = encoded.pop("overflow_to_sample_mapping").tolist()
            with torch.inference_mode():
                probabilities = self._model(**encoded).logits.softmax(-1)[:, self._entailment].tolist()
            best += [
                max(p for p, owner in zip(probabilities, owners, strict=True) if owner == i) for i in range(len(chunk))
            ]
        return best


def _sentence(triple: Sequence[object]) -> str:
    return f"{' '.join(map(str, triple))}."
