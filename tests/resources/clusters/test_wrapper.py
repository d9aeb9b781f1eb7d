"""The wrapper as a program: what it refuses, what it survives, what it costs."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.ports import Sight
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.launcher import install_wrapper, wrapper_digest, wrapper_source
from tests.support_clusters.local_harness import LocalHarness

RUN_ONCE = 'echo run >> "$LUCID_OUTPUT_DIR/runs"'


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", "-X", "utf8", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_it_is_one_file_of_standard_library_that_python_3_9_reads() -> None:
    tree = ast.parse(wrapper_source().read_text(), feature_version=(3, 9))
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert {name.split(".")[0] for name in imported} <= {*sys.stdlib_module_names, "__future__"}


def test_the_source_itself_starts_an_attempt_and_answers_in_one_line(harness: LocalHarness) -> None:
    attempt, folder = harness.prepare(f"{RUN_ONCE}; exit 3")
    done = _run(wrapper_source(), folder / wrapper.SPEC)
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"state": "started"}, "")
    assert harness.wait_end(attempt).exit_code == 3
    again = _run(wrapper_source(), folder / wrapper.SPEC)
    assert json.loads(again.stdout) == {"state": "already"}
    assert harness.output(attempt, "runs") == b"run\n"


def test_the_installed_wrapper_is_named_by_its_content(tmp_path: Path) -> None:
    program = install_wrapper(tmp_path)
    assert program.name.startswith(wrapper_digest()[:16])
    assert install_wrapper(tmp_path) == program
    assert [path.name for path in tmp_path.iterdir()] == [program.name]
    assert "usage" in _run(program).stderr


@pytest.mark.parametrize("record", [wrapper.STARTED, wrapper.EXIT])
def test_an_attempt_with_a_record_is_never_started_again(harness: LocalHarness, record: str) -> None:
    attempt, folder = harness.prepare(RUN_ONCE)
    (folder / record).write_text("{}")
    assert json.loads(_run(wrapper_source(), folder / wrapper.SPEC).stdout) == {"state": "already"}
    time.sleep(0.1)
    assert harness.output(attempt, "runs") is None


@pytest.mark.parametrize(("name", "reason"), [(wrapper.FENCED, "fenced"), (wrapper.STOP, "stopped")])
def test_an_attempt_that_was_called_off_is_recorded_and_not_started(
    harness: LocalHarness, name: str, reason: str
) -> None:
    attempt, folder = harness.prepare(RUN_ONCE)
    (folder / name).write_text("{}")
    assert json.loads(_run(wrapper_source(), folder / wrapper.SPEC).stdout) == {"state": reason}
    record = harness.wait_end(attempt)
    assert (record.reason, record.started_at, record.exit_code) == (reason, None, None)
    assert harness.output(attempt, "runs") is None


def test_a_second_wrapper_leaves_at_once_while_the_lock_is_held(harness: LocalHarness) -> None:
    attempt, folder = harness.prepare(RUN_ONCE)
    with (folder / wrapper.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert json.loads(_run(wrapper_source(), folder / wrapper.SPEC).stdout) == {"state": "already"}
    assert json.loads(_run(wrapper_source(), folder / wrapper.SPEC).stdout) == {"state": "started"}
    harness.wait_end(attempt)
    assert harness.output(attempt, "runs") == b"run\n"


def test_a_spec_of_another_format_is_refused(harness: LocalHarness) -> None:
    _, folder = harness.prepare(RUN_ONCE)
    spec = json.loads((folder / wrapper.SPEC).read_text())
    (folder / wrapper.SPEC).write_text(json.dumps({**spec, "format": 99}))
    done = _run(wrapper_source(), folder / wrapper.SPEC)
    assert done.returncode == 1
    assert "format 1; got 99" in done.stderr


def test_a_folder_that_cannot_be_written_starts_nothing_and_can_be_tried_again(harness: LocalHarness) -> None:
    request = harness.shell(RUN_ONCE)
    attempts = request.job_dir / "attempts"
    attempts.write_text("a file where a folder should be")
    with pytest.raises(ExternalError, match="launch it again"):
        harness.cluster.launch(request)
    assert harness.see(request.attempt_id).sight is Sight.NOT_STARTED
    attempts.unlink()
    assert not harness.cluster.launch(request).already
    harness.wait_end(request.attempt_id)
    assert harness.output(request.attempt_id, "runs") == b"run\n"


def test_a_wrapper_that_cannot_record_the_start_runs_nothing(harness: LocalHarness) -> None:
    attempt, folder = harness.prepare(RUN_ONCE)
    blocker = folder / wrapper.OWN_LOG
    blocker.mkdir()
    done = _run(wrapper_source(), folder / wrapper.SPEC)
    assert done.returncode == 1
    assert (harness.output(attempt, "runs"), harness.see(attempt).sight) == (None, Sight.NOT_STARTED)
    blocker.rmdir()
    assert not harness.cluster.launch(harness.requests[attempt]).already
    assert harness.wait_end(attempt).exit_code == 0


def test_it_lives_in_a_session_of_its_own_and_is_nobodys_child(harness: LocalHarness) -> None:
    attempt = harness.start("sleep 30")
    pid = harness.wrapper_pid(attempt)
    process = wrapper.read_process(pid)
    assert process is not None
    assert process.session == process.pgrp == pid != os.getsid(0)
    assert process.ppid != os.getpid()
    main = wrapper.read_process(harness.main_pid(attempt))
    assert main is not None
    assert main.session == main.pgrp == main.pid
    assert main.ppid == pid
    below_us = {process.pid for process in wrapper.descendants(wrapper.process_table(), os.getpid())}
    assert not below_us & {pid, main.pid}
    harness.cluster.fence(attempt)


def test_a_bare_term_stops_the_job_with_its_own_grace_period(harness: LocalHarness) -> None:
    attempt = harness.start("trap 'exit 8' TERM; echo ready; while :; do sleep 0.02; done")
    harness.wait(lambda: harness.log(attempt) == b"ready\n", "it prints")
    os.kill(harness.wrapper_pid(attempt), signal.SIGTERM)
    record = harness.wait_end(attempt)
    assert (record.reason, record.exit_code) == ("stopped", 8)
    assert record.detail == "stopped: the wrapper was sent SIGTERM"


def test_a_stop_request_is_found_without_a_signal(harness: LocalHarness) -> None:
    attempt = harness.start("sleep 30")
    (harness.folder(attempt) / wrapper.STOP).write_text('{"grace_s": 0.2, "reason": "by file"}')
    record = harness.wait_end(attempt)
    assert (record.reason, record.detail) == ("stopped", "stopped on request: by file")


def test_a_stopped_process_is_woken_to_hear_term(harness: LocalHarness) -> None:
    attempt = harness.start("trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done")
    harness.wait(lambda: harness.log(attempt) == b"ready\n", "it prints")
    os.kill(harness.main_pid(attempt), signal.SIGSTOP)
    harness.cluster.stop(attempt, 5.0, "test")
    assert harness.wait_end(attempt).exit_code == 5


def test_signals_that_are_not_meant_for_the_job_are_ignored(harness: LocalHarness) -> None:
    attempt = harness.start('echo > "$LUCID_OUTPUT_DIR/up"; sleep 0.5; exit 4')
    harness.wait_output(attempt, "up")
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(harness.wrapper_pid(attempt), number)
    record = harness.wait_end(attempt)
    assert (record.reason, record.exit_code) == ("exited", 4)


def test_a_job_starts_with_default_signals_and_an_empty_stdin(harness: LocalHarness) -> None:
    script = (
        "import os, signal, sys; print(sys.stdin.read() == '', signal.getsignal(signal.SIGPIPE), "
        "signal.pthread_sigmask(signal.SIG_BLOCK, []), len(os.listdir('/proc/self/fd')))"
    )
    ignored = "grep -E 'SigIgn|SigBlk' /proc/self/status"
    request = harness.request("sh", "-c", f'{ignored}; exec "$0" -c "$1"', sys.executable, script)
    harness.cluster.launch(request)
    harness.wait_end(request.attempt_id)
    said = harness.log(request.attempt_id).decode()
    # 32 and 33 belong to the C library: no program can set them, and a parent may hand them on ignored.
    theirs = 0b11 << 31
    masks = [int(line.split()[1], 16) for line in said.splitlines() if line.startswith("Sig")]
    assert [mask & ~theirs for mask in masks] == [0, 0]
    assert said.splitlines()[-1].startswith("True ")
    assert said.rstrip().endswith(" 4")  # stdin, stdout, stderr and the folder that is being listed


def test_a_job_that_removes_its_own_folder_still_gets_a_record(harness: LocalHarness) -> None:
    attempt = harness.start(
        'rm -rf "$(dirname "$LUCID_EXIT_NOTE")"; echo > "$LUCID_OUTPUT_DIR/gone"; sleep 0.3; exit 6'
    )
    harness.wait_output(attempt, "gone")
    assert harness.see(attempt).sight is Sight.UNOBSERVED
    assert harness.wait_end(attempt).exit_code == 6


def test_a_job_that_removes_only_the_lock_is_still_seen_running(harness: LocalHarness) -> None:
    attempt = harness.start('rm "$(dirname "$LUCID_EXIT_NOTE")/lock"; echo > "$LUCID_OUTPUT_DIR/up"; sleep 30')
    harness.wait_output(attempt, "up")
    assert harness.see(attempt).sight is Sight.RUNNING
    harness.kill_wrapper(attempt)
    harness.wait_sight(attempt, Sight.VANISHED)
    assert harness.cluster.fence(attempt) >= 1


def test_many_orphans_are_adopted_and_buried(harness: LocalHarness) -> None:
    attempt = harness.start("for i in 1 2 3 4 5 6 7 8; do (sh -c 'sleep 0.05' &); done; sleep 0.6; exit 0")
    time.sleep(0.4)
    family = wrapper.descendants(wrapper.process_table(), harness.wrapper_pid(attempt))
    assert [process.pid for process in family if process.state == "Z"] == []
    assert harness.wait_end(attempt).leftover_count == 0


def test_a_process_that_keeps_forking_is_ended(harness: LocalHarness) -> None:
    script = "(trap '' TERM; while :; do (sleep 0.03; :) & sleep 0.01; done) & sleep 0.2; exit 0"
    record = harness.finish(script, grace_s=0.1)
    assert record.exit_code == 0
    assert record.leftover_count is not None
    assert record.leftover_count >= 1
    assert harness.processes(next(iter(harness.requests))) == []


def test_the_record_says_what_the_job_used(harness: LocalHarness) -> None:
    attempt = harness.start("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
    harness.wait_end(attempt)
    record = harness.record(attempt, wrapper.EXIT)
    assert isinstance(record["cpu_s"], float)
    assert isinstance(record["max_rss_mib"], float)
    assert 0 < record["cpu_s"] < 5
    assert 0 < record["max_rss_mib"] < 100


def test_samples_are_bounded_on_disk(harness: LocalHarness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(wrapper, "KEPT_SAMPLES", 16)
    spec = {
        "telemetry": "declared",
        "warmup_s": 0,
        "sample_interval_s": 1,
        "gpus": [{"index": 0}],
        "declared_load": {"gpu_util_pct": 30, "memory_used_mib": 10},
    }
    sampler = wrapper.Sampler(spec, str(tmp_path), time.time())
    for number in range(500):
        if number == 137:
            (tmp_path / wrapper.LOAD).write_text('{"gpu_util_pct": 30, "memory_used_mib": 999}')
        if number == 138:
            (tmp_path / wrapper.LOAD).unlink()
        sampler.take()
    lines = (tmp_path / wrapper.SAMPLES).read_text().splitlines()
    assert 8 <= len(lines) <= 16
    profile = sampler.profile()
    assert (profile["taken"], profile["gpu_util_pct"], profile["write_errors"]) == (500, 30.0, 0)
    assert profile["memory_peak_mib"] == 999  # the peak is kept even where its sample was thinned out
