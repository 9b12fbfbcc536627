"""Which emptied cells follow from the other cells of a table: by calculation, by name, by what other rows share."""

import pytest

from kbbench_hf.building.ska_bench.cell_inference import cell_follows, order_follows

REVENUE = [
    ("Subscriptions", "254,056", "199,942"),
    ("Services", "18,042", "13,217"),
    ("Total revenue", "272,098", "213,159"),
]
BALANCE = [("Balance, beginning", "397", "361"), ("Additions", "120", "90"), ("Balance, end", "512", "397")]
LOSSES = [("Net loss", "$(20,383)", "$(50,834)"), ("Less: shares", "462", "810"), ("After", "$(20,845)", "$(51,644)")]
SEGMENTS = [
    ("Wireless", "697", "664"),
    ("Ratio", "7.6%", "7.5%"),
    ("Wireline", "3,183", "3,193"),
    ("Ratio", "25.8%", "26.0%"),
    ("Media", "108", "114"),
    ("All", "3,988", "3,971"),
]
PEAKS = [
    ("Everest", "8,848", "29,029", "Nepal"),
    ("K2", "8,611", "28,251", "Pakistan"),
    ("Lhotse", "8,516", "27,940", "Nepal"),
    ("Makalu", "8,485", "27,838", "Nepal"),
    ("Cho Oyu", "8,188", "26,864", "Nepal"),
]
MEDALS = [
    ("Peru", "5", "8", "9", "22"),
    ("Cuba", "9", "8", "6", "23"),
    ("Chile", "2", "3", "4", "9"),
    ("Haiti", "0", "1", "7", "8"),
    ("Panama", "4", "0", "1", "5"),
]
SEEN = (1370, 2904, 1187, 3312, 2248, 1975, 2630, 1453)
GAMES = [(str(155 + n), "abcdefgh"[n], "Reds", str(seen)) for n, seen in enumerate(SEEN)]
RESULTS = [("Hardware", "(512)", "411"), ("Software", "307", "298"), ("All", "(205)", "709")]
FEW = [("Ann", "7", "7", "1"), ("Bo", "5", "9", "8"), ("Cy", "7", "5", "8"), ("Di", "6", "4", "9")]
SELDOM = [
    ("Ann", "964", "494", "1076"),
    ("Bo", "876", "530", "1406"),
    ("Cy", "141", "365", "506"),
    ("Di", "623", "597", "833"),
    ("Ed", "514", "902", "1294"),
    ("Flo", "949", "410", "1926"),
]
LAPS = [("Ann", "61"), ("Bo", "73"), ("Cy", "66")]
LED = [("Ann", "200", "61"), ("Bo", "199", "73"), ("Cy", "140", "66")]
LAKES = [("Lake Geneva", "Léman, Geneva"), ("Lake Thun", "Thunersee"), ("Lake Brienz", "Oberland")]
CLUBS = [("Ann", "Hawks", "Oslo"), ("Bo", "Hawks", "Oslo"), ("Cy", "Gulls", "Lund"), ("Di", "Gulls", "Lund")]


@pytest.mark.parametrize(
    ("why", "rows", "place", "column"),
    [
        ("a total minus the rest", REVENUE, 1, 1),
        ("a sum of rows", REVENUE, 2, 2),
        ("a sum of rows that others separate", SEGMENTS, 5, 1),
        ("a difference of neighbors", LOSSES, 1, 1),
        ("a number minus one in parentheses, which is negative", RESULTS, 1, 1),
        ("the number that the year before ends with", BALANCE, 0, 1),
        ("a sum of the row", MEDALS, 1, 4),
        ("a total of the row minus the rest", MEDALS, 2, 2),
        ("another unit", PEAKS, 2, 1),
        ("the next number of a sequence", GAMES, 3, 0),
        ("a total of the column minus the rest", LED, 1, 2),
        ("a name in another cell of the row", LAKES, 0, 0),
        ("what rows with the same cell share", CLUBS, 3, 2),
    ],
)
def test_a_cell_follows_from_others(why: str, rows: list, place: int, column: int) -> None:
    assert cell_follows(rows, place, column), why


@pytest.mark.parametrize(
    ("rows", "place", "column"),
    [
        ([row for row in REVENUE if "Total" not in row[0]], 1, 1),
        ([row[:2] for row in PEAKS], 2, 1),
        ([row[:4] for row in MEDALS], 1, 3),
        (GAMES, 3, 3),
        (LAPS, 1, 1),
        (FEW, 1, 1),  # some calculation always fits so few small numbers
        (SELDOM, 1, 1),  # the sum is that of two rows alone
        (LAKES, 1, 0),
        ([("Ann", "Hawks", "Oslo"), ("Bo", "Gulls", "Oslo"), ("Cy", "Owls", "Lund")], 1, 2),
    ],
)
def test_a_cell_without_such_a_calculation_does_not_follow(rows: list, place: int, column: int) -> None:
    assert not cell_follows(rows, place, column)


@pytest.mark.parametrize(("miles", "follows"), [("2233.0", True), ("2253.1", True), ("2257.5", False)])
def test_another_unit_gives_a_cell_within_one_percent(miles: str, follows: bool) -> None:
    km = (6498.4, 8022.5, 904.3, 3593.6, 1763.9, 6017.2, 7310.8)
    ways = [["abcdefg"[n], str(each), f"{each * 0.621371:.1f}"] for n, each in enumerate(km)]
    ways[3][2] = miles  # 3593.6 km are 2233.0 miles
    assert cell_follows(ways, 3, 2) is cell_follows(ways, 3, 1) is follows


def test_a_ranking_or_another_column_tells_which_number_is_larger() -> None:
    assert order_follows([row[:2] for row in PEAKS], 1)
    assert order_follows([("b", "3", "30"), ("a", "9", "80"), ("c", "1", "12"), ("d", "4", "44")], 2)
    assert not order_follows([("b", "3"), ("a", "9"), ("c", "1"), ("d", "4")], 1)
