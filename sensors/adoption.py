"""Held jobs of the cluster's own scheduler: a sensor that looks for new ones, and the job that takes them in."""

import hashlib

from dagster import (
    DefaultSensorStatus,
    OpExecutionContext,
    RunRequest,
    SensorEvaluationContext,
    SkipReason,
    in_process_executor,
    job,
    op,
    sensor,
)

from lucid_pipelines.control.adopting import adopt, new_held_jobs
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.lucid import LucidResource, open_once
from lucid_pipelines.sensors.console import LOGGERS

TRY_AGAIN_S = 300


@op(description="Take in the held jobs that bear the site's tag; in mode shadow, record which ones.")
def adopt_held_jobs(context: OpExecutionContext, lucid: LucidResource) -> None:
    """One look at the cluster's scheduler."""
    count = adopt(lucid.system)
    context.add_output_metadata({"adopted": count, "mode": lucid.system.settings.modes.adopt.value})


@job(
    executor_def=in_process_executor,
    logger_defs=LOGGERS,
    tags={"lucid/kind": "control"},
    description="Take in jobs that users submitted held to the cluster's own scheduler.",
)
def adoption_job() -> None:
    """See ``adopt_held_jobs``."""
    adopt_held_jobs()


@sensor(
    job=adoption_job,
    minimum_interval_seconds=10,
    default_status=DefaultSensorStatus.RUNNING,
    description="Looks for held jobs with the site's tag (modes.adopt); asks the cluster's scheduler one question.",
)
def adoption_sensor(context: SensorEvaluationContext) -> RunRequest | SkipReason:
    """The one sensor that looks beyond our own rows: users submit to somebody else here."""
    system = open_once()
    try:
        held = new_held_jobs(system)
    except ExternalError as error:
        return SkipReason(str(error))
    if not held:
        return SkipReason("no held job waits for us")
    # The same jobs again after a while, or in another mode: the run before may have failed, or only looked.
    names = hashlib.sha256("+".join(sorted(job.key for job in held)).encode()).hexdigest()[:16]
    turn = int(system.clock.now().timestamp() // TRY_AGAIN_S)
    return RunRequest(run_key=f"{system.settings.modes.adopt.value}-{names}-{turn}")
