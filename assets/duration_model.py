"""The duration model: features, candidate, evaluation, and the model in service."""

from typing import TYPE_CHECKING, Any

from dagster import (
    AssetExecutionContext,
    MaterializeResult,
    asset,
)

from lucid_pipelines.assets.job_history import daily, job_history
from lucid_pipelines.assets.model_steps import (
    GROUP,
    UpdateConfig,
    asked_of,
    drift_check,
    images,
    model_in_service,
    promotion_gate,
    shown,
    updates_of,
)
from lucid_pipelines.models.artefacts import ModelKind
from lucid_pipelines.models.duration import DurationModel
from lucid_pipelines.models.explaining import explain_globally
from lucid_pipelines.resources.lucid import LucidResource

if TYPE_CHECKING:
    from lucid_pipelines.models.additive.fitting import FitProgress

KIND = ModelKind.DURATION
_SHAPES = 3
_SAY_EVERY = 500


@asset(
    partitions_def=daily,
    group_name=GROUP,
    kinds={"parquet"},
    deps=[job_history],
    description="Runs that ended before the unseen window, each with what was known before it began.",
)
def duration_features(context: AssetExecutionContext, config: UpdateConfig, lucid: LucidResource) -> MaterializeResult:
    """Every day up to this one counts, not only this partition of job_history."""
    return shown(updates_of(lucid.system).duration_features(asked_of(context.partition_time_window.end, config)))


@asset(
    partitions_def=daily,
    group_name=GROUP,
    kinds={"json"},
    deps=[duration_features],
    description="A duration model (GA2M) trained on the day's features; not in service.",
)
def duration_candidate(context: AssetExecutionContext, config: UpdateConfig, lucid: LucidResource) -> MaterializeResult:
    """Train, and show what it learned."""

    def tell(progress: "FitProgress") -> None:
        if progress.steps % _SAY_EVERY == 0:
            context.log.info(f"bag {progress.bag + 1} of {progress.bags}: {progress.steps} steps, {progress.score:.4g}")

    return shown(updates_of(lucid.system).duration_candidate(asked_of(context.partition_time_window.end, config), tell))


@asset(
    partitions_def=daily,
    group_name=GROUP,
    kinds={"json"},
    deps=[duration_candidate],
    description="The candidate beside the model in service and no model, on runs that it has not seen.",
)
def duration_evaluation(
    context: AssetExecutionContext, config: UpdateConfig, lucid: LucidResource
) -> MaterializeResult:
    """Keep the candidate in the registry with its evaluation."""
    updates = updates_of(lucid.system)
    outcome = updates.duration_evaluation(asked_of(context.partition_time_window.end, config))
    plots: dict[str, Any] = {}
    if outcome.version is not None:
        # matplotlib takes a second to import, and only here something is drawn.
        from lucid_pipelines.models.explaining import plots as draw

        model = DurationModel.from_document(updates.registry.read(KIND, outcome.version))
        whole = explain_globally(model.additive)
        important = [term for term, _ in whole.importance[:_SHAPES]]
        shapes = [shape for shape in whole.shapes if shape.feature in important]
        plots["explanation"] = images(
            [("importance", draw.importance_svg(whole, "duration")), *((s.feature, draw.shape_svg(s)) for s in shapes)]
        )
    return shown(outcome, **plots)


duration_promotion_gate = promotion_gate(duration_evaluation, KIND, "no model")
duration_model = model_in_service(duration_evaluation, KIND, "; waiting jobs are estimated anew")
duration_drift = drift_check(duration_model, KIND)

ASSETS = [duration_features, duration_candidate, duration_evaluation, duration_model]
CHECKS = [duration_promotion_gate, duration_drift]
