"""Closed extraction: what is offered, and that an answer which reads nothing is named beside each that does."""

import csv
import json
import re
from pathlib import Path

import pytest

from kbbench_hf.benchmarks.answers import Answer
from kbbench_hf.benchmarks.base import Examples, PromptOptions
from kbbench_hf.benchmarks.genres.benchmark import CORPORA, CorpusContext, gold_triples, load, score
from kbbench_hf.benchmarks.genres.prompts import offered_pairs, relations, strangers
from kbbench_hf.benchmarks.genres.warnings import best_constant, is_closed
from kbbench_hf.benchmarks.genres.warnings import warnings as warn
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.building.genres.release import build_genres_corpora
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.aggregate import means
from kbbench_hf.metrics.generative_re import MODES
from kbbench_hf.runners.jobs import Sampling
from kbbench_hf.runners.llm_run import prompt_task
from kbbench_hf.scoring.eval_task import load_examples


def row(name: str, *triples: str) -> dict[str, object]:
    given = [dict(zip(("sub", "rel", "obj"), triple.split(" "), strict=True)) for triple in triples]
    return {"id": name, "text": f"Of {name} .", "triples": given, "triples_stated": given}


LABELS = {"precision": "P", "recall": "R", "f1": "F1"}
ROWS = [row("d1", "a r b", "b r a"), row("d2", "c s d"), row("d3", "e r f")]
EXAMPLES = Examples(ROWS, CorpusContext("sentences", ("r", "s"), strangers=strangers(ROWS)))


def test_fixed_offers_some_pair_without_a_relation_in_every_document() -> None:
    assert EXAMPLES.context.strangers == {"d1": "c", "d2": "e", "d3": "a"}
    pairs = offered_pairs(ROWS[0], "fixed", "c")
    assert pairs == [("a", "b"), ("a", "c"), ("b", "a"), ("b", "c"), ("c", "a"), ("c", "b")]
    assert offered_pairs(ROWS[0], "reference", "c") == [("a", "b"), ("b", "a")]
    assert offered_pairs({"triples": []}, "fixed", "c") == []


def test_a_stranger_is_nothing_that_the_text_names() -> None:
    rows = [row("d1", "a r b"), row("The C", "x r y"), {**row("d3", "c r f"), "text": "F and c."}]
    assert strangers(rows)["The C"] == "a"  # not "c", which is in its text in another case
    assert strangers(rows[:1]) == {}


def test_the_best_constant_is_the_one_that_scoring_every_constant_finds() -> None:
    for mode in MODES:
        offered = [offered_pairs(each, mode, EXAMPLES.context.strangers[str(each["id"])]) for each in ROWS]
        found = {}
        for relation in ("r", "s"):
            answers: list[Answer | None] = [[[head, relation, tail] for head, tail in pairs] for pairs in offered]
            figures = means(score(EXAMPLES, answers, mode).values)
            found[relation] = {metric: figures[metric].value for metric in ("precision", "recall", "f1")}
        constant = best_constant(offered, [gold_triples(each, mode) for each in ROWS])
        assert constant is not None and constant.relation == "r"
        assert constant.figures == pytest.approx(found["r"])
        assert found["r"]["f1"] > found["s"]["f1"]
    assert best_constant([[("a", "b")]], [[]]) is None


def test_closed_answers_are_known_by_what_they_join() -> None:
    offered = [[("A", "b")], [("c", "d")]]
    assert is_closed([[["a", "anything", "B"]], [["c", "x", "d"], ["c", "x", "e"]]], offered)
    assert not is_closed([[["b", "r", "a"]], [["c", "x", "d"], ["c", "x", "e"]]], offered)
    assert not is_closed([None, []], offered)


def test_the_best_constant_stands_beside_closed_answers_and_beside_no_others() -> None:
    closed: list[Answer | None] = [[["a", "s", "b"]], [["c", "s", "d"]], [["e", "s", "f"]]]
    [warning] = warn(CORPORA, EXAMPLES, closed, "reference")
    assert (warning.code, warning.severity) == ("constant_answer", "warning")
    assert warning.beside["f1"] == pytest.approx(2 / 3)
    assert "'r' of all 4 pairs offered" in warning.message and "no better" in warning.message
    assert ScoreWarning.of(warning.to_dict()) == warning
    [better] = warn(CORPORA, EXAMPLES, [[["a", "r", "b"], ["b", "r", "a"]], [["c", "s", "d"]], []], "fixed")
    assert better.severity == "note" and better.inseparable and "Of those that mode reference offers" in better.message
    assert warn(CORPORA, EXAMPLES, [[["a", "r", "z"]], [], []], "reference") == []


