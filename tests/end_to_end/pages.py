"""Run what the README and the site's pages show. `python -m tests.end_to_end.pages --write` puts the real output there.

A page is read from top to bottom in an empty folder: `console` blocks hold `$ command` lines with their output below,
`python` blocks are doctests that share their names. `...` stands for any text: times and rates differ from machine to
machine. Files that a page needs, it makes itself: `$ cat > FILE <<'EOF'`.
"""

import contextlib
import doctest
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.cli import main
from kbbench_hf.scoring.eval_task import load_examples
from tests.servers.scripted import ScriptedServer
from tests.tiny_chat_model import tiny_chat_model

ROOT = Path(__file__).resolve().parents[2]
SERVED = "http://localhost:8000/v1"
NOT_HERE = {
    "make ": "installs; CI runs it",
    "pip install kbbench-hf": "installs; CI runs it",
    "pip install 'kbbench-hf": "installs; CI runs it",
    "python -m venv": "installs; CI runs it",
    "source ": "changes the shell that it is typed into",
    "git clone": "needs the network",
    "vllm serve": "needs a GPU and another package",
    "kbbench serve": "serves until it is stopped; the browser tests do it",
    "kbbench publish": "writes to the Hub; the tests of the Hub do it",
    "kbbench leaderboard sync": "writes to the Hub; the tests of the Hub do it",
    "hf ": "is another's service",
    "pip install pgvector": "installs; tests/end_to_end/test_search_engines.py runs it",
    "python examples/search_engines": "needs a search engine; tests/end_to_end/test_search_engines.py runs it",
    "kbbench export mini-stark --into": "needs a search engine; tests/end_to_end/test_search_engines.py runs it",
    'kbbench run mini-stark --model "search:': "needs the server of the block before",
    "kbbench compare hnsw": "needs the runs of the lines before",
    "kbbench train my-kb ": "needs a model from the Hub; the tests of training do it",
    "kbbench run my-kb --model dense:my-dpr": "needs what the line before trains",
    "kbbench run my-kb --model 'qagnn:": "needs what the line before trains",
    "kbbench run my-kb --model plan:": "needs what the line before trains",
    "torchrun": "needs several processors; the tests of training do it",
    "accelerate launch": "needs several processors; the tests of training do it",
    "sbatch": "needs a cluster",
    "kbbench run mini-stark --model bm25 --out shared --slurm": "needs a cluster; test_slurm.py runs it",
    "inspect eval ": "is another harness; test_other_harnesses.py runs it",
    "lm_eval ": "is another harness; test_other_harnesses.py runs it",
    "kbbench score logs/": "needs the log of another harness; test_other_harnesses.py runs it",
    "kbbench score out/": "needs the log of another harness; test_other_harnesses.py runs it",
    "kbbench compare logs/": "needs the log of another harness; test_other_harnesses.py runs it",
    "kbbench compare a=logs/": "needs logs of another harness; the tests of comparisons have some",
    "kbbench report a=logs/": "needs logs of another harness; the tests of comparisons have some",
}
"""What commands that are not run begin with -> why."""
INSTALL = "pip install --quiet --no-deps --no-build-isolation --no-index --target .site"
"""How a reader's own package is installed, so that nobody else sees it."""
TRAINED = {"training_scripts.md"}
"""Pages whose readers have a `trainer` of their own."""
VARYING = re.compile(r"\d+\.\d+ (?:ms|s\b|MB in)|^\d+ s\b|revision [0-9a-f]{40}|[0-9a-f]{32}|\d+\.\d\d? GB", re.M)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.M | re.S)
_HERE_DOCUMENT = re.compile(r"<<\s*'?(\w+)'?\s*$")


class Difference(NamedTuple):
    """A command or snippet that prints something else than its page shows."""

    source: str
    shown: str
    real: str


