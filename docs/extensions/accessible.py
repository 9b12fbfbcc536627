"""Corrections of the theme's HTML for readers with a keyboard or a screen reader, as axe reports them."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

CORRECTED = {
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<div class="formula">': '<div tabindex="0" class="formula">',
    '<dl>\n<dd><em class="sig-param">': '<dl role="presentation">\n<dd><em class="sig-param">',
}
"""Elements that scroll by themselves on a phone need the keyboard; a list of parameters has no terms."""
HEADING = 'role="heading"'


def _correct(app: Sphinx, page: str, template: str, context: dict[str, Any], document: nodes.document | None) -> None:
    for found, corrected in CORRECTED.items():
        context["body"] = context.get("body", "").replace(found, corrected)
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(HEADING, f'{HEADING} aria-level="2"')


def setup(app: Sphinx) -> dict[str, bool]:
    """Correct a page after the theme has prepared it."""
    app.connect("html-page-context", _correct, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
