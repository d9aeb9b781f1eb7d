"""Proposals are scored by what came, or would have come, of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.control.proposal_scores import mode_records, score_proposals
from lucid_pipelines.store import Store
from tests.control.test_live_pairs import pair_of, until_known


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state.db", durable=False) as opened:
        yield opened


def test_a_pair_that_was_only_proposed_is_scored_when_both_have_ended(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path, modes={"pack": "shadow"})
    until_known(session)
    for _ in range(3):
        session.run_pass()
    assert score_proposals(session.system, session.clock.now()) == 0, "nobody can tell yet"
    session.finish()
    assert score_proposals(session.system, session.clock.now()) == 1
    (action,) = store.actions.find(kind="pack")
    score = action.score or {}
    assert (score["good"], score["memory_fits"]) == (True, True)
    assert score["waited_on_s"] > 100.0, "it waited for the long job to end"
    assert min(score["speed_frac"].values()) >= 0.85
    record = next(record for record in mode_records(session.system) if record.kind == "pack")
    assert (record.proposed, record.scored, record.good) == (1, 1, 1)


def test_a_pair_that_was_formed_is_scored_by_what_was_measured(store: Store, tmp_path: Path) -> None:
    session = pair_of(store, tmp_path)
    until_known(session)
    session.finish()
    assert score_proposals(session.system, session.clock.now()) == 1
    (action,) = store.actions.find(kind="pack")
    score = action.score or {}
    assert score["basis"] == "measured"
    assert score["good"] is True and 0.9 < min(score["speed_frac"].values()) < 1.0, "both ran at 0.95"
