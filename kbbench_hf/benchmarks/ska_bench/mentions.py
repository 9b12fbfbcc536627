"""Whether a cell, row or passage mentions a name."""


def mentions(text: str, literal: str) -> bool:
    """Say whether a text in normal form holds the literal as whole words.

    >>> mentions("1 may 1993", "1993"), mentions("21", "1")
    (True, False)

    The empty literal is mentioned by the empty text alone.
    """
    if not literal:
        return not text
    start = text.find(literal)
    while start >= 0:
        end = start + len(literal)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() and literal[0].isalnum()) and not (after.isalnum() and literal[-1].isalnum()):
            return True
        start = text.find(literal, start + 1)
    return False
