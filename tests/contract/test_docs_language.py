"""The prose of the README and of the site: short sentences, and no words that `BANNED` lists.

`python -m tests.contract.test_docs_language PAGE ...` prints the long sentences and the idioms of pages.
"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CARDS = sorted((ROOT / "kbbench_hf/building").glob("*/cards/*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *CARDS]
LONGEST_MEAN, LONGEST_PAGE_MEAN = 18.0, 20.0

BANNED = {
    r"figures?": "score, value, metric",
    r"stands?|stood|standing": "is shown, is listed, is in",
    r"at hand": "installed, available locally",
    r"cannot be (?:told|had)": "is not significantly different from; is not available",
    r"(?:is|are|be|was) said|says? so|said": "is reported, prints, shows",
    r"beside": "next to, with",
    r"nobody|somebody|anybody|whoever|whom": "no user, another process, any model that",
    r"asks?|asked": "query, prompt, request",
    r"tells? (?:of|apart)|told": "reports",
    r"(?<!there )(?:is|are) no(?! longer| more)|that are none": "is not a valid",
    r"what is ours|ours": "kbbench",
    r"accidents?": "bugs",
    r"at work": "running",
    r"by heart": "memorized",
    r"so often": "repeated",
    r"held against": "compared with",
    r"comes? out|came out": "is reproduced",
    r"what is (?:trained|looked at|missed|asked)|in small|mends?": "training, use of, selection error, mini, repair",
    r"licences?|neighbours?|colours?|behaviour|(?:normal|organ|random|recogn)is\w+": "American spelling",
}
"""Idiom (a regular expression over whole words, case ignored) -> what to write."""

EXEMPT = {
    "the figure of a paper": (r"Figures \d+", "names pictures of a paper"),
    "code": (r"`[^`]*`", "names of columns, options and classes"),
    "a relation of Wikidata": ("said to be the same as", "quoted data"),
}
"""What is removed before words are searched -> (pattern, reason)."""

_FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)\s*$", re.M | re.S)
_TABLE = re.compile(r"^\|.*$", re.M)
_MATH = re.compile(r"^\$\$.*?\$\$$", re.M | re.S)
_HTML = re.compile(r"</?(?:details|summary|p|img|b|br|div|picture|source)\b[^>]*>")
_LINK = re.compile(r"!?\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?])[)\"'*]*\s+(?=[A-Z`(\"'*\d\[$-])")


def prose(text: str, *, tables: bool = False) -> str:
    """Return the text of a Markdown page without code blocks, formulas, addresses and, unless set, tables."""
    text = re.sub(r"\A---\n.*?^---$", "", text, flags=re.M | re.S)
    text = _HTML.sub("", _MATH.sub("", _FENCE.sub("", text)))
    text = _LINK.sub(lambda found: "" if found[0].startswith("!") else found["text"], text)
    return text if tables else _TABLE.sub("", text)


def sentences(text: str) -> list[str]:
    """Return the sentences of a page; a paragraph and a list item end one, headings are left out."""
    parts = re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) |^#.*$", prose(text), flags=re.M)
    found = [one for part in parts for one in _END.split(" ".join(part.split())) if one]
    return [one for one in found if len(words(one)) > 1]


def words(sentence: str) -> list[str]:
    """Return the words of a sentence; code between backquotes is one."""
    return [word for word in re.sub(r"`[^`]+`", "code", sentence).split() if re.search(r"\w", word)]


def idioms(text: str) -> list[str]:
    """Return the banned idioms of a page, each with the words around it."""
    shown = prose(text, tables=True)
    for pattern, _ in EXEMPT.values():
        shown = re.sub(pattern, "`...`", shown)
    found = re.finditer(rf"\b(?:{'|'.join(BANNED)})\b", shown, re.I)
    return [" ".join(shown[max(0, each.start() - 30) : each.end() + 30].split()) for each in found]


def mean_length(text: str) -> float:
    """Return the mean number of words per sentence, 0 without sentences."""
    lengths = [len(words(each)) for each in sentences(text)]
    return sum(lengths) / len(lengths) if lengths else 0.0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_uses_plain_words_and_short_sentences(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert idioms(text) == []
    assert mean_length(text) <= LONGEST_PAGE_MEAN


def test_the_mean_sentence_of_all_pages_is_short() -> None:
    assert 5 < mean_length("\n\n".join(page.read_text(encoding="utf-8") for page in PAGES)) <= LONGEST_MEAN


if __name__ == "__main__":
    for name in sys.argv[1:]:
        content = Path(name).read_text(encoding="utf-8")
        print(f"{name}: {len(sentences(content))} sentences, mean {mean_length(content):.1f} words")
        print(*(f"  long: {each}" for each in sentences(content) if len(words(each)) > 24), sep="\n")
        print(*(f"  idiom: {each}" for each in idioms(content)), sep="\n")
