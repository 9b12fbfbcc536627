"""`kbbench serve`: serve the leaderboard, or the tools of a knowledge base, on your machine."""

import re
import shlex
import socket
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kbbench_hf.cli.names import BENCHMARK, NAME, FilePath, of_benchmark
from kbbench_hf.cli.options import STORE
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.terminal import called_as, echo

LOOPBACK = "127.0.0.1"
OF_THE_LEADERBOARD = ("store", "host", "port", "root-path")
ROOT_PATH = re.compile(r"(?:https?://[\w.:\[\]-]+)?(?:/[\w.~-]+)*/?")
OF_THE_TOOLS = ("http", "base", "split", "limit", "name", "out")


@click.command()
@STORE
@click.option("--host", type=NAME, default=LOOPBACK, show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65_535), default=7860, show_default=True, help="Port to listen on.")
@click.option(
    "--root-path",
    type=NAME,
    callback=lambda context, option, text: _root_path(text),
    metavar="/PREFIX",
    help="Path prefix of the leaderboard behind a reverse proxy, or its full URL.",
)
@click.option(
    "--tools",
    "benchmark",
    type=BENCHMARK,
    metavar="NAME",
    help="Serve the tools of this dataset's knowledge base instead, over MCP (Model Context Protocol).",
)
@click.option(
    "--http", type=click.IntRange(1, 65_535), metavar="PORT", help="--tools: use HTTP instead of stdin and stdout."
)
@click.option("--base", type=NAME, default="bm25", show_default=True, help="--tools: the retriever of the search tool.")
@click.option(
    "--split", type=of_benchmark(lambda found: found.data.splits), help="--tools: split; by default the default split."
)
@click.option("--limit", type=click.IntRange(1), help="--tools: serve only the first questions.")
@click.option(
    "--name", type=NAME, default="agent", show_default=True, help="--tools: name of the agent in the results."
)
@click.option("--out", type=FilePath(), help="--tools: the run folder; by default a new one under ./kbbench-runs.")
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
    """Serve a local leaderboard until you press Ctrl-C; with --tools, serve the tools of a knowledge base to agents.

    With --tools, an agent of any framework starts a question, searches, selects nodes and finishes; the folder can
    then be scored like any run. Gold answers are not served. --tools needs the extra mcp.

    Examples:
      kbbench serve --port 7860
      kbbench serve --root-path /kbbench
      kbbench serve --tools mini-stark --http 8765
    """
    others = OF_THE_LEADERBOARD if benchmark else OF_THE_TOOLS
    for option in others:
        if context.get_parameter_source(option.replace("-", "_")) is ParameterSource.COMMANDLINE:
            fact = "is for the leaderboard and not for --tools" if benchmark else "needs --tools NAME"
            raise UsageError(f"--{option} {fact}. Leave it out, or see 'kbbench serve --help'.")
    if benchmark:
        _serve_tools(benchmark, http, **options)
        return
    _refuse_address(host, port)
    echo("Starting the leaderboard. Its address is printed when it is ready.", err=True)
    from kbbench_hf.app.leaderboard import serve
    from kbbench_hf.leaderboard.store import Store

    serve(Store(store), server_name=host, server_port=port, root_path=root_path)


def _serve_tools(benchmark: str, port: int | None, **options: Any) -> None:
    """Serve until the client disconnects, or over HTTP until interrupted; stdout carries only the protocol."""
    from kbbench_hf.agents.mcp_server import mcp_server, serve_http, serve_stdio
    from kbbench_hf.runners.agent_sessions import open_sessions

    if port is not None:
        _refuse_address(LOOPBACK, port)
    with open_sessions(benchmark, **options) as sessions:
        server = mcp_server(sessions)
        click.echo(
            f"{sessions.n_finished:,} of {len(sessions.rows):,} questions are finished; {sessions.folder}", err=True
        )
        if port is None:
            serve_stdio(server)
        else:
            click.echo(f"http://{LOOPBACK}:{port}/mcp  (Ctrl-C to stop)", err=True)
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
            f"{text!r} is not a path prefix; expected one such as /kbbench, or https://example.org/kbbench."
        )
    return text.rstrip("/")


def _refuse_address(host: str, port: int) -> None:
    """Check the host and port before the app starts, which takes seconds."""
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        socket.create_server((host, port), family=family).close()
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(
            f"Cannot listen on http://{host}:{port}: {why}. Expected an address of this machine and a free port. "
            "Choose them with --host and --port."
        ) from None
