"""Triples extracted from sentences, by Text2KGBench's measures."""

import datasets
import evaluate
import numpy as np

from kbbench_hf.benchmarks.answers import TRIPLES, ShapeError
from kbbench_hf.benchmarks.text2kgbench.analysis import extraction_warnings
from kbbench_hf.benchmarks.text2kgbench.benchmark import HISTORICAL_PARSERS, parse_balanced
from kbbench_hf.benchmarks.warnings import empty_warning, equals_gold_warning, unread_warning
from kbbench_hf.errors import unknown_name
from kbbench_hf.metrics.aggregate import estimate
from kbbench_hf.metrics.triple_values import score_repaired_2, score_repaired_3
from kbbench_hf.metrics.triples import Ontology, TripleScores, count_defects, score_reference, score_repaired
from kbbench_hf.parsing.parsed_reply import ParseError
from kbbench_hf.parsing.triples import parse_triples
from kbbench_hf.scoring.evaluate_modules import decode, module_result, read_list, reads

_DESCRIPTION = """\
Precision, recall and F1 of extracted triples, their conformance to an ontology, and how many of their subjects,
relations and objects are hallucinated, as Text2KGBench defines them. Mode `reference` gives the figures of the
benchmark's released script; `repaired` does without its accidents; `repaired-2` compares what triples say (dates and
numbers by value, names in any writing) and asks only for the gold whose subject and object the sentence names;
`repaired-3` also reads typographic characters and RDF literals as plain text.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: for each sentence, a list of triples, [subject, relation, object] or {"sub", "rel", "obj"} (or
        "subject", "relation", "object"; "head", "relation", "tail"); or for every sentence a model's text.
    references: for each sentence, {"sentence": ..., "triples": [[subject, relation, object], ...],
        "ontology": {"concepts": [label, ...], "relations": [label, ...]}}.
    mode: "reference" (the released script; the default), "paper" (the same; the paper differs for whole datasets
        only), "repaired", "repaired-2" or "repaired-3".
    parser: how texts are read: "careful" (thought aside, the final answer, in whatever form; the default), "balanced"
        (every triple in the text), or as the published runs were: "md", "quotes", "id".
    return_ci: whether to add the ends of a 95 % confidence interval to every metric, `<metric>_ci95_low` and
        `<metric>_ci95_high`.
    return_warnings: whether to add `warnings`, what a reader should know before believing the scores: a list of
        {"code", "severity", "message", "remedy", "n_examples", "effect"}. They are logged by `datasets` in any case.
Returns:
    The mean over ontologies of the means over sentences, as fractions: precision, recall, f1, ontology_conformance
    (more is better); subject_hallucination, relation_hallucination, object_hallucination (less is better). And counts:
    n_scored, n_parse_failures (texts that could not be read, scored as empty answers), n_empty (answers without
    triples), n_filtered_out (answers without a relation that the sentence's gold uses), n_duplicate_triples,
    n_near_miss_relations (wrong only in case, spaces or underscores), n_empty_gold. In `repaired-2` and `repaired-3`
    precision, recall and f1 are over gold triples whose ends the sentence names (NaN where there are none), and
    precision_all_triples, recall_all_triples and f1_all_triples over all; n_gold_triples and n_gold_not_named count
    them. Every value is a float, NaN where nothing was scored; the keys depend on the options alone.
Examples:
    >>> text2kg = evaluate.load("metrics/text2kg")
    >>> reference = {
    ...     "sentence": "My Neighbor Totoro is a 1988 Japanese animated film directed by Hayao Miyazaki.",
    ...     "triples": [["My Neighbor Totoro", "director", "Hayao Miyazaki"], ["My Neighbor Totoro", "genre", "anime"]],
    ...     "ontology": {"concepts": ["film", "film genre"], "relations": ["director", "genre", "cast member"]},
    ... }
    >>> text = "director(My Neighbor Totoro, Hayao Miyazaki)\\ncast_member(My Neighbor Totoro, Satsuki)"
    >>> results = text2kg.compute(predictions=[text], references=[reference])
    >>> results["precision"], results["recall"], results["object_hallucination"]
    (1.0, 0.5, 0.5)
    >>> triples = [["Hayao Miyazaki", "directed", "film"]]
    >>> text2kg.compute(predictions=[triples], references=[reference])["ontology_conformance"]
    0.0
    >>> reference["triples"].append(["Satsuki", "cast member", "Noriko Hidaka"])  # the sentence names neither
    >>> results = text2kg.compute(predictions=[text], references=[reference], mode="repaired-2")
    >>> results["recall"], results["recall_all_triples"], results["n_gold_not_named"]
    (1.0, 0.3333333333333333, 2.0)
"""

_CITATION = """\
@inproceedings{mihindukulasooriya2023text2kgbench,
  title = {Text2KGBench: A Benchmark for Ontology-Driven Knowledge Graph Generation from Text},
  author = {Mihindukulasooriya, Nandana and Tiwari, Sanju and Enguix, Carlos F. and Lata, Kusum},
  booktitle = {The Semantic Web - ISWC 2023},
  year = {2023}
}
"""

