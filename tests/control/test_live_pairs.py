"""Pairs in the running control plane: formed, watched, taken apart, and what the modes and the node have to say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from lucid_pipelines.control.explaining import explain
from lucid_pipelines.control.facts import gather
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import JobState, Mode
from lucid_pipelines.store import ActionState, PairVerdict, Store, tables
from tests.support_control.live_days import Session
from tests.support_control.scripted import ScriptedJob

STRANGE_GPU = 0
ONE_GPU = (("n1", 1, "train"),)
QUICK = {"min_remaining_s": 5.0, "watch_after_s": 10.0}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state.db", durable=False) as opened:
        yield opened


def pair_of(store: Store, home: Path, *, modes: dict[str, str] | None = None, **second: object) -> Session:
    """Two jobs for one GPU; the profiles are known, because both have run before."""
    jobs = [
        ScriptedJob("long", work_s=200.0),
        ScriptedJob("short", work_s=100.0, **second),  # type: ignore[arg-type]
    ]
    return Session.open(home, store, ONE_GPU, jobs, packing=QUICK, modes=modes or {})


def until_known(session: Session) -> None:
    """The first job runs alone until its profile is known; the second one's is known from an earlier run."""
    session.submit("short")
    session.run_until(lambda: session.job("short").profile is not None)
    session.system.store.jobs.request_cancel(session.ids["short"], who="ada", now=session.clock.now())
    session.run_until(lambda: session.job("short").state.is_terminal)
    session.submit("long")
    session.run_until(lambda: session.job("long").profile is not None)
    session.submit("short")


def test_two_jobs_share_a_gpu_and_the_pair_is_kept(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path)
    until_known(session)
    session.run_until(lambda: session.job("short").state is JobState.RUNNING, most=5)
    (pair,) = store.pairs.open()
    session.run_until(lambda: bool(store.pairs.open()) and store.pairs.open()[0].verdict is PairVerdict.KEPT, most=60)
    measured = store.pairs.open()[0].measured or {}
    assert measured["gpu_util_pct"] == 60.0 and measured["planned_util_pct"] == 60.0
    session.finish()
    assert {session.job(name).state for name in session.ids} == {JobState.COMPLETED}
    (ended,) = store.pairs.find()
    assert ended.pair_id == pair.pair_id and ended.ended_at is not None
    assert [action.state for action in store.actions.find(kind="pack")] == [ActionState.EXECUTED]
    assert session.cluster.clashes == []


def test_a_pair_that_slows_down_is_split_and_the_later_job_stays_alone(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path)
    session.cluster.jobs["long"] = ScriptedJob("long", work_s=200.0, beside={"short": 0.3})
    until_known(session)
    session.run_until(lambda: session.job("short").never_pack, most=120)
    (pair,) = store.pairs.find()
    assert pair.verdict is PairVerdict.SPLIT and "of its speed alone" in (pair.why or "")
    assert session.job("long").state is JobState.RUNNING, "the earlier job goes on"
    session.run_until(lambda: session.job("short").state is JobState.QUEUED, most=5)
    waiting = explain(session.system, session.ids["short"]).waiting
    assert waiting is not None
    told = {reason["rule"]: reason for reason in waiting.reasons}
    assert told["split_unstable"]["holds"] is False and session.ids["long"] in str(told["kept_apart"]["jobs"])
    session.finish()
    assert {session.job(name).state for name in session.ids} == {JobState.COMPLETED}
    assert len(store.pairs.find()) == 1, "never packed again"
    assert [action.state for action in store.actions.find(kind="unpack")] == [ActionState.EXECUTED]
    stops = [run.exit.signal for run in session.cluster.runs.values() if run.exit and run.exit.reason == "stopped"]
    assert stops == [15, 15], "the cancelled one and the split one, both asked to end"


def test_a_pair_of_two_that_have_only_just_begun_is_not_split_for_it(store: Store, tmp_path: Path) -> None:
    """A second alone tells nothing of how fast a job was; steps of the pair's time are none of its time alone."""
    jobs = [ScriptedJob(name, work_s=90.0, shared=0.93, step_s=0.05) for name in ("one", "two")]
    session = Session.open(tmp_path, store, ONE_GPU, jobs, packing=QUICK)
    profile = Profile(30.0, 15.0, 4_000.0, 60.0, 30, "test")
    for job_id in session.submit("one", "two"):
        store.jobs.annotate(job_id, who="test", why="told", now=session.clock.now(), profile=profile)
    session.run_until(lambda: bool(store.pairs.open()), most=5)
    session.finish()
    (pair,) = store.pairs.find()
    assert pair.verdict is not PairVerdict.SPLIT, pair.why
    assert all(value > 0.8 for value in (pair.measured or {})["speed_frac"].values())


