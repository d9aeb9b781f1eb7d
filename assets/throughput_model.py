"""Submissions per day, and the throughput model that is trained on them."""

from itertools import pairwise

import pyarrow.parquet as pq
from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetExecutionContext,
    MaterializeResult,
    MetadataValue,
    asset,
    asset_check,
)

from lucid_pipelines.assets.job_history import daily
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
from lucid_pipelines.control import throughput_day
from lucid_pipelines.models.artefacts import ModelKind
from lucid_pipelines.models.explaining import explain_globally
from lucid_pipelines.models.throughput import ThroughputModel
from lucid_pipelines.resources.lucid import LucidResource

KIND = ModelKind.THROUGHPUT


@asset(
    partitions_def=daily,
    group_name="history",
    kinds={"parquet"},
    description="Jobs submitted and GPUs asked for in each ten minutes of that UTC day.",
)
def cluster_throughput(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """Write the day as Parquet below the artefact root."""
    system = lucid.system
    day = context.partition_time_window.start
    series = throughput_day.day_series(system.store, day)
    path = throughput_day.write_day(series, system.settings.artefacts / "throughput", day)
    return MaterializeResult(
        metadata={
            "jobs": int(series.jobs.sum()),
            "gpus_asked_for": int(series.gpus.sum()),
            "busiest_slot_jobs": int(series.jobs.max()),
            "path": MetadataValue.path(str(path)),
        }
    )


@asset_check(asset=cluster_throughput, partitions_def=daily, description="A day has 144 slots and no gap.")
def cluster_throughput_contract(context: AssetCheckExecutionContext, lucid: LucidResource) -> AssetCheckResult:
    """Read back what was written."""
    day = context.partition_time_window.start
    table = pq.read_table(lucid.system.settings.artefacts / "throughput" / f"{day:%Y-%m-%d}.parquet")
    times = [moment.timestamp() for moment in table["time"].to_pylist()]
    steps = {later - earlier for earlier, later in pairwise(times)}
    negative = sum(count < 0 for name in ("submit_gpu_job", "submit_gpu_num") for count in table[name].to_pylist())
    passed = table.num_rows == 144 and steps == {600.0} and times[0] == day.timestamp() and not negative
    return AssetCheckResult(passed=passed, metadata={"slots": table.num_rows, "negative_counts": negative})


@asset(
    partitions_def=daily,
    group_name=GROUP,
    kinds={"json"},
    deps=[cluster_throughput],
    description="A throughput model (GA2M) trained on the submissions before the unseen window; not in service.",
)
def throughput_candidate(
    context: AssetExecutionContext, config: UpdateConfig, lucid: LucidResource
) -> MaterializeResult:
    """Every day up to this one counts, not only this partition of cluster_throughput."""
    return shown(updates_of(lucid.system).throughput_candidate(asked_of(context.partition_time_window.end, config)))


@asset(
    partitions_def=daily,
    group_name=GROUP,
    kinds={"json"},
    deps=[throughput_candidate],
    description="The candidate beside the model in service and rolling means, one hour ahead.",
)
def throughput_evaluation(
    context: AssetExecutionContext, config: UpdateConfig, lucid: LucidResource
) -> MaterializeResult:
    """Keep the candidate in the registry with its evaluation."""
    updates = updates_of(lucid.system)
    outcome = updates.throughput_evaluation(asked_of(context.partition_time_window.end, config))
    plots: dict[str, MetadataValue] = {}
    if outcome.version is not None:
        from lucid_pipelines.models.explaining import plots as draw

        model = ThroughputModel.from_document(updates.registry.read(KIND, outcome.version))
        whole = explain_globally(model.targets["jobs"].model)
        hour = [shape for shape in whole.shapes if shape.feature == "hour"]
        plots["explanation"] = images(
            [("importance", draw.importance_svg(whole, "jobs")), *((s.feature, draw.shape_svg(s)) for s in hour)]
        )
    return shown(outcome, **plots)


throughput_promotion_gate = promotion_gate(throughput_evaluation, KIND, "every rolling mean")
throughput_model = model_in_service(throughput_evaluation, KIND)
throughput_drift = drift_check(throughput_model, KIND)

ASSETS = [cluster_throughput, throughput_candidate, throughput_evaluation, throughput_model]
CHECKS = [cluster_throughput_contract, throughput_promotion_gate, throughput_drift]
