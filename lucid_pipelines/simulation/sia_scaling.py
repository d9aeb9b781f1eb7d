"""Scaling curves from the profiles that were published with Sia (``app_traces.tar.gz``; PEERS.md 2.2 and 2.3).

A job's speed with some GPUs is its run time in the trace divided by the time that its whole training would take
there, with the batch size that is best in each epoch:

    time = Σ over epochs of  progress / max over batch sizes of (gain / iteration time)
    gain = (var + sqr) / (var / scale + sqr),  scale = batch size / smallest validated batch size

Step and synchronisation times are the measured ones, interpolated over the local batch size and, between measured
numbers of GPUs, over those; several nodes and one node are kept apart. Gradient statistics are interpolated between
the validated batch sizes. What nobody measured (more GPUs, more nodes, another GPU type) cannot be run.
"""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.traces.sia_profiles import COMPLETION_EPOCH, REFERENCE_GPU

RESCALE_S: Mapping[str, float] = {
    "cifar10": 50.0,
    "deepspeech2": 25.0,
    "bert": 120.0,
    "yolov3": 80.0,
    "imagenet": 250.0,
    "ncf": 15.0,
}
"""Measured by Sia's authors: what a start or a change of GPUs costs."""
_MEMBER = re.compile(r"(?:^|/)(?P<app>\w+)/(?P<kind>scalability|placements|validation)-(?P<what>[\w-]+)\.csv$")
_BATCH_SIZES = 50
Floats = np.ndarray


@dataclass(frozen=True, eq=False)
class Steps:
    """Measured steps with one number of GPUs: local batch sizes ascending, seconds per step and of synchronisation."""

    local_batch: Floats
    step_s: Floats
    sync_s: Floats

    def at(self, local_batch: Floats) -> tuple[Floats, Floats]:
        return (
            np.interp(local_batch, self.local_batch, self.step_s),
            np.interp(local_batch, self.local_batch, self.sync_s),
        )


@dataclass(eq=False)
class Application:
    """One application's measurements.

    Attributes:
        steps: by GPU type, whether on several nodes, and number of GPUs.
        epochs: by total batch size: progress, squared gradient norm and variance, up to the last epoch.
    """

    name: str
    steps: dict[tuple[str, bool], dict[int, Steps]] = field(default_factory=dict)
    epochs: dict[int, Floats] = field(default_factory=dict)
    _known: dict[tuple[int, bool, str], float] = field(default_factory=dict)

    @property
    def gpu_types(self) -> frozenset[str]:
        return frozenset(gpu_type for gpu_type, _ in self.steps)

    @property
    def max_gpus(self) -> int:
        return max(max(by_gpus) for by_gpus in self.steps.values())

    def training_s(self, gpus: int, nodes: int, gpu_type: str) -> float:
        """Seconds for the whole training; infinite where nobody measured it."""
        key = (gpus, nodes > 1, gpu_type)
        if key not in self._known:
            self._known[key] = self._compute_s(*key)
        return self._known[key]

    def _compute_s(self, gpus: int, several_nodes: bool, gpu_type: str) -> float:
        steps = _between(self.steps.get((gpu_type, several_nodes), {}), gpus)
        if steps is None or not self.epochs:
            return float("inf")
        smallest, largest = min(self.epochs), max(self.epochs)
        first = max(float(smallest), steps.local_batch[0] * gpus)
        if first > largest:
            return float("inf")
        batch = np.geomspace(first, largest, _BATCH_SIZES)
        accumulation = np.maximum(np.ceil(batch / gpus / steps.local_batch[-1] - 1e-9) - 1, 0)
        if gpus == 1:
            # One replica sees no gradient noise unless it accumulates (as in the published model).
            accumulation = np.where(batch > smallest * (1 + 1e-9), np.maximum(accumulation, 1), accumulation)
        step_s, sync_s = steps.at(batch / gpus / (accumulation + 1))
        iteration_s = step_s + accumulation * np.maximum(step_s - sync_s, 0.0)
        sizes = np.array(sorted(self.epochs), dtype=float)
        progress = np.min([self.epochs[int(size)][0] for size in sizes], axis=0)
        to_do = np.diff(np.concatenate([[0.0], np.maximum.accumulate(progress)]))
        square, variance = (
            np.array(
                [np.interp(batch, sizes, column) for column in np.array([self.epochs[int(s)][i] for s in sizes]).T]
            )
            for i in (1, 2)
        )
        gain = (variance + square) / (variance / (batch / smallest) + square)
        return float((to_do / (gain / iteration_s).max(axis=1)).sum())


