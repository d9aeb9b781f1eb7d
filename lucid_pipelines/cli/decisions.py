"""`lucid decisions`: play a recorded day again, and how the proposals of each automation fared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from lucid_pipelines.cli.exit_statuses import ExitStatus
from lucid_pipelines.cli.options import AsJson, Home, open_client, open_looking
from lucid_pipelines.cli.output import console, facts_table, print_json
from lucid_pipelines.control.proposal_scores import STAYS_ABOVE_FRAC, mode_records
from lucid_pipelines.control.replaying import DayReplay, replay_day
from lucid_pipelines.domain.errors import NotFoundError

app = typer.Typer(
    name="decisions",
    help="Play a recorded day of scheduling again; see how each automation's proposals fared.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_SHOWN = 10


@app.command("replay")
def replay(
    day: Annotated[str | None, typer.Argument(metavar="DAY", help="UTC day, 2026-01-31.", show_default="today")] = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Ask the recorded policy about every recorded pass: it must decide the same. Exit status 1 when it does not."""
    chosen = day or f"{datetime.now(UTC):%Y-%m-%d}"
    with open_client(home) as client:
        folder = client.settings.decisions
    path = folder / f"{chosen}.jsonl"
    if not path.is_file():
        known = ", ".join(sorted(item.stem for item in folder.glob("*.jsonl"))) or "none"
        raise NotFoundError(f"no decisions were recorded on this day (recorded days: {known}): {chosen!r}")
    found = replay_day(path)
    if as_json:
        print_json(_as_json(found))
    else:
        _show(found)
    if found.differences:
        raise typer.Exit(ExitStatus.ANSWER_IS_NO)


@app.command("record")
def record(as_json: AsJson = False, home: Home = None) -> None:
    """How the proposals about pairs and nodes fared: what a mode may be opened on."""
    client, _ = open_looking(home)
    with client:
        records = mode_records(client.system)
        chosen = client.system.settings.modes
        modes = {"pack": chosen.pack, "unpack": chosen.unpack, "lend": chosen.lend}
    if as_json:
        print_json(
            [
                {
                    "kind": item.kind,
                    "mode": modes[item.kind].value,
                    "proposed": item.proposed,
                    "scored": item.scored,
                    "good": item.good,
                    "unknown": item.unknown,
                }
                for item in records
            ]
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("AUTOMATION", "MODE", "PROPOSED", "SCORED", "GOOD", "UNKNOWN"):
        table.add_column(name, justify="left" if name in ("AUTOMATION", "MODE") else "right")
    for item in records:
        share = f"{item.good} ({item.good / item.scored:.0%})" if item.scored else "0"
        counts = (str(item.proposed), str(item.scored), share, str(item.unknown))
        table.add_row(item.kind, modes[item.kind].value, *counts)
    console.print(table)
    console.print(
        f"\nA pair is good when both jobs keep {STAYS_ABOVE_FRAC:.0%} of their speed and fit into the memory; "
        "a split when the pair did not; a loan when jobs ended on the node."
    )


def _as_json(found: DayReplay) -> dict[str, Any]:
    return {
        "sections": found.sections,
        "passes": found.passes,
        "decisions": found.decisions,
        "same": found.same,
        "cut_lines": found.cut_lines,
        "differences": [
            {"at_s": item.at_s, "recorded": list(item.recorded), "replayed": list(item.replayed)}
            for item in found.differences
        ],
    }


def _show(found: DayReplay) -> None:
    console.print(
        facts_table(
            {
                "windows": found.sections,
                "passes": found.passes,
                "decisions": found.decisions,
                "decided the same": found.same,
                "lines cut short": found.cut_lines,
            }
        )
    )
    for item in found.differences[:_SHOWN]:
        at = datetime.fromtimestamp(item.at_s, UTC)
        console.print(f"\n{at:%H:%M:%S} recorded: {_told(item.recorded)}\n         now:      {_told(item.replayed)}")


def _told(decisions: tuple[dict[str, Any], ...]) -> str:
    return ", ".join(f"{item['kind']} {item.get('job_id') or item.get('nodes')}" for item in decisions) or "nothing"
