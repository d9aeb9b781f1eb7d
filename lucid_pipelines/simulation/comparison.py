"""Stored results of several policies side by side: a table and small plots as Markdown."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lucid_pipelines.markdown import svg_image
from lucid_pipelines.simulation.weekly import WeekResult

_DECIMALS = re.compile(r"(\d\.\d)\d+")
_COLUMNS: tuple[tuple[str, str, float], ...] = (
    ("jobs", "jobs", 1.0),
    ("avg JCT (h)", "avg_jct_s", 3600.0),
    ("p99 JCT (h)", "p99_jct_s", 3600.0),
    ("avg queue (h)", "avg_queue_s", 3600.0),
    ("p99.9 queue (h)", "p999_queue_s", 3600.0),
    ("makespan (h)", "makespan_s", 3600.0),
    ("GPUs held (%)", "gpu_allocated_frac", 0.01),
    ("packed (%)", "packed_frac", 0.01),
)


def week_table(results: Sequence[WeekResult]) -> str:
    """One row per policy of one week, the shortest average JCT first."""
    head = "| policy | " + " | ".join(title for title, _, _ in _COLUMNS) + " |"
    rows = [head, "|---" * (len(_COLUMNS) + 1) + "|"]
    for result in sorted(results, key=lambda result: result.number("avg_jct_s")):
        cells = [_cell(result.number(name) / unit) for _, name, unit in _COLUMNS]
        rows.append(f"| {result.policy} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def weeks_table(results: Sequence[WeekResult]) -> str:
    """Average JCT in hours by week and policy, with the mean over jobs of the weeks that all of them have."""
    policies = list(dict.fromkeys(result.policy for result in results))
    by_key = {(result.week, result.policy): result for result in results}
    weeks = sorted({result.week for result in results})
    whole = [week for week in weeks if all((week, policy) in by_key for policy in policies)]
    rows = ["| avg JCT (h) | " + " | ".join(policies) + " |", "|---" * (len(policies) + 1) + "|"]
    for week in weeks:
        cells = [
            _cell(by_key[week, policy].number("avg_jct_s") / 3600) if (week, policy) in by_key else "–"
            for policy in policies
        ]
        rows.append(f"| {week} | " + " | ".join(cells) + " |")
    means = [_mean_jct_h([by_key[week, policy] for week in whole]) for policy in policies]
    title = f"{len(whole)} week{'' if len(whole) == 1 else 's'} that all have"
    rows.append(f"| **{title}** | " + " | ".join(_cell(mean) for mean in means) + " |")
    return "\n".join(rows)


def week_plots(results: Sequence[WeekResult]) -> str:
    """Distribution of the JCT and GPUs held over time, as pictures inside the text."""

    def jct(axes: Axes) -> None:
        for result in results:
            if result.jct_s:
                share = np.linspace(0, 1, len(result.jct_s))
                axes.plot(np.maximum(result.jct_s, 1.0), share, label=result.policy, linewidth=1)
        axes.set(xscale="log", xlabel="JCT (s)", ylabel="share of jobs", ylim=(0, 1))

    def held(axes: Axes) -> None:
        for result in results:
            hours = np.linspace(0, result.number("makespan_s") / 3600, len(result.held_frac))
            axes.plot(hours, 100 * np.array(result.held_frac), label=result.policy, linewidth=1)
        axes.set(xlabel="time (h)", ylabel="GPUs held (%)", ylim=(0, 105))

    return "\n\n".join((picture("JCT", jct), picture("GPUs held", held)))


def picture(name: str, draw: Callable[[Axes], None]) -> str:
    """A small plot as a Markdown image with its data inside."""
    with mpl.rc_context({"svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(5.2, 2.8), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    # A tenth of a point is finer than anybody sees, and the text is stored with every partition.
    data = _DECIMALS.sub(r"\1", text.getvalue()[text.getvalue().index("<svg") :])
    return svg_image(name, data)


def _mean_jct_h(results: Sequence[WeekResult]) -> float:
    jobs = sum(result.number("jobs") for result in results)
    if not jobs:
        return float("nan")
    return sum(result.number("avg_jct_s") * result.number("jobs") for result in results) / jobs / 3600


def _cell(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"
