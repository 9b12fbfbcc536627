"""`kbbench synthesize`: generate questions for a built knowledge base from its structure and texts."""

import re
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kbbench_hf.benchmarks import benchmark, benchmark_names, own_names, shipped_dataset
from kbbench_hf.cli.names import BENCHMARK, NAME, FilePath
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import CARD, NAMESPACE, DatasetFolder, built, check_replaceable
from kbbench_hf.reports.terminal import echo
from kbbench_hf.runners.progress import progress

if TYPE_CHECKING:
    from kbbench_hf.building.synthesis.questions import QuestionSet
    from kbbench_hf.building.synthesis.spec import SynthesisSpec


def _print_example(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from kbbench_hf.building.synthesis.spec import EXAMPLE

        echo(EXAMPLE.read_text(encoding="utf-8").rstrip("\n"))
        context.exit()


@click.command()
@click.argument("name", type=BENCHMARK)
@click.option("--count", type=click.IntRange(1), required=True, help="Number of questions.")
@click.option("--seed", type=NAME, default="0", show_default=True, help="The same seed gives the same questions.")
@click.option(
    "--spec",
    type=NAME,
    metavar="FILE|DATASET",
    help="YAML file with templates, limits and wordings, or the name of a dataset that has a spec.",
)
@click.option("--out", type=NAME, metavar="NAME2", help="Name of the new dataset; NAME-questions by default.")
@click.option(
    "--spec-example",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_example,
    help="Print an example spec and exit.",
)
@click.option("--dry-run", is_flag=True, help="Print the number of prompts and their cost; send nothing.")
@click.option(
    "--prices",
    type=FilePath(exists=True, dir_okay=False),
    help="Your price file, with a date (YAML or JSON), for --dry-run.",
)
@click.option(
    "--concurrency", type=click.IntRange(1), default=32, show_default=True, help="Maximum concurrent requests."
)
def command(
    name: str,
    count: int,
    seed: str,
    spec: str | None,
    out: str | None,
    dry_run: bool,
    prices: Path | None,
    concurrency: int,
) -> None:
    """Generate questions for the knowledge base NAME, without a model, and write them to ./kbbench/NAME2.

    If the spec names models, they write and judge the questions. Their responses are kept in
    ./kbbench-runs/synthesize, and the same command resumes.

    Examples:
      kbbench synthesize mini-stark --count 120
      kbbench run mini-stark-questions --model bm25
    """
    from kbbench_hf.building.synthesis.dataset import build_questions, ordered_tables
    from kbbench_hf.knowledge_base.store import KnowledgeBase

    name = name.removeprefix(f"{NAMESPACE}/")
    made = out or f"{name}-questions"
    if made == name or made in benchmark_names():
        raise UsageError(f"--out {made} is taken; expected a new name. Choose another one.")
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", made):
        raise UsageError(
            f"{made!r} is not a valid dataset name; expected letters, digits, '-', '_' and '.'. Choose one with --out."
        )
    place = Path(NAMESPACE) / made
    check_replaceable(place)
    started = time.monotonic()
    chosen, source = _read_spec(name, spec), _knowledge_base(name)
    by_models = None
    if chosen.models is not None:
        from kbbench_hf.building.synthesis.llm_questions import costs, plan, questions_by_models

        if dry_run:
            kb = KnowledgeBase.from_arrow(*(ordered_tables(source)[each]["full"] for each in ("nodes", "edges")))
            for model, cost in costs(plan(kb, chosen, count, seed), chosen.models, concurrency, prices).items():
                money = "" if cost.cost is None else f", {cost.cost:.2f} {cost.currency} at most"
                echo(f"{model}: {cost.n_prompts:,} prompts, {cost.prompt_tokens:,} tokens{money} ({cost.assumes})")
            return
        work = Path("kbbench-runs") / "synthesize" / made
        by_models = questions_by_models(chosen, chosen.models, count, seed, work, concurrency)
    elif dry_run:
        raise UsageError("--dry-run is for a spec with models; this one has none. Leave it out, or add models.")
    with progress("Generating questions", count, show=by_models is None) as advance:
        called = Path(spec).name if spec else ""
        made_here = build_questions(
            source, name, place, chosen, count, seed, lambda: advance(1), by_models, spec_name=called
        )
    for split, n in Counter(made_here.splits).items():
        echo(f"  {split}: {n:,} questions")
    n_made = len(made_here.questions)
    if n_made < count:
        echo(f"{n_made:,} of {count:,} questions: {_shortfall(made_here, name)} See {place / CARD}.")
    echo(
        f"{place}: {n_made:,} questions in {time.monotonic() - started:.1f} s, revision {DatasetFolder(place).revision}"
    )


def _shortfall(built: "QuestionSet", name: str) -> str:
    """Return why there are fewer questions than --count, and the remedy."""
    from kbbench_hf.building.synthesis.card import why_fewer

    if built.account.left_out:
        remedy = "List other templates in the spec, or leave them out to derive them from the knowledge base."
    elif built.questions[0].made_by:
        remedy = "Raise --count."
    else:
        remedy = "Raise max_templates or most_answers in a spec."
    return f"{why_fewer(built, name)}. {remedy}"


def _knowledge_base(name: str) -> DatasetFolder:
    from kbbench_hf.benchmarks.own_data import is_knowledge_base

    folder = built(name) or shipped_dataset(name)
    if folder is None:
        known = [*benchmark_names(), *own_names()]
        if name not in known:
            raise unknown_name("dataset", name, known)
        raise UsageError(f"{name} is not built; expected its nodes and edges. Build it: kbbench build {name}")
    if not is_knowledge_base(folder):
        raise UsageError(
            f"{folder.path} has no nodes and edges; expected a knowledge base. Build yours: kbbench build NAME --nodes "
            "... --edges ..."
        )
    return folder


def _read_spec(name: str, given: str | None) -> "SynthesisSpec":
    """Return the spec of a file, of a dataset, or of the knowledge base itself where it has one."""
    from kbbench_hf.building.synthesis.spec import SynthesisSpec

    if given is not None and Path(given).is_file():
        return SynthesisSpec.read(Path(given).read_text(encoding="utf-8"), given)
    known = {each: found for each in benchmark_names() if (found := benchmark(each).data.construction) is not None}
    if given is not None and given not in known:
        raise UsageError(
            f"--spec {given} is neither a file nor a dataset with a spec; expected a YAML file, or one of "
            f"{', '.join(known)}. Print an example: kbbench synthesize --spec-example"
        )
    found = known.get(given or name)
    return SynthesisSpec() if found is None else SynthesisSpec.of(found(), given or name)
