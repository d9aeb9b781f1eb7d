"""The Workload Estimate Model: how long a job will hold its GPUs.

``DurationModel`` and ``DurationPredictor`` serve; ``training`` fits and judges (it needs ``interpret``, and is
imported when used).
"""

from lucid_pipelines.models.duration.history import HistoryIndex, RunningAttempt
from lucid_pipelines.models.duration.model import DurationModel
from lucid_pipelines.models.duration.predicting import DurationPredictor
from lucid_pipelines.models.duration.selecting import Teaching

__all__ = ["DurationModel", "DurationPredictor", "HistoryIndex", "RunningAttempt", "Teaching"]
