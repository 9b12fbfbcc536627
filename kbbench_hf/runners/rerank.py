"""Re-ranking of a finished retrieval run with a language model or a cross-encoder.

`kbbench run --rerank` uses it. Ids of prompts in the journal are `QUERY/ROW`: the place of the query, and the row of
the first candidate of the prompt. A started run keeps its prompt, see `rerank`: a new wording needs a new name.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from kbbench_hf.benchmarks.base import Examples, Prompt
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files.datasets import Id, Row, read_json
from kbbench_hf.files.shards import COLLECT, end_shard
from kbbench_hf.files.writing import write_json_lines, write_new
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.protocols import LanguageModel
from kbbench_hf.retrieval.context import Forms, Text, render
from kbbench_hf.retrieval.reranker import RERANK_METHODS, RerankMethod, reorder
from kbbench_hf.runners.generate import Generation, check_read, generate_judgements
from kbbench_hf.runners.jobs import Prompts, Sampling
from kbbench_hf.runners.progress import say
from kbbench_hf.runners.ranking import RankedRun, add_second_stage
from kbbench_hf.runners.retrieval_run import knowledge_base
from kbbench_hf.runners.run_folder import folder_after, open_run
from kbbench_hf.runners.run_summary import ALMOST_ALL, EQUAL, FEWEST_REPLIES
from kbbench_hf.scoring.eval_task import RUN, EvalTask


def rerank(
    task: EvalTask,
    first: Path,
    model: LanguageModel,
    name: str,
    *,
    folder: Path | None = None,
    depth: int = 20,
    weight: float | None = None,
    wording: str = "clean",
    method: RerankMethod | None = None,
    **how: Any,
) -> RankedRun:
    """Re-rank the run in `first` with the prompt named `wording`, or with a `method` without a prompt.

    The `depth` best candidates of every query get a score. A candidate whose request failed or whose reply has no score
    ranks by the first ranking alone; with `method.whole`, its query keeps the first ranking. All replies are journaled;
    the same call resumes. `folder` is by default next to `first`, with its name, the model and the settings that are
    not the defaults. `how` goes to `generate_judgements`.

    Raises:
        UsageError: another run is in the folder.
        UnreadError: more than a tenth of the replies have no score; no ranking is written.
        ShardEnd: with a `shard` in `how`, it has ended.
    """
    prompted, method = method is None, method or RERANK_METHODS[wording]
    usual = {"wording": "clean", "weight": method.weight}
    own: Row = {"wording": wording} if prompted else {}
    own["weight"] = method.weight if weight is None else weight
    changes = "".join(f"-{key}-{value}" for key, value in own.items() if value != usual[key])
    folder = folder or folder_after(first, name, f"{depth}{changes}")
    started = read_json(folder / RUN)["settings"] if (folder / RUN).is_file() else {"prompt_sha256": ""}
    if prompted and "prompt_sha256" in started:
        own["prompt_sha256"] = method.prompt_sha256
    elif prompted and started.get("wording") == wording == "clean":  # an earlier version started it
        method = RERANK_METHODS["clean-1"]
        say([f"{folder} started with the re-ranking prompt 'clean', which is 'clean-1' today, and keeps it."])
    asking, kb, base = task.benchmark.asking, knowledge_base(task), read_json(first / RUN)
    documents = Text(asking.own_documents or "clean", relations=True)
    settings = {**base["settings"], "rerank": name, "depth": depth, "documents": str(documents), **own}
    open_run(folder, settings, {}, shard=how.get("shard"))
    texts_of = partial(render, kb, documents, forms=Forms(asking.documents))
    done = _judge_candidates(task.examples, kb, texts_of, first, folder, model, method, depth, own["weight"], **how)
    add_second_stage(done, base)
    return done


def _judge_candidates(
    examples: Examples,
    kb: KnowledgeBase,
    texts_of: Callable[[Any], list[str]],
    first: Path,
    folder: Path,
    model: LanguageModel,
    method: RerankMethod,
    depth: int,
    weight: float,
    **how: Any,
) -> RankedRun:
    """Score the best candidates of every query of the run in `first`, and write the new ranking into `folder`.

    Candidates after the best `depth` ones keep their order, below these.
    """
    lines = [json.loads(line) for line in (first / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    ranked = {line["id"]: line["ids"] for line in lines}
    ids = [ranked[row["id"]] for row in examples.rows]
    rows = [kb.rows(each[:depth]).tolist() for each in ids]
    lengths: dict[int, int] = {}

    def ask(query: str, candidates: Sequence[int]) -> Prompt:
        texts = texts_of(np.array(candidates, dtype=np.int64))
        lengths.update(zip(candidates, map(len, texts), strict=True))
        return method.prompt(query, kb.types(candidates[:1])[0], *texts)

    # keys have the query's place and the first candidate's row, not their ids, best candidates first
    groups = {
        f"{query}/{candidates[start]}": (query, candidates[start : start + method.batch])
        for query, candidates in enumerate(rows)
        for start in range(0, len(candidates), method.batch)
    }
    prompts = {key: partial(ask, examples.rows[query]["query"], group) for key, (query, group) in groups.items()}
    options = {"sampling": Sampling(method.temperature), "title": "Re-ranking", **how}
    send = partial(generate_judgements, model=model, folder=folder, **options)
    generation, structured, replies = _send_until_read(prompts, method, send)
    limit, follows_query = _probe_findings(folder, model, collects=how.get("shard") == COLLECT)
    end_shard(how.get("shard"), folder, generation.summary.n_open)
    read = {key: None if text is None else _scores(text, method) for key, text in replies.items()}
    scores: list[dict[int, float | None]] = [{} for _ in rows]
    for key, found in read.items():
        query, group = groups[key]
        scores[query] |= zip(group, found or repeat(None), strict=False)
    n_answered = sum(text is not None for text in replies.values())
    n_unread = n_answered - sum(map(bool, read.values()))
    check_read(n_unread, n_answered, "score")
    reranked, n_tied = _rank_again(examples, ids, rows, scores, method, weight)
    write_json_lines(folder / "predictions.jsonl", reranked)
    warnings = [each for each in generation.warnings if each.code != EQUAL]  # a fault only if rankings are unchanged
    warnings += _warnings(n_tied, len(reranked), [*lengths.values()], limit, follows_query=follows_query)
    return RankedRun(folder, reranked, None, generation.summary, warnings, structured, n_unread)


def _send_until_read(
    prompts: Mapping[str, Callable[[], Prompt]], method: RerankMethod, send: Callable[..., tuple[Generation, bool]]
) -> tuple[Generation, bool, dict[str, str | None]]:
    """Return the result of `send` and key -> last reply (None: failed); send a prompt at most `method.tries` times.

    It is sent again while its reply has no score.
    """
    generation, structured = send(Prompts(prompts))
    replies = generation.responses()
    for attempt in range(2, method.tries + 1):
        again = {
            f"{key}, try {attempt}": prompts[key]
            for key, text in replies.items()
            if text is not None and _scores(text, method) is None
        }
        if again:
            more, _ = send(Prompts(again))
            replies |= {key.partition(", try ")[0]: text for key, text in more.responses().items()}
    return generation, structured, replies


def _rank_again(
    examples: Examples,
    ids: Sequence[Sequence[Id]],
    rows: Sequence[Sequence[int]],
    scores: Sequence[Mapping[int, float | None]],
    method: RerankMethod,
    weight: float,
) -> tuple[list[Row], int]:
    """Return the new predictions, in the order of the examples, and the number of queries with equal scores only."""
    reranked, n_tied = list[Row](), 0
    for row, names, candidates, by_candidate in zip(examples.rows, ids, rows, scores, strict=True):
        judged = {name: by_candidate[place] for name, place in zip(names, candidates, strict=False)}
        if method.whole and None in judged.values():
            judged = dict.fromkeys(judged)
        n_tied += len(judged) > 1 and len(set(judged.values())) == 1
        order = reorder(names, judged, weight)
        reranked.append({"id": row["id"], "ids": [name for name, _ in order], "scores": [each for _, each in order]})
    return reranked, n_tied


def _warnings(
    n_tied: int, n: int, lengths: Sequence[int], limit: int | None, *, follows_query: bool
) -> Iterator[ScoreWarning]:
    """Yield warnings on queries whose candidates all have one score, and on a cross-encoder.

    `lengths` are those of the documents, of which it reads `limit` characters.
    """
    if n >= FEWEST_REPLIES and n_tied >= ALMOST_ALL * n:
        message = f"{n_tied:,} of {n:,} queries keep the first ranking: their candidates have the same score."
        remedy = "Read some replies; use another model, or a higher --depth."
        yield ScoreWarning(EQUAL, message, remedy, n_tied)
    if not follows_query:
        message = (
            "The scores of the cross-encoder do not follow the query: in a probe, a sentence that answers a "
            "question does not score above an unrelated one."
        )
        remedy = "Use a cross-encoder that was trained for re-ranking, whose higher scores are better."
        yield ScoreWarning("scores_ignore_query", message, remedy)
    if limit is not None and (n_cut := sum(length > limit for length in lengths)):
        message = (
            f"The cross-encoder reads about the first {limit:,} characters of a document; {n_cut:,} of "
            f"{len(lengths):,} documents are longer."
        )
        remedy = "Raise the server's limit if the model allows for it, or use a model with a longer context."
        yield ScoreWarning("truncated_texts", message, remedy)


def _probe_findings(folder: Path, model: LanguageModel, *, collects: bool) -> tuple[int | None, bool]:
    """Return how many characters a cross-encoder reads of a document, and whether its scores follow the query.

    The findings are stored in `truncation.json` by the process that probed the server. Language models have no limit
    (None) and follow the query.
    """
    file, limit = folder / "truncation.json", getattr(model, "text_limit", None)
    facts: Row = {"characters": limit, "follows_query": getattr(model, "follows_query", True)}
    if limit is not None and not collects:
        write_new(file, json.dumps(facts).encode())
    stored = read_json(file) if file.is_file() else facts
    return stored["characters"], stored.get("follows_query", True)  # earlier versions did not store it


def _scores(text: str, method: RerankMethod) -> list[float] | None:
    """Return the scores in a reply, one per candidate of its prompt; None if it cannot be parsed."""
    try:
        scores = method.parse(text)
    except ParseError:
        return None
    return scores if isinstance(scores, list) else [scores]
