"""What holds for every verb: help with an example, exit codes, and errors that name the closest known name."""

import subprocess
import sys
from pathlib import Path

import pytest

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.cli.verbs import VERBS
from tests.servers.scripted import MODEL, ScriptedServer

COPY, PATTERN = shipped_answers("mini-text2kg")
NOWHERE = ("--base-url", "http://127.0.0.1:9")
SCORE = ("score", COPY, "--benchmark", "mini-text2kg")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example_on_a_line_of_its_own(kbbench, verb):
    done = kbbench(verb, "--help")
    assert done.code == 0
    lines = [line.strip() for line in done.out.splitlines()]
    assert any(line.removeprefix("Example: ").startswith(f"kbbench {verb}") for line in lines), done.out
    assert all(len(line) <= 80 for line in lines if "kbbench" not in line)  # what is to be copied stays whole


def test_kbbench_alone_shows_every_verb(kbbench):
    done = kbbench()
    assert done.code == 2
    assert all(verb in done.out for verb in VERBS)
    assert not done.err


@pytest.mark.parametrize(
    ("arguments", "closest"),
    [
        (["scor"], "'score'"),
        (["list", "stark-prim"], "'stark-prime'"),
        (["build", "ska-opn"], "'ska-open'"),
        (["run", "mini-strk", "--model", "bm25"], "'mini-stark'"),
        (["run", "mini-stark", "--model", "bm52"], "'bm25'"),
        (["run", "mini-stark", "--model", "rrf(bm25,graph:bm52)"], "'bm25'"),
        (["run", "mini-stark", "--model", "bm25", "--mode", "standrd"], "'standard'"),
        (
            ["run", "mini-text2kg", "--model", "x", *NOWHERE, "--prompt", "curent"],
            "'current'",
        ),
        (["run", "mini-text2kg", "--model", "x", *NOWHERE, "--parser", "jsn"], "'json'"),
        (["score", COPY, "--benchmark", "mini-text2kg/sentence"], "'sentences'"),
        ([*SCORE, "--split", "tset"], "'test'"),
        ([*SCORE, "--mode", "repared"], "'repaired'"),
        ([*SCORE, "--slices", "ontolgy"], "'ontology'"),
        ([*SCORE, "--parser", "balancd"], "'balanced'"),
        ([*SCORE, "--benchmrk", "x"], "'--benchmark'"),
    ],
)
def test_an_unknown_name_is_a_usage_error_with_the_closest_known_one_and_nothing_is_written(
    kbbench, in_tmp, arguments, closest
):
    done = kbbench(*arguments)
    assert done.code == 2
    assert f"Did you mean {closest}?" in done.err
    assert not done.out
    assert "Traceback" not in done.err
    assert not list(in_tmp.iterdir())


def test_debug_shows_the_stack_trace_wherever_it_stands(kbbench):
    for arguments in (["--debug", "list", "x"], ["list", "x", "--debug"]):
        done = kbbench(*arguments)
        assert done.code == 2
        assert "Traceback (most recent call last)" in done.err
        assert done.err.splitlines()[-1].startswith("kbbench: Unknown benchmark 'x'.")
    assert "Traceback" not in kbbench("list", "x").err


def test_a_usage_error_says_where_the_help_is(kbbench):
    done = kbbench("score", COPY)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("kbbench: --benchmark is required for a predictions file; only a run folder records it.")
    assert done.err.endswith("Add --benchmark NAME.\n")


def test_a_runs_folder_says_itself_what_it_was_run_on(kbbench, in_tmp):
    assert kbbench("run", "mini-stark", "--model", "bm25", "--limit", "3", "--out", "mine").code == 0
    assert "STaRK, mini" in kbbench("score", "mine").out.splitlines()[0]
    assert kbbench("compare", "mine", "mine").code == 0
    assert kbbench("validate", "mine", "--partial").code == 0


def test_a_place_that_cannot_be_written_is_an_error_without_a_trace(kbbench, in_tmp):
    (in_tmp / "file").write_text("")
    done = kbbench(*SCORE, "--out", "file/folder")
    assert done.code == 1
    assert (
        "kbbench: file/folder: Not a directory. Expected a folder, and this is a file. Name another path." in done.err
    )
    assert "Traceback" not in done.err


