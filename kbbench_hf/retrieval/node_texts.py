"""Which text stands for a node: what a model's options `text` and `relations` choose from.

===========  ========================================================================================================
`text`       the column of that name, of a node without text the name
`named`      `name: X. type: T. TEXT`, which tells an embedding what kind of thing a text is about
`name`       the name alone
`clean`      all that is known of a node, nothing cut; every knowledge base has it
`official`   the document on which a benchmark's published figures were measured, where it has one
`compact`    `official` on one line, of other knowledge bases `clean`
===========  ========================================================================================================

A benchmark's forms also go by their own names, as `prime` and, on one line, `prime_compact`. With `relations=yes` a
document ends in the names of the node's neighbours, by relation; the first three are columns and have none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.knowledge_base.store import KnowledgeBase

if TYPE_CHECKING:
    from kbbench_hf.knowledge_base.documents import Rendering

Rows = NDArray[np.int64] | None


@dataclass(frozen=True)
class Text:
    """The text that stands for a node: one of the forms, and whether its neighbours are named."""

    form: str
    relations: bool = False

    def __str__(self) -> str:
        """Return it in words, for a run's record."""
        form = "text or name" if self.form == "text" else self.form
        return f"{form}{' with relations' if self.relations else ''}"

    def about(self, kb: KnowledgeBase) -> dict[str, object]:
        """Return its rendering and the fields of nodes that it reads, for a run's record."""
        fields = FIELDS.get(self.form, [name for name in kb.nodes.column_names if name != "id"])
        neighbors = ["names of neighbors"] if self.relations else []
        return {"rendering": self.form, "relations": self.relations, "fields": [*fields, *neighbors]}


def _named(kb: KnowledgeBase, rows: Rows) -> list[str]:
    columns = zip(kb.names(rows), kb.types(rows), kb.texts(rows), strict=True)
    return [f"name: {name}. type: {node_type}. {body}" for name, node_type, body in columns]


COLUMNS: Mapping[str, Callable[[KnowledgeBase, Rows], list[str]]] = {
    "text": lambda kb, rows: [
        text if text.strip() else name for name, text in zip(kb.names(rows), kb.texts(rows), strict=True)
    ],
    "named": _named,
    "name": lambda kb, rows: kb.names(rows),
}
"""What every knowledge base can be written as from its columns alone."""
FIELDS = {"text": ["text", "name where text is empty"], "named": ["name", "type", "text"], "name": ["name"]}
"""The columns that each of them reads."""
_COMPACT = "_compact"


@dataclass(frozen=True)
class Forms:
    """The documents that a knowledge base has, beside its columns."""

    documents: Mapping[str, Callable[[], "Rendering"]] = field(default_factory=dict)
    """A benchmark's own, by name."""
    official: str | None = None
    """The one of them on which its published figures were measured."""

    @property
    def names(self) -> list[str]:
        """What `text` can be."""
        official = ["official"] if self.official else []
        return [*COLUMNS, "clean", *official, "compact", *self.documents, *(each + _COMPACT for each in self.documents)]

    def choose(self, name: str, relations: bool | None = None, *, usually: bool = False) -> Text:
        """Return the text of that name; with relations as asked, else where it has some and a model `usually` does.

        Raises:
            UsageError: no form has this name, or a column was asked for relations.
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
    found: list[str] = documents.render(kb, rendering, rows, relations=chosen.relations, compact=compact).to_pylist()
    return found
