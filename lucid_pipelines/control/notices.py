"""Tell people: leave a notice where something happened, deliver it later, at least once, without holding anything up.

A notice is left in the same step as what it tells of and has the occasion as its key, so that a crash neither loses
nor repeats it. Delivery has a time limit, a bounded number of tries with growing waits, and is then given up, counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, InputError, StaleLockError
from lucid_pipelines.ports import Notice
from lucid_pipelines.redaction import redacted
from lucid_pipelines.store import Claim, StoredNotice

_BATCH = 20
_CLAIM_TTL_S = 300.0
_TIMEOUT_S = 10.0
_FIRST_WAIT_S, _MAX_WAIT_S = 30.0, 3600.0
_MAX_TRIES = 12
_FAILURES_A_BATCH = 2
"""One may be the notice's own fault; two are the channel's."""
_TEXT_CHARS = 8000


class Occasion(StrEnum):
    """What people can be told of (settings: ``hooks.tell``)."""

    FAILURE = "failure"
    APPROVAL = "approval"
    ISOLATION = "isolation"
    HANG = "hang"
    STRAGGLER = "straggler"
    LAG = "lag"
    RELIABILITY = "reliability"


def tell(
    system: System, occasion: Occasion, key: str, subject: str, text: str, facts: Mapping[str, str] | None = None
) -> int:
    """Leave a notice for every channel that is set up; nothing is sent here.

    Args:
        key: names the occasion: telling it again changes nothing.
        text: for people, Markdown; secrets in it are hidden.

    Returns:
        How many notices were new.
    """
    if not system.notifiers or occasion.value not in system.settings.hooks.tell:
        return 0
    payload = {
        "subject": redacted(" ".join(subject.split()))[:200],
        "text": redacted(text)[:_TEXT_CHARS],
        "facts": {name: redacted(value)[:500] for name, value in (facts or {}).items()},
    }
    return system.store.notices.add(
        f"{occasion.value}:{key}", occasion.value, sorted(system.notifiers), payload, now=system.clock.now()
    )


def deliver(system: System, worker: str) -> dict[str, int]:
    """Send what waits, oldest first, one bounded batch.

    Returns:
        How many were ``told``, ``put_off`` and ``given_up``.
    """
    done = {"told": 0, "put_off": 0, "given_up": 0}
    claims = system.store.notices.claim(worker=worker, now=system.clock.now(), limit=_BATCH, ttl_s=_CLAIM_TTL_S)
    failures: Counter[str] = Counter()
    for claim in claims:
        try:
            done[_deliver(system, claim, failures)] += 1
        except StaleLockError:  # somebody else sends it: the receiver sees one key twice
            system.store.counters.add("notices_stale", now=system.clock.now())
    return done


def _deliver(system: System, claim: Claim[StoredNotice], failures: Counter[str]) -> str:
    """One notice. A channel that failed twice is left alone for the rest of the batch."""
    stored, notices = claim.item, system.store.notices
    notifier = system.notifiers.get(stored.channel)
    if notifier is None:
        notices.complete(claim, now=system.clock.now(), error="the channel is no longer set up")
        return "given_up"
    error: str | None = "the channel failed just before"
    is_final = False
    if failures[stored.channel] < _FAILURES_A_BATCH:
        payload = stored.payload
        notice = Notice(
            key=f"{stored.key}@{stored.channel}",
            kind=stored.kind,
            subject=payload["subject"],
            text=payload["text"],
            facts=payload["facts"],
            at=stored.created_at,
        )
        try:
            notifier.send(notice, _TIMEOUT_S)
            error = None
        except ExternalError as problem:
            failures[stored.channel] += 1
            error = str(problem)
        except InputError as problem:  # the receiver refuses it: it would refuse it again
            error, is_final = str(problem), True
    now = system.clock.now()
    if error is None:
        notices.complete(claim, now=now)
        return "told"
    if is_final or claim.tries >= _MAX_TRIES:
        system.store.counters.add("notices_given_up", now=now)
        notices.complete(claim, now=now, error=error)
        return "given_up"
    wait = timedelta(seconds=min(_FIRST_WAIT_S * 2.0 ** (claim.tries - 1), _MAX_WAIT_S))
    notices.retry_later(claim, now=now, delay_s=wait.total_seconds(), error=error)
    return "put_off"


def alarm_for_lag(system: System) -> bool:
    """Tell once that abnormal exits wait too long to be handled (R-35). Returns whether they do."""
    now = system.clock.now()
    pending, oldest = system.store.exits.pending()
    lag_s = (now - oldest).total_seconds() if oldest is not None else 0.0
    if oldest is None or lag_s <= system.settings.hooks.lag_alarm_s:
        return False
    subject = f"{pending} abnormal exit(s) wait to be handled, the oldest for {lag_s:.0f} s"
    advice = "Look at exit_sensor and failure_handling_job in the UI, and at `lucid doctor`."
    tell(system, Occasion.LAG, oldest.isoformat(), subject, advice, {"pending": str(pending), "lag_s": f"{lag_s:.0f}"})
    return True
