"""Gold answers of examples, and warnings where predictions equal them or have their parts in another order."""

from collections import Counter
from collections.abc import Sequence
from itertools import permutations

from kbbench_hf.benchmarks.answers import Answer, AnswerKind, ShapeError
from kbbench_hf.benchmarks.base import Benchmark, Example, Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning, equals_gold_warning

LEAST_REORDERED = 5
"""Fewer triples may match the gold in another order by chance."""
_TRIPLE = (0, 1, 2)


def gold_answers(example: Example, kind: AnswerKind) -> list[Answer]:
    """Return the gold of an example in the form that is scored: as released and repaired, say; none where it is empty.

    The columns that hold it are `kind.gold`, and those whose names begin with it (`triples_repaired`).
    """
    name = kind.gold or kind.field
    results = []
    for column, value in example.items():
        if (column == name or column.startswith(f"{name}_")) and isinstance(value, list) and value:
            try:
                results.append(kind.read({kind.field: value}))
            except ShapeError:
                continue
    return results


def gold_warnings(
    benchmark: Benchmark, examples: Examples, answers: Sequence[Answer | None], column: str, with_texts: bool
) -> list[ScoreWarning]:
    """Return what a comparison of the answers with the gold says of the file they were read from.

    Answers that equal the gold are a warning where their file says that they may be the gold, else a note: the gold may
    be scored on purpose, to see what it gets. See `Predictions` for `column` and `with_texts`.
    """
    kind = benchmark.scoring.answer
    golds = [gold_answers(row, kind) for row in examples.rows]
    remedy = "See which column was read, and name the one with the predictions: --map."
    found = equals_gold_warning(answers, golds, kind, remedy, "warning" if column or with_texts else "note")
    if column and not found:
        message = f"The answers were read from {column!r}, which is a name of a gold column."
        remedy = "Name the column with the predictions: --map."
        found = [ScoreWarning("gold_column", message, remedy)]
    return [*found, *(_order_warning(answers, golds) if kind.parts else ())]


def _order_warning(answers: Sequence[Answer | None], golds: Sequence[Sequence[Answer]]) -> list[ScoreWarning]:
    """Return a warning where the triples match the gold only if the relation stood at another place."""
    right: Counter[tuple[int, ...]] = Counter()
    n = 0
    for answer, of_example in zip(answers, golds, strict=True):
        gold = {tuple(map(_folded, triple)) for each in of_example for triple in each}
        for triple in answer or ():
            if len(triple) == len(_TRIPLE):
                n += 1
                parts = [*map(_folded, triple)]
                right.update(order for order in permutations(_TRIPLE) if tuple(parts[k] for k in order) in gold)
    moved = [order for order in right if order != _TRIPLE and (order[1] != 1 or 2 * right[order] > n)]
    best = max(moved, key=lambda order: right[order], default=_TRIPLE)
    if right[best] < max(LEAST_REORDERED, n / 4) or right[best] <= 3 * right[_TRIPLE]:
        return []
    names = ("subject", "relation", "object")
    found = ", ".join(names[best.index(place)] for place in _TRIPLE)
    message = (
        f"The triples seem to be written as {found}: read so, {right[best]:,} of {n:,} equal the gold, and as "
        f"{', '.join(names)} {right[_TRIPLE]:,}."
    )
    return [ScoreWarning("part_order", message, "Write each triple as [subject, relation, object].", n)]


def _folded(part: object) -> str:
    return " ".join(str(part).replace("_", " ").casefold().split())
