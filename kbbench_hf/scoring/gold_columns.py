"""Columns of predictions files: those that hold gold answers or predictions, by name and by value.

Names are split into words, as every tool spells them in its own way: `expectedOutput`, `gold_triples`,
`reference_outputs.answer`, `y_true`. The `--map` that they suggest is `suggested_map`.

Readers of predictions use it. Gold that is read as predictions scores 1.0 without a word: so a column may be suggested
too rarely, but never one of gold. The word lists were made of real tools' files; the tests have their names.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Literal, NamedTuple

from kbbench_hf.benchmarks.answers import Answer, AnswerKind, ShapeError
from kbbench_hf.benchmarks.base import Benchmark, Example, Examples, ParseFunction
from kbbench_hf.benchmarks.warnings import is_gold, is_nearly_all
from kbbench_hf.files.datasets import Id
from kbbench_hf.files.list_text import is_bracketed, whole_number
from kbbench_hf.files.rows import Unreadable, value_at
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.scoring.options import ReadOptions
from kbbench_hf.scoring.warnings import gold_answers

_WORD = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
_GOLD = re.compile(
    "golds?|golden|gt|ground(truth)?s?|truth(s|ful)?|ideals?|targets?|tgts?|labels?|labell?ed|ref(erence)?s?|expect.*|"
    "desired|wanted|correct.*|incorrect|true|ytrue|solutions?|solved|oracles?|keys?|annot.*|human|manual|y|"
    "accept(ed|able)|official|canonical|qrels?|relevan(t|ce)|positives?|right|best|aliases|examples?|dataset|doc|"
    "modified.*|original.*|(gold|true|target|reference|correct|expected|label)(answer|triple|output|response|label|ids?).*"
)
"""Whole words of gold columns. `example` and `doc` are the dataset's row in a tool's output."""
_WEAK_GOLD = re.compile("targets?|labels?|y|keys?|example|positives?|best|relevan(t|ce)")
"""Words that also name what is predicted, as in `predicted_label`."""
_PREDICTED = re.compile(
    "y?pred.*|predict.*|hyp(s|o.*)?|infer(red|ences?)?|guess(es|ed)?|y?hat|generated.*|picked|sampled"
)
_PRODUCED = re.compile(
    "(model|llm|raw|final|sys)?(generations?|gen|completions?|outputs?|outs?|responses?|resps?|repl(y|ies)|decoded)|"
    "messages|conversations?|genera(tion|ted)?text|extracted"
)
_MAKER = re.compile(
    "model|llm|assistant|bot|agent|system|sys|candidates?|retrieved|ranked|ranking|search|final|chatbot"
)
_ANSWER = re.compile(
    "ans|answers?|triples?|triplets?|facts?|results?|extractions?|kg|graph|relations?|ids|hits|retrieved|ranking|run"
)
_CONTENT = re.compile("text|content|value|message|parts|answers?|triples?|ids|data|body|choices")
"""Words under which a prediction's text is nested."""
_CLEANED = re.compile("filtered|parsed|final|processed|cleaned|extracted|post.*")
_OTHER = re.compile(
    "id|prompts?|inputs?|questions?|query|queries|instructions?|contexts?|tokens?|tok|log(s|its?|probs?)?|probs?|"
    "probabilit.*|scores?|hash|metrics?|type|kind|role|reason(ing)?|think.*|thoughts?|rationales?|explanations?|status|"
    "usage|format|length|len|count|num|n|path|files?|filename|urls?|parser|time.*|timestamp|date|created|cost|latency|"
    "seed|temperature|config|params|parameters?|settings?|name|version|errors?|finish|tools?|flags?|object|index|"
    "neg|negs|negatives?|distractors?|stop|fingerprint|schema|template|is|has|confidence|embeddings?|evidence|code|meta(data)?|judge.*|grade[drs]?"
)
"""Words of columns beside the answer: of a request, a prompt or a score."""


class Likeness(NamedTuple):
    """The content of a column by its name, and how clearly the name says it."""

    role: Literal["gold", "prediction", "other", ""]
    """`other`: of a request, a prompt or a score; empty: unknown."""
    strength: float = 0
    """Of a prediction from 1 to 4.5, see `PLAIN`; of gold 1, or 0 where the last word is not of an answer."""


