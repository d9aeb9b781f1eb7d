"""`semantic_index` and `advice_quality`: the past jobs that advice rests on, and how it fared, day by day."""

from dagster import (
    AssetExecutionContext,
    DefaultScheduleStatus,
    MaterializeResult,
    MetadataValue,
    ScheduleDefinition,
    asset,
    build_schedule_from_partitioned_job,
    define_asset_job,
)

from lucid_pipelines.assets.job_history import daily
from lucid_pipelines.control import advice_day
from lucid_pipelines.control.advising import learn_ended
from lucid_pipelines.resources.lucid import LucidResource


@asset(
    group_name="advisor",
    kinds={"vectors"},
    description="The vector index of past jobs in the space of the embedder in use; filled anew when that changes.",
)
def semantic_index(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """Learn what has ended, and embed what other spaces and the state database know."""
    # The embedder and the index are loaded where they are needed only.
    from lucid_pipelines.resources.advisors import rebuild_index

    system = lucid.system
    while learn_ended(system):
        pass
    rebuilt = rebuild_index(system)
    found = rebuilt.calibration
    context.log.info(f"{rebuilt.count} past jobs in {rebuilt.space.key}")
    suggestion = {"suggested_threshold": found.threshold} if found.threshold is not None else {}
    return MaterializeResult(
        metadata={
            "space": rebuilt.space.key,
            "past_jobs": rebuilt.count,
            "embedded_from_other_spaces": rebuilt.from_other_spaces,
            "embedded_from_history": rebuilt.from_history,
            "left_of_other_schemas": rebuilt.other_schema,
            "calibration": found.reason or f"{found.precision_frac:.0%} of the pairs above it agree",
            **suggestion,
        }
    )


@asset(
    partitions_def=daily,
    group_name="advisor",
    description="How right advice was whose jobs ended that UTC day, why there was none, what it cost and saved.",
)
def advice_quality(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """The daily report of the advisor."""
    system = lucid.system
    while learn_ended(system):
        pass
    day = advice_day.advice_day(system.store, context.partition_time_window.start)
    return MaterializeResult(metadata={**advice_day.numbers(day), "report": MetadataValue.md(advice_day.markdown(day))})


ASSETS = [semantic_index, advice_quality]
advice_quality_job = define_asset_job(
    "advice_quality_job",
    selection=[advice_quality],
    description="Scores the advisor on the jobs that ended on a day.",
)
semantic_index_job = define_asset_job(
    "semantic_index_job",
    selection=[semantic_index],
    description="Brings the vector index of past jobs up to date with the embedder in use.",
)
semantic_index_schedule = ScheduleDefinition(
    job=semantic_index_job,
    cron_schedule="20 0 * * *",
    execution_timezone="UTC",
    default_status=DefaultScheduleStatus.RUNNING,
    description="Cheap while nothing changed; after another embedder was chosen it embeds every past job anew.",
)
advice_quality_schedule = build_schedule_from_partitioned_job(
    advice_quality_job,
    hour_of_day=0,
    minute_of_hour=25,
    default_status=DefaultScheduleStatus.RUNNING,
    description="The day that ended, twenty-five minutes after midnight UTC.",
)
