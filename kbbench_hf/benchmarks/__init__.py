"""Registry of benchmarks by dataset name, each imported on request, and lookup of places and local datasets.

Packages above find benchmarks and datasets here. A name in `OURS` is also the name of its dataset on the Hub and
in stored results: it cannot change. Importing this module imports no benchmark.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from warnings import warn  # `warnings` is a module of this package

from kbbench_hf.addresses import imported, plug_ins, plugged
from kbbench_hf.benchmarks.base import Benchmark, with_plugged_metrics
from kbbench_hf.benchmarks.base import TaskKey as TaskKey
from kbbench_hf.errors import KBBenchError, UsageError, unknown_name
from kbbench_hf.files import user_path
from kbbench_hf.files.datasets import MANIFEST, NAMESPACE, PREDICTIONS, DatasetFolder, Id, built

OURS = {
    "stark-amazon": "kbbench_hf.benchmarks.stark.benchmark:AMAZON",
    "stark-mag": "kbbench_hf.benchmarks.stark.benchmark:MAG",
    "stark-prime": "kbbench_hf.benchmarks.stark.benchmark:PRIME",
    "text2kg-wikidata-tekgen": "kbbench_hf.benchmarks.text2kgbench.benchmark:WIKIDATA_TEKGEN",
    "text2kg-dbpedia-webnlg": "kbbench_hf.benchmarks.text2kgbench.benchmark:DBPEDIA_WEBNLG",
    "ska-open": "kbbench_hf.benchmarks.ska_bench.benchmark:SKA_OPEN",
    "ska-bench": "kbbench_hf.benchmarks.ska_bench.benchmark:SKA_BENCH",
    "genres-corpora": "kbbench_hf.benchmarks.genres.benchmark:CORPORA",
    "mini-stark": "kbbench_hf.benchmarks.stark.benchmark:MINI",
    "mini-text2kg": "kbbench_hf.benchmarks.text2kgbench.benchmark:MINI",
    "mini-ska": "kbbench_hf.benchmarks.ska_bench.benchmark:MINI",
    "mini-genres": "kbbench_hf.benchmarks.genres.benchmark:MINI",
}
"""Dataset -> the address of its benchmark, in the order of the board."""
_BY_PATH: dict[str, DatasetFolder] = {}
"""Datasets elsewhere than in `./kbbench` that were named by their folders."""
PUBLISHED = "published:"
"""What stands before a published system's name wherever predictions can be named."""
PLUGGED_BENCHMARKS = "kbbench.benchmarks"
"""The entry points of benchmarks in other packages: dataset = package.module:value."""


def plugged_benchmarks() -> dict[str, str]:
    """Return dataset -> address of the benchmarks of other packages; ours win over one of the same name."""
    return {name: address for name, address in plug_ins(PLUGGED_BENCHMARKS).items() if name not in OURS}


def benchmark_names() -> list[str]:
    """Return the names of all benchmarks, as `benchmark` takes them: our own and those of other packages.

    >>> "mini-stark" in benchmark_names()
    True
    """
    return sorted([*OURS, *plugged_benchmarks()])


def own_names() -> list[str]:
    """Return the names of the user's own datasets in `./kbbench`, sorted: those that are no benchmark's."""
    known = {*OURS, *plugged_benchmarks()}
    names = sorted(file.parent.name for file in Path(NAMESPACE).glob(f"*/{MANIFEST}") if file.is_file())
    return [name for name in names if name not in known]


def importable_names() -> list[str]:
    """Return the names of the benchmarks whose packages can be imported, in the order of the board; warn of others."""
    found = []
    for name in (*OURS, *plugged_benchmarks()):
        try:
            benchmark(name)
        except UsageError as error:
            warn(str(error), stacklevel=2)
        else:
            found.append(name)
    return found


def benchmark(name: str) -> Benchmark:
    """Return the benchmark of a dataset's name, with or without `kbbench/` before it.

    A knowledge base of one's own, built with questions into `./kbbench`, is one too, and so are sentences with an
    ontology.

    Raises:
        UsageError: there is none of that name, and the message has the closest one; or its plug-in fails to import.
    """
    return with_plugged_metrics(_named_benchmark(name.removeprefix(f"{NAMESPACE}/")))


