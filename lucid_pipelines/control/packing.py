"""Packing and unpacking under a site's modes: proposals, a look at the node before binding, and what restrains both.

``off`` nothing; ``shadow`` a decision is recorded as a proposal and scored later; ``approve`` it waits for a named
person; ``live`` it is carried out. Whatever the mode, every pair has a row in the audit (``lucid actions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lucid_pipelines.control.binding import contradiction
from lucid_pipelines.control.facts import GpuKey, Restraint
from lucid_pipelines.control.sampling import GpuReadings
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.decision import Pack, Stop, StopCause
from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import JobState, Mode
from lucid_pipelines.store import Action, ActionState, ActiveAttempt, Pair, PairVerdict, QueueView

PACK, UNPACK = "pack", "unpack"
WHO = "binder"
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Look:
    """A pair that the policy wants, and what its node says of it.

    Attributes:
        is_asked: whether the node was asked: a person, or an earlier answer, may have forbidden the pair before that.
        problem: what speaks against the pair, in words for people.
    """

    job: Job
    partner: ActiveAttempt
    decision: Pack
    is_asked: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class Clearance:
    """Whether a pair may be formed now.

    Attributes:
        instead: what becomes of the decision otherwise, a word of ``Applied``.
        action: the audit row.
    """

    go: bool
    instead: str = "packed"
    action: Action | None = None


def look(
    system: System, wanted: Sequence[tuple[Pack, Job, ActiveAttempt]], now: datetime, readings: GpuReadings
) -> dict[str, Look]:
    """Ask the nodes about pairs, by waiting job, before anything is written: a node may take its time to answer."""
    mode = system.settings.modes.pack
    if mode is Mode.OFF or not wanted:
        return {}
    known = system.store.actions.by_keys([pack_key(job, partner) for _, job, partner in wanted])
    found: dict[str, Look] = {}
    for decision, job, partner in wanted:
        asks = _is_allowed(mode, known.get(pack_key(job, partner)))
        problem = contradiction(system, job, partner, now, readings) if asks else None
        found[job.job_id] = Look(job, partner, decision, asks, problem)
    return found


def clear(system: System, seen: Look | None, now: datetime) -> Clearance:
    """What mode, person and node say, in this order; the proposal and what came of it are written down."""
    mode = system.settings.modes.pack
    if mode is Mode.OFF or seen is None:
        return Clearance(False, "withheld")
    job, partner, decision = seen.job, seen.partner, seen.decision
    action, _ = system.store.actions.propose(
        PACK,
        job.job_id,
        mode,
        {
            "attempt_number": job.attempt_count + 1,
            "partner_job_id": partner.job.job_id,
            "partner_attempt_id": partner.attempt.attempt_id,
            "gpus": job.spec.gpus,
            "placement": decision.placement.to_json(),
            "reasons": [reason.to_json() for reason in decision.reasons],
        },
        why=f"share {decision.placement} with {partner.job.job_id}",
        now=now,
        key=pack_key(job, partner),
    )
    if not _is_allowed(mode, action):
        return Clearance(False, "withheld", action)
    if not seen.is_asked:
        return Clearance(False, "deferred", action)  # approved a moment ago: the next pass asks the node
    if seen.problem is not None:
        return Clearance(False, _contradicted(system, job, action, seen.problem, now), action)
    return Clearance(True, action=action)


def _is_allowed(mode: Mode, action: Action | None) -> bool:
    """Whether a pair may be formed as far as mode and person go; ``None`` = it has not been proposed yet."""
    state = ActionState.PROPOSED if action is None else action.state
    if mode is Mode.LIVE:
        return state in (ActionState.PROPOSED, ActionState.APPROVED)
    return mode is Mode.APPROVE and state is ActionState.APPROVED


def carried_out(system: System, clearance: Clearance, now: datetime) -> None:
    """Note in the audit that the pair was formed."""
    if clearance.action is not None:
        system.store.actions.executed(clearance.action.action_id, now=now, result={"detail": "packed"})


def stopped(system: System, item: ActiveAttempt, decision: Stop, now: datetime) -> None:
    """Note in the audit that a pair was taken apart."""
    if decision.cause not in (StopCause.UNSTABLE_PAIR, StopCause.SLOW_PAIR):
        return
    for pair in system.store.pairs.find(attempt_id=item.attempt.attempt_id, limit=5):
        if pair.verdict is PairVerdict.SPLIT and pair.ended_at is None:
            action = propose_split(system, pair, now)
            if action is not None:
                detail = {"detail": f"{item.job.job_id} is stopped and goes back to the queue"}
                system.store.actions.executed(action.action_id, now=now, result=detail)


def propose_split(system: System, pair: Pair, now: datetime) -> Action | None:
    """Record that a pair should be taken apart, once; ``None`` when unpacking is off."""
    mode = system.settings.modes.unpack
    if mode is Mode.OFF:
        return None
    later = pair.later_attempt_id.rpartition("-a")[0]
    action, _ = system.store.actions.propose(
        UNPACK,
        later,
        mode,
        {"pair": pair.pair_id, "attempt_id": pair.later_attempt_id, "measured": dict(pair.measured or {})},
        why=pair.why or "the pair does badly",
        now=now,
        key=split_key(pair),
    )
    return action


def pack_key(job: Job, partner: ActiveAttempt) -> str:
    """One proposal for each stay in the queue and partner's attempt."""
    return f"pack:{job.job_id}-a{job.attempt_count + 1}:{partner.attempt.attempt_id}"