def test_an_interrupted_verb_that_can_go_on_says_how(kbbench, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("kbbench_hf.runners.retrieval_run.retrieve", interrupted)
    done = kbbench("run", "mini-stark", "--model", "rrf(bm25,graph:bm25)")
    assert done.code == 130
    assert done.err.endswith(
        "kbbench: Interrupted.\nTo resume: kbbench run mini-stark --model 'rrf(bm25,graph:bm25)'\n"
    )


def test_a_closed_pipe_ends_the_output_without_a_trace(in_tmp):
    pipe = f"{sys.executable} -m kbbench_hf.cli score {COPY} --benchmark mini-text2kg --json | head -1"
    done = subprocess.run(["sh", "-c", pipe], capture_output=True, text=True, cwd=in_tmp)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_the_command_starts_without_heavy_packages():
    code = (
        "import sys; from kbbench_hf.cli.verbs import kbbench, VERBS; from importlib import import_module\n"
        '[import_module(f\'kbbench_hf.cli.{verb.replace("-", "_")}\') for verb in VERBS]\n'
        "print(*{'torch', 'datasets', 'evaluate', 'transformers', 'matplotlib', 'gradio'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_command_imports_what_it_uses_and_no_more(in_tmp):
    (in_tmp / "n.csv").write_text("id,type,name,text\n1,dish,Soup,hot\n2,cook,Ann,\n")
    (in_tmp / "e.csv").write_text("head,relation,tail\n2,cooks,1\n")
    (in_tmp / "q.csv").write_text("id,query,answer_ids\nq,hot soup,1\n")
    code = "import sys\nfrom kbbench_hf.cli import main\ntry: main()\n"
    code += "finally: print(*(name for name, module in sys.modules.items() if module), file=sys.stderr)"
    slow = {"pandas", "datasets", "evaluate", "huggingface_hub", "numba", "matplotlib", "torch"}
    slow |= {"scipy.optimize", "scipy.sparse.csgraph", "scipy.stats", "kbbench_hf.judges.topic_model"}
    reader = {"kbbench_hf.scoring.predictions", "kbbench_hf.scoring.rows", "kbbench_hf.files.formats"}
    prompting = {"kbbench_hf.llm.chat_completions", "kbbench_hf.llm.failures", "kbbench_hf.runners.generate"}
    unneeded = {"kbbench_hf.llm.refusals", "kbbench_hf.knowledge_base.store"} | reader
    to_server = f"--limit 5 --model {MODEL} --base-url {{}}/v1 --out replies"
    answers = f"{PATTERN} --benchmark mini-text2kg"
    for command, unused in (
        ("list", {"pyarrow", "scipy", "kbbench_hf.parsing.cues"}),
        ("build kb --nodes n.csv --edges e.csv --queries q.csv", {"scipy.special"}),
        ("run kb --model bm25 --out run", prompting | reader),
        ("run kb --model bm25 --out run", prompting | reader | {"bm25s"}),
        (f"run mini-text2kg {to_server}", unneeded),
        (f"score {answers}", {"bm25s", "jinja2", "pyarrow.dataset", "kbbench_hf.parsing.verdicts"}),
        (f"compare {COPY} {answers}", {"bm25s", "jinja2", "pyarrow.dataset"}),
        (f"report {answers} --out page.html", {"bm25s", "pyarrow.dataset"}),
    ):
        with ScriptedServer(answer=lambda _: "captain(Petrel, Ines Calder)") as server:
            arguments = command.format(server.url).split()
            done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=in_tmp)
        assert done.returncode == 0, done.stderr
        assert (slow | unused) & {*done.stderr.split()} == set(), command


def test_doctor_checks_every_file_and_fails_on_an_altered_one(kbbench, in_tmp):
    healthy = kbbench("doctor")
    assert healthy.code == 0
    assert "dataset    mini-stark" in healthy.out
    (in_tmp / "n.csv").write_text("id,type,name,text\n1,dish,Soup,hot\n2,cook,Ann,\n")
    (in_tmp / "e.csv").write_text("head,relation,tail\n2,cooks,1\n")
    assert kbbench("build", "my-kb", "--nodes", "n.csv", "--edges", "e.csv").code == 0
    file = next(Path("kbbench/my-kb/data").rglob("nodes/*.parquet"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    broken = kbbench("doctor")
    assert broken.code == 1
    assert f"{file} does not match its manifest" in broken.out
