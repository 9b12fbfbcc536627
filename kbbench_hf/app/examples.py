"""Examples of stored submissions for the pages: question, gold and each answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kbbench_hf.app.boards import Boards
from kbbench_hf.benchmarks import TaskKey, at_hand, benchmark
from kbbench_hf.benchmarks.base import Explanation
from kbbench_hf.files.datasets import DatasetFolder, Id
from kbbench_hf.hub.download import downloaded_dataset
from kbbench_hf.leaderboard.table import Row
from kbbench_hf.scoring.eval_task import EvalTask, load_examples
from kbbench_hf.scoring.score import add_annotations

MOST_ITEMS = 20
MOST_CHARACTERS = 1500


@dataclass(frozen=True)
class ShownExample:
    """One example: of each row its score, and what it answered, part by part."""

    id: Id
    scores: Mapping[str, str]
    """System -> the headline score of its answer."""
    explained: Mapping[str, Explanation | None]
    """System -> its answer explained; None where there is nothing to explain it with."""
    answers: Mapping[str, str]
    """System -> its answer as it was submitted."""

    @property
    def first(self) -> Explanation | None:
        """One explanation, for the question and the gold, which are the same in all."""
        return next((each for each in self.explained.values() if each), None)


def examples_of(
    boards: Boards, task_key: TaskKey, rows: Sequence[Row], chosen: Mapping[Id, Mapping[str, str]]
) -> list[ShownExample]:
    """Return some examples as the rows answered them: id -> system -> score gives which, and in what order."""
    task = _at_hand(task_key, rows[0].id, boards)
    answers = {row.system: _answers(boards, row, task) for row in rows}
    by_id = {each["id"]: each for each in task.examples.rows} if task else {}
    explain = task.benchmark.showing.explain if task else None
    return [
        ShownExample(
            example_id,
            scores,
            {
                name: explain(task.examples, by_id[example_id], own[example_id])
                if explain and task and example_id in by_id and own.get(example_id) is not None
                else None
                for name, own in answers.items()
            },
            {name: _cut(json.dumps(own.get(example_id), ensure_ascii=False)) for name, own in answers.items()},
        )
        for example_id, scores in chosen.items()
    ]


def why_no_answers(boards: Boards, task_key: TaskKey, rows: Sequence[Row]) -> str:
    """Return why what rows answered is not shown nor handed on; empty where it is."""
    if why := why_hidden(task_key):
        return why
    all_stored = all(boards.index.store.has_predictions(row.id) for row in rows)
    return "" if all_stored else "Only scores are kept: the source states no licence to hand its answers on."


def why_hidden(task_key: TaskKey) -> str:
    """Return why no example of a place may be shown; empty where they may.

    Answers are kept from browsers with the gold: right ones are the gold.
    """
    if not benchmark(task_key.benchmark).facts.redistributable:
        return "The source states no licence under which examples could be shown: scores only."
    downloaded = downloaded_dataset(task_key.benchmark)
    folder = at_hand(task_key.benchmark) or (DatasetFolder(downloaded) if downloaded else None)
    if folder is not None and folder.is_private:
        return "This split is private: its examples, gold and answers are not shown."
    return ""


def _answers(boards: Boards, row: Row, task: EvalTask | None) -> dict[Id, object]:
    store = boards.index.store
    field = benchmark(store.record(row.id).benchmark).scoring.answer.field
    return {each["id"]: each.get(field) for each in store.predictions(row.id)}  # type: ignore[misc]


def _at_hand(task_key: TaskKey, row_id: str, boards: Boards) -> EvalTask | None:
    """Return the examples that a row was scored on, where they are here and still the same."""
    store = boards.index.store
    revision = store.record(row_id).dataset_revision
    if at_hand(task_key.benchmark) is None and downloaded_dataset(task_key.benchmark) is None:
        return None
    task = _loaded(task_key, revision)
    folder = store.annotations(row_id)
    return add_annotations(task, folder) if task and folder else task


@lru_cache(maxsize=4)
def _loaded(task_key: TaskKey, revision: str) -> EvalTask | None:
    task = load_examples(*task_key)
    return task if task.revision == revision else None


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."
