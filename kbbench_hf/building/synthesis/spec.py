"""What is to be made: the templates, the bounds, the words; read from YAML."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import yaml

from kbbench_hf.building.synthesis.judging import Models
from kbbench_hf.building.synthesis.schema import Step
from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.knowledge_base.metapaths import Metapath

EXAMPLE = Path(__file__).with_name("spec_example.yaml")
"""What `--spec-example` prints."""


@dataclass(frozen=True)
class Template:
    """A metapath, and how the answer of it may be said: noun phrases in the plural, topics in braces by their type."""

    metapath: str
    name: str = ""
    phrases: tuple[str, ...] = ()

    @cached_property
    def path(self) -> Metapath:
        """The metapath, parsed."""
        return Metapath.parse(self.metapath)


@dataclass(frozen=True)
class Words:
    """How a type is said, in the singular."""

    types: Mapping[str, str] = field(default_factory=dict)
    relations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """One step, or a relation alone -> relative clauses about the node that it leads to, with `{x}` for the other."""

    def of(self, step: Step) -> tuple[str, ...] | None:
        """Return the clauses given for a step, or for its relation; None where there are none."""
        return self.relations.get(f"{step.start} -[{step.arrow}]-> {step.end}") or self.relations.get(step.arrow)


@dataclass(frozen=True)
class Spec:
    """The choices of a construction; every one has a default."""

    templates: tuple[Template, ...] = ()
    """Found in the knowledge base where there are none."""
    skip_absent: bool = False
    """Whether listed templates with types or relations that the knowledge base lacks are left out, and no error."""
    words: Words = Words()
    max_templates: int = 60
    max_hops: int = 3
    negation: bool = False
    least_answers: int = 1
    most_answers: int = 20
    most_candidates: int = 500
    requirements: int = 2
    """At most so many on attributes and texts, 0 to 2."""
    splits: Mapping[str, float] = field(default_factory=lambda: {"train": 0.6, "validation": 0.2, "test": 0.2})
    models: Models | None = None
    """Who writes and judges the questions; None where a grammar does."""
    strict: bool = False
    """Whether questions that share any answer stay in one split."""

    @classmethod
    def read(cls, text: str, where: str) -> Self:
        """Return what a YAML document says.

        >>> Spec.read("requirements: 1", "spec.yaml").requirements
        1

        Raises:
            DataError: it is no YAML, or a value is not what is expected; the message names it.
            UsageError: a key is unknown, or a metapath malformed.
        """
        try:
            said = yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            raise DataError(f"{where} is not YAML: {error}. See: kbbench synthesize --spec-example") from None
        return cls.of(said, where)

    @classmethod
    def of(cls, said: Any, where: str) -> Self:
        """Return what the keys of a document say; raises as `read`."""
        if not isinstance(said, dict):
            raise DataError(
                f"{where} holds a {type(said).__name__}; expected keys. See: kbbench synthesize --spec-example"
            )
        known = [each.name for each in fields(cls)]
        if strangers := [key for key in said if key not in known]:
            raise unknown_name(f"key of {where}", str(strangers[0]), known)
        return replace(
            cls(), **{key: _READERS.get(key, _plain)(value, f"{where}, {key}") for key, value in said.items()}
        )

    def __post_init__(self) -> None:
        """Refuse bounds that cannot be met."""
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


def _plain(value: Any, where: str) -> Any:
    if type(value) not in (int, bool):
        raise DataError(f"{where}: {value!r}; expected a number, or true or false. Correct the spec.")
    return value


def _templates(value: Any, where: str) -> tuple[Template, ...]:
    rows = value if isinstance(value, list) else [value]
    made = []
    for row in rows:
        row = {"metapath": row} if isinstance(row, str) else row
        if (
            not isinstance(row, dict)
            or not isinstance(row.get("metapath"), str)
            or row.keys()
            - {
                "metapath",
                "name",
                "phrases",
            }
        ):
            raise DataError(f"{where}: {row!r}; expected metapath and, if wanted, name and phrases. Correct the spec.")
        template = Template(row["metapath"], str(row.get("name", "")), _texts(row.get("phrases", []), where))
        for phrase in template.phrases:
            if lost := [topic for topic in template.path.topics if f"{{{topic}}}" not in phrase]:
                raise DataError(f"{where}: {phrase!r} does not name {{{lost[0]}}}. Add it to the phrase.")
        made.append(template)
    return tuple(made)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) and each for each in texts):
        raise DataError(f"{where}: {value!r}; expected a text, or a list of texts. Correct the spec.")
    return tuple(texts)


def _words(value: Any, where: str) -> Words:
    if not isinstance(value, dict) or value.keys() - {"types", "relations"}:
        raise DataError(f"{where}: {value!r}; expected types and relations. Correct the spec.")
    types = {str(name): str(said) for name, said in (value.get("types") or {}).items()}
    relations = {str(name): _texts(said, f"{where}, {name}") for name, said in (value.get("relations") or {}).items()}
    for name, clauses in relations.items():
        if lost := [clause for clause in clauses if "{x}" not in clause]:
            raise DataError(f"{where}, {name}: {lost[0]!r} has no {{x}}; expected it where the other node is named.")
    return Words(types, relations)


def _splits(value: Any, where: str) -> Mapping[str, float]:
    if not isinstance(value, dict) or not all(type(share) in (int, float) for share in value.values()):
        raise DataError(f"{where}: {value!r}; expected names with their shares. Correct the spec.")
    return {str(name): float(share) for name, share in value.items()}


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "templates": _templates,
    "words": _words,
    "splits": _splits,
    "models": Models.of,
}
