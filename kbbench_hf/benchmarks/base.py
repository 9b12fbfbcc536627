"""What a benchmark is: a frozen value made of facts and functions, in five groups. No base class is to be inherited."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.answers import Answer, AnswerKind, Id
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import DatasetFolder, Row
from kbbench_hf.metrics.aggregate import Estimate, means
from kbbench_hf.parsing.parsed_reply import ParsedReply
from kbbench_hf.protocols import Embedder

if TYPE_CHECKING:
    from kbbench_hf.benchmarks.annotations import Annotations
    from kbbench_hf.benchmarks.audits import Audit
    from kbbench_hf.benchmarks.charts import FigureTable, Panels, Section, Statistics
    from kbbench_hf.benchmarks.reviews import Question, ReviewItems
    from kbbench_hf.knowledge_base.documents import Rendering
    from kbbench_hf.metrics.votes import Vote

Example = Mapping[str, Any]
"""A row as a benchmark reads it."""
Figure = Mapping[str, Any]
"""One figure as `result.json` has it: its `value`, and `ci95`, its interval."""
Figures = Mapping[str, Mapping[str, Figure]]
"""Config -> metric -> figure: the results of one system."""
Result = Mapping[str, Any]
"""What `result.json` holds."""
Mark = Literal["right", "wrong", "not counted", "hallucinated"]
"""What a part of an answer is; "not counted" is neither right nor wrong in the headline metric."""


class Place(NamedTuple):
    """A benchmark's config, split and mode."""

    benchmark: str
    config: str
    split: str
    mode: str

    def __str__(self) -> str:
        """Return it as it stands in addresses: `benchmark/config/split/mode`."""
        return "/".join(self)


@dataclass(frozen=True)
class Examples:
    """The examples of one split, and whatever scoring needs once for all of them (ontologies, candidates)."""

    rows: list[Row]
    context: Any = None
    annotations: "Annotations | None" = None
    """What models said of the predictions that are scored; None where nothing was said, or nothing is needed."""
    mode: str = ""
    """The scoring mode that explanations follow; empty for the default mode."""

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
    draws: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """For metrics that rest on something drawn, such as the seeds of topic models: the values of each draw, shape
    (draws, examples). `values` holds their mean."""

    def compared(self, metric: str) -> NDArray[np.float64]:
        """Return what systems are compared by: a column in which no value is open, or one for each draw, as rows."""
        return self.draws.get(metric, self.at_least.get(metric, self.values[metric]))

    def of(self, chosen: NDArray[np.bool_]) -> "Scores":
        """Return the scores of the chosen examples."""
        return Scores(
            {metric: values[chosen] for metric, values in self.values.items()},
            {name: np.asarray(keys)[chosen].tolist() for name, keys in self.slices.items()},
            {},
            {metric: values[chosen] for metric, values in self.at_least.items()},
            {metric: values[:, chosen] for metric, values in self.draws.items()},
        )


N_HEADLINE = 7
"""How many metrics tables show by default where a benchmark names no headline metrics."""
N_SHOWN = 5
"""How many they show at least, where headline metrics are not scored and others are."""
ROOM_FOR_THOUGHT = 2048
"""How long an answer of one number or word may be: models that think do so within it, others stop by themselves."""


@dataclass(frozen=True)
class Prompt:
    """A chat prompt, and what the runner may make of it."""

    messages: Sequence[Mapping[str, Any]]
    max_tokens: int = 512
    json_schema: Mapping[str, object] | None = None
    """The schema that a reply follows, for servers that can enforce one; None where the reply is free text."""
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromptOptions:
    """The choices a user has in how an example is put to a model."""

    shots: int = 1
    demonstrations: Literal["leak-free", "similar", "random", "none"] = "leak-free"
    """Only where a benchmark has some to choose; its published figures may rest on others than the default."""
    seed: int = 42
    mode: str = "reference"
    """The mode in which the answers are to be scored: what is asked may differ, as what is scored does."""


@dataclass(frozen=True)
class Explanation:
    """One example as a person reads it in a report."""

    question: list[tuple[str, bool]]
    """The input in pieces; True marks what the answer rests on."""
    gold: list[str]
    answer: list[tuple[str, Mark]]
    """Each part of the answer, and what it is."""


class ScoredConfig(NamedTuple):
    """One system's results of one config."""

    result: Result
    """As `result.json` has them."""
    values: Mapping[str, Mapping[Id, float]]
    """Metric -> example -> value, without those that were not scored; empty where only figures are known."""


@dataclass(frozen=True)
class Testbed:
    """Configs that are run together, and what their results say together."""

    __test__: ClassVar = False
    configs: Callable[[Sequence[str] | None], Sequence[str]]
    """(parts asked for, or None for all) -> the configs, in order."""
    sends: bool = True
    """Whether its configs are run; False where finished runs of theirs are only sorted."""
    summary: Callable[[Figures], list[str]] | None = None
    """The scores of each config -> sentences on what they say together."""
    table: "Callable[[Mapping[str, Result]], FigureTable] | None" = None
    """Config -> result -> a table to show instead of the figures of each config."""
    panels: "Callable[[Mapping[str, Figures]], Panels] | None" = None
    """System -> the scores of each config -> a picture."""


