"""What a record belongs to: training, or something that merely looks like it."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

from lucid_pipelines.tracker import vocabulary as words
from lucid_pipelines.tracker.meaning import Meaning, Role, meaning, tokens_of
from lucid_pipelines.tracker.records import Kind, Shape


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
    SEARCH = "search"
    """One line for each of many trainings."""

    @property
    def may_be_training(self) -> bool:
        return self in (Phase.TRAINING, Phase.NEUTRAL)


CLEAR_LOSS = 0.55
"""A name of this weight is a loss and nothing else."""


@lru_cache(maxsize=16_384)
def phase_of(shape: Shape) -> Phase:
    """Judge by the words that name no number, by odd names, and by what is reported.

    A record that reports a training loss is never taken for a download or a monitor line; a word of evaluation
    next to the numbers outweighs everything but a word of training that stands nearer.
    """
    meanings = [meaning(field) for field in shape.fields]
    if any(m.role is Role.BYTE_RATE for m in meanings):
        return Phase.TRANSFER
    leading, trailing = _words(shape, meanings)
    losses = [m for m in meanings if m.role is Role.LOSS]
    trains = any(not m.is_evaluation and m.weight >= CLEAR_LOSS for m in losses)
    spoken = leading if trains else [*leading, *trailing]
    bag = frozenset(spoken)
    training = [i for i, word in enumerate(spoken) if word in words.TRAINING]
    evaluating = [i for i, word in enumerate(spoken) if word in words.EVALUATION]
    if not training and _is_elsewhere(shape, meanings, [*leading, *trailing]):
        return Phase.MONITOR
    if _counts_trials(shape, meanings, leading):
        return Phase.SEARCH
    if evaluating and (not training or max(evaluating) > max(training)):
        return Phase.EVALUATION
    if losses and all(m.is_evaluation for m in losses):
        return Phase.EVALUATION
    if trains:
        return Phase.TRAINING if training or any(m.is_training for m in losses) else Phase.NEUTRAL
    if training and not bag & (words.TRANSFER | words.PREPARATION - _WEAK_PREPARATION):
        return Phase.TRAINING
    for phase, vocabulary in _OTHER_PHASES:
        if bag & vocabulary:
            return phase
    if any(m.role in _REPORTED and m.is_training and not m.is_evaluation for m in meanings):
        return Phase.TRAINING
    measured = [m for m in meanings if m.role in (Role.METRIC, Role.LOSS, Role.TIME, Role.STEP_TIME)]
    if measured and all(m.is_evaluation for m in measured):
        return Phase.EVALUATION
    return Phase.NEUTRAL


def _is_elsewhere(shape: Shape, meanings: list[Meaning], spoken: list[str]) -> bool:
    names = [
        token
        for f, m in zip(shape.fields, meanings, strict=True)
        if m.role is not Role.LOSS
        for token in tokens_of(f.name)
    ]
    return not words.ELSEWHERE.isdisjoint([*spoken, *names])


def _counts_trials(shape: Shape, meanings: list[Meaning], leading: list[str]) -> bool:
    """Whether what a record counts is tried settings, and no steps."""
    if words.SEARCH.isdisjoint(leading) or any(m.role in (Role.STEP, Role.EPOCH) for m in meanings):
        return False
    fractions = [field for field in shape.fields if field.kind is Kind.FRACTION]
    named = any(words.SEARCH.intersection(tokens_of(f"{field.name} {field.unit}")) for field in fractions)
    return named or not fractions


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


def _words(shape: Shape, meanings: list[Meaning]) -> tuple[list[str], list[str]]:
    """Words that tell what the numbers are about: those up to the first loss, and those behind it."""
    leading: list[str] = []
    trailing: list[str] = []
    into = leading
    for field, known in zip(shape.fields, meanings, strict=True):
        into += tokens_of(field.free)
        if known.role is Role.LOSS:
            into = trailing
        elif known.role in _TALKING or field.kind is Kind.FRACTION:
            tokens = tokens_of(field.name)
            is_score = not field.integral and field.kind is Kind.NUMBER and field.unit == ""
            # "Val: 0.79" is a score on the validation set; "Val: [10/98]" is a validation loop.
            if not (is_score and field.explicit and words.EVALUATION.issuperset(tokens)):
                into += tokens
    trailing += tokens_of(shape.tail)
    return leading, trailing


_REPORTED = (
    Role.METRIC, Role.STEP, Role.EPOCH, Role.STEP_TIME, Role.EPOCH_TIME, Role.STEP_RATE, Role.ITEM_RATE, Role.TIME,
)  # fmt: skip
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
