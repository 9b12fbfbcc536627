"""Noise by hand: orders, shares, hops, and rows made without a model."""

import hashlib
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.benchmarks.ska_bench.token_counts import (
    PIECES,
    VOCABULARY_SHA256,
    Tokenizer,
    tokenizer,
    vocabulary,
    vocabulary_file,
)
from kbbench_hf.benchmarks.ska_bench.units import (
    UNREACHED,
    Instance,
    Origin,
    TripleGraph,
    UnitPool,
    clean,
    write_passage,
    write_row,
)
from kbbench_hf.building.ska_bench.name_matching import mentions
from kbbench_hf.building.ska_bench.noise import NoiseLibrary
from kbbench_hf.building.ska_bench.unit_orders import measure, merge, shuffle
from kbbench_hf.errors import DataError, UsageError

TABLE = [("Ann", "Oslo", "12"), ("Bo", "Lund", "7"), ("Cy", "Oslo", "9"), ("Di", "Rome", "4")]
POOL = UnitPool(
    sk={"t": TABLE, "u": [("Eve", "Oslo", "1"), ("Fay", "Kiel", "2")], "v": [("x", "y", "z")]},
    headers={"t": ("Name", "City", "Age"), "u": ("name", "City[1]", "Age"), "v": ("A", "B", "C")},
)
QUESTION = Instance(
    "q",
    "table",
    "How many live in Oslo?",
    ("2",),
    "t",
    positive_sk=(0, 2),
    program={"type": "count", "where": [[1, "oslo"]]},
)


def splitmix64(x: int) -> int:
    """The published generator's output function, in whole numbers."""
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.text(max_size=5))
def test_a_shuffle_is_splitmix64_of_key_and_name(keys: list[int], name: str) -> None:
    salt = int.from_bytes(hashlib.sha256(f"42|{name}".encode()).digest()[:8], "little")
    expected = sorted(range(len(keys)), key=lambda n: (splitmix64(keys[n] ^ salt), n))
    assert shuffle(np.array(keys, dtype=np.uint64), name).tolist() == expected


def test_both_sections_keep_their_share_all_along() -> None:
    sk = measure([f"({n}, a, b)" for n in range(200)], in_text=False)
    text = measure([f"Passage {n} says something longer than that." for n in range(200)], in_text=True)
    merged = merge(sk, text, 0.25)
    for budget in (200, 400, 800):
        taken = merged.fitting(budget)
        share = taken.tokens[~taken.in_text].sum() / taken.tokens.sum()
        assert abs(share - 0.25) < 0.06 and taken.tokens.sum() <= budget


def test_hops_count_the_nearer_end_and_walk_both_ways() -> None:
    graph = TripleGraph([("a", "r", "b"), ("c", "r", "b"), ("c", "r", "d"), ("d", "r", "e"), ("x", "r", "y")])
    assert graph.hops(["a"]).tolist() == [1, 2, 3, 4, UNREACHED]
    assert graph.hops(["a", "y"]).tolist() == [1, 2, 3, 4, 1]
    assert graph.hops(["nobody"]).tolist() == [UNREACHED] * 5


def test_the_triples_of_an_entity_are_those_it_ends() -> None:
    graph = TripleGraph([("a", "r", "b"), ("b", "inverse", "a"), ("a", "other", "b"), ("b", "r", "c")])
    assert graph.touching("a").tolist() == [0, 1, 2] and graph.touching("c").tolist() == [3]
    assert graph.touching("nobody").tolist() == []


def test_a_graphs_noise_begins_with_its_topics_and_holds_few_triples_of_any_entity() -> None:
    hub = [("hub", "r", f"n{n}") for n in range(40)]
    pool = UnitPool(sk={"g": [("topic", "r", "hub"), *hub, *(("topic", "s", f"t{n}") for n in range(4))]})
    question = Instance("q", "kg", "?", ("hub",), "g", positive_sk=(0,), topics=("topic",))
    noise = NoiseLibrary(pool).context_units(question).noise.numbers.tolist()
    assert set(noise[:4]) == {41, 42, 43, 44} and len(noise) == 44


def test_near_rows_and_real_ones_stand_in_turn_and_none_twice() -> None:
    near = [("Bo", "Lund", "7"), ("Ann", "Rome", "12"), TABLE[0], ("Cy", "Oslo", "1"), ("Di", "Rome", "9")]
    origins = {"t#near": Origin("x", "y", made=True)}
    pool = UnitPool(sk={**POOL.sk, "t#near": near}, headers=POOL.headers, origins=origins)
    question = replace(QUESTION, noise_groups=("u", "t#near"))
    candidates = NoiseLibrary(pool).context_units(question)
    cells = [pool.structured(question)[number] for number in candidates.noise.numbers.tolist()]
    assert [cells[0], cells[2]] == [near[1], near[4]] and {cells[1], cells[3]} == {TABLE[1], TABLE[3]}
    assert cells[4:] == [("Fay", "Kiel", "2")]  # Eve of Oslo would be counted too


def test_words_are_mentioned_whole() -> None:
    assert mentions("in oslo, norway", "oslo") and not mentions("oslofjord", "oslo")
    assert not mentions("the oslos won", "oslo") and not mentions("a voslo", "oslo")
    assert mentions("voslo, or oslo", "oslo") and mentions("oslos of oslo", "oslo")
    assert mentions("a+b", "+") and mentions("21 1", "1") and not mentions("x", "y")
    assert mentions("", "") and not mentions("x", "")


@given(st.text(min_size=1), st.text(min_size=1))
def test_token_counts_add_up_over_lines(first: str, second: str) -> None:
    lines = [write_passage(("", clean(text) or "x")) for text in (first, second)]
    lines.append(write_row([clean(first), clean(second)]))
    count = tokenizer()
    assert count.count_lines(lines).sum() == count.count("".join(f"{line}\n" for line in lines))


def test_the_vocabulary_is_openais() -> None:
    assert VOCABULARY_SHA256 == "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
    # rs-bpe 0.1.0, an independent implementation: o200k_base().count(the same)
    assert tokenizer().count("hello world  <|endoftext|>\n12345 naïve日本") == 15


def test_another_vocabulary_is_refused_and_an_absent_one_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import toktok

    class Other:
        def token_byte_values(self) -> list[bytes]:
            return [b"a"]

    monkeypatch.setattr(toktok, "_encoding", lambda _: Other())
    with pytest.raises(DataError, match=r"has sha256 5cf7e7c1.*pip install toktok-rs==0\.3\.0"):
        Tokenizer()
    monkeypatch.setitem(sys.modules, "toktok", None)
    with pytest.raises(UsageError, match=r"'toktok-rs' is not installed.*kbbench-hf\[text\]"):
        Tokenizer()


def test_counts_equal_those_of_an_independent_implementation() -> None:
    bpe = pytest.importorskip("rs_bpe.bpe").openai.o200k_base()
    for text in (
        "|Biarritz|26|19||7|",
        "(m.012m0fnn, people.person.sex, Élan)\n",
        "  tabs\tand 1234567 ﬁ 🙂",
        "don't WE'LL",
    ):
        assert tokenizer().count(text) == bpe.count(text)


def test_texts_are_cut_as_tiktoken_itself_cuts_them(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiktoken_ext.openai_public import o200k_base

    name = "fb374d419588a4632f3f557e76b4b70aebbca790"  # the file name under which tiktoken 0.14.0 caches o200k_base
    (tmp_path / name).write_bytes(vocabulary_file(vocabulary()))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert o200k_base()["pat_str"] == PIECES
