"""Page of a metric's Space: scores of an example or of pasted predictions, with explanations.

The Spaces of `kbbench publish METRIC` start it with `main`. Pasted texts come from strangers: `compute` returns a
sentence for each error.
"""

import ast
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kbbench_hf.app.html import CSS, markup, render_html, table
from kbbench_hf.errors import DataError, KBBenchError
from kbbench_hf.files.datasets import Row
from kbbench_hf.hub.metric_modules import metric_modules
from kbbench_hf.scoring.evaluate_modules import EntryError, encode

if TYPE_CHECKING:
    import gradio as gr

MAX_CHARACTERS = 200_000
MAX_EXAMPLES_SHOWN = 20
PASTE = "a JSON list with one entry per example, or one entry a line"


@dataclass(frozen=True)
class Page:
    """The texts and the example of a metric's page, from `example.json` in the folder of its module."""

    predictions: Sequence[Any]
    references: Sequence[Any]
    modes: Sequence[str]
    """The scoring modes of the menu, the default first; empty for a metric with one mode."""
    headline: Sequence[str]
    """The metrics that are shown for each example."""
    says: Mapping[str, str]
    """Metric -> a sentence that explains it."""


@lru_cache
def page_of(name: str) -> Page:
    """Return the texts and the example of a module's page."""
    return Page(**json.loads((metric_modules()[name] / "example.json").read_text(encoding="utf-8")))


def main(name: str) -> None:
    """Serve the page of an `evaluate` module, by name, until interrupted."""
    import datasets

    datasets.utils.logging.set_verbosity_error()  # visitors see the warnings on the page
    page(name).launch(css=CSS)


def page(name: str) -> "gr.Blocks":
    """Return the Gradio app of an `evaluate` module's page, by name."""
    import gradio as gr

    about = page_of(name)
    card = (metric_modules()[name] / "README.md").read_text(encoding="utf-8")
    if card.startswith("---\n"):
        card = card.split("---\n", 2)[2]
    with gr.Blocks(title=f"kbbench: {name}", fill_width=True) as app:
        gr.Markdown(f"# {name}\nPaste predictions and references, {PASTE}, in the same order.")
        with gr.Row():
            predictions = gr.Textbox(
                _lines(about.predictions), label="predictions", lines=10, max_lines=20, min_width=300
            )
            references = gr.Textbox(_lines(about.references), label="references", lines=10, max_lines=20, min_width=300)
        mode = gr.Dropdown(list(about.modes), label="mode", visible=bool(about.modes))
        button = gr.Button("Compute", variant="primary")
        answer = markup("", "answer")
        with gr.Accordion("As JSON", open=False):
            scores = gr.JSON(label="result")
        with gr.Accordion("About this metric", open=False):
            gr.Markdown(card)

        def computed(predictions: str, references: str, mode: str | None) -> tuple[str, Row]:
            scores = compute(name, predictions, references, mode)
            return explained(name, scores, predictions, references, mode), scores

        inputs = [predictions, references, mode]
        button.click(computed, inputs, [answer, scores], api_name="compute")
        app.load(computed, inputs, [answer, scores], api_visibility="private")
    return app


def compute(name: str, predictions: str, references: str, mode: str | None = None) -> Row:
    """Return the scores of pasted predictions with intervals and warnings, or `{"error": sentence}`; thread-safe."""
    if len(predictions) + len(references) > MAX_CHARACTERS:
        return {"error": f"More than {MAX_CHARACTERS:,} characters; use the Python package for more."}
    try:
        return _module_scores(name, read(predictions, "predictions"), read(references, "references"), mode)
    except EntryError as error:
        return {"error": f"{error} {_forms(name)}"}
    except KBBenchError as error:
        return {"error": str(error)}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        why = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        return {"error": f"This cannot be scored: {why}. {_forms(name)}"}


def _forms(name: str) -> str:
    """Return a sentence with the form of the entries of a module's example."""
    example = page_of(name)
    return (
        f"Compare its form with the example's: a prediction is {_short(example.predictions[0])}, a reference "
        f"{_short(example.references[0])}."
    )


