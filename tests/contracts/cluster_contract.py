"""What every adapter of the ``Cluster`` port must do, seen from outside.

An adapter's tests subclass ``ClusterContract`` and provide a fixture ``harness`` (a ``ClusterHarness``)::

    class TestMyCluster(ClusterContract):
        @pytest.fixture
        def harness(self, ...) -> Iterator[ClusterHarness]: ...

Commands use ``sh``, ``sleep``, ``env``, ``printf`` and ``head``; nothing else is expected where jobs run.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from multiprocessing.synchronize import Barrier

import pytest

from lucid_pipelines.domain.cluster import Node, NodeCondition, Placement
from lucid_pipelines.domain.errors import InputError, NotFoundError
from lucid_pipelines.domain.job import ExitRecord
from lucid_pipelines.ports import Cluster, LaunchRequest, Observation, Sight

RUN_ONCE = 'echo run >> "$LUCID_OUTPUT_DIR/runs"'
ODD_TEXTS = ("", " ", "two words", "it's", 'say "hi"', "a\nb", "$HOME `id` ;|&", "émoji 😀", "back\\slash", "-n", "*")


class ClusterHarness(ABC):
    """An adapter under test, and the few things that the tests must do behind its back."""

    cluster: Cluster
    patience_s: float = 10.0
    """How long anything that must happen may take here."""
    jobs_outlive_wrappers: bool = True
    """Whether a job goes on when what watches it is killed."""

    @abstractmethod
    def reopen(self) -> Cluster:
        """A new adapter on the same cluster, as after a restart of the control plane."""

    @abstractmethod
    def request(self, *command: str, **changes: object) -> LaunchRequest:
        """A launch of a new attempt on one GPU; ``changes`` replace fields of the request."""

    @abstractmethod
    def output(self, attempt_id: str, name: str) -> bytes | None:
        """A file that the job wrote into ``LUCID_OUTPUT_DIR``; ``None`` when it is not there."""

    @abstractmethod
    def processes(self, attempt_id: str) -> list[int]:
        """Living processes that carry the attempt's ``LUCID_ATTEMPT_ID``."""

    @abstractmethod
    def is_alive(self, pid: int) -> bool:
        """Whether a process runs where jobs run."""

    @abstractmethod
    def kill_wrapper(self, attempt_id: str) -> None:
        """SIGKILL to whatever watches the attempt, not to the job."""

    @abstractmethod
    def blind(self, attempt_id: str) -> AbstractContextManager[object]:
        """Make the attempt impossible to observe for a while."""

    def shell(self, script: str, **changes: object) -> LaunchRequest:
        return self.request("sh", "-c", script, **changes)

    def start(self, script: str, **changes: object) -> str:
        """Launch a shell script; return its attempt id."""
        request = self.shell(script, **changes)
        self.cluster.launch(request)
        return request.attempt_id

    def see(self, attempt_id: str) -> Observation:
        return self.cluster.poll([attempt_id])[attempt_id]

    def wait(self, what: Callable[[], bool], said: str) -> None:
        deadline = time.monotonic() + self.patience_s
        while not what():
            assert time.monotonic() < deadline, f"did not happen within {self.patience_s:g} s: {said}"
            time.sleep(0.01)

    def wait_output(self, attempt_id: str, name: str) -> str:
        """What the job wrote into a file, as soon as it ends in a newline."""
        self.wait(lambda: (self.output(attempt_id, name) or b"").endswith(b"\n"), f"the job writes {name}")
        return (self.output(attempt_id, name) or b"").decode()

    def wait_sight(self, attempt_id: str, sight: Sight) -> Observation:
        self.wait(lambda: self.see(attempt_id).sight is sight, f"{attempt_id} is {sight}")
        return self.see(attempt_id)

    def wait_end(self, attempt_id: str) -> ExitRecord:
        record = self.wait_sight(attempt_id, Sight.EXITED).exit
        assert record is not None
        return record

    def finish(self, script: str, **changes: object) -> ExitRecord:
        return self.wait_end(self.start(script, **changes))

    def log(self, attempt_id: str) -> bytes:
        """The whole log, read in pieces."""
        parts: list[bytes] = []
        offset = 0
        while True:
            chunk = self.cluster.read_log(attempt_id, offset, 1 << 20)
            assert chunk.offset == offset
            assert chunk.next_offset == offset + len(chunk.data)
            if not chunk.data:
                return b"".join(parts)
            parts.append(chunk.data)
            offset = chunk.next_offset


