"""Composition root: one Dagster code location."""

import warnings

from dagster import BetaWarning, Definitions, PreviewWarning, in_process_executor, mem_io_manager

# Dagster's notes on its own beta parameters would fill the logs of people who can do nothing about them.
warnings.filterwarnings("ignore", category=BetaWarning)
warnings.filterwarnings("ignore", category=PreviewWarning)

from lucid_pipelines.assets import (
    advice,
    duration_model,
    job_history,
    packing_model,
    reliability,
    replay,
    throughput_model,
    training_metrics,
    tuner,
)
from lucid_pipelines.resources.lucid import LucidResource
from lucid_pipelines.sensors import (
    adoption,
    exits,
    launchpad,
    lost_retries,
    maintenance,
    model_updates,
    notices,
    scheduling,
    submission,
)
from lucid_pipelines.sensors.console import LOGGERS

defs = Definitions(
    assets=[
        job_history.job_history,
        training_metrics.training_metrics,
        scheduling.SCHEDULING_DECISIONS,
        reliability.weekly_reliability,
        *duration_model.ASSETS,
        *throughput_model.ASSETS,
        *packing_model.ASSETS,
        *tuner.ASSETS,
        replay.replay_trace,
        replay.replay,
        *advice.ASSETS,
    ],
    asset_checks=[
        job_history.job_history_contract,
        training_metrics.exit_outbox_lag,
        *duration_model.CHECKS,
        *throughput_model.CHECKS,
        *packing_model.CHECKS,
    ],
    jobs=[
        submission.submission_job,
        scheduling.scheduling_job,
        exits.failure_handling_job,
        adoption.adoption_job,
        launchpad.submit_training_job,
        launchpad.decide_action_job,
        maintenance.maintenance_job,
        notices.notification_job,
        job_history.job_history_job,
        training_metrics.training_metrics_job,
        advice.semantic_index_job,
        advice.advice_quality_job,
        reliability.weekly_reliability_job,
        model_updates.model_updates_job,
        model_updates.weekly_model_updates_job,
        tuner.tuner_job,
        replay.replay_trace_job,
        replay.replay_job,
    ],
    sensors=[
        submission.submission_sensor,
        scheduling.scheduling_sensor,
        exits.exit_sensor,
        lost_retries.lost_retry_sensor,
        adoption.adoption_sensor,
        training_metrics.metrics_sensor,
        notices.notice_sensor,
    ],
    schedules=[
        maintenance.maintenance_schedule,
        job_history.job_history_schedule,
        advice.semantic_index_schedule,
        advice.advice_quality_schedule,
        reliability.weekly_reliability_schedule,
        model_updates.model_updates_schedule,
        model_updates.weekly_model_updates_schedule,
        tuner.tuner_schedule,
    ],
    # Every run is one process: what steps hand on stays in its memory, what must last goes to our own stores.
    executor=in_process_executor,
    loggers=LOGGERS,
    resources={"lucid": LucidResource(), "io_manager": mem_io_manager},
)
