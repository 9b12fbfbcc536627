"""People's votes on the release's systems: read as they stand, and what the released figures make of them."""

import json
from pathlib import Path

import pytest

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.genres.benchmark import CorpusContext
from kbbench_hf.building.genres.release import human_votes, text_id
from kbbench_hf.errors import DataError
from kbbench_hf.metrics.agreement import decided_votes, vote

HEADER = "metric,sample,id,a,b,merged,score_a,score_b\n"


def examples(*ids: str, config: str = "wiki20m") -> Examples:
    return Examples([{"id": each} for each in ids], CorpusContext(config, ()))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "human_study").mkdir()
    return tmp_path / "human_study/pairs.csv"


def test_votes_on_known_documents_count_and_those_on_the_ground_truth_do_not(file: Path, tmp_path: Path) -> None:
    rows = "FS,0,d1,x,y,a,1.0,0.5\nFS,0,d1,groundtruth,y,b,0.3,0.5\nGS,1,d2,x,y,tie,1.0,1.0\n"
    file.write_text(HEADER + rows)
    [found] = human_votes(tmp_path, examples("d1"))
    assert found == ("factualness", "d1", "x", "y", "a", 1.0, 0.5)
    assert human_votes(tmp_path, examples("d1", config="cdr")) == []
    assert human_votes(tmp_path / "elsewhere", examples("d1")) == []


@pytest.mark.parametrize("row", ["FS,0,d1,x,y,c,1.0,0.5", "XS,0,d1,x,y,a,1.0,0.5", "FS,0,d1,x,y,a,high,0.5"])
def test_another_form_is_refused(row: str, file: Path, tmp_path: Path) -> None:
    file.write_text(HEADER + row)
    with pytest.raises(DataError, match="expected the columns metric, id"):
        human_votes(tmp_path, examples("d1"))


def test_released_figures_follow_people_on_completeness_and_granularity_alone(shared: Path) -> None:
    """The half of the documents at hand; of all, released figures say the same and the opposite of these:

    CS 37 and 1 of 63, GS 45 and 0 of 69, TS 42 and 19 of 120, US 13 and 12 of 66, FS 14 and 9 of 84.
    """
    release = shared / "data/genres"
    texts = json.loads((release / "inputs/wiki20m_rand_500.json").read_text(encoding="utf-8"))
    votes = human_votes(release, examples(*map(text_id, texts)))
    found = {}
    for metric in dict.fromkeys(each.metric for each in votes):
        chosen = [each for each in votes if each.metric == metric]
        of_metric = decided_votes([v.vote for v in chosen], [vote(v.score_a, v.score_b) for v in chosen])
        assert of_metric.n == 150
        found[metric] = of_metric[1:]
    assert found == {
        "completeness": (38, 21, 0),
        "granularity": (45, 30, 0),
        "topical_similarity": (65, 25, 7),
        "uniqueness": (27, 6, 5),
        "factualness": (44, 8, 5),
    }
