"""The forms in which sentences name entities, one way of writing at a time, and against what a reader found."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.metrics.mention_forms import find_mention, find_mentions

NAMED = """
verbatim
    Müller wrote it. | Muller | Müller
    by Yıldız and others | Yildiz | Yıldız
    AC Lumezzane won. | A.C._Lumezzane | AC Lumezzane
    J. R. R. Tolkien wrote | J.R.R. Tolkien | J. R. R. Tolkien
    at FÃ©lix Lab | Félix Lab | Félix Lab
    A Woman's Worth is a song | A Woman 's Worth | A Woman's Worth
    Totoro is a film | Totoro (film) | Totoro
    the Second World War | 2nd World War | Second World War
    Saint Louis and | St._Louis | Saint Louis
    at −7 degrees | &minus;7 | 7
    on USS-12 it | USS 12 | USS-12
short
    Later, Conrad commanded it. | Pete Conrad | Conrad
    as van Koeverden was | Adam van Koeverden | van Koeverden
    Guivarc'h left France | Stéphane Guivarc'h | Guivarc'h
    General Good flew | Michael T. Good | Good
    Then Frederick was a patron | Frederick II , Holy Roman Emperor | Frederick
    founded by Kempe Gowda in | Kempe_Gowda_I | Kempe Gowda
    Anaheim is a city | Anaheim,_California | Anaheim
    in Orange County, part of | Orange_County,_California | Orange County
    how HtDP was designed | How to Design Programs | HtDP
    the C128 to run | Commodore 128 | C128
    of the U.N. and | United_Nations | U.N.
    The European Space Agency built | ESA | European Space Agency
    itself the League of Communists in | League of Communists of Yugoslavia | League of Communists
    English is spoken | English_language | English
    The Enco flows | Enco River | Enco
    Texas has Native Americans too | Native_Americans_in_the_United_States | Native Americans
    The Conquerors is the fourth | Age of Empires II : The Conquerors | The Conquerors
    by FC Magdeburg in | 1._FC_Magdeburg | FC Magdeburg
    joined Juventus as | Juventus_F.C. | Juventus
    Sibal, a Republican, was | Republican_Party_(United_States) | Republican
    from the U.S. and | United_States | U.S.
    from the UK | United_Kingdom | UK
    where Lumezzane has | A.C._Lumezzane | Lumezzane
alias
    Stanislav Yevgrafovich Petrov was | Stanislav Petrov | Stanislav Yevgrafovich Petrov
    Theodore M. Berry (born 1905) | Ted Berry | Theodore M. Berry
    by Guy Kirwan. | Guy M. Kirwan | Guy Kirwan
    Gustaf Mannerheim rose | Carl Gustaf Emil Mannerheim | Gustaf Mannerheim
    at Oxford University | University_of_Oxford | Oxford University
    founded on sour cream and raisins | Raisins, Sour Cream | sour cream and raisins
    Eliezer Shkedy is a general | Eliezer Shkedi | Eliezer Shkedy
    The President leads the U.S. here | President_of_the_United_States | President leads the U.S.
inflected
    many bacon sandwiches here | Bacon_sandwich | bacon sandwiches
    with tomatoes and | Tomato | tomatoes
    the Italian sauce | Italy | Italian
    by the American, Karl | Americans | American
    a singer | Singing | singer
    the Chinese women's team | China women 's team | Chinese women's team
date_form
    on July 20th, 2001, in Rome | 2001-07-20 |
    on 11th July 1907 | "1907-07-11" |
    since 1972. | 01 January 1972 |
    since 1972. | 00  1972 |
    in 1947 he | 1947-01-01 |
    In May 1997 he | 00 May 1997 |
    born in 1942 on January, 1 | 1942-01-01 |
number_form
    1,099 labs | 1099.0 |
    58 minutes and 41 seconds | 58.41 |
    252 metres long | 252000.0 (millimetres) |
    $875.4 million | 875400000 |
    3,544 square kilometers | 3544040000.0 |
    fifty-six men | 56 |
absent
    The film was released by Summit. | Cold Pursuit |
    the vice president of the United States | President of the United States |
    in 2001. | 20 July 2001 |
    in July 2001. | 20 July 2001 |
    on 21 July 2001. | 20 July 2001 |
    Carl Brewer won. | Eric Brewer |
    the Agency said | European Space Agency |
    The film Bad Boys | Bad Boys II |
    early American involvement | The Quiet American |
    Reign in Blood is | Raining Blood |
    It was released | It (film) |
    at 1,099 and 10.99 | 99 |
    the Great Russian Encyclopedia | Great Soviet Encyclopedia |
    It won the Giro d'Italia | 2019 Giro d'Italia |
    Oddworld: Soulstorm is | Oddworld : New ' n ' Tasty ! |
"""


def cases():
    form = ""
    for line in NAMED.strip().splitlines():
        if line.startswith(" "):
            sentence, entity, words = (part.strip() for part in line.split("|"))
            yield sentence, entity, form, words
        else:
            form = line


@pytest.mark.parametrize(("sentence", "entity", "form", "words"), list(cases()))
def test_the_form_and_the_words_are_found(sentence, entity, form, words):
    assert find_mention(sentence, entity) == (form, words)


def test_an_answer_in_another_unicode_form_is_the_same_name():
    assert find_mention("by Bjo\u0308rn Ha\u0308rtel", "Björn_Härtel") == ("verbatim", "Björn Härtel")


def test_a_subject_inside_the_objects_name_is_not_named():
    sentence = "A sequel, Magicka 2, was announced."
    assert [each.form for each in find_mentions(sentence, "Magicka", "Magicka 2")] == ["absent", "verbatim"]
    assert [each.form for each in find_mentions(f"Magicka? {sentence}", "Magicka", "Magicka 2")] == ["verbatim"] * 2
    assert [each.form for each in find_mentions("Akron, Ohio", "Akron,_Ohio", "Ohio")] == ["verbatim"] * 2


@given(st.text(), st.text())
def test_any_texts_can_be_asked_for(sentence, entity):
    mention = find_mention(sentence, entity)
    assert mention.found or not mention.words


@given(st.lists(st.text("bcdeÉ1", min_size=2), min_size=1, max_size=6), st.data())
def test_words_in_a_row_are_named_word_for_word(words, data):
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    assert find_mention(" ".join(words), "_".join(words[start:end]).upper()).form == "verbatim"


def test_what_a_reader_found_named_is_found(shared):
    lines = (shared / "data/text2kgbench/answerability.jsonl").read_text(encoding="utf-8").splitlines()
    readings = [each for each in map(json.loads, lines) if not each["borderline"]]
    missing = {"wikidata_tekgen": [], "dbpedia_webnlg": []}  # (flagged as not named, read as not named)
    for each in readings:
        subject, _, obj = each["triple"]
        flagged = not all(mention.found for mention in find_mentions(each["sentence"], subject, obj))
        missing[each["dataset"]].append((flagged, not (each["subject_mentioned"] and each["object_mentioned"])))
    wikidata = missing["wikidata_tekgen"]
    right = sum(flagged and read for flagged, read in wikidata)
    assert right / sum(flagged for flagged, _ in wikidata) >= 0.9
    assert right / sum(read for _, read in wikidata) >= 0.9
    false_alarms = sum(flagged and not read for flagged, read in missing["dbpedia_webnlg"])
    assert false_alarms / len(missing["dbpedia_webnlg"]) <= 0.05
