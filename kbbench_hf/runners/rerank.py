"""Re-ranking a finished retrieval run with a language model, on the machinery that runs every other prompt."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kbbench_hf.benchmarks.base import Examples, Prompt
from kbbench_hf.files.writing import write_text
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.renderings import Forms, Text, render
from kbbench_hf.models.reranker import parse_score, prompt, reordered
from kbbench_hf.protocols import LanguageModel
from kbbench_hf.replies.reading import ParseError
from kbbench_hf.runners.generate import Generation, generate
from kbbench_hf.runners.jobs import Prompts


def rerank_run(
    examples: Examples,
    kb: KnowledgeBase,
    first: Path,
    model: LanguageModel,
    folder: Path,
    *,
    depth: int = 20,
    rendering: Text | None = None,
    forms: Forms | None = None,
    **how: Any,
) -> Generation:
    """Judge the `depth` best candidates of every query of the run in `first`, and write the new ranking to `folder`.

    Every judgement is journalled; the same call goes on where it stopped. A candidate whose judgement failed or could
    not be read keeps its query's others, and ranks by the first ranking alone.

    Returns:
        The finished generation; its summary counts failed and unread judgements.
    """
    text = rendering or Text("clean", relations=True)
    lines = [json.loads(line) for line in (first / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    ranked = {line["id"]: line["ids"] for line in lines}
    ids = [ranked[row["id"]] for row in examples.rows]
    rows = [kb.rows(each[:depth]).tolist() for each in ids]

    def ask(query: str, candidate: int) -> Prompt:
        one = np.array([candidate], dtype=np.int64)
        (document,) = render(kb, text, one, forms)
        return prompt(query, kb.types(one)[0], document)

    # by the query's place and the candidate's row, best candidate first: what a key says is never part of a prompt
    prompts = {
        f"{query}/{candidate}": partial(ask, row["query"], candidate)
        for query, row in enumerate(examples.rows)
        for candidate in rows[query]
    }
    generation = generate(Prompts(prompts), model, folder, title="Re-rank", **how)
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
