"""`training_metrics`: what the running jobs and the control plane look like, one batch per interval."""

from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
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
    asset_check,
    define_asset_job,
    in_process_executor,
    sensor,
)

from lucid_pipelines.control.live_metrics import Curves, JobMetrics, collect, curves, exit_lag_s
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.markdown import svg_image
from lucid_pipelines.resources.lucid import LucidResource, open_once
from lucid_pipelines.tracker.curves import curve_svg

_TRACKED = (
    ("step", "int"),
    ("total_steps", "int"),
    ("step_time_s", "float"),
    ("loss", "float"),
    ("throughput", "float"),
    ("throughput_unit", "string"),
)
_SCHEMA = TableSchema(
    columns=[
        TableColumn("job_id", "string"),
        TableColumn("name", "string"),
        TableColumn("user", "string"),
        TableColumn("placement", "string"),
        TableColumn("run_s", "float"),
        *(TableColumn(name, kind) for name, kind in _TRACKED),
        TableColumn("remaining_s", "float"),
        TableColumn("findings", "string"),
        TableColumn("gpu_util_pct", "float"),
        TableColumn("memory_used_mib", "float"),
        TableColumn("log_bytes", "int"),
        TableColumn("last_line", "string"),
    ]
)
_PLOTTED_JOBS = 8
"""So many jobs have their curves in one materialisation; all others are in the table and in ``lucid metrics``."""


@asset(
    group_name="live",
    description="Running jobs (progress, loss, step time, GPU load) and the control plane's own gauges.",
)
def training_metrics(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """Numbers become plots in the UI, one point per materialisation."""
    plane, jobs = collect(lucid.system)
    tracked = [job for job in jobs if job.tracked is not None and job.tracked.progress.get("step") is not None]
    suspected = [job for job in jobs if job.tracked is not None and job.tracked.findings]
    context.log.info(f"{plane.running} jobs run, {len(tracked)} tell their progress, {plane.waiting} wait")
    for job in suspected:
        for finding in job.tracked.findings if job.tracked is not None else ():
            context.log.warning(f"{job.job.job_id}: {finding['kind']} suspected: {finding['text']}")
    return MaterializeResult(
        metadata={
            "running_jobs": plane.running,
            "tracked_jobs": len(tracked),
            "suspected_jobs": len(suspected),
            "waiting_jobs": plane.waiting,
            "gpus_busy": plane.gpus_busy,
            "gpus": plane.gpus,
            "exit_outbox_lag_s": plane.exit_lag_s,
            "open_intents": plane.open_intents,
            "jobs": MetadataValue.table([_record(job) for job in jobs], schema=_SCHEMA),
            "curves": MetadataValue.md(_page(curves(lucid.system, jobs, _PLOTTED_JOBS))),
        }
    )


@asset_check(asset=training_metrics, description="No abnormal exit waits longer than hooks.lag_alarm_s (R-35).")
def exit_outbox_lag(lucid: LucidResource) -> AssetCheckResult:
    """The same bound that raises the alarm by hook."""
    lag_s, alarm_s = exit_lag_s(lucid.system), lucid.system.settings.hooks.lag_alarm_s
    return AssetCheckResult(
        passed=lag_s <= alarm_s,
        severity=AssetCheckSeverity.WARN,
        metadata={"exit_outbox_lag_s": lag_s, "alarm_s": alarm_s},
    )


training_metrics_job = define_asset_job(
    "training_metrics_job",
    selection=[training_metrics],
    executor_def=in_process_executor,
    tags={"lucid/kind": "control"},
    description="Reads the logs of running jobs and the control plane's own gauges.",
)


@sensor(
    job=training_metrics_job,
    minimum_interval_seconds=30,
    default_status=DefaultSensorStatus.RUNNING,
    description="Materialises training_metrics every tracker.interval_s while jobs run.",
)
def metrics_sensor(context: SensorEvaluationContext) -> RunRequest | SkipReason:
    """One count; and one last run after the last job ended, so that the plots come down to zero."""
    system = open_once()
    counts = system.store.jobs.counts()
    is_active = any(counts[state] for state in JobState if state.is_active)
    was, _, asked_s = (context.cursor or "idle").partition(" ")
    now_s = system.clock.now().timestamp()
    if not is_active and was != "active":
        return SkipReason("no job runs")
    waited_s = now_s - float(asked_s or 0.0)
    if 0.0 <= waited_s < system.settings.tracker.interval_s - 0.5:
        return SkipReason(f"the last look at the logs was {waited_s:.0f} s ago")
    context.update_cursor(f"{'active' if is_active else 'idle'} {now_s:.1f}")
    return RunRequest()


def _page(found: list[Curves]) -> str:
    """Loss and step time of each job side by side; the drawings stand in the page itself."""
    if not found:
        return "No running job tells its progress yet."
    rows = [
        f"| {item.job.job_id} | {svg_image('loss', curve_svg(item.loss, 'loss', '#b3472f'))} "
        f"| {svg_image('s/step', curve_svg(item.step_time_s, 's/step'))} |"
        for item in found
    ]
    return "\n".join(["| job | loss | seconds per step |", "|---|---|---|", *rows])


def _record(item: JobMetrics) -> TableRecord:
    progress = item.tracked.progress if item.tracked is not None else {}
    remaining = progress.get("remaining") or {}
    findings = item.tracked.findings if item.tracked is not None else ()
    return TableRecord(
        {
            "job_id": item.job.job_id,
            "name": item.job.spec.name,
            "user": item.job.spec.user,
            "placement": str(item.attempt.placement),
            "run_s": item.run_s,
            **{name: progress.get(name) for name, _ in _TRACKED},
            "remaining_s": remaining.get("remaining_s"),
            "findings": "; ".join(f"{finding['kind']}: {finding['text']}" for finding in findings) or None,
            "gpu_util_pct": item.gpu_util_pct,
            "memory_used_mib": item.memory_used_mib,
            "log_bytes": item.log_bytes,
            "last_line": item.last_line,
        }
    )
