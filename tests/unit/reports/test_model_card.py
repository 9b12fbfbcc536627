"""The card of a trained retriever: its scores with intervals, and what its training left out."""

from kbbench_hf.reports.model_card import model_card

SETTINGS = {"method": "weights", "base": "bm25", "seed": 7, "benchmark": "mini-stark", "dataset_revision": "0a1b"}
FACTS = {
    "settings": {**SETTINGS, "questions": {"train": "5e"}, "mask": True, "shuffle": False},
    "versions": {"kbbench-hf": "1.0"},
    "validation": {"all": {"mrr": {"value": 0.5, "ci95": [0.4, 0.6], "n": 1200}}},
    "curve": [{"step": 0, "mrr": 0.25}, {"step": 1, "mrr": 0.5}],
    "gains": [{"mrr": 0.1, "ci95": [-0.05, 0.25], "over": "equal weights"}],
    "ceilings": {"val": 0.9},
    "steps": 10,
    "chosen_step": 5,
    "seconds": 12.0,
    "processes": 1,
}
NEGATIVES, CONTROL = "Known answers of a question could be its negatives.", "**A control**"


def test_a_card_has_the_scores_and_what_training_left_out() -> None:
    card = model_card(FACTS, "own", "fuse")
    assert "| questions | n | mrr |\n| --- | --- | --- |\n| all | 1,200 | 0.5000 [0.400, 0.600] |" in card
    assert "MRR by step: 0.2500 at 0, 0.5000 at 1." in card
    assert "MRR +0.1000 [-0.050, +0.250] over equal weights." in card and "90.0% of val" in card
    assert NEGATIVES not in card and CONTROL not in card
    settings = {**FACTS["settings"], "mask": False, "shuffle": True}
    assert f"\n{NEGATIVES}\n\n{CONTROL}: " in model_card({**FACTS, "settings": settings}, "own", "fuse")
