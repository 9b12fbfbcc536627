"""The one progress bar: every verb that takes longer than two seconds shows this one, on standard error."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Moves the bar on by `steps`; `note` replaces the words below it (rates, errors, a price)."""

    def __call__(self, steps: int = 1, note: str | None = None) -> None:
        """Move on."""
        ...


@contextmanager
def progress(title: str, total: int | None, *, done: int = 0, note: str = "", show: bool = True) -> Iterator[Advance]:
    """Show a bar named `title` with done/total, elapsed and remaining time while the block runs.

    `total=None` shows a pulsing bar (the amount of work is unknown); `done` is what an earlier, interrupted run had
    finished. On a terminal the bar moves; elsewhere (a log, a test) one line is written at the end. Standard output
    stays free for results. `show=False` shows nothing: every process but the first of a group.

    >>> with progress("Search", total=2, show=False) as advance:
    ...     advance()
    ...     advance(note="2 done")
    """
    from rich.console import Console, RenderableType
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Bar(Progress):
        def get_renderables(self) -> Iterator[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            for task in self.tasks:
                if task.fields["note"]:  # a line of its own: beside the bar it would not fit 80 columns
                    yield Text(f"  {task.fields['note']}", no_wrap=True, overflow="ellipsis")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), disable=not show) as bar:
        task = bar.add_task(title, total=total, completed=done, note=note)

        def advance(steps: int = 1, note: str | None = None) -> None:
            if note is None:
                bar.advance(task, steps)
            else:
                bar.update(task, advance=steps, note=note)

        yield advance
