from pathlib import Path

import pytest

from kbbench_hf.releases.ska_open import Release, read


@pytest.fixture(scope="session")
def real(shared: Path) -> Release:
    """The real instances, read and proved once."""
    return read(shared / "data" / "ska_open")
