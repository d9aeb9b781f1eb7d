"""What goes wrong in front of a real Slurm: nothing is lost, nothing started twice, and every end has its own name."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from lucid_pipelines.domain.cluster import NodeCondition, Placement
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.domain.job import ExitRecord
from lucid_pipelines.ports import LaunchRequest, Sight
from lucid_pipelines.resources.clusters.slurm_findings import examine
from lucid_pipelines.resources.clusters.slurm_states import is_over
from tests.support_clusters.pythons import require_python
from tests.support_slurm.slurm_cluster import SlurmTestbed, short_folder
from tests.support_slurm.slurm_harness import SlurmHarness, failing_commands

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.slurm]
RUN_ONCE = 'echo run >> "$LUCID_OUTPUT_DIR/runs"'


@pytest.fixture(scope="module")
def testbed() -> Iterator[SlurmTestbed]:
    folder = short_folder()
    more = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\nPartitionName=high Nodes=ALL PriorityTier=10\n"
    testbed = SlurmTestbed(folder / "slurm", nodes=3, slurmd_timeout_s=3, more="MessageTimeout=2\n", more_after=more)
    yield testbed
    testbed.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def limited(testbed: SlurmTestbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SlurmHarness, str]]:
    """A job with Slurm's shortest time limit, a minute, which passes during the other tests."""
    harness = SlurmHarness(tmp_path_factory.mktemp("limited"), testbed, partitions=("gpu",))
    attempt = harness.start("sleep 600", placement=Placement.of({"n1": [7]}))
    testbed.run("scontrol", "update", f"JobId={harness.submitted(attempt)}", "TimeLimit=0:01")
    yield harness, attempt
    harness.close()


@pytest.fixture
def harness(tmp_path: Path, testbed: SlurmTestbed) -> Iterator[SlurmHarness]:
    harness = SlurmHarness(tmp_path, testbed, partitions=("gpu",))
    yield harness
    harness.close()


def ended(harness: SlurmHarness, attempt: str) -> ExitRecord:
    return harness.wait_end(attempt)


def someone() -> str:
    """A user who is not root."""
    return next(entry.pw_name for entry in pwd.getpwall() if entry.pw_uid not in (0, 65534))


def taken_on(harness: SlurmHarness, name: str) -> frozenset[int]:
    return next(node for node in harness.reopen().inventory().nodes if node.name == name).taken_gpu_indices


def test_two_attempts_can_be_pinned_to_the_same_gpu_and_a_third_waits(harness: SlurmHarness) -> None:
    script = 'echo "$CUDA_VISIBLE_DEVICES" > "$LUCID_OUTPUT_DIR/gpu"; sleep 30'
    place = Placement.of({"n1": [2, 5]})
    assert harness.slurm.capabilities.can_pack
    texts = [finding.text for finding in examine(harness.slurm)]
    assert "GPUs are pinned one by one, and pairs by typed shards" in texts
    pair = [harness.start(script, placement=place) for _ in range(2)]
    assert [harness.wait_output(attempt, "gpu") for attempt in pair] == ["2,5\n", "2,5\n"]
    third = harness.shell("true", placement=place)
    harness.slurm.launch(third)
    time.sleep(1.0)
    seen = harness.see(third.attempt_id)
    assert seen.sight is Sight.QUEUED and "Resources" in str(seen.detail)
    harness.slurm.stop(third.attempt_id, 1.0, "enough waited")
    assert ended(harness, third.attempt_id).reason == "stopped"


def test_every_end_that_slurm_makes_has_its_own_name(harness: SlurmHarness, testbed: SlurmTestbed) -> None:
    by_user = harness.start("sleep 60")
    testbed.run("scancel", str(harness.submitted(by_user)))
    assert ended(harness, by_user).reason == "cancelled"
    held = harness.shell("true")
    testbed.run("scontrol", "update", "NodeName=n1,n2,n3", "State=DRAIN", "Reason=somebody's own")
    try:
        harness.slurm.launch(held)
        testbed.run("scancel", str(harness.submitted(held.attempt_id)))
        assert ended(harness, held.attempt_id).reason == "cancelled", "also before it ever ran"
    finally:
        testbed.run("scontrol", "update", "NodeName=n1,n2,n3", "State=RESUME")
        testbed.wait_up()
    evicted = harness.start("sleep 60", placement=Placement.of({"n3": [0]}))
    testbed.run(
        "sbatch",
        "--parsable",
        "-p",
        "high",
        "-w",
        "n3",
        "--exclusive",
        "--time=1",
        "-o",
        "/dev/null",
        "--wrap",
        "sleep 2",
    )
    assert ended(harness, evicted).reason == "preempted"


