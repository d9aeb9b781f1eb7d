"""``lucid models``: train, look at, explain, promote and roll back the three models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from lucid_pipelines.cli.models_explain import explanation_of_job, explanation_of_model, require_answers, write_plots
from lucid_pipelines.cli.models_render import (
    candidate_view,
    change_view,
    counts,
    entry_view,
    explanation_view,
    header_view,
    model_view,
    rivals_view,
)
from lucid_pipelines.cli.options import AsJson, Home, open_client
from lucid_pipelines.cli.output import console, one_line, print_json
from lucid_pipelines.client import Client
from lucid_pipelines.control.requests import current_user
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.artefacts import ModelKind, Registry, describe
from lucid_pipelines.models.duration.selecting import Teaching
from lucid_pipelines.models.packing.defaults import default_packing_document

if TYPE_CHECKING:
    from lucid_pipelines.models.updating import Candidate

app = typer.Typer(
    name="models",
    help="Train, list, explain, promote and roll back models.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_STAND_INS = {
    ModelKind.PACKING: "the shipped model answers",
    ModelKind.THROUGHPUT: "the mean of the same time on the days before answers",
    ModelKind.DURATION: "means of the user's and of similar runs answer",
}
KindArgument = Annotated[ModelKind, typer.Argument(help="Which model.", case_sensitive=False)]
WhoOption = Annotated[str | None, typer.Option("--who", help="Who decides; default the present user.")]
SvgOption = Annotated[Path | None, typer.Option("--svg", help="Write plots into this folder.")]


@app.command()
def train(
    kind: KindArgument,
    trace: Annotated[
        str | None, typer.Option(help="Learn from a trace instead of this cluster's history (duration, throughput).")
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="CSV of submissions per slot: time,submit_gpu_job,submit_gpu_num (throughput).")
    ] = None,
    pairs: Annotated[Path | None, typer.Option(help="CSV of measured pair speeds (packing).")] = None,
    profiles: Annotated[Path | None, typer.Option(help="CSV of profiles run alone (packing).")] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            "--as-of",
            help="Look at nothing later than this moment, UTC.",
            show_default="now, or the end of the trace or table",
        ),
    ] = None,
    window_days: Annotated[float, typer.Option(min=0.01, help="Newest days kept back for the evaluation.")] = 1.0,
    teaching: Annotated[Teaching, typer.Option(help="Which runs say how long a job takes (duration).")] = Teaching.HELD,
    monotone: Annotated[
        list[str] | None, typer.Option(help="FEATURE=increasing|decreasing, after training (duration).")
    ] = None,
    promote: Annotated[bool, typer.Option("--promote", help="Put it in service if it passes the gate.")] = False,
    source: Annotated[str | None, typer.Option(help="What the data is, for the record.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the model's file here too.")] = None,
    who: WhoOption = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Train a candidate, meet the newest window, and keep it; say whether it may take over."""
    from lucid_pipelines.cli.models_train import TrainRequest, train_candidate

    with open_client(home, create=True) as client:
        registry = registry_of(client)
        serving = registry.read(kind) if registry.in_service(kind) else None
        request = TrainRequest(
            kind=kind,
            as_of=_utc(as_of),
            window=timedelta(days=window_days),
            trace=trace,
            table=table,
            pairs=pairs,
            profiles=profiles,
            teaching=teaching,
            monotone=tuple(monotone or ()),
            source=source,
        )
        candidate = train_candidate(client, request, serving)
        registry.keep(candidate.document)
        promoted = promote and candidate.verdict.promote
        if promoted:
            registry.promote(
                kind,
                candidate.version,
                who=who or current_user(),
                why=candidate.verdict.reason,
                instead_of=candidate.evaluation.in_service_version,
            )
    if out is not None:
        out.write_text(json.dumps(candidate.document, indent=1) + "\n", encoding="utf-8")
    _show_candidate(candidate, promoted=promoted, as_json=as_json)


