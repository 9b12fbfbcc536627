"""Cards are found in a checkout; every dataset that is built from a release has one."""

import pytest

from kbbench_hf.errors import KBBenchError
from kbbench_hf.releases.cards import card


@pytest.mark.parametrize("dataset", ["text2kg-wikidata-tekgen", "text2kg-dbpedia-webnlg", "mini-text2kg"])
def test_a_card_has_front_matter_and_a_licence(dataset: str) -> None:
    text = card(dataset)
    assert text.startswith("---\n")
    assert "\nlicense: " in text


def test_a_dataset_without_a_card_is_refused_with_both_places() -> None:
    with pytest.raises(KBBenchError, match=r"cards/nothing/README\.md or .*dataset_scripts/nothing/README\.md"):
        card("nothing")
