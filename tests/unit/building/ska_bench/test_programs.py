import pytest

from kbbench_hf.building.ska_bench.programs import execute, reads, same_answers
from kbbench_hf.errors import DataError

ROWS = [["Ann", "Oslo", "12"], ["Bo", "Lund", "1,200"], ["Cy", "Oslo", "x"], ["Di", "Oslo ", "7"]]
TRIPLES = [["a", "r", "b"], ["a", "r", "c"], ["b", "s", "d"], ["c", "s", "d"], ["e", "s", "d"], ["e", "r", "b"]]


@pytest.mark.parametrize(
    ("program", "answers"),
    [
        ({"type": "lookup", "where": [[1, "lund"]], "select": 0}, ["Bo"]),
        ({"type": "lookup", "where": [[1, "oslo"]], "select": 0}, ["Ann", "Cy", "Di"]),
        ({"type": "lookup", "where": [[1, "oslo"], [2, "7"]], "select": 0}, ["Di"]),
        ({"type": "count", "where": [[1, "oslo"]]}, ["3"]),
        ({"type": "count", "where": [[1, "rome"]]}, ["0"]),
        ({"type": "diff", "key": 0, "by": 2, "values": ["ann", "bo"]}, ["1188"]),
        ({"type": "diff", "key": 0, "by": 2, "values": ["ann", "cy"]}, []),  # "x" is no number
        ({"type": "diff", "key": 1, "by": 2, "values": ["oslo", "lund"]}, []),  # Oslo has three rows
        ({"type": "compare", "key": 0, "by": 2, "op": "argmax2", "values": ["ann", "bo"]}, ["Bo"]),
        ({"type": "compare", "key": 0, "by": 2, "op": "argmin2", "values": ["ann", "bo"]}, ["Ann"]),
        ({"type": "compare", "key": 0, "by": 2, "op": "argmin2", "values": ["ann", "ann"]}, []),
    ],
)
def test_table_programs(program: dict, answers: list[str]) -> None:
    assert execute(program, ROWS) == answers


@pytest.mark.parametrize(
    ("where", "answers"),
    [
        ([["a", "r", "?x"]], ["b", "c"]),
        ([["a", "r", "?y"], ["?y", "s", "?x"]], ["d"]),
        ([["a", "s", "?x"]], []),
        ([["a", "r", "?x"], ["e", "r", "?x"]], ["b"]),
        ([["?x", "r", "b"], ["?x", "s", "d"]], ["e"]),
        ([["?x", "r", "c"], ["?x", "s", "d"]], []),
        ([["a", "r", "?x"], ["?y", "s", "?z"]], []),  # no known term leads to the second pattern
    ],
)
def test_graph_programs(where: list[list[str]], answers: list[str]) -> None:
    assert execute({"type": "match", "find": "?x", "where": where}, TRIPLES) == answers


def test_a_row_is_read_if_it_meets_the_conditions_together_or_the_values_alone() -> None:
    both = {"type": "lookup", "where": [[0, "ann"], [1, "lund"]], "select": 2}
    assert not reads(both, ROWS[0]) and reads(both, ["ANN", "Lund", ""])
    assert reads({"type": "diff", "key": 0, "by": 2, "values": ["ann", "bo"]}, ROWS[1])


def test_an_unknown_program_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="Unknown answer program 'guess'"):
        execute({"type": "guess"}, ROWS)


def test_answers_are_equal_as_sets_or_as_one_number() -> None:
    assert same_answers(["Oslo", "Lund"], ["lund", "OSLO."])
    assert same_answers(["1188"], ["1,188.0"]) and not same_answers(["1188", "2"], ["1,188.0", "2"])
    assert not same_answers([], ["a"]) and not same_answers(["0"], ["a"])
