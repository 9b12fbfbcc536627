"""Text2KGBench: triples from a sentence, guided by an ontology (Mihindukulasooriya et al., ISWC 2023).

The modes: `reference` is the release's script, `paper` what the paper's tables make of it, `repaired` (version 1) the
metric without the script's accidents, on repaired gold, `repaired-2` triples compared by what they say, on the gold
that the sentences name, and `repaired-3` the same with typographic characters and RDF literals read as plain text, and
with paraphrased names. `metrics/triples.py` and `metrics/triple_values.py` have the definitions.

The registry imports `WIKIDATA_TEKGEN`, `DBPEDIA_WEBNLG` and `MINI`; users' own ontologies use `MINI`. `reference` and
`paper` give the published scores, and the historical parsers the published triples, mistakes included.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.addresses import on_request
from kbbench_hf.benchmarks import base
from kbbench_hf.benchmarks.annotated import AnnotationRules
from kbbench_hf.benchmarks.answers import TRIPLES
from kbbench_hf.benchmarks.base import Example, Examples, Explanation, Mark, Scores, of_text
from kbbench_hf.benchmarks.text2kgbench import prompts
from kbbench_hf.benchmarks.text2kgbench.material import (
    BEYOND_PAPER,
    Material,
    beyond_paper,
    gold_triples,
    load,
    typed_by,
    underscored_gold,
)
from kbbench_hf.metrics.aggregate import Estimate, estimate
from kbbench_hf.metrics.generative_re import factualness, select_triples
from kbbench_hf.metrics.triples import (
    ALL_ZERO,
    EMPTY_ANSWER,
    Ontology,
    Triple,
    TripleScores,
    count_defects,
    is_mentioned,
    name_key,
    score_reference,
    score_repaired,
    triple_key,
)
from kbbench_hf.parsing.call_triples import parse_calls
from kbbench_hf.parsing.parsed_reply import ParsedReply, ParseError

_RELEASED = re.compile(r"(\w+)\(([^,]+),([^)]+)\)")


def parse_md(text: str) -> list[Triple]:
    r"""Return the triples of a response as the release read those to Wikidata-TekGen: `\_` is `_`, nothing is stripped.

    >>> parse_md(r"cast\_member(Totoro,human)")
    [('Totoro', 'cast_member', 'human')]
    """
    return parse_id(text.replace(r"\_", "_"))


def parse_id(text: str) -> list[Triple]:
    """Return the triples of a response by the release's expression alone; an object keeps the space before it.

    The expression cuts a relation to its last word, a subject at its first comma and an object at its first ")".

    >>> parse_id("areaTotal(Leiden, Holland, 23.27 (square kilometres))")
    [('Leiden', 'areaTotal', ' Holland, 23.27 (square kilometres')]
    """
    return [(subject, relation, obj) for relation, subject, obj in _RELEASED.findall(text)]


def parse_quotes(text: str) -> list[Triple]:
    """Return the triples of a response as the release read those to the unseen sentences and most of DBpedia-WebNLG.

    Each field is stripped and then loses every quotation mark, in this order: a space inside quotes survives.

    >>> parse_quotes("author(Dune, ' Frank Herbert')")
    [('Dune', 'author', ' Frank Herbert')]
    """
    return [(_unquoted(subject), _unquoted(relation), _unquoted(obj)) for subject, relation, obj in parse_id(text)]


def _unquoted(field: str) -> str:
    return field.strip().replace('"', "").replace("'", "")


HISTORICAL_PARSERS: dict[str, Callable[[str], list[Triple]]] = {"md": parse_md, "quotes": parse_quotes, "id": parse_id}
"""The profiles that together parse all 12,936 published responses to their published triples."""


def parse_balanced(text: str, sentence: str = "") -> list[Triple]:
    r"""Return the triples of a response, written as JSON or as `relation(subject, object)`; none where it has none.

    Loses nothing: see `parsing.call_triples.parse_calls` for the rules, and for the use of `sentence`.

    >>> parse_balanced("areaTotal(Leiden, Holland, 23.27 (square kilometres))\ncountry(Leiden, Holland, Netherlands)")
    [('Leiden, Holland', 'areaTotal', '23.27 (square kilometres)'), ('Leiden, Holland', 'country', 'Netherlands')]
    """
    return _json_triples(text) or parse_calls(text, sentence)


def parse_json(text: str) -> list[Triple]:
    """Return the triples of the first JSON in a response that has some; text or a code fence may surround it.

    A triple is a list of three, or an object with `subject`, `relation` and `object` (or `sub`, `rel`, `obj`, or
    `predicate` for the relation). Triples come in a list, alone or under the key `triples`, or as objects in a row.

    Raises:
        ParseError: no JSON in the text is a list of triples.

    >>> parse_json('Here: {"triples": [{"subject": "Up", "relation": "director", "object": "Pete Docter"}]}')
    [('Up', 'director', 'Pete Docter')]
    """
    triples = _json_triples(text)
    if triples is None:
        raise ParseError(f'no JSON list of triples in {text[:80]!r}; expected {{"triples": [...]}}')
    return triples


_JSON_NAMES = (("subject", "sub"), ("relation", "rel", "predicate"), ("object", "obj"))
_JSON_START = re.compile(r"""\{(?=\s*")|\[(?=\s*(?:\{\s*"|\[\s*["\d-]|\]))""")


def _json_triples(text: str) -> list[Triple] | None:
    """Return the triples of JSON in a text; None where no JSON is a list of triples, not even an empty one."""
    in_a_row: list[Triple] = []
    found_empty = False
    for value in _json_values(text):
        listed = value.get("triples") if isinstance(value, dict) else value
        if isinstance(listed, list):
            triples = [triple for each in listed if (triple := _json_triple(each)) is not None]
            if triples and len(triples) == len(listed):
                return triples
            found_empty = found_empty or not listed
        elif isinstance(value, dict) and (triple := _json_triple(value)) is not None:
            in_a_row.append(triple)
    return in_a_row or ([] if found_empty else None)


def _json_values(text: str) -> Iterator[object]:
    """Yield every object and list in a text that is JSON and not inside another one."""
    decoder = json.JSONDecoder()
    position = 0
    while match := _JSON_START.search(text, position):
        position = match.start() + 1
        try:
            value, position = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _json_triple(value: object) -> Triple | None:
    """Return the triple that a list of three or an object is, numbers as text; None where it is none."""
    if isinstance(value, dict):
        parts = [next((value[name] for name in names if name in value), None) for names in _JSON_NAMES]
    elif isinstance(value, list):
        parts = value
    else:
        return None
    if len(parts) != 3 or not all(type(part) in (str, int, float) for part in parts):
        return None
    subject, relation, obj = map(str, parts)
    return subject, relation, obj


METRICS = {
    "f1": "F1",
    "precision": "P",
    "recall": "R",
    "ontology_conformance": "OC",
    "f1_all_triples": "F1 all",
    "subject_hallucination": "SH",
    "relation_hallucination": "RH",
    "object_hallucination": "OH",
    "precision_all_triples": "P all",
    "recall_all_triples": "R all",
    **BEYOND_PAPER,
    "factualness": "FS",
}
"""Result key -> label in tables. FS, the share of triples that a judge finds supported by the sentence, is scored where
the answers are annotated. Those of all triples are of `BY_VALUE`, whose others leave out some gold."""
HALLUCINATION = ("subject_hallucination", "relation_hallucination", "object_hallucination")
OVER_ALL = ("precision_all_triples", "recall_all_triples", "f1_all_triples")
_NOTHING = re.compile(r"^$|\[\s*\]|\{\s*\}|\bnone\b|\bno (?:relevant )?(?:triples|relations)\b", re.IGNORECASE)
"""Replies that state that there are no triples."""
BY_VALUE = {
    "repaired-2": on_request("kbbench_hf.metrics.triple_values:score_repaired_2"),
    "repaired-3": on_request("kbbench_hf.metrics.triple_values:score_repaired_3"),
}
"""The modes that compare triples by value, in any spelling."""
_FLAGS = ("demonstration_leaks", "fact_in_train")
"""Flags of the dataset for slices: leaks from the train split."""


def score(examples: Examples, answers: Sequence[Sequence[Sequence[str]] | None], mode: str) -> Scores:
    """Return the seven metrics of every sentence, those of `beyond_paper`, and in `BY_VALUE` three over all triples.

    With annotations also factualness; an answer without triples has none, a missing one 0.

    A missing answer is 0 in all seven in `reference` (so it is good for the hallucination rates), has relation
    hallucination 1 in `paper`, and is an empty answer in our own modes.

    Domain and range conformance infer types from the gold of these sentences; in `BY_VALUE` from the train split, so
    that fewer names have types, and none from the gold.

    The counters are those of `count_defects`, and `n_empty_gold`, sentences that the mode has no gold for. In
    `BY_VALUE` also `n_gold_triples`, and of these `n_gold_not_named`, whose subject or object the sentence does not
    name.
    """
    material: Material = examples.context
    by_value, score_one, ontologies = mode in BY_VALUE, _scorer(mode), _ontologies(material, mode)
    counters = Counter(n_empty=0, n_filtered_out=0, n_empty_gold=0, n_duplicate_triples=0, n_near_miss_relations=0)
    scored = np.empty((len(examples.rows), len(TripleScores._fields)))
    over_all = np.empty((len(examples.rows), len(OVER_ALL)))
    for position, (row, answer) in enumerate(zip(examples.rows, answers, strict=True)):
        gold, sentence, ontology = gold_triples(row, mode), row["sentence"], ontologies[row["ontology_id"]]
        predicted = [(subject, relation, obj) for subject, relation, obj in answer or ()]
        counters["n_empty_gold"] += not gold
        if answer is not None:
            counters.update(count_defects(predicted, gold, ontology))
        if answer is None and not by_value:
            scored[position] = _MISSING[mode]
            continue
        scored[position], over_all[position], n_not_named = score_one(predicted, gold, sentence, ontology)
        if by_value:
            counters.update(n_gold_triples=len(gold), n_gold_not_named=n_not_named)
    columns = dict(zip(TripleScores._fields, scored.T, strict=True))
    if by_value:
        columns |= dict(zip(OVER_ALL, over_all.T, strict=True))
        typed, is_named = material.typed_by_train, _is_named
    else:
        typed, is_named = typed_by(examples.rows, material.ontologies), is_mentioned
    columns |= beyond_paper(examples.rows, answers, typed, ontologies, is_named)
    if examples.annotations and examples.annotations.has("factualness"):
        verdicts_of = examples.annotations.verdicts
        verdicts = [
            None if answer is None else verdicts_of(row["id"], select_triples(answer, "reference"))
            for row, answer in zip(examples.rows, answers, strict=True)
        ]
        columns["factualness"] = factualness(verdicts, empty=np.nan)
        columns["factualness"][[answer is None for answer in answers]] = 0.0
    in_order = {name: columns[name] for name in METRICS if name in columns}
    return Scores(in_order, _slices(examples.rows), dict(counters))


_MISSING = {
    "reference": ALL_ZERO,
    "paper": ALL_ZERO._replace(relation_hallucination=1.0),
    "repaired": EMPTY_ANSWER,
}
"""Mode -> the scores of a missing answer."""
_Scored = tuple[TripleScores, Sequence[float], int]


def _scorer(mode: str) -> Callable[[Sequence[Triple], Sequence[Triple], str, Ontology], _Scored]:
    """Return the function of a mode from (triples, gold, sentence, ontology) to its scores.

    These are the seven metrics; precision, recall and F1 over all gold; and how much gold the sentence does not name.
    """
    if mode in BY_VALUE:
        return BY_VALUE[mode]
    score_triples = score_repaired if mode == "repaired" else score_reference

    def score_one(predicted: Sequence[Triple], gold: Sequence[Triple], sentence: str, ontology: Ontology) -> _Scored:
        found = score_triples(predicted, gold, sentence, ontology)
        return found, (found.precision, found.recall, found.f1), 0

    return score_one


def _ontologies(material: Material, mode: str) -> Mapping[str, Ontology]:
    return material.complete if mode.startswith("repaired") else material.released


def _is_named(sentence: str, entity: str) -> bool:
    from kbbench_hf.metrics.mention_forms import find_mention

    return find_mention(sentence, entity).found


def _slices(rows: Sequence[Example]) -> dict[str, list[str]]:
    """Return the slice keys of each row: its ontology, and where some row has it, `selected` and the flags."""
    slices = {"ontology": [row["ontology_id"] for row in rows]}
    if any(row["selected"] for row in rows):
        slices["selected"] = [str(row["selected"]).lower() for row in rows]
    kinds = [{repair["kind"] for repair in row["repairs"]} for row in rows]
    for flag in _FLAGS:
        if any(flag in each for each in kinds):
            slices[flag] = [str(flag in each).lower() for each in kinds]
    return slices


def summarise(scores: Scores, mode: str, *, doubled: str | None = None) -> dict[str, Estimate]:
    """Return the mean over ontologies of each metric's means, with intervals stratified by ontology.

    `reference` and `paper` count the ontology `doubled` twice: the release's configuration lists it twice.

    The paper's rows All and Selected are not the script's output. They are the mean of the ontologies' scores rounded
    to two decimals, cut to two decimals, and relation hallucination is 1 - ontology conformance; `paper` does the same
    wherever examples are marked as selected. Its intervals are those of the unrounded means.
    """
    groups = scores.slices["ontology"]
    weights = {doubled: 2.0} if doubled and not mode.startswith("repaired") else None
    estimates = {metric: estimate(column, groups, weights) for metric, column in scores.values.items()}
    if mode == "paper" and "selected" in scores.slices:
        for metric in TripleScores._fields:
            value = _cut_mean_of_rounded(scores.values[metric], groups)
            estimates[metric] = estimates[metric]._replace(value=value)
        conformance = Decimal(str(estimates["ontology_conformance"].value))
        invented = estimates["relation_hallucination"]._replace(value=float(1 - conformance))
        estimates["relation_hallucination"] = invented
    return estimates


def read_careful(response: str, example: Example) -> ParsedReply[list[Triple]]:
    """Return the triples of a response's answer, see `parsing.triples`; the example resolves ambiguities.

    Raises:
        ParseError: there are none, and the response does not state it; or it is ambiguous.
    """
    from kbbench_hf.parsing.triples import parse_triples

    return parse_triples(response, example["sentence"], example.get("relations", ()))


def read_balanced(response: str, example: Example) -> ParsedReply[list[Triple]]:
    """Return the triples of a response, in JSON or as `relation(subject, object)`; the sentence resolves ambiguities.

    Raises:
        ParseError: there are none, and the response does not state it ("", "[]", "{}", "none").
    """
    triples = parse_balanced(response, example["sentence"])
    if not triples and not _NOTHING.search(response.strip()):
        raise ParseError("no triples, and no word that there are none")
    return ParsedReply(triples, "balanced")


def explain(examples: Examples, example: Example, answer: Sequence[Sequence[str]]) -> Explanation:
    """Return a sentence, its gold triples, and each predicted triple: right, wrong, not counted or hallucinated.

    Right, wrong and not counted follow the mode of the examples. A triple is not counted where it changes neither
    precision nor recall; the reason follows it. It is hallucinated if it is not right and the ontology lacks its
    relation, or the sentence its subject or object, as `reference` judges them.
    """
    mode = examples.mode or "reference"
    gold = underscored_gold(example, mode)
    score_triples, ontology = _scorer(mode), _ontologies(examples.context, mode)[example["ontology_id"]]

    def score_one(predicted: Sequence[Triple]) -> tuple[float, float]:
        """Return the F1 of triples, and their F1 over all gold triples."""
        scored, over_all, _ = score_triples(predicted, gold, example["sentence"], ontology)
        return scored.f1, over_all[2]

    gold_is_right = bool(answer) and score_one(gold)[0] == 1.0
    released = examples.context.released[example["ontology_id"]]
    parts: list[tuple[str, Mark]] = []
    for sub, rel, obj in answer:
        triple = (sub, rel, obj)
        alone = score_reference([triple], [], example["sentence"], released)
        made_up = alone.subject_hallucination + alone.relation_hallucination + alone.object_hallucination > 0
        f1, f1_all = score_one([triple])
        right = f1 > 0 or (not gold_is_right and triple_key(triple) in map(triple_key, gold))
        counted = right or not gold_is_right or score_one([*gold, triple])[0] < 1.0
        mark: Mark = "right" if right else "hallucinated" if made_up else "wrong" if counted else "not counted"
        reason = "" if counted else f" · not counted in F1 ({_why_not_counted(rel, gold, f1_all)})"
        parts.append((f"{sub} | {rel} | {obj}{reason}", mark))
    return Explanation([(example["sentence"], False)], [f"{sub} | {rel} | {obj}" for sub, rel, obj in gold], parts)


def _why_not_counted(relation: str, gold: Sequence[Triple], f1_over_all: float) -> str:
    """Return why a triple is left out of precision and recall."""
    if f1_over_all > 0:
        return "gold triple that the sentence does not name"
    if name_key(relation) not in {name_key(each) for _, each, _ in gold}:
        return "relation not in this sentence's gold"
    if relation not in {each for _, each, _ in gold}:
        return "relation spelled differently from this sentence's gold"
    return "the sentence names no gold triple with this relation"


def _cut_mean_of_rounded(column: NDArray[np.float64], groups: Sequence[str]) -> float:
    """Return the mean over groups of their means rounded to two decimals, cut to two decimals, as the paper has it."""
    names = np.asarray(groups)
    rounded = [Decimal(f"{estimate(column[names == name]).value:.2f}") for name in dict.fromkeys(groups)]
    return float((sum(rounded, Decimal()) / len(rounded)).quantize(Decimal("0.01"), ROUND_FLOOR))


HERE = Path(__file__).parent
_FACTS = base.Facts(
    "text2kg-wikidata-tekgen",
    "Text2KGBench, Wikidata-TekGen",
    family="Text2KGBench",
    paper="https://arxiv.org/abs/2308.02357",
    homepage="https://github.com/cenguix/Text2KGBench",
    license="cc-by-sa-4.0",
    citation=(HERE / "citation.bib").read_text(encoding="utf-8"),
)
_SCORING = base.Scoring(
    TRIPLES,
    METRICS,
    ("reference", "paper", "repaired", *BY_VALUE),
    score,
    summarise,
    warn=on_request("kbbench_hf.benchmarks.text2kgbench.analysis:warnings"),
    annotations=AnnotationRules({"factualness": ("factualness",)}, gold_triples, "sentence"),
    headline=("f1", "precision", "recall", "ontology_conformance", *HALLUCINATION),
    group_by="ontology",
    lower_is_better=frozenset(name for name in METRICS if "hallucination" in name),
)
_ASKING = base.Asking(
    prompts={"current": prompts.current, "as_written": prompts.as_written, "short": prompts.short},
    parsers={
        "careful": read_careful,
        "balanced": read_balanced,
        **{name: of_text(parse) for name, parse in {"json": parse_json, **HISTORICAL_PARSERS}.items()},
    },
    with_similar_ids=prompts.with_similar_ids,
    warn=prompts.leak_warnings,
)
_SHOWING = base.Showing(
    explain,
    published=HERE / "published.csv",
    answered=frozenset({"Vicuna-13B", "Alpaca-LoRA-13B"}),
    statistics=on_request("kbbench_hf.benchmarks.text2kgbench.analysis:statistics"),
    names=HERE / "names.toml",
    errors=on_request("kbbench_hf.benchmarks.text2kgbench.analysis:error_classes"),
)

AUDIT = on_request("kbbench_hf.building.text2kgbench.audit:audit")


def _data(name: str, splits: tuple[str, ...]) -> base.Data:
    build = on_request(f"kbbench_hf.building.text2kgbench.release:build_{name}")
    runs = HERE / "runs" / name
    return base.Data(("sentences",), splits, "test", load, build=build, revisions=(1, 2), audit=AUDIT, runs=runs)


WIKIDATA_TEKGEN = base.Benchmark(
    _FACTS,
    _data("wikidata_tekgen", ("train", "validation", "test", "unseen")),
    _SCORING,
    replace(_ASKING, prompts={**_ASKING.prompts, "h1": prompts.h1, "h2": prompts.h2}),
    _SHOWING,
)
DBPEDIA_WEBNLG = base.Benchmark(
    replace(_FACTS, dataset="text2kg-dbpedia-webnlg", title="Text2KGBench, DBpedia-WebNLG", license="cc-by-nc-sa-4.0"),
    _data("dbpedia_webnlg", ("train", "test")),
    replace(_SCORING, summarise=partial(summarise, doubled="1_university")),
    replace(_ASKING, prompts={**_ASKING.prompts, "h2_d": prompts.h2_d}),
    _SHOWING,
)
MINI = base.Benchmark(
    base.Facts("mini-text2kg", "Text2KGBench, mini", "Mini", license="apache-2.0"),
    base.Data(("sentences",), ("test",), "test", load, shipped=HERE / "mini"),
    _SCORING,
    _ASKING,
    replace(_SHOWING, published=None),
)
