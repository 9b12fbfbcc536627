"""What a retriever is built with."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError
from kbbench_hf.knowledge_base.store import KnowledgeBase
from kbbench_hf.model_specs import Option, Options, Spec, yes_or_no
from kbbench_hf.protocols import ProcessGroup, Retriever
from kbbench_hf.retrieval.node_texts import Forms, Text, render

TEXT: dict[str, Option] = {"text": (str, None), "relations": (yes_or_no, None)}
"""The options of every model that reads texts; `RetrieverContext.text` says what they choose."""
Progress = Callable[..., AbstractContextManager[Callable[[int], None]]]
"""`progress(title, total, done=0)` opens a bar and gives the function that moves it on."""


def no_bar(title: str, total: int | None, *, done: int = 0) -> AbstractContextManager[Callable[[int], None]]:
    """Show nothing."""
    return nullcontext(lambda steps: None)


class RunQuery(NamedTuple):
    """A question of the run: its words, its id and the split in which it stands."""

    text: str
    id: str | int
    split: str = ""


@dataclass(frozen=True)
class RetrieverContext:
    """What a retriever is built with: the knowledge base, and how its runner shares out and shows the work."""

    kb: KnowledgeBase
    cache: Path
    """Where embeddings are kept between runs."""
    candidates: NDArray[np.int64] | None = None
    """The rows to rank, ascending; all where None."""
    processes: ProcessGroup = field(default_factory=ProcessGroup)
    progress: Progress = no_bar
    forms: Forms = field(default_factory=Forms)
    """The documents that the benchmark has of its own."""
    plain: str = "text"
    """What a model reads of a node where it is not told, wants no relations, and there is no official document."""
    build: Callable[[Spec, "RetrieverContext"], Retriever] | None = None
    """What builds the parts of a model that is made of others; `retrievers.retriever`."""
    training: Sequence[tuple[str, Sequence[str | int]]] | None = None
    """Training questions and the ids of their answers, for models that learn from them."""
    questions: Sequence[RunQuery] = ()
    """Those of the run; only vectors that others computed are looked up by them."""
    revisions: dict[str, str] = field(default_factory=dict)
    """Filled in as models are loaded: name -> revision."""
    model: str = ""
    """The name of the model that is built."""
    texts_read: dict[str, dict[str, object]] = field(default_factory=dict)
    """Filled in as models choose their texts: model -> `Text.about`."""

    def text(self, options: Options, *, relations: bool, usual: str | None = None) -> Text:
        """Take `text` and `relations` from a model's options, and return the text that they choose.

        Where they are not given: the official document where there is one, else the column `text`; or where the model
        reads `relations` by default, these too, and without an official document `named`. `usual` is another default.
        """
        usual = usual or ("official" if self.forms.official else "named" if relations else self.plain)
        form, with_relations = options.pop("text", None) or usual, options.pop("relations", None)
        chosen = self.forms.choose(form, with_relations, usually=relations)
        self.texts_read[self.model] = chosen.about(self.kb)
        return chosen

    @property
    def own_text(self) -> Text:
        """The text that says what a node is, without its neighbours."""
        return replace(self, texts_read={}).text({}, relations=False)

    def texts(self, text: Text, rows: NDArray[np.int64] | None = None) -> list[str]:
        """Return the texts of the candidates, in the order of their rows, or of those at some of these places."""
        if rows is None:
            return render(self.kb, text, self.candidates, self.forms)
        return render(self.kb, text, rows if self.candidates is None else self.candidates[rows], self.forms)

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
