import math
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbbench_hf.retrieval import bm25
from kbbench_hf.retrieval.bm25 import BM25
from kbbench_hf.text.words import TERM, break_words

TEXTS = st.lists(
    st.lists(st.sampled_from("red green blue apple pear plum".split()), max_size=6).map(" ".join),
    min_size=2,
    max_size=12,
)


def test_a_score_is_lucenes_formula() -> None:
    # three texts of 2, 2 and 5 words (mean 3); "pear" in two of them, once each, k1 = 1.5, b = 0.75
    # idf = ln(1 + (3 - 2 + 0.5) / (2 + 0.5)); text 1: tf part 1 / (1 + 1.5 (0.25 + 0.75 * 2/3)); text 2: 5/3 instead
    found = BM25(["red apple", "green pear", "pear plum fig lime kiwi"]).search(["pear"], 3)
    idf = math.log(1 + 1.5 / 2.5)
    short, long = (idf / (1 + 1.5 * (0.25 + 0.75 * words / 3)) for words in (2, 5))
    assert found.ids.tolist() == [[1, 2, 0]]
    assert found.scores[0] == pytest.approx([short, long, 0.0])


def test_nodes_of_equal_text_keep_their_places_side_by_side() -> None:
    assert BM25(["plum", "pear", "plum", "pear", "pear"]).search(["pear"], 5).ids.tolist() == [[1, 3, 4, 0, 2]]


def test_a_word_asked_twice_counts_twice() -> None:
    model = BM25(["red apple", "green pear"])
    once, twice = (model.search([query], 1).scores[0, 0] for query in ("pear", "pear pear"))
    assert twice == pytest.approx(2 * once)


def test_a_query_of_unknown_words_gets_the_first_nodes_at_zero() -> None:
    found = BM25(["red apple", "green pear"]).search(["", "the", "zebra"], 2)
    assert found.ids.tolist() == [[0, 1]] * 3
    assert not found.scores.any()


def test_texts_without_words_can_be_searched() -> None:
    assert BM25(["", "the"]).search(["pear"], 3).ids.tolist() == [[0, 1, -1]]


def test_no_query_gives_no_row() -> None:
    assert BM25(["red"]).search([], 4).ids.shape == (0, 4)


@settings(max_examples=60)
@given(
    TEXTS,
    st.lists(st.sampled_from("red green blue apple pear plum fig the".split()), min_size=1, max_size=4).map(" ".join),
    st.sampled_from(["lucene", "robertson", "atire", "bm25l", "bm25+"]),
    st.sampled_from([(1.5, 0.75), (0.9, 0.4), (2.0, 1.0)]),
    st.integers(1, 5),
)
def test_scores_are_those_of_bm25s(
    texts: list[str], query: str, method: str, settings: tuple[float, float], part: int
) -> None:
    import bm25s

    if not any(texts):
        return
    k1, b = settings
    index = bm25s.BM25(method=method, k1=k1, b=b)
    index.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    tokens = bm25s.tokenize([query], stopwords="en", return_ids=False, show_progress=False)
    _, expected = index.retrieve(tokens, k=len(texts), show_progress=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25, "PART", part)
        found = BM25(texts, k1, b, method).search([query], len(texts)).scores
    assert np.array_equal(found, expected.astype(np.float64))


WORDS = {
    "Chinese": (["黄山是著名的旅游城市", "举头望明月，低头思故乡", "一种绿茶，产于杭州"], "哪首诗提到故乡？", 1),
    "one Chinese character": (["绿茶产于杭州", "安徽省简称 皖", "举头望明月"], "皖", 1),
    "mixed scripts": (["新款平板电脑", "iPhone手机壳", "Pixel手机膜"], "iphone手机", 1),
    "full-width letters": (["ＷｉＦｉ路由器", "ＵＳＢ充电器"], "usb", 1),
    "Japanese": (["東京タワーは赤い", "京都の古い寺", "大阪の城"], "古い寺はどこですか", 1),
    "half-width kana": (["赤いﾀﾜｰ", "古いテラ", "橋"], "タワー", 0),
    "Thai": (["วัดเก่าในเชียงใหม่", "ตลาดน้ำใกล้กรุงเทพ", "สะพานข้ามแม่น้ำ"], "ตลาดน้ำอยู่ที่ไหน", 1),
    "Lao": (["ວັດເກົ່າຫຼວງພະບາງ", "ຕະຫຼາດນ້ຳ", "ຂົວ"], "ຕະຫຼາດຢູ່ໃສ", 1),
    "Khmer": (["ប្រាសាទអង្គរវត្ត", "ផ្សារធំថ្មី", "ទន្លេសាប"], "ផ្សារនៅឯណា", 1),
    "Burmese": (["ရွှေတိဂုံဘုရား", "အင်းလေးကန်", "ပုဂံမြို့ဟောင်း"], "အင်းလေးကန်ဘယ်မှာလဲ", 1),
    "a Burmese syllable": (["ပုသိမ်သည်ထီးကြောင့်", "စစ်တွေသည်ငါးကြောင့်"], "ငါးဘယ်မြို့လဲ", 1),
    "Korean particles": (["서울의 탑", "부산에 있는 시장", "대구 다리"], "부산은 어디입니까", 1),
    "decomposed Korean": (["서울의 탑", unicodedata.normalize("NFD", "부산 시장"), "대구"], "부산에", 1),
    "Hindi": (["नदी पर पुल", "पुरानी किताब", "कितनी दूर"], "किताब कहाँ है", 1),
    "vowelled Arabic": (["جِسْرٌ قَدِيم", "كِتَابٌ جَدِيد"], "كتاب", 1),
}


@pytest.mark.parametrize("language", WORDS)
def test_words_are_found_in_scripts_without_blanks_and_with_marks(language: str) -> None:
    texts, query, right = WORDS[language]
    model = BM25(texts)
    assert model.search([query], 1).ids.tolist() == [[right]]
    assert model.matched([query, "zebra"]).tolist() == [True, False]


@given(st.text(st.characters(max_codepoint=0x058F, exclude_categories=["Cs"])))
def test_texts_in_latin_greek_and_cyrillic_letters_keep_the_terms_of_bm25s(text: str) -> None:
    assert break_words(text) == text
    assert re.findall(TERM, text) == re.findall(r"(?u)\b\w\w+\b", text)
