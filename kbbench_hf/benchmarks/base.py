"""The `Benchmark` value: facts and functions in five groups (facts, data, scoring, asking, showing); no inheritance.

Every package that is generic reads a benchmark through this value alone. It is the interface of plug-ins: a field may
be added with a default, and none renamed or removed. Also metrics of other packages (entry points `kbbench.metrics`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike

from kbbench_hf.addresses import plug_ins, plugged
from kbbench_hf.benchmarks.answers import Answer, AnswerKind, Id
from kbbench_hf.benchmarks.examples import Example as Example
from kbbench_hf.benchmarks.examples import Examples as Examples
from kbbench_hf.benchmarks.examples import Scores as Scores
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.aggregate import Estimate, means
from kbbench_hf.parsing.parsed_reply import ParsedReply
from kbbench_hf.protocols import Embedder

if TYPE_CHECKING:
    from kbbench_hf.benchmarks.annotated import AnnotationRules
    from kbbench_hf.benchmarks.audits import Audit
    from kbbench_hf.benchmarks.charts import Panels, ScoreTable, Section, Statistics
    from kbbench_hf.benchmarks.reviews import ReviewItems, ReviewQuestion
    from kbbench_hf.knowledge_base.documents import Rendering

ScoreFields = Mapping[str, Any]
"""One score as `result.json` has it: its `value`, and `ci95`, its interval."""
ConfigScores = Mapping[str, Mapping[str, ScoreFields]]
"""Config -> metric -> score: the results of one system."""
Result = Mapping[str, Any]
"""The content of `result.json`."""
Mark = Literal["right", "wrong", "not counted", "hallucinated"]
"""Verdict on a part of an answer; "not counted" is neither right nor wrong in the headline metric."""


class TaskKey(NamedTuple):
    """A benchmark's config, split and mode."""

    benchmark: str
    config: str
    split: str
    mode: str

    def __str__(self) -> str:
        """Return `benchmark/config/split/mode`."""
        return "/".join(self)


N_HEADLINE = 7
"""Number of metrics in tables where a benchmark names no headline metrics."""
N_SHOWN = 5
"""Least number of metrics in tables, where some headline metrics are not scored."""
ROOM_FOR_THOUGHT = 2048
"""Token limit for an answer of one number or word: reasoning models use it, others stop by themselves."""


@dataclass(frozen=True)
class Prompt:
    """A chat prompt with its token limit, reply schema and stop strings."""

    messages: Sequence[Mapping[str, Any]]
    max_tokens: int = 512
    json_schema: Mapping[str, object] | None = None
    """The JSON schema of the reply, for servers that can enforce one; None for free text."""
    stop: tuple[str, ...] = ()


def object_schema(**properties: object) -> dict[str, object]:
    """Return the JSON schema of an object with exactly these properties.

    >>> object_schema(supported={})
    {'type': 'object', 'properties': {'supported': {}}, 'required': ['supported'], 'additionalProperties': False}
    """
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


@dataclass(frozen=True)
class PromptOptions:
    """Options of prompts."""

    shots: int = 1
    demonstrations: Literal["leak-free", "mentioned", "similar", "random", "none"] = "leak-free"
    """Only where a benchmark has demonstrations; its published scores may use others than the default."""
    seed: int = 42
    mode: str = "reference"
    """The scoring mode; prompts may differ between modes."""


@dataclass(frozen=True)
class Explanation:
    """One example in a report."""

    question: list[tuple[str, bool]]
    """The input in pieces; True marks the evidence for the answer."""
    gold: list[str]
    answer: list[tuple[str, Mark]]
    """Each part of the answer with its verdict."""


class ScoredConfig(NamedTuple):
    """One system's results of one config."""

    result: Result
    """The content of its `result.json`."""
    values: Mapping[str, Mapping[Id, float]]
    """Metric -> example -> value, scored examples only; empty where only the scores are known."""


@dataclass(frozen=True)
class Testbed:
    """Configs that are run together, with summaries of their results."""

    __test__: ClassVar = False
    configs: Callable[[Sequence[str] | None], Sequence[str]]
    """(chosen parts, or None for all) -> the configs, in order."""
    sends: bool = True
    """Whether its configs are run; False where it only groups finished runs."""
    summary: Callable[[ConfigScores], list[str]] | None = None
    """The scores of each config -> sentences that summarize them."""
    table: "Callable[[Mapping[str, Result]], ScoreTable] | None" = None
    """Config -> result -> a table to show instead of the scores of each config."""
    panels: "Callable[[Mapping[str, ConfigScores]], Panels] | None" = None
    """System -> the scores of each config -> a plot."""


