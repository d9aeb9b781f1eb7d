"""Watch pairs: how two jobs do beside one another, against what was planned and how fast they were alone.

What is looked at, in this order: memory that is about to run out (at once), use that has become unsteady or heavier
than planned, and throughput from the logs. A pair of which nothing can be told is left alone and says so.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from typing import Any

from lucid_pipelines.control.facts import age_s
from lucid_pipelines.control.pace import alone_before, note_progress, pace_since
from lucid_pipelines.control.packing import propose_split
from lucid_pipelines.control.sampling import GpuReadings, measured_profile
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.cluster import Inventory
from lucid_pipelines.domain.errors import ExternalError, LucidError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.store import ActiveAttempt, Pair, PairVerdict, QueueView
from lucid_pipelines.tracker.interference import PairedJob, PairFinding, PairSettings, judge_pair
from lucid_pipelines.tracker.interference import PairVerdict as LogVerdict
from lucid_pipelines.tracker.measurements import PaceWindow

_log = logging.getLogger(__name__)
WATCH_EVERY_S = 5.0
_NEVER = datetime.min.replace(tzinfo=UTC)
_AT_ONCE = 1
"""So many pairs are looked at closely in one pass, which must stay short. Where there are many, ``training_metrics``
looks at the others."""
_HEAVIER_POINTS = 25.0
"""A pair that uses its GPU so far above the planned sum (percent) is another pair than the one that was planned."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the GPUs show of a pair since it was formed. Unknown is ``None``."""

    profiles: tuple[Profile | None, Profile | None]
    memory_used_mib: float | None
    memory_size_mib: float | None
    util_pct: float | None
    planned_util_pct: float | None


def watch_pairs(
    system: System,
    queue: QueueView,
    inventory: Inventory,
    now: datetime,
    *,
    at_once: int = _AT_ONCE,
    readings: GpuReadings | None = None,
) -> int:
    """Look at pairs: the memory of all of them every few seconds, the rest of the few that waited longest for it.

    Returns how many are to be taken apart from now on.
    """
    memory = system.memory
    pairs = [pair for pair in queue.pairs if pair.verdict is not PairVerdict.SPLIT]
    before = memory.watched
    watched = memory.watched = {pair.pair_id: before.get(pair.pair_id) or _looked_at(pair) for pair in pairs}
    if not pairs:
        return 0
    split = 0
    readings = readings or GpuReadings(system.cluster, inventory)
    if memory.looked_at is None or age_s(memory.looked_at, now) >= WATCH_EVERY_S:
        memory.looked_at = now
        watched |= dict.fromkeys(_short_of_memory(system, pairs, readings), _NEVER)
    for pair in nsmallest(at_once, pairs, key=lambda pair: (watched[pair.pair_id], pair.pair_id)):
        first, later = queue.running.get(pair.first_attempt_id), queue.running.get(pair.later_attempt_id)
        if first is None or later is None or age_s(watched[pair.pair_id], now) < WATCH_EVERY_S:
            continue
        watched[pair.pair_id] = now
        try:
            split += _watch(system, system.store.pairs.get(pair.pair_id), first, later, readings, now)
        except LucidError as error:
            _log.warning("cannot judge the pair %d: %s", pair.pair_id, error)
            system.store.counters.add("pairs_unjudged", now=now)
    return split


def _looked_at(pair: Pair) -> datetime:
    """When an earlier loop last looked at a pair closely."""
    as_of = (pair.measured or {}).get("as_of")
    return datetime.fromisoformat(as_of) if isinstance(as_of, str) else _NEVER


def _short_of_memory(system: System, pairs: Iterable[Pair], readings: GpuReadings) -> list[int]:
    """Pairs whose GPUs have hardly any memory left: these cannot wait for their turn."""
    try:
        samples = readings.samples
    except ExternalError:
        system.store.counters.add("gpu_samples_failed", now=system.clock.now())
        return []
    usable_frac = 1.0 - system.settings.packing.memory_margin_frac
    found: list[int] = []
    for pair in pairs:
        keys = [(share.node, index) for share in pair.placement.shares for index in share.gpu_indices]
        used_mib = {key: samples[key].memory_used_mib or 0.0 for key in keys if key in samples}
        if any(used > (readings.size_mib(*key) or math.inf) * usable_frac for key, used in used_mib.items()):
            found.append(pair.pair_id)
    return found


