"""Examples with what models said of the predictions on them: one way for every benchmark that needs it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbbench_hf.benchmarks.annotations import Annotations
from kbbench_hf.benchmarks.base import Examples


def with_annotations(examples: Examples, folder: Path) -> Examples:
    """Return the examples with the annotations that a folder holds.

    Raises:
        UsageError: the folder holds none.
    """
    return replace(examples, annotations=Annotations(folder))


def annotation_identities(examples: Examples) -> dict[str, str]:
    """Return what each kind of annotation was made with (embedder and thresholds, judge, topic model) as JSON text.

    Figures with different identities must not be compared. Empty where the examples have no annotations.
    """
    plain = {
        kind: {name: value for name, value in identity.items() if name != "agreement"}
        for kind, identity in made_with(examples).items()
    }
    return {kind: json.dumps(identity, sort_keys=True) for kind, identity in plain.items()}


def judge_agreements(examples: Examples) -> dict[str, str]:
    """Return how far the judge of each kind agrees with released verdicts, as JSON text, where it was calibrated."""
    found = {kind: identity.get("agreement") for kind, identity in made_with(examples).items()}
    return {kind: json.dumps(agreement, sort_keys=True) for kind, agreement in found.items() if agreement}


def made_with(examples: Examples) -> Mapping[str, Mapping[str, Any]]:
    """Return what each kind of annotation was made with, and how far its judge agrees with released verdicts."""
    return examples.annotations.identities() if examples.annotations else {}
