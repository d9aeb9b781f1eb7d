"""A scripted session from end to end: live, replayed decision by decision, and beside the simulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.control.replaying import replay_day
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.policies import get as get_policy
from lucid_pipelines.store import PairVerdict, Store
from tests.support_control.live_days import Session
from tests.support_control.scenario import NODES, SECTIONS, scenario, simulate, with_bad_neighbours


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state.db", durable=False) as opened:
        yield opened


def play(store: Store, home: Path) -> Session:
    session = Session.open(home, store, NODES, with_bad_neighbours(scenario()), **SECTIONS)
    session.play()
    for _ in range(5):
        session.run_pass()
    return session


@pytest.mark.slow
def test_forty_jobs_live_and_in_the_simulator(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = play(store, tmp_path)
    jobs = [session.job(name) for name in session.ids]
    attempts = {job.job_id: store.attempts.of_job(job.job_id) for job in jobs}
    assert len(jobs) == 40 and {job.state for job in jobs} == {JobState.COMPLETED}
    assert session.cluster.clashes == [], "no GPU is given to more than two, or to two that are no pair"
    assert set(session.cluster.launches.values()) == {1}, "nothing is launched twice"
    filtered = [job for job in jobs if len(attempts[job.job_id]) == 1 and attempts[job.job_id][0].profiling]
    assert len(filtered) >= 8, "short jobs end in the profiling pool"
    pairs = store.pairs.find()
    assert len(pairs) >= 3
    split = [pair for pair in pairs if pair.verdict is PairVerdict.SPLIT]
    assert len(split) >= 1 and all(pair.ended_at for pair in split)
    returned = store.loans.past()
    assert returned and store.loans.out() == [], "a node was lent and came back"

    simulated = simulate(list(session.cluster.jobs.values()), session.system.settings, watch_s=20.0)
    live_s = fmean(session.jct_s(name) for name in session.ids)
    simulated_s = float(simulated.jct_s.mean())
    print(f"mean JCT: live {live_s:.1f} s, simulated {simulated_s:.1f} s; {len(pairs)} pairs, {len(split)} split")
    assert live_s == pytest.approx(simulated_s, rel=0.10)

    monkeypatch.setenv("LUCID_HOME", str(session.system.settings.home))
    told = CliRunner().invoke(app, ["decisions", "replay", "2026-01-05", "--json"])
    assert told.exit_code == 0 and json.loads(told.stdout)["differences"] == []
    (recording,) = session.system.settings.decisions.iterdir()
    played = replay_day(recording)
    assert played.differences == () and played.same == played.decisions > 60
    assert played.cut_lines == 0
    other = replay_day(recording, lambda name, settings: get_policy("fifo"))
    assert other.differences and other.same < other.decisions, "another policy decides otherwise"
