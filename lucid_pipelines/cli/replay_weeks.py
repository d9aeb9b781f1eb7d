"""`lucid replay-weeks`: a backfill of the `replay` asset, week by week, in few runs."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated

import typer

from lucid_pipelines import policies
from lucid_pipelines.cli.options import Home
from lucid_pipelines.cli.output import print_json
from lucid_pipelines.domain.errors import InputError, NotFoundError, did_you_mean
from lucid_pipelines.service.control import url
from lucid_pipelines.service.graphql import add_dynamic_partitions, launch_backfill
from lucid_pipelines.settings import load_settings
from lucid_pipelines.simulation.weekly import WeeklyReplays

RETRIES = "3"
"""How often a run whose process died is started again; it finds what was computed before."""


def replay_weeks(
    policy: Annotated[
        str | None, typer.Option("--policy", "-p", help="Policies, separated by commas.", show_default="the settings'")
    ] = None,
    week: Annotated[list[str] | None, typer.Option("--week", "-w", help="Only this week; may be repeated.")] = None,
    only_list: Annotated[bool, typer.Option("--list", help="Show the weeks and start nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    home: Home = None,
) -> None:
    """Replay the trace of the settings week by week, as a Dagster backfill that survives interruptions."""
    settings = load_settings(home)
    names = (
        [n.strip() for n in policy.split(",") if n.strip()] if policy is not None else list(settings.replay.policies)
    )
    if not names:
        raise InputError(f"name at least one policy of {', '.join(policies.names())}; got {policy!r}")
    for name in names:
        policies.get(name)
    replays = WeeklyReplays(settings.replay, settings.artefacts / "replays")
    known = [found.key for found in replays.weeks]
    for key in week or ():
        if key not in known:
            near = _week_of(key) if _week_of(key) in known else key
            raise NotFoundError(f"the trace has the weeks {', '.join(known)}{did_you_mean(near, known)}; not {key!r}")
    chosen = [key for key in known if not week or key in week]
    missing = [(key, name) for key in chosen for name in names if replays.stored(key, name) is None]
    if only_list:
        _tell({"weeks": {found.key: found.jobs for found in replays.weeks}, "not_computed": len(missing)}, as_json)
        return
    add_dynamic_partitions(settings, "replay_week", chosen)
    # Partitions are named by their dimensions in alphabetical order: policy, then week. Where the weeks are fewer than
    # the policies, Dagster makes a run of each week's neighbouring policies: one backfill a policy is fewer runs then.
    apart = len(chosen) < len(names) and not _are_neighbours(names)
    groups = [[name] for name in names] if apart else [names]
    tags = {"dagster/max_retries": RETRIES}
    backfill_ids = [
        launch_backfill(settings, "replay", [f"{name}|{key}" for key in chosen for name in group], tags)
        for group in groups
    ]
    row = {"backfill_ids": backfill_ids, "partitions": len(chosen) * len(names), "not_computed": len(missing)}
    _tell({**row, "url": f"{url(settings)}/runs?view=backfills"}, as_json)


def _week_of(text: str) -> str:
    """The Monday of a day's week; what is no day stays as it is."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return text
    return f"{day - timedelta(days=day.weekday()):%Y-%m-%d}"


def _are_neighbours(names: list[str]) -> bool:
    every = policies.names()
    places = sorted(every.index(name) for name in names)
    return places[-1] - places[0] < len(names)


def _tell(row: dict[str, object], as_json: bool) -> None:
    if as_json:
        print_json(row)
        return
    for key, value in row.items():
        if isinstance(value, dict):
            for name, count in value.items():
                typer.echo(f"{name}  {count:,} jobs")
        else:
            typer.echo(f"{key.replace('_', ' ')}: {value}")
