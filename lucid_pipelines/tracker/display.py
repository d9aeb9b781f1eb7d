"""How progress looks in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lucid_pipelines.duration_text import spaced_text
from lucid_pipelines.tracker.progress import Progress

_SPARKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 48


def progress_table(rows: Sequence[tuple[str, Progress]]) -> Table:
    """One row a log, named by the end of its path where that tells the logs apart."""
    ends = [name.rpartition("/")[2] for name, _ in rows]
    if len(set(ends)) == len(rows):
        rows = [(end or name, progress) for end, (name, progress) in zip(ends, rows, strict=True)]
    table = Table(show_edge=False, pad_edge=False)
    for title in ("log", "step", "s/step", "loss", "throughput", "left", "sure"):
        table.add_column(title, justify="left" if title == "log" else "right", overflow="fold")
    for name, progress in rows:
        table.add_row(
            name,
            _step(progress),
            _number(progress.step_time_s) + (" an epoch" if progress.step_time_unit == "epoch" else ""),
            _number(progress.loss),
            f"{progress.throughput:,.5g} {progress.throughput_unit}" if progress.throughput is not None else "–",
            spaced_text(progress.eta_s),
            f"{progress.confidence:.0%}" if not progress.is_missing else "–",
        )
    return table


def missing_notes(rows: Sequence[tuple[str, Progress]]) -> list[Text]:
    """For each log that does not tell everything, a line that says what is missing."""
    return [Text(f"{name}: {p.fallback_reason}", style="dim") for name, p in rows if p.fallback_reason]


def live_view(name: str, progress: Progress) -> RenderableType:
    """What ``lucid track --follow`` shows: numbers, a bar, the course of the loss, and the newest line."""
    parts: list[RenderableType] = [progress_table([(name, progress)])]
    step, total = progress.step, progress.total_steps
    if progress.global_step is not None and progress.global_total_steps is not None:
        step, total = progress.global_step, progress.global_total_steps
    if step is not None and total:
        parts.append(ProgressBar(total=total, completed=min(step, total), width=SPARK_WIDTH))
    losses = [sample.loss for sample in progress.samples if sample.loss is not None]
    if len(losses) > 1:
        parts.append(Text(f"loss {sparkline(losses)} {losses[-1]:.5g}"))
    if progress.fallback_reason:
        parts.append(Text(progress.fallback_reason, style="dim"))
    if progress.evidence:
        parts.append(Text(progress.evidence[0].text[:160], style="dim", no_wrap=True))
    return Group(*parts)


def sparkline(values: Sequence[float], width: int = SPARK_WIDTH) -> str:
    """The newest ``width`` values as bars of one line."""
    newest = list(values)[-width:]
    low, high = min(newest), max(newest)
    if high <= low:
        return _SPARKS[0] * len(newest)
    return "".join(_SPARKS[int((value - low) / (high - low) * (len(_SPARKS) - 1))] for value in newest)


def _step(progress: Progress) -> str:
    if progress.step is None:
        return "–"
    shown = f"{progress.step:,}" + (f" / {progress.total_steps:,}" if progress.total_steps else "")
    if progress.step_unit == "epoch":
        return f"{shown} epochs"
    in_epoch = progress.total_steps and progress.steps_left is None and progress.global_step is None
    return f"{shown}, epoch {progress.epoch:g}" if in_epoch and progress.epoch is not None else shown


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
