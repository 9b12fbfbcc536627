r"""LaTeX of texts and tables (`booktabs`)."""

import unicodedata
from collections.abc import Collection, Sequence

_SPECIAL = {each: f"\\{each}" for each in "&%$#_{}"} | {
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "\\": "\\textbackslash{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "\\textquotedbl{}",
    "↓": "$\\downarrow$",
    "↑": "$\\uparrow$",
    "±": "$\\pm$",
    "≥": "$\\geq$",
    "≤": "$\\leq$",
    "≈": "$\\approx$",
    "†": "\\dag{}",
    "‡": "\\ddag{}",
    "·": "\\textperiodcentered{}",
    "–": "--",
    "—": "---",
    "’": "'",
    "−": "$-$",
}


def latex(text: str) -> str:
    r"""Return text as LaTeX that shows it; a letter that pdflatex does not know becomes its closest one, or `?`.

    >>> latex("50 % of R@20 ↓")
    '50 \\% of R@20 $\\downarrow$'
    """
    return "".join(_SPECIAL.get(each) or _letter(each) for each in text)


def _letter(letter: str) -> str:
    if letter == "\n" or (letter.isprintable() and ord(letter) < 0x180):  # ASCII and the accented Latin letters
        return letter
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return "".join(_SPECIAL.get(each, each) for each in plain) or ("" if unicodedata.combining(letter) else "?")


def bold(text: str) -> str:
    """Return LaTeX in bold."""
    return f"\\textbf{{{text}}}"


def tabular(
    heads: Sequence[Sequence[tuple[str, int]]],
    rows: Sequence[Sequence[str]],
    spaced: Collection[int] = (),
    n_left: int = 1,
) -> str:
    r"""Return a booktabs table of cells that are LaTeX already.

    Args:
        heads: the lines of headings, each of (text, columns that it spans).
        rows: the lines of cells.
        spaced: the rows before which there is some space.
        n_left: how many columns, the first ones, hold words; the others hold numbers, to the right.
    """
    n_columns = sum(span for _, span in heads[-1])
    lines = [f"\\begin{{tabular}}{{{'l' * n_left}{'r' * (n_columns - n_left)}}}", "\\toprule"]
    for number, head in enumerate(heads):
        cells = [text if span == 1 else f"\\multicolumn{{{span}}}{{c}}{{{text}}}" for text, span in head]
        lines.append(" & ".join(cells) + " \\\\")
        if number < len(heads) - 1:
            start = 1
            for _, span in head:
                lines += [f"\\cmidrule(lr){{{start}-{start + span - 1}}}"] if span > 1 else []
                start += span
    lines.append("\\midrule")
    for position, row in enumerate(rows):
        lines += ["\\addlinespace"] if position in spaced else []
        lines.append(" & ".join(row) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])
