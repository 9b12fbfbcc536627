"""Every recorded reply of a provider, served to one prompt of a run, or to all: what the run does next, as a table.

python -m tests.endurance.providers [--shared ../shared]
"""

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import KBBenchError
from kbbench_hf.llm.endpoint import Endpoint
from kbbench_hf.runners import chat_requests as ask_chat
from kbbench_hf.runners.generate import generate
from kbbench_hf.runners.jobs import Sampling
from tests.servers.scripted import MODEL, Reply, ScriptedServer

STOPPING = ("quota_exhausted", "auth", "bad_parameter", "model_not_found")
ASKING_AGAIN = ("retry_soon", "retry_after", "loading", "server_fault")
MOST_REQUESTS, MOST_SECONDS = 12, 30.0
N = 20
SPECIAL = "prompt 5"


class Outcome(NamedTuple):
    """What a run did."""

    action: str
    """"settled", "asked again", "stopped" or "answered"."""
    said: str
    """The error of the row, or the message that ended the run."""
    requests: int
    of_the_special: int
    answered: int
    seconds: float
    waits: tuple[float, ...]


def prompts() -> dict[str, Prompt]:
    return {f"q{i}": Prompt([{"role": "user", "content": f"prompt {i}"}], max_tokens=16) for i in range(N)}


def ask(reply: Reply, *, everyone: bool, times: int | None = None, extra: Mapping[str, Any] | None = None) -> Outcome:
    """Run N prompts against a server that gives this reply to all, or to one of them (so many times, if given)."""
    waits: list[float] = []

    async def wait(sender: Any, seconds: float) -> None:
        waits.append(seconds)

    pause, ask_chat.RequestSender._pause = ask_chat.RequestSender._pause, wait  # type: ignore[method-assign]
    started = time.perf_counter()
    try:
        with ScriptedServer() as server, tempfile.TemporaryDirectory() as folder:

            def script(payload: dict[str, Any]) -> Reply | None:
                mine = everyone or payload["messages"][-1]["content"] == SPECIAL
                return reply if mine and (times is None or server.attempts[SPECIAL] <= times) else None

            server.reply = script
            model = Endpoint(server.url, MODEL, timeout_s=5.0)
            how: dict[str, Any] = {"sampling": Sampling(extra=extra or {}), "concurrency": 4, "show": False}
            action, said, answered = "stopped", "", 0
            try:
                done = generate(prompts(), model, Path(folder), **how)
            except KBBenchError as error:
                said = str(error)
            else:
                record = {record["id"]: record for record in done.records()}["q5"]
                answered, said = done.summary.n_answered, record["error"] or ""
                if record["settled"]:
                    action = "settled"
                else:
                    action = "asked again" if server.attempts[SPECIAL] > 1 else said or "answered"
            requests = len(server.requests)
            special = server.attempts[SPECIAL]
    finally:
        ask_chat.RequestSender._pause = pause  # type: ignore[method-assign]
    return Outcome(action, said, requests, special, answered, time.perf_counter() - started, tuple(waits))


def reply_of(case: Mapping[str, Any]) -> Reply:
    return Reply(case["status"], case["body"].encode(), case["headers"])


def is_right(case: Mapping[str, Any]) -> tuple[bool, Outcome]:
    """Say whether a run does what the meaning of an error reply asks for."""
    reply, meanings = reply_of(case), [case["meaning"], *case.get("also_accepted", [])]
    if case["meaning"] in STOPPING:
        name = case.get("parameter")
        found = ask(reply, everyone=True, extra={name: 1} if name and name not in ("messages", "max_tokens") else None)
        right = found.action == "stopped" and found.requests <= MOST_REQUESTS and found.seconds <= MOST_SECONDS
        return right and (name is None or name in found.said or "refusal_of_this_prompt" in meanings), found
    if case["meaning"] == "refusal_of_this_prompt":
        found = ask(reply, everyone=False)
        if found.action == "settled":
            right = (found.of_the_special, found.answered, found.requests) == (1, N - 1, N + 2)
            return right and found.said == case["cause"], found
        return bool({*meanings} & {*ASKING_AGAIN}) and found.action == "asked again", found
    found = ask(reply, everyone=False, times=1)
    waited = "seconds" not in case or any(wait >= case["seconds"] for wait in found.waits)
    return found.action == "asked again" and found.answered == N and waited, found


def cases(shared: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (shared / "data" / "provider_replies.jsonl").read_text("utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("KBBENCH_SHARED", "../shared")))
    counts: Counter[tuple[str, bool]] = Counter()
    for case in cases(parser.parse_args().shared):
        right, found = is_right(case)
        counts[case["meaning"], right] += 1
        if not right:
            print(f"{case['id']:24}{case['meaning']:24}{case['status']}  {found.action}: {found.said[:120]}")
    print(f"{'meaning':26}{'right':>6}{'wrong':>6}")
    for meaning in dict.fromkeys(name for name, _ in counts):
        print(f"{meaning:26}{counts[meaning, True]:6}{counts[meaning, False]:6}")
    right = sum(n for (_, good), n in counts.items() if good)
    print(f"{right} of {counts.total()} right")


if __name__ == "__main__":
    main()
