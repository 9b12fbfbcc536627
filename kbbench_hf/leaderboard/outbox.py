"""From the local store to its copy on the Hub: what is there once is never sent again, what failed is tried again."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kbbench_hf.leaderboard.store import Store

if TYPE_CHECKING:
    from huggingface_hub import HfApi

FILES_PER_COMMIT = 96
"""The Hub advises fewer than 100 files in a commit."""
SECONDS_BETWEEN_COMMITS = 60.0
MAX_ATTEMPTS = 8


class Outbox:
    """Copies the store's files to a dataset repository with the same layout.

    Every path is written once and never changed, so two writers cannot overwrite each other and no parent commit is
    named. After an error the repository is asked what it holds: a commit may have happened though its answer was lost.
    """

    def __init__(
        self,
        store: Store,
        repo_id: str,
        api: "HfApi",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.store = store
        self.repo_id = repo_id
        self.api = api
        self._clock = clock
        self._sleep = sleep
        self._last_commit = -SECONDS_BETWEEN_COMMITS
        self._pushed: set[str] | None = None

    def pending(self) -> list[str]:
        """Return the paths that the Hub does not hold yet, submissions before the events that name them."""
        paths = [
            file.relative_to(self.store.root).as_posix()
            for folder in ("submissions/*/*/*", "events/[0-9a-f]*/[0-9]*/[0-9]*.json")
            for file in sorted(self.store.root.glob(folder))
        ]
        return [path for path in paths if path not in self._on_hub()]

    def durable(self) -> set[str]:
        """Return the ids that are wholly on the Hub, with an event, as far as is known; asks nobody.

        Empty until the Hub has answered for the first time. May be called from any thread.
        """
        held = self._pushed or set()
        ids = {event.submission for event in self.store.events if event.path in held}
        return {each for each in ids if held.issuperset(self.store.paths(each))}

    def minutes(self) -> int | None:
        """Return within how many minutes what waits is expected on the Hub; None while the Hub does not answer."""
        if self._pushed is None:
            return None
        return 1 + len(self.pending()) // FILES_PER_COMMIT

    def state(self, submission: str) -> str:
        """Return in words how safe a stored submission is: on the Hub, or when it is expected there."""
        if submission in self.durable():
            return "Saved, on the Hub."
        minutes = self.minutes()
        if minutes is None:
            return "Saved here; the Hub does not answer now, and gets it when it does."
        return f"Saved here, on the Hub within {minutes} minute{'' if minutes == 1 else 's'}."

    def flush(self) -> int:
        """Send everything that is pending, at most one commit a minute; return how many files were sent.

        An error that stays after several attempts is raised; what was sent until then is remembered.
        """
        sent = 0
        while paths := self.pending()[:FILES_PER_COMMIT]:
            self._commit(paths)
            sent += len(paths)
        return sent

    def _commit(self, paths: list[str]) -> None:
        from huggingface_hub import CommitOperationAdd

        for attempt in range(1, MAX_ATTEMPTS + 1):
            self._sleep(max(0.0, self._last_commit + SECONDS_BETWEEN_COMMITS - self._clock()))
            self._last_commit = self._clock()
            try:
                paths = [path for path in paths if path not in self._on_hub()]
                operations = [CommitOperationAdd(path, str(self.store.root / path)) for path in paths]
                message = f"Add {len(paths)} files"
                if paths:
                    self.api.create_commit(self.repo_id, operations, commit_message=message, repo_type="dataset")
                self._on_hub().update(paths)
                return
            except Exception:  # a refusal, a lost connection (whose class depends on the Hub client's HTTP library)
                self._pushed = None
                if attempt == MAX_ATTEMPTS:
                    raise

    def _on_hub(self) -> set[str]:
        if self._pushed is None:
            self.api.create_repo(self.repo_id, repo_type="dataset", exist_ok=True)
            self._pushed = set(self.api.list_repo_files(self.repo_id, repo_type="dataset"))
        return self._pushed


def restore(store: Store, repo_id: str, api: "HfApi") -> int:
    """Fetch into the local store what the Hub holds and it lacks; return the number of files. For a fresh machine."""
    wanted = [
        path
        for path in api.list_repo_files(repo_id, repo_type="dataset")
        if path.startswith(("submissions/", "events/")) and not (store.root / path).exists()
    ]
    for path in sorted(wanted, key=lambda path: path.startswith("events/")):
        api.hf_hub_download(repo_id, path, repo_type="dataset", local_dir=store.root)
    return len(wanted)
