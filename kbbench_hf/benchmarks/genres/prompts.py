"""GenRES's three ways to ask for triples, one prompt per dataset, in our own words.

Open extraction names nothing; semi-open lists relations and entity types; closed gives the pairs and asks for the
relation. The texts lie in `texts/`. The release asked different models differently within one dataset, so its
published rows are not comparable there; its prompts state no licence and are read from a clone when asked for.
"""

import json
from functools import cache, partial
from pathlib import Path
from string import Template

from kbbench_hf.benchmarks.base import Example, Examples, Prompt, PromptFunction, PromptOptions
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import Row

_TEXTS = Path(__file__).parent / "texts"
_SCOPES = {
    "sentence": "The text is one sentence.",
    "bag": "The text is one sentence out of many on the same things; it may relate more than one pair.",
    "document": "The text is a whole document: relations may span its sentences. Call a thing by one name throughout.",
}
_SCHEMA = json.loads(Path(__file__).with_name("reply_schema.json").read_text(encoding="utf-8"))
_MAX_TOKENS = {"sentence": 512, "bag": 512, "document": 2048}


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
        types = _datasets()[examples.context.config]["entity_types"]
        content = content.replace("$ENTITY_TYPE_SET$", f"[{', '.join(map(str.upper, types))}]")
        return Prompt([{"role": "user", "content": content}], max_tokens=800)

    return prompt


def _prompt(strategy: str, example: Example, examples: Examples, options: PromptOptions) -> Prompt:
    question = _with_pairs if strategy == "closed" else _without_pairs
    dataset = _datasets()[examples.context.config]
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


open_prompt = partial(_prompt, "open")
"""Asks for every relation of the text, in the model's own words."""
semi_open_prompt = partial(_prompt, "semi_open")
"""Asks for those relations of the text that the dataset has, between things of the dataset's types."""
closed_prompt = partial(_prompt, "closed")
"""Gives the gold pairs of the text and asks for the relation of each: what is measured is classification."""


def _without_pairs(text: str, triples: list[list[str]]) -> str:
    return f"Text: {text}"


def _with_pairs(text: str, triples: list[list[str]]) -> str:
    pairs = "\n".join(f"- {json.dumps([head, tail], ensure_ascii=False)}" for head, _, tail in triples)
    return f"Text: {text}\nPairs:\n{pairs}"


@cache
def _datasets() -> dict[str, Row]:
    datasets: dict[str, Row] = json.loads(_text("datasets.json"))
    return datasets


@cache
def _text(name: str) -> str:
    return (_TEXTS / name).read_text(encoding="utf-8")
