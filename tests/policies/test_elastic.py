"""Policies that choose numbers of GPUs: what they choose against an exhaustive search, and what replays make of it."""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines import policies
from lucid_pipelines.domain.decision import HoldCause, Resize, Start, Stop
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec, NodeGroup
from lucid_pipelines.policies.elastic import Claimant, Share
from lucid_pipelines.policies.pollux import Pollux, lower_hull
from lucid_pipelines.policies.sia import Sia
from lucid_pipelines.simulation import ReplayOptions, prepare, replay, summarise
from lucid_pipelines.simulation.record import AttemptEnd
from lucid_pipelines.simulation.sia_scaling import SiaScaling
from lucid_pipelines.simulation.summary import used_gpu_s
from tests.support_policies.views import held, runs, spec, started, view_of, waiting
from tests.support_simulation.cases import one_vc, trace_job


@dataclass(frozen=True)
class Curve:
    """Speed = GPUs to a power, times a factor by GPU type."""

    power: float = 0.8
    by_type: tuple[tuple[str, float], ...] = ()
    max_gpus: int = 64
    rescale_s: float = 30.0

    def speed(self, gpus: int, nodes: int, gpu_type: str | None) -> float:
        return gpus**self.power * dict(self.by_type).get(gpu_type or "", 1.0)


MIXED = ClusterSpec({"a": (NodeGroup(1, 4, "slow"), NodeGroup(1, 4, "fast"))})


def claimant(job_id: str, shares: list[Share], order: int) -> Claimant:
    return Claimant(waiting(job_id, 1, submitted_s=float(order)), None, Curve(), tuple(shares), None, 1.0)


speeds = st.lists(st.floats(0.2, 3.0), min_size=3, max_size=3).map(lambda more: np.cumsum([1.0, *more]).tolist())


@settings(max_examples=10)
@given(st.lists(st.tuples(speeds, speeds), min_size=1, max_size=4))
def test_sia_finds_the_optimum_of_its_program(jobs: list[tuple[list[float], list[float]]]) -> None:
    claimants = [
        claimant(f"j{i}", [Share(g, t, s) for t, row in zip(("slow", "fast"), rows, strict=True)
                           for g, s in zip((1, 2, 4), row, strict=False)], i)
        for i, rows in enumerate(jobs)
    ]  # fmt: skip
    vc = view_of(MIXED).vcs["a"]

    def cost(choice: Mapping[str, Share] | tuple[Share | None, ...]) -> float:
        picked = [choice.get(c.job.job_id) for c in claimants] if isinstance(choice, Mapping) else list(choice)
        for gpu_type in ("slow", "fast"):
            if sum(s.gpus for s in picked if s is not None and s.gpu_type == gpu_type) > 4:
                return float("inf")
        total = 0.0
        for c, share in zip(claimants, picked, strict=True):
            slowest = min(s.speed for s in c.shares)
            total += 1.1 if share is None else (share.speed / slowest) ** -0.5
        return total

    found = Sia().choose(vc, claimants)
    best = min(cost(choice) for choice in itertools.product(*[(None, *c.shares) for c in claimants]))
    assert cost(found) == pytest.approx(best, rel=2e-4, abs=1e-5)


@settings(max_examples=40)
@given(st.lists(st.floats(0.3, 1.0), min_size=1, max_size=4))
def test_pollux_has_the_best_harmonic_mean_for_concave_curves(powers: list[float]) -> None:
    claimants = [claimant(f"j{i}", [Share(g, "X", g**p) for g in range(1, 9)], i) for i, p in enumerate(powers)]
    vc = view_of(spec(1)).vcs["a"]
    fair = 8 // len(powers)

    def total(gpus: tuple[int, ...]) -> float:
        return sum((fair / g) ** p for g, p in zip(gpus, powers, strict=True))

    found = Pollux().choose(vc, claimants)
    mine = tuple(found[c.job.job_id].gpus for c in claimants)
    assert sum(mine) <= 8
    choices = (c for c in itertools.product(range(1, 9), repeat=len(powers)) if sum(c) <= 8)
    assert total(mine) == pytest.approx(min(map(total, choices)), rel=1e-6)


