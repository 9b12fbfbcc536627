"""What of a row's identity a reader should know: whose name it has, whose answers, and whether they are the gold."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from kbbench_hf.files.datasets import Row
from kbbench_hf.leaderboard.likeness import Answered, GoldLikeness, copies
from kbbench_hf.leaderboard.owners import Named, doubts

FlagCode = Literal["name", "look_alike", "claim", "copy", "gold"]


class Flag(NamedTuple):
    """One thing that a reader should know of a row's identity, as a sentence and a word for programs."""

    code: FlagCode
    reason: str
    """A whole sentence, with the names of both rows where there are two."""
    other: str = ""
    """The id of the row that it is about; empty where it is about none."""


def flags(names: Sequence[Named], rows: Sequence[Row]) -> dict[str, tuple[Flag, ...]]:
    """Return the flags of the rows of a place that have some.

    Args:
        names: the names of all rows of all places, in the order in which they were stored.
        rows: the place's rows, and those in its other modes, as `Index.rows` gives them, in that order too.
    """
    found: dict[str, list[Flag]] = defaultdict(list)
    in_doubt = doubts(names)
    by_id = {row["id"]: row for row in rows}
    for row in rows:
        found[row["id"]] += [Flag(*doubt) for doubt in in_doubt.get(row["id"], ())]
        if (likeness := _likeness(row)) and likeness.suspicious() and not _is_own(row):
            found[row["id"]].append(Flag("gold", _gold(likeness)))
    first = sorted(rows, key=lambda row: row["id"] in in_doubt)  # whose name is in doubt is not first with the answers
    for copy, (of, whole) in copies([_answered(row) for row in first]).items():
        name, submitter = by_id[of]["system"]["name"], by_id[of]["submitter"]
        how = "Its answers are" if whole else "All but a few of its answers, mistakes among them, are"
        found[copy].append(Flag("copy", f"{how} those of {name!r} by {submitter}.", of))
    return {row: tuple(of_row) for row, of_row in found.items() if of_row}


def _gold(likeness: GoldLikeness) -> str:
    if 2 * likeness.padded > likeness.n:
        return f"All of {likeness.n:,} answers hold the whole gold, most of them with something beside it."
    return f"{likeness.exact:,} of {likeness.n:,} answers are exactly the gold."


def _answered(row: Row) -> Answered:
    likeness = _likeness(row)
    n_mistakes = likeness.n - likeness.exact if likeness else row["counters"].get("n_examples", 0)
    return Answered(row["id"], row["system"]["name"], row["submitter"], row.get("parts", ()), n_mistakes, _is_own(row))


def _likeness(row: Mapping[str, object]) -> GoldLikeness | None:
    found = row.get("gold")
    return GoldLikeness(*found) if isinstance(found, list) else None


def _is_own(row: Row) -> bool:
    return bool(row["origin"] != "submitted")
