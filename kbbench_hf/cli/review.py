"""`kbbench review`: human review of the instances of a dataset on a local page, and reviewer agreement."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path

import click
from rich.markup import escape

from kbbench_hf.benchmarks import benchmark, benchmark_names, find_dataset, reviews
from kbbench_hf.cli.options import JSON, FilePath, of_benchmark, option
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE
from kbbench_hf.reports import terminal
from kbbench_hf.scoring.result import finite

RELEASED_FROM = 0.7
"""Minimum kappa for a release, on the questions that decide whether an instance is right."""


@click.command()
@click.argument("what", nargs=-1, required=True, type=FilePath(path_type=str))
@option("--subset", "The part or split to review.", of_benchmark(lambda found: found.asking.parts))
@option("--out", "File of judgments, JSON Lines; an existing file is resumed.", FilePath(dir_okay=False))
@option("--reviewer", "Name of the reviewer in the file.")
@option("--sample", "Number of instances in addition to those marked for review.", click.IntRange(1), default=60)
@option("--port", "Port of the page; 0 for a free one.", click.IntRange(0, 65_535), default=7861)
@JSON
def command(
    what: tuple[str, ...],
    subset: str | None,
    out: Path | None,
    reviewer: str | None,
    sample: int,
    port: int,
    json_output: bool,
) -> None:
    """Review the dataset WHAT by keyboard on a local page; 'agreement A B' measures how well two reviewers agree.

    For the questions of a knowledge base, --subset is a split (by default the default split). 'summary FILES' prints
    the shares of positive and non-negative judgments.

    Each judgment is saved at once, and stays valid while the shown content is unchanged. The page shows the instances
    marked for review, then a fixed sample of the others. Press Ctrl-C to stop.

    Examples:
      kbbench review NAME --subset table --reviewer ada --out ada.jsonl
      kbbench review agreement ada.jsonl ben.jsonl
      kbbench review mini-stark --reviewer ada --out ada.jsonl
      kbbench review summary ada.jsonl ben.jsonl
    """
    if what[0] in ("agreement", "summary"):
        if what[0] == "agreement" and len(what) != 3:
            raise UsageError(f"'review agreement' compares two files; got {len(what) - 1}. Name two.")
        if len(what) == 1:
            raise UsageError("'review summary' needs files of judgments; got none. Name one or more.")
        files = [Path(each) for each in what[1:]]
        if missing := [str(file) for file in files if not file.is_file()]:
            raise UsageError(
                f"{missing[0]} is not a file; expected one that 'kbbench review --out' wrote. Check the path."
            )
        if what[0] == "agreement":
            _print_agreement(reviews.agreement(*map(reviews.read_judgements, files)), json_output)
        else:
            _print_shares([each for file in files for each in reviews.read_judgements(file)], json_output)
        return
    if len(what) > 1:
        raise UsageError(f"Expected one dataset; got {len(what)}: {', '.join(what)}. Name one.")
    name = what[0].removeprefix(f"{NAMESPACE}/")
    reviewed = benchmark(name)
    part = subset or (None if reviewed.asking.parts else reviewed.data.default_split)
    if not (part and out and reviewer):
        raise UsageError("A review needs --subset PART, --reviewer NAME and --out FILE. Add what is missing.")
    _serve(name, part, out, reviewer, sample, port)


def _serve(name: str, subset: str, out: Path, reviewer: str, sample: int, port: int) -> None:
    """Serve the review page of a part of a dataset until interrupted."""
    items_of = benchmark(name).data.review
    if items_of is None:
        with_one = ", ".join(each for each in benchmark_names() if benchmark(each).data.review)
        raise UsageError(f"{name} has no review page; expected one of {with_one}. Name one of these.")
    from kbbench_hf.app.review import ReviewServer

    folder = find_dataset(name)
    items = items_of(folder, subset, sample)
    judgements = reviews.Judgements(
        out, reviewer, folder.revision, benchmark(name).data.review_questions or reviews.QUESTIONS
    )
    try:
        server = ReviewServer(f"{name}, {subset}", items, judgements, port)
    except OSError as error:
        raise UsageError(
            f"Cannot listen on port {port}: {error.strerror}. Choose another with --port, or 0 for a free one."
        ) from None
    terminal.echo(f"{server.address}  {server.n_judged} of {len(items)} judged by {reviewer} (Ctrl-C to stop)")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            terminal.echo(
                f"{out}: {server.n_judged} of {len(items)} judged by {reviewer}. Run the same command to resume."
            )


def _print_agreement(found: reviews.ReviewerAgreement, json_output: bool) -> None:
    """Print the kappa of each question and the instances on which two reviewers disagree; in JSON, NaN is null."""
    if json_output:
        kappas = {}
        for name, kappa in found.kappas.items():
            agreed, value, *ends = map(finite, (kappa.agreed, kappa.value, *kappa.ci95))
            kappas[name] = {"n": kappa.n, "agreed": agreed, "value": value, "ci95": ends}
        click.echo(json.dumps({**asdict(found), "kappas": kappas}))
        return
    console = terminal.console()
    rows = []
    for name, kappa in found.kappas.items():
        shown, low, high, share = map(_format_kappa, (kappa.value, *kappa.ci95, kappa.agreed))
        rows.append([name, shown, f"{low} to {high}", share, f"{kappa.n}"])
    terminal.print_table(console, ["question", "kappa", "95 % interval", "agreed", "n"], rows)
    one, other = found.reviewers
    release = f" A release needs {RELEASED_FROM} on derivable and other_answer." if "derivable" in found.kappas else ""
    console.print(
        f"[dim]Cohen's kappa of {escape(one)} and {escape(other)}, bootstrap over instances; a dash where both always "
        f"agree on one answer. {found.n_one_only} instances were judged by only one of them, or in another version."
        f"{release}[/dim]"
    )
    if found.disagreements:
        console.print()
        terminal.print_table(console, ["instance", "question", one, other], found.disagreements, n_words=4)


def _print_shares(judgements: Sequence[reviews.Judgement], json_output: bool) -> None:
    """Print the shares of positive and non-negative judgments of each question."""
    intervals = reviews.folded(judgements)
    if json_output:
        terminal.print_json({name: each._asdict() for name, each in intervals.items()}, indent=None)
        return
    rows = [[name, f"{each.positive:.1%}", f"{each.non_negative:.1%}", f"{each.n}"] for name, each in intervals.items()]
    terminal.print_table(terminal.console(), ["question", "positive", "non-negative", "n"], rows)


def _format_kappa(value: float) -> str:
    return f"{value:.3f}" if isfinite(value) else "-"
