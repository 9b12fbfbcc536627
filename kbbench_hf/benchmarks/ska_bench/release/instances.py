"""The instances format: JSON Lines files of questions, and of the pools that they share.

A folder holds any number of `*.jsonl` files; what a line is shows from its fields, as `KINDS` lists them. Structured
units of graph instances are named by uid (`pool:index`), those of table instances stand in the line.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from kbbench_hf.benchmarks.ska_bench.contexts import Renderer
from kbbench_hf.benchmarks.ska_bench.programs import same_answers
from kbbench_hf.benchmarks.ska_bench.units import SUBSETS, Cells, Instance, Pool, Release, clean
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import Row

_INSTANCE = {"id", "subset", "question", "answers", "program", "pos_method", "pos_confidence", "provenance"}
_TABLE = {"table", "sk_units", "text_units"}
_GRAPH = {"pool"}
KINDS: dict[str, tuple[set[str], set[str]]] = {
    "table instance": (_INSTANCE | _TABLE, {"gold_logical_form"}),
    "graph instance": (
        _INSTANCE | _GRAPH | {"positive_uids", "topic_entities"},
        {"n_pool", "positive_triples", "question_raw", "question_origin"},
    ),
    "graph-and-text instance": (
        _INSTANCE | _GRAPH | {"positive_triple_uids", "positive_text_uids", "withheld_triple_uids"},
        {"hard_noise_text", "hard_noise_triples", "question_origin"},
    ),
    "triple": ({"pool", "triple", "uid"}, {"tokens", "sentence_ids"}),
    "sentence": ({"text", "uid", "triples"}, {"tokens"}),
    "donor table": ({"header", "rows", "table_id"}, set()),
}
"""Kind of line -> its required and its optional fields."""
_SUBSET_NAMES = {"KG": "kg", "Table": "table", "KG+Text": "kg_text", "Table+Text": "table_text"}


def read(source: Path) -> Release:
    """Return the instances and pools of a folder in the instances format, ordered by id and number.

    Every instance with an answer program is proved: executed on its positive units alone, and on all units, the program
    gives the gold answers.

    Raises:
        DataError: no instances; a line that is not JSON, has unknown fields or lacks some; an unknown subset or uid; a
            repeated id; a program that does not give the gold answers. The message names file, line or instance.
    """
    lines = _Lines(source)
    instances: dict[str, Instance] = {}
    for place, record in lines.instances:
        if record["id"] in instances:
            raise DataError(
                f"{place}: the id {record['id']!r} stands twice; expected one line per instance. Remove one."
            )
        try:
            instances[record["id"]] = lines.instance(record)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{place}: {record['id']} is malformed ({error!r}); see the instances format.") from error
    ordered = [instances[key] for key in sorted(instances)]
    groups = {subset: {each.group for each in ordered if each.subset == subset} for subset in SUBSETS}
    release = Release(ordered, {subset: lines.pool(subset, of_it) for subset, of_it in groups.items() if of_it})
    for instance in ordered:
        prove(instance, release.pools[instance.subset])
    return release


def prove(instance: Instance, pool: Pool) -> None:
    """Execute an instance's program, if it has one, on its positives and on everything it is asked on.

    Raises:
        DataError: one of the two does not give the gold answers.
    """
    renderer = Renderer(instance, pool)
    everything = [n for n in range(len(pool.sk[instance.group])) if n not in instance.withheld_sk]
    text = instance.own_text or range(len(pool.text))
    for what, sk, passages in (
        ("positive units", instance.positive_sk, instance.positive_text),
        ("whole pool", everything, text),
    ):
        found = renderer.execute(sk, passages)
        if found is not None and not same_answers(found, instance.answers):
            raise DataError(
                f"{instance.id}: on its {what} the program gives {found[:5]}; expected {list(instance.answers)}. "
                "Correct the instance or leave it out."
            )


class _Lines:
    """The lines of a folder, and the numbers of the units in them.

    Triples are numbered within their pool, by the index in their uid; equal sentences are one, in the order of texts.
    """

    def __init__(self, source: Path) -> None:
        by_kind: defaultdict[str, list[tuple[str, Row]]] = defaultdict(list)
        for file in sorted(source.glob("*.jsonl")):
            for place, record in _objects(file):
                by_kind[_kind(place, record)].append((place, record))
        self.instances = [line for kind in KINDS if kind.endswith("instance") for line in by_kind[kind]]
        if not self.instances:
            raise DataError(
                f"{source} holds no instances; expected *.jsonl files in the instances format. Is --source right?"
            )
        self._donors = [record for _, record in by_kind["donor table"]]
        by_pool: defaultdict[str, list[tuple[int, str, Cells]]] = defaultdict(list)
        for _, record in by_kind["triple"]:
            pool, _, index = record["uid"].rpartition(":")
            by_pool[pool].append((int(index), record["uid"], tuple(map(clean, record["triple"]))))
        self._graphs = {pool: [cells for _, _, cells in sorted(members)] for pool, members in by_pool.items()}
        self._triples = {uid: n for members in by_pool.values() for n, (_, uid, _) in enumerate(sorted(members))}
        sentences = [(record["uid"], clean(record["text"]), record["triples"]) for _, record in by_kind["sentence"]]
        stated: defaultdict[str, set[int]] = defaultdict(set)
        for _, text, uids in sentences:
            stated[text] |= {self._triples[uid] for uid in uids}
        self._text: list[Cells] = [("", text) for text in sorted(stated) if text]
        self._links = {n: tuple(sorted(stated[text])) for n, (_, text) in enumerate(self._text) if stated[text]}
        numbers = {text: n for n, (_, text) in enumerate(self._text)}
        self._sentences = {uid: numbers[text] for uid, text, _ in sentences}
        passages = {_passage(unit) for _, record in self.instances for unit in record.get("text_units", ())}
        self._passages = {cells: n for n, cells in enumerate(sorted(passages))}

    def instance(self, record: Row) -> Instance:
        """Return the instance of a line."""
        provenance = record["provenance"]
        facts: Row = {
            "id": record["id"],
            "subset": _SUBSET_NAMES.get(record["subset"], ""),
            "question": record["question"],
            "answers": tuple(record["answers"]),
            "program": record["program"],
            "method": record["pos_method"],
            "source": provenance["dataset"],
            "source_id": provenance.get("source_id", ""),
            "commit": provenance.get("commit", ""),
            "licence": provenance["licence"],
        }
        if facts["subset"] not in SUBSETS:
            raise ValueError(f"unknown subset {record['subset']!r}, expected one of {', '.join(_SUBSET_NAMES)}")
        if not facts["answers"]:
            raise ValueError("it has no answers")
        if "table" in record:
            rows = sorted(record["sk_units"], key=lambda unit: unit["order"])
            text = [(self._passages[_passage(unit)], unit["positive"]) for unit in record["text_units"]]
            return Instance(
                **facts,
                group=record["table"]["id"],
                title=record["table"].get("title", ""),
                positive_sk=tuple(n for n, unit in enumerate(rows) if unit["positive"]),
                positive_text=tuple(sorted({n for n, positive in text if positive})),
                own_text=tuple(sorted({n for n, _ in text})),
            )
        positives = record.get("positive_uids") or record["positive_triple_uids"]
        return Instance(
            **facts,
            group=record["pool"],
            positive_sk=tuple(sorted(self._triples[uid] for uid in positives)),
            positive_text=tuple(sorted(self._sentences[uid] for uid in record.get("positive_text_uids", ()))),
            withheld_sk=tuple(sorted(self._triples[uid] for uid in record.get("withheld_triple_uids", ()))),
            topics=tuple(record["topic_entities" if "topic_entities" in record else "answers"]),
        )

    def pool(self, subset: str, groups: Collection[str]) -> Pool:
        """Return the pool of a subset: the units of these graphs or tables, and the passages."""
        if subset.startswith("kg"):
            sk = {group: self._graphs.get(group, []) for group in sorted(groups)}
            return Pool(sk, self._text, {}, self._links) if subset == "kg_text" else Pool(sk)
        tables = self._tables(groups, with_donors=subset == "table")
        return Pool(
            {table: rows for table, (_, rows) in tables.items()},
            list(self._passages) if subset == "table_text" else (),
            {table: header for table, (header, _) in tables.items()},
        )

    def _tables(self, groups: Collection[str], *, with_donors: bool) -> dict[str, tuple[Cells, list[Cells]]]:
        tables: dict[str, tuple[Cells, list[Cells]]] = {}
        if with_donors:
            for record in self._donors:
                tables[record["table_id"]] = _cells(record["table_id"], record["header"], record["rows"])
        for place, record in self.instances:
            if "table" in record and record["table"]["id"] in groups:
                rows = sorted(record["sk_units"], key=lambda unit: unit["order"])
                table = _cells(place, record["table"]["header"], [unit["cells"] for unit in rows])
                if tables.setdefault(record["table"]["id"], table) != table:
                    raise DataError(
                        f"{place}: the table {record['table']['id']} differs from the one of the same id elsewhere; "
                        "expected one content per id. Rename one."
                    )
        return dict(sorted(tables.items()))


def _objects(file: Path) -> Iterator[tuple[str, Row]]:
    for number, line in enumerate(file.read_bytes().splitlines(), start=1):
        place = f"{file.name}:{number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DataError(
                f"{place} is not JSON ({error}); expected one object per line. Get the file again."
            ) from error
        if not isinstance(record, dict):
            raise DataError(f"{place} is {type(record).__name__}; expected a JSON object. Get the file again.")
        yield place, record


def _kind(place: str, record: Row) -> str:
    fields = set(record)
    likeness = {kind: len(required & fields) / len(required) for kind, (required, _) in KINDS.items()}
    kind = max(likeness, key=lambda k: likeness[k])
    required, optional = KINDS[kind]
    if missing := sorted(required - fields):
        raise DataError(f"{place}: a {kind} without {', '.join(map(repr, missing))}; add what is missing.")
    if unknown := sorted(fields - required - optional):
        raise DataError(
            f"{place}: a {kind} with unknown fields {', '.join(map(repr, unknown))}; expected only "
            f"{', '.join(sorted(required | optional))}. Remove or rename them."
        )
    return kind


def _passage(unit: Row) -> Cells:
    return clean(unit["title"]), clean(unit["text"])


def _cells(place: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Cells, list[Cells]]:
    for row in rows:
        if len(row) != len(header):
            raise DataError(
                f"{place}: a row has {len(row)} cells; expected {len(header)}, as in the header. Repair it."
            )
    return tuple(map(clean, header)), [tuple(map(clean, row)) for row in rows]
