"""Importer of WebNLG XML: the triples that a system extracted from each text (`generatedtripleset`, 2020 challenge).

Source: WebNLG/WebNLG-Text-to-triples, whose evaluation script reads these files.
"""

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from kbbench_hf.files.packing import OpenedFile
from kbbench_hf.files.rows import ParsedFile, ParsedRow, ReadSettings, Unreadable

_START = re.compile(rb"\s*(<\?xml[^>]*>)?\s*(<!--.*?-->\s*)?<(benchmark|entries|entry)\b", re.DOTALL)
_SET = "generatedtripleset"
_GOLD_SETS = ("modifiedtripleset", "originaltripleset")


def is_webnlg(head: bytes) -> bool:
    """Return whether a text starts like WebNLG XML."""
    return _START.match(head) is not None


def parse_webnlg(opened: OpenedFile, settings: ReadSettings) -> ParsedFile:
    """Return the triples of each entry under its `eid`.

    Raises:
        Unreadable: it is not XML, defines entities, or is the gold of the dataset.
    """
    text = opened.read()
    if b"<!ENTITY" in text:
        raise Unreadable("XML that defines entities, which are not expanded here", "Write it without them.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 (a user's own file, without entities)
    except ElementTree.ParseError as error:
        raise Unreadable(f"not XML: {error}", "Write it again.", error.position[0]) from None
    entries = [root] if root.tag == "entry" else root.findall(".//entry")
    if entries and all(entry.find(_SET) is None for entry in entries):
        gold_set = next((name for name in _GOLD_SETS if entries[0].find(name) is not None), "no set of triples")
        raise Unreadable(
            f"WebNLG's XML with {gold_set} and no generatedtripleset: the gold, no predictions",
            "Send a system's output: <generatedtripleset><gtriple>subject | relation | object</gtriple>.",
        )
    return ParsedFile(
        "WebNLG's XML", _rows(entries), fields={"id": "id", "triples": "triples"}, empty="it has no entry"
    )


def _rows(entries: list[ElementTree.Element]) -> Iterator[ParsedRow]:
    for number, entry in enumerate(entries, start=1):
        names = {**entry.attrib, "id": entry.get("eid") or entry.get("id")}
        texts = [each.text or "" for each in entry.findall(f"{_SET}/gtriple")]
        triples = [[part.strip() for part in text.split("|")] for text in texts if text.strip()]
        if wrong := next((text for text, triple in zip(texts, triples, strict=False) if len(triple) != 3), None):
            raise Unreadable(
                f"entry {number}: {wrong!r} is not 'subject | relation | object'", "Write two bars in each.", None
            )
        yield ParsedRow(number, {**names, "triples": triples})
