import json
import re
from pathlib import Path

import kbbench_hf
from kbbench_hf.reports.run_page import reasons_of, run_page


def test_the_report_of_a_graph_ranker_says_why_and_draws_the_way(in_tmp: Path) -> None:
    folder = kbbench_hf.run("mini-stark", "graph:bm25", limit=2, show=False).folder
    assert folder is not None
    lines = [json.loads(line) for line in (folder / "explanations.jsonl").read_text(encoding="utf-8").splitlines()]
    best = [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["winner"]["id"] for line in lines] == [line["ids"][0] for line in best]
    page = run_page(folder)
    assert page.count("<p class=path>") >= 2
    for line in lines:
        assert f"{line['winner']['name']} ({line['winner']['id']})".replace("'", "&#x27;") in page


def test_examples_are_listed_with_their_questions_and_of_equal_headlines_the_worst_ranked_first(in_tmp: Path) -> None:
    folder = kbbench_hf.run("mini-stark", "bm25", show=False).folder
    assert folder is not None
    page = run_page(folder)
    scores = {
        str(each["id"]): each for each in map(json.loads, (folder / "scores.jsonl").read_text("utf-8").splitlines())
    }
    listed = re.findall(r"<summary>(\S+) · Hit@1 0.0000 · <span class=n>[^<]{10}", page)
    order = [[scores[each][metric] for metric in ("hit_at_5", "recall_at_20", "mrr")] for each in listed]
    assert len({tuple(each) for each in order}) > 1
    assert order == sorted(order)


def test_a_run_without_explanations_has_a_report_without_them(in_tmp: Path) -> None:
    folder = kbbench_hf.run("mini-stark", "bm25", limit=2, show=False).folder
    assert folder is not None
    assert reasons_of(folder) == {}
    assert "ranking explained" not in run_page(folder)


def test_signals_that_gave_nothing_to_any_node_are_left_out(tmp_path: Path) -> None:
    first = {"id": 1, "name": "a", "type": "t", "signals": {"text": 1.0, "found": 0.0, "degree": 0.0}, "paths": []}
    gold = {**first, "id": 2, "signals": {"text": 0.0, "found": 0.25, "degree": 0.001}}
    record = {"id": 1, "asked": [], "types": [], "named": [], "excluded": "", "winner": first, "gold": [gold]}
    (tmp_path / "explanations.jsonl").write_text(json.dumps(record), encoding="utf-8")
    html = reasons_of(tmp_path)[1]
    assert "<th scope=col>text</th><th scope=col>found</th><th scope=col>score</th>" in html
    assert "<td></td><td>+0.25</td><td>0.25</td>" in html


def test_names_on_a_path_are_inert(tmp_path: Path) -> None:
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
    assert html.count("&lt;script&gt;alert(1)") > 3 and "←" in html
