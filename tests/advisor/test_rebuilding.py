"""Filling the index of another embedder, or a lost one, from what is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.advisor.advising import Advisor, AdvisorSettings, vector_space
from lucid_pipelines.domain.similarity import HistoryFilter, VectorSpace
from lucid_pipelines.resources.embedders.hashing import HashEmbedder
from lucid_pipelines.resources.history_index import open_index
from lucid_pipelines.resources.history_index.embedded import EmbeddedIndex, spaces_in
from lucid_pipelines.resources.history_index.rebuilding import Rebuilt, rebuild
from lucid_pipelines.store import Store
from tests.support_advisor.past import LATER, past


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state.db", durable=False) as opened:
        yield opened


def advisor_of(url: str, embedder: HashEmbedder) -> Advisor:
    return Advisor(embedder, open_index(url, vector_space(embedder)), AdvisorSettings(0.85))


def filled(store: Store, url: str, embedder: HashEmbedder) -> Rebuilt:
    return rebuild(store, open_index(url, vector_space(embedder)), embedder, advisor_of(url, embedder))


def test_another_embedder_gets_every_past_job_once(tmp_path: Path, store: Store) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    old, new = HashEmbedder(64), HashEmbedder(256)
    jobs = [past(f"job-{number}", fingerprint=f"model: m{number}") for number in range(7)]
    advisor_of(url, old).learn(jobs)
    first = filled(store, url, new)
    assert (first.from_other_spaces, first.from_history, first.count) == (7, 0, 7)
    assert first.calibration.threshold is None
    again = filled(store, url, new)
    assert (again.from_other_spaces, again.count) == (0, 7)
    index = open_index(url, vector_space(new))
    found = index.search(new.embed(["model: m3"])[0], 1, LATER, HistoryFilter(), 0.9)
    assert [match.job.job_id for match in found.matches] == ["job-3"]
    assert open_index(url, vector_space(old)).count() == 7


def test_texts_of_another_schema_are_left_and_counted(tmp_path: Path, store: Store) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    embedder = HashEmbedder(64)
    space = vector_space(embedder)
    index = open_index(url, space)
    assert isinstance(index, EmbeddedIndex)
    older = VectorSpace(space.embedder, space.dimension, space.schema_version + 1)
    Advisor.learn(advisor_of(url, embedder), [])
    EmbeddedIndex(index.engine, older)
    assert set(spaces_in(index.engine)) == {space, older}
    found = filled(store, url, embedder)
    assert (found.count, found.from_other_spaces, found.other_schema) == (0, 0, 0)
