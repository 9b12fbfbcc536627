"""The forms in which sentences name entities, one way of writing at a time, and against what a reader found."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.metrics.mention_forms import _is_written, find_forms, find_mention, find_mentions
from kbbench_hf.text.quantities import find_quantities, parse_quantity

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
    The cook was Fay. | Ada Bea Cid Dov Eva Fay | Fay
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
    The mate was Gil. | Ada Bea Cid Dov Eva Fay Gil |
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


# Subject and object of a triple with the words of their mentions; "-" is absent. Sentences of our own.
PAIRS = """
a name inside the longer name of something else is no mention
    KX 9 stands beside Tarn Pike. | KX 9 : KX 9 | Tarn : -
    KX 9 lies in the Lyra Minor Cluster. | KX 9 : KX 9 | Lyra Minor : -
    A sequel, Salt Wasp 2, came. | Salt Wasp : - | Salt Wasp 2 : Salt Wasp 2
    The Salt Wasp 2 was shown. | Salt Wasp : - | shown : shown
    It ran at the Symposium on Tidal Medicine by Ida Voss. | Tidal Medicine : - | Ida Voss : Ida Voss
a country, a kind, a version, a quantity and a person's number make no other name
    Salt Air of Japan 3 left Norway Ridge. | Salt Air : Salt Air | Norway : Norway
    Quill led Army Group South. | Quill : Quill | Army : Army
    On Salt OS 3.1 Quill ran. | Salt OS : Salt OS | Quill : Quill
    In Brede 12 people sang. | Brede : Brede | people : people
    Lars Holm III, a rower, won. | Lars Holm : Lars Holm | rower : rower
the same words serve one end of a triple
    Quill is a suite. | Quill : Quill | GNU Quill : -
    Quill is a suite by Quill. | Quill : Quill | Quill : Quill
    Blue Fern is an album. | Blue Fern : Blue Fern | Blue fern : -
    Blue Fern is a club. | Blue_Fern : Blue Fern | "Blue Fern" : Blue Fern
    The new Dredge film is unlike Judge Dredge. | Dredge : Dredge | Judge Dredge : Judge Dredge
    In Akron, Ohio, it rains. | Akron,_Ohio : Akron, Ohio | Ohio : Ohio
    Ed joined Lyra Minor Choir. | Lyra Minor : - | Lyra Minor Choir : Lyra Minor Choir
    Bell Township is where Bell is. | Bell,_Ohio : Bell | Bell_Township : Bell Township
common words before the kind, and the kind before the name
    Quill lies in the Grey Bay drainage basin. | Quill : Quill | Grey Bay Basin : Grey Bay drainage basin
    The lake of Bell House froze. | Bell_Lake : - | froze : froze
    The grounds of the Inn. One burnt. | Inn_Grounds : grounds of the Inn | burnt : burnt
    Near Grey Bay, low basin land froze. | Grey Bay Basin : - | froze : froze
two words with a preposition between them are no name
    Lake at Orrin froze. | Orrin Lake : - | froze : froze
    Oxford University won. | University_of_Oxford : Oxford University | won : won
    The Mexican dish cost a peso in Mexico. | Mexico : Mexico | Mexican_peso : peso in Mexico
other words for the same thing
    A Salt Wasp was out in hardback. | A Salt Wasp : A Salt Wasp | Hardcover : hardback
    Holm is a Tory; a tory is not. | Holm : Holm | Conservative_Party_(UK) : Tory
    Quill's workers are conservatives. | Quill : Quill | Conservative_Party_(UK) : -
    Quill plays for Irlam Football Club. | Quill : Quill | Irlam_F.C. : Irlam Football Club
another form of the given name
    Sophia Helena Marsh was young. | Sophie Marsh : Sophia Helena Marsh | young : young
    Evangelista Rossi sang. | Evan Rossi : Evangelista Rossi | sang : sang
    Mark Holm sang. | Mary Holm : - | sang : sang
    Robert Marsh sang. | Rupert Marsh : - | sang : sang
