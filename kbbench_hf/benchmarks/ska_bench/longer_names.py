"""Longer forms of an answer that its own evidence writes: "Johnson City, Tennessee" for "Johnson City".

`building` stores them as aliases of SKA-Open; `mini-ska`, which was built before, adds them when it is loaded. The gold
of both depends on each expression here.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kbbench_hf.benchmarks.ska_bench.units import Instance, UnitPool

_NAME = r"(?:(?:[A-Z]|St|Mt|Ft)\.|[A-Z][\w'’&-]*)"
_HEAD = re.compile(rf"(?: {_NAME})+(?: (?:for|of|de|del|von|van) (?:the )?{_NAME}(?: {_NAME})*)?")
_PRIZE, _FIELD = re.compile(r" (?:Award|Prize|Medal)$"), re.compile(rf" for (?:the )?{_NAME}(?: {_NAME})*")
_CONTAINER = rf", {_NAME}(?: {_NAME}){{0,3}}"
_END = r"(?=$|[.;:)]|, (?!and |or )[^A-Z]| (?:in|on|at|with|by|since|from|until|during|where|that|which)\b| and [^A-Z])"
_PLACE = re.compile(rf"({_CONTAINER}?)((?:{_CONTAINER}?)*?){_END}")
_LOCATED = re.compile(r"\b(?:in|at|near|from|of|to)(?: the)? $")
_INSIDE_NAME = re.compile(rf"(?:^|[^.!?] )(?!The |A |An |In |At |On ){_NAME} $|^(?!The |A |An |In |At |On ){_NAME} $")
_MODIFIED = re.compile(r"\ban? (?:[a-z-]+ )*$")
"""Before a word that only describes: "an American Football player"."""
_TITLE = re.compile(
    rf"^(?:Dr|Mr|Mrs|Ms|Sir|Dame|Prof|Professor|Rev|President|Senator|Captain|General)\.? (?={_NAME}(?: {_NAME})*$)"
)


def add_longer_names(instance: Instance, pool: UnitPool) -> Instance:
    """Return an instance whose answers have the longer forms in its positive units as aliases, after its own."""
    rows, given = pool.sk[instance.group], instance.answer_aliases or ((),) * len(instance.answers)
    evidence = [pool.text[number][1] for number in instance.positive_text]
    evidence += [cell for number in instance.positive_sk for cell in rows[number]]
    aliases = tuple(
        tuple(dict.fromkeys((*names, *longer_names(answer, instance.question, evidence))))
        for answer, names in zip(instance.answers, given, strict=True)
    )
    return replace(instance, answer_aliases=aliases if any(aliases) else ())


def longer_names(answer: str, question: str, evidence: Iterable[str]) -> list[str]:
    """Return the longer forms of an answer in its evidence that are the same answer.

    - the rest of its name, where all the evidence writes it, or where the question says what it is: "Marrow Strait"
      for "Which strait ...?". A middle name is no such name.
    - the field of a prize: "Booker Prize for Fiction".
    - the places that contain it: "in Johnson City, Tennessee". A list of names is no such chain.

    A person's name without the title is one too: "Laila Ghannam" for "Dr Laila Ghannam".

    >>> longer_names("Johnson City", "In which city ...?", ["is a university in Johnson City, Tennessee. It ..."])
    ['Johnson City, Tennessee']
    >>> longer_names("Marrow", "Which strait did she chart?", ["She charted the Marrow Strait in 1901."])
    ['Marrow Strait']
    >>> longer_names("Paris", "Where did he live?", ["He lived in Paris, London and Rome."])
    []
    """
    untitled = [bare] if (bare := _TITLE.sub("", answer)) != answer and " " in bare else []
    if not answer[:1].isupper() or answer.endswith("'s"):
        return untitled
    places = [
        (text[: found.start()], text[found.end() :])
        for text in evidence
        for found in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text)
    ]
    found = [*_whole_names(question, places), *_containers(places)]
    found += [field[0] for _, after in places if _PRIZE.search(answer) and (field := _FIELD.match(after))]
    return [*untitled, *dict.fromkeys(f"{answer}{rest}" for rest in found)]


def _whole_names(question: str, places: Iterable[tuple[str, str]]) -> list[str]:
    """Return the words that follow an answer as the rest of its name; `places` are the texts before and after it."""
    heads, asked, alone = dict[str, None](), list[str](), False
    for before, after in places:
        if not (head := _HEAD.match(after)):
            alone = True
            continue
        rest = head[0]
        thing = rf"\b(?:which|what|name of)(?: the)?(?: \w+)? {re.escape(rest.split()[-1])}\b"
        asked += [rest] if re.search(thing, question, re.IGNORECASE) else []
        alone |= bool(_INSIDE_NAME.search(before[-40:]) or _MODIFIED.search(before))
        heads[rest] = None
    return asked or (list(heads) if len(heads) == 1 and not alone else [])


def _containers(places: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the next larger place behind an answer, ", Tennessee", then all places of the chain."""
    for before, after in places:
        if (found := _PLACE.match(after)) and found[1] and _LOCATED.search(before):
            yield found[1]
            yield found[0]
