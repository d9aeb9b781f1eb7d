"""What the core needs from outside, as Protocols. ``resources/`` implements them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from lucid_pipelines.domain.cluster import GpuSample, Inventory, Placement
from lucid_pipelines.domain.job import ExitRecord, Profile
from lucid_pipelines.domain.similarity import HistoryFilter, IndexEntry, PastJob, SimilarJobs, VectorSpace


class Clock(Protocol):
    """Time, so that tests and replays can own it."""

    def now(self) -> datetime:
        """The present moment, timezone-aware UTC."""
        ...

    def sleep(self, duration_s: float) -> None: ...


class Sight(StrEnum):
    """What a poll could see of an attempt."""

    NOT_STARTED = "not_started"
    QUEUED = "queued"
    """The cluster's own scheduler has it and will start it: no sign of life is due yet."""
    RUNNING = "running"
    EXITED = "exited"
    VANISHED = "vanished"
    """Positive evidence that its wrapper is gone and wrote no exit record. Processes of the job may be left:
    ``fence`` it before anything is started in its place."""
    UNOBSERVED = "unobserved"
    """Nothing could be read: no conclusion may be drawn (R-1)."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of an attempt at ``as_of``.

    Attributes:
        is_let_in: of one that is ``QUEUED``: the cluster's own scheduler has given it its GPUs and makes their nodes
            ready, however long that takes; it says so itself when it fails.
        never_ran: of one that has ``VANISHED``: its nodes were lost before anything of it had started.
    """

    attempt_id: str
    sight: Sight
    as_of: datetime
    source: str
    started_at: datetime | None = None
    exit: ExitRecord | None = None
    profile: Profile | None = None
    detail: str | None = None
    is_let_in: bool = False
    never_ran: bool = False


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Everything an adapter needs to start one attempt.

    Attributes:
        attempt_id: the idempotency key: launching it twice starts it once.
        job_dir: the job's own folder below the artefact root; code, outputs and attempts lie in it.
        code_dir: the materialised snapshot; the command starts in ``code_dir / workdir``.
        user: whose job it is, where the cluster can run it as that user.
        adopted: key of a held job (``HeldJob``) that is to be started instead of the command.
        declared_load: for virtual GPUs, what the job would ask of each: ``gpu_util_pct``,
            ``memory_util_pct``, ``memory_used_mib``; ``None`` = not declared.
    """

    attempt_id: str
    job_id: str
    attempt_number: int
    command: tuple[str, ...]
    env: Mapping[str, str]
    placement: Placement
    job_dir: Path
    code_dir: Path
    workdir: str
    grace_s: float
    user: str | None = None
    adopted: str | None = None
    declared_load: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job that its user submitted, held, to the cluster's own scheduler, for us to place.

    Attributes:
        key: names it for good; comes back as ``LaunchRequest.adopted``.
        gpus: of all its nodes together.
        script: the batch script, where its path is known.
    """

    key: str
    name: str
    user: str
    vc: str
    gpus: int
    work_dir: str
    script: str | None
    submitted_at: datetime


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """Where the attempt's log can be read; ``already`` when it had been launched, stopped or fenced before.

    That it was launched does not say that its command could be started: ``poll`` does.
    """

    attempt_id: str
    log_path: str
    already: bool


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes of a log from ``offset``; ``next_offset`` is the new cursor (R-11).

    ``restarted`` says that the log shrank below the caller's offset (rotated or truncated) and that
    reading began again at 0. ``identity`` names the file behind the log: when it differs from the one that
    came with the caller's cursor, the log was replaced, and the cursor is void.
    """

    data: bytes
    offset: int
    next_offset: int
    size: int
    restarted: bool = False
    identity: str | None = None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Outcome of a diagnosis test on a node; ``passed`` is ``None`` when it could not be run."""

    node: str
    test: str
    passed: bool | None
    detail: str
    checked_at: datetime


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an adapter can do, so that callers ask instead of trying.

    Attributes:
        pairs_by: how two jobs are given the same GPU: ``devices`` (each is told its GPUs), ``shards`` (of Slurm's,
            by type), ``allocation`` (the second runs inside the first one's); ``None`` = they cannot be.
    """

    can_pack: bool
    can_isolate: bool
    can_check: bool
    can_adopt: bool
    pairs_by: str | None = None


@runtime_checkable
class Cluster(Protocol):
    """A place where attempts run. Every call is idempotent by attempt id.

    Methods raise ``ExternalError`` when the cluster cannot be reached; they never guess.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def inventory(self) -> Inventory: ...

    def launch(self, request: LaunchRequest) -> LaunchResult:
        """Start an attempt, detached from the caller; the second call for an id starts nothing.

        Raises:
            InputError: the request can never be launched.
            StateError: the attempt's folder belongs to another attempt.
            ExternalError: it could not be launched now; the same call may be repeated.
        """
        ...

    def held_jobs(self) -> Sequence[HeldJob]:
        """Jobs that wait for us to adopt them; none where ``can_adopt`` is false."""
        ...

    def poll(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        """Observe many attempts at once; one entry for every id asked for."""
        ...

    def stop(self, attempt_id: str, grace_s: float, reason: str) -> None:
        """Ask the whole process group to end (TERM, grace period, KILL). Returns at once.

        An attempt that was never launched never starts afterwards; one that has ended stays as it is.
        """
        ...

    def fence(self, attempt_id: str) -> int:
        """Kill whatever is left of a dead attempt. Returns how many processes were found.

        After it returned, the attempt can never start or write again, and ``poll`` says ``EXITED``: with
        reason ``fenced`` unless its own exit record was there first. Raises ``ExternalError`` when a
        process could not be killed.
        """
        ...

    def read_log(self, attempt_id: str, offset: int, max_bytes: int) -> LogChunk:
        """Bytes of stdout and stderr as the job wrote them; empty before it started.

        Raises:
            NotFoundError: no such attempt was ever launched here.
            InputError: a negative offset or a ``max_bytes`` below 1.
        """
        ...

    def fetch_checkpoints(self, attempt_id: str, target: Path) -> None:
        """Bring the checkpoints of the attempt's job into this folder; where they lie there already, do nothing.

        Raises:
            ExternalError: they cannot be fetched now.
        """
        ...

    def sample(self) -> Sequence[GpuSample]: ...

    def check(self, node: str, test: str) -> CheckResult: ...

    def isolate(self, node: str, gpu_indices: Sequence[int], owner: str, reason: str) -> None:
        """Place nothing more on these GPUs (none named = the whole node); what runs there goes on.

        Raises ``NotFoundError`` for an unknown node or GPU.
        """
        ...

    def restore(self, node: str, gpu_indices: Sequence[int], owner: str) -> None:
        """Lift the owner's own isolations of these GPUs (none named = all of the node); nobody else's (R-17)."""
        ...


@runtime_checkable
class LiveProfiles(Protocol):
    """A cluster that can say what a running attempt has asked of its GPUs so far."""

    def profile(self, attempt_id: str, since: datetime | None = None) -> Profile | None:
        """What it has shown, warm-up left out, or since a moment; ``None`` before its first sample.

        Raises:
            NotFoundError: no such attempt was ever launched here.
            ExternalError: its samples cannot be read.
        """
        ...


class Embedder(Protocol):
    """Text to vectors of ``dimension`` float32, L2-normalised."""

    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]: ...


@runtime_checkable
class HistoryIndex(Protocol):
    """Past jobs by the nearness of their vectors, in one vector space.

    Methods raise ``ExternalError`` when the server or database cannot be reached, and ``InputError`` for a
    vector that is of the wrong dimension, not finite, or not L2-normalised.
    """

    @property
    def space(self) -> VectorSpace: ...

    def add(self, entries: Sequence[IndexEntry]) -> int:
        """Store past jobs; one that is there already is replaced. Returns how many were new."""
        ...

    def search(
        self, vector: Sequence[float], k: int, as_of: datetime, where: HistoryFilter, threshold: float
    ) -> SimilarJobs:
        """The ``k`` most similar jobs of those that had ended at ``as_of`` and pass ``where``.

        The filters come first and the search behind them is exact; fewer than ``k`` carry a reason (R-41).
        """
        ...

    def remove(self, job_ids: Sequence[str]) -> int:
        """Forget past jobs. Returns how many were there."""
        ...

    def count(self) -> int: ...

    def jobs(self) -> Iterator[PastJob]:
        """Every past job, by job id: for export and for embedding anew."""
        ...


class LanguageModel(Protocol):
    """A server that answers in JSON of a given schema."""

    def complete_json(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, object], timeout_s: float
    ) -> Mapping[str, object]:
        """One validated answer. Raises ``ExternalError`` after one retry."""
        ...


@runtime_checkable
class Telemetry(Protocol):
    """Readings of the GPUs of this machine."""

    def sample(self) -> Sequence[GpuSample]: ...


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that people are told.

    Attributes:
        key: the same for every try at one notice; receivers drop repetitions by it.
        kind: what it is about, one word.
        text: Markdown.
        facts: names and values, for programs.
        at: when it happened.
    """

    key: str
    kind: str
    subject: str
    text: str
    facts: Mapping[str, str]
    at: datetime


@runtime_checkable
class Notifier(Protocol):
    """A way to tell people."""

    def send(self, notice: Notice, timeout_s: float) -> None:
        """Send it; an error says nothing of secrets.

        Raises:
            ExternalError: it could not be sent now.
            InputError: the receiver refuses it for good.
        """
        ...
