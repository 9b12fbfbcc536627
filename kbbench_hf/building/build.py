"""`build`: make a dataset from its authors' release, or from the user's own tables, graph, ontology or archive.

The public function and `kbbench build` take the options of `BuildOptions`; their names and texts are the command's.
This module checks the options and calls a builder, which it imports only then.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypedDict, Unpack

from kbbench_hf.benchmarks import benchmark, benchmark_names, shipped_dataset
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.errors import UsageError, unknown_name
from kbbench_hf.files.datasets import NAMESPACE, DatasetFolder, Row, check_replaceable, copy_dataset

File = Path | str


class BuildOptions(TypedDict, total=False):
    """Options of `build`. `kbbench build` has the same, as `--name-with-hyphens`."""

    source: Annotated[File, "Folder of the authors' release; downloaded if not given."]
    archive: Annotated[File, "Your own archive in the format of the release; needs --out."]
    configs: Annotated[str | Sequence[str], "Build only these configs."]
    graph: Annotated[
        File | Sequence[File],
        "Your knowledge graph: files or folders of Neo4j, RDF, GraphML, GraphRAG, BEIR, ...",
    ]
    format: Annotated[str, "Format of --graph; detected if not given."]
    nodes: Annotated[File, "Nodes of your knowledge base, columns id,type,name,text (CSV, Parquet, JSON Lines)."]
    edges: Annotated[File, "Its edges (optional), columns head,relation,tail."]
    queries: Annotated[File, "Its questions (optional), columns id,query,answer_ids[,split,relevance]."]
    qrels: Annotated[File, "Judgments of --queries (TREC, BEIR, csv), in place of answer_ids."]
    map: Annotated[
        Mapping[str, str],
        "Map our columns to those of your files, e.g. nodes.id=code,nodes.text=title+body,edges.head=from.",
    ]
    encoding: Annotated[str, "Encoding of your files if it is not Unicode, e.g. latin-1."]
    skip_dangling: Annotated[bool, "Leave out edges and gold ids that name no node, and print their number."]
    ontology: Annotated[File, "Your ontology for triple extraction: Turtle, RDF/XML or JSON."]
    triples: Annotated[File, "Its triples, columns subject,relation,object (CSV, Parquet), or RDF."]
    sentences: Annotated[File, "Sentences, one per line, or columns id,sentence[,triples,split,selected]."]
    pairs: Annotated[File, "Which sentence states which triple, columns id,subject,relation,object."]
    min_grade: Annotated[
        Literal["mentioned", "both_verbatim", "relation_cued"],
        "Minimum evidence for aligning a triple with a sentence; relation_cued by default.",
    ]
    split_by: Annotated[Literal["group", "subject"], "Unit of the splits; group by default."]
    seed: Annotated[int, "Random seed of the splits; 0 by default."]
    similar_by: Annotated[str, "Select similar demonstrations with this sentence-transformers model."]
    private: Annotated[
        str, "Build a private split with invented names in ./private/kbbench/NAME; run models in ./private."
    ]
    revision: Annotated[int, "Rebuild an earlier revision of a dataset that has several."]


_RELEASE = ("source", "configs", "archive", "private", "revision")
"""Options of datasets that have a release."""
_TABLES = ("nodes", "edges", "queries", "graph")
"""Options of knowledge bases of one's own, from tables or a graph. The first three are the tables that `map` names."""
_NEEDS = {
    "format": ("graph",),
    "qrels": ("queries",),
    "map": _TABLES[:3],
    "encoding": ("nodes", "graph"),
    "skip_dangling": ("nodes", "graph"),
}
"""Option -> those of which it needs one."""
_CHOICES = ("min_grade", "split_by", "seed", "similar_by")
"""Options of extraction datasets, fields of `own_extraction.dataset.Choices`."""
_EXTRACTION = ("ontology", "triples", "sentences", "pairs", *_CHOICES)
"""Options that select a dataset for triple extraction."""
_FILES = ("source", "archive", "nodes", "edges", "queries", "qrels", "ontology", "triples", "sentences", "pairs")
"""Options whose value is one path."""


