"""Owners of system names, and flags of names that look alike, are disguised, or claim to be of another account.

The index computes the flags for the board. Nothing is refused: a flag is a note for readers, so an honest name must not
get one. The tables below were chosen on names of real models; `tests/unit/leaderboard` has honest and dishonest ones.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from kbbench_hf.leaderboard.store import Record

VOWEL_SIGNS = (0, 7, 8, 9)
"""Unicode combining classes of marks that make another letter: vowel signs, and marks of Indic and Japanese letters.

Other marks, such as accents, are easily overlooked and are removed."""
PAIRS = {"vv": "w", "\u093e\u0947": "\u094b", "\u093e\u0948": "\u094c"}
"""Two letters, or two vowel signs, that look like one, in addition to those of Unicode's table."""
MATHEMATICAL = re.compile(
    r"GREEK SMALL LETTER (?!OMICRON)|GREEK CAPITAL LETTER (GAMMA|DELTA|THETA|LA|XI|PI|SIGMA|PHI|PS|OM)"
)
"""Names of Greek letters that are usual in names of systems (βVAE), and that readers do not take for Latin ones."""
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
    """A note on the name or the answers of a row."""

    code: Literal["name", "look_alike", "claim", "copy", "gold"]
    """The kind of the note, for programs."""
    reason: str
    """A sentence for readers, with the name of the other row if there is one."""
    other: str = ""
    """The id of the other row; empty if there is none."""


def vouched_by(name: str, submitter: str, organisations: Iterable[str] = ()) -> str:
    """Return the account in a name (`ada` in `ada/KOTO`) if it is the submitter's or one of their organizations'.

    `organisations` are the accounts of which the login provider lists the submitter as a member. Returns an empty
    string if the name has no account, or that of another user.

    >>> vouched_by("ada/KOTO", "ada"), vouched_by("acme/KOTO", "ada", ["Acme"]), vouched_by("acme/KOTO", "eve")
    ('ada', 'Acme', '')
    """
    account, slash, rest = name.partition("/")
    if not (slash and rest):
        return ""
    return next((each for each in (submitter, *organisations) if _is_same_account(each, account)), "")


@lru_cache(maxsize=1 << 16)
def readings(name: str) -> frozenset[str]:
    """Return the forms in which a name may be read; readers may confuse two names that have a form in common.

    The forms are of the name as written, in lower and in upper case. In each, letters that look alike are the same, by
    Unicode's table of confusable characters. Accents, spaces and punctuation are ignored, except a plus and what is
    between digits (v1.1 is not v11).

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
    """Return whether two names are the same except for case, spaces and punctuation.

    >>> same_name("Ko-to 2", "koto2"), same_name("v1.1", "v11")
    (True, False)
    """
    return _bare(a.casefold()) == _bare(b.casefold())


@lru_cache(maxsize=1 << 16)
def disguised(name: str) -> tuple[str, str] | None:
    """Return a letter of another script that looks Latin in a Latin word, and the name as it is read; else None.

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
    """Return id -> flags of the names of rows, which are given in the order in which they were stored.

    Only rows with flags are in the result. A name belongs to its first owner, but `acme/KOTO` to the account `acme`,
    and a name in disguise to no one. Seeded `own` rows get no flags.
    """
    order = {row.id: n for n, row in enumerate(rows)}
    accounts = {account.casefold() for row in rows for account in (row.submitter, row.vouched_by) if account}
    owners: dict[str, Record] = {}
    flags_by_row: dict[str, list[Flag]] = {}
    # vouched names first, disguised ones last: they are registered before and after all others
    for row in sorted(rows, key=lambda row: (not row.vouched_by, disguised(row.system.name) is not None)):
        flags = [] if row.origin == "own" else [*_disguise_flags(row), *_claim_flags(row, accounts)]
        same_readings = [owners[each] for each in readings(row.system.name) if each in owners]
        # a name with an account, or in disguise, is flagged also where the other row came later
        contested = "/" in row.system.name or disguised(row.system.name)
        others = [
            each
            for each in same_readings
            if not _have_one_owner(each, row) and (order[each.id] < order[row.id] or contested)
        ]
        if others and row.origin != "own":
            flags.append(_name_flag(row, others[0]))
        for each in readings(row.system.name):
            owners.setdefault(each, row)
        if flags:
            flags_by_row[row.id] = flags
    return flags_by_row


