"""The whole of the System Tuner: search, response, Pareto view, validation, recommendation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from lucid_pipelines.tuning.journal import Journal
from lucid_pipelines.tuning.pareto import ParetoPoint, pareto_front
from lucid_pipelines.tuning.proposing import Strategy, proposer_of
from lucid_pipelines.tuning.response import Response, respond
from lucid_pipelines.tuning.scenarios import RETRAINING_NOTE, ScenarioSet
from lucid_pipelines.tuning.space import Setting, Values, applicable, defaults_of
from lucid_pipelines.tuning.sweep import Progress, Sweep, mean_ratio, run_sweep, workers
from lucid_pipelines.tuning.validation import Verdict, candidates_of, judge
from lucid_pipelines.whole_files import write_whole

MEASURES = ("avg_jct_s", "avg_queue_s")


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """How to search.

    Attributes:
        trials: points besides the default one.
        processes: worker processes; the result does not depend on it.
        folder: where the journal and the report go; ``None`` = nothing is written, nothing can be resumed.
    """

    strategy: Strategy = Strategy.GUIDED
    trials: int = 40
    processes: int = 1
    seed: int = 0
    folder: Path | None = None
    source: str = ""
    model_versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TuneReport:
    """What came of it.

    Attributes:
        sweep_id: digest of the scenarios.
        verdicts: candidates on the unseen days.
        recommended: settings as ``lucid tuner apply`` takes them; ``None`` = nothing won there.
    """

    sweep_id: str
    source: str
    created_at: datetime
    space: tuple[Setting, ...]
    sweep: Sweep
    unseen: Sweep
    unseen_days: float
    responses: tuple[Response, ...]
    front: tuple[ParetoPoint, ...]
    verdicts: tuple[Verdict, ...]
    recommended: dict[str, object] | None
    model_versions: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Why it recommends what it recommends, in a sentence."""
        won = next((verdict for verdict in self.verdicts if verdict.wins), None)
        if won is not None:
            return won.reason
        if not self.verdicts:
            return "no point of the search was better than the default"
        return f"nothing is recommended: {self.verdicts[0].reason}"

    def to_json(self) -> dict[str, Any]:
        return {
            "sweep_id": self.sweep_id,
            "source": self.source,
            "created_at": self.created_at.isoformat(),
            "recommended": self.recommended,
            "reason": self.reason,
            "model_versions": dict(self.model_versions),
            "space": [
                {"name": s.name, "symbol": s.symbol, "values": list(s.values), "default": s.default, "unit": s.unit}
                for s in self.space
            ],
            "scenarios": list(self.sweep.scenarios),
            "unseen_scenarios": list(self.unseen.scenarios),
            "unseen_days": self.unseen_days,
            "trials": [
                {
                    "trial": trial.number,
                    "values": dict(trial.values),
                    "dropped": trial.dropped,
                    "scenarios_met": len(trial.measures),
                    "jct_ratio": mean_ratio(trial, self.sweep.default, "avg_jct_s"),
                    "queue_ratio": mean_ratio(trial, self.sweep.default, "avg_queue_s"),
                    "measures": {name: dict(measures) for name, measures in trial.measures.items()},
                }
                for trial in self.sweep.trials
            ],
            "replays": {"made": self.sweep.replayed + self.unseen.replayed, "resumed": self.sweep.resumed},
            "responses": [response.to_json() for response in self.responses],
            "pareto": [point.to_json() for point in self.front],
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
            "notes": list(self.notes),
        }


def tune(
    scenarios: ScenarioSet,
    space: Sequence[Setting],
    request: TuneRequest,
    *,
    now: datetime,
    progress: Progress | None = None,
) -> TuneReport:
    """Search the space on the scenarios, validate what won on the unseen ones, and write the report.

    Killed and started again with the same folder and trace, it goes on where it was.

    Raises:
        InputError: a grid that is too large, or nothing to search.
        StateError: the folder holds the sweep of another trace.
        ExternalError: a worker process died.
    """
    fingerprint = scenarios.fingerprint()
    default = defaults_of(space)
    proposer = proposer_of(request.strategy, space, request.seed)
    journal = Journal(None if request.folder is None else request.folder / "replays.jsonl", fingerprint)
    with workers((*scenarios.search, *scenarios.unseen), request.processes) as submit:
        sweep = run_sweep(
            scenarios.search,
            default,
            proposer,
            trials=request.trials,
            journal=journal,
            submit=submit,
            progress=progress,
        )
        chosen = [trial.values for trial in candidates_of(sweep)]
        unseen = run_sweep(
            scenarios.unseen,
            default,
            _Given(chosen),
            trials=max(len(chosen), 1),
            journal=journal,
            submit=submit,
            progress=None if progress is None else lambda done, dropped: progress(sweep.replayed + done, dropped),
            drop=False,
        )
    verdicts = judge(sweep, unseen.trials)
    won = next((verdict for verdict in verdicts if verdict.wins), None)
    report = TuneReport(
        fingerprint[:16],
        request.source,
        now,
        tuple(space),
        sweep,
        unseen,
        scenarios.unseen_days,
        tuple(found for name in MEASURES if (found := respond(sweep, space, name)) is not None),
        tuple(pareto_front(sweep)),
        tuple(verdicts),
        None if won is None else applicable(won.values),
        dict(request.model_versions),
        _notes(sweep, space, scenarios),
    )
    if request.folder is not None:
        _write(request.folder / "tuned_settings.json", report.to_json())
    return report


class _Given:
    """Proposes what it was given."""

    def __init__(self, points: Sequence[Values]) -> None:
        self._points = [dict(point) for point in points]

    def ask(self, count: int) -> list[dict[str, float]]:
        given, self._points = self._points[:count], self._points[count:]
        return given

    def tell(self, values: Values, score: float) -> None:
        """Nothing is to be learned any more."""


def _notes(sweep: Sweep, space: Sequence[Setting], scenarios: ScenarioSet) -> tuple[str, ...]:
    notes: list[str] = []
    fallbacks = sum(m.get("fallbacks") or 0.0 for m in sweep.default.measures.values())
    if fallbacks:
        notes.append(
            f"with the default settings {fallbacks:g} facts were missing in the replays and the plain rule stood in"
        )
    dropped = sum(trial.dropped for trial in sweep.trials)
    if dropped:
        notes.append(f"{dropped} points were dropped early by their mean JCT; the Pareto view is over the others")
    if not any(scenario.predictions for scenario in scenarios.search):
        notes.append(RETRAINING_NOTE)
    return tuple(notes)


def _write(path: Path, document: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(document, indent=1, allow_nan=False) + "\n")
