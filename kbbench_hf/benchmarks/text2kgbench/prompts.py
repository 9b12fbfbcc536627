"""Text2KGBench's prompts: the three published templates, byte for byte, and a chat prompt of our own.

The texts of the templates, with source and license, are in `texts/`. Prompts of stored runs must stay byte for byte,
and so must the choice of demonstrations: a change is a new prompt with a name of its own.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.base import Example, Examples, Prompt, PromptOptions, object_schema
from kbbench_hf.benchmarks.text2kgbench.material import Demonstrations, Material, in_prompts
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.files.datasets import Row
from kbbench_hf.metrics.triples import name_key, underscore_spaces
from kbbench_hf.protocols import Embedder
from kbbench_hf.text.name_variants import QUALIFIER

_TEXTS = Path(__file__).parent / "texts"
_WIKIDATA_ID = re.compile(r"Q\d+")


def choose(example: Example, demonstrations: Demonstrations, options: PromptOptions) -> list[Row]:
    """Return the demonstrations of an example, train rows, best first: `options.shots`, or fewer if there are fewer.

    - `leak-free`: the first of the release's five most similar train rows, without rows whose sentence is in another
      split or that have a gold triple of the example; then random rows of the same kind.
    - `mentioned`: as `leak-free`, of the rows whose sentence mentions all its triples: first those of the five that
      have several triples. A tenth of the examples, by a hash of the id, have no demonstration.
    - `similar`: the first of the five; one shot of it is the published choice. In Wikidata-TekGen, 320 of 4,062 test
      sentences are then their own demonstration.
    - `random`: rows of the same ontology, drawn by a hash of `options.seed` and the example's id; never its sentence.
    - `none`: no rows.
    """
    if options.demonstrations == "none" or not options.shots:
        return []
    similar = [demonstrations.rows[each] for each in example["similar_ids"]]
    if options.demonstrations == "similar":
        return similar[: options.shots]
    drawn = _draw_rows(example, demonstrations, options.seed)
    if options.demonstrations == "random":
        return list(islice((row for row in drawn if row["sentence"] != example["sentence"]), options.shots))
    mentioned = options.demonstrations == "mentioned"
    if mentioned:
        if int(hashlib.sha256(example["id"].encode()).hexdigest(), 16) % 10 == 0:
            return []
        triples = demonstrations.triples_by_sentence
        similar.sort(key=lambda row: len(triples[row["ontology_id"], row["sentence"]]) < 2)
    clean = (
        row
        for row in chain(similar, drawn if example["similar_ids"] else ())
        if not demonstrations.shows_its_sentence(row, example)
        and not demonstrations.shows_its_gold(row, example)
        and (not mentioned or demonstrations.written_triples(row))
    )
    chosen: dict[str, Row] = {}
    for row in clean:
        chosen[row["id"]] = row
        if len(chosen) == min(options.shots, len(example["similar_ids"])):
            break
    return list(chosen.values())


def leak_warnings(examples: Examples, options: PromptOptions) -> list[ScoreWarning]:
    """Return a warning where demonstrations contain the sentence of an example, or its gold."""
    material: Material = examples.context
    shown = material.demonstrations
    sentences = triples = 0
    for row in examples.rows:
        chosen = choose(row, shown, options)
        sentences += any(name_key(each["sentence"]) == name_key(row["sentence"]) for each in chosen)
        triples += any(shown.shows_its_gold(each, row) for each in chosen)
    if not sentences and not triples:
        return []
    message = (
        f"Of {len(examples.rows):,} prompts, {sentences:,} contain the test sentence as a demonstration, and "
        f"{triples:,} a gold triple of it: a model can copy the answer."
    )
    remedy = "Run with --demonstrations leak-free, the default."
    return [ScoreWarning("demonstration_leaks", message, remedy, max(sentences, triples))]


def _draw_rows(example: Example, demonstrations: Demonstrations, seed: int) -> Iterator[Row]:
    """Yield the ontology's train rows in an order that depends only on the seed and the example's id."""
    rest = list(demonstrations.ids_by_ontology.get(example["ontology_id"], ()))
    for draw in range(len(rest)):
        digest = hashlib.sha256(f"{seed} {example['id']} {draw}".encode()).digest()
        position = int.from_bytes(digest[:8], "big") % len(rest)
        rest[position], rest[-1] = rest[-1], rest[position]
        yield demonstrations.rows[rest.pop()]


def with_similar_ids(examples: Examples, embedder: Embedder, count: int = 5) -> Examples:
    """Return the examples with `similar_ids` by an embedder in place of the release's, which came from sentence-t5-xxl.

    Each gets the `count` train rows of its ontology with the highest cosine, best first; ties keep the train order.
    """
    material: Material = examples.context
    ids, rows = material.demonstrations.ids_by_ontology, material.demonstrations.rows
    places: dict[str, list[int]] = {}
    for place, row in enumerate(examples.rows):
        places.setdefault(row["ontology_id"], []).append(place)
    similar: list[list[str]] = [[] for _ in examples.rows]
    for ontology_id, here in places.items():
        known = ids.get(ontology_id, [])
        if known:
            queries = unit_rows(embedder.encode([examples.rows[place]["sentence"] for place in here]))
            candidates = unit_rows(embedder.encode([rows[each]["sentence"] for each in known]))
            best = np.argsort(-(queries @ candidates.T), axis=1, kind="stable")[:, :count]
            for place, positions in zip(here, best, strict=True):
                similar[place] = [known[position] for position in positions]
    ranked = [row | {"similar_ids": each} for row, each in zip(examples.rows, similar, strict=True)]
    return Examples(ranked, examples.context)


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows of length one; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit


def render(template: str, sentence: str, ontology: Row, shown: Sequence[Row]) -> str:
    """Return a prompt in one of the published templates: `h1`, `h2` or `h2_d`.

    With the published demonstration this is the published prompt, byte for byte (all 6,250 of them). More
    demonstrations repeat the example's lines; none leaves them out.
    """
    example = _text("example_lines" if template == "h2_d" else "example_inline")
    return _text("h1" if template == "h1" else "h2").format(
        concepts="".join(f"{each['label']}, " for each in in_prompts(ontology["concepts"]))[:-1],
        relations=", ".join(_signatures(template, ontology)),
        examples="".join(
            example.format(sentence=row["sentence"], triples=_write_triples(template, row["triples"])) for row in shown
        ),
        sentence=sentence,
    )


def _signatures(template: str, ontology: Row) -> Iterator[str]:
    """Yield `relation(domain,range)` of each relation; ends that are no concepts are blank, but ranges in `h2_d`."""
    labels = {each["qid"]: each["label"] for each in reversed(in_prompts(ontology["concepts"]))}
    for each in in_prompts(ontology["relations"]):
        unknown = each["range"] if template == "h2_d" else ""
        domain, range_ = labels.get(each["domain"], ""), labels.get(each["range"], unknown)
        yield f"{underscore_spaces(each['label'])}({domain},{range_})"


def _write_triples(template: str, triples: Sequence[Row]) -> str:
    """Return triples in the notation of a template's demonstration.

    `h2_d` has spaces for all underscores, so that it demonstrates relations that can never score.
    """
    if template == "h2_d":
        return "\n".join(f"{each['rel']}({each['sub']}, {each['obj']})" for each in triples).replace("_", " ")
    return "\n".join(f"{underscore_spaces(each['rel'])}({each['sub']},{each['obj']})" for each in triples)


def published(row: Row, example: Row, ontologies: Mapping[str, Row], demonstrations: Demonstrations) -> str:
    """Return the published prompt of a row of the config `prompts`; `example` is the row of `sentences` it is about."""
    shown = [demonstrations.rows[row["demonstration_id"]]]
    return render(row["template"], _prompted_sentence(example), ontologies[row["ontology_id"]], shown)


def _prompted_sentence(example: Example) -> str:
    """Return the sentence of the published prompt: one unseen sentence is worded differently in the gold."""
    wordings = [each["detail"] for each in example["repairs"] if each["kind"] == "asked_differently"]
    return str(wordings[0] if wordings else example["sentence"])


def _historical_prompt(template: str, example: Example, examples: Examples, options: PromptOptions) -> Prompt:
    material: Material = examples.context
    shown = choose(example, material.demonstrations, options)
    text = render(template, _prompted_sentence(example), material.ontologies[example["ontology_id"]], shown)
    return Prompt([{"role": "user", "content": text}])


h1, h2, h2_d = (partial(_historical_prompt, template) for template in ("h1", "h2", "h2_d"))
"""The prompts published for Wikidata-TekGen's test sentences, for its unseen sentences, and for DBpedia-WebNLG."""


