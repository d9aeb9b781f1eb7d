"""The way out of an isolation: only our own are lifted, stuck ones raise an alarm (R-15, R-17, R-18)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lucid_pipelines.failures.recovery import IsolationRecord, RecoverySettings
from lucid_pipelines.ports import CheckResult


class ReleaseVerb(StrEnum):
    """What is to become of an isolation that stands."""

    RESTORE = "restore"
    KEEP = "keep"
    TEST = "test"
    """Run the tests of its plan again: its deadline has come and nothing newer is known."""
    ALARM = "alarm"
    """A person must decide: it failed again, or is stuck beyond its deadline."""


@dataclass(frozen=True, slots=True)
class ReleaseDecision:
    """What to do about one isolation, and by which rule."""

    isolation: IsolationRecord
    verb: ReleaseVerb
    rule: str


def review(
    isolations: Sequence[IsolationRecord],
    results: Sequence[CheckResult],
    now: datetime,
    settings: RecoverySettings,
    *,
    reset_by: str | None = None,
) -> list[ReleaseDecision]:
    """Look at every isolation again. The quota is not asked here: release works when it has tripped.

    Args:
        results: newest check results of the isolated nodes.
        reset_by: a person who ordered that all of ours be lifted.
    """
    return [_one(isolation, results, now, settings, reset_by) for isolation in isolations]


def _one(
    isolation: IsolationRecord,
    results: Sequence[CheckResult],
    now: datetime,
    settings: RecoverySettings,
    reset_by: str | None,
) -> ReleaseDecision:
    # 1. Not ours: never touched.
    if isolation.owner != settings.owner:
        return ReleaseDecision(isolation, ReleaseVerb.KEEP, "1: set by another owner")
    # 2. A named person lifts it.
    if reset_by:
        return ReleaseDecision(isolation, ReleaseVerb.RESTORE, f"2: lifted by {reset_by}")
    newer = [
        r
        for r in results
        if r.node == isolation.suspect.node and r.checked_at > isolation.since and r.passed is not None
    ]
    # 3. It failed again since.
    if any(r.passed is False for r in newer):
        return ReleaseDecision(isolation, ReleaseVerb.ALARM, "3: a test failed again: repair or replace it")
    # 4. It passed since: give it back.
    if newer:
        return ReleaseDecision(isolation, ReleaseVerb.RESTORE, "4: every test since passed")
    # 5. Beyond its deadline for as long again: stuck.
    if isolation.decide_by is not None and now > isolation.decide_by + timedelta(seconds=settings.isolation_s):
        return ReleaseDecision(isolation, ReleaseVerb.ALARM, "5: stuck beyond its deadline")
    # 6. Its deadline has come.
    if isolation.decide_by is None or now >= isolation.decide_by:
        return ReleaseDecision(isolation, ReleaseVerb.TEST, "6: its deadline has come: test it")
    return ReleaseDecision(isolation, ReleaseVerb.KEEP, "7: before its deadline")
