"""HTML of the pages from templates: tables, small multiples, and the listeners of components."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kbbench_hf.app.drawings import Axis, axis_of
from kbbench_hf.leaderboard.table import BoardScore
from kbbench_hf.reports.page import templates

if TYPE_CHECKING:
    import gradio as gr
    from starlette.requests import Request

    from kbbench_hf.app.drawings import ChartBar

Listener = dict[str, Any]
"""Options of Gradio's: of an event listener, of a launch."""
_FOLDER = Path(__file__).parent / "templates"
_TEMPLATES = templates(_FOLDER)
PNG = (_FOLDER / "kbbench.png").read_bytes()
CSS, _SCRIPT = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("leaderboard.css", "address.js"))
ON_CLICK = "kbbench.clicks(element, trigger)"
"""What a table runs when it is loaded, from `address.js`, which has the functions of the events too."""
STYLES = "kbbench.css"
"""The address of the styles next to the pages, so that a browser requests them once."""
PICTURE = "kbbench.png"
"""The picture that other sites show with a link to a page."""
TITLE = "kbbench leaderboard"
LEAD = "Systems on knowledge graph and LLM benchmarks, scored from their predictions with confidence intervals."
HEAD = f'<title>{TITLE}</title><link rel="stylesheet" href="{STYLES}"><script>{_SCRIPT}</script>'


def query_parameters(request: "Request | gr.Request") -> dict[str, str]:
    """Return the query parameters of a request; several values of `compare` (a form without scripts) are joined."""
    query = request.query_params
    compared = ",".join(query.getlist("compare")) if "compare" in query else ""
    return {**query, **({"compare": compared} if compared else {})}


def public_address(request: "Request") -> str:
    """Return the address of the site as visitors see it, behind a proxy too, without the slash at its end."""
    root = request.scope.get("root_path", "").rstrip("/")
    if root.startswith("http"):
        return str(root)
    scheme = request.headers.get("x-forwarded-proto", request.url.scheme).partition(",")[0].strip()
    host = request.headers.get("x-forwarded-host", request.url.netloc).partition(",")[0].strip()
    return f"{scheme}://{host}{root}"


def render_html(template: str, **values: object) -> str:
    """Return the HTML of a template; texts may come from anywhere."""
    return _TEMPLATES.get_template(f"{template}.html.jinja").render(values)


def markup(html: str, elem_id: str) -> "gr.HTML":
    """Lay out HTML that a template made."""
    import gradio as gr

    return gr.HTML(html, elem_id=elem_id, js_on_load=None, apply_default_css=False, min_width=300)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    caption: str = "",
    *,
    note: str = "",
    bars: Sequence["ChartBar | None"] = (),
    text_columns: Collection[int] = (0,),
    wrapped: Collection[int] = (),
) -> str:
    """Return a table whose first column names its rows; nothing where there are no rows.

    The `bars` are drawn next to the rows. The `text_columns` have no numbers and are aligned left; the text of the
    `wrapped` ones may take several lines.
    """
    if not rows:
        return ""
    kinds = {"name": (0,), "wrap": wrapped, "number": set(range(len(headings))) - set(text_columns)}
    classes = [" ".join(word for word, of in kinds.items() if n in of) for n in range(len(headings))]
    return render_html("table", headings=headings, rows=rows, caption=caption, note=note, classes=classes, bars=bars)


class Panel(NamedTuple):
    """One panel: its title, and a bar for each score."""

    title: str
    figures: Mapping[str, tuple[BoardScore, str]]
    """Name -> score, and the address that the name links to; may be empty."""


def multiples(panels: Sequence[Panel], words: str, axis: Axis | None = None) -> str:
    """Return the panels side by side on a shared axis; empty without scores."""
    axis = axis or axis_of(score for panel in panels for score, _ in panel.figures.values())
    if axis is None:
        return ""
    drawn = [
        (panel.title, [(name, score, axis.bar(score), href) for name, (score, href) in panel.figures.items()])
        for panel in panels
        if panel.figures
    ]
    return render_html("multiples", panels=drawn, words=f"{words} (axis {axis.ends})")
