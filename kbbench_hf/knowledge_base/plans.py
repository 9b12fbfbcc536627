"""Plans of queries: paths from named entities to the answer type, exclusions, attribute tests and a remainder of text.

A plan is a metapath whose topics are names, with tests of the answers. On one line::

    "North Bay":district -[^in_district]-> harbour -[^guards]-> lighthouse <-[!keeps]- "Ada":keeper ; height >= 30 ;
    text "iron tower"

Walks that meet are intersected; a walk whose last arrow has a `!` is an exclusion; `any district` starts from all nodes
of a type. A name, type or relation in double quotes may contain any character. The remainder of text is not executed: a
retriever ranks by it. As JSON, the form in which planners write it::

    {"answer_type": "lighthouse",
     "paths": [{"start": "North Bay", "start_type": "district", "exclude": false,
                "hops": [{"relation": "in_district", "direction": "in", "type": "harbour"},
                         {"relation": "guards", "direction": "in", "type": "lighthouse"}]}],
     "attributes": [{"field": "height", "op": ">=", "value": 30}],
     "text": "iron tower"}

`start` is null for all nodes of `start_type`. A hop that takes the nodes *not* reached within a path has `"negated":
true`. `PlanSchema` knows what plans of a knowledge base may contain: it checks them, and makes the JSON schema of a
model's output. `execute` gives the exact answers, with the nodes after each step and a path for each answer.

Planners write plans, the plan ranker executes them, reports show them, and synthesis stores them with questions. Both
notations are in datasets, journals and runs: they stay.
"""

import json
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.arrow import arrow_numbers
from kbbench_hf.knowledge_base.metapaths import BACK, Hop, Metapath, MetapathWalk
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import NODE_COLUMNS
from kbbench_hf.protocols import Edge, Path

Rows = NDArray[np.int64]
Value = str | int | float
Operator = Literal["=", "<=", ">="]

MOST_EDGES = 5_000_000
"""Edges that one execution may follow: half a second."""
MOST_HOPS, MOST_PATHS, MOST_ATTRIBUTES = 2, 3, 2
"""What the JSON schema of a plan allows: hops of a path, paths, tests. Parsed plans may have more."""
MOST_VALUES = 40
"""Values of a field that the JSON schema lists; other fields take any string."""
LONGEST_NAME, LONGEST_TEXT = 120, 100
"""Characters of a name or value, and of the remainder of text, that the JSON schema allows."""
LONGEST_VALUE = 60
"""Columns with longer texts are no fields."""
_COMPARE: Mapping[str, tuple[Callable[..., pa.Array], Callable[..., bool]]] = {
    "=": (pc.equal, operator.eq),
    "<=": (pc.less_equal, operator.le),
    ">=": (pc.greater_equal, operator.ge),
}


@dataclass(frozen=True)
class AttributeTest:
    """A test of a further column of `nodes`; a node without a value fails it."""

    field: str
    op: Operator
    value: Value

    def __str__(self) -> str:
        return f"{_quote(self.field)} {self.op} {json.dumps(self.value, ensure_ascii=False)}"

    def passing(self, kb: KnowledgeBase, rows: Rows) -> Rows:
        """Return those of the rows that pass, in their order.

        Raises:
            UsageError: the nodes have no such field, or its values cannot be compared with the value.
        """
        if self.field not in kb.nodes.column_names:
            raise unknown_name("field", self.field, {*kb.nodes.column_names} - {*NODE_COLUMNS, "details"})
        values = kb.nodes[self.field].chunk(0).take(arrow_numbers(rows))
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        try:
            return rows[self._meets(values)] if self.value != "" else rows[:0]  # "" is an absent value
        except (pa.ArrowNotImplementedError, TypeError):
            raise UsageError(
                f"{str(self)!r} cannot be tested; expected a value of the type {values.type}, as the field has."
            ) from None

    def _meets(self, values: pa.Array) -> NDArray[np.bool_]:
        """Return which values meet the test; an absent value does not."""
        compare, compare_exactly = _COMPARE[self.op]
        try:
            return np.asarray(pc.fill_null(compare(values, self.value), fill_value=False), dtype=bool)
        except (pa.ArrowInvalid, TypeError):  # no type of Arrow holds both; Python compares any two numbers
            met = (each is not None and compare_exactly(each, self.value) for each in values.to_pylist())
            return np.fromiter(met, dtype=bool, count=len(values))


