"""Options of question synthesis (templates, bounds, words, models), parsed from YAML.

`synthesize` parses users' specs and those of datasets with it. The keys are public: those of `SynthesisSpec` and of the
classes in it, as `spec_example.yaml` shows them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_type_hints

import msgspec
import yaml
from msgspec import Meta

from kbbench_hf.building.synthesis.schema import RelationStep
from kbbench_hf.errors import DataError, UsageError, unknown_name
from kbbench_hf.knowledge_base.metapaths import Metapath

EXAMPLE = Path(__file__).with_name("spec_example.yaml")
"""What `--spec-example` prints."""


class SpecTexts(tuple[str, ...]):
    """Several texts; a spec may have one text in place of a list."""

    @classmethod
    def read(cls, kind: type, value: Any) -> Self:
        """Return the texts of a value in a spec; msgspec turns the ValueError for anything else into its own."""
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(each, str) and each for each in texts):
            raise ValueError(f"{value!r} is neither a text nor a list of texts")
        return cls(texts)


class Template(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """A metapath, and wordings of its answer: plural noun phrases with the topics' types in braces."""

    metapath: str
    name: str = ""
    phrases: SpecTexts = SpecTexts()

    def __post_init__(self) -> None:
        """Check that each phrase names all topics."""
        for phrase in self.phrases:
            if lost := [topic for topic in self.path.topics if f"{{{topic}}}" not in phrase]:
                raise ValueError(f"{phrase!r} does not name {{{lost[0]}}}")

    @cached_property
    def path(self) -> Metapath:
        """The metapath, parsed."""
        return Metapath.parse(self.metapath)


class SpecWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Wordings of types and relations."""

    types: dict[str, str] = {}
    """Type -> its name in the singular."""
    relations: dict[str, SpecTexts] = {}
    """One step, or a relation alone -> relative clauses about the node that it leads to, with `{x}` for the other."""

    def __post_init__(self) -> None:
        """Check that each clause has a place for the other node."""
        for name, clauses in self.relations.items():
            if lost := [clause for clause in clauses if "{x}" not in clause]:
                raise ValueError(f"{name}: {lost[0]!r} has no {{x}} where the other node is named")

    def of(self, step: RelationStep) -> SpecTexts | None:
        """Return the clauses given for a step, or for its relation; None where there are none."""
        return self.relations.get(f"{step.start} -[{step.arrow}]-> {step.end}") or self.relations.get(step.arrow)


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model, and where it is served; `hf:MODEL` without a `base_url` runs on this machine."""

    model: Annotated[str, Meta(min_length=1)]
    base_url: str = ""
    api_key_env: str = ""


class Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The models of a construction, step by step."""

    extract: Server
    fuse: Server
    rewrite: Server
    judges: Annotated[tuple[Server, ...], Meta(min_length=2)]
    agreement: Literal["all", "majority"] = "all"
    """`all` or `majority` of the judges keep a candidate."""
    structured: bool = False
    """Whether replies are constrained to a JSON schema."""
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    """The longest reply; None for the prompts' own limit."""


@dataclass(frozen=True)
class SynthesisSpec:
    """The options of question synthesis."""

    templates: tuple[Template, ...] = ()
    """Derived from the knowledge base where empty."""
    skip_absent: bool = False
    """Whether listed templates with types or relations that the knowledge base lacks are skipped."""
    words: SpecWords = field(default_factory=SpecWords)
    max_templates: Annotated[int, Meta(ge=1, le=10_000)] = 60
    max_hops: Annotated[int, Meta(ge=1, le=3)] = 3
    negation: bool = False
    least_answers: int = 1
    most_answers: int = 20
    most_candidates: int = 500
    requirements: Annotated[int, Meta(ge=0, le=2)] = 2
    """Maximum number of conditions on attributes and texts per question, 0 to 2."""
    splits: Annotated[Mapping[str, Annotated[float, Meta(gt=0)]], Meta(min_length=1)] = field(
        default_factory=lambda: {"train": 0.6, "validation": 0.2, "test": 0.2}
    )
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
        """Parse the keys of a document, `where` in messages; those without a value are absent. Raises as `read`."""
        if not isinstance(given, dict):
            raise DataError(
                f"{where} holds a {type(given).__name__}; expected keys. See: kbbench synthesize --spec-example"
            )
        kinds, values = get_type_hints(cls, include_extras=True), {}
        for key, value in _filled(given).items():
            if key not in kinds:
                raise unknown_name(f"key of {where}", str(key), kinds)
            if key == "templates":  # one instead of a list, and a metapath alone
                listed = value if isinstance(value, list) else [value]
                value = [{"metapath": each} if isinstance(each, str) else each for each in listed]
            try:
                values[key] = msgspec.convert(value, kinds[key], dec_hook=SpecTexts.read)
            except msgspec.ValidationError as error:
                raise DataError(
                    f"{where}, {key}: {value!r}; expected the form of kbbench synthesize --spec-example, and this is "
                    f"wrong: {error}. Correct the spec."
                ) from None
        return cls(**values)

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises:
            UsageError: they contradict each other.
        """
        if not 1 <= self.least_answers <= self.most_answers <= self.most_candidates:
            raise UsageError(
                f"{self.least_answers} to {self.most_answers} answers of at most {self.most_candidates} candidates; "
                "expected 1 <= least_answers <= most_answers <= most_candidates. Correct the spec."
            )


def _filled(value: Any) -> Any:
    """Return a value of a document without the keys that have none."""
    return {key: _filled(each) for key, each in value.items() if each is not None} if isinstance(value, dict) else value
