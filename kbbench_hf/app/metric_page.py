"""The small page of a metric's Space: paste predictions and references, read the figures."""

import json
from importlib import import_module
from typing import TYPE_CHECKING

from kbbench_hf.files.datasets import Row
from kbbench_hf.hub.metric_modules import metric_modules

if TYPE_CHECKING:
    import gradio as gr

MAX_CHARACTERS = 200_000


def page(name: str) -> "gr.Blocks":
    """Return the page of an `evaluate` module, by name."""
    import gradio as gr

    card = (metric_modules()[name] / "README.md").read_text(encoding="utf-8")
    if card.startswith("---\n"):
        card = card.split("---\n", 2)[2]
    with gr.Blocks(title=f"kbbench: {name}") as app:
        with gr.Row():
            predictions = gr.Textbox(label="predictions (JSON list)", lines=8)
            references = gr.Textbox(label="references (JSON list)", lines=8)
        button = gr.Button("Compute", variant="primary")
        result = gr.JSON(label="result")
        gr.Markdown(card)
        button.click(lambda p, r: compute(name, p, r), [predictions, references], result)
    return app


def compute(name: str, predictions: str, references: str) -> Row:
    """Return a module's figures for pasted JSON, or `{"error": ...}` in words. Safe from any number of threads."""
    if len(predictions) + len(references) > MAX_CHARACTERS:
        return {"error": f"More than {MAX_CHARACTERS:,} characters; use the Python package for more."}
    try:
        values = json.loads(predictions), json.loads(references)
        loaded = import_module("evaluate").load(str(metric_modules()[name]))
        figures: Row = loaded._compute(*values)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return figures
