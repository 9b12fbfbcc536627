"""Predictions in every form that people have them: read to exactly these answers, or refused with what mends them.

The answers are made here and written by json, csv, pyarrow and zipfile; nothing of the package writes what it reads.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import random
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.harness import read_inspect_settings
from kbbench_hf.files.list_text import ListTextError, parse_list
from kbbench_hf.scoring.eval_task import EvalTask, load_examples
from kbbench_hf.scoring.lists import QRELS, headed
from kbbench_hf.scoring.predictions import Predictions, PredictionsError, ReadOptions, read_predictions

Answers = dict[Any, list[Any]]


@cache
def asked(benchmark: str) -> EvalTask:
    return load_examples(benchmark)


def texts() -> Answers:
    """Return answers for mini-ska: some of several words, one with a comma, one empty."""
    ids = asked("mini-ska").examples.ids
    found: Answers = {each: [["Ostra", "Sarn"], ["Velm"], ["New Ildray"]][n % 3] for n, each in enumerate(ids)}
    return found


def rankings(depth: int = 12) -> Answers:
    """Return rankings for mini-stark, seed 5."""
    generator = random.Random(5)
    return {each: generator.sample(range(281), depth) for each in asked("mini-stark").examples.ids}


def triples() -> Answers:
    """Return triples for mini-text2kg: one, two, or none."""
    some = [["Grey Lantern", "captain", "Tobias Wren"], ["Whimbrel", "height", 'it\'s 41 "m", tall']]
    return {each: some[: n % 3] for n, each in enumerate(asked("mini-text2kg").examples.ids)}


def ids_of(benchmark: str) -> list[Any]:
    return asked(benchmark).examples.ids


OF = {"mini-ska": ("answers", texts), "mini-stark": ("ids", rankings), "mini-text2kg": ("triples", triples)}


def rows(benchmark: str) -> list[dict[str, Any]]:
    field, answers = OF[benchmark]
    return [{"id": each, field: answer} for each, answer in answers().items()]


def lines(values: Sequence[object]) -> bytes:
    return "".join(f"{json.dumps(value, ensure_ascii=False)}\n" for value in values).encode()


def table(values: Sequence[Mapping[str, object]], delimiter: str = ",", **how: Any) -> bytes:
    sink = io.StringIO()
    writer = csv.DictWriter(sink, list(values[0]), delimiter=delimiter, lineterminator="\n", **how)
    writer.writeheader()
    writer.writerows(values)
    return sink.getvalue().encode()


def cells(benchmark: str, write: Callable[[list[Any]], str], **how: Any) -> bytes:
    field, answers = OF[benchmark]
    return table([{"id": each, field: write(answer)} for each, answer in answers().items()], **how)


def scored(of: Callable[[int], float] = lambda place: 1 / (place + 1)) -> list[tuple[Any, int, int, float]]:
    """Return (query, candidate, rank, score) of every candidate."""
    return [(q, each, n + 1, of(n)) for q, answer in rankings().items() for n, each in enumerate(answer)]


def run(write: str = "{q} Q0 {c} {r} {s} tag\n", of: Callable[[int], float] = lambda place: 1 / (place + 1)) -> bytes:
    return "".join(write.format(q=q, c=c, r=r, s=s) for q, c, r, s in scored(of)).encode()


def by_query(of: Callable[[int], float] = lambda place: 1 / (place + 1)) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for q, c, _, s in scored(of):
        found.setdefault(str(q), {})[str(c)] = s
    return found


def judged(header: str, of: Callable[[int], int]) -> bytes:
    """Return qrels of three columns."""
    return f"{header}\n".encode().lstrip() + run("{q}\t{c}\t{s}\n", of)


def graded() -> dict[str, dict[str, float]]:
    return by_query(lambda n: 2 - n)


def parquet(values: Sequence[Mapping[str, object]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(values)), sink)
    return sink.getvalue()


def zipped(members: Mapping[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return sink.getvalue()


def chunked_archive(log: dict[str, Any]) -> bytes:
    """Return a log whose samples are folders; their long texts lie in two chunks of attachments."""
    members = {}
    for each in log.pop("samples"):
        folder, texts_ = f"samples/{each['id']}_epoch_1", ["a", "b", each["output"]["completion"]]
        shell = {**each, "output": {"choices": [], "completion": "attachment://2"}}
        chunks = {"sample": shell, "metadata": {"page": 1}, "attachments/2": texts_[2:], "attachments/0": texts_[:2]}
        members |= {f"{folder}/{name}.json": json.dumps(chunk).encode() for name, chunk in chunks.items()}
    return zipped(members | {"header.json": json.dumps(log).encode()})


def lm_eval(document: Callable[[Any], object] = lambda each: {"id": each}, **more: object) -> list[dict[str, object]]:
    """Return lines of `samples_<task>_<time>.jsonl`, whose positions are not the ids."""
    found = []
    for n, (each, answer) in enumerate(reversed(texts().items())):
        text = json.dumps({"answer": answer})
        found.append(
            {
                "doc_id": n,
                "doc": document(each),
                "target": "['x']",
                "arguments": {"gen_args_0": {"arg_0": "Question", "arg_1": {"until": ["\n\n"]}}},
                "resps": [[f"<think>hm</think> {text}"]],
                "filtered_resps": [text],
                "filter": "none",
                "metrics": ["exact_match"],
                "exact_match": 0.0,
                **more,
            }
        )
    return found


def inspect(status: str = "success", limit: int | None = None, epochs: int = 1, **of_sample: object) -> dict[str, Any]:
    """Return a log of inspect_ai as JSON."""
    samples = [
        {
            "id": each,
            "epoch": epoch,
            "input": "Question",
            "target": "x",
            "output": {"choices": [], "completion": json.dumps({"answer": answer})},
            "scores": {"match": {"value": math.nan}},
            **of_sample,
        }
        for epoch in range(1, epochs + 1)
        for each, answer in texts().items()
    ]
    told = {"task": "t", "model": "m", "config": {"limit": limit, "epochs": epochs}}
    return {"version": 2, "status": status, "eval": told, "samples": samples}


def eval_archive(log: dict[str, Any], header: bool = True, **more: bytes) -> bytes:
    samples = log.pop("samples")
    members = {"_journal/start.json": json.dumps({"version": 2, "eval": log["eval"]}).encode()}
    members |= {f"samples/{each['id']}_epoch_{each['epoch']}.json": json.dumps(each).encode() for each in samples}
    if header:
        members["header.json"] = json.dumps(log).encode()
    return zipped(members | more)


def json_list(answer: list[Any]) -> str:
    return json.dumps(answer)


def numpy_list(answer: list[Any]) -> str:
    return "[" + " ".join(map(repr, answer)) + "]"


def broken(answer: list[Any]) -> str:
    words = list(map(str, answer))
    return "[" + " ".join(words[:3]) + " ... " + " ".join(words[-3:]) + "]"


def flat() -> list[dict[str, object]]:
    """Return mini-text2kg's answers, a triple a row; an example without any has a row without one."""
    return [
        {"id": each, "subject": subject, "predicate": relation, "object": obj}
        for each, answer in triples().items()
        for subject, relation, obj in (answer or [["", "", ""]])
    ]


def replied(row: Callable[[str, str], object]) -> bytes:
    """Return a row for each example of mini-text2kg: of its id, and of its answer as a model's text."""
    return lines([row(each, json.dumps({"triples": answer})) for each, answer in triples().items()])


