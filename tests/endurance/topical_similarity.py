"""TS by topic models of the release's corpora, against the released figures of every stored system, over many seeds.

Too long for the test suite (a model takes 5 to 15 seconds, its shares of 14 systems 2). Fails where a seed misses a
config's bounds, or where the default interval leaves out a figure of ten other seeds for more than a tenth of the
systems.

    python -m tests.endurance.topical_similarity RELEASE TS_CSV [wiki20m ...]

TS_CSV has the columns dataset, model, released; RELEASE is a clone, or a folder of its parts.
"""

import csv
import sys
from pathlib import Path

import numpy as np

from kbbench_hf.benchmarks.genres.benchmark import TOPICS
from kbbench_hf.benchmarks.genres.topic_corpora import released_corpus, stored_by_text
from kbbench_hf.building.genres.release import CONFIGS
from kbbench_hf.judges.thresholds import spearman
from kbbench_hf.judges.topic_model import SEEDS, LdaSettings, TopicModel
from kbbench_hf.metrics.aggregate import means
from kbbench_hf.metrics.generative_re import content_words, join_triples, topical_similarity

N_SEEDS = len(SEEDS) + 10
BOUNDS = {"cdr": (3.5, 0.96), "wiki20m": (1.2, 0.98), "wiki80": (0.9, 0.99)}
"""Config -> the greatest mean absolute error of a seed's figures, in points, and the least Spearman correlation."""


def values(release: Path, config: str, systems: list[str]) -> dict[str, np.ndarray]:
    """Return each system's TS by seed and document, shape (seeds, documents), mode `reference`."""
    sample = CONFIGS[config].sample
    answers = {name: stored_by_text(release, sample, name) or {} for name in systems}
    texts = list(answers[systems[0]])
    words = {
        name: [content_words(join_triples(each.get(text, []), "reference"), "reference") for text in texts]
        for name, each in answers.items()
    }
    corpus, of_texts = released_corpus(release, config, []), [content_words(text, "reference") for text in texts]
    found: dict[str, list[np.ndarray]] = {name: [] for name in systems}
    for seed in range(N_SEEDS):
        model = TopicModel.train(corpus, LdaSettings(TOPICS[config], "reference", seed))
        source = model.shares(of_texts)
        for name in systems:
            found[name].append(topical_similarity(source, model.shares(words[name])))
        print(f"{config}: seed {seed} of {N_SEEDS}", file=sys.stderr)
    return {name: np.stack(rows) for name, rows in found.items()}


def main(release: Path, table: Path, configs: list[str]) -> int:
    """Print how close each config's seeds come, and how often the interval holds other seeds; return 1 on a miss."""
    missed = 0
    for config in configs or list(BOUNDS):
        with table.open(encoding="utf-8") as rows:
            released = {
                row["model"]: float(row["released"])
                for row in csv.DictReader(rows)
                if row["dataset"] == CONFIGS[config].sample and row["released"]
            }
        by_system = values(release, config, list(released))
        wanted = np.array(list(released.values()))
        figures = 100 * np.array([each.mean(axis=1) for each in by_system.values()])  # (systems, seeds)
        errors = np.abs(figures - wanted[:, None]).mean(axis=0)
        ranks = [spearman(column, wanted) for column in figures.T]
        default = [{"ts": each[: len(SEEDS)]} for each in by_system.values()]
        intervals = [means({"ts": each["ts"].mean(axis=0)}, each)["ts"].ci95 for each in default]
        others = figures[:, len(SEEDS) :]
        held = np.mean([
            100 * low <= each.min() and each.max() <= 100 * high
            for (low, high), each in zip(intervals, others, strict=True)
        ])  # fmt: skip
        error, rank = BOUNDS[config]
        missed += errors.max() > error or min(ranks) < rank or held < 0.9
        print(
            f"{config}: mean absolute error {errors.min():.2f} to {errors.max():.2f} points (at most {error}), "
            f"Spearman {min(ranks):.3f} to {max(ranks):.3f} (at least {rank}); the interval over the first "
            f"{len(SEEDS)} seeds holds all of {others.shape[1]} others for {held:.0%} of {len(wanted)} systems"
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