def test_a_pair_that_turns_unsteady_is_split_before_the_logs_tell(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path)
    until_known(session)
    session.run_until(lambda: session.job("short").state is JobState.RUNNING, most=5)
    run = next(run for run in session.cluster.runs.values() if run.exit is None and run.job.name == "short")
    run.job = ScriptedJob("short", work_s=100.0, unsteady=True)
    session.run_until(lambda: session.job("short").never_pack, most=30)
    assert "unsteady" in (store.pairs.find()[0].why or "")


def test_memory_that_is_about_to_run_out_splits_at_once(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path)
    until_known(session)
    session.run_until(lambda: session.job("short").state is JobState.RUNNING, most=5)
    run = next(run for run in session.cluster.runs.values() if run.exit is None and run.job.name == "short")
    run.job = ScriptedJob("short", work_s=100.0, memory_mib=20_000.0)
    session.run_until(lambda: session.job("short").never_pack, most=12)
    assert "memory is about to run out" in (store.pairs.find()[0].why or "")


def test_a_node_that_contradicts_our_books_forms_no_pair(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path)
    session.cluster.strangers_mib["n1", 0] = 18_000.0
    until_known(session)
    for _ in range(10):
        session.run_pass()
    assert session.job("short").state is JobState.QUEUED and store.pairs.find() == []
    (action,) = store.actions.find(kind="pack")
    assert action.state is ActionState.FAILED and "MiB are in use" in str(action.result)
    assert store.counters.all()["pairs_contradicted"] == 3, "a bounded number of looks"
    assert any("not packed" in event.why for event in store.events.of_job(session.ids["short"]))


def test_a_partner_that_is_given_up_does_not_keep_a_job_from_another_one(store: Store, tmp_path: Path) -> None:
    jobs = [ScriptedJob("one", work_s=300.0), ScriptedJob("two", work_s=300.0), ScriptedJob("short", work_s=100.0)]
    session = Session.open(tmp_path, store, (("n1", 2, "train"),), jobs, packing=QUICK)
    session.submit("one", "two")
    session.run_until(lambda: all(session.job(name).profile is not None for name in ("one", "two")))
    session.cluster.strangers_mib["n1", STRANGE_GPU] = 18_000.0
    profile = session.job("one").profile
    session.submit("short")
    store.jobs.annotate(session.ids["short"], who="test", why="told", now=session.clock.now(), profile=profile)
    session.run_until(lambda: session.job("short").state is JobState.RUNNING, most=20)
    assert store.counters.all()["pairs_contradicted"] == 3, "the first partner was looked at, and given up"
    states = {action.state for action in store.actions.find(kind="pack", target=session.ids["short"])}
    assert states == {ActionState.FAILED, ActionState.EXECUTED}
    session.finish()
    assert session.cluster.clashes == []


def test_shadow_records_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path, modes={"pack": "shadow"})
    until_known(session)
    for _ in range(5):
        session.run_pass()
    assert session.job("short").state is JobState.QUEUED
    (action,) = store.actions.find(kind="pack")
    assert (action.state, action.payload["partner_job_id"]) == (ActionState.PROPOSED, session.ids["long"])


def test_a_person_approves_a_pair_and_later_its_end(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path, modes={"pack": "approve", "unpack": "approve"})
    session.cluster.jobs["long"] = ScriptedJob("long", work_s=400.0, beside={"short": 0.3})
    until_known(session)
    for _ in range(5):
        session.run_pass()
    assert session.job("short").state is JobState.QUEUED
    (action,) = store.actions.find(kind="pack")
    store.actions.decide(action.action_id, approve=True, person="grace", now=session.clock.now())
    session.run_until(lambda: session.job("short").state is JobState.RUNNING, most=5)
    assert store.actions.get(action.action_id).state is ActionState.EXECUTED

    session.run_until(lambda: bool(store.actions.find(kind="unpack")), most=120)
    session.run_pass()
    assert session.job("short").state is JobState.RUNNING, "nobody said yes"
    (unpack,) = store.actions.find(kind="unpack")
    store.actions.decide(unpack.action_id, approve=True, person="grace", now=session.clock.now())
    session.run_until(lambda: session.job("short").never_pack, most=5)
    assert store.actions.get(unpack.action_id).state is ActionState.EXECUTED


def in_mode(session: Session, **modes: str) -> None:
    """The site changes its modes; the control plane begins again with them, as it does after a new lucid.yaml."""
    given = session.system.settings
    changed = {name: Mode(mode) for name, mode in modes.items()}
    settings = given.model_copy(update={"modes": given.modes.model_copy(update=changed)})
    session.system = System.of(settings, session.system.store, session.cluster, session.clock)


