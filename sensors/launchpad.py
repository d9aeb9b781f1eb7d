"""Dagster's launchpad: submit a training job, and say yes or no to a proposed action, as on the command line."""

from pathlib import Path

from dagster import Config, OpExecutionContext, in_process_executor, job, op
from pydantic import Field

from lucid_pipelines.client import Client
from lucid_pipelines.control import approvals
from lucid_pipelines.control.requests import parse_request
from lucid_pipelines.resources.lucid import LucidResource
from lucid_pipelines.sensors.console import LOGGERS


class SubmitConfig(Config):
    """What the launchpad asks for; the keys are those of a job file."""

    command: list[str] = Field(description="Argument vector, e.g. ['python', 'train.py', '--epochs', '3'].")
    source_dir: str | None = Field(default=None, description="Folder on this machine whose code is sealed and run.")
    name: str | None = Field(default=None, description="What it is called; by default made from the command.")
    user: str = Field(description="On whose behalf: Dagster's launchpad has no login.")
    vc: str | None = Field(default=None, description="Virtual cluster; by default `cluster.default_vc`.")
    gpus: int = Field(default=1, description="GPUs of the whole job.")
    workdir: str = Field(default=".", description="Folder below source_dir in which the command starts.")
    env: dict[str, str] = Field(default_factory=dict, description="Environment variables, beside those of the site.")
    idempotency_key: str | None = Field(default=None, description="Two submissions with one key give one job.")


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


class DecideConfig(Config):
    """A person's word on a proposed action."""

    action: int = Field(description="Number of the action, as in `lucid actions list`.")
    approve: bool = Field(description="true: it is carried out; false: it never is.")
    person: str = Field(min_length=1, description="Your name: Dagster's launchpad has no login.")


@op(description="Approve or reject one proposed action (restart, isolate, pack, unpack, lend), in a person's name.")
def decide_action(context: OpExecutionContext, config: DecideConfig, lucid: LucidResource) -> None:
    """Write the decision down; whoever proposed the action carries it out."""
    decided = approvals.decide(lucid.system, config.action, approve=config.approve, person=config.person)
    context.log.info(f"action {decided.action_id} ({decided.kind} {decided.target}) is {decided.state.value}")
    facts = {"action": decided.action_id, "kind": decided.kind, "target": decided.target, "state": decided.state.value}
    context.add_output_metadata({**facts, "person": config.person, "why": decided.why})


@job(
    executor_def=in_process_executor,
    logger_defs=LOGGERS,
    description="Approve or reject a proposed action, in a person's name.",
)
def decide_action_job() -> None:
    """One op."""
    decide_action()
