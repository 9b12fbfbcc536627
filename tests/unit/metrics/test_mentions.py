"""Names under which a sentence mentions an entity, one rule at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.metrics.triples import is_mentioned

SENTENCE = (
    "On 2 May 1989 the UN honoured Müller of the European Space Agency in Albany, Oregon, for 1,104.1 kg of U.S. ore."
)


@pytest.mark.parametrize(
    "entity",
    [
        "european space agency", "European_Space_Agency", '"European Space Agency"', "Albany,_Oregon", "Muller",
        "Albany (city)", "Müller_(physicist)",  # what tells a name apart is not in the sentence
        "United Nations", "United_States", "ESA", "E.S.A.",  # acronyms, either way
        "1104.1", "1104.10 (kilograms)", "2.0",  # numbers by value
        "1989-05-02", "02 May 1989", "01 January 1989", "00 May 1989", "00  1989",  # dates by what is known of them
        "Gerd Müller",  # by the last word, which stands alone
        "", "...",
    ],
)  # fmt: skip
def test_what_the_sentence_mentions(entity):
    assert is_mentioned(SENTENCE, entity)


@pytest.mark.parametrize(
    "entity",
    [
        "Space Station", "Eugene,_Oregon", "NASA", "UK", "1104", "02 June 1989", "1989-05-03", "02 May 1990",
        "National Security Agency",  # "Agency" stands beside another capital
        "gerd müller", "Alb", "on may", "19891-05-02", "02 Mayday 1990",
    ],
)  # fmt: skip
def test_what_it_does_not(entity):
    assert not is_mentioned(SENTENCE, entity)


@given(st.lists(st.text("abcdeÉ1", min_size=1), min_size=1, max_size=6), st.data())
def test_any_words_in_a_row_are_mentioned(words, data):
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    assert is_mentioned(" ".join(words), "_".join(words[start:end]).upper())


@given(st.text(), st.text())
def test_any_texts_can_be_asked_for(sentence, entity):
    assert is_mentioned(sentence, entity) in (True, False)