def likeness(path: str) -> Likeness:
    """Return the likely content of a column at a dotted path by its name.

    >>> [likeness(name).role for name in ("expectedOutput", "gold_triples", "references.0", "y_true", "labels")]
    ['gold', 'gold', 'gold', 'gold', 'gold']
    >>> [likeness(name).role for name in ("pred_triples", "resps.0.0", "response.body.choices.0.message.content")]
    ['prediction', 'prediction', 'prediction']
    >>> [likeness(name).role for name in ("response.body.id", "output_tokens", "sentence")]
    ['other', 'other', '']
    """
    parts = [part for part in path.split(".") if not part.isdecimal()]
    words = [[word.lower() for word in _WORD.findall(part)] for part in parts]
    every, leaf = [word for part in words for word in part], words[-1] if words else []
    predicted, produced = _matches_any(_PREDICTED, every), _matches_any(_PRODUCED, every)
    gold = [word for word in every if _GOLD.fullmatch(word)]
    if "actual" in every and not (predicted or produced):
        gold.append("actual")
    if gold and not (predicted and all(map(_WEAK_GOLD.fullmatch, gold))):
        return Likeness("gold", not _matches_any(_OTHER, leaf))
    if _matches_any(_OTHER, leaf):
        return Likeness("other")
    named = _matches_any(_PREDICTED, leaf) or _matches_any(_PRODUCED, leaf) or _matches_any(_ANSWER, leaf)
    if not named and not (_matches_any(_CONTENT, leaf) and (predicted or produced or _matches_any(_ANSWER, every))):
        return Likeness("")
    strength = 4 if predicted else 3 if produced else 2 if _matches_any(_MAKER, every) else 1
    return Likeness("prediction", strength + 0.5 * _matches_any(_CLEANED, every))


def is_gold_name(path: str) -> bool:
    """Return whether a column has gold answers by its name; `doc.id` and the like are the dataset's and no answers."""
    alike = likeness(path)
    return alike.role == "gold" and alike.strength > 0


def _matches_any(pattern: re.Pattern[str], words: list[str]) -> bool:
    return any(map(pattern.fullmatch, words))


_MOST_NESTED = 9
"""A batch service's completion is seven levels deep."""
_LOOKED_AT = 300
"""Maximum number of columns of a row that are considered."""
PLAIN = 4
"""The strength of a name with a word such as `predicted`."""
_PLAINLY = 3
"""The strength of a name with a word such as `predicted` or `output`; `answer` may also be the gold."""
_CANDIDATE = ("id", "doc_id", "docid", "node_id", "candidate", "candidate_id", "entity_id")
_ROLES = ("assistant", "model", "gpt", "ai")
"""Names of the author of a model's message."""


_PARTS = ("text", "output_text")
"""Types of the parts of a message that hold its text; others are thoughts and calls."""


class CandidateColumn(NamedTuple):
    """A column that may have the predictions: its path, the field it maps to, and how clearly its name says it."""

    path: str
    field: str
    strength: float


def suggested_map(
    row: object,
    wanted: Sequence[str],
    known: AbstractSet[Id],
    kind: AnswerKind,
    has_parser: bool = False,
    equal: AbstractSet[str] = frozenset(),
) -> str:
    """Return a sentence with the `--map` that may fit: `id` by the known ids, the answer by names of columns.

    A column that is gold by its name is never suggested; nor is one of `equal`, whose values equal the gold, unless its
    name says plainly that it holds predictions.

    >>> from kbbench_hf.benchmarks.answers import ANSWERS
    >>> row = {"qid": "q7", "pred": {"entities": ["a"]}, "gold": ["b"]}
    >>> suggested_map(row, ["id"], {"q7"}, ANSWERS)
    'Map your columns: --map id=qid.'
    >>> suggested_map(row, ["id", "answers"], {"q7"}, ANSWERS)
    "Map your columns: --map id=qid,answers=pred.entities. 'gold' looks like the gold answers."
    """
    paths = dict(_paths(row)) if isinstance(row, Mapping) else {}
    ids = [path for path, value in paths.items() if _may_be_id(path, value, known)]
    ids.sort(key=lambda path: paths[path] not in known)
    pairs, more = [], ""
    for name in wanted:
        if name == "id":
            pairs.append(f"id={ids[0] if ids else 'PATH'}")
            continue
        columns = prediction_columns(row, kind, has_parser, equal) if isinstance(row, Mapping) else []
        best = [column for column in columns if column.strength == columns[0].strength]
        if len(best) == 1:
            pairs.append(f"{best[0].field}={best[0].path}")
        else:
            pairs.append(f"{best[0].field if best else name}=PATH")
            more = f"; answers may be at {' and '.join(each.path for each in best[:5])}" if best else ""
            more += " (for a model's text: response=PATH)" if has_parser and not best else ""
        gold = [path for path, value in paths.items() if is_gold_name(path) and _is_answer(value, known)]
        more += f". '{gold[0]}' looks like the gold answers" if gold else ""
        more += f". {min(equal)!r} equals the gold answers" if equal and not gold else ""
    return f"Map your columns: --map {shlex.quote(','.join(pairs))}{more}."


