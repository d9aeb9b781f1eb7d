"""Pollux: co-adaptive allocation by goodput (Qiao et al., OSDI'21, section 4.2; PEERS.md 2.8 for constants).

Every minute the GPUs of a virtual cluster are shared out so that the harmonic mean of all jobs' speed-ups is largest
(the paper's fitness with p = −1); a job's speed-up is its goodput over that with a fair share of the GPUs. A change
of a running job counts with the paper's restart factor.

Two things differ from the published scheduler. Its genetic search is replaced by an exact greedy on the convex hull
of each job's curve, which gives equal answers for equal inputs. And goodput comes from the job's measured curve
instead of a model that is fitted while the job runs, which flatters it. GPU types are not told apart, as published.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from lucid_pipelines.domain.scaling import ScalingCurve
from lucid_pipelines.domain.view import VcView
from lucid_pipelines.policies.elastic import Claimant, ElasticPolicy, Share

Point = tuple[float, Share]
"""Cost (1 / speed-up) with a share."""
_NO_SPEED = 1e-9
"""Taken for a speed of 0, so that there is always something to divide by."""


class Pollux(ElasticPolicy):
    """The largest harmonic mean of speed-ups."""

    sees_types = False

    def __init__(
        self,
        name: str = "pollux",
        *,
        curves: Mapping[str, ScalingCurve] | None = None,
        interval_s: float = 60.0,
        restart_s: float = 30.0,
    ) -> None:
        super().__init__(name, curves, interval_s, restart_s)

    def choose(self, vc: VcView, claimants: Sequence[Claimant]) -> Mapping[str, Share]:
        left = vc.free.layout.gpus
        fair = left / max(len(claimants), 1)
        hulls = {claimant.job.job_id: lower_hull(self._points(claimant, fair)) for claimant in claimants}
        chosen: dict[str, Share] = {}
        steps: list[tuple[float, int, str, int]] = []
        for order, (job_id, hull) in enumerate(hulls.items()):
            if hull and hull[0][1].gpus <= left:
                left -= hull[0][1].gpus
                chosen[job_id] = hull[0][1]
                _push_step(steps, hull, 0, order, job_id)
        while steps and left > 0:
            _, order, job_id, index = heapq.heappop(steps)
            hull = hulls[job_id]
            more = hull[index + 1][1].gpus - hull[index][1].gpus
            if more <= left:
                left -= more
                chosen[job_id] = hull[index + 1][1]
                _push_step(steps, hull, index + 1, order, job_id)
        return chosen

    def _points(self, claimant: Claimant, fair_gpus: float) -> list[Point]:
        """One point per number of GPUs; of several types the job's own, else the first."""
        by_size: dict[int, Share] = {}
        now = claimant.now
        shares = claimant.shares if now is None else (now, *claimant.shares)
        for share in shares:
            by_size.setdefault(share.gpus, share)
        sizes = sorted(by_size)
        base = max(by_size[max((size for size in sizes if size <= fair_gpus), default=sizes[0])].speed, _NO_SPEED)
        return [(base / max(claimant.worth(by_size[size]), _NO_SPEED * base), by_size[size]) for size in sizes]


def lower_hull(points: Sequence[Point]) -> list[Point]:
    """The points of the lower convex hull from the first on, as long as more GPUs cost less."""
    hull: list[Point] = []
    for point in points:
        if hull and point[0] >= hull[-1][0]:
            continue
        while len(hull) > 1 and _slope(hull[-2], point) <= _slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(point)
    return hull


def _slope(first: Point, second: Point) -> float:
    return (second[0] - first[0]) / (second[1].gpus - first[1].gpus)


def _push_step(
    steps: list[tuple[float, int, str, int]], hull: list[Point], index: int, order: int, job_id: str
) -> None:
    if index + 1 < len(hull):
        heapq.heappush(steps, (_slope(hull[index], hull[index + 1]), order, job_id, index))
