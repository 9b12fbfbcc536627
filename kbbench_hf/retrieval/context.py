"""RetrieverContext: the inputs from which a retriever is built (knowledge base, candidates, cache, processes)."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.benchmarks.base import Prompt
from kbbench_hf.benchmarks.examples import Examples
from kbbench_hf.benchmarks.warnings import ScoreWarning
from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import Option, Options, Spec, yes_or_no
from kbbench_hf.protocols import ProcessGroup, Retriever
from kbbench_hf.retrieval.node_texts import Forms, Text, render

TEXT: dict[str, Option] = {"text": (str, None), "relations": (yes_or_no, None)}
"""The options of every model that reads texts, see `RetrieverContext.text`."""
PART = 50_000
"""Nodes whose texts are in memory together."""
Progress = Callable[..., AbstractContextManager[Callable[[int], None]]]
"""`progress(title, total, done=0)` opens a bar and yields the function that advances it."""


Complete = Callable[[Mapping[str, Prompt], int], Mapping[str, Sequence[str]]]
"""(prompts by key, number of samples) -> the responses to each prompt."""


def no_bar(title: str, total: int | None, *, done: int = 0) -> AbstractContextManager[Callable[[int], None]]:
    """Show nothing."""
    return nullcontext(lambda steps: None)


def candidate_rows(examples: Examples, kb: KnowledgeBase) -> NDArray[np.int64] | None:
    """Return the rows that may be ranked, ascending; None where these are all."""
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

        By default it is the official document, else the column `text`, or `named` where the model reads `relations` by
        default. `usual` is another default.
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
        """Return the texts of the candidates in the order of their rows, or of those at the places `rows`."""
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
        """The hash of the knowledge base, and of the candidates where these are not all nodes."""
        if self.candidates is None:
            return self.kb.hash
        return f"{self.kb.hash}:{hashlib.sha256(self.candidates.tobytes()).hexdigest()}"

    def part(self, spec: Spec) -> Retriever:
        """Build a part of another retriever."""
        if self.build is None:
            raise UsageError(f"{spec} is a part of another model, and nothing builds parts here. Use `retriever`.")
        return self.build(spec, self)