@dataclass(frozen=True)
class Plan:
    """A plan: walks whose topics are the names of entities, attribute tests, and a remainder of text.

    >>> plan = Plan.parse('"North Bay":district -[^in_district]-> harbour <-[!of]- "Ada":owner ; depth >= 5 ; '
    ...                   'text "old"')
    >>> plan.answer_type, [walk.topic for walk in plan.walks], plan.attributes[0].value, plan.text
    ('harbour', ['North Bay', 'Ada'], 5, 'old')
    >>> print(plan)
    "North Bay":district -[^in_district]-> harbour & "Ada":owner -[!of]-> harbour ; depth >= 5 ; text "old"
    >>> Plan.parse(plan.json) == plan
    True
    """

    answer_type: str
    walks: tuple[MetapathWalk, ...] = ()
    attributes: tuple[AttributeTest, ...] = ()
    text: str = ""

    @classmethod
    def of(cls, path: Metapath, names: Sequence[str], attributes: Sequence[AttributeTest] = (), text: str = "") -> Self:
        """Return the plan of a template whose topics, in the order of `path.topics`, have these names."""
        named = dict(zip(path.topics, names, strict=True))
        walks = (replace(walk, topic=None if walk.topic is None else named[walk.topic]) for walk in path.walks)
        return cls(path.answer_type, tuple(walks), tuple(attributes), text)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse either form: JSON, or one line.

        Raises:
            UsageError: it is neither; the message has the offending part and what was expected.
        """
        return cls._parse_json(text) if text.lstrip().startswith("{") else cls._parse_line(text)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the entities to link, each once."""
        return tuple(dict.fromkeys(walk.topic for walk in self.walks if walk.topic is not None))

    @cached_property
    def json(self) -> str:
        """The plan as JSON, in one line."""
        whole = _JsonPlan(self.answer_type, list(map(_json_path, self.walks)), list(self.attributes), self.text)
        return json.dumps(msgspec.to_builtins(whole), ensure_ascii=False)

    def __str__(self) -> str:
        walks = " & ".join(write_walk(walk) for walk in self.walks) or _quote(self.answer_type)
        text = [f"text {json.dumps(self.text, ensure_ascii=False)}"] if self.text else []
        return " ; ".join([walks, *map(str, self.attributes), *text])

    @classmethod
    def _parse_json(cls, text: str) -> Self:
        try:
            parsed = msgspec.convert(json.loads(text), _JsonPlan)
            tests = tuple(replace(each, value=_to_json_value(each.value)) for each in parsed.attributes)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{text[:200]!r} is not a plan: {error}. Expected {_FORM}.") from None
        walks = tuple(_json_walk(f"paths[{number}]", path) for number, path in enumerate(parsed.paths))
        return cls(parsed.answer_type, walks, tests, _utf8(parsed.text))

    @classmethod
    def _parse_line(cls, text: str) -> Self:
        quoted = list(dict.fromkeys(_QUOTED.findall(text)))
        chains, *tests = (
            part.strip() for part in _QUOTED.sub(lambda each: f"\0{quoted.index(each[0])}\0", text).split(";")
        )

        def shown(part: str) -> str:
            return _PLACE.sub(lambda place: quoted[int(place[1])], part)

        def spelled(part: str) -> str:
            try:
                return _PLACE.sub(lambda place: str(json.loads(quoted[int(place[1])])), part)
            except ValueError as error:
                raise UsageError(f"{shown(part)!r} is not a quoted name: {error}. Write it as JSON.") from None

        remainder = [spelled(each[4:].strip()) for each in tests if _TEXT.fullmatch(each)]
        attributes = [_parse_test(each, shown, spelled) for each in tests if not _TEXT.fullmatch(each)]
        if "[" not in chains and ">" not in chains and "<" not in chains:
            if not (_PLACE.fullmatch(chains) or _UNQUOTED.fullmatch(chains)):
                raise UsageError(
                    f"{shown(chains)!r} is not an answer type; expected a type, in quotes if it has other signs, "
                    f'or a path: "NAME":type -[relation]-> type.'
                )
            return cls(spelled(chains), (), tuple(attributes), " ".join(remainder))
        try:
            path = Metapath.parse(chains)
        except UsageError as error:
            raise UsageError(shown(str(error)).replace("metapath", "plan")) from None
        walks = tuple(_name_walk(walk, shown, spelled) for walk in path.walks)
        return cls(spelled(path.answer_type), walks, tuple(attributes), " ".join(remainder))