Systems = Mapping[str, Mapping[str, ScoredConfig]]
"""System -> config -> its results."""
PromptFunction = Callable[[Example, Examples, PromptOptions], Prompt]
ParseFunction = Callable[[str, Example], ParsedReply[Answer]]
"""(response, its example) -> the parsed reply; ParseError where the response has no answer."""
Builder = Callable[..., None]
"""(the release's folder or None to download it, the dataset folder to write, the configs to build or None for all), and
`revision=` where `Data.revisions` has several."""


def of_text(parse: Callable[[str], Answer]) -> ParseFunction:
    """Return a function of the response alone as a parser; the rule of its replies is the function's name."""
    return lambda response, example: ParsedReply(parse(response), parse.__name__)


def no_problem(examples: Examples, example_id: Id, answer: Answer) -> str | None:
    """Accept any answer, as for free text."""
    return None


@dataclass(frozen=True)
class Facts:
    """Title, source, license and citation of a benchmark."""

    dataset: str
    """The dataset's name without `kbbench/`."""
    title: str
    family: str = "Other"
    """Its tab on the board."""
    paper: str = ""
    homepage: str = ""
    license: str = ""
    redistributable: bool = True
    """Whether the license allows publishing examples and predictions; otherwise only scores are shown."""
    citation: str = ""
    licence: InitVar[str] = ""
    """The former name of `license`, accepted for one version."""

    def __post_init__(self, licence: str) -> None:
        """Take the license under its former name, if the new one is not given."""
        if licence and not self.license:
            warn("Facts(licence=...) is now Facts(license=...).", DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "license", licence)


Facts.licence = property(lambda self: self.license)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Data:
    """Configs and splits, and the functions that build, load, audit and review them."""

    configs: tuple[str, ...]
    """Configs that can be scored; the first is the default."""
    splits: tuple[str, ...]
    default_split: str
    load: Callable[[DatasetFolder, str, str], Examples]
    """(folder, config, split) -> examples."""
    build: Builder | None = None
    """Builds the dataset from its authors' release; None where it is shipped, or built elsewhere."""
    build_private: Builder | None = None
    """As `build`, and a seed: builds a private split with invented names."""
    revisions: tuple[int, ...] = ()
    """Revisions that `build` and `build_private` can make of the same release, oldest first; the last is the default.
    Empty where there is one."""
    build_archive: Callable[[Path, Path], None] | None = None
    """(archive, dataset folder to write): builds the knowledge base alone, from any archive of the release's format."""
    audit: "Audit | None" = None
    """Shortcut audit of the built dataset."""
    review: "ReviewItems | None" = None
    """Items of the built dataset for human review."""
    construction: Callable[[], Mapping[str, Any]] | None = None
    """Returns the spec for synthesizing more questions of its kind."""
    review_questions: "Sequence[ReviewQuestion]" = ()
    """The questions on each item; `reviews.QUESTIONS` where empty."""
    shipped: Path | None = None
    """The built dataset where the package contains it, with predictions of small systems in `predictions`."""
    runs: Path | None = None
    """Folder with runs of small language models on the default split, where the package has no dataset."""


@dataclass(frozen=True)
class Asking:
    """Prompts and parsers for language models, documents for retrievers."""

    prompts: Mapping[str, PromptFunction] = field(default_factory=dict)
    """Prompt name -> function; the first is the default. Empty for retrieval."""
    parsers: Mapping[str, ParseFunction] = field(default_factory=dict)
    """Parser name -> function; the first is the default."""
    with_similar_ids: Callable[[Examples, Embedder], Examples] | None = None
    """(examples, embedder) -> the examples with the demonstrations that are most similar by this embedder."""
    warn: Callable[[Examples, PromptOptions], list[ScoreWarning]] | None = None
    """(examples, options) -> warnings on prompts with these options, shown before any request."""
    documents: Mapping[str, Callable[[], "Rendering"]] = field(default_factory=dict)
    """Rendering name -> function that returns it: further forms of a node's document."""
    own_documents: str | None = None
    """The one with which the published scores were measured."""
    testbeds: Mapping[str, Testbed] = field(default_factory=dict)
    """Testbed name -> configs that are run together."""
    parts: tuple[str, ...] = ()
    """Choices of --subset: parts of a testbed."""


