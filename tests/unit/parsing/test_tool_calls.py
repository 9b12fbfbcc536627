"""Calls are read from the field for them, else from the dialects in which models write; nothing raises."""

import json
import random
from typing import Any

import pytest

from kbbench_hf.parsing.tool_calls import ToolCall, parse_tool_calls

NAMES = ("search_nodes", "neighbors", "select", "finish")
ARGUMENTS = {"query": 'salt "β"', "limit": 5}
SPELLED = json.dumps(ARGUMENTS, ensure_ascii=False)
SEARCH = ToolCall("search_nodes", ARGUMENTS)
NAMED = json.dumps({"name": "search_nodes", "arguments": ARGUMENTS}, ensure_ascii=False)


def field(arguments: object, name: str = "search_nodes") -> list[dict[str, Any]]:
    return [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}]


@pytest.mark.parametrize(
    "arguments", [SPELLED, ARGUMENTS, f"```json\n{SPELLED}\n```", f" {SPELLED}\n", json.dumps(SPELLED)]
)
def test_arguments_are_an_object_or_its_json_in_a_text(arguments: object) -> None:
    turn = parse_tool_calls("Let me look.", field(arguments), NAMES)
    assert turn.calls == (SEARCH,)
    assert turn.response == "Let me look."
    assert turn.in_field


@pytest.mark.parametrize("arguments", ["", "  ", None, {}, "{}", "null", "```json\n```"])
def test_no_arguments_are_said_in_many_ways(arguments: object) -> None:
    assert parse_tool_calls("", field(arguments, "finish"), NAMES).calls == (ToolCall("finish", {}),)


@pytest.mark.parametrize("arguments", ['{"node_ids": [1', SPELLED * 2, "[1]", "7", [1], 7, True, "[" * 99_999, "x"])
def test_arguments_that_are_no_single_object_are_a_problem_of_that_call_alone(arguments: object) -> None:
    both = [*field(arguments, "select"), *field("{}", "finish")]
    broken, whole = parse_tool_calls("", both, NAMES).calls
    assert (broken.name, broken.arguments) == ("select", {})
    assert "expected one JSON object" in broken.problem
    assert whole == ToolCall("finish", {})


@pytest.mark.parametrize("calls", [[], None, "", {}, 0])
def test_an_empty_field_holds_no_call(calls: object) -> None:
    assert parse_tool_calls("I am done.", calls, NAMES) == ((), "I am done.", False)


