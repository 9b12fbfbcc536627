"""`kbbench serve`: the leaderboard, or the tools on a knowledge base, on your own machine."""

import re
import shlex
import socket
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kbbench_hf.cli.names import BENCHMARK, NAME, FilePath, of_benchmark
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.terminal import called_as, echo

LOOPBACK = "127.0.0.1"
OF_THE_LEADERBOARD = ("store", "host", "port", "root-path")
ROOT_PATH = re.compile(r"(?:https?://[\w.:\[\]-]+)?(?:/[\w.~-]+)*/?")
OF_THE_TOOLS = ("http", "base", "split", "limit", "name", "out")


@click.command()
@click.option("--store", type=FilePath(), default=Path("kbbench-leaderboard"), show_default=True)
@click.option("--host", type=NAME, default=LOOPBACK, show_default=True)
@click.option("--port", type=click.IntRange(1, 65_535), default=7860, show_default=True)
@click.option(
    "--root-path",
    callback=lambda context, option, text: _root_path(text),
    metavar="/PREFIX",
    help="The path prefix under which a reverse proxy shows the leaderboard, or its whole address.",
)
@click.option(
    "--tools",
    "benchmark",
    type=BENCHMARK,
    metavar="NAME",
    help="Serve agents the tools on this dataset's knowledge base instead, by the Model Context Protocol.",
)
@click.option(
    "--http", type=click.IntRange(1, 65_535), metavar="PORT", help="--tools: over HTTP; else stdin and stdout."
)
@click.option("--base", type=NAME, default="bm25", show_default=True, help="--tools: what searches, and backs off.")
@click.option(
    "--split", type=of_benchmark(lambda found: found.data.splits), help="--tools: whose questions; the usual split's."
)
@click.option("--limit", type=click.IntRange(1), help="--tools: only the first questions.")
@click.option("--name", type=NAME, default="agent", show_default=True, help="--tools: what the agent is called.")
@click.option("--out", type=FilePath(), help="--tools: the run's folder; one under ./kbbench-runs by default.")
@click.pass_context
def command(
    context: click.Context,
    /,
    store: Path,
    host: str,
    port: int,
    root_path: str | None,
    benchmark: str | None,
    http: int | None,
    **options: Any,
) -> None:
    """Serve the leaderboard of a store, offline, until interrupted; or with --tools the tools on a knowledge base.

    An agent of any framework starts a question, walks, selects and finishes; its folder is then a run like any other.
    No answers are served. Needs the extra mcp.

    Examples:
      kbbench serve --port 7860
      kbbench serve --root-path /kbbench
      kbbench serve --tools mini-stark --http 8765
    """
    others = OF_THE_LEADERBOARD if benchmark else OF_THE_TOOLS
    for option in others:
        if context.get_parameter_source(option.replace("-", "_")) is ParameterSource.COMMANDLINE:
            whom = "the leaderboard, not --tools" if benchmark else "--tools NAME"
            raise UsageError(f"--{option} is for {whom}. Leave it out, or see 'kbbench serve --help'.")
    if benchmark:
        _serve_tools(benchmark, http, **options)
        return
    _refuse_address(host, port)
    from kbbench_hf.app.leaderboard import serve
    from kbbench_hf.leaderboard.store import Store

    echo("Starting the leaderboard; its address follows when it answers.", err=True)
    serve(Store(store), server_name=host, server_port=port, root_path=root_path)


def _serve_tools(benchmark: str, port: int | None, **options: Any) -> None:
    """Serve until the client goes, or over HTTP until interrupted; stdout is the protocol's alone."""
    from kbbench_hf.mcp_server import mcp_server, serve_http, serve_stdio
    from kbbench_hf.runners.agent_sessions import open_sessions

    if port is not None:
        _refuse_address(LOOPBACK, port)
    with open_sessions(benchmark, **options) as sessions:
        server = mcp_server(sessions)
        said = f"{sessions.n_finished:,} of {len(sessions.rows):,} questions are finished; {sessions.folder}"
        click.echo(said, err=True)
        if port is None:
            serve_stdio(server)
        else:
            click.echo(f"http://{LOOPBACK}:{port}/mcp  (Ctrl-C ends it)", err=True)
            serve_http(server, LOOPBACK, port)
        if sessions.n_started:
            score = f"{called_as()} score {shlex.quote(str(sessions.folder))}"
            click.echo(
                f"{sessions.n_started:,} of {len(sessions.rows):,} questions are answered. Score: {score}", err=True
            )


def _root_path(text: str | None) -> str | None:
    """Return a prefix without the slash at its end; None, where there is none, leaves it to GRADIO_ROOT_PATH."""
    if text is None:
        return None
    parts = text.split("/")
    if not ROOT_PATH.fullmatch(text) or not text or "." in parts or ".." in parts:
        raise click.BadParameter(
            f"{text!r} is no path prefix; expected one such as /kbbench, or https://example.org/kbbench."
        )
    return text.rstrip("/")


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
