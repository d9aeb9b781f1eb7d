"""Slurm's answers in two versions, and what is concluded from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.cluster import NodeShare
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.job import ExitRecord
from lucid_pipelines.ports import Sight
from lucid_pipelines.resources.clusters.slurm_accounting import parse_accounting
from lucid_pipelines.resources.clusters.slurm_adoption import SlurmAdoption, find_held, held_job
from lucid_pipelines.resources.clusters.slurm_gres import asked_gpus, beside, gres_request, held_indices, node_gpus
from lucid_pipelines.resources.clusters.slurm_json import SlurmJob, expand, parse_jobs, parse_nodes
from lucid_pipelines.resources.clusters.slurm_states import OnDisk, observation
from lucid_pipelines.resources.clusters.slurm_submissions import CLOCKS_APART_S, KnownJobs, Submission
from tests.support_slurm import shapes

WRITERS = [pytest.param(shapes.old_jobs, id="22.05"), pytest.param(shapes.new_jobs, id="24.11")]
NODE_WRITERS = [pytest.param(shapes.old_nodes, id="22.05"), pytest.param(shapes.new_nodes, id="24.11")]
NOW = datetime.fromtimestamp(shapes.SUBMITTED_S + 200, UTC)
SILENT = '{"errors": [{"description": "Failed while looking for jobs", "error_number": -1}], "jobs": []}'
"""What 22.05 says, with an exit status of 0, when its controller does not answer."""
UNREADABLE = '{"jobs": [{"job_state": {}, "job_id": "x"}]}'
Write = Callable[[Sequence[dict[str, Any]]], str]


@pytest.mark.parametrize("write", WRITERS)
def test_both_versions_say_the_same_of_a_job(write: Write) -> None:
    running, failed, killed, held = parse_jobs(
        write(
            [
                shapes.job(7, comment="lucid:j-1-a1", time_limit_min=90),
                shapes.job(8, "FAILED", exit=(7, 0), gres_detail=[], reason="NonZeroExitCode"),
                shapes.job(9, "FAILED", exit=(0, 9), restarts=2),
                shapes.job(10, "PENDING", reason="JobHeldUser", nodes="", gres_detail=[], start_s=0, end_s=0),
            ]
        )
    )
    assert (running.job_id, running.state, running.comment) == (7, "RUNNING", "lucid:j-1-a1")
    assert (running.nodes, running.gres_detail, running.time_limit_s) == (("n1",), ("gpu:g3:1(IDX:3)",), 5400.0)
    assert running.submitted_at == datetime.fromtimestamp(shapes.SUBMITTED_S, UTC)
    assert (failed.exit_code, failed.exit_signal) == (7, None)
    assert (killed.exit_code, killed.exit_signal, killed.restart_count) == (None, 9, 2)
    assert (held.is_held, held.nodes, held.started_at, held.time_limit_s) == (True, (), None, None)


@pytest.mark.parametrize("write", NODE_WRITERS)
def test_both_versions_say_the_same_of_a_node(write: Write) -> None:
    idle, drained, down = parse_nodes(
        write(
            [
                shapes.node("n1"),
                shapes.node("n2", ["IDLE", "DRAIN"], reason="lucid: lucid: ECC", reason_by="root"),
                shapes.node("n3", ["DOWN", "NOT_RESPONDING"]),
            ]
        )
    )
    assert (idle.name, idle.states, idle.partitions, idle.cpus) == ("n1", {"IDLE"}, ("gpu",), 32)
    assert (drained.states, drained.reason, drained.reason_by) == ({"IDLE", "DRAIN"}, "lucid: lucid: ECC", "root")
    assert down.states == {"DOWN", "NOT_RESPONDING"}


def test_signs_behind_a_state_are_words_too() -> None:
    text = shapes.old_nodes([shapes.node(name) for name in ("n1", "n2", "n3", "n4", "n5")])
    for state in ("down*", "idle~", "mixed#", "idle%", "idle*$"):
        text = text.replace('"state": "idle"', f'"state": "{state}"', 1)
    assert [node.states for node in parse_nodes(text)] == [
        {"DOWN", "NOT_RESPONDING"},
        {"IDLE", "POWERED_DOWN"},
        {"MIXED", "POWERING_UP"},
        {"IDLE", "POWERING_DOWN"},
        {"IDLE", "NOT_RESPONDING", "MAINT"},
    ]


@pytest.mark.parametrize(
    "text",
    ["", "slurm_load_jobs error", "[]", "{}", '{"jobs": 3}', '{"jobs": [3]}', '{"jobs": [{}]}', UNREADABLE, SILENT],
)
def test_nonsense_is_refused_whole(text: str) -> None:
    with pytest.raises(ValueError, match="Slurm"):
        parse_jobs(text)


@given(st.text(max_size=40))
def test_any_text_is_a_list_of_hosts_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert all(isinstance(name, str) for name in expand(text))


def test_host_lists_are_written_out() -> None:
    assert expand("n[1-3,07],m2,rack[01-02]gpu") == ("n1", "n2", "n3", "n07", "m2", "rack01gpu", "rack02gpu")
    assert expand("") == ()


def test_what_a_node_offers_and_what_is_asked_of_it() -> None:
    typed = node_gpus("gpu:g0:1,gpu:g1:1,shard:g0:2,shard:g1:2")
    plain = node_gpus("gpu:a100:2(S:0-1),craynetwork:4")
    assert (typed.types, typed.can_pin, typed.can_share) == (("g0", "g1"), True, True)
    assert (plain.types, plain.can_pin, plain.can_share) == (("a100", "a100"), False, False)
    share = NodeShare("n1", (0, 1))
    assert gres_request(typed, share, is_shared=False) == "gpu:g0:1,gpu:g1:1"
    assert gres_request(typed, share, is_shared=True) == "shard:g0:1,shard:g1:1"
    assert gres_request(plain, share, is_shared=False) == "gpu:2"
    with pytest.raises(InputError, match="typed shards"):
        gres_request(plain, share, is_shared=True)
    assert asked_gpus("gres:gpu:g3:1,gres:gpu:g5:1") == 2
    assert asked_gpus("gres/gpu=4") == 4
    assert asked_gpus("gres:shard:g3:1") == 0


def test_what_a_job_holds() -> None:
    typed = node_gpus("gpu:g0:1,gpu:g1:1,shard:g0:2,shard:g1:2")
    plain = node_gpus("gpu:a100:8")
    assert held_indices(typed, "gpu:g1:1(IDX:1)") == {1}
    assert held_indices(plain, "gpu:a100:3(IDX:0,5-6)") == {0, 5, 6}
    assert held_indices(plain, "gpu:a100:1(IDX:N/A)") is None, "some GPU, nobody says which"
    assert held_indices(plain, "") == frozenset()


def test_where_slurm_chooses_the_gpus_of_others_are_counted_beside_ours() -> None:
    typed, plain = node_gpus("gpu:g0:1,gpu:g1:1,gpu:g2:1"), node_gpus("gpu:a100:4")
    assert beside(typed, {0, 1}, {1}) == {0, 1}, "there, a number is a GPU"
    assert beside(plain, {0, 1}, {1, 2}) == {0, 3}
    assert beside(plain, {0, 1}, set()) == {0, 1}
    assert beside(plain, {0, 1, 2, 3}, {0}) == {1, 2, 3}, "more than there are cannot be"


def job_of(state: str, **changes: Any) -> SlurmJob:
    return parse_jobs(shapes.new_jobs([shapes.job(1, state, **changes)]))[0]


def seen(
    disk: OnDisk, job: SlurmJob | None, fault: str | None = None, *, waited: timedelta = timedelta(minutes=1)
) -> Any:
    return observation("a", disk, job, fault, NOW, waited)


STARTED = OnDisk(True, None, False, NOW - timedelta(seconds=60), submission=Submission(1))


@pytest.mark.parametrize(
    ("state", "reason", "signal"),
    [
        ("TIMEOUT", "timed_out", None),
        ("PREEMPTED", "preempted", None),
        ("CANCELLED", "cancelled", None),
        ("OUT_OF_MEMORY", "exited", 9),
    ],
)
def test_what_slurm_ended_itself_has_ended_for_its_reason(state: str, reason: str, signal: int | None) -> None:
    record = seen(STARTED, job_of(state)).exit
    assert (record.reason, record.signal, record.exit_code) == (reason, signal, None)
    assert "Slurm job 1" in record.detail


@pytest.mark.parametrize("state", ["TIMEOUT", "PREEMPTED", "CANCELLED"])
def test_a_stop_that_we_did_not_ask_for_is_put_down_to_slurms_own_word(state: str) -> None:
    signalled = ExitRecord(None, 15, "stopped", NOW, NOW, "stopped: the wrapper was sent SIGTERM")
    disk = OnDisk(True, signalled)
    told = seen(disk, job_of(state))
    assert told.exit.reason == {"TIMEOUT": "timed_out", "PREEMPTED": "preempted", "CANCELLED": "cancelled"}[state]
    assert seen(disk, job_of("RUNNING")).sight is Sight.RUNNING, "not before Slurm has said whose it was"
    assert seen(disk, None, "no answer").sight is Sight.UNOBSERVED
    ours = OnDisk(True, signalled, stop_is_ours=True)
    assert seen(ours, job_of(state)).exit == signalled, "what we asked for needs no other word"


def test_a_job_that_slurm_signalled_before_its_wrapper_is_told_apart_too() -> None:
    for record in (ExitRecord(None, 15, "exited", NOW, NOW), ExitRecord(143, None, "exited", NOW, NOW)):
        assert seen(OnDisk(True, record), job_of("TIMEOUT")).exit.reason == "timed_out"
        assert seen(OnDisk(True, record), job_of("FAILED")).exit == record, "killed by somebody else"
        assert seen(OnDisk(True, record), None).exit == record
    crash = ExitRecord(None, 11, "exited", NOW, NOW)
    assert seen(OnDisk(True, crash), job_of("RUNNING")).exit == crash


def test_a_lost_node_is_not_an_end() -> None:
    told = seen(STARTED, job_of("NODE_FAIL"))
    assert (told.sight, told.exit) == (Sight.VANISHED, None)
    assert "n1" in told.detail


@pytest.mark.parametrize("state", ["NODE_FAIL", "BOOT_FAIL"])
def test_a_node_that_was_lost_before_anything_started_is_told_apart(state: str) -> None:
    told = seen(OnDisk(True, submission=Submission(1)), job_of(state))
    assert (told.sight, told.never_ran, told.started_at) == (Sight.VANISHED, True, None)
    assert not seen(STARTED, job_of(state)).never_ran
    adopted = OnDisk(True, is_adopted=True, submission=Submission(1))
    assert not seen(adopted, job_of(state)).never_ran, "nobody knows: it has no wrapper"


@pytest.mark.parametrize(
    ("write", "state", "flags"),
    [
        pytest.param(shapes.old_jobs, "CONFIGURING", [], id="22.05"),
        pytest.param(shapes.new_jobs, "CONFIGURING", [], id="24.11"),
        pytest.param(shapes.new_jobs, "RUNNING", ["CONFIGURING"], id="24.11 with a flag"),
    ],
)
def test_a_job_whose_nodes_are_woken_is_let_in_and_has_not_started(write: Write, state: str, flags: list[str]) -> None:
    (job,) = parse_jobs(write([shapes.job(1, state, flags=flags)]))
    told = seen(OnDisk(True, submission=Submission(1)), job)
    assert (told.sight, told.is_let_in) == (Sight.QUEUED, True)
    assert "n1" in told.detail
    assert not seen(OnDisk(True, submission=Submission(1)), job_of("PENDING")).is_let_in


def test_what_we_stopped_before_it_started_is_no_cancellation_of_its_users() -> None:
    asked = OnDisk(True, is_stopped=True, submission=Submission(1))
    assert seen(asked, job_of("CANCELLED")).exit.reason == "stopped"
    assert seen(OnDisk(True, submission=Submission(1)), job_of("CANCELLED")).exit.reason == "cancelled"


def test_without_slurm_nothing_is_known_but_what_stands_on_the_disk() -> None:
    assert seen(STARTED, None, "squeue failed").sight is Sight.UNOBSERVED
    done = ExitRecord(0, None, "exited", NOW, NOW)
    assert seen(OnDisk(True, done), None, "squeue failed").sight is Sight.EXITED


@pytest.mark.parametrize(
    ("disk", "job", "sight"),
    [
        (OnDisk(False), None, Sight.NOT_STARTED),
        (OnDisk(True), None, Sight.NOT_STARTED),
        (OnDisk(True, submission=Submission(1)), None, Sight.VANISHED),
        (OnDisk(True, submission=Submission(1)), job_of("PENDING"), Sight.QUEUED),
        (OnDisk(True, submission=Submission(1)), job_of("RUNNING"), Sight.QUEUED),
        (STARTED, job_of("RUNNING"), Sight.RUNNING),
        (STARTED, job_of("COMPLETED", flags=["COMPLETING"]), Sight.RUNNING),
        (STARTED, job_of("COMPLETED"), Sight.VANISHED),
        (STARTED, job_of("FAILED"), Sight.VANISHED),
        (STARTED, job_of("REQUEUED"), Sight.QUEUED),
        (OnDisk(True, problem="the disk is away"), job_of("RUNNING"), Sight.UNOBSERVED),
    ],
)
def test_every_other_case(disk: OnDisk, job: SlurmJob | None, sight: Sight) -> None:
    assert seen(disk, job).sight is sight


def test_a_job_is_an_attempts_by_number_owner_and_time_or_by_tag_and_owner() -> None:
    def known(*jobs: dict[str, Any]) -> KnownJobs:
        return KnownJobs.of(parse_jobs(shapes.new_jobs(jobs)))

    at = datetime.fromtimestamp(shapes.SUBMITTED_S, UTC)
    ours = shapes.job(7, comment="lucid:a", uid=1000)
    forged = shapes.job(6, comment="lucid:a", uid=2000)
    noted = Submission(7, at, 1000)
    found = known(forged, ours).find("a", noted, 1000)
    assert found is not None and found.job_id == 7
    by_tag = known(forged, ours).find("a", None, 1000)
    assert by_tag is not None and by_tag.job_id == 7, "a forged comment finds nobody"
    assert known(forged).find("a", None, 1000) is None
    changed = known(shapes.job(7, comment="mine now", uid=1000)).find("a", noted, 1000)
    assert changed is not None, "its user may change its comment"
    assert known(shapes.job(7, comment="lucid:a", uid=2000)).find("a", noted, 1000) is None, "somebody else's number"
    old = Submission(7, at - timedelta(seconds=CLOCKS_APART_S + 60), 1000)
    assert known(ours).find("a", old, 1000) is None, "numbers began anew"


ROW = "{}|{}|{}|1796010111|1796010112|1796010211|n[1-2]|90|1000|gpu"


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [
        ("FAILED", "3:0", "exited"),
        ("CANCELLED by 1000", "0:0", "cancelled"),
        ("TIMEOUT", "0:15", "timed_out"),
        ("PREEMPTED", "0:0", "preempted"),
        ("OUT_OF_MEMORY", "0:125", "exited"),
    ],
)
def test_accounting_tells_how_a_forgotten_job_ended(state: str, status: str, reason: str) -> None:
    job = parse_accounting(ROW.format(7, state, status))[7]
    adopted = OnDisk(True, is_adopted=True, submission=Submission(7))
    told = seen(adopted, job)
    assert (told.sight, told.source, told.exit.reason) == (Sight.EXITED, "slurm:sacct", reason)
    assert (job.nodes, job.time_limit_s, job.uid) == (("n1", "n2"), 5400.0, 1000)
    assert told.exit.exit_code == (3 if state == "FAILED" else None)


def test_lines_of_accounting_that_make_no_sense_say_nothing() -> None:
    torn = ["", "x|FAILED", ROW.format("x", "FAILED", "1:0"), ROW.format(3, "", "0:0"), ROW.format(4, "RUNNING", "0:0")]
    assert parse_accounting("\n".join([*torn, ROW.format(5, "FAILED", "a:b"), ROW.format(6, "FAILED", "1:0")])) == {
        6: parse_accounting(ROW.format(6, "FAILED", "1:0"))[6]
    }


@given(st.text())
def test_any_text_may_come_from_accounting(text: str) -> None:
    parse_accounting(text)


@pytest.mark.parametrize("ended_s", [-7200, 0, 7200])
def test_a_record_is_awaited_by_our_own_clock_whatever_slurms_says(ended_s: int) -> None:
    job = job_of("COMPLETED", end_s=int(NOW.timestamp()) + ended_s)
    assert seen(STARTED, job, waited=timedelta(seconds=2)).sight is Sight.RUNNING
    assert seen(STARTED, job, waited=timedelta(seconds=6)).sight is Sight.VANISHED
    early = job_of("TIMEOUT", end_s=shapes.SUBMITTED_S - 7200)
    told = seen(STARTED, early).exit
    assert told.started_at <= told.ended_at


HUGE = "1e999"


@pytest.mark.parametrize("field", ["job_id", "submit_time", "node_count", "restart_cnt", "exit_code", "user_id"])
@pytest.mark.parametrize("value", ["-1e999", HUGE, "NaN", '{"set": true, "number": 1e999}', '"' + "9" * 5000 + '"'])
def test_numbers_beyond_all_measure_are_refused_or_unknown(field: str, value: str) -> None:
    text = shapes.new_jobs([shapes.job(1)]).replace(f'"{field}": ', f'"{field}": {value}, "was": ', 1)
    with suppress(ValueError):
        parse_jobs(text)


def test_tasks_of_arrays_are_told_from_other_jobs() -> None:
    task, plain = shapes.job(11), shapes.job(12)
    text = shapes.new_jobs([task, plain]).replace(
        '"job_id": 11', '"job_id": 11, "array_job_id": {"set": true, "number": 10}'
    )
    assert [job.is_array for job in parse_jobs(text)] == [True, False]


def test_a_job_that_was_cancelled_while_it_was_released_is_followed_to_its_end() -> None:
    (job,) = parse_jobs(shapes.new_jobs([shapes.job(7, "CANCELLED", reason="JobHeldUser", comment="lucid:a")]))
    key = f"7-{shapes.SUBMITTED_S}"
    assert find_held([job], key, "lucid:a") == (job, True)
    with pytest.raises(InputError, match="submit it again"):
        find_held([job], key, "lucid:other")


@given(st.text())
def test_an_adopted_job_has_a_name_of_one_line(name: str) -> None:
    (job,) = parse_jobs(shapes.new_jobs([shapes.job(7, "PENDING", name=name)]))
    held = held_job(job)
    assert 1 <= len(held.name) <= 100 and held.name.isprintable()


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        (SlurmAdoption(), {1}),
        (SlurmAdoption(comment=None, qos="shared"), {2}),
        (SlurmAdoption(comment=None, partition="night"), {3}),
        (SlurmAdoption(qos="shared", partition="night"), {1, 2, 3}),
        (SlurmAdoption(comment=None), set()),
    ],
)
def test_one_of_a_sites_tags_is_enough(write: Write, tags: SlurmAdoption, wanted: set[int]) -> None:
    held = {"reason": "JobHeldUser", "nodes": "", "gres_detail": []}
    jobs = parse_jobs(
        write(
            [
                shapes.job(1, "PENDING", comment="lucid", **held),
                shapes.job(2, "PENDING", qos="shared", **held),
                shapes.job(3, "PENDING", partition="night", **held),
                shapes.job(4, "PENDING", comment="lucid and more", **held),
                shapes.job(5, "PENDING", qos="shared", partition="night", comment="lucid", reason="Resources"),
            ]
        )
    )
    assert {job.job_id for job in jobs if tags.wants(job)} == wanted
