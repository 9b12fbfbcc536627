"""Questions of `kg_text` composed by grammar: what is stated of the entity that a row's name leads to, or comes from.

The page of one entity states a number, by which it is found; a triple joins it to another entity of the same table,
whose page states the number that is asked for.
"""

import hashlib
from collections.abc import Iterable, Iterator

from kbbench_hf.benchmarks.ska_bench.construction.hybridqa_graph import GROUP, LISTED, Graph, Graphs, by_triples
from kbbench_hf.benchmarks.ska_bench.construction.hybridqa_tables import SOURCE
from kbbench_hf.benchmarks.ska_bench.construction.stated_facts import Fact, Kind, noun, pairs_of
from kbbench_hf.benchmarks.ska_bench.graph_programs import SAYS
from kbbench_hf.benchmarks.ska_bench.mentions import normal_name
from kbbench_hf.benchmarks.ska_bench.units import SEED, Instance
from kbbench_hf.metrics.typed_answers import answer_type


def chains(tables: Iterable[Graph], graphs: Graphs) -> Iterator[Instance]:
    """Yield at most one question on each table, in the order of the hashes of their names."""
    for graph in sorted(tables, key=lambda each: hashlib.sha256(f"{SEED}|chain|{each.table.name}".encode()).digest()):
        for kind, known, asked_kind, asked in pairs_of(graph.table):
            if graph.key in (known.column, asked.column):
                instance = _chain(graph, graphs, kind, known, asked_kind, asked)
                if instance and not graphs.evidence.problems(instance):
                    yield instance
                    break


def _chain(graph: Graph, graphs: Graphs, kind: Kind, known: Fact, asked_kind: Kind, asked: Fact) -> Instance | None:
    header = graph.table.header
    what = noun(header[asked.column], asked_kind.noun)
    given = noun(header[known.column], kind.noun)
    if asked.column == graph.key:
        wanted = asked_kind.asks.format(f'{what} listed in "{graph.listed}"')
        question = f"{wanted} whose {given} {kind.says.format(known.stated)}?"
        about, where = ("?row", "?known"), ["?row", header[known.column], "?known"]
    else:
        said = kind.says.format(known.stated)
        question = f'{asked_kind.asks.format(f"{what} of the {given}")}, listed in "{graph.listed}", that {said}?'
        about, where = ("?asked", "?row"), ["?row", header[asked.column], "?asked"]
    told = [about[1], SAYS, normal_name(known.stated)]
    program = {
        "type": "match",
        "read": [about[0], asked.stated],
        "where": [where, ["?row", LISTED, graph.listed], told],
    }
    name = f"{graph.table.name}-{asked.row}-{asked.column}-{known.column}"
    instance = Instance(
        id=f"hybridqa-{name}",
        subset="kg_text",
        question=f"{question[0].upper()}{question[1:]}",
        answers=(asked.stated,),
        answer_type=answer_type(asked.stated),
        split_key=graph.table.name,
        group=GROUP,
        topics=(graph.names[asked.row],),
        own_text=graphs.pages_of(graph.table),
        program=program,
        method="composed",
        source=SOURCE.name,
        source_id=name,
        commit=SOURCE.commit,
        licence=SOURCE.licence,
    )
    return next(graphs.with_units(instance, [by_triples]), None)
