"""What a record belongs to: training, or something that merely looks like it."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

from lucid_pipelines.tracker import vocabulary as words
from lucid_pipelines.tracker.meaning import Meaning, Role, meaning, tokens_of
from lucid_pipelines.tracker.records import Field, Kind, Shape


class Phase(StrEnum):
    """The activity that a record reports on."""

    TRAINING = "training"
    NEUTRAL = "neutral"
    """Nothing says that it is not training."""
    EVALUATION = "evaluation"
    SAMPLING = "sampling"
    TRANSFER = "transfer"
    PREPARATION = "preparation"
    BUILD = "build"
    MONITOR = "monitor"

    @property
    def may_be_training(self) -> bool:
        return self in (Phase.TRAINING, Phase.NEUTRAL)


@lru_cache(maxsize=16_384)
def phase_of(shape: Shape) -> Phase:
    """Judge by the words that name no number, by odd names, and by what is reported.

    A record that reports a training loss is never taken for a download or a monitor line; a word of evaluation
    next to the numbers outweighs everything but a word of training that stands nearer.
    """
    meanings = [meaning(field) for field in shape.fields]
    if any(m.role is Role.BYTE_RATE for m in meanings):
        return Phase.TRANSFER
    spoken = [*_odd_names(shape.fields, meanings), *tokens_of(shape.tail)]
    bag = frozenset(spoken)
    losses = [m for m in meanings if m.role is Role.LOSS]
    trains = [i for i, word in enumerate(spoken) if word in words.TRAINING]
    evaluates = [i for i, word in enumerate(spoken) if word in words.EVALUATION]
    if evaluates and (not trains or max(evaluates) > max(trains)):
        return Phase.EVALUATION
    if losses and all(m.is_evaluation for m in losses):
        return Phase.EVALUATION
    if any(not m.is_evaluation for m in losses):
        return Phase.TRAINING if trains or any(m.is_training for m in losses) else Phase.NEUTRAL
    if trains and not bag & (words.TRANSFER | words.PREPARATION - _WEAK_PREPARATION):
        return Phase.TRAINING
    for phase, vocabulary in _OTHER_PHASES:
        if bag & vocabulary:
            return phase
    if any(m.role in (Role.STEP, Role.EPOCH) and m.is_training for m in meanings):
        return Phase.TRAINING
    measured = [m for m in meanings if m.role in (Role.METRIC, Role.LOSS, Role.TIME, Role.STEP_TIME)]
    if measured and all(m.is_evaluation for m in measured):
        return Phase.EVALUATION
    return Phase.NEUTRAL


_WEAK_PREPARATION = frozenset(
    {"map", "load", "save", "split", "dataset", "cache", "processing", "counting", "generating"}
)
_OTHER_PHASES = (
    (Phase.TRANSFER, words.TRANSFER),
    (Phase.BUILD, words.BUILD),
    (Phase.SAMPLING, words.SAMPLING),
    (Phase.PREPARATION, words.PREPARATION),
    (Phase.MONITOR, words.MONITOR | words.SERVICE),
)


def _odd_names(fields: tuple[Field, ...], meanings: list[Meaning]) -> list[str]:
    """Words of names that mean no quantity: they tell what the numbers are about."""
    found: list[str] = []
    for field, known in zip(fields, meanings, strict=True):
        found += tokens_of(field.free)
        if known.role in _TALKING or field.kind is Kind.FRACTION:
            found += tokens_of(field.name)
    return found


_TALKING = (
    Role.OTHER,
    Role.UNNAMED,
    Role.PART_TIME,
    Role.TOTAL_STEPS,
    Role.STEP,
    Role.EPOCH,
    Role.ITEMS,
    Role.SHARE,
)
