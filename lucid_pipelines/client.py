"""The Python door: what `lucid submit` and the launchpad use too. It works while Dagster is down."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lucid_pipelines import snapshots
from lucid_pipelines.control.requests import JobRequest, parse_request, read_job_file
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, InputError, NotFoundError, TimedOutError, did_you_mean
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.ports import LogChunk
from lucid_pipelines.resources.system import open_system
from lucid_pipelines.settings import Settings, load_settings
from lucid_pipelines.snapshots import SealedSnapshot, SnapshotLimits
from lucid_pipelines.snapshots.results import ProgressCallback

if TYPE_CHECKING:
    from lucid_pipelines.control.explaining import Explanation

_POLL_S = 0.5
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job and whether this call made it; ``snapshot`` is ``None`` when no code came with it."""

    job: Job
    created: bool
    snapshot: SealedSnapshot | None


class Client:
    """Submit, look at and cancel jobs of one home folder.

    ::

        with Client() as client:
            job = client.submit(["python", "train.py", "--epochs", "3"], gpus=2, vc="vision").job
            print(client.wait([job.job_id])[0].state)
    """

    def __init__(self, home: Path | str | None = None, *, settings: Settings | None = None) -> None:
        """Open the home folder (default ``LUCID_HOME``, then ``./.lucid``); it is created when it is new."""
        self.settings = settings or load_settings(home)
        self.system: System = open_system(self.settings)

    def submit(
        self, command: Sequence[str] | str, *, source_dir: Path | str | None = None, **options: Any
    ) -> Submitted:
        """Seal the code below ``source_dir`` (default: the current folder) and submit one job.

        Args:
            command: words, or one line that is split as a shell does.
            options: further keys of ``JobRequest``: ``gpus``, ``vc``, ``name``, ``user``, ``env``, …

        Raises:
            InputError: something in the request cannot be used; nothing was submitted.
        """
        source = Path(source_dir) if source_dir is not None else Path.cwd()
        values = {"command": command, **{key: value for key, value in options.items() if value is not None}}
        return self.submit_requests([parse_request({**values, "source_dir": source.absolute()})])[0]

    def submit_file(self, path: Path | str, overrides: Mapping[str, Any] | None = None) -> list[Submitted]:
        """Submit the job or jobs of a YAML file, all or none."""
        requests = read_job_file(Path(path))
        if overrides:
            requests = [parse_request({**request.model_dump(exclude_unset=True), **overrides}) for request in requests]
        return self.submit_requests(requests)

    def submit_requests(
        self, requests: Sequence[JobRequest], progress: ProgressCallback | None = None
    ) -> list[Submitted]:
        """Submit many jobs, all or none; each source folder is sealed once."""
        vcs = [self._check(request) for request in requests]
        sealed: dict[Path, SealedSnapshot] = {}
        for request in requests:
            source = request.source_dir
            if source is not None and source not in sealed:
                sealed[source] = self._seal(source, progress)
        found = [sealed[r.source_dir] if r.source_dir is not None else None for r in requests]
        specs = [
            request.to_spec(vc=vc, snapshot_digest=snapshot.digest if snapshot else None)
            for request, vc, snapshot in zip(requests, vcs, found, strict=True)
        ]
        rows = self.system.store.jobs.submit_many(specs, self.system.clock.now())
        return [Submitted(job, created, snapshot) for (job, created), snapshot in zip(rows, found, strict=True)]

    def jobs(self, **filters: Any) -> list[Job]:
        """Jobs that meet every filter, newest first; see ``store.jobs.find``."""
        return self.system.store.jobs.find(**filters)

    def job(self, text: str) -> Job:
        """The job with this id, unique beginning of an id, or unique name."""
        return self.system.store.jobs.resolve(text)

    def attempts(self, job_id: str) -> list[Attempt]:
        return self.system.store.attempts.of_job(job_id)

    def attempt(self, job_id: str, number: int | None = None) -> Attempt | None:
        """One attempt of a job, the newest by default; ``None`` when it has not started yet.

        Raises:
            InputError: it has no attempt of that number.
        """
        attempts = self.attempts(job_id)
        if number is None:
            return attempts[-1] if attempts else None
        for attempt in attempts:
            if attempt.number == number:
                return attempt
        count = "one attempt" if len(attempts) == 1 else f"{len(attempts)} attempts"
        raise InputError(f"the job has {count}; there is no attempt {number}")

    def explain(self, text: str) -> Explanation:
        """Why the job is where it is."""
        from lucid_pipelines.control.explaining import explain  # the models and policies, for this question alone

        return explain(self.system, self.job(text).job_id)

    def cancel(self, text: str, *, who: str) -> Job:
        """Cancel a job: at once while it waits, else by stopping it. Asking again changes nothing."""
        job = self.job(text)
        return self.system.store.jobs.request_cancel(job.job_id, who=who, now=self.system.clock.now()).job

    def read_log(self, attempt_id: str, offset: int, max_bytes: int = _MIB) -> LogChunk:
        """Bytes of an attempt's output from ``offset``."""
        return self.system.cluster.read_log(attempt_id, offset, max_bytes)

    def wait(self, job_ids: Sequence[str], timeout_s: float | None = None) -> list[Job]:
        """Wait until all jobs have ended. Raises ``TimedOutError`` with those that have not."""
        *_, last = self.watch(job_ids, timeout_s)
        return last

    def watch(
        self, job_ids: Sequence[str], timeout_s: float | None = None, every_s: float | None = None
    ) -> Iterator[list[Job]]:
        """Yield the jobs after every change, in the order asked for, until all have ended.

        Args:
            every_s: yield so often without a change too, for a display whose clocks run.

        Raises:
            NotFoundError: there is no job with one of the ids.
            TimedOutError: some have not ended after ``timeout_s``; the message names them.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        seen: int | None = None
        shown = time.monotonic()
        while True:
            change = self.system.store.change_counter()
            if change != seen or (every_s is not None and time.monotonic() - shown >= every_s):
                seen, shown = change, time.monotonic()
                by_id = {job.job_id: job for job in self.system.store.jobs.find(ids=list(job_ids), limit=None)}
                jobs = [by_id.get(job_id) or self.system.store.jobs.get(job_id) for job_id in job_ids]
                yield jobs
                if all(is_settled(job) for job in jobs):
                    return
            if deadline is not None and time.monotonic() > deadline:
                open_ones = [
                    job.job_id
                    for job in self.system.store.jobs.find(ids=list(job_ids), limit=None)
                    if not is_settled(job)
                ]
                raise TimedOutError(f"not ended after {timeout_s} s: {', '.join(open_ones)}")
            self.system.clock.sleep(_POLL_S)

    def close(self) -> None:
        self.system.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, request: JobRequest) -> str:
        """The virtual cluster of the job. Raises ``InputError`` when it could never run there."""
        inventory = self.system.cluster.inventory()
        known = [vc.name for vc in inventory.virtual_clusters]
        if not known:
            raise ExternalError("the cluster has no node, so no job can be taken; look at `lucid nodes`")
        vc = request.vc or (self.settings.default_vc if self.settings.default_vc in known else known[0])
        if vc not in known:
            raise InputError(f"virtual clusters are {', '.join(known)}{did_you_mean(vc, known)}; not {vc!r}")
        largest = inventory.gpu_count(vc)
        if request.gpus > largest:
            raise InputError(f"{vc} has {largest} GPUs in all; ask for at most {largest}, not {request.gpus}")
        if request.source_dir is not None and not _is_folder(request.source_dir):
            if not request.source_dir.exists():
                raise NotFoundError(f"the folder with the code does not exist: {request.source_dir}")
            raise InputError(f"the folder with the code is no folder: {request.source_dir}")
        if request.source_dir is not None and not _is_folder(request.source_dir / request.workdir):
            raise NotFoundError(f"the working directory does not exist in {request.source_dir}: {request.workdir!r}")
        return vc

    def _seal(self, source: Path, progress: ProgressCallback | None) -> SealedSnapshot:
        limits = self.settings.snapshot
        return snapshots.seal(
            source,
            self.settings.snapshots,
            limits=SnapshotLimits(
                max_file_bytes=int(limits.max_file_mib * _MIB),
                max_total_bytes=int(limits.max_total_mib * _MIB),
                max_entries=limits.max_entries,
            ),
            progress=progress,
            keep_out=[self.settings.home],
        )


def _is_folder(path: Path) -> bool:
    """Like ``Path.is_dir``; a path that is too long or may not be looked at is an error of the request."""
    try:
        return path.is_dir()
    except OSError as error:
        raise InputError(f"the folder cannot be used ({error.strerror}): {str(path)[:200]}") from error


def is_settled(job: Job) -> bool:
    """Whether nothing more is going to happen to the job by itself."""
    return job.state in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.LOST)
