"""The cluster's state from pass to pass: built once from the facts, then changed by what has changed.

So a policy's caches stay warm, and a pass costs what changed, not what waits. Every change is one of a few
operations; a list of them, played again, gives the same state (``recording``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lucid_pipelines.control.facts import Facts, differing
from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.domain.view import QueuedJob, RunningJob
from lucid_pipelines.placement import ClusterState


class Verb(StrEnum):
    """What can happen to the state."""

    RESET = "reset"
    RELEASE = "release"
    WITHDRAW = "withdraw"
    ENQUEUE = "enqueue"
    START = "start"
    PACK = "pack"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Operation:
    """One change. Which of the others is given depends on the verb."""

    verb: Verb
    job_id: str | None = None
    queued: QueuedJob | None = None
    running: RunningJob | None = None
    facts: Facts | None = None


class LiveState:
    """Follows the facts."""

    def __init__(self) -> None:
        self._state: ClusterState | None = None
        self._facts: Facts | None = None

    def follow(self, facts: Facts) -> tuple[ClusterState, list[Operation]]:
        """Bring the state to these facts.

        Returns:
            The state and the operations that led to it; a single ``RESET`` when it was built anew.
        """
        state, self._state = self._state, None  # whatever goes wrong on the way, a half-changed state is never kept
        operations = None if self._facts is None else difference(self._facts, facts)
        if state is not None and operations is not None:
            try:
                for operation in operations:
                    perform(state, operation)
            except LucidError:
                operations = None  # the rows went a way that these operations cannot tell
        if state is None or operations is None:
            state = build(facts)
            operations = [Operation(Verb.RESET, facts=facts)]
        self._state, self._facts = state, facts
        return state, operations


def build(facts: Facts) -> ClusterState:
    """The state of these facts, from nothing."""
    return ClusterState.of(facts.nodes, facts.queued.values(), facts.running.values(), facts.unusable, lent=facts.lent)


def perform(state: ClusterState, operation: Operation) -> None:
    """Carry out one operation other than ``RESET``.

    Raises:
        StateError, NotFoundError: the state is not one in which that can happen.
    """
    running = operation.running
    match operation.verb:
        case Verb.RELEASE:
            state.release(str(operation.job_id))
        case Verb.WITHDRAW:
            state.withdraw(str(operation.job_id))
        case Verb.ENQUEUE if operation.queued is not None:
            state.enqueue(operation.queued)
        case Verb.START if running is not None:
            state.start(_with_slots(state, running))
        case Verb.PACK if running is not None:
            state.pack(_with_slots(state, running)._replace(partners=()), running.partners[0])
        case Verb.UPDATE if running is not None:
            present = state.running(running.job.job_id)
            state.update(running._replace(slots=present.slots, partners=present.partners))
        case _:
            raise ValueError(f"this operation lacks what it needs: {operation!r}")


def difference(old: Facts, new: Facts) -> list[Operation] | None:
    """The operations from one state to another; ``None`` when it has to be built anew."""
    if old.nodes != new.nodes or old.unusable != new.unusable or old.lent != new.lent:
        return None
    runs, waits = differing(old.running, new.running), differing(old.queued, new.queued)
    found = [Operation(Verb.RELEASE, job_id) for job_id in runs if job_id not in new.running]
    starts: list[Operation] = []
    packs: list[Operation] = []
    for job_id in [name for name in runs if name in new.running]:
        running, before = new.running[job_id], old.running.get(job_id)
        if before is None:
            if job_id not in old.queued or running.job.vc != old.queued[job_id].vc:
                return None
            (packs if running.partners else starts).append(Operation(Verb.START, job_id, running=running))
        else:
            if before.placement != running.placement or before.job.vc != running.job.vc:
                return None
            found.append(Operation(Verb.UPDATE, job_id, running=running))
    found += [Operation(Verb.WITHDRAW, name) for name in waits if name in old.queued and name not in new.running]
    found += starts
    placed = {operation.job_id for operation in starts}
    for operation in sorted(packs, key=lambda item: item.running.started_s if item.running else 0.0):
        running = operation.running
        if running is None or len(running.partners) != 1:
            return None
        partner_id = running.partners[0]
        if partner_id not in old.running and partner_id not in placed:
            return None
        placed.add(operation.job_id)
        found.append(Operation(Verb.PACK, operation.job_id, running=running))
    found += [Operation(Verb.ENQUEUE, name, queued=new.queued[name]) for name in waits if name in new.queued]
    return found


def _with_slots(state: ClusterState, running: RunningJob) -> RunningJob:
    return running._replace(slots=state.layout(running.job.vc).slots(running.placement))
