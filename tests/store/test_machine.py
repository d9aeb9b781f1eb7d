"""Any sequence of operations keeps the promises: no GPU twice, one end per attempt, a story that adds up."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.domain.states import AttemptState, JobState, Outcome, require_transition
from lucid_pipelines.store import Store
from tests.support_pg.fixtures import migrated_database, server_or_skip
from tests.support_store.fixtures import sqlite_url
from tests.support_store.jobs import at, exit_record, make_spec

_GPUS = [("n1", 0), ("n1", 1), ("n2", 0)]
_FORWARD = {
    JobState.SUBMITTED: JobState.SNAPSHOTTED,
    JobState.SNAPSHOTTED: JobState.ADVISED,
    JobState.ADVISED: JobState.QUEUED,
}


class StoreMachine(RuleBasedStateMachine):
    """Random jobs on three GPUs. A refused operation (``StateError``) must leave the promises intact too."""

    jobs = Bundle("jobs")
    attempts = Bundle("attempts")

    def __init__(self) -> None:
        super().__init__()
        self.second = 0
        self.ended: Counter[str] = Counter()
        self.versions: dict[str, int] = {}

    @initialize()
    def open(self) -> None:
        self.store = Store.open(self.make_url(), durable=False)

    def make_url(self) -> str:
        self.folder = Path(tempfile.mkdtemp(prefix="lucid-machine-"))
        return sqlite_url(self.folder)

    def now(self) -> object:
        self.second += 1
        return at(self.second)

    # ---- operations -----------------------------------------------------------------------------------

    @rule(target=jobs, key=st.sampled_from([None, "k1", "k2"]), forward=st.integers(0, 3))
    def submit(self, key: str | None, forward: int) -> str:
        now = self.now()
        job, created = self.store.jobs.submit(make_spec(idempotency_key=key), now)
        if created:
            for _ in range(forward):
                target = _FORWARD[job.state]
                job = self.store.jobs.transition(job.job_id, [job.state], target, who="i", why="", now=now)
        return job.job_id

    @rule(job=jobs, to_state=st.sampled_from([JobState.QUEUED, JobState.PROFILE_QUEUED, JobState.SNAPSHOTTED]))
    def move(self, job: str, to_state: JobState) -> None:
        try:
            self.store.jobs.transition(job, set(JobState), to_state, who="i", why="", now=self.now())
        except StateError:
            return

    @rule(
        target=attempts,
        job=jobs,
        gpus=st.lists(st.sampled_from(_GPUS), min_size=1, max_size=3, unique=True),
        profiling=st.booleans(),
    )
    def place(self, job: str, gpus: list[tuple[str, int]], profiling: bool) -> object:
        by_node: dict[str, list[int]] = {}
        for node, index in gpus:
            by_node.setdefault(node, []).append(index)
        return self._place(job, Placement.of(by_node), profiling=profiling)

    @rule(target=attempts, job=jobs, partner=jobs)
    def pack(self, job: str, partner: str) -> object:
        held = [a for a in self.store.attempts.of_job(partner) if a.state is not AttemptState.ENDED]
        if not held or job == partner:
            return multiple()
        return self._place(job, held[0].placement, partner_job_id=partner)

    def _place(self, job: str, placement: Placement, **options: object) -> object:
        try:
            attempt = self.store.attempts.place(job, placement, who="s", now=self.now(), **options)  # type: ignore[arg-type]
        except StateError:
            return multiple()
        return attempt.attempt_id

    @rule(attempt=attempts)
    def start(self, attempt: str) -> None:
        now = self.now()
        self.store.attempts.record_started(attempt, now, who="p", now=now)  # type: ignore[arg-type]

    @rule(attempt=attempts, requeue=st.booleans(), never_pack=st.booleans())
    def stop(self, attempt: str, requeue: bool, never_pack: bool) -> None:
        self.store.attempts.request_stop(
            attempt, reason="r", requeue=requeue, never_pack=never_pack, who="s", now=self.now()
        )

    @rule(attempt=attempts, outcome=st.sampled_from(Outcome), requeue=st.booleans(), record=st.booleans())
    def end(self, attempt: str, outcome: Outcome, requeue: bool, record: bool) -> None:
        self._end(attempt, outcome, requeue and outcome is not Outcome.COMPLETED, record)

    @rule(attempt=consumes(attempts), outcome=st.sampled_from(Outcome))
    def end_for_good(self, attempt: str, outcome: Outcome) -> None:
        self._end(attempt, outcome, requeue=False, record=True)

    def _end(self, attempt: str, outcome: Outcome, requeue: bool, record: bool) -> None:
        now = self.now()
        exit_ = exit_record(now, 5) if record else None  # type: ignore[arg-type]
        result = self.store.attempts.record_end(attempt, exit_, outcome, who="p", now=now, requeue=requeue)  # type: ignore[arg-type]
        self.ended[attempt] += result.changed

    @rule(job=jobs)
    def cancel(self, job: str) -> None:
        try:
            self.store.jobs.request_cancel(job, who="ada", now=self.now())
        except StateError:
            return

    @rule(job=jobs)
    def put_back(self, job: str) -> None:
        try:
            self.store.jobs.requeue(job, who="r", why="y", now=self.now())
        except StateError:
            return

    # ---- promises -------------------------------------------------------------------------------------

    @invariant()
    def gpus_belong_to_open_attempts_and_to_two_at_most(self) -> None:
        view = self.store.queue.view()
        open_attempts = {attempt.attempt_id: attempt for attempt in self.store.attempts.active()}
        assert {entry.attempt.attempt_id for entry in view.active} == set(open_attempts)
        holders: dict[tuple[str, int], list[str]] = {}
        for slot in view.slots:
            holders.setdefault((slot.node, slot.gpu_index), []).append(slot.attempt_id)
        wanted: dict[tuple[str, int], set[str]] = {}
        for attempt in open_attempts.values():
            for share in attempt.placement.shares:
                for index in share.gpu_indices:
                    wanted.setdefault((share.node, index), set()).add(attempt.attempt_id)
        assert {gpu: set(ids) for gpu, ids in holders.items()} == wanted
        for ids in holders.values():
            assert len(ids) <= 2
            if len(set(ids)) == 2:  # a pair: each knows the other as a partner, at some time
                first, second = (open_attempts[attempt_id] for attempt_id in ids)
                assert first.partner_job_id is not None
                assert second.partner_job_id is not None

    @invariant()
    def each_attempt_ended_once(self) -> None:
        assert all(count <= 1 for count in self.ended.values())
        ended = {attempt_id for attempt_id, count in self.ended.items() if count}
        assert {row.attempt_id for row in self.store.history.rows()} == ended
        assert all(self.store.attempts.get(attempt_id).state is AttemptState.ENDED for attempt_id in ended)
        abnormal, _ = self.store.exits.pending()
        normal, _ = self.store.exits.pending(abnormal=False)
        assert abnormal + normal == len(ended)

    @invariant()
    def the_story_leads_to_the_state(self) -> None:
        stories: dict[str, list[object]] = {}
        for event in self.store.events.after(0, limit=100_000):
            if event.from_state is not None and event.from_state is not event.to_state:
                require_transition(event.from_state, event.to_state)
            assert (stories[event.job_id][-1] if event.job_id in stories else None) == event.from_state
            stories.setdefault(event.job_id, []).append(event.to_state)
        jobs = self.store.jobs.find(limit=None)
        assert {job.job_id: job.state for job in jobs} == {job_id: story[-1] for job_id, story in stories.items()}
        for job in jobs:
            assert job.version >= self.versions.get(job.job_id, 1)
            self.versions[job.job_id] = job.version
            assert job.state.is_active == any(attempt.job_id == job.job_id for attempt in self.store.attempts.active())

    @invariant()
    def the_cached_view_is_the_true_one(self) -> None:
        if self.second % 5:
            return  # a fresh store for each step would be most of the work
        with Store.open(self.store._database.url.render_as_string(hide_password=False)) as fresh:
            assert fresh.queue.view() == self.store.queue.view()

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class PostgresMachine(StoreMachine):
    """The same on PostgreSQL."""

    def make_url(self) -> str:
        self.database = migrated_database()
        return self.database.__enter__()

    def teardown(self) -> None:
        self.store.close()
        self.database.__exit__(None, None, None)


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=25,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def test_promises_hold_on_sqlite() -> None:
    run_state_machine_as_test(StoreMachine, settings=_settings(5))


@pytest.mark.postgres
def test_promises_hold_on_postgres() -> None:
    server_or_skip()
    run_state_machine_as_test(PostgresMachine, settings=_settings(2))


@pytest.mark.slow
def test_promises_hold_for_longer() -> None:
    run_state_machine_as_test(StoreMachine, settings=_settings(50))
