"""Who takes another's name, answers or the gold is flagged with a reason; honest rows are not, whoever is like them."""

from pathlib import Path

import pytest

from kbbench_hf.leaderboard.store import Store
from tests.servers.identities import Attack, attacks, flagged, honest


@pytest.mark.parametrize("attack", list(attacks()), ids=lambda attack: attack.what)
def test_an_attacker_is_flagged_and_an_owner_is_not(attack: Attack, store: Store, tmp_path: Path) -> None:
    assert set(flagged(store, attack.sent, tmp_path)) == attack.flagged
    assert len(store.visible()) == len(attack.sent)  # nobody is kept off the board by another


def test_honest_rows_are_not_flagged(store: Store, tmp_path: Path) -> None:
    assert flagged(store, list(honest(45)), tmp_path) == {}
