"""Sentence embedder (sentence-transformers), its options and its model's revision; the cache of embeddings.

Texts are encoded once per model revision and text, in blocks, by any number of processes. Retrievers, annotators and
training use it. Names of cache folders depend on settings, revisions and texts: what changes a vector must be in them.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.errors import UsageError, missing_extra
from kbbench_hf.files.writing import whole_file
from kbbench_hf.model_specs import Option, Options, Spec, positive
from kbbench_hf.protocols import Embedder, ProcessGroup, QueryEmbedder
from kbbench_hf.retrieval.context import Progress, RetrieverContext, Text
from kbbench_hf.retrieval.top_k import Vectors

_MAX_LENGTH: dict[str, Option] = {"max_length": (positive, None)}
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

    kind = "embedder"
    """The key of the model in the settings."""

    def __init__(self, model: str, batch: int = 32, max_length: int | None = None, *, normalize: bool = True) -> None:
        self._model = self._load(model)
        if max_length is not None:
            self._model.max_seq_length = max_length
        self._batch, self._normalize = batch, normalize
        self.name = f"{model}@{revision_of(model, self._model)}"
        self.settings = {self.kind: self.name, "max_length": self._model.max_seq_length, "batch": batch}
        if not normalize:
            self.settings["normalize"] = False
        """All settings on which the vectors depend."""

    def _load(self, model: str) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise missing_extra("sentence-transformers", "models") from None
        try:
            return SentenceTransformer(model)
        except (OSError, ValueError) as error:
            raise unloadable(model, error) from error

    def encode(self, texts: Sequence[str]) -> Any:
        """Return one vector per text, shape (n, dimension)."""
        return self._encode(self._model.encode_document, texts)

    def encode_queries(self, texts: Sequence[str]) -> Any:
        """Return one vector per query; differs from `encode` where the model has a prompt for queries."""
        return self._encode(self._model.encode_query, texts)

    def _encode(self, encode: Callable[..., Any], texts: Sequence[str]) -> Any:
        if not texts:
            return np.zeros((0, self._model.get_embedding_dimension()), dtype=np.float32)
        return encode(
            list(texts), batch_size=self._batch, normalize_embeddings=self._normalize, show_progress_bar=False
        )


def first_line(error: Exception) -> str:
    r"""Return the first line of an error's message; its type where it has none.

    >>> first_line(OSError("No such file.\nTry again.")), first_line(EOFError())
    ('No such file.', 'EOFError')
    """
    return next(iter(str(error).splitlines()), type(error).__name__)


def unloadable(model: str, error: Exception) -> UsageError:
    """Return the error for a model that cannot be loaded."""
    return UsageError(
        f"The model {model!r} cannot be loaded: {first_line(error)} "
        "Give a name on the Hub, or the folder of a downloaded model."
    )


def revision_of(source: str, model: Any) -> str:
    """Return the commit on the Hub of a model of sentence-transformers, or for a folder a hash of its files.

    Raises:
        UsageError: it is not known.
    """
    if Path(source).is_dir():
        return folder_hash(Path(source))
    transformer = getattr(model[0], "auto_model", None)  # static embeddings have none
    commit = getattr(getattr(transformer, "config", None), "_commit_hash", None)
    if commit is None:
        raise UsageError(
            f"The revision of {source!r} is not known; expected a commit of the Hub. "
            "Download the model to a folder and give the folder."
        )
    return str(commit)


class TextEmbedder(Embedder, QueryEmbedder, Protocol):
    """An embedder of documents and queries; `settings` are those on which the vectors of documents depend."""

    settings: dict[str, Any]


def from_spec(
    spec: Spec,
    context: RetrieverContext,
    normalize: bool = True,
    make: Callable[..., TextEmbedder] | None = None,
    /,
    **further: Option,
) -> tuple[TextEmbedder, Options]:
    """Return the embedder that `name:model@batch=,max_length=` describes, and the values of further options.

    A served model has `query_prefix=` and `document_prefix=`, percent-encoded, in place of `max_length=`. `make` makes
    an embedder of another kind, which is always local. The context gets the revision of the model.
    """
    if not spec.model:
        raise UsageError(f"{spec.name!r} names no embedding model. Write it like {spec.name}:org/model.")
    own: dict[str, Option] = {"batch": (positive, 32)}
    served = None if make else context.embedder
    own |= dict.fromkeys(("query_prefix", "document_prefix"), (unquote, "")) if served else _MAX_LENGTH
    options = spec.read(**own, **further)
    chosen = {name: options.pop(name) for name in own}
    embedder = (make or served or SentenceEmbedder)(spec.model, normalize=normalize, **chosen)
    context.revisions[spec.model] = embedder.name
    return embedder, options


def folder_hash(folder: Path) -> str:
    """Return a hash of the files in a folder and their names, 40 hex digits; of a trained folder without `ABOUT`.

    Runs and calibrated thresholds record it as the revision of a local model.
    """
    digest = hashlib.sha256()
    ignored = ABOUT if (folder / ABOUT[0]).is_file() else ()
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in ignored):
        digest.update(f"{file.relative_to(folder)}\0".encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:40]


BLOCK_TEXTS = 512
"""Texts encoded and saved at a time; an interruption costs at most one block.

