"""Fit the model of surface features on a release's verdicts, per corpus, and measure it where it was not fitted.

    python -m tests.golden.make_surface RELEASE > kbbench_hf/judges/surface.json

Weights and agreement are derived figures; no text and no verdict of the release is in them.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from kbbench_hf.benchmarks.genres.benchmark import CORPORA, load
from kbbench_hf.building.genres.release import build_genres_corpora
from kbbench_hf.files.datasets import DatasetFolder
from kbbench_hf.judges.surface import FEATURES, OTHER, fit_logistic
from kbbench_hf.runners.calibration import YES, JudgedItems, agreement_on, predict_from_surface, released_items

CONFIGS = ("cdr", "docred", "wiki20m", "wiki80")


def fitted(judged: JudgedItems, agreement: dict) -> dict:
    """Return a model of all systems' rows that may be fitted on, and how far one agrees where it was not."""
    rows = judged.of(judged.fits)
    model = fit_logistic(FEATURES[rows.kind](rows.items), rows.yes)
    return {**vars(model), "agreement": agreement}


def together(parts: list[JudgedItems]) -> JudgedItems:
    """Return the rows of several corpora."""
    columns = ("values", "systems", "documents", "fits")
    items = [item for part in parts for item in part.items]
    return JudgedItems(parts[0].kind, items, *(np.concatenate([getattr(p, c) for p in parts]) for c in columns))


def left_out(judged: dict[str, JudgedItems], corpus: str) -> dict:
    """Return how far a model of the other corpora agrees on one."""
    rows = together([part.of(part.fits) for name, part in judged.items() if name != corpus])
    model = fit_logistic(FEATURES[rows.kind](rows.items), rows.yes)
    own = judged[corpus]
    said = model.says(FEATURES[rows.kind](own.of(~own.fits).items))
    return agreement_on(own, ~own.fits, f"{corpus}, fitted on others", said * YES[rows.kind], said).to_dict()


def main(release: Path) -> None:
    """Print the models."""
    found: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        build_genres_corpora(release, Path(folder) / "genres-corpora", CONFIGS)
        rules, dataset = CORPORA.scoring.annotations, DatasetFolder(Path(folder) / "genres-corpora")
        for kind, yes in YES.items():
            examples = {config: load(dataset, config, "test") for config in CONFIGS}
            judged = {config: released_items(rules, release, each, kind) for config, each in examples.items()}
            found[kind] = {}
            for config, rows in judged.items():
                said = predict_from_surface(rows, ~rows.fits)
                found[kind][config] = fitted(rows, agreement_on(rows, ~rows.fits, config, said * yes, said).to_dict())
            others = [left_out(judged, config) for config in CONFIGS]
            worst = min(others, key=lambda each: each["judge"]["kappa"])
            found[kind][OTHER] = fitted(together(list(judged.values())), worst)
            for each in others:
                print(kind, each["corpus"], each["judge"], each["spearman"], file=sys.stderr)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
