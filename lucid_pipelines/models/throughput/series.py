"""Submissions counted per interval."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError, did_you_mean

SLOT_S = 600.0
_MAX_SLOTS = 2_000_000
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SubmissionSeries:
    """Jobs submitted and GPUs asked for in equal slots without a gap.

    Attributes:
        begin_s: begin of the first slot, seconds since 1970-01-01 UTC.
        jobs, gpus: counts of each slot.
        left_out: submissions that were not counted, by reason.
    """

    begin_s: float
    slot_s: float
    jobs: Vector
    gpus: Vector
    left_out: dict[str, int]

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def end_s(self) -> float:
        """End of the last slot: everything before it is counted."""
        return self.begin_s + self.slot_s * len(self.jobs)

    def starts_s(self) -> Vector:
        return self.begin_s + self.slot_s * np.arange(len(self.jobs), dtype=np.float64)

    def before(self, moment_s: float) -> SubmissionSeries:
        """The slots that had ended at this moment: what was known then."""
        count = int(np.clip((moment_s - self.begin_s) // self.slot_s, 0, len(self.jobs)))
        return SubmissionSeries(self.begin_s, self.slot_s, self.jobs[:count], self.gpus[:count], self.left_out)


def count_submissions(
    submissions: Iterable[tuple[datetime, int]],
    *,
    begin: datetime,
    until: datetime,
    slot_s: float = SLOT_S,
) -> SubmissionSeries:
    """Count submissions (moment, GPUs) in slots aligned to UTC multiples of ``slot_s``.

    Only whole slots between ``begin`` and ``until`` are counted. What lies outside, or asks for no GPU, is left
    out and counted by reason: ``too_early``, ``too_late`` (a moment in the future), ``no_gpu``.

    Raises:
        InputError: no whole slot lies between the two moments, or too many do.
    """
    first = np.ceil(begin.astimezone(UTC).timestamp() / slot_s) * slot_s
    last = np.floor(until.astimezone(UTC).timestamp() / slot_s) * slot_s
    count = round((last - first) / slot_s)
    if count < 1 or count > _MAX_SLOTS:
        raise InputError(f"give 1 to {_MAX_SLOTS:,} whole slots of {slot_s:g} s; {begin} to {until} are {count}")
    rows = [(moment.astimezone(UTC).timestamp(), gpus) for moment, gpus in submissions]
    moments = np.array([row[0] for row in rows], dtype=np.float64)
    gpus = np.array([row[1] for row in rows], dtype=np.float64)
    slots = np.floor((moments - first) / slot_s).astype(np.int64)
    reasons = {"no_gpu": gpus <= 0, "too_early": slots < 0, "too_late": slots >= count}
    use = ~np.logical_or.reduce(list(reasons.values())) if len(rows) else np.zeros(0, dtype=bool)
    return SubmissionSeries(
        float(first),
        slot_s,
        np.bincount(slots[use], minlength=count).astype(np.float64),
        np.bincount(slots[use], weights=gpus[use], minlength=count).astype(np.float64),
        {name: int(flag.sum()) for name, flag in reasons.items() if flag.any()},
    )


_COLUMNS = ("time", "submit_gpu_job", "submit_gpu_num")


def read_series(path: Path, slot_s: float = SLOT_S) -> SubmissionSeries:
    """Read a CSV table (perhaps ``.gz``) with ``time,submit_gpu_job,submit_gpu_num``, one row per slot, UTC.

    A slot that the table leaves out counts as empty.

    Raises:
        InputError: a column is missing, a value is wrong, or two rows stand for one slot.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            reader = csv.DictReader(file)
            found = reader.fieldnames or []
            for column in _COLUMNS:
                if column not in found:
                    raise InputError(f"{path} needs the column {column!r}{did_you_mean(column, found)}")
            rows = [(row["time"], row["submit_gpu_job"], row["submit_gpu_num"]) for row in reader]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"the table of submissions cannot be read: {path}: {error}") from error
    try:
        times = np.array([_seconds(row[0]) for row in rows])
        jobs = np.array([float(row[1]) for row in rows])
        gpus = np.array([float(row[2]) for row in rows])
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"a value in {path} is wrong: {error}") from error
    if not len(rows):
        raise InputError(f"the table of submissions holds no rows: {path}")
    if not (np.isfinite(jobs).all() and np.isfinite(gpus).all() and (jobs >= 0).all() and (gpus >= 0).all()):
        raise InputError(f"counts are numbers of at least 0; {path} holds others")
    slots = np.round((times - times.min()) / slot_s).astype(np.int64)
    if len(np.unique(slots)) != len(slots) or slots.max() >= _MAX_SLOTS:
        raise InputError(f"{path} needs one row for each slot of {slot_s:g} s; got {len(rows)} rows")
    count = int(slots.max()) + 1
    return SubmissionSeries(
        float(times.min()),
        slot_s,
        np.bincount(slots, weights=jobs, minlength=count).astype(np.float64),
        np.bincount(slots, weights=gpus, minlength=count).astype(np.float64),
        {},
    )


def _seconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
