"""`kbbench annotate --calibrate` with judges: from a clone to the figure that carries how far its judge is trusted."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kbbench_hf.building.genres import release as genres
from kbbench_hf.building.genres.release import text_id
from kbbench_hf.cli.verbs import kbbench
from tests.servers.scripted import MODEL, ScriptedServer

SYSTEMS = ("gpt-4", "mistral", "openchat")
PLACE = ("--benchmark", "genres-corpora/wiki80")


def write(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def clone(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of an invented release: 40 documents, three systems with two triples on each, of which one is true."""
    texts = [f"Ada {n} was born in Paris and wrote programs ." for n in range(40)]
    sizes = {"wiki80": genres._Config("wiki80_rand_800", 40, 40)}
    monkeypatch.setattr(genres, "CONFIGS", sizes)
    root = in_tmp / "clone"
    write(root / "datasets/wiki80_rand_800.json", {text: [] for text in texts})
    write(root / "datasets/processed/wiki80_processed.json", {text: [["ada", "born in", "paris"]] for text in texts})
    for system in SYSTEMS:
        true, false = ([f"Ada {system}", "born in", "Paris"], [f"Ada {system}", "born in", "Rome and Oslo"])
        write(root / f"processed_results/wiki80_rand_800_{system}_1.json", {text: [true, false] for text in texts})
        facts = {text: {"score": 0.5, "results": [True, False]} for text in texts}
        write(root / f"GREScores/factualness/wiki80_rand_800_{system}_1.json", facts)
        splits = {json.dumps(true): "N/A", json.dumps(false): '["a", "r", "b"]\n["a", "r", "c"]'}
        write(root / f"GREScores/granularity/wiki80_rand_800_{system}_1.json", dict.fromkeys(texts, splits))
    assert run("build", "genres-corpora", "--source", str(root), "--configs", "wiki80").exception is None
    return root


def run(*arguments: str) -> Result:
    return CliRunner().invoke(kbbench, list(arguments), standalone_mode=False)


def right(payload: dict[str, Any]) -> str:
    asked = payload["messages"][-1]["content"]
    if asked.startswith("Text:"):
        return json.dumps({"supported": "Paris" in asked.partition("Triple: ")[2]})
    parts = [["a", "r", "b"], ["a", "r", "c"]] if " and " in asked else []
    return json.dumps({"sub_triples": parts})


def test_a_served_judge_goes_from_calibration_to_figures_that_carry_it(clone: Path, in_tmp: Path) -> None:
    n_checked = sum(
        int(text_id(text)[-1], 16) % 2
        for text in json.loads((clone / "datasets/wiki80_rand_800.json").read_text(encoding="utf-8"))
    )
    with ScriptedServer(answer=right) as server:
        judge = ("--fact-judge", MODEL, "--split-judge", MODEL, "--base-url", server.url)
        done = run("annotate", "--calibrate", str(clone), *PLACE, *judge, "--json")
        assert done.exception is None, done.exception
        for measured in json.loads(done.stdout).values():
            assert measured["judge"]["kappa"] == 1.0 and measured["constant"]["kappa"] == 0.0
            assert measured["judge"]["n"] == n_checked * 2 * len(SYSTEMS)
            assert measured["ceiling"]["accuracy"] == 1.0 or measured["ceiling"]["n"] == 0
            assert {"surface", "n_unread"} <= measured.keys() and measured["cost"]["n_requests"] > 0
        text = run("annotate", "--calibrate", str(clone), *PLACE, *judge)
        assert all(words in text.output for words in ("this judge", "surface features", "with itself", "cost:"))
        answers = in_tmp / "mine.jsonl"
        rows = run("score", "published:GPT-4", *PLACE, "--json")
        assert rows.exception is None
        ids = [text_id(text) for text in json.loads((clone / "datasets/wiki80_rand_800.json").read_text("utf-8"))]
        answers.write_text("".join(json.dumps({"id": i, "triples": [["x", "in", "Paris"]]}) + "\n" for i in ids))
        assert run("annotate", str(answers), *PLACE, *judge).exception is None
    scored = json.loads(run("score", str(answers), *PLACE, "--json").stdout)
    for kind in ("factualness", "granularity"):
        assert scored["scores"][kind]["value"] == 1.0
        assert json.loads(scored["versions"][f"agreement:{kind}"])["judge"]["kappa"] == 1.0
    said = [each for each in scored["warnings"] if each["code"].startswith("judge")]
    assert [each["code"] for each in said] == ["judge_agreement"] * 2
    assert all("1.00 / 1.00" in each["message"] for each in said)
    # here surface features suffice as well, so this judge is not worth its cost
    assert {each["severity"] for each in said} == {"warning"}


def test_a_local_judge_gets_its_threshold_from_the_calibration(clone: Path, in_tmp: Path) -> None:
    pytest.importorskip("transformers")
    from tests.unit.judges.test_nli import ORDERS, make_model

    judge = f"nli:{make_model(in_tmp / 'nli', ORDERS[0])}"
    done = run("annotate", "--calibrate", str(clone), *PLACE, "--fact-judge", judge, "--split-judge", judge, "--json")
    assert done.exception is None, done.exception
    found = json.loads(done.stdout)
    answers = in_tmp / "mine.jsonl"
    (first, *_) = json.loads((clone / "datasets/wiki80_rand_800.json").read_text(encoding="utf-8"))
    answers.write_text(json.dumps({"id": text_id(first), "triples": [["paris", "in", "france and spain"]]}) + "\n")
    assert run("annotate", str(answers), *PLACE, "--fact-judge", judge, "--split-judge", judge).exception is None
    scored = json.loads(run("score", str(answers), *PLACE, "--json").stdout)
    for kind, measured in found.items():
        made_with = json.loads(scored["versions"][f"annotations:{kind}"])["judge"]
        assert made_with.endswith(f"@threshold={measured['threshold']}")
        assert json.loads(scored["versions"][f"agreement:{kind}"]) == measured
    by_hand = f"{judge}@threshold=0.123"
    assert run("annotate", str(answers), *PLACE, "--fact-judge", by_hand).exception is None
    scored = json.loads(run("score", str(answers), *PLACE, "--json").stdout)
    assert "agreement:factualness" not in scored["versions"]  # nobody measured it with this threshold
    assert "judge_not_calibrated" in [each["code"] for each in scored["warnings"]]
