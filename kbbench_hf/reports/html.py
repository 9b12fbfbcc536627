"""HTML templates that escape all values."""

import html
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_SCRIPTS = str.maketrans({each: f"&#{ord(each)};" for each in "{}$`\\"})
"""What has a meaning in the JavaScript templates through which Gradio passes HTML."""


def templates(folder: Path) -> Environment:
    """Return the templates of a folder, each compiled when it is first asked for and then kept.

    >>> templates(Path()).from_string("<p>{{ text }}</p>").render(text="<b> ${x} {{y}}")
    '<p>&lt;b&gt; &#36;&#123;x&#125; &#123;&#123;y&#125;&#125;</p>'
    """
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=_escaped,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _escaped(text: object) -> Markup:
    """Return a text that is inert; what a template made stays as it is."""
    return Markup(text if hasattr(text, "__html__") else html.escape(str(text)).translate(_SCRIPTS))  # noqa: S704
