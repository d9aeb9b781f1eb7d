"""Evidence is joined whichever way it points."""

from datetime import timedelta
from pathlib import Path

import pytest

from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.failures.evidence import Suspect, Witness
from lucid_pipelines.failures.facts import (
    CounterReading,
    PastFailure,
    PeerState,
    SchedulerEnd,
    gather,
    place_of_rank,
)
from lucid_pipelines.failures.vocabulary import Category, Component, Ending
from lucid_pipelines.failures.xid import XidReport, load_xids
from tests.support_failures.situations import NOW, attempt, exit_record, facts, finding, job


def xid(code: int, node: str = "n1", gpu: int | None = 0, age: timedelta = timedelta(minutes=2)) -> XidReport:
    return XidReport(code, node, gpu, NOW - age)


def counter(name: str, grew: float | None) -> CounterReading:
    return CounterReading("n1", 0, name, 5.0, grew, NOW, "nvml")


def past(user: str, *, node: str = "n1", gpu: int | None = 0, signature: str = "gpu-illegal-access:1") -> PastFailure:
    return PastFailure("job-9", user, node, gpu, Category.FRAMEWORK, None, signature, NOW - timedelta(days=1))


def test_an_xid_on_the_jobs_gpu_explains_a_symptom(tmp_path: Path) -> None:
    found = finding("illegal", tmp_path, facts(xids=[xid(79)]))
    assert (found.category, found.component) == (Category.INFRASTRUCTURE, Component.GPU)
    assert found.suspects[0] == Suspect("n1", 0)
    assert found.basis.startswith("3")


def test_an_app_side_xid_does_not_accuse_the_hardware(tmp_path: Path) -> None:
    found = finding("illegal", tmp_path, facts(xids=[xid(31)]))
    assert found.category is Category.FRAMEWORK
    assert any(not t.accuses and t.witness is Witness.XID for t in found.testimony)
    assert found.suspects == ()


def test_an_xid_beside_a_definite_user_error_is_told_but_does_not_excuse_it(tmp_path: Path) -> None:
    found = finding("user", tmp_path, facts(xids=[xid(79)]))
    assert found.category is Category.USER_SCRIPT
    assert found.confidence <= 0.7 and "Xid 79" in found.basis


def test_an_xid_without_any_word_in_the_log_is_the_cause(tmp_path: Path) -> None:
    assert finding("nothing", tmp_path, facts(xids=[xid(48)])).component is Component.GPU


@pytest.mark.parametrize(
    "report",
    [xid(79, node="n9"), xid(79, gpu=7), xid(79, age=timedelta(hours=5)), xid(63), xid(999)],
    ids=["other node", "other gpu", "before the attempt", "watch only", "unknown code"],
)
def test_xids_of_other_places_times_and_weights_do_not_count(report: XidReport, tmp_path: Path) -> None:
    assert finding("illegal", tmp_path, facts(xids=[report])).category is Category.FRAMEWORK


def test_a_counter_that_rose_agrees_with_the_log(tmp_path: Path) -> None:
    found = finding("ecc", tmp_path, facts(counters=[counter("ecc_uncorrectable", 2.0)]))
    assert found.confidence >= 0.99
    assert found.accusers == {Witness.LOG, Witness.COUNTER}


@pytest.mark.parametrize("grew", [None, 0.0])
def test_a_counter_without_growth_says_nothing(grew: float | None, tmp_path: Path) -> None:
    found = finding("illegal", tmp_path, facts(counters=[counter("ecc_uncorrectable", grew)]))
    assert found.category is Category.FRAMEWORK


def test_the_schedulers_record_outranks_the_log(tmp_path: Path) -> None:
    assert finding("ecc", tmp_path, facts(end=SchedulerEnd.PREEMPTED)).ending is Ending.PREEMPTED
    assert finding("user", tmp_path, facts(end=SchedulerEnd.TIME_LIMIT)).category is None
    assert finding("nothing", tmp_path, facts(end=SchedulerEnd.NODE_FAILED)).component is Component.NODE


def test_exit_code_zero_and_stopped_on_request_outrank_the_log(tmp_path: Path) -> None:
    assert finding("ecc", tmp_path, facts(exit_=exit_record(0))).ending is Ending.SUCCEEDED
    assert (
        finding("ecc", tmp_path, facts(exit_=exit_record(None, reason="stopped", signal=15))).ending is Ending.CANCELLED
    )


def test_a_command_that_could_not_start_is_its_users_mistake_whatever_the_log_holds(tmp_path: Path) -> None:
    never = exit_record(127, reason="spawn_failed")
    for log in ("nothing", "ecc"):
        found = finding(log, tmp_path, facts(exit_=never))
        assert (found.category, found.component, found.ending) == (Category.USER_SCRIPT, None, Ending.FAILED)
    assert finding("nothing", tmp_path, facts(exit_=never, end=SchedulerEnd.NODE_FAILED)).component is Component.NODE


def test_the_same_gpu_failing_for_different_users_is_suspect(tmp_path: Path) -> None:
    known = facts(failures=[past("bob")])
    assert Witness.HISTORY in finding("illegal", tmp_path, known, rank=0).accusers
    same_user = facts(failures=[past("ann")])
    assert Witness.HISTORY not in finding("illegal", tmp_path, same_user, rank=0).accusers
    other_gpu = facts(failures=[past("bob", gpu=1)])
    assert Witness.HISTORY not in finding("illegal", tmp_path, other_gpu, rank=0).accusers


def test_peers_that_run_well_clear_the_node_and_peers_that_fail_accuse_it(tmp_path: Path) -> None:
    well = facts(peers=[PeerState("n2", "job-5", True, NOW)])
    ill = facts(peers=[PeerState("n2", "job-5", False, NOW), PeerState("n2", "job-6", False, NOW)])
    unseen = facts(peers=[PeerState("n2", "job-5", None, NOW)])
    assert finding("node", tmp_path, well).suspects == ()
    assert "another job on n2 runs well" in [t.text for t in finding("node", tmp_path, well).testimony]
    assert Witness.PEERS in finding("node", tmp_path, ill).accusers
    assert finding("node", tmp_path, unseen).suspects == (Suspect("n2"),)


def test_lost_telemetry_is_a_note_and_no_fault(tmp_path: Path) -> None:
    sample = GpuSample("n1", 0, NOW, "nvml", xid_errors=(31,))
    known = gather(job(), attempt(), NOW, load_xids(), exit_record=exit_record(), samples=[sample])
    assert known.telemetry_lost == ("n2",)
    assert [r.code for r in known.xids] == [31]
    found = finding("user", tmp_path, known)
    assert found.category is Category.USER_SCRIPT and "n2" in found.notes[0]


def test_a_rank_names_its_gpu() -> None:
    placement = attempt().placement
    assert place_of_rank(placement, 0) == ("n1", 0)
    assert place_of_rank(placement, 3) == ("n2", 1)
    assert place_of_rank(placement, 4) is None and place_of_rank(placement, None) is None


def test_the_rank_of_the_root_names_the_suspect(tmp_path: Path) -> None:
    assert finding("ecc", tmp_path, rank=2).suspects == (Suspect("n2", 0),)
    assert finding("ecc", tmp_path).suspects == ()


def test_signatures_forget_numbers_and_paths(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "b"
    one.mkdir()
    two.mkdir()
    first, second = finding("ecc", one, rank=1), finding("ecc", two, rank=2)
    assert first.signature == second.signature
    assert first.signature != finding("user", one).signature
