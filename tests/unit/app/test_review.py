"""The review server, asked as a browser and as a stranger's page would."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbbench_hf.app.review import HOST, ReviewServer
from kbbench_hf.benchmarks.reviews import Judgements, ReviewItem
from tests.servers.serving import serving

RIGHT = {"derivable": "yes", "superfluous": "no", "other_answer": "no", "wording": "natural"}
HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReviewServer]:
    items = [ReviewItem(f"q{n}", HOSTILE, [("a", "alias")], [("x",)], [("y",)]) for n in range(2)]
    with serving(ReviewServer("name, part", items, Judgements(tmp_path / "ada.jsonl", HOSTILE, "v1"))) as found:
        yield found


def ask(server: ReviewServer, method: str, path: str, sent: object = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=10)
    body = None if sent is None else json.dumps(sent)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_page_asks_every_question_and_texts_mean_only_themselves(server: ReviewServer) -> None:
    status, page = ask(server, "GET", "/")
    assert status == 200 and page.count("<fieldset") == 4 and server.token in page
    assert "alert(1)" not in page.replace("&lt;script&gt;alert(1)", "")
    assert json.loads(ask(server, "GET", "/items")[1])[0]["question"] == HOSTILE


def test_a_judgement_is_written_and_shown_again(server: ReviewServer) -> None:
    sent = {"id": "q1", "answers": RIGHT}
    assert ask(server, "POST", "/judgements", sent, X_Token=server.token) == (200, '{"n_judged": 1}')
    assert [each["answers"] for each in json.loads(ask(server, "GET", "/items")[1])] == [None, RIGHT]
    (said,) = map(json.loads, server.judgements.file.read_text(encoding="utf-8").splitlines())
    assert (said["instance_id"], said["reviewer"], said["version"]) == ("q1", HOSTILE, "v1")


@pytest.mark.parametrize("headers", [{}, {"X_Token": "guessed"}, {"X_Token": "é"}])
def test_only_the_page_can_write(server: ReviewServer, headers: dict[str, str]) -> None:
    assert ask(server, "POST", "/judgements", {"id": "q1", "answers": RIGHT}, **headers)[0] == 403
    assert not server.judgements.file.exists()


def test_a_name_of_another_site_that_leads_here_is_refused(server: ReviewServer) -> None:
    assert ask(server, "GET", "/items", Host=f"evil.example:{server.server_port}")[0] == 403


@pytest.mark.parametrize(
    "sent",
    [{}, [], {"id": "q9", "answers": RIGHT}, {"id": "q1", "answers": {}}, {"id": "q1", "answers": "yes"}, "x" * 20_000],
)
def test_what_is_no_judgement_is_refused_and_the_server_goes_on(server: ReviewServer, sent: object) -> None:
    assert ask(server, "POST", "/judgements", sent, X_Token=server.token)[0] == 400
    assert not server.judgements.file.exists()
    assert ask(server, "GET", "/nothing")[0] == 404


def test_it_listens_on_this_machine_alone(server: ReviewServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