def read(text: str, what: str) -> list[Any]:
    r"""Return the entries of a pasted text: a list in JSON or Python, or a JSON value or plain text per line.

    >>> read('[["a"], ["b"]]', "predictions"), read("[['a'], ['b']]", "predictions")
    ([['a'], ['b']], [['a'], ['b']])
    >>> read('["a"]\n["b"]', "predictions"), read("yes\nno", "references")
    ([['a'], ['b']], ['yes', 'no'])

    `what` is their name in the error.

    Raises:
        DataError: the text is empty.
    """
    if not text.strip():
        raise DataError(f"There are no {what}; expected {PASTE}. Paste some.")
    whole = _value(text.strip())
    return whole if isinstance(whole, list) else [_value(line.strip()) for line in text.splitlines() if line.strip()]


def explained(name: str, scores: Row, predictions: str, references: str, mode: str | None) -> str:
    """Return the scores of `compute` as HTML: intervals and explanations, warnings, and scores by example."""
    if "error" in scores:
        return render_html("words", text=scores["error"])
    headline, values = page_of(name).headline, [metric for metric in scores if f"{metric}_ci95_low" in scores]
    others = {key: value for key, value in scores.items() if key not in values and "_ci95_" not in key}
    counts = [f"{key} {value:,.0f}" for key, value in others.items() if isinstance(value, float) and value > 0]
    parts = [
        _score_table(name, scores, [metric for metric in values if metric in headline]),
        *(render_html("words", text=f"{each['message']} {each['remedy']}") for each in scores.get("warnings", [])),
        render_html("words", text=", ".join(counts)),
        _example_table(name, read(predictions, "predictions"), read(references, "references"), mode),
        _score_table(name, scores, [metric for metric in values if metric not in headline], "Other metrics"),
    ]
    return "".join(parts)


def _score_table(name: str, scores: Row, metrics: Sequence[str], caption: str = "") -> str:
    says = page_of(name).says
    rows = []
    for metric in metrics:
        low, high = (scores[f"{metric}_ci95_{end}"] for end in ("low", "high"))
        interval = "" if math.isnan(low) else f"{low:.3f} to {high:.3f}"
        rows.append((f"{metric}: {says.get(metric, '')}", _score_text(scores[metric]), interval))
    return table(["metric", "value", "95 % interval"], rows, caption, wrapped=(0,))


def _example_table(name: str, predictions: Sequence[Any], references: Sequence[Any], mode: str | None) -> str:
    """Return the scores of the first examples as HTML, each scored alone."""
    about, rows = page_of(name), []
    for number, prediction in enumerate(predictions[:MAX_EXAMPLES_SHOWN], start=1):
        scores = _module_scores(name, [prediction], [references[number - 1]], mode)
        rows.append((number, _short(prediction), *(_score_text(scores[metric]) for metric in about.headline)))
    note = f"The first {len(rows)} of {len(predictions):,}." if len(predictions) > len(rows) else ""
    headings = ["example", "prediction", *about.headline]
    return table(headings, rows, "Scores by example", note=note, text_columns=(0, 1), wrapped=(1,))


@lru_cache
def _module(name: str) -> Any:
    return import_module("evaluate").load(str(metric_modules()[name]))


def _module_scores(name: str, predictions: list[Any], references: list[Any], mode: str | None) -> Row:
    if len(predictions) != len(references):
        raise DataError(
            f"There are {len(predictions):,} predictions and {len(references):,} references; expected as many of both, "
            f"in the same order: {PASTE}. Add what is missing."
        )
    module, chosen = _module(name), {"mode": mode} if mode else {}
    given = encode(module, predictions, references)  # `compute` writes a file, which threads cannot share
    scores: Row = module._compute(**given, return_ci=True, return_warnings=True, **chosen)
    return scores


def _value(text: str) -> Any:
    """Return the value of a text in JSON or as a Python literal; the text itself where it is neither."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return text


def _lines(entries: Sequence[Any]) -> str:
    return "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]"


def _score_text(value: float) -> str:
    return "not scored" if math.isnan(value) else f"{value:.4f}"


def _short(entry: object) -> str:
    text = json.dumps(entry, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:120]} ..."
