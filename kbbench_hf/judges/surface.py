"""Surface baseline of judges: logistic regression on the form of a triple and its word overlap with the text.

It needs no other model. A judge is useful where it agrees better with the released verdicts than this one, whose
agreement is low. `surface.json` has the weights and the agreement, which belong to these features in this order.
`runners.judge` builds the judge, `runners.calibration` compares others with it.
Source: fitted on the verdicts of pat-jj/GenRES, commit 7824249, by `tests/golden/make_surface.py`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kbbench_hf.benchmarks.judge_agreement import JudgeAgreement
from kbbench_hf.metrics.agreement import agreeing_threshold
from kbbench_hf.protocols import Verdict

Item = tuple[str, str]
"""(text, triple as JSON)."""
SURFACE = "surface"
OTHER = "other"
"""The name of the model of all corpora together, for other texts."""
_WORD = re.compile(r"\w+")
_JOINT = re.compile(r"[,;&/]|\b(?:and|or)\b", re.IGNORECASE)
PREPOSITION = re.compile(
    r"\b(?:about|after|against|among|as|at|before|between|by|during|for|from|in|into|of|on|over|through|to|under|via|"
    r"with|within|without)\b",
    re.IGNORECASE,
)
_FITTED = Path(__file__).with_name("surface.json")
_Floats = NDArray[np.float64]


def fact_features(items: Sequence[Item]) -> _Floats:
    """Return the features of factualness of each item, shape (items, 8).

    Shares of the words of triple, head and tail, and relation that occur in the text; whether head and tail occur
    verbatim; whether they are equal; number of words of the triple; whether an element is empty.

    >>> fact_features([("Paris is in France.", '["Paris", "lies in", "France"]')]).tolist()
    [[0.75, 1.0, 0.5, 1.0, 1.0, 0.0, 4.0, 0.0]]
    """
    return np.array([_fact_row(text, *_elements(triple)) for text, triple in items], dtype=np.float64).reshape(-1, 8)


def split_features(items: Sequence[Item]) -> _Floats:
    """Return the features of granularity of each triple, shape (items, 7).

    Numbers of commas and conjunctions, and of words, in head, relation and tail; whether the tail has a preposition.

    >>> split_features([("", '["Ann and Bo", "wrote", "songs of love, and war"]')]).tolist()
    [[1.0, 0.0, 2.0, 3.0, 1.0, 5.0, 1.0]]
    """
    rows = []
    for _, triple in items:
        elements = _elements(triple)
        joints, words = ([len(kind.findall(each)) for each in elements] for kind in (_JOINT, _WORD))
        rows.append([*joints, *words, PREPOSITION.search(elements[2]) is not None])
    return np.array(rows, dtype=np.float64).reshape(-1, 7)


FEATURES = {"factualness": fact_features, "granularity": split_features}


@dataclass(frozen=True)
class Logistic:
    """A logistic model; probabilities of at least `threshold` are a yes."""

    weights: tuple[float, ...]
    intercept: float
    threshold: float = 0.5

    def probabilities(self, features: _Floats) -> _Floats:
        """Return the probability of yes for each row of features."""
        from scipy.special import expit

        probabilities: _Floats = expit(features @ np.array(self.weights) + self.intercept)
        return probabilities

    def says(self, features: _Floats) -> NDArray[np.bool_]:
        """Return the prediction for each row of features."""
        return self.probabilities(features) >= self.threshold


def fit_logistic(features: _Floats, truth: ArrayLike) -> Logistic:
    """Return the logistic model of these items, with the threshold of the best agreement.

    The standardized features have a ridge penalty of 1, which matters only with few items.

    >>> model = fit_logistic(np.array([[0.0], [1.0], [2.0], [3.0]]), [False, False, True, True])
    >>> model.says(np.array([[0.5], [2.5]])).tolist()
    [False, True]
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    labels = np.asarray(truth, dtype=np.float64)
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread == 0] = 1.0
    rows = np.hstack([(features - mean) / spread, np.ones((len(features), 1))])
    penalty = np.append(np.ones(features.shape[1]), 0.0)

    def loss(weights: _Floats) -> tuple[float, _Floats]:
        logits = rows @ weights
        value = np.logaddexp(0.0, logits) @ np.ones(len(rows)) - labels @ logits + 0.5 * penalty @ weights**2
        return float(value), rows.T @ (expit(logits) - labels) + penalty * weights

    solution = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x
    weights = solution[:-1] / spread
    model = Logistic(tuple(weights.tolist()), float(solution[-1] - weights @ mean))
    return Logistic(model.weights, model.intercept, agreeing_threshold(labels, model.probabilities(features)))


class SurfaceJudge:
    """Judge of triples by their surface, with the model of a corpus.

    Args:
        kind: `factualness` or `granularity`.
        corpus: a corpus of `surface.json`; for any other name, the model of all of them together.
    """

    def __init__(self, kind: str, corpus: str) -> None:
        fitted = _load_models()[kind]
        known = fitted.get(corpus, fitted[OTHER])
        self.corpus = corpus if corpus in fitted else OTHER
        self.agreement = JudgeAgreement.of(known["agreement"])
        """Its agreement with the released verdicts, on held-out items."""
        self._kind = kind
        self._model = Logistic(tuple(known["weights"]), known["intercept"], known["threshold"])
        digest = sha256(json.dumps([known[each] for each in ("weights", "intercept", "threshold")]).encode("ascii"))
        self.name = f"{SURFACE}:{self.corpus}@{digest.hexdigest()[:12]}"

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """Return one verdict per (text, triple): 1 supported and 0 not, or 2 sub-triples and 0 for one fact.

        `raw` has the probability of yes.
        """
        probabilities = self._model.probabilities(FEATURES[self._kind](items))
        yes = 1.0 if self._kind == "factualness" else 2.0
        return [
            Verdict(yes * bool(each >= self._model.threshold), "ok", f"{each:.6f}") for each in probabilities.tolist()
        ]


@cache
def _load_models() -> Mapping[str, Mapping[str, Any]]:
    """Return kind -> corpus -> weights, intercept, threshold and agreement."""
    fitted: Mapping[str, Mapping[str, Any]] = json.loads(_FITTED.read_text(encoding="utf-8"))
    return fitted


def _elements(triple: str) -> tuple[str, str, str]:
    value = json.loads(triple)
    head, relation, tail, *_ = [*map(str, value if isinstance(value, list) else [value]), "", "", ""]
    return head, relation, tail


@lru_cache(maxsize=1024)
def _text_words(text: str) -> tuple[str, frozenset[str]]:
    lowered = text.lower()
    return lowered, frozenset(_WORD.findall(lowered))


def _fact_row(text: str, head: str, relation: str, tail: str) -> list[float]:
    lowered, words = _text_words(text)
    head, relation, tail = (each.lower().strip() for each in (head, relation, tail))
    ends, between = _WORD.findall(f"{head} {tail}"), _WORD.findall(relation)

    def share(tokens: list[str]) -> float:
        return sum(word in words for word in tokens) / len(tokens) if tokens else 0.0

    return [
        *map(share, (ends + between, ends, between)),
        head in lowered,
        tail in lowered,
        head == tail,
        len(ends) + len(between),
        not (head and relation and tail),
    ]
