"""Rankings of the training questions, from which hard negatives are drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbbench_hf.model_specs import parse
from kbbench_hf.protocols import Ranking
from kbbench_hf.retrieval.context import Progress, RetrieverContext
from kbbench_hf.retrieval.retrievers import retriever
from kbbench_hf.runners.retrieval_run import default_cache
from kbbench_hf.training.questions import TrainingData
from kbbench_hf.training.scores import ranked

Rows = NDArray[np.int64]


def ranked_by(name: str, data: TrainingData, questions: Sequence[str], top_k: int, progress: Progress) -> Ranking:
    """Return the best rows for each question by a retriever of this name."""
    context = RetrieverContext(
        data.kb, default_cache(), candidates=data.candidates, progress=progress, forms=data.forms
    )
    return retriever(parse(name), context).search(questions, top_k)


def ranked_by_model(model: Any, data: TrainingData, top_k: int, batch: int = 64) -> Rows:
    """Return the best rows for each training question by a model as it is now, shape (questions, top_k)."""
    options = {"batch_size": batch, "normalize_embeddings": True, "show_progress_bar": False}
    was_training = model.training
    model.eval()
    try:
        n = min(top_k, len(data.candidates))
        found = ranked(model, data.texts(data.candidates), data.train.texts, n, **options)
    finally:
        model.train(was_training)
    return np.where(found.ids < 0, -1, data.candidates[found.ids])
