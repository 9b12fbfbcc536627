"""Directives `run-options` and `build-options`: tables of the options of `kbbench_hf.run` and `kbbench_hf.build`."""

import re
from typing import Any, Literal, get_args, get_origin

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extensions.published import markdown_table
from kbbench_hf.building.build import BuildOptions
from kbbench_hf.runners.run_options import OPTIONS, RunOptions

TITLES = {
    "run": "All models",
    "retriever": "Retrievers",
    "rerank": "Re-ranking",
    "agent": "Agents",
    "prompt": "Prompts",
    "request": "Language models",
    "demonstrations": "Prompts with demonstrations",
    "annotation": "Benchmarks whose metrics need other models",
}


def type_name(hint: Any) -> str:
    """Return an annotation as one reads it: `int`, `"tools" or "json"`, `str or LanguageModel`."""
    if get_origin(hint) is Literal:
        return " or ".join(f'"{value}"' for value in get_args(hint))
    names = re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(getattr(hint, "__name__", hint) if not get_args(hint) else hint))
    return " or ".join(name for name in names.split(" | ") if name != "None")


class _RunOptions(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        sections = []
        for group, title in TITLES.items():
            rows = []
            for name, option in ((name, each) for name, each in OPTIONS.items() if each.group == group):
                hint = get_args(RunOptions.__annotations__[name])[0]
                text = option.help if option.default is None else f"{option.help} Default: `{option.default!r}`."
                rows.append(
                    (f"`{name}`", f"`{type_name(hint)}`", text.replace("  [default: ", " Default: ").replace("]", "."))
                )
            sections.append(f"**{title}**\n\n{markdown_table(('option', 'type', 'meaning'), rows, 3)}")
        return self.parse_text_to_nodes("\n\n".join(sections))


class _BuildOptions(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        hints = {name: get_args(hint) for name, hint in BuildOptions.__annotations__.items()}
        rows = [(f"`{name}`", f"`{type_name(kind)}`", text) for name, (kind, text) in hints.items()]
        return self.parse_text_to_nodes(markdown_table(("option", "type", "meaning"), rows, 3))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("run-options", _RunOptions)
    app.add_directive("build-options", _BuildOptions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
