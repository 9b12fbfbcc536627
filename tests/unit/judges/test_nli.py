"""Local judges, on tiny models made here: what matters is which label, which window, which pair."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from kbbench_hf.errors import UsageError
from kbbench_hf.judges.nli import NliFactJudge, NliSplitJudge

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "paris", "is", "in", "france", "spain", "and", ".", ",", "rain"]
ORDERS = [("contradiction", "entailment", "neutral"), ("ENTAILMENT", "NEUTRAL", "CONTRADICTION")]


def make_model(folder: Path, labels: tuple[str, ...], max_length: int = 64) -> str:
    """Save a small random BERT whose labels have these names."""
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=max_length).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=max_length,
        num_labels=len(labels),
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    model = transformers.BertForSequenceClassification(config)
    with torch.no_grad():
        model.classifier.weight.mul_(20)  # so that labels differ clearly
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("nli")
    return [make_model(root / str(n), labels) for n, labels in enumerate(ORDERS)]


def item(text: str, *triple: Any) -> tuple[str, str]:
    return text, json.dumps(triple)


def test_the_label_of_entailment_is_read_from_the_model(models: list[str]) -> None:
    # the same weights under two orders of labels: the probability is that of another output
    pair = [("paris is in france .", "paris in france.")]
    probabilities = []
    for model, position in zip(models, (1, 0), strict=True):
        judge = NliFactJudge(model)
        tokens = judge._nli._tokenizer(*[[side] for side in pair[0]], return_tensors="pt")
        expected = judge._nli._model(**tokens).logits.softmax(-1)[0, position].item()
        assert judge._nli.entailment(pair) == [pytest.approx(expected)]
        probabilities.append(expected)
    assert probabilities[0] != pytest.approx(probabilities[1])


def test_a_model_without_entailment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected one to be 'entailment'"):
        NliFactJudge(make_model(tmp_path / "sentiment", ("bad", "good")))


def test_of_a_long_text_the_best_window_counts(tmp_path: Path) -> None:
    judge = NliFactJudge(make_model(tmp_path / "short", ORDERS[0], max_length=16))
    long_text = " ".join(["rain"] * 40 + ["paris is in spain ."] + ["rain"] * 40)
    [whole] = judge._nli.entailment([(long_text, "paris in spain.")])
    windows = [" ".join(long_text.split()[start : start + 4]) for start in range(0, 80, 4)]
    assert whole >= min(judge._nli.entailment([(window, "paris in spain.") for window in windows]))
    # padding and batching change nothing
    pairs = [(long_text, "paris in spain."), ("rain", "rain."), (long_text, "rain in spain.")]
    single = [judge._nli.entailment([pair])[0] for pair in pairs]
    assert judge._nli.entailment(pairs) == pytest.approx(single, abs=1e-5)


def test_a_triple_that_leaves_no_room_for_its_text_has_no_verdict_and_stops_no_others(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "short", ORDERS[0], max_length=16)
    rain = " ".join(["rain"] * 50)
    items = [item("paris", "paris", "in", rain), item(rain, *["rain"] * 3), item(rain, *["rain in"] * 5)]
    facts = NliFactJudge(folder)
    verdicts = facts.judge(items)
    assert [verdict.status for verdict in verdicts] == ["prompt_too_long", "ok", "prompt_too_long"]
    assert verdicts[1] == facts.judge(items[1:2])[0]
    splits = NliSplitJudge(folder)
    parts = splits.judge([item("", rain, "is in", "france and spain"), item("", "rain", "in", "paris and spain")])
    assert [(part.status, part.value is None) for part in parts] == [("prompt_too_long", True), ("ok", False)]
    for judge in (facts, splits):  # a calibration reads what is stored
        assert judge.probability("") == 0 and math.isnan(judge.read(""))


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="empty' cannot be loaded"):
        NliFactJudge(str(tmp_path / "empty"))


def test_verdicts_follow_the_threshold_and_the_name_says_which(models: list[str]) -> None:
    items = [item("paris is in france", "paris", "in", "france")]
    always, never = NliFactJudge(models[0], threshold=0.0), NliFactJudge(models[0], threshold=1.1)
    assert [judge.judge(items)[0].value for judge in (always, never)] == [1.0, 0.0]
    assert always.name != never.name
    assert 0 <= float(always.judge(items)[0].raw) <= 1


def test_only_entailed_parts_are_sub_triples(models: list[str]) -> None:
    items = [item("", "paris and rain", "in", "france"), item("", "paris", "in", "france")]
    all_parts, no_parts = (NliSplitJudge(models[0], threshold=threshold).judge(items) for threshold in (0.0, 1.1))
    assert [verdict.value for verdict in all_parts] == [2.0, 0.0]
    assert [verdict.value for verdict in no_parts] == [0.0, 0.0]


def test_a_verdict_can_be_read_again_with_another_threshold(models: list[str]) -> None:
    items = [item("paris and rain", "paris and rain", "in", "france"), item("paris", "paris", "is", "in")]
    for kind in (NliFactJudge, NliSplitJudge):
        judge = kind(models[0])
        verdicts = judge.judge(items)
        for threshold in (0.0, 0.3, 0.7, 1.1):
            other = judge.at(threshold)
            assert [other.read(verdict.raw) for verdict in verdicts] == [v.value for v in other.judge(items)]
            assert other.name == f"{judge.untuned}@threshold={threshold}" != judge.name
        assert judge.threshold == 0.5 and not judge.chosen and kind(models[0], threshold=0.5).chosen


def test_a_way_to_take_a_triple_apart_holds_only_with_all_its_parts(
    monkeypatch: pytest.MonkeyPatch, models: list[str]
) -> None:
    judge = NliSplitJudge(models[0])
    whole = item("", "paris and rome", "in", "france, spain")
    for missing, n in ((None, 4.0), ("rome in spain.", 0.0)):
        monkeypatch.setattr(
            judge._nli, "entailment", lambda pairs, missing=missing: [float(part != missing) for _, part in pairs]
        )
        assert judge.judge([whole])[0].value == n
