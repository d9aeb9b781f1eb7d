"""Scripted sessions whose control plane may be killed, again and again, over one database file and one cluster."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from lucid_pipelines.control.system import System
from lucid_pipelines.domain.decision import StopCause
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.store import Action, ActionState, Pair, PairVerdict, Store
from tests.support_control.live_days import LIVE_MODES, Session
from tests.support_control.pretend import KilledError, OwnClock, Tripwire, Watched
from tests.support_control.scripted import ScriptedCluster, ScriptedJob

NODES = (("n1", 1, "train"), ("i1", 1, "idle"), ("i2", 1, "idle"), ("p1", 1, "profiler"))
COOL_DOWN_S = 20.0
SECTIONS: dict[str, object] = {
    "profiling": {
        "window_s": 8.0,
        "busy_window_s": 8.0,
        "max_gpus": 1,
        "borrow_above_jobs": 1,
        "return_below_jobs": 1,
    },
    "packing": {"min_remaining_s": 5.0, "watch_after_s": 6.0, "cool_down_s": COOL_DOWN_S},
}
BAD = dict.fromkeys(("first", "second", "fourth"), 0.3)
JOBS = [
    ScriptedJob("first", work_s=60.0, beside=BAD),
    ScriptedJob("second", work_s=30.0, beside=BAD),
    ScriptedJob("third", work_s=4.0),
    ScriptedJob("fourth", work_s=25.0, beside=BAD),
]
_SPLITS = (StopCause.UNSTABLE_PAIR.value, StopCause.SLOW_PAIR.value)
Window = tuple[str, int, int]
"""What was changed, and the first and last call (counted from 1) of the pass that changed it and of the next one."""


class World:
    """A database file and a cluster that outlive every control plane.

    Args:
        mode: of packing, unpacking and lending; with ``approve`` a person says yes to everything at once.
        move: what moving a profiled job on means.
    """

    def __init__(
        self,
        home: Path,
        template: Path,
        *,
        mode: str = "live",
        move: str = "restart",
        jobs: Sequence[ScriptedJob] = JOBS,
    ) -> None:
        home.mkdir(parents=True)
        shutil.copy(template, home / "state.db")
        self.home, self.clock, self.jobs = home, OwnClock(), jobs
        self.mode = mode
        profiling = {**SECTIONS["profiling"], "move": move}  # type: ignore[dict-item]
        self.sections = {**SECTIONS, "profiling": profiling, "modes": dict.fromkeys(LIVE_MODES, mode)}
        self.cluster = ScriptedCluster(self.clock, NODES, jobs)
        self.ids: dict[str, str] = {}
        self.windows: list[Window] = []

    def drive(self, wire: Tripwire) -> bool:
        """A control plane to the end of all jobs and a little further; ``False`` = killed by the wire."""
        with Store.open(self.home / "state.db", migrate=False, durable=False) as store:
            session = Session.open(self.home, store, NODES, self.jobs, **self.sections)
            session.clock, session.cluster, session.ids = self.clock, self.cluster, self.ids
            bare = System.of(session.system.settings, store, self.cluster, self.clock)
            session.system = bare
            if not self.ids:
                session.submit(*[job.name for job in self.jobs])
            session.system = System(
                bare.settings, Watched(store, wire), Watched(self.cluster, wire), bare.policy, self.clock
            )  # type: ignore[arg-type]
            try:
                later = 0
                for _ in range(600):
                    later = later + 1 if session.have_ended() else 0
                    if later > 4 and not store.loans.out():
                        return True
                    self._one_pass(session, store, wire)
            except KilledError:
                return False
        raise AssertionError("it does not come to an end")

    def _one_pass(self, session: Session, store: Store, wire: Tripwire) -> None:
        if self.mode == "approve":
            for action in store.actions.find(states=[ActionState.PROPOSED]):
                store.actions.decide(action.action_id, approve=True, person="grace", now=self.clock.now())
        begin = len(wire.calls) + 1
        applied = session.run_pass().applied
        self.windows = [(what, first, last if last else len(wire.calls)) for what, first, last in self.windows]
        done: Mapping[str, int] = {
            "pack": applied.packed,
            "stop": applied.stopped,
            "lend": applied.lent,
            "continue": applied.continued,
        }
        self.windows += [(what, begin, 0) for what, count in done.items() if count]

    def assert_true_end(self) -> None:
        """Nothing twice, nothing lost, and what the audit says is what was done."""
        assert self.cluster.clashes == [] and set(self.cluster.launches.values()) == {1}
        with Store.open(self.home / "state.db", migrate=False, durable=False) as store:
            assert store.queue.view().slots == () and store.attempts.active() == [] and store.loans.out() == []
            for name, job_id in self.ids.items():
                assert store.jobs.get(job_id).state is JobState.COMPLETED, name
                kinds = [event.kind.value for event in store.events.of_job(job_id)]
                assert kinds.count("placed") == kinds.count("ended") == len(store.attempts.of_job(job_id)), (
                    name,
                    kinds,
                )
            rows = store.history.rows()
            assert len(rows) == len({row.attempt_id for row in rows})
            assert_pairs_and_audit_agree(store)
            assert_loans_and_audit_agree(store)


def assert_pairs_and_audit_agree(store: Store, cool_down_s: float = COOL_DOWN_S) -> None:
    """Every pair has ended, was decided once, and one that was split leaves its later job alone for good."""
    pairs = store.pairs.find()
    assert all(pair.ended_at is not None for pair in pairs)
    assert all(action.state in (ActionState.EXECUTED, ActionState.FAILED) for action in store.actions.find(kind="pack"))
    packed = [action for action in store.actions.find(kind="pack") if action.state is ActionState.EXECUTED]
    assert sorted(map(_pair_of, packed)) == sorted((pair.first_attempt_id, pair.later_attempt_id) for pair in pairs)
    split = {action.payload["pair"]: action for action in store.actions.find(kind="unpack")}
    attempts = {
        attempt.attempt_id: attempt
        for job in store.jobs.find(limit=None)
        for attempt in store.attempts.of_job(job.job_id)
    }
    for pair in pairs:
        is_stopped_for_it = attempts[pair.later_attempt_id].stop_reason in _SPLITS
        was_split = pair.verdict is PairVerdict.SPLIT and is_stopped_for_it
        action = split.get(pair.pair_id)
        assert (action is not None and action.state is ActionState.EXECUTED) == was_split, (pair, action)
        if was_split:
            job_id, _, number = pair.later_attempt_id.rpartition("-a")
            ended_by_itself = f"{job_id}-a{int(number) + 1}" not in attempts  # before the stop reached it
            assert store.jobs.get(job_id).never_pack or ended_by_itself, "it is never packed again"
            _assert_stays_apart(pair, pairs, cool_down_s)


def _pair_of(action: Action) -> tuple[str, str]:
    return str(action.payload["partner_attempt_id"]), f"{action.target}-a{action.payload['attempt_number']}"


def _assert_stays_apart(split: Pair, pairs: Sequence[Pair], cool_down_s: float) -> None:
    assert split.ended_at is not None
    later_job = split.later_attempt_id.rpartition("-a")[0]
    hot = {(share.node, index) for share in split.placement.shares for index in share.gpu_indices}
    for pair in pairs:
        if pair.formed_at <= split.formed_at:
            continue
        assert later_job not in (name.rpartition("-a")[0] for name in (pair.first_attempt_id, pair.later_attempt_id))
        gpus = {(share.node, index) for share in pair.placement.shares for index in share.gpu_indices}
        is_cool = pair.formed_at >= split.ended_at + timedelta(seconds=cool_down_s)
        assert is_cool or not gpus & hot, "the GPUs cool down after a split"


def assert_loans_and_audit_agree(store: Store) -> None:
    """Every node is back, and each way of it stands in the audit once as moved."""
    loans = store.loans.past()
    moved = [action for action in store.actions.find(kind="lend") if action.state is ActionState.EXECUTED]
    ways = [(loan.node, loan.to_vc) for loan in loans] + [(loan.node, loan.from_vc) for loan in loans]
    assert sorted((action.target, str(action.payload["to_vc"])) for action in moved) == sorted(ways)
    assert not [action for action in store.actions.find(kind="lend") if action.state is ActionState.FAILED]
