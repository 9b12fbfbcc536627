"""Forms of node texts: the values of a model's options `text` and `relations`.

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
"""Forms made of columns alone, of every knowledge base."""
FIELDS = {"text": ["text", "name where text is empty"], "named": ["name", "type", "text"], "name": ["name"]}
"""The columns of each."""
_COMPACT = "_compact"


@dataclass(frozen=True)
class Forms:
    """The forms of a knowledge base besides those of its columns."""

    documents: Mapping[str, Callable[[], "Rendering"]] = field(default_factory=dict)
    """The documents of a benchmark, by name."""
    official: str | None = None
    """The one of its published scores."""

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
