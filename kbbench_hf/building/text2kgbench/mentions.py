"""How each sentence names the ends of its gold triples: the column `mentions`."""

from collections.abc import Sequence

from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.triple_values import read_gold
from kbbench_hf.text.words import separate


def with_mentions(rows: Sequence[Row]) -> list[Row]:
    """Return rows of `sentences` with `mentions`: one entry for each of `triples_repaired`, in order.

    The forms are those of `metrics.mention_forms`. Mode `repaired-2` finds them anew, by the same rules.

    >>> triples = [{"sub": "Heat", "rel": "director", "obj": "Michael Mann"}]
    >>> with_mentions([{"sentence": "Heat is by Mann.", "triples_repaired": triples}])[0]["mentions"]
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'subject_mentioned': True, 'subject_form': 'verbatim', 'object_mentioned': True, 'object_form': 'short'}]
    """
    return [row | {"mentions": _mentions(row)} for row in rows]


def _mentions(row: Row) -> list[Row]:
    gold = [(separate(each["sub"]), each["rel"], separate(each["obj"])) for each in row["triples_repaired"]]
    return [
        {
            "subject_mentioned": each.subject.found,
            "subject_form": each.subject.form,
            "object_mentioned": each.object.found,
            "object_form": each.object.form,
        }
        for each in read_gold(separate(row["sentence"]), gold)
    ]
