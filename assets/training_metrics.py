"""`training_metrics`: what the running jobs and the control plane look like, one batch per interval."""

from dagster import (
    AssetExecutionContext,
    DefaultSensorStatus,
    MaterializeResult,
    MetadataValue,
    RunRequest,
    SensorEvaluationContext,
    SkipReason,
    TableColumn,
    TableRecord,
    TableSchema,
    asset,
    define_asset_job,
    in_process_executor,
    sensor,
)

from lucid_pipelines.control.live_metrics import JobMetrics, collect
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.resources.lucid import LucidResource

_SCHEMA = TableSchema(
    columns=[
        TableColumn("job_id", "string"),
        TableColumn("name", "string"),
        TableColumn("user", "string"),
        TableColumn("placement", "string"),
        TableColumn("run_s", "float"),
        TableColumn("gpu_util_pct", "float"),
        TableColumn("memory_used_mib", "float"),
        TableColumn("log_bytes", "int"),
        TableColumn("last_line", "string"),
    ]
)


@asset(
    group_name="live",
    description="Running jobs (GPU load, log size, last line) and the control plane's own gauges.",
)
def training_metrics(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """Numbers become plots in the UI, one point per materialisation."""
    plane, jobs = collect(lucid.system)
    context.log.info(f"{plane.running} jobs run, {plane.waiting} wait")
    return MaterializeResult(
        metadata={
            "running_jobs": plane.running,
            "waiting_jobs": plane.waiting,
            "gpus_busy": plane.gpus_busy,
            "gpus": plane.gpus,
            "exit_outbox_lag_s": plane.exit_lag_s,
            "open_intents": plane.open_intents,
            "jobs": MetadataValue.table([_record(job) for job in jobs], schema=_SCHEMA),
        }
    )


training_metrics_job = define_asset_job(
    "training_metrics_job",
    selection=[training_metrics],
    executor_def=in_process_executor,
    tags={"lucid/kind": "control"},
)


@sensor(
    job=training_metrics_job,
    minimum_interval_seconds=30,
    default_status=DefaultSensorStatus.RUNNING,
    description="Materialises training_metrics every half minute while jobs run.",
)
def metrics_sensor(context: SensorEvaluationContext, lucid: LucidResource) -> RunRequest | SkipReason:
    """One count; and one last run after the last job ended, so that the plots come down to zero."""
    counts = lucid.system.store.jobs.counts()
    is_active = any(counts[state] for state in JobState if state.is_active)
    was_active = context.cursor == "active"
    context.update_cursor("active" if is_active else "idle")
    if is_active or was_active:
        return RunRequest()
    return SkipReason("no job runs")


def _record(item: JobMetrics) -> TableRecord:
    return TableRecord(
        {
            "job_id": item.job.job_id,
            "name": item.job.spec.name,
            "user": item.job.spec.user,
            "placement": str(item.attempt.placement),
            "run_s": item.run_s,
            "gpu_util_pct": item.gpu_util_pct,
            "memory_used_mib": item.memory_used_mib,
            "log_bytes": item.log_bytes,
            "last_line": item.last_line,
        }
    )
