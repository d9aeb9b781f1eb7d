"""The decision rules, one by one, and what no state may ever lead to."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.states import Mode
from lucid_pipelines.failures.evidence import Finding, Suspect
from lucid_pipelines.failures.facts import CounterReading, FailureFacts, SchedulerEnd
from lucid_pipelines.failures.plan import CheckSummary
from lucid_pipelines.failures.policy import (
    Decision,
    IsolationVerb,
    RestartVerb,
    Standing,
    decide,
)
from lucid_pipelines.failures.recovery import (
    IsolationRecord,
    OpenFailure,
    RecoverySettings,
    RecoveryState,
    RestartRecord,
    backoff_s,
    isolation_quota,
    newest_complete,
    step_in_name,
)
from lucid_pipelines.failures.vocabulary import Category, Component
from lucid_pipelines.ports import CheckResult
from tests.support_failures.situations import LOGS, NOW, attempt, checkpoint, exit_record, facts, finding, job

LIVE = RecoverySettings(restart_mode=Mode.LIVE, isolate_mode=Mode.LIVE)
CLUSTER: dict[str, Any] = {
    "node_gpus": {f"n{i}": 8 for i in range(1, 21)},
    "node_vc": {f"n{i}": "vision" for i in range(1, 21)},
}
STATE = RecoveryState(NOW, **CLUSTER)
FAILED_CHECK = CheckSummary(
    (CheckResult("n2", "dcgmi-diag-2", False, "GPU 0: uncorrectable", NOW),), (), (), (Suspect("n2", 0),)
)
PASSED_CHECK = CheckSummary((), (CheckResult("n2", "dcgmi-diag-2", True, "", NOW),), (), ())
KNOWN = facts(checkpoints=[checkpoint()])


def restarted(
    signature: str,
    *,
    age: timedelta = timedelta(minutes=30),
    job_id: str = "job-1",
    component: Component | None = Component.GPU,
) -> RestartRecord:
    return RestartRecord(job_id, component, Category.INFRASTRUCTURE, signature, NOW - age)


def decided(
    kind: str,
    folder: Path,
    known: FailureFacts = KNOWN,
    state: RecoveryState = STATE,
    settings: RecoverySettings = LIVE,
    checks: CheckSummary | None = None,
    rank: int | None = 2,
) -> Decision:
    return decide(finding(kind, folder, known, rank=rank), known, state, settings, checks)


# ---------------------------------------------------------------- restart


def test_infrastructure_is_restarted_elsewhere_from_its_newest_complete_checkpoint(tmp_path: Path) -> None:
    known = facts(
        checkpoints=[
            checkpoint(800),
            checkpoint(900, age=timedelta(minutes=9)),
            checkpoint(950, is_complete=False, age=timedelta(0)),
        ]
    )
    restart = decided("ecc", tmp_path, known).restart
    assert restart.is_to_be_done and restart.rule.startswith("R14")
    assert restart.checkpoint is not None and restart.checkpoint.step == 900
    assert restart.avoid == (Suspect("n2", 0),)
    assert restart.not_before == NOW + timedelta(seconds=30)


@pytest.mark.parametrize(
    ("kind", "known", "state", "settings", "verb", "rule"),
    [
        ("ecc", facts(observed=False), STATE, LIVE, RestartVerb.HOLD, "R1"),
        ("ecc", facts(end=SchedulerEnd.CANCELLED), STATE, LIVE, RestartVerb.REPORT, "R2"),
        ("ecc", facts(exit_=exit_record(0)), STATE, LIVE, RestartVerb.REPORT, "R2"),
        ("ecc", KNOWN, STATE, replace(LIVE, restart_mode=Mode.OFF), RestartVerb.REPORT, "R3"),
        ("ecc", facts(the_job=job(never_restart=True)), STATE, LIVE, RestartVerb.REPORT, "R4"),
        ("nothing", KNOWN, STATE, LIVE, RestartVerb.ASK, "R5"),
        ("user", KNOWN, STATE, LIVE, RestartVerb.REPORT, "R6"),
        ("framework", KNOWN, STATE, LIVE, RestartVerb.REPORT, "R7"),
        ("disk", KNOWN, STATE, LIVE, RestartVerb.REPORT, "R7"),
        ("ecc", facts(), STATE, LIVE, RestartVerb.ASK, "R12"),
        ("timeout", KNOWN, STATE, replace(LIVE, min_confidence=0.9), RestartVerb.RESTART, "R13"),
        ("port", KNOWN, STATE, LIVE, RestartVerb.RESTART, "R14"),
    ],
)
def test_each_rule_of_the_restart(
    kind: str,
    known: FailureFacts,
    state: RecoveryState,
    settings: RecoverySettings,
    verb: RestartVerb,
    rule: str,
    tmp_path: Path,
) -> None:
    restart = decided(kind, tmp_path, known, state, settings).restart
    assert (restart.verb, restart.rule.split(":")[0]) == (verb, rule)


def test_the_same_root_error_twice_is_a_loop(tmp_path: Path) -> None:
    signature = finding("ecc", tmp_path, KNOWN, rank=2).signature
    state = replace(STATE, restarts=(restarted(signature),))
    assert decided("ecc", tmp_path, state=state).restart.rule.startswith("R8")
    long_ago = replace(STATE, restarts=(restarted(signature, age=timedelta(days=3)),))
    assert decided("ecc", tmp_path, state=long_ago).restart.verb is RestartVerb.RESTART
    other_job = replace(STATE, restarts=(restarted(signature, job_id="job-2"),))
    assert decided("ecc", tmp_path, state=other_job).restart.verb is RestartVerb.RESTART


def test_budgets_of_the_job_the_cause_and_the_hour(tmp_path: Path) -> None:
    mixed = tuple(restarted(f"s{i}", component=None, age=timedelta(hours=2 + i)) for i in range(5))
    assert "budget of the job" in decided("ecc", tmp_path, state=replace(STATE, restarts=mixed)).restart.rule
    same = tuple(restarted(f"s{i}", age=timedelta(hours=2 + i)) for i in range(3))
    assert "budget for this cause" in decided("ecc", tmp_path, state=replace(STATE, restarts=same)).restart.rule
    busy = tuple(restarted(f"s{i}", job_id=f"j{i}", age=timedelta(minutes=50 - i)) for i in range(20))
    held = decided("ecc", tmp_path, state=replace(STATE, restarts=busy)).restart
    assert (held.verb, held.not_before) == (RestartVerb.HOLD, NOW + timedelta(minutes=10))


def test_the_wait_grows_and_is_bounded(tmp_path: Path) -> None:
    waits = [backoff_s(LIVE, n) for n in range(12)]
    assert waits[:3] == [30.0, 60.0, 120.0] and waits[-1] == 1800.0
    state = replace(STATE, restarts=(restarted("x", component=None, age=timedelta(hours=5)),))
    assert decided("ecc", tmp_path, state=state).restart.not_before == NOW + timedelta(seconds=60)


def test_a_short_run_begins_again_without_a_checkpoint(tmp_path: Path) -> None:
    known = facts(the_attempt=attempt(ran=timedelta(minutes=10)))
    restart = decided("ecc", tmp_path, known).restart
    assert restart.is_to_be_done and restart.checkpoint is None


def test_a_vanished_attempt_counts_as_observed(tmp_path: Path) -> None:
    known = replace(facts(observed=False, checkpoints=[checkpoint()]), is_vanished=True)
    assert decided("ecc", tmp_path, known).restart.verb is RestartVerb.RESTART


MASS = replace(
    STATE,
    open_failures=tuple(
        OpenFailure(f"j{i}", (f"n{i}",), Category.INFRASTRUCTURE, Component.NETWORK, NOW - timedelta(seconds=40))
        for i in range(1, 6)
    ),
)


def test_a_mass_failure_holds_everything(tmp_path: Path) -> None:
    decision = decided("ecc", tmp_path, state=MASS, checks=FAILED_CHECK)
    assert decision.is_mass_failure
    assert decision.restart.verb is RestartVerb.HOLD and decision.restart.rule.startswith("R9")
    assert [i.verb for i in decision.isolations] == [IsolationVerb.HOLD]
    users = replace(MASS, open_failures=tuple(replace(f, category=Category.USER_SCRIPT) for f in MASS.open_failures))
    assert not decided("ecc", tmp_path, state=users).is_mass_failure


@pytest.mark.parametrize(
    ("mode", "standing"),
    [(Mode.SHADOW, Standing.RECORD_ONLY), (Mode.APPROVE, Standing.AWAIT_APPROVAL), (Mode.LIVE, Standing.ACT)],
)
def test_the_modes_of_restart_and_isolation_are_apart(mode: Mode, standing: Standing, tmp_path: Path) -> None:
    only_restart = replace(LIVE, restart_mode=mode, isolate_mode=Mode.OFF)
    decision = decided("ecc", tmp_path, settings=only_restart, checks=FAILED_CHECK)
    assert decision.restart.standing is standing
    assert decision.isolations[0].standing is Standing.OFF and not decision.isolations[0].is_to_be_done
    only_isolate = replace(LIVE, restart_mode=Mode.OFF, isolate_mode=mode)
    decision = decided("ecc", tmp_path, settings=only_isolate, checks=FAILED_CHECK)
    assert decision.restart.standing is Standing.OFF
    assert (decision.isolations[0].verb, decision.isolations[0].standing) == (IsolationVerb.ISOLATE, standing)
    if mode is Mode.APPROVE:
        assert decision.isolations[0].lapses_at is not None


# ---------------------------------------------------------------- isolation


def test_isolation_needs_a_failed_test_or_two_witnesses(tmp_path: Path) -> None:
    alone = decided("ecc", tmp_path).isolations[0]
    assert (alone.verb, alone.rule[:2]) == (IsolationVerb.WATCH, "I7")
    tested = decided("ecc", tmp_path, checks=FAILED_CHECK).isolations[0]
    assert tested.is_to_be_done and tested.suspect == Suspect("n2", 0)
    assert tested.decide_by == NOW + timedelta(days=1) and tested.reason.startswith("lucid:")
    counter = CounterReading("n2", 0, "ecc_uncorrectable", 5, 2, NOW, "nvml")
    two = decided("ecc", tmp_path, facts(counters=[counter], checkpoints=[checkpoint()])).isolations[0]
    assert two.is_to_be_done and "counter and log" in two.rule


def test_passed_tests_stop_an_isolation(tmp_path: Path) -> None:
    assert decided("ecc", tmp_path, checks=PASSED_CHECK).isolations[0].rule.startswith("I6")


def test_a_test_that_could_not_be_run_is_no_evidence(tmp_path: Path) -> None:
    not_run = CheckSummary((), (), (CheckResult("n2", "dcgmi-diag-2", None, "timed out", NOW),), ())
    assert decided("ecc", tmp_path, checks=not_run).isolations[0].rule.startswith("I7")


@pytest.mark.parametrize("kind", ["user", "framework", "disk", "nothing"])
def test_only_parts_of_a_node_are_isolated(kind: str, tmp_path: Path) -> None:
    assert decided(kind, tmp_path, checks=FAILED_CHECK).isolations == ()


def test_no_part_named_no_part_isolated(tmp_path: Path) -> None:
    isolations = decided("ecc", tmp_path, rank=None).isolations
    assert [(i.verb, i.suspect) for i in isolations] == [(IsolationVerb.WATCH, None)]


def test_a_gpu_off_the_bus_takes_its_node_with_it(tmp_path: Path) -> None:
    isolated = decided("bus", tmp_path, checks=FAILED_CHECK).isolations[0]
    assert isolated.suspect == Suspect("n2")


def held(node: str, owner: str = "lucid", gpu: int | None = None) -> IsolationRecord:
    return IsolationRecord(Suspect(node, gpu), owner, "r", NOW - timedelta(hours=1), NOW + timedelta(hours=23))


@pytest.mark.parametrize("owner", ["lucid", "nhc"])
def test_what_is_isolated_already_is_left_as_it_is(owner: str, tmp_path: Path) -> None:
    state = replace(STATE, isolations=(held("n2", owner),))
    assert decided("ecc", tmp_path, state=state, checks=FAILED_CHECK).isolations[0].rule.startswith("I4")


@pytest.mark.parametrize(("nodes", "quota"), [(0, 0), (1, 0), (2, 1), (9, 1), (20, 2), (39, 3), (40, 4), (1000, 4)])
def test_the_quota_counts_and_shares_and_is_sane_on_small_clusters(nodes: int, quota: int) -> None:
    assert isolation_quota(LIVE, nodes) == quota


def test_the_quota_trips_with_an_alarm_and_advice_goes_on(tmp_path: Path) -> None:
    state = replace(STATE, isolations=(held("n5"), held("n6")))
    decision = decided("ecc", tmp_path, state=state, checks=FAILED_CHECK)
    assert decision.isolations[0].verb is IsolationVerb.HOLD and decision.isolations[0].is_alarm
    assert decision.restart.is_to_be_done
    others = replace(STATE, isolations=(held("n5", "nhc"), held("n6", "nhc")))
    assert decided("ecc", tmp_path, state=others, checks=FAILED_CHECK).isolations[0].is_to_be_done


def test_never_the_last_usable_node_of_a_virtual_cluster(tmp_path: Path) -> None:
    vcs = {**{f"n{i}": "nlp" for i in range(1, 21)}, "n2": "vision"}
    state = replace(STATE, node_vc=vcs)
    assert decided("bus", tmp_path, state=state, checks=FAILED_CHECK).isolations[0].rule.startswith("I9")


# ---------------------------------------------------------------- helpers and invariants


def test_the_newest_complete_checkpoint() -> None:
    assert newest_complete([]) is None
    assert newest_complete([checkpoint(5, is_complete=None), checkpoint(9, is_complete=False)]) is None
    tie = [checkpoint(5), checkpoint(9)]
    best = newest_complete(tie)
    assert best is not None and best.step == 9


def test_the_step_in_a_name() -> None:
    assert step_in_name("/out/global_step1200/") == 1200
    assert step_in_name("/out/ckpt-3/epoch=2-step=77.ckpt") == 77
    assert step_in_name("/out/last") is None


MODES = st.sampled_from(list(Mode))
RESTARTS = st.lists(
    st.builds(restarted, st.sampled_from(["a", "b"]), age=st.timedeltas(timedelta(0), timedelta(days=2))), max_size=8
)
ISOLATED = st.lists(
    st.builds(held, st.sampled_from([f"n{i}" for i in range(1, 9)]), st.sampled_from(["lucid", "nhc"])), max_size=5
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(LOGS)),
    restart_mode=MODES,
    isolate_mode=MODES,
    restarts=RESTARTS,
    isolated=ISOLATED,
    observed=st.booleans(),
    never=st.booleans(),
    mass=st.booleans(),
    checks=st.sampled_from([None, FAILED_CHECK, PASSED_CHECK]),
)
def test_what_must_never_happen(
    kind: str,
    restart_mode: Mode,
    isolate_mode: Mode,
    restarts: Sequence[RestartRecord],
    isolated: Sequence[IsolationRecord],
    observed: bool,
    never: bool,
    mass: bool,
    checks: CheckSummary | None,
    tmp_path: Path,
) -> None:
    known = facts(the_job=job(never_restart=never), observed=observed, checkpoints=[checkpoint()])
    state = replace(MASS if mass else STATE, restarts=tuple(restarts), isolations=tuple(isolated))
    limits = replace(LIVE, restart_mode=restart_mode, isolate_mode=isolate_mode)
    found: Finding = finding(kind, tmp_path, known, rank=2)
    decision = decide(found, known, state, limits, checks)
    restart = decision.restart
    if restart.is_to_be_done:
        assert restart_mode is Mode.LIVE and observed and not never and not mass
        assert found.category in (Category.INFRASTRUCTURE, Category.FRAMEWORK) and found.restart.is_automatic
        assert restart.checkpoint is not None and restart.checkpoint.is_complete
        assert restart.not_before is not None and restart.not_before > NOW
    for isolation in decision.isolations:
        if isolation.is_to_be_done:
            assert isolate_mode is Mode.LIVE and not mass
            assert isolation.suspect is not None and isolation.decide_by is not None
            ours = {i.suspect.node for i in isolated if i.owner == "lucid"}
            assert len(ours | {isolation.suspect.node}) <= max(len(ours), isolation_quota(limits, 20))
            assert not any(i.suspect == isolation.suspect for i in isolated)
