"""SKA-Bench: understanding structured knowledge among noise (Liu et al., EMNLP 2025, arXiv 2507.17178).

Four subsets (graph, table, each also with text) and the testbeds of `testbeds`. A question has a context of knowledge
units; the answer is a list of strings, or on the rejection testbeds "yes" or "no": can the question be answered from
the context? The modes define how two answers are compared (`metrics/answers.py`). The registry imports `SKA_OPEN`,
`SKA_BENCH` and `MINI`. Prompts of stored runs change only under a new name (`clean-1`).
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from kbbench_hf.addresses import on_request
from kbbench_hf.benchmarks import base
from kbbench_hf.benchmarks.answers import ANSWERS, Id
from kbbench_hf.benchmarks.base import Example, Examples, Explanation, Prompt, PromptOptions, Scores, of_text
from kbbench_hf.benchmarks.ska_bench.longer_names import add_longer_names
from kbbench_hf.benchmarks.ska_bench.testbeds import REVISIONS, TESTBEDS, bucket, configs
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Instance, RenderedContext, UnitPool, pieces, render_context
from kbbench_hf.benchmarks.warnings import ScoreWarning, above_one_warning
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.aggregate import Estimate, means
from kbbench_hf.metrics.answers import balanced_accuracy, match_answers, question_kinds, score_answers, score_rejections
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError

LONGEST = 100_000
"""Only this many characters at the end of a response are parsed: the answer is in the last line."""
MOST_OBJECTS = 200
"""Only this many openings of an object, the last ones, are tried, so that hostile text costs no more time."""
_START = re.compile(r'\{\s*"')
_REASONING = r"think|thinking|thought|reasoning|analysis"
_END = re.compile(rf"</(?:{_REASONING})>", re.IGNORECASE)
_BEGIN = re.compile(rf"<(?:{_REASONING})>", re.IGNORECASE)
_KEYS = ("answer", "answers")


def parse_answers(response: str) -> list[str]:
    r"""Return the answers in a response's last JSON object with the key `answer`.

    Text before the end of a reasoning block (`<think>` and similar tags) is ignored; an unfinished block has no answer.
    A single value counts as a list of one, nested lists are flattened, numbers become text, blanks are removed.

    >>> parse_answers('<think>{"answer": ["a"]}</think> So:\n```json\n{"answer": ["Navy", 7]}\n```')
    ['Navy', '7']
    >>> parse_answers('{"answer": "no"}')
    ['no']

    Raises:
        ParseError: there is no such object, or its value is no list of values.
    """
    text = _BEGIN.split(_END.split(response[-LONGEST:])[-1], maxsplit=1)[0]
    found = [value for each in _objects(text) for key, value in each.items() if key.lower() in _KEYS]
    if not found:
        raise ParseError("no JSON object with the key 'answer'")
    return [answer for answer in _flattened(found[-1]) if answer]


def parse_verdict(answers: list[str] | None) -> str | None:
    """Return "yes" or "no" if that is the only answer, else None.

    >>> parse_verdict(["No."]), parse_verdict(["yes", "no"])
    ('no', None)
    """
    verdicts = [answer.strip().rstrip(".!").lower() for answer in answers or ()]
    return verdicts[0] if verdicts in (["yes"], ["no"]) else None


def _objects(text: str) -> Iterator[dict[str, object]]:
    """Yield the outermost JSON objects at the last openings of a text, in order."""
    decoder, end = json.JSONDecoder(), 0
    for start in [match.start() for match in _START.finditer(text)][-MOST_OBJECTS:]:
        if start < end:
            continue  # inside an object that was parsed already
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        yield value


def _flattened(value: object) -> Iterator[str]:
    """Yield the values of an answer as stripped text, those of nested lists one by one; ParseError for an object."""
    match value:
        case None:
            return
        case list():
            for each in value:
                yield from _flattened(each)
        case bool():
            yield "yes" if value else "no"
        case str() | int() | float():
            yield str(value).strip()
        case _:
            raise ParseError(f"the answer is a JSON {type(value).__name__}; expected a list of values")


METRICS = {
    "answer_f1": "F1",
    "precision": "P",
    "recall": "R",
    "exact_match": "EM",
    "hit_at_1": "Hit@1",
    "rejection_rate": "Rejection",
    "acceptance_rate": "Acceptance",
    "balanced_accuracy": "Balanced",
}
JUDGED = frozenset({"rejection_rate", "acceptance_rate", "balanced_accuracy"})
"""Metrics of the rejection testbeds, where a model decides whether a question can be answered."""
UNANSWERABLE = "none: the answer is not in what was given"
SHOWN = ("ok", "short")
"""Statuses of the rows that are run and scored."""
_HERE = Path(__file__).parent
_TEXTS = _HERE / "texts"
_ANSWERS = {"type": "array", "items": {"type": "string"}}
_VERDICT = {"type": "string", "enum": ["yes", "no"]}


@dataclass(frozen=True)
class SubsetData:
    """The instances of a subset by id, and its pool, read when a context is first rendered."""

    folder: DatasetFolder
    subset: str
    instances: Mapping[str, Instance]
    left_out: Mapping[str, int]
    """Status -> number of rows of the split that are not run."""

    @cached_property
    def shows_titles(self) -> bool:
        """Whether prompts of ours show the titles of tables: those of version 1 did not."""
        return not str(self.folder.manifest.get("version", "")).startswith("1.")

    @cached_property
    def pool(self) -> UnitPool:
        """The units of the subset."""
        return UnitPool.from_rows(self.folder.rows(f"pool_{self.subset}", "full"))

    def context(self, example: Example) -> RenderedContext:
        """Return the knowledge base of an example: lines, and which of them are positive."""
        instance = self.instances[example["instance_id"]]
        return render_context(instance, self.pool, example["sk_units"], example["text_units"])


class ContextRow(dict[str, Any]):
    """A row of a testbed with a look-up of the names in its context: cells, nodes, titles of passages."""

    def __init__(self, row: Mapping[str, Any], material: SubsetData) -> None:
        super().__init__(row)
        self._material = material

    @cached_property
    def _names(self) -> frozenset[str]:
        pool = self._material.pool
        units = pool.structured(self._material.instances[self["instance_id"]])
        cells = [*(units[number] for number in self["sk_units"]), *(pool.text[n][:-1] for n in self["text_units"])]
        return frozenset(" ".join(name.casefold().split()) for each in cells for name in each)

    def has_name(self, name: str) -> bool:
        """Return whether the context has this name; the pool is read on the first call."""
        return " ".join(name.casefold().split()) in self._names


def load(folder: DatasetFolder, config: str, split: str, *, longer_names: bool = False) -> Examples:
    """Return the rows of a testbed that are run, each with its question, gold answers and `kb_tokens`.

    With `longer_names` the aliases include the longer forms in the evidence, which newer datasets store.
    """
    subset = configs()[config].subset
    name = f"instances_{subset}"
    stored = [row for part in folder.configs()[name] for row in folder.rows(name, part)]
    instances = {row["id"]: Instance.from_row(row) for row in stored}
    rows = folder.rows(config, split)
    left_out = Counter(row["status"] for row in rows if row["status"] not in SHOWN)
    material = SubsetData(folder, subset, instances, left_out)
    shown = [row for row in rows if row["status"] in SHOWN]
    for row in shown:
        instance = instances[row["instance_id"]]
        instance = add_longer_names(instance, material.pool) if longer_names else instance
        row |= {"question": instance.question, "answers": list(instance.answers), "source": instance.source}
        row |= {"answer_type": instance.answer_type, "answer_aliases": list(map(list, instance.answer_aliases))}
    return Examples([ContextRow(row, material) for row in shown], material)


def score(examples: Examples, answers: Sequence[Sequence[str] | None], mode: str) -> Scores:
    """Return the answer metrics of each example, or on a rejection testbed those of the verdicts; NaN for the others.

    A missing answer, and one that could not be parsed, scores 0. Slices: `n_required`, the paper's information
    integration; `answerable` on the rejection control; `source`. Counters: `n_empty` answers, and as
    `n_over_budget` and `n_answerable_noise` the rows that were not run.
    """
    rows, material = examples.rows, examples.context
    judged = bool(rows) and _is_judged(rows[0])
    if judged:
        verdicts = [parse_verdict(list(answer or ())) for answer in answers]
        found = score_rejections(verdicts, [row["answerable"] for row in rows])
    else:
        gold, types, aliases = ([row[name] for row in rows] for name in ("answers", "answer_type", "answer_aliases"))
        found = score_answers(answers, gold, mode, types, aliases)
    values = {name: found.get(name, np.full(len(rows), np.nan)) for name in METRICS}
    slices = {"n_required": [bucket(row["n_required"]) for row in rows], "source": [row["source"] for row in rows]}
    if judged:
        slices["answerable"] = question_kinds([row["answerable"] for row in rows])
    counters = {
        "n_empty": sum(answer is not None and not answer for answer in answers),
        "n_over_budget": material.left_out.get("over_budget", 0),
        "n_answerable_noise": material.left_out.get("answerable", 0),
    }
    return Scores(values, slices, counters)


def summarise(scores: Scores, mode: str) -> dict[str, Estimate]:
    """Return the mean of every metric; balanced accuracy is that of answerable and unanswerable questions."""
    estimates = means(scores.values)
    if groups := scores.slices.get("answerable"):
        estimates["balanced_accuracy"] = balanced_accuracy(scores.values["balanced_accuracy"], groups)
    return estimates


def warn(
    benchmark: base.Benchmark, examples: Examples, answers: Sequence[Sequence[str] | None], mode: str
) -> list[ScoreWarning]:
    """Return a warning where mode `rog` gives answers a precision above 1."""
    return above_one_warning(score(examples, answers, mode).values["precision"]) if mode == "rog" else []


def _metrics_in(config: str) -> Collection[str]:
    """Return the metrics of a testbed: balanced accuracy only where there are answerable questions too."""
    judged = [metric for metric in METRICS if metric in JUDGED]
    if config.startswith("rejection_control"):
        return judged
    return judged[:1] if config.startswith("rejection") else METRICS.keys() - JUDGED


def check(examples: Examples, example_id: Id, answer: Sequence[str]) -> str | None:
    """Return what is wrong with an answer: on a rejection testbed it must be one "yes" or "no"."""
    if examples.rows and _is_judged(examples.rows[0]) and parse_verdict(list(answer)) is None:
        return f"{list(answer)!r:.60} is neither ['yes'] nor ['no']"
    return None


def parse_careful(response: str, example: Example) -> ParsedReply[list[str]]:
    """Return the answers of a response, see `parsing.answers`; on a rejection testbed one "yes" or "no".

    Raises:
        ParseError: it has no answer and no refusal, or is ambiguous.
    """
    if not _is_judged(example):
        from kbbench_hf.parsing.answers import parse_answers

        is_name = example.has_name if isinstance(example, ContextRow) else lambda name: False
        return parse_answers(response, str(example.get("question", "")), is_name)
    from kbbench_hf.parsing.verdicts import parse_answerable

    parsed = parse_answerable(response)
    return ParsedReply([parsed.answer], parsed.rule, parsed.thought)


def _is_judged(example: Example) -> bool:
    return str(example["testbed"]).startswith("rejection")


def explain(examples: Examples, example: Example, answer: Sequence[str]) -> Explanation:
    """Return a question on its context, its gold answers, and each answer, right if it is gold or an alias.

    The positive units of the context are shown and marked, each with its neighbors. Every answer to an unanswerable
    question counts as hallucinated.
    """
    shown = pieces(examples.context.context(example), around=1)
    question = [(f"{example['question']}\n\n", False), *shown]
    if not example.get("answerable", True):
        return Explanation(question, [UNANSWERABLE], [(each, "hallucinated") for each in answer])
    numbers = match_answers(answer, example["answers"], example["answer_type"], example["answer_aliases"])
    return Explanation(
        question,
        list(example["answers"]),
        [(each, "wrong" if n < 0 else "right") for each, n in zip(answer, numbers, strict=True)],
    )


@cache
def _wording(name: str) -> dict[str, Any]:
    return tomllib.loads((_TEXTS / f"{name}.toml").read_text(encoding="utf-8"))


def prompt(name: str, example: Example, examples: Examples, options: PromptOptions) -> Prompt:
    """Return the prompt of an example in one of the wordings of `texts`."""
    material: SubsetData = examples.context
    wording, judged = _wording(name), _is_judged(example)
    task, context = wording["judge" if judged else "answer"], material.context(example)
    layout, title = wording["sections"], material.instances[example["instance_id"]].title
    if title and material.shows_titles:
        layout = {**layout, **wording.get("titled_sections", {})}
    sections = _filled(layout[material.subset], title=title, sk=context.sk_text[:-1], text=context.text_text[:-1])
    parts = {"task": task[material.subset], "question": example["question"], "reply": task["reply"]}
    message = {"role": "user", "content": _filled(wording["layout"], sections=sections, **parts)}
    system = [{"role": "system", "content": wording["system"]}] if wording["system"] else []
    answer = _VERDICT if judged else _ANSWERS
    schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
    return Prompt([*system, message], max_tokens=1024, json_schema=schema)


def _filled(template: str, **parts: str) -> str:
    """Return a template with its `{names}` filled in; other braces, and those in the parts, stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda found: parts.get(found[1], found[0]), template)


