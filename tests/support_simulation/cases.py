"""Small clusters and traces for tests, and hypothesis strategies for them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from lucid_pipelines.domain.trace import ClusterSpec, NodeGroup, TraceJob, TraceState
from lucid_pipelines.simulation.interference import FittedPairs
from lucid_pipelines.simulation.options import ReplayOptions
from lucid_pipelines.simulation.scoring import FittedScorer


def trace_job(job_id: str, submit_s: float, duration_s: float, gpus: float = 1, **more: object) -> TraceJob:
    """A job of virtual cluster ``a`` unless told otherwise."""
    given: dict[str, object] = {"user": "u", "vc": "a", "name": "train", **more}
    return TraceJob(job_id=job_id, submit_s=submit_s, duration_s=duration_s, gpus=gpus, **given)  # type: ignore[arg-type]


def one_vc(nodes: int = 1, gpus_per_node: int = 8, memory_mib: float | None = 24_000.0) -> ClusterSpec:
    return ClusterSpec({"a": (NodeGroup(nodes, gpus_per_node, "X", memory_mib),)})


def packing_options(**more: object) -> ReplayOptions:
    """Options with which packing policies work without any table."""
    return ReplayOptions(pair_speeds=FittedPairs(), scorer=FittedScorer(), **more)  # type: ignore[arg-type]


CLUSTERS = st.sampled_from(
    [
        ClusterSpec({"a": (NodeGroup(1, 4, "X", 24_000.0),), "b": (NodeGroup(3, 8, "X", 24_000.0),)}),
        ClusterSpec({"a": (NodeGroup(2, 8, "X", 24_000.0),), "b": (NodeGroup(2, 2, "Y", 16_000.0),)}),
        ClusterSpec({"a": (NodeGroup(1, 8, "X", 24_000.0), NodeGroup(2, 4, "Y", 16_000.0))}),
        ClusterSpec({"a": (NodeGroup(2, 4, "X", 24_000.0), NodeGroup(1, 8, "X", 24_000.0)), "b": (NodeGroup(1, 1),)}),
    ]
)


@st.composite
def traces(draw: st.DrawFn, max_jobs: int = 40) -> list[TraceJob]:
    """Jobs of virtual clusters a and b, many at equal times, some larger than any node, some never started."""
    count = draw(st.integers(1, max_jobs))
    jobs: list[TraceJob] = []
    for i in range(count):
        submit_s = float(draw(st.integers(0, 60)) * draw(st.sampled_from([0, 1, 30])))
        duration_s = draw(st.one_of(st.integers(0, 400).map(float), st.floats(0.01, 300.0)))
        gave_up = draw(st.integers(0, 9)) == 0
        jobs.append(
            TraceJob(
                job_id=f"j{i}",
                user=draw(st.sampled_from(["u", "v"])),
                vc=draw(st.sampled_from(["a", "b"])),
                name=draw(st.sampled_from(["train", "eval_1", "eval_2"])),
                gpus=draw(st.sampled_from([1, 1, 1, 2, 4, 8, 12, 16])),
                submit_s=submit_s,
                duration_s=0.0 if gave_up else duration_s,
                state=TraceState.CANCELLED if gave_up else draw(st.sampled_from(list(TraceState))),
                end_s=submit_s + 50.0 if gave_up else None,
                gpu_util_pct=draw(st.sampled_from([10.0, 40.0, 70.0, 99.0])),
                memory_util_pct=20.0,
                memory_peak_mib=draw(st.sampled_from([2_000.0, 9_000.5, 15_000.0, None])),
            )
        )
    return jobs


def run_s(jobs: Sequence[TraceJob]) -> dict[str, float]:
    return {job.job_id: job.duration_s for job in jobs}
