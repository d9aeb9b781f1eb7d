"""Which job of Slurm's an attempt is: what was written down when it was submitted, and how it is found without that.

A comment is what anybody may write on a job of their own, and numbers begin anew when a site wipes its controller's
state. So a job is an attempt's when the number that was noted, its owner and its time of submission agree; without a
note (we died between submission and note) when the tag agrees and its owner is the one whom we submit as.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.clusters.layout import replace_json
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob
from lucid_pipelines.resources.clusters.start_records import read_record

TAG = "lucid:"
SUBMITTED = "slurm.json"
OUTPUT = "slurm.out"
"""What the batch job itself prints: nothing, unless its wrapper cannot work."""
CLOCKS_APART_S = 600.0
"""Machines whose clocks are further apart cannot talk to one another: munge refuses after 5 minutes."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What is noted of an attempt's job.

    Attributes:
        uid: number of its owner.
        adopted_output: where a user's own batch job writes; ``None`` for jobs of ours.
        host_attempt: the attempt in whose allocation it runs; ``None`` = in its own.
        holds: whether its allocation stays open for others (``holder.py``).
    """

    job_id: int
    submitted_at: datetime | None = None
    uid: int | None = None
    adopted_output: str | None = None
    host_attempt: str | None = None
    holds: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether its Slurm job is not its alone: the job may live longer, and must not be signalled for it."""
        return self.holds or self.host_attempt is not None

    def is_it(self, job: SlurmJob) -> bool:
        """Whether a job of this number is still the one that was noted."""
        if job.job_id != self.job_id or (None not in (self.uid, job.uid) and self.uid != job.uid):
            return False
        if self.submitted_at is None or job.submitted_at is None:
            return True
        return abs((job.submitted_at - self.submitted_at).total_seconds()) <= CLOCKS_APART_S

    def note(self, folder: Path) -> None:
        """Write it into the attempt's folder. Raises ``OSError``."""
        known: dict[str, Any] = {
            "submitted_at": None if self.submitted_at is None else self.submitted_at.timestamp(),
            "uid": self.uid,
            "adopted_output": self.adopted_output,
            "host_attempt": self.host_attempt,
            "holds": self.holds or None,
        }
        replace_json(
            folder / SUBMITTED, {"slurm_job_id": self.job_id, **{k: v for k, v in known.items() if v is not None}}
        )


def read_submission(folder: Path) -> Submission | None:
    """``None`` when nothing is noted. Raises ``OSError`` or ``ValueError``."""
    data = read_record(folder, SUBMITTED)
    return None if data is None else _submission(data)


def submission_of(job: SlurmJob, *, adopted_output: str | None = None, holds: bool = False) -> Submission:
    """What is to be noted of a job that Slurm shows."""
    return Submission(job.job_id, job.submitted_at, job.uid, adopted_output, None, holds)


@contextmanager
def submitting(folder: Path, patience_s: float) -> Iterator[int]:
    """One at a time; held on by an sbatch that outlives its caller, because it inherits the descriptor.

    Raises:
        ExternalError: somebody else holds it for longer than ``patience_s``.
        OSError: the disk refuses.
    """
    fd = os.open(folder / ".submit", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise ExternalError("another submission of this attempt is still under way") from error
                time.sleep(0.01)
        yield fd
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """Slurm's jobs, to be looked up by attempt."""

    by_id: Mapping[int, SlurmJob] = field(default_factory=dict)
    by_tag: Mapping[str, tuple[SlurmJob, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, jobs: Iterable[SlurmJob]) -> KnownJobs:
        by_id: dict[int, SlurmJob] = {}
        by_tag: dict[str, list[SlurmJob]] = {}
        for job in sorted(jobs, key=lambda job: job.job_id):
            by_id[job.job_id] = job
            if job.comment.startswith(TAG):
                by_tag.setdefault(job.comment.removeprefix(TAG), []).append(job)
        return cls(by_id, {tag: tuple(found) for tag, found in by_tag.items()})

    def find(self, attempt_id: str, noted: Submission | None, owner_uid: int | None) -> SlurmJob | None:
        """The attempt's job; ``None`` when Slurm does not know it.

        Of several with its tag and owner the first counts, as only its wrapper can have started.

        Args:
            owner_uid: who owns the attempt's folder, and so its job.
        """
        if noted is not None:
            job = self.by_id.get(noted.job_id)
            return job if job is not None and noted.is_it(job) else None
        tagged = self.by_tag.get(attempt_id, ())
        return next((job for job in tagged if owner_uid is not None and job.uid in (None, owner_uid)), None)


def _submission(data: Mapping[str, Any]) -> Submission:
    try:
        at, uid = data.get("submitted_at"), data.get("uid")
        adopted = str(data["adopted_output"] or "/dev/null") if "adopted_output" in data else None
        host = data.get("host_attempt")
        return Submission(
            int(data["slurm_job_id"]),
            None if at is None else datetime.fromtimestamp(float(at), UTC),
            None if uid is None else int(uid),
            adopted,
            None if host is None else str(host),
            data.get("holds") is True,
        )
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"the note of a submission cannot be understood: {error!r}") from error
