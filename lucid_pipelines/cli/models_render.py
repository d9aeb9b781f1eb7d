"""How ``lucid models`` shows things: JSON views, and tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lucid_pipelines.cli.models_explain import JobExplanation, ModelExplanation
from lucid_pipelines.cli.output import one_line, seconds
from lucid_pipelines.models.artefacts import Change, Entry, Header, ModelKind
from lucid_pipelines.models.packing.model import CLASSES, PackingModel
from lucid_pipelines.models.tree import Tree

if TYPE_CHECKING:
    from lucid_pipelines.models.updating import Candidate

_MOST = 12


def candidate_view(candidate: Candidate, *, promoted: bool) -> dict[str, Any]:
    """A trained candidate as JSON. Fields are added, never renamed."""
    return {
        "kind": candidate.evaluation.kind.value,
        "version": candidate.version,
        "rows": candidate.document["trained"]["rows"],
        "left_out": candidate.document["trained"]["left_out"],
        "evaluation": candidate.evaluation.to_json(),
        "may_be_promoted": candidate.verdict.promote,
        "reason": candidate.verdict.reason,
        "promoted": promoted,
    }


def entry_view(kind: ModelKind, entry: Entry) -> dict[str, Any]:
    view: dict[str, Any] = {
        "kind": kind.value,
        "version": entry.version,
        "in_service": entry.in_service,
        "fault": entry.fault,
    }
    if entry.header is not None:
        view |= {
            "rows": entry.header.trained.rows,
            "as_of": entry.header.trained.as_of,
            "created_at": entry.header.created_at,
            "evaluation": entry.header.metrics.get("evaluation"),
        }
    return view


def header_view(header: Header) -> dict[str, Any]:
    trained = header.trained
    return {
        "kind": header.kind.value,
        "version": header.version,
        "created_at": header.created_at,
        "as_of": trained.as_of,
        "source": trained.source,
        "rows": trained.rows,
        "left_out": dict(trained.left_out or {}),
        "data_sha256": trained.data_sha256,
        "settings": dict(trained.settings or {}),
        "packages": dict(header.packages),
        "metrics": dict(header.metrics),
        "digest": header.digest,
    }


def change_view(change: Change) -> dict[str, Any]:
    return {
        "action": change.action,
        "version": change.version,
        "previous": change.previous,
        "who": change.who,
        "why": change.why,
        "at": change.at,
    }


def explanation_view(explanation: ModelExplanation | JobExplanation) -> RenderableType:
    """An explanation for people."""
    if isinstance(explanation, JobExplanation):
        return _job_view(explanation)
    if explanation.packing is not None:
        return _tree_view(explanation.packing)
    parts: list[RenderableType] = []
    for name, part in explanation.parts.items():
        table = Table(title=f"{name} ({explanation.version})", box=None, pad_edge=False, header_style="bold")
        table.add_column("TERM")
        table.add_column("MEAN |CONTRIBUTION|", justify="right")
        for term, value in part.importance[:_MOST]:
            table.add_row(one_line(term), f"{value:.4g}")
        parts.append(table)
    return Group(*parts)


def _job_view(explanation: JobExplanation) -> RenderableType:
    parts: list[RenderableType] = []
    estimate = explanation.estimate
    if estimate is not None:
        spread = ""
        if estimate.low_s is not None and estimate.coverage_frac is not None:
            share = f"{100 * estimate.coverage_frac:.0f} %"
            spread = f", {share} between {seconds(estimate.low_s)} and {seconds(estimate.high_s)}"
        parts.append(Text(f"estimated {seconds(estimate.duration_s)}{spread} ({estimate.basis})", style="bold"))
    if explanation.duration is not None:
        table = Table(title="log(1 + seconds)", box=None, pad_edge=False, header_style="bold")
        for name in ("TERM", "VALUE", "CONTRIBUTION"):
            table.add_column(name, justify="right" if name == "CONTRIBUTION" else "left")
        table.add_row("intercept", "", f"{explanation.duration.intercept:+.3f}")
        for item in explanation.duration.contributions[:_MOST]:
            table.add_row(one_line(item.term), one_line(item.value), f"{item.contribution:+.3f}")
        rest = sum(c.contribution for c in explanation.duration.contributions[_MOST:])
        table.add_row("all others", "", f"{rest:+.3f}")
        table.add_row("prediction", "", f"{explanation.duration.prediction:+.3f}")
        parts.append(table)
    score = explanation.score
    if score is not None and score.score is not None:
        steps = ", ".join(
            f"{s.feature} {s.value:.4g} {'≤' if s.goes_left else '>'} {s.threshold:.4g}" for s in score.path
        )
        parts.append(Text(f"sharing score {score.score} ({CLASSES[score.score]}): {steps or 'every job'}"))
    parts += [one_line(note) for note in explanation.notes]
    return Group(*parts)


def _tree_view(model: PackingModel) -> RenderableType:
    lines = [Text(f"packing tree ({model.version})", style="bold"), *_branch(model, model.tree, 0, 0)]
    lines.append(Text(f"pairs are allowed from a predicted mean speed of {model.bound_frac:g}"))
    return Group(*lines)


def _branch(model: PackingModel, tree: Tree, node: int, depth: int) -> list[Text]:
    indent = "  " * depth
    if tree.feature[node] < 0:
        score = int(model.thresholds.scores(tree.value[node : node + 1])[0])
        return [Text(f"{indent}{CLASSES[score]} ({score}), mean speed {tree.value[node]:.3f}, n = {tree.rows[node]}")]
    question = f"{tree.features[tree.feature[node]]} ≤ {tree.threshold[node]:.4g}"
    return [
        Text(f"{indent}{question}"),
        *_branch(model, tree, int(tree.left[node]), depth + 1),
        Text(f"{indent}otherwise"),
        *_branch(model, tree, int(tree.right[node]), depth + 1),
    ]
