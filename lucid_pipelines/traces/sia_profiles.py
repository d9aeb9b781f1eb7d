"""Run times of Sia's applications from its measured step times and validation curves."""

from __future__ import annotations

import re
import tarfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces.frames import by_group, column, columns, rows

REFERENCE_GPU = "aws"
"""The artifact's commonest node type (T4)."""
COMPLETION_EPOCH = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
"""Epochs after which a job is done, from the artifact's settings."""
_MEMBER = re.compile(r"(?:^|/)(?P<app>\w+)/(?P<kind>scalability|placements|validation)-(?P<what>[\w-]+)\.csv$")


@dataclass(frozen=True, eq=False)
class SiaProfiles:
    """Measured tables by application.

    Attributes:
        steps: columns ``num_replicas``, ``local_bsz``, ``step_time`` (s) on the reference GPU.
        iterations: steps to completion by total batch size.
    """

    steps: dict[str, pd.DataFrame] = field(default_factory=dict)
    iterations: dict[str, dict[int, float]] = field(default_factory=dict)
    _known: dict[tuple[str, float, float], float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> SiaProfiles:
        """Read ``app_traces.tar.gz``.

        Raises:
            InputError: it is damaged, or holds no table of this kind.
        """
        profiles = cls()
        try:
            with tarfile.open(path, "r:*") as archive:
                for info in archive:
                    match = _MEMBER.search(info.name)
                    stream = archive.extractfile(info) if match and info.isfile() else None
                    if match and stream is not None:
                        profiles._add(match["app"], match["kind"], match["what"], pd.read_csv(stream))
        except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, KeyError) as error:
            why = "it is no archive, or a damaged one" if isinstance(error, tarfile.ReadError) else error
            raise InputError(f"the application profiles cannot be read ({why}): {path.name}") from error
        if not profiles.steps:
            raise InputError(f"the archive holds no APPLICATION/scalability-{REFERENCE_GPU}.csv: {path.name}")
        return profiles

    def duration_s(self, application: str, gpus: float, batch_size: float) -> float:
        """Seconds on ``gpus`` GPUs at a fixed total batch size; NaN for an application without tables.

        Steps to completion are those of the validated batch size next to ``batch_size`` (in ratio), scaled to
        the same number of samples. A step takes the measured time of the nearest replica count and local
        batch size; a local batch above the largest measured one is run in several accumulation steps.
        """
        key = (application, gpus, batch_size)
        if key not in self._known:
            self._known[key] = self._compute_s(application, gpus, batch_size)
        return self._known[key]

    def _add(self, application: str, kind: str, what: str, table: pd.DataFrame) -> None:
        if kind == "validation" and what.isdigit():
            epoch = min(COMPLETION_EPOCH.get(application, len(table)), len(table)) - 1
            self.iterations.setdefault(application, {})[int(what)] = float(table["iteration"].iloc[epoch])
        elif what == REFERENCE_GPU:
            if kind == "placements":
                digits = table["placement"].astype(str)
                table = table.assign(num_replicas=[sum(int(d) for d in text) for text in digits])
            steps = columns(table, ("num_replicas", "local_bsz", "step_time"))
            known = self.steps.get(application)
            self.steps[application] = steps if known is None else pd.concat([known, steps], ignore_index=True)

    def _compute_s(self, application: str, gpus: float, batch_size: float) -> float:
        steps, iterations = self.steps.get(application), self.iterations.get(application)
        if steps is None or not iterations:
            return float("nan")
        validated = min(iterations, key=lambda size: abs(np.log(size / batch_size)))
        count = iterations[validated] * validated / batch_size
        replicas = steps["num_replicas"].to_numpy(np.float64)
        nearest = replicas == replicas[np.argmin(np.abs(np.log(replicas / gpus)))]
        measured = rows(steps, nearest)
        by_size = by_group(column(measured, "step_time"), column(measured, "local_bsz"), "mean").sort_index()
        sizes = by_size.index.to_numpy(np.float64)
        local = batch_size / gpus
        accumulation = max(1.0, np.ceil(local / sizes[-1]))
        step_s = float(np.interp(local / accumulation, sizes, by_size.to_numpy(np.float64)))
        return float(count * accumulation * step_s)
