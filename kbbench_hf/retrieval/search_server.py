"""Search engines and vector databases behind a URL as retrievers (`search:URL`).

The retriever sends `POST URL` with `{"queries": ["...", ...], "top_k": 100}`. The server replies
`{"results": [[{"id": 17, "score": 0.83}, ...], ...], "engine": "name and version"}`: one list for each query, best
first, with at most `top_k` different candidates. `score` and `engine` are optional.

`search:URL(dense:MODEL)` also measures the recall of the server's search against exact search by the part.

`retrieval.retrievers` builds it. Users write servers for this protocol: it stays. Replies are not trusted: anything but
the form above is refused with the query, what came and what to change.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.warnings import ScoreWarning, Severity
from kbbench_hf.errors import DataError, KBBenchError, UsageError
from kbbench_hf.llm.concurrency import run
from kbbench_hf.llm.endpoint import NO_KEY, Endpoint, key_from_environment
from kbbench_hf.llm.failures import Failure
from kbbench_hf.llm.http_bodies import MAX_BYTES
from kbbench_hf.model_specs import Spec, positive
from kbbench_hf.protocols import Ranking, Retriever
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.top_k import pad

RESULT_BYTES = 256
"""The longest accepted result on average; ids and scores take 30 to 80 bytes."""
DEPTH = 10
"""The recall is measured on so many results."""
N_COMPARED = 1_000
"""And on at most so many queries."""
BATCH = 32
"""Queries of a request while the recall is measured."""
TIED = 1e-6
"""Candidates whose scores differ by less are equally near."""


def build(spec: Spec, context: RetrieverContext) -> "SearchServer":
    """Build `search:URL@timeout=,api_key_env=`; sends the first query, which also gives the engine's name."""
    if not spec.model or len(spec.parts) > 1:
        raise UsageError(
            f"{str(spec)!r} names no server or several exact searches. Write it like "
            "search:http://localhost:9000/search, or search:http://localhost:9000/search(dense:MODEL)."
        )
    options = spec.read(timeout=(positive, 60), api_key_env=(str, None))
    server = SearchServer(
        spec.model,
        context.kb.ids() if context.candidates is None else context.kb.ids(context.candidates),
        key_from_environment(options["api_key_env"]),
        options["timeout"],
    )
    engine = server.request([each.text for each in context.questions[:1]] or ["test"], 1).get("engine")
    context.revisions[spec.model] = str(engine or "engine without a name")
    if spec.parts and context.questions:
        queries = [each.text for each in context.questions[:N_COMPARED]]
        recall = measure_recall(server, context.part(spec.parts[0]), queries)
        message = (
            f"The search returns {recall:.2%} of the {DEPTH} nearest nodes of exact search by {spec.parts[0]}, over "
            f"{len(queries):,} queries."
        )
        remedy = (
            "" if recall == 1 else "Nearest nodes that are missing may be right or wrong: compare with exact search."
        )
        severity: Severity = "note" if recall == 1 else "warning"
        context.warnings.append(ScoreWarning("approximate_search", message, remedy, severity=severity))
    return server


def measure_recall(server: "SearchServer", exact: Retriever, queries: Sequence[str]) -> float:
    """Return the mean share of the `DEPTH` nearest candidates that a server returns; equal scores count as found."""
    shares = []
    for start in range(0, len(queries), BATCH):
        some = queries[start : start + BATCH]
        found, near = server.search(some, DEPTH), exact.search(some, 4 * DEPTH)
        for row, ids, scores in zip(found.ids, near.ids, near.scores, strict=True):
            n = min(DEPTH, int((ids >= 0).sum()))
            if not n:  # the exact search finds nothing: nothing can be missing
                shares.append(1.0)
                continue
            right = ids[scores >= scores[n - 1] - TIED]
            shares.append(min(n, np.isin(row[row >= 0], right).sum()) / n)
    return float(np.mean(shares))


