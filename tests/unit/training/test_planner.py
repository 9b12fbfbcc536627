"""A trained planner writes plans that its knowledge base allows, and learns them from questions with plans."""

import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("sentence_transformers")

from kbbench_hf.benchmarks import find_dataset
from kbbench_hf.building.synthesis.synthesize import synthesize
from kbbench_hf.cli.verbs import kbbench
from kbbench_hf.errors import DataError
from kbbench_hf.files.datasets import read_json
from kbbench_hf.knowledge_base.plans import Plan, PlanSchema
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval import plan_generator
from kbbench_hf.retrieval.plan_generator import PlanGrammar, SlotFinder, SlottedQuery, encoder
from kbbench_hf.runners import ranking
from kbbench_hf.training import plan_examples, planner
from kbbench_hf.training.plan_examples import (
    PlanExample,
    augment_examples,
    chain_examples,
    held_out_shapes,
    join_examples,
    parse_shape,
    plan_shape,
    shuffle_plans,
    split_examples,
)
from kbbench_hf.training.planner import new_model
from kbbench_hf.training.questions import load_training_data
from kbbench_hf.training.train import controls, train
from tests.unit.training.worlds import build_world, weights

N = 40
QUICK = {"epochs": 60, "batch": 16, "learning_rate": 5e-3, "evaluations": 1}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with people, their clubs, and the streets of both; and a dataset of synthesized questions."""
    folder = tmp_path_factory.mktemp("town")
    names = [
        f"{first} {last}" for first in ("Ada", "Bo", "Cleo", "Dina") for last in "Abel Birch Coyle Dunn Eames".split()
    ]
    names += [f"{name} junior" for name in names]
    nodes = [(f"p{n}", "person", name) for n, name in enumerate(names)]
    nodes += [
        (f"c{n}", "club", f"{word} Society") for n, word in enumerate("Kite Lute Rope Clock Hat Oar Fern Moth".split())
    ]
    nodes += [
        (f"s{n}", "street", f"{word} Row") for n, word in enumerate("Elm Ash Oak Yew Fir Bay Rowan Hazel".split())
    ]
    edges = [(f"p{n}", "member of", f"c{n % 8}") for n in range(N)]
    edges += [(f"p{n}", "lives in", f"s{(3 * n + n // 8) % 8}") for n in range(N)]
    edges += [(f"c{n}", "meets in", f"s{(5 * n + 2) % 8}") for n in range(8)]
    edges += [(f"p{n}", "was taught by", f"p{(7 * n + 3) % N}") for n in range(N)]
    build_world(folder, "town", nodes, edges, [("Who?", ["p0"], "test")])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        synthesize("town", 300, show=False)
    return folder


@pytest.fixture
def there(town: Path, monkeypatch: pytest.MonkeyPatch) -> KnowledgeBase:
    monkeypatch.chdir(town)
    monkeypatch.setenv("KBBENCH_CACHE", str(town / "cache"))
    for name, value in (("VOCABULARY", 300), ("WIDTH", 32), ("LAYERS", 2), ("HEADS", 2)):
        monkeypatch.setattr(planner, name, value)
    monkeypatch.setattr(ranking, "N_EXPLAINED", 2)
    monkeypatch.setattr(plan_generator, "N_PLANS", 2)
    return KnowledgeBase.open(find_dataset("town").path)


def taught(out: Path, **how: Any) -> Any:
    return train("town-questions", "plan", "tiny", out, show=False, **{**QUICK, **how})


def example(kb: KnowledgeBase, question: str, plan: str) -> PlanExample:
    made = PlanExample.of(SlotFinder(kb).find(question), Plan.parse(plan), kb)
    assert made is not None
    return made


def test_entities_and_values_become_slots(there: KnowledgeBase) -> None:
    find = SlotFinder(there).find
    found = find('Which people of the Kite Society live in Elm Row, and have "Lute Society" or 12 in their text?')
    assert found.text == "which people of the <e1> live in <e2> , and have <e3> <v1> or <v2> in their text?"
    assert found.values == ("Lute Society", "12")
    assert [there.names(rows) for rows in found.entities] == [["Kite Society"], ["Elm Row"], ["Lute Society"]]
    ((*rows,),) = find("Was Ada Abel junior there?").entities
    assert rows == there.named("Ada Abel junior").tolist()
    assert find("Which clubs meet?").entities == ()


def test_every_plan_that_can_be_written_is_valid(there: KnowledgeBase) -> None:
    schema, rng = PlanSchema.of(there), Random(0)
    texts = [*there.graph.node_types, *there.graph.relations]
    grammar = PlanGrammar(there, encoder(new_model(texts)[1]), 3)
    query = SlotFinder(there).find('Bo Dunn, Moth Society, "old kites" and 7')
    names = {("Bo Dunn", "person"), ("Moth Society", "club")}
    shapes = set()
    for _ in range(300):
        alternatives = grammar.start(query)
        while not all(state.is_whole and not rest for rest, state in alternatives):
            token = rng.choice(sorted({rest[0] for rest, _ in alternatives if rest}))
            alternatives = grammar.after(alternatives, token, query)
        ((_, state),) = alternatives
        schema.check(state.plan)
        starts = [(walk.topic, walk.start_type) for walk in state.plan.walks]
        assert {*starts} <= names and len({*starts}) == len(starts)
        assert set(state.plan.text.split("; ")) <= {"", "old kites", "7"}
        shapes.add(plan_shape(state.plan))
    assert len(shapes) > 50
    assert grammar.start(SlottedQuery("no entity", (), ())) == ()


def test_questions_are_joined_and_chained_with_their_plans(there: KnowledgeBase) -> None:
    one = example(there, "Which people live in Elm Row?", '"Elm Row":street -[^lives in]-> person')
    other = example(there, "Which people are in Kite Society?", '"Kite Society":club -[^member of]-> person')
    club = example(there, "Find the clubs that meet in Ash Row.", '"Ash Row":street -[^meets in]-> club')
    both = join_examples(one, other)
    assert both is not None
    asked, plan = both.texts
    assert asked.startswith("which people live in <e1> and are in <e2> ?<types><e1>street<e2>club")
    assert plan.count("<walk>") == 2
    asked, plans = zip(
        *(made.texts for n in range(40) if (made := chain_examples(other, 0, club, Random(n)))), strict=True
    )
    ends = " ?<types><e1>street<plan>"
    assert {
        f"which people are in the clubs that meet in <e1>{ends}",
        f"consider the clubs that meet in <e1> . which people are in any of these clubs{ends}",
    } <= {*asked}
    assert {*plans} == {"person<walk><e1>street<out>member of<to>club<out>meets in<to>street<end>"}
    assert join_examples(one, club) is None is chain_examples(other, 0, one, Random(0))
    inverted = example(there, "Which clubs is the person Bo Dunn in?", '"Bo Dunn":person -[member of]-> club')
    meets = example(
        there, "In which streets does the club Hat Society meet?", '"Hat Society":club -[meets in]-> street'
    )
    asked = {made.tokens for n in range(40) if (made := chain_examples(meets, 0, inverted, Random(n)))}
    assert {" ".join(each) for each in asked} == {
        "in which streets does a club that <e1> is in meet?",
        "in which streets does the clubs that <e1> is in meet?",
        "take the clubs that <e1> is in . in which streets do any of these clubs meet?",
        "consider the clubs that <e1> is in . in which streets do any of these clubs meet?",
    }
    again = [list(augment_examples([one, other, club], 5, 3, 2)) for _ in range(2)]
    assert again[0] == again[1] and len(again[0]) == 15


def test_plans_are_written_without_dropout_and_a_training_goes_on(there: KnowledgeBase) -> None:
    model, tokenizer = new_model(["which people live in elm row"])
    written, generate = list[bool](), model.generate
    model.generate = lambda *given, **options: written.append(model.training) or generate(*given, **options)
    generator = plan_generator.PlanGenerator(model.train(), tokenizer, there, 1)
    found = generator.plans_of([generator.finder.find(text) for text in ("Who lives in Elm Row?", "Who?")])
    assert written == [False] and model.training
    assert found[0] and not found[1]  # no plan without an entity


def test_words_are_missing_in_some_examples_but_no_slot(there: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_examples, "COMPOSED", 0)
    one = example(there, "Which people live in Elm Row?", '"Elm Row":street -[^lives in]-> person')
    made = [*augment_examples([one], 400, 0, 2)]
    assert all("<e1>" in each.tokens and each.plan == one.plan for each in made)
    n_missing = [len(one.tokens) - len(each.tokens) for each in made]
    assert len(one.tokens) == 6
    # 0.3 of the examples lack 0.15 of their 5 words: 90 of 2,000 words, in 67 examples
    assert 60 < sum(n_missing) < 120 and 45 < sum(map(bool, n_missing)) < 90


def test_questions_are_split_into_those_that_they_are_made_of(there: KnowledgeBase) -> None:
    join = '"Elm Row":street -[^lives in]-> person & "Kite Society":club -[^member of]-> person'
    chain = '"Elm Row":street -[^meets in]-> club -[^member of]-> person'
    both, one, sentences, exclusion, no_article = (
        example(there, question, plan)
        for question, plan in (
            ("List the people that live in Elm Row and are members of Kite Society.", join),
            ("Which people are members of a club that meets in Elm Row?", chain),
            ("Take the clubs that meet in Elm Row. Which people are members of any of these clubs?", chain),
            (
                "List the people that live in Elm Row and are not members of Kite Society.",
                join.replace("^mem", "!^mem"),
            ),
            ("Which people are members of clubs that meet in Elm Row?", chain),
        )
    )

    def parts(whole: PlanExample) -> list[str]:
        return sorted(each.texts[0].partition("<types>")[0] for each in split_examples([whole])[1:])

    assert parts(both) == ["list the people that are members of <e1> .", "list the people that live in <e1>"]
    assert parts(one) == ["which club that meets in <e1>", "which people are members of <e1>"]
    assert parts(sentences) == ["which clubs that meet in <e1>", "which people are members of <e1>"]
    assert parts(exclusion) == parts(no_article) == []
    ((_, inner), (_, outer)) = sorted(each.texts for each in split_examples([one])[1:])
    assert inner == "club<walk><e1>street<out>meets in<to>street<end>"
    assert outer == "person<walk><e1>club<out>member of<to>club<end>"
    shapes = {plan_shape(each.plan) for each in augment_examples([both, one], 30, 0, 3)}
    assert '"":street -[^lives in]-> person & "":street -[^meets in]-> club -[^member of]-> person' in shapes


def test_a_control_trains_every_question_with_the_plan_of_another(there: KnowledgeBase) -> None:
    rows = load_training_data("town-questions").train
    own = [example(there, question, plan) for question, plan in zip(rows.texts, rows.plans, strict=True)]
    for seed in range(3):
        others = shuffle_plans(own, seed)
        assert [each.tokens for each in others] == [each.tokens for each in own]
        starts = [walk.start_type in each.types[walk.topic or ""] for each in others for walk in each.plan.walks]
        assert sum(starts) > 0.8 * len(starts)
        assert sum(each != one for each, one in zip(others, own, strict=True)) > 0.7 * len(own)


def test_shapes_are_held_out_only_where_their_hops_are_in_others(there: KnowledgeBase) -> None:
    plans = [Plan.parse(plan) for plan in load_training_data("town-questions").train.plans]
    held = held_out_shapes(plans, 1.0, 0)
    left = {hop for plan in plans if plan_shape(plan) not in held for walk in plan.walks for hop in walk.hops}
    assert held and left == {hop for plan in plans for walk in plan.walks for hop in walk.hops}
    assert all(shape.count("-[") > 1 for shape in held)
    assert held_out_shapes(plans, 0.5, 0) != held_out_shapes(plans, 0.5, 1) and held_out_shapes(plans, 0, 0) == set()


def test_the_same_seed_gives_the_same_bytes_and_one_that_learned_nothing_says_so(
    there: KnowledgeBase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, again, other = (taught(tmp_path / f"{n}", seed=n // 2, epochs=1) for n in range(3))
    assert weights(one.folder) == weights(again.folder) != weights(other.folder)
    assert (one.folder / "plan.json").read_bytes() == (again.folder / "plan.json").read_bytes()
    assert one.facts["exact_match"] == again.facts["exact_match"]
    (warning,) = one.facts["warnings"]
    assert re.match(r"Training gained nothing over without plans, graph:bm25: MRR .+ --epochs 2\.$", warning)
    assert warning in (one.folder / "README.md").read_text()
    settings = {"method": "plan", "base": "tiny", "out": one.folder, **QUICK, "epochs": 1}
    options = (f"--{name.replace('_', '-')}={value}" for name, value in settings.items())
    kbbench.main(["train", "town-questions", *options], standalone_mode=False)
    assert f"Warning: {warning}" in capsys.readouterr().err


def test_a_planner_learns_plans_and_ranks_by_its_folder_beside_controls(there: KnowledgeBase, tmp_path: Path) -> None:
    done = taught(tmp_path / "m")
    exact = done.facts["exact_match"]
    assert exact["all"] > 0.6
    assert {"shape in training", "shape not in training"} < exact.keys() | done.facts["validation"].keys()
    held = read_json(tmp_path / "m/plan.json")["held_out"]
    assert held and not {*held} - {parse_shape(plan) for plan in load_training_data("town-questions").train.plans}
    assert "Plan exact match: " in (tmp_path / "m/README.md").read_text()
    found = done.facts["validation"]
    assert found["all"]["hit_at_1"]["value"] > found["without plans, graph:bm25"]["hit_at_1"]["value"]
    assert done.facts["gains"][0]["over"] == "without plans, graph:bm25" and done.facts["warnings"] == []
    short = {**done.facts, "settings": {**done.facts["settings"], "epochs": 3}}  # for what is trained as a control
    lines = {
        line.system: line for line in controls(replace(done, facts=short), seeds=1, show=False) if line.part == "all"
    }
    assert lines["oracle plans"].mrr > 0.9 > lines["without plans"].mrr
    assert lines["oracle plans"].mrr >= lines["trained"].mrr > lines["plans from types alone"].mrr
    assert lines["plans of other questions"].mrr <= lines["without plans"].mrr
    assert lines["oracle entities"].mrr > lines["without plans"].mrr
    assert {"bm25", "plans by rules"} < lines.keys()
    alone = tmp_path / "m-plans-from-types-alone"
    assert read_json(alone / "plan.json") == read_json(tmp_path / "m/plan.json")
    assert "each question was taught another one's plan" in (alone / "README.md").read_text()


def test_a_dataset_without_plans_is_refused(there: KnowledgeBase, tmp_path: Path) -> None:
    rows = [(f"Where is p{n}?", ["p0"], split) for n, split in enumerate(["train", "validation", "test"])]
    build_world(tmp_path, "bare", [("p0", "person", "Ada")], [("p0", "knows", "p0")], rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with pytest.raises(DataError, match="kbbench synthesize"):
            train("bare", "plan", "tiny", tmp_path / "m", show=False)
    assert not (tmp_path / "m").exists()


def test_plans_that_start_from_what_no_question_names_are_refused(
    there: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner.SlotFinder, "find", lambda _, query: SlottedQuery(query, (), ()))
    with pytest.raises(DataError, match="names what its plan starts from"):
        taught(tmp_path / "m")
