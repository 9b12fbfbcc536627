"""The contract of the `evaluate` modules: which inputs they accept, and the keys and values that they return.

`compute` returns the same keys for the same options, each value a Python float, NaN where nothing was scored. With
`return_warnings=True` one further key, `warnings`, holds the warnings; in any case they are logged by `datasets`.

The modules on the Hub import it from the installed package, perhaps of a later version: signatures and keys stay.
"""

import json
import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from logging import Logger
from typing import Any, TypeVar

from kbbench_hf.benchmarks.answers import Answer, AnswerKind, ShapeError
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.aggregate import Estimate
from kbbench_hf.scoring.result import Result

WARNINGS = "warnings"
"""The key of a module's result that holds the warnings, where they are requested."""
Module = TypeVar("Module", bound=type)
ReadEntry = Callable[[Any], Any]
"""A prediction or reference, as lists, dictionaries, texts and numbers -> the form that is scored; may raise
`ShapeError`."""


class Unordered(list[Any]):
    """An entry that was a set: its items in sorted order, which means nothing."""


class EntryError(DataError, ValueError):
    """A prediction or reference does not have the form of the metric; `evaluate` raises `ValueError` for that."""


def reads(*, predictions: ReadEntry, references: ReadEntry, arrays: bool = False) -> Callable[[Module], Module]:
    """Return a class decorator that checks what an `evaluate` module is given, and stores each entry as JSON text.

    Not as features of `datasets`: a list of strings reads the keys of a dictionary, and `datasets.Json` makes the
    number 1.5 of the string "1.50". The module declares two features of strings, and `decode` reads them.

    Args:
        predictions: the reader of a prediction.
        references: the reader of a reference.
        arrays: whether all predictions or references may be one array of numbers; as answers these are token ids.
    """
    readers = {"predictions": predictions, "references": references}

    def decorate(cls: Module) -> Module:
        add_batch, add = cls.add_batch, cls.add  # type: ignore[attr-defined]

        # `evaluate` copies these functions and appends to the docstring of the copy, which must have one.
        def checked_batch(self: Any, *, predictions: Any = None, references: Any = None, **others: Any) -> None:
            """Add predictions and references."""
            add_batch(self, **encode(type(self), predictions, references), **others)

        def checked(self: Any, *, prediction: Any = None, reference: Any = None, **others: Any) -> None:
            """Add a prediction and its reference."""
            given = encode(type(self), [prediction], [reference])
            add(self, prediction=given["predictions"][0], reference=given["references"][0], **others)

        cls.add_batch, cls.add = checked_batch, checked  # type: ignore[attr-defined]
        cls.entry_readers, cls.takes_arrays = readers, arrays  # type: ignore[attr-defined]
        return cls

    return decorate


def encode(module: Any, predictions: Any, references: Any) -> dict[str, list[str]]:
    """Return predictions and references as a module that `reads` stores them.

    Raises:
        EntryError: they are no list, are not equally many, or an entry cannot be read.
    """
    given = {"predictions": predictions, "references": references}
    columns = {name: _column(column, name, arrays=module.takes_arrays) for name, column in given.items()}
    n_predictions, n_references = map(len, columns.values())
    if n_predictions != n_references:
        raise EntryError(
            f"There are {n_predictions:,} predictions and {n_references:,} references; expected one reference for each "
            "prediction, in the same order. Add what is missing."
        )
    return {
        name: [_encode_entry(module.entry_readers[name], entry, name, n) for n, entry in enumerate(column)]
        for name, column in columns.items()
    }


def decode(predictions: Iterable[str], references: Iterable[str]) -> tuple[list[Any], list[Any]]:
    """Return the predictions and references that `encode` stored.

    Raises:
        EntryError: some predictions are texts, and others are not.
    """
    answers, gold = ([json.loads(entry) for entry in column] for column in (predictions, references))
    if len({isinstance(answer, str) for answer in answers}) > 1:
        raise EntryError("Predictions mix texts and lists; expected one kind. Convert one of them.")
    return answers, gold


def module_result(
    estimates: Mapping[str, Estimate],
    counts: Mapping[str, float],
    warnings: Sequence[ScoreWarning],
    *,
    n: int,
    return_ci: bool = False,
    return_warnings: bool = False,
) -> dict[str, Any]:
    """Return the result of a module in the common form, and log its warnings.

    The keys are each metric, with `return_ci` its `<metric>_ci95_low` and `<metric>_ci95_high`, then the counts; with
    `return_warnings`, `warnings`. An interval without finite ends is NaN at both.

    Args:
        estimates: the mean of each metric.
        counts: further numbers, under their names.
        warnings: what a reader should know before believing the scores.
        n: how many examples there are; a warning says that there are none.
        return_ci: whether to add the intervals.
        return_warnings: whether to add the warnings.

    >>> from kbbench_hf.metrics.aggregate import estimate
    >>> module_result({"rows": estimate([3.0], bounded=False)}, {"n_scored": 1}, [], n=1, return_ci=True)
    {'rows': 3.0, 'rows_ci95_low': nan, 'rows_ci95_high': nan, 'n_scored': 1.0}
    """
    result: dict[str, Any] = {}
    for metric, estimate in estimates.items():
        result[metric] = float(estimate.value)
        if return_ci:
            known = all(map(math.isfinite, estimate.ci95))
            result[f"{metric}_ci95_low"], result[f"{metric}_ci95_high"] = (
                float(end) if known else math.nan for end in estimate.ci95
            )
    result |= {name: float(count) for name, count in counts.items()}
    all_warnings = [*warnings, *_unscored(estimates, counts, explained=bool(warnings))]
    if not n:
        message = "There are no predictions; nothing is scored, and every metric is NaN."
        all_warnings = [ScoreWarning("no_examples", message, "Give at least one prediction with its reference.")]
    for warning in all_warnings:
        (_logger().warning if warning.severity == "warning" else _logger().info)("%s", warning)
    if return_warnings:
        result[WARNINGS] = [warning.to_dict() for warning in all_warnings]
    return result


