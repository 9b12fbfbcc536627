from pathlib import Path

import pytest

from kbbench_hf.benchmarks.ska_bench.release.instances import read
from kbbench_hf.benchmarks.ska_bench.units import Release


@pytest.fixture(scope="session")
def real(shared: Path) -> Release:
    """The real instances, read and proved once."""
    return read(shared / "data" / "ska_open")
