"""Abnormal exits: a sensor over our outbox, and the job that drains it in bounded batches (R-35)."""

from collections.abc import Iterator
from typing import Any

from dagster import (
    DefaultSensorStatus,
    DynamicOut,
    DynamicOutput,
    In,
    MetadataValue,
    Nothing,
    OpExecutionContext,
    RunRequest,
    SensorEvaluationContext,
    SkipReason,
    in_process_executor,
    job,
    op,
    sensor,
)

from lucid_pipelines.control.exits import claim_exits, handle_exit
from lucid_pipelines.control.recovering import carry_out_due, due_actions
from lucid_pipelines.resources.lucid import LucidResource, open_once
from lucid_pipelines.sensors.console import LOGGERS
from lucid_pipelines.store import Claim, Exit


@op(out=DynamicOut(), description="Claim the oldest abnormal exits that nobody has handled.")
def claim_abnormal_exits(context: OpExecutionContext, lucid: LucidResource) -> Iterator[DynamicOutput[Any]]:
    """One output per claimed exit."""
    for claim in claim_exits(lucid.system, worker=context.run_id):
        yield DynamicOutput(claim, mapping_key=claim.item.attempt_id.replace("-", "_"))


@op(description="One abnormal exit: locate -> classify -> diagnose -> decide -> propose.")
def handle_abnormal_exit(context: OpExecutionContext, lucid: LucidResource, claim: Any) -> None:
    """Diagnose one exit; the page for people is in the step's metadata."""
    checked: Claim[Exit] = claim
    report = handle_exit(lucid.system, checked)
    if report is None:
        context.log.warning(f"{checked.item.attempt_id}: could not be handled now; it will be tried again")
        return
    context.log.info(f"{report.attempt_id}: {report.headline}; {report.restart_rule}")
    facts = {key: str(value) for key, value in report.to_json().items() if value is not None}
    context.add_output_metadata({**facts, "report": MetadataValue.md(report.page)})


@op(ins={"handled": In(Nothing)}, description="Carry out what is live or approved and whose time has come.")
def carry_out_actions(context: OpExecutionContext, lucid: LucidResource) -> None:
    """Isolations first, then restarts."""
    for carried in carry_out_due(lucid.system):
        action = carried.action
        context.log.info(f"{action.kind} {action.target}: {carried.detail} ({action.why})")


@job(
    executor_def=in_process_executor,
    logger_defs=LOGGERS,
    tags={"lucid/kind": "control"},
    description="Drain a batch of abnormal exits, one mapped step each, then carry out what is due.",
)
def failure_handling_job() -> None:
    """Claim a batch, handle each exit of it, act."""
    carry_out_actions(claim_abnormal_exits().map(handle_abnormal_exit).collect())


@sensor(
    job=failure_handling_job,
    minimum_interval_seconds=15,
    default_status=DefaultSensorStatus.RUNNING,
    description="Starts failure_handling_job when abnormal exits wait in the outbox.",
)
def exit_sensor(context: SensorEvaluationContext) -> RunRequest | SkipReason:
    """Two counts over our own table; never the run history."""
    del context
    system = open_once()
    now = system.clock.now()
    pending, oldest = system.store.exits.pending()
    claimable = system.store.exits.claimable_count(now=now) if pending else 0
    if claimable == 0 or oldest is None:
        due = due_actions(system)
        if due:
            return RunRequest(tags={"lucid/due_actions": str(len(due))})
        if pending:
            return SkipReason(f"{pending} abnormal exit(s) are being handled or wait for their next try")
        return SkipReason("no abnormal exit waits and no action is due")
    lag_s = (now - oldest).total_seconds()
    return RunRequest(tags={"lucid/pending": str(pending), "lucid/lag_s": f"{lag_s:.0f}"})
