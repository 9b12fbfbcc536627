"""`kbbench build`: build a dataset in ./kbbench from a release or from your own tables."""

import time
from pathlib import Path, PurePosixPath
from typing import Any

import click

from kbbench_hf.benchmarks import PUBLISHED, benchmark, benchmark_names, shipped_dataset
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.cli.names import DATASET, NAME, FilePath, of_benchmark
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE, DatasetFolder, Row, check_replaceable, copy_dataset
from kbbench_hf.reports.terminal import echo

FILE = FilePath(exists=True, dir_okay=False)
_RELEASE = ("source", "configs", "archive", "private_seed", "revision")
"""Options of datasets that have a release."""
_TABLES = ("nodes", "edges", "queries", "graph")
"""Options of knowledge bases of one's own, from tables or a graph."""
_READING = {"qrels": "qrels", "format": "form", "map": "sources", "encoding": "encoding", "graph": "graphs"}
"""Options on how they are read -> the field in `own_kb.OwnTables`."""
_NEEDS = {
    "format": ("graph",),
    "qrels": ("queries",),
    "map": _TABLES[:3],
    "encoding": ("nodes", "graph"),
    "skip_dangling": ("nodes", "graph"),
}
"""Option -> those of which it needs one."""
_CHOICES = {"min_grade": "min_grade", "split_by": "split_by", "split_seed": "seed", "similar_by": "embedder"}
"""Options of extraction datasets -> the choice in `own_extraction`."""
_EXTRACTION = ("ontology", "triples", "sentences", "pairs", *_CHOICES)


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


