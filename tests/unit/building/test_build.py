"""`kbbench_hf.build` and `kbbench_hf.synthesize` do in Python what the commands do."""

import json
from pathlib import Path

import pytest

import kbbench_hf
from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.building.synthesis.synthesize import open_responses, synthesis_costs
from kbbench_hf.cli.build import command
from kbbench_hf.files.shards import Shard

NODES = "id,type,name,text\n1,dish,Leek pie,Baked leeks.\n2,cook,Ann,\n"


def test_python_builds_the_same_bytes_as_the_command(in_tmp: Path) -> None:
    (in_tmp / "n.csv").write_text(NODES.replace("name", "label"), encoding="utf-8")
    (in_tmp / "e.csv").write_text("head,relation,tail\n2,cooks,1\n2,cooks,9\n", encoding="utf-8")
    given = "mine --nodes n.csv --edges e.csv --map nodes.name=label --skip-dangling --out by-command"
    command.main(given.split(), standalone_mode=False)
    mapped = {"nodes.name": "label"}
    folder = kbbench_hf.build("mine", nodes="n.csv", edges=Path("e.csv"), map=mapped, skip_dangling=True)
    assert folder.path == Path("kbbench/mine") and len(folder.left_out) == 1
    assert folder.revision == kbbench_hf.DatasetFolder(in_tmp / "by-command").revision
    questions = kbbench_hf.synthesize("mini-stark", 12, out="asked", show=False)
    assert questions.n_rows("train")["queries"] > 0 and questions.path == Path("kbbench/asked")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodse": "n.csv"}, "Did you mean 'nodes'"),
        ({"nodes": "absent.csv"}, "absent.csv"),
        ({"graph": "absent"}, "absent"),
        ({"nodes": "n.csv", "map": {"id": "x"}}, "--map has 'id=x'"),
        ({"name": "stark-prime", "revision": 0}, "one revision"),
        ({"name": "text2kg-dbpedia-webnlg", "revision": 3}, "no revision 3; expected 1 or 2"),
        ({"name": "stark-prime", "archive": "absent.zip"}, "expected --out FOLDER"),
        ({"name": "mini-stark", "archive": "a.zip"}, "has no archive; expected one of stark-amazon, stark-mag"),
        ({"name": "stark-prime", "private": "out"}, "stark-prime has no private split"),
        ({"name": "stark-prime", "source": "absent"}, "--source absent is not a folder"),
        ({"name": "mini-stark", "source": "."}, "mini-stark is built in. Leave --source"),
        ({"nodes": "n.csv", "graph": "n.csv"}, "needs --nodes FILE or --graph PATH, and not both"),
        ({"nodes": "n.csv", "source": "."}, "are for releases, not for your own tables"),
        ({"ontology": "o.ttl", "sentences": "s.txt", "source": "."}, "are for releases. Leave them out"),
        ({"ontology": "o.ttl"}, "needs --ontology and --sentences"),
        ({"qrels": "q.tsv", "nodes": "n.csv"}, "--qrels needs --queries"),
        ({"encoding": "latin-0", "nodes": "n.csv"}, "--encoding latin-0 is unknown"),
        ({"nodes": "n.csv", "map": {"edges.head": "x"}}, "--map names edges, of which no table is given"),
    ],
)
def test_a_wrong_call_is_refused_and_writes_nothing(in_tmp: Path, options: dict[str, str], words: str) -> None:
    (in_tmp / "n.csv").write_text(NODES, encoding="utf-8")
    with pytest.raises(kbbench_hf.UsageError, match=words):
        kbbench_hf.build(**{"name": "mine", **options})  # type: ignore[arg-type]
    assert [*in_tmp.iterdir()] == [in_tmp / "n.csv"]


