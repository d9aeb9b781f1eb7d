"""All sections together."""

from __future__ import annotations

from pathlib import Path

from lucid_pipelines.settings.cluster import ClusterSettings
from lucid_pipelines.settings.following import LanguageModelSettings, RecoverySettings, TrackerSettings
from lucid_pipelines.settings.hooks import HooksSettings
from lucid_pipelines.settings.learning import ModelsSettings, ReplaySettings
from lucid_pipelines.settings.scheduling import ModesSettings, PackingSettings, ProfilingSettings, SchedulingSettings
from lucid_pipelines.settings.section import Section
from lucid_pipelines.settings.service import DagsterSettings, RetentionSettings, StateSettings
from lucid_pipelines.settings.submission import AdvisorSettings, SnapshotSettings, SubmissionSettings


class Settings(Section):
    """Everything that can be set."""

    home: Path
    state: StateSettings = StateSettings()
    cluster: ClusterSettings = ClusterSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    profiling: ProfilingSettings = ProfilingSettings()
    packing: PackingSettings = PackingSettings()
    submission: SubmissionSettings = SubmissionSettings()
    advisor: AdvisorSettings = AdvisorSettings()
    snapshot: SnapshotSettings = SnapshotSettings()
    dagster: DagsterSettings = DagsterSettings()
    modes: ModesSettings = ModesSettings()
    recovery: RecoverySettings = RecoverySettings()
    retention: RetentionSettings = RetentionSettings()
    replay: ReplaySettings = ReplaySettings()
    tracker: TrackerSettings = TrackerSettings()
    hooks: HooksSettings = HooksSettings()
    language_model: LanguageModelSettings = LanguageModelSettings()
    models: ModelsSettings = ModelsSettings()

    @property
    def state_url(self) -> str:
        return self.state.url or f"sqlite:///{self.home / 'state.db'}"

    @property
    def history_index_url(self) -> str:
        """Where the past jobs are that the advisor looks at."""
        return self.advisor.index or f"sqlite:///{self.home / 'history.db'}"

    @property
    def artefacts(self) -> Path:
        """Root of snapshots, job folders, logs and models."""
        return self.home / "artefacts"

    @property
    def snapshots(self) -> Path:
        return self.artefacts / "snapshots"

    @property
    def jobs(self) -> Path:
        return self.artefacts / "jobs"

    @property
    def decisions(self) -> Path:
        """Where the policy's inputs and decisions are recorded."""
        return self.artefacts / "decisions"

    @property
    def dagster_home(self) -> Path:
        return self.home / "dagster"

    @property
    def default_vc(self) -> str:
        chosen = self.cluster
        if chosen.kind == "slurm" and chosen.slurm.partitions:
            return chosen.default_vc or chosen.slurm.partitions[0]
        return chosen.default_vc or chosen.nodes[0].vc