class ClusterContract:
    """The tests. A capability that the adapter denies skips those that need it."""

    # --- what it is ---

    def test_it_is_a_cluster_that_says_what_it_can(self, harness: ClusterHarness) -> None:
        assert isinstance(harness.cluster, Cluster)
        flags = harness.cluster.capabilities
        values = (flags.can_pack, flags.can_isolate, flags.can_check, flags.can_adopt)
        assert all(isinstance(value, bool) for value in values)

    def test_the_inventory_names_every_node_once_with_its_gpus(self, harness: ClusterHarness) -> None:
        inventory = harness.cluster.inventory()
        names = [node.name for node in inventory.nodes]
        assert names
        assert len(set(names)) == len(names)
        assert inventory.observed_at.tzinfo is not None
        for node in inventory.nodes:
            indices = [gpu.index for gpu in node.gpus]
            assert indices == sorted(set(indices))
            assert node.condition is NodeCondition.READY

    def test_samples_are_in_range_and_name_known_gpus(self, harness: ClusterHarness) -> None:
        known = {(node.name, gpu.index) for node in harness.cluster.inventory().nodes for gpu in node.gpus}
        for sample in harness.cluster.sample():
            assert (sample.node, sample.gpu_index) in known
            assert sample.source
            assert sample.sampled_at.tzinfo is not None
            for share in (sample.gpu_util_pct, sample.memory_util_pct):
                assert share is None or 0 <= share <= 100

    # --- launch ---

    def test_a_command_runs_and_its_end_is_recorded(self, harness: ClusterHarness) -> None:
        request = harness.shell("exit 7")
        result = harness.cluster.launch(request)
        assert (result.attempt_id, result.already) == (request.attempt_id, False)
        seen = harness.wait_sight(request.attempt_id, Sight.EXITED)
        record = seen.exit
        assert record is not None
        assert (record.exit_code, record.signal, record.reason) == (7, None, "exited")
        assert record.started_at is not None
        assert record.started_at <= record.ended_at <= seen.as_of
        assert seen.source

    def test_a_signal_is_not_an_exit_code(self, harness: ClusterHarness) -> None:
        record = harness.finish("kill -SEGV $$")
        assert (record.exit_code, record.signal, record.reason) == (None, signal.SIGSEGV, "exited")

    def test_arguments_and_environment_arrive_unchanged(self, harness: ClusterHarness) -> None:
        script = (
            'for a in "$@"; do printf "%s\\0" "$a"; done > "$LUCID_OUTPUT_DIR/args"; env -0 > "$LUCID_OUTPUT_DIR/env"'
        )
        env = {f"ODD_{number}": text for number, text in enumerate(ODD_TEXTS)}
        request = harness.request("sh", "-c", script, "name", *ODD_TEXTS, env=env)
        harness.cluster.launch(request)
        assert harness.wait_end(request.attempt_id).exit_code == 0
        arguments = harness.output(request.attempt_id, "args")
        assert arguments == b"".join(text.encode() + b"\0" for text in ODD_TEXTS)
        found = _environment(harness, request.attempt_id)
        assert {name: found[name] for name in env} == env

    def test_a_job_knows_who_it_is_and_where_it_may_write(self, harness: ClusterHarness) -> None:
        request = harness.shell('env -0 > "$LUCID_OUTPUT_DIR/env"; test -d "$LUCID_CHECKPOINT_DIR"; pwd; cat')
        request = replace(request, env={"LUCID_ATTEMPT_ID": "forged", "CUDA_VISIBLE_DEVICES": "7"})
        harness.cluster.launch(request)
        assert harness.wait_end(request.attempt_id).exit_code == 0
        found = _environment(harness, request.attempt_id)
        assert found["LUCID_ATTEMPT_ID"] == request.attempt_id
        assert found["LUCID_JOB_ID"] == request.job_id
        assert found["LUCID_ATTEMPT_NUMBER"] == str(request.attempt_number)
        assert found["CUDA_VISIBLE_DEVICES"] == str(request.placement.shares[0].gpu_indices[0])
        assert found["PYTHONUNBUFFERED"] == "1"
        assert {"LUCID_OUTPUT_DIR", "LUCID_CHECKPOINT_DIR", "LUCID_EXIT_NOTE"} <= set(found)
        assert harness.log(request.attempt_id).decode().rstrip("\n").endswith(request.code_dir.name)

    def test_launching_again_starts_nothing(self, harness: ClusterHarness) -> None:
        request = harness.shell(f"{RUN_ONCE}; sleep 0.2")
        first = harness.cluster.launch(request)
        second = harness.cluster.launch(request)
        third = harness.reopen().launch(request)
        assert [first.already, second.already, third.already] == [False, True, True]
        assert first.log_path == second.log_path == third.log_path
        harness.wait_end(request.attempt_id)
        assert harness.cluster.launch(request).already
        assert harness.output(request.attempt_id, "runs") == b"run\n"
        assert harness.see(request.attempt_id).sight is Sight.EXITED

    def test_launched_by_several_processes_at_once_it_runs_once(self, harness: ClusterHarness) -> None:
        request = harness.shell(f"{RUN_ONCE}; sleep 0.3")
        context = multiprocessing.get_context("fork")
        gate = context.Barrier(3)
        racers = [context.Process(target=_race, args=(harness, request, gate)) for _ in range(3)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(harness.patience_s)
        assert [racer.exitcode for racer in racers] == [0, 0, 0]
        assert harness.wait_end(request.attempt_id).exit_code == 0
        assert harness.output(request.attempt_id, "runs") == b"run\n"

    @pytest.mark.parametrize("delay_s", [0.0, 0.004, 0.01, 0.02, 0.035, 0.06])
    def test_a_launcher_killed_on_the_way_costs_nothing(self, harness: ClusterHarness, delay_s: float) -> None:
        request = harness.shell(f"{RUN_ONCE}; sleep 0.1")
        context = multiprocessing.get_context("fork")
        gate = context.Barrier(2)
        launcher = context.Process(target=_race, args=(harness, request, gate))
        launcher.start()
        gate.wait(harness.patience_s)
        time.sleep(delay_s)
        assert launcher.pid is not None
        os.kill(launcher.pid, signal.SIGKILL)
        launcher.join()
        harness.reopen().launch(request)
        assert harness.wait_end(request.attempt_id).exit_code == 0
        assert harness.output(request.attempt_id, "runs") == b"run\n"

    def test_a_restarted_control_plane_finds_its_attempts(self, harness: ClusterHarness) -> None:
        running = harness.start("sleep 30")
        ended = harness.start("exit 3")
        harness.wait_end(ended)
        seen = harness.reopen().poll([running, ended])
        assert seen[running].sight is Sight.RUNNING
        assert seen[running].started_at is not None
        record = seen[ended].exit
        assert record is not None
        assert record.exit_code == 3
        harness.reopen().stop(running, 0.0, "the test is over")
        assert harness.wait_end(running).reason == "stopped"

    @pytest.mark.parametrize(
        ("command", "workdir", "exit_code", "said"),
        [
            (("no-such-program-anywhere",), ".", 127, "not found"),
            (("./missing.sh",), ".", 127, "not found"),
            (("./plain.txt",), ".", 126, "not executable"),
            (("./headless.sh",), ".", 126, "#!"),
            (("./orphaned.sh",), ".", 126, "interpreter"),
            (("true",), "not/there", None, "working directory"),
        ],
    )
    def test_a_command_that_cannot_run_says_why(
        self, harness: ClusterHarness, command: Sequence[str], workdir: str, exit_code: int | None, said: str
    ) -> None:
        request = harness.request(*command, workdir=workdir)
        for name, text, mode in (
            ("plain.txt", "words", 0o644),
            ("headless.sh", "echo", 0o755),
            ("orphaned.sh", "#!/no/such/interpreter\n", 0o755),
        ):
            (request.code_dir / name).write_text(text)
            (request.code_dir / name).chmod(mode)
        harness.cluster.launch(request)
        record = harness.wait_end(request.attempt_id)
        assert (record.reason, record.exit_code, record.signal) == ("spawn_failed", exit_code, None)
        assert record.detail is not None
        assert said in record.detail
        named = command[0] if exit_code else workdir
        assert named in record.detail

    @pytest.mark.parametrize(
        "changes",
        [
            {"command": ()},
            {"command": ("",)},
            {"command": ("echo", "a\0b")},
            {"env": {"A=B": "x"}},
            {"env": {"": "x"}},
            {"env": {"A": "x\0"}},
            {"workdir": "/etc"},
            {"workdir": "a/../../b"},
            {"attempt_id": "../escape"},
            {"attempt_id": ""},
            {"grace_s": -1.0},
            {"grace_s": float("nan")},
            {"placement": Placement(())},
            {"placement": Placement.of({"no-such-node": [0]})},
        ],
        ids=str,
    )
    def test_a_request_that_can_never_run_is_refused(self, harness: ClusterHarness, changes: dict[str, object]) -> None:
        with pytest.raises(InputError):
            harness.cluster.launch(harness.request("true", **changes))

    # --- poll ---

    def test_every_id_asked_for_gets_an_answer(self, harness: ClusterHarness) -> None:
        ended, running = harness.start("true"), harness.start("sleep 30")
        harness.wait_end(ended)
        seen = harness.cluster.poll([ended, running, "never-launched"])
        assert {name: observation.sight for name, observation in seen.items()} == {
            ended: Sight.EXITED,
            running: Sight.RUNNING,
            "never-launched": Sight.NOT_STARTED,
        }
        assert harness.cluster.poll([]) == {}
        harness.cluster.fence(running)

    def test_the_end_of_the_log_is_not_the_end_of_the_job(self, harness: ClusterHarness) -> None:
        attempt = harness.start('exec >&- 2>&-; echo > "$LUCID_OUTPUT_DIR/closed"; sleep 0.5; exit 4')
        harness.wait_output(attempt, "closed")
        assert harness.see(attempt).sight is Sight.RUNNING
        assert harness.wait_end(attempt).exit_code == 4

    def test_what_cannot_be_read_is_unobserved_and_nothing_else(self, harness: ClusterHarness) -> None:
        running, ended = harness.start("sleep 30"), harness.start("true")
        harness.wait_end(ended)
        for attempt, sight in ((running, Sight.RUNNING), (ended, Sight.EXITED)):
            with harness.blind(attempt):
                blind = harness.see(attempt)
                assert (blind.sight, blind.exit) == (Sight.UNOBSERVED, None)
                assert blind.detail
            assert harness.see(attempt).sight is sight
        harness.cluster.fence(running)

    def test_declared_facts_arrive_with_the_record(self, harness: ClusterHarness) -> None:
        record = harness.finish("""printf '{"cause": "ECC error", "gpu": 3}' > "$LUCID_EXIT_NOTE"; exit 1""")
        assert record.declared == (("cause", "ECC error"), ("gpu", "3"))

    def test_what_a_job_declares_is_cut_to_size(self, harness: ClusterHarness) -> None:
        record = harness.finish('head -c 2000000 /dev/zero > "$LUCID_EXIT_NOTE"; exit 2')
        assert (record.exit_code, record.declared) == (2, ())
        assert record.detail is not None
        assert "exit note" in record.detail

    # --- stop ---

    def test_a_job_may_end_in_its_own_way_when_told_to_stop(self, harness: ClusterHarness) -> None:
        attempt = harness.start("trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done")
        harness.wait(lambda: harness.log(attempt) == b"ready\n", "it prints")
        harness.cluster.stop(attempt, 20.0, "a user cancelled it")
        record = harness.wait_end(attempt)
        assert (record.reason, record.exit_code, record.signal) == ("stopped", 5, None)
        assert record.detail is not None
        assert "a user cancelled it" in record.detail

    def test_a_job_that_ignores_term_is_killed_after_the_grace_period(self, harness: ClusterHarness) -> None:
        attempt = harness.start("trap '' TERM; echo ready; while :; do sleep 0.05; done")
        harness.wait(lambda: harness.log(attempt) == b"ready\n", "it prints")
        before = time.monotonic()
        harness.cluster.stop(attempt, 0.6, "test")
        returned = time.monotonic()
        assert harness.see(attempt).sight is Sight.RUNNING
        record = harness.wait_end(attempt)
        assert returned - before < 0.5
        assert time.monotonic() - before >= 0.5
        assert (record.reason, record.exit_code, record.signal) == ("stopped", None, signal.SIGKILL)
        assert harness.processes(attempt) == []

    def test_stop_reaches_every_process_of_the_job(self, harness: ClusterHarness) -> None:
        script = (
            'sleep 60 & echo $! > "$LUCID_OUTPUT_DIR/child"; '
            "setsid sh -c 'echo $$ > \"$LUCID_OUTPUT_DIR/session\"; sleep 60' & "
            "wait"
        )
        attempt = harness.start(script)
        pids = [int(harness.wait_output(attempt, name)) for name in ("child", "session")]
        harness.cluster.stop(attempt, 1.0, "test")
        assert harness.wait_end(attempt).reason == "stopped"
        assert [pid for pid in pids if harness.is_alive(pid)] == []

    def test_a_second_stop_can_shorten_the_grace_period(self, harness: ClusterHarness) -> None:
        attempt = harness.start("trap '' TERM; echo ready; while :; do sleep 0.05; done")
        harness.wait(lambda: harness.log(attempt) == b"ready\n", "it prints")
        harness.cluster.stop(attempt, 600.0, "gently")
        harness.cluster.stop(attempt, 0.1, "now")
        assert harness.wait_end(attempt).signal == signal.SIGKILL

    def test_what_was_stopped_before_its_launch_never_starts(self, harness: ClusterHarness) -> None:
        request = harness.shell(RUN_ONCE)
        harness.cluster.stop(request.attempt_id, 1.0, "too late")
        assert harness.cluster.launch(request).already
        record = harness.wait_end(request.attempt_id)
        assert (record.reason, record.exit_code, record.started_at) == ("stopped", None, None)
        assert harness.output(request.attempt_id, "runs") is None

    def test_stopping_what_has_ended_changes_nothing(self, harness: ClusterHarness) -> None:
        attempt = harness.start("exit 6")
        record = harness.wait_end(attempt)
        harness.cluster.stop(attempt, 1.0, "too late")
        assert harness.see(attempt).exit == record

    # --- what a job leaves behind ---

    def test_an_attempt_ends_with_its_main_process_and_leaves_nothing(self, harness: ClusterHarness) -> None:
        script = "(trap '' TERM; exec sleep 60) & echo $! > \"$LUCID_OUTPUT_DIR/pid\"; exit 0"
        attempt = harness.start(script, grace_s=0.2)
        record = harness.wait_end(attempt)
        assert (record.reason, record.exit_code) == ("exited", 0)
        assert record.leftover_count == 1
        assert not harness.is_alive(int(harness.wait_output(attempt, "pid")))

    def test_a_daemon_without_its_environment_is_found_too(self, harness: ClusterHarness) -> None:
        script = (
            'setsid env -i PATH="$PATH" OUT="$LUCID_OUTPUT_DIR" '
            "sh -c 'echo $$ > \"$OUT/pid\"; exec sleep 60 >/dev/null 2>&1' & "
            'while [ ! -s "$LUCID_OUTPUT_DIR/pid" ]; do sleep 0.01; done'
        )
        attempt = harness.start(script)
        assert harness.wait_end(attempt).leftover_count == 1
        assert not harness.is_alive(int(harness.wait_output(attempt, "pid")))

    # --- fence ---

    def test_a_fenced_attempt_is_dead_for_ever(self, harness: ClusterHarness) -> None:
        request = harness.shell(f"{RUN_ONCE}; trap '' TERM; setsid sleep 60 & sleep 60")
        harness.cluster.launch(request)
        harness.wait_output(request.attempt_id, "runs")
        assert harness.cluster.fence(request.attempt_id) >= 1
        assert harness.processes(request.attempt_id) == []
        record = harness.wait_end(request.attempt_id)
        assert (record.reason, record.exit_code) == ("fenced", None)
        assert harness.cluster.fence(request.attempt_id) == 0
        assert harness.cluster.launch(request).already
        assert harness.see(request.attempt_id).exit == record
        assert harness.output(request.attempt_id, "runs") == b"run\n"

    def test_what_was_fenced_before_its_launch_never_starts(self, harness: ClusterHarness) -> None:
        request = harness.shell(RUN_ONCE)
        assert harness.cluster.fence(request.attempt_id) == 0
        assert harness.cluster.launch(request).already
        assert harness.wait_end(request.attempt_id).reason == "fenced"
        assert harness.output(request.attempt_id, "runs") is None

    def test_fencing_what_has_ended_keeps_its_record(self, harness: ClusterHarness) -> None:
        attempt = harness.start("exit 9")
        record = harness.wait_end(attempt)
        assert harness.cluster.fence(attempt) == 0
        assert harness.see(attempt).exit == record

    def test_a_killed_wrapper_is_noticed_and_its_job_fenced(self, harness: ClusterHarness) -> None:
        attempt = harness.start('echo $$ > "$LUCID_OUTPUT_DIR/pid"; exec sleep 60')
        pid = int(harness.wait_output(attempt, "pid"))
        harness.kill_wrapper(attempt)
        seen = harness.wait_sight(attempt, Sight.VANISHED)
        assert seen.exit is None
        if harness.jobs_outlive_wrappers:
            assert harness.is_alive(pid)
        assert harness.cluster.fence(attempt) == int(harness.jobs_outlive_wrappers)
        assert not harness.is_alive(pid)
        assert harness.wait_end(attempt).reason == "fenced"

    def test_other_attempts_survive_a_fence(self, harness: ClusterHarness) -> None:
        fenced, other = harness.start("sleep 60"), harness.start("sleep 60")
        harness.cluster.fence(fenced)
        assert harness.see(other).sight is Sight.RUNNING
        assert harness.processes(other)
        harness.cluster.fence(other)

    # --- logs ---

    def test_a_log_is_read_by_offset_byte_for_byte(self, harness: ClusterHarness) -> None:
        attempt = harness.start(r"printf 'caf\351 \377\376\000 \303'; printf 'err\r\n' >&2")
        harness.wait_end(attempt)
        whole = b"caf\xe9 \xff\xfe\x00 \xc3err\r\n"
        assert harness.log(attempt) == whole
        for size in (1, 3, 7):
            read, offset = b"", 0
            while offset < len(whole):
                chunk = harness.cluster.read_log(attempt, offset, size)
                assert 0 < len(chunk.data) <= size
                assert (chunk.size, chunk.restarted) == (len(whole), False)
                read, offset = read + chunk.data, chunk.next_offset
            assert read == whole

    def test_a_growing_log_is_followed(self, harness: ClusterHarness) -> None:
        attempt = harness.start("for i in 1 2 3 4 5; do echo line $i; sleep 0.05; done")
        read, offset = b"", 0
        while harness.see(attempt).sight is Sight.RUNNING or offset < harness.cluster.read_log(attempt, 0, 1).size:
            chunk = harness.cluster.read_log(attempt, offset, 4)
            read, offset = read + chunk.data, chunk.next_offset
        assert read == b"".join(b"line %d\n" % number for number in range(1, 6))

    def test_much_output_arrives_whole(self, harness: ClusterHarness) -> None:
        size = 60 * 1024 * 1024
        attempt = harness.start(f"head -c {size} /dev/zero | tr '\\0' 'x'; echo end")
        harness.wait_end(attempt)
        digest, offset = hashlib.sha256(), 0
        while chunk := harness.cluster.read_log(attempt, offset, 4 << 20).data:
            digest.update(chunk)
            offset += len(chunk)
        assert offset == size + 4
        assert digest.digest() == hashlib.sha256(b"x" * size + b"end\n").digest()

    def test_a_log_that_shrank_is_read_from_its_beginning(self, harness: ClusterHarness) -> None:
        attempt = harness.start("echo short")
        harness.wait_end(attempt)
        chunk = harness.cluster.read_log(attempt, 1000, 100)
        assert (chunk.data, chunk.offset, chunk.next_offset, chunk.restarted) == (b"short\n", 0, 6, True)

    def test_a_log_of_nothing_is_an_error_and_so_is_nonsense(self, harness: ClusterHarness) -> None:
        attempt = harness.start("true")
        with pytest.raises(NotFoundError, match="never-launched"):
            harness.cluster.read_log("never-launched", 0, 10)
        for offset, size in ((-1, 10), (0, 0)):
            with pytest.raises(InputError):
                harness.cluster.read_log(attempt, offset, size)
        harness.wait_end(attempt)

    # --- isolation and checks ---

    def test_isolations_have_owners_who_alone_lift_them(self, harness: ClusterHarness) -> None:
        cluster = _needs(harness, "can_isolate")
        node = cluster.inventory().nodes[0]
        gpu = node.gpus[0].index
        cluster.isolate(node.name, [gpu], "ours", "ECC errors")
        cluster.isolate(node.name, [gpu], "ours", "ECC errors, seen again")
        cluster.isolate(node.name, [], "theirs", "maintenance")
        found = _node(harness.reopen(), node.name)
        assert {(i.owner, i.gpu_indices, i.reason) for i in found.isolations} == {
            ("ours", (gpu,), "ECC errors, seen again"),
            ("theirs", (), "maintenance"),
        }
        assert (found.usable_gpus, found.condition) == ((), NodeCondition.DRAINED)
        cluster.restore(node.name, [], "ours")
        cluster.restore(node.name, [], "ours")
        assert [i.owner for i in _node(cluster, node.name).isolations] == ["theirs"]
        cluster.restore(node.name, [gpu], "nobody")
        cluster.restore(node.name, [], "theirs")
        harness.wait(lambda: _node(cluster, node.name).condition is NodeCondition.READY, "the node is ready again")
        assert _node(cluster, node.name).usable_gpus == node.gpus

    def test_isolating_one_gpu_leaves_the_others_usable(self, harness: ClusterHarness) -> None:
        cluster = _needs(harness, "can_isolate")
        node = cluster.inventory().nodes[0]
        cluster.isolate(node.name, [node.gpus[0].index], "ours", "test")
        assert _node(cluster, node.name).usable_gpus == node.gpus[1:]
        cluster.restore(node.name, [node.gpus[0].index], "ours")

    def test_a_running_job_survives_the_isolation_of_its_node(self, harness: ClusterHarness) -> None:
        cluster = _needs(harness, "can_isolate")
        attempt = harness.start("sleep 30")
        node = harness.request("true").placement.shares[0].node
        cluster.isolate(node, [], "ours", "test")
        assert harness.see(attempt).sight is Sight.RUNNING
        cluster.restore(node, [], "ours")
        cluster.fence(attempt)

    def test_unknown_nodes_and_gpus_are_named(self, harness: ClusterHarness) -> None:
        cluster = _needs(harness, "can_isolate")
        node = cluster.inventory().nodes[0]
        for act in (
            lambda: cluster.isolate(node.name + "x", [], "ours", "test"),
            lambda: cluster.restore(node.name + "x", [], "ours"),
            lambda: cluster.check(node.name + "x", "anything"),
        ):
            with pytest.raises(NotFoundError, match=node.name):
                act()
        with pytest.raises(NotFoundError, match="99"):
            cluster.isolate(node.name, [99], "ours", "test")

    def test_a_check_that_cannot_be_run_is_neither_passed_nor_failed(self, harness: ClusterHarness) -> None:
        cluster = _needs(harness, "can_check")
        node = cluster.inventory().nodes[0].name
        result = cluster.check(node, "no-such-test")
        assert (result.node, result.test, result.passed) == (node, "no-such-test", None)
        assert result.detail
        assert result.checked_at.tzinfo is not None


def _environment(harness: ClusterHarness, attempt_id: str) -> dict[str, str]:
    raw = harness.output(attempt_id, "env")
    assert raw is not None
    pairs = [item.split(b"=", 1) for item in raw.split(b"\0") if item]
    return {name.decode(): value.decode() for name, value in pairs}


def _race(harness: ClusterHarness, request: LaunchRequest, gate: Barrier) -> None:
    cluster = harness.reopen()
    gate.wait(harness.patience_s)
    cluster.launch(request)


def _needs(harness: ClusterHarness, capability: str) -> Cluster:
    if not getattr(harness.cluster.capabilities, capability):
        pytest.skip(f"this cluster says {capability}=False")
    return harness.cluster


def _node(cluster: Cluster, name: str) -> Node:
    return next(node for node in cluster.inventory().nodes if node.name == name)
