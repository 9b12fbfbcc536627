"""A user's own tables become a dataset like the released ones: checked, with further columns kept."""

import csv

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbbench_hf.benchmarks import benchmark, find_dataset
from kbbench_hf.building.own_kb import build_own_knowledge_base
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder

NODES = "id,type,name,text,year\na,author,Ada,,\np,paper,On P,About P.,1843\nq,paper,On Q,About Q.,1844\n"
EDGES = "head,relation,tail,weight\na,writes,p,1\na,writes,q,2\nq,cites,p,3\n"
QUERIES = """id,query,answer_ids,split,template
1,Who?,"[""a""]",train,T1
2,Which?,"[""p"",""q""]",val,
3,What?,"[""q""]",test,T2
"""


@pytest.fixture
def build(in_tmp):
    def build(nodes=NODES, edges=EDGES, queries=QUERIES):
        for name, text in (("n.csv", nodes), ("e.csv", edges), ("q.csv", queries)):
            if text is not None:
                (in_tmp / name).write_text(text)
        build_own_knowledge_base(
            "mine", in_tmp / "n.csv", in_tmp / "e.csv", in_tmp / "q.csv" if queries else None, in_tmp / "kbbench/mine"
        )
        return DatasetFolder(in_tmp / "kbbench/mine")

    return build


def test_tables_become_configs_with_their_further_columns(build):
    folder = build()
    assert folder.configs() == {
        "queries": ["train", "validation", "test"],
        "nodes": ["full"],
        "edges": ["full"],
        "schema": ["full"],
    }
    assert folder.rows("nodes", "full")[1] == {
        "id": "p",
        "type": "paper",
        "name": "On P",
        "text": "About P.",
        "year": 1843,
    }
    assert folder.rows("edges", "full")[2] == {"head": "q", "relation": "cites", "tail": "p", "weight": 3}
    assert folder.rows("queries", "validation") == [
        {"id": 2, "query": "Which?", "answer_ids": ["p", "q"], "template": ""}
    ]


def test_its_benchmark_scores_answers_with_slices(build):
    build()
    found = benchmark("mine")
    assert found.data.splits == ("train", "validation", "test", "all")
    examples = found.data.load(find_dataset("mine"), "queries", "all")
    scores = found.scoring.score(examples, [["a"], ["a", "p", "q"], ["p", "q", "a"]], "reference")
    assert scores.values["mrr"].tolist() == [1.0, 0.5, 0.5]
    assert scores.values["map"].tolist() == [1.0, (1 / 2 + 2 / 3) / 2, 0.5]
    assert scores.slices == {
        "answer_count": ["1", "2-5", "1"],
        "answer_type": ["author", "paper", "paper"],
        "answer_in_training": ["false", "false", "false"],
        "template": ["T1", "unknown", "T2"],
        "split": ["train", "validation", "test"],
    }
    assert "'x'" in found.scoring.check(examples, 1, ["a", "x"])
    assert "twice" in found.scoring.check(examples, 1, ["a", "a"])


def test_questions_are_optional_and_split_too(build, in_tmp):
    assert "queries" not in build(queries=None).configs()
    with pytest.raises(UsageError, match="--queries"):
        benchmark("mine")
    folder = build(queries='id,query,answer_ids\nq1,Who?,"[""a""]"\n')
    assert folder.configs()["queries"] == ["test"]
    assert folder.rows("queries", "test")[0]["id"] == "q1"


def test_numbered_nodes_get_numbered_answers(build):
    folder = build(
        "id,type,name,text\n7,a,x,\n3,a,y,\n", "head,relation,tail\n7,r,3\n", 'id,query,answer_ids\n1,Q,"[3, 7]"\n'
    )
    assert folder.rows("queries", "test")[0]["answer_ids"] == [3, 7]
    assert str(folder.table("queries", "test").schema.field("answer_ids").type) == "list<element: int64>"


