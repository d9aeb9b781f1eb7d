"""How reliable the cluster was over a span of time: failures by cause, component and node, what they cost, how soon
jobs went on, and whether what was done automatically was right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from lucid_pipelines.control.failure_facts import ISOLATE, RESTART
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.domain.job import Attempt
from lucid_pipelines.domain.states import Cause
from lucid_pipelines.store import Action, ActionState

UNKNOWN = "unknown"
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Precision:
    """How often an automation was right, of what has been judged.

    Attributes:
        right, wrong: judged actions.
        open: carried out and not judged yet.
    """

    right: int
    wrong: int
    open: int

    @property
    def frac(self) -> float | None:
        judged = self.right + self.wrong
        return self.right / judged if judged else None


@dataclass(frozen=True, slots=True)
class Reliability:
    """One span of time.

    Attributes:
        attempts: attempts that ended.
        gpu_h: GPU-hours that they ran.
        failures: abnormal ends among them.
        undiagnosed: abnormal ends that nobody has diagnosed (yet).
        by_cause, by_component, by_node: failures; nodes count for infrastructure failures only, by the suspected
            part where there is one, else by every node of the attempt.
        lost_gpu_h: GPU-hours since the last whole checkpoint, by cause.
        recovery_s: time from a failure to the start of the next attempt, for jobs that were put back.
        repeated: root errors that came more than once, with their count and first words.
        restarts, isolations: precision of what was done.
    """

    since: datetime
    until: datetime
    attempts: int
    gpu_h: float
    failures: int
    undiagnosed: int
    by_cause: Mapping[str, int]
    by_component: Mapping[str, int]
    by_node: Mapping[str, int]
    lost_gpu_h: Mapping[str, float]
    recovery_s: tuple[float, ...]
    repeated: tuple[tuple[str, int, str], ...]
    restarts: Precision
    isolations: Precision


def reliability(system: System, since: datetime, until: datetime) -> Reliability:
    """Gather the report of ``[since, until)`` from the state database."""
    store = system.store
    rows = store.history.rows(since=since, until=until)
    exits = store.exits.find(since=since, until=until)
    causes, components, nodes = Counter[str](), Counter[str](), Counter[str]()
    lost: dict[str, float] = {}
    recovery: list[float] = []
    signatures: Counter[str] = Counter()
    words: dict[str, str] = {}
    for exit in exits:
        try:
            attempt = store.attempts.get(exit.attempt_id)
        except NotFoundError:
            continue
        said: Mapping[str, Any] = exit.result or {}
        cause = str(said.get("cause") or (exit.cause.value if exit.cause else UNKNOWN))
        causes[cause] += 1
        if cause == Cause.INFRASTRUCTURE.value:
            components[str(said.get("component") or UNKNOWN)] += 1
            nodes.update(_blamed(said, attempt))
        lost[cause] = lost.get(cause, 0.0) + _lost_gpu_h(said, attempt)
        if signature := said.get("signature"):
            signatures[signature] += 1
            words.setdefault(signature, str(said.get("root_text") or said.get("headline") or "")[:120])
        if (took_s := _recovery_s(system, attempt)) is not None:
            recovery.append(took_s)
    return Reliability(
        since=since,
        until=until,
        attempts=len(rows),
        gpu_h=sum((row.duration_s or 0.0) * row.gpus for row in rows) / 3600.0,
        failures=len(exits),
        undiagnosed=sum("signature" not in (exit.result or {}) for exit in exits),
        by_cause=dict(causes.most_common()),
        by_component=dict(components.most_common()),
        by_node=dict(nodes.most_common()),
        lost_gpu_h=lost,
        recovery_s=tuple(sorted(recovery)),
        repeated=tuple((name, count, words[name]) for name, count in signatures.most_common(_SHOWN) if count > 1),
        restarts=_precision(store.actions.find(kind=RESTART, limit=5000), since, until),
        isolations=_precision(store.actions.find(kind=ISOLATE, limit=5000), since, until),
    )


def page(report: Reliability) -> str:
    """The report for people, Markdown."""
    middle = f"{median(report.recovery_s):.0f} s" if report.recovery_s else "–"
    worst = f"{report.recovery_s[-1]:.0f} s" if report.recovery_s else "–"
    lines = [
        f"# Reliability, {report.since:%Y-%m-%d} to {report.until:%Y-%m-%d} (UTC)",
        "",
        f"{report.failures} of {report.attempts} attempts ended badly; {report.undiagnosed} have no diagnosis.",
        f"{sum(report.lost_gpu_h.values()):.2f} of {report.gpu_h:.2f} GPU-hours must be run again.",
        f"From a failure to the next start: median {middle}, longest {worst} ({len(report.recovery_s)} jobs went on).",
        "",
        *_table("Cause", report.by_cause, report.lost_gpu_h),
        *_table("Component", report.by_component),
        *_table("Node", report.by_node),
        "## What was done automatically",
        "",
        "| | right | wrong | not judged yet | precision |",
        "|---|---:|---:|---:|---:|",
        _row("restarts", report.restarts),
        _row("isolations", report.isolations),
    ]
    if report.repeated:
        lines += ["", "## Errors that came again", "", "| times | root error |", "|---:|---|"]
        lines += [f"| {count} | {_quoted(text)} |" for _, count, text in report.repeated]
    return "\n".join(lines) + "\n"


def numbers(report: Reliability) -> dict[str, float | int]:
    """Numbers for a plot over the weeks; what is unknown is left out."""
    found: dict[str, float | int] = {
        "attempts": report.attempts,
        "failures": report.failures,
        "undiagnosed": report.undiagnosed,
        "gpu_h": report.gpu_h,
        "lost_gpu_h": sum(report.lost_gpu_h.values()),
        "infrastructure_failures": report.by_cause.get(Cause.INFRASTRUCTURE.value, 0),
    }
    if report.recovery_s:
        found["recovery_median_s"] = median(report.recovery_s)
    for name, precision in (("restart", report.restarts), ("isolation", report.isolations)):
        if precision.frac is not None:
            found[f"{name}_precision_frac"] = precision.frac
    return found


def _blamed(said: Mapping[str, Any], attempt: Attempt) -> Iterable[str]:
    suspects = {str(suspect[0]) for suspect in said.get("suspects") or ()}
    return suspects or attempt.placement.node_names


def _lost_gpu_h(said: Mapping[str, Any], attempt: Attempt) -> float:
    lost_s = said.get("lost_s")
    if lost_s is None:  # no diagnosis: all that it ran
        if attempt.started_at is None or attempt.ended_at is None:
            return 0.0
        lost_s = (attempt.ended_at - attempt.started_at).total_seconds()
    return float(lost_s) * attempt.placement.gpu_count / 3600.0


def _recovery_s(system: System, attempt: Attempt) -> float | None:
    """Until the next attempt of the job ran; ``None`` while there is none."""
    later = [a for a in system.store.attempts.of_job(attempt.job_id) if a.number > attempt.number and a.started_at]
    if not later or attempt.ended_at is None or later[0].started_at is None:
        return None
    return max(0.0, (later[0].started_at - attempt.ended_at).total_seconds())


def _precision(actions: Sequence[Action], since: datetime, until: datetime) -> Precision:
    done = [
        action
        for action in actions
        if action.state is ActionState.EXECUTED and action.executed_at and since <= action.executed_at < until
    ]
    verdicts = [(action.score or {}).get("good") for action in done]
    return Precision(
        right=sum(verdict is True for verdict in verdicts),
        wrong=sum(verdict is False for verdict in verdicts),
        open=sum(verdict is None for verdict in verdicts),
    )


def _table(title: str, counts: Mapping[str, int], hours: Mapping[str, float] | None = None) -> list[str]:
    if not counts:
        return []
    head = f"| {title} | failures |" + (" GPU-hours lost |" if hours is not None else "")
    rule = "|---|---:|" + ("---:|" if hours is not None else "")
    rows = [
        f"| {_quoted(name)} | {count} |" + (f" {hours.get(name, 0.0):.2f} |" if hours is not None else "")
        for name, count in list(counts.items())[:_SHOWN]
    ]
    return [head, rule, *rows, ""]


def _row(name: str, precision: Precision) -> str:
    frac = "–" if precision.frac is None else f"{precision.frac:.0%}"
    return f"| {name} | {precision.right} | {precision.wrong} | {precision.open} | {frac} |"


def _quoted(text: str) -> str:
    """A log's words as data: nothing of them is Markdown or HTML."""
    plain = " ".join(text.replace("`", "'").replace("|", "/").replace("<", "‹").replace(">", "›").split())
    return f"`{plain}`" if plain else "–"


__all__ = ["Precision", "Reliability", "numbers", "page", "reliability"]
