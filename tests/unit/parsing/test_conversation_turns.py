"""The model's own turn: a repeated prompt before it and invented turns after it are never the answer."""

from collections.abc import Callable
from typing import Any

import pytest

from kbbench_hf.parsing.answers import parse_answers
from kbbench_hf.parsing.conversation_turns import extract_own_turn
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.parsing.scores import parse_score
from kbbench_hf.parsing.tool_calls import parse_tool_calls
from kbbench_hf.parsing.triples import parse_triples
from kbbench_hf.parsing.verdicts import parse_supported

SENTENCE = "Built by Brothers Aske, the Saint Oda sails from Westerhythe."
PROMPT = f"You are given a list of relations. {'Answer with JSON only, in one line. ' * 8}\nSentence: {SENTENCE}"
OTHER = "The Quince was built by Loy Yard."
# Beginning, a user's turn, and the model's turn of the chat templates that models are trained with.
TEMPLATES = {
    "ChatML": ("", "<|im_start|>user\n{}<|im_end|>\n", "<|im_start|>assistant\n{}<|im_end|>\n"),
    "Llama 3": (
        "<|begin_of_text|>",
        "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n{}<|eot_id|>",
    ),
    "Llama 4": ("", "<|header_start|>user<|header_end|>\n\n{}<|eot|>", "<|header_start|>assistant<|header_end|>\n\n{}"),
    "Gemma": ("<bos>", "<start_of_turn>user\n{}<end_of_turn>\n", "<start_of_turn>model\n{}<end_of_turn>\n"),
    "Gemma 4": ("<bos>", "<|turn>user\n{}<turn|>\n", "<|turn>model\n{}<turn|>\n"),
    "Mistral": ("<s>", "[INST] {} [/INST]", "{}</s>"),
    "Phi": ("", "<|user|>\n{}<|end|>\n", "<|assistant|>\n{}<|end|>\n"),
    "Zephyr": ("", "<|user|>\n{}</s>\n", "<|assistant|>\n{}</s>\n"),
    "GLM": ("[gMASK]<sop>", "<|user|>\n{}", "<|assistant|>\n{}"),
    "Vicuna": ("A chat between a curious user and an assistant.\n\n", "USER: {}\n", "ASSISTANT: {}</s>\n"),
    "Alpaca": ("Below is an instruction.\n\n", "### Instruction:\n{}\n\n", "### Response:\n{}\n\n"),
    "Solar": ("", "### User:\n{}\n\n", "### Assistant:\n{}\n\n"),
    "OpenChat": ("<s>", "GPT4 Correct User: {}<|end_of_turn|>", "GPT4 Correct Assistant: {}<|end_of_turn|>"),
    "Cohere": (
        "<BOS_TOKEN>",
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{}<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{}<|END_OF_TURN_TOKEN|>",
    ),
    "DeepSeek": ("<｜begin▁of▁sentence｜>", "<｜User｜>{}", "<｜Assistant｜>{}<｜end▁of▁sentence｜>"),
    "Granite": (
        "",
        "<|start_of_role|>user<|end_of_role|>{}<|end_of_text|>\n",
        "<|start_of_role|>assistant<|end_of_role|>{}<|end_of_text|>\n",
    ),
    "Kimi": ("", "<|im_user|>user<|im_middle|>{}<|im_end|>", "<|im_assistant|>assistant<|im_middle|>{}<|im_end|>"),
    "EXAONE": ("", "[|user|]{}\n", "[|assistant|]{}[|endofturn|]\n"),
    "Hunyuan": ("", "<｜hy_User｜>{}", "<｜hy_Assistant｜>{}<｜hy_place▁holder▁no▁2｜>"),
    "ChatGLM": ("", "[Round 2]\n\n问：{}\n\n", "答：{}\n\n"),
    "brackets": ("", "[USER]\n{}\n", "[ASSISTANT]\n{}\n"),
    "bars": ("", "=== User ===\n{}\n", "=== Assistant ===\n{}\n"),
    "bold": ("", "**User:** {}\n\n", "**Assistant:** {}\n\n"),
    "Falcon": ("", "User: {}\n", "Falcon: {}\n"),
    "Human": ("", "Human: {}\n\n", "Assistant: {}\n\n"),
    "tokens dropped": ("", "user\n{}\n", "assistant\n{}\n"),
    "harmony": (
        "",
        "<|start|>user<|message|>{}<|end|>",
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>{}<|return|>",
    ),
}


def called(reply: str) -> list[str]:
    return [call.name for call in parse_tool_calls(reply, None, ["search", "finish"]).calls]


