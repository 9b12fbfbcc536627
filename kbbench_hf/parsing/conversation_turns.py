"""Turns that a reply contains as text: a repeated prompt before the model's own turn, and invented turns after it.

A server with the wrong chat template passes the marks of turns on as text. A pipeline that returns its whole input
repeats the prompt before the answer. A base model writes its end mark and continues with a question of its own.

`wrappers` and `tool_calls` parse only the own turn; `runners` warn of other turns. The marks are those of the models'
own templates: add new ones, and take none away, as stored replies have them.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kbbench_hf.text.folding import lazy_pattern

_ASSISTANT = r"assistant|chatbot|model|bot|gpt|ai|falcon"
_OTHER = r"user|human|system|developer|tool|ipython|observation|environment|prompter|context|documents?|function"
_ROLE = rf"(?P<{{0}}>{_ASSISTANT}|{_OTHER})"
_END = lazy_pattern(
    r"<[|｜](?:im_end|end|return|call|stop|endof(?:text|turn|response|userprompt)|(?:user|assistant|system)_end"
    r"|eo(?:s|t|m|d|a|h)(?:_id)?|end[_▁]of[_▁](?:text|turn|sentence|utterance|message)|end_of_turn_token"
    r"|message_end|turn_end|eod_id|hy_place▁holder▁no▁2)[|｜]>"
    r"|</s>|<eos>|<eo[ahdtp]>|<end_of_(?:turn|utterance|text|message|sentence)>|<turn\|>|<seed:eos>|\[\|endofturn\|\]"
    r"|\[(?:EOS|EOT|END|DONE|end of text|UNUSED_TOKEN_145)\]|\[e~\[|<\|?endoftext\|?>|<END>",
    re.IGNORECASE,
)
"""What ends a turn. The ends of thought and of headers are not among them."""
_START = lazy_pattern(
    "|".join(
        (
            # ChatML, Llama 3 and 4, Granite, Phi-4, gpt-oss: a token, the role, and sometimes another token
            r"<[|｜](?:im_start|start_header_id|header_start|start_of_role|start|turn_start|message_start)[|｜]>\s*"
            + _ROLE.format("a")
            + r"\b[^\n<]{0,40}?"
            r"(?:\s*<\|(?:im_sep|end_header_id|header_end|end_of_role|im_middle|message)\|>|(?=\s|<|$))",
            # Gemma, Seed-OSS, Nemotron, MiniMax, InternLM
            r"(?:<start_of_turn>|<\|turn>|<seed:bos>|<beginning_of_sentence>|<SPECIAL_1[0-2]>|<extra_id_[01]>"
            rf"|\]~b\]|\[UNUSED_TOKEN_146\])\s*{_ROLE.format('b')}\b:?",
            # Phi-3, Zephyr, GLM, OLMo, Cohere, DeepSeek, Kimi, Apertus, StableLM, InternLM 1, EXAONE
            r"(?:<\|START_OF_TURN_TOKEN\|>)?[<\[][|｜](?:im_|hy_)?"
            + _ROLE.format("c")
            + r"(?:_TOKEN|_start|prompt)?[|｜][>\]](?:(?:user|assistant|system)<\|im_middle\|>)?:?",
            r"<(?P<h>human|bot|user|assistant)>:?|<(?P<r>reserved_10[67])>",
            r"(?P<i>\[/?INST\]|<<SYS>>)|GPT4 Correct (?P<o>User|Assistant):",
            # ChatGLM 2; a role alone in its line, between brackets or bars
            r"^\[(?P<t>Round) \d+\]",
            r"^[ \t]*(?:={2,5}|-{2,5}|[\[({]{1,2}) ?(?P<x>user|human|assistant|bot) ?"
            r"(?:={2,5}|-{2,5}|[\])}]{1,2}):?[ \t]*$",
            # Vicuna, Falcon, OpenChat, Alpaca, Solar, DeepSeek 2: a label or a heading at the start of a line
            r"^[ \t]*(?:#{1,4}\s*)?[*_]{0,2}(?P<w>user|human|assistant|chatbot|falcon|AI|bot)"
            r"[*_]{0,2}:[*_]{0,2}(?!\S)",
            r"^[ \t]*#{1,4}\s*(?P<q>instruction|input|question|human|user|system|task|response|assistant|output|"
            r"answer)s?\s*\d{0,3}(?::|[ \t]*$)",
            r"^[ \t]*(?P<s>Q|A|Instruction|问|答|質問|回答)\s?\d{0,2}\s?[:：]",
            # few-shot prompts: another question, or another text, than the one that was given
            r"^[ \t]*[*_]{0,2}(?:(?:next|new|another|second)\s)?(?P<v>(?P<u>passage|context|document|text|prompt|task|"
            r"problem|example)|question|query|frage|pregunta|pergunta|domanda|"
            r"vraag|fråga|pytanie|soru|pertanyaan|вопрос|питання|问题|問題|질문|문제|سؤال|प्रश्न)\s?\d{0,2}[*_]{0,2}\s?[:：]",
            # special tokens dropped on decoding: the role alone in its line, or run into the answer
            r"^[ \t]*(?P<l>(?-i:user|assistant|model|USER|ASSISTANT))[ \t]*$",
            r"(?:(?<=[}\])>.!?\"'`])|(?<=\w)(?=a))(?P<g>(?-i:assistant|user))\n(?:\n|(?=.*\n(?:assistant|model)\n))",
        )
    ),
    re.IGNORECASE | re.MULTILINE,
)
"""What starts a turn; the role is in the group that matched."""
_MAYBE_MARK = lazy_pattern(r"[<\n｜]|\[[|/\w]|\]~|GPT4")
"""What each end mark and each start after some text contains: most replies of a sound server have none of it."""
_CUT_MARK = lazy_pattern(
    r"\s*(?:<[|｜][\w▁]{0,30}[|｜]?|</s|</?(?:eo[st]|end_of|start_of)[_a-z]*"
    r"|#{2,4}(?:\s?(?:human|user|instruction|input))?:?)\s*$",
    re.IGNORECASE,
)
"""A mark that the limit of tokens cut off, or that a stop text left behind."""
_OPENING = lazy_pattern(
    r"(?:\s|<s>|<bos>|<BOS_TOKEN>|\[gMASK\]|<sop>|<\|(?:begin_of_text|startoftext|endoftext|bos)\|>|<｜begin▁of▁sentence｜>)*"
)
_ROLE_WORDS = lazy_pattern(rf"(?:\W|_)*(?:(?:{_ASSISTANT}|{_OTHER})(?:[\W_]+|$))+", re.IGNORECASE)
_ROLE_ALONE = lazy_pattern(r"\s*(?:(?:user|assistant|system)\s*:?(?:\s+|$))+")
"""A role word as the whole reply; in another case, or of another kind, it may be an answer."""
_HARMONY_OTHER = lazy_pattern(r"<\|start\|>\s*(?!assistant)\w|<\|return\|>")
_SHORTEST_PROMPT = 200
"""Characters of a repeated prompt, where the text that it must contain is not known."""


class _Mark(NamedTuple):
    start: int
    end: int
    role: str
    """ "end", "assistant" or "other"."""
    restates: bool = False
    """Whether it may also be the heading of a question that the answer repeats."""


def extract_own_turn(reply: str, source: str = "", is_thought: Callable[[str], bool] = lambda text: False) -> str:
    r"""Return the model's own turn: what it wrote before the first end mark, or the next role; "" where nothing is.

    Args:
        reply: what a model sent.
        source: a text that the prompt contains; it tells a repeated prompt from an invented turn.
        is_thought: whether a text holds no answer but only thought; the turn then continues in the next message.

    >>> extract_own_turn("Lyon<|im_end|>\n<|im_start|>user\nAnd of Italy?<|im_end|>\n<|im_start|>assistant\nRome")
    'Lyon'
    >>> extract_own_turn("<s>[INST] Where is it? [/INST] Lyon</s>", "Where is it?")
    ' Lyon'
    >>> extract_own_turn("<|im_start|>user\n<|im_end|>user")
    ''
    """
    if "<|channel|>" in reply:
        return _assistant_messages(reply, source)
    marks = list(_find_marks(reply, source))
    start = _OPENING.match(reply).end()  # type: ignore[union-attr]
    if (answer := _find_answer_start(reply, marks, start, source)) is not None:
        start = answer
    elif marks and marks[0].start <= start and marks[0].role == "other":
        if not marks[0].restates or any(mark.role == "assistant" for mark in marks):
            return ""
        marks = marks[1:]
    own, n_continued = "", 0
    for mark in marks:
        if mark.start < start:
            continue
        own += reply[start : mark.start]
        start = mark.end
        if _ROLE_WORDS.fullmatch(own[:_SHORTEST_PROMPT]):
            own = ""
        if mark.role == "other" or (own.strip() and (n_continued > _MOST_MESSAGES or not is_thought(own))):
            break
        n_continued += bool(own.strip())
    else:
        own += reply[start:]
    own = _CUT_MARK.sub("", own)
    return "" if (_ROLE_WORDS if marks else _ROLE_ALONE).fullmatch(own[:_SHORTEST_PROMPT]) else own


def find_other_turn(reply: str) -> str | None:
    r"""Return the first mark in a reply that ends the model's turn or starts another one; None where it has none.

    Such a mark shows a server without the model's chat template, or one that does not stop where the turn ends.

    >>> find_other_turn("Lyon<|im_end|>\n<|im_start|>user\nAnd of Italy?"), find_other_turn("User: Lyon")
    ('<|im_end|>', None)
    """
    for mark in _find_marks(reply, "") if _MAYBE_MARK.search(reply) else ():
        if mark.role == "end" or (mark.role == "other" and reply[: mark.start].strip()):
            return reply[mark.start : mark.end].strip()
    return None


def _find_marks(reply: str, source: str) -> Iterator[_Mark]:
    """Yield the marks of turns, in order."""
    marks = [_Mark(*each.span(), "end", True) for each in _END.finditer(reply)]
    for end in [each.end for each in marks]:
        if match := _AFTER_END.match(reply, end):
            marks.append(_Mark(*match.span(), _role_of_label(match[1])))
    for match in _START.finditer(reply):
        if match.lastgroup == "v" and not _is_other_input(reply, match, source):
            continue
        word = match[str(match.lastgroup)].casefold()
        marks.append(_Mark(*match.span(), _role_of_label(word), match.lastgroup in ("q", "s") and word in _RESTATED))
    done, has_input = 0, False
    for mark in sorted(marks):
        word = reply[mark.start : mark.end].strip(" \t\n*:：_#").casefold()
        opens = word in _OPENS and not reply[: mark.start].strip()
        if mark.start < done or (word in _ONLY_AFTER_INPUT and not (has_input or opens)):
            continue
        yield mark
        done, has_input = mark.end, has_input or mark.role == "other"


def _role_of_label(word: str) -> str:
    """Return "assistant" for the label of an answer, "other" for that of any input."""
    return "assistant" if re.fullmatch(_ANSWERING, word, re.IGNORECASE) else "other"


_ANSWERING = rf"{_ASSISTANT}|\[/INST\]|reserved_107|response|output|answer|a|答|回答"
_RESTATED = frozenset({"q", "问", "質問", "question", "input"})
_ONLY_AFTER_INPUT = frozenset({"ai", "bot", "falcon", "model", "response", "output", "answer", "a", "答", "回答"})
"""Labels that without an input before them may be headings of an answer."""
_OPENS = frozenset({"falcon", "bot", "response", "答", "回答"})
"""Those that say nothing at the start of a reply."""
_MOST_MESSAGES = 5
"""Messages of thought before the message that holds the answer."""
_AFTER_END = lazy_pattern(rf"\s*({_ASSISTANT}|{_OTHER})(?::|[ \t]*\n|\s*$)", re.IGNORECASE)


def _find_answer_start(reply: str, marks: list[_Mark], start: int, source: str) -> int | None:
    """Return where the answer begins after a repeated prompt; None where the reply repeats none."""
    if not marks or marks[0].role == "end":
        return None
    first, before_first = marks[0], reply[start : marks[0].start]
    if first.role == "other" and before_first.strip() and not _SYSTEM.search(before_first):
        return None
    for mark in marks[:10]:
        if mark.role != "assistant":
            continue
        before = reply[start : mark.start]
        if not before.strip() or (first.role == "assistant" and before.rstrip().endswith(("}", "]"))):
            return None
        if _is_prompt(before, source) or (first.restates and not source):
            return mark.end
        if first.role == "assistant" or not source:
            return None
    return None


_SYSTEM = lazy_pattern(r"\b(?:you are|assistant|chat between|below is|instructions?)\b", re.IGNORECASE)
"""Words of a system message without a mark of its own."""


def _is_prompt(text: str, source: str) -> bool:
    """Return whether a text is the repeated prompt: it contains the source, or is long where none is known."""
    return fold_text(source) in fold_text(text) if source else len(text) >= _SHORTEST_PROMPT


def _assistant_messages(reply: str, source: str) -> str:
    """Return the messages of the assistant's first turn, with their channels."""
    start = 0
    if re.match(r"\s*<\|start\|>\s*(?!assistant)", reply):
        start = reply.find("<|start|>assistant")
        if start < 0 or not _is_prompt(reply[:start], source):
            return ""
    end = _HARMONY_OTHER.search(reply, start)
    return reply[start : end.start() if end else len(reply)]


def _is_other_input(reply: str, label: re.Match[str], source: str) -> bool:
    """Whether an input after an answer is another one than the prompt's: the text after it answers something else."""
    before = reply[: label.start()].strip()
    if not source or not before or (label["u"] and not _ONLY_ANSWER.fullmatch(before)):
        return False
    text = fold_text(next((line for line in reply[label.end() :].splitlines() if fold_text(line)), ""))
    return bool(text) and text not in fold_text(source) and fold_text(source) not in text


_ONLY_ANSWER = lazy_pattern(r"(?:\S+[ \t]?){1,8}(?<!:)|[{\[].*[}\]]", re.DOTALL)
"""An answer without a word of thought: a text may be quoted after that."""


def fold_text(text: str) -> str:
    """Return a text in lower case with one blank for whatever is no word."""
    return re.sub(r"\W+", " ", text.casefold()).strip()
