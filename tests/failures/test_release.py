"""The way out of an isolation, and the check after a restart."""

from datetime import timedelta

import pytest

from lucid_pipelines.failures.evidence import Suspect
from lucid_pipelines.failures.recovery import IsolationRecord, RecoverySettings
from lucid_pipelines.failures.release import ReleaseVerb, review
from lucid_pipelines.failures.resume import ResumeState, check_resume
from lucid_pipelines.ports import CheckResult
from tests.support_failures.situations import NOW, checkpoint

SETTINGS = RecoverySettings()


def held(
    *, owner: str = "lucid", since: timedelta = timedelta(hours=2), due: timedelta | None = timedelta(hours=22)
) -> IsolationRecord:
    return IsolationRecord(Suspect("n2", 0), owner, "r", NOW - since, NOW + due if due is not None else None)


def result(passed: bool | None, age: timedelta = timedelta(minutes=5)) -> CheckResult:
    return CheckResult("n2", "dcgmi-diag-2", passed, "", NOW - age)


@pytest.mark.parametrize(
    ("isolation", "results", "verb"),
    [
        (held(), [], ReleaseVerb.KEEP),
        (held(), [result(True)], ReleaseVerb.RESTORE),
        (held(), [result(True), result(False)], ReleaseVerb.ALARM),
        (held(), [result(None)], ReleaseVerb.KEEP),
        (held(), [result(True, timedelta(hours=3))], ReleaseVerb.KEEP),
        (held(due=-timedelta(hours=1)), [], ReleaseVerb.TEST),
        (held(due=None), [], ReleaseVerb.TEST),
        (held(due=-timedelta(days=2)), [], ReleaseVerb.ALARM),
        (held(owner="nhc"), [result(True)], ReleaseVerb.KEEP),
        (held(owner="nhc", due=-timedelta(days=9)), [result(False)], ReleaseVerb.KEEP),
    ],
)
def test_each_rule_of_the_release(isolation: IsolationRecord, results: list[CheckResult], verb: ReleaseVerb) -> None:
    (decision,) = review([isolation], results, NOW, SETTINGS)
    assert decision.verb is verb, decision.rule


def test_a_named_person_lifts_ours_and_only_ours() -> None:
    ours, theirs = review([held(), held(owner="nhc")], [], NOW, SETTINGS, reset_by="ann")
    assert ours.verb is ReleaseVerb.RESTORE and "ann" in ours.rule
    assert theirs.verb is ReleaseVerb.KEEP


@pytest.mark.parametrize(
    ("step", "first", "age_s", "state"),
    [
        (900, 901, 60, ResumeState.RESUMED),
        (900, 900, 60, ResumeState.RESUMED),
        (900, 899, 60, ResumeState.RESUMED),
        (900, 1, 60, ResumeState.LOST_PROGRESS),
        (900, 0, 60, ResumeState.LOST_PROGRESS),
        (900, None, 60, ResumeState.WAITING),
        (900, None, 4000, ResumeState.UNKNOWN),
        (None, 5, 60, ResumeState.UNKNOWN),
    ],
)
def test_the_first_step_is_compared_with_the_checkpoint(
    step: int | None, first: int | None, age_s: int, state: ResumeState
) -> None:
    found = check_resume(checkpoint(step), first, NOW - timedelta(seconds=age_s), NOW)
    assert found.state is state
    assert found.must_stop == (state is ResumeState.LOST_PROGRESS)


def test_a_restart_from_the_start_is_as_meant() -> None:
    assert check_resume(None, 0, NOW, NOW).state is ResumeState.RESUMED
