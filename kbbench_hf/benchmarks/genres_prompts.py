"""GenRES's three ways to ask for triples, one prompt per dataset, in our own words and known by hash.

Open extraction names nothing; semi-open lists relations and entity types; closed gives the pairs and asks for the
relation. The texts lie in `texts/genres/`. The release asked different models differently within one dataset, so its
published rows are not comparable there; its prompts state no licence and are read from a clone when asked for.
"""

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import Any

from kbbench_hf.benchmarks.base import Example, Examples, Prompt, PromptFunction, PromptOptions
from kbbench_hf.errors import UsageError, unknown_name

_TEXTS = Path(__file__).parent / "texts" / "genres"
_SCOPES = {
    "sentence": "The text is one sentence.",
    "bag": "The text is one sentence out of many on the same things; it may relate more than one pair.",
    "document": "The text is a whole document: relations may span its sentences. Call a thing by one name throughout.",
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "triples": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3},
        }
    },
    "required": ["triples"],
    "additionalProperties": False,
}
_MAX_TOKENS = {"sentence": 512, "bag": 512, "document": 2048}


def open_prompt(example: Example, examples: Examples, options: PromptOptions) -> Prompt:
    """Ask for every relation of the text, in the model's own words."""
    return _prompt("open", example, examples, options, lambda text, triples: f"Text: {text}")


def semi_open_prompt(example: Example, examples: Examples, options: PromptOptions) -> Prompt:
    """Ask for those relations of the text that the dataset has, between things of the dataset's types."""
    return _prompt("semi_open", example, examples, options, lambda text, triples: f"Text: {text}")


def closed_prompt(example: Example, examples: Examples, options: PromptOptions) -> Prompt:
    """Give the gold pairs of the text and ask for the relation of each: what is measured is classification."""
    return _prompt("closed", example, examples, options, _with_pairs)


def prompt_sha256(strategy: str, examples: Examples) -> str:
    """Return the hash of the prompt that a strategy (`open`, `semi-open`, `closed`) makes for these examples' dataset.

    It covers all but the example's own text and pairs.

    Raises:
        UsageError: there is no such strategy.
    """
    known = {"open": open_prompt, "semi-open": semi_open_prompt, "closed": closed_prompt}
    if strategy not in known:
        raise unknown_name("strategy", strategy, known)
    blank = known[strategy]({"text": "", "triples_stated": []}, examples, PromptOptions())
    return sha256(json.dumps(blank.messages, ensure_ascii=False).encode()).hexdigest()


def released(clone: Path, name: str) -> PromptFunction:
    """Return a prompt of the release, `general_bag` say, read from the user's clone; nothing of it is shipped.

    Raises:
        UsageError: the clone has no such prompt.
    """
    folder = clone / "prompts"
    file = folder / f"{name}.txt"
    if not file.is_file():
        if not folder.is_dir():
            raise UsageError(f"{clone} holds no 'prompts'; expected a clone of GenRES. Check the path.")
        raise unknown_name("prompt of the release", name, [path.stem for path in folder.glob("*.txt")])
    template = file.read_text(encoding="utf-8")

    def prompt(example: Example, examples: Examples, options: PromptOptions) -> Prompt:
        content = template.replace("$TEXT$", example["text"])
        content = content.replace("$RELATION_SET$", f"[{', '.join(examples.context.relations)}]")
        types = _dataset(examples.context.config)["entity_types"]
        content = content.replace("$ENTITY_TYPE_SET$", f"[{', '.join(map(str.upper, types))}]")
        return Prompt([{"role": "user", "content": content}], max_tokens=800)

    return prompt


def _prompt(
    strategy: str,
    example: Example,
    examples: Examples,
    options: PromptOptions,
    question: Callable[[str, list[list[str]]], str],
) -> Prompt:
    dataset = _dataset(examples.context.config)
    level = dataset["level"]
    system = Template(_text(f"{strategy}.txt")).substitute(
        SCOPE=_SCOPES[level],
        RELATIONS=", ".join(examples.context.relations),
        ENTITY_TYPES=", ".join(dataset["entity_types"]),
    )
    messages = [{"role": "system", "content": system.strip()}]
    if options.shots and options.demonstrations != "none":
        messages.append({"role": "user", "content": question(dataset["text"], dataset["triples"])})
        messages.append({"role": "assistant", "content": json.dumps({"triples": dataset["triples"]})})
    pairs = [[triple["sub"], triple["rel"], triple["obj"]] for triple in example["triples_stated"]]
    messages.append({"role": "user", "content": question(example["text"], pairs)})
    return Prompt(messages, max_tokens=_MAX_TOKENS[level], json_schema=_SCHEMA)


def _with_pairs(text: str, triples: list[list[str]]) -> str:
    pairs = "\n".join(f"- {json.dumps([head, tail], ensure_ascii=False)}" for head, _, tail in triples)
    return f"Text: {text}\nPairs:\n{pairs}"


def _dataset(config: str) -> dict[str, Any]:
    dataset: dict[str, Any] = _datasets()[config]
    return dataset


@cache
def _datasets() -> dict[str, Any]:
    datasets: dict[str, Any] = json.loads(_text("datasets.json"))
    return datasets


@cache
def _text(name: str) -> str:
    return (_TEXTS / name).read_text(encoding="utf-8")
