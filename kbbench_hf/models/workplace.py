"""What a retriever is built with."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.models.renderings import Forms, render
from kbbench_hf.models.specs import Spec
from kbbench_hf.protocols import Retriever

Progress = Callable[..., AbstractContextManager[Callable[[int], None]]]
"""`progress(title, total, done=0)` opens a bar and gives the function that moves it on."""


@dataclass(frozen=True)
class Share:
    """The part of the work that this process (or thread) has: the `rank`-th of `size`."""

    rank: int = 0
    size: int = 1
    gather: Callable[[Any], list[Any]] = lambda value: [value]
    """Gives every process the values of all, in order of rank; all of them must call it."""

    def of(self, items: range) -> range:
        """Return this part of `items`: contiguous, and as even as can be.

        >>> [list(Share(rank, 2).of(range(3))) for rank in range(2)]
        [[0], [1, 2]]
        """
        return items[self.rank * len(items) // self.size : (self.rank + 1) * len(items) // self.size]


def no_bar(title: str, total: int | None, *, done: int = 0) -> AbstractContextManager[Callable[[int], None]]:
    """Show nothing."""
    return nullcontext(lambda steps: None)


@dataclass(frozen=True)
class Workplace:
    """What a retriever is built with: the knowledge base, and how its runner shares out and shows the work."""

    kb: KnowledgeBase
    cache: Path
    """Where embeddings are kept between runs."""
    candidates: NDArray[np.int64] | None = None
    """The rows to rank, ascending; all where None."""
    share: Share = field(default_factory=Share)
    progress: Progress = no_bar
    documents: str | None = None
    """The rendering that the benchmark's published figures used, where it has one of its own."""
    forms: Forms = field(default_factory=dict)
    """The benchmark's own renderings."""
    build: Callable[[Spec, "Workplace"], Retriever] | None = None
    """What builds the parts of a model that is made of others; `retrievers.retriever`."""
    training: Sequence[tuple[str, Sequence[str | int]]] | None = None
    """Training questions and the ids of their answers, for models that learn from them."""
    revisions: dict[str, str] = field(default_factory=dict)
    """Filled in as models are loaded: name -> revision."""

    @property
    def own_text(self) -> str:
        """The rendering that says what a node is, without its neighbours: the default for words."""
        return self.documents or "text"

    @property
    def full_text(self) -> str:
        """The rendering that says all there is: the default for embeddings."""
        return f"{self.documents}_relations" if self.documents else "named"

    def texts(self, rendering: str) -> list[str]:
        """Return the texts of the candidates, in the order of their rows."""
        return render(self.kb, rendering, self.candidates, self.forms)

    @property
    def nodes(self) -> str:
        """What names the texts' owners: the hash of the knowledge base, and of the candidates where these are fewer."""
        if self.candidates is None:
            return self.kb.hash
        return f"{self.kb.hash}:{hashlib.sha256(self.candidates.tobytes()).hexdigest()}"

    def part(self, spec: Spec) -> Retriever:
        """Return a retriever that another one is made of."""
        if self.build is None:
            raise UsageError(f"{spec} is a part of another model, and nothing builds parts here. Use `retriever`.")
        return self.build(spec, self)
