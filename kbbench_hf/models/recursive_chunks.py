"""Cutting a text into overlapping chunks at the coarsest places that will do: paragraphs, lines, words, characters.

Source: `RecursiveCharacterTextSplitter` of langchain-text-splitters (MIT), with its defaults.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

SEPARATORS = ("\n\n", "\n", " ", "")


def recursive_chunks(text: str, size: int, overlap: int, separators: Sequence[str] = SEPARATORS) -> list[str]:
    """Return chunks of at most `size` characters, each repeating at most `overlap` of the one before.

    The text is cut before each of the first separator that it holds; what is still too long is cut by the next ones,
    the last of which cuts between any two characters. Chunks lose their outer white space; an empty one is left out,
    so that an empty text has none.

    >>> recursive_chunks("one two three four", 9, 4)
    ['one two', 'three', 'four']
    """
    place, separator = next((i, each) for i, each in enumerate(separators) if each in text)
    first, *others = text.split(separator) if separator else ["", *text]
    finer = separators[place + 1 :]
    chunks: list[str] = []
    short: list[str] = []
    for piece in filter(None, [first, *(separator + each for each in others)]):
        if len(piece) < size:
            short.append(piece)
            continue
        chunks += _joined(short, size, overlap)
        chunks += recursive_chunks(piece, size, overlap, finer) if finer else [piece]
        short = []
    return [*chunks, *_joined(short, size, overlap)]


def _joined(pieces: Iterable[str], size: int, overlap: int) -> Iterator[str]:
    """Yield runs of pieces of at most `size` characters; the next begins with those that fit into the overlap."""
    run, length = deque[str](), 0
    for piece in pieces:
        if run and length + len(piece) > size:
            yield from _stripped(run)
            while length > overlap or (length and length + len(piece) > size):
                length -= len(run.popleft())
        run.append(piece)
        length += len(piece)
    yield from _stripped(run)


def _stripped(run: Iterable[str]) -> list[str]:
    chunk = "".join(run).strip()
    return [chunk] if chunk else []
