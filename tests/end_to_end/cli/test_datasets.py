"""`kbbench list`, `build` and `demo`: what is at hand, how to have more, and the first minute."""

import json
import shlex
from pathlib import Path

from kbbench_hf.benchmarks import benchmark_names
from kbbench_hf.files.datasets import built

NODES = "id,type,name,text\n1,dish,Leek soup,hot\n2,dish,Cold soup,cold\n3,cook,Ann,born by the sea\n"
EDGES = "head,relation,tail\n3,cooks,1\n"
QUERIES = 'id,query,answer_ids\n7,leek soup,"[1]"\n'


def build_own_knowledge_base(kbbench) -> None:
    for name, text in (("n", NODES), ("e", EDGES), ("q", QUERIES)):
        Path(f"{name}.csv").write_text(text)
    done = kbbench("build", "my-kb", "--nodes", "n.csv", "--edges", "e.csv", "--queries", "q.csv")
    assert done.code == 0, done.err


def test_list_names_every_benchmark_and_what_is_at_hand_in_80_columns(kbbench):
    lines = kbbench("list").out.splitlines()
    shown = {line.split()[0]: line for line in lines[1:] if line}
    assert shown.keys() >= {*benchmark_names()}
    assert shown["mini-stark"].rstrip().endswith("built in") and "retrieval" in shown["mini-stark"]
    assert shown["stark-prime"].rstrip().endswith("not built")
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)


def test_list_shows_all_of_one_benchmark(kbbench):
    words = " ".join(kbbench("list", "mini-text2kg").out.split())
    assert "modes reference The authors' released evaluation script" in words
    assert "slices ontology Id of the ontology" in words
    assert "task triple extraction; a prediction has the field triples" in words
    assert "subject_hallucination_aliases SH aliases ↓" in words and "license apache-2.0" in words
    missing = " ".join(kbbench("list", "stark-prime").out.split())
    assert (
        "not built; to install it: kbbench build stark-prime" in missing and "mrr MRR, mean reciprocal rank" in missing
    )
    assert json.loads(kbbench("list", "mini-text2kg", "--json").out)["metrics"]["f1"] == "F1"
    assert len(json.loads(kbbench("list", "--json").out)) == len(benchmark_names())


def test_a_knowledge_base_of_ones_own_is_built_listed_and_run(kbbench):
    build_own_knowledge_base(kbbench)
    assert "./kbbench" in next(line for line in kbbench("list").out.splitlines() if line.startswith("my-kb"))
    result = json.loads(kbbench("run", "my-kb", "--model", "bm25", "--json").out)
    assert result["scores"]["hit_at_1"]["value"] == 1.0  # "leek" stands in one node only


def test_a_damaged_folder_is_one_line_of_the_list_and_of_the_doctor(kbbench):
    whole = json.loads(kbbench("list", "--json").out)
    for name, text in (("cut", "{"), ("other", '{"files": 1}'), ("bare", '{"revision": "0", "files": {}}')):
        folder = Path("kbbench", name)
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(text)
    done = kbbench("list")
    assert (done.code, len(done.err.splitlines())) == (0, 3)
    assert all(line.startswith("! ") and "again" in line for line in done.err.splitlines())
    assert "kbbench/cut/manifest.json is not the JSON" in done.err
    assert json.loads(kbbench("list", "--json").out) == whole
    assert kbbench("doctor").out.count("\ndataset    kbbench/") == 2


