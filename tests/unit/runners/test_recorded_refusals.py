"""Every recorded error of a provider, served to a run: the run does next what the error means."""

from pathlib import Path

from tests.endurance.providers import cases, is_right


def test_runs_do_what_recorded_errors_ask_for(shared: Path) -> None:
    asked = cases(shared)
    wrong = [(case["id"], found) for case in asked for right, found in [is_right(case)] if not right]
    assert not wrong
    assert len(asked) == 99
