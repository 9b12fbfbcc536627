"""An agent's run that is killed and goes on; `tests.endurance.agent_kills` does it at full length."""

import pytest

from tests.endurance.agent_kills import kill_and_resume


@pytest.mark.full
def test_a_run_killed_among_faults_goes_on_to_the_same_predictions_and_pays_little_twice() -> None:
    outcome = kill_and_resume(kills=2, n=24, rate=0.3, concurrency=4)
    assert outcome.held and outcome.kills == 2 and outcome.faults > 0
