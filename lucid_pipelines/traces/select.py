"""Selection and scaling of a loaded trace; what is left out is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pandas as pd

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.traces.cells import seconds_of
from lucid_pipelines.traces.frames import column, rows

Moment = datetime | str | float | int
"""A bound in time: a date or time (UTC, or the zone in which the trace was read, when it has no offset), or
seconds on the clock of ``submit_s``."""


def moment_s(value: Moment, zone: str, *, has_calendar: bool) -> float:
    """A bound as seconds on the clock of ``submit_s``.

    Raises:
        InputError: it is no time, or a calendar time for a trace without a calendar.
    """
    if isinstance(value, datetime):
        seconds = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    elif isinstance(value, str) and not _is_number(value):
        seconds = float(seconds_of([value], zone)[0])
        if np.isnan(seconds):
            raise InputError(f"a time is written YYYY-MM-DD, YYYY-MM-DDTHH:MM:SS or in seconds; got {value!r}")
    else:
        return float(value)
    if not has_calendar:
        raise InputError(f"this trace counts seconds from its own zero: give a bound in seconds; got {value!r}")
    return seconds


def select_window(
    frame: pd.DataFrame, start_s: float | None, end_s: float | None, left_out: Counter[str]
) -> pd.DataFrame:
    """Keep jobs submitted at or after ``start_s`` and before ``end_s``."""
    keep = np.ones(len(frame), dtype=bool)
    if start_s is not None:
        keep &= frame["submit_s"].to_numpy() >= start_s
    if end_s is not None:
        keep &= frame["submit_s"].to_numpy() < end_s
    return _keep(frame, keep, "outside_window", left_out)


def select_vcs(frame: pd.DataFrame, vcs: Collection[str], left_out: Counter[str]) -> pd.DataFrame:
    """Keep jobs of these virtual clusters.

    Raises:
        InputError: the trace has no job of one of them; the nearest name is given.
    """
    known = [str(name) for name in frame["vc"].cat.categories]
    for name in vcs:
        if name not in known:
            raise InputError(
                f"the trace has the virtual clusters {', '.join(known[:30])}{did_you_mean(name, known)}; not {name!r}"
            )
    return _keep(frame, frame["vc"].isin(list(vcs)).to_numpy(), "other_virtual_cluster", left_out)


def scale_load(frame: pd.DataFrame, scale: float, seed: int, left_out: Counter[str]) -> pd.DataFrame:
    """Change the offered load by the factor ``scale``.

    Below 1, whole users are left out, so that the recurrence of those who stay is kept: users are taken in a
    seeded order as long as they fit into ``scale`` of the jobs, and the rest is filled with single jobs, seeded,
    of the users left over. A trace without users keeps a seeded share of its jobs.
    Above 1, arrivals are compressed: the time from the first submission to each job's is divided by ``scale``
    and run times stay. Recorded starts and ends then mean nothing and become unknown.

    Raises:
        InputError: the factor is not a positive number.
    """
    if not np.isfinite(scale) or scale <= 0:
        raise InputError(f"scale must be above 0; got {scale}")
    if scale == 1 or frame.empty:
        return frame
    if scale > 1:
        first = float(frame["submit_s"].iloc[0])
        submit = first + (frame["submit_s"] - first) / scale
        return frame.assign(submit_s=submit, start_s=np.nan, end_s=np.nan)
    target = max(1, round(scale * len(frame)))
    generator = np.random.default_rng(seed)
    keep = _users_within(frame["user"].cat.codes.to_numpy(np.int64), target, generator)
    spare = np.flatnonzero(~keep)
    keep[generator.choice(spare, size=target - int(keep.sum()), replace=False)] = True
    return _keep(frame, keep, "scaled_down", left_out)


def _users_within(users: npt.NDArray[np.int64], target: int, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    sizes = np.bincount(users)
    kept = np.zeros(len(sizes), dtype=bool)
    total = 0
    for user in generator.permutation(len(sizes)):
        if sizes[user] > 0 and total + sizes[user] <= target:
            kept[user] = True
            total += int(sizes[user])
    return kept[users]


def _keep(frame: pd.DataFrame, keep: npt.NDArray[np.bool_], reason: str, left_out: Counter[str]) -> pd.DataFrame:
    if keep.all():
        return frame
    left_out[reason] += int((~keep).sum())
    kept = rows(frame, keep).reset_index(drop=True)
    for name in kept.columns:
        values = column(kept, str(name))
        if isinstance(values.dtype, pd.CategoricalDtype):
            kept[name] = values.cat.remove_unused_categories()
    return kept


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
