"""A user stores so many submissions a day, whatever they are called, and all users together so many."""

import pytest

from kbbench_hf.errors import BusyError
from kbbench_hf.leaderboard.index import Index
from kbbench_hf.leaderboard.store import Store, System
from kbbench_hf.leaderboard.submissions import DAY, Preview, Quotas, store_preview


def submit(quotas: Quotas, read: Preview, name: str, user: str) -> str:
    with quotas.storing(user):
        return store_preview(quotas.index.store, read, System(name), user).id


def test_another_name_another_case_or_withdrawing_gives_no_more(store: Store, read: Preview) -> None:
    quotas = Quotas(Index(store), per_user=3)
    ids = [submit(quotas, read, f"system {n}", "ada") for n in range(3)]
    for row in ids:
        store.withdraw(row, "ada")
    for user in ("ada", "Ada", "ADA"):
        with pytest.raises(BusyError, match="3 submissions within a day; at most 3"):
            submit(quotas, read, f"org/{user} x", user)
    assert submit(quotas, read, "system", "grace") and len(store.visible()) == 1


def test_a_restart_gives_no_more(store: Store, read: Preview) -> None:
    submit(Quotas(Index(store), per_user=1), read, "one", "ada")
    with pytest.raises(BusyError):
        submit(Quotas(Index(store), per_user=1), read, "two", "ada")


def test_many_accounts_have_a_bound_together(store: Store, read: Preview) -> None:
    quotas = Quotas(Index(store), in_total=2)
    for user in ("ada", "grace"):
        submit(quotas, read, "system", user)
    with pytest.raises(BusyError, match="2 submissions were made here"):
        submit(quotas, read, "system", "eve")


def test_what_is_under_way_counts_and_what_failed_does_not(store: Store) -> None:
    quotas = Quotas(Index(store), per_user=1)
    with quotas.storing("ada"), pytest.raises(BusyError), quotas.storing("ADA"):
        pass
    with quotas.storing("ada"):
        pass


def test_changes_are_counted_for_a_day(store: Store) -> None:
    quotas = Quotas(Index(store), per_user=2)
    for _ in range(2):
        quotas.changing("ada", now=lambda: 0.0)
    with pytest.raises(BusyError, match="2 changes"):
        quotas.changing("Ada", now=lambda: 1.0)
    quotas.changing("ada", now=lambda: DAY.total_seconds() + 1)


def test_rows_of_whoever_runs_the_board_do_not_count(store: Store, read: Preview) -> None:
    for n in range(3):
        store_preview(store, read, System(f"own {n}"), "kbbench", origin="own")
    assert submit(Quotas(Index(store), per_user=1, in_total=1), read, "system", "ada")