def openai(example_id: str, text: str) -> dict[str, object]:
    """Return a line of OpenAI's batch output; of the first and second example, one that failed."""
    body: object = {"id": "chatcmpl-1", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
    reply: object = {"status_code": 200, "request_id": "r", "body": body}
    if example_id.endswith("_test_1"):
        reply = {"status_code": 400, "request_id": "r", "body": {"error": {"code": "content_filter"}}}
    failed = example_id.endswith("_test_2")
    error = {"code": "batch_expired"} if failed else None
    return {"id": f"batch_{example_id}", "custom_id": example_id, "response": None if failed else reply, "error": error}


def graph(answer: list[Any], source: object) -> dict[str, object]:
    """Return triples as a GraphDocument of LangChain."""
    names = dict.fromkeys(name for subject, _, obj in answer for name in (subject, obj))
    return {
        "nodes": [{"id": name, "type": "Node", "properties": {}} for name in names],
        "relationships": [
            {"source": {"id": s}, "target": {"id": o}, "type": r, "properties": {}} for s, r, o in answer
        ],
        "source": source,
    }


def node(example_id: str, answer: list[Any]) -> dict[str, object]:
    """Return triples as a node of LlamaIndex, whose extractors leave them in its metadata."""
    names = dict.fromkeys(name for subject, _, obj in answer for name in (subject, obj))
    relations = [{"label": relation, "source_id": s, "target_id": o, "properties": {}} for s, relation, o in answer]
    nodes = [{"label": "Node", "name": name, "properties": {}} for name in names]
    return {"id_": "n", "metadata": {"id": example_id, "nodes": nodes, "relations": relations}, "text": ""}


def arrow() -> bytes:
    table_ = pa.Table.from_pylist(rows(SKA))
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table_.schema) as writer:
        writer.write_table(table_)
    return sink.getvalue()


def barred(between: str) -> list[dict[str, object]]:
    """Return mini-text2kg's answers as text with bars."""
    return [{"id": k, "triples": between.join(map(" | ".join, answer)) or "[]"} for k, answer in triples().items()]


class Case(NamedTuple):
    benchmark: str
    content: Callable[[], bytes]
    refused: str = ""
    """What the message must match, where it is refused."""
    options: Mapping[str, Any] = {}
    missing: Callable[[int], bool] = lambda place: False
    """Which examples, by their place, have no answer."""
    codes: tuple[str, ...] = ()
    """Codes that the notes must have."""
    name: str = "predictions.dat"
    said: str = ""
    """What the notes must match."""


SKA, STARK, T2K, GENRES = "mini-ska", "mini-stark", "mini-text2kg", "mini-genres"
LATER = {"fields": {"id": "meta.qid", "answers": "pred.entities"}}

