"""Tables of profiled training configurations, and what is nearest to one that is not in them."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.domain.trace import TraceJob

Workload = tuple[str, str, int, bool]
"""Model, dataset, batch size, mixed precision."""


@dataclass(frozen=True, slots=True)
class ProfiledWorkload:
    """One line of a table of configurations run alone.

    Attributes:
        sharing_score: 0, 1 or 2.
    """

    gpu_util_pct: float
    memory_util_pct: float
    sharing_score: int


Profiles = Mapping[Workload, ProfiledWorkload]


def workload_of(job: TraceJob) -> Workload | None:
    """What identifies a job's workload in a table; ``None`` when the trace does not say."""
    if job.model is None or job.dataset is None or job.batch_size is None:
        return None
    return (job.model, job.dataset, job.batch_size, bool(job.amp))


def nearest(profiles: Profiles, gpu_util_pct: float, memory_util_pct: float | None) -> list[Workload]:
    """All configurations, the most alike in GPU and memory utilisation first."""
    memory_pct = memory_util_pct

    def distance(workload: Workload) -> float:
        profile = profiles[workload]
        memory_part = 0.0 if memory_pct is None else (profile.memory_util_pct - memory_pct) ** 2
        return (profile.gpu_util_pct - gpu_util_pct) ** 2 + memory_part

    return sorted(profiles, key=distance)


def read_profiles(path: Path) -> dict[Workload, ProfiledWorkload]:
    """Read a table with ``model,dataset,batchsize,amp,gpu_util,gmem_util,label``, labels 0, 1 or 2.

    Raises:
        InputError: no such file, a column is missing, or a number is wrong.
    """
    table: dict[Workload, ProfiledWorkload] = {}
    columns = ("model", "dataset", "batchsize", "amp", "gpu_util", "gmem_util", "label")
    for number, row in enumerate(read_rows(path, columns), start=2):
        try:
            workload = (row["model"], row["dataset"], int(row["batchsize"]), bool(int(row["amp"])))
            score = int(row["label"])
            profile = ProfiledWorkload(float(row["gpu_util"]), float(row["gmem_util"]), score)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: a number is wrong: {error}") from error
        if score not in (0, 1, 2):
            raise InputError(f"{path}, line {number}: a sharing score is 0, 1 or 2; got {score}")
        table[workload] = profile
    return table


def read_rows(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of a CSV file that has at least ``columns``.

    Raises:
        InputError: no such file, or a column is missing.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            found = reader.fieldnames or []
            for column in columns:
                if column not in found:
                    hint = did_you_mean(column, found)
                    raise InputError(f"{path} needs the column {column!r}{hint}; it has {', '.join(found)[:200]}")
            return list(reader)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the table cannot be read: {error}") from error
