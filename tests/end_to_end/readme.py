"""Run everything the README shows. `python -m tests.end_to_end.readme --write` puts the real output into it.

A `console` block holds `$ command` lines with their output below; a `python` block is a doctest. `...` stands for any
text: times and rates differ from machine to machine.
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
from functools import cache
from pathlib import Path

from kbbench_hf.benchmarks import shipped_answers
from kbbench_hf.scoring.asked import load_examples
from tests.servers.scripted import ScriptedServer

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
SERVED = "http://localhost:8000/v1"
NOT_HERE = ("make ", "source ", "git clone", "cd ", "pip install", "kbbench serve")
"""Commands that the suite does not run: CI runs the first ones, a browser test the last."""
VARYING = re.compile(r"\d+\.\d+ (?:ms|s\b|MB in)|revision [0-9a-f]{40}|[0-9a-f]{32}")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def prepare(folder: Path) -> None:
    """Put the files there that the README builds a knowledge base and a benchmark of an ontology from."""
    (folder / "nodes.csv").write_text(
        "id,type,name,text\n1,city,Rome,Old and warm.\n2,city,Oslo,By a fjord.\n3,land,Italy,\n"
    )
    (folder / "edges.csv").write_text("head,relation,tail\n1,lies in,3\n")
    (pattern,) = [file for file in shipped_answers("mini-text2kg") if file.stem == "pattern"]
    (folder / "predictions.jsonl").write_bytes(pattern.read_bytes())
    (folder / "queries.csv").write_text("id,query,answer_ids\n1,Which city is by a fjord?,[2]\n2,An old city,[1]\n")
    (folder / "ontology.ttl").write_text(
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n@prefix : <https://example.org/lights#> .\n"
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n:Lighthouse a owl:Class .\n:Harbour a owl:Class .\n"
        ":guards a owl:ObjectProperty ; rdfs:domain :Lighthouse ; rdfs:range :Harbour .\n"
        ":keptBy a owl:ObjectProperty ; rdfs:domain :Lighthouse .\n"
    )
    lights = [f"{tree} Light" for tree in "Alder Birch Cedar Dorn Elm Fir Gorse Hazel Ivy Juniper".split()]
    triples = [(light, "guards", f"Port {light.split()[0]}") for light in lights]
    triples += [(light, "kept by", f"Ann {light.split()[0]}son") for light in lights]
    rows = "".join(f"{subject},{relation},{obj}\n" for subject, relation, obj in triples)
    (folder / "triples.csv").write_text(f"subject,relation,object\n{rows}")
    said = [f"The {light} {'guards' if verb == 'guards' else 'was kept by'} {obj}." for light, verb, obj in triples]
    (folder / "sentences.txt").write_text("\n".join([*said, "The Fir Light shines on Port Fir."]) + "\n")


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command[:-1]} {more.strip()}"
        yield command, output


def run(command: str, folder: Path, server: ScriptedServer) -> str:
    """Run a command of the README in a folder and return what it prints, without progress."""
    replaced = command.replace(SERVED, server.url).replace("--model my-model", "--model scripted-model")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    done = subprocess.run(
        ["bash", "-c", replaced], cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )
    if done.returncode:
        raise AssertionError(f"{shlex.quote(command)} exited {done.returncode}:\n{done.stderr[-2000:]}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def python_output(block: str, folder: Path) -> doctest.TestResults:
    """Run a Python block as a doctest in a folder."""
    test = doctest.DocTestParser().get_doctest(block, {}, "README.md", str(README), 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    with contextlib.chdir(folder):
        runner.run(test, out=sys.stderr.write)
    return runner.summarize(verbose=False)


def answer(payload: dict[str, list[dict[str, str]]]) -> str:
    """What the served model of the README answers: what one of the package's small systems says of the text."""
    asked = payload["messages"][-1]["content"]
    return next((said for text, said in stored_answers().items() if asked.endswith(text)), "ready")


@cache
def stored_answers() -> dict[str, str]:
    """Return sentence or text -> the stored answer of the pattern and of the careful system, as JSON."""
    found = {}
    for name, system, field in (("mini-text2kg", "pattern", "sentence"), ("mini-genres", "careful", "text")):
        texts = {row["id"]: row[field] for row in load_examples(name).examples.rows}
        (file,) = [each for each in shipped_answers(name) if each.stem == system]
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        found |= {texts[row["id"]]: json.dumps({"triples": row["triples"]}) for row in rows}
    return found


def write() -> None:
    """Put the real output under every command, `...` in place of what varies."""
    text = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name, ScriptedServer(answer=answer) as server:
        prepare(Path(name))
        for block in blocks(text, "console"):
            new = block
            for command, output in commands(block):
                if command.startswith(NOT_HERE):
                    continue
                real = VARYING.sub("...", run(command, Path(name), server)).replace(server.url, SERVED)
                if output.strip():
                    new = new.replace(f"\n{output}", f"\n{real.replace('scripted-model', 'my-model')}", 1)
            text = text.replace(block, new)
    README.write_text(text, encoding="utf-8")


def check(block: str, folder: Path, server: ScriptedServer) -> Iterator[tuple[str, str, str]]:
    """Yield (command, expected, real) of every command of a block whose output differs."""
    checker = doctest.OutputChecker()
    for command, output in commands(block):
        if command.startswith(NOT_HERE):
            continue
        real = run(command, folder, server).replace(server.url, SERVED).replace("scripted-model", "my-model")
        if output.strip() and not checker.check_output(output, real, FLAGS):
            yield command, output, real


if __name__ == "__main__" and "--write" in sys.argv:
    with contextlib.redirect_stderr(io.StringIO()):
        write()
