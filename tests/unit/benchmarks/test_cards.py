"""Every dataset that is built from a release has a card, and its script's README is that card."""

import re
from pathlib import Path

import pytest

import kbbench_hf.benchmarks

ROOT = Path(__file__).resolve().parents[3]
CARDS = sorted(Path(kbbench_hf.benchmarks.__file__).parent.glob("*/cards/*.md"))


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.stem)
def test_a_card_has_front_matter_and_a_licence(card: Path) -> None:
    text = card.read_text(encoding="utf-8")
    assert text.startswith("---\n")
    assert re.search(r"\nlicense:(?: |\n- )[a-z]", text)  # one, or a list
    assert (ROOT / "dataset_scripts" / card.stem / "README.md").samefile(card)


def test_every_released_dataset_has_one() -> None:
    assert len(CARDS) == 8
