"""What a benchmark is: a frozen value made of facts and functions. There is no base class to inherit from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.dataset_folder import DatasetFolder
from kbbench_hf.metrics.aggregate import Estimate, means
from kbbench_hf.protocols import Embedder

Example = Mapping[str, Any]
Answer = Any
"""What a model answered, parsed: ranked ids, triples, or a list of answers, as `Benchmark.answer` says."""


class ParseError(ValueError):
    """A model's text holds no answer; the text is kept, counted and scored as wrong."""


@dataclass(frozen=True)
class Examples:
    """The examples of one split, and whatever scoring needs once for all of them (ontologies, candidates)."""

    rows: list[dict[str, Any]]
    context: Any = None

    @property
    def ids(self) -> list[Any]:
        """The id of each example, in order."""
        return [row["id"] for row in self.rows]


@dataclass(frozen=True)
class Scores:
    """One value per example and metric, in the order of the examples; NaN means "not scored"."""

    values: Mapping[str, NDArray[np.float64]]
    slices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    at_least: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """For metrics with values that the predictions leave open (NaN): the column with the least these can be."""

    def compared(self, metric: str) -> NDArray[np.float64]:
        """Return the column by which systems are compared: without it, open values would leave the comparison."""
        return self.at_least.get(metric, self.values[metric])

    def of(self, chosen: NDArray[np.bool_]) -> "Scores":
        """Return the scores of the chosen examples."""
        return Scores(
            {metric: values[chosen] for metric, values in self.values.items()},
            {name: np.asarray(keys)[chosen].tolist() for name, keys in self.slices.items()},
            {},
            {metric: values[chosen] for metric, values in self.at_least.items()},
        )


@dataclass(frozen=True)
class Prompt:
    """A chat prompt, and what the runner may make of it."""

    messages: list[dict[str, str]]
    max_tokens: int = 512
    json_schema: Mapping[str, Any] | None = None
    """The schema that a reply follows, for servers that can enforce one; None where the reply is free text."""
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromptOptions:
    """The choices a user has in how an example is put to a model."""

    shots: int = 1
    demonstrations: Literal["similar", "leak-free", "random", "none"] = "similar"
    seed: int = 42


@dataclass(frozen=True)
class Explanation:
    """One example as a person reads it in a report."""

    question: list[tuple[str, bool]]
    """The input in pieces; True marks what the answer rests on."""
    gold: list[str]
    answer: list[tuple[str, Literal["right", "wrong", "hallucinated"]]]
    """Each part of the answer, and what it is."""


PromptFunction = Callable[[Example, Examples, PromptOptions], Prompt]
ParseFunction = Callable[[str, Example], Answer]


def of_text(parse: Callable[[str], Answer]) -> ParseFunction:
    """Return a parser that needs the response alone as one that is also given the example."""
    return lambda response, example: parse(response)


def no_problem(examples: Examples, example_id: Any, answer: Answer) -> str | None:
    """Accept any answer: the check of a benchmark whose answers are free text."""
    return None


def _means(scores: Scores, mode: str) -> Mapping[str, Estimate]:
    return means(scores.values)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: facts for people, and the functions that load, ask, read and score its examples."""

    dataset: str
    """The dataset's name without `kbbench/`."""
    title: str
    paper: str
    homepage: str
    licence: str
    citation: str
    configs: tuple[str, ...]
    """Configs that can be scored; the first is the default."""
    splits: tuple[str, ...]
    default_split: str
    modes: tuple[str, ...]
    """Named scoring modes; the first, the authors' released behaviour, is the default."""
    answer: Literal["ids", "triples", "answers"]
    """The field of a predictions file that holds the parsed answer."""
    metrics: Mapping[str, str]
    """Result key -> label in tables, in the order of the paper's tables."""
    load: Callable[[DatasetFolder, str, str], Examples]
    """(folder, config, split) -> examples."""
    score: Callable[[Examples, Sequence[Answer | None], str], Scores]
    """(examples, one answer per example or None where it is missing, mode) -> one value per example."""
    summarise: Callable[[Scores, str], Mapping[str, Estimate]] = _means
    """(scores, mode) -> the figures of the paper's tables, with intervals."""
    check: Callable[[Examples, Any, Answer], str | None] = no_problem
    """(examples, id, answer) -> what is wrong with a submitted answer, in words, or None."""
    prompts: Mapping[str, PromptFunction] = field(default_factory=dict)
    """Prompt name -> function; the first is the default. Empty where nothing is generated."""
    parsers: Mapping[str, ParseFunction] = field(default_factory=dict)
    """Parser name -> function from a response and its example to an answer; the first is the default; ParseError
    where the response holds none."""
    with_similar_ids: Callable[[Examples, Embedder], Examples] | None = None
    """(examples, embedder) -> the examples with demonstrations that this embedder finds similar; None where the
    benchmark has no demonstrations to choose."""
    warn: Callable[["Benchmark", Examples, Sequence[Answer | None]], list[str]] | None = None
    """(this benchmark, examples, answers) -> sentences on habits that cost these answers some of their score."""
    read_annotations: Callable[[Examples, Path], Examples] | None = None
    """(examples, folder) -> the examples with what models said of these predictions; None where no metric needs it."""
    identities: Callable[[Examples], Mapping[str, str]] | None = None
    """examples -> what figures depend on besides data and predictions (embedder, judge, ...): kind -> identity.
    Figures with different identities must not be compared."""
    strict_triples: bool = True
    """Whether every triple of an answer must be three strings. False where the metric defines what all else means."""
    explain: Callable[[Examples, Example, Answer], Explanation] | None = None
    """(examples, example, answer) -> what a report shows of it; None where a report shows the rows as they are."""
    group_by: str | None = None
    """The slice over whose keys the figures are averaged (ontologies, say); None for a plain mean over examples."""
    lower_is_better: frozenset[str] = frozenset()
    """Metrics of which less is better."""

    @property
    def headline(self) -> str:
        """The metric by which systems are ranked: the first of the table."""
        return next(iter(self.metrics))
