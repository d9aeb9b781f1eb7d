"""The System Tuner: search the policy's settings by replays of a trace, and recommend what wins on unseen days.

``tune`` is the front door; ``space`` names the settings, ``scenarios`` what they are tried on.
"""

from lucid_pipelines.tuning.scenarios import Scenario, ScenarioSet, scenarios_of
from lucid_pipelines.tuning.space import Setting, Values, defaults_of, space_for
from lucid_pipelines.tuning.tune import TuneReport, TuneRequest, tune

__all__ = [
    "Scenario",
    "ScenarioSet",
    "Setting",
    "TuneReport",
    "TuneRequest",
    "Values",
    "defaults_of",
    "scenarios_of",
    "space_for",
    "tune",
]