def _name_flag(row: Record, owner: Record) -> Flag:
    """Return the flag of a row whose name belongs to another owner, or looks like the name of one."""
    whose = owner.vouched_by or owner.submitter
    if same_name(row.system.name, owner.system.name):
        how = "which vouches for it" if owner.vouched_by else "who used it first"
        return Flag("name", f"Another row has the name {owner.system.name!r}, that of {whose}, {how}.", owner.id)
    return Flag("look_alike", f"Its name can be taken for {owner.system.name!r}, that of {whose}.", owner.id)


def _have_one_owner(a: Record, b: Record) -> bool:
    """Whether two rows are of one user, or their names are vouched for by one account."""
    same_account = bool(a.vouched_by) and _is_same_account(a.vouched_by, b.vouched_by)
    return _is_same_account(a.submitter, b.submitter) or same_account


def _disguise_flags(row: Record) -> list[Flag]:
    if (disguise := disguised(row.system.name)) is None:
        return []
    letter, read_as = disguise
    is_what = unicodedata.name(letter, "a letter of another script").lower()
    return [Flag("look_alike", f"Its name reads as {read_as!r}, but its {letter!r} is {is_what}.")]


def _claim_flags(row: Record, accounts: Collection[str]) -> list[Flag]:
    """Return the flag of a name that claims to be official or of an account, where no account vouches for it.

    `accounts` are the known ones, in lower case. "by ada" and "ada/KOTO" are claims if `ada` is one; "@ada" always is.
    """
    if row.vouched_by:
        return []
    plain = row.system.name.casefold()
    forms = (plain, _skeleton(plain).casefold(), _skeleton(row.system.name).casefold())
    if claim := next(filter(None, map(_OFFICIAL.search, forms)), None):
        official = claim.group().strip(" ()")
        return [Flag("claim", f"Its name contains {official!r}, and no account vouches for this claim.")]
    for mentioned, author, owner in (each for form in forms for each in _ACCOUNT.findall(form)):
        account = mentioned or (author if author in accounts else "") or (owner if owner in accounts else "")
        if account and not _is_same_account(account, row.submitter):
            fact = f"{row.submitter} submitted it, and no account vouches for this"
            return [Flag("claim", f"Its name claims to be of {account!r}; {fact}.")]
    return []


def _is_same_account(a: str, b: str) -> bool:
    return a.casefold() == b.casefold()


def _bare(name: str) -> str:
    """Return a name without spaces and punctuation; a plus stays, and punctuation between digits becomes a point."""
    joined = _BETWEEN_DIGITS.sub(".", unicodedata.normalize("NFC", name))
    in_names = [each.isalnum() or each == "+" or unicodedata.category(each)[0] == "M" for each in joined]
    return "".join(
        each
        for n, each in enumerate(joined)
        if in_names[n] or (each == "." and joined[n - 1 : n].isdigit() and joined[n + 1 : n + 2].isdigit())
    )


@lru_cache(maxsize=1 << 16)
def _skeleton(name: str) -> str:
    """Return a name without accents, each character replaced by the prototype of all that look like it."""
    prototypes = _prototypes()
    letters = map(_plain_capital, unicodedata.normalize("NFKD", name))
    replaced = "".join(each if unicodedata.combining(each) else prototypes.get(each, each) for each in letters)
    marked = unicodedata.normalize("NFD", replaced)
    return "".join(each for each in marked if unicodedata.combining(each) in VOWEL_SIGNS)


def _plain_capital(letter: str) -> str:
    """Return the capital of a small-capital letter, which NFKD does not decompose; other letters as they are."""
    return unicodedata.name(letter, "")[-1] if _SMALL_CAPITAL.fullmatch(unicodedata.name(letter, "")) else letter


@cache
def _prototypes() -> dict[str, str]:
    """Return character -> its prototype, one or more characters; a character that is its own prototype is not in it.

    Of two characters that look alike, the one with several lookalikes is the prototype, else the first in Unicode.
    """
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
    """Whether readers take a letter of another script for a Latin one."""
    if MATHEMATICAL.match(unicodedata.name(letter, "")):
        return False
    return any(_skeleton(form).isascii() for form in (letter, letter.upper(), letter.lower()))
