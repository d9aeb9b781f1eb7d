"""Past jobs that a new one may resemble, and what a search for them answers: frozen facts, no I/O."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import Outcome

_VENDOR = re.compile(r"^(?:nvidia|amd|intel|tesla|geforce|quadro|instinct|graphics|device)$")
_MEMORY_OR_FORM = re.compile(r"^(?:sxm\d*|pcie|nvl|hbm\d\w*|oam|generation|\d+gi?b)$")
"""A MIG slice or another generation of a name is another GPU: those words are kept."""


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """Which vectors may be compared: those of one embedder, dimension and fingerprint schema (R-41)."""

    embedder: str
    dimension: int
    schema_version: int

    @property
    def key(self) -> str:
        """The space as a name for tables and keys."""
        return f"{self.embedder}/{self.dimension}/{self.schema_version}"


@dataclass(frozen=True, slots=True)
class ThroughputPoint:
    """One measured speed: what ``gpus`` GPUs of a type reached at a global batch size."""

    gpu_type: str
    gpus: int
    batch_size: int
    samples_per_s: float


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that has ended, as evidence for others.

    Attributes:
        fingerprint: the text that its vector was made of.
        duration_s: run time on exclusive GPUs; ``None`` = not known.
        software: name and version, e.g. ``("torch", "2.4.0")``, ``("cuda", "12.4")``.
        throughput: its part of the throughput surface.
    """

    job_id: str
    fingerprint: str
    submitted_at: datetime
    ended_at: datetime
    outcome: Outcome
    duration_s: float | None = None
    task_type: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    profile: Profile | None = None
    throughput: tuple[ThroughputPoint, ...] = ()
    software: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """Content address of the fingerprint."""
        return content_digest(self.fingerprint)

    @property
    def gpu_family(self) -> str | None:
        return gpu_family(self.gpu_type)

    @property
    def gpu_count_class(self) -> int | None:
        return gpu_count_class(self.gpus)

    @property
    def teaches_duration(self) -> bool:
        """Whether its duration says how long such a job takes: it ran to its end."""
        return self.outcome.teaches_duration and self.duration_s is not None and self.duration_s > 0


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """What must match before similarity is looked at. ``None`` = anything; unknown in a past job = no match."""

    task_type: str | None = None
    gpu_family: str | None = None
    gpu_count_class: int | None = None
    exclude_job_ids: frozenset[str] = frozenset()

    @property
    def facets(self) -> Mapping[str, str | int]:
        """The filters that are set, by name."""
        found = {"task_type": self.task_type, "gpu_family": self.gpu_family, "gpu_count_class": self.gpu_count_class}
        return {name: value for name, value in found.items() if value is not None}

    def admits(self, job: PastJob) -> bool:
        """Whether a past job passes."""
        return (
            job.job_id not in self.exclude_job_ids
            and self.task_type in (None, job.task_type)
            and self.gpu_family in (None, job.gpu_family)
            and self.gpu_count_class in (None, job.gpu_count_class)
        )


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A past job with its vector, L2-normalised float32 of the space's dimension."""

    job: PastJob
    vector: Sequence[float]


@dataclass(frozen=True, slots=True)
class SimilarJob:
    """A past job and its cosine similarity to the question, at most 1."""

    job: PastJob
    similarity: float


@dataclass(frozen=True, slots=True)
class SimilarJobs:
    """The answer of a history index, best first (ties: the newest first).

    Attributes:
        k: how many were asked for.
        total_count: past jobs in the index, whenever they ended.
        eligible_count: of those, how many had ended at ``as_of`` and passed the filters.
        nearest_rejected: similarity of the best one below the threshold, when that was looked at.
        reason: why there are fewer than ``k``; ``None`` when there are ``k`` (R-41).
    """

    matches: tuple[SimilarJob, ...]
    k: int
    as_of: datetime
    threshold: float
    total_count: int
    eligible_count: int
    nearest_rejected: float | None = None
    reason: str | None = None


def content_digest(text: str) -> str:
    """SHA-256 of a fingerprint's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def gpu_family(gpu_type: str | None) -> str | None:
    """The family that a GPU's name belongs to: ``NVIDIA A100-SXM4-80GB`` and ``a100`` are ``a100``.

    Memory size, form factor and vendor are left out; ``None`` for no name.
    """
    if gpu_type is None:
        return None
    words = [word for word in re.split(r"[\s_\-/()]+", gpu_type.strip().lower()) if word]
    kept = [word for word in words if not _VENDOR.match(word) and not _MEMORY_OR_FORM.match(word)]
    joined = "".join(kept) or "".join(words)
    return joined or None


def gpu_count_class(gpus: int | None) -> int | None:
    """The power of two that a number of GPUs is rounded up to: 1, 2, 4, 8, …; ``None`` for none."""
    if gpus is None or gpus < 1:
        return None
    return 1 << (gpus - 1).bit_length()


def why_fewer(found: int, k: int, total: int, eligible: int, nearest_rejected: float | None, threshold: float) -> str:
    """The reason that goes with an answer of fewer than ``k`` jobs."""
    if total == 0:
        return "the history holds no past job in this vector space"
    if eligible == 0:
        return f"none of {total} past jobs had ended by then and passed the filters"
    if found < k and nearest_rejected is not None:
        return (
            f"{found} of {eligible} eligible past jobs reach the threshold of {threshold:g}; "
            f"the next one reaches {nearest_rejected:.3f}"
        )
    return f"only {eligible} past jobs are eligible"
