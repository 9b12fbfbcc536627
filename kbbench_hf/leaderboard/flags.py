"""What of a row's identity a reader should know: whose name it has, whose answers, and whether they are the gold."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from kbbench_hf.leaderboard.index import StoredRow
from kbbench_hf.leaderboard.likeness import Answered, GoldLikeness, copies
from kbbench_hf.leaderboard.owners import Doubt
from kbbench_hf.leaderboard.records import Record

FlagCode = Literal["name", "look_alike", "claim", "copy", "gold"]


class Flag(NamedTuple):
    """One thing that a reader should know of a row's identity, as a sentence and a word for programs."""

    code: FlagCode
    reason: str
    """A whole sentence, with the names of both rows where there are two."""
    other: str = ""
    """The id of the row that it is about; empty where it is about none."""


def flags(in_doubt: Mapping[str, Sequence[Doubt]], rows: Sequence[StoredRow]) -> dict[str, tuple[Flag, ...]]:
    """Return the flags of the rows of a place that have some.

    Args:
        in_doubt: what is doubtful about the names of all rows of all places, as `Index.doubts` gives it.
        rows: the place's rows, and those in its other modes, as `Index.rows` gives them, in that order too.
    """
    found: dict[str, list[Flag]] = defaultdict(list)
    records = {row.record.id: row.record for row in rows}
    for name, record in records.items():
        found[name] += [Flag(*doubt) for doubt in in_doubt.get(name, ())]
        if record.gold and record.gold.suspicious() and not _is_own(record):
            found[name].append(Flag("gold", _gold(record.gold)))
    first = sorted(rows, key=lambda row: row.record.id in in_doubt)  # whose name is in doubt is not first with answers
    for copy, (of, whole) in copies([_answered(row) for row in first]).items():
        how = "Its answers are" if whole else "All but a few of its answers, mistakes among them, are"
        reason = f"{how} those of {records[of].system.name!r} by {records[of].submitter}."
        found[copy].append(Flag("copy", reason, of))
    return {row: tuple(of_row) for row, of_row in found.items() if of_row}


def _gold(likeness: GoldLikeness) -> str:
    if 2 * likeness.padded > likeness.n:
        return f"All of {likeness.n:,} answers hold the whole gold, most of them with something beside it."
    return f"{likeness.exact:,} of {likeness.n:,} answers are exactly the gold."


def _answered(row: StoredRow) -> Answered:
    record, gold = row.record, row.record.gold
    n_mistakes = gold.n - gold.exact if gold else row.headline["counters"].get("n_examples", 0)
    parts = row.headline["parts"]
    return Answered(record.id, record.system.name, record.submitter, parts, n_mistakes, _is_own(record))


def _is_own(record: Record) -> bool:
    return record.origin != "submitted"
