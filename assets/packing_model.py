"""The packing model: from measured pairs where the site has some, else the shipped one."""

from dagster import (
    AssetExecutionContext,
    MaterializeResult,
    asset,
)

from lucid_pipelines.assets.job_history import daily
from lucid_pipelines.assets.model_steps import GROUP, asked_of, images, promotion_gate, shown, updates_of
from lucid_pipelines.models.artefacts import ModelKind
from lucid_pipelines.models.packing import PackingModel, default_packing_model
from lucid_pipelines.resources.lucid import LucidResource

KIND = ModelKind.PACKING


@asset(
    partitions_def=daily,
    group_name=GROUP,
    kinds={"json"},
    description="A packing tree and pair speeds from the site's measured pairs, judged on workloads left out.",
)
def packing_evaluation(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """Without a table of measured pairs there is nothing to train; the shipped model serves."""
    return shown(updates_of(lucid.system).packing_evaluation(asked_of(context.partition_time_window.end)))


packing_promotion_gate = promotion_gate(packing_evaluation, KIND, "a bound on the sum of utilisations")


@asset(
    partitions_def=daily,
    group_name=GROUP,
    kinds={"json"},
    deps=[packing_evaluation],
    description="Puts the packing candidate in service if the promotion gate lets it.",
)
def packing_model(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
    """Promote, or say why not; draw the tree that serves."""
    # matplotlib takes a second to import, and only here something is drawn.
    from lucid_pipelines.models.explaining import plots

    updates = updates_of(lucid.system)
    outcome = updates.promote(KIND, asked_of(context.partition_time_window.end))
    context.log.info(outcome.reason)
    document = updates.in_service(KIND)
    model = default_packing_model() if document is None else PackingModel.from_document(document)
    return shown(
        outcome,
        in_service=model.version or "none",
        tree=images([("tree", plots.tree_svg(model.tree, model.thresholds))]),
    )


ASSETS = [packing_evaluation, packing_model]
CHECKS = [packing_promotion_gate]
