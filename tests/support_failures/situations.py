"""Facts, findings and states for tests of evidence, policy and report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.job import Attempt, ExitRecord, Job, JobSpec
from lucid_pipelines.domain.states import AttemptState, JobState
from lucid_pipelines.failures.evidence import Finding, weigh
from lucid_pipelines.failures.facts import (
    Checkpoint,
    CounterReading,
    FailureFacts,
    PastFailure,
    PeerState,
    SchedulerEnd,
    gather,
)
from lucid_pipelines.failures.xid import XidReport, load_xids
from tests.support_failures.reading import diagnosed, progress

NOW = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
TB = 'Traceback (most recent call last):\n  File "/home/u/train.py", line 3, in main\n    step()\n'
LOGS = {
    "ecc": TB + "RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
    "user": TB + "KeyError: 'labels'\n",
    "framework": "ImportError: /opt/x.so: undefined symbol: _ZN3c104cuda9SetDeviceEi\n",
    "illegal": TB + "RuntimeError: CUDA error: an illegal memory access was encountered\n",
    "timeout": "[rank1]:[E ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=7, Timeout(ms)=1800000) ran for 1800100 milliseconds before timing out.\n",
    "disk": TB + "OSError: [Errno 28] No space left on device: '/out/a.pt'\n",
    "node": "slurmstepd: error: *** STEP 8.0 ON n2 CANCELLED AT 2024-05-02T11:00:00 DUE TO NODE FAILURE ***\n",
    "bus": "NVRM: Xid (PCI:0000:5d:00): 79, pid=7, GPU has fallen off the bus.\n",
    "port": TB + "OSError: [Errno 98] Address already in use\n",
    "nothing": "",
}


def job(*, never_restart: bool = False, user: str = "ann") -> Job:
    spec = JobSpec("train", user, "vision", 2, ("python", "train.py"), never_restart=never_restart)
    return Job("job-1", spec, JobState.FAILED, NOW, NOW - timedelta(hours=3), 7)


def attempt(placement: Mapping[str, Iterable[int]] | None = None, *, ran: timedelta = timedelta(hours=2)) -> Attempt:
    return Attempt(
        "job-1.1", "job-1", 1, AttemptState.ENDED, Placement.of(placement or {"n1": [0, 1], "n2": [0, 1]}),
        NOW - ran - timedelta(minutes=1), NOW - ran, NOW,
    )  # fmt: skip


def exit_record(code: int | None = 1, *, reason: str = "exited", signal: int | None = None) -> ExitRecord:
    return ExitRecord(code, signal, reason, NOW - timedelta(hours=2), NOW - timedelta(minutes=1))


def checkpoint(
    step: int | None = 900, *, is_complete: bool | None = True, age: timedelta = timedelta(minutes=20)
) -> Checkpoint:
    return Checkpoint(f"/out/step_{step}", step, is_complete, NOW - age)


def facts(
    *,
    the_job: Job | None = None,
    the_attempt: Attempt | None = None,
    exit_: ExitRecord | None = None,
    observed: bool = True,
    end: SchedulerEnd | None = None,
    counters: Iterable[CounterReading] = (),
    xids: Iterable[XidReport] = (),
    peers: Iterable[PeerState] = (),
    failures: Iterable[PastFailure] = (),
    checkpoints: Iterable[Checkpoint] = (),
    logs: Iterable[Path] = (),
) -> FailureFacts:
    record = (exit_ or exit_record()) if observed else None
    return gather(
        the_job or job(), the_attempt or attempt(), NOW, load_xids(), exit_record=record, scheduler_end=end, logs=logs,
        counters=counters, xids=xids, peers=peers, failures=failures, checkpoints=checkpoints,
    )  # fmt: skip


def finding(kind: str, folder: Path, known: FailureFacts | None = None, *, rank: int | None = None) -> Finding:
    """What the handler finds for one of ``LOGS``, after some progress."""
    text = LOGS[kind]
    if rank is not None:
        text = "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())
    head = "".join(f"loading {name}\n" for name in "abcdef") + progress(1, 30)
    return weigh(diagnosed(head + text, folder), known or facts(), load_xids())
