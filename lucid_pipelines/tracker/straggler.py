"""Same code, same GPU type, but slower than its peers: a hint about a node, advice only (R-16, R-20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class PeerPace:
    """The pace of one job on one node.

    Attributes:
        fingerprint: of the workload: only jobs with an equal one are compared.
        is_packed: shares its GPUs; such jobs are neither judged nor used as peers.
    """

    job_id: str
    node: str
    gpu_type: str
    fingerprint: str
    gpus: int
    step_time_s: float | None
    is_packed: bool = False


@dataclass(frozen=True, slots=True)
class StragglerHint:
    """A job that is slower than its peers.

    Attributes:
        ratio_frac: its step time over the peers' median.
        peer_job_ids: whom it was compared with.
    """

    job_id: str
    node: str
    ratio_frac: float
    peer_median_s: float
    peer_job_ids: tuple[str, ...]
    reason: str


def find_stragglers(
    paces: Sequence[PeerPace], *, min_ratio: float = 1.25, min_peers: int = 3, spreads: float = 4.0
) -> list[StragglerHint]:
    """Jobs whose step time stands out from equal jobs on equal GPUs of other nodes, slowest first.

    Args:
        paces: running (or recent) jobs.
        min_ratio: how much slower than the median.
        min_peers: how many peers on other nodes there must be.
        spreads: and how many median absolute deviations away.
    """
    kinds: dict[tuple[str, str, int], list[PeerPace]] = {}
    for pace in paces:
        if pace.step_time_s is not None and pace.step_time_s > 0 and not pace.is_packed:
            kinds.setdefault((pace.fingerprint, pace.gpu_type, pace.gpus), []).append(pace)
    hints: list[StragglerHint] = []
    for (_, gpu_type, _), same in kinds.items():
        for pace in same:
            peers = [p for p in same if p.node != pace.node]
            if len(peers) < min_peers:
                continue
            times = [p.step_time_s for p in peers if p.step_time_s is not None]
            middle = median(times)
            spread = median([abs(t - middle) for t in times])
            own = pace.step_time_s or 0.0
            if own / middle >= min_ratio and own - middle >= spreads * spread:
                ids = tuple(p.job_id for p in peers)
                reason = (
                    f"{own:.4g} s a step on {pace.node}, {middle:.4g} s on {len(peers)} other {gpu_type} placements"
                )
                hints.append(StragglerHint(pace.job_id, pace.node, own / middle, middle, ids, reason))
    return sorted(hints, key=lambda hint: -hint.ratio_frac)
