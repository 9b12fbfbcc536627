"""What the leaderboard's Space runs: the app, and its store's copy on the Hub."""

import logging
import os
import threading
import time
from pathlib import Path

from kbbench_hf.app.leaderboard import LAUNCH, leaderboard
from kbbench_hf.hub.listing import Listing
from kbbench_hf.leaderboard.outbox import Outbox, restore
from kbbench_hf.leaderboard.store import Store

SECONDS_BETWEEN_FLUSHES = 60.0
LOG = logging.getLogger("kbbench")


def main() -> None:
    """Serve the board; restore its store from the dataset `KBBENCH_RESULTS` and keep copying to it."""
    store = Store(Path(os.environ.get("KBBENCH_STORE", "store")))
    results, outbox = os.environ.get("KBBENCH_RESULTS"), None
    if results:
        from huggingface_hub import HfApi

        api = HfApi()
        outbox = Outbox(store, results, api)
        outbox.pending()
        LOG.warning("restored %d files from %s", restore(store, results, api), results)
        threading.Thread(target=keep_flushing, args=(outbox,), daemon=True).start()
    else:
        LOG.warning("KBBENCH_RESULTS is not set: submissions are lost when this Space restarts")
    leaderboard(store, outbox, Listing()).launch(**LAUNCH)


def keep_flushing(outbox: Outbox) -> None:
    """Copy what is new to the Hub and from it, once a minute, for ever; a Hub that is down is tried again.

    Several Spaces may share one dataset: each writes a history of its own, and takes in those of the others.
    """
    seen = None
    while True:
        try:
            outbox.flush()
            head = outbox.api.repo_info(outbox.repo_id, repo_type="dataset").sha
            if head != seen:
                restore(outbox.store, outbox.repo_id, outbox.api)
                seen = head
        except Exception as error:  # nothing is lost: what was not sent stays pending
            LOG.warning("the Hub took no results: %s", type(error).__name__)
        time.sleep(SECONDS_BETWEEN_FLUSHES)
