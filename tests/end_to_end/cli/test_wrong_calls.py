"""Wrong calls of every verb: the exit code that is documented, the words that mend the call, and nothing written."""

import shlex
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.cli.options import FilePath, Name
from kbbench_hf.cli.run_options import ASKING, DEMONSTRATIONS, PROMPTS, RETRIEVERS, TESTBEDS
from kbbench_hf.cli.serve import LOOPBACK, _refuse_address
from kbbench_hf.cli.verbs import VERBS, kbbench
from kbbench_hf.errors import UsageError
from tests.end_to_end.cli.processes import Ended, kbbench_process

ON = "--benchmark mini-text2kg"
NODES = "id,type,name,text\n1,dish,Leek pie,hot\n2,cook,Ann,\n"
SERVED = "run mini-text2kg --model m --base-url http://127.0.0.1:9/v1"
LONG = "x" * 300

USAGE = [
    ("scroe good.jsonl", "Did you mean 'score'?"),
    ("''", "Unknown command ''"),
    ("--nope", "No such option '--nope'"),
    ("--completion tcsh", "'bash', 'zsh', 'fish'"),
    ("list mini-strak", "Did you mean 'mini-stark'?"),
    ("list ''", "'' is not a name"),
    ("list mini-stark extra", "extra"),
    ("list --published", "needs the name of a benchmark"),
    ("list notes", "neither a known benchmark's nor a knowledge base"),
    ("build", "Missing argument 'NAME'. See: kbbench build --help, for example: kbbench build my-kb --graph"),
    ("build mini-strak", "Did you mean 'mini-stark'?"),
    ("build my-new-kb", "To build your own knowledge base, add --graph PATH or --nodes FILE"),
    ("build ../elsewhere --nodes nodes.csv", "cannot name your own knowledge base"),
    ("build mini-stark --nodes nodes.csv", "cannot name your own knowledge base"),
    ("build mine --edges nodes.csv", "needs --nodes"),
    ("build mine --nodes absent.csv", "'absent.csv' does not exist"),
    ("build mine --nodes folder", "is a directory"),
    ("build mine --nodes nodes.csv --source folder", "not for your own tables"),
    ("build mine --nodes nodes.csv --out good.jsonl", "is left as it is"),
    ("build mine --nodes nodes.csv --out result", "is left as it is"),
    ("build mini-stark --out good.jsonl", "is left as it is"),
    ("build mini-stark --configs queries", "Leave --source, --configs and --revision out"),
    ("build stark-prime --source good.jsonl", "is not a folder"),
    ("build text2kg-wikidata-tekgen --configs sentence --source folder", "Did you mean 'sentences'?"),
    ("build metrics --nodes nodes.csv", "takes only the option --out"),
    ("build ska-open --revision 9", "ska-open has no revision 9; expected 1 or 2"),
    ("build ska-open --revision 9 --private seed", "expected 1 or 2"),
    ("build stark-prime --revision 1", "stark-prime has one revision; expected no --revision"),
    ("build mine --nodes nodes.csv --revision 1", "--private and --revision are for releases"),
    ("build ska-open --private ''", "'' is not a name"),
    ("train", "Missing argument 'BENCHMARK'"),
    ("train mini-stark --method drp --base m", "Did you mean 'dpr'?"),
    ("train mini-stark --method dpr --base m", "a column `split`"),
    ("train mini-stark --method dpr --base m --epochs 0", "x>=1"),
    ("synthesize", "Missing argument 'NAME'"),
    ("synthesize mini-stark", "Missing option '--count'"),
    ("synthesize mini-strak --count 5", "Did you mean 'mini-stark'?"),
    ("synthesize mini-ska --count 5", "has no nodes and edges"),
    ("synthesize mini-stark --count 0", "x>=1"),
    ("synthesize mini-stark --count 5 --out mini-stark", "is taken"),
    ("synthesize mini-stark --count 5 --out ../elsewhere", "is not a valid dataset name"),
    ("synthesize mini-stark --count 5 --spec absent.yaml", "neither a file nor a dataset"),
    ("run", "Missing argument 'BENCHMARK'. See: kbbench run --help, for example: kbbench run mini-stark --model bm25"),
    ("evaluate x", "To score a file: kbbench score; to run a model: kbbench run"),
    ("run mini-stark", "Missing option '--model'. Write one of: bm25, graph:bm25, dense:MODEL"),
    ("run mini-text2kg", "Missing option '--model'. Write hf:MODEL"),
    ("run mini-stark --model BM25", "Did you mean bm25?"),
    ("run mini-stark --model bm25 --array 4", "--array is for --slurm. Add --slurm"),
    ("run mini-stark --model bm25 --slurm", "--slurm needs --out FOLDER"),
    ("run mini-stark --model bm25 --slurm --out x --array 0", "--array 0 is not a number of shards; expected N from 1"),
    ("run mini-stark --model bm25 --slurm --out x --shard 1/2", "--shard is not for --slurm"),
    ("run mini-text2kg --model m --dry-run --shard 1/2", "--shard is not for --dry-run, which is of all"),
    ("synthesize mini-stark --count 5 --dry-run --shard 1/2", "--shard is not for --dry-run"),
    ("run mini-stark --model bm25 --slurm --out x --slurm-args -a2", "Write --array N"),
    ('run mini-stark --model bm25 --slurm --dry-run --out x --slurm-args "-x \'y"', "cannot be read: No closing"),
    ("run mini-stark --model bm-25", "Did you mean bm25?"),
    ("run mini-stark --model Graph:BM25", "Did you mean graph:bm25?"),
    ("run mini-stark --model 'RRF(BM25,Dense:Org/A)'", "Did you mean rrf(bm25,dense:Org/A)?"),
    ("run mini-stark --model sentence-transformers/all-MiniLM-L6-v2", "dense:sentence-transformers/all-MiniLM-L6-v2?"),
    ("run mini-stark --model colbert-ir/colbertv2.0", "Did you mean late:colbert-ir/colbertv2.0?"),
    ("run mini-stark --model openai/gpt-4o", "Did you mean bm25 --rerank llm:openai/gpt-4o --base-url"),
    ("run mini-text2kg --model gpt-4o", "Did you mean gpt-4o --base-url"),
    ("run mini-text2kg --model meta-llama/Llama-3.1-8B-Instruct", "Did you mean hf:meta-llama/Llama-3.1-8B-Instruct?"),
    ("run mini-text2kg --model BM25", "a retriever"),
    ("run mini-text2kg --model BAAI/bge-m3", "a retriever"),
    ("run mini-text2kg --model my-org/kg-extractor", "Did you mean hf:my-org/kg-extractor?"),
    ("run mini-text2kg --model ./model.gguf", "Did you mean hf:./model.gguf?"),
    ("run mini-stark --model llm:gpt-4o", "Did you mean bm25 --rerank llm:gpt-4o --base-url URL?"),
    ("run mini-stark --model hf:org/chat", "Did you mean bm25 --rerank llm:hf:org/chat?"),
    ("run '' --model bm25", "'' is not a name"),
    ("run mini-strak --model bm25", "Did you mean 'mini-stark'?"),
    ("run mini-stark --model bm52", "Did you mean 'bm25'?"),
    ("run mini-stark --model 'rrf(bm25'", "is not a valid model name"),
    ("run mini-stark --model bm25 --limit 0", "x>=1"),
    ("run mini-stark --model bm25 --top-k many", "--top-k"),
    ("run mini-stark --model bm25 --split train", "Known: test"),
    ("run mini-stark --model bm25 --mode refrence", "Did you mean 'reference'?"),
    ("run mini-stark --model bm25 --prompt p", "Leave it out"),
    ("run mini-stark --model bm25 --rerank llm:m", "--base-url"),
    ("run mini-stark --model bm25 --processes 2", "torchrun"),
    ("run mini-stark --model bm25 --out run", "holds another run"),
    ("run mini-text2kg --model bm25", "--base-url"),
    ("run mini-text2kg --model m --base-url nowhere", "http://localhost:8000/v1"),
    ("run mini-text2kg --model m --base-url http://[::1", "http://localhost:8000/v1"),
    ("run mini-text2kg --model m --base-url http://127.0.0.1:99999", "Port out of range"),
    (f"{SERVED} --api-key-env NO_SUCH_KEY", "export NO_SUCH_KEY="),
    (f"{SERVED} --max-cost 1", "needs --prices"),
    (f"{SERVED} --prices absent.yaml", "does not exist"),
    (f"{SERVED} --temperature nan", "not a finite number"),
    (f"{SERVED} --timeout inf", "not a finite number"),
    (f"{SERVED} --shots -1", "x>=0"),
    (f"{SERVED} --demonstrations best", "'leak-free'"),
    ("run mini-ska --model m --base-url http://127.0.0.1:9 --testbed noize", "Did you mean 'noise'?"),
    ("annotate good.jsonl --topics", "--benchmark"),
    ("annotate good.jsonl --benchmark mini-stark", "scored without annotations"),
    (f"annotate good.jsonl {ON} --topics", "Name a judge"),
    ("annotate --benchmark mini-genres --topics", "No predictions"),
    ("annotate absent.jsonl --benchmark mini-genres --topics", "absent.jsonl does not exist"),
    ("score", "Missing argument"),
    (f"score '' {ON}", "'' is not a path"),
    ("score absent", "absent does not exist"),
    ("score absent/absent", "absent/absent does not exist"),
    (f"score absent.jsonl {ON}", "absent.jsonl does not exist"),
    (f"score loop {ON}", "loop does not exist"),
    (f"score dangling {ON}", "dangling does not exist"),
    (f"score folder {ON}", "folder holds no"),
    ("score good.jsonl", "--benchmark"),
    ("score good.jsonl --benchmark ''", "'' is not a name"),
    ("score good.jsonl --benchmark mini-text2k", "Did you mean 'mini-text2kg'?"),
    (f"score good.jsonl {ON}/sentence", "Did you mean 'sentences'?"),
    (f"score good.jsonl {ON} --mode ''", "'' is not a name"),
    (f"score good.jsonl {ON} --slices ontolgy", "Did you mean 'ontology'?"),
    (f"score good.jsonl {ON} --parser jsn", "Did you mean 'json'?"),
    (f"score good.jsonl {ON} --duplicates first", "'last'"),
    (f"score good.jsonl {ON} --jsno", "'--json'"),
    (f"score good.jsonl {ON} --out ''", "'' is not a path"),
    ("power", "Missing argument 'NAME'"),
    ("power genres-corpora/docred", "name its folder with --against"),
    ("power mini-text2kg --difference 0", "x>0"),
    ("power mini-text2kg --correlation 1", "x<1"),
    ("power mini-text2kg --metric mrr", "Unknown metric of mini-text2kg 'mrr'"),
    ("power mini-text2kg --against absent", "absent"),
    ("compare", "Missing argument"),
    (f"compare good.jsonl {ON}", "Expected two"),
    ("compare absent good.jsonl", "absent does not exist"),
    (f"compare good.jsonl absent {ON}", "absent does not exist"),
    (f"compare good.jsonl '' {ON}", "'' is not a path"),
    (f"compare - - {ON}", "Standard input is named 2 times (-, -) and can be read once"),
    (f"compare a=- b=/dev/stdin good.jsonl {ON}", "Standard input is named 2 times (-, /dev/stdin)"),
    (f"report - good.jsonl - {ON} --out page.html", "Standard input is named 2 times (-, -) and can be read once"),
    (f"compare good.jsonl other.jsonl {ON} --slices ontolgy", "Did you mean 'ontology'?"),
    (f"compare good.jsonl other.jsonl {ON} --plot a.docx", ".png"),
    (f"compare good.jsonl other.jsonl {ON} --value f1", "--value is for logs with scores"),
    ("compare good.jsonl other.jsonl --scale 5", "'5' is not of the form LOW,HIGH"),
    (f"score good.jsonl {ON} --map id", "'id' is not of the form NAME=PATH; expected for example id=qid"),
    (f"score good.jsonl {ON} --map =qid", "'=qid' is not of the form NAME=PATH"),
    (f"score good.jsonl {ON} --where epoch=1,", "'' is not of the form NAME=PATH"),
    ("compare good.jsonl other.jsonl --across-revisions", "good.jsonl is not the folder of a finished run"),
    ("report absent", "absent is not a run folder"),
    ("report good.jsonl", "--benchmark is required"),
    ("report folder", "holds no result.json"),
    ("report ''", "'' is not a path"),
    ("report mini-ska --dataset", "no statistics"),
    ("report mini-stark --dataset --out a.docx", ".png"),
    ("validate good.jsonl", "--benchmark"),
    (f"validate absent.jsonl {ON}", "absent.jsonl does not exist"),
    (f"submit good.jsonl {ON}", "Missing option '--name'"),
    (f"submit good.jsonl {ON} --name ''", "'' is not a name"),
    (f"submit absent.jsonl {ON} --name x", "does not exist"),
    (f"submit - {ON} --name x", "- is standard input or a pipe; expected a file or a run folder"),
    (f"submit /dev/stdin {ON} --name x", "Write a file first: kbbench validate - --benchmark NAME --out answers.jsonl"),
    (f"submit folder {ON} --name x", "folder has no predictions.jsonl"),
    (f"submit good.jsonl {ON} --name x --parameters big", "--parameters"),
    ("leaderboard rescor", "Did you mean 'rescore'?"),
    ("leaderboard rescore --store store", "--all"),
    ("leaderboard seed --name x --store new", "--name is for one source"),
    ("leaderboard seed good.jsonl --benchmark mini-text2kg --store new", "one released file and its --name"),
    ("leaderboard seed good.jsonl --store new", "expected a run's folder"),
    ("leaderboard rescore nonsense --store store", "32 hexadecimal digits"),
    ("leaderboard rollback nonsense --store store", "Missing option '--reason'"),
    ("leaderboard fsck --store absent", "is not a leaderboard"),
    ("leaderboard audit --store folder", "is not a leaderboard"),
    ("serve --port 99999", "1<=x<=65535"),
    ("serve --port -1", "1<=x<=65535"),
    ("serve --port http", "--port"),
    ("serve --host 300.1.1.1", "--host"),
    ("serve --root-path board", "'board' is not a path prefix; expected one such as /kbbench"),
    ("serve --root-path /a/../b", "is not a path prefix"),
    ("serve --root-path ''", "'' is not a name"),
    ("serve --root-path '/a b'", "is not a path prefix"),
    ("serve --tools mini-stark --root-path /a", "--root-path is for the leaderboard"),
    ("serve --host ''", "'' is not a name"),
    ("status", "'kbbench-runs' does not exist"),
    ("status good.jsonl", "'good.jsonl' is a file"),
    ("status folder", "folder is not a run; expected a folder with run.json. Check the path."),
    ("status .", "runs: add --all"),
    ("status run --pause", "run is finished; expected a run that goes on or can be resumed"),
    ("status run --pause --resume", "--pause, --resume and --concurrency are for one run"),
    ("status . --all --pause", "are for one run"),
    ("status run --watch --json", "--watch prints no JSON"),
    ("status run --concurrency 0", "x>=1"),
    ("publish mini-strak", "Did you mean 'mini-stark'?"),
    ("publish mini-stark --namespace 'no owner'", "OWNER/NAME"),
    ("export absent", "does not exist"),
    ("export folder", "has no result.json"),
    ("export result --as excel", "'hub'"),
    ("export result --as eee", "--model DEVELOPER/unknown"),
    ("export result --as eee --model org/m --schema 0.3.9", "'0.3.0'"),
    ("export result --pull-request 'no model'", "OWNER/NAME"),
    ("audit", "Missing argument 'DATASET'"),
    ("audit mini-strak", "Did you mean 'mini-stark'?"),
    ("audit mini-text2kg", "has no audit; expected one of"),
    ("audit ska-open --closed-book absent", "'absent' does not exist"),
    ("review", "Missing argument 'WHAT...'"),
    ("review mini-ska", "needs --subset PART, --reviewer NAME and --out FILE"),
    ("review mini-text2kg --subset sentences --out new --reviewer ada", "mini-text2kg has no review page"),
    ("review mini-ska --subset table --out new --reviewer ''", "'' is not a name"),
    ("review agreement good.jsonl", "compares two files; got 1"),
    ("review agreement good.jsonl absent", "absent is not a file"),
    ("doctor extra", "extra"),
    ("demo extra", "extra"),
]
"""Calls that are themselves wrong (exit code 2), each with what mends it."""

