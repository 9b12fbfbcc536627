"""RetrieverContext: the inputs from which a retriever is built, and the forms of node texts.

`runners` and `training` make a context; every `build` of this package reads it. The names of forms are written in runs
and in the names of caches: they stay.

The forms are the values of a model's options `text` and `relations`.

===========  ========================================================================================================
`text`       the column of that name, of a node without text the name
`named`      `name: X. type: T. TEXT`, so that an embedding has the type
`name`       the name alone
`clean`      the whole record of a node, nothing cut; every knowledge base has it
`official`   the document of a benchmark's published scores, where it has one
`compact`    `official` on one line, of other knowledge bases `clean`
===========  ========================================================================================================

A benchmark's forms also go by their own names, as `prime` and, on one line, `prime_compact`. With `relations=yes` a
document ends in the names of the node's neighbors, by relation; the first three are columns and have none.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.base import Benchmark, Examples, Prompt
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import Option, Options, Spec, yes_or_no
from kbbench_hf.protocols import ProcessGroup, Retriever

if TYPE_CHECKING:
    from kbbench_hf.knowledge_base.documents import Rendering

Rows = NDArray[np.int64] | None


@dataclass(frozen=True)
class Text:
    """A form of node texts, and whether they have the names of neighbors."""

    form: str
    relations: bool = False

    def __str__(self) -> str:
        """Return the form in words, for a run's record."""
        form = "text or name" if self.form == "text" else self.form
        return f"{form}{' with relations' if self.relations else ''}"

    def about(self, kb: KnowledgeBase) -> dict[str, object]:
        """Return the form and the fields of nodes in it, for a run's record."""
        fields = FIELDS.get(self.form, [name for name in kb.nodes.column_names if name != "id"])
        neighbors = ["names of neighbors"] if self.relations else []
        return {"rendering": self.form, "relations": self.relations, "fields": [*fields, *neighbors]}


def _render_named(kb: KnowledgeBase, rows: Rows) -> list[str]:
    columns = zip(kb.names(rows), kb.types(rows), kb.texts(rows), strict=True)
    return [f"name: {name}. type: {node_type}. {body}" for name, node_type, body in columns]


COLUMNS: Mapping[str, Callable[[KnowledgeBase, Rows], list[str]]] = {
    "text": lambda kb, rows: [
        text if text.strip() else name for name, text in zip(kb.names(rows), kb.texts(rows), strict=True)
    ],
    "named": _render_named,
    "name": lambda kb, rows: kb.names(rows),
}
"""Forms made of columns alone, of every knowledge base: form -> function of rows (all where None) to texts."""
FIELDS = {"text": ["text", "name where text is empty"], "named": ["name", "type", "text"], "name": ["name"]}
"""The columns of each, in the words of a run's record."""
_COMPACT = "_compact"


@dataclass(frozen=True)
class Forms:
    """The forms of a knowledge base besides those of its columns."""

    documents: Mapping[str, Callable[[], "Rendering"]] = field(default_factory=dict)
    """The documents of a benchmark, by name."""
    official: str | None = None
    """The one of its published scores."""

    @classmethod
    def of(cls, benchmark: Benchmark) -> "Forms":
        """Return the forms of a benchmark."""
        return cls(benchmark.asking.documents, benchmark.asking.own_documents)

    @property
    def names(self) -> list[str]:
        """The values of `text`."""
        official = ["official"] if self.official else []
        return [*COLUMNS, "clean", *official, "compact", *self.documents, *(each + _COMPACT for each in self.documents)]

    def choose(self, name: str, relations: bool | None = None, *, usually: bool = False) -> Text:
        """Return the form of this name; relations default to `usually` where the form has any.

        Raises:
            UsageError: no form has this name, or it has no relations.
        """
        if name == "official" and not self.official:
            raise UsageError(
                "This knowledge base has no official document; expected text=clean or another: see --help."
            )
        if name not in self.names:
            raise unknown_name("text", name, self.names)
        if relations and name in COLUMNS:
            documents = ", ".join(each for each in self.names if each not in COLUMNS)
            raise UsageError(
                f"text={name} includes no neighbors; expected relations=no, or one of {documents} with them."
            )
        wanted = name not in COLUMNS and (usually if relations is None else relations)
        own = self.official or "clean"
        return Text({"official": own, "compact": own + _COMPACT}.get(name, name), wanted)


def render(kb: KnowledgeBase, text: Text | str, rows: Rows = None, forms: Forms | None = None) -> list[str]:
    """Return the texts of these nodes, of all where None, in the order of the rows.

    Raises:
        UsageError: no form has the name that was given in place of a text.
    """
    from kbbench_hf.knowledge_base import documents

    forms = forms or Forms()
    chosen = forms.choose(text) if isinstance(text, str) else text
    if chosen.form in COLUMNS:
        return COLUMNS[chosen.form](kb, rows)
    known = {"clean": lambda: documents.CLEAN, **forms.documents}
    rendering, compact = known[chosen.form.removesuffix(_COMPACT)](), chosen.form.endswith(_COMPACT)
    results: list[str] = documents.render(kb, rendering, rows, relations=chosen.relations, compact=compact).to_pylist()
    return results


