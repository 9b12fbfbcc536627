"""How the site is built: `make docs`, offline; any warning fails it."""

import os
import sys
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx

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
    "extensions.differences",
    "extensions.mathml",
    "extensions.pictures",
    "extensions.published",
    "extensions.trust",
]
exclude_patterns = ["extensions", "README.md"]
nitpicky = True
nitpick_ignore = [("py:class", "kbbench_hf.replies.reading.T")]
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
pygments_style = "tango"
pygments_dark_style = "github-dark"


def _escape(app: Sphinx, context: object, lines: list[str]) -> None:
    """Let asterisks in the help of the command line stand for themselves."""
    lines[:] = [line.replace("*", r"\*") for line in lines]


def setup(app: Sphinx) -> None:
    """Connect what the pages need."""
    for part in ("description", "options"):
        app.connect(f"sphinx-click-process-{part}", _escape)