class _JsonHop(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    relation: str
    direction: Literal["out", "in"]
    type: str
    negated: bool = False


class _JsonPath(msgspec.Struct, forbid_unknown_fields=True):
    start: str | None
    start_type: str
    exclude: bool
    hops: list[_JsonHop]


class _JsonPlan(msgspec.Struct, forbid_unknown_fields=True):
    answer_type: str
    paths: list[_JsonPath]
    attributes: list[AttributeTest]
    text: str


_FORM = '{"answer_type", "paths": [{"start", "start_type", "exclude", "hops"}], "attributes", "text"}'
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLACE = re.compile(r"(?:\0|\\x00)(\d+)(?:\0|\\x00)")
"""Stands for a quoted text in the notation of metapaths, whose signs it may contain; as written, and as `repr` does."""
_TEXT = re.compile(r"text\s*\0\d+\0")
_NAMED = re.compile(r"(\0\d+\0)\s*:\s*(.+)")
_TEST = re.compile(r"(.+?)\s*(<=|>=|=)\s*(.+)")
_UNQUOTED = re.compile(r"(?!any |!|\^)(?:[^\s\[\]\"&;:<>=\0]|(?!^) (?!$))+")
"""A type, relation or field that needs no quotes."""


def _json_walk(place: str, path: _JsonPath) -> MetapathWalk:
    """Return the walk of a path in JSON; `place` is where it is, for messages.

    Raises:
        UsageError: it has an empty name, or no hop.
    """
    if path.start == "":
        raise UsageError(f"{place}.start is empty; expected a name, or null for every node of the start type.")
    if not path.hops:
        raise UsageError(f"{place}.hops is empty; expected one hop or more, or leave the path out.")
    hops = [Hop(each.relation, each.type, each.direction, each.negated) for each in path.hops]
    hops[-1] = replace(hops[-1], negated=path.exclude)
    return MetapathWalk(None if path.start is None else _utf8(path.start), path.start_type, tuple(hops))


def _json_path(walk: MetapathWalk) -> _JsonPath:
    """Return a walk as a path in JSON, where `exclude` says whether its last hop is negated."""
    hops = [
        _JsonHop(hop.relation, "in" if hop.direction == "in" else "out", hop.node_type, hop.negated)
        for hop in walk.hops
    ]
    hops[-1].negated = False
    return _JsonPath(walk.topic, walk.start_type, walk.hops[-1].negated, hops)


def _name_walk(walk: MetapathWalk, shown: Callable[[str], str], spelled: Callable[[str], str]) -> MetapathWalk:
    """Return a walk of the notation with its quotations in place."""
    hops = [replace(hop, relation=spelled(hop.relation), node_type=spelled(hop.node_type)) for hop in walk.hops]
    if walk.topic is None:
        return MetapathWalk(None, spelled(walk.start_type), tuple(hops))
    named = _NAMED.fullmatch(walk.topic)
    if not named:
        start = shown(walk.topic)
        raise UsageError(f'{start!r} starts a path without a name; expected "NAME":{start}, or any {start}.')
    name, start_type = spelled(named[1]), spelled(named[2])
    if not name:
        raise UsageError(f'{shown(walk.topic)!r} has an empty name; expected "NAME":{start_type}, or any {start_type}.')
    return MetapathWalk(name, start_type, tuple(hops))


def _parse_test(part: str, shown: Callable[[str], str], spelled: Callable[[str], str]) -> AttributeTest:
    test = _TEST.fullmatch(part)
    try:
        if test:
            field, sign, value = test.groups()
            test_value = _to_json_value(json.loads(shown(value)))
            return msgspec.convert({"field": spelled(field), "op": sign, "value": test_value}, AttributeTest)
    except (ValueError, TypeError):
        pass
    raise UsageError(f'{shown(part)!r} is not a test; expected field >= 30, field = "value" or text "words".')


def write_walk(walk: MetapathWalk) -> str:
    """Return a walk in the notation of one line."""
    start = "any " if walk.topic is None else f"{json.dumps(walk.topic, ensure_ascii=False)}:"
    hops = (f" -[{replace(hop, relation=_quote(hop.relation)).arrow}]-> {_quote(hop.node_type)}" for hop in walk.hops)
    return f"{start}{_quote(walk.start_type)}{''.join(hops)}"


def _quote(name: str) -> str:
    return name if _UNQUOTED.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _to_json_value(value: Value) -> Value:
    """Return a value within the numbers that JSON has: grammars of servers allow any exponent."""
    if isinstance(value, str):
        return _utf8(value)
    if value != value:
        raise ValueError("NaN is not a number")
    most = sys.float_info.max
    return value if -most <= value <= most else (most if value > 0 else -most)


def _utf8(text: str) -> str:
    """Return a text without halves of surrogate pairs, which JSON can spell."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True)
class PlanSchema:
    """The types, relations and fields of a knowledge base: what its plans may contain."""

    hops: Mapping[str, tuple[Hop, ...]]
    """Node type -> the hops that lead from it, all that occur."""
    fields: Mapping[str, Mapping[str, Sequence[str] | type]]
    """Node type -> field -> its values where these are few strings, else `str`, `int` or `float`."""
    symmetric: bool = False
    """Whether every edge has its reverse, so that hops out are all."""

    @classmethod
    def of(cls, kb: KnowledgeBase) -> Self:
        """Return that of a knowledge base."""
        hops: dict[str, dict[Hop, None]] = {kind: {} for kind in kb.graph.node_types}
        for head, relation, tail, _ in kb.tuples():
            hops[head][Hop(relation, tail)] = None
            hops[tail][Hop(relation, head, "in")] = None
        fields: dict[str, dict[str, Sequence[str] | type]] = {kind: {} for kind in hops}
        for name in sorted(set(kb.nodes.column_names) - {*NODE_COLUMNS, "details"}):
            for kind, values in _values_by_type(kb, name):
                fields[kind][name] = values
        return cls({kind: tuple(each) for kind, each in hops.items()}, fields, kb.graph.symmetric)

    def check(self, plan: Plan) -> None:
        """Check that the knowledge base has everything in a plan, and that its paths meet.

        Raises:
            UsageError: it has not; the message names what is unknown, the closest name and the known ones.
        """
        if plan.answer_type not in self.hops:
            raise unknown_name("answer type", plan.answer_type, self.hops)
        for walk in plan.walks:
            self._check_walk(plan, walk)
        fields = self.fields[plan.answer_type]
        for test in plan.attributes:
            if test.field not in fields:
                raise unknown_name(f"field of {plan.answer_type}", test.field, fields)
            is_number = fields[test.field] in (int, float)
            if is_number == isinstance(test.value, str) or (test.op != "=" and not is_number):
                form = "a number" if is_number else "= and a text"
                raise UsageError(f"{str(test)!r} cannot be tested; expected {form} for the field {test.field}.")

    def _check_walk(self, plan: Plan, walk: MetapathWalk) -> None:
        if walk.start_type not in self.hops:
            raise unknown_name("start type", walk.start_type, self.hops)
        for kind, hop in zip([walk.start_type, *(hop.node_type for hop in walk.hops)], walk.hops, strict=False):
            if replace(hop, negated=False) not in self.hops[kind]:
                known = (f"-[{each.arrow}]-> {each.node_type}" for each in self.hops[kind])
                raise unknown_name(
                    f"hop from {kind} in {write_walk(walk)!r}:", f"-[{hop.arrow}]-> {hop.node_type}", known
                )
        if walk.hops[-1].node_type != plan.answer_type:
            raise UsageError(
                f"{write_walk(walk)!r} ends in {walk.hops[-1].node_type}; expected the answer type {plan.answer_type}."
            )

    def json_schema(
        self,
        starts: Sequence[tuple[str, str]] | None = None,
        answer_types: Sequence[str] | None = None,
        max_hops: int = MOST_HOPS,
    ) -> dict[str, Any]:
        """Return the JSON schema of plans: every text that follows it is a plan that `check` accepts.

        Only hops that lead on are allowed, and paths that end in the answer type. `starts`, pairs of name and type,
        and `answer_types` narrow it to what a query names and asks for.
        """
        made = _JsonSchema(self, starts, max_hops)
        plans = [made.plan(kind) for kind in (self.hops if answer_types is None else answer_types)]
        return (plans[0] if len(plans) == 1 else {"anyOf": plans}) | {"$defs": made.definitions}


def _values_by_type(kb: KnowledgeBase, name: str) -> Iterator[tuple[str, Sequence[str] | type]]:
    """Yield the types whose nodes have a value in a column of texts or numbers, and the values or their type."""
    column = kb.nodes[name].chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if not (is_text or pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return
    has_value = pc.fill_null(pc.not_equal(column, ""), False) if is_text else pc.is_valid(column)
    there = np.asarray(has_value, bool)
    for kind in kb.graph.node_types:
        rows = kb.of_type(kind)
        rows = rows[there[rows]]
        values = sorted(pc.unique(column.take(arrow_numbers(rows))).to_pylist()) if is_text else []
        if len(rows) and max(map(len, values), default=0) <= LONGEST_VALUE:
            number = int if pa.types.is_integer(column.type) else float
            yield kind, (values if len(values) <= MOST_VALUES else str) if is_text else number


class _JsonSchema:
    """The parts of a JSON schema of plans; each is defined once, and only if it is used."""

    def __init__(self, schema: PlanSchema, starts: Sequence[tuple[str, str]] | None, max_hops: int) -> None:
        self.definitions: dict[str, Any] = {}
        self._schema, self._starts, self._max_hops = schema, starts, max_hops
        self._number = {kind: number for number, kind in enumerate(schema.hops)}
        self._by_end: dict[str, dict[str, list[Hop]]] = {kind: {} for kind in schema.hops}
        for kind, hops in schema.hops.items():
            for hop in hops:
                if hop.direction == "out" or not schema.symmetric:
                    self._by_end[hop.node_type].setdefault(kind, []).append(hop)

    def plan(self, answer_type: str) -> dict[str, Any]:
        """Return the schema of the plans with this answer type."""
        tests = [self._test(*each) for each in self._schema.fields[answer_type].items()]
        return _object(
            answer_type={"enum": [answer_type]},
            paths=_array([path for kind in self._number if (path := self._path(kind, answer_type))], MOST_PATHS),
            attributes=_array(tests, MOST_ATTRIBUTES),
            text={"type": "string", "maxLength": LONGEST_TEXT},
        )

    def _path(self, start_type: str, end: str) -> dict[str, Any] | None:
        names = [name for name, kind in self._starts or () if kind == start_type]
        may_start = self._starts is None or bool(names)
        chains = list(self._chains(start_type, end, self._max_hops)) if may_start else []
        if not chains:
            return None
        name = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
        start = {"anyOf": [name, {"type": "null"}]} if self._starts is None else {"enum": names}
        hops = [
            {"type": "array", "prefixItems": chain, "minItems": len(chain), "maxItems": len(chain)} for chain in chains
        ]
        path = _object(start=start, start_type={"enum": [start_type]}, exclude={"type": "boolean"}, hops=_any_of(hops))
        return self._define(f"path-{self._number[start_type]}-{self._number[end]}", path)

    def _chains(self, start_type: str, end: str, max_hops: int) -> Iterator[list[dict[str, Any]]]:
        """Yield the chains of hops between two types, the shorter ones first."""
        for kind, hops in self._by_end[end].items():
            if kind == start_type:
                yield [self._hop(kind, end, hops)]
        for kind, hops in self._by_end[end].items() if max_hops > 1 else ():
            for chain in self._chains(start_type, kind, max_hops - 1):
                yield [*chain, self._hop(kind, end, hops)]

    def _hop(self, kind: str, end: str, hops: Sequence[Hop]) -> dict[str, Any]:
        by_direction = {each: [hop.relation for hop in hops if hop.direction == each] for each in ("out", "in")}
        possible = [
            _object(relation={"enum": relations}, direction={"enum": [direction]}, type={"enum": [end]})
            for direction, relations in by_direction.items()
            if relations
        ]
        return self._define(f"hop-{self._number[kind]}-{self._number[end]}", _any_of(possible))

    def _test(self, field: str, values: Sequence[str] | type) -> dict[str, Any]:
        if values in (int, float):
            value: dict[str, Any] = {"type": "integer" if values is int else "number"}
            return _object(field={"enum": [field]}, op={"enum": [*_COMPARE]}, value=value)
        value = {"type": "string", "maxLength": LONGEST_NAME} if values is str else {"enum": values}
        return _object(field={"enum": [field]}, op={"enum": ["="]}, value=value)

    def _define(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        self.definitions.setdefault(name, schema)
        return {"$ref": f"#/$defs/{name}"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _any_of(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _array(items: Sequence[dict[str, Any]], most: int) -> dict[str, Any]:
    return {"type": "array", "items": _any_of(items), "maxItems": most} if items else {"enum": [[]]}


@dataclass(frozen=True)
class Execution:
    """The answers of a plan, and what each of its steps gave; all rows ascend."""

    plan: Plan
    rows: Rows
    """The answers."""
    walks: tuple[tuple[Rows, ...], ...]
    """Of each walk: the nodes that it starts from, and those after each hop; of an exclusion the last are ruled out."""
    left: tuple[int, ...]
    """How many nodes are left after each walk (inclusions first, in the order of the plan) and each attribute test.

    The counts after walks include nodes that walks start from, which are no answers.
    """
    n_edges: int
    """How many edges were followed."""
    remarks: tuple[str, ...] = ()
    """Names that no node has, and walks that were cut short."""

    @property
    def counts(self) -> list[list[int]]:
        """The number of nodes at each step of each walk."""
        return [[len(rows) for rows in walk] for walk in self.walks]

    def provenance(self, kb: KnowledgeBase, row: int) -> list[Path]:
        """Return a path to an answer by each walk that includes it; none by exclusions and negated hops."""
        return [
            path
            for walk, rows in zip(self.plan.walks, self.walks, strict=True)
            if not any(hop.negated for hop in walk.hops) and (path := _trace_path(kb, walk, rows, row))
        ]


def execute(
    plan: Plan, kb: KnowledgeBase, starts: Sequence[Rows | None] | None = None, most_edges: int = MOST_EDGES
) -> Execution:
    """Execute a plan: return all nodes that meet its walks and attribute tests.

    A node that a walk starts from is an answer only where another start of that walk, of the same name, leads to it.

    `starts` are the rows of the entity of each walk, for names that are not spelled as in the knowledge base; None for
    all nodes of the type. By default the nodes of exactly this name, or else of this name but for case.

    A plan follows at most `most_edges` edges: a hop that would need more starts from fewer nodes, and a remark says so.

    >>> nodes = pa.table({"id": [0, 1, 2], "type": ["ore", "metal", "metal"], "name": ["Galena", "Lead", "Silver"],
    ...                   "text": [""] * 3, "melts_at": [None, 327, 962]})
    >>> edges = pa.table({"head": [0, 0], "relation": ["yields", "yields"], "tail": [1, 2]})
    >>> kb = KnowledgeBase.from_arrow(nodes, edges)
    >>> done = execute(Plan.parse('"galena":ore -[yields]-> metal ; melts_at <= 500'), kb)
    >>> kb.names(done.rows), done.counts, done.left, done.provenance(kb, 1)[0].nodes
    (['Lead'], [[1, 2]], (2, 1), ['Galena', 'Lead'])
    """
    graph, remarks, n_edges = kb.graph, list[str](), 0
    given = [rows_of(kb, walk) for walk in plan.walks] if starts is None else starts
    walks: list[tuple[Rows, ...]] = []
    for walk, start in zip(plan.walks, given, strict=True):
        rows = [graph.of_type(walk.start_type) if start is None else start]
        if not len(rows[0]):
            remarks.append(f"no {walk.start_type} is named {walk.topic!r}")
        for place, hop in enumerate(walk.hops, start=1):
            nodes, cost = _limit_starts(kb, rows[-1], hop, most_edges - n_edges)
            if len(nodes) < len(rows[-1]):
                remarks.append(f"{write_walk(walk)} was cut at hop {place}: {len(nodes):,} of {len(rows[-1]):,} nodes")
            n_edges += cost
            rows.append(replace(hop, negated=hop.negated and place < len(walk.hops)).follow(graph, nodes))
        walks.append(tuple(rows))
    met, left = _intersect_walks(kb, plan, walks)
    own = [
        row
        for walk, rows in zip(plan.walks, walks, strict=True)
        for row in (np.intersect1d(rows[0], met) if walk.topic is not None else ())
        if not _is_reached_from_another(kb, walk, rows, row)
    ]
    met = np.setdiff1d(met, own, assume_unique=True)
    for test in plan.attributes:
        met = test.passing(kb, met)
        left.append(len(met))
    return Execution(plan, met, tuple(walks), tuple(left), n_edges, tuple(remarks))


def _intersect_walks(kb: KnowledgeBase, plan: Plan, walks: Sequence[tuple[Rows, ...]]) -> tuple[Rows, list[int]]:
    """Return the nodes where the walks meet, and how many are left after each."""
    ends = [(walk.hops[-1].negated, rows[-1]) for walk, rows in zip(plan.walks, walks, strict=True)]
    met, left = None, list[int]()
    for is_excluded, rows in sorted(ends, key=lambda each: each[0]):
        if met is None:
            met = kb.of_type(plan.answer_type) if is_excluded else rows
        met = (np.setdiff1d if is_excluded else np.intersect1d)(met, rows, assume_unique=True)
        left.append(len(met))
    return kb.of_type(plan.answer_type) if met is None else met, left


def rows_of(kb: KnowledgeBase, walk: MetapathWalk) -> Rows | None:
    """Return the nodes of the walk's start type with the name that it starts from; None where it starts from all."""
    if walk.topic is None:
        return None
    type_id = kb.graph.type_id(walk.start_type)
    for fold_case in (False, True):
        named = kb.named(walk.topic, fold_case)
        rows: Rows = named[kb.graph.type_ids[named] == type_id]
        if len(rows):
            break
    return rows


def _limit_starts(kb: KnowledgeBase, nodes: Rows, hop: Hop, most_edges: int) -> tuple[Rows, int]:
    """Return the first nodes, as many as have at most `most_edges` edges of a hop together, and how many edges."""
    side = kb.graph.into if hop.direction == "in" else kb.graph.out
    keys = nodes * side.n_relations + kb.graph.relation_id(hop.relation)
    edges = np.cumsum(side.indptr[keys + 1].astype(np.int64) - side.indptr[keys])
    n_nodes = int(np.searchsorted(edges, most_edges, side="right"))
    return nodes[:n_nodes], int(edges[n_nodes - 1]) if n_nodes else 0


def _is_reached_from_another(kb: KnowledgeBase, walk: MetapathWalk, rows: Sequence[Rows], row: int) -> bool:
    """Return whether another of the starts of a walk leads to one of them; not by hops that are negated."""
    if len(rows[0]) == 1:
        return False
    nodes = np.array([row])
    for hop, before in zip(walk.hops[::-1], rows[-2::-1], strict=True):
        nodes = np.intersect1d(kb.graph.neighbors_of(nodes, hop.relation, BACK[hop.direction]).rows, before)
    return bool((nodes != row).any())


def _trace_path(kb: KnowledgeBase, walk: MetapathWalk, rows: Sequence[Rows], row: int) -> Path | None:
    """Return the path of a walk to a row, by the nodes with fewest edges."""
    nodes = [row]
    degrees = kb.graph.total_degrees
    for hop, before in zip(walk.hops[::-1], rows[-2::-1], strict=True):
        there = np.intersect1d(kb.graph.neighbors(nodes[-1], hop.relation, BACK[hop.direction]), before)
        if not len(there):
            return None
        nodes.append(int(there[np.argmin(degrees[there])]))
    return Path(kb.names(nodes[::-1]), [Edge(hop.relation, hop.direction == "out") for hop in walk.hops])
