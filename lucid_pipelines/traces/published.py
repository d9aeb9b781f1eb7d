"""Published facts about production clusters, to which the generator is calibrated."""

from __future__ import annotations

from collections.abc import Mapping

MEDIAN_DURATION_S = 206.0
MEAN_DURATION_S = 6651.7
MAX_DURATION_S = 4_320_009.0
"""GPU jobs of Helios (SC'21): median, mean and longest run time."""

DURATION_LOG_SIGMA = 2.678
"""With it a log-normal law of that median, cut at that longest run time, has that mean."""

STATE_SHARES: Mapping[str, float] = {"completed": 0.624, "cancelled": 0.221, "failed": 0.155}
"""Final states of Helios' GPU jobs, by jobs."""

STATE_GPU_TIME_SHARES: Mapping[str, float] = {"completed": 0.513, "cancelled": 0.394, "failed": 0.093}
"""The same by GPU time."""

GPU_SHARES: Mapping[int, float] = {
    1: 0.600,
    2: 0.090,
    3: 0.004,
    4: 0.100,
    6: 0.004,
    8: 0.155,
    16: 0.026,
    32: 0.013,
    64: 0.008,
}
"""Jobs by GPUs: more than half ask for one, over 95 % fit on one node (Lucid, section 2.3), the mean is near
Helios' 3.7."""

MEAN_GPUS = 3.716
RECURRING_FRAC = 0.65
"""At least this share of jobs belongs to work that is repeated five times or more (PAI, NSDI'22)."""

_NIGHT = (0.95, 0.62, 0.42, 0.30, 0.22, 0.20, 0.24, 0.36)
_MORNING = (0.60, 0.98, 1.32, 1.40, 1.12, 1.16, 1.42, 1.50)
_EVENING = (1.50, 1.42, 1.20, 1.10, 1.26, 1.40, 1.42, 1.22)
HOUR_WEIGHTS = (*_NIGHT, *_MORNING, *_EVENING)
"""Submissions by hour of the local day, mean near 1: lowest before dawn, dips at meals, peaks in the morning, the
afternoon and late in the evening (the shape of SC'21, figure 2, and NSDI'22, figure 3)."""

WEEKDAY_WEIGHTS = (1.08, 1.12, 1.14, 1.12, 1.08, 0.76, 0.70)
"""Submissions by day of the week, Monday first: weekends are quieter."""
