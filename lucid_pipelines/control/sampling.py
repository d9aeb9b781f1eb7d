"""What running jobs ask of their GPUs, looked at while they run; and GPUs that somebody else is using.

A job whose profile is not known is looked at until it is; afterwards only its peak of memory is followed (R-22).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lucid_pipelines.control.facts import GpuKey, age_s
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import GpuSample, Inventory, Node
from lucid_pipelines.domain.errors import ExternalError, LucidError, NotFoundError
from lucid_pipelines.domain.job import Attempt, Job, Profile
from lucid_pipelines.ports import Cluster, LiveProfiles
from lucid_pipelines.store import ActiveAttempt, QueueView

_log = logging.getLogger(__name__)
WHO = "profiler"
_AT_ONCE = 25
"""So many running jobs are looked at in one pass."""
_UNKNOWN_EVERY_S, _KNOWN_EVERY_S = 5.0, 30.0
_PEAK_GROWS_FRAC = 1.05
_MIN_AGE_S = 2.0
_LEAVES_WITHIN_S = 5.0
_STRANGE_MIB, _STRANGE_FRAC = 1024.0, 0.02


class GpuReadings:
    """What the GPUs show in one pass: read once, when somebody asks first, and then for everybody."""

    def __init__(self, cluster: Cluster, inventory: Inventory | None = None) -> None:
        self._cluster = cluster
        self._inventory = inventory
        self._samples: dict[GpuKey, GpuSample] | None = None
        self._nodes: dict[str, Node] | None = None
        self._error: ExternalError | None = None

    @property
    def samples(self) -> Mapping[GpuKey, GpuSample]:
        """By node and index. Raises ``ExternalError``, and then to everybody who asks."""
        if self._error is not None:
            raise self._error
        if self._samples is None:
            try:
                self._samples = {(sample.node, sample.gpu_index): sample for sample in self._cluster.sample()}
            except ExternalError as error:
                self._error = error
                raise
        return self._samples

    def size_mib(self, node: str, index: int) -> float | None:
        """Memory of a GPU; ``None`` = not known. Raises ``ExternalError``."""
        if self._nodes is None:
            self._nodes = {known.name: known for known in (self._inventory or self._cluster.inventory()).nodes}
        gpus = self._nodes[node].gpus if node in self._nodes else ()
        return next((gpu.memory_mib for gpu in gpus if gpu.index == index), None)


def measured_profile(system: System, attempt: Attempt, since: datetime | None = None) -> Profile | None:
    """What an attempt has shown so far; ``None`` where nothing can be told."""
    if not isinstance(system.cluster, LiveProfiles):
        return None
    try:
        return system.cluster.profile(attempt.attempt_id, since)
    except NotFoundError:
        return None
    except ExternalError as error:
        _log.warning("cannot look at %s: %s", attempt.attempt_id, error)
        system.store.counters.add("profiles_unreadable", now=system.clock.now())
        return None


def look_at_running(system: System, active: Sequence[ActiveAttempt], now: datetime) -> int:
    """Keep what running jobs have shown. Returns how many profiles became known or grew.

    A job that shares its GPUs tells nothing about itself where the driver only sees both: it is left alone.
    """
    memory = system.memory
    if not isinstance(system.cluster, LiveProfiles):
        return 0
    running = {item.attempt.attempt_id for item in active}
    memory.profiled = {name: at for name, at in memory.profiled.items() if name in running}
    changed = looked = 0
    for item in active:
        started = item.attempt.started_at
        if started is None or age_s(started, now) < _MIN_AGE_S or item.partner_attempt_ids:
            continue
        last = memory.profiled.get(item.attempt.attempt_id)
        every_s = _KNOWN_EVERY_S if is_known(item.job.profile) else _UNKNOWN_EVERY_S
        if last is not None and age_s(last, now) < every_s:
            continue
        if looked >= _AT_ONCE:
            break
        looked += 1
        memory.profiled[item.attempt.attempt_id] = now
        changed += _keep(system, item.job, item.attempt, now)
    return changed


def is_known(profile: Profile | None) -> bool:
    """Whether everything that packing needs is known."""
    return (
        profile is not None
        and profile.gpu_util_pct is not None
        and profile.memory_util_pct is not None
        and profile.memory_peak_mib is not None
    )


def _keep(system: System, job: Job, attempt: Attempt, now: datetime) -> int:
    seen = measured_profile(system, attempt)
    if seen is None:
        return 0
    known = job.profile
    if not is_known(known):
        if not is_known(seen):
            return 0
        why = "what it asks of its GPUs is known"
    elif known is not None and (seen.memory_peak_mib or 0.0) > (known.memory_peak_mib or 0.0) * _PEAK_GROWS_FRAC:
        seen, why = replace(known, memory_peak_mib=seen.memory_peak_mib), "its peak of GPU memory has grown"
    else:
        return 0
    try:
        system.store.jobs.annotate(job.job_id, who=WHO, why=why, now=now, profile=seen, evidence=_told(seen))
    except LucidError as error:
        _log.warning("cannot keep the profile of %s: %s", job.job_id, error)
        return 0
    return 1


def _told(profile: Profile) -> dict[str, object]:
    return {
        "gpu_util_pct": profile.gpu_util_pct,
        "memory_util_pct": profile.memory_util_pct,
        "memory_peak_mib": profile.memory_peak_mib,
        "source": profile.source,
        "window_s": profile.window_s,
        "samples": profile.sample_count,
    }


def look_at_gpus(system: System, inventory: Inventory, queue: QueueView, now: datetime, readings: GpuReadings) -> None:
    """Find GPUs that are free by our books and in use all the same (R-21), before anything is placed on them.

    A GPU that one of our jobs has just left is given a moment: a driver tells of it a little later. Virtual GPUs are
    only ever used by jobs of ours, so they are not asked.
    """
    memory = system.memory
    real = {
        (node.name, gpu.index): gpu.memory_mib for node in inventory.nodes for gpu in node.gpus if not gpu.is_virtual
    }
    if not real:
        memory.dirty = frozenset()
        return
    memory.left = {key: at for key, at in memory.left.items() if age_s(at, now) < _LEAVES_WITHIN_S}
    held = {(slot.node, slot.gpu_index) for slot in queue.slots}
    memory.left |= dict.fromkeys(memory.held - held, now)
    memory.held = held
    free = {key: size_mib for key, size_mib in real.items() if key not in held}
    if not free:
        memory.dirty = frozenset()
        return
    interval_s = system.settings.cluster.sample_interval_s
    if memory.sampled_at is not None and age_s(memory.sampled_at, now) < interval_s:
        memory.dirty &= frozenset(free)
        return
    memory.sampled_at = now
    try:
        samples = readings.samples
    except ExternalError:
        system.store.counters.add("gpu_samples_failed", now=now)
        return  # nothing is concluded
    used = (key for key, size_mib in free.items() if is_in_use(samples.get(key), size_mib))
    dirty = frozenset(key for key in used if key not in memory.left)
    newly = dirty - memory.dirty
    if newly:
        system.store.counters.add("gpus_found_dirty", len(newly), now=now)
        _log.warning("GPUs are in use by somebody else; nothing is started on them: %s", sorted(newly))
    memory.dirty = dirty


def is_in_use(sample: GpuSample | None, size_mib: float | None) -> bool:
    """Whether a GPU that should be empty is not: a process is on it, or more memory than a driver's own is used."""
    if sample is None:
        return False
    if sample.process_count:
        return True
    allowed_mib = max(_STRANGE_MIB, _STRANGE_FRAC * (size_mib or 0.0))
    return sample.memory_used_mib is not None and sample.memory_used_mib > allowed_mib
