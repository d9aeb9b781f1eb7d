"""What a scheduling loop remembers between passes. Nothing of it would be missed: a new process begins with none."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from lucid_pipelines.control.facts import FactMemory, GpuKey
from lucid_pipelines.control.live_state import LiveState
from lucid_pipelines.control.recording import Recorder
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.store import Action


@dataclass
class LoopMemory:
    """Caches of one loop.

    Attributes:
        sampled_at, looked_at: when the GPUs, and the pairs, were last looked at.
        held: GPUs in use in the last pass; ``left``: when a GPU last became free.
        dirty: free GPUs that somebody else uses.
        given_up: proposals of pairs that the nodes contradicted for good; ``None`` = not read yet.
        profiled, watched: when each running attempt, and each pair, was last looked at closely.
        forecast, forecast_until_s: predicted submissions, and when they are to be predicted anew.
    """

    facts: FactMemory = field(default_factory=FactMemory)
    state: LiveState = field(default_factory=LiveState)
    sampled_at: datetime | None = None
    looked_at: datetime | None = None
    held: set[GpuKey] = field(default_factory=set)
    left: dict[GpuKey, datetime] = field(default_factory=dict)
    dirty: frozenset[GpuKey] = frozenset()
    forecast: Forecast | None = None
    forecast_until_s: float = float("-inf")
    profiled: dict[str, datetime] = field(default_factory=dict)
    watched: dict[int, datetime] = field(default_factory=dict)
    given_up: list[Action] | None = None
    recorder: Recorder | None = None