def _sources(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return table -> column -> its source, from `TABLE.COLUMN=SOURCE,...`."""
    from kbbench_hf.building.own_kb import MAPPED

    sources: dict[str, dict[str, str]] = {}
    for pair in ",".join(given).split(",") if given else ():
        target, _, source = pair.partition("=")
        table, _, column = target.strip().partition(".")
        if column not in MAPPED.get(table, ()) or not source:
            known = ", ".join(f"{name}.{each}" for name, columns in MAPPED.items() for each in columns)
            raise UsageError(f"--map has {pair!r}; expected COLUMN=SOURCE with a column of {known}. Correct it.")
        sources.setdefault(table, {})[column] = source.strip()
    return sources


def _encoding(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """Return the name of an encoding that Python has."""
    try:
        "a".encode(name or "utf-8")
        return name
    except LookupError:
        raise UsageError(
            f"--encoding {name} is unknown; expected a name such as latin-1 or cp1252. Correct it."
        ) from None


@click.command(cls=_BuildCommand)
@click.argument("name", type=DATASET)
@click.option("--source", type=FilePath(), help="Folder of the authors' release; downloaded if not given.")
@click.option("--archive", type=FILE, help="Your own archive in the format of the release; needs --out.")
@click.option(
    "--configs",
    type=of_benchmark(lambda found: found.data.configs),
    metavar="NAME,...",
    help="Build only these configs.",
)
@click.option(
    "--graph",
    type=FilePath(exists=True),
    multiple=True,
    metavar="PATH...",
    help="Your knowledge graph: files or folders of Neo4j, RDF, GraphML, GraphRAG, BEIR, ...",
)
@click.option("--format", type=NAME, help="Format of --graph; detected if not given.")
@click.option(
    "--nodes", type=FILE, help="Nodes of your knowledge base, columns id,type,name,text (CSV, Parquet, JSON Lines)."
)
@click.option("--edges", type=FILE, help="Its edges (optional), columns head,relation,tail.")
@click.option("--queries", type=FILE, help="Its questions (optional), columns id,query,answer_ids[,split,relevance].")
@click.option("--qrels", type=FILE, help="Judgments of --queries (TREC, BEIR, csv), in place of answer_ids.")
@click.option(
    "--map",
    type=NAME,
    multiple=True,
    metavar="COLUMN=SOURCE,...",
    callback=_sources,
    help="Map our columns to those of your files, e.g. nodes.id=code,nodes.text=title+body,edges.head=from.",
)
@click.option(
    "--encoding", type=NAME, callback=_encoding, help="Encoding of your files if it is not Unicode, e.g. latin-1."
)
@click.option(
    "--skip-dangling",
    "--drop-dangling",
    is_flag=True,
    help="Leave out edges and gold ids that name no node, and print their number.",
)
@click.option("--ontology", type=FILE, help="Your ontology for triple extraction: Turtle, RDF/XML or JSON.")
@click.option("--triples", type=FILE, help="Its triples, columns subject,relation,object (CSV, Parquet), or RDF.")
@click.option(
    "--sentences", type=FILE, help="Sentences, one per line, or columns id,sentence[,triples,split,selected]."
)
@click.option("--pairs", type=FILE, help="Which sentence states which triple, columns id,subject,relation,object.")
@click.option(
    "--min-grade",
    type=click.Choice(["mentioned", "both_verbatim", "relation_cued"]),
    help="Minimum evidence for aligning a triple with a sentence; relation_cued by default.",
)
@click.option("--split-by", type=click.Choice(["group", "subject"]), help="Unit of the splits; group by default.")
@click.option("--seed", "split_seed", type=int, help="Random seed of the splits; 0 by default.")
@click.option(
    "--similar-by",
    type=NAME,
    metavar="MODEL",
    help="Select similar demonstrations with this sentence-transformers model.",
)
@click.option(
    "--private",
    "private_seed",
    type=NAME,
    metavar="SEED",
    help="Build a private split with invented names in ./private/kbbench/NAME; run models in ./private.",
)
@click.option("--revision", type=int, help="Rebuild an earlier revision of a dataset that has several.")
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
    name = name.removeprefix(f"{NAMESPACE}/")
    given = {option: value for option, value in options.items() if value not in (None, False, (), {})}
    if name == "metrics":
        _build_metrics(out or Path(NAMESPACE), given)
        return
    for option, needed in _NEEDS.items():
        if option in given and given.keys().isdisjoint(needed):
            names, shown = " or ".join(f"--{each}" for each in needed), f"--{option.replace('_', '-')}"
            raise UsageError(f"{shown} needs {names}. Add {names}, or leave {shown} out.")
    if unused := given.get("map", {}).keys() - given.keys():
        raise UsageError(
            f"--map names {', '.join(sorted(unused))}, of which no table is given. Give --{min(unused)} FILE."
        )
    folder = out or Path("private" if "private_seed" in given else "") / NAMESPACE / name
    check_replaceable(folder)
    started = time.monotonic()
    dropped: list[str] = []
    if not given.keys().isdisjoint(_TABLES):
        dropped = _build_knowledge_base(name, folder, given)
    elif not given.keys().isdisjoint(_EXTRACTION):
        _build_extraction(name, folder, given)
    elif "private_seed" in given:
        _build_private(name, folder, given)
    elif "archive" in given:
        _build_archive(name, out, given)
    else:
        _build_release(name, folder, given)
    _report(DatasetFolder(folder), time.monotonic() - started)
    for each in dropped:
        echo(f"  left out: {each}")


def _build_metrics(folder: Path, given: Row) -> None:
    """Build the evaluate modules in a folder."""
    from kbbench_hf.hub.metric_modules import build_metrics
    from kbbench_hf.reports.publications import evaluate_modules

    if not given.keys().isdisjoint((*_RELEASE, *_TABLES)):
        raise UsageError("'build metrics' takes only the option --out. Leave the others out.")
    folder.mkdir(parents=True, exist_ok=True)
    for module in build_metrics(folder, evaluate_modules()):
        echo(f'{folder / module}  evaluate.load("{folder / module}")')


def _build_knowledge_base(name: str, folder: Path, given: Row) -> list[str]:
    """Build a dataset from tables of nodes, edges and queries; return what was dropped from them."""
    if ("nodes" in given) == ("graph" in given) or ("edges" in given and "graph" in given):
        raise UsageError(
            "A knowledge base needs --nodes FILE or --graph PATH, and not both; only --edges and --queries are "
            "optional, --edges with --nodes. Give one of the two."
        )
    if not given.keys().isdisjoint(_RELEASE):
        raise UsageError(
            "--source, --configs, --archive, --private and --revision are for releases, not for your own tables. Leave "
            "them out."
        )
    from kbbench_hf.building.own_kb import build_own_knowledge_base

    edges, queries = given.get("edges"), given.get("queries")
    more = {field: given[option] for option, field in _READING.items() if option in given}
    return build_own_knowledge_base(name, given.get("nodes"), edges, queries, folder, "skip_dangling" in given, **more)


def _build_extraction(name: str, folder: Path, given: Row) -> None:
    """Build a dataset from an ontology, sentences and triples."""
    if "ontology" not in given or "sentences" not in given:
        raise UsageError(
            "An extraction benchmark needs --ontology and --sentences, and triples of the sentences. Add them."
        )
    if not given.keys().isdisjoint(_RELEASE):
        raise UsageError("--source, --configs, --archive, --private and --revision are for releases. Leave them out.")
    from kbbench_hf.building.own_extraction.release import build_own_extraction

    choices = {choice: given[option] for option, choice in _CHOICES.items() if option in given}
    if "embedder" in choices:
        from kbbench_hf.retrieval.embedders import SentenceEmbedder

        choices["embedder"] = SentenceEmbedder(choices["embedder"])
    ontology, triples, sentences = given["ontology"], given.get("triples"), given["sentences"]
    build_own_extraction(name, ontology, triples, sentences, given.get("pairs"), folder, **choices)


def _build_private(name: str, folder: Path, given: Row) -> None:
    """Build a private split with invented names from the release of a dataset."""
    build = _benchmark(name).data.build_private
    if build is None or "archive" in given:
        raise UsageError(f"{name} has no private split. Leave --private out.")
    build(given.get("source"), folder, _configs(given), given["private_seed"], **_revision(name, given))


def _build_archive(name: str, out: Path | None, given: Row) -> None:
    """Build a knowledge base from the user's archive in the format of a release."""
    build = _benchmark(name).data.build_archive
    if build is None:
        some = ", ".join(each for each in benchmark_names() if benchmark(each).data.build_archive)
        raise UsageError(f"The release of {name} has no archive; expected one of {some}. Leave --archive out.")
    if out is None or not given.keys().isdisjoint(("source", "configs", "revision")):
        raise UsageError(
            "--archive builds another knowledge base; expected --out FOLDER, and no --source, --configs or --revision. "
            "Add --out and leave the others out."
        )
    build(given["archive"], out)


def _build_release(name: str, folder: Path, given: Row) -> None:
    """Build a dataset from its release, or copy a dataset that the package contains."""
    source, build = given.get("source"), _benchmark(name).data.build
    if build is not None:
        if source is not None and not source.is_dir():
            raise UsageError(
                f"--source {source} is not a folder; expected the folder of the release. Leave it out to download."
            )
        build(source, folder, _configs(given), **_revision(name, given))
        return
    if (shipped := shipped_dataset(name)) is None:
        raise UsageError(
            f"{name} has no release to build from; expected a dataset that has one. See: kbbench list {name}"
        )
    if not given.keys().isdisjoint(("source", "configs", "revision")):
        raise UsageError(f"{name} is built in. Leave --source, --configs and --revision out.")
    copy_dataset(shipped, folder)


def _configs(given: Row) -> list[str] | None:
    return given["configs"].split(",") if "configs" in given else None


def _revision(name: str, given: Row) -> dict[str, int]:
    """Return the chosen revision of a dataset as an option of its builder; nothing where none is chosen."""
    if "revision" not in given:
        return {}
    revisions, revision = _benchmark(name).data.revisions, given["revision"]
    if not revisions:
        raise UsageError(f"{name} has one revision; expected no --revision. Leave it out.")
    if revision not in revisions:
        known = " or ".join(map(str, revisions))
        raise UsageError(f"{name} has no revision {revision}; expected {known}. Name one with --revision.")
    return {"revision": revision}


def _benchmark(name: str) -> Benchmark:
    try:
        return benchmark(name)
    except UsageError as error:
        raise UsageError(f"{error} To build your own knowledge base, add --graph PATH or --nodes FILE.") from None


def _report(folder: DatasetFolder, seconds: float) -> None:
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
