"""GenRES's prompts for open, semi-open and closed extraction, one per dataset, in our own words.

Open prompts have neither relations nor types; semi-open ones list both; closed ones have entity pairs without the
relation. In mode `reference` pairs and lists are the authors'. In `fixed` all pairs of a text's entities are there, the
lists are complete (`relation_sets.json`), and the prompt defines the direction of relations. `fixed-2` also says that a
pair may have several relations, and what CDR's `|` is. The texts are in `texts/`. The release has different prompts for
different models within one dataset, so its published rows are not comparable. Stored runs name a prompt: its text
changes only under a new name (`closed-1`), or in a new mode.
"""

import json
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from string import Template

from kbbench_hf.benchmarks.base import Example, Examples, Prompt, PromptOptions, object_schema
from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.generative_re import TOPIC_MODES, match_key, spelling_key

Pair = tuple[str, str]
_TEXTS = Path(__file__).parent / "texts"
_SCOPES = {
    "sentence": "The text is one sentence.",
    "bag": "The text is one sentence out of many on the same things; it may relate more than one pair.",
    "document": "The text is a whole document: relations may span its sentences. Call a thing by one name throughout.",
}
_SCHEMA = json.loads(Path(__file__).with_name("reply_schema.json").read_text(encoding="utf-8"))
_DATASETS: dict[str, Row] = json.loads((_TEXTS / "datasets.json").read_text(encoding="utf-8"))
_RELATION_SETS: dict[str, Row] = json.loads(Path(__file__).with_name("relation_sets.json").read_text(encoding="utf-8"))
_PARTS = ("subject", "relation", "object")
_TRIPLE = object_schema(**{part: {"type": "string"} for part in _PARTS})
_NAMED_SCHEMA = object_schema(triples={"type": "array", "items": _TRIPLE})
_MAX_TOKENS = {"sentence": 512, "bag": 512, "document": 2048}


def offered_pairs(row: Example, mode: str, stranger: str | None = None) -> list[Pair]:
    """Return the entity pairs (head, tail) of a document in prompts of closed extraction.

    `reference`: the ends of each gold triple as released, CDR's "not induced by" included. `fixed`: every two ends of
    them in both directions, and each with the stranger, an entity that the text does not name, so that some pairs have
    no relation. `fixed-2`: the same, one spelling of each end. No entity is paired with itself, as 25 of the gold
    triples of Wiki20m and DocRED would need.

    >>> row = {"triples": [{"sub": "a", "rel": "r", "obj": "b"}]}
    >>> offered_pairs(row, "reference"), offered_pairs(row, "fixed")
    ([('a', 'b')], [('a', 'b'), ('b', 'a')])
    """
    pairs = [(triple["sub"], triple["obj"]) for triple in row["triples"]]
    if mode == "reference":
        return pairs
    ends = {end for pair in pairs for end in pair}
    if ends and stranger is not None:
        ends.add(stranger)
    if mode == "fixed-2":
        ends = {*{spelling_key(end): end for end in sorted(ends, reverse=True)}.values()}
    alphabetical = sorted(ends)  # the gold's order, or a stranger at the end, would tell
    return [(head, tail) for head in alphabetical for tail in alphabetical if head != tail]


def strangers(rows: Sequence[Example]) -> dict[str, str]:
    """Return for each document (by id) an entity that it does not name: the first such end in the next ones' gold."""
    firsts = [(place, triple["sub"]) for place, row in enumerate(rows) for triple in row["triples"][:1]]
    found = {}
    for place, row in enumerate(rows):
        text = row["text"].casefold()
        own = {end.casefold() for triple in row["triples"] for end in (triple["sub"], triple["obj"])}
        later = (end for start, end in firsts if start > place)
        around = (*later, *(end for start, end in firsts if start < place))
        name = next((end for end in around if end.casefold() not in text and end.casefold() not in own), None)
        if name is not None:
            found[row["id"]] = name
    return found