def test_odd_entries_of_the_field_are_calls_that_can_be_answered() -> None:
    entries = ["x", None, {}, {"function": "select"}, {"function": {"arguments": "{}"}}, {"name": "finish"}]
    calls = parse_tool_calls("", entries, NAMES).calls
    assert [call.name for call in calls] == ["", "", "", "", "", "finish"]
    older = {"name": "search_nodes", "arguments": SPELLED}
    assert parse_tool_calls("", older, NAMES).calls == (SEARCH,), "function_call"
    assert parse_tool_calls("", field(SPELLED, "functions.search_nodes:0"), NAMES).calls == (SEARCH,)


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{NAMED}\n</tool_call>",
        f"I look it up.\n<tool_call>{NAMED}",
        f'<tool_call>{{"name": "search_nodes", "parameters": {SPELLED}}}</tool_call>',
        f"[TOOL_CALLS] [{NAMED}]",
        f"[TOOL_CALLS]search_nodes[ARGS]{SPELLED}",
        f"[TOOL_CALLS]search_nodes{SPELLED}</s>",
        f"[TOOL_CALLS]search_nodes[CALL_ID]a1b2[ARGS]{SPELLED}",
        f"<|python_tag|>{NAMED}<|eom_id|>",
        f"<function=search_nodes>{SPELLED}</function>",
        '<tool_call>\n<function=search_nodes>\n<parameter=query>\nsalt "β"\n</parameter>\n<parameter=limit>\n5\n'
        "</parameter>\n</function>\n</tool_call>",
        '<minimax:tool_call><invoke name="search_nodes"><parameter name="query">salt "β"</parameter>'
        '<parameter name="limit">5</parameter></invoke></minimax:tool_call>',
        '<tool_call>search_nodes\n<arg_key>query</arg_key>\n<arg_value>salt "β"</arg_value>\n'
        "<arg_key>limit</arg_key>\n<arg_value>5</arg_value>\n</tool_call>",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search_nodes\n```json\n{SPELLED}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search_nodes<｜tool▁sep｜>{SPELLED}<｜tool▁call▁end｜>",
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.search_nodes:0<|tool_call_argument_begin|>{SPELLED}"
        "<|tool_call_end|><|tool_calls_section_end|>",
        "<|channel|>analysis<|message|>I search.<|end|><|start|>assistant<|channel|>commentary "
        f"to=functions.search_nodes <|constrain|>json<|message|>{SPELLED}<|call|>",
        f'```json\n{{"tool": "search_nodes", "arguments": {SPELLED}}}\n```',
        f'{{"tool": "search_nodes", "arguments": {SPELLED}}}',
        f'Then: {{"name": "search_nodes", "args": {SPELLED}}}',
        f'{{"type": "function", "function": {NAMED}}}',
        f"<think>A <tool_call> would be fine.</think>\n<tool_call>{NAMED}</tool_call>",
        "search_nodes(query='salt \"β\"', limit=5)",
        "<|tool_call_start|>[search_nodes(query='salt \"β\"', limit=5)]<|tool_call_end|>",
        "```tool_code\nsearch_nodes(query='salt \"β\"', limit=5)\n```",
    ],
)
def test_calls_in_the_text_are_read_in_the_dialects_of_the_models(text: str) -> None:
    assert parse_tool_calls(text, None, NAMES).calls == (SEARCH,)
    assert parse_tool_calls(text, None, NAMES, in_text=False).calls == ()


def test_several_calls_in_a_text_keep_their_order() -> None:
    second = json.dumps({"name": "select", "arguments": {"node_ids": [7]}})
    wanted = (SEARCH, ToolCall("select", {"node_ids": [7]}))
    assert (
        parse_tool_calls(f"<tool_call>{NAMED}</tool_call>\n<tool_call>{second}</tool_call>", "", NAMES).calls == wanted
    )
    assert parse_tool_calls(f"[{NAMED}, {second}]", "", NAMES).calls == wanted
    assert parse_tool_calls("[finish(), select(node_ids=[7])]", "", NAMES).calls == (ToolCall("finish", {}), wanted[1])


@pytest.mark.parametrize(
    "text",
    [
        "I would call finish now.",
        f"<think><tool_call>{NAMED}</tool_call></think>The answer is 7.",
        '{"name": "Ada Lovelace", "arguments": "none"}',
        "The node is named select (7).",
        '{"answer": [7]}',
    ],
)
def test_prose_thought_and_other_json_are_no_calls(text: str) -> None:
    assert parse_tool_calls(text, None, NAMES).calls == ()


def test_a_call_in_the_field_is_all_that_counts_beside_one_that_is_quoted() -> None:
    quoted = f"The node says: <tool_call>{NAMED}</tool_call>"
    assert parse_tool_calls(quoted, field("{}", "finish"), NAMES).calls == (ToolCall("finish", {}),)


def test_a_marked_call_that_cannot_be_read_is_a_call_with_a_problem() -> None:
    (call,) = parse_tool_calls(
        '<tool_call>{"name": "select", "arguments": {"node_ids": [7}</tool_call>', None, NAMES
    ).calls
    assert call.problem
    (call,) = parse_tool_calls("<function=select>{'node_ids': 7</function>", None, NAMES).calls
    assert call.name == "select"
    assert call.problem


def test_nothing_that_a_model_writes_raises_or_takes_long() -> None:
    seed = 20261122
    print(f"seed {seed}")
    rng = random.Random(seed)
    pieces = [NAMED, SPELLED, "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<function=select>", "{", "}", "[", '"']
    pieces += ["select(", "finish()", "<think>", "</think>", "<|message|>", "to=functions.select", "\ud800", "\\", "()"]
    for _ in range(800):
        parse_tool_calls("".join(rng.choices(pieces, k=rng.randint(1, 12))), None, NAMES)
    for piece in pieces:
        parse_tool_calls(piece * 3000, None, NAMES)
