"""What goes wrong with machines reached by SSH, done to real ones: nothing is lost, nothing started twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lucid_pipelines.domain.cluster import Node, NodeCondition, Placement
from lucid_pipelines.domain.errors import ExternalError, UnreachableError
from lucid_pipelines.ports import Sight
from lucid_pipelines.resources.clusters.ssh import SshCluster, SshNode
from tests.support_ssh.machines import Machines, can_make_namespaces
from tests.support_ssh.ssh_harness import SshHarness

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.ssh]
RUN_ONCE = 'echo run >> "$LUCID_OUTPUT_DIR/runs"'


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = Machines(tmp_path_factory.mktemp("machines"), 2, apart=can_make_namespaces())
    yield machines
    machines.close()


@pytest.fixture
def harness(tmp_path: Path, machines: Machines) -> Iterator[SshHarness]:
    harness = SshHarness(tmp_path, machines)
    yield harness
    harness.close()


def node_of(cluster: SshCluster, name: str = "node-1") -> Node:
    return next(node for node in cluster.inventory().nodes if node.name == name)


def with_options(harness: SshHarness, cluster: Mapping[str, object] | None = None, /, **changes: object) -> SshCluster:
    """A cluster with its own connections; ``cluster`` changes what is not the connections'."""
    ssh = replace(harness.options_for_ssh(), **changes)  # pyright: ignore[reportArgumentType]
    before, harness.changes = harness.changes, {**harness.changes, **(cluster or {}), "ssh": ssh}
    try:
        return harness.reopen()
    finally:
        harness.changes = before


def test_a_node_whose_cable_is_out_keeps_its_jobs_and_gets_no_more(harness: SshHarness, machines: Machines) -> None:
    if machines[0].link is None:
        pytest.skip("needs network namespaces: root with CAP_NET_ADMIN, and iproute2")
    cluster = with_options(harness, connect_timeout_s=1.0, call_timeout_s=2.0)
    running = harness.start("sleep 30; exit 3")
    ends_meanwhile = harness.start('echo $$ > "$LUCID_OUTPUT_DIR/pid"; sleep 1; exit 4')
    assert cluster.poll([running])[running].sight is Sight.RUNNING
    assert node_of(cluster).condition is NodeCondition.READY
    machines.cut(machines[0])
    try:
        for _ in range(3):
            seen = cluster.poll([running, ends_meanwhile])
            assert {one.sight for one in seen.values()} == {Sight.UNOBSERVED}
            assert all(one.exit is None and "cannot be reached" in str(one.detail) for one in seen.values())
        with pytest.raises(UnreachableError):
            cluster.launch(harness.shell("true"))
        with pytest.raises(ExternalError):
            cluster.fence(running)
        harness.wait(lambda: node_of(cluster).condition is NodeCondition.UNOBSERVED, "it is noticed")
        silent = node_of(cluster)
        assert silent.usable_gpus == () and silent.detail is not None and "silent for" in silent.detail
        assert "-" not in silent.detail.partition(" s")[0]
        assert node_of(cluster, "node-2").condition is NodeCondition.READY
        begin = time.monotonic()
        cluster.poll([running])
        assert time.monotonic() - begin < 1.0, "a node that is known to be away costs a pass nothing"
    finally:
        machines.mend(machines[0])
    harness.wait(lambda: cluster.poll([running])[running].sight is Sight.RUNNING, "it is seen again")
    record = cluster.poll([ends_meanwhile])[ends_meanwhile].exit
    assert record is not None and record.exit_code == 4, "it ended while nobody looked"
    cluster.stop(running, 0.0, "test")


