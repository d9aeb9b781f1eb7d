"""`job_history`: what happened on each UTC day, as a table with a contract."""

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetExecutionContext,
    DailyPartitionsDefinition,
    DefaultScheduleStatus,
    MaterializeResult,
    MetadataValue,
    asset,
    asset_check,
    build_schedule_from_partitioned_job,
    define_asset_job,
)

from lucid_pipelines.control import history_day
from lucid_pipelines.resources.lucid import LucidResource

daily = DailyPartitionsDefinition(start_date="2024-01-01", timezone="UTC", end_offset=1)


@asset(
    partitions_def=daily,
    group_name="history",
    kinds={"parquet"},
    description="Every attempt that ended on that UTC day: who, what, where, how long, how it ended.",
)
def job_history(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """Write the day as Parquet below the artefact root."""
    system = lucid.system
    day = context.partition_time_window.start
    rows = history_day.day_rows(system.store, day)
    path = history_day.write_day(rows, system.settings.artefacts / "history", day)
    return MaterializeResult(
        metadata={
            **history_day.summary(rows),
            "outcomes": MetadataValue.md(history_day.outcomes_markdown(rows)),
            "path": MetadataValue.path(str(path)),
        }
    )


@asset_check(asset=job_history, partitions_def=daily, description="No row of the day can be false.")
def job_history_contract(context: AssetCheckExecutionContext, lucid: LucidResource) -> AssetCheckResult:
    """Durations, times, GPU counts and ids are possible ones."""
    day = context.partition_time_window.start
    found = history_day.violations(history_day.day_rows(lucid.system.store, day))
    return AssetCheckResult(
        passed=not found,
        metadata={violation.rule: f"{violation.count}: {', '.join(violation.attempt_ids)}" for violation in found},
    )


job_history_job = define_asset_job(
    "job_history_job",
    selection=[job_history],
    description="Writes the attempts that ended on a day as a table.",
)

job_history_schedule = build_schedule_from_partitioned_job(
    job_history_job,
    hour_of_day=0,
    minute_of_hour=10,
    default_status=DefaultScheduleStatus.RUNNING,
    description="The day that ended, ten minutes after midnight UTC.",
)
