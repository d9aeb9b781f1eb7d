"""A candidate beside the model in service and beside no model at all, and what follows from it (R-30)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lucid_pipelines.models.kinds import ModelKind

MIN_ROWS = 30


@dataclass(frozen=True)
class Evaluation:
    """Everybody's numbers on the same unseen rows.

    Attributes:
        metric: the number that decides; ``higher_is_better`` says which way.
        candidate, in_service, baselines: all numbers by name; ``in_service`` is ``None`` when there is none.
        sd: spread of the candidate's lead over the best other, from resampling whole groups of rows; ``None`` =
            too few groups.
        begin, until: the window; ``None`` for measurements without a date.
    """

    kind: ModelKind
    metric: str
    higher_is_better: bool
    rows: int
    candidate: Mapping[str, Any]
    baselines: Mapping[str, Mapping[str, Any]]
    in_service: Mapping[str, Any] | None = None
    in_service_version: str | None = None
    begin: datetime | None = None
    until: datetime | None = None
    sd: float | None = None
    notes: tuple[str, ...] = field(default=())

    def value(self, numbers: Mapping[str, Any]) -> float | None:
        """The deciding number of one of the rivals."""
        found = numbers.get(self.metric)
        return None if found is None else float(found)

    @property
    def best_baseline(self) -> str | None:
        """The strongest way to do without a model."""
        known = {name: v for name, numbers in self.baselines.items() if (v := self.value(numbers)) is not None}
        if not known:
            return None
        return (max if self.higher_is_better else min)(known, key=lambda name: known[name])

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "rows": self.rows,
            "begin": None if self.begin is None else self.begin.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "candidate": dict(self.candidate),
            "in_service": None if self.in_service is None else dict(self.in_service),
            "in_service_version": self.in_service_version,
            "baselines": {name: dict(numbers) for name, numbers in self.baselines.items()},
            "best_baseline": self.best_baseline,
            "sd": self.sd,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the candidate may take over, and why or why not, in a sentence with the numbers."""

    promote: bool
    reason: str


def gate(evaluation: Evaluation, *, min_rows: int = MIN_ROWS, min_lead: float = 0.0) -> Verdict:
    """The candidate must beat both the model in service and the best of the baselines.

    Args:
        min_rows: with fewer unseen rows nothing is promoted: that window says nothing.
        min_lead: by how much the deciding number must be better.
    """
    if evaluation.rows < min_rows:
        return Verdict(False, f"kept: the unseen window holds {evaluation.rows} rows; {min_rows} are needed")
    own = evaluation.value(evaluation.candidate)
    if own is None:
        return Verdict(False, f"kept: the candidate has no {evaluation.metric} on this window")
    rivals: list[tuple[str, float]] = []
    best = evaluation.best_baseline
    if best is not None:
        value = evaluation.value(evaluation.baselines[best])
        assert value is not None
        rivals.append((f"no model ({best})", value))
    if evaluation.in_service is not None:
        value = evaluation.value(evaluation.in_service)
        if value is not None:
            rivals.append((f"the one in service ({evaluation.in_service_version})", value))
    for name, value in rivals:
        lead = own - value if evaluation.higher_is_better else value - own
        if not lead > min_lead:
            return Verdict(False, f"kept: {evaluation.metric} {own:.4g} does not beat {value:.4g} of {name}")
    beaten = " and ".join(f"{value:.4g} of {name}" for name, value in rivals) or "nothing to compare with"
    return Verdict(True, f"promoted: {evaluation.metric} {own:.4g} beats {beaten} on {evaluation.rows} unseen rows")
