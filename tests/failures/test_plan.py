"""Which tests are run, and what their results prove."""

from datetime import timedelta
from pathlib import Path

import pytest

from lucid_pipelines.failures.evidence import Suspect
from lucid_pipelines.failures.plan import DCGM_LONG, TESTS, plan_diagnosis, read_checks
from lucid_pipelines.failures.vocabulary import Component
from lucid_pipelines.ports import CheckResult
from tests.support_failures.situations import NOW, finding

NODES = ("n1", "n2")


def result(test: str, passed: bool | None, node: str = "n2", age: timedelta = timedelta(minutes=1)) -> CheckResult:
    return CheckResult(node, test, passed, "as declared", NOW - age)


@pytest.mark.parametrize(
    ("kind", "rank", "tests"),
    [
        ("ecc", 2, {"nvidia-smi", "gpu-clean", "dcgmi-diag-2"}),
        ("timeout", None, {"ib-status", "node-health", "nccl-all-reduce-pair"}),
        ("node", None, {"node-health", "nvidia-smi"}),
        ("disk", None, {"filesystem"}),
    ],
)
def test_each_component_has_its_tests(kind: str, rank: int | None, tests: set[str], tmp_path: Path) -> None:
    plan = plan_diagnosis(finding(kind, tmp_path, rank=rank), NODES, idle_nodes=NODES)
    assert {check.test.name for check in plan.checks} == tests
    assert plan.deadline_s > 0


@pytest.mark.parametrize("kind", ["user", "framework", "nothing"])
def test_what_is_no_infrastructure_is_not_tested(kind: str, tmp_path: Path) -> None:
    assert plan_diagnosis(finding(kind, tmp_path), NODES).checks == ()


def test_only_the_suspected_node_is_tested_and_else_all_of_them(tmp_path: Path) -> None:
    named = plan_diagnosis(finding("ecc", tmp_path, rank=2), NODES)
    assert {check.node for check in named.checks} == {"n2"}
    unnamed = plan_diagnosis(finding("ecc", tmp_path), NODES)
    assert {check.node for check in unnamed.checks} == {"n1", "n2"}


def test_a_disturbing_test_waits_for_an_idle_node(tmp_path: Path) -> None:
    busy = plan_diagnosis(finding("ecc", tmp_path, rank=2), NODES)
    assert not any(check.test.needs_idle_node for check in busy.checks)
    assert "idle" in busy.reason


def test_a_part_that_was_accused_before_gets_the_long_diagnostics(tmp_path: Path) -> None:
    plan = plan_diagnosis(finding("ecc", tmp_path, rank=2), NODES, idle_nodes=NODES, is_repeated=True)
    assert DCGM_LONG in [check.test for check in plan.checks]


def test_results_are_sorted_by_what_they_prove(tmp_path: Path) -> None:
    found = finding("ecc", tmp_path, rank=2)
    plan = plan_diagnosis(found, NODES, idle_nodes=NODES)
    summary = read_checks(
        plan,
        [result("dcgmi-diag-2", False), result("nvidia-smi", True), result("gpu-clean", None)],
        found,
        NOW,
    )
    assert summary.confirmed == (Suspect("n2", 0),)
    assert len(summary.failed) == len(summary.passed) == len(summary.not_run) == 1
    assert not summary.is_cleared


def test_old_foreign_and_unasked_results_prove_nothing(tmp_path: Path) -> None:
    found = finding("ecc", tmp_path, rank=2)
    plan = plan_diagnosis(found, NODES, idle_nodes=NODES)
    results = [
        result("dcgmi-diag-2", False, age=timedelta(hours=2)),
        result("dcgmi-diag-2", False, node="n1"),
        result("filesystem", False),
        result("nvidia-smi", None),
    ]
    summary = read_checks(plan, results, found, NOW)
    assert (summary.failed, summary.passed, summary.confirmed) == ((), (), ())
    assert not summary.is_cleared


def test_a_failed_test_names_the_node_when_the_log_named_none(tmp_path: Path) -> None:
    found = finding("ecc", tmp_path)
    plan = plan_diagnosis(found, NODES, idle_nodes=NODES)
    assert read_checks(plan, [result("dcgmi-diag-2", False)], found, NOW).confirmed == (Suspect("n2"),)


def test_every_test_has_a_command_and_a_time_limit() -> None:
    assert set(TESTS) == {kind.name for kind in TESTS.values()}
    assert all(kind.command and 0 < kind.timeout_s <= 1200 for kind in TESTS.values())
    assert Component.GPU in Component
