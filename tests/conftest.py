"""What all tests stand on: no network, a cache of their own, and the shared data where it is present."""

import fcntl
import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ.update(
    HF_HOME=tempfile.mkdtemp(prefix="kbbench-tests-hf-"),
    XDG_CACHE_HOME=tempfile.mkdtemp(prefix="kbbench-tests-cache-"),
    HF_HUB_DISABLE_TELEMETRY="1",
    HF_HUB_DISABLE_XET="1",
    HF_UPDATE_DOWNLOAD_COUNTS="0",
    HF_HUB_OFFLINE="1",
    HF_EVALUATE_OFFLINE="1",
    GRADIO_ANALYTICS_ENABLED="False",
    MPLBACKEND="Agg",
    TOKENIZERS_PARALLELISM="false",
    OMP_NUM_THREADS="1",
)
for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY"):
    os.environ.pop(name, None)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background; processes inherit that

import pytest
from hypothesis import settings

settings.register_profile("kbbench", settings.default, deadline=None, print_blob=True)  # a busy machine is no fault
settings.load_profile("kbbench")

os.fsync = os.fstat  # type: ignore[assignment]  # a power cut is simulated by what was called: `disk` in unit/conftest.py

collect_ignore_glob = ["golden/make_*.py", "endurance/*.py"]
"""Scripts beside the suite."""
ROOT = Path(__file__).resolve().parent.parent


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage while modules are imported, and never walk through what they hold afterwards.

    The imports leave millions of live objects. Passes over them take half of the collection and a tenth of the tests.
    Tests that read whole releases make further millions of rows, none of them garbage: passes are 70 times rarer.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 10, 10)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Train first: these tests take longest, and at the end one worker would wait for the other's."""
    items.sort(key=lambda item: "/training/" not in item.nodeid)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data beside the repository; the test is skipped where it is absent."""
    folder = Path(os.environ.get("KBBENCH_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder}: set KBBENCH_SHARED")
    return folder


@pytest.fixture(scope="session", autouse=True)
def first_backoff_s() -> Iterator[float]:
    """Let retries come ten times sooner than a user's; the value is what a user's wait."""
    from kbbench_hf.llm import concurrency

    own = concurrency.FIRST_BACKOFF_S
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concurrency, "FIRST_BACKOFF_S", own / 10)
        yield own


@pytest.fixture(scope="session")
def built(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with both datasets of Text2KGBench in `kbbench`, built once for all workers, to be read."""
    from kbbench_hf.building.text2kgbench.release import build_dbpedia_webnlg, build_wikidata_tekgen

    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "text2kgbench"
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            new = tmp_path_factory.mktemp("built")
            build_wikidata_tekgen(shared / "data/text2kgbench", new / "kbbench/text2kg-wikidata-tekgen")
            build_dbpedia_webnlg(shared / "data/text2kgbench", new / "kbbench/text2kg-dbpedia-webnlg")
            new.rename(folder)
    return folder


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
