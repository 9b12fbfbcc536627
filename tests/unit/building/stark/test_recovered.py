"""Templates of released questions are found where one alone is left, and in no other case."""

import pyarrow as pa
import pytest

from kbbench_hf.benchmarks import shipped_dataset
from kbbench_hf.building.stark.release import QUESTIONS, named_nodes, recovered_templates, with_templates
from kbbench_hf.building.synthesis.questions import make_questions
from kbbench_hf.building.synthesis.spec import SynthesisSpec
from kbbench_hf.knowledge_base.store import KnowledgeBase

TARGETS = "function -[^has]-> gene -[^targets]-> drug"
CARRIERS = "function -[^has]-> gene -[^carries]-> drug"
SIDE_EFFECTS = "gene -[^targets]-> drug -[causes]-> effect"
ALL = [TARGETS, CARRIERS, SIDE_EFFECTS]


@pytest.fixture(scope="module")
def kb() -> KnowledgeBase:
    """900 drugs; one function of three genes, of which drugs 0 and 1 target some, drugs 1 and 2 carry some."""
    nodes = [(f"d{n}", "drug", f"Drug {n}") for n in range(900)] + [(f"g{n}", "gene", f"ABC{n}") for n in range(40)]
    nodes += [("f0", "function", "polysaccharide binding"), ("f1", "function", "binding"), ("e0", "effect", "itch")]
    edges = [(f"g{n}", "has", "f0") for n in range(3)] + [(f"g{n}", "has", "f1") for n in range(40)]
    edges += [("d0", "targets", "g0"), ("d1", "targets", "g1"), ("d1", "carries", "g2"), ("d2", "carries", "g0")]
    edges += [(f"d{n}", "targets", f"g{n % 37 + 3}") for n in range(3, 900)]
    return KnowledgeBase.from_arrow(
        pa.table(
            dict(zip(("id", "type", "name"), zip(*nodes, strict=True), strict=True)) | {"text": [""] * len(nodes)}
        ),
        pa.table(dict(zip(("head", "relation", "tail"), zip(*edges, strict=True), strict=True))),
    )


def test_the_one_template_that_leads_from_the_names_to_all_answers_is_found(kb):
    asked = "Which medicine acts upon genes with Polysaccharide-binding?"
    assert recovered_templates(kb, ALL, [(asked, ["d0"]), (asked, ["d2"])]) == [TARGETS, CARRIERS]


def test_two_templates_leave_it_open(kb):
    assert recovered_templates(kb, ALL, [("Drugs about polysaccharide binding?", ["d1"])]) == [None]


def test_an_answer_that_the_template_does_not_give_leaves_it_open(kb):
    assert recovered_templates(kb, ALL, [("Drugs about polysaccharide binding?", ["d0", "d9"])]) == [None]


def test_a_single_relation_that_leads_there_too_leaves_it_open(kb):
    asked = "Drugs for ABC0, which has polysaccharide binding?"
    assert recovered_templates(kb, ALL, [(asked, ["d0"])]) == [None]


def test_what_most_nodes_would_meet_proves_nothing(kb):
    # Nearly all drugs target a gene with binding: that this one does says nothing of the question.
    assert recovered_templates(kb, ALL, [("Which drug is about binding?", ["d50"])]) == [None]


def test_templates_of_another_type_are_no_chances(kb):
    # Four sets of topics of the answer's type are below the limit of chance; two more would not be.
    asked = "Which drugs act on polysaccharide binding, or another kind of binding?"
    assert recovered_templates(kb, [*ALL, "function -[^has]-> gene"], [(asked, ["d0"])]) == [TARGETS]


def test_a_template_within_another_one_is_never_said_for_the_other_topic_may_be_unnamed(kb):
    both = "function -[^has]-> gene -[^targets]-> drug <-[^causes]- effect"
    assert recovered_templates(kb, [TARGETS, both], [("Drugs about polysaccharide binding?", ["d0"])]) == [None]


def test_a_name_within_a_longer_one_is_not_named(kb):
    (named,) = named_nodes(kb, ["Is it polysaccharide binding, by abc7?"])
    assert {kind: kb.ids(rows) for kind, rows in named.items()} == {"function": ["f0"], "gene": ["g7"]}


def test_columns_are_filled_in_by_question_and_people_have_none(kb):
    row = {"id": 4, "query": "Which acts on polysaccharide binding?", "answer_ids": [1], "flags": []}
    queries = {split: pa.Table.from_pylist([row], QUESTIONS) for split in ("train", "human")}
    numbered = pa.table({**dict(zip(kb.nodes.column_names, kb.nodes.columns, strict=True)), "id": range(len(kb))})
    numbered = numbered.set_column(1, "type", numbered["type"].cast(pa.string()))
    edges = kb.edges.set_column(
        1, "relation", pa.array([kb.graph.relations[each] for each in kb.edges["relation"].to_pylist()])
    )
    queries["train"] = pa.Table.from_pylist([{**row, "answer_ids": [0]}], QUESTIONS)
    filled = with_templates(queries, ALL, numbered, edges)
    assert [filled[split]["template"].to_pylist() for split in ("train", "human")] == [[TARGETS], [None]]
    assert filled["train"].schema == QUESTIONS


def test_of_made_questions_none_is_given_another_template():
    """Their templates are known; the question is the only thing that is looked at besides the answers."""
    kitchen = KnowledgeBase.open(shipped_dataset("mini-stark").path)
    built = make_questions(kitchen, SynthesisSpec(max_hops=2, max_templates=12), 60, "7")
    templates = sorted({each.template.template.metapath for each in built.questions})
    asked = [(each.text, kitchen.ids(list(each.answers))) for each in built.questions]
    pairs = zip(recovered_templates(kitchen, templates, asked), built.questions, strict=True)
    found = [(one, each.template.template.metapath) for one, each in pairs if one is not None]
    assert len(found) >= 5 and all(one == made for one, made in found)