def test_what_is_gold_but_for_its_direction_is_said_with_its_effect() -> None:
    answers: list[Answer | None] = [[["x", "r", "y"]], [["d", "S", "c"], ["d", "S", "c"]], None]
    [warning] = [each for each in warn(CORPORA, EXAMPLES, answers, "fixed") if each.code == "turned_round"]
    assert warning.n_examples == 1
    assert warning.effect == pytest.approx({"precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3})
    both: list[Answer | None] = [[], [["d", "s", "c"], ["c", "s", "d"]], []]
    assert not [each for each in warn(CORPORA, EXAMPLES, both, "fixed") if each.code == "turned_round"]


@pytest.fixture(scope="module")
def corpora(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    out = tmp_path_factory.mktemp("genres") / "genres-corpora"
    build_genres_corpora(shared / "data/genres", out, ["cdr", "docred", "wiki20m", "wiki80"])
    return DatasetFolder(out)


def test_the_lists_are_those_of_the_authors_and_hold_all_gold(shared: Path, corpora: DatasetFolder) -> None:
    lists = json.loads((shared / "data/genres/closed_semi.json").read_text(encoding="utf-8"))
    for config in ("cdr", "nyt10m"):
        assert relations(config, "reference") == lists[config]["relations"]
    sizes = {config: len(relations(config, "fixed")) for config in CORPORA.data.configs}
    assert sizes == {"cdr": 1, "docred": 96, "wiki20m": 80, "wiki80": 80, "tacred": 38, "nyt10m": 23}
    for config in ("docred", "wiki20m", "wiki80", "tacred"):
        assert set(lists[config]["relations"]) <= set(relations(config, "fixed"))
    for config in ("cdr", "docred", "wiki20m", "wiki80"):
        stated = {triple["rel"] for each in corpora.rows(config, "test") for triple in each["triples_stated"]}
        assert stated <= set(relations(config, "fixed"))


def test_the_authors_closed_answers_on_cdr_and_the_constant_that_beats_them(
    shared: Path, corpora: DatasetFolder
) -> None:
    examples = load(corpora, "cdr", "test")
    options = PromptOptions()
    prompts = [
        CORPORA.asking.prompts["closed"](each, examples, options).messages[-1]["content"] for each in examples.rows
    ]
    assert sum(prompt.count("\n- ") for prompt in prompts) == 2_071  # of 2,077 triples
    assert all(len(set(lines)) == len(lines) for prompt in prompts if (lines := prompt.splitlines()[2:]))
    first = [
        CORPORA.asking.prompts["closed-1"](each, examples, options).messages[-1]["content"] for each in examples.rows
    ]
    assert sum(prompt.count("\n- ") for prompt in first) == 2_077
    with (shared / "expected/genres_expected.csv").open(encoding="utf-8") as lines:
        wanted = {
            (each["model"], each["metric"]): float(each["value"]) / 100
            for each in csv.DictReader(lines)
            if each["dataset"] == "cdr_rand_200"
            and each["metric"] in ("P", "R", "F1")
            and "recomputed" in each["source"]
        }
    folder = corpora.path / "predictions/cdr/test"
    for system, name in (("closed", "gpt-3.5_closed"), ("semi-open", "gpt-3.5_semi")):
        lines = (folder / f"GPT-3.5-Turbo-Instruct, {system}.jsonl").read_text(encoding="utf-8").splitlines()
        answers = [json.loads(line)["triples"] for line in lines]
        figures = means(score(examples, answers, "reference").values)
        for metric, label in LABELS.items():
            assert figures[metric].value == pytest.approx(wanted[name, label], abs=5e-4), (system, metric)
        codes = {each.code: each for each in warn(CORPORA, examples, answers, "reference")}
        if system == "closed":
            assert codes["constant_answer"].severity == "warning"
            assert codes["constant_answer"].beside["f1"] == pytest.approx(0.6795, abs=5e-5)
        else:
            assert "constant_answer" not in codes and codes["turned_round"].effect["f1"] > 0.07


@pytest.mark.parametrize("config", ["cdr", "docred", "wiki20m", "wiki80"])
def test_gold_as_the_text_spells_it_is_right_in_fixed_2(corpora: DatasetFolder, config: str) -> None:
    examples = load(corpora, config, "test")
    answers: list[Answer | None] = []
    for each in examples.rows:
        answers.append([])
        for triple in each["triples_stated"]:
            head, tail = (_as_the_text_spells(triple[end], each["text"]) for end in ("sub", "obj"))
            answers[-1].append([head, triple["rel"], tail])  # type: ignore[union-attr]
    f1 = {mode: means(score(examples, answers, mode).values)["f1"].value for mode in ("fixed", "fixed-2")}
    assert f1["fixed-2"] == 1.0
    assert f1["fixed"] < 0.99


def _as_the_text_spells(name: str, text: str) -> str:
    """Return the part of a text with a name's letters and digits; the name where the text has none."""
    between = r"[\W_]*".join(re.escape(each) for each in name if each.isalnum())
    found = re.search(rf"(?<![^\W_]){between}(?![^\W_])", text, re.IGNORECASE)
    return found[0] if found else name


def test_closed_lists_of_fixed_2_name_no_pair_in_two_spellings() -> None:
    twice = row("d1", "Al-Hilal r Riyadh", "al-hilal s Riyadh")
    examples = Examples([twice], CorpusContext("sentences", ("r",)))
    prompt = CORPORA.asking.prompts["closed"](twice, examples, PromptOptions(mode="fixed-2")).messages
    listed = [line for line in prompt[-1]["content"].splitlines() if line.startswith("- ")]
    assert listed == ['- ["Al-Hilal", "Riyadh"]', '- ["Riyadh", "Al-Hilal"]']
    assert "one triple for each relation of a pair" in prompt[0]["content"]


@pytest.mark.parametrize("config", ["docred", "wiki20m", "wiki80"])
def test_no_constant_answer_to_what_fixed_offers_is_worth_a_tenth(corpora: DatasetFolder, config: str) -> None:
    examples = load(corpora, config, "test")
    prompt, options = CORPORA.asking.prompts["closed"], PromptOptions(mode="fixed")
    offered = []
    for each in examples.rows:
        asked = prompt(each, examples, options).messages[-1]["content"]
        listed = asked[asked.index("\nPairs:\n") :].splitlines()[2:]
        offered.append([tuple(json.loads(line.removeprefix("- "))) for line in listed])
    constant = best_constant(offered, [gold_triples(each, "fixed") for each in examples.rows])
    assert constant is not None and constant.figures["f1"] <= 0.10
    answers: list[Answer | None] = [[[head, constant.relation, tail] for head, tail in pairs] for pairs in offered]
    [warning] = [each for each in warn(CORPORA, examples, answers, "fixed") if each.code == "constant_answer"]
    assert warning.beside == constant.figures and warning.severity == "warning"
    figures = means(score(examples, answers, "fixed").values)
    assert figures["f1"].value == pytest.approx(constant.figures["f1"])


def test_a_run_asks_for_what_its_mode_scores() -> None:
    asked = {
        mode: prompt_task(load_examples("mini-genres", mode=mode), prompt="closed") for mode in ("reference", "fixed")
    }
    prompts = {mode: next(iter(each.prompts.values())).messages[-1]["content"] for mode, each in asked.items()}
    assert prompts["fixed"].count("\n- ") > prompts["reference"].count("\n- ")
    settings = [each.settings("m", Sampling()) for each in asked.values()]
    assert settings[0]["prompt_sha256"] != settings[1]["prompt_sha256"]  # another run, in another folder
    openly = {mode: prompt_task(load_examples("mini-genres", mode=mode)).settings("m", Sampling()) for mode in asked}
    assert openly["reference"] == openly["fixed"]  # asked alike, one run for both