def _named_benchmark(name: str) -> Benchmark:
    """Return the benchmark of a name: ours, a plug-in, or a user's own dataset, in this order; UsageError for none."""
    if name in OURS:
        found: Benchmark = imported(OURS[name])
        return found
    if name in plugged_benchmarks():
        return _plugged_in(name, plugged_benchmarks()[name])
    if folder := built(name) or _BY_PATH.get(name):
        from kbbench_hf.benchmarks import own_data

        if is_knowledge_base(folder):
            return own_data.own_knowledge_base(name, folder)
        if {"sentences", "ontologies"} <= folder.configs().keys():
            return own_data.own_extraction(name, folder)
        raise UsageError(
            f"{folder.path} is neither a known benchmark's nor a knowledge base nor one of sentences; expected configs "
            "nodes, edges and queries, or sentences and ontologies, and found "
            f"{', '.join(folder.configs()) or 'none'}. Build it again, or remove the folder."
        )
    raise unknown_name("benchmark", name, [*benchmark_names(), *own_names()])


def is_knowledge_base(folder: DatasetFolder) -> bool:
    """Return whether a dataset is a knowledge base: it has nodes and edges."""
    return {"nodes", "edges"} <= folder.configs().keys()


def has_questions(name: str) -> bool:
    """Return whether a dataset has questions to score; only a user's own knowledge base can be built without."""
    folder = built(name)
    return folder is None or not is_knowledge_base(folder) or "queries" in folder.configs()


def _plugged_in(name: str, address: str) -> Benchmark:
    """Return the benchmark of a plug-in; UsageError where its entry point is none."""
    found = plugged("benchmark", name, address)
    if not isinstance(found, Benchmark):
        raise UsageError(
            f"{address}, plugged in as the benchmark {name!r}, is a {type(found).__name__}; "
            "expected a kbbench_hf.benchmarks.base.Benchmark. Fix the package that plugs it in."
        )
    return found


def name_of_path(text: str) -> str:
    """Return the name, with the config where there is one, of a dataset that is named by its folder.

    A folder elsewhere than in `./kbbench` has this name until the process ends. Other text is returned as it is.

    Only what users call on their own machine resolves paths: the command line and the Python API. `benchmark`,
    `task_key_of` and `find_dataset` take names only, because visitors of the leaderboard choose them.

    Raises:
        UsageError: there is no dataset in this folder, or its name is another dataset's.
    """
    if not text.startswith((".", "~", "/", "$")):
        return text
    path, config = user_path(text), ""
    if not (path / MANIFEST).is_file() and (path.parent / MANIFEST).is_file():
        path, config = path.parent, f"/{path.name}"
    if not (path / MANIFEST).is_file():
        raise UsageError(f"{text} holds no {MANIFEST}; expected a folder that 'kbbench build' wrote. Check the path.")
    path = path.resolve()
    other = at_hand(path.name)
    if other is not None and other.path.resolve() != path:
        raise UsageError(
            f"{text} and {other.path} are both datasets called {path.name}; expected different names. Rename a folder."
        )
    _BY_PATH[path.name] = DatasetFolder(path)
    return path.name + config


def task_key_of(name: str, config: str | None = None, split: str | None = None, mode: str | None = None) -> TaskKey:
    """Return the place that a user means by `name` or `name/config`; what is left out is the benchmark's default.

    >>> task_key_of("mini-text2kg")
    TaskKey(benchmark='mini-text2kg', config='sentences', split='test', mode='reference')
    >>> str(task_key_of("kbbench/genres-corpora/docred", mode="fixed"))
    'genres-corpora/docred/test/fixed'

    Raises:
        UsageError: a benchmark, config, split or mode that does not exist.
    """
    dataset, _, in_name = name.removeprefix("kbbench/").partition("/")
    found = benchmark(dataset)
    chosen = []
    for kind, wanted, known, usual in (
        ("config", config or in_name or None, found.data.configs, found.data.configs[0]),
        ("split", split, found.data.splits, found.data.default_split),
        ("mode", mode, found.scoring.modes, found.scoring.modes[0]),
    ):
        if wanted is not None and wanted not in known:
            raise unknown_name(f"{kind} of {found.dataset}", wanted, known)
        chosen.append(wanted or usual)
    return TaskKey(found.dataset, *chosen)


def as_task_key(text: object) -> TaskKey:
    """Return the place that a text names, `benchmark/config/split/mode`; nothing may be left out.

    Raises:
        UsageError: it is no place, as the leaderboard may get from anyone.
    """
    parts = str(text).split("/")
    if len(parts) == 4 and all(parts):
        found = benchmark(parts[0])
        if parts[1] in found.data.configs and parts[2] in found.data.splits and parts[3] in found.scoring.modes:
            return TaskKey(*parts)
    raise UsageError(
        f"{str(text)[:80]!r} is not a place of the board; expected benchmark/config/split/mode. Choose one."
    )


