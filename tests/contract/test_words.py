"""What users read of the program: help texts, errors, warnings and printed lines have none of the `BANNED` words.

`python -m tests.contract.test_words` prints what it finds.
"""

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import click
import pytest

from kbbench_hf.cli.verbs import ALIASES, VERBS, kbbench
from tests.contract.test_architecture import sources
from tests.contract.test_docs_language import BANNED

CALLS = {"ScoreWarning", "Problem", "Unreadable", "echo", "fail", "say", "progress", "waiting"}
"""Functions whose texts are printed; errors are added by their names."""
VARIABLES = {"message", "remedy", "hint"}
"""Names of variables whose texts go into errors and warnings."""
EXEMPT = {
    "agents/tools.py": "results of tools, which a model reads; stored conversations have them",
    "agents/tool_schemas.py": "results of tools, which a model reads; stored conversations have them",
    "runners/agent_sessions.py": "results of tools, which a model reads; stored conversations have them",
}
"""Files of which texts are not searched -> why."""
ALLOWED = {
    r"\{[^}]*\}": "a value, not a word of ours",
    r"is no longer": "plain English",
    r"says that": "a card or a file quoted",
}
"""What is removed before words are searched -> why it may be there."""


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield the help of each verb, of its subcommands and of their options, with where it is."""

    def of(name: str, command: click.Command) -> Iterator[tuple[str, str]]:
        yield f"kbbench {name}", command.help or ""
        for option in command.params:
            yield f"kbbench {name} {option.name}", getattr(option, "help", None) or ""
        for each, sub in getattr(command, "commands", {}).items():
            yield from of(f"{name} {each}", sub)

    for verb, line in VERBS.items():
        yield f"kbbench {verb}, in the list of commands", line
    for verb in {**VERBS, **ALIASES}:
        command = kbbench.get_command(click.Context(kbbench), verb)
        assert command is not None
        yield from of(verb, command)
    for group in import_module("kbbench_hf.cli.run_options").GROUPS:
        for option in group.options:
            yield f"kbbench run --{option.name}", option.help or ""


def messages() -> Iterator[tuple[str, str]]:
    """Yield the string literals that become errors, warnings and printed lines, with file and line."""
    for name, source in sources().items():
        for node in source.nodes if name not in EXEMPT else ():
            if _is_shown(node):
                yield from ((f"{name}:{line}", text) for line, text in _literals(node))


def _is_shown(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return called in CALLS or called.endswith("Error")
    return isinstance(node, ast.Assign) and any(getattr(each, "id", None) in VARIABLES for each in node.targets)


def _literals(node: ast.AST) -> Iterator[tuple[int, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in each.values)
            yield each.lineno, "".join(map(str, parts))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and " " in each.value.strip():
            yield each.lineno, each.value


def idioms(texts: Iterator[tuple[str, str]]) -> list[str]:
    """Return where a banned word is, with the words around it."""
    found = set()
    for where, text in texts:
        for pattern in ALLOWED:
            text = re.sub(pattern, "...", text)
        for each in re.finditer(rf"\b(?:{'|'.join(BANNED)})\b", text, re.I):
            found.add(f"{where}: {' '.join(text[max(0, each.start() - 40) : each.end() + 40].split())}")
    return sorted(found)


@pytest.mark.parametrize("texts", [help_texts, messages], ids=["help", "messages"])
def test_users_read_plain_words(texts: "type[help_texts]") -> None:
    assert idioms(texts()) == []


if __name__ == "__main__":
    print(*idioms(help_texts()), *idioms(messages()), sep="\n")
