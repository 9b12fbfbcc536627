"""Options of question synthesis (templates, bounds, words, models), parsed from YAML."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import yaml

from kbbench_hf.building.synthesis.schema import RelationStep
from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.knowledge_base.metapaths import Metapath

EXAMPLE = Path(__file__).with_name("spec_example.yaml")
"""What `--spec-example` prints."""


@dataclass(frozen=True)
class Template:
    """A metapath, and wordings of its answer: plural noun phrases with the topics' types in braces."""

    metapath: str
    name: str = ""
    phrases: tuple[str, ...] = ()

    @cached_property
    def path(self) -> Metapath:
        """The metapath, parsed."""
        return Metapath.parse(self.metapath)


@dataclass(frozen=True)
class SpecWords:
    """Wordings of types and relations."""

    types: Mapping[str, str] = field(default_factory=dict)
    """Type -> its name in the singular."""
    relations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """One step, or a relation alone -> relative clauses about the node that it leads to, with `{x}` for the other."""

    def of(self, step: RelationStep) -> tuple[str, ...] | None:
        """Return the clauses given for a step, or for its relation; None where there are none."""
        return self.relations.get(f"{step.start} -[{step.arrow}]-> {step.end}") or self.relations.get(step.arrow)


@dataclass(frozen=True)
class Server:
    """A model, and where it is served; `hf:MODEL` without a `base_url` runs on this machine."""

    model: str
    base_url: str = ""
    api_key_env: str = ""


@dataclass(frozen=True)
class Models:
    """The models of a construction, step by step."""

    extract: Server
    fuse: Server
    rewrite: Server
    judges: tuple[Server, ...]
    agreement: str = "all"
    """`all` or `majority` of the judges keep a candidate."""
    structured: bool = False
    """Whether replies are constrained to a JSON schema."""
    max_tokens: int | None = None
    """The longest reply; None for the prompts' own limit."""

    @classmethod
    def of(cls, value: Any, where: str) -> "Models":
        """Parse the value of `models` in a spec.

        Raises:
            DataError: a step has no model, or there are other keys; the message names it.
        """
        steps = ("extract", "fuse", "rewrite", "judges")
        optional = ("agreement", "structured", "max_tokens")
        if not isinstance(value, dict) or value.keys() - {*steps, *optional} or set(steps) - value.keys():
            raise DataError(f"{where}: {value!r}; expected {', '.join(steps)} and, if wanted, {', '.join(optional)}.")
        if not isinstance(value["judges"], list) or len(value["judges"]) < 2:
            raise DataError(f"{where}, judges: {value['judges']!r}; expected a list of three models, two at least.")
        given = {key: value[key] for key in optional if key in value}
        extract, fuse, rewrite = (_server(value[step], f"{where}, {step}") for step in steps[:3])
        judges = tuple(_server(each, f"{where}, judges") for each in value["judges"])
        models = cls(extract, fuse, rewrite, judges, **given)
        longest = models.max_tokens
        for key, is_right, expected in (
            ("agreement", models.agreement in ("all", "majority"), "all or majority"),
            ("structured", isinstance(models.structured, bool), "true or false"),
            ("max_tokens", longest is None or (isinstance(longest, int) and longest > 0), "a number from 1"),
        ):
            if not is_right:
                raise DataError(f"{where}, {key}: {value[key]!r}; expected {expected}. Correct the spec.")
        return models


def _server(value: Any, where: str) -> Server:
    known = {"model", "base_url", "api_key_env"}
    if not isinstance(value, dict) or value.keys() - known or not value.get("model"):
        raise DataError(f"{where}: {value!r}; expected model and, if it is served, base_url and api_key_env.")
    return Server(**{key: str(each) for key, each in value.items()})


