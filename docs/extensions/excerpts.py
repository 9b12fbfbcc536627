"""Excerpts under the search results of a site that is opened as files.

Sphinx fetches each page for its excerpt, which browsers refuse for `file:` addresses. Therefore the search page loads
the text of all pages with a script, and answers those requests from it.
"""

import json
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

FILE = "excerpts.js"
SCRIPT = """const EXCERPTS = %s;
const fetchPage = window.fetch;
window.fetch = (address, ...options) => {
  const page = EXCERPTS[String(address).replace(/^\\.\\//, "")];
  return page === undefined ? fetchPage(address, ...options) : Promise.resolve(new Response(page));
};
"""


def sections(document: nodes.document) -> str:
    """Return the text of a page as the HTML that Sphinx searches: one element per section, with its own text."""
    found = []
    for section in document.findall(nodes.section):
        text = " ".join(
            child.astext() for child in section.children if not isinstance(child, nodes.section | nodes.title)
        )
        found.append(f'<section id="{escape(section["ids"][0])}">{escape(" ".join(text.split()))} </section>')
    return f'<div role="main">{"".join(found)}</div>'


def _load(app: Sphinx, page: str, template: str, context: object, document: object) -> None:
    if page == "search":
        app.add_js_file(FILE, priority=100)


def _write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        pages = {f"{name}.html": sections(app.env.get_doctree(name)) for name in sorted(app.env.found_docs)}
        file = Path(app.outdir) / "_static" / FILE
        file.write_text(SCRIPT % json.dumps(pages, ensure_ascii=False), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Load the script on the search page, and write it after the build."""
    app.connect("html-page-context", _load)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
