"""Ranking measures: by hand, against definitions written anew, against trec_eval, and against STaRK's own figures."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.metrics.ranking import MODES, lower_bounds, measure, metric_names
from kbbench_hf.metrics.ranks import IdLists, locate, number_ids, rank

EVERY = metric_names((1, 2, 3, 5, 10))


def value(metric, ranked, gold, scores=None, mode="reference", **options):
    """One measure of one query."""
    ranks = locate(rank(IdLists.of([ranked]), scores and np.array(scores)), IdLists.of([gold]), **options)
    return float(measure(ranks, [metric], mode)[metric][0])


# By hand: gold 1, 2 and 3 stand at ranks 1, 3 and (3) nowhere.
@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("mrr", 1.0),
        ("hit_at_1", 1.0),
        ("recall_at_2", 1 / 3),
        ("precision_at_2", 1 / 2),
        ("precision_at_10", 2 / 10),  # divides by k, even beyond the ranking
        ("r_precision", 2 / 3),  # R = 3: ranks 1 and 3
        ("map", (1 / 1 + 2 / 3 + 0) / 3),
        ("map_at_2", (1 / 1) / 1),  # reference: over the one found
        ("ndcg_at_3", (1 + 1 / 2) / (1 + 1 / math.log2(3) + 1 / 2)),
    ],
)
def test_measures_follow_their_definitions(metric, expected):
    assert value(metric, [1, 7, 2, 8], [1, 2, 3]) == pytest.approx(expected, abs=1e-15)


def test_standard_map_at_k_divides_by_all_gold():
    # rank 1 found, ranks 3 and none beyond k: (1/1) / 3
    assert value("map_at_2", [1, 7, 2, 8], [1, 2, 3], mode="standard") == pytest.approx(1 / 3)


def test_a_tie_goes_to_the_smaller_id_as_integers_not_as_text():
    ranks = rank(IdLists.of([[10, 9, 2]]), np.array([1.0, 1.0, 1.0]))
    assert ranks.lists.ids.tolist() == [2, 9, 10]


def test_reference_ndcg_shares_the_gain_of_a_tie_and_standard_does_not():
    # Candidates 5 and 6 tie for ranks 1 and 2; gold is 6, ranked second by id.
    shared = (1 / math.log2(2) + 1 / math.log2(3)) / 2
    assert value("ndcg", [5, 6], [6], [1.0, 1.0]) == pytest.approx(shared)
    assert value("ndcg", [5, 6], [6], [1.0, 1.0], mode="standard") == pytest.approx(1 / math.log2(3))


def test_a_tie_across_the_cutoff_shares_what_lies_before_it():
    # Ranks 2 and 3 tie; at k = 2 only rank 2 gains: (1/log2(3) + 0) / 2.
    assert value("ndcg_at_2", [4, 5, 6], [6], [2.0, 1.0, 1.0]) == pytest.approx(1 / math.log2(3) / 2)


def test_gold_in_ties_is_counted():
    ranks = locate(rank(IdLists.of([[5, 6, 7]]), np.array([1.0, 1.0, 0.5])), IdLists.of([[6, 7]]))
    assert ranks.n_tied == 1


def test_gold_behind_a_cut_off_ranking_is_not_determined():
    options = {"missing": None, "n_candidates": 10}
    assert math.isnan(value("mrr", [1, 2, 3], [9], **options))
    assert math.isnan(value("hit_at_5", [1, 2, 3], [9], **options))
    assert value("hit_at_3", [1, 2, 3], [9], **options) == 0.0
    assert value("mrr", [1, 2, 3], [9, 2], **options) == 0.5  # the first answer decides
    assert math.isnan(value("map", [1, 2, 3], [9, 2], **options))


def test_an_answer_that_may_stand_before_the_cutoff_leaves_reference_map_at_k_open():
    # Gold 0 at rank 1; gold 1 at rank 2 gives 1, at rank 3 (1 + 2/3) / 2, behind it 1 again.
    assert math.isnan(value("map_at_3", [0], [0, 1], missing=None))
    assert value("map_at_1", [0], [0, 1], missing=None) == 1.0


def test_what_every_order_of_the_tail_agrees_on_is_determined():
    # One candidate is left: it stands at rank 4.
    assert value("mrr", [1, 2, 3], [9], missing=None, n_candidates=4) == 0.25
    # Five candidates: both left over are gold, at ranks 4 and 5. (1/4 + 2/5) / 2
    assert value("map", [1, 2, 3], [8, 9], missing=None, n_candidates=5) == pytest.approx((1 / 4 + 2 / 5) / 2)
    assert value("recall_at_5", [1, 2, 3], [8, 9], missing=None, n_candidates=5) == 1.0


def test_the_least_value_of_what_is_not_determined_is_that_of_the_last_rank():
    ranks = locate(rank(IdLists.of([[1, 2, 3]])), IdLists.of([[9]]), missing=None, n_candidates=10)
    assert lower_bounds(ranks, ["mrr", "hit_at_5"]) == {"mrr": [1 / 10], "hit_at_5": [0.0]}


def test_the_tail_stands_in_order_of_id_when_the_candidates_are_known():
    # Behind 5 and 3 follow 0, 1, 2, 4, 6, ...: 4 is at rank 2 + 4 = 6.
    assert value("mrr", [5, 3], [4], missing="tail", candidates=np.arange(10)) == pytest.approx(1 / 6)


def test_the_tail_is_one_tie_for_reference_ndcg():
    # Ranks 3 to 10 are tied: the mean of their eight discounts.
    shared = sum(1 / math.log2(1 + r) for r in range(3, 11)) / 8
    assert value("ndcg", [5, 3], [4], missing="tail", candidates=np.arange(10)) == pytest.approx(shared)


def test_gold_that_is_no_candidate_is_dropped():
    ranks = locate(rank(IdLists.of([[1, 2]])), IdLists.of([[2, 77]]), candidates=np.arange(10))
    assert measure(ranks, ["recall_at_2"])["recall_at_2"] == [1.0]


@pytest.mark.parametrize("mode", MODES)
def test_a_query_without_gold_scores_zero(mode):
    assert all(value(metric, [1, 2], [], mode=mode) == 0.0 for metric in EVERY)


@pytest.mark.parametrize("missing", ["tail", "zero", None])
def test_an_empty_ranking_scores_zero(missing):
    assert all(value(metric, [], [3], missing=missing, n_candidates=5) == 0.0 for metric in EVERY)


def test_a_query_without_candidates_scores_zero():
    no_candidates = np.array([], dtype=np.int64)
    for missing in ("tail", "zero", None):
        assert all(value(metric, [], [3], missing=missing, candidates=no_candidates) == 0.0 for metric in EVERY)


def test_no_queries_give_no_values():
    ranks = locate(rank(IdLists.of([])), IdLists.of([]))
    assert all(len(column) == 0 for column in measure(ranks, EVERY).values())


def test_gold_named_twice_counts_once():
    assert value("recall_at_1", [4], [4, 4]) == 1.0


def test_strings_are_ranked_like_integers():
    ranked, gold = number_ids([["b", "a", "c"], ["z"]], [["a", "q"], ["z"]])
    values = measure(locate(rank(ranked), gold), ["mrr", "recall_at_3"])
    assert values["mrr"].tolist() == [0.5, 1.0]
    assert values["recall_at_3"].tolist() == [0.5, 1.0]


def test_ids_of_any_size_can_be_numbered():
    ranked, gold = number_ids([[2**62, 5], [5]], [[5], [2**62]])
    assert measure(locate(rank(ranked), gold), ["mrr"])["mrr"].tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: value("mrr@10", [1], [1]), UsageError, "Unknown metric 'mrr@10'"),
        (lambda: value("hits_at_5", [1], [1]), UsageError, "Did you mean 'hit_at_k'"),
        (lambda: value("mrr_at_10", [1], [1]), UsageError, "Unknown metric 'mrr_at_10'"),
        (lambda: value("hit_at_", [1], [1]), UsageError, "Unknown metric"),
        (lambda: value("hit_at_0", [1], [1]), UsageError, "0 is not a cutoff"),
        (lambda: value("hit_at_-3", [1], [1]), UsageError, "-3 is not a cutoff"),
        (lambda: metric_names([True]), UsageError, "True is not a cutoff"),
        (lambda: metric_names([2.5]), UsageError, "2.5 is not a cutoff"),
        (lambda: value("mrr", [1], [1], mode="trec"), UsageError, "Unknown mode"),
        (lambda: value("mrr", [1], [1], missing="tial"), UsageError, "Did you mean 'tail'"),
        (lambda: value("mrr", [1, 2], [1], [1.0, math.nan]), DataError, "gives id 2 the score nan"),
        (lambda: value("mrr", [1, 2], [1], [math.inf, 1.0]), DataError, "gives id 1 the score inf"),
        (lambda: value("mrr", [1, 2], [1], [1.0]), DataError, "1 scores for 2 ids"),
        (lambda: value("mrr", [3, 1, 3], [1]), DataError, "lists id 3 twice"),
        (lambda: rank(IdLists.of([[1], [3, 1, 3]])), DataError, "Ranking 1 lists id 3 twice"),
        (lambda: value("mrr", [3, -1], [1]), DataError, "holds the id -1"),
        (lambda: value("mrr", [3], [-1]), DataError, "holds the id -1"),
        (lambda: value("mrr", [3.5], [1]), DataError, "3.5 is not an id"),
        (lambda: value("mrr", [True], [1]), DataError, "True is not an id"),
        (lambda: value("mrr", [12], [1], candidates=np.arange(10)), DataError, "id 12, which is not a candidate"),
        (lambda: value("mrr", [1, 2], [1], n_candidates=1), DataError, "2 ids for 1 candidates"),
        (lambda: value("mrr", [1], [2, 3], missing=None, n_candidates=2), DataError, "only 1 are left"),
        (lambda: locate(rank(IdLists.of([[1]] * 9 + [[2**62]])), IdLists.of([[1]] * 10)), DataError, "too large"),
        (lambda: locate(rank(IdLists.of([[1]])), IdLists.of([[1], [2]])), UsageError, "1 rankings for 2 gold lists"),
        (lambda: number_ids([["a", 1]], [["a"]]), DataError, "mix str and int"),
        (lambda: rank(number_ids([["b", "a", "b"]])[0]), DataError, "lists id 'b' twice"),
        (lambda: rank(number_ids([["a"], ["b", "b", "c"]])[0]), DataError, "Ranking 1 lists id 'b' twice"),
        (lambda: rank(number_ids([["a", "b"]])[0], np.array([1, math.nan])), DataError, "gives id 'b' the score nan"),
    ],
)
def test_bad_input_is_an_error_that_names_it(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_integer_types_and_padded_arrays_are_lists_too():
    lists = IdLists.of(np.array([[4, 2, -1], [7, -1, -1]], dtype=np.int32))
    assert lists.ids.tolist() == [4, 2, 7] and lists.offsets.tolist() == [0, 2, 3]
    assert IdLists.of([np.array([4, 2]), np.array([], dtype=np.int64)]).offsets.tolist() == [0, 2, 2]


# Against definitions written anew, one query and one loop at a time.
def by_definition(order, gold, metric, mode):
    name, _, cutoff = metric.partition("_at_")
    k = int(cutoff) if cutoff else len(order)
    hits = [candidate in gold for candidate in order]
    found = sum(hits[:k])
    precisions = [sum(hits[: i + 1]) / (i + 1) for i in range(min(k, len(order))) if hits[i]]
    if not gold:
        return 0.0
    match name:
        case "hit":
            return float(found > 0)
        case "recall":
            return found / len(gold)
        case "precision":
            return found / k
        case "r_precision":
            return sum(hits[: len(gold)]) / len(gold)
        case "mrr":
            return next((1 / (i + 1) for i, hit in enumerate(hits) if hit), 0.0)
        case "map":
            over_found = mode == "reference" and cutoff
            return sum(precisions) / max(1, found if over_found else len(gold))
        case "ndcg":
            gain = sum(hit / math.log2(i + 2) for i, hit in enumerate(hits[:k]))
            return gain / sum(1 / math.log2(i + 2) for i in range(min(len(gold), k if cutoff else len(gold))))
    raise AssertionError(metric)


queries = st.lists(
    st.tuples(st.lists(st.integers(0, 30), unique=True, max_size=12), st.sets(st.integers(0, 30), max_size=5)),
    min_size=1,
    max_size=6,
)


@given(queries, st.sampled_from(MODES))
@settings(max_examples=200)
def test_every_measure_is_its_definition(drawn, mode):
    ranks = locate(rank(IdLists.of([order for order, _ in drawn])), IdLists.of([sorted(gold) for _, gold in drawn]))
    for metric, column in measure(ranks, EVERY, mode).items():
        expected = [by_definition(order, gold, metric, mode) for order, gold in drawn]
        assert column.tolist() == pytest.approx(expected, abs=1e-12), metric


@given(queries, st.integers(31, 40))
def test_a_determined_value_is_that_of_any_order_of_the_tail(drawn, n_candidates):
    drawn = [(order or [0], gold) for order, gold in drawn]
    gold = IdLists.of([sorted(gold) for _, gold in drawn])
    located = locate(rank(IdLists.of([o for o, _ in drawn])), gold, missing=None, n_candidates=n_candidates)
    cut, least = measure(located, EVERY), lower_bounds(located, EVERY)
    generator = np.random.default_rng(n_candidates)
    for _ in range(3):
        full = [[*o, *generator.permutation([c for c in range(n_candidates) if c not in o]).tolist()] for o, _ in drawn]
        whole = measure(locate(rank(IdLists.of(full)), gold), EVERY)
        for metric in EVERY:
            determined = ~np.isnan(cut[metric])
            assert np.allclose(cut[metric][determined], whole[metric][determined], atol=1e-12)
            assert (least[metric] <= whole[metric] + 1e-12).all()


@given(queries, st.sampled_from(MODES))
def test_the_tail_by_id_is_the_ranking_with_all_other_candidates_appended(drawn, mode):
    candidates = np.arange(31)
    drawn = [(order or [0], gold) for order, gold in drawn]
    gold = IdLists.of([sorted(gold) for _, gold in drawn])
    short = locate(rank(IdLists.of([o for o, _ in drawn])), gold, missing="tail", candidates=candidates)
    whole = locate(rank(IdLists.of([o + [c for c in range(31) if c not in o] for o, _ in drawn])), gold)
    without_ties = [metric for metric in EVERY if mode == "standard" or not metric.startswith("ndcg")]
    theirs = measure(whole, without_ties, mode)
    for metric, column in measure(short, without_ties, mode).items():
        assert column.tolist() == theirs[metric].tolist()


scored = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 20), st.integers(-1000, 1000), min_size=1, max_size=10),
        st.sets(st.integers(0, 20), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=5,
)


def all_values(runs, golds, candidates=None):
    lists = IdLists.of([list(run) for run in runs])
    scores = np.array([score for run in runs for score in run.values()], dtype=np.float64)
    ranks = locate(rank(lists, scores), IdLists.of([sorted(gold) for gold in golds]), missing="tail")
    return {(mode, name): v.tolist() for mode in MODES for name, v in measure(ranks, EVERY, mode).items()}


@given(scored)
def test_shift_scale_and_a_negation_that_keeps_the_order_change_nothing(drawn):
    runs, golds = [run for run, _ in drawn], [gold for _, gold in drawn]
    before = str(all_values(runs, golds))
    for change in (lambda s: s - 4096, lambda s: s * 0.125, lambda s: s * 3.0 + 1, lambda s: -1 / (s + 2000)):
        assert str(all_values([{c: change(s) for c, s in run.items()} for run in runs], golds)) == before


@given(scored, st.randoms(use_true_random=False))
def test_renaming_ids_and_shuffling_changes_nothing_without_ties(drawn, random):
    runs = [dict(zip(run, random.sample(range(100), len(run)), strict=True)) for run, _ in drawn]
    golds = [gold for _, gold in drawn]
    names = dict(enumerate(random.sample(range(1000), 21)))
    shuffled = [random.sample(sorted(run.items()), len(run)) for run in runs]
    renamed = [{names[c]: s for c, s in run} for run in shuffled]
    assert str(all_values(renamed, [{names[c] for c in gold} for gold in golds])) == str(all_values(runs, golds))


def test_standard_is_trec_eval_on_500_random_runs():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    generator = np.random.default_rng(0)
    ks = (1, 5, 10, 20, 100)
    theirs_names = {"recip_rank": "mrr", "map": "map", "ndcg": "ndcg", "Rprec": "r_precision"}
    for theirs, ours in (
        ("success", "hit"),
        ("recall", "recall"),
        ("P", "precision"),
        ("map_cut", "map"),
        ("ndcg_cut", "ndcg"),
    ):
        theirs_names |= {f"{theirs}_{k}": f"{ours}_at_{k}" for k in ks}
    lists, golds = [], []
    for _ in range(500):
        lists.append(generator.permutation(400)[: generator.integers(1, 150)])
        golds.append(generator.permutation(400)[: generator.integers(1, 30)])
    qrels = {str(q): {str(c): 1 for c in gold} for q, gold in enumerate(golds)}
    run = {str(q): {str(c): float(-i) for i, c in enumerate(ranked)} for q, ranked in enumerate(lists)}
    measures = {"recip_rank", "map", "ndcg", "Rprec"} | {
        f"{family}.{','.join(map(str, ks))}" for family in ("success", "recall", "P", "map_cut", "ndcg_cut")
    }
    theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    ours = measure(locate(rank(IdLists.of(lists)), IdLists.of(golds)), list(theirs_names.values()), "standard")
    worst = max(
        abs(theirs[str(q)][name] - ours[metric][q]) for name, metric in theirs_names.items() for q in range(500)
    )
    assert worst <= 1e-9


GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "ranking_torchmetrics.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["cases"])
def test_reference_is_torchmetrics_before_1_7_4_on_all_candidates(case):
    ranked = rank(IdLists.of([case["ids"]]), np.array(case["scores"]))
    candidates = np.arange(case["n_candidates"])
    ranks = locate(ranked, IdLists.of([case["gold"]]), missing="tail", candidates=candidates)
    for metric, column in measure(ranks, list(case["expected"])).items():
        assert column[0] == pytest.approx(case["expected"][metric], abs=2e-6), metric  # float32 sums there


# STaRK's own figures: zou-group/avatar, output of stark_qa's eval.py (torchmetrics 1.x) for text-embedding-ada-002 on
# the human-written questions: 14 metrics and the first 1,000 candidates of every query.
OFFICIAL = {"mrr": "mrr", "map": "map", "rprecision": "r_precision"}
OFFICIAL |= {f"recall@{k}": f"recall_at_{k}" for k in (5, 10, 20, 50, 100)}
OFFICIAL |= {f"hit@{k}": f"hit_at_{k}" for k in (1, 3, 5, 10, 20, 50)}


def official_run(folder: Path):
    csv.field_size_limit(1 << 24)
    with (folder / "avatar_vss_ada002" / "eval_results_human_generated_eval.csv").open(encoding="utf-8") as source:
        run = list(csv.DictReader(source))
    with (folder / "stark_qa" / "stark_qa_human_generated_eval.csv").open(encoding="utf-8") as source:
        gold = {row["id"]: json.loads(row["answer_ids"]) for row in csv.DictReader(source)}
    ranked = IdLists.of([json.loads(row["pred_rank"]) for row in run])
    return run, rank(ranked), IdLists.of([gold[row["query_id"]] for row in run])


def test_every_official_figure_that_the_stored_rankings_determine_is_equal(shared):
    equal = different = not_determined = 0
    for name, n_candidates in (("amazon", 957_192), ("prime", 129_375)):
        run, ranked, gold = official_run(shared / "data" / "stark" / name)
        ours = measure(locate(ranked, gold, missing=None, n_candidates=n_candidates), list(OFFICIAL.values()))
        for column, metric in OFFICIAL.items():
            for row, found in zip(run, ours[metric].tolist(), strict=True):
                if math.isnan(found):
                    not_determined += 1
                elif abs(found - float(row[column])) <= 1e-6:
                    equal += 1
                else:
                    different += 1
    assert (equal, different, not_determined) == (2598, 0, 62)


def test_mag_answers_that_are_no_papers_make_two_questions_unanswerable(shared):
    _, ranked, gold = official_run(shared / "data" / "stark" / "mag")
    papers = np.arange(1_172_724, 1_872_968)
    ranks = locate(ranked, gold, missing=None, candidates=papers)
    assert np.flatnonzero(ranks.n_gold == 0).tolist() == [30, 72]
