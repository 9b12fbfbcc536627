"""No reply takes more than its bounds, and no form of the key gets through."""

import asyncio
import base64
import gzip
import json
import tracemalloc
import zlib

import pytest

from kbbench_hf.llm.endpoint import Endpoint, Redaction
from kbbench_hf.llm.failures import Failure
from kbbench_hf.llm.http_bodies import MAX_BYTES
from kbbench_hf.protocols import Completion
from tests.endurance.hostile_replies import all_problems
from tests.servers.hostile import packed
from tests.servers.scripted import Reply, ScriptedServer

GOOD = json.dumps({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}).encode()


def ask(body: bytes, **headers: str) -> Completion:
    reply = Reply(200, body, {name.replace("_", "-"): value for name, value in headers.items()})

    async def one(url: str) -> Completion:
        async with Endpoint(url, "m", timeout_s=5.0) as endpoint:
            return await endpoint.complete([{"role": "user", "content": "?"}], 16)

    with ScriptedServer(reply=lambda payload: reply) as server:
        done = asyncio.run(one(server.url))
        assert server.requests[0][1]["accept-encoding"] == "identity"
        return done


@pytest.mark.parametrize(("packed", "name"), [(gzip.compress(GOOD, mtime=0), "gzip"), (zlib.compress(GOOD), "deflate")])
def test_a_packed_reply_is_unpacked(packed: bytes, name: str) -> None:
    assert ask(packed, Content_Encoding=name).text == "yes"


def test_a_bomb_is_unpacked_no_further_than_a_reply_may_be_long() -> None:
    bomb = packed(b"\0", 300_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(Failure) as caught:
            ask(bomb, Content_Encoding="gzip")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.reason == "reply_too_large"
    assert peak < 10 * MAX_BYTES


@pytest.mark.parametrize("packed", [True, False])
def test_a_reply_of_exactly_the_limit_is_read(packed: bool) -> None:
    body = GOOD + b" " * (MAX_BYTES - len(GOOD))
    assert (ask(gzip.compress(body, 1), Content_Encoding="gzip") if packed else ask(body)).text == "yes"


def test_a_reply_that_announces_more_than_the_limit_is_not_read() -> None:
    with pytest.raises(Failure) as caught:
        ask(b" " * (MAX_BYTES + 1))
    assert caught.value.reason == "reply_too_large"


@pytest.mark.parametrize(("name", "reason"), [("br", "encoding"), ("zstd", "encoding"), ("gzip", "not_unpacked")])
def test_what_is_packed_otherwise_is_a_failure_by_name(name: str, reason: str) -> None:
    with pytest.raises(Failure) as caught:
        ask(b"\x0b\x02\x80hello\x03", Content_Encoding=name)
    assert caught.value.reason == reason


KEY = "sk-a+b/c=d_é"


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        json.dumps(KEY)[1:-1],
        KEY.replace("/", "\\/").replace("=", "\\u003D"),
        "".join(f"\\\\u{ord(c):04x}" for c in KEY),
        "".join(f"&#x{ord(c):X};" for c in KEY),
        KEY.replace("+", "&plus;").replace("=", "&equals;"),
        "".join(f"%{byte:02X}" for byte in KEY.encode()),
        "".join(f"%25{byte:02x}" for byte in KEY.encode()),
        base64.b64encode(f"Bearer {KEY}".encode()).decode(),
        base64.urlsafe_b64encode(f"x{KEY}?".encode()).decode(),
        KEY.encode().hex(),
    ],
)
def test_the_key_is_taken_out_in_every_form(form: str) -> None:
    left = Redaction(KEY)(f'{{"key": "{form}"}}'.encode())
    assert b"[redacted]" in left
    assert not any(piece in left for piece in (b"a+b", b"c=d", base64.b64encode(KEY.encode())[4:12], form.encode()))


def test_nothing_is_taken_out_where_there_is_no_key() -> None:
    assert Redaction("")(b"a %41 &#65; \\u0041") == b"a %41 &#65; \\u0041"


@pytest.mark.full
def test_fifty_hostile_replies_take_no_memory_leave_no_trace_and_steer_no_terminal() -> None:
    found = all_problems()
    assert not {name: each.problems for name, each in found.items() if each.problems}
    assert len(found) >= 50
