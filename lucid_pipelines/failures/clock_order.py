"""In which order causes were written, by their own clocks and not by their place in the log."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from lucid_pipelines.failures.records import Record
from lucid_pipelines.failures.scan import Judged
from lucid_pipelines.failures.vocabulary import Role

_MAX_DISORDER_S = 1500.0
"""Less than half an hour, the least by which time zones differ."""
_NOTABLE_DISORDER_S = 5.0
"""More than the clocks of ranks usually differ."""


def in_time_order(roots: list[Judged]) -> list[Judged]:
    """By place, but a record moves forward when both carry a time of their own and it is the older one."""
    ordered = sorted(roots, key=lambda item: item.position)
    if len(ordered) > 1:
        first = ordered[0]
        older = [item for item in ordered[1:] if is_older(item.record, first.record)]
        if older:
            oldest = older[0]
            for item in older[1:]:
                if is_older(item.record, oldest.record):
                    oldest = item
            ordered.remove(oldest)
            ordered.insert(0, oldest)
    return ordered


def is_older(one: Record, other: Record, least_s: float = 1.0) -> bool:
    """Whether ``one`` was certainly written before ``other``, by their own clocks.

    Writers of one log may live in different time zones, which differ by half hours at least: a gap of that size
    proves nothing.
    """
    if one.time is None or other.time is None:
        return False
    gap = one.time.seconds_until(other.time)
    return gap is not None and least_s <= gap <= _MAX_DISORDER_S


def times_disagree(judged: Sequence[Judged]) -> bool:
    """Whether causes stand in another order than their own clocks say, by more than ranks usually differ."""
    causes = (Role.ROOT, Role.WEAK, Role.UNKNOWN)
    timed = [item.record for item in judged if item.record.time is not None and item.role in causes]
    return any(is_older(b, a, _NOTABLE_DISORDER_S) for a, b in itertools.pairwise(timed))