def build(name: str, out: Path | str | None = None, **options: Unpack[BuildOptions]) -> DatasetFolder:
    r"""Build a dataset as `kbbench build` does, and return its folder.

    Args:
        name: a dataset of `benchmark_names`, or a new name for your own knowledge base or extraction dataset.
        out: the folder to write; `kbbench/NAME` in the current folder by default, where `load(NAME)` finds it. A
            dataset there is replaced when the new one is complete.
        options: see `BuildOptions`; `left_out` of the result has what `skip_dangling` left out, in sentences.

    Raises:
        UsageError: a name, an option or a file that does not exist, or options that do not belong together.
        DataError: a file is malformed.

    >>> from tempfile import mkdtemp
    >>> nodes = Path(mkdtemp()) / "nodes.csv"
    >>> _ = nodes.write_text("id,type,name,text\n1,dish,Leek pie,Baked leeks.\n2,cook,Ann,\n")
    >>> folder = build("dishes", nodes.parent / "dishes", nodes=nodes)
    >>> folder.n_rows("full")["nodes"]
    2
    """
    name = name.removeprefix(f"{NAMESPACE}/")
    given = _checked_options(options)
    folder = Path(out) if out else Path("private" if "private" in given else "") / NAMESPACE / name
    check_replaceable(folder)
    if not given.keys().isdisjoint(_TABLES):
        _build_knowledge_base(name, folder, given)
    elif not given.keys().isdisjoint(_EXTRACTION):
        _build_extraction(name, folder, given)
    elif "private" in given:
        _build_private(name, folder, given)
    elif "archive" in given:
        _build_archive(name, folder if out else None, given)
    else:
        _build_release(name, folder, given)
    return DatasetFolder(folder)


def _checked_options(options: BuildOptions) -> Row:
    """Return the options that have a value, checked: files as paths, `graph` and `configs` as lists, `map` by table.

    Raises:
        UsageError: an option is unknown, or lacks another one that it needs.
    """
    # An integer counts if it is 0, as a seed may be; False does not.
    given: Row = {name: value for name, value in options.items() if value or type(value) is int}
    for option in given:
        if option not in BuildOptions.__annotations__:
            raise unknown_name("option", option, BuildOptions.__annotations__)
    given |= {option: Path(given[option]) for option in _FILES if option in given}
    for option, kind in {"graph": Path, "configs": str}.items():
        if several := given.get(option):
            listed = [several] if isinstance(several, str | Path) else several
            given[option] = [kind(each) for each in listed]
    if "map" in given:
        given["map"] = _column_sources(given["map"])
    try:
        "a".encode(given.get("encoding", "utf-8"))
    except LookupError:
        wrong = f"--encoding {given['encoding']} is unknown; expected a name such as latin-1 or cp1252. Correct it."
        raise UsageError(wrong) from None
    for option, needed in _NEEDS.items():
        if option in given and given.keys().isdisjoint(needed):
            names, shown = " or ".join(f"--{each}" for each in needed), f"--{option.replace('_', '-')}"
            raise UsageError(f"{shown} needs {names}. Add {names}, or leave {shown} out.")
    if unused := given.get("map", {}).keys() - given.keys():
        raise UsageError(
            f"--map names {', '.join(sorted(unused))}, of which no table is given. Give --{min(unused)} FILE."
        )
    return given


