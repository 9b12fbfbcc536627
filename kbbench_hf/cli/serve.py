"""`kbbench serve`: the leaderboard on your own machine."""

import socket
from pathlib import Path

import click

from kbbench_hf.cli.names import NAME, FilePath
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.terminal import echo


@click.command()
@click.option("--store", type=FilePath(), default=Path("kbbench-leaderboard"), show_default=True)
@click.option("--host", type=NAME, default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65_535), default=7860, show_default=True)
def command(store: Path, host: str, port: int) -> None:
    """Serve the leaderboard of a store, offline, until interrupted.

    Example: kbbench serve --port 7860
    """
    _refuse_address(host, port)
    from kbbench_hf.app.leaderboard import LAUNCH, leaderboard
    from kbbench_hf.leaderboard.store import Store

    pages = leaderboard(Store(store))
    echo(f"http://{host}:{port}  (Ctrl-C ends it)")
    pages.launch(server_name=host, server_port=port, quiet=True, **LAUNCH)


def _refuse_address(host: str, port: int) -> None:
    """Refuse a host or port that cannot be served, before the many seconds that the app takes to start."""
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        socket.create_server((host, port), family=family).close()
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(
            f"http://{host}:{port} cannot be served: {why}. Expected an address of this machine and a free port. "
            "Choose others with --host and --port."
        ) from None