def _unscored(
    estimates: Mapping[str, Estimate], counts: Mapping[str, float], *, explained: bool
) -> Iterator[ScoreWarning]:
    """Yield warnings on references without gold, and on metrics that are NaN and not explained by another warning."""
    remedy = "Give references with gold answers, or leave these examples out."
    if (n_empty := counts.get("n_empty_gold", 0)) > 0:
        message = f"{n_empty:,.0f} references are empty: such examples score 0, or are left out in some modes."
        yield ScoreWarning("empty_gold", message, remedy, int(n_empty))
    elif not explained and (undefined := [name for name, each in estimates.items() if math.isnan(each.value)]):
        yield ScoreWarning("not_scored", f"NaN: {', '.join(undefined)}. No reference has what they need.", remedy)


def trainer_metrics(result: Mapping[str, Any] | Result) -> dict[str, float]:
    """Return the part of a result that a `transformers` Trainer can log: finite numbers, as Python floats.

    For `compute_metrics`. `Trainer.log_metrics` fails on lists, and NaN makes `trainer_state.json` invalid JSON. What
    is left out is logged as a warning by `datasets`.

    Args:
        result: what `compute` of an `evaluate` module returned, several of them merged, or a `Result`: its scores and
            counters.

    >>> import datasets
    >>> datasets.utils.logging.set_verbosity_error()
    >>> trainer_metrics({"f1": 0.5, "completeness": math.nan, "n_scored": 2, "warnings": []})
    {'f1': 0.5, 'n_scored': 2.0}
    >>> datasets.utils.logging.set_verbosity_warning()
    """
    if isinstance(result, Result):
        result = {**{metric: each.value for metric, each in result.scores.items()}, **result.counters}
    numbers: dict[str, float] = {}
    dropped: list[str] = []
    for name, value in result.items():
        plain = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(plain, int | float) and math.isfinite(plain):
            numbers[str(name)] = float(plain)
        else:
            dropped.append(f"{name} ({plain if isinstance(plain, float) else type(plain).__name__})")
    if dropped:
        _logger().warning("A Trainer can log finite numbers only; left out: %s.", ", ".join(dropped))
    return numbers


def read_list(kind: AnswerKind) -> ReadEntry:
    """Return the reader of entries of a kind of answers: a list, or a dictionary that has it under the kind's field."""

    def read(entry: Any) -> Answer:
        return kind.read({kind.field: entry[kind.field] if isinstance(entry, dict) and kind.field in entry else entry})

    return read


def _column(given: Any, name: str, *, arrays: bool) -> list[Any]:
    """Return a column of entries as a list.

    Raises:
        EntryError: it is a text, a mapping, a set or a table, or (without `arrays`) an array of several dimensions.
    """
    if given is None or isinstance(given, str | bytes | Mapping | set | frozenset) or not isinstance(given, Iterable):
        kind = "missing" if given is None else f"of type {type(given).__name__}"
        raise EntryError(f"The {name} are {kind}; expected a list with one entry per example. Give a list.")
    if hasattr(given, "columns") or hasattr(given, "column_names"):
        raise EntryError(f"The {name} are a table; expected a list with one entry per example. Give one column.")
    shape = tuple(getattr(given, "shape", ()))
    if not arrays and len(shape) > 1:
        raise EntryError(
            f"The {name} are an array of shape {shape}, such as token ids or logits; expected a list with "
            "one entry per example. Decode token ids: tokenizer.batch_decode(ids, skip_special_tokens=True)."
        )
    return list(given)


def _encode_entry(read: ReadEntry, entry: Any, name: str, n: int) -> str:
    """Return an entry as JSON text, in the form that is scored.

    Raises:
        EntryError: it is None or has another form.
    """
    try:
        if entry is None:
            raise ShapeError("it is None; expected an empty list or text where there is no answer")
        if isinstance(entry, set | frozenset):
            return json.dumps(read(Unordered(sorted(map(_plain_value, entry), key=repr))))
        return json.dumps(read(_plain_value(entry)))
    except ShapeError as error:
        shown = reprlib.repr(entry)
        raise EntryError(f"{name.capitalize()[:-1]} {n}, {shown}, cannot be read: {error}. Correct it.") from None


def _plain_value(value: Any) -> Any:
    """Return a value as lists, dictionaries, texts and numbers: arrays, tensors and tuples become lists."""
    if hasattr(value, "tolist"):
        return _plain_value(value.tolist())
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(each) for each in value]
    raise ShapeError(f"it holds a value of type {type(value).__name__}; expected lists, texts and numbers")


def _logger() -> Logger:
    """Return a logger below that of `datasets`, whose verbosity holds for it."""
    from datasets.utils.logging import get_logger

    logger: Logger = get_logger("datasets.kbbench_hf")
    return logger