def test_the_controller_may_go_and_come_back(harness: SlurmHarness, testbed: SlurmTestbed) -> None:
    runs, stops, ends_meanwhile = (harness.start(script) for script in ("sleep 40", "sleep 40", "sleep 1; exit 3"))
    harness.slurm.commands.timeout_s = 2.0
    testbed.stop_controller()
    try:
        assert harness.see(runs).sight is Sight.UNOBSERVED, "it gives no answer in time"
        harness.slurm.commands.timeout_s = 20.0
        assert harness.see(runs).sight is Sight.UNOBSERVED, "it answers, with an empty list of jobs"
        with pytest.raises(ExternalError):
            harness.reopen().inventory()
        harness.slurm.commands.timeout_s = 2.0
        waiting = harness.shell(f"{RUN_ONCE}; exit 5")
        with pytest.raises(ExternalError):
            harness.slurm.launch(waiting)
        with pytest.raises(ExternalError):
            harness.slurm.stop(stops, 1.0, "told on the shared disk")
        assert ended(harness, stops).reason == "stopped", "its wrapper reads the request by itself"
    finally:
        testbed.start_controller()
    harness.slurm.commands.timeout_s = 20.0
    harness.wait(lambda: harness.see(runs).sight is Sight.RUNNING, "it is seen again")
    assert ended(harness, ends_meanwhile).exit_code == 3
    testbed.wait_up()
    harness.slurm.launch(waiting)
    assert ended(harness, waiting.attempt_id).exit_code == 5
    assert harness.output(waiting.attempt_id, "runs") == b"run\n"
    harness.slurm.stop(runs, 0.0, "test")
    assert ended(harness, runs).reason == "stopped"


def test_a_submission_whose_answer_was_lost_is_found_by_its_tag(harness: SlurmHarness) -> None:
    request = harness.shell(f"{RUN_ONCE}; sleep 1")
    harness.slurm.launch(request)
    (harness.folder(request.attempt_id) / "slurm.json").unlink()  # killed between sbatch and note
    assert harness.reopen().launch(request).already
    assert ended(harness, request.attempt_id).exit_code == 0
    assert harness.output(request.attempt_id, "runs") == b"run\n"


def test_jobs_whose_node_is_lost_are_fenced_before_they_are_started_again(
    harness: SlurmHarness, testbed: SlurmTestbed
) -> None:
    obeys, hangs = (harness.start("exec sleep 300", placement=Placement.of({"n2": [gpu]})) for gpu in (1, 2))
    frozen = [harness.wrapper_pid(hangs), harness.main_pid(hangs)]
    main = harness.main_pid(obeys)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)  # as on a machine that hangs: nobody obeys
    testbed.kill_node("n2")
    try:
        seen = harness.wait_sight(obeys, Sight.VANISHED)
        assert "lost its node" in str(seen.detail)
        assert harness.is_alive(main), "the old process goes on, whatever Slurm believes"
        job = next(job for job in harness.slurm.commands.jobs() if job.job_id == harness.submitted(obeys))
        assert is_over(job), "and Slurm itself does not start it again"
        down = next(node for node in harness.slurm.inventory().nodes if node.name == "n2")
        assert down.condition is NodeCondition.UNOBSERVED
        assert harness.slurm.fence(obeys) >= 1
        assert not harness.is_alive(main), "its own wrapper obeyed the mark on the shared disk"
        assert ended(harness, obeys).reason == "fenced"
        patient = harness.reopened(dead_node_fence_s=600.0)
        with pytest.raises(ExternalError, match="may still run on n2"):
            patient.fence(hangs)
        assert harness.see(hangs).sight is Sight.VANISHED
        assert harness.reopened(dead_node_fence_s=0.0).fence(hangs) == 0, "it counts as dead after its time"
        assert "silent" in str(ended(harness, hangs).detail)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGKILL)
        testbed.start_node("n2")
        testbed.wait_up()


