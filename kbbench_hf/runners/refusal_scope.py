"""Scope of a refusal: one prompt, a request parameter, or the whole run.

`chat_requests` uses it for every refused request. Known error patterns decide. If they are unclear, or name a parameter
that was accepted before, a prompt that was answered before is sent with the same parameters: an answer means that the
refusal was of the prompt. A run stops only if nothing succeeds, or if key, quota or model are missing. A resumed run
compares its responses to `CANARY` with those of earlier starts, and journals have `PROBE` in keys: both stay.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.errors import KBBenchError, UsageError
from kbbench_hf.files.journal import Record
from kbbench_hf.llm.failures import OF_THE_PROMPT, Failure, Refusal, RefusalKind, RequestRefused
from kbbench_hf.protocols import Chat, Completion, name_of
from kbbench_hf.runners.jobs import Job

CANARY = Prompt([{"role": "user", "content": "Write the numbers from one to ten as words."}], max_tokens=32)
"""Sent at the start and at the end of a run: another response at temperature 0 hints at another model."""
PROBE = "probe"
"""Beginning of the keys of such second requests in the journal."""
BELIEVED = 20
"""After so many refusals of one wording without any response between them, the scope is probed again."""
_ODDITIES = re.compile(r"\d[\d.,]*|[`'\"“][^`'\"”]*[`'\"”]")
"""Numbers and quoted parts of an error, which differ from prompt to prompt."""


class Arbiter:
    """Decides on the scope of the refusals of a run; `send` sends a job once, `record` stores a probe and its cost."""

    def __init__(
        self, model: Chat, send: Callable[[Job], Awaitable[Completion]], record: Callable[[Record], None]
    ) -> None:
        self._model, self._send, self._record = model, send, record
        self.n_answered = 0
        self.good: Prompt | None = None
        """A prompt that was answered."""
        self.said_otherwise: Callable[[Mapping[str, object]], None] = lambda changes: None
        """Called with the changed form of requests that a refusal has taught."""
        self._taken: set[str] = set()
        """Parameters that the server has accepted."""
        self._asking = asyncio.Lock()
        self._verified: dict[str, tuple[int, int]] = {}
        """Wording of a refusal -> number of answers at its last occurrence, and its occurrences since a probe."""

    def answered(self, job: Job) -> None:
        """Note that a job was answered, so that its parameters are accepted."""
        self.n_answered += 1
        self._taken |= _parameter_names(job)
        if job.id is not None:
            self.good = job.prompt

    async def judge(self, job: Job, refused: RequestRefused) -> Failure | None:
        """Return the failure of this prompt alone; None if it is to be sent again, in another form of request.

        Raises:
            KBBenchError: no request of this run can succeed; the message says why.
        """
        found = refused.refusal or Refusal(RefusalKind.UNCLEAR)
        open_question = found.kind in (RefusalKind.UNCLEAR, RefusalKind.PARAMETER)
        is_open = self._is_outdated(refused) or found.parameter not in self._taken
        if found.kind is RefusalKind.PARAMETER and is_open and self._learn(refused):
            return None
        never_taken = found.parameter in _parameter_names(job) - self._taken
        if not open_question or never_taken or job.id is None or not await self._is_of_the_prompt(job, refused):
            raise refusal_error(refused, self._model) from refused
        reason = "parameter_refused" if found.kind is RefusalKind.PARAMETER else "prompt_refused"
        return Failure(reason, f"{refused.reason.replace('_', ' ').upper()}: {refused.detail}", transient=False)

    def _is_outdated(self, refused: RequestRefused) -> bool:
        """Return whether the form of requests has changed since: another refusal may have taught it meanwhile."""
        return refused.dialect is not None and refused.dialect is not getattr(self._model, "dialect", refused.dialect)

    def _learn(self, refused: RequestRefused) -> bool:
        """Let the model change its form of requests after a refusal; return whether it did."""
        learn = getattr(self._model, "learn", None)
        changes = learn(refused) if learn is not None else None
        if changes is None:
            return False
        self.said_otherwise(changes)
        return True

    async def _is_of_the_prompt(self, job: Job, refused: RequestRefused) -> bool:
        """Return whether a refusal is of the prompt; send a probe where its wording was not verified lately."""
        wording = f"{refused.reason} {_ODDITIES.sub('', refused.words)[:200]}"
        async with self._asking:
            answered, since = self._verified.get(wording, (self.n_answered, BELIEVED))
            if answered != self.n_answered:
                since = 0
            if since >= BELIEVED:
                if not await self._is_answered_again(job):
                    return False
                since = 0
            self._verified[wording] = (self.n_answered, since + 1)
        return True

    async def _is_answered_again(self, job: Job) -> bool:
        """Send a prompt that was answered before with the parameters of this job; return False if it is refused too.

        Raises:
            Failure: a transient one, which says nothing; the job is to be sent again.
        """
        probe = job._replace(key=f"{PROBE}-{time.time_ns()}", id=None, prompt=self.good or CANARY)
        try:
            self._record(probe.answered(await self._send(probe), 1))
            self.n_answered += 1
            return True
        except Failure as failure:
            self._record(probe.failed(failure, 1))
            if failure.transient:
                raise
            return not isinstance(failure, RequestRefused) and failure.reason not in OF_THE_PROMPT


def _parameter_names(job: Job) -> set[str]:
    """Return the names of a job's parameters, with `response_format` for a schema and `messages` for a system one."""
    schema = {"response_format"} if job.schema is not None else set()
    system = {"messages"} if any(message["role"] == "system" for message in job.prompt.messages) else set()
    return {*job.parameters, *schema, *system}


def refusal_error(refused: RequestRefused, model: Any) -> KBBenchError:
    """Return the error that ends a run: a UsageError, or of a missing quota a KBBenchError, with a remedy."""
    where = getattr(model, "base_url", None) or name_of(model)
    found = refused.refusal or Refusal(RefusalKind.UNCLEAR)
    name = found.parameter
    what, remedy = {
        RefusalKind.KEY: ("the key", "Is the API key right? May it use this model? Name its variable: --api-key-env."),
        RefusalKind.QUOTA: (
            "the request for lack of credit or quota",
            "Top up the account, and run the same command again.",
        ),
        RefusalKind.MODEL: ("the model", f"Does it serve the model {getattr(model, 'model', '?')!r}?"),
        RefusalKind.ADDRESS: ("the address", "Give the base URL of its OpenAI-compatible interface."),
        RefusalKind.PARAMETER: (f"the parameter {name!r}", _remedy(name)),
    }.get(found.kind, ("the request", "Does the server take these parameters?"))
    said = f"{refused.reason.replace('_', ' ').upper()}{': ' if refused.detail else ''}{refused.detail}"
    kind = KBBenchError if found.kind is RefusalKind.QUOTA else UsageError
    return kind(f"{where} refused {what} with {said}{'' if said.endswith('.') else '.'} {remedy}")


def _remedy(parameter: str | None) -> str:
    """Return the remedy for a parameter that the server does not accept."""
    if parameter == "tools":
        return (
            "Start the server so that the model can call them (vLLM: --enable-auto-tool-choice --tool-call-parser NAME;"
            " llama.cpp: --jinja), or use --protocol json."
        )
    options = {"max_tokens": "--max-tokens", "max_completion_tokens": "--max-tokens", "temperature": "--temperature"}
    options |= {"top_p": "--top-p", "seed": "--seed", "response_format": "--structured", "messages": "the prompt"}
    options |= {"tool_choice": "--tool-choice"}
    return f"Change or leave out {options.get(parameter or '', f'{parameter!r}, perhaps in --extra-body')}."
