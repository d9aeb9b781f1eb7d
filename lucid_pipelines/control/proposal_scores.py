"""What came of proposals about pairs and nodes, or would have come of them: so that a site can open a mode with reason.

A pair that was formed is scored by what was measured of it. One that was only proposed is scored once both jobs have
ended: by the speeds that the packing model predicts from their whole profiles (would both have kept 0.85 of their
speed?), by their measured peaks of memory (would they have fitted?), and by how long the job waited on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lucid_pipelines.control.lending import LEND
from lucid_pipelines.control.packing import PACK, UNPACK
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.domain.job import Job
from lucid_pipelines.models.packing import Sharer, default_packing_model
from lucid_pipelines.store import Action, ActionState, Pair

STAYS_ABOVE_FRAC = 0.85
"""A pair is good when both keep at least this share of their speed (Lucid, section 8)."""
_AT_ONCE = 25
_OPEN = (ActionState.PROPOSED, ActionState.APPROVED)


@dataclass(frozen=True, slots=True)
class ModeRecord:
    """How the proposals of one automation fared.

    Attributes:
        good: of ``scored``, how many were worth it; ``None`` in a score means that nobody can tell, and counts in
            neither.
    """

    kind: str
    proposed: int
    scored: int
    good: int
    unknown: int


def score_proposals(system: System, now: datetime) -> int:
    """Score proposals whose outcome is known by now, oldest first. Returns how many."""
    done = 0
    for kind, judge in ((PACK, _score_pack), (UNPACK, _score_unpack), (LEND, _score_lend)):
        waiting = system.store.actions.find(kind=kind, scored=False, limit=500)
        for action in sorted(waiting, key=lambda action: action.action_id)[:_AT_ONCE]:
            score = judge(system, action, now)
            if score is not None:
                system.store.actions.score(action.action_id, score, now=now)
                done += 1
    return done


def mode_records(system: System, limit: int = 500) -> list[ModeRecord]:
    """The record of each automation over its newest proposals."""
    records: list[ModeRecord] = []
    for kind in (PACK, UNPACK, LEND):
        actions = system.store.actions.find(kind=kind, limit=limit)
        scores = [action.score for action in actions if action.score is not None]
        known = [score["good"] for score in scores if score.get("good") is not None]
        records.append(ModeRecord(kind, len(actions), len(known), sum(map(bool, known)), len(scores) - len(known)))
    return records


def _score_pack(system: System, action: Action, now: datetime) -> dict[str, Any] | None:
    job = _job(system, action.target)
    partner = _job(system, str(action.payload.get("partner_job_id")))
    if job is None or partner is None:
        return {"good": None, "why": "one of the two is not known any more"}
    if action.state is ActionState.EXECUTED:
        pair = _pair(system, f"{job.job_id}-a{action.payload.get('attempt_number')}")
        return None if pair is None or pair.ended_at is None else _of_pair(pair)
    if not (job.state.is_terminal and partner.state.is_terminal):
        return None
    return _would_have(system, action, job, partner)


def _of_pair(pair: Pair) -> dict[str, Any]:
    speeds = (pair.measured or {}).get("speed_frac") or {}
    least = min(speeds.values(), default=None)
    return {
        "good": None if least is None else least >= STAYS_ABOVE_FRAC,
        "basis": "measured",
        "speed_frac": dict(speeds),
        "verdict": pair.verdict.value,
    }


def _would_have(system: System, action: Action, job: Job, partner: Job) -> dict[str, Any]:
    one, two = Sharer(job.profile, job.spec.amp), Sharer(partner.profile, partner.spec.amp)
    speeds = default_packing_model().pair_speeds(one, two)
    peaks = [item.profile.memory_peak_mib if item.profile else None for item in (job, partner)]
    size = _gpu_memory_mib(action.payload)
    fits = None
    if peaks[0] is not None and peaks[1] is not None and size is not None:
        fits = peaks[0] + peaks[1] <= size * (1.0 - system.settings.packing.memory_margin_frac)
    starts = [attempt.started_at for attempt in system.store.attempts.of_job(job.job_id)]
    began = min((start for start in starts if start is not None and start >= action.proposed_at), default=None)
    good = None if speeds is None or fits is None else min(speeds) >= STAYS_ABOVE_FRAC and fits
    return {
        "good": good,
        "basis": "predicted from whole profiles",
        "speed_frac": None if speeds is None else {job.job_id: speeds[0], partner.job_id: speeds[1]},
        "memory_fits": fits,
        "waited_on_s": None if began is None else (began - action.proposed_at).total_seconds(),
    }


def _score_unpack(system: System, action: Action, now: datetime) -> dict[str, Any] | None:
    """Splitting was right when the pair did badly to its end: what was measured last stands in the pair's row."""
    pair = _pair(system, str(action.payload.get("attempt_id")))
    if pair is None:
        return {"good": None, "why": "the pair is not known any more"}
    if pair.ended_at is None:
        return None
    speeds = (pair.measured or {}).get("speed_frac") or {}
    least = min(speeds.values(), default=None)
    slow = None if least is None else least < STAYS_ABOVE_FRAC
    return {"good": slow, "basis": "measured", "speed_frac": dict(speeds), "why": pair.why}


def _score_lend(system: System, action: Action, now: datetime) -> dict[str, Any] | None:
    """A loan was worth it when jobs ran on the node meanwhile; one that was not made says how many waited."""
    age_s = (now - action.proposed_at).total_seconds()
    if action.state in _OPEN:
        return None if age_s < 3600.0 else {"good": None, "why": "the node was not moved"}
    loans = [loan for loan in system.store.loans.past(limit=100) if loan.node == action.target]
    mine = [loan for loan in loans if abs((loan.since - action.proposed_at).total_seconds()) < 60.0]
    if not mine:
        return None if age_s < 7 * 86_400.0 else {"good": None, "why": "no such loan is known"}
    loan = mine[0]
    used = sum(
        1
        for row in system.store.history.rows(since=loan.since, until=loan.returned_at, limit=2000)
        if row.placement is not None and loan.node in row.placement.node_names
    )
    return {"good": used > 0, "basis": "attempts that ended on it", "attempts": used}


def _gpu_memory_mib(payload: Mapping[str, Any]) -> float | None:
    for reason in payload.get("reasons") or []:
        if reason.get("rule") == "memory_safe":
            return reason.get("gpu_memory_mib")
    return None


def _pair(system: System, attempt_id: str) -> Pair | None:
    found = [pair for pair in system.store.pairs.find(attempt_id=attempt_id) if pair.later_attempt_id == attempt_id]
    return found[0] if found else None


def _job(system: System, job_id: str) -> Job | None:
    try:
        return system.store.jobs.get(job_id)
    except NotFoundError:
        return None
