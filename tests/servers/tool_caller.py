"""A scripted model that calls tools, on a server that checks how it is spoken to.

What the model says next follows only from the conversation it is sent: a policy is a generator that yields turns and is
sent the results of their calls, and for every request it is played again from the start. So the server keeps no state,
and a conversation that was changed on the way (a call lost, an answer in the wrong place) is found at once.

What a strict server or a chat template would not take is answered 400 and kept in `violations`; leaving the server's
`with` block with any raises AssertionError.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

from tests.servers.scripted import MODEL, Reply, ScriptedServer

TOOLS = ("search_nodes", "neighbors", "select", "finish")
"""The tools that every request must offer, in this order."""
FIELDS = frozenset({"model", "messages", "tools", "max_tokens", "temperature", "seed", "top_p", "stop"})
"""What a request may hold unless the test says otherwise: some servers answer an error to anything else."""
MESSAGE_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
RESULT = "Result: "
"""What a result begins with that comes as a text."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CHARACTERS_PER_TOKEN = 4

Result = dict[str, Any]
"""What a tool answered, read from its JSON."""


class Call(NamedTuple):
    """One call of a tool."""

    name: str
    arguments: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Turn:
    """One reply of the model: calls, or a message as it is, to which the client must find `n_results` calls."""

    calls: Sequence[Call] = ()
    content: str | None = None
    message: Mapping[str, Any] | None = None
    n_results: int | None = None
    finish_reason: str = "tool_calls"
    usage: Mapping[str, Any] | None = None

    @property
    def expects(self) -> int:
        """How many results must come back."""
        return len(self.calls) if self.n_results is None else self.n_results


Script = Generator[Turn, list[Result], None]
"""A model's side of one conversation; when it ends, the model has nothing more to say but "Done."."""
Policy = Callable[[str], Script]
"""The text of the first user message -> what is played."""


class Violation(Exception):
    """What a strict server would not take."""


class Exchange(NamedTuple):
    """What the client says was said, and the texts of the results it gives back."""

    message: Mapping[str, Any]
    results: list[str]


