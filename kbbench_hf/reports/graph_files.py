"""Knowledge base and questions as plain files, for agents that write programs over them, in the layout of DKGI.

`kbbench export --as graph-files` uses it. The gold is in `private` only, never in the folders for the agent. Agents
read `_FORMAT` and write programs for this layout: a change makes another task of it.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kbbench_hf.benchmarks import benchmark as benchmark_of
from kbbench_hf.benchmarks import find_dataset, task_key_of
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.writing import new_folder, write_json_lines, write_text
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import parse_record
from kbbench_hf.scoring.eval_task import load_examples

SHARD = 10_000
"""Nodes of a file of nodes."""
_BESIDE_RECORD = ("id", "type", "name", "text", "details")
"""Columns that lines have under other names, or inside."""
_FORMAT = """Knowledge base {name}: {n_nodes:,} nodes, {n_edges:,} edges.

nodes/NNNN.jsonl   one node per line: node_id, node_type, is_candidate, name and its attributes.
                   File NNNN has {shard:,} nodes; {order}
edges/RR.tsv       the edges of relation number RR: source_id and target_id, tab-separated, after a header line.
                   An edge leads from source to target. An edge may occur twice.
schema.json        node types and relations: names, numbers of nodes and edges, files, types that a relation joins
candidate_ids.txt  the nodes that may be answers, one id per line
"""


def write_graph_files(benchmark: str, out: Path) -> list[str]:
    """Write a benchmark's knowledge base and questions to the new folder `out`; return a line for each part.

    `corpus/NAME` and `public/NAME` are for the agent; `private/NAME` has the gold answers.

    Raises:
        UsageError: the benchmark has no knowledge base, or the folder has content.
        DataError: an id has a tab, a quotation mark or a line end, which the files of edges cannot hold.
    """
    name = task_key_of(benchmark).benchmark
    bench, dataset = benchmark_of(name), find_dataset(name)
    if not {"nodes", "edges"} <= dataset.configs().keys():
        raise UsageError(f"{name} has no knowledge base; expected a dataset with nodes and edges, such as mini-stark.")
    kb = KnowledgeBase.open(dataset.path)
    splits = {split: load_examples(name, None, split).examples for split in bench.data.splits if split != "all"}
    candidates = kb.rows(next(iter(splits.values())).context.candidates.ids)
    try:
        with new_folder(out) as folder:
            lines = [_write_corpus(kb, name, candidates.tolist(), folder / "corpus" / name)]
            for part in ("public", "private"):
                (folder / part / name).mkdir(parents=True)
            for split, examples in splits.items():
                rows = examples.rows
                queries = ({"query_id": r["id"], "query": r["query"], "corpus_dir": f"corpus/{name}"} for r in rows)
                write_json_lines(folder / "public" / name / f"{split}.jsonl", queries)
                gold = ({"query_id": row["id"], "answer_ids": list(row["answer_ids"])} for row in rows)
                write_json_lines(folder / "private" / name / f"{split}.jsonl", gold)
            lines += [f"public/{name}: queries of {', '.join(splits)}", f"private/{name}: their gold answers"]
    except FileExistsError:
        raise UsageError(f"{out} has content; expected a new folder. Name another one with --out.") from None
    return lines


def _write_corpus(kb: KnowledgeBase, name: str, candidates: list[int], folder: Path) -> str:
    """Write nodes, edges, schema and candidates (rows of nodes) into a new folder; return a line of counts."""
    (folder / "nodes").mkdir(parents=True)
    (folder / "edges").mkdir()
    _write_nodes(kb, set(candidates), folder / "nodes")
    width = max(2, len(str(len(kb.graph.relations) - 1)))
    relations, joined = [], kb.tuples()
    for number, relation in enumerate(kb.graph.relations):
        file = f"edges/{number:0{width}}.tsv"
        n = _write_edges(kb, number, folder / file)
        ends = [[head, tail] for head, each, tail, _ in joined if each == relation]
        relations.append({"relation": relation, "id": number, "file": file, "n": n, "node_types": ends})
    types = [{"node_type": each, "n": len(kb.of_type(each))} for each in kb.graph.node_types]
    facts = {"n_nodes": len(kb), "n_edges": len(kb.edges), "n_candidates": len(candidates)}
    schema = {"name": name, **facts, "node_types": types, "relations": relations}
    write_text(folder / "schema.json", json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    write_text(folder / "candidate_ids.txt", "".join(f"{each}\n" for each in kb.ids(candidates)))
    order = f"that of a node is node_id // {SHARD}." if kb.ids() == list(range(len(kb))) else "ids have no order."
    text = _FORMAT.format(name=name, n_nodes=len(kb), n_edges=len(kb.edges), shard=SHARD, order=order)
    write_text(folder / "DATA_FORMAT.txt", text)
    return f"corpus/{name}: {len(kb):,} nodes, {len(kb.edges):,} edges, {len(candidates):,} candidates"


def _write_nodes(kb: KnowledgeBase, candidates: set[int], folder: Path) -> None:
    """Write a line for each node: what all have, further columns of the table, and the record in its details."""
    columns = [each for each in kb.nodes.column_names if each not in _BESIDE_RECORD]
    for number, start in enumerate(range(0, len(kb), SHARD)):
        with (folder / f"{number:04}.jsonl").open("wb") as file:
            for row, node in enumerate(kb.nodes.slice(start, SHARD).to_pylist(), start):
                own = {"node_id": node["id"], "node_type": node["type"], "is_candidate": row in candidates}
                own |= {key: node[key] for key in ("name", "text", *columns) if node[key] not in (None, "")}
                file.write(_json_line({**parse_record(node.get("details") or "{}"), **own}))


def _json_line(record: dict[str, Any]) -> bytes:
    """Return a line of JSON; NaN is null."""
    try:
        return msgspec.json.encode(record) + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair in a released text
        return json.dumps(record).encode() + b"\n"


def _write_edges(kb: KnowledgeBase, relation: int, file: Path) -> int:
    """Write the edges of one relation, in their order; return how many there are."""
    edges = kb.edges.filter(pc.equal(kb.edges["relation"], relation))
    ids = kb.nodes["id"].chunk(0).cast(pa.string())
    ends = [ids.take(edges[column].combine_chunks()) for column in ("head", "tail")]
    for column in ends:
        if len(wrong := column.filter(pc.match_substring_regex(column, r"[\t\n\r\x22]"))):
            message = f"The id {wrong[0].as_py()!r} cannot be written to a TSV file"
            raise DataError(f"{message}; expected ids without tabs or quotes.")
    lines = pc.binary_join_element_wise(*ends, "\t").to_pylist()
    file.write_text("".join(f"{line}\n" for line in ("source_id\ttarget_id", *lines)), encoding="utf-8")
    return len(lines)
