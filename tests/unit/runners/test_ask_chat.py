"""A run stops in good order at a signal, whatever the system's event loop can do."""

import asyncio
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.files.journal import Record
from kbbench_hf.protocols import Completion
from kbbench_hf.runners.ask_chat import Asker
from kbbench_hf.runners.cost import Budget
from kbbench_hf.runners.jobs import InterruptedRunError, Sampling, Work


class Interrupting:
    """A model whose third answer is under way when Ctrl-C comes."""

    name = "interrupting"

    def __init__(self) -> None:
        self.n_asked = 0

    async def complete(self, messages: Sequence[Any], *, max_tokens: int | None = None) -> Completion:
        self.n_asked += 1
        if self.n_asked == 3:
            signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0.05)
        return Completion("answer", "stop", None, None, 0.05)


@pytest.mark.parametrize("in_the_loop", [True, False])
def test_ctrl_c_waits_for_what_is_under_way(in_the_loop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_the_loop:  # as on Windows

        def refuse(*_: object) -> None:
            raise NotImplementedError

        monkeypatch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", refuse)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    jobs = Work({n: Prompt([{"role": "user", "content": "?"}]) for n in range(50)}, Sampling()).jobs("m")
    model = Interrupting()
    records: list[Record] = []
    with pytest.raises(InterruptedRunError):
        asyncio.run(Asker(model, records.append, Budget(None), concurrency=2).ask_all(jobs))
    assert len(records) == model.n_asked < 10
    assert all(record["response"] == "answer" for record in records)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