class SearchServer:
    """Ranks the candidates by the results of a server.

    Args:
        url: where requests are posted.
        ids: the candidates' ids in order of their rows. The server may write numbers as strings and strings as numbers.
        key: the API key, sent as a bearer token.
        timeout_s: seconds after which a request is retried.
    """

    def __init__(self, url: str, ids: Sequence[str | int], key: str = NO_KEY, timeout_s: float = 60.0) -> None:
        self._url, self._key, self._timeout_s = url, key, timeout_s
        self._places = {str(each): place for place, each in enumerate(ids)}
        self._endpoint()  # refuses an address that is none

    def _endpoint(self) -> Endpoint:
        return Endpoint(self._url, "", self._key, self._timeout_s)

    def search(self, queries: Sequence[str], top_k: int) -> Ranking:
        """Return the `top_k` best candidates of every query, equal scores in order of row.

        Raises:
            KBBenchError: the server cannot be reached or refuses the request.
            DataError: its reply is not in the form above, or has a node that may not be ranked.
        """
        results = self.request(queries, top_k).get("results")
        if not isinstance(results, list) or len(results) != len(queries):
            actual = f"{len(results)} lists" if isinstance(results, list) else repr(results)[:80]
            raise DataError(
                f"{self._url} replied with results = {actual} to {len(queries)} queries; expected one list for each. "
                'Fix the server: {"results": [[{"id": ..., "score": ...}, ...], ...]}.'
            )
        return pad([self._parse_results(*each, top_k) for each in zip(queries, results, strict=True)], top_k)

    def request(self, queries: Sequence[str], top_k: int) -> dict[str, object]:
        """Return the JSON object that the server replies.

        Raises:
            KBBenchError: the server cannot be reached, refuses the request or replies no JSON.
            DataError: the reply is no JSON object.
        """

        async def post() -> object:
            async with self._endpoint() as endpoint:
                body = {"queries": list(queries), "top_k": top_k}
                limit = MAX_BYTES + RESULT_BYTES * len(queries) * top_k
                return await endpoint.post(self._url, body, max_bytes=limit)

        try:
            reply = run(post())
        except Failure as failure:
            raise KBBenchError(
                f"{self._url} did not search: {failure}. Expected results in reply to POST. Start the server or "
                "correct the address, and run the same command again."
            ) from None
        if not isinstance(reply, dict):
            raise DataError(
                f"{self._url} replied {repr(reply)[:80]}; expected a JSON object. "
                'Fix the server: {"results": [[{"id": ..., "score": ...}, ...], ...]}.'
            )
        return reply

    def _parse_results(self, query: str, results: object, top_k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the places among the candidates and the scores of one query's results."""
        if not isinstance(results, list) or len(results) > top_k:
            actual = f"{len(results)} results" if isinstance(results, list) else repr(results)[:80]
            raise self._refuse(query, actual, f"a list of at most {top_k}", "Cut the list at top_k")
        ranked: dict[int, float] = {}
        last = math.inf
        for number, each in enumerate(results, start=1):
            result = f"result {number}, {repr(each)[:80]}"
            name, score = (each.get("id"), each.get("score", -number)) if isinstance(each, dict) else (None, None)
            if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
                raise self._refuse(query, result, 'an object with "id" and a finite "score"', "Fix the server")
            place = self._places.get(str(name)) if isinstance(name, str | int) else None
            if place is None:
                load = "Load the engine from this dataset, its candidates only, with the ids of the nodes"
                raise self._refuse(query, result, f"the id of one of the {len(self._places):,} candidates", load)
            if place in ranked:
                raise self._refuse(query, f"{result}, twice", "each node once", "Merge the chunks of a node")
            if score > last:
                expected = f"a score of at most {last:g}, that of the result before"
                raise self._refuse(query, result, expected, "Sort by score; send the negative of a distance")
            ranked[place] = last = float(score)
        places, scores = np.fromiter(ranked, np.int64), np.array([*ranked.values()], np.float64)
        order = np.lexsort((places, -scores))
        return places[order], scores[order]

    def _refuse(self, query: str, actual: str, expected: str, remedy: str) -> DataError:
        return DataError(f"{self._url} replied to {query[:60]!r} with {actual}; expected {expected}. {remedy}.")
