from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.benchmarks.stark.documents.amazon import RENDERING
from kbbench_hf.knowledge_base.documents import render
from tests.unit.knowledge_base.slow_stark import SlowSTaRK, on_one_line

TYPES = ["product", "brand", "category", "color"]
RELATIONS = ["also_buy", "also_view", "has_brand", "has_category", "has_color"]
NAN = float("nan")


def product(title: str, **fields: Any) -> dict[str, Any]:
    return {"review": [], "qa": [], "title": title, "feature": [], "description": []} | fields


def amazon(records: list[dict[str, Any]], types: list[int], edges: list[tuple[int, int, int]]) -> SlowSTaRK:
    return SlowSTaRK(records, types, TYPES, RELATIONS, edges)


def names(slow: SlowSTaRK) -> list[str]:
    keys = ["title", "brand_name", "category_name", "color_name"]
    return [record[keys[kind]] for record, kind in zip(slow.records, slow.types, strict=True)]


def test_a_product_is_written_as_stark_writes_it() -> None:
    rope = product(
        "Rope",
        brand="Acme",
        details={"product_dimensions": "3 x 2 inches ; 4 ounces"},
        description=["Strong.", "Long. "],
        feature=["10 m", "ASIN: B00", "", "blue"],
        review=[
            {"summary": "ok", "reviewText": "fine", "vote": NAN},
            {"summary": NAN, "reviewText": "great", "vote": "1,200"},
            {"summary": "no", "reviewText": "bad", "vote": "3"},
        ],
        qa=[{"question": "how long?", "answer": "10 m"}],
    )
    slow = amazon([rope, product("Hook"), {"brand_name": "Acme"}], [0, 0, 1], [(0, 1, 1), (1, 0, 0), (0, 2, 2)])
    body = (
        "- product: Rope\n- brand: Acme\n- dimensions: 3 x 2 inches\n- weight: 4 ounces\n"
        "- description: Strong. Long.\n- features: \n#1: 10 m\n#4: blue\n"
        '- reviews: \n#2:\nsummary: nan\ntext: "great"\n#3:\nsummary: no\ntext: "bad"\n#1:\nsummary: ok\ntext: "fine"\n'
        '- Q&A: \n#1:\nquestion: "how long?"\nanswer: "10 m"\n'
    )
    # One viewed, the other bought: the pair counts as bought only, as everywhere upstream.
    related = "- relations:\n  products also purchased: \n#1: Hook\n  brand: Acme\n"
    kb = slow.knowledge_base(names(slow))
    assert render(kb, RENDERING, [0])[0].as_py() == body + related == slow.amazon(0, relations=True)
    assert render(kb, RENDERING, [0], relations=False)[0].as_py() == body


def test_brands_categories_and_colours_are_their_names_and_stay_so_on_one_line() -> None:
    records = [{"brand_name": "A - B"}, {"category_name": "ropes"}, {"color_name": "red"}, product("R")]
    slow = amazon(records, [1, 2, 3, 0], [(3, 2, 0), (3, 3, 1), (3, 4, 2)])
    kb = slow.knowledge_base(names(slow))
    expected = ["brand name: A - B", "category name: ropes", "color name: red"]
    assert render(kb, RENDERING).to_pylist()[:3] == render(kb, RENDERING, compact=True).to_pylist()[:3] == expected


def test_reviews_and_questions_end_with_the_twenty_seventh() -> None:
    many = product("R", review=[{"summary": f"s{i}", "reviewText": "t", "vote": None} for i in range(40)])
    many["qa"] = [{"question": f"q{i}", "answer": "a"} for i in range(40)]
    slow = amazon([many], [0], [])
    document = render(slow.knowledge_base(["R"]), RENDERING)[0].as_py()
    assert document == slow.amazon(0, relations=True)
    assert document.count("summary: ") == document.count("question: ") == 27
    assert "#27:\nsummary: s26" in document


def test_a_product_whose_features_all_name_its_asin_keeps_the_heading() -> None:
    slow = amazon([product("R", feature=["asin B1"])], [0], [])
    assert render(slow.knowledge_base(["R"]), RENDERING)[0].as_py() == "- product: R\n- features: \n"


def test_a_sample_takes_so_many_of_each_relation() -> None:
    slow = amazon([product(f"P{i}") for i in range(9)], [0] * 9, [(0, i % 2, i) for i in range(1, 9)])
    document = render(slow.knowledge_base(names(slow)), RENDERING, [0], n_rel=2)[0].as_py()
    assert document.count("#1: P") == document.count("#2: P") == 2
    assert "#3" not in document


texts = st.sampled_from(["a", "asin", "x - y", "", "ü ", "two\nlines"])
reviews = st.fixed_dictionaries(
    {"summary": texts | st.just(NAN), "reviewText": texts, "vote": st.sampled_from([NAN, None, "2", "1,000"])}
)
products = st.fixed_dictionaries(
    {
        "review": st.lists(reviews, max_size=4),
        "qa": st.lists(st.fixed_dictionaries({"question": texts, "answer": texts}), max_size=3),
        "title": texts,
        "feature": st.lists(texts, max_size=4),
        "description": st.lists(texts, max_size=3),
    },
    optional={
        "brand": texts,
        "details": st.just("")
        | st.fixed_dictionaries({}, optional={"product_dimensions": st.sampled_from(["1 ; 2", "1", "1 ; 2 ; 3"])}),
    },
)


@st.composite
def bases(draw: st.DrawFn) -> SlowSTaRK:
    records = draw(st.lists(products, min_size=1, max_size=7))
    n = len(records)
    types = [0] * n + [1] * 2 + [2, 3]
    others = [{"brand_name": "b0"}, {"brand_name": "b1"}, {"category_name": "c"}, {"color_name": "r"}]
    some = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(some, st.integers(0, 1), some), max_size=25))
    edges += draw(st.lists(st.tuples(some, st.just(2), st.integers(n, n + 1)), max_size=6))
    edges += [(0, 3, n + 2), (0, 4, n + 3)]
    return amazon(records + others, types, edges)


@given(bases())
def test_every_document_is_that_of_the_slow_reference(slow: SlowSTaRK) -> None:
    kb = slow.knowledge_base(names(slow))
    for relations in (True, False):
        expected = [slow.amazon(i, relations) for i in range(len(slow.types))]
        assert render(kb, RENDERING, relations=relations).to_pylist() == expected
        on_lines = [on_one_line(text) if kind == 0 else text for text, kind in zip(expected, slow.types, strict=True)]
        assert render(kb, RENDERING, relations=relations, compact=True).to_pylist() == on_lines