def test_a_controller_killed_in_the_midst_of_submissions_loses_and_doubles_nothing(
    harness: SlurmHarness, testbed: SlurmTestbed
) -> None:
    harness.slurm.commands.timeout_s = 3.0
    requests = [harness.shell(f"{RUN_ONCE}; exit 5", placement=Placement.of({"n1": [gpu]})) for gpu in range(6)]

    def submit(request: LaunchRequest) -> None:
        with suppress(ExternalError):
            harness.slurm.launch(request)

    with ThreadPoolExecutor(6) as pool:
        done = [pool.submit(submit, request) for request in requests]
        time.sleep(0.15)
        testbed.kill_controller()
        for one in done:
            one.result()
    testbed.start_controller()
    harness.slurm.commands.timeout_s = 20.0
    harness.wait(lambda: harness.slurm.commands.jobs() is not None, "it answers")
    testbed.wait_up()
    for request in requests:
        harness.slurm.launch(request)
    for request in requests:
        attempt = request.attempt_id
        harness.wait(lambda a=attempt: harness.see(a).sight in (Sight.EXITED, Sight.VANISHED), "it ends, or is lost")
        if harness.see(attempt).sight is Sight.VANISHED:  # accepted, and forgotten before the controller had saved it
            harness.slurm.fence(attempt)
            assert harness.output(attempt, "runs") in (None, b"run\n")
        else:
            assert ended(harness, attempt).exit_code == 5
            assert harness.output(attempt, "runs") == b"run\n"


def test_answers_that_make_no_sense_conclude_nothing(harness: SlurmHarness) -> None:
    attempt = harness.start("sleep 30")
    commands = harness.slurm.commands
    for number, out in enumerate(("", "not json", '{"jobs": [{"job_id": 1}]}', '{"jobs": {}}', '{"jobs": []}')):
        commands.folder = failing_commands(harness.root / f"garbage-{number}", "", status=0, out=out)
        sight = harness.see(attempt).sight
        assert sight is (Sight.VANISHED if out == '{"jobs": []}' else Sight.UNOBSERVED), out
    commands.folder = None
    assert harness.see(attempt).sight is Sight.RUNNING
    harness.slurm.fence(attempt)


def test_others_drains_are_never_touched(harness: SlurmHarness, testbed: SlurmTestbed) -> None:
    cluster = harness.slurm
    testbed.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=broken fan, see ticket")
    try:
        cluster.isolate("n1", [], "lucid", "ECC errors")
        assert "broken fan" in testbed.run("scontrol", "show", "node", "n1")
        owners = [i.owner for i in next(n for n in cluster.inventory().nodes if n.name == "n1").isolations]
        assert owners == ["lucid", "slurm:root"]
        cluster.restore("n1", [], "lucid")
        shown = testbed.run("scontrol", "show", "node", "n1")
        assert "DRAIN" in shown and "broken fan" in shown
    finally:
        testbed.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    cluster.isolate("n1", [], "lucid", "ECC errors")
    assert "lucid: lucid: ECC errors" in testbed.run("scontrol", "show", "node", "n1")
    testbed.run("scontrol", "update", "NodeName=n1", "State=RESUME")  # an administrator knows better
    cluster.isolate("n1", [], "lucid", "ECC errors")
    assert "DRAIN" not in testbed.run("scontrol", "show", "node", "n1"), "it is not fought over"
    cluster.restore("n1", [], "lucid")
    testbed.wait_up()


