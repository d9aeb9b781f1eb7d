"""Several processes print one counter, some behind the others: the readings of one of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from lucid_pipelines.tracker.ticks import Tick, behaviour
from lucid_pipelines.tracker.window import Record

MIN_LANE = 3
"""Fewer readings of a process than this show nothing."""
MAX_LAG_STRIDES = 8.0
MAX_LAG_SHARE = 0.5
"""A process is behind by at most this share of what the window covers, else it is not the same count."""
_WRITER = re.compile(
    r"(?i)\b(?:(?:global|local)[ _]?rank|rank|worker|gpu|cuda|device|proc(?:ess)?(?:[ _](?:id|index))?|node|host"
    r"|replica|actor|trainer|task|pid)[ _:=#-]{0,2}(\d{1,8})\b"
)
_WRITER_CHARS = 200


def one_lane(ticks: Sequence[Tick]) -> list[Tick]:
    """The readings themselves where they count upward; else those of one process, where each of them counts.

    Where lines name their writers, one writer's readings are taken: the lowest of those that print as much as others.
    Where they do not, the readings that are ahead of all before them, if the others are close behind.
    """
    if len({tick.step for tick in ticks}) < MIN_LANE:
        return list(ticks)
    moves = behaviour([t.step for t in ticks], [t.total for t in ticks])
    if moves.counts and moves.breaks <= max(1, moves.ups // 5):
        return list(ticks)
    return _by_writer(ticks) or _leaders(ticks) or list(ticks)


def writer_of(record: Record) -> int | None:
    """Number of the process that wrote a record, when the line says it."""
    if record.rank is not None:
        return record.rank
    match = _WRITER.search(record.text, 0, _WRITER_CHARS)
    return int(match[1]) if match else None


def _by_writer(ticks: Sequence[Tick]) -> list[Tick]:
    lanes: dict[int | None, list[Tick]] = defaultdict(list)
    for tick in ticks:
        lanes[writer_of(tick.record)].append(tick)
    named = {writer: lane for writer, lane in lanes.items() if writer is not None and len(lane) >= MIN_LANE}
    if len(lanes) < 2 or not named or len(lanes.get(None, ())) > len(ticks) // 4:
        return []
    counting = {
        writer: lane
        for writer, lane in named.items()
        if behaviour([t.step for t in lane], [t.total for t in lane]).counts
    }
    if 2 * len(counting) <= len(named):
        return []
    most = max(len(lane) for lane in counting.values())
    return counting[min(writer for writer, lane in counting.items() if 2 * len(lane) >= most)]


def _leaders(ticks: Sequence[Tick]) -> list[Tick]:
    ahead = [ticks[0]]
    lag = 0.0
    for tick in ticks[1:]:
        lag = max(lag, ahead[-1].step - tick.step)
        if tick.step > ahead[-1].step:
            ahead.append(tick)
    if len(ahead) < MIN_LANE:
        return []
    stride = median([b.step - a.step for a, b in pairwise(ahead)])
    covered = ahead[-1].step - ahead[0].step
    is_close = lag <= min(MAX_LAG_STRIDES * stride, MAX_LAG_SHARE * covered)
    return ahead if is_close and len(ahead) >= len(ticks) // 32 else []
