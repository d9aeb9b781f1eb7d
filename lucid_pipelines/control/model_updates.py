"""The Update Engine's steps on this cluster's own history: features, candidate, evaluation, promotion, drift.

Each step sees nothing later than the moment that it is asked for, so a past day can be trained again. Too little
history is no error: the day's outcome says so, and what is in service stays. Importing this module takes seconds
(interpret, scikit-learn); ``update_steps`` has what can be read without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lucid_pipelines.control.estimating import MAX_HISTORY, models_root
from lucid_pipelines.control.system import System
from lucid_pipelines.control.throughput_day import submissions_until
from lucid_pipelines.control.update_steps import (
    CANDIDATE,
    FEATURES,
    OUTCOME,
    Asked,
    Outcome,
    day_folder,
    forget,
    read_json,
    read_outcome,
    skip,
    skipped,
    write_json,
    write_outcome,
)
from lucid_pipelines.domain.errors import InputError, NotFoundError, StateError
from lucid_pipelines.models.additive.fitting import ProgressCallback
from lucid_pipelines.models.artefacts import ArtefactError, ModelKind, Registry, describe
from lucid_pipelines.models.duration import DurationModel
from lucid_pipelines.models.duration.training import DurationSettings, fit_duration, prepare_lessons
from lucid_pipelines.models.duration.training_set import TrainingSet
from lucid_pipelines.models.packing import read_pair_table
from lucid_pipelines.models.throughput import ThroughputModel
from lucid_pipelines.models.throughput.training import ThroughputSettings, train_throughput
from lucid_pipelines.models.updating import (
    Candidate,
    DriftReport,
    duration_drift,
    evaluate_duration,
    evaluate_throughput,
    packing_candidate,
    throughput_drift,
)

WHO = "update-engine"
DRIFT_WINDOW = timedelta(days=7)
_SOURCE = "this cluster"


class Updates:
    """The steps, for one control plane."""

    def __init__(
        self,
        system: System,
        *,
        duration: DurationSettings | None = None,
        throughput: ThroughputSettings | None = None,
    ) -> None:
        self.system = system
        self.registry = Registry(models_root(system.settings))
        self._duration = duration or DurationSettings()
        self._throughput = throughput or ThroughputSettings()

    # ---- duration -------------------------------------------------------------------------------------

    def duration_features(self, asked: Asked) -> Outcome:
        """Write the day's training set."""
        folder = self._folder(ModelKind.DURATION, asked)
        forget(folder)
        rows = self.system.store.history.rows(since=asked.begin - MAX_HISTORY, until=asked.begin)
        try:
            lessons = prepare_lessons(rows, asked.begin, self._duration)
        except InputError as error:
            return skip(folder, str(error))
        lessons.write(folder / FEATURES)
        facts = {
            "rows": len(lessons),
            "history_rows": len(rows),
            "users": len(set(lessons.users)),
            "name_buckets": len(set(lessons.row_buckets) - {None}),
            "left_out": dict(lessons.left_out),
            "path": str(folder / FEATURES),
        }
        return Outcome(True, f"{len(lessons)} runs teach", facts=facts)

    def duration_candidate(self, asked: Asked, progress: ProgressCallback | None = None) -> Outcome:
        """Train on the day's features."""
        folder = self._folder(ModelKind.DURATION, asked)
        if not (folder / FEATURES).exists():
            return skipped(folder, "duration_features")
        lessons = TrainingSet.read(folder / FEATURES)
        _require_as_of(lessons.as_of, asked, "duration_features")
        return self._keep_candidate(folder, fit_duration(lessons, self._duration, source=_SOURCE, progress=progress))

    def duration_evaluation(self, asked: Asked) -> Outcome:
        """Judge the day's candidate on the window that it has not seen."""
        rows = self.system.store.history.rows(since=asked.begin - MAX_HISTORY, until=asked.as_of)
        return self._evaluate(
            ModelKind.DURATION,
            asked,
            lambda document, serving: evaluate_duration(
                document, rows, asked.as_of, window=asked.window, in_service=serving
            ),
        )

    # ---- throughput -----------------------------------------------------------------------------------

    def throughput_candidate(self, asked: Asked, progress: ProgressCallback | None = None) -> Outcome:
        """Train on the submissions before the window."""
        folder = self._folder(ModelKind.THROUGHPUT, asked)
        forget(folder)
        try:
            series = submissions_until(self.system.store, asked.begin)
            document = train_throughput(series, asked.begin, self._throughput, source=_SOURCE, progress=progress)
        except InputError as error:
            return skip(folder, str(error))
        return self._keep_candidate(folder, document)

    def throughput_evaluation(self, asked: Asked) -> Outcome:
        """Judge the day's candidate on the window that it has not seen."""
        return self._evaluate(
            ModelKind.THROUGHPUT,
            asked,
            lambda document, serving: evaluate_throughput(
                document,
                submissions_until(self.system.store, self._until(asked)),
                asked.as_of,
                window=asked.window,
                in_service=serving,
            ),
        )

    # ---- packing --------------------------------------------------------------------------------------

    def packing_evaluation(self, asked: Asked) -> Outcome:
        """Train on the measured pairs that the settings name, and judge on workloads left out."""
        folder = self._folder(ModelKind.PACKING, asked)
        forget(folder)
        tables = self.system.settings.models
        if tables.pairs is None or tables.profiles is None:
            return skip(folder, "no table of measured pairs is set (models.pairs, models.profiles); the shipped serves")
        candidate = packing_candidate(
            read_pair_table(tables.pairs, tables.profiles),
            in_service=self.in_service(ModelKind.PACKING),
            source=tables.pairs.name,
            as_of=asked.as_of,
        )
        return self._keep_evaluated(folder, candidate)

    # ---- what all share -------------------------------------------------------------------------------

    def promote(self, kind: ModelKind, asked: Asked) -> Outcome:
        """Put the day's model in service, if the gate lets it and nothing newer serves. Once more changes nothing."""
        outcome = self.outcome(kind, asked)
        if outcome is None:
            raise StateError(f"{kind}_evaluation has not run for this day; materialise it first: {asked.as_of:%F}")
        serving = self.in_service(kind)
        if not outcome.promote or outcome.version is None:
            return Outcome(False, outcome.reason, self._version(serving), facts=outcome.facts)
        if serving is not None and outcome.version != serving["version"]:
            if self._was_in_service(kind, outcome.version):
                return Outcome(False, f"kept: {outcome.version} was in service before", self._version(serving))
            if _trained(serving) > _trained(self.registry.read(kind, outcome.version)):
                return Outcome(False, f"kept: {serving['version']} in service is newer", self._version(serving))
            if outcome.facts.get("in_service_version") != serving["version"]:
                why = f"kept: it was judged beside another model than {serving['version']}, now in service"
                return Outcome(False, why, self._version(serving))
        present = self._version(serving)
        try:
            change = self.registry.promote(
                kind,
                outcome.version,
                who=WHO,
                why=outcome.reason,
                now=self.system.clock.now(),
                instead_of=present,
            )
        except ArtefactError:
            raise
        except StateError as error:
            # A person was quicker; what they put in service stays.
            return Outcome(False, f"kept: {error}", present)
        if kind is ModelKind.DURATION:
            self.system.durations.prepare(self.system.store, self.system.settings, self.system.clock.now())
        return Outcome(True, outcome.reason, change.version, True, outcome.facts)

    def drift(self, kind: ModelKind, asked: Asked, window: timedelta = DRIFT_WINDOW) -> DriftReport | str:
        """Whether the newest days still look like what the model in service was trained on; a text = cannot be said."""
        document = self.in_service(kind)
        if document is None:
            return f"no {kind} model is in service"
        begin = max(asked.as_of - window, _trained(document))
        try:
            if kind is ModelKind.DURATION:
                rows = self.system.store.history.rows(since=begin - MAX_HISTORY, until=asked.as_of)
                return duration_drift(DurationModel.from_document(document), rows, begin, asked.as_of)
            series = submissions_until(self.system.store, self._until(asked))
            return throughput_drift(ThroughputModel.from_document(document), series, begin, asked.as_of)
        except InputError as error:
            return str(error)

    def outcome(self, kind: ModelKind, asked: Asked) -> Outcome | None:
        """What the day's steps have come to so far."""
        return read_outcome(self._folder(kind, asked))

    def in_service(self, kind: ModelKind) -> dict[str, Any] | None:
        """The document in service; ``None`` when there is none."""
        try:
            return self.registry.read(kind)
        except NotFoundError:
            return None

    def _evaluate(
        self, kind: ModelKind, asked: Asked, judge: Callable[[dict[str, Any], dict[str, Any] | None], Candidate]
    ) -> Outcome:
        folder = self._folder(kind, asked)
        if not (folder / CANDIDATE).exists():
            return skipped(folder, f"{kind}_candidate")
        document = read_json(folder / CANDIDATE)
        _require_as_of(_trained(document), asked, f"{kind}_candidate")
        try:
            return self._keep_evaluated(folder, judge(document, self.in_service(kind)))
        except InputError as error:
            return skip(folder, str(error))

    def _keep_candidate(self, folder: Path, document: Mapping[str, Any]) -> Outcome:
        write_json(folder / CANDIDATE, document)
        (folder / OUTCOME).unlink(missing_ok=True)
        facts = {"rows": document["trained"]["rows"], "left_out": document["trained"]["left_out"]}
        return Outcome(True, "trained, not yet judged", document["version"], facts=facts)

    def _keep_evaluated(self, folder: Path, candidate: Candidate) -> Outcome:
        evaluation, verdict = candidate.evaluation, candidate.verdict
        version = self.registry.keep(candidate.document)
        outcome = Outcome(True, verdict.reason, version, verdict.promote, evaluation.to_json())
        write_outcome(folder, outcome)
        return outcome

    def _until(self, asked: Asked) -> datetime:
        """Slots of the present day that have not begun are not empty; they are not known."""
        return min(asked.as_of, self.system.clock.now())

    def _was_in_service(self, kind: ModelKind, version: str) -> bool:
        return any(change.version == version for change in self.registry.history(kind))

    def _folder(self, kind: ModelKind, asked: Asked) -> Path:
        return day_folder(self.registry.root, kind, asked)

    @staticmethod
    def _version(document: Mapping[str, Any] | None) -> str | None:
        return None if document is None else str(document["version"])


def _trained(document: Mapping[str, Any]) -> datetime:
    header = describe(document)
    return header.trained.as_of or header.created_at


def _require_as_of(made: datetime, asked: Asked, step: str) -> None:
    if made != asked.begin:
        raise StateError(f"{step} was made as of {made}, not {asked.begin}: materialise it with the same window first")