def test_parquet_is_read_like_csv(in_tmp, build):
    expected = build().revision
    nodes = pa.table({"id": ["a", "p", "q"], "type": ["author", "paper", "paper"], "name": ["Ada", "On P", "On Q"]})
    nodes = nodes.append_column("text", pa.array(["", "About P.", "About Q."])).append_column(
        "year", pa.array([None, 1843, 1844])
    )
    pq.write_table(nodes, in_tmp / "n.parquet")
    queries = pa.table(
        {
            "id": [1, 2, 3],
            "query": ["Who?", "Which?", "What?"],
            "answer_ids": [["a"], ["p", "q"], ["q"]],
            "split": ["train", "validation", "test"],
            "template": ["T1", "", "T2"],
        }
    )
    pq.write_table(queries, in_tmp / "q.parquet")
    build_own_knowledge_base("mine", in_tmp / "n.parquet", in_tmp / "e.csv", in_tmp / "q.parquet", in_tmp / "again")
    assert DatasetFolder(in_tmp / "again").revision == expected
    as_bytes = queries.set_column(2, "answer_ids", pa.array([[b"a"], [b"p", b"q"], [b"q"]]))
    pq.write_table(as_bytes, in_tmp / "q.parquet")
    build_own_knowledge_base("mine", in_tmp / "n.parquet", in_tmp / "e.csv", in_tmp / "q.parquet", in_tmp / "bytes")
    assert DatasetFolder(in_tmp / "bytes").revision == expected


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (
            {"queries": QUERIES.replace('[""a""]', '[""z""]')},
            r"1 gold ids are not nodes: 'z' of query 1\. .*leave them out: --skip-dangling",
        ),
        ({"queries": QUERIES.replace('"[""a""]"', "[]")}, "row 1.*not empty"),
        ({"queries": QUERIES.replace('"[""a""]"', "exit()")}, "'exit\\(\\)' of query 1"),
        ({"queries": QUERIES.replace('"[""a""]"', "{1: 2}")}, "expected a list of node ids"),
        ({"queries": QUERIES.replace("train", "tr/ain")}, "split 'tr/ain'"),
        ({"queries": QUERIES.replace("3,What", "2,What").replace("val,", "test,")}, "question 2 occurs twice"),
        ({"queries": QUERIES.replace("answer_ids", "answers")}, "no column 'answer_ids'"),
        ({"edges": EDGES + "a,writes,nobody,4\n"}, "nobody"),
        ({"nodes": NODES + "a,author,Ada,,\n"}, "more than once"),
        ({"nodes": NODES.replace("paper,On P", ",On P")}, r"n\.csv, row 2: no type"),
        ({"nodes": NODES.replace("id,", "code,")}, r"no column 'id'.* Or name yours: --map nodes\.id=COLUMN"),
        (
            {"nodes": NODES + '"p,q",paper,P and Q,,\n', "queries": 'id,query,answer_ids\n1,Q,"p,q"\n'},
            r"row 1: answers 'p,q' may be \[\"p,q\"\] or \[\"p\", \"q\"\]; expected one reading",
        ),
        ({"queries": "id,query,answer_ids,relevance\n1,Q,p,0\n"}, "no query has a gold id of grade 1 or above"),
    ],
)
def test_bad_tables_build_nothing_and_say_where(build, in_tmp, tables, words):
    with pytest.raises(DataError, match=words):
        build(**tables)
    assert not (in_tmp / "kbbench").exists()


