"""Importers of scores per example: lm-evaluation-harness, inspect_ai, Every Eval Ever, tables, runs with qrels, ...

`scoring.score_logs` compares systems of any harness with it (`compare`, `report`). A score is taken as the log has it
and never computed again, except from rankings with qrels.
"""

import json
import math
import re
from ast import literal_eval
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.errors import UsageError
from kbbench_hf.files import STDIN, shown_name
from kbbench_hf.files.datasets import read_json
from kbbench_hf.files.formats import parsed_rows, read_file
from kbbench_hf.files.rows import KeyedAnswer, ParsedFile, Problem, ReadSettings, Unreadable, value_at, value_or_none
from kbbench_hf.files.tables import is_saved_dataset
from kbbench_hf.files.trec import Judgments, score_of

Row = Mapping[str, Any]
IDS = ("id", "example_id", "question_id", "query_id", "qid", "sample_id", "item_id", "doc_id", "uid", "idx", "index")
"""Names of the id column of a table; the first one that it has is taken."""
NO_SCORE = re.compile(
    r"(?i)unnamed.*|index|idx|.*_?ids?|epoch|seed|fold|run|rank|year|length|cost|n_.*|num_.*|.*tokens?|.*time|.*_ms"
)
"""Columns of numbers that are scores only if the user names them."""
_AMBIGUOUS = re.compile(r"-?[1-9]\d{0,2},\d{3}")
"""A number whose comma may separate thousands or decimals."""
WORDS = {"true": 1, "yes": 1, "correct": 1, "pass": 1, "false": 0, "no": 0, "incorrect": 0, "fail": 0}
LETTERS = {"C": 1, "I": 0, "P": 0.5, "N": 0}
"""Values of inspect_ai's scorers: correct, incorrect, partial, no answer."""
SAMPLES = "_samples.jsonl"
"""End of the name of a file of samples of Every Eval Ever; its record has the same name with `.json`."""
_LOG_FILES = ("samples_*.jsonl", "*.eval", "details_*.parquet", "*_predictions.json", f"*{SAMPLES}")
"""Files of a folder of logs; those of the first pattern that matches any are read."""
_LM_EVAL_KEYS = "doc_id doc target arguments resps filtered_resps filter metrics".split()
_LM_EVAL_KEYS += ["doc_hash", "prompt_hash", "target_hash"]
_RANKINGS = Unreadable("rankings have no scores per query", "Add the relevant candidates: --qrels FILE.")


class ScoredRow(NamedTuple):
    """The scores of one example, as a log has them."""

    example: object
    """Its id; None where there is none."""
    scores: Mapping[str, object]
    """Metric -> score: a number, a truth value, a word, or something that is no score."""
    row: Row
    """All fields."""
    content: object = None
    """The example itself; logs with the same id must have the same one."""
    output: object = None
    system: str = ""
    """The model, in a log of several."""
    repeat: object = None
    """The epoch, where examples are repeated."""
    task: str = ""


def shown_example(scored: ScoredRow) -> dict[str, Any]:
    """Return `id`, `question` and `gold` of an example as pages show them; None if the log does not have them."""
    question, gold = scored.content, scored.row.get("target")
    text = question if isinstance(question, str) else json.dumps(question, ensure_ascii=False, default=str)
    golds = [(str(each), "") for each in (gold if isinstance(gold, list) else [gold])]
    shown = None if question is None else [(text, False)]
    return {"id": scored.example, "question": shown, "gold": None if gold is None else golds}


def field_of(row: Row, path: str) -> object:
    """Return a text, number or truth value at a path, of the row or of the example in it.

    Raises:
        KeyError: there is none.

    >>> field_of({"doc_id": 0, "doc": {"passage": "p1"}}, "passage")
    'p1'
    """
    for container in ("", "doc.", "metadata.", "vars.", "doc.specific."):
        value = value_or_none(row, container + path)
        if value is not None and not isinstance(value, dict | list):
            return value
    raise KeyError(path)