def split_key(pair: Pair) -> str:
    return f"unpack:{pair.pair_id}"


def restraint(
    system: System,
    queue: QueueView,
    now: datetime,
    dirty: frozenset[GpuKey] = frozenset(),
    *,
    settle: bool = False,
) -> Restraint:
    """What the policy is not to do although its rules would.

    Args:
        settle: also end what was approved too late; only the loop does.
    """
    apart = _proposed(system, queue, now, settle=settle) | _cooling_down(system, queue, now)
    apart |= _contradictory(system, queue, is_loop=settle)
    return Restraint(apart, _kept(system, queue, now, settle=settle), dirty)


def _proposed(system: System, queue: QueueView, now: datetime, *, settle: bool) -> set[str]:
    """Jobs about which a proposal is open: each is proposed once, as it would have been packed once."""
    if system.settings.modes.pack not in (Mode.SHADOW, Mode.APPROVE):
        return set()
    waiting = {job.job_id: job for job in queue.waiting if job.state is JobState.QUEUED}
    running = {item.attempt.attempt_id: item.job.job_id for item in queue.active}
    open_ones = system.store.actions.find(
        kind=PACK,
        scored=False,
        states=[ActionState.PROPOSED, ActionState.APPROVED, ActionState.REJECTED],
        limit=_AT_ONCE,
    )
    apart: set[str] = set()
    for action in open_ones:
        if action.state is ActionState.PROPOSED and action.mode is not system.settings.modes.pack:
            continue  # made under another mode: it is proposed again, under this one
        job = waiting.get(action.target)
        partner = running.get(str(action.payload.get("partner_attempt_id")))
        if job is None or partner is None or action.payload.get("attempt_number") != job.attempt_count + 1:
            if settle:
                _lapse(system, action, now)
        elif action.state is ActionState.PROPOSED:
            apart |= {job.job_id, partner}
        elif action.state is ActionState.REJECTED:
            apart.add(job.job_id)
    return apart


def _lapse(system: System, action: Action, now: datetime) -> None:
    """A proposal that came to nothing: it is scored later; one that waited for a person ends here."""
    if action.mode is Mode.APPROVE and action.state is ActionState.APPROVED:
        why = "approved too late: one of the two had started elsewhere or ended"
        system.store.actions.executed(action.action_id, now=now, failed=True, result={"error": why})


