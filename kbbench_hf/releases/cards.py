"""Where the text of a dataset's card lies: beside its script in a checkout, inside the package in a wheel."""

from pathlib import Path

from kbbench_hf.errors import KBBenchError

_PACKAGE = Path(__file__).parents[1]


def card(dataset: str) -> str:
    """Return the source of a dataset's card (README.md), without the YAML that a build fills in.

    Raises:
        KBBenchError: neither the wheel's copy nor the checkout's file exists.
    """
    places = [root / dataset / "README.md" for root in (_PACKAGE / "cards", _PACKAGE.parent / "dataset_scripts")]
    for place in places:
        if place.is_file():
            return place.read_text(encoding="utf-8")
    raise KBBenchError(
        f"No card for the dataset {dataset!r}: expected {places[0]} or {places[1]}. Is the installation complete?"
    )
