"""MetaQA's question templates (ten or so for each path), with their slips of grammar mended by rule.

The templates were written by people and turned around by program, which left "what types are the movies starred by X".
A rule changes the form of a wording, never which facts answer it. A wording that no rule can mend, because it asks for
one example only, is no question, or cannot be understood, is left out.
"""

import re

BLANK = "*"
"""Stands for the topic in a wording."""

_LEFT_OUT = (
    r"\ba (film|movie)\b",  # "can you name a film ...": one is right, all are gold
    r"^(?!.*\b(who|whom|whose|which|what|when|where|how)\b)",  # "the scriptwriter of X also wrote movies"
    r"\bthat the (actors|directors)\b",  # "who are the directors that the actors in their films also appear in X"
    r"\bthe actors of the (director|screenwriter|writer)\b",
    r"\b(primary|main)\b",  # the graph does not say which of several languages is the main one
)
_MENDED = (
    (r"^who in the world\b", "who"),
    (r"^(?:which|what) person\b", "who"),
    (r"\bwho is listed as (director|screenwriter) (?:of|for)\b", r"who is the \1 of"),
    (r"^who is the director that directed\b", "who directed"),
    (r"\brelease dates\b", "release years"),
    (r"\brelease date\b", "release year"),
    (r"\brelease years the\b", "release years of the"),
    (r"\b(movies|films) \* was a writer on\b", r"\1 was * a writer on"),
    (r"\b(which|what) (film|movie) (did|was)\b", r"\1 \2s \3"),
    (r"\* (?:starred|acted) (films|movies)\b", r"\1 starring *"),
    (r"\* (directed|written) (films|movies)\b", r"\2 \1 by *"),
    (r"\bthe \* director\b", "the director of *"),
    (r"\bby \* (actors|writers|screenwriters)\b", r"by the \1 of *"),
    (r"\b(films|movies) (?:starred|acted) by\b", r"\1 starring"),
    (r"^who starred (films|movies) for\b", r"who starred in \1 for"),
    (r"\bthe same actor (?:of|as)\b", "an actor with"),
    (r"\b(?:have|share) an actor with\b", "share an actor with"),
    (r"^what are the (films|movies) that have an actor with\b", r"which \1 share an actor with"),
    (r"\bthe same (director|screenwriter) of\b", r"the same \1 as"),
    (r"\bthe actor (in|of) (.*) also appears\b", r"the actors \1 \2 also appear"),
    (r"\bthe actor of (.*) also starred\b", r"the actors of \1 also starred"),
    (r"^(?:what|which) (?:genres|types) (?:are|do) the (.+?)(?: in| fall under)?$", r"what are the genres of the \1"),
    (r"^what languages are the (.+) in$", r"what languages are spoken in the \1"),
    (r"^when did the (films|movies) release (whose .+)$", r"when were the \1 \2 released"),
    (r"^when did the (.+) release$", r"when were the \1 released"),
    (r"\bshare directors with the films\b", "share directors with the film"),
    (r"^who are (film |movie )?co-", r"who are the \1co-"),
    (
        r"^(?!.*\bshare\b)(.*?)\b(films|movies)\b(.*\b(?:of|in|wrote|directed) (?:the (?:film|movie) )?\*)",
        r"\1other \2\3",
    ),
)


def mended(wording: str, n_answers: int) -> str | None:
    """Return a wording as a question in good form, `*` for the topic, or None where it is left out.

    With several answers, "who is the writer" becomes "who are the writers".

    >>> mended("what types are the movies starred by *", 2)
    'What are the genres of the movies starring *?'
    >>> mended("who is the writer of *", 2)
    'Who are the writers of *?'
    >>> mended("can you name a film directed by *", 3) is None
    True
    """
    text = " ".join(wording.split()).removesuffix("?").strip()
    if any(re.search(pattern, text) for pattern in _LEFT_OUT):
        return None
    for pattern, replacement in _MENDED:
        text = re.sub(pattern, replacement, text)
    if n_answers > 1:
        text = re.sub(
            r"^who(?: is|'s| was) the (director|writer|author|screenwriter|creator)\b", r"who are the \1s", text
        )
        text = re.sub(r"^what (is|was) the (language|genre|release year)\b", _plural, text)
        text = re.sub(r"^the director of (.*) was who$", r"the directors of \1 were who", text)
        text = re.sub(r"^which screenwriter wrote\b", "which screenwriters wrote", text)
    return f"{text[0].upper()}{text[1:]}?"


def _plural(found: re.Match[str]) -> str:
    verb = {"is": "are", "was": "were"}[found[1]]
    return f"what {verb} the {found[2]}s"