_MODES = {"reference": score_reference, "paper": score_reference, "repaired": score_repaired}
"""Modes that give a sentence seven values."""
_BY_VALUE = {"repaired-2": score_repaired_2, "repaired-3": score_repaired_3}
_OVER_ALL = ("precision_all_triples", "recall_all_triples", "f1_all_triples")
_COUNTS = ("n_empty", "n_filtered_out", "n_duplicate_triples", "n_near_miss_relations", "n_empty_gold")
_GOLD_COUNTS = ("n_gold_triples", "n_gold_not_named")
_PARSERS = ("careful", "balanced", *HISTORICAL_PARSERS)


def _read_prediction(entry):
    return entry if isinstance(entry, str) else read_list(TRIPLES)(entry)


def _read_reference(entry):
    if not isinstance(entry, dict):
        raise ShapeError("expected {'sentence', 'triples', 'ontology': {'concepts', 'relations'}}")
    for name in ("sentence", "triples", "ontology"):
        if name not in entry:
            raise ShapeError(f"it has no {name!r}; expected {{'sentence', 'triples', 'ontology'}}")
    if not isinstance(entry["sentence"], str):
        raise ShapeError(f"the sentence is {entry['sentence']!r}; expected a text")
    ontology = entry["ontology"]
    for name in ("concepts", "relations"):
        labels = ontology.get(name) if isinstance(ontology, dict) else None
        if not (isinstance(labels, list) and all(isinstance(label, str) for label in labels)):
            raise ShapeError(f"its ontology has no list of labels {name!r}; expected {{'concepts', 'relations'}}")
    return {**entry, "triples": read_list(TRIPLES)(entry["triples"])}


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
@reads(predictions=_read_prediction, references=_read_reference)
class Text2KG(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": text, "references": text}),
            reference_urls=["https://github.com/cenguix/Text2KGBench", "https://arxiv.org/abs/2308.02357"],
        )

    def _compute(
        self, predictions, references, mode="reference", parser="careful", return_ci=False, return_warnings=False
    ):
        predictions, references = decode(predictions, references)
        if mode not in (*_MODES, *_BY_VALUE):
            raise unknown_name("mode of text2kg", mode, [*_MODES, *_BY_VALUE])
        if parser not in _PARSERS:
            raise unknown_name("parser of text2kg", parser, _PARSERS)
        values, ontologies, counts, answers, unread = [], [], [], [], []
        for prediction, reference in zip(predictions, references, strict=True):
            ontology = Ontology(*map(tuple, (reference["ontology"]["concepts"], reference["ontology"]["relations"])))
            predicted = _triples(prediction, parser, reference["sentence"], ontology)
            unread.append(predicted is None)
            predicted = predicted or []
            gold = [tuple(each) for each in reference["triples"]]
            counted = {**count_defects(predicted, gold, ontology), "n_empty_gold": int(not gold)}
            if mode in _BY_VALUE:
                scores = _BY_VALUE[mode](predicted, gold, reference["sentence"], ontology)
                values.append((*scores.mentioned, *scores.all_triples))
                counted |= {"n_gold_triples": len(gold), "n_gold_not_named": scores.n_not_named}
            else:
                values.append(_MODES[mode](predicted, gold, reference["sentence"], ontology))
            ontologies.append(ontology)
            answers.append(predicted)
            counts.append(counted)
        names = (*TripleScores._fields, *(_OVER_ALL if mode in _BY_VALUE else ()))
        columns = np.array(values).reshape(len(values), len(names)).T
        groups = [*map(repr, ontologies)]
        estimates = {name: estimate(column, groups) for name, column in zip(names, columns, strict=True)}
        counted = (*_COUNTS, *(_GOLD_COUNTS if mode in _BY_VALUE else ()))
        warnings = [
            *unread_warning(sum(unread), len(unread), "Read some of them, and name another parser."),
            *empty_warning(sum(each["n_empty"] for each in counts), len(counts)),
            *equals_gold_warning(answers, [[each["triples"]] for each in references], TRIPLES),
            *extraction_warnings(
                answers,
                [[tuple(each) for each in reference["triples"]] for reference in references],
                ontologies,
                lambda changed: _scores(changed, references, ontologies, mode),
                mode,
            ),
        ]
        return module_result(
            estimates,
            {
                "n_scored": len(values),
                "n_parse_failures": sum(unread),
                **{name: sum(each[name] for each in counts) for name in counted},
            },
            warnings,
            n=len(values),
            return_ci=return_ci,
            return_warnings=return_warnings,
        )


def _scores(answers, references, ontologies, mode):
    """Return what a mode gives other answers."""
    columns = []
    for answer, reference, ontology in zip(answers, references, ontologies, strict=True):
        predicted = [tuple(triple) for triple in answer]
        given = predicted, [tuple(each) for each in reference["triples"]], reference["sentence"], ontology
        columns.append(_BY_VALUE[mode](*given).mentioned if mode in _BY_VALUE else _MODES[mode](*given))
    named = zip(TripleScores._fields, np.array(columns).T, strict=True)
    return {name: estimate(column, [*map(repr, ontologies)]).value for name, column in named}


def _triples(prediction, parser, sentence, ontology):
    """Return the triples of a prediction; None where a text holds none and does not say so."""
    if isinstance(prediction, list):
        return [tuple(triple) for triple in prediction]
    if parser == "careful":
        try:
            return [
                tuple(triple) for triple in parse_triples(prediction, sentence, sorted(ontology.relation_names)).answer
            ]
        except ParseError:
            return None
    return parse_balanced(prediction, sentence) if parser == "balanced" else HISTORICAL_PARSERS[parser](prediction)
