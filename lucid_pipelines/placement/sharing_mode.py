"""How much sharing is allowed, by what the throughput model expects (Lucid, section 8: indolent packing)."""

from __future__ import annotations

from dataclasses import dataclass

from lucid_pipelines.domain.decision import Reason
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.placement.pairing import SharingMode


@dataclass(frozen=True, slots=True)
class ModeRules:
    """When the binder shares less.

    Attributes:
        off_below_jobs: with at most this many predicted jobs per slot, nothing shares.
        apathetic_below_jobs: with at most this many, and no more than now, sharing is apathetic.
        slots_ahead: how many slots of the forecast count as the near future.
        mode_interval_s: how often the mode is looked at; ``None`` = at every pass.
    """

    off_below_jobs: float = 2.0
    apathetic_below_jobs: float = 2.0
    slots_ahead: int = 5
    mode_interval_s: float | None = None

    def __post_init__(self) -> None:
        if self.slots_ahead < 1:
            raise InputError(f"slots_ahead must be at least 1; got {self.slots_ahead}")
        if self.mode_interval_s is not None and not self.mode_interval_s > 0:
            raise InputError(f"mode_interval_s must be above 0; got {self.mode_interval_s}")


def choose_mode(forecast: Forecast | None, now_s: float, rules: ModeRules) -> tuple[SharingMode, Reason]:
    """The sharing mode at ``now_s`` and why.

    Without a forecast (none given, or it has run out) the mode is the default one; the reason says
    ``forecast: missing`` so that callers can count it.
    """
    if rules.mode_interval_s is not None:
        now_s = now_s // rules.mode_interval_s * rules.mode_interval_s
    ahead = None if forecast is None else forecast.mean_jobs_ahead(now_s, rules.slots_ahead)
    if forecast is None or ahead is None:
        return SharingMode.DEFAULT, Reason("sharing_mode", {"mode": "default", "forecast": "missing"})
    present = forecast.jobs_at(now_s)
    mode = SharingMode.DEFAULT
    if ahead <= rules.off_below_jobs:
        mode = SharingMode.OFF
    elif ahead <= rules.apathetic_below_jobs and (present is None or ahead <= present):
        mode = SharingMode.APATHETIC
    return mode, Reason("sharing_mode", {"mode": mode.value, "jobs_ahead": ahead, "jobs_now": present})


def next_mode_s(forecast: Forecast | None, now_s: float, rules: ModeRules) -> float | None:
    """When the mode may change next."""
    slot_s = None if forecast is None else forecast.next_slot_s(now_s)
    if slot_s is None or rules.mode_interval_s is None:
        return slot_s
    return -(-slot_s // rules.mode_interval_s) * rules.mode_interval_s
