"""Slices of the real sources become what they became when each revision of ska-open was published."""

from pathlib import Path

from tests.golden import ska_open


def test_a_slice_of_the_sources_gives_the_published_instances_and_contexts(shared: Path, tmp_path: Path) -> None:
    ska_open.write_slice(shared / "data", tmp_path)
    found, stored = list(ska_open.lines(tmp_path)), ska_open.stored_lines()
    changed = [line for line in found if line not in stored] + [line for line in stored if line not in found]
    assert not changed, "ska-open is no longer built byte for byte: `python -m tests.golden.ska_open` prints the lines"
    assert found == stored