other endings
    The printed book is long. | book : book | Print : printed
    Quill is a mathematician. | Quill : Quill | Mathematics : mathematician
youth teams and teams of women
    Ed is in the youth team of Norland. | Ed : Ed | Norland_national_youth_team : youth team of Norland
    Norland U17 won. | won : won | Norland_national_under-17_football_team : Norland U17
    The Norland youth team won. | won : won | Norland_national_football_team : -
    The Norland team won. | won : won | Norland_national_youth_football_team : -
descriptions in other words
    Soldiers of the Oss army fell at Ny. | fell : fell | Oss Army soldiers killed in war at Ny : -
    Soldiers of the Oss army, dead in war at Ny. | dead : dead | Oss Army soldiers killed in war at Ny : ...
seasons with the year elsewhere
    The 2015 season, third of its kind, of the Oak Row Club Cup ended. | ended : ended | 2015 Oak Row Club Cup : ...
    In 2015 Ed won; he rode in each other race of the land and in the Oak League. | Ed : Ed | 2015 Oak League : -
one long word spelled differently
    Quill's style is Tudor and Jacobean. | Quill : Quill | Tudor_and_Jacabian : Tudor and Jacobean
dates and numbers in the words of the sentence
    Quill came out on June 9th, 2006, in Rome. | Quill : Quill | 2006-06-09 : June 9th, 2006
    Quill came out in 1972. | Quill : Quill | 01 January 1972 : 1972
    Quill lies at 83.2 metres. | Quill : Quill | 83.2104 : 83.2
    Quill's area is 9,833,520. | Quill : Quill | 9833520000000.0 : 9,833,520
    Quill lies at 83.3 metres. | Quill : Quill | 83.2104 : -
    Quill took three minutes and sixteen seconds. | Quill : Quill | 3.16 : three minutes and sixteen seconds
words as the sentence writes them
    The (152) Orr rock has an Orr Hall (Bell) note of 7.5. | (152)_Orr : (152) Orr | 7.5 : 7.5
    Quill was built by Bell & Sons. | Quill : Quill | Bell_and_Sons : Bell & Sons
"""


def pairs():
    for line in PAIRS.strip().splitlines():
        if line.startswith(" "):
            sentence, *ends = (part.strip() for part in line.split(" | "))
            yield (sentence, *(end.rpartition(" : ")[::2] for end in ends))


@pytest.mark.parametrize(("sentence", "subject", "obj"), list(pairs()))
def test_the_ends_of_a_triple_are_found_in_other_words_and_apart(sentence, subject, obj):
    found = find_mentions(sentence, subject[0], obj[0])
    for (_, words), mention in zip((subject, obj), found, strict=True):
        assert mention.found == (words != "-")
        assert words in ("-", "...") or mention.words == words


def test_mode_repaired_2_knows_no_paraphrases():
    sentence = "A Salt Wasp, out in hardback, is set in the Salt Wasp Cluster."
    assert [each.found for each in find_forms(sentence, "Salt Wasp", "Hardcover")] == [True, False]
    assert find_forms("Lyra Minor Cluster", "Lyra Minor", "x")[0].found


@given(st.text(), st.text())
def test_any_texts_can_be_asked_for(sentence, entity):
    for mention in (find_mention(sentence, entity), *find_mentions(sentence, entity, sentence)):
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


@pytest.mark.parametrize(
    ("gold", "written", "is_written"),
    [
        ("252.34", "252.3", True), ("252.34", "252.4", False), ("3.14", "3.1", False), ("45", "45", True),
        ("12345000", "12345", True), ("12000", "12", False), ("12345", "12.345", False), ("1234567", "1235", False),
        ("9833520", "9.8 million", True),
    ],
)  # fmt: skip
def test_a_number_is_written_rounded_or_in_a_larger_unit(gold: str, written: str, is_written: bool) -> None:
    quantity, (found, *_) = parse_quantity(gold), find_quantities(written)
    assert quantity is not None and _is_written(quantity, found) == is_written