def is_published(name: Path | str) -> bool:
    """Return whether this names a published system rather than a file."""
    return str(name).startswith(PUBLISHED)


def shipped_dataset(name: str) -> DatasetFolder | None:
    """Return the dataset that a package carries for a benchmark, or None.

    >>> shipped_dataset("mini-text2kg").table("sentences", "test").num_rows
    48
    """
    folder = benchmark(name).data.shipped
    return DatasetFolder(folder) if folder else None


def shipped_answers(name: str) -> list[Path]:
    """Return the predictions files that a package carries with a benchmark's dataset, by name; empty where none.

    >>> [each.name for each in shipped_answers("mini-text2kg")]
    ['copy.jsonl', 'pattern.jsonl']
    """
    folder = shipped_dataset(name)
    return sorted((folder.path / PREDICTIONS).glob("*.jsonl")) if folder else []


def shipped_runs(name: str) -> list[Path]:
    """Return the run folders of small language models that a package carries for a benchmark, by name.

    They are runs on the default config and split, named after their model; empty where there are none.

    >>> [each.name for each in shipped_runs("mini-text2kg")]
    ['SmolLM2-135M-Instruct', 'SmolLM2-135M-Instruct-structured']
    """
    data = benchmark(name).data
    folder = data.shipped / PREDICTIONS if data.shipped else data.runs
    return sorted(file.parent for file in folder.glob("*/run.json")) if folder else []


def find_dataset(name: str, revision: str | None = None, whole: bool = True) -> DatasetFolder:
    """Return the folder of a dataset: `./kbbench/<name>` if it was built, else the packaged one, else the Hub's.

    A dataset that `name_of_path` was given by its folder is read from there.

    Args:
        name: the dataset's name, with or without `kbbench/`.
        revision: a commit of the Hub's copy; a folder in `./kbbench` or the package is then not looked at.
        whole: all files of the Hub's copy are fetched now; else each when it is read, by `table` and `file`.

    Raises:
        UsageError: it is nowhere; the message has the command that builds it.
    """
    name = name.removeprefix(f"{NAMESPACE}/")
    if revision is None and (found := at_hand(name)):
        return found
    if not _is_known(name):
        raise unknown_name("dataset", name, benchmark_names())
    from kbbench_hf.hub.download import download_dataset, hub_dataset

    return DatasetFolder(download_dataset(name, revision)) if whole else hub_dataset(name, revision)


def rows_of_code(name: str) -> DatasetFolder | None:
    """Return a folder that does not exist for a plug-in whose `Data.load` makes the rows in code; None for others.

    Such a plug-in has no dataset, built or on the Hub, so `find_dataset` fails for it.
    """
    if name not in plugged_benchmarks() or at_hand(name) is not None or benchmark(name).data.build is not None:
        return None
    return DatasetFolder(Path(NAMESPACE) / name)


def at_hand(name: str) -> DatasetFolder | None:
    """Return the folder of a dataset that is here without the network, built or packaged; None where it is not."""
    if found := built(name) or _BY_PATH.get(name):
        return found
    return shipped_dataset(name) if _is_known(name) else None


def places_with_ids(ids: Collection[Id]) -> list[tuple[str, str]]:
    """Return the datasets at hand, and the split of each, whose examples have all of these ids, be they text or number.

    Only ours and those in `./kbbench` are read, no plug-in's. Without ids, all their splits are returned.

    >>> places_with_ids(["ont_1_isles_test_1", "ont_1_isles_test_2"])
    [('mini-text2kg', 'test')]
    """
    wanted = {*map(str, ids)}
    return [(name, split) for name in (*OURS, *own_names()) for split in _splits_with_ids(name, wanted)]


def _splits_with_ids(name: str, wanted: AbstractSet[str]) -> list[str]:
    """Return the splits of a dataset at hand whose examples have all of these ids; none where it cannot be read."""
    found = []
    with suppress(KBBenchError, OSError, ValueError):  # one that is damaged, or has no examples, has none of these ids
        if folder := at_hand(name):
            config = benchmark(name).data.configs[0]
            for split in folder.configs().get(config, ()):
                if wanted <= {*map(str, folder.table(config, split)["id"].to_pylist())}:
                    found.append(split)
    return found


def _is_known(name: str) -> bool:
    return name in OURS or name in plugged_benchmarks()
