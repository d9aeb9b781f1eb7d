"""What a scheduling loop remembers between passes. Nothing of it would be missed: a new process begins with none."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from lucid_pipelines.control.facts import FactMemory, GpuKey
from lucid_pipelines.control.live_state import LiveState
from lucid_pipelines.control.recording import Recorder
from lucid_pipelines.domain.view import Forecast


@dataclass
class LoopMemory:
    """Caches of one loop.

    Attributes:
        sampled_at, looked_at: when the GPUs, and the pairs, were last looked at.
        held: when each GPU was last in our books; ``dirty``: free GPUs that somebody else uses.
        profiled, watched: when each running attempt, and each pair, was last looked at closely.
        forecast, forecast_until_s: predicted submissions, and when they are to be predicted anew.
    """

    facts: FactMemory = field(default_factory=FactMemory)
    state: LiveState = field(default_factory=LiveState)
    sampled_at: datetime | None = None
    looked_at: datetime | None = None
    held: dict[GpuKey, datetime] = field(default_factory=dict)
    dirty: frozenset[GpuKey] = frozenset()
    forecast: Forecast | None = None
    forecast_until_s: float = float("-inf")
    profiled: dict[str, datetime] = field(default_factory=dict)
    watched: dict[int, datetime] = field(default_factory=dict)
    recorder: Recorder | None = None