def test_a_node_that_others_took_down_keeps_their_reason_and_stays_down(
    harness: SlurmHarness, testbed: SlurmTestbed
) -> None:
    cluster = harness.slurm
    testbed.run("scontrol", "update", "NodeName=n3", "State=DOWN", "Reason=burnt board, see ticket")
    try:
        cluster.isolate("n3", [], "lucid", "ECC errors")
        assert "burnt board" in testbed.run("scontrol", "show", "node", "n3")
        cluster.restore("n3", [], "lucid")
        assert "State=DOWN " in testbed.run("scontrol", "show", "node", "n3")
    finally:
        testbed.run("scontrol", "update", "NodeName=n3", "State=RESUME")
    testbed.wait_up()
    cluster.isolate("n3", [], "lucid", "ECC errors")
    ours = "Reason=lucid: lucid: ECC errors"  # as when Slurm itself misses a node that has a reason already
    testbed.run("scontrol", "update", "NodeName=n3", "State=DOWN", ours)
    cluster.restore("n3", [], "lucid")
    shown = testbed.run("scontrol", "show", "node", "n3")
    assert "State=DOWN" in shown and "DRAIN" not in shown, "ours is lifted, and nothing else"
    testbed.run("scontrol", "update", "NodeName=n3", "State=RESUME")
    testbed.wait_up()


def test_gpus_of_jobs_that_are_not_ours_are_taken(harness: SlurmHarness, testbed: SlurmTestbed) -> None:
    words = ["sbatch", "--parsable", "-w", "n3", "-o", "/dev/null"]
    one = testbed.run(*words, "--gres=gpu:g3:1,gpu:g5:1", "--wrap", "sleep 60").strip()
    other = testbed.run(*words, "--gres=shard:g0:1", "--wrap", "sleep 60").strip()
    ours = harness.start("sleep 60", placement=Placement.of({"n3": [7]}))

    try:
        harness.wait(lambda: taken_on(harness, "n3") == {0, 3, 5}, "theirs are taken, ours are ours")
    finally:
        testbed.run("scancel", one, other)
    harness.wait(lambda: not taken_on(harness, "n3"), "they are given back")
    harness.slurm.fence(ours)


def test_a_tag_that_somebody_else_wrote_is_believed_in_nothing(harness: SlurmHarness, testbed: SlurmTestbed) -> None:
    request = harness.shell(f"{RUN_ONCE}; exit 4", placement=Placement.of({"n1": [6]}))
    forged = ["--comment", f"lucid:{request.attempt_id}", "--job-name", f"lucid-{request.job_id}"]
    words = ["sbatch", "--parsable", f"--uid={someone()}", "-w", "n3", "--chdir=/", "-o", "/dev/null"]
    theirs = testbed.run(*words, *forged, "--gres=gpu:g2:1", "--wrap", "sleep 60").strip()
    try:
        harness.wait(lambda: taken_on(harness, "n3") == {2}, "its GPU is taken, whatever its comment says")
        assert harness.see(request.attempt_id).sight is Sight.NOT_STARTED
        assert not harness.slurm.launch(request).already
        assert ended(harness, request.attempt_id).exit_code == 4
        harness.slurm.fence(request.attempt_id)
        harness.slurm.stop(request.attempt_id, 0.0, "test")
        assert "RUNNING" in testbed.run("squeue", "-h", "-j", theirs, "-o", "%T"), "it is not touched"
    finally:
        testbed.run("scancel", theirs)
    harness.wait(lambda: not taken_on(harness, "n3"), "it has ended")


def test_a_job_of_nobody_is_refused_for_good_and_one_of_another_user_runs_as_that_user(testbed: SlurmTestbed) -> None:
    folder = short_folder()
    folder.chmod(0o755)
    harness = SlurmHarness(folder, testbed, partitions=("gpu",), submit_as_user=True, python="/usr/bin/python3")
    try:
        with pytest.raises(InputError, match="no-such-user"):
            harness.slurm.launch(harness.shell("true", user="no-such-user"))
        request = harness.shell('id -un > "$LUCID_OUTPUT_DIR/me"', user=someone())
        harness.slurm.launch(request)
        assert ended(harness, request.attempt_id).exit_code == 0
        assert harness.output(request.attempt_id, "me") == f"{someone()}\n".encode()
    finally:
        harness.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(("version", "said"), [("3.8", "it needs Linux and Python 3.9 or newer"), (None, "not found")])
