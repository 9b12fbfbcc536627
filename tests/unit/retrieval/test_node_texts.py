import pytest

from kbbench_hf.benchmarks.stark.documents import DOCUMENTS
from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.retrieval.context import Forms, Text, render
from tests.unit.benchmarks.stark.test_documents_prime import prime

PRIME = Forms(DOCUMENTS, "prime")


@pytest.fixture
def kb() -> KnowledgeBase:
    return prime([1, 0], [(0, 1, 1)], [{"summary": "One - two."}, None]).knowledge_base(["TNF", "Pain"])


def test_every_document_is_reachable_by_name_with_relations_and_without(kb: KnowledgeBase) -> None:
    body = "- name: TNF\n- type: gene/protein\n- source: NCBI\n"
    body += "- details:\n  - summary (protein summary text): One - two.\n"
    line = "name: TNF. type: gene/protein. source: NCBI. details: summary (protein summary text): One two.. "
    first = "- relations:\n\n  associated_with: {disease: (Pain),}"
    clean = "TNF\ntype: gene/protein\nid: 0\nname: N0\nsource: NCBI\nsummary: One - two."
    expected = {
        ("name", False): "TNF",
        ("text", False): "TNF",  # the name, since the text is empty
        ("named", False): "name: TNF. type: gene/protein. ",
        ("official", False): body,
        ("official", True): body + "- relations:\n  associated_with: {disease: (Pain),}",
        ("prime", False): body,
        ("prime_first", True): body + first,
        ("compact", False): line.replace(".. ", ". "),
        ("compact", True): line.replace(".. ", ". ") + "relations: associated_with: {disease: (Pain),}",
        ("clean", False): clean,
        (
            "clean",
            True,
        ): clean + "\nassociated with: Pain",
    }
    assert {key: render(kb, PRIME.choose(*key), forms=PRIME)[0] for key in expected} == expected


def test_relations_are_named_where_a_model_usually_reads_them_and_a_text_has_some() -> None:
    assert PRIME.choose("official", usually=True) == Text("prime", relations=True)
    assert PRIME.choose("official", False, usually=True) == Text("prime")
    assert PRIME.choose("named", usually=True) == Text("named")


def test_a_knowledge_base_without_documents_of_its_own_has_the_clean_one() -> None:
    assert Forms().names == ["text", "named", "name", "clean", "compact"]
    assert Forms().choose("compact") == Text("clean_compact")


def test_an_unknown_text_is_refused_with_all_there_are(kb: KnowledgeBase) -> None:
    with pytest.raises(UsageError, match=r"'compakt'.*Did you mean 'compact'.*official.*prime_first_compact"):
        PRIME.choose("compakt")
    with pytest.raises(UsageError, match="text=name includes no neighbors; expected relations=no, or one of clean"):
        PRIME.choose("name", True)
    with pytest.raises(UsageError, match="has no official document; expected text=clean"):
        Forms().choose("official")
