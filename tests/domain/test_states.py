"""The picture of a job's life, seen from outside."""

import pytest

from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.domain.states import TRANSITIONS, JobState, require_transition


def test_every_state_has_its_arrows() -> None:
    assert set(TRANSITIONS) == set(JobState)


def test_every_state_can_be_reached_from_submission() -> None:
    reached = {JobState.SUBMITTED}
    frontier = [JobState.SUBMITTED]
    while frontier:
        for following in TRANSITIONS[frontier.pop()] - reached:
            reached.add(following)
            frontier.append(following)
    assert reached == set(JobState)


def test_a_completed_job_never_moves_again() -> None:
    for state in JobState:
        with pytest.raises(StateError, match="it has ended"):
            require_transition(JobState.COMPLETED, state)


def test_gpus_are_held_only_while_something_runs() -> None:
    assert {state for state in JobState if state.is_active} == {JobState.RUNNING, JobState.PROFILING}
