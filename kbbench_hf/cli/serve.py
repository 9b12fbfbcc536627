"""`kbbench serve`: the leaderboard on your own machine."""

from pathlib import Path

import click


@click.command()
@click.option("--store", type=click.Path(path_type=Path), default=Path("kbbench-leaderboard"), show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=7860, show_default=True)
def command(store: Path, host: str, port: int) -> None:
    """Serve the leaderboard of a store, offline, until interrupted.

    Example: kbbench serve --port 7860
    """
    from kbbench_hf.app.leaderboard import LAUNCH, leaderboard
    from kbbench_hf.leaderboard.store import Store

    pages = leaderboard(Store(store))
    click.echo(f"http://{host}:{port}  (Ctrl-C ends it)")
    pages.launch(server_name=host, server_port=port, quiet=True, **LAUNCH)
