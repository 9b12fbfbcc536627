"""Re-ranking a finished retrieval run with a language model, on the machinery that runs every other prompt."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.base import Examples, ParseError, Prompt
from kbbench_hf.files.writing import write_text
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.renderings import Forms, render
from kbbench_hf.models.reranker import parse_score, prompt, reordered
from kbbench_hf.protocols import LanguageModel
from kbbench_hf.runners.generate import Generation, generate


@dataclass(frozen=True)
class Judged(Mapping[str, Prompt]):
    """The prompts of a re-ranking, one per query and candidate, rendered when asked for.

    A key is the query's place and the candidate's row: what a key says is never part of a prompt.
    """

    queries: Sequence[str]
    rows: Sequence[Sequence[int]]
    """For each query, the rows of the candidates to judge, best first."""
    kb: KnowledgeBase
    rendering: str
    forms: Forms | None = None

    def __getitem__(self, key: str) -> Prompt:
        """Render the prompt of a query and a candidate."""
        query, row = map(int, key.split("/"))
        (document,) = render(self.kb, self.rendering, _rows(row), self.forms)
        return prompt(self.queries[query], self.kb.types(_rows(row))[0], document)

    def __iter__(self) -> Iterator[str]:
        """Yield the keys, query by query, best candidate first."""
        return (f"{query}/{row}" for query, rows in enumerate(self.rows) for row in rows)

    def __len__(self) -> int:
        """How many candidates are judged in all."""
        return sum(map(len, self.rows))


def rerank_run(
    examples: Examples,
    kb: KnowledgeBase,
    first: Path,
    model: LanguageModel,
    folder: Path,
    *,
    depth: int = 20,
    rendering: str = "clean_relations",
    forms: Forms | None = None,
    **how: Any,
) -> Generation:
    """Judge the `depth` best candidates of every query of the run in `first`, and write the new ranking to `folder`.

    Every judgement is journalled; the same call goes on where it stopped. A candidate whose judgement failed or could
    not be read keeps its query's others, and ranks by the first ranking alone.

    Returns:
        The finished generation; its summary counts failed and unread judgements.
    """
    lines = [json.loads(line) for line in (first / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    ranked = {line["id"]: line["ids"] for line in lines}
    ids = [ranked[row["id"]] for row in examples.rows]
    rows = [kb.rows(each[:depth]).tolist() for each in ids]
    prompts = Judged([row["query"] for row in examples.rows], rows, kb, rendering, forms)
    generation = generate(prompts, model, folder, title="Re-rank", **how)
    scores = {key: _score(text) for key, text in generation.responses().items()}
    written = []
    for query, (row, names) in enumerate(zip(examples.rows, ids, strict=True)):
        judged = {name: scores[f"{query}/{place}"] for name, place in zip(names, rows[query], strict=False)}
        order = reordered(names, judged)
        line = {"id": row["id"], "ids": [name for name, _ in order], "scores": [score for _, score in order]}
        written.append(json.dumps(line, ensure_ascii=False) + "\n")
    write_text(folder / "predictions.jsonl", "".join(written))
    return generation


def n_unread(generation: Generation) -> int:
    """Return how many answers held no score."""
    return sum(text is not None and _score(text) is None for text in generation.responses().values())


def _score(text: str | None) -> float | None:
    try:
        return None if text is None else parse_score(text)
    except ParseError:
        return None


def _rows(row: int) -> Any:
    import numpy as np

    return np.array([row], dtype=np.int64)
