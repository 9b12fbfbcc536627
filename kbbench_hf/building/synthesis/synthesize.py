"""`synthesize`: generate questions for a built knowledge base, or estimate what models would cost that write them.

The public function and `kbbench synthesize` call it. The columns of `queries` and the folders of responses are stored
formats. Shards of one construction meet in the folder of responses, whose settings must be equal.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from kbbench_hf.benchmarks import benchmark, benchmark_names, is_knowledge_base, own_names, shipped_dataset
from kbbench_hf.building.synthesis.questions import EASY, MEDIUM, QuestionSet, SyntheticQuestion, make_questions
from kbbench_hf.building.synthesis.spec import SynthesisSpec
from kbbench_hf.errors import BusyError, UsageError, unknown_name
from kbbench_hf.files.datasets import CARD, NAMESPACE, DatasetFolder, Row, built, check_replaceable, write_dataset
from kbbench_hf.files.journal import Journal
from kbbench_hf.files.shards import COLLECT, Shard, ShardEnd, end_shard
from kbbench_hf.knowledge_base.plans import AttributeTest, Plan
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import schema_table
from kbbench_hf.metrics.generative_re import STOP_WORDS
from kbbench_hf.runners.progress import progress, say
from kbbench_hf.runners.run_folder import open_run
from kbbench_hf.runners.run_options import shard_of
from kbbench_hf.scoring.eval_task import RUN
from kbbench_hf.text.words import list_words

if TYPE_CHECKING:
    from kbbench_hf.runners.cost import CostEstimate


RESPONSES = Path("kbbench-runs/synthesize")
"""Where responses of models are kept, below the working folder."""


def synthesize(
    name: str,
    count: int,
    *,
    seed: str = "0",
    spec: Path | str | None = None,
    out: str | None = None,
    concurrency: int = 32,
    shard: str | None = None,
    collect: bool = False,
    allow_other_server: bool = False,
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
        shard: `K/N` to send only the requests for this part of the questions; the last shard to end collects them.
        collect: send nothing, and write the questions of what the shards have journaled.
        allow_other_server: whether to resume where a model is on another server than before.
        show: whether to show a bar, and lines on standard error.

    Raises:
        UsageError: a name that does not exist or is taken, or a knowledge base that is not built.
        DataError: the spec is malformed, or no question can be made.
        ShardEnd: with `shard`, it has ended, and others have not: no dataset is written yet.

    >>> from contextlib import chdir
    >>> from tempfile import mkdtemp
    >>> with chdir(mkdtemp()):
    ...     folder = synthesize("mini-stark", 12, show=False)
    ...     sum(folder.n_rows(split)["queries"] for split in folder.configs()["queries"])
    12
    """
    name = name.removeprefix(f"{NAMESPACE}/")
    place = _new_folder(name, out)
    chosen, source = _read_spec(name, spec), _knowledge_base(name)
    by_models, work, part = None, RESPONSES / place.name, shard_of({"shard": shard, "collect": collect})
    if part is not None:
        open_responses(name, count, seed, spec, out, part)
    if chosen.models is not None:
        from kbbench_hf.building.synthesis.llm_questions import questions_by_models

        how: Row = {"shard": part, "concurrency": concurrency, "allow_other_server": allow_other_server, "show": show}
        by_models = questions_by_models(chosen, chosen.models, count, seed, work, **how)
    called, show_bar = Path(spec).name if spec else "", show and by_models is None
    try:
        with _collecting(work / "collect", part), progress("Generating questions", count, show=show_bar) as advance:
            made = build_questions(
                source, name, place, chosen, count, seed, lambda: advance(1), by_models, spec_name=called
            )
    except ShardEnd as end:
        if not end.is_last:
            raise
        with suppress(BusyError):  # another shard has ended at the same moment, and collects
            return synthesize(name, count, seed=seed, spec=spec, out=out, collect=True, show=show)
        raise
    if (n := len(made.questions)) < count:
        say([f"{n:,} of {count:,} questions: {'. '.join(why_fewer(made, name))} See {place / CARD}."], show=show)
    return DatasetFolder(place)