def test_dangling_edges_and_gold_ids_are_refused_or_on_request_left_out_and_counted(kbbench):
    build_own_knowledge_base(kbbench)
    call = ["build", "my-kb", "--nodes", "n.csv", "--edges", "e.csv", "--queries", "q.csv"]
    assert "left out" not in kbbench(*call, "--skip-dangling").out
    Path("e.csv").write_text(EDGES + "3,cooks,77\n78,cooks,79\n")
    Path("q.csv").write_text('id,query,answer_ids\n7,leek soup,"[1, 99]"\n8,cold,2\n9,lost,"[97]"\n')
    done = kbbench(*call)
    assert done.code == 65
    assert "2 of 3 edges lead to no node: 77 (tail, row 2), 78 (head, row 3)" in " ".join(done.err.split())
    assert "or leave them out: --skip-dangling" in " ".join(done.err.split())
    done = kbbench("build", "my-kb", "--nodes", "n.csv", "--queries", "q.csv")
    assert "2 gold ids are not nodes: 99 of query 7, 97 of query 9" in " ".join(done.err.split())
    done = kbbench(*call, "--skip-dangling")
    assert done.code == 0, done.err
    card = Path("kbbench/my-kb/README.md").read_text()
    for said in (
        "2 of 3 edges, which lead to no node: 77 (tail, row 2)",
        "2 gold ids, which are not nodes: 99 of query 7, 97 of query 9.",
        "1 of 3 queries, which have no other gold id.",
    ):
        assert said in card
        assert said in " ".join(done.out.split())
    folder = built("my-kb")
    assert [row["answer_ids"] for row in folder.rows("queries", "test")] == [[1], [2]]
    assert len(folder.rows("edges", "full")) == 1
    Path("e.csv").write_text("head,relation,tail\nx,r,y\n")  # other ids: nothing would be left
    done = kbbench(*call, "--skip-dangling")
    assert (done.code, "correct the edges." in " ".join(done.err.split())) == (65, True)


def test_an_empty_list_of_configs_builds_nothing(kbbench, shared):
    source = shared / "data" / "text2kgbench"
    for configs in ("nothing", "ontologies,"):
        done = kbbench("build", "text2kg-wikidata-tekgen", "--source", source, "--configs", configs)
        assert (done.code, "Known: ontologies, prompts, sentences, sentences_folded." in done.err) == (2, True)
    assert "'' is not a name" in kbbench("build", "text2kg-wikidata-tekgen", "--source", source, "--configs", "").err
    assert not Path("kbbench").exists()


def test_build_refuses_sources_that_are_none(kbbench):
    Path("empty").mkdir()
    Path("n.csv").write_text(NODES)
    for arguments, code, message in (
        (["stark-prime", "--source", "nowhere"], 2, "--source nowhere is not a folder"),
        (["text2kg-wikidata-tekgen", "--source", "empty"], 65, "empty holds no wikidata_tekgen/ontologies"),
        (["my-kb", "--edges", "n.csv"], 2, "needs --nodes FILE or --graph PATH, and not both"),
        (["my-kb", "--nodes", "n.csv", "--edges", "nothing.csv"], 2, "'nothing.csv' does not exist"),
        (["mini-stark", "--skip-dangling"], 2, "--skip-dangling needs --nodes or --graph"),
    ):
        done = kbbench("build", *arguments)
        assert done.code == code
        assert message in done.err
    assert not Path("kbbench").exists()


def test_build_metrics_writes_the_modules_that_evaluate_loads(kbbench):
    done = kbbench("build", "metrics")
    assert done.code == 0
    assert Path("kbbench/text2kg/text2kg.py").is_file()
    assert 'evaluate.load("kbbench/text2kg")' in done.out


def test_the_demo_scores_compares_draws_and_says_what_is_next(kbbench):
    done = kbbench("demo")
    assert done.code == 0
    pasted = [line.strip() for line in done.out.splitlines() if line.startswith("  kbbench ")]
    assert len(pasted) == 5
    for command in pasted:
        again = kbbench(*shlex.split(command)[1:])
        assert (again.code, again.out.strip() != "") == (0, True), command
    assert "Text2KGBench, mini" in done.out
    assert Path("kbbench-demo/scores.png").read_bytes().startswith(b"\x89PNG")
    results = json.loads(Path("kbbench-demo/result.json").read_text(encoding="utf-8"))
    assert {name: sorted(systems) for name, systems in results.items()} == {
        "mini-text2kg": ["copy", "pattern"],
        "mini-stark": ["bm25", "graph:bm25"],
    }
    ranked = Path("kbbench-demo/runs/bm25/predictions.jsonl")
    before = ranked.read_bytes()
    ranked.with_name("journal.jsonl").write_text("")
    ranked.write_text("of another version of the package")
    assert kbbench("demo").code == 0  # again, over what is there
    assert ranked.read_bytes() == before


