"""Duration estimates without a model: what an operator would use if there were none."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.models.duration.selecting import Teaching, teaches

LAST = "last_of_user_and_gpus"
LAST_COMPLETED = "last_completed_of_user_and_gpus"
LADDER = "ladder_mean"
COMPLETED_LADDER = "ladder_mean_of_completed"


def baseline_logs(
    rows: Sequence[HistoryRow], asked: Sequence[HistoryRow], asked_at_s: npt.NDArray[np.float64]
) -> dict[str, npt.NDArray[np.float64]]:
    """log(1 + seconds) by each rule, with what had ended when each row was asked for.

    ``last_of_user_and_gpus``: the last run of the same user and GPU count (or the last completed one), else as the
    ladder. ``ladder_mean``: the
    paper's cold start for everybody: mean of the user's runs with this GPU count, of the user's, of this GPU count's,
    of all. ``ladder_mean_of_completed``: the same from completed runs only, as the control plane estimates before a
    model is promoted. Where nothing has ended, 0.
    """
    held, done = _Means(), _Means()
    last: dict[tuple[str, int], float] = {}
    last_done: dict[tuple[str, int], float] = {}
    events = [(row.ended_at.timestamp(), 0, i) for i, row in enumerate(rows)]
    events += [(float(at_s), 1, i) for i, at_s in enumerate(asked_at_s)]
    found = {name: np.zeros(len(asked)) for name in (LAST, LAST_COMPLETED, LADDER, COMPLETED_LADDER)}
    for _, kind, i in sorted(events):
        if kind == 0:
            row = rows[i]
            if row.duration_s is None or not teaches(row.outcome, Teaching.HELD):
                continue
            held.add(row)
            last[(row.user, row.gpus)] = row.duration_s
            if teaches(row.outcome, Teaching.COMPLETED):
                done.add(row)
                last_done[(row.user, row.gpus)] = row.duration_s
        else:
            row = asked[i]
            ladder, done_ladder = held.of(row), done.of(row)
            found[LADDER][i] = math.log1p(ladder)
            found[COMPLETED_LADDER][i] = math.log1p(done_ladder)
            found[LAST][i] = math.log1p(last.get((row.user, row.gpus), ladder))
            found[LAST_COMPLETED][i] = math.log1p(last_done.get((row.user, row.gpus), done_ladder))
    return found


class _Means:
    """Mean seconds by group, from the narrowest that has any."""

    def __init__(self) -> None:
        self._sums: defaultdict[object, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def add(self, row: HistoryRow) -> None:
        for key in _keys(row):
            entry = self._sums[key]
            entry[0] += row.duration_s or 0.0
            entry[1] += 1.0

    def of(self, row: HistoryRow) -> float:
        for key in _keys(row):
            if key in self._sums:
                total, count = self._sums[key]
                return total / count
        return 0.0


def _keys(row: HistoryRow) -> tuple[object, ...]:
    return ((row.user, row.gpus), row.user, row.gpus, None)