class TopicCorpus(NamedTuple):
    """What a topic model is trained on."""

    texts: Sequence[str]
    name: str
    """What they are, in words."""
    instead_of: str = ""
    """What the figures' authors trained on, where that is not at hand; empty where this is it."""


Systems = Mapping[str, Mapping[str, ScoredConfig]]
"""System -> config -> its results."""
PromptFunction = Callable[[Example, Examples, PromptOptions], Prompt]
ParseFunction = Callable[[str, Example], ParsedReply[Answer]]
"""(response, its example) -> what was read; ParseError where the response holds no answer."""
Builder = Callable[[Path | None, Path, Sequence[str] | None], None]
"""(the release's folder or None to download it, the dataset folder to write, the configs to build or None for all)."""


def of_text(parse: Callable[[str], Answer]) -> ParseFunction:
    """Return a function that needs the response alone as a parser: what it reads is read by the rule of its name."""
    return lambda response, example: ParsedReply(parse(response), parse.__name__)


def no_problem(examples: Examples, example_id: Id, answer: Answer) -> str | None:
    """Accept any answer: the check of a benchmark whose answers are free text."""
    return None


def _means(scores: Scores, mode: str) -> Mapping[str, Estimate]:
    return means(scores.values, scores.draws)


@dataclass(frozen=True)
class Facts:
    """Title, source, license and citation of a benchmark."""

    dataset: str
    """The dataset's name without `kbbench/`."""
    title: str
    family: str = "Other"
    """The tab of the board under which it stands."""
    paper: str = ""
    homepage: str = ""
    license: str = ""
    redistributable: bool = True
    """Whether the license allows to publish examples and predictions; otherwise only scores are shown."""
    citation: str = ""


@dataclass(frozen=True)
class Data:
    """What is measured on: configs, splits, where they come from and how they are read."""

    configs: tuple[str, ...]
    """Configs that can be scored; the first is the default."""
    splits: tuple[str, ...]
    default_split: str
    load: Callable[[DatasetFolder, str, str], Examples]
    """(folder, config, split) -> examples."""
    build: Builder | None = None
    """Makes the dataset from its authors' release; None where it is shipped, or made elsewhere."""
    build_private: Callable[[Path | None, Path, Sequence[str] | None, str], None] | None = None
    """As `build`, and a seed: makes a split with invented names, to be kept from models; None where there is none."""
    build_archive: Callable[[Path, Path], None] | None = None
    """(archive, dataset folder to write): makes the knowledge base alone, of any archive in the release's form."""
    audit: "Audit | None" = None
    """Finds what can be had from the built dataset without understanding; None where nobody wrote one."""
    review: "ReviewItems | None" = None
    """What people are shown who review the built dataset; None where nobody wrote it."""
    construction: Callable[[], Mapping[str, Any]] | None = None
    """Gives the spec by which more questions of its kind are made; None where nobody wrote one."""
    review_questions: "Sequence[Question]" = ()
    """What these people are asked of each; `reviews.QUESTIONS` where it is empty."""
    shipped: Path | None = None
    """The built dataset where a package carries it, with answers of small systems in `predictions`."""


@dataclass(frozen=True)
class Asking:
    """How a model is asked: prompts and parsers for language models, documents for retrievers."""

    prompts: Mapping[str, PromptFunction] = field(default_factory=dict)
    """Prompt name -> function; the first is the default. Empty where retrievers answer."""
    parsers: Mapping[str, ParseFunction] = field(default_factory=dict)
    """Parser name -> function from a response and its example to a reading; the first is the default."""
    with_similar_ids: Callable[[Examples, Embedder], Examples] | None = None
    """(examples, embedder) -> the examples with demonstrations that this embedder finds similar; None where there are
    no demonstrations to choose."""
    warn: Callable[[Examples, PromptOptions], list[ScoreWarning]] | None = None
    """(examples, options) -> what weakens the figures of whoever is asked so, said before anything is asked."""
    documents: Mapping[str, Callable[[], "Rendering"]] = field(default_factory=dict)
    """Rendering name -> what gives it: the forms of a node's document beside the ones that every knowledge base has."""
    own_documents: str | None = None
    """The one of them on which the published figures were measured."""
    testbeds: Mapping[str, Testbed] = field(default_factory=dict)
    """Testbed name -> configs that are run together."""
    parts: tuple[str, ...] = ()
    """What --subset chooses from: parts of a testbed."""


class HumanVote(NamedTuple):
    """What people said of two systems' answers to one document, and how a release scored both."""

    metric: str
    id: Id
    a: str
    """A system, by its name in the release's files."""
    b: str
    vote: "Vote"
    score_a: float
    score_b: float


def _nothing_released(*asked: object) -> Any:
    raise UsageError("Of this benchmark nothing is released that judges or embedders could be calibrated on.")


