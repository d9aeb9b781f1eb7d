"""History rows from a recorded trace, so that a model can be trained before this cluster has a history."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import Cause, Outcome
from lucid_pipelines.domain.trace import TraceJob, TraceState

_OUTCOMES = {
    TraceState.COMPLETED: (Outcome.COMPLETED, None),
    TraceState.CANCELLED: (Outcome.CANCELLED, None),
    TraceState.FAILED: (Outcome.FAILED_USER, Cause.USER),
}


def history_from_trace(jobs: Iterable[TraceJob], left_out: Counter[str] | None = None) -> list[HistoryRow]:
    """One row per job that ran on whole GPUs.

    Args:
        left_out: counts the others, as ``no_gpu`` and ``part_of_a_gpu``.

    A trace without start times is read as if every job had started at once: its end is its submission plus its
    run time. That makes ends known earlier than they were by the time in the queue.
    """
    rows: list[HistoryRow] = []
    for job in jobs:
        if job.gpus < 1 or job.gpus != int(job.gpus):
            if left_out is not None:
                left_out["no_gpu" if job.gpus <= 0 else "part_of_a_gpu"] += 1
            continue
        submitted_at = datetime.fromtimestamp(job.submit_s, UTC)
        started_s = job.start_s
        if started_s is None:
            started_s = job.submit_s + max(job.queue_s or 0.0, 0.0)
        started_at = datetime.fromtimestamp(started_s, UTC)
        # A wrong duration is kept, for ``select_rows`` to count.
        run_s = max(job.duration_s, 0.0) if math.isfinite(job.duration_s) else 0.0
        outcome, cause = _OUTCOMES[job.state]
        rows.append(
            HistoryRow(
                attempt_id=f"{job.job_id}-1",
                job_id=job.job_id,
                number=1,
                user=job.user,
                vc=job.vc,
                name=job.name,
                gpus=int(job.gpus),
                submitted_at=submitted_at,
                started_at=started_at,
                ended_at=started_at + timedelta(seconds=run_s),
                duration_s=job.duration_s,
                outcome=outcome,
                cause=cause,
                profile=_profile(job),
                placement=None,
                packed=False,
                profiling=False,
            )
        )
    return rows


def _profile(job: TraceJob) -> Profile | None:
    values = (job.gpu_util_pct, job.memory_util_pct, job.memory_peak_mib)
    return None if all(value is None for value in values) else Profile(*values, source="trace")
