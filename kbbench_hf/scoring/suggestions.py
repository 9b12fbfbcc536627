"""Where the fields of a prediction may be in a row that calls them otherwise: what --map is told."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from kbbench_hf.files.datasets import Id
from kbbench_hf.files.list_text import whole_number


def suggested_map(row: object, wanted: Sequence[str], known: AbstractSet[Id]) -> str:
    """Return the option that may say where the wanted fields are, `id` by the ids that are known, another as a list.

    >>> row = {"qid": "q7", "pred": {"entities": ["a"]}, "gold": ["b"]}
    >>> suggested_map(row, ["id"], {"q7"})
    'Say where it is: --map id=qid.'
    >>> suggested_map(row, ["id", "answers"], {"q7"})
    'Say where they are: --map id=qid,answers=PATH; lists stand at pred.entities and gold.'
    """
    paths = dict(_paths(row)) if isinstance(row, Mapping) else {}
    ids = [path for path, value in paths.items() if _may_be_id(path, value, known)]
    lists = [path for path, value in paths.items() if isinstance(value, list)]
    found, several = [], ""
    for name in wanted:
        if name == "id":
            found.append(f"id={ids[0] if ids else 'PATH'}")
        else:
            found.append(f"{name}={lists[0] if len(lists) == 1 else 'PATH'}")
            several = f"; lists stand at {' and '.join(lists[:5])}" if len(lists) > 1 else ""
    return f"Say where {'they are' if len(wanted) > 1 else 'it is'}: --map {','.join(found)}{several}."


def _may_be_id(path: str, value: object, known: AbstractSet[Id]) -> bool:
    """Say whether a value is the id of an example: small numbers only under a name of an id, and never a position."""
    if path.endswith("doc_id") or isinstance(value, bool) or not isinstance(value, str | int):
        return False
    if isinstance(value, str) and value in known:
        return True
    return path.rpartition(".")[2].lower().endswith("id") and bool({value, whole_number(value), str(value)} & known)


def _paths(row: Mapping[str, object], before: str = "", depth: int = 3) -> Iterator[tuple[str, object]]:
    for name, value in row.items():
        if isinstance(value, Mapping) and depth:
            yield from _paths(value, f"{before}{name}.", depth - 1)
        else:
            yield f"{before}{name}", value