READ = {
    "Arrow": Case(SKA, arrow, said="Arrow"),
    "nodes of LlamaIndex": Case(T2K, lambda: lines([node(*each) for each in triples().items()]), said="LlamaIndex"),
    # JSON
    "array": Case(SKA, lambda: json.dumps(rows(SKA)).encode(), said="a JSON array"),
    "array, indented by tabs": Case(T2K, lambda: json.dumps(rows(T2K), indent="\t").encode()),
    "array, one row a line": Case(STARK, lambda: b"[" + b",\n".join(lines([r]).strip() for r in rows(STARK)) + b"]\n"),
    "array of one": Case(SKA, lambda: json.dumps(rows(SKA)[:1]).encode(), missing=lambda n: n > 0),
    "objects of several lines": Case(
        T2K, lambda: b"".join(json.dumps(r, indent=2).encode() + b"\n" for r in rows(T2K))
    ),
    "one object of several lines": Case(
        SKA, lambda: json.dumps(rows(SKA)[0], indent=1).encode(), missing=lambda n: n > 0
    ),
    "object by id": Case(T2K, lambda: json.dumps(triples(), indent=1).encode(), said="id -> answer"),
    "object by id, whole numbers": Case(STARK, lambda: json.dumps(rankings()).encode(), codes=("ids_as_text",)),
    "object by id, rows": Case(SKA, lambda: json.dumps({k: {"answers": v} for k, v in texts().items()}).encode()),
    "object by id, scores": Case(STARK, lambda: json.dumps(by_query()).encode()),
    "object by id, scores in any order of keys": Case(
        STARK,
        lambda: json.dumps({q: dict(sorted(each.items())) for q, each in by_query().items()}).encode(),
    ),
    "object by id, responses": Case(
        SKA,
        lambda: json.dumps({k: f"So: {json.dumps({'answer': v})}" for k, v in texts().items()}).encode(),
        options={"source": "response"},
    ),
    "list under a key": Case(SKA, lambda: json.dumps({"model": "m", "predictions": rows(SKA)}).encode()),
    "pandas, columns": Case(
        SKA,
        lambda: json.dumps({"id": dict(enumerate(texts())), "answers": dict(enumerate(texts().values()))}).encode(),
        said="columns",
    ),
    "lists of columns": Case(STARK, lambda: json.dumps({"id": [*rankings()], "ids": [*rankings().values()]}).encode()),
    "scores inside rows": Case(STARK, lambda: lines([{"id": int(q), "ids": each} for q, each in by_query().items()])),
    "lines with a blank one between": Case(SKA, lambda: lines(rows(SKA)).replace(b"\n", b"\n \n")),
    "no newline at the end": Case(SKA, lambda: lines(rows(SKA)).rstrip()),
    "other fields hold NaN and are deep": Case(
        SKA, lambda: lines([{**r, "loss": math.nan, "log": [[[[[[[[[1]]]]]]]]]} for r in rows(SKA)])
    ),
    "UTF-16 lines": Case(SKA, lambda: lines(rows(SKA)).decode().encode("utf-16"), said="UTF-16"),
    "triples as objects of other names": Case(
        T2K,
        lambda: lines(
            [
                {"id": k, "triples": [dict(zip(("head", "relation", "tail"), t, strict=True)) for t in v]}
                for k, v in triples().items()
            ]
        ),
    ),
    "lists as text in lines": Case(SKA, lambda: lines([{"id": k, "answers": str(v)} for k, v in texts().items()])),
    "ids as text and number": Case(
        STARK,
        lambda: lines([{"id": str(k), "ids": list(map(str, v))} for k, v in rankings().items()]),
        codes=("ids_as_text", "candidates_as_text"),
    ),
    # packed
    "gzip of an array": Case(SKA, lambda: gzip.compress(json.dumps(rows(SKA)).encode()), said="gzip"),
    "two gzips end to end": Case(
        SKA, lambda: gzip.compress(lines(rows(SKA)[:5])) + gzip.compress(lines(rows(SKA)[5:]))
    ),
    "zstandard of two frames": Case(
        STARK,
        lambda: b"".join(
            pa.compress(part, codec="zstd", asbytes=True) for part in (lines(rows(STARK)[:9]), lines(rows(STARK)[9:]))
        ),
    ),
    "bzip2": Case(SKA, lambda: bz2.compress(lines(rows(SKA)))),
    "xz": Case(SKA, lambda: lzma.compress(lines(rows(SKA)))),
    "zip of one file": Case(
        SKA, lambda: zipped({"a/": b"", "a/a.jsonl": lines(rows(SKA)), "__MACOSX/a": b"\x00\x05", "a/.DS_Store": b"x"})
    ),
    "gzip named otherwise": Case(STARK, lambda: gzip.compress(run()), name="run.txt"),
    # tables
    "csv, JSON": Case(T2K, lambda: cells(T2K, json_list)),
    "csv, Python's lists": Case(T2K, lambda: cells(T2K, str)),
    "csv, Python's tuples": Case(T2K, lambda: cells(T2K, lambda a: str([tuple(t) for t in a]))),
    "csv, numbers in a tuple": Case(STARK, lambda: cells(STARK, lambda a: str(tuple(a)))),
    "csv, NumPy's numbers": Case(STARK, lambda: cells(STARK, numpy_list)),
    "csv, NumPy's numbers over lines": Case(
        STARK, lambda: cells(STARK, lambda a: numpy_list(a).replace(" ", "\n  ", 3))
    ),
    "csv, NumPy's texts, which Python would join": Case(SKA, lambda: cells(SKA, numpy_list)),
    "csv, arrays": Case(SKA, lambda: cells(SKA, lambda a: f"array({a}, dtype=object)")),
    "csv, commas between numbers": Case(STARK, lambda: cells(STARK, lambda a: ", ".join(map(str, a)))),
    "csv, spaces between numbers": Case(STARK, lambda: cells(STARK, lambda a: " ".join(map(str, a)))),
    "csv, tabs between numbers": Case(STARK, lambda: cells(STARK, lambda a: "\t".join(map(str, a)))),
    "csv, semicolons and one at the end": Case(
        STARK, lambda: cells(STARK, lambda a: "".join(f"{each};" for each in a)), codes=("separators",)
    ),
    "csv, one candidate each": Case(
        STARK, lambda: table([{"id": k, "ids": v[0]} for k, v in rankings(1).items()]), options={"depth": 1}
    ),
    "csv, one text each": Case(
        SKA,
        lambda: table([{"id": k, "answers": "Velm"} for k, v in texts().items() if v == ["Velm"]]),
        missing=lambda n: n % 3 != 1,
    ),
    "csv, bars named": Case(SKA, lambda: cells(SKA, " | ".join), options={"separator": "|"}),
    "csv, an index and further columns": Case(
        SKA,
        lambda: table(
            [{"": n, **r, "answers": json.dumps(r["answers"]), "note": "a,b"} for n, r in enumerate(rows(SKA))]
        ),
    ),
    "csv, spaces after the commas of the header": Case(
        SKA, lambda: cells(SKA, json_list).replace(b"id,answers", b"id, answers")
    ),
    "csv, everything in quotes": Case(STARK, lambda: cells(STARK, str, quoting=csv.QUOTE_ALL)),
    "csv, bars between cells": Case(SKA, lambda: cells(SKA, json_list, delimiter="|")),
    "csv, sep= as Excel has it": Case(
        SKA, lambda: b"sep=;\r\n" + cells(SKA, json_list, delimiter=";").replace(b"\n", b"\r\n")
    ),
    "csv, UTF-16 big-endian": Case(SKA, lambda: b"\xfe\xff" + cells(SKA, json_list).decode().encode("utf-16-be")),
    "csv, an empty cell is missing": Case(
        SKA,
        lambda: table([{**r, "answers": "" if n == 4 else json.dumps(r["answers"])} for n, r in enumerate(rows(SKA))]),
        missing=lambda n: n == 4,
    ),
    "csv, responses": Case(
        SKA, lambda: table([{"id": k, "response": json.dumps({"answer": v})} for k, v in texts().items()])
    ),
    "csv, other names": Case(
        SKA,
        lambda: table([{"qid": k, "out.put": json.dumps(v)} for k, v in texts().items()]),
        options={"fields": {"id": "qid", "answers": "out.put"}},
    ),
    "tsv, a triple a row": Case(T2K, lambda: table(flat(), delimiter="\t"), said="one item a row"),
    "csv, a triple a row, not together": Case(
        T2K, lambda: table(flat()[::2] + flat()[1::2]), options={"loosely": True}
    ),
    "csv, a candidate a row": Case(
        STARK,
        lambda: table([{"id": q, "doc_id": c, "score": s} for q, c, _, s in scored()]),
        said="one candidate a row",
    ),
    "csv, a candidate a row by rank": Case(
        STARK, lambda: table([{"qid": q, "docid": c, "rank": r} for q, c, r, _ in reversed(scored())])
    ),
    "tsv, a run in BEIR's names": Case(
        STARK, lambda: table([{"query-id": q, "corpus-id": c, "score": s} for q, c, _, s in scored()], delimiter="\t")
    ),
    "csv, a candidate a row by distance": Case(
        STARK, lambda: table([{"id": q, "candidate": c, "distance": n} for q, c, n, _ in scored()])
    ),
    "lines, a triple each": Case(
        T2K, lambda: lines([each for each in flat() if each["subject"]]), missing=lambda n: n % 3 == 0
    ),
    "array, a candidate each": Case(
        STARK, lambda: json.dumps([{"q_id": str(q), "doc_id": str(c), "score": s} for q, c, _, s in scored()]).encode()
    ),
    "parquet": Case(STARK, lambda: parquet(rows(STARK)), said="Parquet"),
    "parquet of an index": Case(SKA, lambda: parquet([{"__index_level_0__": n, **r} for n, r in enumerate(rows(SKA))])),
    "parquet of text": Case(SKA, lambda: parquet([{"id": k, "answers": str(v)} for k, v in texts().items()])),
    "parquet of tuples by name": Case(
        T2K,
        lambda: parquet(
            [
                {"id": k, "triples": [dict(zip(("subject", "predicate", "object"), t, strict=True)) for t in v]}
                for k, v in triples().items()
            ]
        ),
    ),
    "parquet with a null": Case(
        SKA,
        lambda: parquet([{**r, "answers": None if n == 2 else r["answers"]} for n, r in enumerate(rows(SKA))]),
        missing=lambda n: n == 2,
    ),
    "parquet, nested": Case(
        SKA, lambda: parquet([{"meta": {"qid": k}, "pred": {"entities": v}} for k, v in texts().items()]), options=LATER
    ),
    "lines, nested": Case(
        SKA, lambda: lines([{"meta": {"qid": k}, "pred": {"entities": v}} for k, v in texts().items()]), options=LATER
    ),
    "gold under the answers' name is not read where another field is named": Case(
        SKA,
        lambda: lines([{"id": k, "answers": ["gold"], "text": json.dumps({"answer": v})} for k, v in texts().items()]),
        options={"fields": {"response": "text"}},
    ),
    "items of lists by number": Case(
        SKA,
        lambda: lines([{"id": k, "tries": [["no"], v]} for k, v in texts().items()]),
        options={"fields": {"answers": "tries.1"}},
    ),
    "fields of each of a list": Case(
        STARK,
        lambda: lines(
            [
                {"id": k, "hits": [{"node": each, "sim": 0.9 - n / 100} for n, each in enumerate(v)]}
                for k, v in rankings().items()
            ]
        ),
        options={"fields": {"ids": "hits.node", "scores": "hits.sim"}},
    ),
    # runs
    "run": Case(STARK, run, said="TREC"),
    "run, five columns": Case(STARK, lambda: run("{q} Q0 {c} {r} {s}\n")),
    "run, wide spaces and CRLF": Case(STARK, lambda: run("  {q}   Q0\t{c}  {r}  {s:.6e}  my-tag \r\n")),
    "run with a header": Case(STARK, lambda: b"qid Q0 docno rank score tag\n" + run()),
    "run, -inf is last": Case(STARK, lambda: run(of=lambda n: -math.inf if n == 11 else -n)),
    "scores in text": Case(
        STARK, lambda: json.dumps(by_query(lambda n: f"{9 - n / 2}")).encode(), codes=("scores_as_text",)
    ),
    "lines with scores in text, -inf last": Case(
        STARK, lambda: lines([{**r, "scores": [*map(str, range(12, 1, -1)), "-inf"]} for r in rows(STARK)])
    ),
    "a run under the columns of BEIR's qrels": Case(
        STARK, lambda: b"query-id\tcorpus-id\tscore\n" + run("{q}\t{c}\t{s}\n", of=lambda n: 30 - 2 * n)
    ),
    "relevance that is no whole number": Case(
        STARK, lambda: table([{"Query ID": q, "Doc ID": c, "Relevance": s} for q, c, _, s in scored()])
    ),
    "small whole numbers that are scores, said so": Case(
        STARK,
        lambda: table(
            [{"qid": q, "docid": c, "score": 2 - n} for q, a in rankings(3).items() for n, c in enumerate(a)]
        ),
        options={"scores": "similarity", "depth": 3},
    ),
    "the header that MS MARCO's lines need": Case(STARK, lambda: b"qid,docid,rank\n" + run("{q}\t{c}\t{r}\n")),
    "the header over cells with blanks between": Case(STARK, lambda: b"qid docid score\n" + run("{q} {c} {s}\n")),
    "one candidate a line under ids": Case(STARK, lambda: b"id\tids\trank\n" + run("{q}\t{c}\t{r}\n")),
    "one candidate a line under ids, in lines": Case(
        STARK, lambda: lines([{"id": q, "ids": c, "score": s} for q, c, _, s in scored()])
    ),
    "hits, mapped": Case(
        STARK,
        lambda: lines(
            [{"qid": q, "hits": [{"docid": c, "score": 9 - n} for n, c in enumerate(a)]} for q, a in rankings().items()]
        ),
        options={"fields": {"id": "qid", "ids": "hits.docid", "scores": "hits.score"}},
    ),
    "capitals, blanks and a mark in the header": Case(
        STARK, lambda: b"\xef\xbb\xbf ID , IDs\n" + cells(STARK, str).split(b"\n", 1)[1]
    ),
    "run, negative scores": Case(STARK, lambda: run(of=lambda n: -1.5 * n)),
    "run, worst first": Case(STARK, lambda: b"\n".join(reversed(run().strip().split(b"\n")))),
    "run, ranks from nought": Case(
        STARK, lambda: "".join(f"{q} Q0 {c} {r - 1} {s} t\n" for q, c, r, s in scored()).encode()
    ),
    "run, ranks that say nothing": Case(STARK, lambda: run("{q} Q0 {c} 1 {s} tag\n")),
    "run of distances, said so": Case(STARK, lambda: run(of=lambda n: n), options={"scores": "distance"}),
    "run by rank": Case(STARK, lambda: run(of=lambda n: 1.0), options={"scores": "rank"}),
    "run whose ranks disagree here and there": Case(
        STARK,
        lambda: "".join(f"{q} Q0 {c} {13 - r if q == 4 else r} {s} t\n" for q, c, r, s in scored()).encode(),
        codes=("ranks_disagree",),
    ),
    "scores that fall in lines": Case(
        STARK, lambda: lines([{**r, "scores": [9 - n for n in range(12)]} for r in rows(STARK)])
    ),
    "distances in lines, said so": Case(
        STARK, lambda: lines([{**r, "scores": [*range(12)]} for r in rows(STARK)]), options={"scores": "distance"}
    ),
    # harnesses
    # other tools
    "OpenAI batch": Case(T2K, lambda: replied(openai), said="OpenAI batch", missing=lambda n: n < 2),
    "Anthropic batch": Case(
        T2K,
        lambda: replied(
            lambda k, text: {
                "custom_id": k,
                "result": {"type": "expired"}
                if k.endswith("_test_1")
                else {
                    "type": "succeeded",
                    "message": {"content": [{"type": "thinking"}, {"type": "text", "text": text}]},
                },
            }
        ),
        missing=lambda n: n < 1,
    ),
    "Gemini batch": Case(
        T2K,
        lambda: replied(
            lambda k, text: {"key": k, "response": {"candidates": [{"content": {"parts": [{"text": text}]}}]}}
        ),
    ),
    "Bedrock batch": Case(
        T2K,
        lambda: replied(
            lambda k, text: {"recordId": k, "modelInput": {}, "modelOutput": {"content": [{"text": text}]}}
        ),
    ),
    "HELM": Case(
        T2K,
        lambda: json.dumps(
            {
                "request_states": [
                    {"instance": {"id": k}, "result": {"success": True, "completions": [{"text": json.dumps(v)}]}}
                    for k, v in triples().items()
                ]
            }
        ).encode(),
        said="HELM",
    ),
    "promptfoo": Case(
        T2K,
        lambda: json.dumps(
            {
                "results": {
                    "results": [
                        {"promptIdx": 0, "vars": {"id": k}, "response": {"output": v}, "error": "an assertion failed"}
                        for k, v in triples().items()
                    ]
                }
            }
        ).encode(),
    ),
    "GraphDocument": Case(
        T2K, lambda: json.dumps([graph(v, {"metadata": {"id": k}}) for k, v in triples().items()]).encode()
    ),
    "WebNLG": Case(
        T2K,
        lambda: (
            "<?xml version='1.0'?>\n<benchmark><entries>"
            + "".join(
                f'<entry eid="{k}"><generatedtripleset>'
                + "".join(f"<gtriple>{' | '.join(t).replace('&', '&amp;')}</gtriple>" for t in v)
                + "</generatedtripleset></entry>"
                for k, v in triples().items()
            )
            + "</entries></benchmark>"
        ).encode(),
    ),
    "lists of triples with bars": Case(
        T2K, lambda: lines([{"id": k, "triples": [*map(" | ".join, answer)]} for k, answer in triples().items()])
    ),
    "WikiTableQuestions": Case(
        SKA, lambda: "".join("\t".join([k, *v]) + "\n" for k, v in texts().items()).encode(), said="WikiTableQuestions"
    ),
    **{
        f"bars and {between!r}": Case(T2K, lambda between=between: table(barred(between)), said="with bars")
        for between in (" && ", " || ", "; ", "\n")
    },
    "two completions, the first wanted": Case(
        T2K,
        lambda: replied(lambda k, t: {"custom_id": k, "response": {"choices": [{"text": t}, {"text": t}]}}),
        options={"fields": {"response": "response.choices.0.text"}},
    ),
    "pairs, the first wanted": Case(
        SKA,
        lambda: json.dumps({k: [v, "million"] for k, v in texts().items()}).encode(),
        options={"fields": {"answers": "answers.0"}},
    ),
    "lm-eval": Case(SKA, lambda: lines(lm_eval()), said="lm-evaluation-harness"),
    "lm-eval, nested documents": Case(
        SKA,
        lambda: lines(lm_eval(lambda each: {"meta": {"deep": [[[[[[[[1]]]]]]]], "qid": each}})),
        options={"fields": {"id": "doc.meta.qid"}},
    ),
    "lm-eval, a metric that is no number": Case(SKA, lambda: lines(lm_eval(exact_match=math.nan, answers=0.5))),
    "lm-eval, one of two filters": Case(
        SKA,
        lambda: lines([*lm_eval(filter="strict"), *lm_eval(filter="flexible", filtered_resps=["no"])]),
        options={"where": {"filter": "strict"}},
    ),
    "lm-eval, filtered to a list of one": Case(
        SKA, lambda: lines([{**each, "filtered_resps": [each["filtered_resps"]]} for each in lm_eval()])
    ),
    "lm-eval, five only": Case(SKA, lambda: lines(lm_eval()[-5:]), missing=lambda n: n >= 5),
    "inspect": Case(SKA, lambda: json.dumps(inspect(), indent=2).encode(), said="inspect_ai"),
    "inspect on one line": Case(SKA, lambda: json.dumps(inspect()).encode()),
    "inspect .eval": Case(SKA, lambda: eval_archive(inspect())),
    "inspect .eval in chunks": Case(SKA, lambda: chunked_archive(inspect())),
    "inspect, killed": Case(SKA, lambda: eval_archive(inspect(), header=False), codes=("incomplete_log",)),
    "inspect, cancelled": Case(SKA, lambda: json.dumps(inspect("cancelled")).encode(), codes=("incomplete_log",)),
    "inspect, limited": Case(SKA, lambda: json.dumps(inspect(limit=5)).encode(), codes=("limit",)),
    "inspect, one of two epochs": Case(
        SKA, lambda: json.dumps(inspect(epochs=2)).encode(), options={"where": {"epoch": "2"}}
    ),
    "inspect, a failed sample": Case(
        SKA,
        lambda: json.dumps(
            {
                **(log := inspect()),
                "samples": [
                    {**s, "error": {"message": "boom"}, "output": {"completion": ""}} if n == 3 else s
                    for n, s in enumerate(log["samples"])
                ],
            }
        ).encode(),
        missing=lambda n: n == 3,
    ),
    "inspect, a long answer kept apart": Case(
        SKA,
        lambda: json.dumps(
            {
                **(log := inspect()),
                "samples": [
                    {**s, "attachments": {"h": s["output"]["completion"]}, "output": {"completion": "attachment://h"}}
                    for s in log["samples"]
                ],
            }
        ).encode(),
    ),
}