def _chat_prompt(as_in_sentence: bool, example: Example, examples: Examples, options: PromptOptions) -> Prompt:
    """Return a chat prompt for JSON; each demonstration is a turn, with all triples of its sentence.

    The system message has the ontology; all prompts of an ontology share it. It lists the relations of the ontology's
    JSON, as the published prompts do; `reference` scores conformance by those.
    """
    material: Material = examples.context
    ontology = material.ontologies[example["ontology_id"]]
    messages = [{"role": "system", "content": _instructions(ontology)}]
    for row in choose(example, material.demonstrations, options):
        labels = material.demonstrations.triples_by_sentence[row["ontology_id"], row["sentence"]]
        triples = [(each["sub"], each["rel"], each["obj"]) for each in labels]
        if as_in_sentence:
            plain = [(_plain_label(sub), rel, _plain_label(obj)) for sub, rel, obj in triples]
            triples = material.demonstrations.written_triples(row) or plain
        listed = [{"subject": sub, "relation": underscore_spaces(rel), "object": obj} for sub, rel, obj in triples]
        messages.append({"role": "user", "content": row["sentence"]})
        messages.append({"role": "assistant", "content": json.dumps({"triples": listed}, ensure_ascii=False)})
    messages.append({"role": "user", "content": example["sentence"]})
    return Prompt(messages, json_schema=_schema(ontology))


