"""Every rule of the binder, on and off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.placement import (
    RULES,
    Moment,
    Newcomer,
    PairingRules,
    Resident,
    SharingMode,
    first_broken_rule,
    may_be_joined,
    pair_reasons,
)

RULESET = PairingRules()
JOB = Newcomer("new", 1, "ann", 1, 8_000.0, 600.0, is_distributed=False, never_pack=False)
PARTNER = Resident(
    "old", 1, "bob", 1, 8_000.0, 1_000.0, 0.0, 1.0, is_distributed=False, never_pack=False, is_unstable=False,
    jobs_on_gpu=1, gpu_memory_mib=24_000.0,
)  # fmt: skip
NOW = Moment.of(0.0, SharingMode.DEFAULT, RULESET)

BREAKERS = {
    "sharing_score": (JOB._replace(sharing_score=2), PARTNER),
    "memory_safe": (JOB._replace(memory_mib=15_500.0), PARTNER),
    "same_gpus": (JOB._replace(gpus=2), PARTNER),
    "at_most_two": (JOB, PARTNER._replace(jobs_on_gpu=2)),
    "split_unstable": (JOB, PARTNER._replace(is_unstable=True)),
    "no_distributed": (JOB._replace(is_distributed=True), PARTNER),
    "remaining_time": (JOB._replace(predicted_s=2_001.0), PARTNER),
    "avoid_nodes": (JOB._replace(avoid_nodes=frozenset({"n1"})), PARTNER._replace(node_names=("n1",))),
    "same_user": (JOB, PARTNER),
}


def test_the_example_pair_is_affine() -> None:
    assert first_broken_rule(JOB, PARTNER, RULESET, NOW) is None
    reasons = {reason.rule: reason.facts for reason in pair_reasons(JOB, PARTNER, RULESET, NOW)}
    assert reasons["affine_pair"]["partner_job_id"] == "old"
    assert reasons["sharing_score"] == {"sharing_score": 1, "partner_sharing_score": 1, "capacity": 2}
    assert reasons["remaining_time"]["partner_remaining_s"] == 1_000.0


@pytest.mark.parametrize("name", sorted(RULES))
def test_each_rule_forbids_and_can_be_switched_off(name: str) -> None:
    job, partner = BREAKERS[name]
    strict = replace(RULESET, same_user=name == "same_user")
    assert first_broken_rule(job, partner, strict, NOW) == name
    assert first_broken_rule(job, partner, replace(strict, **{name: False}), NOW) is None


@pytest.mark.parametrize(
    ("job", "partner", "rule"),
    [
        (JOB._replace(sharing_score=None), PARTNER, "sharing_score"),
        (JOB, PARTNER._replace(scores=None), "sharing_score"),
        (JOB._replace(memory_mib=None), PARTNER, "memory_safe"),
        (JOB, PARTNER._replace(memory_mib=None), "memory_safe"),
        (JOB, PARTNER._replace(gpu_memory_mib=None), "memory_safe"),
        (JOB._replace(predicted_s=None), PARTNER, "remaining_time"),
        (JOB, PARTNER._replace(left_s=None), "remaining_time"),
        (JOB._replace(never_pack=True), PARTNER, "split_unstable"),
    ],
)
def test_unknown_forbids_packing(job: Newcomer, partner: Resident, rule: str) -> None:
    assert first_broken_rule(job, partner, RULESET, NOW) == rule


@pytest.mark.parametrize(
    ("scores", "mode", "allowed"),
    [
        ((0, 2), SharingMode.DEFAULT, True),
        ((1, 1), SharingMode.DEFAULT, True),
        ((2, 1), SharingMode.DEFAULT, False),
        ((2, 2), SharingMode.DEFAULT, False),
        ((1, 1), SharingMode.APATHETIC, False),
        ((0, 1), SharingMode.APATHETIC, True),
        ((0, 0), SharingMode.OFF, False),
    ],
)
def test_sharing_capacity_by_mode(scores: tuple[int, int], mode: SharingMode, allowed: bool) -> None:
    job, partner = JOB._replace(sharing_score=scores[0]), PARTNER._replace(scores=scores[1])
    broken = first_broken_rule(job, partner, RULESET, Moment.of(0.0, mode, RULESET))
    assert (broken is None) == allowed


def test_memory_needs_the_margin() -> None:
    rules = replace(RULESET, memory_margin_frac=0.1)
    assert first_broken_rule(JOB._replace(memory_mib=13_599.0), PARTNER, rules, NOW) is None
    assert first_broken_rule(JOB._replace(memory_mib=13_600.0), PARTNER, rules, NOW) == "memory_safe"


def test_remaining_time_passes_with_the_clock_and_with_the_speed() -> None:
    at = Moment.of(800.0, SharingMode.DEFAULT, RULESET)
    assert PARTNER.remaining_s(800.0) == 200.0
    assert first_broken_rule(JOB._replace(predicted_s=400.0), PARTNER, RULESET, at) is None
    assert first_broken_rule(JOB._replace(predicted_s=401.0), PARTNER, RULESET, at) == "remaining_time"
    assert PARTNER._replace(speed_frac=0.5).remaining_s(800.0) == 600.0
    assert PARTNER.remaining_s(5_000.0) == 0.0
    nearly_done = Moment.of(950.0, SharingMode.DEFAULT, RULESET)
    assert first_broken_rule(JOB._replace(predicted_s=1.0), PARTNER, RULESET, nearly_done) == "remaining_time"


def test_a_partner_that_nobody_may_join_is_known_without_a_newcomer() -> None:
    assert may_be_joined(PARTNER, RULESET)
    assert not may_be_joined(PARTNER._replace(jobs_on_gpu=2), RULESET)
    assert may_be_joined(PARTNER._replace(jobs_on_gpu=2), replace(RULESET, at_most_two=False))
    assert not may_be_joined(PARTNER._replace(is_unstable=True), RULESET)
    assert not may_be_joined(PARTNER._replace(is_distributed=True), RULESET)


@pytest.mark.parametrize("wrong", [{"memory_margin_frac": 1.0}, {"memory_margin_frac": -0.1}, {"capacity": -1}])
def test_impossible_numbers_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        PairingRules(**wrong)  # type: ignore[arg-type]