DATA = [
    ("build mine --nodes noise.bin", "noise.bin"),
    ("build mine --nodes nodes.csv --edges nodes.csv", "no column 'head'"),
    ("build stark-prime --source folder", "--source"),
    ("build stark-prime --archive noise.bin --out new", "noise.bin"),
    (f"score noise.bin {ON}", "noise.bin"),
    (f"score empty.jsonl {ON}", "empty"),
    ("score good.jsonl --benchmark mini-stark", "has the ids of mini-text2kg, split test, not of mini-stark"),
    (f"score good.jsonl good.jsonl {ON}", "--duplicates last"),
    (f"score run {ON}", "run is a run on mini-stark, not on mini-text2kg. Score it without --benchmark"),
    (f"compare good.jsonl run {ON}", "run is a run on mini-stark, not on mini-text2kg"),
    ("score cut-run", "run.json"),
    (f"compare good.jsonl noise.bin {ON}", "noise.bin"),
    (f"validate half.jsonl {ON}", "--partial"),
    (f"submit half.jsonl {ON} --name x", " missing: ont_1_isles_test"),
    (f"submit good.jsonl {ON} --name x --link nowhere", "https"),
    (f"{SERVED} --prices noise.bin", "price file"),
    ("report no-result", "is not a kbbench result"),
    ("export no-result", "is not a kbbench result"),
    ("report cut-scores", "A file is damaged"),
    ("export cut-scores --as eee --model org/m", "A file is damaged"),
    ("export no-result --as eee", "is not a kbbench result"),
    ("export good.jsonl", "good.jsonl"),
    ("list cut", "manifest.json"),
]
"""Calls of wrong data (exit code 65)."""

