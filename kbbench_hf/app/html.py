"""HTML of the pages from templates: tables, interval bars, small multiples, scatter plots, listeners of components.

All pages use it. Templates escape every text, because texts come from strangers. Bars and plots are positions in
percent for the templates, and follow the page's colors and width. A bar is in the table cell of its score; a scatter
plot is an SVG whose points are links. Each value of a plot is in a table too, for readers who cannot see it.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kbbench_hf.leaderboard.table import BoardScore
from kbbench_hf.reports.page import templates

if TYPE_CHECKING:
    import gradio as gr
    from starlette.requests import Request


Listener = dict[str, Any]
"""Keyword arguments of Gradio: of an event listener, or of `launch`."""
_FOLDER = Path(__file__).parent / "templates"
_TEMPLATES = templates(_FOLDER)
PNG = (_FOLDER / "kbbench.png").read_bytes()
CSS, _SCRIPT = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("leaderboard.css", "address.js"))
ON_CLICK = "kbbench.clicks(element, trigger)"
"""The script of a table that is loaded; its functions are in `address.js`."""
STYLES = "kbbench.css"
"""The address of the styles, a file of their own, so that a browser requests them once."""
PICTURE = "kbbench.png"
"""The picture that other sites show with a link to a page."""
TITLE = "kbbench leaderboard"
LEAD = "Systems on knowledge graph and LLM benchmarks, scored from their predictions with confidence intervals."
HEAD = f'<title>{TITLE}</title><link rel="stylesheet" href="{STYLES}"><script>{_SCRIPT}</script>'


WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 96, 12, 40


class ChartBar(NamedTuple):
    """The positions of a score and its interval on an axis, in percent from the left, as CSS values."""

    low: str
    value: str
    high: str
    known: bool
    """Whether the interval is known; if not, `low` and `high` are those of the value."""
    zero: str
    """The position of 0 if it is inside the axis, else empty."""


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, on which values have positions in percent."""

    low: float
    high: float

    def at(self, value: float) -> str:
        """Return the position of a value from the left; values outside the axis are at its ends.

        >>> Axis(0.0, 2.0).at(0.5), Axis(0.0, 2.0).at(3.0)
        ('25.0%', '100.0%')
        """
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * min(1.0, max(0.0, share)):.1f}%"

    @property
    def ends(self) -> str:
        """The text of both ends."""
        return f"{self.low:g}–{self.high:g}"

    def bar(self, score: BoardScore) -> ChartBar | None:
        """Return the bar of a score; None where it has no value. Without an interval, templates draw a hollow dot."""
        if not math.isfinite(score.value):
            return None
        known = math.isfinite(score.high - score.low)
        ends = (score.low, score.high) if known else (score.value, score.value)
        zero = self.at(0) if self.low < 0 < self.high else ""
        return ChartBar(self.at(ends[0]), self.at(score.value), self.at(ends[1]), known, zero)


def axis_of(scores: Iterable[BoardScore]) -> Axis | None:
    """Return an axis with round ends that contains all scores and their intervals; None without finite scores.

    >>> axis_of([BoardScore(0.63, 0.49, 0.75), BoardScore(0.4, 0.27, 0.55)])
    Axis(low=0.2, high=0.8)
    """
    ends = [each for score in scores for each in (score.value, score.low, score.high) if math.isfinite(each)]
    if not ends:
        return None
    low, high = min(ends), max(ends)
    step = _step(high - low or abs(high) or 1.0)
    # 1e-9: an end that is round but for the floating-point error gets no further step
    bounds = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    first, last = (round(each, 10) for each in bounds)
    return Axis(first, last if last > first else round(first + step, 10))


def around_zero(differences: Sequence[BoardScore]) -> Axis | None:
    """Return an axis with 0 in its middle that contains all differences and their intervals; None without any.

    >>> around_zero([BoardScore(-0.15, -0.28, -0.01)])
    Axis(low=-0.3, high=0.3)
    """
    ends = [end for each in differences for end in (each.value, each.low, each.high)]
    both = [BoardScore(sign * end) for end in ends for sign in (1, -1)]
    return axis_of(both)


def _step(width: float) -> float:
    """Return the smallest step of 1, 2, 5 or 10 times a power of ten that divides the width into at most 7 parts."""
    size: float = 10.0 ** math.floor(math.log10(width / 5))
    return next(size * each for each in (1, 2, 5, 10) if size * each * 7 >= width)


class Dot(NamedTuple):
    """A system of a scatter plot: its value on the x axis, its score on the y axis, and its page."""

    x: float
    score: BoardScore
    name: str
    href: str


def pareto_front(points: Sequence[tuple[float, float]], lower_is_better: bool = False) -> list[int]:
    """Return the indices of the points (cost, score) on the Pareto front, lowest cost first.

    Of points with equal cost and score, the first is on it.

    >>> pareto_front([(1, 0.5), (2, 0.4), (3, 0.9)])
    [0, 2]
    """
    sign = -1 if lower_is_better else 1
    front: list[int] = []
    best = -math.inf
    for position in sorted(range(len(points)), key=lambda n: (points[n][0], -sign * points[n][1])):
        if sign * points[position][1] > best:
            best = sign * points[position][1]
            front.append(position)
    return front


