import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.retrieval.vss import recursive_chunks

try:
    from langchain_text_splitters import RecursiveCharacterTextSplitter
except ImportError:
    RecursiveCharacterTextSplitter = None

WORDS = st.sampled_from(["a", "bb", "ö", "word", "longer" * 9, "- ", ". ", " ", "  ", "\n", "\n\n", "\n\n\n", "\u2003"])
TEXTS = st.lists(WORDS, max_size=60).map("".join)
WORKED = [
    ("", 8, 2, []),
    ("   ", 8, 2, []),
    ("one two three", 99, 9, ["one two three"]),
    ("aa bb cc dd ee", 9, 6, ["aa bb cc", "bb cc dd", "cc dd ee"]),
    ("abcdefgh ij", 4, 1, ["abcd", "defg", "gh", "ij"]),
    ("one two\n\nthree four", 12, 3, ["one two", "three four"]),
]


@pytest.mark.parametrize(("text", "size", "overlap", "chunks"), WORKED)
def test_texts_are_cut_as_worked_out_by_hand(text: str, size: int, overlap: int, chunks: list[str]) -> None:
    assert recursive_chunks(text, size, overlap) == chunks


@pytest.mark.skipif(RecursiveCharacterTextSplitter is None, reason="needs langchain-text-splitters")
@given(TEXTS, st.one_of(st.just((256, 51)), st.tuples(st.integers(1, 40), st.integers(0, 40)).map(sorted)))
def test_every_text_is_cut_as_langchain_cuts_it(text: str, numbers: tuple[int, int]) -> None:
    overlap, size = sorted(numbers)
    theirs = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap).split_text(text)
    assert recursive_chunks(text, size, overlap) == theirs
