"""The Update Engine's jobs and schedules, all in UTC."""

from datetime import timedelta

from dagster import (
    AssetSelection,
    DefaultScheduleStatus,
    RunConfig,
    RunRequest,
    ScheduleEvaluationContext,
    SkipReason,
    define_asset_job,
    schedule,
)

from lucid_pipelines.assets import duration_model, packing_model, throughput_model
from lucid_pipelines.assets.model_steps import UpdateConfig
from lucid_pipelines.control.tuned import retrain_every_days
from lucid_pipelines.resources.lucid import LucidResource

_WINDOWED = (
    "duration_features",
    "duration_candidate",
    "duration_evaluation",
    "throughput_candidate",
    "throughput_evaluation",
)
_DAILY = [*duration_model.ASSETS, *throughput_model.ASSETS]
_WEEKLY = [*_DAILY, *packing_model.ASSETS]
_WEEK_DAYS = 7.0

model_updates_job = define_asset_job(
    "model_updates_job",
    selection=AssetSelection.assets(*_DAILY),
    description="Trains and judges the duration and throughput models as of a day, and promotes what passes.",
)
weekly_model_updates_job = define_asset_job(
    "weekly_model_updates_job",
    selection=AssetSelection.assets(*_WEEKLY),
    description="As model_updates_job with a week as the unseen window, and the packing model.",
)


def config_of(window_days: float) -> RunConfig:
    """The same unseen window for every step."""
    return RunConfig(ops={name: UpdateConfig(window_days=window_days) for name in _WINDOWED})


def _yesterday(context: ScheduleEvaluationContext) -> str:
    return f"{context.scheduled_execution_time - timedelta(days=1):%Y-%m-%d}"


@schedule(
    job=model_updates_job,
    cron_schedule="40 0 * * *",
    execution_timezone="UTC",
    default_status=DefaultScheduleStatus.RUNNING,
    description="The day that ended, once its history is written; judged on that day.",
)
def model_updates_schedule(context: ScheduleEvaluationContext, lucid: LucidResource) -> RunRequest | SkipReason:
    """Skips where the System Tuner's settings ask for fewer trainings."""
    every_days = retrain_every_days(lucid.system.store)
    if every_days is not None and every_days > 1:
        return SkipReason(f"the applied settings retrain every {every_days:g} days; the weekly schedule does")
    day = _yesterday(context)
    return RunRequest(run_key=f"model-updates-{day}", partition_key=day, run_config=config_of(1.0))


@schedule(
    job=weekly_model_updates_job,
    cron_schedule="20 1 * * 1",
    execution_timezone="UTC",
    default_status=DefaultScheduleStatus.RUNNING,
    description="On Mondays with the whole week as the unseen window: a quiet cluster's day holds too few runs.",
)
def weekly_model_updates_schedule(context: ScheduleEvaluationContext) -> RunRequest:
    """A week of runs to judge on."""
    day = _yesterday(context)
    return RunRequest(run_key=f"weekly-{day}", partition_key=day, run_config=config_of(_WEEK_DAYS))
