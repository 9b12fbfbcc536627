"""Tables as HTML: small, quick to paint, readable on a phone. Every text from outside passes through `escaped`."""

import html
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

if TYPE_CHECKING:
    import gradio as gr

_TEMPLATE = str.maketrans({each: f"&#{ord(each)};" for each in "{}$`\\"})

CSS = """
.gradio-container { --font: system-ui, sans-serif; --font-mono: ui-monospace, monospace; }
.kb-scroll { overflow-x: auto; max-width: 100%; }
.kb-scroll:focus-visible { outline: 2px solid var(--color-accent); }
table.kb { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
table.kb caption { text-align: left; font-weight: 600; padding: .6rem 0 .3rem; }
table.kb th, table.kb td { padding: .42rem .7rem; text-align: left; white-space: nowrap; border: 0;
  border-bottom: 1px solid var(--border-color-primary); }
table.kb thead th { border-bottom: 2px solid var(--body-text-color); font-weight: 600; vertical-align: bottom; }
table.kb .number { text-align: right; }
table.kb tbody th { font-weight: 500; }
table.kb :is(th, td).name { position: sticky; left: 0; background: var(--body-background-fill); z-index: 1; }
table.kb tr[data-row] { cursor: pointer; }
table.kb tr[data-row]:hover :is(th, td) { background: var(--background-fill-secondary); }
table.kb tr.begins :is(th, td) { border-top: 2px solid var(--border-color-primary); }
table.kb a { color: inherit; text-decoration: underline; text-decoration-color: var(--border-color-primary);
  text-underline-offset: 3px; }
table.kb td.wrap { white-space: normal; overflow-wrap: anywhere; }
table.kb .half { opacity: .7; }
table.kb button.sort { all: unset; cursor: pointer; }
table.kb button.sort:hover { text-decoration: underline; }
table.kb button.sort:focus-visible { outline: 2px solid var(--color-accent); }
h2.kb { font-size: 1.25rem; font-weight: 600; }
.kb-pages { display: flex; gap: .6rem; align-items: center; padding: .6rem 0; flex-wrap: wrap; }
.kb-pages button { border: 1px solid var(--border-color-primary); border-radius: 4px; padding: .25rem .7rem;
  background: transparent; color: inherit; cursor: pointer; }
.kb-pages button:disabled { opacity: .4; cursor: default; }
.kb-empty { padding: 1rem 0; opacity: .8; }
@media (max-width: 600px) {
  table.kb th, table.kb td { padding: .4rem .45rem; }
  table.kb :is(th, td).name { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; max-width: 8.5rem; }
}
"""

SCRIPT = """<script>
window.kbbench = choices => {
  const address = new URL(window.location);
  for (const [key, value] of Object.entries(choices)) {
    if (value === "" || value === null || value === undefined) address.searchParams.delete(key);
    else address.searchParams.set(key, value);
  }
  const tab = address.searchParams.get("tab");
  address.searchParams.delete("tab");
  if (tab) address.search = new URLSearchParams([["tab", tab], ...address.searchParams]);
  window.history.replaceState(null, "", address);
};
</script>"""
"""Puts choices in the page's address; an empty one leaves it. The tab comes first: only that survives a login."""

ON_CLICK = """
element.addEventListener('click', event => {
  const sort = event.target.closest('[data-sort]'), page = event.target.closest('[data-page]');
  const row = event.target.closest('[data-row]');
  const say = (what, value) => trigger('select', {index: 0, value: [what, value]});
  if (sort) { kbbench({sort: sort.dataset.sort, sheet: ''}); say('sort', sort.dataset.sort); }
  else if (page) { kbbench({sheet: page.dataset.page}); say('page', page.dataset.page); }
  else if (row && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    say('row', row.dataset.row);
  }
});
"""
"""What a click on a table says to Python: which heading, page or row. In the address a page is a `sheet`: Gradio has
another use for `page`."""


def escaped(text: object) -> str:
    """Return text that means only itself, in HTML and in the templates through which Gradio passes it.

    >>> escaped("<b> ${x} {{y}}")
    '&lt;b&gt; &#36;&#123;x&#125; &#123;&#123;y&#125;&#125;'
    """
    return html.escape(str(text)).translate(_TEMPLATE)