Texts are sorted by length before, so that the last bits of vectors depend on it.
"""


def folder_of(root: Path, **made_of: object) -> Path:
    """Return the cache folder of vectors with these settings, made by this version of the package."""
    described = json.dumps({**made_of, "version": version("kbbench-hf")}, sort_keys=True)
    return root / hashlib.sha256(described.encode()).hexdigest()[:24]


def embed_nodes(context: RetrieverContext, embedder: Any, text: Text) -> Vectors:
    """Return the vectors of the candidates' texts, shape (candidates, dimension); `embedder` has `settings`."""
    folder = folder_of(context.cache, **embedder.settings, text=str(text), nodes=context.nodes)
    return embed(lambda: context.texts(text), embedder, folder, context.processes, context.progress)


def embed(
    render: Callable[[], Sequence[str]], embedder: Embedder, folder: Path, processes: ProcessGroup, progress: Progress
) -> Vectors:
    """Return the vectors of the texts that `render` gives, memory-mapped, shape (n, dimension); see `in_blocks`."""
    whole, render = folder / "vectors.npy", cache(render)
    if (check := getattr(embedder, "check_server", None)) is not None and processes.rank == 0:
        check(folder, render)

    def save(file: Path, texts: Sequence[str]) -> None:
        with whole_file(file) as out:
            np.save(out, embedder.encode(texts))

    def join(blocks: Sequence[NDArray[np.int64]], files: Sequence[Path]) -> None:
        first = np.load(files[0])
        if not len(first):  # no texts: nothing can be mapped
            return save(whole, [])
        shape = (sum(len(rows) for rows in blocks), first.shape[1])
        with whole_file(whole) as out:
            vectors = np.lib.format.open_memmap(out.name, "w+", np.float32, shape)
            for rows, file in zip(blocks, files, strict=True):
                vectors[rows] = np.load(file)
            vectors.flush()
            del vectors  # Windows renames no file that is mapped
        return None

    in_blocks(render, folder, whole, save, join, processes, progress)
    return np.asarray(np.load(whole, mmap_mode="c"))


def in_blocks(
    render: Callable[[], Sequence[str]],
    folder: Path,
    whole: Path,
    save: Callable[[Path, Sequence[str]], None],
    join: Callable[[Sequence[NDArray[np.int64]], Sequence[Path]], None],
    processes: ProcessGroup,
    progress: Progress,
) -> None:
    """Make `whole` where it is missing: all processes encode blocks of texts, and the first process joins them.

    Blocks in `folder` are not encoded again. Texts of similar length are encoded together (padding would cost twice the
    work), in blocks that depend on the texts alone. So the vectors are the same bytes for any number of processes and
    interruptions.

    Args:
        render: gives the texts.
        folder: where blocks are until they are joined.
        whole: the file that `join` writes last.
        save: encodes texts into a file.
        join: writes `whole` from the places of the texts of each block and its file.
        processes: the group of processes, all of which must call this; each encodes every `size`-th block.
        progress: opens the bar.
    """
    if all(processes.gather(whole.is_file())):
        return
    texts = render()
    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort([-len(text) for text in texts], kind="stable")
    blocks = np.split(order, range(BLOCK_TEXTS, len(order), BLOCK_TEXTS))
    files = [folder / f"block-{number:06d}{whole.suffix}" for number in range(len(blocks))]
    own = range(processes.rank, len(blocks), processes.size)
    missing = [block for block in own if not files[block].is_file()]
    total, left = (sum(len(blocks[block]) for block in each) for each in (own, missing))
    with progress("Encoding texts", total, done=total - left) as advance:
        for block in missing:
            advance(0)  # waits while the run is paused
            save(files[block], [texts[row] for row in blocks[block]])
            advance(len(blocks[block]))
    processes.gather(None)  # no block is missing when they are joined
    if processes.rank == 0 and not whole.is_file():
        join(blocks, files)
        for file in files:
            file.unlink(missing_ok=True)
    processes.gather(None)  # the whole is there when it is read
