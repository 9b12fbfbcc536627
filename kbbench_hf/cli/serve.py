"""`kbbench serve`: serve the leaderboard, or the tools of a knowledge base, on your machine."""

import re
import shlex
import socket
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kbbench_hf.cli.options import BENCHMARK, STORE, FilePath, of_benchmark, option
from kbbench_hf.errors import UsageError
from kbbench_hf.reports.terminal import called_as, echo

LOOPBACK = "127.0.0.1"
OF_THE_LEADERBOARD = ("store", "host", "port", "root-path")
"""Options without --tools; with it they are refused, because they would be ignored."""
OF_THE_TOOLS = ("http", "base", "split", "limit", "name", "out")
"""Options that need --tools."""
ROOT_PATH = re.compile(r"(?:https?://[\w.:\[\]-]+)?(?:/[\w.~-]+)*/?")


def _parse_root_path(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return a path prefix without the slash at its end; None without one, and Gradio reads GRADIO_ROOT_PATH."""
    if text is None:
        return None
    parts = text.split("/")
    if not ROOT_PATH.fullmatch(text) or not text or "." in parts or ".." in parts:
        raise click.BadParameter(
            f"{text!r} is not a path prefix; expected one such as /kbbench, or https://example.org/kbbench."
        )
    return text.rstrip("/")


@click.command()
@STORE
@option("--host", "Address to listen on.", default=LOOPBACK)
@option("--port", "Port to listen on.", click.IntRange(1, 65_535), default=7860)
@option(
    "--root-path",
    "Path prefix of the leaderboard behind a reverse proxy, or its full URL.",
    callback=_parse_root_path,
    metavar="/PREFIX",
)
@option(
    "--tools benchmark",
    "Serve the tools of this dataset's knowledge base instead, over MCP (Model Context Protocol).",
    BENCHMARK,
    metavar="NAME",
)
@option("--http", "--tools: use HTTP instead of stdin and stdout.", click.IntRange(1, 65_535), metavar="PORT")
@option("--base", "--tools: the retriever of the search tool.", default="bm25")
@option("--split", "--tools: split; by default the default split.", of_benchmark(lambda found: found.data.splits))
@option("--limit", "--tools: serve only the first questions.", click.IntRange(1))
@option("--name", "--tools: name of the agent in the results.", default="agent")
@option("--out", "--tools: the run folder; by default a new one under ./kbbench-runs.", FilePath())
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
    for other in others:
        if context.get_parameter_source(other.replace("-", "_")) is ParameterSource.COMMANDLINE:
            fact = "is for the leaderboard and not for --tools" if benchmark else "needs --tools NAME"
            raise UsageError(f"--{other} {fact}. Leave it out, or see 'kbbench serve --help'.")
    if benchmark:
        _serve_tools(benchmark, http, **options)
        return
    _refuse_address(host, port)
    echo("Starting the leaderboard. Its address is printed when it is ready.", err=True)
    from kbbench_hf.app.leaderboard import serve
    from kbbench_hf.leaderboard.store import Store

    serve(Store(store), server_name=host, server_port=port, root_path=root_path)


def _serve_tools(benchmark: str, port: int | None, **options: Any) -> None:
    """Serve tools until the client disconnects, or over HTTP until interrupted; stdout has only the protocol."""
    from kbbench_hf.runners.agent_sessions import mcp_server, open_sessions, serve_http, serve_stdio

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


def _refuse_address(host: str, port: int) -> None:
    """Raise UsageError if the address cannot be used; checked before the app starts, which takes seconds."""
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        socket.create_server((host, port), family=family).close()
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(
            f"Cannot listen on http://{host}:{port}: {why}. Expected an address of this machine and a free port. "
            "Choose them with --host and --port."
        ) from None
