"""When jobs are submitted: sessions by hour and weekday, several jobs in each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lucid_pipelines.traces import published
from lucid_pipelines.traces.frames import Floats

HOUR_S = 3600.0
SESSION_SIZE_EXPONENT = 2.2
SESSION_SIZE_LIMIT = 64
GAP_MEDIAN_S = 90.0
GAP_LOG_SIGMA = 1.2


def sample_sessions(
    jobs: int, span_s: float, start_s: float, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Submission times of ``jobs`` jobs and the session that each belongs to.

    Args:
        span_s: length of the trace.
        start_s: its first moment, seconds since 1970-01-01 UTC.

    Returns:
        Sessions (numbered from 0) and whole seconds, both in order of time.
    """
    sizes = session_sizes(jobs, rng)
    session = np.repeat(np.arange(len(sizes)), sizes)[:jobs]
    begin = _begins(len(sizes), span_s, start_s, rng)
    gap = rng.lognormal(np.log(GAP_MEDIAN_S), GAP_LOG_SIGMA, len(sizes))
    steps = rng.exponential(1.0, jobs) * gap[session]
    is_first = np.r_[True, session[1:] != session[:-1]]
    steps[is_first] = 0.0
    elapsed = np.cumsum(steps)
    offset = elapsed - elapsed[is_first][session]
    # A session that would run over the end goes on at the beginning: the count and the span stay exact.
    submit = np.floor(start_s + (begin[session] + offset) % span_s)
    order = np.argsort(submit, kind="stable")
    return session[order], submit[order]


def session_sizes(jobs: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Numbers of jobs in sessions, together at least ``jobs``: a power law, mostly one."""
    values = np.arange(1, SESSION_SIZE_LIMIT + 1)
    chance = values**-SESSION_SIZE_EXPONENT
    chance /= chance.sum()
    sizes = rng.choice(values, size=jobs, p=chance)
    return sizes[: int(np.searchsorted(np.cumsum(sizes), jobs)) + 1]


def intensity(span_s: float, start_s: float) -> Floats:
    """Expected submissions of each hour from the start, up to a factor; the last hour may be a part of one."""
    hours = int(np.ceil(span_s / HOUR_S))
    stamp = start_s + HOUR_S * np.arange(hours)
    hour = (stamp // HOUR_S).astype(np.int64) % 24
    weekday = (stamp // (24 * HOUR_S)).astype(np.int64) + 3  # 1970-01-01 was a Thursday
    weight = np.array(published.HOUR_WEIGHTS)[hour] * np.array(published.WEEKDAY_WEIGHTS)[weekday % 7]
    weight[-1] *= (span_s - HOUR_S * (hours - 1)) / HOUR_S
    return weight


def _begins(count: int, span_s: float, start_s: float, rng: np.random.Generator) -> Floats:
    cumulated = np.cumsum(intensity(span_s, start_s))
    place = rng.random(count) * cumulated[-1]
    hour = np.minimum(np.searchsorted(cumulated, place, side="right"), len(cumulated) - 1)
    return np.minimum((hour + rng.random(count)) * HOUR_S, span_s * (1 - 1e-12))