@dataclass(frozen=True, eq=False)
class SiaCurve:
    """The speeds of one job of a Sia list."""

    application: Application
    duration_s: float
    max_gpus: int
    rescale_s: float

    def speed(self, gpus: int, nodes: int, gpu_type: str | None) -> float:
        """Speed relative to the run that the trace describes; an unnamed GPU type is the reference one."""
        training_s = self.application.training_s(gpus, nodes, gpu_type or REFERENCE_GPU)
        return self.duration_s / training_s if training_s > 0 else 0.0


class SiaScaling:
    """Measurements of every application."""

    def __init__(self, applications: Mapping[str, Application]) -> None:
        self.applications = applications

    @classmethod
    def read(cls, path: Path) -> SiaScaling:
        """Read ``app_traces.tar.gz``.

        Raises:
            InputError: it is damaged, or holds no tables of this kind.
        """
        found: dict[str, Application] = {}
        tables: dict[tuple[str, str], list[pd.DataFrame]] = {}
        try:
            with tarfile.open(path, "r:*") as archive:
                for info in archive:
                    match = _MEMBER.search(info.name)
                    stream = archive.extractfile(info) if match and info.isfile() else None
                    if match is None or stream is None or match["app"] not in COMPLETION_EPOCH:
                        continue
                    application = found.setdefault(match["app"], Application(match["app"]))
                    table = pd.read_csv(stream)
                    if match["kind"] == "validation":
                        application.epochs[int(match["what"])] = _epochs(match["app"], table)
                    else:
                        tables.setdefault((match["app"], match["what"]), []).append(_steps_table(match["kind"], table))
        except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, KeyError) as error:
            why = "it is no archive, or a damaged one" if isinstance(error, tarfile.ReadError) else error
            raise InputError(f"the application profiles cannot be read ({why}): {path.name}") from error
        for (name, gpu_type), parts in tables.items():
            _add_steps(found[name], gpu_type, pd.concat(parts, ignore_index=True))
        usable = {name: application for name, application in found.items() if application.steps and application.epochs}
        if not usable:
            raise InputError(f"the archive holds no APPLICATION/scalability-GPU.csv with validations: {path.name}")
        return cls(usable)

    def curves(self, jobs: Iterable[TraceJob]) -> dict[str, SiaCurve]:
        """The curves of the jobs whose model is one of the applications."""
        found: dict[str, SiaCurve] = {}
        for job in jobs:
            application = self.applications.get(job.model or "")
            if application is not None and job.duration_s > 0:
                rescale_s = RESCALE_S[application.name]
                found[job.job_id] = SiaCurve(application, job.duration_s, application.max_gpus, rescale_s)
        return found


def _epochs(application: str, table: pd.DataFrame) -> Floats:
    """Progress, squared norm and variance of the epochs until the training is done; the last one is repeated."""
    count = COMPLETION_EPOCH[application]
    kept = table[["progress", "grad_sqr", "grad_var"]].to_numpy(float)[:count]
    if len(kept) < count:
        kept = np.concatenate([kept, np.repeat(kept[-1:], count - len(kept), axis=0)])
    return kept.T


def _steps_table(kind: str, table: pd.DataFrame) -> pd.DataFrame:
    if kind == "placements":
        digits = table["placement"].astype(str)
        table = table.assign(
            num_replicas=[sum(int(digit) for digit in text) for text in digits],
            num_nodes=[len(text) for text in digits],
        )
    sync_s = table["sync_time"] if "sync_time" in table.columns else 0.0
    columns = ["num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"]
    return table.assign(sync_time=sync_s).reindex(columns=columns)


def _add_steps(application: Application, gpu_type: str, table: pd.DataFrame) -> None:
    table = table.assign(several=table["num_nodes"] > 1)
    for key, rows in table.groupby(["several", "num_replicas"]):
        several, gpus = cast("tuple[bool, int]", key)
        mean = cast("pd.DataFrame", rows.groupby("local_bsz")[["step_time", "sync_time"]].mean()).sort_index()
        steps = Steps(mean.index.to_numpy(float), mean["step_time"].to_numpy(float), mean["sync_time"].to_numpy(float))
        application.steps.setdefault((gpu_type, bool(several)), {})[int(gpus)] = steps


def _between(by_gpus: Mapping[int, Steps], gpus: int) -> Steps | None:
    """Steps with this number of GPUs, measured or between its two measured neighbours."""
    if gpus in by_gpus:
        return by_gpus[gpus]
    below = max((count for count in by_gpus if count < gpus), default=None)
    above = min((count for count in by_gpus if count > gpus), default=None)
    if below is None or above is None:
        return None
    low, high = by_gpus[below], by_gpus[above]
    weight = (gpus - below) / (above - below)
    grid = np.unique(np.concatenate([low.local_batch, high.local_batch]))
    grid = grid[grid <= min(low.local_batch[-1], high.local_batch[-1])]
    one, other = low.at(grid), high.at(grid)
    return Steps(grid, (1 - weight) * one[0] + weight * other[0], (1 - weight) * one[1] + weight * other[1])
