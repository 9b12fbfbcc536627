"""Owners of system names: the first submitter, or the account that the name belongs to."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from kbbench_hf.leaderboard.store import Record

VOWEL_SIGNS = (0, 7, 8, 9)
"""The classes of marks that make another letter: vowel signs, and the marks of Indic and Japanese letters. The others,
accents among them, are easily overlooked."""
PAIRS = {"vv": "w", "\u093e\u0947": "\u094b", "\u093e\u0948": "\u094c"}
"""Two letters, or two vowel signs, that look like one, beside those of Unicode's table."""
MATHEMATICAL = re.compile(
    r"GREEK SMALL LETTER (?!OMICRON)|GREEK CAPITAL LETTER (GAMMA|DELTA|THETA|LA|XI|PI|SIGMA|PHI|PS|OM)"
)
"""Greek letters that names of systems have; none of them is taken for a Latin one by whoever reads formulas."""
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\W_]+(?=\d)")
_SMALL_CAPITAL = re.compile("LATIN LETTER SMALL CAPITAL [A-Z]")
_OFFICIAL = re.compile(
    r"(?<!un)(?<!non-)(?<!non )(?:official|officiel|offiziell|oficial|ufficiale|официальн|官方|आधिकारिक|رسمي)\w*"
    r"(?![ -](?:weights?|checkpoints?|prompts?|code|split|data|settings?|config|templates?|implementation|repo|api)\b)"
    r"|[ (](?:verified|authentic)\)?$"
)
_ACCOUNT = re.compile(
    r"(?:^|[ (])@([a-z][\w.\-]*)(?![\w.\-]*=)|(?:@|\bby )([a-z0-9][\w.\-]*)|^([\w.\-]+)/", re.IGNORECASE
)


class Flag(NamedTuple):
    """One thing that a reader should know of a row's identity, as a sentence and a word for programs."""

    code: Literal["name", "look_alike", "claim", "copy", "gold"]
    reason: str
    """A whole sentence, with the names of both rows where there are two."""
    other: str = ""
    """The id of the row that it is about; empty where it is about none."""


def vouched_by(name: str, submitter: str, organisations: Iterable[str] = ()) -> str:
    """Return the account under which a name stands if it is the submitter's, or an organisation's that has them.

    The organisations are those of whom the login provider says that the submitter is a member; empty where the name
    stands under no account, or under somebody else's.

    >>> vouched_by("ada/KOTO", "ada"), vouched_by("acme/KOTO", "ada", ["Acme"]), vouched_by("acme/KOTO", "eve")
    ('ada', 'Acme', '')
    """
    account, slash, rest = name.partition("/")
    return next((each for each in (submitter, *organisations) if slash and rest and _same(each, account)), "")


@lru_cache(maxsize=1 << 16)
def readings(name: str) -> frozenset[str]:
    """Return what a name may be read as: names with one reading in common are taken for each other.

    Letters that look alike are one, by Unicode's table of confusable characters, as the name is written, in small and
    in capital letters; accents, spaces and punctuation do not count, save between digits and for a plus.

    >>> readings("K\N{CYRILLIC CAPITAL LETTER O}TO") & readings("koto") != set()
    True
    >>> readings("KOTO") & readings("KOTA"), readings("v1") & readings("v2")
    (frozenset(), frozenset())
    """
    bare = _bare(name)
    forms = [_skeleton(form).casefold() for form in (bare, bare.casefold(), bare.upper())]
    for pair, letter in PAIRS.items():
        forms = [form.replace(pair, letter) for form in forms]
    return frozenset(forms)


def same_name(a: str, b: str) -> bool:
    """Say whether two names are one, but for case, spaces and punctuation.

    >>> same_name("Ko-to 2", "koto2"), same_name("v1.1", "v11")
    (True, False)
    """
    return _bare(a.casefold()) == _bare(b.casefold())


@lru_cache(maxsize=1 << 16)
def disguised(name: str) -> tuple[str, str] | None:
    """Return a letter that stands for a Latin one in a Latin word, and what the name reads as; None for honest names.

    >>> disguised("GPT-4 c\N{CYRILLIC SMALL LETTER O}re")
    ('о', 'GPT-4 core')
    >>> disguised("λ-Extract"), disguised("βVAE"), disguised("модель 2"), disguised("ruBERT-модель")
    (None, None, None, None)
    """
    for word in re.findall(r"[^\W\d_]+", unicodedata.normalize("NFD", name)):
        scripts = {letter: _script(letter) for letter in word}
        foreign = [letter for letter, script in scripts.items() if script != "LATIN"]
        if "LATIN" in scripts.values() and foreign and all(_is_latin_twin(letter) for letter in foreign):
            return foreign[0], "".join(_skeleton(each) if each in foreign else each for each in name)
    return None