@dataclass(frozen=True)
class AnnotationRules:
    """What a metric needs of other models, what these are shown, and what they are calibrated on."""

    needs: Mapping[str, tuple[str, ...]]
    """Kind of annotation, see `benchmarks.annotations` -> the metrics that are not scored without it."""
    gold: Callable[[Example, str], Sequence[tuple[str, str, str]]]
    """(example, mode) -> its gold triples."""
    text: str = "text"
    """The field of an example that holds the text which a judge is shown."""
    n_topics: Callable[[str], int] = lambda config: 0
    """config -> how many topics its topic model has."""
    corpus: Callable[[DatasetFolder, str], TopicCorpus] = _nothing_released
    """(folder, config) -> what the topic models are trained on."""
    released_outputs: Callable[[Path, Examples], list[tuple[str, list[Answer], Mapping[str, float]]]] = (
        _nothing_released
    )
    """(release, examples) -> (system, its stored answers, its published figures), to calibrate an embedder on."""
    released_verdicts: Callable[[Path, Examples, str], list[tuple[str, list[Answer], Path]]] = _nothing_released
    """(release, examples, kind) -> (system, its stored answers, the file of verdicts on them), for judges."""
    calibrates: Callable[[Example], bool] = lambda row: True
    """Example -> whether judges and thresholds may be fitted on it; the others are for checking them."""
    human_votes: Callable[[Path, Examples], list[HumanVote]] = lambda release, examples: []
    """(release, examples) -> how people voted on its systems' answers to them; empty where it asked nobody."""

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that are not scored without annotations."""
        return frozenset(metric for metrics in self.needs.values() for metric in metrics)


@dataclass(frozen=True)
class Scoring:
    """How answers are scored: the metric, its modes, and what is said beside the figures."""

    answer: AnswerKind
    metrics: Mapping[str, str]
    """Result key -> label in tables, in the order of the paper's tables."""
    modes: tuple[str, ...]
    """Named scoring modes; the first, the authors' released behaviour, is the default."""
    score: Callable[[Examples, Sequence[Answer | None], str], Scores]
    """(examples, one answer per example or None where it is missing, mode) -> one value per example."""
    summarise: Callable[[Scores, str], Mapping[str, Estimate]] = _means
    """(scores, mode) -> the figures of the paper's tables, with intervals."""
    check: Callable[[Examples, Id, Answer], str | None] = no_problem
    """(examples, id, answer) -> what is wrong with a submitted answer, in words, or None."""
    warn: Callable[["Benchmark", Examples, Sequence[Answer | None], str], list[ScoreWarning]] | None = None
    """(this benchmark, examples, answers, mode) -> what these answers' figures are to be held against, and the habits
    that cost them some of their score, each measured."""
    annotations: AnnotationRules | None = None
    """What metrics need of other models, made once by `kbbench annotate`; None where they need nothing."""
    headline: tuple[str, ...] = ()
    """The four to seven metrics that tables show by default, the one that ranks systems first; empty for the first
    seven."""
    group_by: str | None = None
    """The slice over whose keys the figures are averaged (ontologies, say); None for a plain mean over examples."""
    lower_is_better: frozenset[str] = frozenset()
    """Metrics of which less is better."""
    unbounded: frozenset[str] = frozenset()
    """Metrics that can leave [0, 1]: counts and lengths."""
    metrics_in: Callable[[str], Collection[str]] | None = None
    """config -> the metrics that are scored in it; None where all are in all."""


@dataclass(frozen=True)
class Showing:
    """What reports and the board show beside the figures."""

    explain: Callable[[Examples, Example, Answer], Explanation] | None = None
    """(examples, example, answer) -> what a report shows of it; None where a report shows the rows as they are."""
    published: Path | None = None
    """The published figures, a csv file; see `benchmarks.published`."""
    gold: str = ""
    """The published row of the gold itself, scored as a system's answers are; it is none and leads nobody."""
    answered: frozenset[str] = frozenset()
    """The published systems whose answers the release has; `build` writes them into the dataset's `predictions`."""
    evaluate_module: Path | None = None
    """The folder of its metric as an `evaluate` module, where another package carries one."""
    evaluation: "Callable[[Systems, DatasetFolder | None, str], Sequence[Section]] | None" = None
    """(systems, the dataset where it is at hand, split) -> the tables and figures of its paper."""
    published_evaluation: "Callable[[], Sequence[Section]] | None" = None
    """The same of what its authors published, on data of their own."""
    statistics: "Callable[[DatasetFolder], Statistics] | None" = None
    """Folder -> the dataset's size, lengths and diversity, as `kbbench report NAME --dataset` shows them."""
    names: Path | None = None
    """A TOML file with a line on each mode, prompt, parser, testbed and slice; `kbbench list NAME` prints it."""
    errors: "Callable[[Examples, Sequence[Answer | None]], FigureTable] | None" = None
    """(examples, answers) -> how many parts of the answers are wrong in which way."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: facts for people, and the functions that load, ask, score and show its examples."""

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
        """What tables call it."""
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
        """The metric by which systems are ranked: the first of the table."""
        return next(iter(self.scoring.metrics))

    def __repr__(self) -> str:
        """Name it, and what it takes."""
        return f"<Benchmark {self.dataset}: {self.title}, answered by {self.scoring.answer.field}>"