REFUSED = {
    "inspect .eval, a key twice": Case(
        SKA,
        lambda: eval_archive(inspect(), **{"samples/a_epoch_1.json": b'{"id": "a", "id": "b"}'}),
        "'id' occurs twice",
    ),
    **{
        f"a list in a table: {text!r}": Case(
            SKA, lambda text=text: table([{"id": k, "answers": text} for k in texts()]), re.escape(message)
        )
        for text, message in {
            "['a'] 'b'": "there is text after the end of the list",
            "['a', \u00a7]": "no list: '\u00a7]' cannot be read",
            "['a', ": "the list has no end",
            "[" * 10 + "'a'" + "]" * 10: "nested more than 8 levels deep",
            "['a', :]": "not a list: ':' where an item was expected",
        }.items()
    },
    "columns, one of them no list": Case(SKA, lambda: b'{"id": ["a", "b"], "answers": 7}', "'answers' is int, where"),
    "columns of two lengths": Case(SKA, lambda: b'{"id": ["a", "b"], "answers": [["x"]]}', "have not the same rows"),
    "objects with commas between": Case(SKA, lambda: b",\n".join(lines([r]).strip() for r in rows(SKA)), "comma"),
    "XML with entities": Case(
        T2K, lambda: b'<?xml version="1.0"?><benchmark><!ENTITY a "b"></benchmark>', "defines entities"
    ),
    "XML cut off": Case(T2K, lambda: b"<benchmark><entries>", "not XML: no element found"),
    "XML with half a triple": Case(
        T2K,
        lambda: (
            b"<benchmark><entry eid='1'><generatedtripleset><gtriple>a | b</gtriple></generatedtripleset></entry>"
            b"</benchmark>"
        ),
        "entry 1: 'a \\| b' is not 'subject",
    ),
    "csv, responses that pandas lost": Case(
        SKA, lambda: table([{"id": k, "response": "nan"} for k in texts()]), "pandas"
    ),
    "lines that end in commas": Case(SKA, lambda: b"".join(lines([r]).strip() + b",\n" for r in rows(SKA)), "comma"),
    "array with a comma too many": Case(
        SKA, lambda: json.dumps(rows(SKA), indent=1).encode()[:-2] + b",\n]", "comma before"
    ),
    "array without a comma": Case(
        SKA, lambda: b"[" + b"\n".join(lines([r]).strip() for r in rows(SKA)) + b"]", "',' delimiter"
    ),
    "array cut off": Case(SKA, lambda: json.dumps(rows(SKA), indent=1).encode()[:-40], "ends in the middle"),
    "object cut off": Case(T2K, lambda: json.dumps(triples(), indent=1).encode()[:-40], "ends in the middle"),
    "lines cut off": Case(T2K, lambda: lines(rows(T2K))[:-9], "was the file cut off"),
    "array and more": Case(SKA, lambda: json.dumps(rows(SKA)).encode() + b"\n{}", "after the end of the array"),
    "Python's objects": Case(SKA, lambda: "".join(f"{r}\n" for r in rows(SKA)).encode(), r"json\.dump"),
    "a list of Python's objects": Case(SKA, lambda: str(rows(SKA)).encode(), r"json\.dump"),
    **{
        f"a number of 5,000 digits, {form}": Case(
            SKA, lambda text=text: text.encode() % (b"9" * 5_000), "more than 4,300"
        )
        for form, text in {
            "lines": '{"id": "a", "answers": []}\n{"id": %s}',
            "array": '[{"id": %s}]',
            "list in a table": "id\tanswers\na\t['x', %s]\n",
        }.items()
    },
    "a rank of 5,000 digits": Case(STARK, lambda: b"1 Q0 2 %b 0.3 x\n" % (b"9" * 5_000), "not recognized"),
    "lists without ids": Case(SKA, lambda: json.dumps([*texts().values()]).encode(), "expected an object with 'id'"),
    "texts under ids: answers or responses?": Case(
        SKA, lambda: json.dumps(dict.fromkeys(texts(), "Velm")).encode(), "--from response"
    ),
    "an answer as text": Case(
        SKA, lambda: lines([{"id": k, "answers": "Velm"} for k in texts()]), r'expected a list(?s:.*)\["Paris"\]'
    ),
    "null": Case(SKA, lambda: lines([{"id": k, "answers": None} for k in texts()]), r"null(?s:.*)\[\]"),
    "a number for an answer list": Case(
        STARK, lambda: lines([{"id": k, "ids": 7} for k in rankings()]), "expected a list"
    ),
    "candidates as numbers with a point": Case(
        STARK, lambda: lines([{"id": k, "ids": [1.0]} for k in rankings()]), "integer"
    ),
    "candidates as objects": Case(
        STARK, lambda: lines([{"id": k, "ids": [{"id": 3}]} for k in rankings()]), "neither an integer"
    ),
    "triples nested one deeper": Case(
        GENRES,
        lambda: lines([{"id": k, "triples": [[["a", "r", "b"]]]} for k in ids_of(GENRES)]),
        r"three strings(?s:.*)\[\[",
    ),
    "triples of other keys": Case(
        GENRES, lambda: lines([{"id": k, "triples": [{"x": "a"}]} for k in ids_of(GENRES)]), "'sub', 'rel' and 'obj'"
    ),
    "a candidate twice": Case(STARK, lambda: lines([{"id": k, "ids": [3, 3]} for k in rankings()]), "twice"),
    "NaN among the answers": Case(SKA, lambda: lines([{"id": k, "answers": [math.nan]} for k in texts()]), "finite"),
    "other names": Case(
        SKA,
        lambda: lines([{"qid": k, "pred": {"entities": v}} for k, v in texts().items()]),
        "no 'id'(?s:.*)--map id=qid,answers=pred.entities",
    ),
    "other names in a table": Case(
        SKA, lambda: table([{"qid": k, "pred": str(v)} for k, v in texts().items()]), "--map id=qid"
    ),
    "a path that is not there": Case(SKA, lambda: lines(rows(SKA)), "no 'pred.x'", {"fields": {"answers": "pred.x"}}),
    "no such row": Case(SKA, lambda: lines(rows(SKA)), "no row has epoch=3", {"where": {"epoch": "3"}}),
    "ids with a point": Case(
        STARK, lambda: table([{"id": f"{k}.0", "ids": str(v)} for k, v in rankings().items()]), "matches no example"
    ),
    "ids of another split": Case(
        SKA, lambda: lines([{"id": f"train-{n}", "answers": []} for n in range(4)]), "Ids look like"
    ),
    # packed
    "gzip cut off": Case(SKA, lambda: gzip.compress(lines(rows(SKA)))[:-9], "cut off or damaged"),
    "zstandard cut off": Case(
        SKA, lambda: pa.compress(lines(rows(SKA)), codec="zstd", asbytes=True)[:-6], "cut off or damaged"
    ),
    "zip of two": Case(SKA, lambda: zipped({"a.jsonl": b"{}", "b.jsonl": b"{}"}), r"a\.jsonl, b\.jsonl"),
    "zip cut off": Case(SKA, lambda: zipped({"a.jsonl": lines(rows(SKA))})[:-30], "cut off or damaged"),
    "a workbook": Case(SKA, lambda: zipped({"xl/workbook.xml": b"<x/>", "[Content_Types].xml": b""}), "CSV UTF-8"),
    "an old workbook": Case(SKA, lambda: b"\xd0\xcf\x11\xe0\xa1\xb1" + b"\x00" * 600, "Excel"),
    "a pickle": Case(SKA, lambda: b"\x80\x04\x95\x00", "pickle"),
    "a page": Case(SKA, lambda: b"<!DOCTYPE html><html>not found</html>", "HTML"),
    "a pointer of Git LFS": Case(
        SKA, lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"
    ),
    "noise": Case(SKA, lambda: random.Random(1).randbytes(5_000), "zero bytes|not UTF-8"),
    "a sentence": Case(SKA, lambda: b"I have no predictions.\n", r"not recognized(?s:.*)A line as it is"),
    # tables
    "Latin-1": Case(SKA, lambda: cells(SKA, lambda a: "Sk\xe4rn").decode().encode("latin-1"), "UTF-8(?s:.*)iconv"),
    "UTF-16 without a mark": Case(SKA, lambda: cells(SKA, json_list).decode().encode("utf-16-le"), "UTF-16 without"),
    "semicolons: text or list?": Case(SKA, lambda: cells(SKA, ";".join), "may be one answer(?s:.*)--sep ';'"),
    "commas: text or list?": Case(SKA, lambda: cells(SKA, ", ".join), "may be one answer(?s:.*)--sep ','"),
    "a shortened array": Case(STARK, lambda: cells(STARK, broken), "shortened"),
    "cells that say nan": Case(
        SKA, lambda: table([{"id": k, "answers": "nan"} for k in texts()]), r"leave the cell empty|Leave the cell empty"
    ),
    "a set": Case(STARK, lambda: cells(STARK, lambda a: str({*a})), "no order"),
    "no header": Case(SKA, lambda: cells(SKA, json_list).split(b"\n", 1)[1], "no header"),
    "a column twice": Case(
        SKA, lambda: cells(SKA, json_list).replace(b"id,answers", b"id,id"), "two columns are called 'id'"
    ),
    "cells without quotes": Case(
        SKA, lambda: b"id,answers\n" + b"".join(f"{k},{','.join(v)}\n".encode() for k, v in texts().items()), "quotes"
    ),
    "a header only": Case(SKA, lambda: b"id,answers\n", "only a header"),
    "a run's numbers with a comma": Case(
        STARK, lambda: table([{"id": q, "candidate": c, "score": "0,5"} for q, c, _, _ in scored()]), "with a point"
    ),
    "two triples for an id in two rows of lists": Case(
        T2K, lambda: cells(T2K, json_list) + b"ont_1_isles_test_1,[]\n", "already"
    ),
    "parquet cut off": Case(SKA, lambda: parquet(rows(SKA))[:-20], "cut off or damaged"),
    # runs
    "qrels": Case(STARK, lambda: run("{q} 0 {c} 1\n"), "qrels"),
    "qrels as objects": Case(STARK, lambda: json.dumps(by_query(lambda n: 1)).encode(), "qrels"),
    "qrels of grades as objects": Case(STARK, lambda: json.dumps(by_query(lambda n: n % 3)).encode(), "qrels"),
    "qrels of BEIR": Case(
        STARK,
        lambda: table([{"query-id": q, "corpus-id": c, "score": 1} for q, c, _, _ in scored()], delimiter="\t"),
        "qrels",
    ),
    **{
        f"qrels, {name}": Case(STARK, content, "qrels")
        for name, content in {
            "graded, of BEIR": lambda: judged("query-id\tcorpus-id\tscore", lambda n: 2 - n % 3),
            "ordered, named relevance": lambda: judged("query_id\tdoc_id\trelevance", lambda n: 2 - n % 3),
            "named label": lambda: judged("qid\tdocno\tlabel", lambda n: 1),
            "spam and unjudged": lambda: judged("qid\tdocid\tscore", lambda n: n % 4 - 2),
            "without a header": lambda: judged("", lambda n: n % 2),
            "four columns of commas": lambda: run("{q},0,{c},1\n"),
            "iteration Q0": lambda: run("{q} Q0 {c} 1\n"),
            "ir_datasets": lambda: lines(
                [
                    {"query_id": str(q), "doc_id": str(c), "relevance": r % 3, "iteration": "0"}
                    for q, c, r, _ in scored()
                ]
            ),
            "Parquet": lambda: parquet(
                [{"query-id": str(q), "corpus-id": str(c), "score": float(r % 2)} for q, c, r, _ in scored()]
            ),
            "text in objects": lambda: json.dumps(by_query(lambda n: str(n % 2))).encode(),
            "graded objects": lambda: json.dumps({q: dict([*of.items()][:2]) for q, of in graded().items()}).encode(),
        }.items()
    },
    "MS MARCO without a header": Case(STARK, lambda: run("{q}\t{c}\t{r}\n"), "names: qid,docid,rank\\.$"),
    "scores without a header": Case(STARK, lambda: run("{q} {c} {s}\n"), "names: qid,docid,score\\.$"),
    "ranks and scores without a header": Case(STARK, lambda: run("{q},{c},{r},{s}\n"), "qid,docid,rank,score\\.$"),
    "names with blanks": Case(
        STARK,
        lambda: lines([{"query id": str(q), "Retrieved Docs": a} for q, a in rankings().items()]),
        "--map .id=query id,ids=Retrieved Docs.\\.$",
    ),
    "one candidate a line without ranks": Case(
        STARK, lambda: lines([{"id": q, "ids": [c]} for q, c, *_ in scored()]), "call the fields qid, docid and rank"
    ),
    "hits": Case(
        STARK,
        lambda: lines(
            [{"qid": q, "hits": []} for q in ids_of(STARK)[:1]]
            + [{"qid": q, "hits": [{"docid": c, "score": 0.5} for c in a]} for q, a in [*rankings().items()][1:]]
        ),
        "--map id=qid,ids=hits.docid,scores=hits.score\\.$",
    ),
    "a score that is text": Case(STARK, lambda: json.dumps(by_query(lambda n: f"0,{n}")).encode(), "with a point"),
    "an infinite score that is first": Case(STARK, lambda: run(of=lambda n: math.inf), "(?s)0 Q0 .* 1 inf tag.*last"),
    "a run with candidates of two kinds": Case(
        STARK,
        lambda: table([{"qid": q, "docid": c + 1, "docno": c, "rank": r, "score": s} for q, c, r, s in scored()]),
        "docid or in docno|docno or in docid|may stand in the column",
    ),
    "distances": Case(STARK, lambda: run(of=lambda n: n), "distances(?s:.*)--scores distance"),
    "distances as objects": Case(STARK, lambda: json.dumps(by_query(lambda n: 0.5 + n)).encode(), "--scores distance"),
    "scores that rise in lines": Case(
        STARK, lambda: lines([{**r, "scores": [*range(12)]} for r in rows(STARK)]), "rises"
    ),
    "scores all equal": Case(STARK, lambda: run(of=lambda n: 0.0), "--scores rank"),
    "run by ranks that are all alike": Case(
        STARK, lambda: run("{q} Q0 {c} 1 {s} t\n"), "no rank of its own", {"scores": "rank"}
    ),
    "table by ranks that it has not": Case(
        STARK,
        lambda: table([{"id": q, "docid": c, "score": s} for q, c, _, s in scored()]),
        "no rank",
        {"scores": "rank"},
    ),
    "objects by ranks that they have not": Case(
        STARK, lambda: json.dumps(by_query()).encode(), "no ranks", {"scores": "rank"}
    ),
    "run with a candidate twice": Case(
        STARK, lambda: run() + run().split(b"\n")[0] + b"\n", "occurs twice for query 0, first at line 1"
    ),
    "run with a line of another kind": Case(STARK, lambda: run() + b"the end\n", "no line of a TREC run"),
    "run with a score that is none": Case(STARK, lambda: run(of=lambda n: math.nan), "finite"),
    "a run where answers are wanted": Case(SKA, run, "has the ids of mini-stark"),
    # harnesses
    "lm-eval, two filters": Case(
        SKA,
        lambda: lines([*lm_eval(filter="strict-match"), *lm_eval(filter="flexible-extract")]),
        "strict-match, flexible-extract(?s:.*)--where filter=",
    ),
    "lm-eval, without our ids": Case(SKA, lambda: lines(lm_eval(lambda each: {"qid": each})), "--map id=doc.qid"),
    "lm-eval, positions are no ids": Case(STARK, lambda: lines(lm_eval(lambda each: {"q": "?"})), "no 'doc.id'"),
    "lm-eval, several repeats": Case(SKA, lambda: lines(lm_eval(filtered_resps=[["a", "b"]])), "2 repeats"),
    "lm-eval, choices": Case(
        SKA, lambda: lines(lm_eval(filtered_resps=[[-1.5, False], [-2.5, True]])), "log-likelihoods"
    ),
    "lm-eval, appended twice": Case(SKA, lambda: lines([*lm_eval(), *lm_eval()]), "already(?s:.*)--duplicates last"),
    "lm-eval for rankings": Case(
        STARK, lambda: lines(lm_eval(lambda each: {"id": 3}, filtered_resps=["x"])), "takes 'ids'"
    ),
    "lm-eval's figures": Case(
        SKA, lambda: json.dumps({"results": {}, "configs": {}, "versions": {}}, indent=1).encode(), "--log_samples"
    ),
    "inspect, two epochs": Case(
        SKA, lambda: json.dumps(inspect(epochs=2)).encode(), r"for each epoch \(1, 2(?s:.*)--where epoch="
    ),
    "inspect of a form to come": Case(
        SKA, lambda: eval_archive(inspect(), **{"samples/a_epoch_1/answer.json": b"{}"}), "a_epoch_1/answer.json"
    ),
    "inspect .eval, a sample that is none": Case(
        SKA, lambda: eval_archive(inspect(), **{"samples/a_epoch_1.json": b"1"}), "A line as it is: +1"
    ),
    "inspect .eval, no JSON": Case(
        SKA,
        lambda: eval_archive(inspect(), **{"samples/a_epoch_1.json": b"[" * 100_000}),
        "a_epoch_1.json. is not JSON",
    ),
    "lines, a triple each, an id that is none": Case(
        T2K, lambda: lines([{**each, "id": [1]} for each in flat() if each["subject"]]), "id .1. is neither a string"
    ),
    "inspect .eval, attachments that are none": Case(
        SKA,
        lambda: eval_archive(
            inspect(), **{"samples/a_epoch_1/sample.json": b"{}", "samples/a_epoch_1/attachments/0.json": b"5"}
        ),
        "attachments/0.json. is not a list of texts",
    ),
    "inspect .eval, another header": Case(
        SKA, lambda: eval_archive(inspect(), **{"header.json": b"[1]"}), "header.json. is not an object"
    ),
    "inspect without samples": Case(SKA, lambda: json.dumps({**inspect(), "samples": []}).encode(), "no samples"),
    # what is no answer
    "the dataset's own rows": Case(T2K, lambda: lines(of_dataset()), "gold answer(?s:.*)--map triples=prediction"),
    "ids in another field": Case(
        SKA,
        lambda: lines([{"id": n, "custom_id": k, "answers": v} for n, (k, v) in enumerate(texts().items())]),
        "--map id=custom_id",
    ),
    "two completions of one request": Case(
        T2K,
        lambda: replied(lambda k, t: {"custom_id": k, "response": {"choices": [{"text": t}, {"text": t}]}}),
        "2 choices(?s:.*)--map response=response.choices.0.text",
    ),
    "completions of a tool that is not known": Case(
        T2K,
        lambda: replied(
            lambda k, t: {"id": "r", "meta": {"key": k}, "response": {"items": [{"message": {"content": t}}]}}
        ),
        "--map id=meta.key,response=response.items.0.message.content",
    ),
    "TAT-QA's pairs": Case(
        SKA,
        lambda: json.dumps({k: [v[0], ["", "million"][n % 2]] for n, (k, v) in enumerate(texts().items())}).encode(),
        "scale(?s:.*)--map answers=answers.0",
    ),
    "one answer with a score": Case(
        SKA,
        lambda: lines([{"id": k, "answers": [f"{k} x", 0.5]} for k in texts()]),
        "a score(?s:.*)--map answers=answers.0",
    ),
    "WebNLG's gold": Case(
        T2K,
        lambda: b"<benchmark><entries><entry eid='Id1'><modifiedtripleset/></entry></entries></benchmark>",
        "the gold",
    ),
    "a picture": Case(SKA, lambda: b"\x89PNG\r\n\x1a\n" + bytes(99), "a picture"),
    "RDF": Case(T2K, lambda: b"<http://a/s> <http://a/p> <http://a/o> .\n", "RDF"),
    # nothing
    "nothing": Case(SKA, lambda: b"", "holds no predictions: it is empty"),
    "blanks": Case(SKA, lambda: b" \n\n", "holds no predictions"),
    "empty cells": Case(SKA, lambda: table([{"id": k, "answers": ""} for k in texts()]), "14 answers are empty cells"),
    "an empty array": Case(SKA, lambda: b"[]", "holds no predictions"),
    "an empty object": Case(SKA, lambda: b"{}\n", "holds no predictions"),
    "parquet of no rows": Case(
        SKA, lambda: parquet(rows(SKA)[:0] or [{"id": "x", "answers": ["y"]}]) and _no_rows(), "holds no predictions"
    ),
}