def pages() -> list[Path]:
    """Return the README and every page of the site that has something to run."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if any(True for _ in blocks(page.read_text(encoding="utf-8")))]


def blocks(text: str, language: str | None = None) -> list[str]:
    """Return the fenced blocks that are run, or those of one language."""
    return [body for found, body in _BLOCK.findall(text) if language in (None, found)]


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command[:-1]} {more.strip()}"
        if end := _HERE_DOCUMENT.search(command):
            document, _, output = output.partition(f"{end[1]}\n")
            command = f"{command}\n{document}{end[1]}"
        yield command, output


def runs_here(command: str) -> bool:
    """Say whether a command is run by the suite."""
    return not command.startswith(tuple(NOT_HERE))


@dataclass
class Reader:
    """A reader who follows a page in an empty folder, with a served model."""

    folder: Path
    server: ScriptedServer
    names: dict[str, Any] = field(default_factory=dict)
    in_process: bool = False
    built: Path | None = None
    """A working directory with the published releases, which are then not built again."""

    def differences(self, page: Path) -> Iterator[Difference]:
        """Yield what prints something else than the page shows."""
        if page.name in TRAINED:
            self.names["trainer"] = untrained_trainer(self.folder)
        for language, body in _BLOCK.findall(page.read_text(encoding="utf-8")):
            yield from self._console(body) if language == "console" else self._python(body, page)

    def _console(self, block: str) -> Iterator[Difference]:
        for command, output in commands(block):
            if runs_here(command):
                real = self._run(command)
                if output.strip() and not doctest.OutputChecker().check_output(output, real, FLAGS):
                    yield Difference(command, output, real)

    def _run(self, command: str) -> str:
        """Return what a command prints, without progress; a published release is taken from the shared folder.

        `kbbench` with no operator of a shell but `> FILE` runs in this process; the README has real ones.
        """
        if self.built and (built := re.fullmatch(r"kbbench build (text2kg-\S+)", command)):
            (self.folder / "kbbench").mkdir(exist_ok=True)
            (self.folder / "kbbench" / built[1]).symlink_to(self.built / "kbbench" / built[1])
            return ""
        replaced = command.replace(SERVED, self.server.url).replace("my-model", "scripted-model")
        replaced = replaced.replace("path/to/kbbench-hf", str(ROOT)).replace("pip install", INSTALL)
        replaced = re.sub(r"build (text2kg-\S+)", r'build \1 --source "$KBBENCH_SHARED/data/text2kgbench"', replaced)
        plain = re.fullmatch(r"(kbbench [^|&;<>$`*~\n]+?)(?: > (\S+))?", replaced)
        if self.in_process and plain and not (self.folder / ".site").exists():
            code, printed, errors = self._kbbench(shlex.split(plain[1]))
            if plain[2]:
                (self.folder / plain[2]).write_text(printed, encoding="utf-8")
                printed = ""
        else:
            code, printed, errors = self._shell(replaced)
        if code:
            raise AssertionError(f"{shlex.quote(command)} exited {code}:\n{errors[-2000:]}")
        real = printed.replace(self.server.url, SERVED).replace("scripted-model", "my-model")
        return "".join(f"{line.rstrip()}\n" for line in real.splitlines())

    def _kbbench(self, arguments: list[str]) -> tuple[object, str, str]:
        out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
            mock.patch.dict(os.environ, COLUMNS="100"),
            mock.patch.object(sys, "argv", arguments),
        ):
            try:
                code: object = main()
            except SystemExit as stopped:
                code = stopped.code
        return code, *(each.buffer.getvalue().decode() for each in (out, errors))  # type: ignore[attr-defined]

    def _shell(self, command: str) -> tuple[object, str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        python_path = f"{ROOT}{os.pathsep}{self.folder / '.site'}"
        environment = {**os.environ, "PATH": path, "PYTHONPATH": python_path, "COLUMNS": "100"}
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=240
        )
        return done.returncode, done.stdout, done.stderr

    def _python(self, block: str, page: Path) -> Iterator[Difference]:
        test = doctest.DocTestParser().get_doctest(block, {}, page.name, str(page), 0)
        test.globs = self.names
        runner = _Differing(optionflags=FLAGS, verbose=False)
        with contextlib.chdir(self.folder), contextlib.redirect_stderr(io.StringIO()):
            runner.run(test, out=lambda text: None, clear_globs=False)
        yield from runner.found


class _Differing(doctest.DocTestRunner):
    """A runner that keeps what differs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.found: list[Difference] = []

    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        self.found.append(Difference(example.source, example.want, got))

    def report_unexpected_exception(self, out: Any, test: doctest.DocTest, example: doctest.Example, exc: Any) -> None:
        raise AssertionError(f"{test.filename}: {example.source}") from exc[1]


def answer(payload: dict[str, Any]) -> str | dict[str, Any]:
    """What the served model answers: what one of the package's small systems says of the text, or calls of tools."""
    asked = str(payload["messages"][-1]["content"])
    if payload.get("tools") and len(payload["messages"]) > 1:  # the probe of a server has no system message
        return _calls(payload["messages"])
    return next((said for text, said in stored_answers().items() if asked.endswith(text)), "ready")


def _calls(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Search for the question's words, select what is found first, and finish."""
    results = [json.loads(each["content"]) for each in messages if each["role"] == "tool"]
    if not results:
        question = str(messages[1]["content"]).rpartition("Question: ")[2]
        calls: list[tuple[str, dict[str, Any]]] = [("search_nodes", {"query": question, "limit": 1})]
    else:
        calls = [("select", {"node_ids": [each["id"] for each in results[0].get("nodes", [])]}), ("finish", {})]
    called = [
        {
            "id": f"call_{len(results)}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": called}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted-model",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


def untrained_trainer(folder: Path) -> Any:
    """Return a trainer of a tiny chat model with random weights, which writes nothing to standard output."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, Trainer, TrainingArguments

    name = tiny_chat_model(folder / ".chat-model", stored_answers())
    model, tokenizer = AutoModelForCausalLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    row = {"input_ids": [1, 2, 3], "labels": [1, 2, 3]}
    arguments = TrainingArguments(str(folder / ".trained"), use_cpu=True, report_to=[], disable_tqdm=True)
    trainer = Trainer(model, arguments, eval_dataset=[row], processing_class=tokenizer)
    trainer.remove_callback(PrinterCallback)
    return trainer


@cache
def stored_answers() -> dict[str, str]:
    """Return sentence or text -> the stored answer of the pattern and of the careful system, as JSON."""
    found = {}
    for name, system, text in (("mini-text2kg", "pattern", "sentence"), ("mini-genres", "careful", "text")):
        texts = {row["id"]: row[text] for row in load_examples(name).examples.rows}
        (file,) = [each for each in shipped_answers(name) if each.stem == system]
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        found |= {texts[row["id"]]: json.dumps({"triples": row["triples"]}) for row in rows}
    return found


def write(page: Path) -> int:
    """Put the real output into a page, `...` in place of what varies; return how often it was another."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name, ScriptedServer(answer=answer) as server:
        differing = list(Reader(Path(name), server).differences(page))
    place = 0
    for each in differing:
        place = text.index(each.source[:16].partition("\n")[0], place)
        place = text.index(each.shown or each.source, place) + (0 if each.shown else len(each.source))
        text = text[:place] + VARYING.sub("...", each.real) + text[place + len(each.shown) :]
    page.write_text(text, encoding="utf-8")
    return len(differing)


if __name__ == "__main__" and "--write" in sys.argv:
    wanted = [Path(name).resolve() for name in sys.argv[1:] if name != "--write"]
    for each in wanted or pages():
        print(each.relative_to(ROOT), write(each))