@app.command(name="list")
def list_models(
    kind: Annotated[ModelKind | None, typer.Argument(help="Only this kind.")] = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Every kept model, and which one is in service."""
    with open_client(home) as client:
        registry = registry_of(client)
        found = [(k, e) for k in ([kind] if kind else list(ModelKind)) for e in registry.entries(k)]
    if as_json:
        print_json([entry_view(k, entry) for k, entry in found])
        return
    if not found:
        console.print("no model is kept yet; `lucid models train` makes one")
    view = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("KIND", "VERSION", "IN SERVICE", "ROWS", "EVALUATION"):
        view.add_column(name, no_wrap=name != "EVALUATION")
    for k, entry in found:
        rows = "" if entry.header is None else f"{entry.header.trained.rows:,}"
        reason = entry.fault or (entry.header.metrics.get("evaluation", {}).get("reason", "") if entry.header else "")
        view.add_row(k.value, entry.version, "yes" if entry.in_service else "", rows, one_line(str(reason)))
    if found:
        console.print(view)
    serving = {k for k, entry in found if entry.in_service}
    for k, stand_in in _STAND_INS.items():
        if k not in serving and kind in (None, k):
            console.print(f"{k.value}: none is in service; {stand_in} until one is promoted")


@app.command()
def show(
    kind: KindArgument,
    version: Annotated[str | None, typer.Argument(help="Default: the one in service.")] = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """What a model was learned from, how good it was, and when it was in service; --json has every number."""
    with open_client(home) as client:
        registry = registry_of(client)
        promoted = registry.in_service(kind)
        if kind is ModelKind.PACKING and promoted is None and version is None:
            # What answers is what is shown.
            header, serving = describe(default_packing_document()), True
        else:
            header = describe(registry.read(kind, version))
            serving = promoted == header.version
        history = [c for c in registry.history(kind) if c.version == header.version]
    view = {**header_view(header), "in_service": serving, "changes": [change_view(c) for c in history]}
    if as_json:
        print_json(view)
        return
    console.print(model_view(view))


@app.command()
def explain(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Explain the estimates of this job.")] = None,
    kind: Annotated[ModelKind, typer.Option(help="Without a JOB: which model.")] = ModelKind.DURATION,
    version: Annotated[
        str | None, typer.Option(help="Without a JOB: which version; default the one in service.")
    ] = None,
    svg: SvgOption = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Why a model says what it says: of one job, or on the whole."""
    with open_client(home) as client:
        registry = registry_of(client)
        explanation = (
            explanation_of_model(registry, kind, version)
            if job is None
            else explanation_of_job(registry, client, client.job(job))
        )
    plots = write_plots(explanation, svg) if svg is not None else []
    if as_json:
        print_json({**explanation.to_json(), "plots": [str(path) for path in plots]})
        return
    console.print(explanation_view(explanation))
    for path in plots:
        console.print(f"wrote {path}")


@app.command()
def promote(
    kind: KindArgument,
    version: Annotated[str, typer.Argument(help="A kept version.")],
    why: Annotated[str, typer.Option(help="Why, for the record.")] = "by hand",
    who: WhoOption = None,
    force: Annotated[bool, typer.Option("--force", help="Although the gate kept it back.")] = False,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Put a kept model in service. One that the gate kept back needs --force."""
    with open_client(home) as client:
        registry = registry_of(client)
        document = registry.read(kind, version)
        # A model that no longer gives its golden answers here would be refused when it is asked.
        require_answers(kind, document)
        evaluation = describe(document).metrics.get("evaluation", {})
        if not evaluation.get("promote", False) and not force:
            reason = evaluation.get("reason", "it was never evaluated")
            raise InputError(f"the gate did not let {version} pass ({reason}); say --force to promote it all the same")
        change = registry.promote(kind, version, who=who or current_user(), why=why)
    _print_change(change_view(change), as_json=as_json)


@app.command()
def rollback(
    kind: KindArgument,
    why: Annotated[str, typer.Option(help="Why, for the record.")] = "by hand",
    who: WhoOption = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Put back in service what was there before the last promotion."""
    with open_client(home) as client:
        change = registry_of(client).rollback(kind, who=who or current_user(), why=why)
    _print_change(change_view(change), as_json=as_json)


def registry_of(client: Client) -> Registry:
    """The models of a home folder."""
    return Registry(client.settings.artefacts / "models")


def _utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _show_candidate(candidate: Candidate, *, promoted: bool, as_json: bool) -> None:
    view = candidate_view(candidate, promoted=promoted)
    if as_json:
        print_json(view)
        return
    trained = candidate.document["trained"]
    console.print(f"kept {candidate.version}, trained on {trained['rows']:,} rows")
    if trained["left_out"]:
        console.print(one_line(f"left out: {counts(trained['left_out'])}"))
    console.print(rivals_view(view["evaluation"]))
    console.print(one_line(candidate.verdict.reason))
    console.print("it is in service now" if promoted else "it is not in service")


def _print_change(view: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        before = view["previous"] or "nothing"
        console.print(f"{view['version']} is in service (before: {before})")
