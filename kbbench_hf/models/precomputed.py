"""Embeddings that others computed, read from the files in which published ones are shared.

In a folder of one model for one dataset, `doc/candidate_emb_dict.pt` has a vector for each node id and
`query/query_emb_dict.pt` one for each question id; questions that people wrote have a folder of their own, as
`query_human_generated_eval`. Each file is a dictionary of tensors of shape (1, d) or (d,), as `torch.save` writes it;
nothing else in it is read.
Source: the folders `emb/<dataset>/<model>` of snap-stanford/stark (MIT).
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from kbbench_hf.benchmarks.retrieval import WRITTEN
from kbbench_hf.errors import DataError, UsageError
from kbbench_hf.files import file_sha256
from kbbench_hf.files.writing import whole_file
from kbbench_hf.models.dense import Dense
from kbbench_hf.models.embeddings import folder_of
from kbbench_hf.models.exact_search import Vectors
from kbbench_hf.models.specs import Spec
from kbbench_hf.models.workplace import Question, Workplace

CANDIDATES, QUESTIONS = "candidate_emb_dict.pt", "query_emb_dict.pt"
_SHOWN = 10


def is_precomputed(folder: str) -> bool:
    """Say whether a model's name is a folder of embeddings."""
    return bool(folder) and any(Path(folder).glob(f"doc*/{CANDIDATES}"))


def precomputed(spec: Spec, place: Workplace) -> Dense:
    """Build a search in the vectors of a folder; `documents` is the part of it that holds those of nodes (`doc`).

    Raises:
        DataError: a node or a question has no vector, or a file is none of these.
    """
    options = spec.read(documents=(str, "doc"))
    folder = Path(spec.model)
    file = folder / options["documents"] / CANDIDATES
    if not file.is_file():
        there = ", ".join(sorted(each.parent.name for each in folder.glob(f"doc*/{CANDIDATES}")))
        raise UsageError(f"There is no {file}; {folder} has the documents {there}. Choose with documents=.")
    digest = file_sha256(file)
    place.revisions[spec.model] = f"{file.name}@{digest[:40]}"
    asked = Asked(folder, {question.text: question for question in place.questions})
    ids = place.kb.ids(place.candidates)
    whole = folder_of(place.cache, embeddings=digest, nodes=place.nodes) / "vectors.npy"
    if not all(place.share.gather(whole.is_file())):
        if place.share.rank == 0:
            whole.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(whole) as out:
                np.save(out, _rows(read(file), ids, file, "nodes"))
        place.share.gather(None)  # nobody reads it before it is there
    return Dense(np.asarray(np.load(whole, mmap_mode="c")), asked, share=place.share)


@dataclass(frozen=True)
class Asked:
    """The vectors of a benchmark's own questions, found by their words."""

    folder: Path
    questions: Mapping[str, Question]
    """The words of a question -> its id and split."""

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per question.

        Raises:
            UsageError: a text is no question of the benchmark.
            DataError: a question has no vector.
        """
        if strangers := [text for text in texts if text not in self.questions]:
            raise UsageError(
                f"{strangers[0][:80]!r} is no question of the benchmark; only these have vectors in files."
            )
        asked = [self.questions[text] for text in texts]
        files = [self._file(question.split) for question in asked]
        vectors = {file: self._read(file) for file in dict.fromkeys(files)}
        found = [
            _rows(vectors[file], [question.id], file, "questions") for file, question in zip(files, asked, strict=True)
        ]
        return np.concatenate(found) if found else np.zeros((0, 1), np.float32)

    def _file(self, split: str) -> Path:
        """Return the file of a split's questions: those that share out the written ones have one together."""
        if split.startswith(WRITTEN):
            return self.folder / "query" / QUESTIONS
        own = sorted(self.folder.glob(f"query_{split}*/{QUESTIONS}"))
        if len(own) != 1:
            raise DataError(
                f"{self.folder} has {len(own)} files query_{split}*/{QUESTIONS}; expected one, with the vectors of the "
                f"questions of split {split!r}. Add it, or run another split."
            )
        return own[0]

    def _read(self, file: Path) -> Mapping[object, Vectors]:
        return _vectors(file, file.stat().st_mtime_ns)


@cache
def _vectors(file: Path, changed: int) -> Mapping[object, Vectors]:
    return read(file)


def read(file: Path) -> dict[object, Vectors]:
    """Return the vectors in a file, by id; of anything but tensors it says no.

    Raises:
        DataError: the file is absent, damaged, or holds something else.
    """
    import torch

    expected = "Expected a dictionary of ids and tensors of shape (1, d), as torch.save writes it."
    try:
        found = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        raise DataError(f"{file} cannot be read: {str(error).splitlines()[0]} {expected}") from error
    if not isinstance(found, dict) or not all(isinstance(each, torch.Tensor) for each in found.values()):
        raise DataError(f"{file} holds no vectors. {expected}")
    return {key: each.float().flatten().numpy() for key, each in found.items()}


def _rows(vectors: Mapping[object, Vectors], ids: Sequence[str | int], file: Path, what: str) -> Vectors:
    """Return the vectors of these ids, in their order, shape (n, d)."""
    absent = [each for each in ids if each not in vectors]
    if absent:
        raise DataError(
            f"{file} has no vector for {len(absent):,} of {len(ids):,} {what}: {', '.join(map(str, absent[:_SHOWN]))}. "
            "Expected one each. Were they made from another copy of the data?"
        )
    sizes = {len(vectors[each]) for each in ids}
    if len(sizes) > 1:
        raise DataError(f"{file} has vectors of {sorted(sizes)[:_SHOWN]} numbers; expected all of one length.")
    found = np.empty((len(ids), *sizes), np.float32)
    for row, each in zip(found, ids, strict=True):
        row[:] = vectors[each]
    return found
