"""Fill the history index in the space of the embedder in use: after another embedder was chosen, or an index was lost.

Nothing is deleted: vectors of other spaces stay where they are, so that going back costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lucid_pipelines.advisor.advising import Advisor, vector_space
from lucid_pipelines.advisor.calibration import Calibration, calibrate, history_pairs
from lucid_pipelines.control.advising import past_job
from lucid_pipelines.domain.similarity import PastJob, VectorSpace
from lucid_pipelines.ports import Embedder, HistoryIndex
from lucid_pipelines.resources.history_index.embedded import EmbeddedIndex, spaces_in
from lucid_pipelines.store import Store

BATCH = 500
PAIRS_ASKED = 500
"""Newest jobs whose neighbours are looked at for the calibration."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild did.

    Attributes:
        space: the space that is filled.
        count: past jobs in it now.
        from_other_spaces, from_history: how many were embedded anew, and from where.
        other_schema: past jobs of another fingerprint schema: their text cannot be compared, so they were left.
        calibration: the ``T_score`` that the site's own history suggests.
    """

    space: VectorSpace
    count: int
    from_other_spaces: int
    from_history: int
    other_schema: int
    calibration: Calibration


def rebuild(store: Store, index: HistoryIndex, embedder: Embedder, advisor: Advisor) -> Rebuilt:
    """Embed what other spaces and the state database know and this space does not. Safe to run again at any time."""
    space = vector_space(embedder)
    known = {job.job_id for job in index.jobs()}
    copied = other_schema = 0
    if isinstance(index, EmbeddedIndex):
        for other in spaces_in(index.engine):
            if other == space:
                continue
            past = EmbeddedIndex(index.engine, other)
            if other.schema_version != space.schema_version:
                other_schema += past.count()
                continue
            copied += _add(advisor, past.jobs(), known)
    from_history = _add(advisor, _learned(store), known)
    suggestion = calibrate(history_pairs(index, embedder, PAIRS_ASKED))
    return Rebuilt(space, index.count(), copied, from_history, other_schema, suggestion)


def _add(advisor: Advisor, jobs: Iterator[PastJob], known: set[str]) -> int:
    """Embed and store those that are not known yet; ``known`` grows."""
    added, batch = 0, list[PastJob]()
    for job in jobs:
        if job.job_id in known:
            continue
        known.add(job.job_id)
        batch.append(job)
        if len(batch) == BATCH:
            added += advisor.learn(batch)
            batch = []
    return added + (advisor.learn(batch) if batch else 0)


def _learned(store: Store) -> Iterator[PastJob]:
    after = ""
    while rows := store.advice.learned(after, BATCH):
        after = rows[-1].job.job_id
        yield from (job for job in (past_job(each) for each in rows) if job is not None)
