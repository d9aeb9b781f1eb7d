"""The feature matrix of durations: one walk through history in order of time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.models.additive.schema import Feature, FeatureKind, Matrix
from lucid_pipelines.models.duration.history import HISTORY_FEATURES, NAN, HistoryIndex, RunningAttempt
from lucid_pipelines.models.duration.selecting import Teaching, teaches

_DAY_S = 86_400.0
_CHUNK = 100_000
Bucketer = Callable[[str], str | None]


def duration_features(users: Sequence[str] = (), buckets: Sequence[str] = ()) -> tuple[Feature, ...]:
    """The columns of the matrix, with the users and name buckets that get a term of their own."""
    return (
        Feature("gpus", description="GPUs asked for"),
        Feature("hour", unit="h", description="hour of the day of the submission, UTC"),
        Feature("weekday", unit="d", description="day of the week of the submission, Monday = 0, UTC"),
        Feature("user", FeatureKind.NOMINAL, description="who submits", categories=tuple(users)),
        Feature("bucket", FeatureKind.NOMINAL, description="names like this one", categories=tuple(buckets)),
        Feature("gpu_util_pct", unit="%", description="of the job's own profiling run"),
        Feature("memory_util_pct", unit="%", description="of the job's own profiling run"),
        Feature("memory_peak_mib", unit="MiB", description="of the job's own profiling run"),
        *(Feature(name, unit=unit, description=meaning) for name, unit, meaning in HISTORY_FEATURES),
    )


@dataclass(frozen=True)
class Lessons:
    """A matrix with what became of each row.

    Attributes:
        matrix: rows × ``duration_features``; the nominal columns are NaN until ``with_codes`` fills them.
        rows: the attempts.
        known_at_s: the moment at which each row's features were known.
        buckets: name bucket of each attempt.
    """

    matrix: Matrix
    rows: tuple[HistoryRow, ...]
    known_at_s: npt.NDArray[np.float64]
    buckets: tuple[str | None, ...]

    @property
    def target(self) -> npt.NDArray[np.float64]:
        """log(1 + seconds)."""
        return np.log1p(self.durations_s)

    @property
    def durations_s(self) -> npt.NDArray[np.float64]:
        return np.array([row.duration_s for row in self.rows], dtype=np.float64)

    @property
    def ended_at_s(self) -> npt.NDArray[np.float64]:
        return np.array([row.ended_at.timestamp() for row in self.rows], dtype=np.float64)

    @property
    def blocks(self) -> npt.NDArray[np.intp]:
        """One number per user and day: such rows are alike and are held back together."""
        return user_days([row.user for row in self.rows], self.known_at_s)

    def take(self, chosen: npt.NDArray[np.bool_]) -> Lessons:
        where = np.flatnonzero(chosen).tolist()
        return Lessons(
            self.matrix[chosen],
            tuple(self.rows[i] for i in where),
            self.known_at_s[chosen],
            tuple(self.buckets[i] for i in where),
        )


def user_days(users: Sequence[str], at_s: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """One number per user and UTC day."""
    days = (at_s // _DAY_S).astype(int).tolist()
    return np.unique([f"{user}\0{day}" for user, day in zip(users, days, strict=True)], return_inverse=True)[1]


def build_lessons(
    rows: Sequence[HistoryRow],
    bucket_of: Bucketer,
    teaching: Teaching,
    *,
    since_s: float | None = None,
    every_outcome: bool = False,
    running: Iterable[RunningAttempt] = (),
) -> tuple[Lessons, HistoryIndex]:
    """Walk through history and note for every attempt what was known before it began.

    Args:
        rows: usable rows (``select_rows``).
        since_s: note only attempts that became known from here on; the earlier ones still teach.
        every_outcome: note runs too that do not teach.
        running: attempts that have not ended.

    Returns:
        The lessons by the moment at which they were known, and the index after the last event.
    """
    submitted = [row.submitted_at.timestamp() for row in rows]
    ended = [row.ended_at.timestamp() for row in rows]
    known_at = _known_at_s(rows, submitted, ended)
    profiles = _profiles_before(rows)
    wanted = [
        i
        for i, row in enumerate(rows)
        if (every_outcome or teaches(row.outcome, teaching)) and (since_s is None or known_at[i] >= since_s)
    ]
    buckets = [bucket_of(row.name) for row in rows]
    index = HistoryIndex(teaching)
    # Numbers side by side instead of a million lists: the walk then needs little more memory than the matrix.
    values = array("d")
    order: list[int] = []
    for at_s, kind, i in _events(rows, ended, known_at, wanted):
        row = rows[i]
        if kind == _ENDED:
            index.end(row, buckets[i])
        elif kind == _BEGAN:
            index.start(row.attempt_id, row.user, row.gpus, at_s)
        else:
            values.extend(
                feature_row(index, row.user, buckets[i], row.gpus, profiles.get(i), at_s, submitted_s=submitted[i])
            )
            order.append(i)
    width = len(duration_features())
    matrix = np.frombuffer(values, dtype=np.float64).reshape(-1, width) if order else np.empty((0, width))
    for attempt in running:
        index.start(attempt.attempt_id, attempt.user, attempt.gpus, attempt.started_at.timestamp())
    lessons = Lessons(
        matrix,
        tuple(rows[i] for i in order),
        np.array([known_at[i] for i in order], dtype=np.float64),
        tuple(buckets[i] for i in order),
    )
    return lessons, index


def feature_row(
    index: HistoryIndex,
    user: str,
    bucket: str | None,
    gpus: int,
    profile: Profile | None,
    at_s: float,
    *,
    submitted_s: float,
) -> list[float]:
    """One row of the matrix; the nominal columns are left NaN.

    Args:
        at_s: when the estimate is made.
        submitted_s: gives hour and weekday.
    """
    days = submitted_s // _DAY_S
    measured = (
        [NAN, NAN, NAN]
        if profile is None
        else [
            NAN if value is None else float(value)
            for value in (profile.gpu_util_pct, profile.memory_util_pct, profile.memory_peak_mib)
        ]
    )
    return [
        float(gpus),
        (submitted_s - days * _DAY_S) / 3600.0,
        # 1970-01-01 was a Thursday.
        (days + 3) % 7,
        NAN,
        NAN,
        *measured,
        *index.features(user, bucket, gpus, at_s),
    ]


_ENDED, _ASKED, _BEGAN = 0, 1, 2
"""At one moment: first what ended, then the question, then what started, so that nothing sees itself."""


def _events(
    rows: Sequence[HistoryRow], ended: Sequence[float], known_at: Sequence[float], wanted: Sequence[int]
) -> Iterator[tuple[float, int, int]]:
    """Time, kind and row of everything that happened or is asked, in order."""
    began = [
        (row.started_at.timestamp(), i)
        for i, row in enumerate(rows)
        if row.started_at is not None and row.started_at < row.ended_at
    ]
    at_s = np.concatenate([ended, [known_at[i] for i in wanted], [start for start, _ in began]])
    kinds = np.repeat(np.array([_ENDED, _ASKED, _BEGAN], dtype=np.int8), [len(rows), len(wanted), len(began)])
    which = np.concatenate([np.arange(len(rows)), wanted, [i for _, i in began]]).astype(np.intp)
    del began
    order = np.lexsort((which, kinds, at_s))
    for begin in range(0, len(order), _CHUNK):
        chunk = order[begin : begin + _CHUNK]
        yield from zip(at_s[chunk].tolist(), kinds[chunk].tolist(), which[chunk].tolist(), strict=True)


def _known_at_s(rows: Sequence[HistoryRow], submitted: Sequence[float], ended: Sequence[float]) -> list[float]:
    """When each attempt was last waiting: at its submission, or when the job's attempt before it ended."""
    ends: dict[str, list[float]] = {}
    for row in rows:
        if row.number > 1:
            ends.setdefault(row.job_id, [])
    if not ends:
        return list(submitted)
    for row, ended_s in zip(rows, ended, strict=True):
        if row.job_id in ends:
            ends[row.job_id].append(ended_s)
    moments: list[float] = []
    for row, submitted_s, ended_s in zip(rows, submitted, ended, strict=True):
        before = [end for end in ends.get(row.job_id, ()) if end < ended_s] if row.number > 1 else []
        moments.append(max([submitted_s, *before]))
    return moments


def _profiles_before(rows: Sequence[HistoryRow]) -> dict[int, Profile]:
    """For attempts after a profiling run the profile that it measured.

    What an attempt measured of itself is not known before it, and that it was measured at all says that it ran
    long: it is never a feature of its own row.
    """
    measured: dict[str, Profile] = {}
    found: dict[int, Profile] = {}
    for i, row in sorted(enumerate(rows), key=lambda item: item[1].ended_at):
        earlier = measured.get(row.job_id)
        if earlier is not None and row.number > 1:
            found[i] = earlier
        if row.profiling and row.profile is not None:
            measured[row.job_id] = row.profile
    return found
