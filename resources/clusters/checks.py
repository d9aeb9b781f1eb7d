"""Diagnosis tests of a local cluster's nodes: declared for virtual ones, real for real ones."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lucid_pipelines.domain.errors import ExternalError, InputError, did_you_mean
from lucid_pipelines.failures.checks import parse_dcgmi_diag, parse_ibstat, parse_nccl_tests
from lucid_pipelines.ports import CheckResult
from lucid_pipelines.resources.clusters.gpu_reading import GpuReading
from lucid_pipelines.resources.clusters.nodes import LocalNode
from lucid_pipelines.resources.clusters.nvml import cleanliness

DETAIL_CHARS = 64 * 1024


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """A site's own test: passes when it ends with status 0. Its output is the result's detail."""

    argv: tuple[str, ...]
    timeout_s: float = 300.0


@dataclass(frozen=True, slots=True)
class NodeChecks:
    """Runs tests by name.

    Attributes:
        readings: reads the real GPUs; ``None`` where all are virtual.
        our_processes: process numbers of running attempts.
        commands: the site's own tests, by name.
        runner: runs such a test on the node; default: on this machine.
    """

    now: Callable[[], datetime]
    readings: Callable[[], Sequence[GpuReading]] | None
    our_processes: Callable[[], frozenset[int]]
    commands: Mapping[str, CheckCommand]
    runner: Callable[[CheckCommand], tuple[bool | None, str]] | None = None

    def run(self, node: LocalNode, test: str) -> CheckResult:
        """Never raises for a test that fails or cannot be run: the result says so."""
        passed, detail = self._site(test) or (self._declared(node, test) if node.is_virtual else self._real(test))
        return CheckResult(node.name, test, passed, _shortened(detail), self.now())

    def _site(self, test: str) -> tuple[bool | None, str] | None:
        if test not in self.commands:
            return None
        passed, output = (self.runner or _run)(self.commands[test])
        return _by_output(test, passed, output)

    def _declared(self, node: LocalNode, test: str) -> tuple[bool | None, str]:
        declared = node.checks.get(test, node.default_check)
        if declared is not None:
            return declared.passed, f"declared: {declared.detail}"
        known = ", ".join(sorted(node.checks)) or "none"
        near = did_you_mean(test, node.checks)
        return None, f"no answer is declared for this test on a virtual node{near}; declared: {known}"

    def _real(self, test: str) -> tuple[bool | None, str]:
        judge = _JUDGES.get(test)
        if judge is None or self.readings is None:
            known = [*_JUDGES, *self.commands]
            return None, f"this test is not set up here{did_you_mean(test, known)}; set up: {', '.join(known)}"
        try:
            verdicts = [judge(reading, self.our_processes()) for reading in self.readings()]
        except ExternalError as error:
            return None, str(error)
        passed = [verdict for verdict, _ in verdicts]
        overall = False if False in passed else None if None in passed or not passed else True
        return overall, "\n".join(detail for _, detail in verdicts) or "no GPU was found"


def _by_output(test: str, passed: bool | None, output: str) -> tuple[bool | None, str]:
    """What a known tool's own output says, which outranks its exit status; a status alone where it cannot be read.

    A tool that ends with 0 and says nothing that can be read has not shown that anything works.
    """
    reader = next((read for prefix, read in _OUTPUTS.items() if test.startswith(prefix)), None)
    if reader is None or passed is None:
        return passed, output
    try:
        said = reader(output)
    except InputError as error:
        return (None if passed else False), f"its output cannot be read ({error})\n{output}"
    return (False if said is False or not passed else said), output


def _dcgm(output: str) -> bool | None:
    return parse_dcgmi_diag(output).passed


def _nccl(output: str) -> bool | None:
    return parse_nccl_tests(output).is_ok


def _ib(output: str) -> bool | None:
    ports = parse_ibstat(output)
    return all(port.is_up for port in ports) if ports else None


_OUTPUTS: dict[str, Callable[[str], bool | None]] = {"dcgmi-diag": _dcgm, "nccl-all-reduce": _nccl, "ib-status": _ib}
"""Readers of what a site's command prints, by the beginning of the test's name (``failures.plan.TESTS``)."""


def _health(reading: GpuReading, ours: frozenset[int]) -> tuple[bool | None, str]:
    """Answers, and has no uncorrectable error; a GPU without ECC has none to count."""
    answers, said = _visible(reading, ours)
    if not answers:
        return answers, said
    counts, counted = _ecc(reading, ours)
    return counts is not False, f"{said}; {counted.partition(': ')[2]}"


def _visible(reading: GpuReading, ours: frozenset[int]) -> tuple[bool | None, str]:
    if reading.problem is not None:
        return False, f"GPU {reading.index} ({reading.uuid}): {reading.problem}"
    return True, f"GPU {reading.index} ({reading.uuid}): answers"


def _ecc(reading: GpuReading, ours: frozenset[int]) -> tuple[bool | None, str]:
    count = reading.ecc_uncorrected
    said = f"GPU {reading.index} ({reading.uuid}): uncorrectable ECC errors since the driver was loaded: "
    return (None, said + "unknown") if count is None else (count == 0, said + str(count))


def _clean(reading: GpuReading, ours: frozenset[int]) -> tuple[bool | None, str]:
    verdict = cleanliness(reading, ours)
    return verdict.is_clean, f"GPU {reading.index} ({reading.uuid}): {verdict.detail}"


_JUDGES: dict[str, Callable[[GpuReading, frozenset[int]], tuple[bool | None, str]]] = {
    "nvidia-smi": _health,
    "gpu-clean": _clean,
    "node-health": _visible,
}
"""Tests that need no tool beside the driver, by the names that a diagnosis plan asks for."""


def _run(command: CheckCommand) -> tuple[bool | None, str]:
    try:
        process = subprocess.Popen(
            list(command.argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return None, f"the test's command cannot be started: {error}"
    with process:
        try:
            output = process.communicate(timeout=command.timeout_s)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, f"the test did not end within {command.timeout_s:g} s and was killed"
    if process.returncode < 0:
        return None, f"the test was ended by signal {-process.returncode}\n{output}"
    return process.returncode == 0, output


def _shortened(text: str) -> str:
    if len(text) <= DETAIL_CHARS:
        return text
    half = DETAIL_CHARS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
