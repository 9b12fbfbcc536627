"""`synthesize`: generate questions for a built knowledge base, or estimate what models would cost that write them."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kbbench_hf.benchmarks import benchmark, benchmark_names, own_names, shipped_dataset
from kbbench_hf.building.synthesis.spec import SynthesisSpec
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import CARD, NAMESPACE, DatasetFolder, built, check_replaceable
from kbbench_hf.runners.progress import progress, say

if TYPE_CHECKING:
    from kbbench_hf.building.synthesis.questions import QuestionSet
    from kbbench_hf.runners.cost import CostEstimate


def synthesize(
    name: str,
    count: int,
    *,
    seed: str = "0",
    spec: Path | str | None = None,
    out: str | None = None,
    concurrency: int = 32,
    show: bool = True,
) -> DatasetFolder:
    """Generate questions for a knowledge base as `kbbench synthesize` does, and return the folder of the new dataset.

    Args:
        name: a built knowledge base.
        count: number of questions; a line on standard error says why there are fewer.
        seed: the same seed gives the same questions.
        spec: a YAML file with templates, limits and wordings, or the name of a dataset that has a spec; that of the
            knowledge base by default. If it names models, they write and judge the questions.
        out: name of the new dataset, written to `kbbench/OUT` in the current folder; `NAME-questions` by default.
        concurrency: maximum concurrent requests to models.
        show: whether to show a bar, and lines on standard error.

    Raises:
        UsageError: a name that does not exist or is taken, or a knowledge base that is not built.
        DataError: the spec is malformed, or no question can be made.

    >>> from contextlib import chdir
    >>> from tempfile import mkdtemp
    >>> with chdir(mkdtemp()):
    ...     folder = synthesize("mini-stark", 12, show=False)
    ...     sum(folder.n_rows(split)["queries"] for split in folder.configs()["queries"])
    12
    """
    from kbbench_hf.building.synthesis.dataset import build_questions

    name = name.removeprefix(f"{NAMESPACE}/")
    place = _new_folder(name, out)
    chosen, source = _read_spec(name, spec), _knowledge_base(name)
    by_models = None
    if chosen.models is not None:
        from kbbench_hf.building.synthesis.llm_questions import questions_by_models

        work = Path("kbbench-runs") / "synthesize" / place.name
        by_models = questions_by_models(chosen, chosen.models, count, seed, work, concurrency)
    with progress("Generating questions", count, show=show and by_models is None) as advance:
        called = Path(spec).name if spec else ""
        made = build_questions(
            source, name, place, chosen, count, seed, lambda: advance(1), by_models, spec_name=called
        )
    if (n := len(made.questions)) < count:
        say([f"{n:,} of {count:,} questions: {_shortfall(made, name)} See {place / CARD}."], show=show)
    return DatasetFolder(place)


def synthesis_costs(
    name: str, count: int, seed: str, spec: Path | str | None, out: str | None, concurrency: int, prices: Path | None
) -> "dict[str, CostEstimate]":
    """Return for each model of the spec its prompts and what they cost; nothing is sent.

    Raises:
        UsageError: as for `synthesize`, and a spec without models.
    """
    from kbbench_hf.building.synthesis.dataset import ordered_tables
    from kbbench_hf.building.synthesis.llm_questions import costs, plan
    from kbbench_hf.knowledge_base.store import KnowledgeBase

    name = name.removeprefix(f"{NAMESPACE}/")
    _new_folder(name, out)
    chosen, source = _read_spec(name, spec), _knowledge_base(name)
    if chosen.models is None:
        raise UsageError("--dry-run is for a spec with models; this one has none. Leave it out, or add models.")
    kb = KnowledgeBase.from_arrow(*(ordered_tables(source)[each]["full"] for each in ("nodes", "edges")))
    return costs(plan(kb, chosen, count, seed), chosen.models, concurrency, prices)


def _new_folder(name: str, out: str | None) -> Path:
    """Return the folder of the new dataset."""
    made = out or f"{name}-questions"
    if made == name or made in benchmark_names():
        raise UsageError(f"--out {made} is taken; expected a new name. Choose another one.")
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", made):
        raise UsageError(
            f"{made!r} is not a valid dataset name; expected letters, digits, '-', '_' and '.'. Choose one with --out."
        )
    place = Path(NAMESPACE) / made
    check_replaceable(place)
    return place


def _shortfall(made: "QuestionSet", name: str) -> str:
    """Return why there are fewer questions than --count, and the remedy."""
    from kbbench_hf.building.synthesis.dataset import why_fewer

    if made.account.left_out:
        remedy = "List other templates in the spec, or leave them out to derive them from the knowledge base."
    elif made.questions[0].made_by:
        remedy = "Raise --count."
    else:
        remedy = "Raise max_templates or most_answers in a spec."
    return f"{why_fewer(made, name)}. {remedy}"


def _knowledge_base(name: str) -> DatasetFolder:
    from kbbench_hf.benchmarks import is_knowledge_base

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


def _read_spec(name: str, spec: Path | str | None) -> SynthesisSpec:
    """Return the spec of a file, of a dataset, or of the knowledge base itself where it has one."""
    if spec is not None and Path(spec).is_file():
        return SynthesisSpec.read(Path(spec).read_text(encoding="utf-8"), str(spec))
    given = None if spec is None else str(spec)
    known = {each: maker for each in benchmark_names() if (maker := benchmark(each).data.construction) is not None}
    if given is not None and given not in known:
        raise UsageError(
            f"--spec {given} is neither a file nor a dataset with a spec; expected a YAML file, or one of "
            f"{', '.join(known)}. Print an example: kbbench synthesize --spec-example"
        )
    maker = known.get(given or name)
    return SynthesisSpec() if maker is None else SynthesisSpec.of(maker(), given or name)