def test_a_graph_of_another_tool_is_built_run_and_what_it_lacks_is_shown_with_the_score(kbbench):
    Path("n.csv").write_text("id:ID,name,description,:LABEL\n1,Ada,writes notes,Person\n2,Bo,,Person\n,Cy,,Person\n")
    Path("r.csv").write_text(":START_ID,:END_ID,:TYPE\n1,2,KNOWS\n2,9,KNOWS\n")
    Path("q.jsonl").write_text('{"key": "a", "question": "who writes notes?", "gold": [1]}\n')
    queries = (
        "--queries",
        "q.jsonl",
        "--map",
        "queries.id=key,queries.query=question",
        "--map",
        "queries.answer_ids=gold",
    )
    done = kbbench("build", "ada", "--graph", "n.csv", "r.csv", *queries)
    assert (done.code, "1 of 2 edges lead to no node: 9 (tail, row 2)" in " ".join(done.err.split())) == (65, True)
    assert not Path("kbbench").exists()
    twice = kbbench("build", "ada", "--graph=n.csv", "r.csv", *queries, "--skip-dangling").out
    done = kbbench("build", "ada", "--skip-dangling", "--graph", "n.csv", "--graph", "r.csv", *queries)
    assert (done.code, done.out.splitlines()[-1]) == (0, twice.splitlines()[-1])
    result = json.loads(kbbench("run", "ada", "--model", "bm25", "--json").out)
    assert result["scores"]["hit_at_1"]["value"] == 1.0
    shown = next(each["message"] for each in result["warnings"] if each["code"] == "left_out")
    assert "Nodes without an id: 1 (Cy)." in shown and "1 of 2 edges" in shown


def test_graphs_of_unknown_formats_and_wrong_options_build_nothing(kbbench):
    files = {
        "a.txt": "hello, world\n1, 2\n",
        "n.csv": NODES,
        "cut.json": '{"nodes": [',
        "köln.csv": "id:ID,name\n1,K\xf6ln\n",
    }
    for name, text in files.items():
        Path(name).write_bytes(text.encode("latin-1"))
    Path("folder").mkdir()
    Path("folder/readme.md").write_text("x")
    for arguments, code, words in (
        (["--graph", "a.txt"], 65, "a.txt has no known graph format. Expected one of neo4j (Neo4j admin import), apoc"),
        (["--graph", "folder"], 65, "folder has no known graph format. Expected one of neo4j"),
        (["--graph", "cut.json"], 65, "cut.json, line 1: not JSON"),
        (["--graph", "a.txt", "--format", "obo"], 65, "a.txt is not in the format obo (OBO)"),
        (["--graph", "a.txt", "--format", "oboe"], 2, "Unknown graph format 'oboe'. Did you mean 'obo'?"),
        (["--graph", "köln.csv"], 65, "line 2: not UTF-8: byte 0xf6"),
        (["--graph", "köln.csv"], 65, "Or name its encoding, such as --encoding latin-1."),
        (["--graph", "köln.csv", "--encoding", "klingon"], 2, "--encoding klingon is unknown; expected a name such as"),
        (["--graph", "a.txt", "--nodes", "n.csv"], 2, "--nodes FILE or --graph PATH, and not both"),
        (["--nodes", "n.csv", "--format", "obo"], 2, "--format needs --graph"),
        (["--nodes", "n.csv", "--qrels", "n.csv"], 2, "--qrels needs --queries"),
        (
            ["--nodes", "n.csv", "--map", "id=x"],
            2,
            "--map has 'id=x'; expected COLUMN=SOURCE with a column of nodes.id",
        ),
        (["--nodes", "n.csv", "--map", "nodes.id=x"], 65, "--map names 'x', and n.csv has no such column; it has id"),
        (["--nodes", "n.csv", "--map", "edges.head=id"], 2, "Give --edges FILE"),
        (["--graph", "n.csv", "--map", "nodes.id=id"], 2, "--map needs --nodes or --edges or --queries"),
    ):
        done = kbbench("build", "mine", *arguments)
        assert (done.code, words in " ".join(done.err.split())) == (code, True), done.err
    assert not Path("kbbench").exists()
    assert kbbench("build", "mine", "--graph", "köln.csv", "--encoding", "latin-1").code == 0
    assert built("mine").rows("nodes", "full")[0]["name"] == "Köln"
