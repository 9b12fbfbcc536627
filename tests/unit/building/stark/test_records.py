"""Pickled dictionaries read item by item give what Python's unpickler gives."""

import io
import itertools
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbbench_hf.building.stark.unpickle import Items, ReferredBack

TEXTS = st.one_of(st.text(max_size=8), st.text("ab", min_size=60, max_size=300))
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-(2**80), 2**80), st.floats(allow_nan=False), TEXTS)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(TEXTS, inner)),
    max_leaves=8,
)


@given(st.dictionaries(st.integers(0, 2**40), VALUES, max_size=8), st.integers(2, 5), st.booleans())
def test_every_plain_dictionary_is_read_as_python_reads_it(value, protocol, keep):
    assert list(Items(io.BytesIO(pickle.dumps(value, protocol)), keep)) == list(value.items())


def test_the_dictionary_may_be_longer_than_a_batch():
    value = {node: {"name": f"n{node}", "kind": "drug"} for node in range(3_456)}
    for protocol in (2, 4):
        assert dict(Items(io.BytesIO(pickle.dumps(value, protocol)))) == value


@pytest.mark.parametrize("shared", ["x" * 65, ["a"], {"a": 1}])
def test_a_value_that_many_batches_share_needs_all_to_be_kept(shared):
    value = {node: {"a": shared} for node in range(2_000)}
    stream = pickle.dumps(value)
    with pytest.raises(ReferredBack):
        list(Items(io.BytesIO(stream)))
    assert dict(Items(io.BytesIO(stream), keep=True)) == value


def test_numpy_values_become_plain_ones():
    value = {0: [np.float64(0.5), np.int32(-3), np.bool_(True), np.str_("acme")]}
    ((_, found),) = Items(io.BytesIO(pickle.dumps(value)))
    assert found == [0.5, -3, True, "acme"] and not any(isinstance(each, np.generic) for each in found)


def test_every_beginning_of_a_pickle_is_refused_as_cut_short():
    whole = pickle.dumps({node: {"a": [1, 2.5, "text" * 20]} for node in range(3)})
    for n in itertools.chain(range(0, len(whole), 7), [len(whole) - 1]):
        with pytest.raises((EOFError, IndexError, struct.error)):
            list(Items(io.BytesIO(whole[:n])))
