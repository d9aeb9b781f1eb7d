"""Build views for policy tests from a few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.decision import Decision, Hold, Pack, Start, Stop
from lucid_pipelines.domain.job import Estimate, Profile
from lucid_pipelines.domain.trace import ClusterSpec, NodeGroup
from lucid_pipelines.domain.view import ClusterView, Forecast, QueuedJob, RunningJob
from lucid_pipelines.placement import ClusterState

BUSY = Forecast([0.0, 600.0], [50.0, 50.0], [50.0, 50.0])
"""Many submissions ahead (while the time is below 600): full sharing."""


def spec(nodes: int = 1, gpus_per_node: int = 8, memory_mib: float | None = 24_000.0, **more: int) -> ClusterSpec:
    """Virtual cluster ``a``, and others by name with their number of nodes."""
    sizes = {"a": nodes, **more}
    return ClusterSpec({vc: (NodeGroup(n, gpus_per_node, "X", memory_mib),) for vc, n in sizes.items()})


_sequence = iter(range(10**9))


def waiting(
    job_id: str,
    gpus: int = 1,
    predicted_s: float | None = None,
    score: int | None = None,
    memory_mib: float | None = None,
    **more: object,
) -> QueuedJob:
    given: dict[str, object] = {"vc": "a", "submitted_s": 0.0, "sequence": next(_sequence), **more}
    return QueuedJob(
        job_id=job_id,
        gpus=gpus,
        estimate=None if predicted_s is None else Estimate(predicted_s, "test"),
        profile=None if memory_mib is None else Profile(memory_peak_mib=memory_mib),
        sharing_score=score,
        **given,  # type: ignore[arg-type]
    )


def runs(job: QueuedJob, on: dict[str, list[int]], started_s: float = 0.0, **more: object) -> RunningJob:
    return RunningJob(job, Placement.of(on), (), started_s, started_s, **more)  # type: ignore[arg-type]


def view_of(
    cluster: ClusterSpec,
    queued: Iterable[QueuedJob] = (),
    running: Iterable[RunningJob] = (),
    now_s: float = 0.0,
    forecast: Forecast | None = None,
    *,
    explain: bool = True,
) -> ClusterView:
    return ClusterState.of(cluster.nodes(), queued, running).view(now_s, forecast=forecast, explain=explain)


def started(decisions: Sequence[Decision]) -> list[str]:
    return [d.job_id for d in decisions if isinstance(d, Start)]


def packed(decisions: Sequence[Decision]) -> dict[str, str]:
    return {d.job_id: d.partner_job_id for d in decisions if isinstance(d, Pack)}


def stopped(decisions: Sequence[Decision]) -> list[str]:
    return [d.job_id for d in decisions if isinstance(d, Stop)]


def held(decisions: Sequence[Decision]) -> dict[str, Hold]:
    return {d.job_id: d for d in decisions if isinstance(d, Hold)}