_COLLECTED = "collect/shard.1-of-1.done"
"""The marker that the process which collects the shards leaves in the folder of the responses."""


@contextmanager
def _collecting(folder: Path, shard: Shard | None) -> Iterator[None]:
    """With `COLLECT`, let one process at a time run the block, and leave a marker in this folder at its end."""
    if shard != COLLECT:
        yield
        return
    with Journal(folder, Shard(1, 1)):
        yield
    with suppress(ShardEnd):
        end_shard(Shard(1, 1), folder)


def is_collected(folder: Path) -> bool:
    """Return whether the shards that share this folder of responses are collected, and their dataset is there."""
    return (folder / _COLLECTED).is_file() and (Path(NAMESPACE) / folder.name / CARD).is_file()


def open_responses(
    name: str, count: int, seed: str, spec: Path | str | None, out: str | None, shard: Shard | None = None
) -> Path:
    """Return the folder of the models' responses, which shards share; with a `shard`, make it.

    Raises:
        UsageError: as for `synthesize`, a spec without models, or shards of other questions are in the folder.
    """
    name = name.removeprefix(f"{NAMESPACE}/")
    chosen, folder = _read_spec(name, spec), RESPONSES / _new_folder(name, out).name
    if chosen.models is None:
        raise UsageError(
            "--shard, --collect and --slurm divide the requests to models, and this spec names none: one process is "
            "fast. Leave them out, or add models to the spec."
        )
    settings = {"benchmark": name, "revision": _knowledge_base(name).revision, "count": count, "seed": seed}
    settings |= _without_addresses(msgspec.to_builtins(chosen))
    if shard is not None or (folder / RUN).is_file():
        open_run(folder, settings, {}, shard=shard)
    return folder


def _without_addresses(value: Any) -> Any:
    """Return settings without the servers' addresses: each machine may have its own server, and a server may move."""
    if isinstance(value, dict):
        kept = value.keys() - {"base_url", "api_key_env"}
        return {name: _without_addresses(each) for name, each in value.items() if name in kept}
    return [_without_addresses(each) for each in value] if isinstance(value, list | tuple) else value


def synthesis_costs(
    name: str, count: int, seed: str, spec: Path | str | None, out: str | None, concurrency: int, prices: Path | None
) -> "dict[str, CostEstimate]":
    """Return for each model of the spec its prompts and what they cost; nothing is sent.

    Raises:
        UsageError: as for `synthesize`, and a spec without models.
    """
    from kbbench_hf.building.synthesis.llm_questions import costs, plan

    name = name.removeprefix(f"{NAMESPACE}/")
    _new_folder(name, out)
    chosen, source = _read_spec(name, spec), _knowledge_base(name)
    if chosen.models is None:
        raise UsageError("--dry-run is for a spec with models; this one has none. Leave it out, or add models.")
    kb = KnowledgeBase.from_arrow(*(ordered_tables(source)[each]["full"] for each in ("nodes", "edges")))
    return costs(plan(kb, chosen, count, seed), chosen.models, concurrency, prices)


def _new_folder(name: str, out: str | None) -> Path:
    """Return the folder of the new dataset.

    Raises:
        UsageError: its name is taken or invalid, or something else is in its place.
    """
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


def _knowledge_base(name: str) -> DatasetFolder:
    """Return the folder of a built or shipped knowledge base.

    Raises:
        UsageError: there is none of that name.
    """
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
    """Return the spec of a file, of a dataset, or of the knowledge base itself where it has one; else the defaults.

    Raises:
        UsageError: `spec` is neither a file nor a dataset with a spec, or has an unknown key.
        DataError: the spec is malformed.
    """
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


COLUMNS = (
    *("id", "query", "answer_ids", "template", "hops", "topic_ids", "requirements", "gold_id", "n_candidates"),
    *("difficulty", "provenance", "plan"),
)
"""Columns of `queries`."""
ByModels = Callable[[KnowledgeBase], tuple[QuestionSet, list[str]]]
"""A knowledge base -> its questions, and the card's section on the models that made them."""
Tables = dict[str, dict[str, pa.Table]]


