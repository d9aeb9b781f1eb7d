"""The state that is changed from pass to pass is the one that would be built anew; what is recorded can be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.control.facts import Facts
from lucid_pipelines.control.live_state import LiveState, Operation, Verb, build
from lucid_pipelines.control.replaying import replay_day
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.placement import ClusterState
from lucid_pipelines.store import Store
from tests.support_control.killed_sessions import JOBS, NODES, SECTIONS
from tests.support_control.live_days import Session


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state.db", durable=False) as opened:
        yield opened


def contents(state: ClusterState) -> dict[str, object]:
    view = state.view(0.0)
    return {
        name: (
            vc.free.layout.names,
            tuple(vc.free.masks),
            dict(vc.queued),
            {
                job_id: running._replace(partners=tuple(sorted(running.partners)))
                for job_id, running in vc.running.items()
            },
        )
        for name, vc in view.vcs.items()
        if vc.queued or vc.running or vc.free.layout.names
    }


def test_a_session_changes_its_state_as_if_it_were_built_anew(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_follow = LiveState.follow
    verbs: list[Verb] = []

    def follow(self: LiveState, facts: Facts) -> tuple[ClusterState, list[Operation]]:
        state, operations = true_follow(self, facts)
        verbs.extend(operation.verb for operation in operations)
        assert contents(state) == contents(build(facts))
        return state, operations

    monkeypatch.setattr(LiveState, "follow", follow)
    session = Session.open(tmp_path, store, NODES, JOBS, **SECTIONS)
    session.submit(*[job.name for job in JOBS])
    session.run_until(session.have_ended)
    assert {Verb.START, Verb.PACK, Verb.UPDATE, Verb.RELEASE, Verb.ENQUEUE} <= set(verbs)
    assert verbs.count(Verb.RESET) < len(session.reports) / 4, "mostly it is changed, not built"

    (recording,) = session.system.settings.decisions.iterdir()
    whole = replay_day(recording)
    assert whole.differences == () and whole.decisions > 8
    text = recording.read_text()
    recording.write_text(text[:-20])
    cut = replay_day(recording)
    assert (cut.cut_lines, cut.differences) == (1, ())
    recording.write_text("".join(line for line in text.splitlines(keepends=True) if '"policy"' not in line))
    with pytest.raises(InputError, match="begins with a policy"):
        replay_day(recording)
    with pytest.raises(ExternalError, match="cannot be read"):
        replay_day(tmp_path / "missing.jsonl")


def test_a_policy_that_breaks_costs_one_pass(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session.open(tmp_path, store, NODES, JOBS, **SECTIONS)
    session.submit("third")
    true_decide = session.system.policy.decide
    calls: list[int] = []

    def decide(view: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("half way")
        return true_decide(view)  # type: ignore[arg-type]

    monkeypatch.setattr(session.system.policy, "decide", decide)
    with pytest.raises(AssertionError, match="half way"):
        session.run_pass()
    session.run_until(session.have_ended, most=30)
    assert store.counters.all()["policy_failures"] == 1