def test_a_dataset_that_the_package_has_is_copied(in_tmp: Path) -> None:
    folder = kbbench_hf.build("kbbench/mini-genres")
    shipped = shipped_dataset("mini-genres")
    assert shipped and folder.path == Path("kbbench/mini-genres")
    assert (folder.revision, folder.configs()) == (shipped.revision, shipped.configs())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "mini-strak"}, "Did you mean 'mini-stark'"),
        ({"name": "stark-prime"}, "stark-prime is not built; expected its nodes and edges. Build it"),
        ({"name": "mini-text2kg"}, "has no nodes and edges; expected a knowledge base"),
        ({"out": "mini-stark"}, "--out mini-stark is taken"),
        ({"out": "mini-ska"}, "--out mini-ska is taken"),
        ({"out": "a b"}, "'a b' is not a valid dataset name"),
        ({"spec": "absent"}, "--spec absent is neither a file nor a dataset with a spec; .*stark-amazon, stark-mag"),
        ({"shard": "1/2"}, "divide the requests to models, and this spec names none"),
        ({"spec": "no.yaml"}, "no.yaml is not YAML"),
        ({"spec": "wrong.yaml"}, "No template gives 1 to 20 answers"),
        ({"spec": "slot.yaml"}, r"None of [\d,]+ attempts gave a question: .*the sentence is not whole \(\d+\)"),
    ],
)
def test_a_wrong_synthesis_is_refused_and_writes_nothing(in_tmp: Path, options: dict[str, str], words: str) -> None:
    (in_tmp / "no.yaml").write_text("max_hops: [", encoding="utf-8")
    (in_tmp / "wrong.yaml").write_text("templates: 'dish -[made with]-> cook'", encoding="utf-8")
    open_slot = {"templates": "ingredient -[^made with]-> dish", "words": {"relations": {"^made with": "that _ {x}"}}}
    (in_tmp / "slot.yaml").write_text(json.dumps(open_slot), encoding="utf-8")
    with pytest.raises(kbbench_hf.KBBenchError, match=words):
        kbbench_hf.synthesize(**{"name": "mini-stark", "count": 3, "show": False, **options})  # type: ignore[arg-type]
    assert not [each for each in in_tmp.iterdir() if each.is_dir()]


def test_what_models_would_cost_is_known_by_model_and_nothing_is_sent(in_tmp: Path) -> None:
    server = {"base_url": "http://127.0.0.1:1"}
    models = {step: {"model": model, **server} for step, model in (("extract", "a"), ("fuse", "a"), ("rewrite", "b"))}
    spec = {"max_hops": 1, "models": {**models, "judges": [{"model": "c", **server}] * 2}}
    (in_tmp / "spec.yaml").write_text(json.dumps(spec), encoding="utf-8")
    found = synthesis_costs("kbbench/mini-stark", 6, "0", "spec.yaml", None, 4, None)
    n_planned = found["b"].n_prompts
    assert [*found] == ["a", "b", "c"] and n_planned >= 6 and found["a"].n_prompts == 2 * n_planned
    assert found["c"].n_prompts % 2 == 0 and found["c"].n_prompts >= 2 * n_planned
    with pytest.raises(kbbench_hf.UsageError, match="--dry-run is for a spec with models"):
        synthesis_costs("mini-stark", 6, "0", None, None, 4, None)


def test_shards_share_the_responses_of_one_spec_whatever_their_servers(in_tmp: Path) -> None:
    def opened(count: int = 5, seed: str = "0", **changed: object) -> Path:
        server = {"model": "a", "base_url": "http://127.0.0.1:1", "api_key_env": "KEY"} | changed
        models = dict.fromkeys(("extract", "fuse", "rewrite"), server) | {"judges": [server, {"model": "b"}]}
        (in_tmp / "spec.yaml").write_text(json.dumps({"models": models}), encoding="utf-8")
        return open_responses("mini-stark", count, seed, "spec.yaml", "made", Shard(1, 2))

    folder = opened()
    assert folder == opened(base_url="http://127.0.0.1:2", api_key_env="OTHER") == Path("kbbench-runs/synthesize/made")
    for changed in ({"count": 6}, {"seed": "1"}, {"model": "c"}):
        with pytest.raises(kbbench_hf.UsageError, match=str(folder)):
            opened(**changed)  # type: ignore[arg-type]