@dataclass(frozen=True)
class Scoring:
    """The metrics, their modes, and the warnings on scores."""

    answer: AnswerKind
    metrics: Mapping[str, str]
    """Result key -> label in tables, in the order of the paper's tables."""
    modes: tuple[str, ...]
    """Named scoring modes; the first, the authors' released behaviour, is the default."""
    score: Callable[[Examples, Sequence[Answer | None], str], Scores]
    """(examples, one answer per example or None where it is missing, mode) -> one value per example."""
    summarise: Callable[[Scores, str], Mapping[str, Estimate]] = lambda scores, mode: means(scores.values, scores.draws)
    """(scores, mode) -> the scores of the paper's tables, with intervals."""
    check: Callable[[Examples, Id, Answer], str | None] = no_problem
    """(examples, id, answer) -> the problem of a submitted answer, or None."""
    warn: Callable[["Benchmark", Examples, Sequence[Answer | None], str], list[ScoreWarning]] | None = None
    """(benchmark, examples, answers, mode) -> warnings on baselines and on habits that cost score, each measured."""
    annotations: "AnnotationRules | None" = None
    """Annotations by other models that metrics need, made by `kbbench annotate`."""
    headline: tuple[str, ...] = ()
    """The four to seven metrics that tables show by default, the one that ranks systems first; empty for the first
    seven."""
    group_by: str | None = None
    """The slice over whose keys scores are averaged (ontologies, say); None for a mean over examples."""
    lower_is_better: frozenset[str] = frozenset()
    """Metrics where lower is better."""
    unbounded: frozenset[str] = frozenset()
    """Metrics outside [0, 1]: counts and lengths."""
    metrics_in: Callable[[str], Collection[str]] | None = None
    """config -> its metrics; None where all configs have all."""


@dataclass(frozen=True)
class Showing:
    """Explanations, published scores, evaluation and statistics for reports and the board."""

    explain: Callable[[Examples, Example, Answer], Explanation] | None = None
    """(examples, example, answer) -> its explanation in a report; None where a report shows the rows as they are."""
    published: Path | None = None
    """CSV file of published scores; see `benchmarks.published`."""
    gold: str = ""
    """The published row of the gold itself, scored as a system; it is not ranked."""
    answered: frozenset[str] = frozenset()
    """Published systems whose predictions the release has; `build` writes them into the dataset's `predictions`."""
    evaluate_module: Path | None = None
    """The folder of its metric as an `evaluate` module, where another package has one."""
    evaluation: "Callable[[Systems, DatasetFolder | None, str], Sequence[Section]] | None" = None
    """(systems, the dataset if it is local, split) -> the tables and plots of its paper."""
    published_evaluation: "Callable[[], Sequence[Section]] | None" = None
    """The same from the authors' published scores."""
    statistics: "Callable[[DatasetFolder], Statistics] | None" = None
    """Folder -> the dataset's size, lengths and diversity, for `kbbench report NAME --dataset`."""
    names: Path | None = None
    """TOML file with a line on each mode, prompt, parser, testbed and slice, for `kbbench list NAME`."""
    errors: "Callable[[Examples, Sequence[Answer | None]], ScoreTable] | None" = None
    """(examples, answers) -> counts of errors by class."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: facts, and the functions that load, prompt, score and show its examples."""

    facts: Facts
    data: Data
    scoring: Scoring
    asking: Asking = field(default_factory=Asking)
    showing: Showing = field(default_factory=Showing)

    @property
    def dataset(self) -> str:
        """The dataset's name without `kbbench/`."""
        return self.facts.dataset

    @property
    def title(self) -> str:
        """Its name in tables."""
        return self.facts.title

    @property
    def metrics(self) -> Mapping[str, str]:
        """Result key -> label in tables, in the order of the paper's tables."""
        return self.scoring.metrics

    def metrics_of(self, config: str) -> Mapping[str, str]:
        """Return the metrics that are scored in a config, with their labels, in the order of the tables."""
        scored = self.scoring.metrics_in(config) if self.scoring.metrics_in else self.metrics
        return {metric: label for metric, label in self.metrics.items() if metric in scored}

    def headline_metrics(self, scored: Collection[str]) -> list[str]:
        """Return the metrics that tables show by default, of those that are scored, in the order of the tables.

        Where the headline metrics are not all scored, other metrics follow, five in all.
        """
        wanted = self.scoring.headline or [*self.metrics][:N_HEADLINE]
        headline = [metric for metric in wanted if metric in scored]
        if len(headline) < len(wanted):
            others = [metric for metric in self.metrics if metric in scored and metric not in headline]
            headline += others[: max(0, N_SHOWN - len(headline))]
        return [metric for metric in self.metrics if metric in headline]

    def metric_names(self, wanted: Iterable[str]) -> list[str]:
        """Return metrics that are given by their names or labels, in the order given.

        Raises:
            UsageError: the benchmark has no such metric.
        """
        by_label = {label.casefold(): metric for metric, label in self.metrics.items()}
        chosen = [by_label.get(each.casefold(), each) for each in wanted]
        for each in chosen:
            if each not in self.metrics:
                raise unknown_name(f"metric of {self.dataset}", each, self.metrics)
        return chosen

    @property
    def headline(self) -> str:
        """The metric that ranks systems: the first of the table."""
        return next(iter(self.scoring.metrics))

    def __repr__(self) -> str:
        """Return its name and kind of answer."""
        return f"<Benchmark {self.dataset}: {self.title}, answered by {self.scoring.answer.field}>"


