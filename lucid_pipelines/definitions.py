"""Composition root: one Dagster code location."""

from dagster import Definitions, in_process_executor, mem_io_manager

from lucid_pipelines.assets import job_history, training_metrics
from lucid_pipelines.resources.lucid import LucidResource
from lucid_pipelines.sensors import exits, launchpad, maintenance, scheduling, submission

defs = Definitions(
    assets=[job_history.job_history, training_metrics.training_metrics],
    asset_checks=[job_history.job_history_contract],
    jobs=[
        submission.submission_job,
        scheduling.scheduling_job,
        exits.failure_handling_job,
        launchpad.submit_training_job,
        maintenance.maintenance_job,
        job_history.job_history_job,
        training_metrics.training_metrics_job,
    ],
    sensors=[
        submission.submission_sensor,
        scheduling.scheduling_sensor,
        exits.exit_sensor,
        training_metrics.metrics_sensor,
    ],
    schedules=[maintenance.maintenance_schedule, job_history.job_history_schedule],
    # Every run is one process: what steps hand on stays in its memory, what must last goes to our own stores.
    executor=in_process_executor,
    resources={"lucid": LucidResource(), "io_manager": mem_io_manager},
)
