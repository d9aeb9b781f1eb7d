"""Steps within an epoch, joined into steps of the whole training where the log allows, and what is left of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from lucid_pipelines.tracker.counters import Counter
from lucid_pipelines.tracker.losses import Reading
from lucid_pipelines.tracker.timeline import positions

_CLEARLY_APART_EPOCHS = 1.5
"""A counter over all epochs cannot be so far from where the printed epoch is."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Where a training is, over all its epochs.

    Attributes:
        step: steps done over all epochs; ``None`` where the length or the first number of the epochs is unknown.
        total: steps of all epochs.
        left: steps left of the whole training; ``None`` where the counter may be one epoch's only.
    """

    step: int | None = None
    total: int | None = None
    left: int | None = None


def join_epochs(counter: Counter, total: int | None, epoch: Reading | None, head: bytes) -> Joined:
    """Join the counter's steps over the epochs printed beside it.

    ``Epoch 3/20 step 120/500`` may count the steps of an epoch or of all: a counter that was seen to begin again, or
    that is far from where the epoch is, counts one epoch's. Whether it begins again, and whether epochs are counted
    from 0 or 1, may stand in the start of the log. In the last epoch both leave as much.

    Args:
        counter: the step counter.
        total: its total.
        epoch: the newest epoch.
        head: the first bytes of the log.
    """
    step = int(counter.newest.step)
    whole = Joined(left=None if total is None else total - step)
    if total is None or counter.unit == "epoch":
        return whole
    restarts = _restarts(counter)
    if epoch is None or epoch.record is not counter.newest.record or epoch.value != int(epoch.value):
        return Joined() if restarts else whole
    epochs = epoch.record.parsed.values[epoch.column.index].total
    if counter.newest.total is None or (not restarts and (epochs is None or epochs <= 1)):
        return Joined() if restarts else whole
    first = _first_epoch(epoch, head)
    if first is None or epoch.value < first:
        return Joined()
    done = int(epoch.value) - first
    if not restarts:
        begins_again = _restarts_in(epoch.column.field.name, counter.column.field.name, head)
        if begins_again is False or (epochs is not None and done >= epochs - 1):
            return whole
        if begins_again is None and abs(step / total * (epochs or 1.0) - done - 0.5) <= _CLEARLY_APART_EPOCHS:
            return Joined()
    joined = done * total + step
    joined_total = int(epochs * total) if epochs else None
    return Joined(joined, joined_total, None if joined_total is None else joined_total - joined)


def _restarts(counter: Counter) -> bool:
    ticks = counter.ticks
    return len(positions(ticks)) == len(ticks) and any(b.step < a.step for a, b in pairwise(ticks))


def _first_epoch(epoch: Reading, head: bytes) -> int | None:
    """0 or 1: as the log begins, or as the epoch's total allows; ``None`` when that cannot be told."""
    total = epoch.record.parsed.values[epoch.column.index].total
    if total is not None and epoch.value == total:
        return 1
    if min(epoch.column.values) == 0:
        return 0
    begun = _first_number(epoch.column.field.name, head)
    return begun if begun in (0, 1) else None


@lru_cache(maxsize=768)
def _first_number(name: str, head: bytes) -> int | None:
    """The first whole number that stands behind ``name`` in the start of a log."""
    if not name:
        return None
    pattern = rb"(?<![\w])" + re.escape(name.encode()) + rb"[^\w\n]{1,4}(\d{1,9})(?![\d.])"
    match = re.search(pattern, head)
    return int(match[1]) if match else None


@lru_cache(maxsize=768)
def _restarts_in(epoch_name: str, step_name: str, head: bytes) -> bool | None:
    """Whether the step begins again with the second epoch, where the start of a log shows that."""
    if not epoch_name or not step_name:
        return None
    names = [rb"(?<![\w])" + re.escape(name.encode()) + rb"[^\w\n]{1,4}(\d{1,15})" for name in (epoch_name, step_name)]
    found = [(int(m[1]), int(m[2])) for m in re.finditer(names[0] + rb"[^\n]{0,200}?" + names[1], head)]
    return next((after[1] < before[1] for before, after in pairwise(found) if after[0] == before[0] + 1), None)