def _contradictory(system: System, queue: QueueView, *, is_loop: bool) -> set[str]:
    """Running jobs whose node spoke against a pair until it was given up, while the other one waits on.

    Without that the policy would choose the same two again in each pass, and none of the partners that are left.
    """
    if system.settings.modes.pack not in (Mode.APPROVE, Mode.LIVE):
        return set()
    memory = system.memory
    given_up = memory.given_up if is_loop else None
    if given_up is None:
        given_up = system.store.actions.find(kind=PACK, scored=False, states=[ActionState.FAILED], limit=_AT_ONCE)
    still: list[Action] = []
    apart: set[str] = set()
    for action in given_up:
        job = queue.jobs.get(action.target)
        partner = queue.running.get(str(action.payload.get("partner_attempt_id")))
        if job is None or partner is None or job.state.is_active or action.key != pack_key(job, partner):
            continue
        still.append(action)
        apart.add(partner.job.job_id)
    memory.given_up = still if is_loop else memory.given_up
    return apart


def _cooling_down(system: System, queue: QueueView, now: datetime) -> set[str]:
    """Jobs on GPUs on which a pair was split a moment ago."""
    cool_down_s = system.settings.packing.cool_down_s
    if not cool_down_s or not queue.active or system.settings.modes.pack is Mode.OFF:
        return set()
    hot: set[GpuKey] = set()
    since = now - timedelta(seconds=cool_down_s)
    for pair in system.store.pairs.split_since(since, limit=_AT_ONCE):
        hot |= {(share.node, index) for share in pair.placement.shares for index in share.gpu_indices}
    if not hot:
        return set()
    return {
        item.job.job_id
        for item in queue.active
        if any((share.node, index) in hot for share in item.attempt.placement.shares for index in share.gpu_indices)
    }


def _kept(system: System, queue: QueueView, now: datetime, *, settle: bool) -> set[str]:
    """Pairs that stay together although they do badly: this site's mode does not let them be split (yet).

    Args:
        settle: also propose to split those that were judged while another mode was set.
    """
    bad = [pair for pair in queue.pairs if pair.verdict is PairVerdict.SPLIT]
    mode = system.settings.modes.unpack
    if not bad or mode is Mode.LIVE:
        return set()
    if settle and mode is not Mode.OFF:
        known = system.store.actions.by_keys([split_key(pair) for pair in bad])
        for pair in bad:
            action = known.get(split_key(pair))
            if action is None or (action.state is ActionState.PROPOSED and action.mode is not mode):
                propose_split(system, pair, now)
    if mode is not Mode.APPROVE:
        return {pair.later_attempt_id for pair in bad}
    approved = system.store.actions.find(kind=UNPACK, states=[ActionState.APPROVED], limit=_AT_ONCE)
    keys = {action.key for action in approved}
    return {pair.later_attempt_id for pair in bad if split_key(pair) not in keys}


def _contradicted(system: System, job: Job, action: Action, problem: str, now: datetime) -> str:
    """The node says otherwise than our books: tried again a few times, then given up, with the reason kept (R-23)."""
    system.store.counters.add("pairs_contradicted", now=now)
    key = f"bind:{action.key}"
    tries = int(system.store.meta.get(key, 0)) + 1
    if tries < system.settings.packing.max_bind_tries:
        system.store.meta.set(key, tries, now=now)
        return "deferred"
    system.store.meta.remove(key)
    system.memory.given_up = None  # they are read again
    why = f"not packed with {action.payload['partner_job_id']}: {problem} (looked {tries} times)"
    system.store.jobs.annotate(job.job_id, who=WHO, why=why, now=now, evidence={"action": action.action_id})
    try:
        system.store.actions.executed(action.action_id, now=now, failed=True, result={"error": problem})
    except StateError:
        system.store.counters.add("actions_stale", now=now)
    return "withheld"
