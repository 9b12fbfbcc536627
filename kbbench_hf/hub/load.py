"""Find a dataset: built in `./kbbench`, shipped in the package, or on the Hub."""

from pathlib import Path

from kbbench_hf.benchmarks import BENCHMARKS, benchmark
from kbbench_hf.benchmarks.base import Benchmark
from kbbench_hf.dataset_folder import MANIFEST, DatasetFolder
from kbbench_hf.errors import UsageError, unknown_name

NAMESPACE = "kbbench"
MINI = Path(__file__).resolve().parent.parent / "mini"


def find_dataset(name: str, revision: str | None = None) -> DatasetFolder:
    """Return the folder of a dataset: `./kbbench/<name>` if it was built, else the packaged one, else the Hub's.

    Args:
        name: the dataset's name, with or without `kbbench/`.
        revision: a commit of the Hub's copy; a folder in `./kbbench` or the package is then not looked at.

    Raises:
        UsageError: it is nowhere; the message has the command that builds it.
    """
    name = name.removeprefix(f"{NAMESPACE}/")
    if revision is None:
        for place in (Path(NAMESPACE), MINI):
            if _is_built(place, name):
                return DatasetFolder(place / name)
    return DatasetFolder(_download(name, revision))


def find_benchmark(name: str) -> Benchmark:
    """Return the benchmark of a name: one of the registry, or a knowledge base of the user's built in `./kbbench`."""
    name = name.removeprefix(f"{NAMESPACE}/")
    if name not in BENCHMARKS and _is_built(Path(NAMESPACE), name):
        from kbbench_hf.benchmarks.stark import own_knowledge_base

        return own_knowledge_base(name)
    return benchmark(name)


def _is_built(place: Path, name: str) -> bool:
    """Whether a finished dataset of this name is here; a name is never a path to somewhere else."""
    return "/" not in name and name != ".." and (place / name / MANIFEST).is_file()


def _download(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    if name not in BENCHMARKS:
        raise unknown_name("dataset", name, BENCHMARKS)
    try:
        return Path(snapshot_download(f"{NAMESPACE}/{name}", repo_type="dataset", revision=revision))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise UsageError(
            f"Dataset {name!r} is not in ./{NAMESPACE} and could not be had from the Hub ({type(error).__name__}). "
            f"Build it: kbbench build {name}"
        ) from error
