"""A simulated training run: what really happened, for logs that are then written in many formats."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

WARM_UP_REPORTS = 3


@dataclass(frozen=True)
class Plan:
    """What a run looks like: ``every`` = steps between reports."""

    seed: int = 1
    reports: int = 140
    every: int = 10
    per_epoch: int = 500
    epochs: int = 20
    first_step: int = 0
    step_s: float = 0.6
    noise: float = 0.04
    pause_every: int = 37
    pause_s: float = 20.0
    batch: int = 64


@dataclass(frozen=True)
class Report:
    """The state of a run when it reports.

    ``step`` counts finished steps from 1; ``i`` is its 1-based place in the epoch, ``epoch`` is 0-based.
    ``dt`` is the mean time of the steps since the last report, ``wall`` includes pauses.
    """

    plan: Plan
    step: int
    epoch: int
    i: int
    total: int
    loss: float
    lr: float
    dt: float
    elapsed: float
    in_epoch_s: float
    at: datetime
    grad: float
    acc: float

    @property
    def n(self) -> int:
        return self.plan.per_epoch

    @property
    def ips(self) -> float:
        return self.plan.batch / self.dt

    @property
    def eta_s(self) -> float:
        return (self.total - self.step) * self.dt

    @property
    def epoch_eta_s(self) -> float:
        return (self.n - self.i) * self.dt

    @property
    def ends_epoch(self) -> bool:
        return self.i == self.n


def simulate(plan: Plan) -> Iterator[Report]:
    """The reports of a run, oldest first."""
    rng = random.Random(plan.seed)
    total = plan.per_epoch * plan.epochs
    at = datetime(2025, 3, 11, 9, 14, 2, 118000, tzinfo=UTC) + timedelta(seconds=rng.randrange(10**6))
    elapsed, in_epoch = 17.0, 0.0
    for number in range(plan.reports):
        step = plan.first_step + (number + 1) * plan.every
        if step > total:
            return
        dt = plan.step_s * math.exp(rng.gauss(0, plan.noise))
        if number < WARM_UP_REPORTS:
            dt *= 6.0 / (number + 1)
        spent = dt * plan.every
        elapsed += spent
        at += timedelta(seconds=spent)
        epoch, i = divmod(step - 1, plan.per_epoch)
        in_epoch = spent if i < plan.every else in_epoch + spent
        loss = 1.2 + 6.0 * math.exp(-3.0 * step / total) * (1 + rng.gauss(0, 0.01))
        yield Report(
            plan, step, epoch, i + 1, total, loss, 3e-4 * (1 - step / (total + 1)), dt, elapsed, in_epoch, at,
            abs(rng.gauss(1, 0.3)) + 0.05, min(0.99, 0.3 + 0.6 * step / total),
        )  # fmt: skip
        if plan.pause_every and number % plan.pause_every == plan.pause_every - 1:
            elapsed += plan.pause_s
            at += timedelta(seconds=plan.pause_s)


def true_step_s(reports: list[Report]) -> float:
    """Mean step time of the newest ~50 steps (at least 8 reports), warm-up and pauses left out."""
    count = max(8, math.ceil(50 / reports[-1].plan.every))
    newest = reports[WARM_UP_REPORTS:][-count:]
    return sum(r.dt for r in newest) / len(newest)


def hms(seconds: float) -> str:
    """``5:03`` or ``1:02:03``, as tqdm writes."""
    minutes, s = divmod(int(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02d}:{s:02d}" if hours else f"{m:02d}:{s:02d}"


def hours(seconds: float) -> str:
    """``0:02:03`` or ``1 day, 2:03:04``, as ``timedelta`` prints."""
    return str(timedelta(seconds=int(seconds)))


def bar(done: int, total: int, width: int = 10) -> str:
    """A tqdm bar with a partial block."""
    eighths = int(width * 8 * done / total)
    full, part = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")).ljust(width)


def tqdm(
    done: int, total: int, spent_s: float, dt: float, *, label: str = "", postfix: str = "", unit: str = "it"
) -> str:
    """One state of a tqdm bar."""
    rate = f"{dt:5.2f}s/{unit}" if dt >= 1 else f"{1 / dt:5.2f}{unit}/s"
    head = f"{label}: " if label else ""
    tail = f", {postfix}" if postfix else ""
    left = hms((total - done) * dt)
    return f"{head}{100 * done // total:3d}%|{bar(done, total)}| {done}/{total} [{hms(spent_s)}<{left}, {rate}{tail}]"