current, as_written = (partial(_chat_prompt, as_in_sentence) for as_in_sentence in (False, True))
"""The chat prompt, with the names of demonstrations as the dataset has them, or as their sentences write them.

`as_written` shows labels without underscores and quotation marks where a sentence does not mention all of them."""


def _plain_label(name: str) -> str:
    """Return a label without underscores, quotation marks and the parentheses at its end."""
    return QUALIFIER.sub("", name.replace("_", " ").strip('"'))


def short(example: Example, examples: Examples, options: PromptOptions) -> Prompt:
    """Return the chat prompt for small models: no concepts or rules, and a reminder with each sentence.

    The reminder is the last text before the reply: SmolLM2-135M copies more names of the demonstration without it.
    Gemma 3 270M copies more with this prompt than with `current`, but all its replies can be parsed.
    """
    prompt = current(example, examples, options)
    ontology = examples.context.ontologies[example["ontology_id"]]
    messages = [{"role": "system", "content": _instructions(ontology, "short_system")}]
    for each in prompt.messages[1:]:
        asked = each["role"] == "user"
        messages.append({**each, "content": _REMINDER.format(each["content"])} if asked else {**each})
    return replace(prompt, messages=messages)


_REMINDER = "Sentence: {}\nFacts of this sentence, with names from it only:"


def _instructions(ontology: Row, template: str = "current_system") -> str:
    """Return the system message of a template, with the ontology's title, concepts and relations."""
    labels = {each["qid"]: each["label"].strip() for each in reversed(in_prompts(ontology["concepts"]))}

    def concept(name: str) -> str:
        """Return a concept's label, a literal's type ("number") unchanged, and "any" for an id without a label."""
        return labels.get(name) or ("any" if not name or _WIKIDATA_ID.fullmatch(name) else name)

    known = in_prompts(ontology["relations"])
    relations = [
        f"- {underscore_spaces(each['label'].strip())}: {concept(each['domain'])} -> {concept(each['range'])}"
        for each in known
    ]
    return (
        _text(template)
        .rstrip("\n")
        .format(
            title=ontology["title"],
            concepts=", ".join(dict.fromkeys(each["label"].strip() for each in in_prompts(ontology["concepts"]))),
            relations="\n".join(dict.fromkeys(relations)),
            names="\n".join(dict.fromkeys(f"- {underscore_spaces(each['label'].strip())}" for each in known)),
        )
    )


def _schema(ontology: Row) -> dict[str, object]:
    """Return the JSON schema of a reply: triples with the relations of the ontology only."""
    relations = dict.fromkeys(underscore_spaces(each["label"].strip()) for each in in_prompts(ontology["relations"]))
    text = {"type": "string"}
    triple = object_schema(subject=text, relation={"enum": list(relations)}, object=text)
    return object_schema(triples={"type": "array", "items": triple})


@cache
def _text(name: str) -> str:
    return (_TEXTS / f"{name}.txt").read_text(encoding="utf-8")
