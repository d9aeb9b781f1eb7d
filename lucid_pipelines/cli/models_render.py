"""How ``lucid models`` shows things: JSON views, and tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lucid_pipelines.cli.models_explain import JobExplanation, ModelExplanation
from lucid_pipelines.cli.output import facts_table, one_line, seconds
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


def counts(by_reason: Mapping[str, int]) -> str:
    """Rows left out, by reason, in a line."""
    return ", ".join(f"{count:,} {reason}" for reason, count in by_reason.items())


def rivals_view(evaluation: Mapping[str, Any]) -> RenderableType:
    """The deciding number of the candidate, of the model in service and of no model, on the same unseen rows."""
    metric = evaluation["metric"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column(f"{metric} ({'higher' if evaluation['higher_is_better'] else 'lower'} is better)", justify="right")
    rivals: list[tuple[str, Mapping[str, Any]]] = [("candidate", evaluation["candidate"])]
    if evaluation["in_service"] is not None:
        rivals.append((f"in service ({evaluation['in_service_version']})", evaluation["in_service"]))
    rivals += [(f"no model: {name}", numbers) for name, numbers in evaluation["baselines"].items()]
    for name, numbers in rivals:
        value = numbers.get(metric)
        table.add_row(name, "–" if value is None else f"{value:.4g}")
    begin, until = evaluation["begin"], evaluation["until"]
    window = "" if begin is None else f", {begin[:16]} to {until[:16]} UTC"
    return Group(Text(f"judged on {evaluation['rows']:,} unseen rows{window}"), table)


def model_view(view: Mapping[str, Any]) -> RenderableType:
    """What ``lucid models show`` says of a model."""
    evaluation = view["metrics"].get("evaluation")
    facts = facts_table(
        {
            "kind": view["kind"],
            "version": view["version"],
            "in service": "yes" if view["in_service"] else "no",
            "trained as of": view["as_of"] or view["created_at"],
            "made": view["created_at"],
            "learned from": view["source"] or None,
            "rows": f"{view['rows']:,}",
            "left out": counts(view["left_out"]) or None,
            "made with": ", ".join(f"{name} {number}" for name, number in view["packages"].items()),
            "verdict": "it was never evaluated" if evaluation is None else evaluation.get("reason"),
        }
    )
    parts: list[RenderableType] = [facts]
    if evaluation is not None:
        parts += ["", rivals_view(evaluation)]
    if view["changes"]:
        parts += ["", Text("when it was put in service", style="bold")]
        for change in view["changes"]:
            when, what = f"{change['at']:%Y-%m-%d %H:%M} UTC", change["action"]
            parts.append(one_line(f"{when} {what} by {change['who']}: {change['why']}"))
    return Group(*parts)


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
