"""A description as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lucid_pipelines.traces.description import WEEKDAYS, Description, Share

ROWS_LIMIT = 16
_BARS = " ▁▂▃▄▅▆▇█"


def render_description(description: Description) -> RenderableType:
    """Facts, then one table per distribution; long ones show their largest rows and say how many are left out."""
    parts: list[RenderableType] = []
    if description.is_synthetic:
        parts.append(Text("SYNTHETIC: generated, recorded on no cluster", style="bold yellow"))
    parts.append(_facts(description))
    for title, counts in (
        ("Quarantine", description.quarantined_by_reason),
        ("Merged into other rows", description.merged),
        ("Left out by the selection", description.deselected),
        ("Corrected", description.repairs),
    ):
        if counts:
            parts.append(_counts(title, counts))
    if description.jobs:
        parts.append(_quantiles(description))
    for title, shares, is_ordered in (
        ("GPUs per job", description.gpus, True),
        ("Final states", description.states, False),
        ("Virtual clusters", description.virtual_clusters, False),
        ("Models", description.models, False),
    ):
        if shares:
            parts.append(_shares(title, shares, description.jobs, is_ordered=is_ordered))
    parts.extend(Text(f"note: {note}", style="dim") for note in description.notes)
    return Group(*parts)


def bars(counts: tuple[int, ...]) -> str:
    """One character per count, the largest full."""
    top = max(counts, default=0)
    return "".join(_BARS[round(count / top * (len(_BARS) - 1))] if top else _BARS[0] for count in counts)


def _facts(d: Description) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    rows: list[tuple[str, str | None]] = [
        ("trace", f"{d.source} ({d.format})"),
        ("rows", _rows(d)),
        ("clock", d.clock),
        ("first submission", d.first_submit_at),
        ("span", None if d.span_days is None else f"{d.span_days:.1f} days"),
        ("users", f"{d.users:,}" if d.users else "not recorded"),
        ("GPU hours", f"{d.gpu_hours:,.0f}"),
        ("mean GPUs", None if d.mean_gpus is None else f"{d.mean_gpus:.2f}"),
        ("up to 8 GPUs", _pct(d.single_node_frac)),
        ("fractional GPUs", f"{d.fractional_gpu_jobs:,} jobs" if d.fractional_gpu_jobs else None),
        ("run before (user, name)", _pct(d.recurrence.repeated_frac)),
        ("run five times or more", _pct(d.recurrence.recurring_frac)),
        ("same code before", _pct(d.recurrence.same_code_frac)),
        ("by hour, 0 to 23", bars(d.jobs_by_hour)),
        ("by weekday", _weekdays(d)),
        ("cluster", _cluster(d)),
    ]
    for name, value in rows:
        if value is not None:
            table.add_row(name, value)
    return table


def _rows(d: Description) -> str:
    parts = [f"{d.jobs:,} jobs", f"{d.quarantined:,} in quarantine"]
    parts += [
        f"{sum(counts.values()):,} {what}"
        for what, counts in (("merged", d.merged), ("left out by the selection", d.deselected))
        if counts
    ]
    return f"{d.rows_read:,} = {' + '.join(parts)}"


def _cluster(d: Description) -> str | None:
    if d.cluster_gpus is None:
        return None
    asked_for = _pct(d.load_frac)
    return f"{d.cluster_gpus:,} GPUs" + (f", {asked_for} asked for" if asked_for else "")


def _weekdays(d: Description) -> str | None:
    if d.jobs_by_weekday is None:
        return None
    return "  ".join(f"{day} {count:,}" for day, count in zip(WEEKDAYS, d.jobs_by_weekday, strict=True))


def _counts(title: str, counts: Mapping[str, int]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    table.add_column("rows", justify="right")
    for name, count in counts.items():
        table.add_row(name, f"{count:,}")
    return table


def _quantiles(d: Description) -> Table:
    table = Table(title="Run and queue time", title_justify="left")
    table.add_column("")
    table.add_column("run", justify="right")
    table.add_column("queue", justify="right")
    for name, value in d.duration_quantiles_s.items():
        queue = d.queue_quantiles_s.get(name)
        table.add_row(name, _time(value), "unknown" if queue is None else _time(queue))
    if d.mean_duration_s is not None and d.max_duration_s is not None:
        table.add_row("mean", _time(d.mean_duration_s), "")
        table.add_row("max", _time(d.max_duration_s), "")
    return table


def _shares(title: str, shares: Mapping[str, Share], jobs: int, *, is_ordered: bool) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in ("jobs", "of jobs", "of GPU time"):
        table.add_column(name, justify="right")
    largest = sorted(shares, key=lambda name: -shares[name].jobs)[:ROWS_LIMIT]
    shown = [name for name in shares if name in largest] if is_ordered else largest
    for name in shown:
        share = shares[name]
        table.add_row(name, f"{share.jobs:,}", _pct(share.jobs / jobs), _pct(share.gpu_time_frac))
    if len(shares) > len(shown):
        table.caption = f"and {len(shares) - len(shown)} more"
    return table


def _pct(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.1f} %"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else str(timedelta(seconds=round(seconds)))
