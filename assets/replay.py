"""`replay`: a recorded (or generated) trace under every policy, partitioned by week and policy."""

from dagster import (
    AssetExecutionContext,
    BackfillPolicy,
    Config,
    DynamicPartitionsDefinition,
    MaterializeResult,
    MetadataValue,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    StaticPartitionsDefinition,
    asset,
    define_asset_job,
)

from lucid_pipelines import policies
from lucid_pipelines.resources.lucid import LucidResource

POLICIES = policies.names()
"""In an order that puts what is usually compared together: Dagster makes runs of neighbours."""
weeks = DynamicPartitionsDefinition(name="replay_week")
week_and_policy = MultiPartitionsDefinition({"week": weeks, "policy": StaticPartitionsDefinition(list(POLICIES))})
MOST_PARTITIONS_A_RUN = 32
"""More than there are policies: a run takes one week under any number of policies, or one policy over many weeks.
A chunk smaller than such a row would be cut across rows, and Dagster takes two corners for a rectangle."""


class ReplayConfig(Config):
    """How stored results are used."""

    again: bool = False
    """Compute partitions although they have a stored result."""


@asset(group_name="replays", description="The trace that replays take (settings, section `replay`) and its weeks.")
def replay_trace(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """Read the trace and make its weeks the partitions of `replay`."""
    replays = _replays(lucid)
    found = [week.key for week in replays.weeks]
    for gone in set(context.instance.get_dynamic_partitions("replay_week")) - set(found):
        context.instance.delete_dynamic_partition("replay_week", gone)
    context.instance.add_dynamic_partitions("replay_week", found)
    trace = replays.trace
    rows = "\n".join(f"| {week.key} | {week.jobs:,} |" for week in replays.weeks)
    return MaterializeResult(
        metadata={
            "jobs": trace.job_count,
            "quarantined": trace.quarantined_count,
            "gpus": replays.cluster.gpus,
            "source": trace.source,
            "synthetic": bool(trace.metadata.get("synthetic", False)),
            "weeks": MetadataValue.md(f"| week | jobs |\n|---|---|\n{rows}"),
            "quarantine": MetadataValue.json(trace.quarantined_by_reason),
        }
    )


@asset(
    partitions_def=week_and_policy,
    deps=[replay_trace],
    backfill_policy=BackfillPolicy.multi_run(max_partitions_per_run=MOST_PARTITIONS_A_RUN),
    group_name="replays",
    kinds={"parquet"},
    description="One week of the trace under one policy, computed once; the metadata compares the policies.",
)
def replay(context: AssetExecutionContext, config: ReplayConfig, lucid: LucidResource) -> MaterializeResult:
    """Compute what is not stored yet; a run that was killed goes on where it stopped."""
    from lucid_pipelines.simulation.comparison import week_plots, week_table, weeks_table

    replays = _replays(lucid)
    results = {}
    for key in context.partition_keys:
        names = week_and_policy.get_partition_key_from_str(key).keys_by_dimension
        results[key] = replays.result(names["week"], names["policy"], again=config.again)
        context.log.info(f"{key}: {'computed' if results[key].is_new else 'found'}")
    every = replays.all_stored(POLICIES)
    overview = MetadataValue.md(weeks_table(every))
    of_week = {week: [result for result in every if result.week == week] for week in {r.week for r in results.values()}}
    plots = {week: week_plots(its) for week, its in of_week.items()}
    for result in results.values():
        context.add_asset_metadata(
            {
                "jobs": int(result.number("jobs")),
                "avg_jct_h": result.number("avg_jct_s") / 3600,
                "avg_queue_h": result.number("avg_queue_s") / 3600,
                "p999_queue_h": result.number("p999_queue_s") / 3600,
                "makespan_h": result.number("makespan_s") / 3600,
                "gpu_allocated_frac": result.number("gpu_allocated_frac"),
                "computed_now": result.is_new,
                "comparison": MetadataValue.md(week_table(of_week[result.week])),
                "plots": MetadataValue.md(plots[result.week]),
                "all_weeks": overview,
                "report": MetadataValue.path(str(result.folder / "report.html")),
            },
            partition_key=MultiPartitionKey({"week": result.week, "policy": result.policy}),
        )
    return MaterializeResult()


# A run whose process dies is started again (the tag needs `run_retries` in dagster.yaml) and goes on.
replay_job = define_asset_job(
    "replay_job",
    selection=[replay],
    tags={"dagster/max_retries": "3"},
    description="Replays weeks of the trace under policies; what is stored already is not computed again.",
)
replay_trace_job = define_asset_job(
    "replay_trace_job",
    selection=[replay_trace],
    description="Reads the trace of the settings and makes its weeks the partitions of `replay`.",
)


def _replays(lucid: LucidResource):
    # Imported here: pandas, pyarrow and matplotlib would slow down every start of the code location.
    from lucid_pipelines.simulation.weekly import WeeklyReplays

    settings = lucid.system.settings
    return WeeklyReplays(settings.replay, settings.artefacts / "replays")