@pytest.mark.parametrize("before", ["shadow", "approve"])
def test_a_pending_proposal_goes_on_under_a_new_mode(store: Store, tmp_path: Path, before: str) -> None:
    session = pair_of(store, tmp_path, modes={"pack": before})
    until_known(session)
    session.run_until(lambda: bool(store.actions.find(kind="pack")), most=5)
    in_mode(session, pack="live")
    session.run_until(lambda: session.job("short").state is JobState.RUNNING, most=5)
    (action,) = store.actions.find(kind="pack")
    assert (action.mode, action.state) == (Mode.LIVE, ActionState.EXECUTED)
    assert store.counters.all().get("policy_failures") is None and store.counters.all().get("decisions_broken") is None
    session.finish()


def test_what_was_only_recorded_can_be_approved_once_a_site_wants_that(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path, modes={"pack": "shadow", "unpack": "off"})
    session.cluster.jobs["long"] = ScriptedJob("long", work_s=400.0, beside={"short": 0.3})
    until_known(session)
    session.run_until(lambda: bool(store.actions.find(kind="pack")), most=5)
    in_mode(session, pack="approve")
    session.run_pass()
    (action,) = store.actions.find(kind="pack")
    assert (action.mode, action.state) == (Mode.APPROVE, ActionState.PROPOSED)
    store.actions.decide(action.action_id, approve=True, person="grace", now=session.clock.now())
    session.run_until(lambda: session.job("short").state is JobState.RUNNING, most=5)

    session.run_until(lambda: store.pairs.open()[0].verdict is PairVerdict.SPLIT, most=120)
    assert store.actions.find(kind="unpack") == [], "off: nothing is proposed"
    in_mode(session, unpack="approve")
    session.run_pass()
    (unpack,) = store.actions.find(kind="unpack")
    store.actions.decide(unpack.action_id, approve=True, person="grace", now=session.clock.now())
    session.run_until(lambda: session.job("short").never_pack, most=5)
    assert store.actions.get(unpack.action_id).state is ActionState.EXECUTED


def test_a_pair_that_was_rejected_a_moment_ago_is_not_formed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person is quicker than the pass: between its reading and its writing."""
    session = pair_of(store, tmp_path, modes={"pack": "approve"})
    until_known(session)
    session.run_until(lambda: bool(store.actions.find(kind="pack")), most=5)
    (action,) = store.actions.find(kind="pack")
    store.actions.decide(action.action_id, approve=True, person="grace", now=session.clock.now())
    true_place, late = type(store.attempts).place, []

    def place(*args: object, **options: object) -> object:
        if options.get("partner_job_id") and not late:
            late.append(update(tables.actions).values(state=ActionState.REJECTED.value, person="ada"))
            store._database.write(lambda tx: tx.execute(late[0]))
        return true_place(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(store.attempts), "place", place)
    session.run_pass()
    assert store.counters.all()["actions_stale"] == 1
    assert late and session.job("short").state is JobState.QUEUED and store.pairs.find() == []


def test_a_late_approval_is_told_to_be_late(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path, modes={"pack": "approve"})
    until_known(session)
    session.run_until(lambda: bool(store.actions.find(kind="pack")), most=5)
    (action,) = store.actions.find(kind="pack")
    store.jobs.request_cancel(session.ids["short"], who="ada", now=session.clock.now())
    session.run_pass()
    approved = store.actions.decide(action.action_id, approve=True, person="grace", now=session.clock.now())
    again = store.actions.decide(action.action_id, approve=True, person="ada", now=session.clock.now())
    assert again == approved, "the first yes stands"
    session.run_pass()
    settled = store.actions.get(action.action_id)
    assert settled.state is ActionState.FAILED and "too late" in str(settled.result)
    with pytest.raises(StateError, match=r"is failed by grace"):
        store.actions.decide(action.action_id, approve=True, person="ada", now=session.clock.now())
    for unknown in (10**6, -1, 10**30):
        with pytest.raises((NotFoundError, InputError)):
            store.actions.decide(unknown, approve=True, person="ada", now=session.clock.now())


def test_what_is_not_known_forbids_packing(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path, unsteady=True)
    session.submit("long")
    session.run_until(lambda: session.job("long").profile is not None)
    session.submit("short")
    for _ in range(5):
        session.run_pass()
    facts = gather(session.system, session.cluster.inventory(), store.queue.view())
    assert facts.queued[session.ids["short"]].sharing_score is None
    assert session.job("short").state is JobState.QUEUED and store.actions.find(kind="pack") == []
