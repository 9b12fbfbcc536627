"""WebNLG's XML: the triples that a system extracted, an entry a text (`generatedtripleset`, as its 2020 challenge has).

Source: WebNLG/WebNLG-Text-to-triples, whose evaluation script reads these files.
"""

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from kbbench_hf.files.packing import Opened
from kbbench_hf.files.rows import How, Line, Reading, Unreadable

_START = re.compile(rb"\s*(<\?xml[^>]*>)?\s*(<!--.*?-->\s*)?<(benchmark|entries|entry)\b", re.DOTALL)
_SETS = {"generatedtripleset": "gtriple"}
_GOLD_SETS = ("modifiedtripleset", "originaltripleset")


def recognises(head: bytes) -> bool:
    """Say whether a text begins as WebNLG's XML does."""
    return _START.match(head) is not None


def read(opened: Opened, how: How) -> Reading:
    """Return the triples of each entry under its `eid`.

    Raises:
        Unreadable: no XML, with entities of its own, or the dataset's gold.
    """
    text = opened.read()
    if b"<!ENTITY" in text:
        raise Unreadable("XML that defines entities, which are not expanded here", "Write it without them.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 (a user's own file, without entities)
    except ElementTree.ParseError as error:
        raise Unreadable(f"not XML: {error}", "Write it again.", error.position[0]) from None
    entries = [root] if root.tag == "entry" else root.findall(".//entry")
    if entries and not any(entry.find(name) is not None for entry in entries for name in _SETS):
        found = next((name for name in _GOLD_SETS if entries[0].find(name) is not None), "no set of triples")
        raise Unreadable(
            f"WebNLG's XML with {found} and no generatedtripleset: the gold, no predictions",
            "Send a system's output: <generatedtripleset><gtriple>subject | relation | object</gtriple>.",
        )
    return Reading("WebNLG's XML", _rows(entries), fields={"id": "id", "triples": "triples"}, empty="it has no entry")


def _rows(entries: list[ElementTree.Element]) -> Iterator[Line]:
    for number, entry in enumerate(entries, start=1):
        names = {**entry.attrib, "id": entry.get("eid") or entry.get("id")}
        texts = [each.text or "" for name, tag in _SETS.items() for each in entry.findall(f"{name}/{tag}")]
        triples = [[part.strip() for part in text.split("|")] for text in texts if text.strip()]
        if wrong := next((text for text, triple in zip(texts, triples, strict=False) if len(triple) != 3), None):
            raise Unreadable(
                f"entry {number}: {wrong!r} is not 'subject | relation | object'", "Write two bars in each.", None
            )
        yield Line(number, {**names, "triples": triples})
