"""Word lists of `parsing/data/*.txt`: rows of regular expressions under names, joined to one expression each."""

import re
from functools import cache
from importlib.resources import files


@cache
def word_lists(name: str) -> dict[str, str]:
    r"""Return the expressions of a data file by name, each an alternation of its rows.

    Rows of a list of whole words match whole words only; those in scripts without spaces match anywhere. An indented
    line continues the row above it. `@name@` stands for an earlier list of the file.

    >>> word_lists("cues")["others"].startswith(r"\b(?:others?|else|")
    True
    """
    text = (files("kbbench_hf.parsing") / "data" / f"{name}.txt").read_text(encoding="utf-8")
    lists: dict[str, str] = {}
    for heading, body in re.findall(r"^\[(.+)\]\n((?:(?!\[[a-z_, ]+\]$).*\n)*)", text, re.MULTILINE):
        key, _, words = heading.partition(", ")
        rows = body.replace("\n  ", "").splitlines()
        if words:
            rows = [rf"\b(?:{row})(?!\w)" if row < "\u0600" else row for row in rows]
        lists[key] = re.sub(r"@(\w+)@", lambda match: lists[match[1]], "|".join(rows))
    return lists