def doubts(rows: Sequence[Record]) -> dict[str, list[Flag]]:
    """Return what is doubtful about the names of rows, given in the order in which they were stored; most have none.

    A name is its first owner's, but one under an account, `acme/KOTO`, is that account's. A name with letters in
    disguise is nobody's. Nothing is said of rows of whoever runs the board.
    """
    order = {row.id: n for n, row in enumerate(rows)}
    accounts = {account.casefold(): account for row in rows for account in (row.submitter, row.vouched_by) if account}
    owners: dict[str, Record] = {}
    by_row: dict[str, list[Flag]] = {}
    for row in sorted(rows, key=lambda row: (not row.vouched_by, disguised(row.system.name) is not None)):
        of_row = [] if row.origin == "own" else [*_disguise(row), *_claims(row, accounts.keys())]
        taken = [owners[each] for each in readings(row.system.name) if each in owners]
        contested = "/" in row.system.name or disguised(row.system.name)
        others = [each for each in taken if not _are_one(each, row) and (order[each.id] < order[row.id] or contested)]
        if others and row.origin != "own":
            of_row.append(_taken(row, others[0]))
        for each in readings(row.system.name):
            owners.setdefault(each, row)
        if of_row:
            by_row[row.id] = of_row
    return by_row


def _taken(row: Record, owner: Record) -> Flag:
    whose = owner.vouched_by or owner.submitter
    if same_name(row.system.name, owner.system.name):
        how = "which vouches for it" if owner.vouched_by else "who used it first"
        return Flag("name", f"Another row has the name {owner.system.name!r}, that of {whose}, {how}.", owner.id)
    return Flag("look_alike", f"Its name can be taken for {owner.system.name!r}, that of {whose}.", owner.id)


def _are_one(a: Record, b: Record) -> bool:
    """Say whether two rows are one owner's: a user's, or those of members of one organisation."""
    return _same(a.submitter, b.submitter) or (bool(a.vouched_by) and _same(a.vouched_by, b.vouched_by))


def _disguise(row: Record) -> list[Flag]:
    if (disguise := disguised(row.system.name)) is None:
        return []
    letter, read_as = disguise
    is_what = unicodedata.name(letter, "a letter of another script").lower()
    return [Flag("look_alike", f"Its name reads as {read_as!r}, but its {letter!r} is {is_what}.")]


def _claims(row: Record, accounts: Collection[str]) -> list[Flag]:
    """Return what a name says of its sender that nobody vouches for: to be official, or somebody else's."""
    if row.vouched_by:
        return []
    plain = row.system.name.casefold()
    forms = (plain, _skeleton(plain).casefold(), _skeleton(row.system.name).casefold())
    if claim := next(filter(None, map(_OFFICIAL.search, forms)), None):
        official = claim.group().strip(" ()")
        return [Flag("claim", f"Its name says {official!r}; no account of whoever it speaks for sent it.")]
    for spoken_for, known, under in (each for form in forms for each in _ACCOUNT.findall(form)):
        account = spoken_for or (known if known in accounts else "") or (under if under in accounts else "")
        if account and not _same(account, row.submitter):
            return [
                Flag("claim", f"Its name speaks for {account!r}; {row.submitter} sent it, for whom nobody vouches.")
            ]
    return []


def _same(a: str, b: str) -> bool:
    return a.casefold() == b.casefold()


def _bare(name: str) -> str:
    """Return a name without spaces and punctuation, but a point between digits and a plus."""
    joined = _BETWEEN_DIGITS.sub(".", unicodedata.normalize("NFC", name))
    in_names = [each.isalnum() or each == "+" or unicodedata.category(each)[0] == "M" for each in joined]
    return "".join(
        each
        for n, each in enumerate(joined)
        if in_names[n] or (each == "." and joined[n - 1 : n].isdigit() and joined[n + 1 : n + 2].isdigit())
    )


@lru_cache(maxsize=1 << 16)
def _skeleton(name: str) -> str:
    """Return a name with each character replaced by the one that stands for all that look like it, without accents."""
    stands_for = _prototypes()
    letters = map(_without_form, unicodedata.normalize("NFKD", name))
    replaced = "".join(each if unicodedata.combining(each) else stands_for.get(each, each) for each in letters)
    marked = unicodedata.normalize("NFD", replaced)
    return "".join(each for each in marked if unicodedata.combining(each) in VOWEL_SIGNS)


def _without_form(letter: str) -> str:
    """Return a small capital as the capital that it is."""
    return unicodedata.name(letter, "")[-1] if _SMALL_CAPITAL.fullmatch(unicodedata.name(letter, "")) else letter


@cache
def _prototypes() -> dict[str, str]:
    """Return character -> the character or characters that stand for all that look like it: those with most twins."""
    from confusable_homoglyphs.confusables import confusables_data

    twins = {
        text.strip("\u200e"): [each["c"].strip("\u200e") for each in alike] for text, alike in confusables_data.items()
    }
    return {
        text: first
        for text, (first, *others) in twins.items()
        if len(text) == 1 and not others and (len(twins.get(first, ())) > 1 or len(first) > 1 or first < text)
    }


def _script(letter: str) -> str:
    """Return the script of a letter: the first word of its name in Unicode."""
    name = unicodedata.name(letter, "UNKNOWN")
    return "LATIN" if "LATIN" in name.split() else name.split()[0]


def _is_latin_twin(letter: str) -> bool:
    """Say whether a letter of another script is taken for a Latin one."""
    if MATHEMATICAL.match(unicodedata.name(letter, "")):
        return False
    return any(_skeleton(form).isascii() for form in (letter, letter.upper(), letter.lower()))
