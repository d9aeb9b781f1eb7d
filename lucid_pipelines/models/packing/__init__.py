"""The Packing Analyze Model: sharing scores from profiles, and how fast two jobs will run together.

``PackingModel`` serves; ``training`` fits and judges it (it needs scikit-learn, and is imported when used).
"""

from lucid_pipelines.models.packing.defaults import default_packing_model
from lucid_pipelines.models.packing.labels import Thresholds
from lucid_pipelines.models.packing.model import PackingModel, PairOpinion, ScoreReason, Sharer
from lucid_pipelines.models.packing.pairs import (
    PROFILE_FEATURES,
    Configuration,
    MeasuredPair,
    PairTable,
    profile_row,
    read_pair_table,
)

__all__ = [
    "PROFILE_FEATURES",
    "Configuration",
    "MeasuredPair",
    "PackingModel",
    "PairOpinion",
    "PairTable",
    "ScoreReason",
    "Sharer",
    "Thresholds",
    "default_packing_model",
    "profile_row",
    "read_pair_table",
]
