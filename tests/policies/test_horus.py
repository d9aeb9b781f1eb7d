"""Horus packs where the predicted load is least."""

from __future__ import annotations

import pytest

from lucid_pipelines import policies
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.view import QueuedJob, RunningJob
from tests.support_policies.views import held, packed, runs, spec, started, view_of, waiting


def job(job_id: str, gpus: int = 1, util_pct: float | None = 40.0, memory_mib: float | None = 2_000.0) -> QueuedJob:
    return waiting(job_id, gpus)._replace(profile=Profile(util_pct, 10.0, memory_mib))


def node_of(*utils: float) -> list[RunningJob]:
    return [runs(job(f"r{i}", 1, util), {"a/0": [i]}) for i, util in enumerate(utils)]


FULL = (60.0, 30.0, 50.0, 60.0, 60.0, 60.0, 60.0, 60.0)


def test_free_gpus_come_first_then_the_least_loaded() -> None:
    assert started(policies.get("horus").decide(view_of(spec(), [job("x")], node_of(10.0)))) == ["x"]
    queue = [job("x"), job("y"), job("z")]
    assert packed(policies.get("horus").decide(view_of(spec(), queue, node_of(*FULL)))) == {
        "x": "r1", "y": "r2", "z": "r0",
    }  # fmt: skip


@pytest.mark.parametrize(
    "shy", [job("x", util_pct=80.0), job("x", memory_mib=21_000.0), job("x", util_pct=None), job("x", memory_mib=None),
            job("x")._replace(never_pack=True), waiting("x")]
)  # fmt: skip
def test_what_does_not_fit_or_is_not_known_waits_and_blocks(shy: QueuedJob) -> None:
    decisions = policies.get("horus").decide(view_of(spec(), [shy, job("next")], node_of(*FULL)))
    assert packed(decisions) == {}
    assert held(decisions)["next"].blocked_by == "x"
    passed = policies.get("horus", backfill=True).decide(view_of(spec(), [shy, job("next")], node_of(*FULL)))
    assert packed(passed) == {"next": "r1"}


def test_a_shared_gpu_is_full_unless_more_are_allowed() -> None:
    pair = [
        runs(job("r0", 8, 30.0), {"a/0": list(range(8))}, partners=("r1",)),
        runs(job("r1", 8, 30.0), {"a/0": list(range(8))}, partners=("r0",)),
    ]
    view = view_of(spec(), [job("x", 8, 30.0)], pair)
    assert packed(policies.get("horus").decide(view)) == {}
    assert packed(policies.get("horus", max_jobs_per_gpu=3).decide(view)) == {"x": "r0"}
    with pytest.raises(InputError):
        policies.get("horus", max_jobs_per_gpu=0)


def test_weights_decide_between_utilisation_and_memory() -> None:
    running = [
        runs(job("busy", 4, 50.0, 1_000.0), {"a/0": [0, 1, 2, 3]}),
        runs(job("big", 4, 20.0, 12_000.0), {"a/0": [4, 5, 6, 7]}),
    ]
    view = view_of(spec(), [job("x", 4)], running)
    assert packed(policies.get("horus", memory_weight=0.0).decide(view)) == {"x": "big"}
    assert packed(policies.get("horus", util_weight=0.1, memory_weight=1.0).decide(view)) == {"x": "busy"}
