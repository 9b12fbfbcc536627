"""Arrow schemas of Text2KGBench's configs, rows of `mentions` and `prompts`, and repairs of the gold.

The release, the user's own ontologies and the script of mini-text2kg build with it. The columns, the names of repairs
and their details are stored formats.

Changed in `triples_repaired` (the released `triples` stay as they are):

- `empty_gold_restored`: the gold list is empty because a relation label was looked up with its case and blanks
  (142 test sentences, `Member of`, `mountains classification `); the one triple of an earlier revision is put back.
- `duplicate_triples_removed`: the same triple stands twice in one list.
- `relation_label_stripped`: a train or validation triple's relation ends in a blank, as four labels of the JSON do.

Flagged only; scores can be sliced by these:

- `mojibake`: the sentence is UTF-8 read as Latin-1; `detail` is the sentence as it should read. Gold labels that are
  damaged the same way stay so, because an extraction from the damaged sentence can only copy them.
- `relation_not_in_json`: gold uses a relation that the ontology's JSON, and so the prompt, lacks.
- `repeated_sentence`: the same sentence came earlier in the split; `detail` is that row's id.
- `demonstration_leaks`: the published demonstration is the test sentence itself; `detail` is its id.
- `asked_differently`: the published prompt words the sentence differently; `detail` is that wording.
- `fact_in_train`: a gold triple of a test sentence stands in the ontology's train split.
- `restored_not_stated`: the sentence has no word for the relation of the restored triple; mode `repaired-3` leaves it
  out.
- `unparsed_date`: an object like "00  1997" or "00 May 1997", a date of which a part was lost.
"""

import re
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from kbbench_hf.benchmarks.text2kgbench.material import restores_unstated
from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.triple_values import find_gold_mentions
from kbbench_hf.text.folding import unscramble
from kbbench_hf.text.words import separate_units


def _strings(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.string()) for name in names]


_TRIPLES = pa.list_(pa.struct(_strings("sub", "rel", "obj", "sub_id", "rel_id", "obj_id")))
_MENTION = [
    field for end in ("subject", "object") for field in ((f"{end}_mentioned", pa.bool_()), (f"{end}_form", pa.string()))
]
SENTENCES = pa.schema(
    [
        *_strings("id", "ontology_id", "split", "sentence"),
        ("triples", _TRIPLES),
        ("triples_repaired", _TRIPLES),
        ("mentions", pa.list_(pa.struct(_MENTION))),
        ("repairs", pa.list_(pa.struct(_strings("kind", "detail")))),
        ("selected", pa.bool_()),
        ("similar_ids", pa.list_(pa.string())),
    ]
)
"""Columns of `sentences` and `sentences_folded`, in every split."""
_CONCEPT = [*_strings("qid", "label"), ("subclass_of", pa.list_(pa.string())), *_strings("source")]
_RELATION = _strings("pid", "label", "domain", "range", "source")
ONTOLOGIES = pa.schema(
    [
        *_strings("ontology_id", "title"),
        ("concepts", pa.list_(pa.struct(_CONCEPT))),
        ("relations", pa.list_(pa.struct(_RELATION))),
    ]
)
PROMPTS = pa.schema(_strings("id", "ontology_id", "template", "demonstration_id"))
"""Columns of `prompts`: what, beside its row of `sentences`, the published prompt of a test sentence was made of."""


MentionRow = dict[str, bool | str]
"""An entry of the column `mentions`."""
FoundMentions = dict[tuple[str, str, str], MentionRow]
"""(sentence, subject, object) -> its entry of `mentions`."""


def sentence_tables(
    splits: Mapping[str, Sequence[Row]],
    schema: pa.Schema = SENTENCES,
    version: int = 2,
    found: FoundMentions | None = None,
) -> dict[str, pa.Table]:
    """Return the table of each split of `sentences`, with `mentions` filled in; options as in `with_mentions`."""
    return {split: pa.Table.from_pylist(with_mentions(rows, version, found), schema) for split, rows in splits.items()}


def with_mentions(rows: Sequence[Row], version: int = 2, found: FoundMentions | None = None) -> list[Row]:
    """Return rows of `sentences` with `mentions`: one entry for each of `triples_repaired`, in order.

    The forms are those of `metrics.mention_forms`, by the rules of mode `repaired-2` or `repaired-3` (`version`). The
    modes find them anew. `found` holds the entries that earlier calls of the same version found, and gets those of
    this one: to find them takes most of the time of a build.

    >>> triples = [{"sub": "Heat", "rel": "director", "obj": "Michael Mann"}]
    >>> with_mentions([{"sentence": "Heat is by Mann.", "triples_repaired": triples}])[0]["mentions"]
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'subject_mentioned': True, 'subject_form': 'verbatim', 'object_mentioned': True, 'object_form': 'short'}]
    """
    known = {} if found is None else found
    mentioned = []
    for row in rows:
        keys = [(row["sentence"], each["sub"], each["obj"]) for each in row["triples_repaired"]]
        for key in keys:
            if key not in known:
                known[key] = _find_mention_row(*key, version)
        mentioned.append(row | {"mentions": [known[key] for key in keys]})
    return mentioned