# A reader, what the model answers, and what it answers in the turn that it invents.
TASKS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "triples": (
        lambda reply: parse_triples(reply, SENTENCE, ["built by"]).answer,
        '{"triples": [["Saint Oda", "built by", "Brothers Aske"]]}',
        '{"triples": [["Quince", "built by", "Loy Yard"]]}',
    ),
    "lines": (
        lambda reply: parse_triples(reply, SENTENCE).answer,
        "(Saint Oda; built by; Brothers Aske)",
        "(Quince; built by; Loy Yard)",
    ),
    "answers": (lambda reply: parse_answers(reply).answer, '{"answers": ["Ada Loy"]}', '{"answers": ["Loy Yard"]}'),
    "words": (lambda reply: parse_answers(reply).answer, "Answer: Ada Loy", "Answer: Loy Yard"),
    "score": (lambda reply: parse_score(reply).answer, "0.4", "0.9"),
    "verdict": (lambda reply: parse_supported(reply).answer, "Not supported.", "Supported."),
    "tools": (called, '{"name": "search", "arguments": {}}', '{"name": "finish", "arguments": {}}'),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_what_stands_before_the_first_end_mark_is_the_answer(template: str, task: str) -> None:
    begin, user, model = TEMPLATES[template]
    read, answer, invented = TASKS[task]
    opening, closing = model.split("{}")
    wanted = read(answer)
    invention = user.format(OTHER) + model.format(invented)
    for reply in (
        answer + closing + invention,
        answer + closing + user.format(SENTENCE) + model.format(invented),  # the same question again
        answer + closing + user.format("x") * 30,
        opening + answer + closing + invention,
        begin + user.format(PROMPT) + model.format(answer) + invention,
    ):
        assert read(reply) == wanted, reply
    if template != "harmony":
        assert read(f"<think>Maybe.</think>{answer}{closing}{user.format(OTHER)}<think>No.</think>{invented}") == wanted
    for reply in (invention, user.format("") * 5):
        if task == "tools":
            assert read(reply) == []
            continue
        with pytest.raises(ParseError):
            read(reply)


@pytest.mark.parametrize(
    ("reply", "answers"),
    [
        ("Ada Loy\n\nQuestion: Who built the Quince?\nAnswer: Loy Yard", ["Ada Loy"]),
        ("Ada Loy\n\nВопрос: Кто построил Айву?\nОтвет: Loy Yard", ["Ada Loy"]),
        ("Ada Loy\nPassage: The Quince was built by Loy Yard.\nAnswer: Loy Yard", ["Ada Loy"]),
        ("Question: Who built the Plum?\nAnswer: Ada Loy", ["Ada Loy"]),
        ("I look it up.\nQuestion: Who built the Plum?\nAnswer: Ada Loy", ["Ada Loy"]),
        ("I look at the third row of the table.\nContext: the Plum, Ada Loy.\nAnswer: Ada Loy", ["Ada Loy"]),
    ],
)
def test_another_question_is_an_invented_turn_and_the_same_one_is_not(reply: str, answers: list[str]) -> None:
    assert parse_answers(reply, "Who built the Plum?").answer == answers


@pytest.mark.parametrize(
    ("reply", "own"),
    [
        ("<|im_start|>user\n<|im_end|>user\n<|im_end|>user\n<|im_", ""),
        ("<start_of_turn>user\n<end_of_turn>user\n", ""),
        ("user\n", ""),
        ("assistant:\nassistant:", ""),
        ("Paris<|im_end|>assistant\n", "Paris"),
        ("<|im_end|>\n<|im_start|>assistant\nParis", "Paris"),
        ("Paris.assistant\n\nParis is the capital.", "Paris."),
        ("Paris<|im_end|>\nuser\nAnd of Italy?\nassistant\nRome", "Paris"),
        ("Paris\n\nQ: And of Italy?\nA: Rome", "Paris"),
        ("Q: Capital of France?\nA: Paris", "Paris"),
        ("28</s><s>[INST] And the other? [/INST] 30", "28"),
        ("an occupation: model", "an occupation: model"),
        ("Model", "Model"),
        ("AI: artificial intelligence", "AI: artificial intelligence"),
        ("### Answer:\n28", "### Answer:\n28"),
    ],
)
def test_a_role_is_no_answer_and_a_label_of_an_answer_is_no_role(reply: str, own: str) -> None:
    assert extract_own_turn(reply).strip() == own


def test_thought_in_a_message_of_its_own_is_followed_by_the_answer() -> None:
    reply = "<think>28 or 30?</think><|im_end|>\n<|im_start|>assistant\n{}<|im_end|>\n<|im_start|>user\nMore?<|im_end|>"
    assert parse_answers(reply.replace("{}", '{"answers": ["28"]}')).answer == ["28"]
