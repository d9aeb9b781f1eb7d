"""Take in jobs that users submitted, held, to the cluster's own scheduler: the same life cycle, started by release.

Mode ``shadow`` only records which jobs it would take and what it thinks of their length; ``live`` takes them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from lucid_pipelines import snapshots
from lucid_pipelines.control.estimating import ladder_estimate
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.domain.job import JobSpec
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.ports import HeldJob
from lucid_pipelines.snapshots import SnapshotLimits
from lucid_pipelines.store import ActionState

_log = logging.getLogger(__name__)
ADOPTED = "adopted"
"""Label of such a job: the key that its cluster knows it by."""
ADOPT = "adopt"
_MIB = 1 << 20


def new_held_jobs(system: System) -> Sequence[HeldJob]:
    """Held jobs that are not taken in yet; empty while adoption is off. One command of the cluster's scheduler."""
    if system.settings.modes.adopt is Mode.OFF or not system.cluster.capabilities.can_adopt:
        return ()
    held = system.cluster.held_jobs()
    if not held:
        return ()
    known = {dict(job.spec.labels).get(ADOPTED) for job in system.store.jobs.find(limit=None)}
    is_live = system.settings.modes.adopt is Mode.LIVE  # then what was only proposed before waits no longer
    seen = {
        action.target
        for action in system.store.actions.find(kind=ADOPT, limit=10_000)
        if not is_live or action.state is ActionState.REJECTED
    }
    return [job for job in held if job.key not in known | seen]


def adopt(system: System) -> int:
    """Take in what waits, or record that it would be. Returns how many. A job that cannot be is left to its user."""
    count = 0
    for held in new_held_jobs(system):
        try:
            if system.settings.modes.adopt is Mode.LIVE:
                system.store.jobs.submit_many([_spec(system, held)], system.clock.now())
            else:
                _propose(system, held)
            count += 1
        except LucidError as error:
            _log.warning("the held job %s cannot be taken in: %s", held.key, error)
            system.store.counters.add("adoptions_failed", now=system.clock.now())
    return count


def adopted_key(spec: JobSpec) -> str | None:
    """The key of the held job behind a job; ``None`` for one that was submitted to us."""
    return dict(spec.labels).get(ADOPTED)


def _spec(system: System, held: HeldJob) -> JobSpec:
    script = Path(held.script) if held.script else None
    inside = script is not None and script.is_relative_to(held.work_dir)
    word = str(script.relative_to(held.work_dir)) if script is not None and inside else held.script or held.name
    return JobSpec(
        name=held.name,
        user=held.user,
        vc=held.vc,
        gpus=held.gpus,
        command=("bash", word),
        snapshot_digest=_seal(system, Path(held.work_dir)),
        source_dir=held.work_dir,
        idempotency_key=f"{ADOPTED}:{held.key}",
        never_restart=True,  # its scheduler has it once; its user submits it again
        labels=((ADOPTED, held.key),),
    )


def _seal(system: System, work_dir: Path) -> str | None:
    """Its code, where we may read it: the advisor then has something to read. Its job runs without us holding it."""
    limits = system.settings.snapshot
    try:
        sealed = snapshots.seal(
            work_dir,
            system.settings.snapshots,
            limits=SnapshotLimits(
                max_file_bytes=int(limits.max_file_mib * _MIB),
                max_total_bytes=int(limits.max_total_mib * _MIB),
                max_entries=limits.max_entries,
            ),
            keep_out=[system.settings.home],
        )
    except (LucidError, OSError) as error:
        _log.info("the code in %s is not read: %s", work_dir, error)
        system.store.counters.add("adoptions_without_code", now=system.clock.now())
        return None
    return sealed.digest


def _propose(system: System, held: HeldJob) -> None:
    now = system.clock.now()
    estimate = ladder_estimate(system.store.history.duration_stats(held.user, held.gpus, now))
    payload = {"name": held.name, "user": held.user, "gpus": held.gpus, "estimate_s": estimate.duration_s}
    system.store.actions.propose(
        ADOPT,
        held.key,
        Mode.SHADOW,
        payload,
        why=f"would take in the held job {held.name} of {held.user} ({held.gpus} GPU)",
        now=now,
        key=f"{ADOPT}:{held.key}",
    )