def number_of(value: object) -> float | None:
    """Return a score as a number, NaN where it is missing; None where it is no score.

    >>> number_of(True), number_of(" 0,5"), number_of("yes"), number_of(None), number_of("good"), number_of([1])
    (1.0, 0.5, 1.0, nan, None, None)
    >>> number_of("1,234") is None  # 1234 or 1.234
    True
    """
    text = str(value).strip().lower() if value is None or isinstance(value, str) else value
    if text in ("", "nan", "na", "n/a", "none", "null"):
        return math.nan
    if isinstance(text, str) and _AMBIGUOUS.fullmatch(text):
        return None
    if isinstance(text, str):
        text = WORDS.get(text, text.replace(",", ".") if re.fullmatch(r"-?\d+,\d+", text) else text)
    try:
        number = float(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return None
    return None if math.isinf(number) else number


def scored_rows(
    parsed: ParsedFile, judged: Judgments | None, value: Sequence[str], no_scores: Collection[str | None] = ()
) -> Iterable[ScoredRow]:
    """Return the rows of a file with their scores, in the format of its first row. All lines are in memory.

    Of a log, the format and the title of `parsed` are set.

    Args:
        parsed: the file, with the fields that it has.
        judged: the relevance of candidates, for rankings.
        value: the columns of the scores that the user named.
        no_scores: the columns that the user named as something else.

    Raises:
        Unreadable: the file has no scores, or the column is not clear; of damaged rows, when they are read.
    """
    rows: Sequence[Row] = [_as_object(line.value, line.number) for line in parsed.lines]
    if not rows:
        raise Unreadable(parsed.empty, "Check the file.")
    keyed = parsed.format.startswith("a JSON object id")
    if judged is not None:
        if "ids" not in rows[0] and not keyed:
            raise Unreadable("its rows are not rankings", "Leave out --qrels, or name runs.")
        return _score_rankings(rows, judged)
    for name, keys, read in _LOGS:
        if keys <= rows[0].keys():
            parsed.format = name
            parsed.title = parsed.title or str(rows[0].get("evaluation_name", ""))
            return _refuse_other_types(name, read(rows))
    if keyed and {"schema_version", "evaluation_results"} <= {row["id"] for row in rows}:
        remedy = f"Put its samples in the same folder, under its name with {SAMPLES}, or name a record with samples."
        raise Unreadable("an Every Eval Ever record with averages only", remedy)
    if keyed:
        rows = _mteb_queries(rows) if {"task_name", "scores"} <= {row["id"] for row in rows} else rows
        shared = [key for key in rows[0] if key != "id" and all(key in row for row in rows)]
        value = value or [key for key in shared if number_of(rows[0][key]) is not None]
    if "ids" in rows[0] or (keyed and not value):
        raise _RANKINGS
    return _table_rows(rows, value or [_score_column(rows, no_scores)])


def _refuse_other_types(log_format: str, scored: Iterator[ScoredRow]) -> Iterator[ScoredRow]:
    """Yield the rows of an importer.

    Raises:
        Unreadable: a field has another type than in this format, so that the importer failed.
    """
    try:
        for each in scored:
            hash((each.system, each.repeat))  # they become keys, which lists and objects cannot be
            yield each
    except (AttributeError, TypeError, ValueError, SyntaxError) as error:  # the last two of printed Python
        message = f"a field has another type than in {log_format} ({type(error).__name__}: {error})"
        raise Unreadable(message, "Write the log again, or name the column of scores: --value COLUMN.") from None


def _as_object(value: object, line: int | None) -> Row:
    """Return a row as an object; an answer under an id with this `id`, and alone as its `score`.

    Raises:
        Unreadable: it is a problem or no object.
    """
    if isinstance(value, Problem):
        raise Unreadable(value.message, value.remedy, line, value.shown)
    if isinstance(value, KeyedAnswer):
        return {"id": value.id, **(value.answer if isinstance(value.answer, dict) else {"score": value.answer})}
    if not isinstance(value, dict):
        raise Unreadable(f"{str(value)[:80]!r} is not an object", "Write one object per example.", line)
    return value


def _lm_eval(rows: Iterable[Row]) -> Iterator[ScoredRow]:
    """Yield samples of lm-evaluation-harness; old versions have further filters of the same replies without names."""
    replies: dict[object, list[object]] = {}
    for row in rows:
        before = replies.setdefault(row["doc_id"], [])
        before.append(row["resps"])
        again = "filter" not in row and len(before) > 1 and before[0] == before[-1]
        chosen = f"filter {len(before)}" if again else row.get("filter", "none")
        names = row.get("metrics") or [key for key in row if key not in _LM_EVAL_KEYS]
        scores = {name if chosen == "none" else f"{name}/{chosen}": row.get(name) for name in names}
        yield ScoredRow(row["doc_id"], scores, row, row["doc"], row["filtered_resps"])


def _inspect(rows: Iterable[Row]) -> Iterator[ScoredRow]:
    """Yield samples of inspect_ai; the members of a score that is an object or a list are scores of their own."""
    for row in rows:
        scores: dict[str, object] = {}
        for name, score in ({} if "error" in row else row["scores"] or {}).items():
            value = score.get("value") if isinstance(score, dict) else score
            named = dict(enumerate(value)) if isinstance(value, list) else value
            for key, part in (named if isinstance(named, dict) else {"": value}).items():
                path = f"{name}.{key}" if key != "" else name
                scores[path] = LETTERS.get(part, part) if isinstance(part, str) else part
        yield ScoredRow(row["id"], scores, row, row["input"], row.get("response"), repeat=row.get("epoch"))


def _promptfoo(rows: Iterable[Row]) -> Iterator[ScoredRow]:
    """Yield results of promptfoo, whose examples are told apart by `id`, `testIdx` or all variables."""
    for row in rows:
        output, variables, provider = value_or_none(row, "response.output"), row["vars"], row.get("provider")
        scores: dict[str, object] = {}
        if output is not None or not row.get("error"):
            scores = {key: row.get(key) for key in ("score", "success")} | (row.get("namedScores") or {})
        example = variables.get("id", row.get("testIdx", json.dumps(variables, sort_keys=True)))
        model = provider.get("label") or provider.get("id") if isinstance(provider, dict) else provider
        system = f"{model or ''}{', prompt {}'.format(row['promptIdx']) if row.get('promptIdx') else ''}"
        yield ScoredRow(example, scores, row, variables, output, system)


def _lighteval(rows: Iterable[Row]) -> Iterator[ScoredRow]:
    """Yield lighteval's details; before 0.10 cells are Python text, and examples have no id and are numbered."""
    for number, row in enumerate(rows):
        scores = row["metric"] if "metric" in row else row["metrics"]
        if isinstance(scores, str):
            scores = literal_eval(re.sub(r"\bnan\b", "None", re.sub(r"np\.\w+\((.*?)\)", r"\1", scores)))
        example, content = value_or_none(row, "doc.id"), value_or_none(row, "doc.query") or row.get("full_prompt")
        output = value_or_none(row, "model_response.text") or row.get("predictions")
        given = {name: score for name, score in scores.items() if score is not None}
        yield ScoredRow(example or number, given, row, content, output)


def _every_eval(rows: Sequence[Row]) -> Iterator[ScoredRow]:
    """Yield samples of Every Eval Ever; the metric is the result that a sample belongs to, or its evaluation.

    Samples are told apart by their evaluations where these share ids, as the subjects of a test do.
    """
    evaluations: dict[tuple[object, object], set[str]] = {}
    for row in rows:
        evaluations.setdefault((row["sample_id"], row.get("evaluation_result_id")), set()).add(row["evaluation_name"])
    several = "evaluation_result_id" in rows[0] and any(len(names) > 1 for names in evaluations.values())
    for row in rows:
        metric = str(row.get("evaluation_result_id") or row["evaluation_name"])
        shown = {**row, "target": value_or_none(row, "input.reference")}
        output = value_or_none(row, "output.raw.0") or value_or_none(row, "messages.-1.content")
        content, repeat = value_or_none(row, "input.raw") or None, value_or_none(row, "metadata.epoch")
        task = row["evaluation_name"] if several else ""
        scores = {metric: value_at(row, "evaluation.score")}
        yield ScoredRow(row["sample_id"], scores, shown, content, output, row["model_id"], repeat, task)


def _stated_in_record(file: Path) -> Iterator[tuple[str, tuple[float | None, bool | None]]]:
    """Yield metric, and its score and direction in a record of Every Eval Ever; nothing if there is no record."""
    for each in read_json(file).get("evaluation_results", ()) if file.is_file() else ():
        config = each.get("metric_config", {})
        known = value_or_none(config, "additional_details.polarity") != "unknown"
        stated = number_of(value_or_none(each, "score_details.score")), config.get("lower_is_better") if known else None
        yield str(each.get("evaluation_result_id") or each.get("evaluation_name")), stated


_LOGS: Sequence[tuple[str, frozenset[str], Callable[[Sequence[Row]], Iterator[ScoredRow]]]] = (
    ("lm-evaluation-harness samples", frozenset({"doc_id", "doc", "resps"}), _lm_eval),
    ("an inspect_ai log", frozenset({"input", "target", "metadata", "scores"}), _inspect),
    ("Every Eval Ever samples", frozenset({"evaluation_id", "sample_id", "evaluation"}), _every_eval),
    ("promptfoo results", frozenset({"vars", "success"}), _promptfoo),
    ("lighteval details", frozenset({"doc", "metric", "model_response"}), _lighteval),
    ("lighteval details", frozenset({"example", "full_prompt", "metrics"}), _lighteval),
)
"""Format, keys of its rows, importer."""


def _mteb_queries(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the scores per query in a result of mteb: an object query -> metrics somewhere in it.

    Raises:
        Unreadable: it has averages only.
    """
    splits = (split for row in rows if row["id"] == "scores" for split in row.values() if isinstance(split, list))
    entries = (entry for split in splits for entry in split if isinstance(entry, dict))
    tables = [table for entry in entries for table in entry.values() if isinstance(table, dict)]
    found = [{"id": query, **of} for table in tables for query, of in table.items() if isinstance(of, dict)]
    if not found:
        remedy = "Save the rankings (prediction_folder), and compare them with --qrels FILE."
        raise Unreadable("mteb results with averages only", remedy)
    return found


def _table_rows(rows: Iterable[Row], value: Sequence[str]) -> Iterator[ScoredRow]:
    """Yield the rows of a table with the columns of scores.

    Raises:
        Unreadable: a row lacks one of them.
    """
    for number, row in enumerate(rows, start=1):
        try:
            scores = {path: value_at(row, path) for path in value}
        except KeyError as error:
            columns = ", ".join(map(str, row))
            remedy = f"Name a column: --value NAME, of {columns}."
            raise Unreadable(f"row {number:,} has no {error.args[0]!r}", remedy) from None
        yield ScoredRow(next((row[name] for name in IDS if name in row), None), scores, row)


def _score_column(rows: Sequence[Row], no_scores: Collection[str | None]) -> str:
    """Return the only column of a table that can be a score, or the only one at all.

    Raises:
        Unreadable: there are none or several.
    """
    some = rows[:100]
    every = dict.fromkeys(name for row in some for name in row)
    names = [name for name in every if name not in no_scores and not NO_SCORE.fullmatch(name)]
    numbers = {name: {number_of(row.get(name)) for row in some} for name in names}
    found = [name for name, values in numbers.items() if None not in values and any(v == v for v in values)]
    plain = [name for name in names if not isinstance(rows[0].get(name), dict | list)]
    if len(found) > 1:
        remedy = f"Choose the score: --value {' or '.join(found)}. In one file of a column per system: --value A,B."
        raise Unreadable(f"it has {len(found)} columns of numbers", remedy)
    if not found and len(plain) != 1:
        remedy = "Name it: --value COLUMN. For predictions of a benchmark: --benchmark NAME."
        raise Unreadable(f"it has no column of scores (columns {', '.join(map(str, rows[0]))})", remedy)
    return (found or plain)[0]


def _score_rankings(rows: Iterable[Row], judged: Judgments) -> Iterator[ScoredRow]:
    """Yield trec_eval's measures of each query of the qrels that has relevant candidates."""
    rankings = dict(_rankings(rows))
    for query, grades in judged.items():
        if any(grade > 0 for grade in grades.values()):
            ranking = rankings.get(query, [])
            yield ScoredRow(query, trec_measures(ranking, grades), {"id": query}, output=ranking[:10])


def _rankings(rows: Iterable[Row]) -> Iterator[tuple[str, list[str]]]:
    """Yield the ranking of each query, best first; equal scores as in trec_eval, the last id first.

    Raises:
        Unreadable: candidates are neither a list nor an object, or a score gives no order.
    """
    for row in rows:
        ids = row.get("ids", {key: value for key, value in row.items() if key != "id"})
        if not isinstance(ids, list | dict):
            raise Unreadable(f"{str(ids)[:80]!r} is not a ranking", "Write a list, or an object candidate -> score.")
        if isinstance(ids, dict):  # scores may be text, whose order is another one
            scored = ((score_of(value, ReadSettings()), str(candidate)) for candidate, value in ids.items())
            ids = [candidate for _, candidate in sorted(scored, reverse=True)]
        yield str(row["id"]), list(map(str, ids))


def trec_measures(ranking: Sequence[str], grades: Mapping[str, int]) -> dict[str, object]:
    """Return trec_eval's measures of one ranking, with its linear gain; 0 where nothing is ranked.

    >>> {name: round(value, 3) for name, value in trec_measures(["b", "a"], {"a": 2, "c": 1}).items()}
    {'ndcg_at_10': 0.48, 'map': 0.25, 'mrr': 0.5, 'recall_at_100': 0.5, 'hit_at_1': 0}
    """
    gains = [max(grades.get(each, 0), 0) for each in ranking]
    best = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    found = [rank for rank, gain in enumerate(gains, start=1) if gain]

    def discounted(listed: Sequence[int]) -> float:
        return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(listed[:10], start=1))

    return {
        "ndcg_at_10": discounted(gains) / discounted(best),
        "map": sum(n / rank for n, rank in enumerate(found, start=1)) / len(best),
        "mrr": 1 / found[0] if found else 0.0,
        "recall_at_100": sum(rank <= 100 for rank in found) / len(best),
        "hit_at_1": int(found[:1] == [1]),
    }


def _frame_rows(given: Any) -> Iterable[Row]:
    """Return the rows of a DataFrame or Series of pandas, with its index unless that is the numbers of its rows."""
    frame = given.to_frame("score") if hasattr(given, "to_frame") else given
    numbered = frame.index.name is None and [*frame.index] == [*range(len(frame))]
    return [*(frame if numbered or frame.index.name in frame else frame.reset_index()).to_dict("records")]


def log_files(given: Any) -> Iterable[tuple[str, ParsedFile]]:
    """Yield the name and the rows of a file, of each log in a folder, or of a table in memory.

    `given` is a path, an object id -> score, a DataFrame, a Series, a Dataset or a list of objects.

    Raises:
        UsageError: the path does not exist, or the folder has no logs.
    """
    if isinstance(given, Mapping):
        given = [{"id": key, "score": value} for key, value in given.items()]
    if not isinstance(given, str | Path):
        yield "the table", parsed_rows(list(_frame_rows(given) if hasattr(given, "iloc") else given))
        return
    path = Path(given)
    if not path.exists() and str(path) != STDIN:
        raise UsageError(f"{path} does not exist; expected a log, a table or a folder of logs. Check the path.")
    samples = path.with_name(f"{path.stem}{SAMPLES}")
    paths = [samples if path.suffix == ".json" and samples.is_file() else path]
    if path.is_dir() and not is_saved_dataset(path):
        paths = next((found for each in _LOG_FILES if (found := sorted(path.rglob(each)))), [])
        if not paths:
            raise UsageError(f"{path} has no {', '.join(_LOG_FILES)}; expected the logs of a harness. Name a file.")
    for file in paths:
        parsed = read_file(file, ReadSettings(whole_rows=True))
        dated = re.fullmatch(r"(?:samples|details)_(.+)_\d{4}-\d\d-\d\dT[\d.-]+", file.stem)
        parsed.title = parsed.title or (dated[1] if dated else "")
        if file.name.endswith(SAMPLES):
            parsed.stated = dict(_stated_in_record(file.with_name(file.name.replace(SAMPLES, ".json"))))
        yield shown_name(file), parsed
