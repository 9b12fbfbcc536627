"""The directive `differences`: every "Differs from upstream:" of the docstrings of modules, each with its place.

```{differences} kbbench_hf.metrics.ranking kbbench_hf.benchmarks.retrieval
```
"""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

SAID = re.compile(r"Differs from upstream(?:, (?P<more>[^:]+))?: *(?P<what>.*)", re.S)


def differences(module: str) -> Iterator[tuple[str, str]]:
    """Yield (qualified name, what differs) of a module and of everything in it; nothing of it is imported."""
    for name, docstring in _docstrings(ast.parse(_file(module).read_text(encoding="utf-8")), module):
        paragraphs = inspect.cleandoc(docstring).split("\n\n")
        for number, paragraph in enumerate(paragraphs):
            if said := SAID.search(paragraph):
                following = paragraphs[number + 1] if number + 1 < len(paragraphs) else ""
                text = said["what"] or (following if following.startswith("- ") else "")
                more = f"{said['more']}:" if said["more"] else ""
                yield name, ("\n" if text.startswith("- ") else " ").join(filter(None, (more, text)))


def _file(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{module!r} is no module of this package; expected kbbench_hf.something.")
    return Path(spec.origin)


def _docstrings(tree: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(tree, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        if said := ast.get_docstring(tree):
            yield name, said
        for inner in tree.body:
            if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _docstrings(inner, f"{name}.{inner.name}")


class _Differences(SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        lines = []
        for module in self.arguments[0].split():
            self.env.note_dependency(str(_file(module)))
            for name, text in differences(module):
                label = name.removeprefix("kbbench_hf.")
                first, *others = re.split(r"(?:^|\n)- ", text)
                items = [" ".join(each.split()) for each in (first, *others)]
                lines += [f"- `{label}`: {items[0]}", *(f"  - {each}" for each in items[1:])]
        if not lines:
            raise self.error(f"{self.arguments[0]}: no 'Differs from upstream:' in these modules")
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("differences", _Differences)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
