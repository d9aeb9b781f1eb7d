"""The report of a sweep for people: Markdown with plots of each setting's response."""

from __future__ import annotations

from collections.abc import Iterator

from lucid_pipelines.tuning.response import Response
from lucid_pipelines.tuning.tune import TuneReport

NAMES = {"avg_jct_s": "mean JCT", "avg_queue_s": "mean queue time"}


def markdown(report: TuneReport) -> str:
    """The whole report without its plots."""
    lines = [
        f"# Tuning on {report.source or 'a trace'}",
        "",
        f"**{report.reason}**",
        "",
        *(_recommended(report)),
        *(_default(report)),
        *(_verdicts(report)),
        *(_front(report)),
        *(line for response in report.responses for line in _response(report, response)),
        *(_no_response(report)),
        "",
        (
            f"{len(report.sweep.trials)} points ({sum(t.dropped for t in report.sweep.trials)} dropped early) on "
            f"{len(report.sweep.scenarios)} scenarios; validated on {len(report.unseen.scenarios)} scenarios of "
            f"{report.unseen_days:.1f} days that the search did not see."
        ),
        *(f"\n{note}" for note in report.notes),
    ]
    return "\n".join(lines) + "\n"


def response_plots(report: TuneReport) -> Iterator[tuple[str, str]]:
    """Name and SVG of importance and shapes, by measure."""
    if not report.responses:
        return
    # matplotlib takes a second to import.
    from lucid_pipelines.models.explaining import plots

    for response in report.responses:
        name = NAMES[response.measure]
        yield f"{name}: importance", plots.importance_svg(response.explanation, f"{name}, log ratio")
        used = [setting for setting, value in response.importance if value > 0]
        for shape in response.explanation.shapes:
            if shape.feature in used:
                yield f"{name}: {shape.feature}", plots.shape_svg(shape)


def _recommended(report: TuneReport) -> list[str]:
    if report.recommended is None:
        return []
    return ["| setting | value |", "|---|---:|", *(f"| {k} | {_value(v)} |" for k, v in report.recommended.items()), ""]


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _default(report: TuneReport) -> list[str]:
    """What the default settings come to, so that a ratio can be read as hours."""
    lines = [
        "## The default settings",
        "",
        "| | mean JCT | mean queue time | tail wait of large jobs | profiling GPU-hours |",
        "|---|---:|---:|---:|---:|",
    ]
    for label, sweep in (("searched days", report.sweep), ("unseen days", report.unseen)):
        for scenario, measures in sweep.default.measures.items():
            hours = [_hours(measures.get(name)) for name in ("avg_jct_s", "avg_queue_s", "tail_large_s")]
            profiling = measures.get("profiling_gpu_h")
            cells = [f"{label}, {scenario}", *hours, "–" if profiling is None else f"{profiling:.1f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _hours(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds / 3600.0:.2f} h"


def _verdicts(report: TuneReport) -> list[str]:
    if not report.verdicts:
        return []
    head = "| candidate | JCT in the search | JCT on unseen days | queue | tail wait of large jobs | |"
    lines = [
        "## Candidates against the default settings (ratios, below 1 is better)",
        "",
        head,
        "|---|---:|---:|---:|---:|---|",
    ]
    for verdict in report.verdicts:
        error = "" if verdict.jct_error is None else f" ± {verdict.jct_error:.3f}"
        cells = [
            ", ".join(f"{k}={v:g}" for k, v in verdict.values.items()),
            f"{verdict.searched_jct_ratio:.3f}",
            f"{verdict.jct_ratio:.3f}{error}",
            _ratio(verdict.queue_ratio),
            _ratio(verdict.tail_ratio),
            "wins" if verdict.wins else "does not win",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _front(report: TuneReport) -> list[str]:
    lines = [
        "## Pareto view of the search",
        "",
        "| trial | JCT | tail wait of large jobs | profiling GPU-hours | settings |",
        "|---:|---:|---:|---:|---|",
    ]
    for point in report.front:
        cells = [
            str(point.number),
            f"{point.jct_ratio:.3f}",
            _ratio(point.tail_ratio),
            f"{point.profiling_gpu_h:.1f}",
            ", ".join(f"{k}={v:g}" for k, v in point.values.items()),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _response(report: TuneReport, response: Response) -> list[str]:
    fit = "unknown" if response.r2 is None else f"{response.r2:.2f}"
    lines = [
        f"## Response of the {NAMES[response.measure]}",
        "",
        f"Change against the default value, all else equal; R² on points left out: {fit} ({response.points} points).",
        "",
        "| setting | " + "change by value |",
        "|---|---|",
    ]
    symbols = {setting.name: setting.symbol for setting in report.space}
    for name, _ in response.importance:
        cells = ", ".join(
            f"{v.value:g}: {100 * v.change_frac:+.1f} % ± {100 * v.error_frac:.1f}" for v in response.levels[name]
        )
        lines.append(f"| {name} ({symbols[name]}) | {cells} |")
    return [*lines, ""]


def _no_response(report: TuneReport) -> list[str]:
    return [] if report.responses else ["Too few points for a response model; search more of them (--trials)."]


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
