"""Tables of profiled workloads: read from a file, or a small generated one that ships with the project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from lucid_pipelines.domain.errors import InputError, NotFoundError, did_you_mean
from lucid_pipelines.traces.contract import Column, Contract, Kind
from lucid_pipelines.traces.files import MEMBER_SEPARATOR, TraceFile
from lucid_pipelines.traces.table import ReadContext, cell_blocks

GENERATED = "generated"
"""The word that stands for the generated table where a path is expected."""

CONTRACT = Contract(
    format="profiles",
    title="Profile table (single_data.csv)",
    source="github.com/S-Lab-System-Group/Lucid, simulation/analyzer; or `generated_profiles`",
    columns=(
        Column("model", Kind.TEXT, "model"),
        Column("dataset", Kind.TEXT, "data set"),
        Column("batchsize", Kind.NUMBER, "samples per GPU and step", "samples", aliases=("batch_size",)),
        Column("amp", Kind.FLAG, "mixed precision"),
        Column("speed", Kind.NUMBER, "throughput alone", "samples/s", required=False),
        Column("gpu_util", Kind.NUMBER, "GPU utilisation alone", "%", aliases=("gpu_util_pct",)),
        Column("gmem_util", Kind.NUMBER, "memory utilisation alone", "%", aliases=("memory_util_pct",)),
        Column("gmem", Kind.NUMBER, "memory footprint alone", "MiB", aliases=("memory_peak_mib",)),
        Column("label", Kind.NUMBER, "sharing score 0, 1 or 2", required=False),
    ),
    clock="none",
)
_FIELDS = {
    "model": "model",
    "dataset": "dataset",
    "batchsize": "batch_size",
    "amp": "amp",
    "speed": "speed_per_s",
    "gpu_util": "gpu_util_pct",
    "gmem_util": "memory_util_pct",
    "gmem": "memory_peak_mib",
    "label": "sharing_score",
}
TINY_SPEED_FRAC = 0.95
MEDIUM_SPEED_FRAC = 0.85
"""Mean speed beside a partner from which on a workload is Tiny or Medium (Lucid, section 3.3)."""


@dataclass(frozen=True, eq=False)
class ProfileTable:
    """Profiled workloads, one per row.

    Attributes:
        frame: columns ``model, dataset, batch_size, amp, speed_per_s, gpu_util_pct, memory_util_pct,
            memory_peak_mib, sharing_score``; NaN where the file does not tell.
        source: file name, or ``generated``.
    """

    frame: pd.DataFrame
    source: str

    def heaviness(self) -> np.ndarray:
        """Weight of each workload, 0 to 1: the mean of its ranks by GPU utilisation and by memory footprint."""
        ranks = self.frame[["gpu_util_pct", "memory_peak_mib"]].rank(pct=True).mean(axis=1)
        return ranks.to_numpy(np.float64)


def read_profiles(path: str | Path) -> ProfileTable:
    """Read a profile table, or give the generated one for the word ``generated``.

    Raises:
        NotFoundError: there is no such file.
        InputError: it lacks a column, has no rows, or a row is damaged.
    """
    if str(path) == GENERATED:
        return generated_profiles()
    if not Path(str(path).partition(MEMBER_SEPARATOR)[0]).exists() and (hint := did_you_mean(str(path), [GENERATED])):
        raise NotFoundError(f"there is no file{hint}: {path}")
    context = ReadContext(TraceFile.of(path))
    parts: list[pd.DataFrame] = []
    for block in cell_blocks(context.file, CONTRACT, context):
        columns = {field: block.read(name) for name, field in _FIELDS.items()}
        bad = np.flatnonzero(~block.good)
        if bad.size:
            raise InputError(
                f"line {block.numbers[bad[0]]} of the profile table is damaged ({block.reasons[bad[0]]}): "
                f"{block.raw(int(bad[0]))[:120]!r} in {context.file.label}"
            )
        parts.append(
            pd.DataFrame({name: np.nan if v is None else v for name, v in columns.items()}, index=range(len(block)))
        )
    damaged = context.collector.quarantine()
    if len(damaged):
        row = damaged.iloc[0]
        raise InputError(
            f"line {row['row_number']} of the profile table is damaged ({row['reason']}): {context.file.label}"
        )
    return ProfileTable(pd.concat(parts, ignore_index=True), context.file.label)


@dataclass(frozen=True, slots=True)
class _Family:
    """What the generated profiles of one kind of model follow from."""

    model: str
    dataset: str
    sample_ms: float
    """GPU time of one sample in single precision."""
    step_ms: float
    """Time of a step in which no kernel runs: data, Python, launch gaps."""
    base_mib: float
    sample_mib: float
    memory_frac: float
    """Memory utilisation per GPU utilisation."""
    batch_sizes: tuple[int, ...] = (32, 64, 128)
    has_amp: bool = True


_FAMILIES = (
    _Family("synthetic-resnet-large", "images-large", 1.9, 2.0, 1900, 88, 0.82),
    _Family("synthetic-resnet-small", "images-small", 0.16, 6.0, 1500, 7, 0.55),
    _Family("synthetic-vgg", "images-small", 0.11, 9.0, 1700, 11, 0.50),
    _Family("synthetic-mobile", "images-large", 0.55, 14.0, 1600, 22, 0.62),
    _Family("synthetic-detector", "scenes", 4.6, 25.0, 2600, 190, 0.60, (8, 16, 32)),
    _Family("synthetic-encoder", "question-answering", 10.5, 6.0, 4200, 380, 0.66, (16, 32)),
    _Family("synthetic-translator", "sentences", 0.62, 38.0, 5200, 90, 0.38, (32, 64)),
    _Family("synthetic-recurrent", "sentences", 0.20, 11.0, 1500, 5, 0.35),
    _Family("synthetic-gan", "images-small", 0.28, 9.0, 1700, 8, 0.40),
    _Family("synthetic-points", "point-clouds", 0.35, 24.0, 1700, 24, 0.45),
    _Family("synthetic-recommender", "ratings", 0.005, 5.5, 1450, 0.5, 0.20, (64, 128)),
    _Family("synthetic-policy", "game", 0.012, 8.0, 1450, 0.4, 0.05, (32, 64, 128), has_amp=False),
)
_AMP_SPEED = 1.75
_AMP_MEMORY = 0.62


def generated_profiles() -> ProfileTable:
    """A table that is computed, not measured, in the same columns as a measured one.

    A step of ``b`` samples keeps the GPU busy for ``b x sample_ms`` and idle for ``step_ms``; utilisation is the
    busy share. The sharing score follows from the mean speed beside every workload of the table, where two jobs
    that together ask for more than the GPU's time get it in proportion.
    """
    rows: list[dict[str, object]] = []
    for family in _FAMILIES:
        for batch in family.batch_sizes:
            for amp in (0, 1) if family.has_amp else (0,):
                busy_ms = batch * family.sample_ms / (_AMP_SPEED if amp else 1.0)
                step_ms = busy_ms + family.step_ms
                util = 100.0 * busy_ms / step_ms
                memory = family.base_mib + batch * family.sample_mib * (_AMP_MEMORY if amp else 1.0)
                rows.append(
                    {
                        "model": family.model,
                        "dataset": family.dataset,
                        "batch_size": float(batch),
                        "amp": float(amp),
                        "speed_per_s": round(1000.0 * batch / step_ms, 3),
                        "gpu_util_pct": round(util, 3),
                        "memory_util_pct": round(util * family.memory_frac, 3),
                        "memory_peak_mib": round(memory, 1),
                    }
                )
    frame = pd.DataFrame(rows)
    return ProfileTable(frame.assign(sharing_score=_sharing_scores(frame)), GENERATED)


def _sharing_scores(frame: pd.DataFrame) -> np.ndarray:
    util = frame["gpu_util_pct"].to_numpy(np.float64) / 100.0
    speed = np.minimum(1.0, 1.0 / (util[:, None] + util[None, :])).mean(axis=1)
    return np.where(speed < MEDIUM_SPEED_FRAC, 2.0, np.where(speed < TINY_SPEED_FRAC, 1.0, 0.0))
