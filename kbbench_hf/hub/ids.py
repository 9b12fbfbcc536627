"""Parser of dataset ids of the Hub on the command line: `org/name[@revision][:[config/]split]`."""

import re
from typing import NamedTuple

_ID = re.compile(
    r"(?P<scheme>hf:/{1,2}(?:datasets/)?)?(?P<name>[A-Za-z0-9][\w.-]*/[\w.-]+)(?:@(?P<revision>[\w.-]+))?"
    r"(?::(?:(?P<config>[\w.-]+)/)?(?P<split>[\w.-]+))?"
)
_FILE = re.compile(r"\.(?:jsonl?|csv|tsv|txt|run|trec|parquet|arrow|eval|zip|xlsx|gz|zst|bz2|xz)$", re.IGNORECASE)


class DatasetId(NamedTuple):
    """The name of a dataset, and its revision, config and split where given."""

    name: str
    revision: str | None
    config: str | None
    split: str | None


def dataset_id(text: str) -> DatasetId | None:
    """Return the parsed id of a dataset, or None where the text looks like a file.

    >>> dataset_id("me/answers:test")
    DatasetId(name='me/answers', revision=None, config=None, split='test')
    >>> dataset_id("runs/answers.jsonl"), dataset_id("answers")
    (None, None)
    """
    match = _ID.fullmatch(text)
    if match is None or (_FILE.search(match["name"]) and not match["scheme"]):
        return None
    return DatasetId(match["name"], match["revision"], match["config"], match["split"])
