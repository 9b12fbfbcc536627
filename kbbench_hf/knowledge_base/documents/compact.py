"""The one-line form of a document, as published rankings used it."""

import re

_GAP = re.compile(r"\s\s+")  # the same as \s{2,}, which `re` searches for more slowly


def compact_text(text: str) -> str:
    r"""Return a document on one line, as the released `compact_text` writes it.

    It deletes every "- ", also inside prose, and turns ends of lines into sentences.
    Source: `stark_qa/tools/process_text.py` of snap-stanford/stark (MIT).

    >>> compact_text("- name: IL-2 - alpha\n- type: gene\n- details:\n")
    'name: IL-2 alpha. type: gene. details: '
    """
    text = text.replace("\n", ". ").replace("\r", "").replace("- ", "")
    text = text.replace(": .", ":").replace(":.", ":")
    return _GAP.sub(" ", text).replace(".. ", ". ")
