"""What the tracker answers: typed progress with the lines that it rests on. Unknown is ``None``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of the log.

    Attributes:
        line: its 1-based number, ``None`` where the log is too large to count.
        offset: its byte offset in the (decompressed) log.
        text: what it says, without what carriers put before it.
    """

    line: int | None
    offset: int
    text: str

    def to_json(self) -> dict[str, object]:
        return {"line": self.line, "text": self.text}


@dataclass(frozen=True, slots=True)
class StepSample:
    """One reading of the job's progress, for a plot.

    Attributes:
        step: as printed.
        loss: training loss printed with it.
        at_s: time of the line on the log's own clock.
        offset: of its line: readings beyond an offset that was stored before are new.
    """

    step: float
    loss: float | None
    at_s: float | None
    offset: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a training job has come, as its log tells.

    Attributes:
        step, total_steps: as printed; within one epoch where the log counts so.
        step_unit: ``step`` or ``epoch`` (a log that reports once an epoch).
        global_step, global_total_steps: epochs joined, where the length of an epoch is known.
        step_time_s: mean over the newest steady steps, pauses left out.
        step_time_low_s, step_time_high_s: 10 % and 90 % quantiles of the same.
        step_time_source: printed, rate, timestamps, elapsed, throughput or remaining.
        step_time_unit: ``step``, or ``epoch`` where ``step_time_s`` is an epoch's.
        steps_left: of the whole training, in ``step_time_unit``; ``None`` where the counter may be one epoch's only.
        throughput, throughput_unit: newest printed.
        eta_s: remaining seconds, from remaining steps and seconds per step.
        confidence: 0 to 1.
        evidence: the lines that the answer rests on.
        fallback_reason: why something is missing; ``None`` when nothing is.
        samples: newest readings, oldest first.
    """

    step: int | None = None
    total_steps: int | None = None
    step_unit: str | None = None
    global_step: int | None = None
    global_total_steps: int | None = None
    step_time_s: float | None = None
    step_time_low_s: float | None = None
    step_time_high_s: float | None = None
    step_time_source: str | None = None
    step_time_unit: str | None = None
    steps_left: int | None = None
    loss: float | None = None
    throughput: float | None = None
    throughput_unit: str | None = None
    epoch: float | None = None
    eta_s: float | None = None
    confidence: float = 0.0
    evidence: tuple[Evidence, ...] = ()
    fallback_reason: str | None = None
    samples: tuple[StepSample, ...] = ()

    @property
    def is_missing(self) -> bool:
        """Whether the log shows no training progress at all."""
        return self.step is None and self.loss is None and self.step_time_s is None

    def to_json(self, file: str) -> dict[str, object]:
        """The row that ``lucid track --json`` prints."""
        return {
            "file": file,
            "step": self.step,
            "total_steps": self.total_steps,
            "step_time_s": _rounded(self.step_time_s),
            "loss": self.loss,
            "throughput": self.throughput,
            "throughput_unit": self.throughput_unit,
            "epoch": self.epoch,
            "eta_s": _rounded(self.eta_s),
            "confidence": round(self.confidence, 3),
            "evidence": [item.to_json() for item in self.evidence],
            "fallback_reason": self.fallback_reason,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
