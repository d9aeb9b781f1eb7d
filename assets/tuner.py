"""The System Tuner: a sweep over this cluster's own history, and the settings that it proposes."""

from typing import TYPE_CHECKING, Any

from dagster import (
    AssetExecutionContext,
    Config,
    DefaultScheduleStatus,
    MaterializeResult,
    MetadataValue,
    ScheduleDefinition,
    asset,
    define_asset_job,
)
from pydantic import Field

from lucid_pipelines.assets.duration_model import duration_model
from lucid_pipelines.assets.job_history import job_history
from lucid_pipelines.assets.model_steps import images
from lucid_pipelines.assets.packing_model import packing_model
from lucid_pipelines.assets.throughput_model import throughput_model
from lucid_pipelines.resources.lucid import LucidResource

if TYPE_CHECKING:
    from lucid_pipelines.tuning.tune import TuneReport

GROUP = "tuner"


class SweepConfig(Config):
    """How much to search."""

    trials: int = Field(default=24, ge=1, le=1000, description="Points besides the default one.")
    processes: int = Field(default=1, ge=1, le=64, description="Worker processes; they give way to everything else.")
    history_days: float = Field(default=28.0, gt=0.0, description="How much of the newest history is replayed.")
    unseen_days: float = Field(default=7.0, gt=0.0, description="Newest days of it, kept from the search.")


@asset(
    group_name=GROUP,
    kinds={"json"},
    deps=[job_history, duration_model, throughput_model, packing_model],
    description="Replays of this cluster's history under many settings, and their validation on unseen days.",
)
def tuner_sweep(context: AssetExecutionContext, config: SweepConfig, lucid: LucidResource) -> MaterializeResult:
    """Search and validate; nothing is changed."""
    # The simulator and what trains response models take seconds to import.
    from lucid_pipelines.control.tuner_runs import TunerPlan, sweep_own_history

    plan = TunerPlan(config.trials, config.processes, history_days=config.history_days, unseen_days=config.unseen_days)

    def tell(done: int, dropped: int) -> None:
        if done % 10 == 0:
            context.log.info(f"{done} replays made, {dropped} points dropped early")

    report = sweep_own_history(lucid.system, plan, tell)
    if isinstance(report, str):
        return MaterializeResult(metadata={"status": "nothing to do", "reason": report})
    return MaterializeResult(metadata=_metadata(report))


@asset(
    group_name=GROUP,
    kinds={"json"},
    deps=[tuner_sweep],
    description="What the newest sweep recommends, proposed as an action: a person's yes puts it in force.",
)
def tuned_settings(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """Propose; `lucid tuner apply` or `lucid actions approve` says yes, `lucid tuner revert` takes it back."""
    from lucid_pipelines.control.tuner_runs import propose_newest

    report, action = propose_newest(lucid.system)
    if report is None:
        return MaterializeResult(metadata={"status": "nothing to do", "reason": "no sweep has come to an end yet"})
    metadata: dict[str, Any] = {
        "status": "proposed" if action is not None else "nothing to do",
        "reason": report["reason"],
        "sweep": report["sweep_id"],
        "model_versions": MetadataValue.json(report["model_versions"]),
    }
    if action is not None:
        metadata |= {
            "action": action.action_id,
            "state": action.state.value,
            "values": MetadataValue.json(dict(action.payload["values"])),
            "to_apply": f"lucid tuner apply {action.action_id}",
        }
        context.log.info(f"action {action.action_id} is {action.state.value}")
    return MaterializeResult(metadata=metadata)


ASSETS = [tuner_sweep, tuned_settings]

tuner_job = define_asset_job(
    "tuner_job", selection=ASSETS, description="Sweeps this cluster's history and proposes what wins on unseen days."
)

tuner_schedule = ScheduleDefinition(
    job=tuner_job,
    cron_schedule="0 3 * * 0",
    execution_timezone="UTC",
    default_status=DefaultScheduleStatus.RUNNING,
    description="On Sundays; one process that gives way to everything else. Nothing is applied without a person.",
)


def _metadata(report: "TuneReport") -> dict[str, Any]:
    from lucid_pipelines.tuning.pages import markdown, response_plots

    best = min((point.jct_ratio for point in report.front), default=1.0)
    return {
        "status": "done",
        "reason": report.reason,
        "sweep": report.sweep_id,
        "points": len(report.sweep.trials),
        "dropped_early": sum(trial.dropped for trial in report.sweep.trials),
        "replays_made": report.sweep.replayed + report.unseen.replayed,
        "replays_resumed": report.sweep.resumed,
        "best_jct_ratio_in_search": best,
        "report": MetadataValue.md(markdown(report)),
        "responses": images(list(response_plots(report))[:6]),
    }