def test_a_node_without_a_usable_python_says_so(harness: SlurmHarness, version: str | None, said: str) -> None:
    python = "python-of-no-such-name" if version is None else str(require_python(version))
    cluster = harness.reopened(python=python)
    request = harness.shell(RUN_ONCE)
    cluster.launch(request)
    harness.wait(lambda: cluster.poll([request.attempt_id])[request.attempt_id].sight is Sight.VANISHED, "it fails")
    seen = cluster.poll([request.attempt_id])[request.attempt_id]
    assert said in str(seen.detail) and not seen.never_ran
    assert cluster.fence(request.attempt_id) == 0
    assert harness.output(request.attempt_id, "runs") is None


def test_ranks_of_a_job_on_two_nodes(harness: SlurmHarness) -> None:
    both = Placement.of({"n1": [0, 1], "n2": [0, 1]})
    told = "$NODE_RANK $NNODES $MASTER_ADDR $CUDA_VISIBLE_DEVICES"
    # Rank 1 fails once the other has begun, and once what that one said has had the time to arrive.
    rank_1 = "until test -e began; do sleep 0.1; done; sleep 1; exit 9"
    script = f'echo "{told}"; test $NODE_RANK = 0 || {{ {rank_1}; }}; touch began; sleep 60'
    attempt = harness.start(script, placement=both)
    record = ended(harness, attempt)
    assert (record.exit_code, record.detail) == (9, "rank 1 on n2 failed first")
    assert {"0: 0 2 n1 0,1", "1: 1 2 n1 0,1"} <= set(harness.log(attempt).decode().splitlines())


def test_a_site_that_lets_slurm_choose_gpus_says_what_it_cannot(tmp_path: Path) -> None:
    folder = short_folder()
    testbed = SlurmTestbed(folder / "slurm", nodes=1, gpus=4, sharing="plain")
    try:
        harness = SlurmHarness(tmp_path, testbed)
        assert harness.slurm.capabilities.pairs_by == "allocation"
        advice = " ".join(finding.advice or "" for finding in examine(harness.slurm))
        assert "Name=gpu Type=g0" in advice and "Name=shard Type=g0 Count=2" in advice and "cgroup" in advice
        attempt = harness.start('echo "$CUDA_VISIBLE_DEVICES"; exit 2', placement=Placement.of({"n1": [1, 2]}))
        assert ended(harness, attempt).exit_code == 2
        assert len(harness.log(attempt).split(b",")) == 2
        harness.close()
    finally:
        testbed.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_time_limit_of_slurms_is_told_by_its_name(limited: tuple[SlurmHarness, str]) -> None:
    harness, attempt = limited
    harness.patience_s = 90.0
    assert ended(harness, attempt).reason == "timed_out", "Slurm looks at limits twice a minute"


def test_a_full_shared_disk_starts_nothing_twice_and_loses_no_end(tmp_path: Path, testbed: SlurmTestbed) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system can only be mounted by root: {mounted.stderr.strip()}")
    harness = SlurmHarness(disk, testbed, partitions=("gpu",))
    try:
        fills = 'head -c 100000000 /dev/zero > "$LUCID_OUTPUT_DIR/fill" 2> /dev/null; echo unheard; exit 3'
        record = harness.wait_end(harness.start(fills))
        assert (record.exit_code, record.reason) == (3, "exited"), "the record of its end had room kept for it"
        request = harness.shell(f"{RUN_ONCE}; exit 4")
        with (disk / "fill").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4_096))
        with pytest.raises(ExternalError, match="launch it again"):
            harness.slurm.launch(request)
        assert harness.see(request.attempt_id).sight is Sight.NOT_STARTED
        for left in disk.rglob("fill"):
            left.unlink()
        assert not harness.slurm.launch(request).already
        assert harness.wait_end(request.attempt_id).exit_code == 4
        assert harness.wait_output(request.attempt_id, "runs") == "run\n"
    finally:
        for left in disk.rglob("fill"):
            left.unlink()
        harness.close()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