@dataclass
class ToolCaller(ScriptedServer):
    """A `ScriptedServer` whose model plays a policy."""

    policy: Policy = field(kw_only=True)
    extra_fields: frozenset[str] = frozenset()
    """Further fields that a request may hold."""
    refuses: frozenset[str] = frozenset()
    """Fields of a request that are answered 400, as a server that does not know them does; no violation."""
    node_texts: Sequence[str] = ()
    """What must stand in tool messages only, and there never in an error's message."""
    reasons: bool = False
    """Whether the model thinks before each turn, in the field that servers have for it."""
    dialect: Callable[[Sequence[Call]], str] | None = None
    """How the model writes its calls into its text; None where it has the field for them."""
    told_in_words: bool = False
    """Whether requests name the tools in their text, and results come as texts: one call a turn, written in JSON."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.violations: list[str] = []
        self.fields: Counter[str] = Counter()
        self._tools: Any = None
        self.answer, self.reply = self._answer, self._refusal

    def __exit__(self, kind: Any = None, *more: object) -> None:
        super().__exit__(kind, *more)
        if kind is None and self.violations:
            raise AssertionError(f"{len(self.violations)} violations, the first: {self.violations[0]}")

    def key_of(self, payload: dict[str, Any]) -> str:
        return hashlib.sha256(json.dumps(payload["messages"], sort_keys=True).encode()).hexdigest()

    @property
    def n_paid_twice(self) -> int:
        """How many answers were given to conversations that had one already."""
        return sum(self.answered.values()) - len(self.answered)

    def _refusal(self, payload: dict[str, Any]) -> Reply | None:
        if self._is_canary(payload):
            return None
        self.fields.update(payload.keys())
        words: str | None = None
        for refused in sorted(self.refuses & payload.keys()):
            words = f"Unrecognized request argument supplied: {refused}"
        if words is None:
            try:
                self._check(payload)
                return None
            except Violation as violation:
                words = str(violation)
                self.violations.append(words)
        body = {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": None}}
        return Reply(400, json.dumps(body).encode())

    def _is_canary(self, payload: dict[str, Any]) -> bool:
        return "tools" not in payload and payload["messages"][0]["role"] != "system"

    def _check(self, payload: dict[str, Any]) -> None:
        unknown = payload.keys() - FIELDS - self.extra_fields
        _require(not unknown, f"fields that the server does not know: {sorted(unknown)}")
        if self.told_in_words:
            system = payload["messages"][0]["content"]
            _require("tools" not in payload and all(tool in system for tool in TOOLS), "tools that are not told of")
        elif self._tools is None:
            _check_tools(payload["tools"])
            self._tools = payload["tools"]
        _require(payload.get("tools") == self._tools, "other tools than before")
        question, exchanges = conversation(payload["messages"])
        self._check_places(payload, question, exchanges)
        play(self.policy, question, exchanges)

    def _check_places(self, payload: dict[str, Any], question: str, exchanges: Sequence[Exchange]) -> None:
        system = payload["messages"][0]["content"]
        apart = [system, json.dumps(payload.get("tools"), ensure_ascii=False)]
        apart += [
            json.dumps(json.loads(result)["error"]["message"], ensure_ascii=False)
            for exchange in exchanges
            for result in exchange.results
            if "error" in json.loads(result)
        ]
        users = [message["content"] for message in payload["messages"][2:] if message["role"] == "user"]
        apart += [text for text in users if not text.startswith(RESULT)]
        for text in self.node_texts:
            _require(
                text in question or not any(text in each for each in apart),
                f"a node's text outside the results of tools: {text!r}",
            )

    def _answer(self, payload: dict[str, Any]) -> str | dict[str, Any]:
        if self._is_canary(payload):
            return "canary"
        try:
            question, exchanges = conversation(payload["messages"])
            turn = play(self.policy, question, exchanges)
        except Violation:
            return ""  # the refusal is sent
        if turn.message is not None:
            message = dict(turn.message)
        elif self.dialect is not None and turn.calls:
            message = {"role": "assistant", "content": f"{turn.content or ''}{self.dialect(turn.calls)}"}
        else:
            message = _message(turn, len(exchanges))
        if self.reasons:
            message["reasoning_content"] = f"Thought {len(exchanges)}."
        used = {
            "prompt_tokens": len(json.dumps(payload["messages"])) // _CHARACTERS_PER_TOKEN,
            "completion_tokens": len(json.dumps(message)) // _CHARACTERS_PER_TOKEN,
        }
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": MODEL,
            "choices": [{"index": 0, "finish_reason": turn.finish_reason, "message": message}],
            "usage": turn.usage or {**used, "total_tokens": sum(used.values())},
        }


def conversation(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[Exchange]]:
    """Return the text of the question and what was said since.

    Raises:
        Violation: a message is not as it must be, or not in its place.
    """
    roles = [message.get("role") for message in messages]
    _require(roles[:2] == ["system", "user"], f"a conversation that begins with {roles[:2]}")
    for message in messages:
        extra = message.keys() - MESSAGE_FIELDS.get(str(message.get("role")), set())
        _require(not extra, f"a {message.get('role')} message with {sorted(extra)}")
    exchanges: list[Exchange] = []
    ids: set[str] = set()
    place = 2
    while place < len(messages):
        said, place = messages[place], place + 1
        _require(said["role"] == "assistant", f"a {said['role']} message where the model's own has its place")
        _require("<think>" not in (said.get("content") or ""), "what was thought is sent back")
        if "tool_calls" not in said:
            _require(isinstance(said.get("content"), str), "an assistant message without content and calls")
            _require(place < len(messages) and messages[place]["role"] == "user", "no reminder after a text")
            text, place = messages[place]["content"], place + 1
            results = [text.removeprefix(RESULT)] if text.startswith(RESULT) else []
            for each in results:
                _check_result(each)
            exchanges.append(Exchange(said, results))
            continue
        called = [_called(call) for call in said["tool_calls"]]
        _require(bool(called), "an empty list of calls is sent back")
        _require(not ids & set(called) and len(set(called)) == len(called), f"ids used twice among {called}")
        ids.update(called)
        answers = messages[place : place + len(called)]
        place += len(called)
        _require([each.get("tool_call_id") for each in answers] == called, f"calls {called} are not answered in order")
        for each in answers:
            _check_result(each["content"])
        exchanges.append(Exchange(said, [each["content"] for each in answers]))
    return messages[1]["content"], exchanges


def play(policy: Policy, question: str, exchanges: Sequence[Exchange]) -> Turn:
    """Return the model's next turn after what was said.

    Raises:
        Violation: what the client says was said is not what the policy said.
    """
    script, done = policy(question), Turn(content="Done.", finish_reason="stop")
    turn = next(script, done)
    for exchange in exchanges:
        _compare(turn, exchange)
        results = [json.loads(result) for result in exchange.results]
        if turn is not done:
            try:
                turn = script.send(results)
            except StopIteration:
                turn = done
    return turn


def _message(turn: Turn, step: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.content}
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{step}_{place}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(each)},
            }
            for place, (name, each) in enumerate(turn.calls)
        ]
    return message


def _compare(turn: Turn, exchange: Exchange) -> None:
    calls = [call["function"] for call in exchange.message.get("tool_calls", ())]
    if not calls and exchange.results:
        called = json.loads(exchange.message["content"])
        calls = [{"name": called["tool"], "arguments": json.dumps(called["arguments"])}]
    _require(len(calls) == turn.expects, f"{len(calls)} calls are sent back of {turn.expects}")
    if turn.message is None:
        found = [Call(call["name"], json.loads(call["arguments"])) for call in calls]
        _require(found == list(turn.calls), f"{found} is sent back where {list(turn.calls)} was said")


def _called(call: Mapping[str, Any]) -> str:
    _require(call.keys() == {"id", "type", "function"} and call["type"] == "function", f"an odd call: {call}")
    function = call["function"]
    _require(function.keys() == {"name", "arguments"}, f"an odd function: {function}")
    _require(isinstance(function["name"], str) and bool(_NAME.fullmatch(function["name"])), f"a name: {function}")
    _require(isinstance(function["arguments"], str), f"arguments that are no string: {function}")
    try:
        arguments = json.loads(
            function["arguments"], parse_constant=_no_constant
        )  # as the servers do that put them into a template
    except ValueError:
        arguments = None
    _require(isinstance(arguments, dict), f"arguments that are no JSON object: {function}")
    _require(isinstance(call["id"], str) and bool(call["id"]), f"a call without an id: {call}")
    return str(call["id"])


def _check_result(text: object) -> None:
    _require(isinstance(text, str) and len(text.splitlines()) == 1, f"a result that is not one line: {text!r}")
    try:
        _require(isinstance(json.loads(str(text), parse_constant=_no_constant), dict), f"no object: {text!r}")
    except ValueError:
        raise Violation(f"a result that is no JSON: {text!r}") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _check_tools(tools: Any) -> None:
    _require(isinstance(tools, list) and all(tool.get("type") == "function" for tool in tools), "odd tools")
    functions = [tool["function"] for tool in tools]
    _require(
        tuple(each.get("name") for each in functions) == TOOLS, f"the tools {[each['name'] for each in functions]}"
    )
    for each in functions:
        _require(len(each.get("description", "")) > 20, f"{each['name']} has no description")
        schema = each["parameters"]
        Draft202012Validator.check_schema(schema)
        _require(schema.get("type") == "object" and "properties" in schema, f"the schema of {each['name']}")
        _require(set(schema.get("required", ())) <= schema["properties"].keys(), f"the schema of {each['name']}")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)
