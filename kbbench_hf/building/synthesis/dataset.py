"""Writer of a dataset of synthesized questions: the knowledge base, sorted by node ids, `queries`, and the card."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from kbbench_hf.building.synthesis.questions import EASY, MEDIUM, QuestionSet, SyntheticQuestion, make_questions
from kbbench_hf.building.synthesis.spec import SynthesisSpec
from kbbench_hf.files.datasets import DatasetFolder, Row, write_dataset
from kbbench_hf.knowledge_base.plans import AttributeTest, Plan
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.knowledge_base.tables import schema_table
from kbbench_hf.metrics.generative_re import STOP_WORDS
from kbbench_hf.text.words import list_words

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
    schema = pa.schema(
        {
            "id": pa.int64(),
            "query": pa.string(),
            "answer_ids": pa.list_(kind),
            "template": pa.string(),
            "hops": pa.string(),
            "topic_ids": pa.list_(kind),
            "requirements": pa.string(),
            "gold_id": kind,
            "n_candidates": pa.int64(),
            "difficulty": pa.string(),
            "provenance": pa.string(),
            "plan": pa.string(),
        }
    )
    rows: dict[str, list[dict[str, Any]]] = {}
    for number, (question, split) in enumerate(zip(built.questions, built.splits, strict=True)):
        rows.setdefault(split, []).append(_row(built, number, question))
    usual = ("train", "validation", "test")
    order = [*(name for name in usual if name in rows), *sorted(rows.keys() - set(usual))]
    return {split: pa.Table.from_pylist(rows[split], schema) for split in order}


def _row(built: QuestionSet, number: int, question: SyntheticQuestion) -> dict[str, Any]:
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


def write_card(
    name: str, source: str, built: QuestionSet, licence: str = "", of_models: Sequence[str] = (), spec_name: str = ""
) -> str:
    """Return the card, with front matter, of the questions made for the knowledge base `source`, by a named spec."""
    front: Row = {
        "pretty_name": name,
        **({"license": "other", "license_name": licence} if licence else {}),
        "task_categories": ["text-retrieval"],
        "tags": ["knowledge-graph", "synthetic"],
    }
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
        yield from ("", f"**{account.n_wanted:,} were asked for**: {why_fewer(built, source)}.")


def why_fewer(built: QuestionSet, source: str) -> str:
    """Return why there are fewer questions than requested."""
    account = built.account
    n, whole = len(account.templates), len(account.templates) + len(account.left_out)
    if account.left_out:
        return (
            f"only {n} of the {whole} templates of the spec can be asked of {source}, and these ran out of topic "
            "entities and answers that may serve once more"
        )
    if _is_by_models(built):
        return "fewer than expected survived the models' checks"
    return "the templates ran out of topic entities and answers that may serve once more"


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
            f"| {_cell(path)} | {each.form} | {each.n_usable} of {each.n_sampled} | {few} | {many} | "
            f"{each.median_answers:g} | {n_questions[path]} |"
        )
    if account.left_out:
        yield from ("", f"{len(account.left_out):,} templates of the spec were not asked:", "")
        yield from ("| template | reason |", "|---|---|")
        yield from (f"| {_cell(path)} | {reason} |" for path, reason in account.left_out.items())


def _cell(path: str) -> str:
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
    if account.unnameable:
        yield f"- Never asked about, for want of names: {', '.join(account.unnameable)}."
    if account.alike:
        yield (
            f"- Never asked about, for they would be said in the same words: {', '.join(account.alike)}. Words of "
            "their own in the spec (`words: relations:`) tell them apart."
        )
    if account.inverses:
        yield f"- Asked about by their inverse alone: {', '.join(account.inverses)}."
    if account.unwritable:
        yield f"- Never asked about, for metapaths cannot name them: {', '.join(account.unwritable)}."
    if account.exhausted:
        yield f"- {len(account.exhausted)} templates ran out of topics, and left their share to the others."
    walks = (walk for each in built.questions for walk in each.template.template.path.walks)
    if unused := sorted(set(built.kb.graph.relations) - {hop.relation for walk in walks for hop in walk.hops}):
        yield f"- Relations that no question has: {', '.join(unused)}."


def _overlap(built: QuestionSet) -> tuple[float, float] | None:
    """Return the mean share of a question's words in the text of its gold node, and of another node of its type."""
    kb, shares = built.kb, list[list[float]]()
    for each in built.questions:
        topics = {word for name in kb.names(list(each.topics)) for word in list_words(name)}
        words = set(list_words(each.text)) - STOP_WORDS - topics
        rows = kb.of_type(kb.types([each.gold])[0])
        other = int(rows[each.attempt % len(rows)])
        if words and other != each.gold:
            texts = kb.texts([each.gold, other])
            shares.append([len(words.intersection(list_words(text))) / len(words) for text in texts])
    return (float(np.mean([gold for gold, _ in shares])), float(np.mean([b for _, b in shares]))) if shares else None
