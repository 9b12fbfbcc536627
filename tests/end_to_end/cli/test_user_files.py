"""Files as users have them, through the real command: read to the right figures, or refused with what mends them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.files.datasets import DatasetFolder

Case = dict[str, Any]
HOPED = 0.95
"""The least share of the cases that is read right or refused with the sentence that mends it."""


def outcome(case: Case, folder: Path, kbbench) -> str:
    """Return what became of a case: `read`, `refused`, or what went wrong."""
    files = [str(folder / each) for each in case["files"]]
    how = [each.format(*files) for each in case["how"]]
    if case["verb"] == "build":
        done = kbbench("build", case["benchmark"], *how)
    else:
        as_json = ["--json"] if case["verb"] == "score" else []
        done = kbbench(case["verb"], files[0], "--benchmark", case["benchmark"], *how, *as_json)
    assert "Traceback" not in done.err
    if done.code:
        groups = case.get("message") or case.get("or_refused")
        if not groups:
            return f"refused, and should not be: {done.err[:200]}"
        said = done.out + done.err
        for name in (*files, *(Path(each).name for each in files)):
            said = said.replace(name, " ")
        unsaid = [each for each in groups if not any(re.search(way, said, re.IGNORECASE) for way in each)]
        return f"refused without {unsaid}" if unsaid else "refused"
    if case["verb"] == "build":
        return built(case, kbbench)
    if case["expected"] == "refused" and "or_read" not in case:
        return "READ, and should be refused"
    if case["verb"] != "score":
        return "read"
    result = json.loads(done.out)
    right = [each for each in (case.get("figures"), *case.get("or_read", ())) if each]
    if not any(same(each, result) for each in right):
        return "READ WRONG"
    unwarned = {*case.get("warns", ())} - {warning["code"] for warning in result["warnings"]}
    return f"read without a warning of {unwarned}" if unwarned else "read"


def same(figures: Case, result: Case) -> bool:
    counted = all(figures[name] == result["counters"][name] for name in ("n_examples", "n_missing"))
    values = {name: figure["value"] for name, figure in result["scores"].items()}
    return counted and all(values[name] == pytest.approx(value, abs=1e-6) for name, value in figures["scores"].items())


def built(case: Case, kbbench) -> str:
    folder = DatasetFolder(Path("kbbench") / case["benchmark"])
    found = {config: folder.table(config, "full").num_rows for config in ("nodes", "edges")}
    asked = folder.rows("queries", "test") if "queries" in folder.configs() else None
    answers = None if asked is None else {str(row["id"]): row["answer_ids"] for row in asked}
    listed = kbbench("list")
    if listed.code or listed.err or case["benchmark"] not in listed.out:
        return f"read, and then `list` fails: {listed.err}"
    return "read" if {**found, "answers": answers} == case["built"] else f"READ WRONG: {found}, {answers}"


def test_the_files_that_users_have_are_read_right_or_refused_with_the_words_that_mend_them(shared, kbbench, capsys):
    folder = shared / "data/user_files"
    cases = [json.loads(line) for line in (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
    outcomes = {case["id"]: outcome(case, folder, kbbench) for case in cases}
    with capsys.disabled():
        print()
        for case in cases:
            print(f"  {case['id']:28} {case['kind']:60.60} {outcomes[case['id']]}")
    wrong = {name: each for name, each in outcomes.items() if "READ" in each}
    assert not wrong, "read wrongly in silence"
    right = [name for name, each in outcomes.items() if each in ("read", "refused")]
    assert len(right) >= HOPED * len(cases), {name: each for name, each in outcomes.items() if name not in right}
