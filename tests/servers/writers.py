"""A writer and three judges whose behaviour is known: `answer` of a `ScriptedServer`, one behaviour per model name."""

import json
import re
from collections.abc import Callable
from typing import Any

BEHAVIOURS = ("truthful", "always", "never", "nonsense")


def is_met(properties: list[str], record: str) -> bool:
    """Return whether a record has what a truthful judge asks for: each property is "has WORD", WORD a word of it."""
    words = set(re.findall(r"\w+", record.casefold()))
    return all(each.removeprefix("has ").casefold() in words for each in properties)


def answer(payload: dict[str, Any]) -> str:
    """Return what the model of a request says; its name says which: "writer", "inventor", or how a judge behaves."""
    if len(payload["messages"]) != 2:
        return "here"  # to the runner's canary
    system, user = (each["content"] for each in payload["messages"])
    model = payload["model"]
    record = re.search(r"<record>\n(.*)\n</record>", user, re.DOTALL)
    if "properties" in system and record and "Requirements" not in user:
        word = sorted(set(re.findall(r"\b[a-z]{5,}\b", record[1])))[:1]
        source = "words that stand nowhere" if model == "inventor" else "".join(word)
        return json.dumps({"properties": [{"property": f"has {''.join(word)}", "source": source}]})
    if "Requirements" in user and record:
        return _JUDGES[model](re.findall(r"^- (.*)$", user, re.MULTILINE), record[1])
    if model == "forgetful":
        return json.dumps({"question": "Which one is it?"})
    said = user.partition("Question: ")[2] or user.partition("Relational part: ")[2].partition("\n")[0]
    return json.dumps({"question": said})


_JUDGES: dict[str, Callable[[list[str], str], str]] = {
    "truthful": lambda properties, record: json.dumps({"supported": is_met(properties, record)}),
    "always": lambda properties, record: '{"supported": true}',
    "never": lambda properties, record: '{"supported": false}',
    "nonsense": lambda properties, record: "blue",
}