def _column_sources(mapped: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return table -> column -> its source, from `TABLE.COLUMN` -> source.

    Raises:
        UsageError: there is no such column, or its source is empty.
    """
    from kbbench_hf.building.own_kb import MAPPED

    sources: dict[str, dict[str, str]] = {}
    for target, source in mapped.items():
        table, _, column = target.partition(".")
        if column not in MAPPED.get(table, ()) or not source:
            known = ", ".join(f"{name}.{each}" for name, columns in MAPPED.items() for each in columns)
            pair = f"{target}={source}"
            raise UsageError(f"--map has {pair!r}; expected COLUMN=SOURCE with a column of {known}. Correct it.")
        sources.setdefault(table, {})[column] = source
    return sources


def _build_knowledge_base(name: str, folder: Path, given: Row) -> None:
    """Build a dataset from tables of nodes, edges and queries, or from a graph."""
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
    from kbbench_hf.building.own_kb import OwnTables, build_own_knowledge_base

    nodes, edges, queries = map(given.get, _TABLES[:3])
    further = {option: given[option] for option in OwnTables._fields[3:] if option in given}
    build_own_knowledge_base(name, nodes, edges, queries, folder, "skip_dangling" in given, **further)


def _build_extraction(name: str, folder: Path, given: Row) -> None:
    """Build a dataset from an ontology, sentences and triples."""
    if "ontology" not in given or "sentences" not in given:
        raise UsageError(
            "An extraction benchmark needs --ontology and --sentences, and triples of the sentences. Add them."
        )
    if not given.keys().isdisjoint(_RELEASE):
        raise UsageError("--source, --configs, --archive, --private and --revision are for releases. Leave them out.")
    from kbbench_hf.building.own_extraction.dataset import build_own_extraction

    choices = {option: given[option] for option in _CHOICES if option in given}
    if "similar_by" in choices:
        from kbbench_hf.retrieval.embedders import SentenceEmbedder

        choices["similar_by"] = SentenceEmbedder(choices["similar_by"])
    ontology, triples, sentences = given["ontology"], given.get("triples"), given["sentences"]
    build_own_extraction(name, ontology, triples, sentences, given.get("pairs"), folder, **choices)


def _build_private(name: str, folder: Path, given: Row) -> None:
    """Build a private split with invented names from the release of a dataset."""
    make = _benchmark(name).data.build_private
    if make is None or "archive" in given:
        raise UsageError(f"{name} has no private split. Leave --private out.")
    make(given.get("source"), folder, given.get("configs"), given["private"], **_revision_option(name, given))


def _build_archive(name: str, out: Path | None, given: Row) -> None:
    """Build a knowledge base from the user's archive in the format of a release."""
    make = _benchmark(name).data.build_archive
    if make is None:
        some = ", ".join(each for each in benchmark_names() if benchmark(each).data.build_archive)
        raise UsageError(f"The release of {name} has no archive; expected one of {some}. Leave --archive out.")
    if out is None or not given.keys().isdisjoint(("source", "configs", "revision")):
        raise UsageError(
            "--archive builds another knowledge base; expected --out FOLDER, and no --source, --configs or --revision. "
            "Add --out and leave the others out."
        )
    make(given["archive"], out)


def _build_release(name: str, folder: Path, given: Row) -> None:
    """Build a dataset from its release, or copy a dataset that the package contains."""
    source, make = given.get("source"), _benchmark(name).data.build
    if make is not None:
        if source is not None and not source.is_dir():
            raise UsageError(
                f"--source {source} is not a folder; expected the folder of the release. Leave it out to download."
            )
        make(source, folder, given.get("configs"), **_revision_option(name, given))
        return
    if (shipped := shipped_dataset(name)) is None:
        raise UsageError(
            f"{name} has no release to build from; expected a dataset that has one. See: kbbench list {name}"
        )
    if not given.keys().isdisjoint(("source", "configs", "revision")):
        raise UsageError(f"{name} is built in. Leave --source, --configs and --revision out.")
    copy_dataset(shipped, folder)


def _revision_option(name: str, given: Row) -> dict[str, int]:
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
    """Return a benchmark by name; the error of an unknown one also says how to build a dataset of one's own."""
    try:
        return benchmark(name)
    except UsageError as error:
        raise UsageError(f"{error} To build your own knowledge base, add --graph PATH or --nodes FILE.") from None
