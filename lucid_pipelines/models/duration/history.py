"""What is known of a user's runs at a moment: the history features of a duration estimate, without any leak.

Feed it starts and ends in order of time; what it says of a job rests on nothing later.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.models.duration.selecting import Teaching, teaches

_Key = TypeVar("_Key", bound=Hashable)

NAN = math.nan
_RECENT = 16
_IDS = 5
_SHRINK = 3.0
"""A mean over so many runs is believed by half; the other half comes from the next wider group."""
_FADE = 0.3
_RECENT_TRUST = 3
_RECENT_SHRINK = 1.5
_HOUR_S = 3600.0

_OUTCOME_CODES = {Outcome.COMPLETED: 0.0, Outcome.CANCELLED: 1.0}
_FAILED = 2.0

HISTORY_FEATURES: tuple[tuple[str, str, str], ...] = (
    ("typical", "log(1+s)", "mean of the user's runs of this kind, shrunk towards wider groups"),
    ("recent", "log(1+s)", "the same with the newest runs counting most"),
    ("user_mean", "log(1+s)", "mean of the user's runs, shrunk towards the mean of this GPU count"),
    ("gpus_mean", "log(1+s)", "mean of all runs with this GPU count, shrunk towards all runs"),
    ("bucket_mean", "log(1+s)", "mean of all users' runs with such a name and this GPU count, shrunk likewise"),
    ("same_last", "log(1+s)", "the user's last run of this kind"),
    ("same_median", "log(1+s)", "median of the user's newest runs of this kind"),
    ("same_high", "log(1+s)", "90 % quantile of the user's newest runs of this kind"),
    ("same_count", "", "how many runs of this kind the user has had"),
    ("same_age", "log(1+h)", "time since the last of them ended"),
    ("user_last", "log(1+s)", "the user's last run of any kind"),
    ("user_median", "log(1+s)", "median of the user's newest runs"),
    ("user_count", "", "how many runs the user has had"),
    ("done_recent", "log(1+s)", "completed runs of this kind, the newest counting most"),
    ("done_median", "log(1+s)", "median of the newest completed runs of this kind"),
    ("done_user_mean", "log(1+s)", "mean of the user's completed runs, shrunk towards all completed runs"),
    ("running_count", "", "how many of the user's jobs with this GPU count run now"),
    ("running_oldest", "log(1+s)", "how long the oldest of them has run"),
    ("running_median", "log(1+s)", "how long half of them have run"),
    ("last_outcome", "", "how the user's last run with this GPU count ended: 0 completed, 1 cancelled, 2 failed"),
    ("completed_frac", "", "share of completed ones among the last ten of them"),
)
"""Name, unit and meaning. "Of this kind" is the same user, name bucket and GPU count; without such a run, the same
user and GPU count."""

_COUNT_CAP = 200.0
_RUNNING_CAP = 50.0


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """An attempt that had started and not ended: it says that a job of its kind takes at least so long."""

    attempt_id: str
    user: str
    gpus: int
    started_at: datetime


class _Runs:
    """Durations (log(1+s)) of one group."""

    __slots__ = ("count", "fading", "last", "last_at_s", "mean", "newest_ids", "recent")

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.fading = NAN
        self.last = NAN
        self.last_at_s = NAN
        self.recent: list[float] = []
        self.newest_ids: list[str] = []

    def tally(self, value: float) -> None:
        """Count and mean only, for a group that is asked for no more."""
        self.count += 1
        self.mean += (value - self.mean) / self.count

    def add(self, value: float, at_s: float) -> None:
        self.count += 1
        self.mean += (value - self.mean) / self.count
        self.fading = value if self.count == 1 else self.fading + _FADE * (value - self.fading)
        self.last = value
        self.last_at_s = at_s
        recent = self.recent
        recent.append(value)
        if len(recent) > _RECENT:
            del recent[0]

    def to_json(self) -> list[Any]:
        return [
            self.count,
            self.mean,
            *map(_plain, (self.fading, self.last, self.last_at_s)),
            self.recent,
            self.newest_ids,
        ]

    @classmethod
    def from_json(cls, document: Sequence[Any]) -> _Runs:
        runs = cls()
        runs.count, runs.mean = int(document[0]), float(document[1])
        runs.fading, runs.last, runs.last_at_s = (NAN if v is None else float(v) for v in document[2:5])
        runs.recent, runs.newest_ids = [float(v) for v in document[5]], [str(v) for v in document[6]]
        return runs

    def shrunk(self, wider: float) -> float:
        """The mean, shrunk towards that of a wider group."""
        if wider != wider:
            return self.mean if self.count else NAN
        return (self.count * self.mean + _SHRINK * wider) / (self.count + _SHRINK)

    def freshened(self, steady: float) -> float:
        """The fading mean, shrunk towards a steady one."""
        if not self.count:
            return steady
        trust = min(self.count, _RECENT_TRUST)
        return (trust * self.fading + _RECENT_SHRINK * steady) / (trust + _RECENT_SHRINK)


_NOTHING = _Runs()


class HistoryIndex:
    """Statistics of ended and running attempts, fed in order of time."""

    def __init__(self, teaching: Teaching = Teaching.HELD) -> None:
        self.teaching = teaching
        self.end_count = 0
        self._all = _Runs()
        self._gpus: dict[int, _Runs] = {}
        self._user: dict[str, _Runs] = {}
        self._user_gpus: dict[tuple[str, int], _Runs] = {}
        self._same: dict[tuple[str, str, int], _Runs] = {}
        self._bucket: dict[tuple[str, int], _Runs] = {}
        self._all_done = _Runs()
        self._user_done: dict[str, _Runs] = {}
        self._same_done: dict[tuple[str, str | None, int], _Runs] = {}
        self._outcomes: dict[tuple[str, int], list[float]] = {}
        self._running: dict[tuple[str, int], list[float]] = {}
        self._started: dict[str, tuple[tuple[str, int], float]] = {}

    def start(self, attempt_id: str, user: str, gpus: int, at_s: float) -> None:
        """An attempt began to run; telling it again changes nothing."""
        if attempt_id in self._started:
            return
        key = (user, gpus)
        self._started[attempt_id] = (key, at_s)
        insort(self._running.setdefault(key, []), at_s)

    def end(self, row: HistoryRow, bucket: str | None) -> None:
        """An attempt ended. Rows without a usable duration only stop running."""
        self._stop(row.attempt_id)
        self.end_count += 1
        duration_s = row.duration_s
        if duration_s is None or not duration_s >= 0:
            return
        held = teaches(row.outcome, Teaching.HELD)
        if not held:
            return
        key = (row.user, row.gpus)
        outcomes = self._outcomes.setdefault(key, [])
        outcomes.append(_OUTCOME_CODES.get(row.outcome, _FAILED))
        if len(outcomes) > 10:
            del outcomes[0]
        value, at_s = math.log1p(duration_s), row.ended_at.timestamp()
        if teaches(row.outcome, self.teaching):
            self._all.tally(value)
            _group(self._gpus, row.gpus).tally(value)
            _group(self._user, row.user).add(value, at_s)
            kinds = [_group(self._user_gpus, key)]
            if bucket is not None:
                kinds.append(_group(self._same, (row.user, bucket, row.gpus)))
                _group(self._bucket, (bucket, row.gpus)).tally(value)
            for group in kinds:
                group.add(value, at_s)
                group.newest_ids.insert(0, row.job_id)
                del group.newest_ids[_IDS:]
        if row.outcome is Outcome.COMPLETED:
            self._all_done.tally(value)
            _group(self._user_done, row.user).tally(value)
            _group(self._same_done, (row.user, None, row.gpus)).add(value, at_s)
            if bucket is not None:
                _group(self._same_done, (row.user, bucket, row.gpus)).add(value, at_s)

    def features(self, user: str, bucket: str | None, gpus: int, at_s: float) -> list[float]:
        """``HISTORY_FEATURES`` of a job at a moment that is not before the last event."""
        key = (user, gpus)
        by_gpus = self._gpus.get(gpus, _NOTHING)
        by_user = self._user.get(user, _NOTHING)
        by_both = self._user_gpus.get(key, _NOTHING)
        exact = _NOTHING if bucket is None else self._same.get((user, bucket, gpus), _NOTHING)
        by_bucket = _NOTHING if bucket is None else self._bucket.get((bucket, gpus), _NOTHING)
        everything = self._all.mean if self._all.count else NAN

        gpus_mean = by_gpus.shrunk(everything)
        user_mean = by_user.shrunk(gpus_mean)
        both_mean = by_both.shrunk(user_mean)
        # A name that other users run too says more than nothing about a user who has not run it.
        prior = both_mean if by_bucket is _NOTHING or by_user.count else by_bucket.shrunk(gpus_mean)
        typical = exact.shrunk(prior)
        same = exact if exact.count else by_both
        ordered = sorted(same.recent)
        user_ordered = sorted(by_user.recent)

        done = _NOTHING if bucket is None else self._same_done.get((user, bucket, gpus), _NOTHING)
        if not done.count:
            done = self._same_done.get((user, None, gpus), _NOTHING)
        done_user = self._user_done.get(user, _NOTHING).shrunk(self._all_done.mean if self._all_done.count else NAN)

        running = self._running.get(key, [])
        count = len(running)
        outcomes = self._outcomes.get(key, [])
        return [
            typical,
            same.freshened(typical),
            user_mean if by_user.count else NAN,
            gpus_mean,
            by_bucket.shrunk(gpus_mean) if by_bucket.count else NAN,
            same.last,
            _nearest_rank(ordered, 0.5),
            _nearest_rank(ordered, 0.9),
            min(float(same.count), _COUNT_CAP),
            math.log1p(max(at_s - same.last_at_s, 0.0) / _HOUR_S) if same.count else NAN,
            by_user.last,
            _nearest_rank(user_ordered, 0.5),
            min(float(by_user.count), _COUNT_CAP),
            done.freshened(done_user) if done.count else NAN,
            _nearest_rank(sorted(done.recent), 0.5),
            done_user,
            min(float(count), _RUNNING_CAP),
            math.log1p(max(at_s - running[0], 0.0)) if count else NAN,
            math.log1p(max(at_s - running[count // 2], 0.0)) if count else NAN,
            outcomes[-1] if outcomes else NAN,
            outcomes.count(0.0) / len(outcomes) if outcomes else NAN,
        ]

    def evidence(self, user: str, bucket: str | None, gpus: int) -> tuple[tuple[str, ...], int]:
        """Newest jobs that the features of this kind rest on, and how many there are in all."""
        exact = _NOTHING if bucket is None else self._same.get((user, bucket, gpus), _NOTHING)
        same = exact if exact.count else self._user_gpus.get((user, gpus), _NOTHING)
        return tuple(dict.fromkeys(same.newest_ids)), same.count

    def user_count(self, user: str) -> int:
        """How many runs of the user have taught."""
        return self._user.get(user, _NOTHING).count

    def gpus_mean(self, gpus: int) -> tuple[float | None, int]:
        """Mean log(1+s) of all runs with this GPU count, and their number."""
        group = self._gpus.get(gpus, _NOTHING)
        return (group.mean if group.count else None), group.count

    def overall_mean(self) -> tuple[float | None, int]:
        """Mean log(1+s) of all runs, and their number."""
        return (self._all.mean if self._all.count else None), self._all.count

    def forget_running(self) -> None:
        """Forget who runs, to be told anew."""
        self._running.clear()
        self._started.clear()

    def to_json(self) -> dict[str, Any]:
        """Everything but who runs."""
        return {
            "teaching": self.teaching.value,
            "end_count": self.end_count,
            "all": self._all.to_json(),
            "all_done": self._all_done.to_json(),
            "outcomes": [[*key, values] for key, values in self._outcomes.items()],
            **{
                name: [[list(key) if isinstance(key, tuple) else [key], runs.to_json()] for key, runs in table.items()]
                for name, table in self._tables().items()
            },
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> HistoryIndex:
        """Raises ``KeyError``, ``ValueError`` or ``TypeError`` for anything that ``to_json`` did not make."""
        index = cls(Teaching(document["teaching"]))
        index.end_count = int(document["end_count"])
        index._all, index._all_done = _Runs.from_json(document["all"]), _Runs.from_json(document["all_done"])
        index._outcomes = {(user, int(gpus)): [float(v) for v in values] for user, gpus, values in document["outcomes"]}
        for name, table in index._tables().items():
            for key, runs in document[name]:
                table[tuple(key) if len(key) > 1 else key[0]] = _Runs.from_json(runs)
        return index

    def _tables(self) -> dict[str, dict[Any, _Runs]]:
        return {
            "gpus": self._gpus,
            "user": self._user,
            "user_gpus": self._user_gpus,
            "same": self._same,
            "bucket": self._bucket,
            "user_done": self._user_done,
            "same_done": self._same_done,
        }

    def _stop(self, attempt_id: str) -> None:
        found = self._started.pop(attempt_id, None)
        if found is None:
            return
        key, at_s = found
        starts = self._running[key]
        del starts[bisect_left(starts, at_s)]
        if not starts:
            del self._running[key]


def _plain(value: float) -> float | None:
    return None if value != value else value


def _group(table: dict[_Key, _Runs], key: _Key) -> _Runs:
    found = table.get(key)
    if found is None:
        found = table[key] = _Runs()
    return found


def _nearest_rank(ordered: list[float], share: float) -> float:
    """A run time that was really seen: features of trained models rest on it, so it is no interpolation."""
    return ordered[int(share * (len(ordered) - 1) + 0.5)] if ordered else NAN
