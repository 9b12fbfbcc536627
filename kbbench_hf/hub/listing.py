"""Cached listing of the owner's datasets on the Hub, refreshed in the background: reading it never blocks."""

import logging
import threading
import time
from collections.abc import Callable

from kbbench_hf.hub.connection import ANSWER_S, answer_within
from kbbench_hf.hub.download import owner

LOG = logging.getLogger("kbbench")
MAX_AGE_S = 600.0
"""After as many seconds the listing is refreshed."""
RETRY_S = 60.0
"""The same after a failed request."""


class Listing:
    """The names of the datasets of `owner()` on the Hub; empty before the first response."""

    def __init__(
        self, ask: Callable[[], frozenset[str]] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask or datasets_on_hub
        self._clock = clock
        self._names: frozenset[str] = frozenset()
        self._due = clock()
        self._lock = threading.Lock()

    def names(self) -> frozenset[str]:
        """Return the cached names; where they are old, a background thread refreshes them."""
        with self._lock:
            is_due = self._clock() >= self._due
            if is_due:
                self._due = self._clock() + RETRY_S
        if is_due:
            threading.Thread(target=self.refresh, name="listing", daemon=True).start()
        return self._names

    def refresh(self) -> None:
        """Refresh the names now; they stay unchanged where the request fails."""
        try:
            self._names = self._ask()
        except Exception as error:  # the classes of errors depend on the HTTP library of the Hub's client
            LOG.warning("the Hub did not list the datasets of %s: %s", owner(), type(error).__name__)
        else:
            self._due = self._clock() + MAX_AGE_S


def datasets_on_hub() -> frozenset[str]:
    """Return the names of the owner's datasets on the Hub, without the owner."""
    from huggingface_hub import HfApi

    answer_within(ANSWER_S)
    return frozenset(each.id.partition("/")[2] for each in HfApi().list_datasets(author=owner()))