def prediction_columns(
    row: Mapping[str, object], kind: AnswerKind, has_parser: bool, equal: AbstractSet[str] = frozenset()
) -> list[CandidateColumn]:
    """Return the columns of a row that may have predictions, the clearest name first; never one of gold answers.

    Columns without a telling name are returned only if there are no others, and only lists.
    """
    named, unnamed = [], []
    for column, path, value in answer_columns(row, kind):
        role, strength = likeness(column)
        if path in equal and strength < _PLAINLY:
            continue
        field = "response" if isinstance(value, str) and has_parser else kind.field
        if role == "prediction":
            named.append(CandidateColumn(path, field, strength))
        elif role == "" and (is_bracketed(value) if isinstance(value, str) else isinstance(value, list) and value):
            unnamed.append(CandidateColumn(path, field, 0))
    return sorted(named, key=lambda column: (-column.strength, column.path.count("."))) or unnamed


def answer_columns(row: Mapping[str, object], kind: AnswerKind) -> Iterator[tuple[str, str, object]]:
    """Yield path of the column, path of the answer in it, and value, of each column whose value may be an answer."""
    for column, value in _paths(row):
        first = value[0] if isinstance(value, list) and value else None
        if (isinstance(value, dict) and not kind.ranked) or not isinstance(value, str | list | dict) or value == "":
            continue
        if isinstance(first, str) and (not kind.separable or 3 <= likeness(column).strength < 4):
            yield column, f"{column}.0", first  # a model's texts, one for each sample
        elif isinstance(first, list) and len(first) == 1 and isinstance(first[0], str):
            yield column, f"{column}.0.0", first[0]
        elif isinstance(first, dict) and kind.ranked:
            name = next((name for name in _CANDIDATE if name in first), None)
            yield from [(column, f"{column}.{name}", value)] if name else []
        elif not isinstance(first, dict) or any(name in first for names in kind.parts for name in names):
            yield column, column, value


def _is_answer(value: object, known: AbstractSet[Id]) -> bool:
    """Return whether a value may be an answer: a list, or a text that is no known id."""
    return isinstance(value, list) or (isinstance(value, str) and value not in known)


def _may_be_id(path: str, value: object, known: AbstractSet[Id]) -> bool:
    """Return whether a value is the id of an example: numbers only under a name of an id, and never a position."""
    if path.endswith("doc_id") or isinstance(value, bool) or not isinstance(value, str | int):
        return False
    if isinstance(value, str) and value in known:
        return True
    return path.rpartition(".")[2].lower().endswith("id") and bool({value, whole_number(value), str(value)} & known)


def example_id(row: Mapping[str, object], known: AbstractSet[Id]) -> Id | None:
    """Return the id of the example of a row, whatever column has it; None if none does."""
    for path, value in _paths(row):
        if isinstance(value, str | int) and _may_be_id(path, value, known):
            return next((each for each in (value, whole_number(value), str(value)) if each in known), None)
    return None


