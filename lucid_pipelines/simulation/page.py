"""The report as one self-contained HTML file: tables and plots, nothing loaded from elsewhere."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from html import escape

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lucid_pipelines.simulation.record import Replay
from lucid_pipelines.simulation.summary import SHORT_JOB_S, Group, Summary
from lucid_pipelines.simulation.tables import table_rows

_POINTS = 400
_VCS_SHOWN = 20

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}
table{border-collapse:collapse;margin:1rem 0}
td,th{padding:.25rem .7rem;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}
"""


def html_page(replays: Sequence[Replay], summaries: Sequence[Summary], title: str) -> str:
    """The whole report."""
    first = replays[0].input
    counts = ", ".join(f"{reason}: {count}" for reason, count in first.quarantine_counts.items())
    aside = f"{len(first.quarantined):,} set aside{' (' + escape(counts) + ')' if counts else ''}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{len(first.jobs):,} jobs on {first.gpus:,} GPUs; {aside}.</p>",
        _html_table(table_rows(summaries)),
        "<h2>Job completion time</h2>",
        figure_svg(lambda axes: plot_jct(axes, replays)),
        "<h2>Queue time by virtual cluster</h2>",
        figure_svg(lambda axes: plot_queue_by_vc(axes, summaries)),
        "<h2>GPUs held over time</h2>",
        figure_svg(lambda axes: plot_utilisation(axes, replays)),
        "<h2>By job size</h2>",
        _html_table(_group_rows(summaries, lambda summary: summary.by_size)),
        f"<h2>Short jobs (up to {SHORT_JOB_S:.0f} s) and memory</h2>",
        _html_table(_short_rows(summaries)),
        "<h2>GPU-hours lost, preemptions and fallbacks</h2>",
        _html_table(_loss_rows(summaries)),
    ]
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def figure_svg(draw: Callable[[Axes], None]) -> str:
    """A plot as SVG text to be put into a page."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    draw(figure.subplots())
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue()[text.getvalue().index("<svg") :]


def plot_jct(axes: Axes, replays: Sequence[Replay]) -> None:
    """Cumulative distribution of JCT, logarithmic time."""
    share = np.linspace(0.0, 1.0, _POINTS)
    for replay in replays:
        jct_s = replay.jct_s[~np.isnan(replay.jct_s)]
        if len(jct_s):
            axes.plot(np.maximum(np.quantile(jct_s, share), 1.0), share, label=replay.policy)
    axes.set(xscale="log", xlabel="JCT (s)", ylabel="share of jobs", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend()


def plot_queue_by_vc(axes: Axes, summaries: Sequence[Summary]) -> None:
    """Mean queue time of each virtual cluster, those with the most jobs."""
    counts = {vc: group.jobs for vc, group in summaries[0].by_vc.items()}
    shown = sorted(counts, key=lambda vc: -counts[vc])[:_VCS_SHOWN]
    width = 0.8 / len(summaries)
    for i, summary in enumerate(summaries):
        hours = [(summary.by_vc[vc].avg_queue_s or 0.0) / 3600 for vc in shown]
        axes.bar(np.arange(len(shown)) + i * width, hours, width, label=summary.policy)
    axes.set_xticks(np.arange(len(shown)) + 0.4 - width / 2, shown, rotation=45, ha="right")
    axes.set(ylabel="mean queue time (h)")
    axes.grid(axis="y", alpha=0.3)
    axes.legend()


def plot_utilisation(axes: Axes, replays: Sequence[Replay]) -> None:
    """Share of GPUs held by at least one job, mean over each of 400 equal spans."""
    for replay in replays:
        if len(replay.used_from_s) < 2:
            continue
        edges = np.linspace(replay.used_from_s[0], replay.used_from_s[-1], _POINTS + 1)
        total = np.concatenate([[0.0], np.cumsum(np.diff(replay.used_from_s) * replay.used_gpus[:-1])])
        spans = np.diff(np.interp(edges, replay.used_from_s, total)) / np.maximum(np.diff(edges), 1e-9)
        hours = (edges[:-1] - edges[0]) / 3600
        axes.plot(hours, 100 * spans / replay.input.gpus, label=replay.policy, linewidth=1)
    axes.set(xlabel="time (h)", ylabel="GPUs held (%)", ylim=(0, 105))
    axes.grid(alpha=0.3)
    axes.legend()


def _html_table(rows: Sequence[Sequence[str]]) -> str:
    def line(row: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"

    return "<table>" + line(rows[0], "th") + "".join(line(row, "td") for row in rows[1:]) + "</table>"


def _group_rows(summaries: Sequence[Summary], groups: Callable[[Summary], object]) -> list[list[str]]:
    rows = [["policy", "group", "jobs", "avg JCT (h)", "avg queue (h)", "p99.9 queue (h)"]]
    for summary in summaries:
        found = groups(summary)
        assert isinstance(found, dict)
        for name, group in found.items():
            assert isinstance(group, Group)
            times = (group.avg_jct_s, group.avg_queue_s, group.p999_queue_s)
            cells = ["–" if time_s is None else f"{time_s / 3600:.3f}" for time_s in times]
            rows.append([summary.policy, str(name).replace("_", " "), f"{group.jobs:,}", *cells])
    return rows


def _short_rows(summaries: Sequence[Summary]) -> list[list[str]]:
    rows = [
        ["policy", "short jobs", "waiting (mean number)", "avg queue (s)", "memory in use (GiB a GPU)", "known for"]
    ]
    for summary in summaries:
        queue_s, memory_mib = summary.short_jobs_avg_queue_s, summary.memory_used_mib
        rows.append(
            [
                summary.policy,
                f"{summary.short_jobs:,}",
                f"{summary.short_jobs_waiting:.2f}",
                "–" if queue_s is None else f"{queue_s:,.0f}",
                "–" if memory_mib is None else f"{memory_mib / 1024:.2f}",
                f"{100 * summary.profile_known_frac:.0f} % of GPU-time",
            ]
        )
    return rows


def _loss_rows(summaries: Sequence[Summary]) -> list[list[str]]:
    rows = [["policy", "preemption", "profiling", "failed packing", "rescaling", "preemptions", "fallbacks"]]
    for summary in summaries:
        lost = [
            f"{summary.lost_gpu_h.get(k, 0.0):,.1f}" for k in ("preemption", "profiling", "failed_packing", "rescaling")
        ]
        fallbacks = ", ".join(f"{kind}: {count:,}" for kind, count in summary.fallbacks.items()) or "none"
        rows.append([summary.policy, *lost, f"{summary.preemptions:,}", fallbacks])
    return rows