def _watch(
    system: System, pair: Pair, first: ActiveAttempt, later: ActiveAttempt, readings: GpuReadings, now: datetime
) -> int:
    if later.attempt.started_at is None or first.attempt.started_at is None:
        return 0
    measured: dict[str, Any] = dict(pair.measured or {})
    if "alone" not in measured:
        # The log of the earlier job is all of its time alone until now; that of the later one begins now.
        measured["alone"] = {item.job.job_id: alone_before(system, item, pair) for item in (first, later)}
    note_progress(system, (first, later))
    seen = _look(system, pair, first, later, readings)
    logs = _from_logs(system, pair, first, later, measured["alone"], now)
    measured |= {
        "gpu_util_pct": seen.util_pct,
        "planned_util_pct": seen.planned_util_pct,
        "memory_used_mib": seen.memory_used_mib,
        "memory_size_mib": seen.memory_size_mib,
        "speed_frac": dict(logs.ratios),
        "as_of": now.isoformat(),
    }
    verdict, why = conclude(system, pair, seen, logs, now)
    if verdict is pair.verdict and measured == {**(pair.measured or {}), "as_of": measured["as_of"]}:
        return 0
    after = system.store.pairs.judge(pair.pair_id, verdict, why, measured, now=now)
    if after.verdict is PairVerdict.SPLIT:
        propose_split(system, after, now)
        return 1
    return 0


def conclude(system: System, pair: Pair, seen: Seen, logs: PairFinding, now: datetime) -> tuple[PairVerdict, str]:
    """What to do about a pair, and why, in words for people."""
    chosen = system.settings.packing
    used, size = seen.memory_used_mib, seen.memory_size_mib
    if used is not None and size is not None and used > size * (1.0 - chosen.memory_margin_frac):
        return PairVerdict.SPLIT, f"GPU memory is about to run out: {used:.0f} of {size:.0f} MiB are in use"
    if age_s(pair.formed_at, now) < chosen.watch_after_s:
        return pair.verdict, "the pair is settling"
    if any(profile is not None and profile.unknown_because == "unsteady" for profile in seen.profiles):
        return PairVerdict.SPLIT, "use of the GPU has become unsteady"
    util, planned = seen.util_pct, seen.planned_util_pct
    if util is not None and planned is not None and util > planned + _HEAVIER_POINTS and planned < 100.0:
        return PairVerdict.SPLIT, f"GPU use of {util:.0f} % is far above the planned {planned:.0f} %"
    if logs.verdict is LogVerdict.EVICT:
        return PairVerdict.SPLIT, logs.reason
    if logs.verdict is LogVerdict.KEEP:
        return PairVerdict.KEPT, logs.reason
    if util is not None and planned is not None:
        return PairVerdict.KEPT, f"the GPUs are used as planned ({util:.0f} %); {logs.reason}"
    if logs.verdict is LogVerdict.UNTRACKABLE:
        return PairVerdict.UNKNOWN, f"neither the GPUs nor the logs tell: {logs.reason}"
    return pair.verdict, logs.reason


def _look(system: System, pair: Pair, first: ActiveAttempt, later: ActiveAttempt, readings: GpuReadings) -> Seen:
    profiles = (
        measured_profile(system, first.attempt, pair.formed_at),
        measured_profile(system, later.attempt, pair.formed_at),
    )
    memories = [profile.memory_peak_mib if profile else None for profile in profiles]
    utils = [profile.gpu_util_pct if profile else None for profile in profiles]
    # A declaration tells of one job, a driver of the whole GPU.
    is_own = any(profile is not None and profile.source == "declared" for profile in profiles)
    alone = [item.job.profile.gpu_util_pct if item.job.profile else None for item in (first, later)]
    return Seen(
        profiles=profiles,
        memory_used_mib=_together(memories, is_own=is_own),
        memory_size_mib=_size_mib(pair, readings),
        util_pct=_together(utils, is_own=is_own),
        planned_util_pct=None if alone[0] is None or alone[1] is None else alone[0] + alone[1],
    )


def _together(values: list[float | None], *, is_own: bool) -> float | None:
    known = [value for value in values if value is not None]
    if is_own:
        return sum(known) if len(known) == len(values) else None
    return max(known, default=None)


def _size_mib(pair: Pair, readings: GpuReadings) -> float | None:
    mine = [readings.size_mib(share.node, index) for share in pair.placement.shares for index in share.gpu_indices]
    known = [size for size in mine if size is not None]
    return min(known) if known and len(known) == len(mine) else None


def _from_logs(
    system: System,
    pair: Pair,
    first: ActiveAttempt,
    later: ActiveAttempt,
    alone: Mapping[str, Any],
    now: datetime,
) -> PairFinding:
    chosen = system.settings.packing
    settle = timedelta(seconds=min(chosen.watch_after_s, 10.0))

    def paired(item: ActiveAttempt) -> PairedJob:
        before = alone.get(item.job.job_id) or {}
        step_time_s, steps = before.get("step_time_s"), before.get("steps") or 0.0
        window = PaceWindow(step_time_s, steps, 1) if step_time_s else None
        after = pace_since(system, item.attempt, pair.formed_at + settle, now)
        started = item.attempt.started_at or item.attempt.placed_at
        return PairedJob(item.job.job_id, started, window, after)

    # Whether the GPUs cool down is the binder's affair: it forms no pair there.
    return judge_pair(paired(first), paired(later), now, PairSettings(min_ratio_frac=chosen.min_speed_frac))