PROMPTS: dict[str, Callable[[Example, Examples, PromptOptions], Prompt]] = {
    name: partial(prompt, name) for name in ("clean", "paper", "clean-1")
}

_FACTS = base.Facts(
    "ska-open",
    "SKA-Open",
    family="SKA-Bench",
    paper="https://arxiv.org/abs/2507.17178",
    license="cc-by-sa-4.0",
    citation=(_HERE / "citation.bib").read_text(encoding="utf-8"),
)
_SCORING = base.Scoring(
    ANSWERS,
    METRICS,
    ("typed", "squad", "exact", "wtq", "rog"),
    score,
    summarise,
    check=check,
    headline=tuple(metric for metric in METRICS if metric != "hit_at_1"),
    metrics_in=_metrics_in,
    warn=warn,
)
_ASKING = base.Asking(
    PROMPTS, {"careful": parse_careful, "json": of_text(parse_answers)}, testbeds=TESTBEDS, parts=SUBSETS
)
_SHOWING = base.Showing(
    explain,
    published=_HERE / "published.csv",
    evaluation=on_request("kbbench_hf.benchmarks.ska_bench.evaluation:evaluation"),
    published_evaluation=partial(
        on_request("kbbench_hf.benchmarks.ska_bench.evaluation:published_evaluation"), _HERE / "published.csv"
    ),
    names=_HERE / "names.toml",
)

