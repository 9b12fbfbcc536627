"""What scripted models play against the tools: each policy with what must come out of it, whatever the knowledge base.

A policy sees the text of the question; the factories here give it the puzzle too, as a model that knows the way has it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.puzzles import Id, Puzzle, Puzzles
from tests.servers.tool_caller import Call, Policy, Result, Script, Turn

Play = Callable[[Puzzle], Script]
CALLS_A_STEP = 8


@dataclass(frozen=True)
class Case:
    """A policy for a knowledge base, and what must come out for each of its questions."""

    play: Play
    selected: Callable[[Puzzle], Sequence[Id]] = lambda puzzle: ()
    end: str = "finished"
    steps: Callable[[Puzzle], int] | int | None = None
    errors: Mapping[str, int] | None = field(default_factory=dict)
    """How many results are errors, by code; None where it is not said."""

    def n_steps(self, puzzle: Puzzle) -> int | None:
        return self.steps(puzzle) if callable(self.steps) else self.steps


def policy(puzzles: Puzzles, play: Play) -> Policy:
    """Return the policy that plays for the question that it is asked."""
    return lambda text: play(puzzles.of(text))


def search(query: str, **more: Any) -> Call:
    return Call("search_nodes", {"query": query, **more})


def select(ids: Sequence[object]) -> Call:
    return Call("select", {"node_ids": list(ids)})


FINISH = Call("finish")


def raw(*calls: tuple[str, object], content: object = None, **more: Any) -> Turn:
    """Return a reply whose calls have these arguments as they are, unlike those of a careful server."""
    listed = [
        {"id": f"c{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for place, (name, arguments) in enumerate(calls)
    ]
    return Turn(message={"role": "assistant", "content": content, "tool_calls": listed}, n_results=len(calls), **more)


def walk(puzzle: Puzzle) -> Script:
    """Search the topic, walk to the answers; the results must show every node of the way."""
    found = yield Turn([search(puzzle.topic.name, node_type=puzzle.topic.type, limit=20)])
    _see(found, [puzzle.topic.id])
    for hop, level, following in zip(puzzle.hops, puzzle.on_the_way, puzzle.on_the_way[1:], strict=False):
        calls = [Call("neighbors", {"node_id": node, **hop._asdict(), "limit": 50}) for node in level[:CALLS_A_STEP]]
        found = yield Turn(calls)
        if len(level) <= CALLS_A_STEP:
            _see(found, following)


def _see(results: Sequence[Result], wanted: Sequence[Id]) -> None:
    shown = [node["id"] for result in results for node in result["nodes"]]
    unseen = [each for each in wanted if not any(type(each) is type(one) and each == one for one in shown)]
    if unseen:
        raise AssertionError(f"{unseen} are not among {shown}")


def oracle(puzzle: Puzzle) -> Script:
    """Walk the way, select the answers and finish."""
    yield from walk(puzzle)
    yield Turn([select(puzzle.answers), FINISH])


def oracle_steps(puzzle: Puzzle) -> int:
    return len(puzzle.hops) + 2


def search_only(puzzle: Puzzle) -> Script:
    """Search the question, select nothing."""
    yield Turn([search(puzzle.query, limit=20)])
    yield Turn([FINISH])


def search_and_select(puzzle: Puzzle) -> Script:
    """Select what the search of the question found, in its order."""
    (found,) = yield Turn([search(puzzle.query, limit=20)])
    yield Turn([select([node["id"] for node in found["nodes"]]), FINISH])


def lazy(puzzle: Puzzle) -> Script:
    """Finish at once."""
    yield Turn([FINISH])


def silent(puzzle: Puzzle) -> Script:
    """Say texts only."""
    yield Turn(content="I think it is the third.", finish_reason="stop")
    yield Turn(content="As I said.", finish_reason="stop")


def reminded(puzzle: Puzzle) -> Script:
    """Say a text between calls, each time once: a reminder is enough."""
    for call in (search(puzzle.query), select(puzzle.answers[:1]), FINISH):
        yield Turn(content="Let me see.", finish_reason="stop")
        yield Turn([call])


def endless(puzzle: Puzzle) -> Script:
    """Search without end."""
    while True:
        yield Turn([search(puzzle.query)])


def endless_selecting(puzzle: Puzzle) -> Script:
    """Select an answer, then search without end."""
    yield Turn([select(puzzle.answers[:1])])
    yield from endless(puzzle)


def stuck(puzzle: Puzzle) -> Script:
    """Select an answer, then ask wrongly without end."""
    yield Turn([select(puzzle.answers[:1])])
    while True:
        yield Turn([Call("neighbors", {"node_id": "no such node!"})])


def nearly_stuck(puzzle: Puzzle) -> Script:
    """Ask wrongly twice in a row, again and again, and rightly between."""
    for _ in range(3):
        yield Turn([Call("neighbors", {"node_id": "no such node!"})])
        yield Turn([Call("no_such_tool")])
        yield Turn([Call("neighbors", {"node_id": "no such node!"}), search(puzzle.query)])
    yield Turn([select(puzzle.answers), FINISH])


def many_calls(puzzle: Puzzle) -> Script:
    """Call 200 tools in one reply; the answer is selected by the eighth, a wrong one never."""
    calls = [search(puzzle.query, limit=1) for _ in range(CALLS_A_STEP - 1)] + [select(puzzle.answers)]
    yield Turn(calls + [select(["no such node!"])] * 100 + [FINISH] * 92)
    yield Turn([FINISH])


def forty_calls(puzzle: Puzzle) -> Script:
    """Use up the calls of a question, then go on."""
    yield Turn([select(puzzle.answers)] + [search(puzzle.query, limit=1)] * 7)
    while True:
        yield Turn([search(puzzle.query, limit=1)] * 8)


def finish_first(puzzle: Puzzle) -> Script:
    """Finish before the other calls of the same reply: they still count."""
    yield Turn([FINISH, search(puzzle.query), select(puzzle.answers)])


def singly(play: Play) -> Play:
    """Return a policy that makes the same calls, each in a reply of its own."""

    def played(puzzle: Puzzle) -> Script:
        script, results = play(puzzle), None
        while True:
            try:
                turn = next(script) if results is None else script.send(results)
            except StopIteration:
                return
            results = []
            for call in turn.calls:
                results += yield Turn([call], turn.content)
            if not turn.calls:
                yield turn

    return played


def noisy(puzzles: Puzzles) -> dict[str, Case]:
    """Return policies that know the way and stumble on it."""

    def unknown(puzzle: Puzzle) -> Script:
        yield Turn([Call("neighbors", {"node_id": "no such node!"}), search(puzzle.query)])
        wrong = {"node_id": puzzle.topic.id, "relation": "no such relation!"}
        yield Turn([Call("neighbors", wrong), search(puzzle.query, node_type="no such type!"), Call("look_up")])
        yield from walk(puzzle)
        yield Turn([select(["no such node!", *puzzle.answers, "nor this!"]), FINISH])

    def wrong_first(puzzle: Puzzle) -> Script:
        yield from walk(puzzle)
        yield Turn([select(puzzles.wrong(puzzle, 1))])
        yield Turn([select(puzzle.answers), FINISH])

    def only_wrong(puzzle: Puzzle) -> Script:
        yield Turn([select(puzzles.wrong(puzzle, 3)), FINISH])

    def twice(puzzle: Puzzle) -> Script:
        yield from walk(puzzle)
        yield Turn([select(puzzle.answers), select(puzzle.answers[::-1])])
        yield Turn([select([*puzzle.answers, *puzzle.answers]), FINISH])

    def as_text(puzzle: Puzzle) -> Script:
        yield Turn([select([str(each) for each in puzzle.answers])])
        yield Turn([select(puzzle.answers), FINISH])

    def one_by_one(puzzle: Puzzle) -> Script:
        order = [*puzzles.wrong(puzzle, 2), *puzzle.answers]
        for start in range(0, len(order), CALLS_A_STEP):
            yield Turn([select([each]) for each in order[start : start + CALLS_A_STEP]])
        yield Turn([FINISH])

    unknown_codes = {"unknown_node": 1, "unknown_relation": 1, "unknown_type": 1, "unknown_tool": 1}
    answers: Callable[[Puzzle], Sequence[Id]] = lambda puzzle: puzzle.answers  # noqa: E731
    return {
        "unknown": Case(unknown, answers, errors=unknown_codes, steps=lambda puzzle: len(puzzle.hops) + 4),
        "wrong first": Case(wrong_first, lambda puzzle: [*puzzles.wrong(puzzle, 1), *puzzle.answers]),
        "only wrong": Case(only_wrong, lambda puzzle: puzzles.wrong(puzzle, 3), steps=1),
        "twice": Case(twice, answers, steps=lambda puzzle: len(puzzle.hops) + 3),
        "as text": Case(as_text, answers, steps=2),
        "one by one": Case(one_by_one, lambda puzzle: [*puzzles.wrong(puzzle, 2), *puzzle.answers]),
    }


def plain(puzzles: Puzzles) -> dict[str, Case]:
    """Return policies that do as they are told, or nothing."""
    first: Callable[[Puzzle], Sequence[Id]] = lambda puzzle: puzzle.answers[:1]  # noqa: E731
    every: Callable[[Puzzle], Sequence[Id]] = lambda puzzle: puzzle.answers  # noqa: E731
    return {
        "oracle": Case(oracle, every, steps=oracle_steps),
        "search only": Case(search_only, steps=2),
        "lazy": Case(lazy, steps=1),
        "silent": Case(silent, end="no_call", steps=2),
        "reminded": Case(reminded, first, steps=6),
        "endless": Case(endless, end="step_limit", steps=12),
        "endless, selecting": Case(endless_selecting, first, end="step_limit", steps=12),
        "stuck": Case(stuck, first, end="stuck", steps=4, errors={"unknown_node": 3}),
        "nearly stuck": Case(nearly_stuck, every, steps=10, errors={"unknown_node": 6, "unknown_tool": 3}),
        "200 calls": Case(many_calls, every, steps=2, errors={"too_many_calls": 192}),
        "finish first": Case(finish_first, every, steps=1),
    }


def malformed(puzzles: Puzzles) -> dict[str, Case]:
    """Return policies whose replies are not what the protocol asks for, and what can be made of them."""

    def wrap(*turns: Callable[[Puzzle], Turn]) -> Play:
        def play(puzzle: Puzzle) -> Script:
            for turn in turns:
                yield turn(puzzle)

        return play

    def message(**fields: Any) -> dict[str, Any]:
        return {"role": "assistant", "content": None, **fields}

    def call(name: str, arguments: object, **more: object) -> dict[str, object]:
        return {"id": "x", "type": "function", "function": {"name": name, "arguments": arguments}, **more}

    def ids(puzzle: Puzzle) -> dict[str, object]:
        return {"node_ids": list(puzzle.answers)}

    def objects(puzzle: Puzzle) -> Turn:
        return raw(("select", ids(puzzle)), ("finish", {}))

    def nothing(puzzle: Puzzle) -> Turn:
        return raw(("select", json.dumps(ids(puzzle))), ("finish", ""), ("finish", None))

    def fenced(puzzle: Puzzle) -> Turn:
        return raw(("select", f"```json\n{json.dumps(ids(puzzle), indent=1)}\n```"), ("finish", "{}"))

    def no_ids(puzzle: Puzzle) -> Turn:
        listed = [call("select", json.dumps(ids(puzzle))), call("finish", "{}")]
        for each in listed:
            del each["id"]
        return Turn(message=message(tool_calls=listed), n_results=2, finish_reason="stop")

    def same_ids(puzzle: Puzzle) -> Turn:
        return Turn(
            message=message(tool_calls=[call("select", json.dumps(ids(puzzle))), call("finish", "{}")]), n_results=2
        )

    def no_type(puzzle: Puzzle) -> Turn:
        listed = [{"function": {"name": "select", "arguments": json.dumps(ids(puzzle))}}]
        return Turn(message=message(tool_calls=listed), n_results=1)

    def with_index(puzzle: Puzzle) -> Turn:
        listed = [call("select", json.dumps(ids(puzzle)), index=0), call("finish", "{}", index=1)]
        return Turn(message=message(tool_calls=listed, function_call=None, refusal=None, annotations=[]), n_results=2)

    def empty(puzzle: Puzzle) -> Turn:
        return Turn(message=message(content="", tool_calls=[]), n_results=0, finish_reason="tool_calls")

    def broken(puzzle: Puzzle) -> Turn:
        return raw(("select", '{"node_ids": ['), finish_reason="length")

    def two_objects(puzzle: Puzzle) -> Turn:
        one = json.dumps({"node_ids": [puzzle.answers[0]]})
        return raw(("select", one + one))

    def not_an_object(puzzle: Puzzle) -> Turn:
        return raw(("select", json.dumps(list(puzzle.answers))))

    def select_it(puzzle: Puzzle) -> Turn:
        return Turn([select(puzzle.answers), FINISH])

    def odd_name(puzzle: Puzzle) -> Turn:
        return raw(("functions.select now!", json.dumps(ids(puzzle))), ("", "{}"), ("x" * 100, "{}"))

    def null_calls(puzzle: Puzzle) -> Turn:
        return Turn(message=message(content="Hm.", tool_calls=None), n_results=0, finish_reason="stop")

    def odd_ids(puzzle: Puzzle) -> Turn:
        strange = [None, True, 1.5, [puzzle.answers[0]], {"id": puzzle.answers[0]}, "", 10**400, -(10**30)]
        return Turn([select([*strange, *puzzle.answers])])

    def no_numbers(puzzle: Puzzle) -> Turn:
        return raw(*(("search_nodes", f'{{"query": "a", "limit": {each}}}') for each in ("NaN", "-Infinity", "1e999")))

    def odd_characters(puzzle: Puzzle) -> Turn:
        lone = '{"query": "a\\ud800 \\u0000 \\u2028", "\\udfff": "\\udfff"}'
        return Turn(message=message(tool_calls=[call("search_nodes", lone), call("finish\ud800", "{}")]), n_results=2)

    def long_ones(puzzle: Puzzle) -> Turn:
        return raw(
            ("select", f'{{"node_ids": {"[" * 50_000}'),
            ("select", f'{{"node_ids": [{"9" * 5_000}]}}'),
            ("select", json.dumps({"node_ids": ["x" * 100_000]})),
        )

    every: Callable[[Puzzle], Sequence[Id]] = lambda puzzle: puzzle.answers  # noqa: E731
    bad = {"bad_arguments": 1}
    return {
        "objects as arguments": Case(wrap(objects), every, steps=1),
        "nothing as arguments": Case(wrap(nothing), every, steps=1),
        "arguments in a fence": Case(wrap(fenced), every, steps=1),
        "calls without ids": Case(wrap(no_ids), every, steps=1),
        "calls with the same id": Case(wrap(same_ids), every, steps=1),
        "calls without type and id": Case(wrap(no_type, lambda puzzle: Turn([FINISH])), every, steps=2),
        "calls with an index": Case(wrap(with_index), every, steps=1),
        "an empty list of calls": Case(wrap(empty, select_it), every, steps=2),
        "null for calls": Case(wrap(null_calls, select_it), every, steps=2),
        "arguments cut off": Case(wrap(broken, select_it), every, steps=2, errors=bad),
        "two objects in a row": Case(wrap(two_objects, lambda puzzle: Turn([FINISH])), steps=2, errors=bad),
        "odd names": Case(wrap(odd_name, select_it), every, steps=2, errors={"unknown_tool": 3}),
        "a list for an object": Case(wrap(not_an_object, select_it), every, steps=2, errors=None),
        "odd ids": Case(wrap(odd_ids, lambda puzzle: Turn([FINISH])), every, steps=2),
        "numbers that are none": Case(wrap(no_numbers, select_it), every, steps=2, errors={"bad_arguments": 3}),
        "characters that are none": Case(wrap(odd_characters, select_it), every, steps=2, errors={"unknown_tool": 1}),
        "arguments without end": Case(wrap(long_ones, select_it), every, steps=2, errors={"bad_arguments": 2}),
        "only broken arguments": Case(wrap(*[broken] * 20), end="stuck", steps=3, errors={"bad_arguments": 3}),
    }


def _xml(call: Call) -> str:
    values = [
        f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
        for key, value in call.arguments.items()
    ]
    return f"<tool_call>\n<function={call.name}>\n{''.join(values)}</function>\n</tool_call>"


def _arguments(call: Call) -> str:
    return json.dumps(call.arguments, ensure_ascii=False)


def _named(call: Call, key: str = "arguments") -> str:
    return json.dumps({"name": call.name, key: dict(call.arguments)}, ensure_ascii=False)


def _python(call: Call) -> str:
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"


DIALECTS: dict[str, Callable[[Sequence[Call]], str]] = {
    "hermes": lambda calls: "\n".join(f"<tool_call>\n{_named(call)}\n</tool_call>" for call in calls),
    "hermes after thought": lambda calls: "<think>Or <tool_call>{\"name\": \"finish\"}</think>\n"
    + "\n".join(f"<tool_call>\n{_named(call)}\n</tool_call>" for call in calls),
    "qwen coder": lambda calls: "I look it up.\n\n" + "\n".join(map(_xml, calls)),
    "llama 3.1": lambda calls: "<|python_tag|>" + "; ".join(_named(call, "parameters") for call in calls),
    "llama 3.2": lambda calls: f"[{', '.join(map(_python, calls))}]",
    "llama function": lambda calls: "".join(f"<function={call.name}>{_arguments(call)}</function>" for call in calls),
    "mistral": lambda calls: f"[TOOL_CALLS] [{', '.join(map(_named, calls))}]",
    "mistral small": lambda calls: "".join(f"[TOOL_CALLS]{call.name}[ARGS]{_arguments(call)}" for call in calls),
    "deepseek v3": lambda calls: "<｜tool▁calls▁begin｜>"
    + "\n".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call.name}\n```json\n{_arguments(call)}\n```<｜tool▁call▁end｜>"
        for call in calls
    )
    + "<｜tool▁calls▁end｜>",
    "deepseek v3.1": lambda calls: "<｜tool▁calls▁begin｜>"
    + "".join(f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{_arguments(call)}<｜tool▁call▁end｜>" for call in calls)
    + "<｜tool▁calls▁end｜>",
    "kimi": lambda calls: "<|tool_calls_section_begin|>"
    + "".join(
        f"<|tool_call_begin|>functions.{call.name}:{n}<|tool_call_argument_begin|>{_arguments(call)}<|tool_call_end|>"
        for n, call in enumerate(calls)
    )
    + "<|tool_calls_section_end|>",
    "glm": lambda calls: "\n".join(
        f"<tool_call>{call.name}\n"
        + "".join(
            f"<arg_key>{key}</arg_key>\n<arg_value>{value if isinstance(value, str) else json.dumps(value)}"
            "</arg_value>\n"
            for key, value in call.arguments.items()
        )
        + "</tool_call>"
        for call in calls
    ),
    "granite": lambda calls: f"<|tool_call|>[{', '.join(map(_named, calls))}]",
    "granite 3.3": lambda calls: f"<tool_call>[{', '.join(map(_named, calls))}]",
    "phi 4": lambda calls: f"<|tool_call|>[{', '.join(map(_named, calls))}]<|/tool_call|>",
    "functools": lambda calls: f"functools[{', '.join(map(_named, calls))}]",
    "gpt-oss": lambda calls: "".join(
        f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>{_arguments(call)}<|call|>"
        for call in calls
    ),
    "a fence": lambda calls: "Here it is:\n```json\n" + "\n".join(map(_named, calls)) + "\n```",
    "a list": lambda calls: json.dumps([{"name": call.name, "arguments": dict(call.arguments)} for call in calls]),
    "as the api": lambda calls: json.dumps(
        {"tool_calls": [{"function": {"name": call.name, "arguments": _arguments(call)}} for call in calls]}
    ),
}  # fmt: skip
"""How models write calls into their text, where no server reads them."""


def in_json(calls: Sequence[Call]) -> str:
    """Write the one call of a turn as a model does that is told of the tools in words."""
    (call,) = calls
    return json.dumps({"tool": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)
