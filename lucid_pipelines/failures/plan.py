"""Which tests to run on which node for a suspected component, and what their results mean (SchedMate section 13)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.failures.evidence import Finding, Suspect
from lucid_pipelines.failures.vocabulary import Category, Component
from lucid_pipelines.ports import CheckResult

MAX_NODES = 8


@dataclass(frozen=True, slots=True)
class TestKind:
    """A test that a cluster adapter may offer behind ``Cluster.check``.

    Attributes:
        name: what ``Cluster.check`` is called with.
        command: what it stands for on a real node.
        timeout_s: after this long it counts as not run.
        needs_idle_node: it disturbs jobs that run there.
    """

    __test__ = False  # not a pytest class

    name: str
    command: str
    timeout_s: float
    needs_idle_node: bool


NVIDIA_SMI = TestKind(
    "nvidia-smi", "nvidia-smi --query-gpu=index,ecc.errors.uncorrected.volatile.total,… --format=csv", 30, False
)
GPU_CLEAN = TestKind("gpu-clean", "no process and no memory in use on the GPUs that are given out", 30, False)
DCGM_QUICK = TestKind("dcgmi-diag-1", "dcgmi diag -r 1 -j", 60, False)
DCGM_MEDIUM = TestKind("dcgmi-diag-2", "dcgmi diag -r 2 -j", 240, True)
DCGM_LONG = TestKind("dcgmi-diag-3", "dcgmi diag -r 3 -j", 1200, True)
NVLINK = TestKind("nvlink-status", "nvidia-smi nvlink -s -e; fabric manager state", 30, False)
NCCL_NODE = TestKind("nccl-all-reduce", "all_reduce_perf -b 8M -e 1G -f 2 -g <gpus of the node>", 240, True)
NCCL_PAIR = TestKind("nccl-all-reduce-pair", "all_reduce_perf between the node and a healthy one", 300, True)
IB = TestKind("ib-status", "ibstat; port counters", 30, False)
FILESYSTEM = TestKind("filesystem", "write, read back and delete 1 MiB in the job's directory; df", 60, False)
NODE_HEALTH = TestKind("node-health", "nhc, or the site's own health check", 120, False)

_ALL = (
    *(NVIDIA_SMI, GPU_CLEAN, DCGM_QUICK, DCGM_MEDIUM, DCGM_LONG, NVLINK),
    *(NCCL_NODE, NCCL_PAIR, IB, FILESYSTEM, NODE_HEALTH),
)
TESTS: dict[str, TestKind] = {kind.name: kind for kind in _ALL}
"""Every test by the name that ``Cluster.check`` knows it under."""
_BY_COMPONENT: dict[Component, tuple[TestKind, ...]] = {
    Component.GPU: (NVIDIA_SMI, GPU_CLEAN, DCGM_MEDIUM),
    Component.NVLINK: (NVIDIA_SMI, NVLINK, DCGM_MEDIUM, NCCL_NODE),
    Component.NETWORK: (IB, NODE_HEALTH, NCCL_PAIR),
    Component.NODE: (NODE_HEALTH, NVIDIA_SMI),
    Component.STORAGE: (FILESYSTEM,),
}
_SPEAKS_FOR: dict[str, frozenset[Component]] = {
    "nvidia-smi": frozenset({Component.GPU, Component.NVLINK, Component.NODE}),
    "gpu-clean": frozenset({Component.GPU}),
    "dcgmi-diag-1": frozenset({Component.GPU, Component.NVLINK}),
    "dcgmi-diag-2": frozenset({Component.GPU, Component.NVLINK}),
    "dcgmi-diag-3": frozenset({Component.GPU, Component.NVLINK}),
    "nvlink-status": frozenset({Component.NVLINK}),
    "nccl-all-reduce": frozenset({Component.NVLINK, Component.GPU}),
    "nccl-all-reduce-pair": frozenset({Component.NETWORK}),
    "ib-status": frozenset({Component.NETWORK}),
    "filesystem": frozenset({Component.STORAGE}),
    "node-health": frozenset({Component.NODE, Component.NETWORK, Component.GPU, Component.STORAGE}),
}


def tests_for(component: Component | None) -> tuple[TestKind, ...]:
    """Tests that speak for a component, cheap ones first; for an unknown one, those of a node as a whole."""
    return _BY_COMPONENT.get(component, ()) if component is not None else (NODE_HEALTH, NVIDIA_SMI)


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """One call of ``Cluster.check``."""

    node: str
    test: TestKind
    why: str


@dataclass(frozen=True, slots=True)
class DiagnosisPlan:
    """What to test, cheap tests first; empty when nothing can be tested.

    Attributes:
        deadline_s: sum of the time limits, nodes tested at the same time.
    """

    component: Component | None
    checks: tuple[PlannedCheck, ...]
    reason: str

    @property
    def deadline_s(self) -> float:
        per_node: dict[str, float] = {}
        for check in self.checks:
            per_node[check.node] = per_node.get(check.node, 0.0) + check.test.timeout_s
        return max(per_node.values(), default=0.0)


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """What the tests said.

    Attributes:
        failed: results that failed and speak about the suspected component.
        passed: results that passed and speak about it.
        not_run: results that could not be had: no evidence either way (R-1).
        confirmed: parts that a failed test confirms.
    """

    failed: tuple[CheckResult, ...]
    passed: tuple[CheckResult, ...]
    not_run: tuple[CheckResult, ...]
    confirmed: tuple[Suspect, ...]

    @property
    def is_cleared(self) -> bool:
        """Every test that could be run passed, and at least one was."""
        return bool(self.passed) and not self.failed


def plan_diagnosis(
    finding: Finding, nodes: Sequence[str], *, idle_nodes: Iterable[str] = (), is_repeated: bool = False
) -> DiagnosisPlan:
    """The tests for a finding.

    Args:
        nodes: nodes of the failed attempt, in rank order.
        idle_nodes: nodes on which nothing runs now: only there may a disturbing test run.
        is_repeated: this part was accused before: run the long diagnostics.
    """
    component = finding.component
    if finding.category is not Category.INFRASTRUCTURE or component is None:
        return DiagnosisPlan(component, (), "nothing to test: not an infrastructure failure")
    named = list(dict.fromkeys(suspect.node for suspect in finding.suspects))
    chosen = named or list(nodes)[:MAX_NODES]
    idle = frozenset(idle_nodes)
    kinds = _BY_COMPONENT[component]
    if is_repeated and component in (Component.GPU, Component.NVLINK):
        kinds = (*kinds, DCGM_LONG)
    why = f"suspected: {component.value}" + ("" if named else ", no node named: all nodes of the attempt")
    checks = tuple(
        PlannedCheck(node, kind, why) for node in chosen for kind in kinds if not kind.needs_idle_node or node in idle
    )
    left_out = any(kind.needs_idle_node for kind in kinds) and not idle.issuperset(chosen)
    reason = why + ("; tests that need an idle node wait until one is" if left_out else "")
    return DiagnosisPlan(component, checks, reason)


def read_checks(
    plan: DiagnosisPlan, results: Sequence[CheckResult], finding: Finding, now: datetime, *, valid_s: float = 3600.0
) -> CheckSummary:
    """Sort results by what they say about the suspected component; old ones say nothing.

    Args:
        valid_s: results older than this are left out.
    """
    component = plan.component
    asked = {(check.node, check.test.name) for check in plan.checks}
    relevant = [
        r
        for r in results
        if (r.node, r.test) in asked
        and (now - r.checked_at).total_seconds() <= valid_s
        and component in _SPEAKS_FOR.get(r.test, frozenset())
    ]
    failed = tuple(r for r in relevant if r.passed is False)
    confirmed: list[Suspect] = []
    for result in failed:
        parts = [s for s in finding.suspects if s.node == result.node]
        confirmed += parts or [Suspect(result.node)]
    return CheckSummary(
        failed,
        tuple(r for r in relevant if r.passed is True),
        tuple(r for r in relevant if r.passed is None),
        tuple(dict.fromkeys(confirmed)),
    )
