"""What all tests stand on: no network, a cache of their own, and the shared data where it is present."""

import os
import tempfile
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

import pytest
from hypothesis import settings

settings.register_profile("kbbench", settings.default, deadline=None, print_blob=True)  # a busy machine is no fault
settings.load_profile("kbbench")

collect_ignore_glob = ["golden/make_*.py", "endurance/*.py"]
"""Scripts beside the suite."""
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data beside the repository; the test is skipped where it is absent."""
    folder = Path(os.environ.get("KBBENCH_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder}: set KBBENCH_SHARED")
    return folder


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