def test_the_hull_leaves_out_what_is_never_best() -> None:
    points = [(c, Share(g, None, 1.0)) for g, c in ((1, 1.0), (2, 0.9), (3, 0.5), (4, 0.6), (8, 0.4))]
    assert [share.gpus for _, share in lower_hull(points)] == [1, 3, 8]


@pytest.mark.parametrize("name", ["pollux", "sia"])
def test_a_job_starts_with_one_gpu_and_doubles_at_most(name: str) -> None:
    policy = policies.get(name, curves={"x": Curve()})
    (start,) = policy.decide(view_of(spec(1), [waiting("x", 4)], explain=False))
    assert isinstance(start, Start)
    assert start.placement.gpu_count == 1
    running = [runs(waiting("x", 4), {"a/0": [0, 1]})]
    (resize,) = policy.decide(view_of(spec(1), [], running, now_s=36_000.0, explain=False))
    assert isinstance(resize, Resize)
    assert resize.placement.gpu_count == 4
    assert policy.decide(view_of(spec(1), [], running, now_s=36_001.0, explain=False)) == []


@pytest.mark.parametrize("name", ["pollux", "sia"])
def test_a_job_without_a_curve_gets_what_it_asks_for_and_is_counted(name: str) -> None:
    policy = policies.get(name, curves={"x": Curve()})
    queue = [waiting("rigid", 4, submitted_s=0.0), waiting("huge", 9), waiting("nowhere", 1, vc="zz")]
    decisions = policy.decide(view_of(spec(1), queue))
    assert started(decisions) == ["rigid"]
    causes = {job_id: hold.cause for job_id, hold in held(decisions).items()}
    assert causes == {"huge": HoldCause.TOO_LARGE, "nowhere": HoldCause.UNKNOWN_VC}
    assert policy.fallbacks["no_scaling_curve"] == 2
    between = held(policy.decide(view_of(spec(1), queue, now_s=61.0)))
    assert between["rigid"].cause is HoldCause.NEXT_ROUND


def test_sia_gives_each_job_the_type_that_suits_it() -> None:
    likes = Curve(by_type=(("fast", 4.0),))
    policy = policies.get("sia", curves={"likes": likes, "plain": Curve()})
    cluster = ClusterSpec({"a": (NodeGroup(1, 1, "slow"), NodeGroup(1, 1, "fast"))})
    decisions = policy.decide(view_of(cluster, [waiting("plain"), waiting("likes")]))
    nodes = {d.job_id: d.placement.node_names for d in decisions if isinstance(d, Start)}
    assert nodes == {"plain": ("a/0",), "likes": ("a/1",)}


def test_who_arrives_shrinks_the_others_and_no_gpu_is_given_twice() -> None:
    policy = policies.get("pollux", curves={f"j{i}": Curve() for i in range(9)})
    running = [runs(waiting("j0", 1, submitted_s=-9e4), {"a/0": list(range(8))})]
    decisions = policy.decide(view_of(spec(1), [waiting(f"j{i}", submitted_s=0.0) for i in range(1, 5)], running))
    assert not [d for d in decisions if isinstance(d, Stop)]
    placements = [d.placement for d in decisions if isinstance(d, Start | Resize)]
    gpus = [gpu for placement in placements for share in placement.shares for gpu in share.gpu_indices]
    assert len(gpus) == len(set(gpus)) <= 8
    assert len(placements) == 5


@pytest.mark.parametrize("name", ["pollux", "sia"])
def test_a_replay_runs_jobs_at_the_speed_of_their_gpus(name: str) -> None:
    jobs = [trace_job("x", 0, 1_000.0, 1)]
    options = ReplayOptions(curves={"x": Curve(power=1.0, rescale_s=10.0)}, end_lag_s=0.0)
    policy = policies.get(name, curves=options.curves)
    result = replay(prepare(jobs, one_vc(1, 4)), policy, options)
    # One GPU for a round, two for the next, then four; each change costs 10 s: 50 + 100 + 4 (t - 130) = 1,000.
    assert result.attempt_gpus.tolist() == [1, 2, 4]
    assert result.attempt_end.tolist() == [AttemptEnd.RESIZED, AttemptEnd.RESIZED, AttemptEnd.DONE]
    assert result.end_s[0] == pytest.approx(130 + 850 / 4)
    assert result.lost_gpu_s == {"rescaling": 10.0 * (1 + 2 + 4)}
    assert used_gpu_s(result) == pytest.approx(60 + 120 + 4 * (result.end_s[0] - 120))


