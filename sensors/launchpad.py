"""Submit a training job from Dagster's launchpad: the same door as `lucid submit`."""

from pathlib import Path

from dagster import Config, OpExecutionContext, in_process_executor, job, op
from pydantic import Field

from lucid_pipelines.client import Client
from lucid_pipelines.control.requests import parse_request
from lucid_pipelines.resources.lucid import LucidResource
from lucid_pipelines.sensors.console import LOGGERS


class SubmitConfig(Config):
    """What the launchpad asks for; the keys are those of a job file."""

    command: list[str] = Field(description="Argument vector, e.g. ['python', 'train.py', '--epochs', '3'].")
    source_dir: str | None = Field(default=None, description="Folder on this machine whose code is sealed and run.")
    name: str | None = None
    user: str = Field(description="On whose behalf: Dagster's launchpad has no login.")
    vc: str | None = None
    gpus: int = 1
    workdir: str = "."
    env: dict[str, str] = Field(default_factory=dict)
    idempotency_key: str | None = None


@op(description="Seal the code and submit one training job.")
def submit_training(context: OpExecutionContext, config: SubmitConfig, lucid: LucidResource) -> None:
    """Submit, and show the job's id."""
    values = {key: value for key, value in config.model_dump().items() if value not in (None, {})}
    if config.source_dir is not None:
        values["source_dir"] = Path(config.source_dir)
    # The run's id makes a re-executed run submit the same job, not a second one.
    values.setdefault("idempotency_key", f"dagster-run-{context.run.root_run_id or context.run_id}")
    request = parse_request(values, "the launchpad's configuration")
    submitted = Client(settings=lucid.system.settings).submit_requests([request])[0]
    context.log.info(f"submitted {submitted.job.job_id}" if submitted.created else f"already {submitted.job.job_id}")
    context.add_output_metadata({"job_id": submitted.job.job_id, "created": submitted.created})


@job(
    executor_def=in_process_executor,
    logger_defs=LOGGERS,
    description="Submit one training job from the launchpad.",
)
def submit_training_job() -> None:
    """One op."""
    submit_training()