def _find_mention_row(sentence: str, subject: str, obj: str, version: int) -> MentionRow:
    gold = (separate_units(subject), "", separate_units(obj))
    ((_, *ends),) = find_gold_mentions(separate_units(sentence), [gold], version=version)
    values = [value for end in ends for value in (end.found, end.form)]
    return dict(zip((name for name, _ in _MENTION), values, strict=True))


def prompt_row(row: Row, template: str) -> Row:
    """Return the row of `prompts` of a sentence; its demonstration is the most similar train row, if there is one."""
    similar = row["similar_ids"]
    shown = {"template": template, "demonstration_id": similar[0] if similar else None}
    return {"id": row["id"], "ontology_id": row["ontology_id"]} | shown


Triple = dict[str, str | None]

_UNPARSED_DATE = re.compile(r"00 \w* \d+")
"""A date without a day, as the release writes it: "00 May 1997", "00  1997"."""


def distinct(triples: list[Triple]) -> list[Triple]:
    """Return the triples without repeated ones, compared by their three labels; the first of equal ones stays."""
    first = {(each["sub"], each["rel"], each["obj"]): each for each in reversed(triples)}
    return [each for each in triples if first[each["sub"], each["rel"], each["obj"]] is each]


def repair(row: Row, original: Triple | None, json_relations: Collection[str]) -> None:
    """Fill in `triples_repaired` and `repairs` of one row of `sentences`, as far as they depend on this row alone.

    `original` is the earlier revision's triple of a test sentence; `json_relations` the labels in the ontology's JSON.
    """
    flags = row["repairs"]
    triples = distinct(row["triples"])
    if len(triples) < len(row["triples"]):
        removed = len(row["triples"]) - len(triples)
        flags.append({"kind": "duplicate_triples_removed", "detail": f"{removed} of {len(row['triples'])}"})
    if original is not None and not triples:
        triples = [original]
        flags.append({"kind": "empty_gold_restored", "detail": f"relation {original['rel']!r}, from revision 388d15c"})
    elif any(each["rel"] != str(each["rel"]).strip() for each in triples):
        flags.append({"kind": "relation_label_stripped", "detail": ", ".join(repr(each["rel"]) for each in triples)})
    row["triples_repaired"] = [each | {"rel": str(each["rel"]).strip()} for each in triples]

    readable = unscramble(row["sentence"])
    if readable != row["sentence"]:
        flags.append({"kind": "mojibake", "detail": readable})
    known = {label.strip() for label in json_relations}
    missing = sorted({str(each["rel"]).strip() for each in row["triples"]} - known)
    if missing:
        flags.append({"kind": "relation_not_in_json", "detail": ", ".join(missing)})
    dates = [str(each["obj"]) for each in row["triples"] if _UNPARSED_DATE.fullmatch(str(each["obj"]))]
    if dates:
        flags.append({"kind": "unparsed_date", "detail": ", ".join(dates)})


def flag_across_rows(splits: Mapping[str, list[Row]]) -> None:
    """Flag what depends on several rows: repeated sentences, leaking demonstrations, test facts that train has.

    `splits` must have `train`, which may be empty; the flags are appended to the rows' `repairs`.
    """
    train = {row["id"]: row for row in splits["train"]}
    facts: dict[str, set[tuple[str, str, str]]] = {}
    for row in splits["train"]:
        facts.setdefault(row["ontology_id"], set()).update(_labels(row))
    for split, rows in splits.items():
        seen: dict[str, str] = {}
        for row in rows:
            first = seen.setdefault(row["sentence"], row["id"])
            if first != row["id"]:
                row["repairs"].append({"kind": "repeated_sentence", "detail": first})
            if split not in ("test", "unseen"):
                continue
            demonstration = row["similar_ids"][0] if row["similar_ids"] else None
            if demonstration and train[demonstration]["sentence"] == row["sentence"]:
                row["repairs"].append({"kind": "demonstration_leaks", "detail": demonstration})
            if not facts.get(row["ontology_id"], set()).isdisjoint(_labels(row)):
                row["repairs"].append({"kind": "fact_in_train", "detail": ""})


def flag_unstated(splits: Mapping[str, list[Row]]) -> None:
    """Flag restored triples whose relation their sentence does not state: in `repairs`, from revision 2 on."""
    for row in (row for rows in splits.values() for row in rows if restores_unstated(row)):
        row["repairs"].append({"kind": "restored_not_stated", "detail": str(row["triples_repaired"][0]["rel"])})


def _labels(row: Row) -> set[tuple[str, str, str]]:
    """Return the released triples of a row by their labels."""
    return {(each["sub"], each["rel"], each["obj"]) for each in row["triples"]}
