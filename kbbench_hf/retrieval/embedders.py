"""Sentence embedder (sentence-transformers), its options and the revision of its model."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError, missing_extra
from kbbench_hf.model_specs import Option, Options, Spec, positive

ABOUT = ("training.json", "README.md", "controls.json")
"""Files of a trained folder on which no score depends."""


class SentenceEmbedder:
    """A sentence-transformers model.

    Args:
        model: a name on the Hub or a folder.
        batch: texts per forward pass.
        max_length: tokens after which a text is cut; the model's own limit where None.
        normalize: whether vectors have length 1, so that an inner product is a cosine.
    """

    def __init__(self, model: str, batch: int = 32, max_length: int | None = None, *, normalize: bool = True) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise missing_extra("sentence-transformers", "models") from None
        try:
            self._model = SentenceTransformer(model)
        except (OSError, ValueError) as error:
            raise unloadable(model, error) from error
        if max_length is not None:
            self._model.max_seq_length = max_length
        self._batch, self._normalize = batch, normalize
        self.name = f"{model}@{revision_of(model, self._model)}"
        self.settings = {"embedder": self.name, "max_length": self._model.max_seq_length, "batch": batch}
        if not normalize:
            self.settings["normalize"] = False
        """All settings on which the vectors depend."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text, shape (n, dimension)."""
        return self._encode(self._model.encode_document, texts)

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per query; differs from `encode` where the model has a prompt for queries."""
        return self._encode(self._model.encode_query, texts)

    def _encode(self, encode: Callable[..., NDArray[np.float32]], texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self._model.get_embedding_dimension()), dtype=np.float32)
        return encode(
            list(texts), batch_size=self._batch, normalize_embeddings=self._normalize, show_progress_bar=False
        )


def unloadable(model: str, error: Exception) -> UsageError:
    """Return the error for a model that cannot be loaded."""
    return UsageError(
        f"The model {model!r} cannot be loaded: {str(error).splitlines()[0]} "
        "Give a name on the Hub, or the folder of a downloaded model."
    )


def revision_of(source: str, model: Any) -> str:
    """Return the commit on the Hub of a model of sentence-transformers, or for a folder a hash of its files.

    Raises:
        UsageError: it is not known.
    """
    if Path(source).is_dir():
        return folder_hash(Path(source))
    commit = getattr(model[0].auto_model.config, "_commit_hash", None)
    if commit is None:
        raise UsageError(
            f"The revision of {source!r} is not known; expected a commit of the Hub. "
            "Download the model to a folder and give the folder."
        )
    return str(commit)


def from_spec(spec: Spec, normalize: bool = True, /, **further: Option) -> tuple[SentenceEmbedder, Options]:
    """Return the embedder that `name:model@batch=,max_length=` describes, and the values of further options."""
    if not spec.model:
        raise UsageError(f"{spec.name!r} names no embedding model. Write it like {spec.name}:org/model.")
    options = spec.read(batch=(positive, 32), max_length=(positive, None), **further)
    batch, longest = options.pop("batch"), options.pop("max_length")
    return SentenceEmbedder(spec.model, batch, longest, normalize=normalize), options


def folder_hash(folder: Path) -> str:
    """Return a hash of the files in a folder and their names; of a trained folder without `ABOUT`."""
    digest = hashlib.sha256()
    ignored = ABOUT if (folder / ABOUT[0]).is_file() else ()
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in ignored):
        digest.update(f"{file.relative_to(folder)}\0".encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:40]
