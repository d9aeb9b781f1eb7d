"""What ``lucid models explain`` gathers: explanations of a model, or of the estimates of one job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lucid_pipelines.client import Client
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.domain.job import Estimate, Job
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.models.artefacts import ModelKind, Registry
from lucid_pipelines.models.duration import DurationModel, DurationPredictor, RunningAttempt
from lucid_pipelines.models.explaining import GlobalExplanation, LocalExplanation, explain_globally, explain_locally
from lucid_pipelines.models.packing import PackingModel, ScoreReason, default_packing_model
from lucid_pipelines.models.throughput import ThroughputModel

_MAX_SHAPES = 12


@dataclass(frozen=True)
class ModelExplanation:
    """Explanations by what they explain (``jobs``, ``gpus``, ``duration``), or a packing tree."""

    kind: ModelKind
    version: str | None
    parts: dict[str, GlobalExplanation] = field(default_factory=dict)
    packing: PackingModel | None = None

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"kind": self.kind.value, "version": self.version}
        if self.packing is not None:
            document["model"] = self.packing.to_json()
        if self.parts:
            document["parts"] = {name: part.to_json() for name, part in self.parts.items()}
        return document


@dataclass(frozen=True)
class JobExplanation:
    """Why a job's duration is estimated as it is, and why it has its sharing score.

    Attributes:
        duration: on the scale log(1 + seconds); ``None`` without a model in service.
        notes: what could not be explained, and why.
    """

    job_id: str
    estimate: Estimate | None
    duration: LocalExplanation | None
    score: ScoreReason | None
    packing_version: str | None
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "job_id": self.job_id,
            "estimate": None if self.estimate is None else _estimate(self.estimate),
            "duration_log": None if self.duration is None else self.duration.to_json(),
            "sharing_score": None
            if self.score is None
            else {
                "score": self.score.score,
                "mean_speed_frac": self.score.mean_speed_frac,
                "path": [
                    {"feature": s.feature, "value": s.value, "threshold": s.threshold, "goes_left": s.goes_left}
                    for s in self.score.path
                    if s.value == s.value
                ],
                "configurations": self.score.rows,
                "amp_assumed": self.score.amp_assumed,
                "missing": self.score.missing,
            },
            "packing_version": self.packing_version,
            "notes": list(self.notes),
        }


def require_answers(kind: ModelKind, document: Mapping[str, Any]) -> None:
    """Load a model as it would be served.

    Raises:
        ArtefactError: it is damaged, or no longer gives its golden answers.
    """
    readers = {
        ModelKind.PACKING: PackingModel.from_document,
        ModelKind.THROUGHPUT: ThroughputModel.from_document,
        ModelKind.DURATION: DurationModel.from_document,
    }
    readers[kind](document)


def explanation_of_model(registry: Registry, kind: ModelKind, version: str | None) -> ModelExplanation:
    """Global explanations of a kept model; without a packing model in service, of the one that is shipped."""
    if kind is ModelKind.PACKING:
        model = _packing(registry, version)
        return ModelExplanation(kind, model.version, packing=model)
    document = registry.read(kind, version)
    if kind is ModelKind.THROUGHPUT:
        throughput = ThroughputModel.from_document(document)
        parts = {name: explain_globally(target.model) for name, target in throughput.targets.items()}
        return ModelExplanation(kind, throughput.version, parts)
    duration = DurationModel.from_document(document)
    return ModelExplanation(kind, duration.version, {"duration": explain_globally(duration.additive)})


def explanation_of_job(registry: Registry, client: Client, job: Job) -> JobExplanation:
    """Why this job's estimates are what they are, as of now."""
    notes: list[str] = []
    estimate: Estimate | None = None
    local: LocalExplanation | None = None
    try:
        model = DurationModel.from_document(registry.read(ModelKind.DURATION))
    except NotFoundError as error:
        notes.append(str(error))
    else:
        now = client.system.clock.now()
        predictor = DurationPredictor.from_rows(
            model, client.system.store.history.rows(until=now), now, _running(client)
        )
        queued = QueuedJob(
            job.job_id,
            job.spec.vc,
            job.spec.gpus,
            job.submitted_at.timestamp(),
            user=job.spec.user,
            name=job.spec.name,
            profile=job.profile,
        )
        estimate = predictor.estimate(queued)
        matrix, _ = predictor.feature_matrix([queued])
        local = explain_locally(model.additive, matrix[0].tolist())
        if estimate is not None and estimate.basis != "model":
            notes.append(f"the estimate is the {estimate.basis}: the user and such a name have no history here")
    packing = _packing(registry, None)
    score = packing.explain_score(job.profile, job.spec.amp)
    if score.score is None:
        notes.append("the job has no profile yet, so its sharing score is unknown and it is not packed")
    return JobExplanation(job.job_id, estimate, local, score, packing.version, tuple(notes))


def write_plots(explanation: ModelExplanation | JobExplanation, folder: Path) -> list[Path]:
    """Write the explanation's plots as SVG files."""
    # matplotlib takes a second to import, and only plots need it.
    from lucid_pipelines.models.explaining import plots

    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, str] = {}
    if isinstance(explanation, JobExplanation):
        if explanation.duration is not None:
            drawn["duration"] = plots.local_svg(explanation.duration, "log(1 + seconds)")
    elif explanation.packing is not None:
        drawn["tree"] = plots.tree_svg(explanation.packing.tree, explanation.packing.thresholds)
    else:
        for name, part in explanation.parts.items():
            drawn[f"{name}-importance"] = plots.importance_svg(part, name)
            important = [term for term, _ in part.importance[:_MAX_SHAPES]]
            for shape in part.shapes:
                if shape.feature in important:
                    drawn[f"{name}-{shape.feature}"] = plots.shape_svg(shape)
            for pair in part.interactions:
                drawn[f"{name}-{'-'.join(pair.features)}"] = plots.interaction_svg(pair)
    paths: list[Path] = []
    for name, text in drawn.items():
        path = folder / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)}.svg"
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def _packing(registry: Registry, version: str | None) -> PackingModel:
    if version is None and registry.in_service(ModelKind.PACKING) is None:
        return default_packing_model()
    return PackingModel.from_document(registry.read(ModelKind.PACKING, version))


def _running(client: Client) -> list[RunningAttempt]:
    attempts = [a for a in client.system.store.attempts.active() if a.started_at is not None]
    jobs = client.system.store.jobs.find(ids=[a.job_id for a in attempts], limit=None) if attempts else []
    by_id = {job.job_id: job for job in jobs}
    return [
        RunningAttempt(a.attempt_id, by_id[a.job_id].spec.user, by_id[a.job_id].spec.gpus, a.started_at)
        for a in attempts
        if a.started_at is not None and a.job_id in by_id
    ]


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "duration_s": estimate.duration_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "coverage_frac": estimate.coverage_frac,
        "basis": estimate.basis,
        "evidence_job_ids": list(estimate.evidence_job_ids),
        "sample_count": estimate.sample_count,
        "model_version": estimate.model_version,
    }