def _prompt(
    strategy: str, example: Example, examples: Examples, options: PromptOptions, *, repeated: bool = False
) -> Prompt:
    """Return the chat prompt of a strategy; with `repeated` a pair of closed extraction may occur twice."""
    closed, named = strategy == "closed", strategy == "open_named"
    mode, lists, context = options.mode, TOPIC_MODES[options.mode], examples.context
    dataset = _DATASETS[context.config]
    level = dataset["level"]
    system = Template(
        _text(f"{strategy}_fixed.txt" if closed and mode != "reference" else f"{strategy}.txt")
    ).substitute(
        SCOPE=f"{_SCOPES[level]} {dataset.get('marks', '')}".rstrip() if mode == "fixed-2" else _SCOPES[level],
        RELATIONS="; ".join(relations(context.config, lists) or context.relations),
        ENTITY_TYPES=", ".join(_list(context.config, lists, "entity_types") or dataset["entity_types"]),
        DIRECTION=dataset.get("direction", "") if mode != "reference" else "",
        EACH_PAIR="relation of a pair" if mode == "fixed-2" else "pair with a relation",
    )
    messages = [{"role": "system", "content": "\n".join(line.rstrip() for line in system.strip().splitlines())}]
    if options.shots and options.demonstrations != "none":
        shown = {"triples": [{"sub": head, "obj": tail} for head, _, tail in dataset["triples"]]}
        messages.append(
            {"role": "user", "content": _question(dataset["text"], offered_pairs(shown, mode) if closed else None)}
        )
        triples = [dict(zip(_PARTS, each, strict=True)) for each in dataset["triples"]] if named else dataset["triples"]
        messages.append({"role": "assistant", "content": json.dumps({"triples": triples})})
    pairs = offered_pairs(example, mode, context.strangers.get(example["id"])) if closed else None
    if pairs and not repeated:  # a pair with two gold relations is one pair
        pairs = list({match_key(pair): pair for pair in reversed(pairs)}.values())[::-1]
    messages.append({"role": "user", "content": _question(example["text"], pairs)})
    return Prompt(messages, max_tokens=_MAX_TOKENS[level], json_schema=_NAMED_SCHEMA if named else _SCHEMA)


def relations(config: str, mode: str) -> list[str]:
    """Return the relations that semi-open and closed extraction list; empty where the gold's own are listed.

    In `fixed` those of the whole corpus. In `reference` the authors' for CDR and NYT10m, the only two on which they ran
    these strategies; elsewhere the same as in `fixed`.

    >>> relations("cdr", "reference"), len(relations("docred", "fixed"))
    (['induced by', 'not induced by'], 96)
    """
    return _list(config, mode, "relations") or _list(config, "fixed", "relations")


def _list(config: str, mode: str, name: str) -> list[str]:
    found: list[str] = _RELATION_SETS.get(config, {}).get(mode, {}).get(name, [])
    return found


open_prompt = partial(_prompt, "open")
"""Asks for every relation of the text, in the model's own words."""
open_named_prompt = partial(_prompt, "open_named")
"""As `open_prompt`, with triples of named fields: small models drop parts of lists and copy the demonstration."""
semi_open_prompt = partial(_prompt, "semi_open")
"""Asks for those relations of the text that the dataset has, between things of the dataset's types."""
closed_prompt = partial(_prompt, "closed")
"""Gives pairs of the text's things and asks for the relation of each; see `offered_pairs`."""
closed_prompt_1 = partial(_prompt, "closed", repeated=True)
"""The same as first released: it repeats a pair that has two gold relations."""


def _question(text: str, pairs: Sequence[Pair] | None) -> str:
    if pairs is None:
        return f"Text: {text}"
    listed = "\n".join(f"- {json.dumps(pair, ensure_ascii=False)}" for pair in pairs)
    return f"Text: {text}\nPairs:\n{listed}"


@cache
def _text(name: str) -> str:
    return (_TEXTS / name).read_text(encoding="utf-8")