@dataclass(frozen=True)
class SynthesisSpec:
    """The options of question synthesis."""

    templates: tuple[Template, ...] = ()
    """Derived from the knowledge base where empty."""
    skip_absent: bool = False
    """Whether listed templates with types or relations that the knowledge base lacks are skipped."""
    words: SpecWords = SpecWords()
    max_templates: int = 60
    max_hops: int = 3
    negation: bool = False
    least_answers: int = 1
    most_answers: int = 20
    most_candidates: int = 500
    requirements: int = 2
    """Maximum number of conditions on attributes and texts per question, 0 to 2."""
    splits: Mapping[str, float] = field(default_factory=lambda: {"train": 0.6, "validation": 0.2, "test": 0.2})
    models: Models | None = None
    """Models that write and judge the questions; None for the grammar."""
    strict: bool = False
    """Whether questions that share any answer stay in one split."""

    @classmethod
    def read(cls, text: str, where: str) -> Self:
        """Parse a YAML document.

        >>> SynthesisSpec.read("requirements: 1", "spec.yaml").requirements
        1

        Raises:
            DataError: it is no YAML, or a value is not what is expected; the message names it.
            UsageError: a key is unknown, or a metapath malformed.
        """
        try:
            value = yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            raise DataError(f"{where} is not YAML: {error}. See: kbbench synthesize --spec-example") from None
        return cls.of(value, where)

    @classmethod
    def of(cls, given: Any, where: str) -> Self:
        """Parse the keys of a document; raises as `read`."""
        if not isinstance(given, dict):
            raise DataError(
                f"{where} holds a {type(given).__name__}; expected keys. See: kbbench synthesize --spec-example"
            )
        known = [each.name for each in fields(cls)]
        if unknown := [key for key in given if key not in known]:
            raise unknown_name(f"key of {where}", str(unknown[0]), known)
        return cls(**{key: _PARSERS.get(key, _number)(value, f"{where}, {key}") for key, value in given.items()})

    def __post_init__(self) -> None:
        """Check the bounds."""
        if not 1 <= self.least_answers <= self.most_answers <= self.most_candidates:
            raise UsageError(
                f"{self.least_answers} to {self.most_answers} answers of at most {self.most_candidates} candidates; "
                "expected 1 <= least_answers <= most_answers <= most_candidates. Correct the spec."
            )
        for name, value, low, high in (
            ("requirements", self.requirements, 0, 2),
            ("max_hops", self.max_hops, 1, 3),
            ("max_templates", self.max_templates, 1, 10_000),
        ):
            if type(value) is not int or not low <= value <= high:
                raise UsageError(f"{name}: {value!r}; expected a whole number from {low} to {high}. Correct the spec.")
        if not self.splits or any(not share > 0 for share in self.splits.values()):
            raise UsageError(f"splits: {dict(self.splits)!r}; expected a share above 0 for each. Correct the spec.")


def _number(value: Any, where: str) -> Any:
    if type(value) not in (int, bool):
        raise DataError(f"{where}: {value!r}; expected a number, or true or false. Correct the spec.")
    return value


def _templates(value: Any, where: str) -> tuple[Template, ...]:
    templates = []
    for row in value if isinstance(value, list) else [value]:
        row = {"metapath": row} if isinstance(row, str) else row
        known = {"metapath", "name", "phrases"}
        if not isinstance(row, dict) or not isinstance(row.get("metapath"), str) or row.keys() - known:
            raise DataError(f"{where}: {row!r}; expected metapath and, if wanted, name and phrases. Correct the spec.")
        template = Template(row["metapath"], str(row.get("name", "")), _texts(row.get("phrases", []), where))
        for phrase in template.phrases:
            if lost := [topic for topic in template.path.topics if f"{{{topic}}}" not in phrase]:
                raise DataError(f"{where}: {phrase!r} does not name {{{lost[0]}}}. Add it to the phrase.")
        templates.append(template)
    return tuple(templates)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) and each for each in texts):
        raise DataError(f"{where}: {value!r}; expected a text, or a list of texts. Correct the spec.")
    return tuple(texts)


def _words(value: Any, where: str) -> SpecWords:
    if not isinstance(value, dict) or value.keys() - {"types", "relations"}:
        raise DataError(f"{where}: {value!r}; expected types and relations. Correct the spec.")
    types = {str(name): str(word) for name, word in (value.get("types") or {}).items()}
    given = value.get("relations") or {}
    relations = {str(name): _texts(clauses, f"{where}, {name}") for name, clauses in given.items()}
    for name, clauses in relations.items():
        if lost := [clause for clause in clauses if "{x}" not in clause]:
            raise DataError(f"{where}, {name}: {lost[0]!r} has no {{x}}; expected it where the other node is named.")
    return SpecWords(types, relations)


def _splits(value: Any, where: str) -> Mapping[str, float]:
    if not isinstance(value, dict) or not all(type(share) in (int, float) for share in value.values()):
        raise DataError(f"{where}: {value!r}; expected names with their shares. Correct the spec.")
    return {str(name): float(share) for name, share in value.items()}


_PARSERS: dict[str, Callable[[Any, str], Any]] = {
    "templates": _templates,
    "words": _words,
    "splits": _splits,
    "models": Models.of,
}
