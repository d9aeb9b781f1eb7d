"""Who belongs to an attempt, and who must never be touched."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.ports import Sight
from lucid_pipelines.resources.clusters import fencing, wrapper
from tests.support_clusters.local_harness import LocalHarness


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def _forge(harness: LocalHarness, attempt: str, **identities: dict[str, int]) -> None:
    """Rewrite who the start record says runs the attempt."""
    path = harness.folder(attempt) / wrapper.STARTED
    path.write_text(json.dumps({**json.loads(path.read_text()), **identities}))


def test_a_number_that_now_belongs_to_somebody_else_is_not_touched(
    harness: LocalHarness, bystander: subprocess.Popen[bytes]
) -> None:
    attempt = harness.start("exec sleep 60")
    process = wrapper.read_process(bystander.pid)
    assert process is not None
    real = harness.wrapper_pid(attempt)
    stale = {"pid": bystander.pid, "start_ticks": process.start_ticks - 1}
    _forge(harness, attempt, wrapper=stale, main=stale)
    harness.cluster.stop(attempt, 0.0, "must not reach the bystander")
    assert bystander.poll() is None
    os.kill(real, signal.SIGKILL)
    harness.wait_sight(attempt, Sight.VANISHED)
    assert harness.cluster.fence(attempt) == 1  # the job itself, known by its environment
    time.sleep(0.05)
    assert bystander.poll() is None
    assert harness.processes(attempt) == []


def test_numbers_of_an_earlier_boot_mean_nothing(harness: LocalHarness, bystander: subprocess.Popen[bytes]) -> None:
    attempt = harness.start("exec sleep 60")
    process = wrapper.read_process(bystander.pid)
    assert process is not None
    harness.kill_wrapper(attempt)
    os.kill(harness.main_pid(attempt), signal.SIGKILL)
    exact = {"pid": bystander.pid, "start_ticks": process.start_ticks}
    path = harness.folder(attempt) / wrapper.STARTED
    record = {**json.loads(path.read_text()), "wrapper": exact, "main": exact, "boot_id": "another"}
    path.write_text(json.dumps(record))
    seen = harness.wait_sight(attempt, Sight.VANISHED)
    assert seen.detail is not None
    assert "restarted" in seen.detail
    assert harness.cluster.fence(attempt) == 0
    assert bystander.poll() is None


def test_signals_go_only_to_the_process_that_was_meant(bystander: subprocess.Popen[bytes]) -> None:
    process = wrapper.read_process(bystander.pid)
    assert process is not None
    assert not wrapper.send_signal(process.pid, process.start_ticks + 1, signal.SIGKILL)
    assert bystander.poll() is None
    assert wrapper.send_signal(process.pid, process.start_ticks, signal.SIGKILL)
    bystander.wait()
    assert not wrapper.send_signal(process.pid, process.start_ticks, signal.SIGKILL)


def test_a_writer_into_the_log_is_found_without_name_or_session(harness: LocalHarness) -> None:
    """A daemon that left the session and dropped its environment, after its wrapper was killed."""
    attempt = harness.start('echo $$ > "$LUCID_OUTPUT_DIR/pid"; exec sleep 60')
    harness.wait_output(attempt, "pid")
    log = harness.folder(attempt) / wrapper.LOG
    with log.open("ab") as writing, log.open("rb") as reading:
        writer = subprocess.Popen(["sleep", "60"], stdout=writing, env={}, start_new_session=True)
        reader = subprocess.Popen(["sleep", "60"], stdin=reading, env={}, start_new_session=True)
    try:
        harness.kill_wrapper(attempt)
        assert harness.cluster.fence(attempt) >= 2
        assert writer.wait(5) == -signal.SIGKILL
        assert reader.poll() is None
    finally:
        for process in (writer, reader):
            process.kill()
            process.wait()


def test_a_session_member_that_names_another_attempt_is_spared(harness: LocalHarness) -> None:
    """Its session's number may have passed to that attempt; only descent would prove otherwise."""
    script = (
        "LUCID_ATTEMPT_ID=another-a1 sh -c 'echo $$ > \"$LUCID_OUTPUT_DIR/other\"; exec sleep 60 > /dev/null 2>&1' & "
        "sleep 60"
    )
    attempt = harness.start(script)
    other = int(harness.wait_output(attempt, "other"))
    watcher, main = harness.wrapper_pid(attempt), harness.main_pid(attempt)
    harness.kill_wrapper(attempt)
    harness.wait(lambda: not harness.is_alive(watcher), "its wrapper is gone, which else would adopt it")
    os.kill(main, signal.SIGKILL)
    harness.wait(lambda: getattr(wrapper.read_process(other), "ppid", main) not in (main, watcher), "it is an orphan")
    harness.cluster.fence(attempt)
    assert harness.is_alive(other)
    os.kill(other, signal.SIGKILL)


