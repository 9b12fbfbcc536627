"""One run as one HTML file that opens offline: figures, slices, cost, and examples to read."""

import base64
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbbench_hf.benchmarks.base import Answer, Benchmark, Examples, Explanation
from kbbench_hf.dataset_folder import read_json
from kbbench_hf.errors import UsageError
from kbbench_hf.hub.load import find_benchmark
from kbbench_hf.records import read_predictions
from kbbench_hf.reports.explanations import Explain, explainer
from kbbench_hf.reports.plots import plot_figures, plot_slice
from kbbench_hf.reports.tables import interval, label, number, words
from kbbench_hf.scoring import load_examples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_EXAMPLES = 30
MOST_CHARACTERS = 4000
"""Longer texts are cut, and their length is said."""
MOST_ITEMS = 50
"""Longer lists of triples or answers likewise: a page stays under 5 MB whatever a model writes."""
UNSHOWN = ("model", "canaries")
"""Facts of a run that stand elsewhere on the page, or say nothing by themselves."""
MARKS = {"right": "✓", "wrong": "✗", "hallucinated": "☁"}
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff;
overflow-wrap:anywhere}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem}small,.n{color:#555}
.wide{overflow-x:auto;margin:.8rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;white-space:nowrap}
th,td{padding:.3rem .8rem .3rem 0;text-align:left;border-bottom:1px solid #ddd}
img{max-width:100%;min-width:34rem}
ul{list-style:none;padding-left:.5rem;margin:.2rem 0 .8rem}
details{margin:.6rem 0;border:1px solid #ddd;border-radius:4px;padding:.5rem .8rem}
summary{cursor:pointer}pre{white-space:pre-wrap;margin:.4rem 0;font-size:.85rem}mark{background:#ffe9a8}
.right{color:#1b5e20}.wrong{color:#8a1c1c}.hallucinated{color:#5b2a86;text-decoration:underline dotted}
"""


def run_page(folder: Path) -> str:
    """Return the report of a scored run folder, a single HTML document without outside references.

    Raises:
        UsageError: the folder holds no scored run.
    """
    if not (folder / "result.json").is_file():
        raise UsageError(
            f"{folder} holds no result.json; expected the folder of a finished run. Run it again to resume it."
        )
    result = read_json(folder / "result.json")
    run = read_json(folder / "run.json") if (folder / "run.json").is_file() else {}
    benchmark = find_benchmark(result["benchmark"])
    model = run.get("settings", {}).get("model", folder.name)
    parts = [
        f"<h1>{escape(benchmark.title)}: {escape(str(model))}</h1>",
        f"<p class=n>{escape(_place(result))}</p>",
        _scores(result, benchmark),
        _run_facts(run, result),
        *(_slice(name, keys, benchmark) for name, keys in result["slices"].items() if len(keys) > 1),
        _examples(folder, result, benchmark),
        _provenance(run, result),
    ]
    title = escape(f"{benchmark.title}: {model}")
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title><style>{STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _scores(result: Mapping[str, Any], benchmark: Benchmark) -> str:
    figures = {label(benchmark, name): figure for name, figure in result["scores"].items()}
    counts = ("n_scored", "n_unscored", "n_missing")
    rows = [
        [name, _value(figure), _bounds(figure), *(f"{figure[count]:,}" for count in counts)]
        for name, figure in figures.items()
    ]
    table = _table(["metric", "value", "95 % interval", *map(words, counts)], rows)
    return f"<h2>Figures</h2>{table}{_picture(plot_figures(figures), 'The figures with their intervals')}"


def _run_facts(run: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    counters = [[words(name), f"{count:,}"] for name, count in result["counters"].items()]
    parts = [f"<h2>Counts</h2>{_table(['', 'n'], counters)}"]
    facts = {**run.get("summary", {}), **run.get("latency", {})}
    shown = {name: value for name, value in facts.items() if value not in (None, {}, []) and name not in UNSHOWN}
    if shown:
        rows = [[words(name), _fact(value)] for name, value in shown.items()]
        parts.append(f"<h2>Latency, tokens, cost</h2>{_table(['', ''], rows)}")
    return "".join(parts)


def _slice(name: str, keys: Mapping[str, Any], benchmark: Benchmark) -> str:
    metrics = list(next(iter(keys.values())))[:8]
    rows = [
        [key, f"{figures[metrics[0]]['n_scored']:,}", *(_value(figures[metric]) for metric in metrics)]
        for key, figures in keys.items()
    ]
    headline = {key: figures[benchmark.headline] for key, figures in list(keys.items())[:40]}
    picture = _picture(plot_slice(headline, benchmark.metrics[benchmark.headline], name), f"By {name}")
    labels = [label(benchmark, metric) for metric in metrics]
    return f"<h2>By {escape(words(name))}</h2>{_table(['', 'n', *labels], rows)}{picture}"


def _examples(folder: Path, result: Mapping[str, Any], benchmark: Benchmark) -> str:
    """The worst examples, and as many from the middle and the top, each with what was asked and answered."""
    if not (folder / "predictions.jsonl").is_file():
        return "<h2>Examples</h2><p>There are no predictions beside the figures; no examples are shown.</p>"
    _, examples, revision = load_examples(result["benchmark"], result["config"], result["split"])
    if revision != result["dataset_revision"]:
        return "<h2>Examples</h2><p>The dataset at hand is another one than was scored; no examples are shown.</p>"
    scores = [json.loads(line) for line in (folder / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = {each["id"] for each in scores}
    examples = replace(examples, rows=[row for row in examples.rows if row["id"] in asked])
    predictions = read_predictions([folder / "predictions.jsonl"], benchmark, examples)
    responses = _responses(folder / "predictions.jsonl")
    explain = explainer(benchmark)
    order = sorted(range(len(scores)), key=lambda position: _sortable(scores[position].get(benchmark.headline)))
    chosen = _spread(order, N_EXAMPLES)
    cards = "".join(
        _card(examples, examples.rows[k], predictions.answers[k], scores[k], responses, benchmark, explain)
        for k in chosen
    )
    legend = " · ".join(f"<span class={kind}>{mark} {kind}</span>" for kind, mark in MARKS.items())
    return f"<h2>Examples</h2><p class=n>From the worst to the best. {legend}</p>{cards}"


def _responses(file: Path) -> dict[Any, str]:
    """Return what a language model wrote, or why it wrote nothing, by id."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {line["id"]: line.get("response") or line["error"] for line in lines if {"response", "error"} & line.keys()}


def _card(
    examples: Examples,
    row: Mapping[str, Any],
    answer: Answer | None,
    scores: Mapping[str, Any],
    responses: Mapping[Any, str],
    benchmark: Benchmark,
    explain: Explain | None,
) -> str:
    headline = scores.get(benchmark.headline)
    head = f"{row['id']} · {label(benchmark, benchmark.headline)} {'-' if headline is None else number(headline)}"
    if answer is None:
        body = "<p>No prediction.</p>"
    elif explain:
        body = _explained(explain(examples, row, answer))
    else:
        shown, answered = (
            json.dumps(row, ensure_ascii=False, indent=1, default=str),
            json.dumps(answer, ensure_ascii=False),
        )
        body = f"<pre>{_cut(shown)}</pre><b>answer</b><pre>{_cut(answered)}</pre>"
    if row["id"] in responses:
        body += f"<b>as it came</b><pre>{_cut(responses[row['id']])}</pre>"
    return f"<details><summary>{escape(head)}</summary>{body}</details>"


def _explained(explanation: Explanation) -> str:
    question = "".join(f"<mark>{_cut(text)}</mark>" if marked else _cut(text) for text, marked in explanation.question)
    gold = [f"<li>{_cut(each)}</li>" for each in explanation.gold[:MOST_ITEMS]]
    answer = [f"<li class={kind}>{MARKS[kind]} {_cut(text)}</li>" for text, kind in explanation.answer[:MOST_ITEMS]]
    lists = [
        _list("gold", gold, len(explanation.gold)),
        _list("answer", answer, len(explanation.answer)),
    ]
    return f"<pre>{question}</pre>{''.join(lists)}"


def _list(name: str, items: Sequence[str], n: int) -> str:
    more = f"<li>... and {n - len(items):,} more</li>" if n > len(items) else ""
    return f"<b>{name}</b><ul>{''.join(items) or '<li>nothing</li>'}{more}</ul>"


def _provenance(run: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    facts = {key: run[key] for key in ("settings", "started", "versions", "model") if key in run}
    facts |= {"predictions_sha256": result["predictions_sha256"], "scored_with": result["versions"]}
    text = escape(json.dumps(facts, indent=2, ensure_ascii=False))
    return (
        f"<h2>Provenance</h2><details><summary>Everything needed to run it again</summary><pre>{text}</pre></details>"
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _picture(figure: "Figure", description: str) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    text = base64.b64encode(data.getvalue()).decode()
    return f'<div class=wide><img alt="{escape(description)}" src="data:image/png;base64,{text}"></div>'


def _spread(order: Sequence[int], n: int) -> list[int]:
    """Return n of the positions: all of a short list, else the first third of n, and then evenly to the very last."""
    if len(order) <= n:
        return list(order)
    rest = order[n // 3 :]
    last = n - n // 3 - 1
    return [*order[: n // 3], *(rest[k * (len(rest) - 1) // last] for k in range(last + 1))]


def _sortable(value: float | None) -> float:
    return math.inf if value is None else value


def _value(figure: Mapping[str, Any]) -> str:
    return "-" if figure["value"] is None else number(figure["value"])


def _bounds(figure: Mapping[str, Any]) -> str:
    low, high = figure["ci95"]
    return "-" if low is None or high is None else interval((low, high))


def _fact(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(each)}" for name, each in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _place(result: Mapping[str, Any]) -> str:
    return f"{result['config']}, {result['split']}, mode {result['mode']}, data {result['dataset_revision']}"


def _cut(text: str) -> str:
    return escape(text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ... ({len(text):,} characters)")
