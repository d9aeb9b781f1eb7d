"""The scheduling window: a sensor that keeps one open while there is work, and the job that is the window."""

from collections import Counter
from statistics import fmean

from dagster import (
    AssetKey,
    AssetObservation,
    AssetSpec,
    DefaultSensorStatus,
    MetadataValue,
    OpExecutionContext,
    Output,
    RunRequest,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    in_process_executor,
    job,
    op,
    sensor,
)

from lucid_pipelines.control.estimating import refresh_estimates
from lucid_pipelines.control.plain_words import tell as tell_reason
from lucid_pipelines.control.recording import decision_to_json
from lucid_pipelines.control.scheduling import PassReport, run_window
from lucid_pipelines.control.tuned import carry_out_approved
from lucid_pipelines.control.window_watch import WatchState, watch_window
from lucid_pipelines.domain.decision import Decision
from lucid_pipelines.resources.lucid import LucidResource, open_once
from lucid_pipelines.sensors.console import LOGGERS

SCHEDULING_DECISIONS = AssetSpec(
    "scheduling_decisions",
    group_name="live",
    description="What the policy decided, with its reasons: one observation a scheduling window. "
    "The whole record lies in artefacts/decisions; `lucid decisions replay` plays it again.",
)
_SHOWN = 50


@op(description="Observe -> prioritise -> bind -> place -> dispatch, pass after pass, for about a minute.")
def scheduling_window(context: OpExecutionContext, lucid: LucidResource) -> Output[None]:
    """Hold the lease and make passes; what each pass changed goes to the run's log."""

    decided: list[tuple[str, Decision]] = []

    def tell(report: PassReport) -> None:
        done = report.applied
        at = lucid.system.clock.now().strftime("%H:%M:%S")
        decided.extend((at, decision) for decision in report.decisions)
        if report.policy_error is not None:
            context.log.error(f"the policy broke, so nothing was decided: {report.policy_error}")
        if done.started or done.packed or done.stopped or done.refused or report.observed.ended:
            context.log.info(
                f"pass: {done.started} started, {done.packed} packed, {done.stopped} stopped, "
                f"{report.observed.ended} ended, {done.held} held, {done.refused} refused "
                f"in {report.wall_s * 1000:.0f} ms"
            )

    system = lucid.system
    carry_out_approved(system.store, system.clock.now())
    refreshed = refresh_estimates(system.store, system.settings, system.durations, system.clock.now())
    report = run_window(system, holder=context.run_id, on_pass=tell)
    walls_ms = sorted(wall * 1000 for wall in report.pass_wall_s)
    metadata: dict[str, float | int | str | MetadataValue] = {
        "policy": system.policy.name,
        "estimates_refreshed": refreshed,
        "passes": report.passes,
        "started": report.started,
        "packed": report.packed,
        "stopped": report.stopped,
        "ended": report.ended,
        "refused": report.refused,
        "failed_passes": report.failed_passes,
        "ended_because": report.ended_because,
    }
    if walls_ms:
        metadata["pass_mean_ms"] = fmean(walls_ms)
        metadata["pass_max_ms"] = walls_ms[-1]
    if decided:
        context.log_event(_observation(decided))
    return Output(None, metadata=metadata)


def _observation(decided: list[tuple[str, Decision]]) -> AssetObservation:
    """The window's decisions as an event of the asset: counts that the UI plots, and the newest as a table."""
    counts = Counter(type(decision).__name__.lower() for _, decision in decided)
    lines = ["| at (UTC) | decision | why |", "|---|---|---|"]
    for at, decision in decided[-_SHOWN:]:
        row = decision_to_json(decision)
        what = f"{row['kind']} {row.get('job_id') or ', '.join(row.get('nodes', ()))}"
        told = [f"{title.strip()}: {text}" for title, text in map(tell_reason, row["reasons"])]
        lines.append(f"| {at} | {what} | {'; '.join(told).replace('|', '/')[:600]} |")
    metadata: dict[str, int | MetadataValue] = {f"decided_{kind}": count for kind, count in counts.items()}
    metadata["newest"] = MetadataValue.md("\n".join(lines))
    return AssetObservation(asset_key=AssetKey("scheduling_decisions"), metadata=metadata)


@job(
    executor_def=in_process_executor,
    logger_defs=LOGGERS,
    tags={"lucid/kind": "control"},
    description="One scheduling window (one at a time, by a lease in the state database).",
)
def scheduling_job() -> None:
    """The window is one op: its passes share one process."""
    scheduling_window()


@sensor(
    job=scheduling_job,
    minimum_interval_seconds=10,
    default_status=DefaultSensorStatus.RUNNING,
    description="Keeps one scheduling window open while there is work; submission_sensor opens the first.",
)
def scheduling_sensor(context: SensorEvaluationContext) -> SensorResult:
    """Ask for a window when there is work and none is open, or the open one is about to end."""
    verdict = watch_window(open_once(), WatchState.parse(context.cursor))
    if verdict.start:
        return SensorResult(run_requests=[RunRequest()], cursor=verdict.state.to_text())
    return SensorResult(skip_reason=SkipReason(verdict.why), cursor=verdict.state.to_text())
