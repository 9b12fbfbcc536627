"""Entry point of the `kbbench` command."""

import gc
import sys


def main() -> None:
    """Run the command line; exit codes: 0, 1 failed, 2 usage, 65 bad data, 75 busy, 130 interrupted."""
    gc.set_threshold(50_000, 10, 10)  # imports and rows make objects by the million that live on: a tenth of the time
    # bm25s imports numba wherever it is installed, for .3 s, and no command uses what it brings
    sys.modules.setdefault("numba", None)  # type: ignore[arg-type]
    try:
        from kbbench_hf.cli.outcome import exit_code  # may be interrupted already while it is imported

        code = exit_code(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
