"""The advisor of a control plane: opened late, and bounded in time for a whole batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lucid_pipelines.advisor.advising import Advisor
    from lucid_pipelines.store import Store


@dataclass
class LiveAdvisor:
    """The advisor of a control plane, opened at the first question.

    Args:
        open_it: makes the advisor; given ln(actual / predicted) of earlier predictions, newest last.
        time_box_s: for one job, and for all jobs of a batch together.
    """

    open_it: Callable[[Sequence[float]], Advisor]
    time_box_s: float
    _store: Store | None = field(default=None, repr=False)
    _batch_left_s: float | None = None

    def begin_batch(self, store: Store) -> None:
        """A new batch has its whole time before it."""
        self._store = store
        self._batch_left_s = self.time_box_s

    @property
    def time_left_s(self) -> float:
        """For the next job of this batch."""
        return self.time_box_s if self._batch_left_s is None else self._batch_left_s

    def spend(self, wall_s: float) -> None:
        """Count time that a job took."""
        if self._batch_left_s is not None:
            self._batch_left_s -= wall_s

    @cached_property
    def opened(self) -> Advisor:
        """Raises ``LucidError`` when the index or the embedder cannot be opened."""
        from lucid_pipelines.advisor.intervals import MAX_RESIDUALS

        return self.open_it(self._store.advice.residuals(MAX_RESIDUALS) if self._store is not None else ())