def scatter(
    dots: Sequence[Dot], x_axis: tuple[str, bool], y_axis: tuple[str, bool], logarithmic: bool
) -> dict[str, Any]:
    """Return the values of a scatter plot for its template; systems on the Pareto front are joined and have names.

    Args:
        dots: at least one; on a logarithmic x axis their values are positive.
        x_axis: its label, and whether lower is better.
        y_axis: the same for the y axis.
        logarithmic: whether the x axis is logarithmic.
    """
    (x_label, x_lower), (y_label, y_lower) = x_axis, y_axis
    scale = math.log10 if logarithmic else float
    across = _decades([dot.x for dot in dots]) if logarithmic else axis_of(BoardScore(dot.x) for dot in dots)
    across, up = across or Axis(0, 1), axis_of(dot.score for dot in dots) or Axis(0, 1)
    front = pareto_front([(dot.x if x_lower else -dot.x, dot.score.value) for dot in dots], y_lower)

    def x(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (scale(value) - across.low) / (across.high - across.low), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - up.low) / (up.high - up.low), 1)

    at = [(x(dot.x), y(dot.score.value)) for dot in dots]
    named: list[int] = []
    for n in sorted(front, key=lambda n: dots[n].score.value, reverse=not y_lower):
        # a name that would cover another one is only in the title of its point
        if all(abs(at[n][0] - at[k][0]) > 80 or abs(at[n][1] - at[k][1]) > 14 for k in named):
            named.append(n)
    marks = []
    for n, (dot, (left, top)) in enumerate(zip(dots, at, strict=True)):
        ends = [y(end) if math.isfinite(end) else top for end in (dot.score.low, dot.score.high)]
        says = f"{dot.name}: {y_label} {dot.score.text()} {dot.score.interval()}, {x_label} {dot.x:.4g}"
        shown = {"x": left, "y": top, "low": ends[0], "high": ends[1], "name": dot.name[:22], "href": dot.href}
        marks.append({**shown, "says": " ".join(says.split()), "best": n in front, "label": n in named})
    return {
        "title": f"{y_label} by {x_label}. Filled: systems on the Pareto front, {len(front)} of {len(dots)}",
        "x_label": x_label,
        "y_label": y_label,
        "marks": marks,
        "front": " ".join(f"{left},{top}" for left, top in (at[n] for n in front)),
        "x_ticks": [(x(value), f"{value:g}") for value in (_powers(across) if logarithmic else _ticks(across))],
        "y_ticks": [(y(value), f"{value:.3g}") for value in _ticks(up)],
    }


def _decades(values: Sequence[float]) -> Axis:
    """Return a logarithmic axis, in powers of ten, that contains all values; at least one decade."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Axis(low, max(high, low + 1))


def _powers(axis: Axis) -> list[float]:
    """Return the ticks of a logarithmic axis: powers of ten, and on fewer than three decades 2 and 5 between them."""
    between = (1, 2, 5) if axis.high - axis.low < 3 else (1,)
    marks = [each * 10.0**n for n in range(int(axis.low), int(axis.high)) for each in between]
    return [*marks, 10.0**axis.high]


def _ticks(axis: Axis) -> list[float]:
    step = _step(axis.high - axis.low)
    return [axis.low + n * step for n in range(round((axis.high - axis.low) / step) + 1)]


def query_parameters(request: "Request | gr.Request") -> dict[str, str]:
    """Return the query parameters of a request; several values of `compare` are joined with commas.

    A browser without scripts sends one for each ticked system.
    """
    query = request.query_params
    return {**query, **({"compare": ",".join(query.getlist("compare"))} if "compare" in query else {})}


def public_address(request: "Request") -> str:
    """Return the address of the site as visitors see it, also behind a proxy; without a slash at its end."""
    root = request.scope.get("root_path", "").rstrip("/")
    if root.startswith("http"):
        return str(root)
    scheme = request.headers.get("x-forwarded-proto", request.url.scheme).partition(",")[0].strip()
    host = request.headers.get("x-forwarded-host", request.url.netloc).partition(",")[0].strip()
    return f"{scheme}://{host}{root}"


def render_html(template: str, **values: object) -> str:
    """Return the HTML of a template; it escapes the values, except those that it marks as HTML."""
    return _TEMPLATES.get_template(f"{template}.html.jinja").render(values)


def markup(html: str, elem_id: str) -> "gr.HTML":
    """Add a Gradio component with HTML from a template, and return it."""
    import gradio as gr

    return gr.HTML(html, elem_id=elem_id, js_on_load=None, apply_default_css=False, min_width=300)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    caption: str = "",
    *,
    note: str = "",
    bars: Sequence[ChartBar | None] = (),
    text_columns: Collection[int] = (0,),
    wrapped: Collection[int] = (),
) -> str:
    """Return a table as HTML, whose first column names its rows; an empty string without rows.

    The `bars` are drawn next to the rows. The `text_columns` have no numbers and are aligned left; the text of the
    `wrapped` ones may take several lines.
    """
    if not rows:
        return ""
    kinds = {"name": (0,), "wrap": wrapped, "number": set(range(len(headings))) - set(text_columns)}
    classes = [" ".join(word for word, of in kinds.items() if n in of) for n in range(len(headings))]
    return render_html("table", headings=headings, rows=rows, caption=caption, note=note, classes=classes, bars=bars)


Panels = Mapping[str, Mapping[str, tuple[BoardScore, str]]]
"""Title of each panel -> name -> score, and the address that the name links to; may be empty."""


def multiples(panels: Panels, words: str, axis: Axis | None = None) -> str:
    """Return panels side by side as HTML, with a bar for each score on a shared axis; "" without scores."""
    axis = axis or axis_of(score for scores in panels.values() for score, _ in scores.values())
    if axis is None:
        return ""
    drawn = [
        (title, [(name, score, axis.bar(score), href) for name, (score, href) in scores.items()])
        for title, scores in panels.items()
        if scores
    ]
    return render_html("multiples", panels=drawn, words=f"{words} (axis {axis.ends})")