def test_whoever_fences_survives_even_inside_the_attempt(harness: LocalHarness) -> None:
    """A control plane that itself runs inside a job does not kill itself or its ancestors."""
    repository = Path(__file__).parents[3]
    program = (
        "import sys; from pathlib import Path; from tests.support_clusters.local_harness import LocalHarness; "
        "LocalHarness(Path(sys.argv[1])).cluster.fence(sys.argv[2]); print('survived')"
    )
    attempt = "outer-a1"
    done = subprocess.run(
        ["sh", "-c", '"$@"; echo shell too', "sh", sys.executable, "-c", program, str(harness.root), attempt],
        env={**os.environ, "PYTHONPATH": str(repository), wrapper.MARKER: attempt},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout == "survived\nshell too\n", done.stderr


def test_a_spoilt_start_record_is_no_evidence_and_no_obstacle(harness: LocalHarness) -> None:
    attempt = harness.start("exec sleep 60")
    pid = harness.main_pid(attempt)
    started = harness.folder(attempt) / wrapper.STARTED
    for garbage in (b"{", b"[]", b"\xff\xfe", b'{"wrapper": 3}', b"[" * 5000):
        started.write_bytes(garbage)
        assert harness.see(attempt).sight is Sight.UNOBSERVED
    assert harness.cluster.fence(attempt) >= 1
    assert not harness.is_alive(pid)
    assert harness.wait_end(attempt).reason == "fenced"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"null",
        b'{"reason": "exited"}',
        b'{"reason":"guessed","exit_code":0,"signal":null,"started_at":null,"ended_at":"2026-01-01T00:00:00+00:00"}',
        b'{"reason":"exited","exit_code":"0","signal":null,"started_at":null,"ended_at":"2026-01-01T00:00:00+00:00"}',
        b'{"reason":"exited","exit_code":0,"signal":null,"started_at":null,"ended_at":"2026-01-01T00:00:00"}',
        b'{"reason":"exited","exit_code":0,"signal":null,"started_at":5,"ended_at":"soon"}',
    ],
)
def test_an_exit_record_that_makes_no_sense_ends_nothing(harness: LocalHarness, content: bytes) -> None:
    attempt = harness.start("true")
    harness.wait_end(attempt)
    (harness.folder(attempt) / wrapper.EXIT).write_bytes(content)
    seen = harness.see(attempt)
    assert (seen.sight, seen.exit) == (Sight.UNOBSERVED, None)


def test_a_pipe_in_the_place_of_a_record_blocks_nobody(harness: LocalHarness) -> None:
    attempt = harness.start("true")
    harness.wait_end(attempt)
    path = harness.folder(attempt) / wrapper.EXIT
    path.unlink()
    os.mkfifo(path)
    assert harness.see(attempt).sight is Sight.UNOBSERVED


def test_a_process_that_cannot_be_killed_is_reported(harness: LocalHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = harness.start("exec sleep 60")
    os.kill(harness.wrapper_pid(attempt), signal.SIGSTOP)  # it would obey the mark by itself
    with monkeypatch.context() as patch:
        patch.setattr(wrapper, "send_signal", lambda *_: False)
        with pytest.raises(ExternalError, match="survive"):
            fencing.fence(harness.folder(attempt), attempt, 0.2)
    assert harness.see(attempt).sight is Sight.RUNNING  # not called dead while it lives
    assert harness.cluster.fence(attempt) >= 1


def test_a_removed_folder_is_not_out_of_sight_for_ever(harness: LocalHarness) -> None:
    """While it runs it runs; when it is gone it is gone, and can be fenced and recorded."""
    running, dead = harness.start("exec sleep 60"), harness.start("exec sleep 60")
    for attempt in (running, dead):
        shutil.rmtree(harness.requests[attempt].job_dir)
    assert harness.cluster.poll([running])[running].sight is Sight.UNOBSERVED, "it may come back"
    harness.local._layout.removed_after_s = 0.0
    assert harness.cluster.poll([running])[running].sight is Sight.RUNNING
    harness.cluster.stop(running, 0.5, "cancelled")
    harness.wait_sight(running, Sight.EXITED)  # its wrapper made the folder again for the record
    (wrapped,) = fencing.wrappers_of(wrapper.process_table().values(), dead)
    os.kill(wrapped.pid, signal.SIGKILL)
    for process in wrapper.marked(wrapper.process_table().values(), dead):
        os.kill(process.pid, signal.SIGKILL)
    harness.wait_sight(dead, Sight.VANISHED)
    harness.cluster.fence(dead)
    assert harness.cluster.poll([dead])[dead].sight is Sight.EXITED


def test_a_folder_on_a_disk_that_is_not_there_is_out_of_sight(harness: LocalHarness) -> None:
    attempt = harness.start("exec sleep 60")
    live = harness.root / "cluster" / "live" / attempt
    device = live.read_text()
    kept = harness.root / "elsewhere"
    shutil.move(harness.requests[attempt].job_dir, kept)
    live.write_text("another disk")
    assert harness.cluster.poll([attempt])[attempt].sight is Sight.UNOBSERVED
    live.write_text(device)
    shutil.move(kept, harness.requests[attempt].job_dir)
    assert harness.cluster.poll([attempt])[attempt].sight is Sight.RUNNING