def _paths(row: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the first paths of a row with their values, also those into the first objects of lists."""
    return islice(_nested(row, "", _MOST_NESTED), _LOOKED_AT)


def _nested(value: object, path: str, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the paths below a value; of a list of messages those of the model's last one."""
    if isinstance(value, Mapping) and value and depth:
        in_list = path.rpartition(".")[2].isdecimal()
        if path and not in_list and all(isinstance(each, int | float) for each in value.values()):
            yield path, value  # candidate -> score
        for name, each in value.items():
            yield from _nested(each, f"{path}.{name}" if path else str(name), depth - 1)
        return
    yield path, value
    if isinstance(value, list) and value and isinstance(value[0], Mapping) and depth:
        authors = [each.get("role") or each.get("from") if isinstance(each, Mapping) else None for each in value]
        own = [position for position, author in enumerate(authors) if author in _ROLES]
        if own:
            yield from _nested(value[own[-1]], f"{path}.{own[-1]}", depth - 1)
        elif not any(authors):
            types = [each.get("type") if isinstance(each, Mapping) else None for each in value]
            position = next((n for n, each in enumerate(types) if each in _PARTS), 0)
            yield from _nested(value[position], f"{path}.{position}", depth - 1)


LEAST_COPIED = 20
"""Fewer answers may all be right without being the dataset's own."""
LEAST_EQUAL = 5
"""Fewer answers that equal the gold say nothing of which column they are."""


class EqualColumns:
    """Counts in how many rows of a file each column equals the gold, which names do not always tell."""

    def __init__(self, examples: Examples, kind: AnswerKind) -> None:
        self._examples, self._kind, self._n = {row["id"]: row for row in examples.rows}, kind, 0
        self._n_equal: Counter[str] = Counter()

    def add(self, row: object) -> None:
        """Count a row of the file, with any columns; rows whose example or gold is unknown do not count."""
        own_id = example_id(row, self._examples.keys()) if isinstance(row, dict) else None
        golds = gold_answers(self._examples[own_id], self._kind) if own_id is not None else []
        if not isinstance(row, dict) or not golds:
            return
        self._n += 1
        for _, path, value in answer_columns(row, self._kind):
            try:
                if isinstance(value, str):
                    value = json.loads(value) if is_bracketed(value) else [value]
                self._n_equal[path] += is_gold(self._kind.read({self._kind.field: value}), golds)
            except ValueError:
                continue

    @property
    def paths(self) -> set[str]:
        """The paths that equal the gold in nearly every row; empty for fewer than `LEAST_EQUAL` rows."""
        if self._n < LEAST_EQUAL:
            return set()
        return {path for path, n in self._n_equal.items() if is_nearly_all(n, self._n, self._kind)}


class GoldColumn:
    """Detects, line by line, whether the column that is read is the gold and another one has the predictions."""

    def __init__(self, benchmark: Benchmark, options: ReadOptions, parse: ParseFunction | None) -> None:
        self._kind, self._parse, self._options = benchmark.scoring.answer, parse, options
        paths = [path for name, path in (options.fields or {}).items() if name in (self._kind.field, "response")]
        self._is_told = bool(paths) or options.source == "response"
        self.name = next((path for path in paths if is_gold_name(path)), "")
        """The path that the user named, where it is that of a gold column."""
        self._told = paths
        self._n = self._n_equal = self._n_copied = self._n_lines = 0
        self._others: list[CandidateColumn] | None = None
        self._n_other: Counter[CandidateColumn] = Counter()

    @property
    def with_texts(self) -> bool:
        """Whether most lines have a text of their example, or other answers, too: the file may hold the gold."""
        return 2 * self._n_copied > self._n_lines or bool(self._other_columns())

    def add(self, whole: object, answer: Answer, example: Example) -> None:
        """Count a line of the file with the answer that was read from it, and the example of it."""
        field = self._kind.field
        if not isinstance(whole, dict):
            return
        golds = gold_answers(example, self._kind)
        is_equal = is_gold(answer, golds)
        self._n, self._n_equal, self._n_lines = self._n + bool(golds), self._n_equal + is_equal, self._n_lines + 1
        if is_equal:
            texts = {each for name, each in example.items() if name != "id" and isinstance(each, str) and " " in each}
            self._n_copied += any(isinstance(each, str) and each in texts for each in whole.values())
        if self._others is None:
            left = {*whole} - {*example, *(self._told or [field])}  # no predictions are in columns of the dataset
            columns = {name: each for name, each in whole.items() if name in left}
            self._others = prediction_columns(columns, self._kind, self._parse is not None)
        for column in self._others:
            if is_equal or column.field == field:  # a text is parsed only where that may tell something
                self._n_other[column] += self._differs(whole, column, answer, example)

    def _differs(self, whole: Mapping[str, object], column: CandidateColumn, answer: Answer, example: Example) -> bool:
        """Return whether another column of a line has another answer; an unreadable list does not count."""
        try:
            value = value_at(whole, column.path)
            if isinstance(value, str) and self._parse is not None:
                return not is_gold(self._parse(value, example).answer, [answer])  # parsers return tuples
            return bool(self._kind.read({self._kind.field: value}) != answer)
        except (KeyError, ShapeError):
            return False
        except ParseError:
            return True

    def _other_columns(self) -> list[CandidateColumn]:
        return [column for column, n in self._n_other.items() if 2 * n > self._n]

    def problem(self, n_answers: int) -> Unreadable | None:
        """Return the error, with the `--map` to use, if another column seems to have the predictions; else None.

        None also if the user named the column. `n_answers` is the number of answers of all files.
        """
        if self._is_told:
            return None
        field, path = self._kind.field, "PATH"
        others = [column for column in self._other_columns() if column.strength]
        named = [column for column in others if column.strength >= PLAIN and field in column.path.lower()]
        is_gold = self._n >= LEAST_EQUAL and is_nearly_all(self._n_equal, self._n, self._kind)
        if is_gold and others:
            name, path = others[0].field, others[0].path
            equal = f"{self._n_equal:,} of {self._n:,} lines"
            what = f"{field!r} equals the gold answer in {equal}, and {path!r} holds other answers"
        elif named:
            name, path = named[0].field, named[0].path
            what = f"the predictions may be in {field!r} or in {path!r}"
        elif self._n_copied == n_answers >= LEAST_COPIED:
            name, what = field, f"every line is the dataset's own, where {field!r} is the gold answer"
        else:
            return None
        remedy = f"Name the column of the predictions: --map {name}={path}, or {field}={field} for {field!r}."
        if path == "PATH" and self._parse is not None:
            remedy += " For a model's text: --from response."
        if self._options.of_stranger:
            remedy = f"Send your system's answers as {field!r}, and no other answers."
        return Unreadable(what, remedy)