def build_questions(
    folder: DatasetFolder,
    source: str,
    out: Path,
    spec: SynthesisSpec,
    count: int,
    seed: str,
    advance: Callable[[], object],
    by_models: ByModels | None = None,
    *,
    spec_name: str = "",
) -> QuestionSet:
    """Make questions for the knowledge base in `folder`, write both as a dataset, and return the questions.

    The same tables, spec and seed give the same bytes, for any order of the tables' rows; with `by_models`, which uses
    models, if their responses are the same. `spec_name` is the name of the spec on the card.

    Raises:
        DataError: no question can be made; the message says why.
    """
    tables = ordered_tables(folder)
    kb = KnowledgeBase.from_arrow(tables["nodes"]["full"], tables["edges"]["full"])
    built, lines = by_models(kb) if by_models else (make_questions(kb, spec, count, seed, advance), [])
    card = write_card(out.name, source, built, of_models=lines, spec_name=spec_name)
    write_dataset(out, {"queries": query_tables(built), **tables}, card, left_out=folder.left_out)
    return built


def ordered_tables(folder: DatasetFolder) -> Tables:
    """Return nodes, edges and schema of a dataset, sorted by ids, so that the order of their rows has no effect."""
    nodes = folder.table("nodes", "full").sort_by("id")
    edges = folder.table("edges", "full")
    ends = ["head", "relation", "tail"]
    others = [field.name for field in edges.schema if field.name not in ends and not pa.types.is_nested(field.type)]
    keys = [(name, "ascending") for name in (*ends, *sorted(others))]
    edges = edges.take(pc.sort_indices(_without_dictionaries(edges), keys))
    kb = KnowledgeBase.from_arrow(nodes, edges)
    schema = schema_table(nodes, edges, kb.graph.node_types, kb.graph.relations)
    return {"nodes": {"full": nodes}, "edges": {"full": edges}, "schema": {"full": schema}}


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Return a table with its dictionary columns decoded."""
    for place, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(place, column.name, table[column.name].cast(column.type.value_type))
    return table


def query_tables(built: QuestionSet) -> dict[str, pa.Table]:
    """Return the tables of the questions by split, with their provenance."""
    kind = pa.int64() if pa.types.is_int64(built.kb.nodes["id"].type) else pa.string()
    kinds = {"id": pa.int64(), "n_candidates": pa.int64(), "gold_id": kind}
    kinds |= dict.fromkeys(("answer_ids", "topic_ids"), pa.list_(kind))
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    rows: dict[str, list[dict[str, Any]]] = {}
    for number, (question, split) in enumerate(zip(built.questions, built.splits, strict=True)):
        rows.setdefault(split, []).append(_query_row(built, number, question))
    usual = ("train", "validation", "test")
    order = [*(name for name in usual if name in rows), *sorted(rows.keys() - set(usual))]
    return {split: pa.Table.from_pylist(rows[split], schema) for split in order}


def _query_row(built: QuestionSet, number: int, question: SyntheticQuestion) -> dict[str, Any]:
    """Return the row of `queries` of a question; its id is its number among all questions."""
    kb = built.kb
    provenance = {
        "mode": "grammar",
        "seed": built.account.seed,
        "attempt": question.attempt,
        "knowledge_base": kb.hash,
        "version": version("kbbench-hf"),
        "words": {"relational": question.n_relational, "textual": question.n_textual},
        **(question.made_by or {}),
    }
    return {
        "id": number,
        "query": question.text,
        "answer_ids": kb.ids(list(question.answers)),
        "template": question.template.template.metapath,
        "hops": str(question.hops),
        "topic_ids": kb.ids(list(question.topics)),
        "requirements": json.dumps(question.requirements, ensure_ascii=False),
        "gold_id": kb.ids([question.gold])[0],
        "n_candidates": question.n_candidates,
        "difficulty": built.difficulties[number],
        "provenance": json.dumps(provenance, ensure_ascii=False),
        "plan": plan_of(kb, question).json,
    }


def plan_of(kb: KnowledgeBase, question: SyntheticQuestion) -> Plan:
    """Return the plan of a question; its remainder of text are the requirements that are no attributes."""
    tests = [AttributeTest(each["field"], each["op"], each["value"]) for each in question.requirements if "op" in each]
    text = "; ".join(each["value"] for each in question.requirements if "op" not in each)
    return Plan.of(question.template.template.path, kb.names(list(question.topics)), tests, text)


def write_card(name: str, source: str, built: QuestionSet, of_models: Sequence[str] = (), spec_name: str = "") -> str:
    """Return the card, with front matter, of the questions made for the knowledge base `source`, by a named spec."""
    tags = ["knowledge-graph", "synthetic"]
    front: Row = {"pretty_name": name, "task_categories": ["text-retrieval"], "tags": tags}
    heading = _heading(name, source, built, spec_name)
    parts = (heading, _contents(built), of_models, _construction(built), _limitations(built))
    body = "\n".join(line for part in parts for line in (*part, ""))
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n{body}"


def _heading(name: str, source: str, built: QuestionSet, spec_name: str) -> Iterable[str]:
    n, account = len(built.questions), built.account
    by_spec = f" --spec {spec_name}" if spec_name else ""
    yield from (f"# {name}", "")
    yield (
        f"{n:,} questions about the knowledge base {source}, made with `kbbench synthesize {source} --count "
        f"{account.n_wanted} --seed {account.seed}{by_spec}` from its own structure and texts: templates over its "
        "relations, " + (_BY_MODELS if _is_by_models(built) else _BY_GRAMMAR)
    )
    if n < account.n_wanted:
        yield from ("", f"**{account.n_wanted:,} were asked for**: {why_fewer(built, source)[0]}.")


def why_fewer(built: QuestionSet, source: str) -> tuple[str, str]:
    """Return why there are fewer questions than requested, and the remedy."""
    account = built.account
    n, whole = len(account.templates), len(account.templates) + len(account.left_out)
    if account.left_out:
        return (
            f"only {n} of the {whole} templates of the spec can be asked of {source}, and these ran out of topic "
            "entities and answers that may serve once more",
            "List other templates in the spec, or leave them out to derive them from the knowledge base.",
        )
    if _is_by_models(built):
        return "fewer than expected survived the models' checks", "Raise --count."
    why = "the templates ran out of topic entities and answers that may serve once more"
    return why, "Raise max_templates or most_answers in a spec."


_BY_GRAMMAR = (
    "sentences from a grammar, no model and no person. The answers are all nodes that meet a question's template and "
    "requirements, exactly."
)
_BY_MODELS = (
    "requirements and sentences from models, every node that meets the template put to judges, no person. The answers "
    "are those that the judges kept."
)


def _is_by_models(built: QuestionSet) -> bool:
    return any(each.made_by for each in built.questions)


def _contents(built: QuestionSet) -> Iterable[str]:
    questions = built.questions
    yield from ("## What is in it", "", "| questions | n |", "|---|---|")
    for split, n in sorted(Counter(built.splits).items(), key=lambda each: -each[1]):
        yield f"| split {split} | {n:,} |"
    for hops, n in sorted(Counter(each.hops for each in questions).items()):
        yield f"| {hops} hop{'s' * (hops > 1)} | {n:,} |"
    for number, n in sorted(Counter(len(each.requirements) for each in questions).items()):
        yield f"| {number or 'no'} requirement{'s' * (number != 1)} on attributes and texts | {n:,} |"
    difficulties = {
        "easy": f"by its words alone (BM25) an answer is among the first {EASY} nodes",
        "medium": f"an answer is among the first {MEDIUM}",
        "hard": f"no answer is among the first {MEDIUM}",
    }
    for name, words in difficulties.items():
        yield f"| {name}: {words} | {built.difficulties.count(name):,} |"
    yield from ("", "| per question | median | least | most |", "|---|---|---|---|")
    for what, values in (
        ("answers", [len(each.answers) for each in questions]),
        ("candidates before requirements", [each.n_candidates for each in questions]),
        ("words", [len(each.text.split()) for each in questions]),
    ):
        yield f"| {what} | {np.median(values):g} | {min(values)} | {max(values)} |"
    ratios = [each.n_relational / each.n_textual for each in questions if each.n_textual]
    if ratios:
        yield ""
        yield (
            f"Words about relations over words about attributes and texts: {np.mean(ratios):.2f} on average over "
            f"{len(ratios):,} questions that have both."
        )


def _construction(built: QuestionSet) -> Iterable[str]:
    account = built.account
    yield from ("## How it was made", "", f"{account.n_attempts:,} attempts. Refused, by reason:", "")
    yield from ("| reason | attempts |", "|---|---|")
    yield from (f"| {reason} | {n:,} |" for reason, n in account.refusals.most_common())
    columns = "template | form | of sampled topics usable | none or too few | too many | median answers | questions"
    yield from ("", f"| {columns} |", "|---|---|---|---|---|---|---|")
    n_questions = Counter(each.template.template.metapath for each in built.questions)
    for each in account.templates:
        few, many = each.outcomes["none or too few"], each.outcomes["too many"]
        path = each.template.metapath
        yield (
            f"| {_markdown_cell(path)} | {each.form} | {each.n_usable} of {each.n_sampled} | {few} | {many} | "
            f"{each.median_answers:g} | {n_questions[path]} |"
        )
    if account.left_out:
        yield from ("", f"{len(account.left_out):,} templates of the spec were not asked:", "")
        yield from ("| template | reason |", "|---|---|")
        yield from (f"| {_markdown_cell(path)} | {reason} |" for path, reason in account.left_out.items())


def _markdown_cell(path: str) -> str:
    """Return a metapath as a cell of a Markdown table."""
    return f"`{path}`".replace("|", "\\|")


def _limitations(built: QuestionSet) -> Iterable[str]:
    account = built.account
    yield from ("## What weakens it", "")
    if _is_by_models(built):
        yield "- Models wrote the questions and judged the answers: both are as good as these, unchecked."
    else:
        yield "- The sentences come from a grammar: stiffer and more alike than people's questions."
    if overlap := _overlap(built):
        yield (
            f"- Of a question's words, stop words and topics left out, {overlap[0]:.0%} stand in the text of the node "
            f"that its requirements were taken from, and {overlap[1]:.0%} in that of another node of its type."
        )
    pairs = list(zip(built.questions, built.splits, strict=True))
    trained = {row for each, split in pairs if split == "train" for row in each.answers}
    tested = [each for each, split in pairs if split == "test"]
    if trained and tested:
        seen = sum(not trained.isdisjoint(each.answers) for each in tested)
        yield (
            f"- {seen / len(tested):.0%} of the test questions have an answer that some training question has too; "
            "none has the same set of answers, or of topics."
        )
    walks = (walk for each in built.questions for walk in each.template.template.path.walks)
    unused = sorted(set(built.kb.graph.relations) - {hop.relation for walk in walks for hop in walk.hops})
    own_words = " Words of their own in the spec (`words: relations:`) tell them apart."
    for why, listed, remedy in (
        ("Never asked about, for want of names", account.unnameable, ""),
        ("Never asked about, for they would be said in the same words", account.alike, own_words),
        ("Asked about by their inverse alone", account.inverses, ""),
        ("Never asked about, for metapaths cannot name them", account.unwritable, ""),
    ):
        if listed:
            yield f"- {why}: {', '.join(listed)}.{remedy}"
    if account.exhausted:
        yield f"- {len(account.exhausted)} templates ran out of topics, and left their share to the others."
    if unused:
        yield f"- Relations that no question has: {', '.join(unused)}."


def _overlap(built: QuestionSet) -> tuple[float, float] | None:
    """Return the mean share of a question's words in its gold node's text, and in that of another node of its type.

    None where no question has words beside its topics.
    """
    kb, shares = built.kb, list[list[float]]()
    for each in built.questions:
        topics = {word for name in kb.names(list(each.topics)) for word in list_words(name)}
        words = set(list_words(each.text)) - STOP_WORDS - topics
        rows = kb.of_type(kb.types([each.gold])[0])
        other = int(rows[each.attempt % len(rows)])
        if words and other != each.gold:
            texts = kb.texts([each.gold, other])
            shares.append([len(words.intersection(list_words(text))) / len(words) for text in texts])
    if not shares:
        return None
    of_gold, of_other = zip(*shares, strict=True)
    return float(np.mean(of_gold)), float(np.mean(of_other))
