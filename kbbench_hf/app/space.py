"""Entry point of the leaderboard's Space: the app, and the copy of its store on the Hub."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kbbench_hf.app.leaderboard import serve
from kbbench_hf.hub.download import Listing
from kbbench_hf.leaderboard.outbox import Outbox
from kbbench_hf.leaderboard.store import Store

FIRST_LOOK_S = 12.0
"""Until so many seconds after the start the pages wait for the rows on the Hub; Gradio is imported meanwhile. The rows
of a slower Hub follow later: without this limit a Hub that does not answer keeps the first page beyond 30 s."""
LAST_LOOK_S = 5.0
SECONDS_BETWEEN_LOOKS = 60.0
"""So often the Hub is asked whether another Space sent something, and asked again after it did not answer."""
SECONDS_BETWEEN_FLUSHES = 5.0
LOG = logging.getLogger("kbbench")


def main() -> None:
    """Serve the board; keep its store and the dataset `KBBENCH_RESULTS` alike, whether or not the Hub answers."""
    store = Store(Path(os.environ.get("KBBENCH_STORE", "store")))
    results, outbox = os.environ.get("KBBENCH_RESULTS"), None
    until, looked = time.monotonic() + FIRST_LOOK_S, threading.Event()
    if results:
        from huggingface_hub import HfApi
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

        disable_progress_bars()
        outbox = Outbox(store, results, HfApi())
        threading.Thread(target=keep_alike, args=(outbox, looked), daemon=True).start()
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the launch below returns
    else:
        looked.set()
        LOG.warning("KBBENCH_RESULTS is not set: submissions are lost when this Space restarts")
    serve(store, outbox, Listing(), lambda: looked.wait(max(0.0, until - time.monotonic())))
    if outbox and outbox.pending():
        last = threading.Thread(target=_tried, args=(outbox, outbox.flush), daemon=True)
        last.start()
        last.join(LAST_LOOK_S)


def keep_alike(outbox: Outbox, looked: threading.Event) -> None:
    """Copy what is new to the Hub at once and from it once a minute, for ever; a Hub that is down is tried again.

    Several Spaces may share one dataset: each writes a history of its own, and takes in those of the others. `looked`
    is set when the Hub was looked at for the first time, with or without success.
    """
    while True:
        answers = _tried(outbox, outbox.catch_up)
        looked.set()
        answers = _tried(outbox, outbox.flush) and answers
        left, until = outbox.pending(), time.monotonic() + SECONDS_BETWEEN_LOOKS
        while time.monotonic() < until and not (answers and outbox.pending() != left):
            time.sleep(SECONDS_BETWEEN_FLUSHES)


def _tried(outbox: Outbox, work: Callable[[], object]) -> bool:
    """Do something with the Hub; False where it does not let it, which is said."""
    try:
        work()
    except Exception as error:  # nothing is lost: what was not sent stays here, and pending
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        n = len(outbox.backlog())
        LOG.warning("%s is not as the store here yet; %d submissions wait: %s", outbox.repository.name, n, words)
        return False
    return True
