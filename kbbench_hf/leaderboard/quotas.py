"""Daily storage quotas, per user and in total."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from kbbench_hf.errors import BusyError
from kbbench_hf.leaderboard.index import Index

PER_USER = 50
IN_TOTAL = 2_000
DAY = timedelta(days=1)


class Quotas:
    """Counts what users stored and changed within a day; by account, whatever the names of their systems.

    What was stored is counted from the store, so neither a restart nor withdrawing gives anything back. Changes of
    one's rows are counted since the start.
    """

    def __init__(self, index: Index, per_user: int | None = None, in_total: int | None = None) -> None:
        self.index = index
        self.per_user = per_user or int(os.environ.get("KBBENCH_PER_USER_AND_DAY", PER_USER))
        self.in_total = in_total or int(os.environ.get("KBBENCH_PER_DAY", IN_TOTAL))
        self._under_way: Counter[str] = Counter()
        self._changes: list[tuple[float, str]] = []
        self._lock = threading.Lock()

    @contextmanager
    def storing(self, user: str) -> Iterator[None]:
        """Keep a place for what is stored meanwhile.

        Raises:
            BusyError: the user, or all users together, stored as much as they may in a day.
        """
        key = user.casefold()
        with self._lock:
            self.index.update()
            since = (datetime.now(UTC) - DAY).isoformat(timespec="microseconds")
            theirs, all_of_them = self.index.n_stored(user, since)
            self._refuse(theirs + self._under_way[key], all_of_them + self._under_way.total(), user, "submissions")
            self._under_way[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way[key] -= 1

    def changing(self, user: str, now: Callable[[], float] = time.monotonic) -> None:
        """Count a change of one's own rows.

        Raises:
            BusyError: the user made as many as they may in a day.
        """
        key = user.casefold()
        with self._lock:
            self._changes = [each for each in self._changes if each[0] > now() - DAY.total_seconds()]
            n_theirs = sum(who == key for _, who in self._changes)
            self._refuse(n_theirs, len(self._changes), user, "changes")
            self._changes.append((now(), key))

    def _refuse(self, theirs: int, all_of_them: int, user: str, what: str) -> None:
        if theirs >= self.per_user:
            raise BusyError(
                f"{user} made {theirs:,} {what} within a day; at most {self.per_user:,} are taken. Try again tomorrow."
            )
        if all_of_them >= self.in_total:
            raise BusyError(
                f"{all_of_them:,} {what} were made here within a day; no more are taken. Try again tomorrow."
            )
