"""Search servers as retrievers: equal rankings and scores, refused replies, retries and the API key."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kbbench_hf
from kbbench_hf.errors import DataError, KBBenchError, UsageError
from kbbench_hf.llm import endpoint as client
from kbbench_hf.protocols import Ranking
from kbbench_hf.reports.run_page import run_page
from kbbench_hf.retrieval import search_server
from kbbench_hf.retrieval.context import RetrieverContext
from kbbench_hf.retrieval.retrievers import retriever
from kbbench_hf.retrieval.search_server import SearchServer
from tests.servers.serving import serving
from tests.unit.retrieval.small_kb import small_kb

IDS = [0, 1, 2, 10]


@contextmanager
def engine(
    answer: Callable[[dict[str, Any]], object], *, failures: int = 0, retry_after: int = 0
) -> Iterator[tuple[str, list[Any]]]:
    """Serve replies to search requests, after some failures; yield the address and the headers of all requests."""
    received: list[Mapping[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            received.append(self.headers)
            body = json.dumps(answer(request)).encode()
            self.send_response(503 if len(received) <= failures else 200)
            self.send_header("Retry-After", str(retry_after))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    with serving(HTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/search", received


def test_an_engine_that_ranks_as_bm25_has_the_scores_of_bm25_and_is_named_in_the_run(tmp_path: Path) -> None:
    ours = kbbench_hf.run("mini-stark", "bm25", out=tmp_path / "bm25", show=False)
    rankings = [json.loads(line) for line in (tmp_path / "bm25/predictions.jsonl").read_text().splitlines()]
    queries = kbbench_hf.load("mini-stark", split="test")["query"]
    known = dict(zip(queries, rankings, strict=True))

    def answer(request: dict[str, Any]) -> object:
        lists = []
        for query in request["queries"]:
            pairs = zip(known[query]["ids"], known[query]["scores"], strict=True)
            ordered = sorted(pairs, key=lambda each: (-each[1], -each[0]))  # an engine has its own order of ties
            lists.append([{"id": str(name), "score": score} for name, score in ordered[: request["top_k"]]])
        return {"results": lists, "engine": "copy 1.0"}

    with engine(answer) as (url, _):
        theirs = kbbench_hf.run("mini-stark", f"search:{url}", out=tmp_path / "copy", show=False)
    assert theirs.scores == ours.scores
    files = [(tmp_path / name / "predictions.jsonl").read_bytes() for name in ("bm25", "copy")]
    assert files[0] == files[1]
    assert json.loads((tmp_path / "copy/run.json").read_text())["revisions"] == {url: "copy 1.0"}
    assert "copy 1.0" in run_page(tmp_path / "copy")


def test_the_recall_of_exact_search_is_shown_with_the_score(tmp_path: Path) -> None:
    ours = kbbench_hf.run("mini-stark", "bm25", out=tmp_path / "bm25", limit=40, show=False)
    rankings = [json.loads(line) for line in (tmp_path / "bm25/predictions.jsonl").read_text().splitlines()]
    known = dict(zip(kbbench_hf.load("mini-stark", split="test")["query"], rankings, strict=False))
    lost = 0

    def answer(request: dict[str, Any]) -> object:
        lists = [known[query]["ids"][lost:][: request["top_k"]] for query in request["queries"]]
        return {"results": [[{"id": name} for name in each] for each in lists]}

    def noted(name: str) -> Any:
        run = json.loads((tmp_path / name / "run.json").read_text())
        (warning,) = [each for each in run["warnings"] if each["code"] == "approximate_search"]
        return warning["severity"], warning["message"]

    with engine(answer) as (url, _):
        how: dict[str, Any] = {"limit": 40, "top_k": 100, "show": False}
        kbbench_hf.run("mini-stark", f"search:{url}(bm25)", out=tmp_path / "exact", **how)
        lost = 3
        result = kbbench_hf.run("mini-stark", f"search:{url}(bm25)", out=tmp_path / "lossy", **how)
        with pytest.raises(UsageError, match="several exact searches"):
            kbbench_hf.run("mini-stark", f"search:{url}(bm25,bm25)", out=tmp_path / "two", **how)
    words = "The search returns 100.00% of the 10 nearest nodes of exact search by bm25, over 40 queries."
    assert noted("exact") == ("note", words)
    severity, message = noted("lossy")
    tied = sum(len([score for score in row["scores"] if score == row["scores"][9]]) > 3 for row in rankings)
    assert severity == "warning" and 70 <= float(message.split()[3].rstrip("%")) < 75 + tied
    assert message in {each.message for each in result.warnings} and ours.scores != result.scores


WRONG: dict[str, object] = {
    "expected a JSON object. Fix": [],
    "results = None to 1 queries; expected one list": {},
    "results = 2 lists to 1 queries; expected one list": {"results": [[], []]},
    "4 results; expected a list of at most 3. Cut": {"results": [[{"id": each} for each in IDS]]},
    "'nobody'}; expected the id of one of the 4 candidates. Load": {"results": [[{"id": "nobody"}]]},
    "3}; expected the id of one of the 4 candidates": {"results": [[{"id": 3}]]},
    "{'id': True}; expected the id": {"results": [[{"id": True}]]},
    "twice; expected each node once. Merge": {"results": [[{"id": 1}, {"id": "1"}]]},
    "result 1, 7; expected an object": {"results": [[7]]},
    'nan}; expected an object with "id" and a finite': {"results": [[{"id": 1, "score": math.nan}]]},
    "expected a score of at most 0.1, that of the result before. Sort": {
        "results": [[{"id": 1, "score": 0.1}, {"id": 2, "score": 0.2}]]
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_a_malformed_reply_is_refused_with_what_was_expected(message: str) -> None:
    with engine(lambda _: WRONG[message]) as (url, _), pytest.raises(DataError, match=re.escape(message)):
        SearchServer(url, IDS).search(["a query"], 3)


def test_results_may_be_few_without_scores_and_are_places_among_the_candidates() -> None:
    with engine(lambda _: {"results": [[{"id": 10}, {"id": "0"}], []]}) as (url, _):
        assert SearchServer(url, IDS).search(["one", "two"], 3).ids.tolist() == [[3, 0, -1], [-1, -1, -1]]


def test_a_failure_is_retried_and_the_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "wait_before_retry", lambda *_: 0.0)
    monkeypatch.setenv("SEARCH_KEY", "sk-secret")
    context = RetrieverContext(small_kb(), Path(), candidates=np.array([4, 8]))
    with engine(lambda _: {"results": [[{"id": 8}]]}, failures=2) as (url, received):
        ranking = retriever(f"search:{url}@api_key_env=SEARCH_KEY", context).search(["silver"], 1)
    assert ranking.ids.tolist() == [[8]]
    assert [each["Authorization"] for each in received] == ["Bearer sk-secret"] * 4
    assert context.revisions == {url: "engine without a name"}
    with engine(lambda _: {}, failures=9, retry_after=3600) as (url, received), pytest.raises(KBBenchError):
        SearchServer(url, IDS).search(["silver"], 1)
    assert len(received) == 1, "nobody waits an hour for a query"


def test_a_run_without_a_server_names_the_address_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "wait_before_retry", lambda *_: 0.0)
    with engine(lambda _: {}) as (url, _):
        pass
    with pytest.raises(KBBenchError, match=f"{url} did not search: no_connection.*Start the server"):
        kbbench_hf.run("mini-stark", f"search:{url}", out=tmp_path / "run", show=False)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UsageError, match="is not a server's address"):
        kbbench_hf.run("mini-stark", "search:localhost", out=tmp_path / "run", show=False)


class Ranked:
    """Ranks all queries alike."""

    def __init__(self, ids: list[int], scores: list[float]) -> None:
        self.ids, self.scores, self.n_queries = ids, scores, list[int]()

    def search(self, queries: Any, top_k: int) -> Ranking:
        self.n_queries.append(len(queries))
        return Ranking(np.array([self.ids] * len(queries)), np.array([self.scores] * len(queries)))


@pytest.mark.parametrize(
    ("found", "share"),
    [([0, 1, 2, 3], 1.0), ([3, 2, 1, 0], 1.0), ([0, 1, 2, -1], 0.75), ([0, 1, 2, 4], 1.0), ([0, 1, 5, 6], 0.5)],
)
def test_equal_scores_count_as_found_in_the_recall_of_a_server(
    found: list[int], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_server, "DEPTH", 4)
    exact = Ranked([0, 1, 2, 3, 4, 5, 6], [1.0, 0.9, 0.8, 0.7, 0.7, 0.6, 0.5])
    server, n = Ranked(found, [0.0] * len(found)), search_server.BATCH + 1
    assert search_server.measure_recall(server, exact, ["?"] * n) == share  # type: ignore[arg-type]
    assert server.n_queries == [search_server.BATCH, 1]


def test_where_fewer_nodes_are_near_than_are_asked_for_these_are_enough() -> None:
    exact = Ranked([4, 2, -1], [0.5, 0.4, -np.inf])
    assert search_server.measure_recall(Ranked([2, 4, 7], [0.0] * 3), exact, ["?"]) == 1.0  # type: ignore[arg-type]
    assert search_server.measure_recall(Ranked([7, 4], [0.0] * 2), exact, ["?"]) == 0.5  # type: ignore[arg-type]
    nothing = Ranked([-1], [-np.inf])  # as `knn` of questions without a neighbor
    assert search_server.measure_recall(exact, nothing, ["?"]) == 1.0  # type: ignore[arg-type]
