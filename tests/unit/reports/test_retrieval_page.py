import json
from pathlib import Path

import kbbench_hf
from kbbench_hf.reports.retrieval_page import reasons_of
from kbbench_hf.reports.run_page import run_page


def test_the_report_of_a_graph_ranker_says_why_and_draws_the_way(in_tmp: Path) -> None:
    folder = kbbench_hf.run("mini-stark", "graph:bm25", limit=2, show=False).folder
    assert folder is not None
    lines = [json.loads(line) for line in (folder / "explanations.jsonl").read_text(encoding="utf-8").splitlines()]
    best = [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["winner"]["id"] for line in lines] == [line["ids"][0] for line in best]
    page = run_page(folder)
    assert page.count("<svg role=img") >= 2
    for line in lines:
        assert f"{line['winner']['name']} ({line['winner']['id']})".replace("'", "&#x27;") in page


def test_a_run_without_explanations_has_a_report_without_them(in_tmp: Path) -> None:
    folder = kbbench_hf.run("mini-stark", "bm25", limit=2, show=False).folder
    assert folder is not None
    assert reasons_of(folder) == {}
    assert "<b>why</b>" not in run_page(folder)


def test_names_in_a_picture_are_inert_and_cut_to_fit(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>" * 3
    node = {
        "id": 1, "name": hostile, "type": "t", "signals": {"text": 1.0},
        "paths": [{"nodes": [hostile, "b"], "edges": [{"relation": hostile, "forward": False}]}],
    }  # fmt: skip
    record = {"id": 1, "asked": [hostile], "types": [["t", 1.0]], "named": [hostile], "excluded": hostile}
    line = json.dumps({**record, "winner": node, "gold": []})
    (tmp_path / "explanations.jsonl").write_text(line, encoding="utf-8")
    html = reasons_of(tmp_path)[1]
    assert "<script" not in html
    assert "…" in html
