"""Processes killed at bad moments: nothing lost, nothing run twice, nothing left."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lucid_pipelines.ports import LaunchRequest, Sight
from lucid_pipelines.resources.clusters import wrapper
from tests.support_clusters.local_harness import LocalHarness

pytestmark = pytest.mark.slow

RUN_ONCE = 'echo run >> "$LUCID_OUTPUT_DIR/runs"'
LAUNCH_FOREVER = """
import sys, time
from pathlib import Path
from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.ports import LaunchRequest
from tests.support_clusters.local_harness import LocalHarness
harness = LocalHarness(Path(sys.argv[1]))
request = harness.shell(sys.argv[2])
harness.cluster.launch(request)
print(request.attempt_id, flush=True)
time.sleep(60)
"""


def test_a_job_outlives_the_process_and_the_session_that_launched_it(tmp_path: Path) -> None:
    script = f'{RUN_ONCE}; sleep 0.5; echo end >> "$LUCID_OUTPUT_DIR/runs"; exit 4'
    repository = Path(__file__).parents[3]
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCH_FOREVER, str(tmp_path), script],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    assert launcher.stdout is not None
    attempt = launcher.stdout.readline().strip()
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait()
    launcher.stdout.close()
    harness = LocalHarness(tmp_path)
    assert harness.see(attempt).sight is Sight.RUNNING
    assert harness.wait_end(attempt).exit_code == 4
    job = json.loads((harness.folder(attempt) / wrapper.SPEC).read_text())["job_id"]
    assert (tmp_path / "jobs" / job / "outputs" / "runs").read_text() == "run\nend\n"


def test_an_interrupt_at_the_launching_terminal_does_not_reach_the_job(harness: LocalHarness) -> None:
    attempt = harness.start("sleep 0.4; exit 2")
    found = wrapper.marked(wrapper.process_table().values(), attempt)
    assert os.getpgrp() not in {process.pgrp for process in found}
    assert os.getsid(0) not in {process.session for process in found}
    assert harness.wait_end(attempt).exit_code == 2


@pytest.mark.parametrize("seed", range(12))
def test_a_wrapper_killed_at_a_random_moment(harness: LocalHarness, seed: int) -> None:
    """Whatever the moment: run at most once, then either not started, vanished or ended, and fenced for good."""
    chance = random.Random(seed)
    request = harness.shell(f"{RUN_ONCE}; sleep 0.15")
    context = multiprocessing.get_context("fork")
    launcher = context.Process(target=_launch, args=(harness, request))
    launcher.start()
    victim = _wait_for_wrapper(request.attempt_id)
    time.sleep(chance.choice([0.0, 0.001, 0.003, 0.01, 0.03, 0.1]))
    if victim is not None:
        wrapper.send_signal(victim.pid, victim.start_ticks, signal.SIGKILL)
    launcher.join()
    seen = harness.see(request.attempt_id)
    if seen.sight is Sight.RUNNING:  # the foreground process was hit, or the wrapper had just ended
        assert harness.wait_end(request.attempt_id).exit_code == 0
    elif seen.sight is Sight.NOT_STARTED:
        harness.cluster.launch(request)  # "already" where the foreground process was hit and its supervisor goes on
        assert harness.wait_end(request.attempt_id).exit_code == 0
    elif seen.sight is Sight.VANISHED:
        harness.cluster.fence(request.attempt_id)
        assert harness.wait_end(request.attempt_id).reason == "fenced"
        assert harness.cluster.launch(request).already
    assert harness.see(request.attempt_id).sight is Sight.EXITED
    assert harness.processes(request.attempt_id) == []
    assert harness.output(request.attempt_id, "runs") in (None, b"run\n")


@pytest.mark.parametrize("delay_s", [0.0, 0.005, 0.02, 0.05])
def test_a_fence_killed_on_the_way_is_finished_by_the_next(harness: LocalHarness, delay_s: float) -> None:
    request = harness.shell(f"{RUN_ONCE}; trap '' TERM; sleep 60 & sleep 60")
    harness.cluster.launch(request)
    harness.wait_output(request.attempt_id, "runs")
    context = multiprocessing.get_context("fork")
    fencer = context.Process(target=_fence, args=(harness, request.attempt_id))
    fencer.start()
    time.sleep(delay_s)
    assert fencer.pid is not None
    os.kill(fencer.pid, signal.SIGKILL)
    fencer.join()
    harness.cluster.fence(request.attempt_id)
    assert harness.wait_end(request.attempt_id).reason == "fenced"
    assert harness.processes(request.attempt_id) == []
    assert harness.cluster.launch(request).already
    assert harness.output(request.attempt_id, "runs") == b"run\n"


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.02, 0.03, 0.05])
def test_a_fence_races_a_launch(harness: LocalHarness, delay_s: float) -> None:
    """After the fence has returned nothing of the attempt runs, and nothing ever will."""
    request = harness.shell(f"{RUN_ONCE}; sleep 60")
    context = multiprocessing.get_context("fork")
    launcher = context.Process(target=_launch, args=(harness, request))
    launcher.start()
    time.sleep(delay_s)
    harness.cluster.fence(request.attempt_id)
    assert harness.processes(request.attempt_id) == []
    launcher.join()
    runs = harness.output(request.attempt_id, "runs")
    assert harness.cluster.launch(request).already
    assert harness.wait_end(request.attempt_id).reason == "fenced"
    assert harness.processes(request.attempt_id) == []
    assert harness.output(request.attempt_id, "runs") == runs


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.02, 0.03, 0.05])
def test_a_stop_races_a_launch(harness: LocalHarness, delay_s: float) -> None:
    request = harness.shell("sleep 60")
    context = multiprocessing.get_context("fork")
    launcher = context.Process(target=_launch, args=(harness, request))
    launcher.start()
    time.sleep(delay_s)
    harness.cluster.stop(request.attempt_id, 0.5, "race")
    launcher.join()
    assert harness.wait_end(request.attempt_id).reason == "stopped"
    assert harness.processes(request.attempt_id) == []


def test_several_fences_at_once_agree(harness: LocalHarness) -> None:
    attempt = harness.start("trap '' TERM; sleep 60 & sleep 60")
    context = multiprocessing.get_context("fork")
    fencers = [context.Process(target=_fence, args=(harness, attempt)) for _ in range(3)]
    for fencer in fencers:
        fencer.start()
    for fencer in fencers:
        fencer.join()
    assert [fencer.exitcode for fencer in fencers] == [0, 0, 0]
    assert harness.wait_end(attempt).reason == "fenced"
    assert harness.processes(attempt) == []


def _launch(harness: LocalHarness, request: LaunchRequest) -> None:
    harness.reopen().launch(request)


def _fence(harness: LocalHarness, attempt_id: str) -> None:
    harness.reopen().fence(attempt_id)


def _wait_for_wrapper(attempt_id: str) -> wrapper.Process | None:
    """The youngest wrapper process of an attempt, as soon as there is one."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        found = wrapper.marked(wrapper.process_table().values(), attempt_id, "LUCID_WRAPPER_FOR")
        if found:
            return max(found, key=lambda process: (process.start_ticks, process.pid))
    return None