TEXT: dict[str, Option] = {"text": (str, None), "relations": (yes_or_no, None)}
"""The options of every model that reads texts, see `RetrieverContext.text`."""
PART = 50_000
"""Nodes whose texts are in memory together; no result depends on it."""
Progress = Callable[..., AbstractContextManager[Callable[[int], None]]]
"""`progress(title, total, done=0)` opens a bar and yields the function that advances it."""
Complete = Callable[[Mapping[str, Prompt], int], Mapping[str, Sequence[str]]]
"""(prompts by key, number of samples) -> the responses to each prompt."""


def no_bar(title: str, total: int | None, *, done: int = 0) -> AbstractContextManager[Callable[[int], None]]:
    """Show nothing."""
    return nullcontext(lambda steps: None)


def candidate_rows(examples: Examples, kb: KnowledgeBase) -> NDArray[np.int64] | None:
    """Return the rows that may be ranked, ascending; None where these are all nodes, or the examples name none."""
    candidates = getattr(examples.context, "candidates", None)
    if candidates is None or len(candidates.ids) == len(kb):
        return None
    return np.sort(kb.rows(candidates.ids))


class RunQuery(NamedTuple):
    """A query of the run: its text, id and split."""

    text: str
    id: str | int
    split: str = ""


@dataclass(frozen=True)
class RetrieverContext:
    """The inputs from which a retriever is built."""

    kb: KnowledgeBase
    cache: Path
    """The cache of embeddings."""
    candidates: NDArray[np.int64] | None = None
    """The rows to rank, ascending; all where None."""
    processes: ProcessGroup = field(default_factory=ProcessGroup)
    progress: Progress = no_bar
    forms: Forms = field(default_factory=Forms)
    """The documents of the benchmark."""
    plain: str = "text"
    """The default form of texts without relations where there is no official document."""
    build: Callable[[Spec, "RetrieverContext"], Retriever] | None = None
    """Builds the parts of a model made of others; `retrievers.retriever`."""
    embedder: Callable[..., Any] | None = None
    """Creates the embedders of served models; None where models are local."""
    complete: Callable[[str, Path], Complete] | None = None
    """Creates what samples responses of a served language model, from its name and the cache; None without a server."""
    training: Sequence[tuple[str, Sequence[str | int]]] | None = None
    """Training queries and the ids of their answers, for `knn`."""
    questions: Sequence[RunQuery] = ()
    """The queries of the run, to look up precomputed vectors."""
    revisions: dict[str, str] = field(default_factory=dict)
    """Output: name of each loaded model -> revision."""
    model: str = ""
    """The name of the model to build."""
    warnings: list[ScoreWarning] = field(default_factory=list)
    """Output: warnings on the models."""
    texts_read: dict[str, dict[str, object]] = field(default_factory=dict)
    """Output: model -> `Text.about` of its texts."""

    def text(self, options: Options, *, relations: bool, usual: str | None = None) -> Text:
        """Remove `text` and `relations` from a model's options, and return the form of texts that they select.

        The form is noted in `texts_read`. By default it is the official document, else the column `text`, or `named`
        where the model reads `relations` by default. `usual` is another default.
        """
        usual = usual or ("official" if self.forms.official else "named" if relations else self.plain)
        form, with_relations = options.pop("text", None) or usual, options.pop("relations", None)
        chosen = self.forms.choose(form, with_relations, usually=relations)
        self.texts_read[self.model] = chosen.about(self.kb)
        return chosen

    @property
    def own_text(self) -> Text:
        """The default form of texts without relations."""
        return replace(self, texts_read={}).text({}, relations=False)

    def texts(self, text: Text, rows: NDArray[np.int64] | None = None) -> list[str]:
        """Return the texts of the candidates in the order of their rows, or of the candidates at the places `rows`.

        Places count among the candidates: they are rows of the knowledge base only where all nodes are candidates.
        """
        if rows is None:
            return render(self.kb, text, self.candidates, self.forms)
        return render(self.kb, text, rows if self.candidates is None else self.candidates[rows], self.forms)

    def each_text(self, text: Text) -> Iterator[str]:
        """Yield the text of each candidate in the order of their rows; few of them are in memory at a time."""
        n = len(self.kb) if self.candidates is None else len(self.candidates)
        for start in range(0, n, PART):
            yield from self.texts(text, np.arange(start, min(start + PART, n)))

    @property
    def nodes(self) -> str:
        """The hash of the knowledge base, and of the candidates where these are not all nodes; part of cache names."""
        if self.candidates is None:
            return self.kb.hash
        return f"{self.kb.hash}:{hashlib.sha256(self.candidates.tobytes()).hexdigest()}"

    def part(self, spec: Spec) -> Retriever:
        """Return the retriever of a part of another one's specification.

        Raises:
            UsageError: nothing builds parts in this context.
        """
        if self.build is None:
            raise UsageError(f"{spec} is a part of another model, and nothing builds parts here. Use `retriever`.")
        return self.build(spec, self)