def test_what_leads_to_no_node_is_left_out_only_where_something_remains(in_tmp):
    (in_tmp / "n.csv").write_text(NODES)
    (in_tmp / "e.csv").write_text(EDGES + "a,writes,z,4\n")
    (in_tmp / "q.csv").write_text('id,query,answer_ids\n1,Q,"[""z""]"\n2,R,p\n3,S,"[""q"",""y"",""p""]"\n')
    files = [in_tmp / f"{name}.csv" for name in "neq"]
    left_out = build_own_knowledge_base("mine", *files, in_tmp / "mine", skip_dangling=True)
    assert left_out == [
        "1 of 4 edges, which lead to no node: 'z' (tail, row 4).",
        "2 gold ids, which are not nodes: 'z' of query 1, 'y' of query 3.",
        "1 of 3 queries, which have no other gold id.",
    ]
    folder = DatasetFolder(in_tmp / "mine")
    assert [row["answer_ids"] for row in folder.rows("queries", "test")] == [["p"], ["q", "p"]]
    assert folder.n_rows("full")["edges"] == 3 and folder.left_out == left_out
    assert all(f"- {each}" in (in_tmp / "mine/README.md").read_text() for each in left_out)
    for name, text, words in (
        ("q.csv", 'id,query,answer_ids\n1,Q,"[""z""]"\n', r"gold ids are not nodes: .* correct the gold ids\.$"),
        ("e.csv", "head,relation,tail\na,writes,z\n", r"1 of 1 edges lead to no node: .* correct the edges\.$"),
    ):
        (in_tmp / name).write_text(text)
        with pytest.raises(DataError, match=words):
            build_own_knowledge_base("mine", *files, in_tmp / "mine", skip_dangling=True)


def test_judgments_of_other_queries_and_bytes_of_another_encoding_are_refused_with_a_remedy(in_tmp):
    (in_tmp / "n.csv").write_bytes(NODES.replace("Ada", "Åda").encode("latin-1"))
    (in_tmp / "q.csv").write_text("id,query\n7,Who?\n")
    (in_tmp / "r.tsv").write_text("query-id\tcorpus-id\tscore\n8\ta\t1\n")
    given = ("mine", in_tmp / "n.csv", None, in_tmp / "q.csv", in_tmp / "mine")
    with pytest.raises(DataError, match=r"not UTF-8.* Or name its encoding, such as --encoding latin-1\.$"):
        build_own_knowledge_base(*given)
    with pytest.raises(DataError, match=r"judges none of the queries .* Expected ids such as '7'"):
        build_own_knowledge_base(*given, encoding="latin-1", qrels=in_tmp / "r.tsv")
    (in_tmp / "r.tsv").write_text("query-id\tcorpus-id\tscore\n7\ta\t1\n")
    build_own_knowledge_base(*given, encoding="latin-1", qrels=in_tmp / "r.tsv")
    assert DatasetFolder(in_tmp / "mine").rows("nodes", "full")[0]["name"] == "Åda"


STRUCTS = pa.array([{"x": 1}, {"x": 2}, None])