def of_dataset() -> list[dict[str, Any]]:
    """Return the rows of a dataset, to which answers were added under another name than the gold's."""
    return [{**each, "prediction": [["a", "b", "c"]]} for each in asked(T2K).examples.rows]


def _no_rows() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([], pa.string()), "answers": pa.array([], pa.list_(pa.string()))}), sink)
    return sink.getvalue()


def read(case: Case, folder: Path) -> Predictions:
    file = folder / case.name
    file.write_bytes(case.content())
    of_case = asked(case.benchmark)
    options = {name: value for name, value in case.options.items() if name not in ("depth", "loosely")}
    return read_predictions([file], of_case.benchmark, of_case.examples, ReadOptions(**options))


def expected(case: Case) -> list[Any]:
    answers = OF[case.benchmark][1]() if "depth" not in case.options else rankings(case.options["depth"])
    return [None if case.missing(n) else answer for n, answer in enumerate(answers.values())]


@pytest.mark.parametrize("name", READ)
def test_each_form_is_read_to_the_very_answers(tmp_path: Path, name: str) -> None:
    case = READ[name]
    found = read(case, tmp_path)
    plain = [
        answer and [list(each) if isinstance(each, tuple) else each for each in answer] for answer in found.answers
    ]
    if case.options.get("loosely"):
        assert [sorted(each or []) for each in plain] == [sorted(each) for each in expected(case)]
    else:
        assert plain == expected(case)
    assert {*case.codes} <= {note.code for note in found.notes}
    assert re.search(case.said, " ".join(map(str, found.notes)))


