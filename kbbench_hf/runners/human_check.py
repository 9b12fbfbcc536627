"""How a judge's figures vote on pairs of systems on which a release asked people."""

from pathlib import Path

from kbbench_hf.benchmarks.annotations import triple_keys
from kbbench_hf.benchmarks.base import AnnotationRules, Examples, HumanVote
from kbbench_hf.benchmarks.judge_agreement import HumanCheck
from kbbench_hf.metrics.generative_re import EMPTY_SCORES, factualness, granularity
from kbbench_hf.metrics.votes import bradley_terry, decided_votes, vote
from kbbench_hf.protocols import Verdict
from kbbench_hf.runners.judge import AnyJudge, judge_each_once


def check_by_people(
    rules: AnnotationRules,
    release: Path,
    examples: Examples,
    kind: str,
    judge: AnyJudge,
    folder: Path,
    *,
    show: bool = True,
) -> HumanCheck | None:
    """Return how a judge's figures vote where people voted; None where nobody was asked about these examples.

    The arguments are those of `calibrate_judge`.
    """
    votes = [each for each in rules.human_votes(release, examples) if each.metric == kind]
    if not votes:
        return None
    scores = _scores(votes, rules, release, examples, kind, judge, folder, show)
    people = [each.vote for each in votes]
    its = [vote(scores[each.a, each.id], scores[each.b, each.id]) for each in votes]
    released = [vote(each.score_a, each.score_b) for each in votes]
    by_people, by_judge = (
        bradley_terry([(each.a, each.b, said) for each, said in zip(votes, all_said, strict=True)])
        for all_said in (people, its)
    )
    return HumanCheck(decided_votes(people, its), decided_votes(people, released), by_people, by_judge)


def _scores(
    votes: list[HumanVote],
    rules: AnnotationRules,
    release: Path,
    examples: Examples,
    kind: str,
    judge: AnyJudge,
    folder: Path,
    show: bool,
) -> dict[tuple[str, object], float]:
    """Return (system, document) -> the figure that the judge gives its answer."""
    answers = {name: stored for name, stored, _ in rules.released_outputs(release, examples)}
    rows = {row["id"]: (place, row["text"]) for place, row in enumerate(examples.rows)}
    asked = {
        (name, each.id): [
            (rows[each.id][1], key)
            for key in triple_keys(answers[name][rows[each.id][0]] or [], once=kind == "granularity")
        ]
        for each in votes
        for name in (each.a, each.b)
    }
    items = [item for each in asked.values() for item in each]
    verdicts = dict(
        zip(items, judge_each_once(items, folder / "work" / kind, kind, judge, show=show).verdicts, strict=True)
    )
    return {place: _figure([verdicts[item] for item in each], kind) for place, each in asked.items()}


def _figure(verdicts: list[Verdict], kind: str) -> float:
    empty, values = EMPTY_SCORES["reference"][kind], [each.value for each in verdicts]
    if kind == "factualness":
        return float(factualness([values], empty=empty)[0])
    return float(granularity([[None if each is None else int(each) for each in values]], empty=empty)[0])