def markup(text: str, elem_id: str) -> "gr.HTML":
    """Lay out HTML that was made by a function of this file."""
    import gradio as gr

    return gr.HTML(text, elem_id=elem_id, js_on_load=None, apply_default_css=False, min_width=300)


def block(text: object, elem_id: str) -> "gr.HTML":
    """Lay out a sentence."""
    return markup(f'<p class="kb-empty">{escaped(text)}</p>', elem_id)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    caption: str = "",
    *,
    text_columns: Collection[int] = (0,),
    wrapped: Collection[int] = (),
) -> str:
    """Return a table whose first column names its rows; nothing where there are no rows.

    Args:
        headings: the columns.
        rows: one text per column.
        caption: what the table shows.
        text_columns: the columns that are no numbers, and stand left.
        wrapped: the columns whose text may take several lines.
    """
    if not rows:
        return ""
    classes = [
        " ".join([*(["name"] if n == 0 else []), *(["wrap"] if n in wrapped else []), *_number(n not in text_columns)])
        for n in range(len(headings))
    ]
    head = "".join(
        f'<th scope="col" class="{each}">{escaped(text)}</th>' for text, each in zip(headings, classes, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row" class="{each}">{escaped(text)}</th>'
            if n == 0
            else f'<td class="{each}">{escaped(text)}</td>'
            for n, (text, each) in enumerate(zip(row, classes, strict=True))
        )
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return _scrolling(f'<table class="kb">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>')


def board_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    ids: Sequence[str],
    *,
    sort: str,
    descending: Mapping[str, bool],
    begins: Collection[int],
    place: str,
) -> str:
    """Return the board: headings that sort, rows that open, a line where a rank group begins.

    Args:
        headings: the columns; the one called `system` names the rows.
        rows: one text per column; a half width after " ±" is set smaller.
        ids: the id of each row.
        sort: the heading by which the rows are sorted, as `View.sort`.
        descending: whether a column's own order is from great to small.
        begins: the positions of rows that begin a rank group.
        place: the place, for links.
    """
    if not rows:
        return '<p class="kb-empty">No system is here. Clear the search, choose another origin, or submit one.</p>'
    by, reverse = sort.removeprefix("-"), sort.startswith("-")
    head = ""
    for heading in headings:
        down = descending[heading] != reverse
        following = heading if by != heading else f"-{heading}" if not reverse else ""
        state = f' aria-sort="{"descending" if down else "ascending"}"' if by == heading else ""
        mark = (" ↓" if down else " ↑") if by == heading else ""
        head += (
            f'<th scope="col" class="{_class(heading)}"{state}>'
            f'<button class="sort" data-sort="{escaped(following)}">{escaped(heading)}{mark}</button></th>'
        )
    body = ""
    for position, (row, row_id) in enumerate(zip(rows, ids, strict=True)):
        address = f"?{urlencode({'place': place, 'tab': 'row', 'row': row_id})}"
        body += f'<tr data-row="{escaped(row_id)}"{" class=begins" if position in begins else ""}>'
        for heading, text in zip(headings, row, strict=True):
            if heading == "system":
                body += f'<th scope="row" class="name"><a href="{escaped(address)}">{escaped(text)}</a></th>'
            else:
                value, half, width = text.partition(" ±")
                small = f' <span class="half">±{escaped(width)}</span>' if half else ""
                body += f'<td class="{_class(heading)}">{escaped(value)}{small}</td>'
        body += "</tr>"
    return _scrolling(f'<table class="kb"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>')


def pages(page: int, n_pages: int, words: str) -> str:
    """Return what stands below the board: how much there is, and buttons to the other pages."""
    if n_pages == 1:
        return f'<div class="kb-pages"><span>{escaped(words)}</span></div>'
    buttons = "".join(
        f'<button data-page="{to}"{" disabled" if not 1 <= to <= n_pages else ""}>{label}</button>'
        for to, label in ((page - 1, "Previous"), (page + 1, "Next"))
    )
    return f'<div class="kb-pages">{buttons}<span>page {page} of {n_pages} · {escaped(words)}</span></div>'


def _class(heading: str) -> str:
    return "name" if heading == "system" else "" if heading in {"#", "licence", "origin", "date"} else "number"


def _number(is_number: bool) -> list[str]:
    return ["number"] if is_number else []


def _scrolling(inner: str) -> str:
    return f'<div class="kb-scroll" tabindex="0" role="region" aria-label="Table, scrolls sideways">{inner}</div>'
