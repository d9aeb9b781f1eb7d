"""How sure an answer is: how often answers on the same grounds were right, mostly of failures without a rule.

The table is data (``calibration.json``), made by ``python -m benchmarks.failures calibrate --write``: each failure is
diagnosed once more with its own family taken out of the rules and out of the training lines, and the answers are
counted by what they rested on, beside a third as many that were given with all rules. So of a kind that the rules do
know the confidence is a lower bound.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import cast

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.failures.shipped import shipped_json

FORMAT = 1


class Ground(StrEnum):
    """What an answer rests on, as finely as its reliability differs."""

    HARDWARE = "hardware"
    """A rule about GPUs or their links."""
    SPECIFIC = "specific"
    """A rule whose words mean one thing."""
    GENERAL = "general"
    """A rule whose words are used for many things: a missing file, an argument, an illegal access."""
    SYMPTOM = "symptom"
    """What a lost peer looks like from outside."""
    PASSING = "passing"
    """What a launcher says of the cause in passing."""
    ECHO = "echo"
    """How a process died, and nothing else."""
    SHAPE = "shape"
    """Where a traceback ends, inside installed packages."""
    OWN_CODE = "own_code"
    """A plain Python error raised by the job's own code."""
    PACKAGE_CODE = "package_code"
    """A plain Python error raised elsewhere, of which the text model thinks the same."""
    EXCEPTION_WORDS = "exception_words"
    """The text model, of an exception, with its type as a prior."""
    WORDS = "words"
    """The text model alone."""
    BLAMELESS = "blameless"
    """How a run ended that nobody is to blame for."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The confidence of one ground by how far the text model supports the answer.

    Attributes:
        edges: inner bounds of the bins, ascending; bin ``i`` holds supports from ``edges[i - 1]`` up.
        confidences: one per bin, not falling.
        without_support: where there is no text model to ask.
        answers, right: families counted in each bin; all answers of one family count as one, as a third if they were
            given with all rules.
    """

    edges: tuple[float, ...]
    confidences: tuple[float, ...]
    without_support: float
    answers: tuple[float, ...]
    right: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A measured table.

    Attributes:
        version: of the rules that were measured.
        date: when, ISO 8601.
        source: by which command, on which logs.
    """

    version: str
    date: str
    source: str
    curves: Mapping[Ground, Curve]

    def confidence(self, ground: Ground, support_frac: float | None = None) -> float:
        """How likely category and component are right.

        Args:
            support_frac: probability that the text model gives to the category, 0 to 1.
        """
        curve = self.curves[ground]
        if support_frac is None:
            return curve.without_support
        return curve.confidences[bisect_right(curve.edges, support_frac)]


def calibration_to_json(calibration: Calibration) -> dict[str, object]:
    """The table as it is stored."""
    return {
        "format": FORMAT,
        "version": calibration.version,
        "date": calibration.date,
        "source": calibration.source,
        "grounds": {
            ground.value: {
                "edges": list(curve.edges),
                "answers": list(curve.answers),
                "right": list(curve.right),
                "confidences": list(curve.confidences),
                "without_support": curve.without_support,
            }
            for ground, curve in calibration.curves.items()
        },
    }


def calibration_from_json(document: Mapping[str, object]) -> Calibration:
    """The inverse of ``calibration_to_json``.

    Raises:
        InputError: the document is damaged, of another format, or lacks a ground.
    """
    try:
        if document["format"] != FORMAT:
            raise InputError(f"the calibration has format {document['format']}; expected {FORMAT}")
        rows = cast("Mapping[str, Mapping[str, list[float]]]", document["grounds"])
        curves = {ground: _curve(rows[ground.value]) for ground in Ground}
        return Calibration(str(document["version"]), str(document["date"]), str(document["source"]), curves)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the calibration is damaged: {error!r}. Make it again: python -m benchmarks.failures calibrate --write"
        ) from error


def _curve(row: Mapping[str, object]) -> Curve:
    def numbers(name: str) -> tuple[float, ...]:
        return tuple(float(x) for x in cast("list[float]", row[name]))

    curve = Curve(
        numbers("edges"), numbers("confidences"), float(cast("float", row["without_support"])),
        numbers("answers"), numbers("right"),
    )  # fmt: skip
    bins = len(curve.edges) + 1
    if {len(curve.confidences), len(curve.answers), len(curve.right)} != {bins}:
        raise ValueError(f"{bins} bins, but other numbers of counts")
    if list(curve.edges) != sorted(curve.edges) or list(curve.confidences) != sorted(curve.confidences):
        raise ValueError("edges and confidences must not fall")
    if not all(0.0 <= x <= 1.0 for x in (*curve.confidences, curve.without_support)):
        raise ValueError("a confidence lies between 0 and 1")
    return curve


@lru_cache(maxsize=1)
def load_calibration() -> Calibration:
    """The table that is shipped. Raises ``InputError`` when it is damaged."""
    return calibration_from_json(shipped_json("calibration.json"))
