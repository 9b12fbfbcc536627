"""A context as HTML, its positive units highlighted."""

from html import escape

from kbbench_hf.benchmarks.ska_contexts import Context


def context_html(context: Context, around: int | None = None) -> str:
    """Return the lines of a context as HTML, each positive unit in `<mark>`.

    `around` keeps that many lines before and after each positive unit (and a table's header) and says how many lines
    it leaves out; None keeps all.

    >>> print(context_html(Context("|a|", ["|1|", "|<2>|"], [], [False, True], [])))
    <pre class="context">|a|
    |1|
    <mark>|&lt;2&gt;|</mark></pre>
    """
    parts = [_lines(context.sk, context.sk_positive, around), _lines(context.text, context.text_positive, around)]
    header = [escape(context.header)] if context.header else []
    text = "\n".join([*header, *parts[0], *parts[1]])
    return f'<pre class="context">{text}</pre>'


def _lines(lines: list[str], positive: list[bool], around: int | None) -> list[str]:
    places = [place for place, yes in enumerate(positive) if yes]
    written, left_out = [], 0
    for place, (line, yes) in enumerate(zip(lines, positive, strict=True)):
        if around is not None and not any(abs(place - each) <= around for each in places):
            left_out += 1
            continue
        if left_out:
            written.append(_gap(left_out))
            left_out = 0
        written.append(f"<mark>{escape(line)}</mark>" if yes else escape(line))
    return [*written, _gap(left_out)] if left_out else written


def _gap(count: int) -> str:
    return f"<i>({count:,} more lines)</i>"
