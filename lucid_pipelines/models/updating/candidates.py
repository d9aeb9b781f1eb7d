"""One step of the Update Engine: train as of a day without its newest window, then meet that window.

What was evaluated is what would be promoted: the candidate is not trained again on the window. Its history
features are live, so it still knows yesterday's runs when it serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.models.additive.fitting import ProgressCallback
from lucid_pipelines.models.artefacts.document import describe, with_evaluation
from lucid_pipelines.models.duration.model import DurationModel
from lucid_pipelines.models.duration.training import DurationSettings, train_duration
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.models.packing.model import PackingModel
from lucid_pipelines.models.packing.pairs import PairTable
from lucid_pipelines.models.packing.speeds import predict_pairs
from lucid_pipelines.models.packing.training import PackingSettings, PairQuality, train_packing
from lucid_pipelines.models.throughput.model import ThroughputModel
from lucid_pipelines.models.throughput.series import SubmissionSeries
from lucid_pipelines.models.throughput.training import ThroughputSettings, judge_throughput, train_throughput
from lucid_pipelines.models.updating.evaluation import Evaluation, Verdict, gate
from lucid_pipelines.models.updating.judging import judge_duration, lead_sd

DAY = timedelta(days=1)
_SLOW_PAIR_COSTS = 10.0


@dataclass(frozen=True)
class Candidate:
    """A trained model, what it did on the unseen window, and what follows.

    Attributes:
        document: sealed, the evaluation and verdict among its metrics; give it to ``Registry.keep``.
    """

    document: Mapping[str, Any]
    evaluation: Evaluation
    verdict: Verdict

    @property
    def version(self) -> str:
        return str(self.document["version"])


def duration_candidate(
    rows: Sequence[HistoryRow],
    as_of: datetime,
    *,
    window: timedelta = DAY,
    in_service: Mapping[str, Any] | None = None,
    settings: DurationSettings | None = None,
    source: str = "",
    progress: ProgressCallback | None = None,
    created_at: datetime | None = None,
    left_out: Mapping[str, int] | None = None,
) -> Candidate:
    """Train on what had ended at ``as_of − window`` and evaluate on the attempts of the window.

    Nothing that ended after ``as_of`` is looked at.

    Args:
        in_service: document of the model in service.
        left_out: what a reader left out before, by reason.

    Raises:
        InputError: too few usable rows before the window.
        ArtefactError: the document in service cannot be used.
    """
    begin = as_of - window
    document = train_duration(
        rows, begin, settings, source=source, progress=progress, created_at=created_at, left_out=left_out
    )
    return evaluate_duration(document, rows, as_of, window=window, in_service=in_service)


def evaluate_duration(
    document: Mapping[str, Any],
    rows: Sequence[HistoryRow],
    as_of: datetime,
    *,
    window: timedelta = DAY,
    in_service: Mapping[str, Any] | None = None,
) -> Candidate:
    """Meet the newest window with a trained model, the one in service and no model; nothing after ``as_of`` is seen.

    Raises:
        InputError: the model was trained on rows of the window.
        ArtefactError: a document cannot be used.
    """
    begin = as_of - window
    models = {"candidate": DurationModel.from_document(document)}
    _require_unseen(document, begin)
    if in_service is not None:
        models["in_service"] = DurationModel.from_document(in_service)
    judged = judge_duration(models, rows, begin, as_of, teaching=models["candidate"].teaching)
    baselines = {name: numbers for name, numbers in judged.numbers.items() if name not in models}
    evaluation = Evaluation(
        ModelKind.DURATION,
        "spearman",
        True,
        judged.rows,
        judged.numbers["candidate"],
        baselines,
        judged.numbers.get("in_service"),
        models["in_service"].version if "in_service" in models else None,
        begin,
        as_of,
        notes=_seen_by_service(in_service, begin),
    )
    best = evaluation.best_baseline
    sd = None if best is None else lead_sd(judged, "candidate", best)
    return _decide(document, replace(evaluation, sd=sd))


def throughput_candidate(
    series: SubmissionSeries,
    as_of: datetime,
    *,
    window: timedelta = DAY,
    in_service: Mapping[str, Any] | None = None,
    settings: ThroughputSettings | None = None,
    source: str = "",
    progress: ProgressCallback | None = None,
    created_at: datetime | None = None,
) -> Candidate:
    """Train on the slots before ``as_of − window`` and evaluate on the window, one hour ahead.

    Raises:
        InputError: too few slots before the window.
        ArtefactError: the document in service cannot be used.
    """
    known = series.before(as_of.timestamp())
    document = train_throughput(
        known, as_of - window, settings, source=source, progress=progress, created_at=created_at
    )
    return evaluate_throughput(document, known, as_of, window=window, in_service=in_service)


def evaluate_throughput(
    document: Mapping[str, Any],
    series: SubmissionSeries,
    as_of: datetime,
    *,
    window: timedelta = DAY,
    in_service: Mapping[str, Any] | None = None,
) -> Candidate:
    """Forecast the newest window one hour ahead, beside the model in service and no model.

    Raises:
        InputError: the model was trained on slots of the window, or the window holds none.
        ArtefactError: a document cannot be used.
    """
    begin = as_of - window
    known = series.before(as_of.timestamp())
    _require_unseen(document, begin)
    report = judge_throughput(ThroughputModel.from_document(document), known, begin, as_of)
    serving = None if in_service is None else ThroughputModel.from_document(in_service)
    other = None if serving is None else judge_throughput(serving, known, begin, as_of)
    evaluation = Evaluation(
        ModelKind.THROUGHPUT,
        "mae_jobs",
        False,
        int(report["slots"]),
        _throughput_numbers(report),
        {
            name: {"mae_jobs": v, "mae_gpus": report["gpus"]["baselines"][name]}
            for name, v in report["jobs"]["baselines"].items()
        },
        None if other is None else _throughput_numbers(other),
        None if serving is None else serving.version,
        begin,
        as_of,
        report["jobs"]["mae_day_sd"],
        notes=_seen_by_service(in_service, begin),
    )
    return _decide(document, evaluation)


def packing_candidate(
    table: PairTable,
    *,
    in_service: Mapping[str, Any] | None = None,
    settings: PackingSettings | None = None,
    source: str = "",
    as_of: datetime | None = None,
    created_at: datetime | None = None,
) -> Candidate:
    """Train on all measured pairs; judged on workloads left out, against the plain rule and the model in service.

    The deciding number is ``value``: the share of the opportunity that is used, less ten times what a slow pair
    is worth. A model in service that was trained on the very same measurements is not beaten by them.

    Raises:
        InputError: too few measured configurations or workloads.
        ArtefactError: the document in service cannot be used.
    """
    settings = settings or PackingSettings()
    document = train_packing(table, settings, source=source, as_of=as_of, created_at=created_at)
    numbers: Mapping[str, Any] = document["metrics"]
    serving = None if in_service is None else PackingModel.from_document(in_service)
    other: dict[str, Any] | None = None
    notes: list[str] = []
    if serving is not None:
        assert in_service is not None
        if in_service["trained"]["data_sha256"] == document["trained"]["data_sha256"]:
            other = _packing_numbers(in_service["metrics"]["held_out"])
            notes.append("the model in service was trained on the same measurements")
        else:
            other = _packing_numbers(_judge_serving(serving, table).to_json())
            notes.append("the model in service was judged on all pairs, some of which it may have seen")
    evaluation = Evaluation(
        ModelKind.PACKING,
        "value",
        True,
        int(numbers["held_out"]["pairs"]),
        _packing_numbers(numbers["held_out"]),
        {"utilisation_sum": _packing_numbers(numbers["plain_rule"])},
        other,
        None if serving is None else serving.version,
        notes=tuple(notes),
    )
    return _decide(document, evaluation)


def _decide(document: Mapping[str, Any], evaluation: Evaluation) -> Candidate:
    verdict = gate(evaluation)
    told = {**evaluation.to_json(), "promote": verdict.promote, "reason": verdict.reason}
    return Candidate(with_evaluation(document, told), evaluation, verdict)


def _require_unseen(document: Mapping[str, Any], begin: datetime) -> None:
    trained = describe(document).trained.as_of
    if trained is None or trained > begin:
        raise InputError(
            f"a model is judged on what it has not seen: trained as of {trained}, the window begins at {begin}"
        )


def _seen_by_service(in_service: Mapping[str, Any] | None, begin: datetime) -> tuple[str, ...]:
    trained = None if in_service is None else describe(in_service).trained.as_of
    if trained is not None and trained > begin:
        return ("the model in service has seen a part of this window, which favours it",)
    return ()


def _throughput_numbers(report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "mae_jobs": report["jobs"]["mae"],
        "mae_gpus": report["gpus"]["mae"],
        "coverage_80_jobs": report["jobs"].get("coverage_80"),
        "coverage_80_gpus": report["gpus"].get("coverage_80"),
    }


def _packing_numbers(quality: Mapping[str, Any]) -> dict[str, Any]:
    stay, used, allowed = quality["stay_frac"], quality["used_frac"], quality["allowed_frac"]
    if used is None:
        return {**quality, "value": None}
    good = allowed * (stay or 0.0) / used if used > 0 else 1.0
    slow = allowed * (1.0 - stay) if stay is not None else 0.0
    return {**quality, "value": used - _SLOW_PAIR_COSTS * slow / max(good, 1e-9)}


def _judge_serving(model: PackingModel, table: PairTable) -> PairQuality:
    arrays = table.arrays()
    predicted = predict_pairs(model.speeds, arrays, table.configurations).mean(axis=1)
    return PairQuality.of(np.nan_to_num(predicted, nan=-np.inf) >= model.bound_frac, arrays.speeds)
