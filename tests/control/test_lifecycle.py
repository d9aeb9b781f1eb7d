"""From submission to the end and back into the estimates, with real processes."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from lucid_pipelines.client import Client
from lucid_pipelines.control.scheduling import run_pass
from lucid_pipelines.domain.job import Job
from lucid_pipelines.domain.states import Cause, JobState, Outcome
from tests.support_control.worlds import all_ended, drive, take_in_all

PYTHON = sys.executable


def running(jobs: list[Job]) -> bool:
    return all(job.state is JobState.RUNNING and job.started_at is not None for job in jobs)


def log_of(client: Client, job: Job) -> str:
    attempt = client.attempts(job.job_id)[-1]
    return client.read_log(attempt.attempt_id, 0).data.decode("utf-8", errors="replace")


def test_a_job_runs_from_its_snapshot_and_teaches_the_next_estimate(client: Client, source: Path) -> None:
    script = source / "train.py"
    script.write_text("import os, time\nprint('GPUs', os.environ['CUDA_VISIBLE_DEVICES'])\ntime.sleep(0.3)\n")
    first = client.submit([PYTHON, "train.py"], source_dir=source, gpus=2, vc="vision", user="ada").job
    script.write_text("raise SystemExit('edited after submission')\n")

    (job,) = drive(client, all_ended, [first.job_id])

    assert (job.state, job.outcome, job.exit_code) == (JobState.COMPLETED, Outcome.COMPLETED, 0)
    assert "GPUs 0,1" in log_of(client, job)
    assert job.estimate is not None and job.estimate.basis == "no_history"

    second = client.submit([PYTHON, "-c", "pass"], source_dir=source, gpus=2, vc="vision", user="ada").job
    take_in_all(client.system)
    estimate = client.job(second.job_id).estimate
    assert estimate is not None and estimate.duration_s is not None
    assert estimate.basis == "user_gpus_mean"
    assert estimate.duration_s == pytest.approx(job.ran_s)
    assert estimate.evidence_job_ids == (first.job_id,)
    drive(client, all_ended, [second.job_id])
    scored = client.system.store.estimates.of_job(second.job_id)
    assert [row.actual_s is not None for row in scored] == [True], "a prediction is stored before its outcome"


def test_more_work_than_gpus_waits_and_no_gpu_is_given_twice(client: Client, source: Path) -> None:
    command = [PYTHON, "-c", "import time; time.sleep(0.4)"]
    ids = [client.submit(command, source_dir=source, gpus=2, vc="vision", name=f"job-{i}").job.job_id for i in range(5)]
    peak = 0

    def watch(jobs: list[Job]) -> bool:
        nonlocal peak
        active = client.system.store.attempts.active()
        used = [(share.node, gpu) for a in active for share in a.placement.shares for gpu in share.gpu_indices]
        assert len(used) == len(set(used)), "an exclusive GPU is given once"
        assert all(node == "node-1" for node, _ in used), "a virtual cluster has its own nodes"
        peak = max(peak, len(used))
        return all_ended(jobs)

    jobs = drive(client, watch, ids)
    assert peak == 4
    assert {job.state for job in jobs} == {JobState.COMPLETED}
    assert [job.attempt_count for job in jobs] == [1] * 5


def test_the_exit_record_decides_how_a_job_failed(client: Client, source: Path) -> None:
    def submit(*command: str) -> str:
        return client.submit(list(command), source_dir=source, gpus=1, vc="nlp").job.job_id

    ids = [
        submit(PYTHON, "-c", "raise SystemExit(3)"),
        submit(PYTHON, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
        submit("no-such-program-anywhere"),
    ]
    code, signalled, missing = drive(client, all_ended, ids)

    assert (code.state, code.outcome, code.cause, code.exit_code) == (
        JobState.FAILED,
        Outcome.FAILED_UNKNOWN,
        Cause.UNKNOWN,
        3,
    )
    assert signalled.outcome is Outcome.FAILED_UNKNOWN and "signal 9" in (signalled.detail or "")
    assert missing.outcome is Outcome.FAILED_USER and "no-such-program-anywhere" in (missing.detail or "")
    assert client.system.store.exits.pending() == (0, None), "every abnormal exit was handled"


def test_cancel_ends_the_whole_process_group(client: Client, source: Path) -> None:
    (source / "stubborn.py").write_text(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n    time.sleep(600)\n"
        "print('ready', flush=True)\ntime.sleep(600)\n"
    )
    waiting = client.submit([PYTHON, "-c", "pass"], source_dir=source, gpus=1, vc="vision").job
    assert client.cancel(waiting.job_id, who="ada").state is JobState.CANCELLED

    job = client.submit([PYTHON, "stubborn.py"], source_dir=source, gpus=1, vc="vision", grace_s=0.5).job
    drive(client, running, [job.job_id])
    deadline = time.monotonic() + 10
    while "ready" not in log_of(client, job) and time.monotonic() < deadline:
        time.sleep(0.05)
    client.cancel(job.job_id, who="ada")
    client.cancel(job.job_id, who="ada")

    (ended,) = drive(client, all_ended, [job.job_id])
    assert (ended.state, ended.outcome) == (JobState.CANCELLED, Outcome.CANCELLED)
    assert [attempt.number for attempt in client.attempts(job.job_id)] == [1]


def test_output_that_is_no_text_and_a_lot_of_it(client: Client, source: Path) -> None:
    code = "import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\x00 caf\\xe9\\n' * 1_000_000)"
    job = client.submit([PYTHON, "-c", code], source_dir=source, gpus=1, vc="nlp").job
    (ended,) = drive(client, all_ended, [job.job_id])
    assert ended.state is JobState.COMPLETED
    assert client.read_log(client.attempts(job.job_id)[0].attempt_id, 0, 1).size == 9_000_000


def test_names_that_would_break_a_shell(client: Client, source: Path) -> None:
    name = 'it\'s "a" name\nwith lines; $(rm -rf .) 🦊'
    code = "import sys; print(sys.argv[1])"
    job = client.submit([PYTHON, "-c", code, name], source_dir=source, name=name, gpus=1, vc="nlp").job
    (ended,) = drive(client, all_ended, [job.job_id])
    assert ended.state is JobState.COMPLETED and ended.spec.name == name
    assert log_of(client, ended) == name + "\n"


def test_one_idempotency_key_is_one_job(client: Client, source: Path) -> None:
    command = [PYTHON, "-c", "pass"]
    first = client.submit(command, source_dir=source, idempotency_key="nightly-7")
    second = client.submit(command, source_dir=source, idempotency_key="nightly-7")
    assert (first.created, second.created) == (True, False)
    assert first.job.job_id == second.job.job_id


def test_a_job_whose_wrapper_was_killed_is_lost_and_leaves_nothing(client: Client, source: Path) -> None:
    job = client.submit([PYTHON, "-c", "import time; time.sleep(600)"], source_dir=source, gpus=4, vc="vision").job
    drive(client, running, [job.job_id])
    wrappers = [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(job.job_id in part and part.endswith("spec.json") for part in process.info["cmdline"] or [])
    ]
    assert wrappers, "the wrapper of the attempt is found by its command line"
    for process in wrappers:
        process.kill()

    (ended,) = drive(client, all_ended, [job.job_id])
    assert (ended.state, ended.outcome, ended.cause) == (JobState.LOST, Outcome.LOST, Cause.INFRASTRUCTURE)
    assert client.system.store.queue.view().slots == (), "its GPUs are free again"
    (action,) = client.system.store.actions.find()
    assert action.kind == "restart", "in shadow mode a restart is proposed and not done"


def test_a_pass_with_nothing_to_do_is_idle(client: Client) -> None:
    assert run_pass(client.system, "driver").is_idle
