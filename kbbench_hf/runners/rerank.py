"""Re-ranking of a finished retrieval run with a language model or a cross-encoder."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from kbbench_hf.benchmarks.base import Examples, Prompt
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files.datasets import Row, read_json
from kbbench_hf.files.shards import COLLECT, end_shard
from kbbench_hf.files.writing import write_json_lines, write_new
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.protocols import LanguageModel
from kbbench_hf.retrieval.context import Forms, Text, render
from kbbench_hf.retrieval.reranker import RANK_WEIGHT, RERANK_METHODS, RerankMethod, reorder
from kbbench_hf.runners.generate import Generation, check_read, generate_judgements
from kbbench_hf.runners.jobs import Prompts, Sampling
from kbbench_hf.runners.run_summary import ALMOST_ALL, EQUAL, FEWEST_REPLIES


@dataclass(frozen=True)
class Reranked:
    """A finished re-ranking: the run of its prompts, the responses without a score, the mode, and the predictions."""

    generation: Generation
    n_unread: int
    structured: bool
    rows: list[Row]
    n_tied: int
    """Queries with several judged candidates that all have the same score: they keep the first ranking."""
    truncated: tuple[int, int, int] = (0, 0, 0)
    """Documents of which a cross-encoder reads only the beginning, all documents, and the characters that it reads."""
    follows_query: bool = True
    """Whether the scores of a cross-encoder follow the query in its probe."""

    @property
    def warnings(self) -> list[ScoreWarning]:
        """The warnings on the replies; equal ones are a fault only if nearly all queries keep the first ranking."""
        n, found = len(self.rows), [each for each in self.generation.warnings if each.code != EQUAL]
        if n >= FEWEST_REPLIES and self.n_tied >= ALMOST_ALL * n:
            message = f"{self.n_tied:,} of {n:,} queries keep the first ranking: their candidates have the same score."
            remedy = "Read some replies; use another model, or a higher --depth."
            found.append(ScoreWarning(EQUAL, message, remedy, self.n_tied))
        if not self.follows_query:
            message = (
                "The scores of the cross-encoder do not follow the query: in a probe, a sentence that answers a "
                "question does not score above an unrelated one."
            )
            remedy = "Use a cross-encoder that was trained for re-ranking, whose higher scores are better."
            found.append(ScoreWarning("scores_ignore_query", message, remedy))
        n_cut, n_documents, limit = self.truncated
        if n_cut:
            message = (
                f"The cross-encoder reads about the first {limit:,} characters of a document; {n_cut:,} of "
                f"{n_documents:,} documents are longer."
            )
            remedy = "Raise the server's limit if the model allows for it, or use a model with a longer context."
            found.append(ScoreWarning("truncated_texts", message, remedy))
        return found


def rerank_run(
    examples: Examples,
    kb: KnowledgeBase,
    first: Path,
    model: LanguageModel,
    folder: Path,
    *,
    depth: int = 20,
    weight: float = RANK_WEIGHT,
    asking: RerankMethod = RERANK_METHODS["clean"],
    rendering: Text | None = None,
    forms: Forms | None = None,
    sampling: Sampling | None = None,
    structured: bool | None = None,
    **how: Any,
) -> Reranked:
    """Judge the `depth` best candidates of every query of the run in `first`, and write the new ranking to `folder`.

    Every judgement is journalled; the same call goes on where it stopped. A candidate whose judgement failed or could
    not be read keeps its query's others, and ranks by the first ranking alone; with `asking.whole` its query keeps the
    first ranking.

    Raises:
        UnreadError: more than a tenth of the answers hold no score; no ranking is written.
    """
    lines = [json.loads(line) for line in (first / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    ranked = {line["id"]: line["ids"] for line in lines}
    ids = [ranked[row["id"]] for row in examples.rows]
    rows = [kb.rows(each[:depth]).tolist() for each in ids]
    lengths: dict[int, int] = {}
    sampling, documents = sampling or Sampling(asking.temperature), rendering or Text("clean", relations=True)

    def ask(query: str, candidates: Sequence[int]) -> Prompt:
        texts = render(kb, documents, np.array(candidates, dtype=np.int64), forms)
        lengths.update(zip(candidates, map(len, texts), strict=True))
        return asking.prompt(query, kb.types(candidates[:1])[0], *texts)

    # by the query's place and the first candidate's row, best candidate first: what a key says is never in a prompt
    groups = {
        f"{query}/{rows[query][start]}": rows[query][start : start + asking.batch]
        for query in range(len(rows))
        for start in range(0, len(rows[query]), asking.batch)
    }
    prompts = {
        key: partial(ask, examples.rows[int(key.partition("/")[0])]["query"], group) for key, group in groups.items()
    }
    options = {"sampling": sampling, "structured": structured, "title": "Re-ranking", **how}
    generation, by_schema = generate_judgements(Prompts(prompts), model, folder, **options)
    replies = generation.responses()
    for attempt in range(2, asking.tries + 1):
        open_ones = {
            key: prompts[key] for key, text in replies.items() if text is not None and _scores(text, asking) is None
        }
        if open_ones:
            again = Prompts({f"{key}, try {attempt}": write for key, write in open_ones.items()})
            more, _ = generate_judgements(again, model, folder, **options)
            replies |= {key.partition(", try ")[0]: text for key, text in more.responses().items()}
    limit, follows_query = _probe_findings(folder, model, collects=how.get("shard") == COLLECT)
    end_shard(how.get("shard"), folder, generation.summary.n_open)
    scores: dict[str, float | None] = {}
    for key, text in replies.items():
        found = None if text is None else _scores(text, asking)
        query_key = key.partition("/")[0]
        scores |= {f"{query_key}/{row}": each for row, each in zip(groups[key], found or repeat(None), strict=False)}
    answered = [key for key, text in replies.items() if text is not None]
    n_unread = sum(scores[key] is None for key in answered)
    check_read(n_unread, len(answered), "score")
    n_tied, reranked = 0, list[Row]()
    for query, (row, names) in enumerate(zip(examples.rows, ids, strict=True)):
        judged = {name: scores[f"{query}/{place}"] for name, place in zip(names, rows[query], strict=False)}
        if asking.whole and None in judged.values():
            judged = dict.fromkeys(judged)
        n_tied += len(judged) > 1 and len(set(judged.values())) == 1
        order = reorder(names, judged, weight)
        scored = {"ids": [name for name, _ in order], "scores": [score for _, score in order]}
        reranked.append({"id": row["id"], **scored})
    write_json_lines(folder / "predictions.jsonl", reranked)
    n_cut = 0 if limit is None else sum(length > limit for length in lengths.values())
    cut = n_cut, len(lengths), limit or 0
    return Reranked(generation, n_unread, by_schema, reranked, n_tied, cut, follows_query)


def _probe_findings(folder: Path, model: LanguageModel, *, collects: bool) -> tuple[int | None, bool]:
    """Return how many characters a cross-encoder reads of a document (None for others), and if it follows the query."""
    file, limit = folder / "truncation.json", getattr(model, "text_limit", None)
    facts: Row = {"characters": limit, "follows_query": getattr(model, "follows_query", True)}
    if limit is not None and not collects:
        write_new(file, json.dumps(facts).encode())
    stored = read_json(file) if file.is_file() else facts
    return stored["characters"], stored.get("follows_query", True)  # earlier versions did not store it


def _scores(text: str, asking: RerankMethod) -> list[float] | None:
    try:
        scores = asking.parse(text)
    except ParseError:
        return None
    return scores if isinstance(scores, list) else [scores]