def test_a_minute_without_network_loses_nothing(harness: SshHarness, machines: Machines) -> None:
    if machines[0].link is None:
        pytest.skip("needs network namespaces: root with CAP_NET_ADMIN, and iproute2")
    cluster = with_options(harness, {"unreachable_grace_s": 20.0}, connect_timeout_s=1.0, call_timeout_s=3.0)

    def begun(script: str, **changes: object) -> str:
        request = harness.shell(f"{RUN_ONCE}; {script}", **changes)
        cluster.launch(request)
        return request.attempt_id

    counts = begun("i=0; while test $i -lt 700; do echo line $i; i=$((i+1)); sleep 0.1; done; exit 5")
    lasts = begun("sleep 600")
    ends = {
        begun("sleep 8; exit 4"): (4, None),
        begun("sleep 25; echo the end; exit 0"): (0, None),
        begun("sleep 40; kill -9 $$"): (None, 9),
    }
    elsewhere = begun("sleep 600", placement=Placement.of({"node-2": [1]}))
    there = [counts, lasts, *ends]
    harness.wait(lambda: b"line 3" in cluster.read_log(counts, 0, 4096).data, "it prints")
    before = cluster.read_log(counts, 0, 1 << 20)
    seen_at = node_of(cluster).observed_at
    assert seen_at is not None
    machines.cut(machines[0])
    cut_at = time.monotonic()
    never_sent = harness.shell(f"{RUN_ONCE}; exit 6")
    said: list[str] = []
    try:
        while time.monotonic() - cut_at < 60.0:
            seen = cluster.poll([*there, elsewhere])
            assert {seen[one].sight for one in there} <= {Sight.UNOBSERVED, Sight.RUNNING}
            assert all(seen[one].exit is None for one in there)
            assert seen[elsewhere].sight is Sight.RUNNING
            node = node_of(cluster)
            if node.condition is NodeCondition.UNOBSERVED:
                assert node.usable_gpus == ()
                assert node.observed_at is not None and node.observed_at <= datetime.now(UTC)
                assert {seen[one].sight for one in there} == {Sight.UNOBSERVED} or not said
                said.append(str(node.detail))
                for refused in (never_sent, harness.requests[lasts]):
                    with pytest.raises(UnreachableError):
                        cluster.launch(refused)
            time.sleep(1.0)
        assert "silent for" in said[0] and "longer than" not in said[0]
        assert "longer than the 20 s that are allowed" in said[-1], "it is reported once its grace is over"
        silent = node_of(cluster)
        assert silent.observed_at is not None
        assert (datetime.now(UTC) - silent.observed_at).total_seconds() > 45.0, "as of when it was seen last"
        with pytest.raises(ExternalError):
            cluster.fence(lasts)
    finally:
        machines.mend(machines[0])
    harness.wait(lambda: cluster.poll([lasts])[lasts].sight is Sight.RUNNING, "it is seen again")
    assert node_of(cluster).condition is NodeCondition.READY
    for attempt, (code, signal) in ends.items():
        record = cluster.poll([attempt])[attempt].exit
        assert record is not None and (record.exit_code, record.signal, record.reason) == (code, signal, "exited")
    cluster.launch(never_sent)
    harness.wait(lambda: cluster.poll([counts])[counts].sight is Sight.EXITED, "it counts to its end")
    record = cluster.poll([counts])[counts].exit
    assert record is not None and record.exit_code == 5
    rest = cluster.read_log(counts, before.next_offset, 1 << 20).data
    assert (before.data + rest).decode().splitlines() == [f"line {number}" for number in range(700)]
    assert cluster.launch(harness.requests[lasts]).already
    harness.wait(lambda: cluster.poll([never_sent.attempt_id])[never_sent.attempt_id].sight is Sight.EXITED, "it runs")
    for attempt in (*there, elsewhere, never_sent.attempt_id):
        assert harness.output(attempt, "runs") == b"run\n", "started once"
    machines.cut(machines[0])
    try:
        harness.wait(lambda: cluster.poll([lasts])[lasts].sight is Sight.UNOBSERVED, "it is out again")
        again = str(node_of(cluster).detail)
        assert "silent for" in again and "longer than" not in again, "its grace has begun anew"
    finally:
        machines.mend(machines[0])
    harness.wait(lambda: cluster.poll([lasts])[lasts].sight is Sight.RUNNING, "it is back")
    for attempt in (lasts, elsewhere):
        cluster.fence(attempt)


def test_a_dead_connection_is_replaced_without_anybody_noticing(harness: SshHarness, machines: Machines) -> None:
    attempt = harness.start("sleep 30")
    machines.stop(machines[0])
    machines.start(machines[0])
    harness.wait(lambda: harness.see(attempt).sight is Sight.RUNNING, "it is seen over a new connection")
    harness.ssh.fence(attempt)


def test_a_changed_host_key_is_refused_until_somebody_says_otherwise(harness: SshHarness, machines: Machines) -> None:
    attempt = harness.start("sleep 30")
    machines.new_host_key(machines[0])
    try:
        fresh = harness.reopen()
        seen = fresh.poll([attempt])[attempt]
        assert seen.sight is Sight.UNOBSERVED
        assert "host key has CHANGED" in str(seen.detail) and "ssh-keygen -R" in str(seen.detail)
        with pytest.raises(UnreachableError, match="CHANGED"):
            harness.reopen().launch(harness.shell("true"))
    finally:
        machines.trust()
    assert harness.reopen().poll([attempt])[attempt].sight is Sight.RUNNING
    harness.reopen().fence(attempt)


def test_an_unknown_host_is_refused_with_its_fingerprint(harness: SshHarness, tmp_path: Path) -> None:
    cluster = with_options(harness, known_hosts=(tmp_path / "nobody",))
    detail = str(node_of(cluster).detail)
    assert "not known" in detail and "SHA256:" in detail


def test_who_is_not_let_in_is_told_what_to_mend(harness: SshHarness, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger)], check=True)
    for changes in ({"key_file": stranger}, {"user": "nobody-of-this-name"}):
        detail = str(node_of(with_options(harness, **changes)).detail)
        assert "authorized_keys" in detail and "cluster.ssh" in detail


def test_a_node_without_a_usable_python_says_so(harness: SshHarness, tmp_path: Path) -> None:
    assert "install Python 3.9" in str(node_of(with_options(harness, python="python-of-no-such-name")).detail)
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\necho 'LUCID-OLD-PYTHON 3.6.8' >&2; exit 1\n")
    old.chmod(0o755)
    assert "Python 3.6.8" in str(node_of(with_options(harness, python=str(old))).detail)


