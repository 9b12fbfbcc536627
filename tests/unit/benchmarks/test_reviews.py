import json
from pathlib import Path

import pytest

from kbbench_hf.benchmarks.reviews import Judgement, Judgements, ReviewItem, agreement, folded, read_judgements
from kbbench_hf.benchmarks.ska_bench.benchmark import MINI
from kbbench_hf.building.ska_bench.audit import NOISE_SHOWN, review_items
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.metrics.agreement import nominal_kappa

RIGHT = {"derivable": "yes", "superfluous": "no", "other_answer": "no", "wording": "natural"}


def item(name: str, question: str = "?") -> ReviewItem:
    return ReviewItem(name, question, [("a",)], [("x", "r", "a")], [])


def test_a_judgement_is_in_the_file_before_the_next_and_is_found_again(tmp_path: Path) -> None:
    file = tmp_path / "new" / "ada.jsonl"
    said = Judgements(file, "ada", "v1").add(item("q1"), RIGHT)
    again = Judgements(file, "ada", "v2")
    assert again.of(item("q1")) == said and said.version == "v1" and said.time.endswith("+00:00")
    assert again.of(item("q1", "another wording?")) is None
    assert Judgements(file, "ben", "v1").of(item("q1")) is None


def test_the_last_judgement_holds(tmp_path: Path) -> None:
    judged = Judgements(tmp_path / "a.jsonl", "ada", "v")
    judged.add(item("q"), RIGHT)
    judged.add(item("q"), {**RIGHT, "wording": "odd"})
    said = Judgements(tmp_path / "a.jsonl", "ada", "v").of(item("q"))
    assert said is not None and said.answers["wording"] == "odd"


def test_a_line_cut_off_by_a_crash_is_left_out_and_the_next_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    Judgements(file, "ada", "v").add(item("q1"), RIGHT)
    with file.open("a") as lines:
        lines.write('{"instance_id": "q2", "it')
    judged = Judgements(file, "ada", "v")
    judged.add(item("q3"), RIGHT)
    assert [each.instance_id for each in judged.all] == ["q1", "q3"]
    with pytest.raises(DataError, match=r"a\.jsonl:2"):
        read_judgements(file)


@pytest.mark.parametrize("answers", [{}, {**RIGHT, "wording": "superb"}, {**RIGHT, "more": "yes"}])
def test_a_judgement_without_every_answer_is_refused_and_not_written(tmp_path: Path, answers: dict[str, str]) -> None:
    file = tmp_path / "a.jsonl"
    with pytest.raises(DataError):
        Judgements(file, "ada", "v").add(item("q"), answers)
    assert not file.exists()


def test_agreement_is_over_what_both_saw_alike(tmp_path: Path) -> None:
    ada, ben = Judgements(tmp_path / "a", "ada", "v"), Judgements(tmp_path / "b", "ben", "v")
    for n in range(4):
        ada.add(item(f"q{n}"), {**RIGHT, "derivable": "yes" if n < 2 else "no"})
        ben.add(item(f"q{n}"), {**RIGHT, "derivable": "yes" if n < 1 else "no"})
    ada.add(item("q9"), RIGHT)
    ben.add(item("q9", "reworded?"), RIGHT)
    found = agreement(ada.all, ben.all)
    # derivable: agreed 3/4, by chance 2/4 * 1/4 + 2/4 * 3/4 = 1/2, kappa (3/4 - 1/2) / (1 - 1/2)
    assert found.kappas["derivable"].value == pytest.approx(0.5) and found.kappas["derivable"].n == 4
    assert found.disagreements == [("q1", "derivable", "yes", "no")]
    assert found.n_one_only == 2
    with pytest.raises(DataError, match="two reviewers"):
        agreement(ada.all, ada.all)
    with pytest.raises(DataError, match="in common"):
        agreement(ada.all, [])


def test_kappa_with_three_answers_is_that_of_the_formula() -> None:
    one, other = list("aabbcc"), list("abbbca")
    # agreed 4/6; chance (2*2 + 2*3 + 2*1)/36 = 12/36; kappa = (24 - 12) / (36 - 12)
    found = nominal_kappa(one, other)
    assert found.value == pytest.approx(1 / 2)
    assert found.ci95[0] < 0.5 < found.ci95[1] <= 1
    assert nominal_kappa(one, other) == found  # the resamples are the same
    assert nominal_kappa(one, one).value == 1 and nominal_kappa([], []).n == 0


def test_the_interval_of_kappa_covers_it_and_narrows_with_more_items() -> None:
    one, other = list("yyyynnnn") * 5, list("yyynnnny") * 5
    few, many = nominal_kappa(one, other), nominal_kappa(one * 10, other * 10)
    assert few.value == pytest.approx(many.value)
    assert few.ci95[0] < many.ci95[0] < few.value < many.ci95[1] < few.ci95[1]


def test_a_reviewer_sees_what_is_needed_and_the_noise_most_like_the_question() -> None:
    assert MINI.data.shipped is not None
    folder = DatasetFolder(MINI.data.shipped)
    shown = review_items(folder, "table", 5)
    assert len(shown) == 5 == len({each.id for each in shown})
    assert [each.id for each in review_items(folder, "table", 3)] == [each.id for each in shown[:3]]
    for each in shown:
        assert each.needed and 0 < len(each.noise) <= NOISE_SHOWN and each.header
        assert not {*each.needed} & {*each.noise}
    with pytest.raises(UsageError, match="'kg'"):
        review_items(folder, "kgs", 5)


@pytest.mark.parametrize(
    "answers", [{**RIGHT, "wording": "superb"}, {**RIGHT, "wording": ["odd"]}, [*RIGHT], "[" * 9999]
)
def test_a_line_whose_answers_are_not_those_of_its_questions_is_named(tmp_path: Path, answers: object) -> None:
    file = tmp_path / "a.jsonl"
    Judgements(file, "ada", "v").add(item("q1"), RIGHT)
    line = file.read_text(encoding="utf-8")
    replaced = answers if isinstance(answers, str) else json.dumps(json.loads(line) | {"answers": answers})
    file.write_text(f"{replaced}\n{line}", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.jsonl:1"):
        read_judgements(file)


def test_json_of_a_judgement_is_one_line(tmp_path: Path) -> None:
    Judgements(tmp_path / "a", "ada\n", "v").add(item("q"), RIGHT)
    (line,) = (tmp_path / "a").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["reviewer"] == "ada\n"


def test_five_points_are_folded_to_positive_and_non_negative_and_the_last_word_holds() -> None:
    def said(item: str, naturalness: str, correctness: str = "yes") -> Judgement:
        answers = {"naturalness": naturalness, "diversity": "3", "practicality": "1", "correctness": correctness}
        return Judgement(item, "a", "ada", "", "", answers)

    found = folded([said("1", "1"), said("1", "5"), said("2", "3", "no"), said("3", "2")])
    assert found["naturalness"] == (1 / 3, 2 / 3, 3)
    assert found["diversity"] == (0.0, 1.0, 3)
    assert found["practicality"] == (0.0, 0.0, 3)
    assert found["correctness"] == (2 / 3, 2 / 3, 3)
    with pytest.raises(DataError, match="naturalness"):
        folded([])
