"""What the model assets share: partitions, their configuration, and how an outcome is shown."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetExecutionContext,
    AssetsDefinition,
    Config,
    MaterializeResult,
    MetadataValue,
    asset,
    asset_check,
)
from pydantic import Field

from lucid_pipelines.assets.job_history import daily
from lucid_pipelines.control.system import System
from lucid_pipelines.control.update_steps import Asked, Outcome
from lucid_pipelines.markdown import svg_image
from lucid_pipelines.models.artefacts import ModelKind
from lucid_pipelines.resources.lucid import LucidResource

if TYPE_CHECKING:
    from lucid_pipelines.control.model_updates import Updates
    from lucid_pipelines.models.updating import DriftReport

GROUP = "models"
_NOT_SHOWN = frozenset({"candidate", "in_service", "baselines", "left_out"})


class UpdateConfig(Config):
    """How much of the newest history is kept from training, to judge on."""

    window_days: float = Field(default=1.0, gt=0.0, le=60.0, description="Days of the unseen window.")


def updates_of(system: System) -> "Updates":
    """The Update Engine. interpret and scikit-learn take seconds to import: only a run that trains pays for them."""
    from lucid_pipelines.control.model_updates import Updates

    return Updates(system)


def asked_of(day_end: datetime, config: UpdateConfig | None = None) -> Asked:
    """As of the end of the partition's day."""
    return Asked(day_end, timedelta(days=(config or UpdateConfig()).window_days))


def shown(outcome: Outcome, **more: Any) -> MaterializeResult:
    """An outcome as a materialisation; numbers become plots in the UI."""
    metadata: dict[str, Any] = {
        "status": "done" if outcome.done else "nothing to do",
        "reason": outcome.reason,
        "version": outcome.version or "none",
        **{k: v for k, v in outcome.facts.items() if k not in _NOT_SHOWN and isinstance(v, int | float | str)},
    }
    left_out = outcome.facts.get("left_out")
    if left_out:
        metadata["left_out"] = MetadataValue.json(dict(left_out))
    rivals = rivals_markdown(outcome)
    if rivals:
        metadata["comparison"] = MetadataValue.md(rivals)
    return MaterializeResult(metadata={**metadata, **more})


def rivals_markdown(outcome: Outcome) -> str:
    """The candidate, the model in service and doing without, side by side."""
    facts = outcome.facts
    if "candidate" not in facts:
        return ""
    rivals: list[tuple[str, Mapping[str, Any]]] = [("candidate", facts["candidate"])]
    if facts.get("in_service"):
        rivals.append((f"in service ({facts['in_service_version']})", facts["in_service"]))
    rivals += [(f"no model: {name}", numbers) for name, numbers in facts["baselines"].items()]
    names = [n for n, v in rivals[0][1].items() if isinstance(v, int | float)]
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for rival, numbers in rivals:
        cells = [f"{numbers[n]:.4g}" if isinstance(numbers.get(n), int | float) else "–" for n in names]
        lines.append(f"| {rival} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def images(plots: Iterable[tuple[str, str]]) -> MetadataValue:
    """Small SVG plots in one piece of Markdown."""
    return MetadataValue.md("\n\n".join(svg_image(name, svg) for name, svg in plots))


def promotion_gate(evaluation: AssetsDefinition, kind: ModelKind, beaten: str) -> AssetChecksDefinition:
    """The check of an evaluation whose verdict the model's asset acts upon.

    Args:
        beaten: what the candidate has to beat beside the model in service.
    """

    @asset_check(
        asset=evaluation,
        name="promotion_gate",
        partitions_def=daily,
        description=f"The candidate beats the model in service and {beaten} on the newest unseen window.",
    )
    def check(context: AssetCheckExecutionContext, lucid: LucidResource) -> AssetCheckResult:
        return gate_result(updates_of(lucid.system).outcome(kind, asked_of(context.partition_time_window.end)))

    return check


def model_in_service(evaluation: AssetsDefinition, kind: ModelKind, effect: str = "") -> AssetsDefinition:
    """The asset that puts a day's candidate in service, or says why not.

    Args:
        effect: what follows from a promotion, for the description.
    """

    @asset(
        name=f"{kind.value}_model",
        partitions_def=daily,
        group_name=GROUP,
        kinds={"json"},
        deps=[evaluation],
        description=f"Puts the day's candidate in service if the promotion gate lets it{effect}.",
    )
    def model(context: AssetExecutionContext, lucid: LucidResource) -> MaterializeResult:
        updates = updates_of(lucid.system)
        outcome = updates.promote(kind, asked_of(context.partition_time_window.end))
        context.log.info(outcome.reason)
        return shown(outcome, in_service=updates.registry.in_service(kind) or "none")

    return model


def drift_check(model: AssetsDefinition, kind: ModelKind) -> AssetChecksDefinition:
    """Inputs, coverage and residuals of the newest week."""

    @asset_check(
        asset=model,
        name="drift",
        partitions_def=daily,
        description="The newest week looks like what the model in service was trained on; its intervals hold.",
    )
    def check(context: AssetCheckExecutionContext, lucid: LucidResource) -> AssetCheckResult:
        return drift_result(updates_of(lucid.system).drift(kind, asked_of(context.partition_time_window.end)))

    return check


def gate_result(outcome: Outcome | None) -> AssetCheckResult:
    """The promotion gate: a candidate that does not pass is kept and not promoted, which is a warning, no failure."""
    if outcome is None:
        return AssetCheckResult(
            passed=False, severity=AssetCheckSeverity.WARN, metadata={"reason": "nothing was evaluated for this day"}
        )
    return AssetCheckResult(
        passed=bool(outcome.promote),
        severity=AssetCheckSeverity.WARN,
        metadata={"reason": outcome.reason, "version": outcome.version or "none"},
    )


def drift_result(report: "DriftReport | str") -> AssetCheckResult:
    """Drift is a warning too: the model in service may still be the best there is."""
    if isinstance(report, str):
        return AssetCheckResult(passed=True, metadata={"judged": False, "reason": report})
    lines = ["| check | of | found | bound | drifted |", "|---|---|---:|---:|---|"]
    lines += [
        f"| {f.check} | {f.name} | {f.value:.3g} | {f.bound:.3g} | {'yes' if f.has_drifted else ''} |"
        for f in sorted(report.findings, key=lambda f: not f.has_drifted)
    ]
    return AssetCheckResult(
        passed=not report.has_drifted,
        severity=AssetCheckSeverity.WARN,
        metadata={"judged": True, "rows": report.rows, "findings": MetadataValue.md("\n".join(lines))},
    )
