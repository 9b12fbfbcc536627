"""What the words of a question on a table say: what is asked, how rows are bounded, and which words name nothing."""

import re
from collections.abc import Sequence

from kbbench_hf.benchmarks.ska_bench.table_programs import normal

WHOLE_TABLE = re.compile(
    r"\b(first|last|next|previous|previously|consecutive|following|prior|preceding|top|bottom|listed|average|all|every"
    r"|different|each|not|other|others|besides|except|excluding|without|same|both|only|never|until|ever|another|row"
    r"|column|chart|list|table|combined|percent|percentage|second|third|ranked|times as|half|current|currently|final)\b"
    r"|n't\b"
)
DANGLING = re.compile(r"\b(this|they|them|he|she|we|you)\b")
"""What is meant stands outside of the question, often in a title that is not shown."""
SUPERLATIVE = re.compile(
    r"\b(most|highest|largest|biggest|longest|greatest|latest|tallest|heaviest|least|lowest|smallest|shortest|earliest"
    r"|fewest|lightest|oldest|youngest|best|worst|fastest|slowest|maximum|minimum)\b"
)
COMPARED = re.compile(r"\bor\b")
FEWER = re.compile(
    r"\b(fewer|less|lower|smaller|shorter|earlier|sooner|slower|worse|least|lowest|shortest|earliest|fewest)\b"
)
EITHER_WAY = re.compile(r"\b(older|younger|better|higher rank|oldest|youngest|best|worst)\b")
"""Of a year of birth the older one is smaller, of an age larger."""
DIFFERENCE = re.compile(
    r"\b(difference|how many more|how much more|how many fewer|how much longer|how many less|how much higher"
    r"|how many years (?:passed|were|are|was|is|elapsed)?(?: there)? ?between)\b"
)
_WON, _LOST, _DRAWN = ("won", "win", "w"), ("lost", "loss", "l"), ("drawn", "draw", "tied", "tie", "d", "t")
RESULTS = {
    **dict.fromkeys(("won", "win", "wins", "victories"), _WON),
    **dict.fromkeys(("lost", "lose", "losses"), _LOST),
    **dict.fromkeys(("drew", "draw", "draws", "tied"), _DRAWN),
}
"""How tables write what verbs say of a match."""
SPOKEN_AS = {
    **dict.fromkeys(("medal", "medals"), ("total",)),
    **dict.fromkeys(("taller", "tall"), ("height",)),
    **dict.fromkeys(("earlier", "later", "sooner"), ("date", "year")),
    "deeper": ("depth",),
    "farther": ("distance",),
    "heavier": ("weight",),
    "longer": ("length", "duration"),
    "wider": ("width",),
}
"""Words of questions that speak of a column of another name."""
HOW_MANY = re.compile(r"\b(?:how many|number of|amount of)(?: total| the)? (\w+)")
TOTAL = re.compile(r"\b(total|altogether|in all|sum)\b")
ORDERED = re.compile(r"\b(before|after|since|above|below|over|under|between|more|less|fewer|greater|higher|lower)\b")
_N = r"(-?\$?\d[\d,]*(?:\.\d+)?)"
_YEAR = r"(?: the year)? (1[5-9]\d\d|20\d\d)\b"
BOUNDS = tuple(
    (re.compile(pattern), tests)
    for pattern, tests in (
        (rf"\bbetween(?: the years?)? {_N}(?: and |-){_N}", (">=", "<=")),
        (rf"\bfrom {_N}(?: (?:to|through|until) |-){_N}", (">=", "<=")),
        (rf"\b(?:at least|no (?:less|fewer) than|minimum of) {_N}", (">=",)),
        (rf"\b{_N} or (?:more|higher|above|greater|over)\b", (">=",)),
        (rf"\b(?:at most|no more than|up to|maximum of) {_N}", ("<=",)),
        (rf"\b{_N} or (?:less|fewer|lower|under|below)\b", ("<=",)),
        (rf"\b(?:more|greater|higher|larger|bigger|longer|older|taller) than {_N}", (">",)),
        (rf"\b(?:over|above|exceeding|exceeded) {_N}", (">",)),
        (rf"\b(?:less|fewer|lower|smaller|shorter|younger) than {_N}", ("<",)),
        (rf"\b(?:under|below) {_N}", ("<",)),
        (rf"\b(?:after|later than){_YEAR}", (">",)),
        (rf"\bsince{_YEAR}", (">=",)),
        (rf"\b(?:before|prior to|earlier than){_YEAR}", ("<",)),
    )
)
STOP_WORDS = frozenset(
    "a an the of in on at by for to from with and or is are was were be been did do does has have had what which who "
    "whom whose when where how many much number total name names year years time times during as that this these those "
    "they their his her its he she it there more less than most least before after between over under above below "
    "first last no yes any one two three four five six seven eight nine ten won win wins lost played play".split()
)


def spoken_of(asked: str, header: Sequence[str]) -> list[int]:
    """Return the columns whose names share words with a question, by how many, then from left to right.

    >>> spoken_of("which is taller, ann or bo?", ("Name", "Age", "Height (m)")), spoken_of("who won?", ("Name", "Pos"))
    ([2], [])
    """
    said = {word.strip(",.;:'\"") for word in asked.split()} - STOP_WORDS
    stems = {part[:4] for word in said for part in SPOKEN_AS.get(word, (word,))}
    shared = [len({word.strip("()")[:4] for word in normal(name).split()} & stems) for name in header]
    return sorted((column for column, n in enumerate(shared) if n), key=lambda column: -shared[column])