def test_a_login_script_that_talks_and_an_agent_that_was_removed_do_no_harm(harness: SshHarness) -> None:
    noisy = harness.root / "noisy-python"
    noisy.write_text(f'#!/bin/sh\necho Welcome to this machine\nexec {shutil.which("python3")} "$@"\n')
    noisy.chmod(0o755)
    cluster = with_options(harness, python=str(noisy))
    assert node_of(cluster).condition is NodeCondition.READY
    shutil.rmtree(harness.root / "nodes" / "agent")
    cluster.close()
    request = harness.shell("exit 5")
    cluster.launch(request)
    assert harness.wait_end(request.attempt_id).exit_code == 5


def test_a_full_disk_on_a_node_starts_nothing_and_says_so(harness: SshHarness, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=False)
    if mounted.returncode != 0:
        pytest.skip("this container may not mount")
    machines = Machines(tmp_path / "machines", 1)  # on loopback: a namespace of ip's would not see the mount
    try:
        (small / "lucid").mkdir()
        here = SshHarness(tmp_path / "here", machines)
        cluster = with_options(here, root=str(small / "lucid"))
        assert node_of(cluster).condition is NodeCondition.READY
        filler = (small / "filler").open("wb", buffering=0)
        with pytest.raises(OSError, match="No space"):
            while True:
                filler.write(bytes(4096))
        request = here.shell('echo run >> "$LUCID_OUTPUT_DIR/runs"; exit 6')
        with pytest.raises(ExternalError, match=r"No space|disk"):
            cluster.launch(request)
        assert cluster.poll([request.attempt_id])[request.attempt_id].sight in (Sight.NOT_STARTED, Sight.UNOBSERVED)
        filler.truncate(0)
        filler.close()
        cluster.launch(request)
        here.wait(lambda: cluster.poll([request.attempt_id])[request.attempt_id].sight is Sight.EXITED, "it runs")
        runs = small / "lucid" / "jobs" / request.job_id / "outputs" / "runs"
        assert runs.read_text() == "run\n"
    finally:
        machines.close()
        subprocess.run(["umount", "-l", str(small)], check=False)


def test_two_attempts_can_be_pinned_to_the_same_gpu(harness: SshHarness) -> None:
    script = 'echo "$CUDA_VISIBLE_DEVICES" > "$LUCID_OUTPUT_DIR/gpu"; sleep 30'
    pair = [harness.start(script, placement=Placement.of({"node-1": [2]})) for _ in range(2)]
    assert [harness.wait_output(attempt, "gpu") for attempt in pair] == ["2\n", "2\n"]
    (sample,) = [s for s in harness.ssh.sample() if (s.node, s.gpu_index) == ("node-1", 2)]
    assert sample.process_count == 2
    for attempt in pair:
        harness.ssh.fence(attempt)


def test_a_job_on_two_nodes_knows_its_ranks_and_ends_as_one(harness: SshHarness) -> None:
    both = Placement.of({"node-1": [0, 1], "node-2": [3]})
    script = (
        'echo "$NODE_RANK $NNODES $MASTER_ADDR $MASTER_PORT $CUDA_VISIBLE_DEVICES" > "$LUCID_OUTPUT_DIR/$NODE_RANK"'
    )
    first = harness.shell(f"{script}; test $NODE_RANK = 0 || exit 9; sleep 60", placement=both)
    roots = [harness.root / f"disk-{number}" for number in (1, 2)]
    nodes = [replace(node, root=str(root)) for node, root in zip(harness.nodes(), roots, strict=True)]
    cluster = cluster_of(harness, nodes)
    cluster.launch(first)
    harness.wait(lambda: cluster.poll([first.attempt_id])[first.attempt_id].sight is Sight.EXITED, "all have ended")
    record = cluster.poll([first.attempt_id])[first.attempt_id].exit
    assert record is not None and (record.exit_code, record.reason) == (9, "exited")
    assert record.detail is not None and "rank 1 on node-2" in record.detail
    said = [(root / "jobs" / first.job_id / "outputs" / str(n)).read_text().split() for n, root in enumerate(roots)]
    assert [words[:2] + words[4:] for words in said] == [["0", "2", "0,1"], ["1", "2", "3"]]
    assert said[0][2:4] == said[1][2:4], "both know the same master"


def test_a_node_that_was_taken_out_gives_its_attempts_up(harness: SshHarness) -> None:
    attempt = harness.start("sleep 30", placement=Placement.of({"node-2": [0]}))
    left = cluster_of(harness, harness.nodes()[:1])
    assert left.poll([attempt])[attempt].sight is Sight.VANISHED
    assert left.fence(attempt) == 0
    record = left.poll([attempt])[attempt].exit
    assert record is not None and record.reason == "fenced"
    harness.reopen().fence(attempt)


def cluster_of(harness: SshHarness, nodes: Sequence[SshNode]) -> SshCluster:
    """A cluster of other nodes in the same folder."""
    before = harness.nodes
    harness.nodes = lambda: nodes  # pyright: ignore[reportAttributeAccessIssue]
    try:
        return harness.reopen()
    finally:
        harness.nodes = before  # pyright: ignore[reportAttributeAccessIssue]
