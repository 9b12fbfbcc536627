"""The corpora of replies: what a careful person reads is read, and what older models wrote is read as before."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.benchmarks import benchmark
from kbbench_hf.benchmarks.genres import parsers as genres
from kbbench_hf.benchmarks.ska_bench.benchmark import parse_verdict
from kbbench_hf.benchmarks.text2kgbench.benchmark import parse_balanced
from kbbench_hf.judges.llm_judges import parse_fact_reply
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.parsing.triples import parse_triples
from kbbench_hf.retrieval.reranker import parse_score
from tests.golden.text2kg_runs import RUNS, gold, responses


def default(name: str) -> Callable[[str, Any], Any]:
    parse = next(iter(benchmark(name).asking.parsers.values()))
    return lambda reply, case: parse(reply, case["example"]).answer


def genres_reader(reply: str, case: Any) -> Any:
    released = case["prompt_style"] == "semi_open_release"
    parse = benchmark("mini-genres").asking.parsers["careful-semi-open" if released else "careful"]
    return parse(reply, case["example"]).answer


def ska_reader(reply: str, case: Any) -> Any:
    answers = default("mini-ska")(reply, case)
    return parse_verdict(answers) if case["example"]["testbed"].startswith("rejection") else answers


READERS: dict[str, Callable[[str, Any], Any]] = {
    "text2kg": default("mini-text2kg"),
    "genres": genres_reader,
    "ska": ska_reader,
    "judge_fact": lambda reply, case: bool(parse_fact_reply(reply)),
    "judge_split": lambda reply, case: parse_triples(reply, partial=False, single=True).answer,
    "reranker": lambda reply, case: parse_score(reply),
}


def folded(triples: Any) -> set[tuple[str, str, str]]:
    """Triples as the corpora's README compares them: as sets, white space and the spelling of relations folded."""
    rows = [[re.sub(r"\s+", " ", str(part)).strip() for part in triple] for triple in triples]
    return {(subject, re.sub(r"[\s_-]+", "", relation.lower()), obj) for subject, relation, obj in rows}


def verdict(case: Any, read: Callable[[str, Any], Any]) -> str:
    """Whether a reply is read right, wrong (another value without a word) or refused though it can be read."""
    expected = case["expected"]
    try:
        found = read(case["reply"], case)
    except ParseError:
        return "right" if expected == "parse_failure" else "refused"
    if expected == "parse_failure":
        return "wrong"
    if isinstance(expected, float | int) and not isinstance(expected, bool):
        return "right" if abs(found - expected) < 1e-9 else "wrong"
    if expected and isinstance(expected, list) and isinstance(expected[0], list):
        return "right" if folded(found) == folded(expected) else "wrong"
    return "right" if found == expected else "wrong"


@pytest.fixture
def outcomes(shared: Path) -> list[tuple[Any, str]]:
    found = []
    for task, read in READERS.items():
        lines = (shared / "data" / "replies" / f"{task}.jsonl").read_text(encoding="utf-8").splitlines()
        found += [(case, verdict(case, read)) for case in map(json.loads, lines)]
    return found


def test_replies_are_read_as_a_careful_person_reads_them(
    outcomes: list[tuple[Any, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    counts = Counter((case["task"], outcome) for case, outcome in outcomes)
    tasks = list(dict.fromkeys(case["task"] for case, _ in outcomes))
    with capsys.disabled():
        print(f"\n{'task':12} right wrong refused")
        for task in tasks:
            print(f"{task:12} {counts[task, 'right']:5} {counts[task, 'wrong']:5} {counts[task, 'refused']:7}")
    assert len(outcomes) >= 264
    assert sum(outcome == "right" for _, outcome in outcomes) >= 0.95 * len(outcomes)
    wrong = [case for case, outcome in outcomes if outcome == "wrong"]
    assert len(wrong) <= 0.01 * len(outcomes), [case["id"] for case in wrong]
    assert max(counts[task, "wrong"] for task in tasks) <= 1
    assert not [case["id"] for case in wrong if re.search(r"think|thought|reason|harmony|vendor", case["kind"])]


def holds_only_calls(reply: str) -> bool:
    lines = [line for line in reply.strip().splitlines() if line.strip()]
    return bool(lines) and all(re.fullmatch(r"\s*[\w\\ /,&'-]+\(.*\)\s*[,.]?\s*", line) for line in lines)


def holds_only_lists(reply: str) -> bool:
    answer = genres.answer_of(reply).replace("</s>", "").strip()
    bare = re.sub(r"\[[^\[\]]*\]", "", answer).strip(" \n,[]")
    return answer.startswith("[") and answer.endswith("]") and not bare


def read_before(reply: str) -> set[tuple[str, str, str]] | None:
    try:
        return folded(genres.lenient(reply))
    except ParseError:
        return None


def read_now(reply: str, text: str) -> set[tuple[str, str, str]] | None:
    try:
        return folded(parse_triples(reply, text).answer)
    except ParseError:
        return None


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.full)])
def test_replies_of_older_models_that_hold_only_triples_are_read_as_published_as_often_as_before(
    shared: Path, every: int
) -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for run in RUNS:
        for ontology, rows in responses(shared / "data/text2kgbench", run):
            sentences = {
                row["id"]: row["sent"] for row in gold(shared / "data/text2kgbench", *run_place(run), ontology)
            }
            for row in rows[::every]:
                reply, sentence = row["response"], sentences.get(row["id"], "")
                published = folded(row["triples"])
                if published and holds_only_calls(reply) and folded(parse_balanced(reply, sentence)) == published:
                    counts[str(run), read_now(reply, sentence) == published] += 1
    for file in sorted((shared / "data/genres/raw_responses").glob("*.json")):
        stored = json.loads((shared / "data/genres/outputs" / file.name).read_text(encoding="utf-8"))
        for text, reply in [*json.loads(file.read_text(encoding="utf-8")).items()][::every]:
            if holds_only_lists(reply) and read_before(reply) == folded(stored[text]):
                counts[file.name, read_now(reply, text) == folded(stored[text])] += 1
    assert counts.total() > 11_900 / every
    lost = {run: counts[run, False] / (counts[run, False] + counts[run, True]) for run, _ in counts}
    assert max(lost.values()) <= 0.03, lost
    # What is lost are triples with an empty member, which are incomplete.
    assert sum(count for (_, is_kept), count in counts.items() if is_kept) >= 0.997 * counts.total()


def run_place(run: Any) -> tuple[str, str]:
    return run.dataset, run.split
