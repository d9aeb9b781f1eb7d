"""Notices to people: a sensor over their outbox, and the job that delivers them."""

from dagster import (
    DefaultSensorStatus,
    OpExecutionContext,
    Output,
    RunRequest,
    SensorEvaluationContext,
    SkipReason,
    in_process_executor,
    job,
    op,
    sensor,
)

from lucid_pipelines.control.notices import alarm_for_lag, deliver
from lucid_pipelines.resources.lucid import LucidResource, open_once
from lucid_pipelines.sensors.console import LOGGERS


@op(description="Send what waits by webhook, chat or e-mail; what fails is tried again later.")
def deliver_notices(context: OpExecutionContext, lucid: LucidResource) -> Output[None]:
    """One bounded batch."""
    return Output(None, metadata=dict(deliver(lucid.system, worker=context.run_id)))


@job(
    executor_def=in_process_executor,
    logger_defs=LOGGERS,
    tags={"lucid/kind": "control"},
    description="Tell people what they asked to be told.",
)
def notification_job() -> None:
    """One op."""
    deliver_notices()


@sensor(
    job=notification_job,
    minimum_interval_seconds=30,
    default_status=DefaultSensorStatus.RUNNING,
    description="Starts notification_job when notices wait; raises the alarm when exits wait too long (R-35).",
)
def notice_sensor(context: SensorEvaluationContext) -> RunRequest | SkipReason:
    """Two counts over our own tables; nothing at all while no channel is set up."""
    del context
    system = open_once()
    if not system.notifiers:
        return SkipReason("no channel is set up (settings: hooks)")
    alarm_for_lag(system)
    waiting = system.store.notices.claimable_count(now=system.clock.now())
    return RunRequest(tags={"lucid/notices": str(waiting)}) if waiting else SkipReason("nothing is to be told")