PLUGGED_METRICS = "kbbench.metrics"
"""The entry points: metric key = package.module:value, a `Metric`."""


@dataclass(frozen=True)
class Metric:
    """A metric that a package adds to benchmarks; its key in results is the name of its entry point."""

    label: str
    """Its name in tables."""
    datasets: Collection[str]
    """The benchmarks that it is added to, by dataset name."""
    score: Callable[[Examples, Sequence[Answer | None], str], ArrayLike]
    """(examples, answers, None where one is missing, mode) -> one value per example; NaN where it is not scored."""
    lower_is_better: bool = False
    unbounded: bool = False
    """Whether values can leave [0, 1]."""


def with_plugged_metrics(found: Benchmark) -> Benchmark:
    """Return a benchmark with the metrics that other packages add to it; itself if there are none.

    A metric that cannot be imported, is no `Metric`, or has the key of a metric of the benchmark is left out with a
    warning.
    """
    for key, address in plug_ins(PLUGGED_METRICS).items():
        try:
            metric = _imported_metric(key, address)
            if found.dataset in metric.datasets:
                found = _with_metric(found, key, metric)
        except UsageError as error:
            warn(f"{error} The metric {key!r} is left out.", stacklevel=3)
    return found


def _imported_metric(key: str, address: str) -> Metric:
    """Return the metric of an entry point; UsageError where it is none."""
    metric = plugged("metric", key, address)
    if not isinstance(metric, Metric):
        raise UsageError(
            f"{address}, the metric {key!r} of another package, is a {type(metric).__name__}; expected a "
            "kbbench_hf.Metric. Fix the package that provides it."
        )
    return metric


def _with_metric(found: Benchmark, key: str, metric: Metric) -> Benchmark:
    """Return a benchmark that also scores a metric, averaged as a plain mean; UsageError where it has the key."""
    scoring = found.scoring
    if key in scoring.metrics:
        raise UsageError(
            f"{found.dataset} has a metric {key!r} of its own. Rename the entry point of {PLUGGED_METRICS}."
        )

    def score(examples: Examples, answers: Sequence[Answer | None], mode: str) -> Scores:
        values = np.asarray(metric.score(examples, answers, mode), np.float64)
        if values.shape != (len(examples.rows),):
            raise UsageError(
                f"The metric {key!r} returned an array of shape {values.shape}; expected one value per example, "
                f"({len(examples.rows)},). Fix the package that provides it."
            )
        scores = scoring.score(examples, answers, mode)
        return replace(scores, values={**scores.values, key: values})

    def summarize(scores: Scores, mode: str) -> Mapping[str, Estimate]:
        own = {name: values for name, values in scores.values.items() if name != key}
        return {**scoring.summarise(replace(scores, values=own), mode), **means({key: scores.values[key]})}

    def scored_metrics(config: str) -> Collection[str]:
        return [*(scoring.metrics_in(config) if scoring.metrics_in else scoring.metrics), key]

    extended = replace(
        scoring,
        metrics={**scoring.metrics, key: metric.label},
        score=score,
        summarise=summarize,
        metrics_in=scored_metrics,
        lower_is_better=scoring.lower_is_better | ({key} if metric.lower_is_better else set()),
        unbounded=scoring.unbounded | ({key} if metric.unbounded else set()),
    )
    return replace(found, scoring=extended)