@pytest.mark.parametrize(
    ("table", "column", "values", "expected"),
    [
        ("nodes", "type", [1, 2, 2], ["1", "2", "2"]),
        ("nodes", "id", [123456789012.0, 2.0, 3.0], [123456789012, 2, 3]),
        ("nodes", "id", pa.array([2**64 - 1, 2, 3], pa.uint64()), ["18446744073709551615", "2", "3"]),
        ("nodes", "details", STRUCTS, ['{"x": 1}', '{"x": 2}', None]),
        ("nodes", "extra", STRUCTS, [{"x": 1}, {"x": 2}, None]),
        ("edges", "relation", [0, 1, 0], ["0", "1", "0"]),
        ("edges", "relation", [["r"], ["s"], ["r"]], ["r", "s", "r"]),
        ("edges", "head", ["1.0", "2", "3.00"], [1, 2, 3]),
        ("queries", "answer_ids", [[1.0], [2.0, 3.0], [3.0]], [[1], [2, 3], [3]]),
        ("queries", "answer_ids", [1, 2, 3], [[1], [2], [3]]),
        ("queries", "answer_ids", ["1.0", "2.0;3.0", "[3.0]"], [[1], [2, 3], [3]]),
        ("queries", "id", ["7", "07", "8"], ["7", "07", "8"]),
        ("queries", "id", ["-7", "70", "8"], [-7, 70, 8]),
        ("nodes", "id", [1, None, 3], r"n\.parquet, row 2: no id"),
        ("nodes", "id", ["a", "", "c"], r"n\.parquet, row 2: no id"),
        ("nodes", "text", STRUCTS, r"column 'text' holds objects; expected text\. Write one of its fields \('x'\)"),
        ("nodes", "name", [["a", "b"], ["c"], []], r"column 'name', row 1: a list of 2 values, 'a', 'b'"),
        ("queries", "query", ["a", None, " "], r"q\.parquet, row 2: no query \(nor in row 3\)"),
        ("queries", "id", ["a", "b", None], r"q\.parquet, row 3: no id"),
        ("queries", "answer_ids", [[1], None, [3]], r"q\.parquet, row 2: no answer_ids"),
        (
            "queries",
            "answer_ids",
            [[1], [None], [3]],
            r"q\.parquet, row 2: answers \[None\]; expected a list of node ids",
        ),
        ("queries", "answer_ids", [[1.5], [2.0], [3.0]], r"row 1: answers \[1\.5\]"),
        ("queries", "answer_ids", STRUCTS, r"row 3: no answer_ids"),
        ("queries", "split", ["test", "all", "test"], r"row 2: split 'all'"),
    ],
)
def test_columns_of_any_type_are_read_as_text_and_ids_or_refused_by_name_and_row(
    in_tmp, table, column, values, expected
):
    tables = {
        "nodes": {"id": [1, 2, 3], "type": ["a"] * 3, "name": ["x", "y", "z"], "text": ["", "", ""]},
        "edges": {"head": [1, 2, 3], "relation": ["r"] * 3, "tail": [2, 3, 2]},
        "queries": {"id": [1, 2, 3], "query": ["a", "b", "c"], "answer_ids": [[1], [2], [3]]},
    }
    tables[table][column] = values
    if column == "id" and table == "nodes" and isinstance(expected, list):
        tables["edges"] |= {"head": values, "tail": values}
        tables["queries"]["answer_ids"] = [[2], [2], [3]]
    for name, rows in tables.items():
        pq.write_table(pa.table(rows), in_tmp / f"{name[0]}.parquet")
    files = [in_tmp / f"{name}.parquet" for name in "neq"]
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            build_own_knowledge_base("mine", *files, in_tmp / "mine")
        return
    build_own_knowledge_base("mine", *files, in_tmp / "mine")
    folder = DatasetFolder(in_tmp / "mine")
    assert [row[column] for row in folder.rows(table, "test" if table == "queries" else "full")] == expected


@pytest.mark.parametrize("name", ["stark-prime", "mini-stark", "../elsewhere", "", "a b"])
def test_a_name_that_is_taken_or_none_is_refused(in_tmp, name):
    with pytest.raises(UsageError, match="Choose another name"):
        build_own_knowledge_base(name, in_tmp / "n.csv", in_tmp / "e.csv", None, in_tmp / "out")


def test_the_real_slice_is_built_as_a_users_own(shared, in_tmp):
    slice_folder = shared / "data/stark/prime/ibd_subgraph"
    split_of = {
        question: split
        for split in ("train", "val", "test")
        for question in (shared / f"data/stark/prime/split/{split}.index").read_text().split()
    }
    with (
        (slice_folder / "stark_qa_covered.csv").open(encoding="utf-8", newline="") as source,
        (in_tmp / "q.csv").open("w", encoding="utf-8", newline="") as sink,
    ):
        rows = [{**row, "split": split_of[row["id"]]} for row in csv.DictReader(source)]
        writer = csv.DictWriter(sink, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    build_own_knowledge_base(
        "ibd", slice_folder / "nodes.csv", slice_folder / "edges.csv", in_tmp / "q.csv", in_tmp / "kbbench/ibd"
    )
    found, folder = benchmark("ibd"), find_dataset("ibd")
    assert [len(found.data.load(folder, "queries", split).rows) for split in found.data.splits] == [435, 171, 223, 829]
    test = found.data.load(folder, "queries", "test")
    assert len(test.context.candidates.ids) == 3_426
    seen = found.scoring.score(test, [row["answer_ids"] for row in test.rows], "reference").slices["answer_in_training"]
    assert round(seen.count("true") / 223, 2) == 0.63
    assert folder.rows("edges", "full")[0]["head_type"] == "gene/protein"
