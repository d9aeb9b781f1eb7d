"""The Update Engine's plain functions: candidate as of a day, evaluation, promotion gate, drift.

They take rows and documents and return data; who schedules them, and where rows come from, is not their matter.
Nothing here promotes: ``Registry.promote`` does, when the verdict says so or a person does.
"""

from lucid_pipelines.models.updating.candidates import (
    Candidate,
    duration_candidate,
    evaluate_duration,
    evaluate_throughput,
    packing_candidate,
    throughput_candidate,
)
from lucid_pipelines.models.updating.drift import DriftFinding, DriftReport, duration_drift, throughput_drift
from lucid_pipelines.models.updating.evaluation import Evaluation, Verdict, gate
from lucid_pipelines.models.updating.judging import judge_duration
from lucid_pipelines.models.updating.walking import WalkedRow, walk_forward

__all__ = [
    "Candidate",
    "DriftFinding",
    "DriftReport",
    "Evaluation",
    "Verdict",
    "WalkedRow",
    "duration_candidate",
    "duration_drift",
    "evaluate_duration",
    "evaluate_throughput",
    "gate",
    "judge_duration",
    "packing_candidate",
    "throughput_candidate",
    "throughput_drift",
    "walk_forward",
]