FAILED = [
    (f"score good.jsonl {ON} --out good.jsonl", "good.jsonl: File exists"),
    (f"score good.jsonl {ON} --out good.jsonl/x", "Expected a folder"),
    (f"score good.jsonl {ON} --out /proc/kbbench", "/proc/kbbench"),
    (f"score {LONG} {ON}", "at most 255 bytes"),
    (f"score good.jsonl --benchmark {LONG}", "at most 255 bytes"),
    (f"validate good.jsonl {ON} --out absent/answers.jsonl", "absent/answers.jsonl: No such file"),
    ("report run --out absent/page.html", "absent/page.html: No such file"),
    ("report run --out folder", "Expected a file"),
    ("leaderboard seed --store good.jsonl", "Expected a folder"),
    ("publish mini-text2kg --namespace my-org --dry-run", "cannot be reached"),
    ("publish mini-text2kg --namespace my-org --yes", "cannot be reached"),
    ("build metrics --out good.jsonl", "good.jsonl: File exists"),
    (f"{SERVED} --limit 1 --out new", "does not answer"),
]
"""Calls that fail for what is around them (exit code 1)."""

NOT_A_WORD_OF = ("Traceback", "Exception ignored", "mistake in kbbench")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what users have: answers, a run, a result, a store, tables, and damaged ones of each."""
    folder = tmp_path_factory.mktemp("place")
    copy, pattern = (file.read_text(encoding="utf-8") for file in shipped_answers("mini-text2kg"))
    (folder / "good.jsonl").write_text(pattern, encoding="utf-8")
    (folder / "other.jsonl").write_text(copy, encoding="utf-8")
    (folder / "half.jsonl").write_text(pattern[: pattern.index("\n", len(pattern) // 2) + 1], encoding="utf-8")
    (folder / "noise.bin").write_bytes(bytes(range(128, 256)) * 9)
    (folder / "empty.jsonl").touch()
    (folder / "nodes.csv").write_text(NODES)
    for name in ("folder", "no-result", "cut-run", "kbbench/cut", "kbbench/notes"):
        (folder / name).mkdir(parents=True)
    (folder / "no-result/result.json").write_text("{}")
    (folder / "cut-run/run.json").write_text('{"settings":')
    (folder / "kbbench/cut/manifest.json").write_text('{"files": {"data": 1}}')
    notes = '{"revision": "0", "files": {"data/notes/full.parquet": {"sha256": "", "rows": 1}}}'
    (folder / "kbbench/notes/manifest.json").write_text(notes)
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("absent")
    for made in (
        f"score good.jsonl {ON} --out result",
        "run mini-stark --model bm25 --limit 2 --out run",
        f"submit good.jsonl {ON} --name mine --store store",
    ):
        assert kbbench_process(made.split(), folder).code == 0
    shutil.copytree(folder / "run", folder / "cut-scores")
    (folder / "cut-scores/scores.jsonl").write_text('{"id":')
    return folder


def files_in(folder: Path) -> dict[str, int]:
    return {str(each.relative_to(folder)): each.lstat().st_size for each in folder.rglob("*")}


@pytest.mark.parametrize(
    ("code", "call", "words"),
    [(code, *call) for code, calls in ((2, USAGE), (65, DATA), (1, FAILED)) for call in calls],
    ids=lambda value: str(value)[:60],
)
def test_a_wrong_call_says_what_mends_it(place, tmp_path, kbbench, monkeypatch, code, call, words):
    shutil.copytree(place, tmp_path / "here", symlinks=True)
    monkeypatch.chdir(tmp_path / "here")
    before = files_in(Path.cwd())
    done = kbbench(*shlex.split(call))
    said = " ".join((done.out + done.err).split())
    assert (done.code, words in said) == (code, True), said
    assert not [trace for trace in NOT_A_WORD_OF if trace in said]
    if code != 1:
        assert files_in(Path.cwd()) == before
    assert (Path("good.jsonl")).read_bytes() == (place / "good.jsonl").read_bytes()


def test_the_wrong_calls_are_of_every_verb():
    verbs = {call.split()[0] for calls in (USAGE, DATA, FAILED) for call, _ in calls}
    assert verbs >= {*VERBS}
    assert sum(map(len, (USAGE, DATA, FAILED))) > 120


def parameters(command: click.Command, name: str) -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from parameters(found, f"{name} {each}")
    yield from ((name, each) for each in command.params)


def test_no_verb_takes_an_empty_name_or_path():
    dynamic = [option for group in (RETRIEVERS, ASKING, PROMPTS, DEMONSTRATIONS, TESTBEDS) for option in group.options]
    takes_any = [
        f"{name}: {each.name}"
        for name, each in [*parameters(kbbench, "kbbench"), *(("run", option) for option in dynamic)]
        if isinstance(each.type, click.types.StringParamType | click.Path)
        and not isinstance(each.type, Name | FilePath)
        and each.default != ""
    ]
    assert takes_any == []


def process(call: str, folder: Path, **how: object) -> Ended:
    done = kbbench_process(shlex.split(call), folder, **how)  # type: ignore[arg-type]
    assert not [trace for trace in NOT_A_WORD_OF if trace in done.out + done.err], done
    return done


SCORE = f"score good.jsonl {ON}"
FULL = pytest.mark.full
"""Marks cases of which `make test` runs others, each in a process of its own."""


@pytest.mark.parametrize(
    "call", [SCORE, "list", "--help", *(pytest.param(call, marks=FULL) for call in (f"{SCORE} --json", "doctor"))]
)
def test_a_full_disk_under_standard_output_is_one_message(place, call):
    done = process(call, place, streams={"stdout": "full"})
    assert done.code == 1
    message = (
        "kbbench: No space left on device. Expected free space on the disk. Free some, or name a path on another disk."
    )
    assert done.err.splitlines()[-1] == message
    assert done.err.count("kbbench: ") == 1


@pytest.mark.parametrize(
    ("streams", "code"),
    [
        *(pytest.param({name: "closed"}, 0, marks=FULL) for name in ("stdin", "stdout", "stderr")),
        ({"stderr": "full"}, 0),
        ({"stdin": "closed", "stdout": "closed", "stderr": "closed"}, 0),
    ],
)
def test_closed_standard_streams_are_no_reason_to_fail(place, streams, code):
    assert process(SCORE, place, streams=streams).code == code


@pytest.mark.parametrize("state", ["closed", "full"])
def test_a_wrong_call_keeps_its_exit_code_where_nobody_can_be_told(place, state):
    assert process("score absent.jsonl", place, streams={"stderr": state}).code == 2


def test_a_result_that_does_not_fit_the_disk_is_not_written(place, tmp_path):
    shutil.copy(place / "good.jsonl", tmp_path)
    done = process(f"{SCORE} --out here", tmp_path, fsize=0)
    assert done.code == 1
    assert "here/scores.jsonl: File too large. Expected free space on the disk." in done.err
    assert not list((tmp_path / "here").iterdir())


@pytest.mark.parametrize(
    "encoding", ["ascii", "utf-16", *(pytest.param(name, marks=FULL) for name in ("cp1252", "latin-1", "cp437"))]
)
def test_tables_are_printed_in_any_encoding(place, encoding):
    env = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": encoding}
    done = kbbench_process(shlex.split(f"compare good.jsonl other.jsonl {ON} --slices all"), place, env=env)
    assert (done.code, done.err) == (0, "")
    if encoding == "ascii":
        assert "SH v" in done.out
        assert done.out.isascii()


@pytest.mark.parametrize("columns", ["0", "-1", "wide", "40", "30", "7", "1000000"])
def test_names_of_metrics_stand_whole_at_any_width(place, kbbench, monkeypatch, columns):
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", columns)
    done = kbbench(*shlex.split(f"{SCORE} --all-metrics"))
    assert done.code == 0
    assert {"F1", "P", "R", "OC", "SH", "RH", "OH", "SH aliases"} <= {
        line.split("  ")[0].strip(" ↓") for line in done.out.splitlines()
    }


def test_an_address_is_refused_while_it_is_taken() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"Cannot listen on http://{LOOPBACK}:{port}: .*in use.*--port"):
            _refuse_address(LOOPBACK, port)
    _refuse_address(LOOPBACK, port)
