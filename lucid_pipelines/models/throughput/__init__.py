"""The Throughput Predict Model: how many jobs and GPUs will be asked for in the next slots.

``ThroughputModel`` serves; ``training`` fits and judges it (it needs ``interpret``, and is imported when used).
"""

from lucid_pipelines.models.throughput.features import MAX_HORIZON
from lucid_pipelines.models.throughput.model import ThroughputModel
from lucid_pipelines.models.throughput.series import SLOT_S, SubmissionSeries, count_submissions, read_series

__all__ = ["MAX_HORIZON", "SLOT_S", "SubmissionSeries", "ThroughputModel", "count_submissions", "read_series"]
