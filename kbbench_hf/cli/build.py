"""`kbbench build`: build a dataset in ./kbbench from a release or from your own tables."""

import time
from pathlib import Path, PurePosixPath

import click

from kbbench_hf.benchmarks import PUBLISHED, benchmark, benchmark_names, shipped_dataset
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.cli.names import DATASET, NAME, FilePath, of_benchmark
from kbbench_hf.errors import UsageError
from kbbench_hf.files.datasets import NAMESPACE, DatasetFolder, check_replaceable, copy_dataset
from kbbench_hf.reports.terminal import echo

FILE = FilePath(exists=True, dir_okay=False)


@click.command()
@click.argument("name", type=DATASET)
@click.option("--source", type=FilePath(), help="Folder of the authors' release; downloaded if not given.")
@click.option("--archive", type=FILE, help="Your own archive in the format of the release; needs --out.")
@click.option(
    "--configs",
    type=of_benchmark(lambda found: found.data.configs),
    metavar="NAME,...",
    help="Build only these configs.",
)
@click.option("--nodes", type=FILE, help="Nodes of your knowledge base, columns id,type,name,text (CSV or Parquet).")
@click.option("--edges", type=FILE, help="Its edges (optional), columns head,relation,tail.")
@click.option("--queries", type=FILE, help="Its questions (optional), columns id,query,answer_ids[,split].")
@click.option(
    "--drop-dangling", is_flag=True, help="Drop edges and gold ids that name no node, and print their number."
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
@click.option("--seed", "drawn_by", type=int, help="Random seed of the splits; 0 by default.")
@click.option(
    "--similar-by",
    type=NAME,
    metavar="MODEL",
    help="Select similar demonstrations with this sentence-transformers model.",
)
@click.option(
    "--private",
    "seed",
    type=NAME,
    metavar="SEED",
    help="Build a private split with invented names in ./private/kbbench/NAME; run models in ./private.",
)
@click.option("--out", type=FilePath(), help="Output folder; ./kbbench/NAME by default.")
def command(
    name: str,
    source: Path | None,
    archive: Path | None,
    configs: str | None,
    nodes: Path | None,
    edges: Path | None,
    queries: Path | None,
    drop_dangling: bool,
    ontology: Path | None,
    triples: Path | None,
    sentences: Path | None,
    pairs: Path | None,
    seed: str | None,
    min_grade: str | None,
    split_by: str | None,
    drawn_by: int | None,
    similar_by: str | None,
    out: Path | None,
) -> None:
    """Build the dataset NAME in ./kbbench/NAME; 'kbbench list' prints the names.

    The name 'metrics' builds the evaluate modules in ./kbbench.

    Examples:
      kbbench build NAME
      kbbench build NAME --source RELEASE
      kbbench build my-kb --nodes n.csv --edges e.csv --queries q.csv
      kbbench build my-extraction --ontology o.ttl --triples t.csv --sentences s.csv
    """
    name = name.removeprefix(f"{NAMESPACE}/")
    if name == "metrics":
        from kbbench_hf.hub.metric_modules import build_metrics
        from kbbench_hf.reports.publications import evaluate_modules

        if source or configs or archive or nodes or edges or queries or seed is not None:
            raise UsageError("'build metrics' takes only the option --out. Leave the others out.")
        place = out or Path(NAMESPACE)
        place.mkdir(parents=True, exist_ok=True)
        for module in build_metrics(place, evaluate_modules()):
            echo(f'{place / module}  evaluate.load("{place / module}")')
        return
    if drop_dangling and not nodes:
        raise UsageError("--drop-dangling needs --nodes. Add --nodes, or leave --drop-dangling out.")
    left_out: list[str] = []
    place = out or (Path(NAMESPACE) if seed is None else Path("private") / NAMESPACE) / name
    check_replaceable(place)
    started = time.monotonic()
    if nodes or edges or queries:
        if not nodes:
            raise UsageError(
                "A knowledge base needs --nodes FILE; only --edges and --queries are optional. Add --nodes."
            )
        if source or configs or archive or seed is not None:
            raise UsageError(
                "--source, --configs, --archive and --private are for releases, not for your own tables. Leave them "
                "out."
            )
        from kbbench_hf.building.own_kb import build_own_knowledge_base

        left_out = build_own_knowledge_base(name, nodes, edges, queries, place, drop_dangling)
    elif ontology or triples or sentences or pairs or min_grade or split_by or similar_by or drawn_by is not None:
        if not ontology or not sentences:
            raise UsageError(
                "An extraction benchmark needs --ontology and --sentences, and triples of the sentences. Add them."
            )
        if source or configs or archive or seed is not None:
            raise UsageError("--source, --configs, --archive and --private are for releases. Leave them out.")
        from kbbench_hf.building.own_extraction.release import build_own_extraction

        embedder = None
        if similar_by is not None:
            from kbbench_hf.retrieval.embedders import SentenceEmbedder

            embedder = SentenceEmbedder(similar_by)
        given = {"min_grade": min_grade, "split_by": split_by, "seed": drawn_by, "embedder": embedder}
        chosen = {name: value for name, value in given.items() if value is not None}
        build_own_extraction(name, ontology, triples, sentences, pairs, place, **chosen)
    elif seed is not None:
        build_private = _benchmark(name).data.build_private
        if build_private is None or archive:
            raise UsageError(f"{name} has no private split. Leave --private out.")
        build_private(source, place, None if configs is None else configs.split(","), seed)
    elif archive:
        _build_archive(name, archive, out, source or configs)
    elif (build := _benchmark(name).data.build) is None:
        if (shipped := shipped_dataset(name)) is None:
            raise UsageError(
                f"{name} has no release to build from; expected a dataset that has one. See: kbbench list {name}"
            )
        if source or configs:
            raise UsageError(f"{name} is built in. Leave --source and --configs out.")
        copy_dataset(shipped, place)
    else:
        if source is not None and not source.is_dir():
            raise UsageError(
                f"--source {source} is not a folder; expected the folder of the release. Leave it out to download."
            )
        build(source, place, None if configs is None else configs.split(","))
    _report(DatasetFolder(place), time.monotonic() - started)
    for each in left_out:
        echo(f"  left out: {each}")


def _benchmark(name: str) -> Benchmark:
    try:
        return benchmark(name)
    except UsageError as error:
        raise UsageError(f"{error} To build your own knowledge base, add --nodes FILE.") from None


def _build_archive(name: str, archive: Path, out: Path | None, others: object) -> None:
    build = _benchmark(name).data.build_archive
    if build is None:
        some = ", ".join(each for each in benchmark_names() if benchmark(each).data.build_archive)
        raise UsageError(f"The release of {name} has no archive; expected one of {some}. Leave --archive out.")
    if out is None or others:
        raise UsageError(
            "--archive builds another knowledge base; expected --out FOLDER, and neither --source nor --configs. "
            "Add --out and leave the others out."
        )
    build(archive, out)


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
