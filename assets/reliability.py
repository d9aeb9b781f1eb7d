"""`weekly_reliability`: what failed in a week, what it cost, and whether what was done automatically was right."""

from dagster import (
    AssetExecutionContext,
    DefaultScheduleStatus,
    MaterializeResult,
    MetadataValue,
    WeeklyPartitionsDefinition,
    asset,
    build_schedule_from_partitioned_job,
    define_asset_job,
)

from lucid_pipelines.control import reliability
from lucid_pipelines.control.notices import Occasion, tell
from lucid_pipelines.control.restart_scores import score_restarts
from lucid_pipelines.resources.lucid import LucidResource

weekly = WeeklyPartitionsDefinition(start_date="2024-01-01", timezone="UTC", day_offset=1, end_offset=1)


@asset(
    partitions_def=weekly,
    group_name="history",
    kinds={"markdown"},
    description="Failures of a week (Monday to Sunday, UTC) by cause, component and node; GPU-hours lost; time to "
    "recover; precision of automatic restarts and isolations.",
)
def weekly_reliability(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """Score what can be scored, then count."""
    system = lucid.system
    score_restarts(system)
    window = context.partition_time_window
    report = reliability.reliability(system, window.start, window.end)
    page = reliability.page(report)
    if window.end <= system.clock.now():
        subject = f"reliability of the week from {window.start:%Y-%m-%d}: {report.failures} failures"
        facts = {name: f"{value:.6g}" for name, value in reliability.numbers(report).items()}
        tell(system, Occasion.RELIABILITY, f"{window.start:%Y-%m-%d}", subject, page, facts)
    return MaterializeResult(metadata={**reliability.numbers(report), "report": MetadataValue.md(page)})


weekly_reliability_job = define_asset_job(
    "weekly_reliability_job",
    selection=[weekly_reliability],
    tags={"lucid/kind": "control"},
    description="Reports the failures of a week, what they cost and how automations did.",
)

weekly_reliability_schedule = build_schedule_from_partitioned_job(
    weekly_reliability_job,
    hour_of_day=0,
    minute_of_hour=20,
    day_of_week=1,
    default_status=DefaultScheduleStatus.RUNNING,
    description="The week that ended, twenty minutes after midnight UTC on Monday.",
)
