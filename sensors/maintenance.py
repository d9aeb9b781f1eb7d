"""Housekeeping: old runs, ticks and rows go, in bounded batches."""

from datetime import timedelta

from dagster import DagsterRunStatus as Status
from dagster import (
    DefaultScheduleStatus,
    OpExecutionContext,
    Output,
    RunsFilter,
    ScheduleDefinition,
    in_process_executor,
    job,
    op,
)

from lucid_pipelines.control.housekeeping import prune_state
from lucid_pipelines.control.releasing import review_isolations
from lucid_pipelines.control.restart_scores import score_restarts
from lucid_pipelines.resources.lucid import LucidResource
from lucid_pipelines.sensors.console import LOGGERS

_FINISHED = [Status.SUCCESS, Status.FAILURE, Status.CANCELED]
_BATCH = 200


@op(description="Delete finished Dagster runs that are past their time: control runs after hours, others after days.")
def prune_runs(context: OpExecutionContext, lucid: LucidResource) -> Output[None]:
    """A scheduling window runs every minute and takes 131 KB in SQLite: without this the disk fills."""
    settings = lucid.system.settings.dagster
    now = lucid.system.clock.now()
    control = RunsFilter(
        statuses=_FINISHED,
        tags={"lucid/kind": "control"},
        updated_before=now - timedelta(hours=settings.keep_control_runs_h),
    )
    others = RunsFilter(statuses=_FINISHED, updated_before=now - timedelta(days=settings.keep_runs_days))
    deleted = 0
    for runs in (control, others):
        for record in context.instance.get_run_records(runs, limit=_BATCH, ascending=True):
            context.instance.delete_run(record.dagster_run.run_id)
            deleted += 1
    return Output(None, metadata={"deleted_runs": deleted})


@op(description="Delete rows of the state database that are past their retention, and snapshots that nobody needs.")
def prune_rows(lucid: LucidResource) -> Output[None]:
    """Jobs, attempts and history stay."""
    return Output(None, metadata={name: count for name, count in prune_state(lucid.system).items()})


@op(description="Test what is isolated past its deadline; give back what passes; score past restarts.")
def review_isolated(context: OpExecutionContext, lucid: LucidResource) -> Output[None]:
    """Only our own isolations are lifted."""
    reviewed = review_isolations(lucid.system)
    for item in reviewed:
        context.log.info(f"{item.reason.node}: {item.decision.verb.value} ({item.decision.rule})")
    scored = score_restarts(lucid.system)
    return Output(None, metadata={"reviewed": len(reviewed), "scored_restarts": scored})


@job(
    executor_def=in_process_executor,
    logger_defs=LOGGERS,
    tags={"lucid/kind": "control"},
    description="Hourly housekeeping.",
)
def maintenance_job() -> None:
    """Independent ops."""
    prune_runs()
    prune_rows()
    review_isolated()


maintenance_schedule = ScheduleDefinition(
    job=maintenance_job,
    cron_schedule="17 * * * *",
    execution_timezone="UTC",
    default_status=DefaultScheduleStatus.RUNNING,
    description="Keeps the databases small.",
)
