"""New submissions: a sensor over our own rows, and the job that takes a batch of them in."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from dagster import (
    DagsterRunStatus,
    DefaultSensorStatus,
    DynamicOut,
    DynamicOutput,
    OpExecutionContext,
    RunRequest,
    RunsFilter,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    in_process_executor,
    job,
    op,
    sensor,
)

from lucid_pipelines.control.intake import INTAKE_STATES, claim_batch, take_in
from lucid_pipelines.control.window_watch import WatchState, watch_window
from lucid_pipelines.domain.job import Job
from lucid_pipelines.resources.lucid import LucidResource, open_once
from lucid_pipelines.sensors.console import LOGGERS
from lucid_pipelines.sensors.scheduling import scheduling_job
from lucid_pipelines.store import Claim

_MOST_RUNS_A_TICK = 4
_YOUNG_RUN_S = 20.0
_UNFINISHED = [
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
]


@op(out=DynamicOut(), description="Claim the oldest submissions that wait to be taken in.")
def claim_submissions(context: OpExecutionContext, lucid: LucidResource) -> Iterator[DynamicOutput[Any]]:
    """One output per claimed job."""
    for claim in claim_batch(lucid.system, worker=context.run_id):
        yield DynamicOutput(claim, mapping_key=claim.item.job_id.replace("-", "_"))


@op(description="One submission: snapshot -> advise -> queue.")
def take_in_submission(context: OpExecutionContext, lucid: LucidResource, claim: Any) -> None:
    """Bring one job into the queue, or fail it with the reason in its record."""
    checked: Claim[Job] = claim
    result = take_in(lucid.system, checked)
    spec = checked.item.spec
    context.log.info(f"{checked.item.job_id} ({spec.name}, {spec.user}, {spec.gpus} GPU): {result.value}")
    context.add_output_metadata(
        {
            "job_id": checked.item.job_id,
            "name": spec.name,
            "user": spec.user,
            "virtual_cluster": spec.vc,
            "gpus": spec.gpus,
            "result": result.value,
        }
    )


@job(
    executor_def=in_process_executor,
    logger_defs=LOGGERS,
    tags={"lucid/kind": "control"},
    description="Take a batch of submissions in: one mapped step per job.",
)
def submission_job() -> None:
    """Claim a batch and take each job of it in."""
    claim_submissions().map(take_in_submission)


def _young_runs(context: SensorEvaluationContext) -> int:
    """Runs asked for a moment ago that may not have claimed their batch yet: some of what waits is theirs.

    Only young ones count, so that runs which hang keep nothing waiting for long. Asking for more while these start
    would slow them down where every start is slow: on a busy machine, and while the run server is started again.
    """
    recent = RunsFilter(
        job_name=submission_job.name,
        statuses=_UNFINISHED,
        created_after=datetime.now(UTC) - timedelta(seconds=_YOUNG_RUN_S),
    )
    return context.instance.get_runs_count(recent)


@sensor(
    jobs=[submission_job, scheduling_job],
    minimum_interval_seconds=1,
    default_status=DefaultSensorStatus.RUNNING,
    description="Starts submission_job when submissions wait, and a scheduling window with it when none is open.",
)
def submission_sensor(context: SensorEvaluationContext) -> SensorResult:
    """One count; at most a few runs a tick, each with a bounded batch.

    The window is asked for here too, so that the first job after a quiet time need not wait for scheduling_sensor,
    which may then tick less often.
    """
    system = open_once()
    waiting = system.store.jobs.claimable_count(INTAKE_STATES, now=system.clock.now())
    if waiting == 0:
        return SensorResult(skip_reason=SkipReason("no submission waits"))
    batches = -(-waiting // system.settings.submission.batch)
    runs = max(0, min(batches, _MOST_RUNS_A_TICK) - _young_runs(context))
    tags = {"lucid/waiting": str(waiting)}
    requests = [RunRequest(job_name=submission_job.name, tags=tags) for _ in range(runs)]
    verdict = watch_window(system, WatchState.parse(context.cursor))
    if verdict.start:
        requests.append(RunRequest(job_name=scheduling_job.name))
    return SensorResult(run_requests=requests, cursor=verdict.state.to_text())