@pytest.mark.parametrize("name", REFUSED)
def test_each_of_these_is_refused_with_what_mends_it(tmp_path: Path, name: str) -> None:
    case = REFUSED[name]
    with pytest.raises(DataError, match=f"(?s){case.refused}") as caught:
        read(case, tmp_path)
    if isinstance(caught.value, PredictionsError):
        assert len(caught.value.problems) <= 1200  # never one for each line of a file of another format


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("(", ",)"), ("{'k': ", "}"), ("array([", "])")])
def test_a_printed_list_has_at_most_eight_levels(opening: str, closing: str) -> None:
    levels = opening.count("[") + opening.count("(") + opening.count("{")
    for n in (8 // levels, 8 // levels + 1):
        text = opening * n + "'x'" + closing * n
        if n * levels <= 8:
            assert "x" in str(parse_list(text))
        else:
            with pytest.raises(ListTextError, match="nested more than 8 levels deep"):
                parse_list(text)


@pytest.mark.parametrize("changes", [{}, {"benchmark": None}, {"config": 1}, {"n_examples": "9"}], ids=str)
def test_a_log_of_inspect_has_the_settings_of_a_run_of_ours_or_none(changes: dict[str, Any], tmp_path: Path) -> None:
    settings = {"benchmark": "mini-ska", "config": "c", "split": "test", "parser": "p", "n_examples": 9} | changes
    log, file = inspect(limit=2), tmp_path / "log.eval"
    log["eval"]["metadata"] = {"kbbench": settings}
    file.write_bytes(eval_archive(log))
    own = {**settings, "model": "m", "n_examples": 2, "source": "response"}
    assert read_inspect_settings(file) == ({} if changes else own)


def test_answers_that_were_added_to_the_dataset_s_rows_are_read_where_they_are_said_to_be(tmp_path: Path) -> None:
    file, of_case = tmp_path / "rows.jsonl", asked(T2K)
    file.write_bytes(lines(of_dataset()))
    found = read_predictions([file], of_case.benchmark, of_case.examples, ReadOptions(fields={"triples": "prediction"}))
    assert found.answers == [[["a", "b", "c"]]] * len(of_case.examples.rows)
    gold = read_predictions([file], of_case.benchmark, of_case.examples, ReadOptions(fields={"triples": "triples"}))
    assert gold.n_missing == 0, "who says so means it"
    file.write_bytes(lines([{"id": each["id"], "triples": each["triples"]} for each in of_dataset()]))
    assert read_predictions([file], of_case.benchmark, of_case.examples).n_missing == 0  # gold alone: to see its score


def test_plain_json_lines_need_no_words(tmp_path: Path) -> None:
    assert read(Case(SKA, lambda: lines(rows(SKA))), tmp_path).notes == []


def test_what_was_read_is_said_in_one_sentence(tmp_path: Path) -> None:
    (note,) = read(READ["csv, JSON"], tmp_path).notes
    assert str(note) == "predictions.dat was read as a table (csv, commas between cells)."
    assert note.severity == "note"


def test_ties_stand_in_the_order_of_ids_as_numbers_and_are_counted(tmp_path: Path) -> None:
    found = read(
        Case(STARK, lambda: b"3 Q0 10 1 2.0 t\n3 Q0 9 2 2.0 t\n3 Q0 100 3 1.0 t\n4 Q0 1 1 2 t\n4 Q0 2 2 1 t\n"),
        tmp_path,
    )
    assert (found.answers[3], found.answers[4]) == ([9, 10, 100], [1, 2])
    (ties,) = [note for note in found.notes if note.code == "ties"]
    assert (ties.n_examples, ties.severity) == (1, "warning")


def test_a_map_that_is_written_the_wrong_way_round_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--map has 'qid' before '='(?s:.*)id=qid"):
        read(Case(SKA, lambda: lines(rows(SKA)), options={"fields": {"qid": "id"}}), tmp_path)


def test_a_folder_that_datasets_saved_is_read_and_one_of_several_splits_is_refused(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    whole = Dataset.from_list(rows(T2K))
    whole.save_to_disk(tmp_path / "whole", num_shards=3)
    DatasetDict({"test": whole}).save_to_disk(tmp_path / "one")
    DatasetDict({"train": whole, "test": whole}).save_to_disk(tmp_path / "two")
    of_case = asked(T2K)
    for name in ("whole", "one", "two/test"):
        found = read_predictions([tmp_path / name], of_case.benchmark, of_case.examples)
        assert found.answers == [*triples().values()]
    with pytest.raises(PredictionsError, match=r"the splits train, test(?s:.*)two/train"):
        read_predictions([tmp_path / "two"], of_case.benchmark, of_case.examples)


@pytest.mark.parametrize(
    "files",
    [
        {"state.json": b'{"epoch": 1}'},
        {"state.json": b"["},
        {"state.json": b"[1]"},
        {"state.json": b'{"_data_files": [{"filename": 5}]}'},
        {"state.json": b'{"_data_files": [{"filename": "a.arrow"}]}', "a.arrow": b"abc"},
        {"dataset_dict.json": b'{"splits": 5}'},
        {"dataset_dict.json": b'{"splits": ["test"]}'},
        {"dataset_dict.json": b'{"splits": []}'},
    ],
    ids=str,
)
def test_a_folder_that_looks_like_a_saved_dataset_and_is_none_is_refused(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    of_case = asked(T2K)
    with pytest.raises(
        PredictionsError, match=r"a saved dataset that cannot be read \(\w+: (?s:.*)name a file of the fol"
    ):
        read_predictions([tmp_path], of_case.benchmark, of_case.examples)


def test_a_stranger_may_send_json_lines_and_nothing_else_and_is_told_of_no_options(tmp_path: Path) -> None:
    stranger = {"options": {"max_bytes": 10**6, "partial": False}}
    assert read(Case(SKA, lambda: gzip.compress(lines(rows(SKA))), **stranger), tmp_path).n_missing == 0
    for name in ("array", "csv, JSON", "parquet", "run", "inspect .eval", "bzip2", "zstandard of two frames", "xz"):
        with pytest.raises(PredictionsError, match=r"no JSON Lines(?s:.*)kbbench validate FILE"):
            read(READ[name]._replace(**stranger), tmp_path)
    for content in (lines(rows(SKA)[:3]), lines([*rows(SKA), rows(SKA)[0]]), lines([{"qid": 1}])):
        with pytest.raises(PredictionsError) as caught:
            read(Case(SKA, lambda content=content: content, **stranger), tmp_path)
        assert not re.search("--(partial|duplicates|map)", str(caught.value))
    with pytest.raises(PredictionsError, match="more than 1,000 bytes when expanded"):
        bomb = gzip.compress(b" " * 10**7)
        read(Case(SKA, lambda: bomb, options={"max_bytes": 1_000}), tmp_path)


class Rows(list[dict[str, Any]]):
    """What `load_dataset` returns, as far as it is looked at."""

    column_names = ("id", "answers")


def test_a_dataset_on_the_hub_is_read_and_a_split_must_be_named_where_there_are_several(monkeypatch) -> None:
    import datasets

    asked_for: list[object] = []

    def load(name: str, config: str, *, split: str, revision: str | None) -> Rows:
        asked_for.append((name, config, split, revision))
        return Rows(rows(SKA))

    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda name, revision: ["default"])
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda name, config, revision: ["train", "test"])
    monkeypatch.setattr(datasets, "load_dataset", load)
    of_case = asked(SKA)
    found = read_predictions([Path("me/answers@abc:test")], of_case.benchmark, of_case.examples)
    assert found.answers == [*texts().values()]
    assert asked_for == [("me/answers", "default", "test", "abc")]
    assert "the Hub's dataset me/answers, config default, split test" in str(found.notes[0])
    with pytest.raises(UsageError, match=r"splits train, test(?s:.*)me/answers:train"):
        read_predictions([Path("me/answers")], of_case.benchmark, of_case.examples)


def test_without_a_network_a_dataset_on_the_hub_is_a_usage_error(in_tmp: Path) -> None:
    of_case = asked(SKA)
    with pytest.raises(
        UsageError, match=r"me/answers is not a file or folder here, and could not be downloaded(?s:.*)network"
    ):
        read_predictions([Path("me/answers")], of_case.benchmark, of_case.examples)


def test_a_table_without_a_header_names_the_one_that_fits() -> None:
    rows = [["q1", "d1"], ["q1", "d2"]]
    found = headed(rows, {"q1"}, "ids")
    assert found is not None and found.remedy.endswith("under a line of names: qid,docid,rank.")
    ranked = headed([[*row, str(rank)] for rank, row in enumerate(rows)], {"q1"}, "ids")
    assert ranked is not None and ranked.remedy == "Begin it with a line of names: qid,docid,rank."
    assert headed(rows, {"q2"}, "ids") is None


@pytest.mark.parametrize(
    ("table", "header"),
    [
        ("q1 d1,q2 d2", "id,ids"),
        ("q1 d1", "id,ids"),
        ("q1 Q0 d1 1 0.9 tag,q1 Q0 d2 2 0.8 tag,q2 Q0 d1 1 0.7 tag", "qid,column1,docid,rank,score,column5"),
        ("q1 d1 0.9,q1 d2 0.8", "qid,docid,score"),
        ("q1 d1 0,q1 d2 1,q2 d1 0", "qid,docid,rank"),
        ("q1 d1 3.5 1,q1 d2 2.5 2", "qid,docid,score,rank"),
        ("q1 d1 1 x,q1 d2 1 y", None),
        ("q1 d1 2,q1 d2 0", None),
        ("q1 d1 1,q1 d2 -1", None),
    ],
)
def test_the_header_that_fits_a_table_is_found_by_its_values(table: str, header: str | None) -> None:
    found = headed([line.split() for line in table.split(",")], {"q1", "q2"}, "ids")
    assert found is not None
    named = re.search(r"Begin it with a line of names: (.*)\.", found.remedy)
    assert (named and named[1]) == header
    assert header is not None or found == QRELS
