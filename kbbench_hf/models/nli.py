"""Natural-language-inference models as local judges of triples: is it a fact of the text, is it several facts?"""

import json
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from kbbench_hf.errors import UsageError, missing_extra
from kbbench_hf.models.embedders import folder_hash
from kbbench_hf.models.judges import Item
from kbbench_hf.protocols import Verdict

_JOINT = re.compile(r"\s*(?:[,;]|\band\b|\bor\b)\s*")


class _NliJudge:
    """A judge that asks a natural-language-inference model.

    Args:
        model: a sequence-classification model, by its name on the Hub or a folder; one label must be "entailment".
        threshold: the probability of entailment from which a statement holds.
        batch: pairs per forward pass.
    """

    _kind: str

    def __init__(self, model: str, threshold: float = 0.5, batch: int = 16) -> None:
        self._nli = _Nli(model, batch)
        self._threshold = threshold
        self.name = f"{self._kind}:{self._nli.name}@threshold={threshold}"


class NliFactJudge(_NliJudge):
    """Says whether a text entails a triple, read out as a sentence.

    A text longer than the model reads is cut into overlapping windows; the best window counts.
    """

    _kind = "nli-fact"

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """Return one verdict per (text, triple): 1 supported, 0 not; `raw` has the probability of entailment."""
        pairs = [(text, _sentence(json.loads(triple))) for text, triple in items]
        return [
            Verdict(float(probability >= self._threshold), "ok", f"{probability:.6f}")
            for probability in self._nli.entailment(pairs)
        ]


class NliSplitJudge(_NliJudge):
    """Splits a triple at its commas and conjunctions, and counts the parts that the whole entails."""

    _kind = "nli-split"

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """Return one verdict per (text, triple): the number of sub-triples, 0 where it is one fact."""
        parts = [_parts(json.loads(triple)) for _, triple in items]
        pairs = [
            (_sentence(json.loads(triple)), _sentence(part))
            for (_, triple), candidates in zip(items, parts, strict=True)
            for part in candidates
        ]
        probabilities = iter(self._nli.entailment(pairs))
        verdicts = []
        for candidates in parts:
            entailed = [part for part in candidates if next(probabilities) >= self._threshold]
            verdicts.append(Verdict(float(len(entailed)), "ok", json.dumps(entailed, ensure_ascii=False)))
        return verdicts


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


def _parts(triple: Sequence[object]) -> list[list[str]]:
    """Return the triples that the commas and conjunctions of head and tail make; none where there is only one."""
    if len(triple) != 3:
        return []
    head, relation, tail = map(str, triple)
    heads, tails = ([part for part in _JOINT.split(text) if part] for text in (head, tail))
    parts = [[h, relation, t] for h, t in product(heads, tails)]
    return parts if len(parts) > 1 else []
