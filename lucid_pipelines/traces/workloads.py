"""Assigns workloads of a profile table to jobs that have none: seeded, and heavier for larger jobs.

Traces do not say what a job trained. As in the Lucid paper (section 4.1), profiled configurations are given to
jobs stratified by their size, long and large jobs getting heavy models more often:

1. A job's size is ``(g + d) / 2``, where ``g = log2(gpus) / 4`` and ``d = (log10(duration_s) - 2) / 3``, both cut
   to 0..1: 1 GPU is 0 and 16 GPUs are 1; 100 s are 0 and 100,000 s are 1.
2. A configuration's weight is ``ProfileTable.heaviness``, 0..1.
3. It is drawn with a probability in proportion to ``exp(4 (2 size - 1) (2 weight - 1))``: evenly for middle
   sizes, light ones for small jobs, heavy ones for large jobs. A job of more than 8 GPUs draws from the heaviest
   third only.
4. Runs of one user under one name and on one side of 8 GPUs are one recurring job: they share the draw, which
   uses the median of their sizes. A job without a name draws alone.

The draw is a hash of seed, user and name (or job id), so it does not depend on which other jobs are there.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pandas as pd

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces.collector import typed_frame
from lucid_pipelines.traces.frames import column, rows
from lucid_pipelines.traces.profiles import ProfileTable

STEEPNESS = 4.0
LARGE_JOB_GPUS = 8
HEAVY_SHARE_FRAC = 1 / 3
_LEVELS = 41
WORKLOAD_COLUMNS = ("model", "dataset", "batch_size", "amp", "gpu_util_pct", "memory_util_pct", "memory_peak_mib")


def assign_workloads(frame: pd.DataFrame, table: ProfileTable, seed: int, source: str = "mapped") -> pd.DataFrame:
    """Give every job without a model a configuration of the table; the others stay as they are.

    Args:
        source: written to ``workload_source`` of the jobs that get one.

    Raises:
        InputError: the table is empty.
    """
    if table.frame.empty:
        raise InputError(f"the profile table has no rows: {table.source}")
    missing = frame["model"].isna().to_numpy()
    if not missing.any():
        return frame
    part = rows(frame, missing)
    chosen = _choose(part, table, seed)
    picked = table.frame.iloc[chosen].reset_index(drop=True)
    columns = {name: frame[name].astype(object).to_numpy(copy=True) for name in WORKLOAD_COLUMNS}
    columns["workload_source"] = frame["workload_source"].astype(object).to_numpy(copy=True)
    for name in WORKLOAD_COLUMNS:
        columns[name][missing] = picked[name].to_numpy(object)
    columns["workload_source"][missing] = source
    typed = typed_frame(columns, len(frame))
    typed.index = frame.index
    return frame.assign(**{name: typed[name] for name in columns})


def job_sizes(frame: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Size of each job, 0 to 1 (rule 1)."""
    gpus = np.clip(np.log2(np.maximum(frame["gpus"].to_numpy(np.float64), 1.0)) / 4.0, 0.0, 1.0)
    duration = np.clip((np.log10(np.maximum(frame["duration_s"].to_numpy(np.float64), 1.0)) - 2.0) / 3.0, 0.0, 1.0)
    return (gpus + duration) / 2.0


def _choose(frame: pd.DataFrame, table: ProfileTable, seed: int) -> npt.NDArray[np.int64]:
    is_large = frame["gpus"].to_numpy(np.float64) > LARGE_JOB_GPUS
    keys = _keys(frame, is_large)
    _, group = np.unique(keys, return_inverse=True)
    size = pd.Series(job_sizes(frame)).groupby(group).transform("median").to_numpy(np.float64)
    level = np.rint(size * (_LEVELS - 1)).astype(np.int64)
    draw = _uniform(keys, seed)
    cumulated = {large: _cumulated(table, large=large) for large in (False, True)}
    chosen = np.zeros(len(frame), dtype=np.int64)
    for large in (False, True):
        rows = np.flatnonzero(is_large == large)
        for value in np.unique(level[rows]):
            here = rows[level[rows] == value]
            chosen[here] = np.searchsorted(cumulated[large][value], draw[here], side="right")
    return np.minimum(chosen, len(table.frame) - 1)


def _cumulated(table: ProfileTable, *, large: bool) -> npt.NDArray[np.float64]:
    """Cumulated probabilities of the configurations by size level."""
    weight = table.heaviness()
    size = np.linspace(0.0, 1.0, _LEVELS)
    chance = np.exp(STEEPNESS * np.outer(2 * size - 1, 2 * weight - 1))
    if large:
        heaviest = weight >= np.quantile(weight, 1 - HEAVY_SHARE_FRAC)
        chance = chance * heaviest
    return np.cumsum(chance, axis=1) / chance.sum(axis=1, keepdims=True)


def _keys(frame: pd.DataFrame, is_large: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    named = (frame["name"].astype(object) != "").to_numpy()
    user, name = _hashed(column(frame, "user")), _hashed(column(frame, "name"))
    keys = _mixed(_mixed(user) ^ name)
    if not named.all():
        keys[~named] = _hashed(column(rows(frame, ~named), "job_id"))
    return _mixed(keys + is_large.astype(np.uint64))


def _hashed(values: pd.Series) -> npt.NDArray[np.uint64]:
    """A hash of each text, the same on every machine and in every selection."""
    codes, words = pd.factorize(values)
    digests = b"".join(hashlib.blake2b(str(word).encode(), digest_size=8).digest() for word in words)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)[codes]


def _uniform(keys: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.float64]:
    seeded = _mixed(keys ^ _mixed(np.full(1, seed % 2**63, dtype=np.uint64)))
    return seeded.astype(np.float64) / 2.0**64


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