SKA_OPEN = base.Benchmark(
    _FACTS,
    base.Data(
        tuple(configs()),
        ("test", "demo"),
        "test",
        load,
        build=on_request("kbbench_hf.building.ska_bench.dataset:build_open"),
        build_private=on_request("kbbench_hf.building.ska_bench.dataset:build_private"),
        revisions=tuple(REVISIONS),
        audit=on_request("kbbench_hf.building.ska_bench.audit:audit"),
        review=on_request("kbbench_hf.building.ska_bench.audit:review_items"),
    ),
    _SCORING,
    _ASKING,
    _SHOWING,
)
SKA_BENCH = base.Benchmark(
    replace(
        _FACTS,
        dataset="ska-bench",
        title="SKA-Bench",
        homepage="https://github.com/Lza12a/SKA-Bench",
        license="other",
        redistributable=False,
    ),
    replace(
        SKA_OPEN.data,
        build=on_request("kbbench_hf.building.ska_bench.dataset:build_official"),
        build_private=None,
        revisions=(),
    ),
    replace(_SCORING, modes=("squad", "exact", "wtq", "rog", "typed")),
    replace(_ASKING, prompts={"paper": PROMPTS["paper"], **PROMPTS}),  # on which the published scores depend
    _SHOWING,
)
MINI = base.Benchmark(
    base.Facts("mini-ska", "SKA-Open, mini", "Mini", license="apache-2.0"),
    base.Data(
        tuple(
            name
            for name, config in configs().items()
            if config.testbed not in ("depth", "unreviewed", "rejection_noise")
            and (config.testbed, config.subset) != ("hardness", "kg")
            and (config.testbed != "noise" or name.endswith(("_1k", "_4k")))
        ),
        ("test",),
        "test",
        partial(load, longer_names=True),
        review=SKA_OPEN.data.review,
        shipped=_HERE / "mini",
    ),
    _SCORING,
    _ASKING,
    replace(_SHOWING, published=None, published_evaluation=None),
)
