"""A run of a retriever as other evaluators read it: TREC's files, or ranx's.

Their rules for equal scores differ: trec_eval and what stands on it take the id that is last in the alphabet first,
ranx leaves the order to its sort, we take the lowest id first. So scores are written that say the rank and nothing
else: n for the first of n candidates, 1 for the last. On these files trec_eval, ir_measures and ranx find our figures
of mode `standard`.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from kbbench_hf.errors import DataError

Id = str | int
Lists = Mapping[Id, Sequence[Id]]
"""Query -> candidates."""


def trec_files(rankings: Lists, gold: Lists, tag: str) -> dict[str, str]:
    r"""Return `run.trec` (`query Q0 candidate rank score tag`) and `qrels.trec` (`query 0 candidate relevance`).

    A query without candidates has no line in a run; `trec_eval -c` counts it as 0 all the same.

    Raises:
        DataError: an id is empty or holds white space, which separates the columns.

    >>> trec_files({7: [3, 9]}, {7: [9]}, "bm25")["run.trec"]
    '7 Q0 3 1 2 bm25\n7 Q0 9 2 1 bm25\n'
    """
    names = {each for lists in (rankings, gold) for query, ids in lists.items() for each in (query, *ids)}
    for name in names:
        if str(name).split() != [str(name)]:
            raise DataError(
                f"The id {name!r} cannot be written to a TREC file: its columns end at blanks. Use --as ranx."
            )
    run = [
        f"{query} Q0 {candidate} {rank} {len(ids) - rank + 1} {'-'.join(tag.split())}\n"
        for query, ids in rankings.items()
        for rank, candidate in enumerate(ids, start=1)
    ]
    qrels = [f"{query} 0 {candidate} 1\n" for query, ids in gold.items() for candidate in dict.fromkeys(ids)]
    return {"run.trec": "".join(run), "qrels.trec": "".join(qrels)}


def ranx_files(rankings: Lists, gold: Lists, tag: str) -> dict[str, str]:
    r"""Return `run.json` and `qrels.json`, query -> candidate -> score, for `Run.from_file` and `Qrels.from_file`.

    >>> ranx_files({7: [3, 9]}, {7: [9]}, "bm25")["run.json"]
    '{"7": {"3": 2, "9": 1}}\n'
    """
    run = {
        str(query): {str(each): len(ids) - place for place, each in enumerate(ids)} for query, ids in rankings.items()
    }
    qrels = {str(query): {str(each): 1 for each in ids} for query, ids in gold.items()}
    return {
        f"{name}.json": json.dumps(each, ensure_ascii=False) + "\n" for name, each in (("run", run), ("qrels", qrels))
    }


RANKING_FILES: Mapping[str, Callable[[Lists, Lists, str], dict[str, str]]] = {"trec": trec_files, "ranx": ranx_files}
"""Name of the format -> what makes its files: file name -> content."""
