"""How the site is built: `make docs`, offline; any warning fails it."""

import os
import sys
from importlib.metadata import version as installed
from itertools import chain
from pathlib import Path

import click
from sphinx.application import Sphinx
from sphinx_click.ext import _format_option

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ |= {"MPLBACKEND": "Agg", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

project = "kbbench-hf"
author = "the kbbench-hf authors"
copyright = "the kbbench-hf authors, Apache-2.0"
release = version = installed("kbbench-hf")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "extensions.accessible",
    "extensions.differences",
    "extensions.excerpts",
    "extensions.mathml",
    "extensions.pictures",
    "extensions.published",
    "extensions.run_options",
    "extensions.trust",
]
exclude_patterns = ["extensions", "README.md"]
nitpicky = True
nitpick_ignore = [
    ("py:class", "kbbench_hf.parsing.parsed_reply.T"),
    ("py:class", "kbbench_hf.metrics.ranks.Integer"),
    ("py:class", "kbbench_hf.scoring.eval_task.EvalTask"),  # what `score` works on; not public
]
nitpick_ignore_regex = [("py:.*", r"(?!kbbench_hf\.).*")]
"""Names of other packages have their pages elsewhere, and the site asks nobody for them."""

myst_enable_extensions = ["dollarmath", "deflist", "attrs_block"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
add_module_names = False
toc_object_entries = False
default_role = "code"
"""Names in docstrings, between single backquotes."""

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
copybutton_here_doc_delimiter = "EOF"

html_theme = "furo"
html_title = "kbbench-hf"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_use_index = False
"""An index of all names would be 40 screens of a phone; the search finds names, too."""
smartquotes = False
"""Two hyphens begin an option, straight quotes stand in JSON: both are copied."""
pygments_style = "default"
pygments_dark_style = "github-dark"


def _escape(app: Sphinx, context: object, lines: list[str]) -> None:
    """Let asterisks in the help of the command line stand for themselves."""
    lines[:] = [line.replace("*", r"\*") for line in lines]


def _description(app: Sphinx, context: object, lines: list[str]) -> None:
    """Set the examples of a verb, which sphinx-click gives as lines "| ...", as code to copy."""
    said = [line for line in lines if not line.startswith("| ")]
    examples = [line.removeprefix("| ").removeprefix("Example: ") for line in lines if line.startswith("| ")]
    code = [f"    $ {line.strip()}" for line in examples if not line.startswith("Example")]
    _escape(app, context, said)
    lines[:] = [*said, "", ".. code-block:: console", "", *code, ""] if code else said


def _options(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Add the options of `run` that only some benchmarks have, under whom they are for."""
    from kbbench_hf.cli.run_options import GROUPS, RunCommand, sections

    if isinstance(context.command, RunCommand):
        for title, options in sections(GROUPS).items():
            shown = [[*_format_option(context, option), ""] for option in options if not option.hidden]
            lines += [f".. rubric:: {title}", "", *chain.from_iterable(shown)]
    _escape(app, context, lines)


def _fields(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Leave out what Python says of a named tuple's field: its number."""
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()


def setup(app: Sphinx) -> None:
    """Connect what the pages need."""
    from kbbench_hf.cli.verbs import kbbench

    for name in kbbench.list_commands(click.Context(kbbench)):
        kbbench.get_command(click.Context(kbbench), name)  # marks the examples in the help of a command
    app.connect("autodoc-process-docstring", _fields)
    app.connect("sphinx-click-process-description", _description)
    app.connect("sphinx-click-process-options", _options)
