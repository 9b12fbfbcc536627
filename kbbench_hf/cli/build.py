"""`kbbench build`: build a dataset in ./kbbench from a release or from your own tables."""

import time
from pathlib import Path, PurePosixPath
from typing import Any

import click

from kbbench_hf.benchmarks import PUBLISHED
from kbbench_hf.building.build import BuildOptions, build
from kbbench_hf.cli.options import DATASET, FilePath, of_benchmark, with_fields
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE, DatasetFolder
from kbbench_hf.reports.terminal import echo


class _BuildCommand(click.Command):
    """A command in which one `--graph` may have several paths."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat `--graph` before each of its paths."""
        repeated, in_graph = list[str](), False
        for place, each in enumerate(args):
            is_path = in_graph and not each.startswith("-")
            repeated += ["--graph", each] if is_path and args[place - 1] != "--graph" else [each]
            in_graph = is_path or each == "--graph" or each.startswith("--graph=")
        return super().parse_args(ctx, repeated)


def _parse_sources(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return TABLE.COLUMN -> source, from values `TABLE.COLUMN=SOURCE,...`; `build` checks the names."""
    pairs = (pair.partition("=") for pair in ",".join(given).split(",")) if given else ()
    return {target.strip(): source.strip() for target, _, source in pairs}


def _split_names(context: click.Context, option: click.Parameter, given: str | None) -> list[str] | None:
    return given.split(",") if given else None


_FILE: dict[str, Any] = {"type": FilePath(exists=True, dir_okay=False)}
_CLICK: dict[str, dict[str, Any]] = {
    "source": {"type": FilePath()},
    "configs": {
        "type": of_benchmark(lambda found: found.data.configs),
        "metavar": "NAME,...",
        "callback": _split_names,
    },
    "graph": {"type": FilePath(exists=True), "multiple": True, "metavar": "PATH..."},
    "map": {"multiple": True, "metavar": "COLUMN=SOURCE,...", "callback": _parse_sources},
    "seed": {"type": int},
    "similar_by": {"metavar": "MODEL"},
    "private": {"metavar": "SEED"},
    "revision": {"type": int},
    "skip_dangling": {"flags": ["--skip-dangling", "--drop-dangling"]},
    **dict.fromkeys("archive nodes edges queries qrels ontology triples sentences pairs".split(), _FILE),
}
"""Field of `BuildOptions` -> how click reads it."""


@click.command(cls=_BuildCommand)
@click.argument("name", type=DATASET)
@with_fields(BuildOptions, _CLICK)
@click.option("--out", type=FilePath(), help="Output folder; ./kbbench/NAME by default.")
def command(name: str, out: Path | None, **options: Any) -> None:
    """Build the dataset NAME in ./kbbench/NAME; 'kbbench list' prints the names.

    The name 'metrics' builds the evaluate modules in ./kbbench.

    Examples:
      kbbench build NAME
      kbbench build NAME --source RELEASE
      kbbench build my-kb --graph export.ttl
      kbbench build my-kb --nodes n.csv --edges e.csv --queries q.csv
      kbbench build my-extraction --ontology o.ttl --triples t.csv --sentences s.csv
    """
    if name.removeprefix(f"{NAMESPACE}/") == "metrics":
        _build_metrics(out or Path(NAMESPACE), any(options.values()))
        return
    started = time.monotonic()
    folder = build(name, out, **options)
    _print_summary(folder, time.monotonic() - started)
    for each in folder.left_out:
        echo(f"  left out: {each}")


def _build_metrics(folder: Path, with_options: bool) -> None:
    """Build the evaluate modules in a folder."""
    from kbbench_hf.hub.metric_modules import build_metrics
    from kbbench_hf.reports.exports import evaluate_modules

    if with_options:
        raise UsageError("'build metrics' takes only the option --out. Leave the others out.")
    folder.mkdir(parents=True, exist_ok=True)
    for module in build_metrics(folder, evaluate_modules()):
        echo(f'{folder / module}  evaluate.load("{folder / module}")')


def _print_summary(folder: DatasetFolder, seconds: float) -> None:
    """Print the rows of each split, the released predictions, the size and the revision of a built dataset."""
    manifest = folder.manifest
    size = sum(file.stat().st_size for file in folder.path.rglob("*.parquet"))
    for config, splits in folder.configs().items():
        rows = ", ".join(f"{split} {manifest['files'][f'data/{config}/{split}.parquet']['rows']:,}" for split in splits)
        echo(f"  {config}: {rows}")
    answered: dict[str, list[str]] = {}
    for name in manifest.get("answers", {}):
        file = PurePosixPath(name)
        answered.setdefault("/".join(file.parts[1:-1]), []).append(f"{PUBLISHED}{file.stem}")
    for part, systems in answered.items():
        more = f" and {len(systems) - 3} more" if len(systems) > 3 else ""
        echo(f"  predictions for {part}: {', '.join(systems[:3])}{more}")
    echo(f"{folder.path}: {size / 1e6:.1f} MB in {seconds:.1f} s, revision {folder.revision}")