@pytest.mark.parametrize("name", ["pollux", "sia"])
def test_gpu_time_is_conserved_when_jobs_are_resized(name: str) -> None:
    rng = np.random.default_rng(4)
    jobs = [trace_job(f"j{i}", float(s), float(d), 1) for i, (s, d) in
            enumerate(zip(rng.uniform(0, 1_000, 12), rng.uniform(100, 3_000, 12), strict=True))]  # fmt: skip
    curves = {job.job_id: Curve(power=float(rng.uniform(0.4, 1.0))) for job in jobs[:9]}
    result = replay(prepare(jobs, one_vc(2, 4)), policies.get(name, curves=curves), ReplayOptions(curves=curves))
    assert not np.isnan(result.end_s).any()
    held = (result.attempt_end_s - result.attempt_start_s) * result.attempt_gpus
    assert used_gpu_s(result) == pytest.approx(held.sum())
    assert result.used_gpus.max() <= 8
    assert np.allclose(result.queue_s + result.held_s, result.jct_s)
    assert summarise(result).fallbacks["no_scaling_curve"] == 3


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InputError, match="above 0"):
        policies.get("pollux", interval_s=0)
    with pytest.raises(InputError, match="below 0"):
        policies.get("sia", power=0.5)


def archive(path: Path, tables: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as found:
        for name, text in tables.items():
            member = path.parent / "member"
            member.write_text(text)
            found.add(member, name)
    return path


VALIDATION = "progress,iteration,metric,grad_sqr,grad_var\n" + "".join(
    f"{100.0 * (i + 1)},{100 * (i + 1)},0,1.0,3.0\n" for i in range(10)
)


def test_the_time_of_a_training_by_hand(tmp_path: Path) -> None:
    steps = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n1,1,256,0.5,0\n1,2,256,0.5,0.1\n1,4,256,1,0.2\n"
    path = archive(tmp_path / "a.tar.gz", {"ncf/scalability-aws.csv": steps, "ncf/validation-256.csv": VALIDATION,
                                           "ncf/validation-512.csv": VALIDATION})  # fmt: skip
    (found,) = SiaScaling.read(path).applications.values()
    # One GPU: 256 samples a step without accumulation is the best (512 would take two steps for a gain of 1.6).
    assert found.training_s(1, 1, "aws") == pytest.approx(1_000 * 0.5)
    # Two GPUs at 512: gain = (3 + 1) / (3 / 2 + 1) = 1.6.
    assert found.training_s(2, 1, "aws") == pytest.approx(1_000 * 0.5 / 1.6)
    # Three are interpolated: at least 768 samples a step, more than was validated.
    assert found.training_s(3, 1, "aws") == float("inf")
    assert found.training_s(1, 1, "rtx") == float("inf")
    curve = SiaScaling.read(path).curves([trace_job("x", 0, 1_000.0, model="ncf"), trace_job("y", 0, 1.0)])["x"]
    assert curve.speed(1, 1, None) == pytest.approx(2.0)
    assert curve.speed(8, 1, "aws") == 0.0


@pytest.mark.parametrize(
    "tables", [{}, {"ncf/scalability-aws.csv": "a,b\n1,2\n"}, {"ncf/validation-256.csv": VALIDATION}]
)
def test_other_archives_are_refused(tmp_path: Path, tables: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"application profiles|archive holds no"):
        SiaScaling.read(archive(tmp_path / "a.tar.gz", tables))


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar.gz", {"ncf/validation-256.csv": VALIDATION})
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InputError, match="cannot be read"):
        SiaScaling.read(path)


@pytest.mark.slow
@pytest.mark.shared
def test_published_curves_are_plausible(shared_data: Path) -> None:
    scaling = SiaScaling.read(shared_data / "sia" / "app_traces.tar.gz")
    assert set(scaling.applications) == {"bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"}
    for application in scaling.applications.values():
        one, four = application.training_s(1, 1, "aws"), application.training_s(4, 1, "aws")
        assert 1.0 < one / four <= 4.5, application.name
        assert application.training_s(1, 1, "dgx-ext") < one
