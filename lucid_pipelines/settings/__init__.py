"""`lucid.yaml` + environment -> one typed, frozen `Settings` (ARCHITECTURE section 11).

Order of precedence: defaults, then the file, then the environment. Every key can be overridden by
``LUCID__SECTION__KEY=value`` (the value is read as YAML). Unknown keys are errors that name the nearest
valid key.
"""

from __future__ import annotations

from lucid_pipelines.settings.cluster import (
    DEFAULT_NODES,
    AdoptSettings,
    CheckSettings,
    ClusterSettings,
    NodeSettings,
    SlurmSettings,
    SshSettings,
)
from lucid_pipelines.settings.following import LanguageModelSettings, RecoverySettings, TrackerSettings
from lucid_pipelines.settings.hooks import OCCASIONS, EmailSettings, HooksSettings, SlackSettings, WebhookSettings
from lucid_pipelines.settings.learning import ModelsSettings, ReplaySettings
from lucid_pipelines.settings.loading import ENV_PREFIX, FILE_NAME, load_settings
from lucid_pipelines.settings.root import Settings
from lucid_pipelines.settings.scheduling import ModesSettings, PackingSettings, ProfilingSettings, SchedulingSettings
from lucid_pipelines.settings.section import Section
from lucid_pipelines.settings.service import DagsterSettings, RetentionSettings, StateSettings
from lucid_pipelines.settings.submission import AdvisorSettings, SnapshotSettings, SubmissionSettings

__all__ = [
    "DEFAULT_NODES",
    "ENV_PREFIX",
    "FILE_NAME",
    "OCCASIONS",
    "AdoptSettings",
    "AdvisorSettings",
    "CheckSettings",
    "ClusterSettings",
    "DagsterSettings",
    "EmailSettings",
    "HooksSettings",
    "LanguageModelSettings",
    "ModelsSettings",
    "ModesSettings",
    "NodeSettings",
    "PackingSettings",
    "ProfilingSettings",
    "RecoverySettings",
    "ReplaySettings",
    "RetentionSettings",
    "SchedulingSettings",
    "Section",
    "Settings",
    "SlackSettings",
    "SlurmSettings",
    "SnapshotSettings",
    "SshSettings",
    "StateSettings",
    "SubmissionSettings",
    "TrackerSettings",
    "WebhookSettings",
    "load_settings",
]
