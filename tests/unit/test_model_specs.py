import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.addresses import is_importable
from kbbench_hf.errors import UsageError
from kbbench_hf.model_specs import Spec, one_of, parse, positive

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True).filter(lambda name: name != "graph")
OPTIONS = st.dictionaries(NAMES, st.from_regex(r"[A-Za-z0-9./-]{1,6}", fullmatch=True), max_size=3)
MODELS = st.from_regex(r"[A-Za-z0-9./@_-]{1,8}", fullmatch=True).filter(lambda model: "@" not in model)
LEAVES = st.builds(Spec, NAMES, st.one_of(st.just(""), MODELS), st.just(()), OPTIONS)
SPECS = st.recursive(
    LEAVES,
    lambda inner: st.builds(Spec, NAMES, st.just(""), st.lists(inner, min_size=1, max_size=3).map(tuple), OPTIONS),
)


@given(SPECS)
def test_the_spelling_of_a_spec_reads_back_as_the_same_spec(spec: Spec) -> None:
    assert parse(str(spec)) == spec


def test_an_option_belongs_to_the_model_before_it() -> None:
    spec = parse("rrf(bm25@b=0.5,k1=1,dense:org/model@batch=8)@k=10")
    assert spec.options == {"k": "10"}
    assert [part.options for part in spec.parts] == [{"b": "0.5", "k1": "1"}, {"batch": "8"}]


def test_a_colon_and_brackets_both_name_the_base_of_a_graph_ranker() -> None:
    assert parse("graph:bm25@b=0.5") == parse("graph(bm25@b=0.5)")
    assert parse("graph(bm25)@depth=5").options == {"depth": "5"}


def test_a_folder_may_contain_an_at_sign() -> None:
    assert parse("dense:/home/me@work/model@batch=2").model == "/home/me@work/model"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "found the end at character 1"),
        ("BM25", "Did you mean bm25?"),
        ("rrf(bm25", "found the end at character 9"),
        ("rrf()", "found ')' at character 5"),
        ("bm25)", "Did you mean bm25?"),
        ("bm25@", "Did you mean bm25?"),
        ("bm25@b=1,", "Did you mean bm25?"),
        ("dense:", "found the end at character 7"),
    ],
)
def test_a_malformed_name_is_refused_with_the_place(text: str, found: str) -> None:
    with pytest.raises(UsageError, match=r"is not a valid model name|Unknown model") as error:
        parse(text)
    assert found in str(error.value)


def test_a_name_that_nests_too_many_models_is_refused() -> None:
    for text in ("graph:" * 5000 + "bm25", "rrf(" * 5000):
        with pytest.raises(UsageError, match="nests too many models"):
            parse(text)


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="gives 'b' twice"):
        parse("bm25@b=1,b=2")


def test_an_unknown_option_is_refused_with_the_closest_one() -> None:
    with pytest.raises(UsageError, match=r"bm25 has no option 'bb'. Did you mean 'b'\? Known: b, k1"):
        parse("bm25@bb=1").read(b=(float, 0.75), k1=(float, 1.5))


@pytest.mark.parametrize(("text", "kind"), [("a@x=0", positive), ("a@x=1.5", positive), ("a@x=q", one_of("p", "r"))])
def test_a_value_of_the_wrong_kind_is_refused(text: str, kind: object) -> None:
    with pytest.raises(UsageError, match="expected"):
        parse(text).read(x=(kind, None))  # type: ignore[arg-type]


def test_a_model_may_be_in_the_program_that_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("__main__.__spec__", None)  # as where a file or a notebook is run
    assert is_importable("__main__:Model") and not is_importable("__main__")
